"""A bound on the memory of a command: how many tasks fit in it, and a guard that ends what goes beyond.

    fixed + each * jobs <= limit        `Need`: measured, rounded up, for each kind of work

The number of jobs follows from the bound, and bounds that of the budget (`common.budget`). The rest of a
store's memory is some KiB for each file and queue, which no number of jobs changes: the guard looks at the
process five times a second.
"""

from __future__ import annotations

import ctypes
import gc
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from rocketfsck.common.budget import job_count, within
from rocketfsck.engine.passes import memory_size
from rocketfsck.errors import StoreError, UsageError

MIB = 1 << 20
INTERVAL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Need:
    """What a kind of work needs, in bytes: `fixed`, whatever the store, and `each` for every job at once."""

    fixed: int
    each: int

    @property
    def least(self) -> int:
        """What one job needs."""
        return self.fixed + self.each

    def job_count(self, limit: int) -> int:
        """How many jobs fit; raises UsageError where not even one does."""
        if limit < self.least:
            raise UsageError(f"the command needs at least {-(-self.least // MIB)} MiB of memory for one job")
        return (limit - self.fixed) // self.each


class MemoryExceededError(KeyboardInterrupt):
    """The process has more memory than it may have. Raised in the main thread, wherever it is: what is under
    way is given up as if the user had pressed Ctrl-C."""


@contextmanager
def bounded_memory(limit: int, need: Need) -> Iterator[int]:
    """Keep this process within `limit` bytes while the block runs; gives the number of jobs that it may use.

    Raises UsageError if `limit` is too small for one job, StoreError if the process goes beyond it all the
    same. Outside the main thread there is no guard.
    """
    jobs = need.job_count(limit)
    try:
        with within(jobs=min(jobs, job_count())), _guarded(limit):
            yield jobs
    except MemoryExceededError as error:
        raise StoreError(
            f"the command was stopped: it needs more than the {limit // MIB} MiB that --max-memory allows",
            path="memory",
        ) from error


def give_back_memory() -> None:
    """Give the system what this process has freed: the C library keeps much of it, and would ask for more."""
    gc.collect()
    with suppress(OSError, AttributeError):  # of glibc alone
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def _guarded(limit: int) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def look(_number: int, _frame: FrameType | None) -> None:
        if (memory_size() or 0) > limit:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise MemoryExceededError

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, INTERVAL_SECONDS, INTERVAL_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
