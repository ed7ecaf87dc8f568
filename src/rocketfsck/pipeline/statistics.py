"""What the stores of a cluster hold, counted on any engine: by broker, topic, queue, day and key.

A task counts a run of log files and sends one account back, so that the driver's memory goes with the number
of queues, topics and days, which are bounded (`query.counts.counting`), and not with messages or files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.formats.javatext import java_decode
from rocketfsck.pipeline.sources import Source, open_source
from rocketfsck.pipeline.statisticskeys import KeyCounts, KeySketch
from rocketfsck.query.counts.counting import Account, FileRun, Tally, count_file, live_batches, merged
from rocketfsck.query.counts.statistics import LogStatistics, plan_runs, statistics_of
from rocketfsck.store.areas import demand_listed
from rocketfsck.store.reading import Progress

if TYPE_CHECKING:
    from rocketfsck.scan.columns import RecordBatch
    from rocketfsck.scan.queues import QueueTable
    from rocketfsck.store.reading import FileReader

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

    `topics` are the largest first; `days` and `topic_days` ascend, "" stands for times that are of no date.
    """

    brokers: tuple[tuple[str, LogStatistics], ...]
    total: Tally | None
    topics: tuple[TopicTally, ...]
    days: tuple[tuple[str, Tally], ...]
    topic_days: tuple[tuple[str, str, Tally], ...]
    keys: KeyStatistics | None


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
    sources: Sequence[Source],
    *,
    engine: Engine | None = None,
    key_count: int = 0,
    progress: Progress | None = None,
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
    runs = [(at, run) for at, store in enumerate(stores) for run in plan_runs(store, engine.job_count)]
    done = 0

    def advance(at: int, run: FileRun) -> None:
        nonlocal done
        done += sum(file.size for file in stores[at].commitlog.files[run.first : run.first + len(run.items)])
        if progress is not None:
            progress(done, total)

    accounts = [Account() for _ in stores]
    sketch = KeySketch()
    for outcome in engine.run(count_run, [CountTask(at, run, bool(key_count)) for at, run in runs]):
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
        keys = _keys(sketch, exact, key_count)
    logs = [statistics_of(store, account) for store, account in zip(stores, accounts, strict=True)]
    return _together([source.broker for source in sources], logs, keys)


def count_run(task: CountTask) -> tuple[Account, KeySketch]:
    """Kernel: count the files of a task."""
    account, sketch = Account(), KeySketch()

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


def _keys(sketch: KeySketch, exact: KeyCounts, key_count: int) -> KeyStatistics:
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


def _together(
    brokers: Sequence[str], logs: Sequence[LogStatistics], keys: KeyStatistics | None
) -> ClusterStatistics:
    topics: dict[str, list[Tally]] = {}
    days: dict[str, list[Tally]] = {}
    topic_days: dict[tuple[str, str], list[Tally]] = {}
    for log in logs:
        for topic, tally in log.topics.items():
            topics.setdefault(topic, []).append(tally)
        for day, tally in log.days:
            days.setdefault(day, []).append(tally)
        for topic, day, tally in log.topic_days:
            topic_days.setdefault((topic, day), []).append(tally)
    found = [TopicTally(topic, len(tallies), merged(tallies)) for topic, tallies in topics.items()]
    totals = [log.total for log in logs if log.total is not None]
    return ClusterStatistics(
        brokers=tuple(zip(brokers, logs, strict=True)),
        total=merged(totals) if totals else None,
        topics=tuple(sorted(found, key=lambda item: (-item.tally.byte_count, item.topic))),
        days=tuple((day, merged(days[day])) for day in sorted(days)),
        topic_days=tuple((*name, merged(topic_days[name])) for name in sorted(topic_days)),
        keys=keys,
    )
