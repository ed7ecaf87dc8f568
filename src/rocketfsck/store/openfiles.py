"""The files of a mapped file queue by their place in its stream, with a few of them open at a time.

    stream := the files in order of name; a name is the stream's position of the file's first byte

Reference 2.1, 3.1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict

from rocketfsck.store.model import MappedFileQueue
from rocketfsck.store.reading import Closing, FileReader

OPEN_FILES = 8


class OpenFiles(Closing):
    """Files of a queue whose names say where they start. A context manager.

    `files` and `starts` (stream positions) are in the queue's order.
    """

    __slots__ = ("_open", "files", "starts")

    def __init__(self, mapped_files: MappedFileQueue) -> None:
        self.files = [file for file in mapped_files.files if file.start_offset is not None]
        self.starts = [file.start_offset or 0 for file in self.files]
        self._open: OrderedDict[int, FileReader] = OrderedDict()

    def close(self) -> None:
        for reader in self._open.values():
            reader.close()
        self._open.clear()

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

    def reader(self, number: int) -> FileReader:
        """A file, open. Raises StoreError if it cannot be opened."""
        reader = self._open.get(number)
        if reader is None:
            if len(self._open) >= OPEN_FILES:
                self._open.popitem(last=False)[1].close()
            reader = self._open[number] = FileReader(self.files[number].path)
        return reader
