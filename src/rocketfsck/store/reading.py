"""Reading the files of a store: read-only descriptors, `preadv`, no mmap.

A mapped file that shrinks kills the process that reads it; a file read by `preadv`
that shrinks is an error with a name and a position, which is what everything here raises (`StoreError`). Only
regular files are opened: a FIFO would block forever, a device may answer a read with anything.

Reading next to a running broker: at a limited rate, and without a trace in the page cache.

While `reading_politely` is in force, each read of a `FileReader` waits for its turn, and bytes that were not
in the page cache before leave the cache again. Which those are, a read that may not wait tells: it gives only
what is in the cache (`RWF_NOWAIT`). The kernel must not read ahead meanwhile, for that would look as if
the pages had been there.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Self, cast

from rocketfsck.common.documents import LIMITS, DocumentKind, parse_text
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError, demand_lasting
from rocketfsck.progress import go_on

PIECE_SIZE = 1 << 18
"""Bytes of one read: pages of a piece of which some are in the cache leave it together."""
BURST_SECONDS = 0.1
"""Time of which the reading may be behind and catch up."""


@dataclass(slots=True)
class Manners:
    """`rate` is in bytes a second, None for any; `keeps_cache`: the page cache stays as it was."""

    rate: int | None = None
    keeps_cache: bool = False
    _lock: Lock = field(default_factory=Lock)
    _free_at: float = 0.0

    def wait_for(self, byte_count: int) -> None:
        """Wait until so many bytes may be read."""
        if self.rate is None:
            return
        with self._lock:
            now = time.monotonic()
            turn = max(self._free_at, now - BURST_SECONDS)
            self._free_at = turn + byte_count / self.rate
        if turn > now:
            time.sleep(turn - now)

    def read(self, descriptor: int, view: memoryview, pos: int) -> int:
        """Read some bytes at least, from position `pos` on; how many, 0 at the file's end. Raises OSError."""
        piece = view[:PIECE_SIZE]
        self.wait_for(len(piece))
        if not self.keeps_cache:
            return os.preadv(descriptor, [piece], pos)
        with suppress(OSError):  # nothing is in the cache, or the file system cannot tell
            if count := os.preadv(descriptor, [piece], pos, os.RWF_NOWAIT):
                return count
        with suppress(OSError):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        count = os.preadv(descriptor, [piece], pos)
        low = pos - pos % mmap.PAGESIZE
        with suppress(OSError):
            os.posix_fadvise(descriptor, low, pos + count - low, os.POSIX_FADV_DONTNEED)
        return count


_manners: Manners | None = None


@contextmanager
def reading_politely(rate: int | None, *, keeps_cache: bool) -> Iterator[None]:
    """While in it, all files of stores are read so, by all threads of this process."""
    global _manners
    before, _manners = _manners, Manners(rate, keeps_cache and hasattr(os, "RWF_NOWAIT"))
    try:
        yield
    finally:
        _manners = before


def read_some(descriptor: int, view: memoryview, pos: int) -> int:
    """`preadv` of some bytes, in the manner in force. Raises OSError."""
    if _manners is None:
        return os.preadv(descriptor, [view], pos)
    return _manners.read(descriptor, view, pos)


def read_bytes(descriptor: int, size: int, pos: int) -> bytes:
    """`pread` of at most so many bytes, in the manner in force. Raises OSError."""
    if _manners is None:
        return os.pread(descriptor, size, pos)
    data = bytearray(size)
    return bytes(data[: _manners.read(descriptor, memoryview(data), pos)])


PathLike = str | os.PathLike[str]

MAX_READ_SIZE = 1 << 30
"""One system call asks for no more: Linux gives at most 2 GiB - 4096 in a single read."""

CHUNK_SIZE = 1 << 20
"""Bytes that whoever copies or goes through a file has in memory."""

FIRST_SIZE = 4 << 10
"""What a search reads at first; each further read is twice as long."""

PROBED_SIZE = 16 << 10
"""For shorter reads it does not pay to ask where a hole begins."""


_ZEROS = bytes(CHUNK_SIZE)

_FILE_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)

_NO_EXTENTS = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})


def os_error_text(error: OSError | ValueError) -> str:
    """What the operating system said, without the path (`StoreError` says that itself).

    A `ValueError` is what Python makes of a path with a NUL in it.
    """
    return getattr(error, "strerror", None) or str(error)


def unread(error: OSError | ValueError, what: str, path: PathLike, offset: int | None = None) -> StoreError:
    """What is said of a file or directory that cannot be read. Raises PassingError (`demand_lasting`)."""
    demand_lasting(error)
    return StoreError(f"{what}: {os_error_text(error)}", path=os.fspath(path), offset=offset)


@contextmanager
def named_errors(path: PathLike, what: str) -> Iterator[None]:
    """OSError as StoreError: `what` cannot be done with `path`, or with the file that the error names."""
    try:
        yield
    except OSError as error:
        name = os.fspath(path) or os.fsdecode(error.filename or "")
        raise StoreError(f"{what}: {os_error_text(error)}", path=name) from error


def file_kind(mode: int) -> str:
    """What an `st_mode` is, in words: "a regular file", "a FIFO" …"""
    return next((name for test, name in _FILE_KINDS if test(mode)), "a regular file")


def open_regular(path: PathLike) -> int:
    """A read-only descriptor of a regular file; symbolic links are followed.

    Raises StoreError if there is none, it may not be read, or it is anything but a regular file. The kind is
    looked at before the opening (opening a device can have effects) and once more after it.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - making a Path takes as long again
        if stat.S_ISREG(mode):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISREG(mode):
                return descriptor
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise unread(error, "cannot be opened", path) from error
    raise StoreError(f"is {file_kind(mode)}, not a regular file", path=os.fspath(path))


class Closing:
    """A context manager that calls its own `close` when its block ends."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError


class FileReader(Closing):
    """One regular file, open for reading. A context manager; safe to share between threads.

    `size` is the file's length in bytes when it was opened. Every method raises StoreError with the path and
    the position when bytes that were there at that time cannot be read any more, and ends work that nobody
    wants any more (`progress.stoppable`). The URL of a file that is not on this machine gives a
    `store.places.remote.RemoteReader`, a file with a layer a `store.places.entries.LayeredReader`.
    """

    __slots__ = ("_descriptor", "allocated_size", "mtime_ns", "path", "size")

    def __new__(cls, path: PathLike) -> Self:
        if cls is FileReader:
            own = other_reader(path)
            if own is not None:
                return cast(Self, object.__new__(own))
        return object.__new__(cls)

    def __init__(self, path: PathLike) -> None:
        self.path = os.fspath(path)
        self._descriptor = open_regular(path)
        status = os.fstat(self._descriptor)
        self.size = status.st_size
        self.allocated_size = status.st_blocks * 512
        self.mtime_ns = status.st_mtime_ns

    def close(self) -> None:
        """Close the descriptor; closing twice does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def fileno(self) -> int:
        """The descriptor, which stays this reader's own."""
        return self._descriptor

    def read_into(self, view: memoryview | bytearray, pos: int = 0) -> None:
        """Fill all of `view` (writable, contiguous) with the bytes from position `pos` on."""
        target = memoryview(view).cast("B")
        self.demand_inside(pos, len(target))
        done = 0
        while done < len(target):
            go_on()
            try:
                count = read_some(self._descriptor, target[done : done + MAX_READ_SIZE], pos + done)
            except OSError as error:
                raise unread(error, "cannot be read", self.path, pos + done) from error
            if count == 0:
                said = f"ended here during reading; the file had {count_of(self.size, 'byte')} at first"
                raise StoreError(said, path=self.path, offset=pos + done)
            done += count

    def demand_inside(self, pos: int, size: int) -> None:
        """Raise StoreError if the file does not have so many bytes from position `pos` on."""
        if size < 0 or pos < 0 or pos + size > self.size:
            said = f"has {self.size:,} bytes; a read of {count_of(size, 'byte')} goes beyond them"
            raise StoreError(said, path=self.path, offset=pos)

    def read(self, pos: int, size: int) -> bytes:
        """Exactly `size` bytes from position `pos`; the caller has bounded `size`."""
        self.demand_inside(pos, size)
        buffer = bytearray(size)
        self.read_into(buffer, pos)
        return bytes(buffer)

    def read_upto(self, pos: int, size: int) -> bytes:
        """The bytes in `pos:pos + size` that the file had when it was opened; maybe none."""
        return self.read(pos, max(0, min(size, self.size - pos))) if 0 <= pos < self.size else b""

    def data_extents(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
        """The half-open ranges of `start:end` that hold data; what lies between them are holes: zeros.

        Where the file system cannot tell, all of it is said to be data. Zeros may be stored as data, too.
        """
        limit = self.size if end is None else min(end, self.size)
        pos = start
        while pos < limit:
            go_on()
            try:
                data = os.lseek(self._descriptor, pos, os.SEEK_DATA)
                hole = os.lseek(self._descriptor, data, os.SEEK_HOLE) if data < limit else limit
            except OSError as error:
                if error.errno == errno.ENXIO:  # no data behind `pos`
                    return
                if error.errno in _NO_EXTENTS:
                    yield pos, limit
                    return
                raise unread(error, "cannot be read", self.path, pos) from error
            if data >= limit:
                return
            yield data, min(hole, limit)
            pos = hole

    def data_units(self, size: int, end: int | None = None) -> Iterator[tuple[int, int]]:
        """The half-open ranges of units of `size` bytes, by number, that hold data before position `end`.

        Units are counted from the file's first byte, and each is there once; `end` may cut the last one off.
        """
        done = 0
        for low, high in self.data_extents(0, end):
            first, behind = max(low // size, done), -(-high // size)
            if first < behind:
                yield first, behind
            done = max(done, behind)

    def data_chunks(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """What `start:end` holds besides holes, in pieces of at most CHUNK_SIZE bytes: position and bytes."""
        for low, high in self.data_extents(start, end):
            for pos in range(low, high, CHUNK_SIZE):
                yield pos, self.read(pos, min(CHUNK_SIZE, high - pos))

    def used_end(self, start: int = 0, end: int | None = None, *, limit: int | None = None) -> int:
        """The position after the last byte of `start:end` that is not zero; `start` if there is none.

        Holes are not read. The search ends, as if there were none, after `limit` bytes of zeros.
        """
        left = self.size if limit is None else limit
        most = FIRST_SIZE  # the end of the data is mostly near
        for low, high in reversed(list(self.data_extents(start, end))):
            while high > low and left > 0:
                size = min(most, high - low)
                most = min(2 * most, CHUNK_SIZE)
                high -= size
                left -= size
                chunk = self.read(high, size)
                if chunk != (_ZEROS if size == CHUNK_SIZE else bytes(size)):
                    return high + len(chunk.rstrip(b"\0"))
        return start


def read_once(path: str, view: memoryview, pos: int) -> bool:
    """Fill all of `view` with the bytes of a file from position `pos` on; whether that could be done.

    For short reads of many files, one of each: quicker than a `FileReader`, and without its words. The hole
    at a file's end is not read.
    """
    if other_reader(path) is not None:
        with suppress(StoreError), FileReader(path) as reader:
            reader.read_into(view, pos)
            return True
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        demand_lasting(error)
        return False
    try:
        size = len(view) if len(view) < PROBED_SIZE else data_end(descriptor, pos, pos + len(view)) - pos
        if size and read_some(descriptor, view[:size], pos) != size:
            return False
        view[size:] = bytes(len(view) - size)
        return os.fstat(descriptor).st_size >= pos + len(view)
    except OSError as error:
        demand_lasting(error)
        return False
    finally:
        os.close(descriptor)


def data_end(descriptor: int, pos: int, end: int) -> int:
    """Where the hole begins that `pos:end` of a file ends with; `end` for none, or if nobody can tell."""
    with suppress(OSError):
        hole = os.lseek(descriptor, pos, os.SEEK_HOLE)
        if hole < end and not has_data(descriptor, hole, end):
            return hole
    return end


def has_data(descriptor: int, pos: int, end: int) -> bool:
    """Whether `pos:end` of a file has data; True where the file system cannot tell."""
    try:
        return os.lseek(descriptor, pos, os.SEEK_DATA) < end
    except OSError as error:
        return error.errno != errno.ENXIO


def read_at(path: PathLike, pos: int, size: int) -> bytes:
    """Exactly `size` bytes of a file from position `pos`; raises StoreError with path and position."""
    with FileReader(path) as reader:
        return reader.read(pos, size)


def forget_cached(path: PathLike, ranges: Iterable[tuple[int, int]]) -> None:
    """Ask the kernel to drop half-open byte ranges of a file from the page cache: the disk is read again.

    The kernel keeps what is not written yet; file systems in memory keep all. Raises StoreError.
    """
    descriptor = open_regular(path)
    try:
        for start, end in ranges:
            low = start - start % mmap.PAGESIZE
            size = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE - low
            with suppress(OSError):  # advice, which a file system may refuse
                os.posix_fadvise(descriptor, low, size, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def read_whole(path: PathLike, limit: int) -> bytes:
    """All bytes of a file; raises StoreError if it is longer than `limit` bytes."""
    with FileReader(path) as reader:
        if reader.size > limit:
            said = f"has {reader.size:,} bytes; such a file may have at most {limit:,}"
            raise StoreError(said, path=reader.path)
        return reader.read(0, reader.size)


def data_extents(path: PathLike) -> list[tuple[int, int]]:
    """The half-open byte ranges of a file that are not holes (`FileReader.data_extents`)."""
    with FileReader(path) as reader:
        return list(reader.data_extents())


def first_unequal(one: FileReader, two: FileReader) -> int | None:
    """The first position at which two files of one length differ; holes of both are not read."""
    for start, end in sorted([*one.data_extents(), *two.data_extents()]):
        for pos in range(start, end, CHUNK_SIZE):
            size = min(CHUNK_SIZE, end - pos)
            left, right = one.read(pos, size), two.read(pos, size)
            if left != right:
                return pos + next(at for at in range(size) if left[at] != right[at])
    return None


kinds: list[Callable[[PathLike], type[FileReader] | None]] = []
"""Who else reads files, by their paths: `places.entries` and `places.locations` of `store` add themselves."""


def other_reader(path: PathLike) -> type[FileReader] | None:
    """The class that reads a path in place of `FileReader`: that of a URL, or of a file with a layer."""
    return next((own for kind in kinds if (own := kind(path)) is not None), None)


def read_document(path: Path | str, kind: DocumentKind) -> Any:
    """The JSON in a regular file. Raises UsageError if there is none in it, StoreError if it cannot be read
    or is longer than `LIMITS` allow."""
    try:
        return parse_text(read_whole(path, LIMITS[kind]), str(path))
    except MemoryError as error:
        raise StoreError("does not fit into memory", path=str(path)) from error
