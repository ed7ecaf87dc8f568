"""What starts of several versions read of one store: directories and short files of units, each read once.

A store of 10,000 queues has as many directories, and files that hold some units and a hole. The versions look
at them in their own ways, but find the same there. Memory: KEPT_SIZE bytes of units, and the listings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rocketfsck.errors import StoreError
from rocketfsck.store.listing import list_directory
from rocketfsck.store.places.entries import DirectoryEntry
from rocketfsck.store.reading import FileReader

HEAD_SIZE = 64 << 10
"""Data of a file that is kept."""
KEPT_SIZE = 64 << 20


class Data(Protocol):
    """Bytes of a file, as `FileReader` gives them."""

    def read(self, pos: int, size: int) -> bytes:
        """Exactly `size` bytes from position `pos`."""

    def data_extents(self, start: int = 0) -> Iterator[tuple[int, int]]:
        """The ranges from `start` on that are not holes."""


@dataclass(frozen=True, slots=True)
class _Head:
    """A file of `size` bytes that is `data` and then a hole."""

    path: str
    size: int
    data: bytes

    def read(self, pos: int, size: int) -> bytes:
        if pos + size > self.size:
            with FileReader(self.path) as reader:
                return reader.read(pos, size)
        return self.data[pos : pos + size].ljust(size, b"\0")

    def data_extents(self, start: int = 0) -> Iterator[tuple[int, int]]:
        if start < len(self.data):
            yield start, len(self.data)


@dataclass(frozen=True, slots=True)
class RecoveredQueue:
    """What recovery makes of a queue's files: what it counts, and which files it keeps.

    `kept` has the number of each of these, and where its units end. `last` are the physical offset and size
    in the last valid unit, None without one.
    """

    kept: tuple[tuple[int, int], ...]
    found_count: int
    hidden_count: int
    covered_offset: int
    last: tuple[int, int] | None


class Disk:
    """A store's directories and files of units, for as long as starts are predicted on it."""

    __slots__ = (
        "_entries", "_heads", "_left", "index_notes", "is_sound", "kept", "recovered", "tag_entries",
    )  # fmt: skip

    def __init__(self, *, is_sound: bool = False) -> None:
        """`is_sound`: a check has found nothing wrong, so that units are valid up to the first zeros."""
        self.is_sound = is_sound
        self._entries: dict[str, list[DirectoryEntry]] = {}
        self._heads: dict[str, _Head] = {}
        self._left = KEPT_SIZE
        self.recovered: dict[tuple[str, ...], RecoveredQueue] = {}
        """By the paths of a queue's files."""
        self.index_notes: dict[bool, str | None] = {}
        """What `index_note` says, by whether files of DLedger's log count."""
        self.tag_entries: dict[bool, bool] = {}
        """The same of `has_tag_entries`."""
        self.kept: dict[tuple[str, int], Any] = {}
        """What is found once in an area, by its directory and the size of its files."""

    def entries_of(self, directory: Path | str) -> list[DirectoryEntry]:
        """The entries of a directory; none where there is no directory, as the broker sees it."""
        found = self._entries.get(str(directory))
        if found is None:
            found = self._entries[str(directory)] = entries_of(directory)
        return found

    def opened(self, path: str) -> AbstractContextManager[Data]:
        """A file, open or kept. Raises StoreError."""
        head = self._heads.get(path)
        if head is not None:
            return nullcontext(head)
        reader = FileReader(path)
        try:
            extents = [extent for extent, _ in zip(reader.data_extents(), range(2), strict=False)]
            end = extents[0][1] if extents else 0
            if len(extents) < 2 and end <= min(HEAD_SIZE, self._left) and (not extents or not extents[0][0]):
                self._left -= end
                head = self._heads[path] = _Head(path, reader.size, reader.read(0, end))
        except BaseException:
            reader.close()
            raise
        if head is None:
            return reader
        reader.close()
        return nullcontext(head)


def entries_of(directory: Path | str) -> list[DirectoryEntry]:
    """The entries of a directory; none where there is no directory, as the broker sees it."""
    try:
        return list_directory(directory)
    except StoreError:
        return []
