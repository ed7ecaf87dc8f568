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
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rocketfsck.common.budget import within
from rocketfsck.engine import LocalEngine
from rocketfsck.engine.seam import Outcome, Result, Task, bound
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
SHARES_A_CORE = 4
"""A share is at most this part of what is left for each core."""


@dataclass(frozen=True, slots=True)
class TaskPiece:
    """The tasks `first` to before `last` of one store; `weight` in bytes."""

    store: int
    first: int
    last: int
    weight: int


def pack(stores: Sequence[tuple[int, Sequence[int]]], cores: int) -> list[TaskPiece]:
    """Shares of the tasks of `stores`: each is a number and the weights of its tasks, in their order.

    Every task is in one share, and a share has tasks of one store. No share that has several tasks is longer
    than MOST_WEIGHT, and none is more than twice a fair part of what is left, except for LEAST_WEIGHT.
    """
    left = sum(sum(weights) for _, weights in stores)
    found = []
    for store, weights in stores:
        first = weight = 0
        target = _target(left, cores)
        for number, each in enumerate(weights):
            if number > first and weight + each > target:
                found.append(TaskPiece(store, first, number, weight))
                left -= weight
                first, weight = number, 0
                target = _target(left, cores)
            weight += each
        if first < len(weights):
            found.append(TaskPiece(store, first, len(weights), weight))
            left -= weight
    return found


def _target(left: int, cores: int) -> int:
    return min(max(left // (SHARES_A_CORE * max(cores, 1)), LEAST_WEIGHT), MOST_WEIGHT)


def bounded(items: Iterable[Item], sizes: Iterable[int], limit: int) -> Iterator[list[Item]]:
    """Neighbours in groups of at most `limit` in all, or of one item that is longer."""
    group: list[Item] = []
    total = 0
    for item, size in zip(items, sizes, strict=True):
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


_LEVEL = 1


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
    """The tasks `first` to before `last` of a stage."""

    number: int
    packed: bytes
    first: int
    last: int


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
    """Kernel: the job of a large store until its next stage, on one core of a worker.

    A StoreError of a job is returned: an engine tries again where the cause may pass.
    """
    with within(jobs=1):
        try:
            return _begin(step) if isinstance(step, Begin) else _end(step)
        except StoreError as error:
            return error


def run_small(begin: Begin) -> Ended | Large | StoreError:
    """Kernel: a store's job as one task, on a worker or a thread of this process, where it is little work."""
    with part(1):
        return run_here(begin)


def run_here(begin: Begin) -> Ended | Large | StoreError:
    """A store's job, as far as it is little work."""
    with within(jobs=begin.threads or None):
        try:
            found = _begin(begin)
        except StoreError as error:
            return error
    if isinstance(found, Given):
        return Large(len(found.packed) + RESULT_SIZE * len(found.weights))
    return found


def run_job(begin: Begin, opened: Callable[[], Any], known: Iterable[Known] = ()) -> Ended:
    """A store's job. Raises Elsewhere for a stage that is too much, StoreError for what may pass."""
    job = begin.job
    limits = StageLimits(job.weigh, begin.whole_weight, begin.job_count)
    try:
        engine = PassingEngine(limits=limits, known=deque(known))
        return Ended(job.work(opened(), engine))
    except (Elsewhere, PassingError, StoreError):
        raise
    except Exception as error:  # noqa: BLE001  a bug that one store shows must not end the others
        return Ended(job.failed(error))


def _begin(begin: Begin) -> Ended | Given:
    store: list[Any] = []

    def opened() -> Any:
        store.append(begin.job.open())
        return store[0]

    try:
        return run_job(begin, opened)
    except Elsewhere as given:
        return _given(store[0], given)


def _end(end: End) -> Ended | Given:
    store = _unpacked(end.packed)[0]
    try:
        return run_job(end.begin, lambda: store, (unpack_results(shares) for shares in end.known))
    except Elsewhere as given:
        return _given(store, given)


def _given(store: Any, given: Elsewhere) -> Given:
    return Given(_packed((store, given.kernel, tuple(given.tasks))), given.weights)


def run_share(share: Share) -> bytes:
    """Kernel: the tasks of a share, on one core of a worker; their results, packed."""
    _, kernel, tasks = _unpacked(share.packed)
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
    return pack_results(found)


def pack_results(results: Sequence[Any]) -> bytes:
    """The results of neighbouring tasks, as few bytes."""
    return _packed(tuple(results))


def unpack_results(shares: Sequence[bytes]) -> tuple[Any, ...]:
    """The results of a stage, of all its shares in order. Raises the first error that is one of its own."""
    return tuple(result for share in shares for result in pickle.loads(zlib.decompress(share)))


def task_of(packed: bytes, number: int) -> Any:
    """One task of a stage."""
    return _unpacked(packed)[2][number]


def _packed(value: Any) -> bytes:
    return zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), _LEVEL)


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> tuple[Any, Callable[[Any], Any], tuple[Any, ...]]:
    """Kept for the next share of the same store, which a worker often gets."""
    found: tuple[Any, Callable[[Any], Any], tuple[Any, ...]] = pickle.loads(zlib.decompress(packed))
    return found
