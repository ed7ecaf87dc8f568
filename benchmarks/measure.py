"""Measuring side by side: every round runs each job once, and the least time of each counts.

The yardstick is NumPy's sum of a mapped file's bytes as int64, warm, on one thread of the same process. A
file is read from its disk once before its rounds. A job's figure is its least time over the yardstick's
least time, so that it can be carried to other machines.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

Job = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the results: a ratio, and the goal that it must (not) pass."""

    job: str
    milliseconds: float
    yardstick: str
    ratio: float
    goal: float | None = None
    at_least: bool = False
    rate: str = field(default="")

    @property
    def met(self) -> bool:
        if self.goal is None:
            return True
        return self.ratio >= self.goal if self.at_least else self.ratio <= self.goal


def interleaved(jobs: Mapping[str, Job], rounds: int) -> dict[str, float]:
    """The least seconds of each job in `rounds` rounds; a round before them warms caches and compiles."""
    least = dict.fromkeys(jobs, float("inf"))
    for number in range(rounds + 1):
        for name, job in jobs.items():
            started = time.perf_counter()
            job()
            if number:
                least[name] = min(least[name], time.perf_counter() - started)
    return least


def read_anew(path: Path) -> None:
    """Read a file from its disk: its pages in the cache are then what a reading leaves, not a writing.

    That decides how quickly they are copied or mapped, and pages that were not used
    for a while may have been given up.
    """
    with path.open("rb", buffering=0) as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        buffer = bytearray(1 << 23)
        while file.readinto(buffer):
            pass


class Yardstick:
    """The sum of all bytes of a file, as int64, mapped. Call it; close it at the end."""

    def __init__(self, path: Path) -> None:
        read_anew(path)
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self._words = np.frombuffer(self._map, np.int64, len(self._map) // 8)

    def __call__(self) -> None:
        self._words.sum()

    def close(self) -> None:
        del self._words
        self._map.close()
