"""What workers do for a job over many stores: begin a store's job, do a share of its tasks, end the job.

    Begin   open the store, run the job: its result, or what it gives away         -> Ended | Given
    Share   some tasks of a stage that a job gave away                             -> bytes
    End     the job again, from the same opened store, with the results            -> Ended | Given

What goes through the driver is packed bytes, which it keeps and hands on, but never unpacks.
"""

from __future__ import annotations

import pickle
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from rocketfsck.common.budget import within
from rocketfsck.errors import PassingError, StoreError, may_pass
from rocketfsck.pipeline.fleet.passing import Elsewhere, Known, PassingEngine, StageLimits
from rocketfsck.store.reading import named_errors

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
        """The weight of a task that `work` gives to its engine (`packing`)."""

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
class Given:
    """A stage that a job gave away: the store, the kernel and its tasks, packed; the weights of the tasks."""

    packed: bytes
    weights: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """The tasks `first` to before `last` of a stage. `attempts`: how often the engine starts a share."""

    number: int
    packed: bytes
    first: int
    last: int
    attempts: int


@dataclass(frozen=True, slots=True)
class End:
    """A job whose stages have results: `known` has the shares of each stage, in order."""

    begin: Begin
    packed: bytes
    known: tuple[tuple[bytes, ...], ...]


Step = Begin | Share | End


@contextmanager
def work_on(place: Path, what: str, done: str) -> Iterator[None]:
    """What the system says while a store is worked on, as StoreErrors of the store: `what` needs more memory
    than there is, the store cannot be `done`."""
    try:
        with named_errors(place, f"cannot be {done}"):
            yield
    except MemoryError as error:
        raise StoreError(f"the {what} needs more memory than there is", path=str(place)) from error


def run_step(step: Step) -> Ended | Given | bytes | StoreError:
    """Kernel: one step, on one core of a worker.

    A StoreError of a job is returned: an engine tries again where the cause may pass.
    """
    with within(jobs=1):
        if isinstance(step, Share):
            return _share(step)
        try:
            return _begin(step) if isinstance(step, Begin) else _end(step)
        except StoreError as error:
            return error


def run_here(begin: Begin) -> Ended | StoreError | None:
    """Kernel: a store's job on a thread of this process; None where it is too much for one."""
    with within(jobs=begin.threads or None):
        try:
            return run_job(begin, begin.job.open)
        except Elsewhere:
            return None
        except StoreError as error:
            return error


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


def _share(share: Share) -> bytes:
    _, kernel, tasks = _unpacked(share.packed)
    found = []
    for task in tasks[share.first : share.last]:
        try:
            result = kernel(task)
        except StoreError as error:
            result = error
        if isinstance(result, StoreError) and may_pass(result) and _tries_again(share.attempts):
            raise result
        found.append(result)
    return pack_results(found)


def _tries_again(attempts: int) -> bool:
    if attempts < 2:
        return False
    from rocketfsck.engine.session import attempt_number

    return attempt_number() + 1 < attempts


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
