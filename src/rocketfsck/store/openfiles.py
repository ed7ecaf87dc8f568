"""A few files open at a time: by their paths, or by their places in the stream of a mapped file queue.

    stream := the files in order of name; a name is the stream's position of the file's first byte

Reference 2.1, 3.1.
"""

from __future__ import annotations

from bisect import bisect_right

from rocketfsck.store.model import MappedFileQueue
from rocketfsck.store.reading import Closing, FileReader, PathLike

OPEN_FILES = 8


class Readers(Closing):
    """Files by path, at most `limit` of them open. A context manager; all close with it, and open again."""

    __slots__ = ("_open", "limit")

    def __init__(self, limit: int = OPEN_FILES) -> None:
        self.limit = limit
        self._open: dict[PathLike, FileReader] = {}

    def close(self) -> None:
        """Close all files."""
        for reader in self._open.values():
            reader.close()
        self._open.clear()

    def opened(self, path: PathLike) -> FileReader:
        """A file, open; the one that has been open longest makes room. Raises StoreError."""
        reader = self._open.get(path)
        if reader is None:
            if len(self._open) >= self.limit:
                self._open.pop(next(iter(self._open))).close()
            reader = self._open[path] = FileReader(path)
        return reader


class OpenFiles(Readers):
    """Files of a queue whose names say where they start. A context manager.

    `files` and `starts` (stream positions) are in the queue's order.
    """

    __slots__ = ("files", "starts")

    def __init__(self, mapped_files: MappedFileQueue) -> None:
        super().__init__()
        self.files = [file for file in mapped_files.files if file.start_offset is not None]
        self.starts = [file.start_offset or 0 for file in self.files]

    def last_from(self, pos: int) -> int:
        """The number (among `files`) of the last file that starts at stream position `pos` or before it, -1
        for none."""
        return bisect_right(self.starts, pos) - 1

    def file_at(self, pos: int) -> int | None:
        """The number of the file that holds the byte at stream position `pos`; None for none."""
        number = self.last_from(pos)
        if number < 0 or pos >= self.starts[number] + self.files[number].size:
            return None
        return number

    def at(self, pos: int) -> tuple[FileReader, int] | None:
        """The file that holds the byte at stream position `pos`, open, and that byte's position in it.

        None where no file holds it. Raises StoreError if the file cannot be opened.
        """
        number = self.file_at(pos)
        return None if number is None else (self.reader(number), pos - self.starts[number])

    def reader(self, number: int) -> FileReader:
        """A file, open. Raises StoreError if it cannot be opened."""
        return self.opened(self.files[number].location)
