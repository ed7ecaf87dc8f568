"""The only code that changes a file of the copy. Every change is recorded with hashes of before and after.

A path that leads out of the copy, or to a file that has another name elsewhere, is refused. Times of
modification are kept: a disk that loses bytes does not change them, and brokers read them.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.formats.layout import Layout
from rocketfsck.store.reading import CHUNK_SIZE, FileReader
from rocketfsck.writer.damage.model import Change, DamagedExtent, DamageError
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, open_root

MAX_CONTENT_SIZE = 16 << 20
"""Bytes of a config file or checkpoint that is damaged: memory holds it, and what its text says."""
MAX_FILE_SIZE = 4 << 30
"""Brokers set the length of their files by a 32-bit integer; a sparse file of any length takes no place."""


class Editor:
    """Changes files below `root`; `changes` are what was done, in order.

    With `shared` files may have further names (hard links): only for work in place.
    """

    def __init__(self, root: Path, *, shared: bool = False) -> None:
        self.root = root
        self._real_root = os.path.realpath(root)
        self._confines = open_root(self._real_root)
        self._shared = shared
        self.changes: list[Change] = []

    def read(self, file: str, start: int, end: int) -> bytes:
        """Bytes `start:end` of a file of the copy, as far as there are any."""
        with self._path(file).open("rb") as stream:
            stream.seek(start)
            return stream.read(max(end - start, 0))

    def size(self, file: str) -> int:
        """The length of a file in bytes."""
        return self._path(file).stat().st_size

    def content(self, file: str) -> bytes:
        """All bytes of a small file; DamageError for one of more than MAX_CONTENT_SIZE."""
        if self.size(file) > MAX_CONTENT_SIZE:
            raise DamageError(f"{file} has more than {MAX_CONTENT_SIZE >> 20} MiB: the limit for damage")
        return self.read(file, 0, MAX_CONTENT_SIZE)

    def used_size(self, file: str) -> int:
        """Bytes of a file up to the last one that is not zero. Holes are not read."""
        with FileReader(self._path(file)) as reader:
            return reader.used_end()

    def write(self, file: str, pos: int, data: bytes) -> None:
        """Overwrite bytes; the file does not grow."""
        end = pos + len(data)
        if not 0 <= pos <= end <= self.size(file):
            raise StoreError("a write after the end", path=file, offset=pos)
        before = self.read(file, pos, end)
        with self._opened(file) as descriptor:
            fileops.write_all(descriptor, data, pos)
        self.changes.append(Change("write", file, _extent(pos, before), _extent(pos, data)))

    def number(self, file: str, start: int, layout: Layout, name: str) -> int:
        """The number in a field of a layout that begins at a position of a file."""
        low, high = field_span(start, layout, name)
        return int.from_bytes(self.read(file, low, high), "big", signed=True)

    def set_number(self, file: str, start: int, layout: Layout, name: str, value: int) -> None:
        """Overwrite a number in a field of a layout that begins at a position of a file."""
        low, high = field_span(start, layout, name)
        self.write(file, low, value.to_bytes(high - low, "big", signed=True))

    def truncate(self, file: str, size: int) -> None:
        """Give a file another length; what is added reads as zeros."""
        old = self.size(file)
        start, end = min(old, size), max(old, size)
        before = self._hashed(file, start, old)
        with self._opened(file) as descriptor:
            os.ftruncate(descriptor, size)
        after = self._hashed(file, start, size) if size == end else DamagedExtent(size, size, _digest(b""))
        self.changes.append(Change("truncate", file, before, after))

    def create(self, file: str, data: bytes = b"", size: int | None = None, like: str | None = None) -> None:
        """Make a new file of `data` and zeros up to `size`; its times are those of `like`."""
        place = self._place(file)
        fileops.make_directories(place.parent)
        with fileops.held(fileops.create_file(place)) as descriptor:
            fileops.write_all(descriptor, data, 0)
            os.ftruncate(descriptor, len(data) if size is None else size)
        if like is not None:
            self._keep_times(file, self._path(like).stat())
        self.changes.append(Change("create", file, None, self._hashed(file, 0, self.size(file))))

    def replace(self, file: str, data: bytes) -> None:
        """Give a file other contents altogether."""
        before = self._hashed(file, 0, self.size(file))
        with self._opened(file) as descriptor:
            os.ftruncate(descriptor, 0)
            fileops.write_all(descriptor, data, 0)
        self.changes.append(Change("write", file, before, _extent(0, data)))

    def remove(self, file: str) -> None:
        """Remove a file."""
        before = self._hashed(file, 0, self.size(file))
        fileops.unlink(self._place(file))
        self.changes.append(Change("remove", file, before))

    def remove_tree(self, directory: str) -> None:
        """Remove a directory and all that is in it; every file is recorded."""
        top = self._path(directory)
        for folder, _, names in sorted(os.walk(top)):
            for name in sorted(names):
                file = Path(folder, name)
                relative = os.fspath(file.relative_to(self.root))
                before = self._hashed(relative, 0, file.stat().st_size)
                self.changes.append(Change("remove", relative, before))
        fileops.remove_tree(self._place(directory))

    def rename(self, file: str, renamed_to: str) -> None:
        """Give a file a name that no other has."""
        place, other = self._place(file), self._place(renamed_to)
        if fileops.exists(other):
            raise StoreError("exists already", path=renamed_to)
        extent = self._hashed(file, 0, self.size(file))
        fileops.rename(place, other)
        self.changes.append(Change("rename", file, extent, extent, renamed_to))

    def make_directory(self, directory: str) -> None:
        """Make an empty directory."""
        fileops.make_directories(self._place(directory))
        self.changes.append(Change("mkdir", directory))

    def exists(self, name: str) -> bool:
        """Whether something of this name is there."""
        return self._path(name).exists()

    def _path(self, name: str) -> Path:
        path = self.root / name
        parent = os.path.realpath(path.parent)
        if parent != self._real_root and not parent.startswith(self._real_root + os.sep):
            raise StoreError("is outside the copy", path=name)
        if path.is_symlink():
            raise StoreError("is a symbolic link", path=name)
        return path

    def _place(self, name: str) -> ConfinedPlace:
        self._path(name)
        return self._confines / name

    @contextmanager
    def _opened(self, file: str) -> Iterator[int]:
        """A file open for writing; it keeps its times."""
        with fileops.held(fileops.open_file(self._place(file), os.O_RDWR | os.O_NONBLOCK)) as descriptor:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or (status.st_nlink > 1 and not self._shared):
                raise StoreError(
                    "is not a regular file of the copy alone (a link or a special file)", path=file
                )
            yield descriptor
        self._keep_times(file, status)

    def _keep_times(self, file: str, status: os.stat_result) -> None:
        fileops.set_times(self._place(file), status.st_atime_ns, status.st_mtime_ns)

    def _hashed(self, file: str, start: int, end: int) -> DamagedExtent:
        if end - start > MAX_FILE_SIZE:
            raise StoreError(f"has {end - start:,} bytes: no file of a broker is so long", path=file)
        digest = hashlib.sha256()
        with self._path(file).open("rb") as stream:
            stream.seek(start)
            left = end - start
            while left > 0 and (chunk := stream.read(min(CHUNK_SIZE, left))):
                digest.update(chunk)
                left -= len(chunk)
        return DamagedExtent(start, end, digest.hexdigest())


def field_span(start: int, layout: Layout, name: str) -> tuple[int, int]:
    """Half-open position of a field of a layout that begins at `start`."""
    low = start + layout.offset(name)
    return low, low + (layout.field(name).size or 0)


def _extent(pos: int, data: bytes) -> DamagedExtent:
    return DamagedExtent(pos, pos + len(data), _digest(data))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
