"""A store's job on a worker: the job gives away what is too much for one core, and is run again with results.

    first run:   run(kernel, tasks)  ->  little work: done here
                                         much work:   Elsewhere(kernel, tasks) ends the job
    next run:    run(kernel, tasks)  ->  the results from elsewhere, and on it goes

So a job that is written for any engine also runs where nobody may start tasks, and the driver of a fleet
neither opens a store nor judges it. The job must be a function of what it is given: nothing of the first run
stays behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rocketfsck.engine import LocalEngine
from rocketfsck.engine.seam import Outcome, Result, Task, bound

Known = tuple[Any, ...]
"""The results of one stage, in the order of its tasks."""


class Elsewhere(Exception):  # noqa: N818  no error: work to do
    """Ends a job whose next stage is to be run elsewhere."""

    def __init__(self, kernel: Callable[[Any], Any], tasks: Sequence[Any], weights: tuple[int, ...]) -> None:
        super().__init__(f"{len(tasks)} tasks")
        self.kernel = kernel
        self.tasks = tasks
        self.weights = weights


@dataclass(frozen=True, slots=True)
class StageLimits:
    """What a job does itself: a stage of at most `whole_weight` bytes, as `weigh` weighs tasks.

    `job_count` is what the job hears of how many tasks run at once.
    """

    weigh: Callable[[Any], int]
    whole_weight: int
    job_count: int


@dataclass(frozen=True, slots=True)
class PassingEngine(LocalEngine):
    """Runs small stages here; ends the job by `Elsewhere` at a large one that has no results in `known`."""

    limits: StageLimits = field(kw_only=True)
    known: deque[Known] = field(kw_only=True, default_factory=deque)

    @property
    def job_count(self) -> int:
        """How many tasks run at once, where there are enough: on all workers."""
        return self.limits.job_count

    def run(
        self, kernel: Callable[[Task], Result], tasks: Sequence[Task], *, deadline: float | None = None
    ) -> Iterator[Outcome[Task, Result]]:
        """As `Engine.run`; raises Elsewhere for a stage that is too much."""
        weights = tuple(self.limits.weigh(task) for task in tasks)
        if sum(weights) <= self.limits.whole_weight:
            yield from LocalEngine().run(kernel, tasks, deadline=deadline)
            return
        if not self.known:
            raise Elsewhere(bound(kernel), tasks, weights)
        for index, (task, result) in enumerate(zip(tasks, self.known.popleft(), strict=True)):
            yield Outcome(index, task, result, 0.0)
