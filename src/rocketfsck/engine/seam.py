"""What every engine is: one verb over tasks, and what comes back for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

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
        self,
        kernel: Callable[[Task], Result],
        tasks: Sequence[Task],
        *,
        deadline: float | None = None,
    ) -> Iterator[Outcome[Task, Result]]:
        """Yield one `Outcome` a task, in any order.

        `kernel` is a top-level function; what it raises ends the run, but an engine may first start the task
        again where the error may pass (`errors.may_pass`), also if the kernel returns it. `deadline` is a
        `time.monotonic()` value: no task is started after it, and those left are yielded with `result=None`.
        """
