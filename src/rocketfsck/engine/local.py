"""Runs kernels on threads of this process; the kernels' compiled parts release the GIL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from rocketfsck.common.budget import current, job_count
from rocketfsck.engine.seam import Outcome, Result, Task, bound
from rocketfsck.progress import asked_here, stoppable


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
        self,
        kernel: Callable[[Task], Result],
        tasks: Sequence[Task],
        *,
        deadline: float | None = None,
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
