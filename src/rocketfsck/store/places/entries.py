"""What a directory of this machine has: names, kinds, sizes and times, without opening a file."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto

from rocketfsck.errors import demand_lasting
from rocketfsck.store.layers import layers
from rocketfsck.store.reading import os_error_text, unread


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


def list_local(path: str | os.PathLike[str]) -> list[DirectoryEntry]:
    """All entries of a directory of this machine, sorted by name. Raises StoreError like `list_directory`."""
    try:
        with os.scandir(path) as entries:
            found = [entry for entry in map(_entry, entries) if entry is not None]
    except (OSError, ValueError) as error:
        raise unread(error, "cannot be listed", path) from error
    found.sort(key=_name)
    return found


def _name(entry: DirectoryEntry) -> str:
    return entry.name


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
        return DirectoryEntry(
            entry.name,
            entry.path,
            EntryKind.FILE,
            status.st_size,
            status.st_mtime_ns,
            _allocated_size(entry.path, status),
        )
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
