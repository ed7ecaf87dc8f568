"""Messages by topic and time of storing, for the page: counted in columns, in bounded memory.

    batch --(topic, time // step)--> cells --(the largest topics of a file)--> TopicCells
    TopicCells of all files --(the largest topics of the log)--> TopicTimes

A cell is one number: the topic in front of the bucket of time. Steps double as long as there are too many
buckets or cells, so that what is kept grows neither with the messages nor with the time that they span. Which
topics are the largest is known of a file at its end, and of the log when all its files are counted: what a
file did not keep by itself is counted with the other topics, and `mixed_count` says how many messages that
are at most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import Longs
from rocketfsck.formats.javatext import java_decode
from rocketfsck.page.tables import Limits, TopicTimeRows, TopicTimes, columns

FIRST_STEP_MS = 1000
LAST_MS = 253_402_300_799_999
"""The end of the year 9999: what a clock says beyond it is not a date."""
_BUCKET_BITS = 38
"""More than the buckets of a second up to the end of the last year."""
_MASK = (1 << _BUCKET_BITS) - 1
_CELLS = 1 << 18
"""Cells that are counted one by one while a file is read."""
_WAITING = 1 << 20
"""Cells that wait to be added to those before."""


def _none() -> Longs:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class TopicCells:
    """What was counted of a log file. A cell has one place in each of the columns: `topic` is a place of
    `names`, -1 for all others together, `timestamp` (ms) is where a bucket of `step_ms` begins, `count` are
    its messages. `undated_count` messages have a time that is not a date."""

    step_ms: int = FIRST_STEP_MS
    names: tuple[bytes, ...] = ()
    topic: Longs = field(default_factory=_none)
    timestamp: Longs = field(default_factory=_none)
    count: Longs = field(default_factory=_none)
    undated_count: int = 0


class TopicCounter:
    """Counts the messages of one log file by topic and time, in at most `bucket_limit` buckets."""

    def __init__(self, bucket_limit: int) -> None:
        self.step_ms = FIRST_STEP_MS
        self.undated_count = 0
        self._bucket_limit = max(bucket_limit, 2)
        self._keys = _none()
        self._counts = _none()
        self._waiting: list[tuple[Longs, Longs]] = []
        self._waiting_count = 0

    def add(self, topics: NDArray[np.int64], times: Longs) -> None:
        """Count messages by the numbers of their topics, which are -1 or more, and their times (ms)."""
        dated = (times >= 0) & (times <= LAST_MS)
        if not dated.all():
            self.undated_count += len(times) - int(np.count_nonzero(dated))
            topics, times = topics[dated], times[dated]
        if not len(times):
            return
        bucket = times // self.step_ms
        low, high = int(bucket.min()), int(bucket.max())
        wide, most = high - low + 1, int(topics.max()) + 2
        if wide * most <= 4 * len(times):
            found = np.bincount((topics + 1) * wide + (bucket - low), minlength=wide * most)
            at = np.flatnonzero(found)
            self._wait((at // wide << _BUCKET_BITS) + at % wide + low, found[at])
        else:
            self._wait(*_summed((topics + 1 << _BUCKET_BITS) + bucket, np.ones(len(times), np.int64)))

    def cells(self, names: Sequence[bytes], topic_limit: int) -> TopicCells:
        """What was counted, with the largest topics by themselves; `names` are those of the topics."""
        self._settle()
        topics = self._keys >> _BUCKET_BITS
        sums = np.bincount(topics, self._counts, minlength=1)
        sums[0] = 0
        largest = [at for at in np.argsort(-sums, kind="stable")[:topic_limit].tolist() if sums[at] > 0]
        rows = np.full(len(sums), -1, np.int64)
        rows[largest] = np.arange(len(largest))
        keys, counts = _summed((rows[topics] + 1 << _BUCKET_BITS) + (self._keys & _MASK), self._counts)
        return TopicCells(
            self.step_ms,
            tuple(names[at - 1] for at in largest),
            (keys >> _BUCKET_BITS) - 1,
            (keys & _MASK) * self.step_ms,
            counts,
            self.undated_count,
        )

    def _wait(self, keys: Longs, counts: Longs) -> None:
        self._waiting.append((keys, counts))
        self._waiting_count += len(keys)
        if self._waiting_count > _WAITING:
            self._settle()

    def _settle(self) -> None:
        """Add what waits, and make the buckets as long as they have to be."""
        keys, counts = zip((self._keys, self._counts), *self._waiting, strict=True)
        self._waiting, self._waiting_count = [], 0
        self._keys, self._counts = _summed(np.concatenate(keys), np.concatenate(counts))
        while len(self._keys) > _CELLS and len(self._keys) > len(np.unique(self._keys >> _BUCKET_BITS)):
            self._coarsen()
        while len(np.unique(self._keys & _MASK)) > self._bucket_limit:
            self._coarsen()

    def _coarsen(self) -> None:
        self.step_ms *= 2
        self._keys, self._counts = _halved(self._keys, self._counts)


def _halved(keys: Longs, counts: Longs) -> tuple[Longs, Longs]:
    """The same in half as many buckets, each twice as long."""
    return _summed((keys >> _BUCKET_BITS << _BUCKET_BITS) + ((keys & _MASK) >> 1), counts)


def _summed(keys: Longs, counts: Longs) -> tuple[Longs, Longs]:
    """The keys in order, each once, with the sums of their counts."""
    if not len(keys):
        return keys, counts
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    return keys[starts], np.add.reduceat(counts[order].astype(np.int64), starts)


def topic_times(
    files: Iterable[TopicCells | None], totals: Mapping[str, int], rows: Mapping[str, int], limits: Limits
) -> TopicTimes:
    """The messages of the largest topics in time. `files` has None for a file that could not be read;
    `totals` are the messages of each topic in the log, `rows` the places of topics in the page's table."""
    listed = list(files)
    known = [cells for cells in listed if cells is not None]
    ranked = sorted((name for name in totals if name in rows), key=lambda name: (-totals[name], name))
    largest = {name: at for at, name in enumerate(ranked[: limits.topic_count], 1)}
    step = max((cells.step_ms for cells in known), default=FIRST_STEP_MS)
    keys, counts = _none(), _none()
    for cells in known:
        places = np.array([0, *(largest.get(java_decode(name), 0) for name in cells.names)], np.int64)
        key = (places[cells.topic + 1] << _BUCKET_BITS) + cells.timestamp // step
        keys, counts = _summed(np.concatenate([keys, key]), np.concatenate([counts, cells.count]))
    while len(np.unique(keys & _MASK)) > limits.topic_bucket_count:
        step *= 2
        keys, counts = _halved(keys, counts)
    topics = (keys >> _BUCKET_BITS).tolist()
    page_rows = [-1, *(rows[name] for name in largest)]
    of_largest = sum(totals[name] for name in largest)
    counted = int(counts[np.array(topics, np.int64) > 0].sum())
    buckets = keys & _MASK
    first = int(buckets.min()) if len(buckets) else 0
    return TopicTimes(
        step,
        first * step if len(buckets) else None,
        columns(
            TopicTimeRows,
            zip(
                (page_rows[topic] for topic in topics),
                (buckets - first).tolist(),
                counts.tolist(),
                strict=True,
            ),
        ),
        max(of_largest - counted, 0),
        sum(cells.undated_count for cells in known),
        len(listed) - len(known),
    )
