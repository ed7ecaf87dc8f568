"""What the stores of a cluster hold, counted on any engine: by broker, topic, queue, day and key.

A task counts a run of log files and sends one account back, so that the driver's memory goes with the number
of queues, topics and days, which are bounded (`query.counts`), and not with messages or files. The
job is in `fleet.counting`.

Which keys are the most frequent, and how many there are: in two passes, in bounded memory.

    pass 1    hashes of keys into a sketch of `CAPACITY` counters (Misra and Gries) and one of distinct ones
              (HyperLogLog); sketches of different files merge
    pass 2    the keys behind the hashes that were kept, by their very bytes

A counter is never above the truth and at most `error` below it, so a key that is more frequent than `error`
cannot be missed; what pass 2 counts is exact. The hashes are the index's own (reference 4.3); pass 2 tells
different keys of one hash apart. Python sees batches and different keys, never a message.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import Longs
from rocketfsck.formats.javatext import java_decode
from rocketfsck.query import counts as query_counts
from rocketfsck.scan.columns import KEY_WORD, RecordBatch
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.spans import among
from rocketfsck.store.reading import FileReader

CAPACITY = 4096
REGISTER_BITS = 14
HASHES = 1 << 31
"""How many different hashes of keys there are."""

MAX_KEYS = 1 << 16
"""Keys that a second pass tells apart: only keys made to collide can be so many."""

READ_SIZE = 4 << 20
GAP_SIZE = 64 << 10


@dataclass(slots=True)
class Frequent:
    """Counters of the most frequent hashes. `total` is how many were counted; `error` see above."""

    capacity: int = CAPACITY
    hashes: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    counts: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    total: int = 0
    error: int = 0

    def add(self, hashes: NDArray[np.int32]) -> None:
        """Count hashes, one a key."""
        self.total += len(hashes)
        self._take(hashes.astype(np.int64), np.ones(len(hashes), np.int64))

    def merge(self, other: Frequent) -> None:
        """Take over what another sketch counted."""
        self.total += other.total
        self.error += other.error
        self._take(other.hashes, other.counts)

    def _take(self, hashes: Longs, counts: Longs) -> None:
        kept, places = np.unique(np.concatenate([self.hashes, hashes]), return_inverse=True)
        sums = np.bincount(places, np.concatenate([self.counts, counts]), len(kept)).astype(np.int64)
        if len(kept) > self.capacity:
            least = int(np.partition(sums, len(sums) - self.capacity - 1)[len(sums) - self.capacity - 1])
            self.error += least
            sums = sums - least
            kept, sums = kept[sums > 0], sums[sums > 0]
        self.hashes, self.counts = kept, sums


@dataclass(slots=True)
class Distinct:
    """Registers that tell how many different hashes were seen, within 2 % as a rule."""

    registers: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(1 << REGISTER_BITS, np.uint8))

    def add(self, hashes: NDArray[np.int32]) -> None:
        """See hashes, one a key."""
        if not len(hashes):
            return
        mixed = _mixed(hashes.astype(np.uint64))
        place = (mixed >> np.uint64(64 - REGISTER_BITS)).astype(np.intp)
        rest = mixed << np.uint64(REGISTER_BITS) | np.uint64(1 << (REGISTER_BITS - 1))
        rank = 64 - np.floor(np.log2(rest.astype(np.float64))).astype(np.uint8)
        np.maximum.at(self.registers, place, rank.astype(np.uint8))

    def merge(self, other: Distinct) -> None:
        """Take over what another one saw."""
        np.maximum(self.registers, other.registers, out=self.registers)

    def estimate(self) -> int:
        """How many different keys there are, about: keys of one hash are made up for by their odds."""
        count = len(self.registers)
        alpha = 0.7213 / (1 + 1.079 / count)
        found = alpha * count * count / float(np.sum(np.exp2(-self.registers.astype(np.float64))))
        empty = int(np.count_nonzero(self.registers == 0))
        if empty and found <= 2.5 * count:
            found = count * math.log(count / empty)
        return round(-HASHES * math.log1p(-min(found / HASHES, 0.999)))


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The numbers with all bits mixed (the finaliser of SplitMix64)."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@dataclass(slots=True)
class KeySketch:
    """What the first pass knows of keys: the words of KEYS, how many differ, and how many UNIQ_KEYs do."""

    words: Frequent = field(default_factory=Frequent)
    distinct_words: Distinct = field(default_factory=Distinct)
    distinct_unique: Distinct = field(default_factory=Distinct)

    def add(self, batch: RecordBatch) -> None:
        """Count the keys of a batch."""
        is_word = batch["key_kind"] == KEY_WORD
        words = batch["key_hash"][is_word]
        self.words.add(words)
        self.distinct_words.add(words)
        self.distinct_unique.add(batch["key_hash"][~is_word])

    def merge(self, other: KeySketch) -> None:
        """Take over what another one knows."""
        self.words.merge(other.words)
        self.distinct_words.merge(other.distinct_words)
        self.distinct_unique.merge(other.distinct_unique)


@dataclass(slots=True)
class KeyCounts:
    """Exact counts by (topic, key), as bytes; `dropped` is the largest count of one that was let go."""

    counts: dict[tuple[bytes, bytes], int] = field(default_factory=dict)
    dropped: int = 0

    def add(self, batch: RecordBatch, table: QueueTable, reader: FileReader, wanted: Longs) -> None:
        """Count the keys of a batch whose hashes are among `wanted` (ascending)."""
        chosen = among(batch["key_hash"].astype(np.int64), wanted) & (batch["key_kind"] == KEY_WORD)
        rows = np.flatnonzero(chosen)
        if not len(rows):
            return
        queues = batch["queue_index"][batch["key_record"][rows]].astype(np.int64)
        known = queues >= 0
        rows, queues = rows[known], queues[known]
        order = np.argsort(batch["key_pos"][rows], kind="stable")
        rows, queues = rows[order], queues[order]
        names = table.names
        pos, sizes = batch["key_pos"][rows], batch["key_size"][rows].astype(np.int64)
        for at, stop, data in _pieces(reader, pos, sizes):
            keys = _gathered(data, pos[at:stop] - pos[at], sizes[at:stop], queues[at:stop])
            found = pc.value_counts(keys)
            for value, count in zip(
                found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True
            ):
                topic = names[int.from_bytes(value[:8], "little")][0]
                self._count((topic, value[8:]), count)

    def merge(self, other: KeyCounts) -> None:
        """Take over what another one counted."""
        self.dropped += other.dropped
        for key, count in other.counts.items():
            self._count(key, count)

    def _count(self, key: tuple[bytes, bytes], count: int) -> None:
        self.counts[key] = self.counts.get(key, 0) + count
        if len(self.counts) > MAX_KEYS:
            ordered = sorted(self.counts.items(), key=lambda item: -item[1])
            self.dropped += ordered[MAX_KEYS // 2][1]
            self.counts = dict(ordered[: MAX_KEYS // 2])


def _pieces(reader: FileReader, pos: Longs, sizes: Longs) -> Iterator[tuple[int, int, NDArray[np.uint8]]]:
    """Bytes that hold the keys `at:stop`, from the first on: near keys in one read, of bounded size."""
    ends = pos + sizes
    far = np.flatnonzero(pos[1:] > ends[:-1] + GAP_SIZE) + 1
    bounds = [0, *far.tolist(), len(pos)]
    for begin, end in pairwise(bounds):
        at = begin
        while at < end:
            stop = max(int(np.searchsorted(pos[at:end], pos[at] + READ_SIZE)) + at, at + 1)
            size = int(ends[at:stop].max() - pos[at])
            yield at, stop, np.frombuffer(reader.read(int(pos[at]), size), np.uint8)
            at = stop


def _gathered(data: NDArray[np.uint8], starts: Longs, sizes: Longs, queues: Longs) -> pa.Array:
    """Keys as Arrow bytes, each behind the eight bytes of its queue's number."""
    widths = sizes + 8
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(widths)])
    row = np.repeat(np.arange(len(sizes)), sizes)
    inner = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    made = np.empty(int(offsets[-1]), np.uint8)
    made[(offsets[:-1, None] + np.arange(8)).reshape(-1)] = queues.astype("<i8").view(np.uint8)
    made[offsets[row] + 8 + inner] = data[starts[row] + inner]
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(made)]
    return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)


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
    tally: query_counts.Tally


class StoreLogs(Protocol):
    """The counts of each store with its broker, which may take their time to come."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[tuple[str, query_counts.LogStatistics]]: ...


@dataclass(frozen=True, slots=True)
class ClusterStatistics:
    """The live messages of several stores: by broker, and all together.

    `topics` are the largest first; `days` and `topic_days` ascend, "" stands for times that have no date.
    `failed` are the brokers whose stores could not be counted, and why: the rest is without them.
    """

    brokers: StoreLogs
    total: query_counts.Tally | None
    topics: tuple[TopicTally, ...]
    days: tuple[tuple[str, query_counts.Tally], ...]
    topic_days: tuple[tuple[str, str, query_counts.Tally], ...]
    keys: KeyStatistics | None
    failed: tuple[tuple[str, str], ...] = ()


def count_run(with_keys: bool, run: query_counts.FileRun) -> tuple[query_counts.StoreCounts, KeySketch]:
    """Kernel: count the files of a run; `with_keys` makes the sketch of keys, too."""
    account, sketch = query_counts.StoreCounts(), KeySketch()

    def further(batch: RecordBatch, table: QueueTable, reader: FileReader) -> None:  # noqa: ARG001
        sketch.add(batch)

    for number, item in enumerate(run.items, run.first):
        account.add(query_counts.count_file(item, number, further if with_keys else None))
    return account, sketch


def recount_run(hashes: Longs, run: query_counts.FileRun) -> KeyCounts:
    """Kernel: count the keys with these hashes (ascending) by their bytes."""
    counts = KeyCounts()
    for item in run.items:
        for batch, table, reader in query_counts.live_batches(item):
            counts.add(batch, table, reader, hashes)
    return counts


def keys_of(sketch: KeySketch, exact: KeyCounts, key_count: int) -> KeyStatistics:
    """The most frequent keys of both passes."""
    ordered = sorted(exact.counts.items(), key=lambda item: (-item[1], item[0]))
    top = [KeyCount(java_decode(topic), java_decode(key), n) for (topic, key), n in ordered[:key_count]]
    return KeyStatistics(
        top=tuple(top),
        word_count=sketch.words.total,
        distinct_words=sketch.distinct_words.estimate(),
        distinct_unique=sketch.distinct_unique.estimate(),
        missed=sketch.words.error + exact.dropped,
    )


def cluster_statistics(
    brokers: StoreLogs, keys: KeyStatistics | None, failed: Sequence[tuple[str, str]]
) -> ClusterStatistics:
    """The messages of stores, put together store by store: bounded by topics and days, not by stores."""
    total: dict[str, query_counts.Tally] = {}
    topics: dict[str, query_counts.Tally] = {}
    broker_counts: Counter[str] = Counter()
    days: dict[str, query_counts.Tally] = {}
    topic_days: dict[tuple[str, str], query_counts.Tally] = {}
    for _, log in brokers:
        if log.total is not None:
            query_counts.count_into(total, "", log.total)
        for topic, tally in log.topics.items():
            query_counts.count_into(topics, topic, tally)
            broker_counts[topic] += 1
        for day, tally in log.days:
            query_counts.count_into(days, day, tally)
        for topic, day, tally in log.topic_days:
            query_counts.count_into(topic_days, (topic, day), tally)
    found = [TopicTally(topic, broker_counts[topic], tally) for topic, tally in topics.items()]
    return ClusterStatistics(
        brokers=brokers,
        total=total.get(""),
        topics=tuple(sorted(found, key=lambda item: (-item.tally.byte_count, item.topic))),
        days=tuple(sorted(days.items())),
        topic_days=tuple((*name, topic_days[name]) for name in sorted(topic_days)),
        keys=keys,
        failed=tuple(failed),
    )
