"""What every engine is: one verb over tasks, and what comes back for each.

Runs kernels on threads of this process; the kernels' compiled parts release the GIL.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from rocketfsck.common.budget import Budget, current, job_count, using
from rocketfsck.errors import LostError, StoreError
from rocketfsck.progress import asked_here, stoppable

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Task, Result]):
    """What became of one task: its result, or `None` where the deadline came before it started."""

    index: int
    task: Task
    result: Result | None
    seconds: float


class Engine(Protocol):
    """Runs kernels over tasks, somewhere. Which engine it is makes no difference to the results."""

    @property
    def job_count(self) -> int:
        """How many tasks run at once, where there are enough."""

    def run(
        self, kernel: Callable[[Task], Result], tasks: Sequence[Task], *, deadline: float | None = None
    ) -> Iterator[Outcome[Task, Result]]:
        """Yield one `Outcome` a task, in any order.

        `kernel` is a top-level function; what it raises ends the run, but an engine may first start the task
        again where the error may pass (`errors.may_pass`), also if the kernel returns it. `deadline` is a
        `time.monotonic()` value: no task is started after it, and those left are yielded with `result=None`.
        """


def bound(kernel: Callable[[Task], Result]) -> Callable[[Task], Result]:
    """The kernel with the budget of this thread, wherever it runs; can be pickled if the kernel can."""
    return partial(_run_using, current(), kernel)


def _run_using(budget: Budget, kernel: Callable[[Task], Result], task: Task) -> Result:
    with using(budget):
        return kernel(task)


# Runs tasks of which some may take their worker with them, whatever machine they run on.
#
# Where the engine gives up as a whole (a worker died each time that it had a certain task), the tasks that
# are left are tried again in halves, until the one that does it is alone.


@dataclass(frozen=True, slots=True)
class Dead:
    """A task that no worker survived, and what the engine said."""

    error: StoreError


def surviving(
    engine: Engine,
    kernel: Callable[[Task], Result],
    tasks: Sequence[Task],
    halves: Callable[[Task], Sequence[Task]] = lambda _: (),
) -> Iterator[tuple[Task, Result | Dead, float]]:
    """Yield each task with its result, or that it is dead, and the seconds that it took; in any order.

    `halves` cuts a task that kills in two; it gives nothing for one that cannot be cut. Raises what a kernel
    raises.
    """
    left = dict(enumerate(tasks))
    try:
        for outcome in engine.run(kernel, tasks) if tasks else ():
            assert outcome.result is not None  # no deadline was given
            yield left.pop(outcome.index), outcome.result, outcome.seconds
        return
    except LostError as error:
        failure = error
    rest = list(left.values())
    if not rest:
        return
    if len(tasks) > 1:
        middle = (len(rest) + 1) // 2
        groups = [rest[:middle], rest[middle:]]
    else:
        groups = [[half] for half in halves(rest[0])]
        if not groups:
            yield rest[0], Dead(failure), 0.0
    for group in groups:
        yield from surviving(engine, kernel, group, halves)


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Threads in this process. `jobs` is the number of tasks at once, 0 for what the budget allows."""

    jobs: int = 0

    @property
    def job_count(self) -> int:
        """How many tasks run at once, where there are enough."""
        if not self.jobs:
            return job_count()
        most = current().jobs
        return self.jobs if most is None else min(self.jobs, most)

    def run(
        self, kernel: Callable[[Task], Result], tasks: Sequence[Task], *, deadline: float | None = None
    ) -> Iterator[Outcome[Task, Result]]:
        """Yield one `Outcome` a task, as they end (not in order); what raises in a kernel raises here.

        `deadline` is a `time.monotonic()` value: no task is started after it, and those left are yielded
        with `result=None`. Work that may be stopped (`progress.stoppable`) is so on every thread.
        """
        jobs = self.job_count
        if jobs == 1 or len(tasks) <= 1:
            for index, task in enumerate(tasks):
                yield _timed(kernel, index, task, deadline)
            return
        waiting, ask, kernel = iter(enumerate(tasks)), asked_here(), bound(kernel)

        def work(index: int, task: Task) -> Outcome[Task, Result]:
            with stoppable(ask):
                return _timed(kernel, index, task, deadline)

        with ThreadPoolExecutor(max_workers=jobs) as pool:
            running: set[Future[Outcome[Task, Result]]] = set()
            try:
                while True:
                    while len(running) < jobs and (item := next(waiting, None)) is not None:
                        running.add(pool.submit(work, *item))
                    if not running:
                        return
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:
                for future in running:
                    future.cancel()


def _timed(
    kernel: Callable[[Task], Result], index: int, task: Task, deadline: float | None
) -> Outcome[Task, Result]:
    started = time.monotonic()
    if deadline is not None and started >= deadline:
        return Outcome(index, task, None, 0.0)
    result = kernel(task)
    return Outcome(index, task, result, time.monotonic() - started)
