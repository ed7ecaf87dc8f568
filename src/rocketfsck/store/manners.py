"""Reading next to a running broker: at a limited rate, and without a trace in the page cache.

While `reading_politely` is in force, each read of a `FileReader` waits for its turn, and bytes that were not
in the page cache before leave the cache again. Which those are, a read that may not wait tells: it gives only
what is in the cache (`RWF_NOWAIT`). The kernel must not read ahead meanwhile, for that would look as if
the pages had been there.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock

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
