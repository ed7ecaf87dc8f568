"""Drives a job over many stores on any engine, whatever becomes of each; the driver holds packed bytes.

    begin all stores                        small ones end here; large ones give their tasks away
    group by group of large stores:         so many that what the driver holds stays bounded
        shares of the group, and the ends of the group before
    the ends of the last group

Results come in any order.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.engine.seam import Dead, surviving
from rocketfsck.errors import StoreError
from rocketfsck.pipeline.fleet.model import Kept, Spool
from rocketfsck.pipeline.fleet.stages import (
    HELD_SIZE,
    WHOLE_WEIGHT,
    Begin,
    End,
    Ended,
    Given,
    Share,
    Step,
    StoreJob,
    TaskPiece,
    bounded,
    pack,
    pack_results,
    rounds,
    run_here,
    run_step,
    task_of,
)
from rocketfsck.progress import part

_NO_LIMIT = 1 << 62


@dataclass(slots=True)
class _Large:
    """A store whose job gave a stage away: the stage, its results by their first task, earlier stages.

    `left` tasks have no result yet; the `weights` of all `count` tasks are 8 bytes each.
    """

    begin: Begin
    packed: Kept
    weights: Kept
    count: int
    known: tuple[tuple[Kept, ...], ...]
    found: dict[int, Kept] = field(default_factory=dict)
    left: int = 0

    @property
    def stages(self) -> tuple[tuple[Kept, ...], ...]:
        """The results of all stages, of each in the order of its tasks."""
        return (*self.known, tuple(self.found[first] for first in sorted(self.found)))

    @property
    def size(self) -> int:
        """Bytes that the end of the job is to know."""
        return self.packed.size + sum(kept.size for stage in self.stages for kept in stage)


def attempts_of(engine: Engine) -> int:
    """How often an engine starts a task."""
    if isinstance(engine, LocalEngine) or not hasattr(engine, "session"):
        return 1
    from rocketfsck.engine.session import attempt_count

    return attempt_count(engine.session)


Found = tuple[int, Any, float]
"""The number of a store, the result of its job, the seconds that all of it took."""


def run_jobs(engine: Engine, jobs: Sequence[StoreJob], *, attempts: int = 1) -> Iterator[Found]:
    """Yield the result of each job as it ends. `attempts`: how often the engine starts a task.

    In this process several small stores run at once, a core each, then large ones one after the other on all
    cores. Elsewhere see above. Raises StoreError only if the results cannot be kept in a temporary file.
    """
    if isinstance(engine, LocalEngine):
        yield from _locally(engine, jobs)
    else:
        yield from _Driver(engine, jobs, attempts).run()


def _locally(engine: LocalEngine, jobs: Sequence[StoreJob]) -> Iterator[Found]:
    count = engine.job_count
    large = [(number, 0.0) for number in range(len(jobs))]
    if len(jobs) > 1 and count > 1:
        large = []
        tasks = [Begin(number, job, WHOLE_WEIGHT, count) for number, job in enumerate(jobs)]
        for outcome in engine.run(_small_here, tasks):
            if outcome.result is None:
                large.append((outcome.index, outcome.seconds))
            else:
                yield outcome.index, _result(outcome.task.job, outcome.result), outcome.seconds
    for number, before in large:
        task = Begin(number, jobs[number], _NO_LIMIT, count, engine.jobs)
        started = time.monotonic()
        found = run_here(task)
        assert found is not None  # without a limit
        yield number, _result(task.job, found), before + time.monotonic() - started


def _small_here(begin: Begin) -> Ended | StoreError | None:
    with part(1):
        return run_here(begin)


def _result(job: StoreJob, found: Ended | StoreError) -> Any:
    return job.failed(found) if isinstance(found, StoreError) else found.result


class _Driver:
    """One job over many stores, on an engine whose tasks run elsewhere."""

    def __init__(self, engine: Engine, jobs: Sequence[StoreJob], attempts: int) -> None:
        self._engine = engine
        self._jobs = jobs
        self._attempts = attempts
        self._cores = engine.job_count
        self._spool = Spool("results of stores")
        self._seconds = [0.0] * len(jobs)
        self._large: list[_Large] = []

    def run(self) -> Iterator[Found]:
        """What came of each job."""
        begins = [Begin(number, job, WHOLE_WEIGHT, self._cores) for number, job in enumerate(self._jobs)]
        yield from self._begin(begins)
        waiting: list[_Large] = []
        while self._large or waiting:
            large, self._large = self._large, []
            sizes, counts = [item.packed.size for item in large], [item.count for item in large]
            for numbers in rounds(sizes, counts, HELD_SIZE) if large else [[]]:
                group = [large[number] for number in numbers]
                ends, waiting = _some(waiting)
                yield from self._round(group, ends)
                waiting += group

    def _begin(self, begins: Sequence[Begin]) -> Iterator[Found]:
        """Begin jobs. A store that took its workers with it begins again and gives all tasks away: then the
        task that does it is alone, and its file has a name."""
        again = []
        for step, found in self._surviving(begins):
            assert isinstance(step, Begin)
            if isinstance(found, Dead) and step.whole_weight:
                again.append(replace(step, whole_weight=0))
            else:
                yield from self._take(step, found)
        for step, found in self._surviving(again):
            assert isinstance(step, Begin)
            yield from self._take(step, found)

    def _round(self, group: Sequence[_Large], ends: Sequence[_Large]) -> Iterator[Found]:
        """The shares of a group of stores, and the ends of other stores first."""
        by_number = {item.begin.number: item for item in group}
        steps: list[Step] = [self._end(item) for item in ends]
        read = {number: self._spool.read(item.packed) for number, item in by_number.items()}
        weights = [(number, self._weights(item)) for number, item in by_number.items()]
        for piece in pack(weights, self._cores):
            steps.append(self._share(piece, read[piece.store]))
            by_number[piece.store].left += piece.last - piece.first
        ended = {item.begin.number: item for item in ends}
        for step, found in self._surviving(steps):
            if isinstance(step, Share):
                item = by_number[step.number]
                if isinstance(found, Dead):
                    found = _named_error(item.begin.job, step, found)
                assert isinstance(found, bytes)
                item.found[step.first] = self._spool.keep(found)
                item.left -= step.last - step.first
            else:
                assert isinstance(step, End)
                item = ended[step.begin.number]
                yield from self._take(step.begin, found, item.stages)
                item.found.clear()
        assert not any(item.left for item in group)

    def _weights(self, item: _Large) -> array[int]:
        found = array("q")
        found.frombytes(self._spool.read(item.weights))
        return found

    def _share(self, piece: TaskPiece, packed: bytes) -> Share:
        return Share(piece.store, packed, piece.first, piece.last, self._attempts)

    def _end(self, item: _Large) -> End:
        known = tuple(tuple(map(self._spool.read, stage)) for stage in item.stages)
        return End(item.begin, self._spool.read(item.packed), known)

    def _take(self, begin: Begin, found: Any, known: tuple[tuple[Kept, ...], ...] = ()) -> Iterator[Found]:
        """Yield what came of a job, or keep what it gave away."""
        if isinstance(found, Given):
            weights = self._spool.keep(array("q", found.weights).tobytes())
            packed = self._spool.keep(found.packed)
            self._large.append(_Large(begin, packed, weights, len(found.weights), known))
            return
        error = found.error if isinstance(found, Dead) else found
        yield begin.number, _result(begin.job, error), self._seconds[begin.number]

    def _surviving(self, steps: Sequence[Step]) -> Iterator[tuple[Step, Any]]:
        """What came of each step, in any order; a share of several tasks that kills is halved."""
        for step, found, seconds in surviving(self._engine, run_step, steps, _halves):
            self._seconds[_number(step)] += seconds
            yield step, found


def _number(step: Step) -> int:
    return step.begin.number if isinstance(step, End) else step.number


def _halves(step: Step) -> tuple[Step, ...]:
    """A share of several tasks as two; nothing for what cannot be halved."""
    if not isinstance(step, Share) or step.last - step.first < 2:
        return ()
    middle = (step.first + step.last) // 2
    return replace(step, last=middle), replace(step, first=middle)


def _named_error(job: StoreJob, share: Share, dead: Dead) -> bytes:
    """The result of a task that no worker survived: an error with the name of its file."""
    path = job.name(task_of(share.packed, share.first))
    return pack_results([StoreError(f"cannot be read by any worker: {dead.error}", path=path)])


def _some(waiting: list[_Large]) -> tuple[list[_Large], list[_Large]]:
    """As many stores as may be in memory at once, and the others."""
    groups = list(bounded(waiting, [item.size for item in waiting], HELD_SIZE))
    return (groups[0] if groups else []), [item for group in groups[1:] for item in group]
