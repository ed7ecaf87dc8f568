"""A file's bytes as they lie in the page cache, where that is quicker than a copy of them.

Copying costs about as much as reading everything twice. Mapping costs next to nothing where the page cache
holds the file in huge pages, as reading it from a disk leaves it, and more than copying where it holds small
ones; a map also waits for a disk where reading could go on meanwhile. So what it costs is looked at whenever
more is asked for (`MappedFile.ask`), and whoever reads goes over to copies where it is too much.

What is mapped can change and vanish under the reading. A byte that cannot be had any more is an error with
the file's name and the place, as with `FileReader` (`scan.sigbus`). Since bytes can change, only such code
may read here that takes each number once and checks what it has taken, as the kernels do.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import time

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import StoreError
from rocketfsck.scan.jit import mode_of
from rocketfsck.scan.sigbus import Guard
from rocketfsck.store.reading import FileReader

MAPPED_FROM = 16 << 20
"""A file that is no longer is read before its map is made."""
HELD_SIZE, ALL_HELD_SIZE, LEAST_HELD_SIZE = 40 << 20, 128 << 20, 2 << 20
"""Bytes that one map, and all of them, may have in memory at once: they count as the process's own."""
MOST_CPU, FREE_CPU = 50e-6, 1e-3
"""Processor seconds a MiB, but for the first FREE_CPU: huge pages take 5e-6, small ones 90e-6, copies
50e-6."""
MOST_TIME, FREE_TIME = 1e-3, 5e-3
"""Seconds a MiB, but for the first FREE_TIME: a slow disk takes longer."""

_MADV_DONTNEED = 4
_MADV_POPULATE_READ = 22  # since Linux 5.14
_MIB = 1 << 20


class MappedFile:
    """All of a file as an array; `ask` for bytes before they are read, and `check` after it."""

    __slots__ = (
        "_address",
        "_asked",
        "_guard",
        "_held",
        "_madvise",
        "_map",
        "_reader",
        "_sure",
        "_took",
        "_used",
        "array",
    )

    def __init__(self, reader: FileReader, *, sure: bool = False) -> None:
        """`sure`: to be used whatever it costs. Raises OSError where it cannot be."""
        self._reader = reader
        self._sure = sure
        self._held = 0
        self._asked, self._used, self._took = 0.0, 0.0, 0.0  # MiB, processor seconds, seconds
        self._madvise = ctypes.CDLL(None, use_errno=True).madvise
        self._madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._map = mmap.mmap(reader.fileno(), reader.size, prot=mmap.PROT_READ)
        self.array: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        self._address = self.array.ctypes.data
        self._guard = Guard(self._address, reader.size)

    def close(self) -> None:
        """The memory goes with the last array that shows it."""
        self._guard.close()

    @property
    def room(self) -> int:
        """How many bytes may be in memory, at most."""
        return min(HELD_SIZE, max(ALL_HELD_SIZE // max(Guard.count(), 1), LEAST_HELD_SIZE))

    def ask(self, start: int, end: int) -> bool:
        """Have the bytes `start:end` ready; False if a copy would be quicker, or is the way to an answer."""
        began, used = time.perf_counter(), time.thread_time()
        if self._held + end - start > self.room:
            self._madvise(self._address, self._reader.size, _MADV_DONTNEED)
            self._held = 0
        self._held += end - start
        low = start & -mmap.PAGESIZE
        failed = self._madvise(self._address + low, end - low, _MADV_POPULATE_READ)
        self._used += time.thread_time() - used
        self._took += time.perf_counter() - began
        self._asked += (end - low) / _MIB
        is_dear = self._used > MOST_CPU * self._asked + FREE_CPU
        is_slow = self._took > MOST_TIME * self._asked + FREE_TIME
        return not failed and (self._sure or not (is_dear or is_slow))

    def check(self) -> None:
        """Raises StoreError if a byte that was read here could not be had, or the file is shorter now."""
        pos = self._guard.hit
        try:
            size = os.fstat(self._reader.fileno()).st_size
        except OSError:  # of a file system that is gone, or a closed file: a read says more
            size = 0
        if pos is not None or size < self._reader.size:
            pos = size if pos is None else pos
            self._reader.read(pos, 1)  # says what is wrong with it
            raise StoreError("could not be read a moment ago", path=self._reader.path, offset=pos)


def map_file(reader: FileReader) -> MappedFile | None:
    """A map of the file, None where there should or can be none.

    The environment variable ROCKETFSCK_READ (`copy`, `map` or `auto`) decides first. Raises UsageError for
    another value.
    """
    mode = mode_of("ROCKETFSCK_READ", "copy", "map")
    if mode == "copy" or sys.platform != "linux" or type(reader) is not FileReader:
        return None
    if reader.size < (MAPPED_FROM if mode == "auto" else 1):
        return None
    try:
        return MappedFile(reader, sure=mode == "map")
    except (OSError, ValueError):  # a ValueError: it is shorter than it was
        return None
