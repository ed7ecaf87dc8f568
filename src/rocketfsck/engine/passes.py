"""How long the passes of a command take: time, bytes and peak memory of each.

    pass := one step of a command in this process (`Passes.measure`)
          | the tasks of one kind on an engine (`Passes.add`): their times are added up, as many run at once

Memory is what the kernel says of this process (`VmHWM` in `/proc/self/status`), which a pass sets back at
its start where the kernel allows that; child processes and the executors of a cluster do not count. What is
measured is not part of any report: two runs that find the same give equal reports.

A bound on the memory of a command: how many tasks fit in it, and a guard that ends what goes beyond.

    fixed + each * jobs <= limit        `Need`: measured, rounded up, for each kind of work

The number of jobs follows from the bound, and bounds that of the budget (`common.budget`). The rest of a
store's memory is some KiB for each file and queue, which no number of jobs changes: the guard looks at the
process five times a second.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from rocketfsck.common.budget import job_count, within
from rocketfsck.errors import StoreError, UsageError

_RESET_PEAK = "5"
"""What `/proc/PID/clear_refs` takes to forget the peak (Linux 4.0 and later, proc(5))."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass. `seconds` is the time by the clock or, of tasks that run at once, the sum of their times.

    `byte_count` are the bytes that were gone through, None where the pass does not count them; `byte_rate` is
    bytes a second. `peak_memory_size` is in bytes, None where the kernel does not say. `task_count` is 0 for
    a step of this process. `detail`: one task of the pass before it.
    """

    name: str
    seconds: float
    byte_count: int | None = None
    byte_rate: float | None = None
    peak_memory_size: int | None = None
    task_count: int = 0
    detail: bool = False


class Passes:
    """Collects the passes of one command, in the order in which they end."""

    def __init__(self, *, each_task: bool = False) -> None:
        """`each_task`: keep the tasks of a pass, too, each as a detail."""
        self.each_task = each_task
        self._kept: list[Pass] = []
        self._started = time.monotonic()

    @property
    def passes(self) -> tuple[Pass, ...]:
        """What was measured until now."""
        return tuple(self._kept)

    @contextmanager
    def measure(self, name: str, byte_count: int | None = None) -> Iterator[None]:
        """Measure the block as one pass, also where it ends by an error."""
        reset_peak_memory()
        started = time.monotonic()
        try:
            yield
        finally:
            self.add(name, time.monotonic() - started, byte_count)

    def add(
        self,
        name: str,
        seconds: float,
        byte_count: int | None = None,
        *,
        task_count: int = 0,
        detail: bool = False,
    ) -> None:
        """Keep a pass that took this long; its peak is the one of this process until now."""
        rate = None if byte_count is None or seconds <= 0 else round(byte_count / seconds, 1)
        peak = None if detail else peak_memory_size()
        self._kept.append(Pass(name, round(seconds, 6), byte_count, rate, peak, task_count, detail))

    def finish(self) -> tuple[Pass, ...]:
        """All passes, and the whole as the last of them: the time by the clock and the highest peak."""
        peaks = [item.peak_memory_size for item in self._kept if item.peak_memory_size is not None]
        now = peak_memory_size()
        seconds = round(time.monotonic() - self._started, 6)
        whole = Pass(
            "total", seconds, peak_memory_size=max([*peaks, *([] if now is None else [now])], default=None)
        )
        return (*self._kept, whole)


def measured(passes: Passes | None, name: str) -> AbstractContextManager[None]:
    """`Passes.measure`, where anybody wants to know."""
    return nullcontext() if passes is None else passes.measure(name)


def peak_memory_size() -> int | None:
    """The most memory that this process had, in bytes, since its start or the last `reset_peak_memory`."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 or None


def memory_size() -> int | None:
    """The memory that this process has now, in bytes; None where the kernel does not say."""
    return _status("VmRSS")


def reset_peak_memory() -> None:
    """Forget the peak, where the kernel allows it."""
    try:
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK, "ascii")
    except OSError:
        return


def _status(name: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
    except OSError:
        return None
    found = next((line.split() for line in lines if line.startswith(f"{name}:")), None)
    return int(found[1]) * 1024 if found is not None and len(found) == 3 and found[1].isdigit() else None


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
