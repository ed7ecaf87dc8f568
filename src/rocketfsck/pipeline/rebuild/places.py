"""Where tasks write: each attempt in a directory of its own, and what is whole appears by one rename.

So a task may run twice at once, or again after its worker died: both write the same, one of them counts.

Columns of whole numbers in a scratch file that appears whole, to be read in ranges by other tasks.

    file   := column* text* footer tail
    column := the differences of int64 values from their least, in 0, 1, 2, 4 or 8 bytes each
    footer := shapes by name as JSON, and the arrays: int64 values
    tail   := magic, position, size and CRC-32 of the footer, size of its JSON

A column is written at once and found by where it is (`Column`); how many values it has, whoever wrote it
knows. The shapes need no `common.documents`: a CRC covers them, and only the job that wrote them
reads them. The file is written under a name of its own and renamed: attempts at the same task do not meet.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats.dtypes import Longs
from rocketfsck.store.reading import Closing, named_errors, os_error_text
from rocketfsck.writer.disk.confined import open_root

MAGIC = b"rfspill1"
COLUMN_SIZE = 3
"""Numbers that describe a column: its position in the file, its least value, bytes a value."""

_TAIL = struct.Struct("<8sqqII")
_KINDS: dict[int, type[np.unsignedinteger]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class SpillWriter(Closing):
    """Writes the file `path`. A context manager; the file is there when `publish` was called, else not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        self._pos = 0
        with self._writing():
            self._file = self._part.open("xb", buffering=0)

    def close(self) -> None:
        self._file.close()
        with suppress(OSError):
            self._part.unlink(missing_ok=True)

    def column(self, values: Longs) -> tuple[int, int, int]:
        """Write values; what `SpillReader.column` needs to find them. Raises StoreError."""
        if not len(values):
            return self._pos, 0, 0
        least, most = int(values.min()), int(values.max())
        width = next(size for size in (0, 1, 2, 4, 8) if most - least < 1 << 8 * size)
        pos = self._pos
        if width:
            wide = values.astype(np.int64, copy=False)  # NumPy 1 makes narrower sums than NumPy 2
            shifted = wide.view(np.uint64) - np.uint64(least & 0xFFFF_FFFF_FFFF_FFFF)
            self.write(shifted.astype(_KINDS[width], copy=False).data.cast("B"))
        return pos, least, width

    def write(self, data: memoryview | bytes) -> int:
        """Write bytes; where they stand. Raises StoreError."""
        pos, view = self._pos, memoryview(data)
        with self._writing():
            while view:
                written = self._file.write(view)
                view = view[written:]
                self._pos += written
        return pos

    def publish(self, footer: dict[str, Longs]) -> None:
        """Write the footer, and give the file its name. Raises StoreError."""
        shapes = json.dumps({name: array.shape for name, array in footer.items()}).encode("ascii")
        data = b"".join((shapes, *(array.tobytes() for array in footer.values())))
        pos = self.write(data)
        self.write(_TAIL.pack(MAGIC, pos, len(data), zlib.crc32(data), len(shapes)))
        self._file.close()
        with self._writing():
            self._part.replace(self.path)

    def _writing(self) -> AbstractContextManager[None]:
        return named_errors(self.path, "cannot be written")


class SpillReader(Closing):
    """A file that `SpillWriter` wrote; `footer` are its arrays. A context manager.

    Raises StoreError if the file cannot be read or is not whole.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with named_errors(path, "cannot be read"):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.footer = self._footer()
        except BaseException:
            os.close(self._descriptor)
            raise

    def close(self) -> None:
        os.close(self._descriptor)

    def column(self, column: Longs, start: int, end: int) -> Longs:
        """The values `start:end` of a column."""
        pos, least, width = column.tolist()
        if not width:
            return np.full(end - start, least, np.int64)
        found = np.frombuffer(self.read(pos + width * start, width * (end - start)), _KINDS[width])
        return (found.astype(np.uint64) + np.uint64(least & 0xFFFF_FFFF_FFFF_FFFF)).view(np.int64)

    def read(self, pos: int, size: int) -> bytes:
        """Bytes of the file. Raises StoreError if it has not so many."""
        chunks, end = [], pos + size
        with named_errors(self.path, "cannot be read"):
            while pos < end:
                chunk = os.pread(self._descriptor, end - pos, pos)
                if not chunk:
                    raise StoreError("ends too early", path=str(self.path), offset=pos)
                chunks.append(chunk)
                pos += len(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _footer(self) -> dict[str, Longs]:
        end = os.fstat(self._descriptor).st_size - _TAIL.size
        empty = (b"", 0, 0, 0, 0)
        magic, pos, size, crc, at = empty if end < 0 else _TAIL.unpack(self.read(end, _TAIL.size))
        data = self.read(pos, size) if magic == MAGIC and pos + size == end else b""
        if not data or zlib.crc32(data) != crc:
            raise StoreError("is not a whole scratch file", path=str(self.path))
        arrays = {}
        for name, shape in json.loads(data[:at]).items():
            count = math.prod(shape)
            arrays[name] = np.frombuffer(data, np.int64, count, at).reshape(shape)
            at += 8 * count
        return arrays


Take = Callable[[Path, Path], Path]
"""Gives a file, or a directory of files, another name: `publish`, which moves it, or `linked`."""

REMOVALS = 5
"""Attempts at removing a directory that a task which nobody waits for may still write to."""


@contextmanager
def attempt_directory(parts: str, name: str) -> Iterator[Path]:
    """Yield a new directory in `parts`, gone at the end. Raises StoreError."""
    path = Path(parts) / f"{name}.{secrets.token_hex(8)}"
    with named_errors(path, "cannot be made"):
        path.mkdir()
        root = open_root(path)
    try:
        yield path
    finally:
        root.close()
        shutil.rmtree(path, ignore_errors=True)


def remove_tree(path: Path) -> None:
    """Remove a directory with all that is in it. Raises OSError."""
    for _ in range(REMOVALS - 1):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
    shutil.rmtree(path)


def publish(source: Path, target: Path) -> Path:
    """Give a file or directory its name; a directory that is there already is as good. Raises StoreError."""
    try:
        if not (source.is_dir() and target.is_dir()):
            source.rename(target)
    except OSError as error:
        if not target.is_dir():
            raise StoreError(f"cannot be named: {os_error_text(error)}", path=str(target)) from error
    return target


def linked(source: Path, target: Path) -> Path:
    """Give a file, or the files of a directory, a second name. Raises StoreError."""
    with named_errors(target, "cannot be named"):
        if not source.is_dir():
            _link(source, target)
            return target
        target.mkdir()
        for file in source.iterdir():
            _link(file, target / file.name)
    return target


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links, or with too many to this file
        shutil.copy2(source, target)
