"""Mapped file queues in the making: files of one size, named by their first byte's offset. Reference 1.2.

Files are made at full length (holes read as zeros) and written by position, in chunks: memory holds
only the chunk that is not written yet.
"""

from __future__ import annotations

import os
from pathlib import Path

from rocketfsck.formats.filename import offset_to_filename
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import place_at


def create_sparse(path: Path, size: int) -> None:
    """Make a file of this many zero bytes; OSError if it exists."""
    fileops.create(place_at(path), size)


def write_at(path: Path, data: bytes | bytearray | memoryview, pos: int) -> None:
    """Write all of `data` at this position of an existing file."""
    fileops.write(place_at(path), pos, data)


class MappedFileStream:
    """The files of one queue and the place where the next byte goes.

    `first_start` and `last_start` are the offsets of the first and the last file, None before there is one;
    `position` is the stream offset of the append position. Files follow one another without gaps.
    """

    __slots__ = ("_pending", "chunk_size", "directory", "file_size", "first_start", "last_start", "position")

    def __init__(self, directory: Path, file_size: int, chunk_size: int) -> None:
        self.directory = directory
        self.file_size = file_size
        self.chunk_size = chunk_size
        self.first_start: int | None = None
        self.last_start: int | None = None
        self.position = 0
        self._pending = bytearray()

    @property
    def remaining(self) -> int:
        """Bytes left in the last file; 0 without a file."""
        return 0 if self.last_start is None else self.last_start + self.file_size - self.position

    def path_of(self, start: int) -> Path:
        """The file that begins at this offset."""
        return self.directory / offset_to_filename(start)

    def begin_file(self, start: int) -> None:
        """Make the next file and go to its first byte."""
        self.flush()
        if self.last_start is None:
            fileops.make_directories(place_at(self.directory))
            self.first_start = start
        create_sparse(self.path_of(start), self.file_size)
        self.last_start = self.position = start

    def next_file(self) -> None:
        """Make the file that follows the last one, or the file 0."""
        self.begin_file(0 if self.last_start is None else self.last_start + self.file_size)

    def resume(self, first_start: int, last_start: int, position: int) -> None:
        """Continue after what is in existing files."""
        self.first_start, self.last_start, self.position = first_start, last_start, position

    def write(self, data: bytes) -> None:
        """Append bytes that fit in the last file."""
        assert len(data) <= self.remaining
        self._pending += data
        self.position += len(data)
        if len(self._pending) >= self.chunk_size:
            self.flush()

    def skip_to(self, position: int) -> None:
        """Go forward inside the last file, or to its end, leaving zeros."""
        assert self.last_start is not None
        assert self.position <= position <= self.last_start + self.file_size
        self.flush()
        self.position = position

    def flush(self) -> None:
        """Hand everything to the operating system."""
        if self._pending:
            assert self.last_start is not None
            start = self.position - len(self._pending) - self.last_start
            write_at(self.path_of(self.last_start), self._pending, start)
            self._pending.clear()

    def read_back(self, position: int, size: int) -> bytes:
        """Bytes that were appended before; all of one file."""
        self.flush()
        start = position // self.file_size * self.file_size
        with self.path_of(start).open("rb", buffering=0) as file:
            return os.pread(file.fileno(), size, position - start)

    def delete_first(self) -> None:
        """Delete the first file, which is not the last one."""
        assert self.first_start is not None
        assert self.first_start != self.last_start
        fileops.unlink(place_at(self.path_of(self.first_start)))
        self.first_start += self.file_size
