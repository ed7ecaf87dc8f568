"""What workers do for a job over many stores: begin a store's job, do a share of its tasks, end the job.

    Begin   open the store, run the job: its result, or how much it would give away -> Ended | Large
            the same of a store that is known as large                             -> Ended | Given
    Share   some tasks of a stage that a job gave away                             -> bytes
    End     the job again, from the same opened store, with the results            -> Ended | Given

What goes through the driver is packed bytes, which it hands on, but never unpacks. A large store is opened a
second time when its group is done: so the driver has the lists of files of one group, not those of all.

How the work of many stores is cut for workers: by bytes and by queues, over all stores together.

    weight of a task := bytes on the disk that it goes through + FILE_WEIGHT a file or queue
    small store      := weight <= WHOLE_WEIGHT: one task of the engine, which opens, checks and judges it
    large store      := its own tasks, in shares of neighbours

Shares begin long and become short, as the work that is left becomes less (guided self-scheduling): few tasks,
and no core waits long for the last one. Nothing here knows what a task does; the simulation of a fleet runs
these very functions.

A store's job on a worker: the job gives away what is too much for one core, and is run again with results.

    first run:   run(kernel, tasks)  ->  little work: done here
                                         much work:   Elsewhere(kernel, tasks) ends the job
    next run:    run(kernel, tasks)  ->  the results from elsewhere, and on it goes

So a job that is written for any engine also runs where nobody may start tasks, and the driver of a fleet
neither opens a store nor judges it. The job must be a function of what it is given: nothing of the first run
stays behind.
"""

from __future__ import annotations

import pickle
import time
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rocketfsck.common.budget import within
from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.engine.seam import Dead, Outcome, Result, Task, bound, surviving
from rocketfsck.errors import PassingError, StoreError, demand_lasting
from rocketfsck.progress import part
from rocketfsck.store.reading import named_errors

Item = TypeVar("Item")

FILE_WEIGHT = 128 << 10
"""What a file or queue costs in addition to its bytes, as the bytes that are checked in the same time."""
WHOLE_WEIGHT = 2 << 30
"""A store up to this weight is one task."""
LEAST_WEIGHT = 1 << 30
"""A share is at least so long: a commit log file as brokers make them."""
MOST_WEIGHT = 16 << 30
"""A share is at most so long, if it has more than one task: what is lost with a worker."""
RESULT_SIZE = 1300
"""Packed bytes of the result of a task, about."""
HELD_SIZE = 128 << 20
"""Packed bytes of large stores that the driver has at once; a store that has more is alone."""
_NO_LIMIT = 1 << 62
SHARES_A_CORE = 4
"""A share is at most this part of what is left for each core."""


def pack(given: Mapping[int, Given], cores: int) -> list[Share]:
    """Shares of the tasks of stages that stores gave away, by their numbers.

    Every task is in one share, and a share has tasks of one store. No share that has several tasks is longer
    than MOST_WEIGHT, and none is more than twice a fair part of what is left, except for LEAST_WEIGHT.
    """
    left = sum(sum(stage.weights) for stage in given.values())
    found = []
    for number, stage in given.items():
        first = weight = 0
        target = _target(left, cores)
        for place, each in enumerate(stage.weights):
            if place > first and weight + each > target:
                found.append(Share(number, stage.packed, first, place, weight))
                left -= weight
                first, weight = place, 0
                target = _target(left, cores)
            weight += each
        if first < len(stage.weights):
            found.append(Share(number, stage.packed, first, len(stage.weights), weight))
            left -= weight
    return found


def _target(left: int, cores: int) -> int:
    return min(max(left // (SHARES_A_CORE * max(cores, 1)), LEAST_WEIGHT), MOST_WEIGHT)


def bounded(items: Iterable[Item], size_of: Callable[[Item], int], limit: int) -> Iterator[list[Item]]:
    """Neighbours in groups of at most `limit` in all, or of one item that is longer."""
    group: list[Item] = []
    total = 0
    for item in items:
        size = size_of(item)
        if group and total + size > limit:
            yield group
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group


Known = tuple[Any, ...]
"""The results of one stage, in the order of its tasks."""


class Elsewhere(Exception):  # noqa: N818  no error: work to do
    """Ends a job whose next stage is to be run elsewhere."""

    def __init__(self, kernel: Callable[[Any], Any], tasks: Sequence[Any], weights: tuple[int, ...]) -> None:
        super().__init__(f"{len(tasks)} tasks")
        self.kernel = kernel
        self.tasks = tasks
        self.weights = weights


@dataclass(frozen=True, slots=True, kw_only=True)
class PassingEngine(LocalEngine):
    """Runs small stages here; ends the job by `Elsewhere` at a large one that has no results in `known`.

    A stage is small up to `whole_weight` bytes, as `weigh` weighs tasks; `cores` are those of all workers.
    """

    weigh: Callable[[Any], int]
    whole_weight: int
    cores: int
    known: deque[Known] = field(default_factory=deque)

    @property
    def job_count(self) -> int:
        """How many tasks run at once, where there are enough: on all workers."""
        return self.cores

    def run(
        self, kernel: Callable[[Task], Result], tasks: Sequence[Task], *, deadline: float | None = None
    ) -> Iterator[Outcome[Task, Result]]:
        """As `Engine.run`; raises Elsewhere for a stage that is too much."""
        weights = tuple(self.weigh(task) for task in tasks)
        if sum(weights) <= self.whole_weight:
            yield from LocalEngine().run(kernel, tasks, deadline=deadline)
            return
        if not self.known:
            raise Elsewhere(bound(kernel), tasks, weights)
        for index, (task, result) in enumerate(zip(tasks, self.known.popleft(), strict=True)):
            yield Outcome(index, task, result, 0.0)


class StoreJob(Protocol):
    """The job of one store; small and picklable. What a store has that goes wrong is in the result.

    `open` and `work` raise StoreError for what may pass, so that an engine tries again; `failed` is the
    result of a store that could not be worked on.
    """

    def open(self) -> Any:
        """The store."""

    def work(self, store: Any, engine: PassingEngine) -> Any:
        """The result, small and picklable."""

    def weigh(self, task: Any) -> int:
        """The weight of a task that `work` gives to its engine."""

    def name(self, task: Any) -> str:
        """The file or files that a task reads, for an error."""

    def failed(self, error: Exception) -> Any:
        """The result for an error."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The store `number` of a fleet. Stages up to `whole_weight` are done by the worker.

    `threads` are those of a stage (0: all cores); `job_count` are the cores of all workers.
    """

    number: int
    job: StoreJob
    whole_weight: int
    job_count: int
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a store's job."""

    result: Any


@dataclass(frozen=True, slots=True)
class Large:
    """A job gave a stage away: how many packed bytes that is, with the results of its tasks, about."""

    size: int


@dataclass(frozen=True, slots=True)
class Given:
    """A stage that a job gave away: the store, the kernel and its tasks, packed; the weights of the tasks."""

    packed: bytes
    weights: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """The tasks `first` to before `last` of the stage of one store; `weight` in bytes."""

    number: int
    packed: bytes
    first: int
    last: int
    weight: int


@dataclass(frozen=True, slots=True)
class End:
    """A job whose stages have results: `known` has the shares of each stage, in order."""

    begin: Begin
    packed: bytes
    known: tuple[tuple[bytes, ...], ...]

    @property
    def number(self) -> int:
        """The store."""
        return self.begin.number


@contextmanager
def work_on(place: Path, what: str, done: str) -> Iterator[None]:
    """What the system says while a store is worked on, as StoreErrors of the store: `what` needs more memory
    than there is, the store cannot be `done`."""
    try:
        with named_errors(place, f"cannot be {done}"):
            yield
    except MemoryError as error:
        raise StoreError(f"the {what} needs more memory than there is", path=str(place)) from error


def run_step(step: Begin | End) -> Ended | Given | StoreError:
    """Kernel: the job of a large store until its next stage, on one core of a worker."""
    with within(jobs=1):
        return _advanced(step)


def run_small(begin: Begin) -> Ended | Large | StoreError:
    """Kernel: a store's job as one task, on a worker or a thread of this process, where it is little work."""
    with part(1):
        return run_here(begin)


def run_here(begin: Begin) -> Ended | Large | StoreError:
    """A store's job, as far as it is little work."""
    with within(jobs=begin.threads or None):
        found = _advanced(begin)
    if isinstance(found, Given):
        return Large(len(found.packed) + RESULT_SIZE * len(found.weights))
    return found


def _advanced(step: Begin | End) -> Ended | Given | StoreError:
    """A store's job until a stage that is too much.

    A StoreError of a job is returned: an engine tries again where the cause may pass.
    """
    begin, known = (step, ()) if isinstance(step, Begin) else (step.begin, step.known)
    job = begin.job
    engine = PassingEngine(
        weigh=job.weigh,
        whole_weight=begin.whole_weight,
        cores=begin.job_count,
        known=deque(tuple(result for share in shares for result in unpacked(share)) for shares in known),
    )
    try:
        store = job.open() if isinstance(step, Begin) else _stage(step.packed)[0]
        return Ended(job.work(store, engine))
    except Elsewhere as given:
        return Given(packed((store, given.kernel, tuple(given.tasks))), given.weights)
    except StoreError as error:
        return error
    except PassingError:
        raise
    except Exception as error:  # noqa: BLE001  a bug that one store shows must not end the others
        return Ended(job.failed(error))


def run_share(share: Share) -> bytes:
    """Kernel: the tasks of a share, on one core of a worker; their results, packed."""
    _, kernel, tasks = _stage(share.packed)
    found = []
    with within(jobs=1):
        for task in tasks[share.first : share.last]:
            try:
                result = kernel(task)
            except StoreError as error:
                result = error
            if isinstance(result, StoreError):
                demand_lasting(result)
            found.append(result)
    return packed(found)


def task_of(stage: bytes, number: int) -> Any:
    """One task of a stage that was given away."""
    return _stage(stage)[2][number]


def packed(value: Any) -> bytes:
    """A value as few bytes."""
    return zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), 1)


def unpacked(data: bytes) -> Any:
    """The value that `packed` was given."""
    return pickle.loads(zlib.decompress(data))


_stage = lru_cache(maxsize=1)(unpacked)
"""What a job gave away, kept for the next share of the same store, which a worker often gets."""


Found = tuple[int, Any, float]
"""The number of a store, the result of its job, the seconds that all of it took."""


def run_jobs(engine: Engine, jobs: Sequence[StoreJob]) -> Iterator[Found]:
    """Yield the result of each job as it ends, in any order; one that fails does not end the others.

    Several small stores run at once, a core each. In this process large ones follow one after the other, on
    all cores. Elsewhere they go in groups, of which the driver has what one gives away in memory.
    """
    begins = [Begin(number, job, WHOLE_WEIGHT, engine.job_count) for number, job in enumerate(jobs)]
    is_here = isinstance(engine, LocalEngine)
    large: list[tuple[Begin, int]] = [(begin, 0) for begin in begins]
    seconds = [0.0] * len(jobs)
    if not is_here or (len(jobs) > 1 and engine.job_count > 1):
        large = []
        for begin, found, took in surviving(engine, run_small, begins):
            seconds[begin.number] = took
            if isinstance(found, Large):
                large.append((begin, found.size))
            elif isinstance(found, Dead):
                # begins again and gives all tasks away: then the task that does it is alone, and has a name
                large.append((replace(begin, whole_weight=0), 0))
            else:
                yield begin.number, _result(begin.job, found), took
    if isinstance(engine, LocalEngine):
        for begin, _ in large:
            started = time.monotonic()
            ended = run_here(replace(begin, whole_weight=_NO_LIMIT, threads=engine.jobs))
            took = seconds[begin.number] + time.monotonic() - started
            yield begin.number, _result(begin.job, ended), took
        return
    for group in bounded(large, itemgetter(1), HELD_SIZE):
        yield from _run_group(engine, [begin for begin, _ in group], seconds)


def _run_group(engine: Engine, begins: Sequence[Begin], seconds: list[float]) -> Iterator[Found]:
    """The jobs of a group of large stores: all give a stage away, which is done, and continue with it."""
    jobs = {begin.number: begin for begin in begins}
    known: dict[int, tuple[tuple[bytes, ...], ...]] = defaultdict(tuple)
    steps: Sequence[Begin | End] = begins
    while steps:
        given: dict[int, Given] = {}
        for step, found, took in surviving(engine, run_step, steps):
            number = step.number
            seconds[number] += took
            if isinstance(found, Given):
                given[number] = found
            else:
                yield number, _result(jobs[number].job, found), seconds[number]
        results: dict[int, dict[int, bytes]] = {number: {} for number in given}
        for share, done, took in surviving(engine, run_share, pack(given, engine.job_count), _halves):
            seconds[share.number] += took
            if isinstance(done, Dead):
                done = _named_error(jobs[share.number].job, share, done)
            results[share.number][share.first] = done
        for number, by_first in results.items():
            known[number] += (tuple(by_first[first] for first in sorted(by_first)),)
        steps = [End(jobs[number], item.packed, known[number]) for number, item in given.items()]


def _result(job: StoreJob, found: Any) -> Any:
    error = found.error if isinstance(found, Dead) else found
    return job.failed(error) if isinstance(error, StoreError) else found.result


def _halves(share: Share) -> tuple[Share, ...]:
    """A share of several tasks as two; nothing for what cannot be halved."""
    if share.last - share.first < 2:
        return ()
    middle = (share.first + share.last) // 2
    return replace(share, last=middle), replace(share, first=middle)


def _named_error(job: StoreJob, share: Share, dead: Dead) -> bytes:
    """The result of a task that no worker survived: an error with the name of its file."""
    path = job.name(task_of(share.packed, share.first))
    return packed([StoreError(f"cannot be read by any worker: {dead.error}", path=path)])
