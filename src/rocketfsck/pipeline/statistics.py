"""What the stores of a cluster hold, counted on any engine: by broker, topic, queue, day and key.

A task counts a run of log files and sends one account back, so that the driver's memory goes with the number
of queues, topics and days, which are bounded (`query.counts.counting`), and not with messages or files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.formats.javatext import java_decode
from rocketfsck.pipeline.sources import StoreSource, open_source
from rocketfsck.pipeline.statisticskeys import KeyCounts, KeySketch
from rocketfsck.progress import Phase, phase
from rocketfsck.query.counts.counting import FileRun, StoreCounts, Tally, count_file, live_batches, merged
from rocketfsck.query.counts.statistics import LogStatistics, plan_runs, statistics_of
from rocketfsck.store.areas import demand_listed
from rocketfsck.store.model import Store

if TYPE_CHECKING:
    from rocketfsck.scan.columns import RecordBatch
    from rocketfsck.scan.queues import QueueTable
    from rocketfsck.store.reading import FileReader

Name = TypeVar("Name", str, tuple[str, str])

LOG_AREA = frozenset({"commitlog"})


@dataclass(frozen=True, slots=True)
class KeyCount:
    """How many messages of a topic have a key, among their KEYS."""

    topic: str
    key: str
    count: int


@dataclass(frozen=True, slots=True)
class KeyStatistics:
    """The most frequent words of KEYS, with exact counts, and how many keys there are.

    `missed` bounds the count of keys that were not recounted, 0 where all were; those that were and are not
    listed are no more frequent than the last that is. The `distinct` counts are estimates (within 2 %).
    """

    top: tuple[KeyCount, ...]
    word_count: int
    distinct_words: int
    distinct_unique: int
    missed: int

    @property
    def is_complete(self) -> bool:
        """Whether no key that is not listed can be more frequent than one that is."""
        return not self.missed or (bool(self.top) and self.missed <= self.top[-1].count)


@dataclass(frozen=True, slots=True)
class TopicTally:
    """A topic's messages on all brokers, and on how many of them it has some."""

    topic: str
    broker_count: int
    tally: Tally


@dataclass(frozen=True, slots=True)
class ClusterStatistics:
    """The live messages of several stores: by broker, and all together.

    `topics` are the largest first; `days` and `topic_days` ascend, "" stands for times that have no date.
    `failed` are the brokers whose stores could not be counted, and why: the rest is without them.
    """

    brokers: Sequence[tuple[str, LogStatistics]]
    total: Tally | None
    topics: tuple[TopicTally, ...]
    days: tuple[tuple[str, Tally], ...]
    topic_days: tuple[tuple[str, str, Tally], ...]
    keys: KeyStatistics | None
    failed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CountTask:
    """Log files of one store; `with_keys` makes the sketch of keys, too."""

    store: int
    run: FileRun
    with_keys: bool


@dataclass(frozen=True, slots=True)
class RecountTask:
    """Log files whose keys with these hashes (ascending) are counted by their bytes."""

    run: FileRun
    hashes: NDArray[np.int64] = field(repr=False)


def count_stores(
    sources: Sequence[StoreSource],
    *,
    engine: Engine | None = None,
    key_count: int = 0,
) -> ClusterStatistics:
    """Count the live records of several stores, and find the `key_count` most frequent keys (0: none).

    Keys take a second pass over the logs. Raises StoreError when a file cannot be read, or a log not be
    listed.
    """
    engine = LocalEngine() if engine is None else engine
    stores = [open_source(source) for source in sources]
    for store in stores:
        demand_listed(store, LOG_AREA)
    total = sum(store.commitlog.size for store in stores) * (2 if key_count else 1)
    with phase("counting the messages", total) as at:
        return _counted(sources, stores, engine, key_count, at)


def _counted(
    sources: Sequence[StoreSource], stores: Sequence[Store], engine: Engine, key_count: int, at: Phase
) -> ClusterStatistics:
    runs = [
        (number, run) for number, store in enumerate(stores) for run in plan_runs(store, engine.job_count)
    ]
    done = 0

    def advance(number: int, run: FileRun) -> None:
        nonlocal done
        files = stores[number].commitlog.files[run.first : run.first + len(run.items)]
        done += sum(file.size for file in files)
        at.at(done)

    accounts = [StoreCounts() for _ in stores]
    sketch = KeySketch()
    for outcome in engine.run(count_run, [CountTask(number, run, bool(key_count)) for number, run in runs]):
        if outcome.result is not None:
            accounts[outcome.task.store].add(outcome.result[0])
            sketch.merge(outcome.result[1])
        advance(outcome.task.store, outcome.task.run)
    keys = None
    if key_count:
        exact = KeyCounts()
        tasks = [RecountTask(run, sketch.words.hashes) for _, run in runs] if sketch.words.total else []
        for recounted in engine.run(recount_run, tasks):
            if recounted.result is not None:
                exact.merge(recounted.result)
            advance(runs[recounted.index][0], recounted.task.run)
        keys = keys_of(sketch, exact, key_count)
    logs = [statistics_of(store, account) for store, account in zip(stores, accounts, strict=True)]
    gathered = Gathered()
    for log in logs:
        gathered.add(log)
    brokers = [source.broker for source in sources]
    return gathered.statistics(tuple(zip(brokers, logs, strict=True)), keys)


def count_run(task: CountTask) -> tuple[StoreCounts, KeySketch]:
    """Kernel: count the files of a task."""
    account, sketch = StoreCounts(), KeySketch()

    def further(batch: RecordBatch, table: QueueTable, reader: FileReader) -> None:  # noqa: ARG001
        sketch.add(batch)

    for number, item in enumerate(task.run.items, task.run.first):
        account.add(count_file(item, number, further if task.with_keys else None))
    return account, sketch


def recount_run(task: RecountTask) -> KeyCounts:
    """Kernel: count keys by their bytes."""
    counts = KeyCounts()
    for item in task.run.items:
        for batch, table, reader in live_batches(item):
            counts.add(batch, table, reader, task.hashes)
    return counts


def keys_of(sketch: KeySketch, exact: KeyCounts, key_count: int) -> KeyStatistics:
    """The most frequent keys of both passes."""
    ordered = sorted(exact.counts.items(), key=lambda item: (-item[1], item[0]))
    return KeyStatistics(
        top=tuple(
            KeyCount(java_decode(topic), java_decode(key), count)
            for (topic, key), count in ordered[:key_count]
        ),
        word_count=sketch.words.total,
        distinct_words=sketch.distinct_words.estimate(),
        distinct_unique=sketch.distinct_unique.estimate(),
        missed=sketch.words.error + exact.dropped,
    )


class Gathered:
    """The messages of stores, put together store by store: bounded by topics and days, not by stores."""

    def __init__(self) -> None:
        self._totals: list[Tally] = []
        self._topics: dict[str, TopicTally] = {}
        self._days: dict[str, Tally] = {}
        self._topic_days: dict[tuple[str, str], Tally] = {}

    def add(self, log: LogStatistics) -> None:
        """Take over what one store has."""
        if log.total is not None:
            self._totals = [merged([*self._totals, log.total])]
        for topic, tally in log.topics.items():
            known = self._topics.get(topic)
            tallies, count = ([], 0) if known is None else ([known.tally], known.broker_count)
            self._topics[topic] = TopicTally(topic, count + 1, merged([*tallies, tally]))
        for day, tally in log.days:
            _merge_into(self._days, day, tally)
        for topic, day, tally in log.topic_days:
            _merge_into(self._topic_days, (topic, day), tally)

    def statistics(
        self,
        brokers: Sequence[tuple[str, LogStatistics]],
        keys: KeyStatistics | None,
        failed: Sequence[tuple[str, str]] = (),
    ) -> ClusterStatistics:
        """All of it; `brokers` are the stores that were added."""
        return ClusterStatistics(
            brokers=brokers,
            total=self._totals[0] if self._totals else None,
            topics=tuple(
                sorted(self._topics.values(), key=lambda item: (-item.tally.byte_count, item.topic))
            ),
            days=tuple(sorted(self._days.items())),
            topic_days=tuple((*name, self._topic_days[name]) for name in sorted(self._topic_days)),
            keys=keys,
            failed=tuple(failed),
        )


def _merge_into(tallies: dict[Name, Tally], name: Name, tally: Tally) -> None:
    known = tallies.get(name)
    tallies[name] = tally if known is None else merged([known, tally])
