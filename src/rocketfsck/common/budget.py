"""What the work under way may use: one value, which whoever starts threads or chooses kernels asks for.

    with within(jobs=2):                 for all that the block does, on threads that it starts, too
        job_count(), current().compiled  asked where it counts, once a file or a task

The budget belongs to a thread and to those that work for it: engines hand it to their tasks, on whatever
machine these run (`engine.seam.bound`). How fast files are read is a matter of the process (`store.reading`);
a bound on its memory is a number of jobs here, and a guard (`engine.passes`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """`jobs` is the number of threads at once, None for one a core. `compiled`: by kernels, or in plain
    Python; None for what is quicker (`scan.machine.jit`).

    `file_threads` may scan one commit log file; `reads_ahead`: cores are free for threads that read ahead.
    """

    jobs: int | None = None
    compiled: bool | None = None
    file_threads: int = 1
    reads_ahead: bool = True


_budget: ContextVar[Budget] = ContextVar("budget", default=Budget())  # noqa: B039  frozen


def current() -> Budget:
    """What the work of this thread may use."""
    return _budget.get()


@contextmanager
def using(budget: Budget) -> Iterator[None]:
    """Do the block with this budget: work for another thread, with that one's."""
    before = _budget.set(budget)
    try:
        yield
    finally:
        _budget.reset(before)


@contextmanager
def within(
    *,
    jobs: int | None = None,
    compiled: bool | None = None,
    file_threads: int | None = None,
    reads_ahead: bool | None = None,
) -> Iterator[None]:
    """Do the block with a budget that differs in this; None changes nothing.

    There are never more jobs than in the block around this one. Not for generators: between two steps their
    caller would have the budget.
    """
    outer = current()
    bounds = [max(count, 1) for count in (jobs, outer.jobs) if count is not None]
    budget = Budget(
        min(bounds, default=None),
        outer.compiled if compiled is None else compiled,
        outer.file_threads if file_threads is None else file_threads,
        outer.reads_ahead if reads_ahead is None else reads_ahead,
    )
    with using(budget):
        yield


def job_count() -> int:
    """How many threads may run at once; more than there are cores, where the user asked for them."""
    return current().jobs or len(os.sched_getaffinity(0))


def core_count() -> int:
    """The cores that the work may use."""
    return min(len(os.sched_getaffinity(0)), job_count())
