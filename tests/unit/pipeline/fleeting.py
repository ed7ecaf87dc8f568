"""An engine for the tests of jobs over many stores: as on a cluster, everything travels; some tasks kill."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import Any

from rocketfsck.engine.seam import Outcome
from rocketfsck.errors import LostError
from rocketfsck.pipeline.fleet.stages import Begin, End, Share


@dataclass
class Distant:
    """Runs steps one after the other, from their pickles, and gives the results back in the wrong order.

    `kills(step)` says which steps no worker survives. `steps` are those that were started; with `twice` each
    is done twice, as by speculation, and the second result counts.
    """

    cores: int = 4
    kills: Callable[[Any], bool] = lambda _: False
    steps: MutableSequence[Any] = field(default_factory=list)
    held_size: int = 0
    twice: bool = False

    @property
    def job_count(self) -> int:
        return self.cores

    def run(
        self, kernel: Callable[[Any], Any], tasks: Sequence[Any], *, deadline: float | None = None
    ) -> Iterator[Outcome[Any, Any]]:
        assert deadline is None
        self.held_size = max(self.held_size, len(pickle.dumps(list(tasks))))
        for index in reversed(range(len(tasks))):
            self.steps.append(tasks[index])
            if self.kills(tasks[index]):
                raise LostError("the job failed: a worker died", path="spark")
            if self.twice:
                self.steps.append(tasks[index])
                kernel(pickle.loads(pickle.dumps(tasks[index])))
            result = pickle.loads(pickle.dumps(kernel(pickle.loads(pickle.dumps(tasks[index])))))
            yield Outcome(index, tasks[index], result, 0.25)

    def count(self, kind: type[Begin] | type[Share] | type[End]) -> int:
        """How many steps of a kind were started."""
        return sum(isinstance(step, kind) for step in self.steps)


@dataclass(frozen=True, slots=True)
class MadeUpJob:
    """The job of a store that is not there: bytes for a list of files, tasks whose results are bytes."""

    number: int
    task_count: int

    def open(self) -> bytes:
        return random.Random(self.number).randbytes(self.task_count * 30)

    def work(self, store: bytes, engine: Any) -> int:
        tasks = range(self.number, self.number + self.task_count)
        return len(store) + sum(len(outcome.result) for outcome in engine.run(some_bytes, list(tasks)))

    def weigh(self, task: int) -> int:
        return (1 << 30) + task

    def name(self, task: int) -> str:
        return str(task)

    def failed(self, error: Exception) -> Any:
        raise error


def some_bytes(seed: int) -> bytes:
    """A result of a task, that cannot be packed any further."""
    return random.Random(seed).randbytes(1200)
