"""Counts the messages of stores in one job; the driver holds what grows with topics and days.

The counts of each store, which grow with its queues, stay as packed as they came. Keys take a second job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.errors import StoreError
from rocketfsck.pipeline import statistics
from rocketfsck.pipeline.fleet.run import error_text
from rocketfsck.pipeline.fleet.stages import FILE_WEIGHT, packed, run_jobs, unpacked, work_on
from rocketfsck.pipeline.sources import StoreSource, look_at
from rocketfsck.progress import phase
from rocketfsck.query.counts import FileRun, LogStatistics, StoreCounts, plan_runs, statistics_of
from rocketfsck.store import Store
from rocketfsck.store.areas import demand_listed


@dataclass(frozen=True, slots=True)
class Counted:
    """What came of one store: its counts and the sketch of its keys, packed, or why it was not counted."""

    log: bytes = b""
    sketch: bytes = b""
    exact: statistics.KeyCounts | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class CountJob:
    """The messages of one store. `hashes`: the keys to count by their bytes; None for the first pass."""

    source: StoreSource
    with_keys: bool = False
    hashes: NDArray[np.int64] | None = None

    def open(self) -> Store:
        """The store. Raises StoreError and UsageError."""
        with work_on(Path(self.source.path), "count", "counted"):
            store = look_at(self.source)
            demand_listed(store, statistics.LOG_AREA)
            return store

    def work(self, store: Store, engine: Engine) -> Counted:
        """Count. Raises StoreError."""
        runs = plan_runs(store, engine.job_count)
        size = store.commitlog.size
        with work_on(Path(self.source.path), "count", "counted"), phase("reading the commit log", size):
            if self.hashes is not None:
                exact = statistics.KeyCounts()
                for result in _results(engine, partial(statistics.recount_run, self.hashes), runs):
                    exact.merge(result)
                return Counted(exact=exact)
            account, sketch = StoreCounts(), statistics.KeySketch()
            for counted, keys in _results(engine, partial(statistics.count_run, self.with_keys), runs):
                account.add(counted)
                sketch.merge(keys)
        return Counted(packed(statistics_of(store, account)), packed(sketch) if self.with_keys else b"")

    def weigh(self, task: FileRun) -> int:
        """Bytes of the files, and something for each."""
        return sum(item.file_size + FILE_WEIGHT for item in task.items)

    def name(self, task: FileRun) -> str:
        """The first file of a task."""
        return task.items[0].location

    def failed(self, error: Exception) -> Counted:
        """What is said of a store that could not be counted."""
        return Counted(error=error)


def _results(engine: Engine, kernel: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """The results in the order of the tasks. Raises the StoreError of a task: half a store is not counted."""
    outcomes = sorted(engine.run(kernel, tasks), key=lambda outcome: outcome.index)
    for outcome in outcomes:
        if isinstance(outcome.result, StoreError):
            raise outcome.result
    return [outcome.result for outcome in outcomes]


@dataclass(frozen=True, slots=True)
class PackedLogs:
    """The counts of stores by broker, each unpacked when somebody looks at it."""

    packed: tuple[tuple[str, bytes], ...]

    def __len__(self) -> int:
        return len(self.packed)

    def __iter__(self) -> Iterator[tuple[str, LogStatistics]]:
        return ((broker, unpacked(log)) for broker, log in self.packed)


def count_stores(
    sources: Sequence[StoreSource],
    *,
    engine: Engine | None = None,
    key_count: int = 0,
    is_one: bool | None = None,
) -> statistics.ClusterStatistics:
    """Count the live records of stores, and find the `key_count` most frequent keys (0: none).

    Keys take a second pass over the logs. Workers open the stores. Of several, one that cannot be counted is
    in `failed` of the result. Raises StoreError and UsageError for a single one: `is_one` says whether
    one was asked for, where a pattern may have found one of many.
    """
    engine = LocalEngine() if engine is None else engine
    logs: dict[int, bytes] = {}
    sketches: dict[int, bytes] = {}
    errors: dict[int, Exception] = {}
    sketch, exact = statistics.KeySketch(), statistics.KeyCounts()
    first = [CountJob(source, bool(key_count)) for source in sources]
    with phase("counting the messages", len(sources) * (2 if key_count else 1), "files") as at:
        for number, counted, _ in run_jobs(engine, first):
            if counted.error is not None:
                errors[number] = counted.error
            else:
                logs[number], sketches[number] = counted.log, counted.sketch
            at.add(1)
        if key_count:
            for number in sorted(sketches):  # what a sketch forgets depends on the order
                sketch.merge(unpacked(sketches.pop(number)))
        if sketch.words.total:
            again = sorted(logs)
            second = [CountJob(sources[number], hashes=sketch.words.hashes) for number in again]
            for number, counted, _ in run_jobs(engine, second):
                if counted.error is not None:
                    errors[again[number]] = counted.error
                    del logs[again[number]]
                else:
                    exact.merge(counted.exact)
                at.add(1)
    if errors and (len(sources) == 1 if is_one is None else is_one):
        raise errors[0]
    brokers = PackedLogs(tuple((sources[number].broker, logs[number]) for number in sorted(logs)))
    wrong = [(sources[number].broker, error_text("", errors[number])) for number in sorted(errors)]
    keys = statistics.keys_of(sketch, exact, key_count) if key_count else None
    return statistics.cluster_statistics(brokers, keys, wrong)
