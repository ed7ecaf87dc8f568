"""What a directory of this machine has: names, kinds, sizes and times, without opening a file.

Files that show through from others: a sparse file with some bytes of its own above another file.

    layer  := ranges of the sparse file that are its own; everything else in front of `visible_size` is the
              lower file's, and all after that is zeros

With a layer, a change of some bytes of a large file costs these bytes and no copy of the file. Layers are
known to this process alone, by the path of the sparse file; whoever opens it with a `FileReader` reads
through it. The files themselves are made and changed elsewhere.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import Enum, auto
from operator import attrgetter

from rocketfsck.errors import demand_lasting
from rocketfsck.store.reading import FileReader, PathLike, kinds, os_error_text, unread

layers: dict[str, Layer] = {}
"""What else is to be read of files that show through from others, by their paths."""


class Layer:
    """What of a sparse file is its own, above the file at the path `lower`. Positions and sizes in bytes."""

    __slots__ = ("ends", "lower", "starts", "visible_size")

    def __init__(self, lower: str, size: int) -> None:
        self.lower = lower
        self.visible_size = size
        self.starts: list[int] = []
        self.ends: list[int] = []

    def own(self, start: int, end: int) -> None:
        """From now on `start:end` are the sparse file's own bytes."""
        if start >= end:
            return
        first, last = bisect_left(self.ends, start), bisect_right(self.starts, end)
        if first < last:
            start, end = min(start, self.starts[first]), max(end, self.ends[last - 1])
        self.starts[first:last], self.ends[first:last] = [start], [end]

    def cut(self, size: int) -> None:
        """The sparse file has this length now; what it gets after that later are zeros."""
        self.visible_size = min(self.visible_size, size)
        kept = bisect_left(self.starts, size)
        self.starts, self.ends = self.starts[:kept], [min(end, size) for end in self.ends[:kept]]

    def owned(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The own ranges within `start:end`, in order."""
        for number in range(bisect_right(self.ends, start), len(self.starts)):
            if self.starts[number] >= end:
                return
            yield max(self.starts[number], start), min(self.ends[number], end)


class LayeredReader(FileReader):
    """A file with a layer, open for reading: with the promises of a `FileReader`."""

    __slots__ = ("_layer", "_lower", "_own")

    def __init__(self, path: PathLike) -> None:
        self._descriptor = -1
        with ExitStack() as opened:
            self._own = opened.enter_context(_PlainReader(path))
            self._layer = layers[self._own.path]
            self._lower = opened.enter_context(_PlainReader(self._layer.lower))
            opened.pop_all()
        self.path, self.size, self.mtime_ns = self._own.path, self._own.size, self._own.mtime_ns
        self.allocated_size = self._lower.allocated_size

    def close(self) -> None:
        """Close both files; closing twice does nothing."""
        self._own.close()
        self._lower.close()

    def read_into(self, view: memoryview | bytearray, pos: int = 0) -> None:
        """Fill all of `view` (writable, contiguous) with the bytes from position `pos` on."""
        target = memoryview(view).cast("B")
        end = pos + len(target)
        self.demand_inside(pos, len(target))
        shown = max(min(self._layer.visible_size, end), pos)
        if shown > pos:
            self._lower.read_into(target[: shown - pos], pos)
        target[shown - pos :] = bytes(end - shown)
        for low, high in self._layer.owned(pos, end):
            self._own.read_into(target[low - pos : high - pos], low)

    def data_extents(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
        """The ranges of `start:end` that hold data: those of the lower file, and all own ones."""
        limit = self.size if end is None else min(end, self.size)
        below = self._lower.data_extents(start, min(limit, self._layer.visible_size))
        last: tuple[int, int] | None = None
        for low, high in sorted([*below, *self._layer.owned(start, limit)]):
            if last is not None and low <= last[1]:
                last = last[0], max(last[1], high)
                continue
            if last is not None:
                yield last
            last = low, high
        if last is not None:
            yield last


class _PlainReader(FileReader):
    """The file itself, whatever layer it has."""

    __slots__ = ()


def _layered(path: PathLike) -> type[FileReader] | None:
    return LayeredReader if layers and os.fspath(path) in layers else None


kinds.append(_layered)


def lay(path: str, lower: str, size: int) -> None:
    """Let the sparse file at a path show the first `size` bytes of another."""
    layers[path] = Layer(lower, size)


def move_layers(old: str, new: str) -> None:
    """Let the layers of a file, or of all files of a directory, follow its new name."""
    for path in [path for path in layers if path == old or path.startswith(f"{old}/")]:
        layers[new + path[len(old) :]] = layers.pop(path)


def drop_layers(directory: str) -> None:
    """Forget the layers of all files below a directory."""
    for path in [path for path in layers if path.startswith(f"{directory}/")]:
        with suppress(KeyError):
            del layers[path]


class EntryKind(Enum):
    FILE = auto()
    DIRECTORY = auto()
    SPECIAL = auto()
    DANGLING = auto()
    UNREADABLE = auto()


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A name in a directory. `path` is text (`os.fsdecode`); sizes in bytes, of the file a link leads to."""

    name: str
    path: str
    kind: EntryKind
    size: int = 0
    mtime_ns: int = 0
    allocated_size: int = 0
    detail: str = ""

    @property
    def facts(self) -> tuple[int, int, int]:
        """Size, time and allocated size, in the order that a `StoreFile` has them."""
        return self.size, self.mtime_ns, self.allocated_size


def list_local(path: str | os.PathLike[str]) -> list[DirectoryEntry]:
    """All entries of a directory of this machine, sorted by name. Raises StoreError like `list_directory`."""
    try:
        with os.scandir(path) as entries:
            found = [entry for entry in map(_entry, entries) if entry is not None]
    except (OSError, ValueError) as error:
        raise unread(error, "cannot be listed", path) from error
    found.sort(key=attrgetter("name"))
    return found


def _entry(entry: os.DirEntry[str]) -> DirectoryEntry | None:
    """The entry; None if it was deleted since the directory was read, as a broker deletes what expires."""
    try:
        status = entry.stat()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not entry.is_symlink():
            return None
        demand_lasting(error)
        kind = EntryKind.DANGLING if entry.is_symlink() else EntryKind.UNREADABLE
        return DirectoryEntry(entry.name, entry.path, kind, detail=os_error_text(error))
    if stat.S_ISREG(status.st_mode):
        sizes = status.st_size, status.st_mtime_ns, _allocated_size(entry.path, status)
        return DirectoryEntry(entry.name, entry.path, EntryKind.FILE, *sizes)
    kind = EntryKind.DIRECTORY if stat.S_ISDIR(status.st_mode) else EntryKind.SPECIAL
    return DirectoryEntry(entry.name, entry.path, kind)


def _allocated_size(path: str, status: os.stat_result) -> int:
    """Bytes of a file on the disk; of one with a layer, those of the file that shows through, too."""
    size = status.st_blocks * 512
    layer = layers.get(path)
    if layer is not None:
        with suppress(OSError):
            size += os.stat(layer.lower).st_blocks * 512  # noqa: PTH116
    return size
