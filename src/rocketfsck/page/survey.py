"""What a page needs of the commit log and the index, from one compiled pass over their files, on any engine.

    log file   -> strip of regions, damage in place and time, messages by queue and time, gaps in time
    index file -> slots in use, lengths of chains

A kernel is a top-level function of a small task; what comes back is bounded, whatever the files hold.
Reference 2, 4.

Regions of a file as a strip of few spans: true to scale, and exact in what they count.

Messages counted by time, in as few buckets as are wanted, without knowing the times beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats.dtypes import Longs
from rocketfsck.page.tables import Limits, SpanKind
from rocketfsck.page.topictimes import FIRST_STEP_MS, TopicCells, TopicCounter
from rocketfsck.progress import part
from rocketfsck.query.counts import StoreCounts, TopicNumbers, count_batches
from rocketfsck.reader.index import BLOCK_COUNT, IndexReader
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.log.resync import Region, RegionKind
from rocketfsck.scan.options import LogItem
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.model import IndexFile
from rocketfsck.store.reading import FileReader

LEAST_COUNT = 4
"""Buckets that all times of 64 bits fall into before a step has more than 64 bits."""
_RUN_COUNT = 512
"""Runs of equal buckets in a batch that are added one by one; with more the rows are sorted first."""


class TimeBuckets:
    """Messages and bytes by the time of storing. A bucket is `step_ms` long; the step doubles as long as more
    than `limit` buckets have messages, so that a clock that was wrong once costs a bucket and no
    precision."""

    def __init__(self, limit: int, step_ms: int = FIRST_STEP_MS) -> None:
        self.step_ms = step_ms
        self._limit = max(limit, LEAST_COUNT)
        self._counts: dict[int, tuple[int, int]] = {}

    def add(self, times: Longs, sizes: Longs) -> None:
        """Count messages by their times (ms) and sizes."""
        if not len(times):
            return
        while True:
            keys = times // self.step_ms
            starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
            if len(starts) > min(_RUN_COUNT, self._limit):
                order = np.argsort(keys, kind="stable")
                keys, times, sizes = keys[order], times[order], sizes[order]
                starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
            if len(starts) <= self._limit:
                break
            self._coarsen()
        counts = np.diff(np.append(starts, len(keys)))
        totals = np.add.reduceat(sizes, starts)
        for key, count, size in zip(keys[starts].tolist(), counts.tolist(), totals.tolist(), strict=True):
            self._count(key, count, size)
        self._fit()

    def take(self, other: TimeBuckets) -> None:
        """Count what another one has counted."""
        while self.step_ms < other.step_ms:
            self._coarsen()
        for key, (count, size) in other._counts.items():
            self._count(key * other.step_ms // self.step_ms, count, size)
        self._fit()

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """(begin in ms, messages, bytes) of the buckets in order."""
        for key in sorted(self._counts):
            yield key * self.step_ms, *self._counts[key]

    def extent(self, share: float = 0.0005) -> tuple[int, int] | None:
        """From where to where, in ms, the messages are, without a `share` of them at either end."""
        rows = list(self.rows())
        if not rows:
            return None
        counts = np.cumsum([count for _, count, _ in rows])
        total = int(counts[-1])
        first = int(np.searchsorted(counts, total * share, side="right"))
        last = int(np.searchsorted(counts, total * (1 - share), side="left"))
        return rows[first][0], rows[min(last, len(rows) - 1)][0] + self.step_ms

    def _count(self, key: int, count: int, size: int) -> None:
        known = self._counts.get(key, (0, 0))
        self._counts[key] = (known[0] + count, known[1] + size)

    def _fit(self) -> None:
        while len(self._counts) > self._limit:
            self._coarsen()

    def _coarsen(self) -> None:
        counts, self._counts = self._counts, {}
        self.step_ms *= 2
        for key, (count, size) in counts.items():
            self._count(key // 2, count, size)


KINDS: tuple[SpanKind, ...] = (
    "records", "blank", "filler", "zero", "malformed", "damaged", "torn", "stale", "units", "header", "slots",
    "entries", "mixed", "unread",
)  # fmt: skip
NUMBER_OF = {kind: number for number, kind in enumerate(KINDS)}
BAD = frozenset({"malformed", "damaged", "torn"})
"""Kinds of bytes that belong to no sound record, and should."""


class Span(NamedTuple):
    """File positions `start:end`, with what is in them (`page.model.Spans`)."""

    start: int
    end: int
    kind: SpanKind
    record_count: int = 0
    region_count: int = 1
    bad_byte_count: int = 0

    @classmethod
    def of(cls, start: int, end: int, kind: SpanKind, record_count: int = 0) -> Span:
        """A region as a span."""
        return cls(start, end, kind, record_count, 1, end - start if kind in BAD else 0)

    def joined(self, other: Span) -> Span:
        """This span and the one after it as one."""
        return Span(
            self.start,
            other.end,
            self.kind if self.kind == other.kind else "mixed",
            self.record_count + other.record_count,
            self.region_count + other.region_count,
            self.bad_byte_count + other.bad_byte_count,
        )


class Strip:
    """Takes the regions of a file in order and keeps at most about twice `limit` spans of them.

    A region that is longer than a cell, a `limit`-th of the file, stays what it is; neighbours that are
    shorter and begin in one cell become one span. Memory is bounded by `limit`, whatever the file holds.
    """

    def __init__(self, size: int, limit: int) -> None:
        self._cell = max(-(-size // max(limit, 1)), 1)
        self._room = 8 * max(limit, 1)
        self._limit = limit
        self._spans: list[Span] = []

    def add(self, span: Span) -> None:
        """Take the next region."""
        self._spans.append(span)
        if len(self._spans) > self._room:
            self._spans = list(self._joined())

    def spans(self) -> tuple[Span, ...]:
        """The strip: every region for itself where there are few."""
        return tuple(self._spans if len(self._spans) <= self._limit else self._joined())

    def _joined(self) -> Iterator[Span]:
        last: Span | None = None
        for span in self._spans:
            if last is None:
                last = span
            elif self._is_short(last) and self._is_short(span) and self._same_cell(last, span):
                last = last.joined(span)
            else:
                yield last
                last = span
        if last is not None:
            yield last

    def _is_short(self, span: Span) -> bool:
        return span.end - span.start < self._cell

    def _same_cell(self, one: Span, other: Span) -> bool:
        return one.start // self._cell == other.start // self._cell


GAP_MS = 3_600_000
"""Times without a message are gaps from this length on."""
MAX_SLOTS = 1 << 27


@dataclass(frozen=True, slots=True)
class LogTask:
    """A log file, number `number` of the store; its strip gets `span_count` spans."""

    item: LogItem
    number: int
    span_count: int
    limits: Limits


@dataclass(frozen=True, slots=True)
class IndexSurveyTask:
    """An index file."""

    file: IndexFile
    geometry: Geometry


@dataclass(frozen=True, slots=True)
class Bad:
    """A damaged region with the times (ms) of the records before and after it, None at an end of the
    file."""

    span: Span
    before: int | None
    behind: int | None = None


@dataclass(slots=True)
class LogSurvey:
    """What a pass over a log file found. `gaps` are (length in ms, time of the record behind, its position).

    `error` says why the file could not be read to its end.
    """

    number: int
    spans: tuple[Span, ...] = ()
    bad: list[Bad] = field(default_factory=list)
    bad_count: int = 0
    account: StoreCounts = field(default_factory=StoreCounts)
    buckets: TimeBuckets = field(default_factory=lambda: TimeBuckets(1))
    topics: TopicCells = field(default_factory=TopicCells)
    gaps: list[tuple[int, int, int]] = field(default_factory=list)
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    record_count: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class IndexSurvey:
    """What is in an index file (`page.model.Indexes`)."""

    slot_count: int = 0
    used_slot_count: int = 0
    entry_count: int = 0
    used_entry_count: int = 0
    longest_chain: int = 0
    chain_counts: tuple[int, ...] = ()
    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_physical_offset: int = 0
    end_physical_offset: int = 0
    error: str = ""


def survey_log(task: LogTask) -> LogSurvey:
    """Kernel: go through a log file without its bodies."""
    survey = LogSurvey(task.number, buckets=TimeBuckets(task.limits.bucket_count))
    try:
        with FileReader(task.item.location) as reader, part(reader.size):
            walk = _Walk(task, survey, reader)
            survey.account = count_batches(walk.batches())
            survey.account.newest = {task.number: survey.last_timestamp}
            survey.spans = walk.strip.spans()
            survey.topics = walk.by_topic.cells(walk.topics.names, task.limits.file_topic_count)
    except StoreError as error:
        survey.error = str(error)
    return survey


class _Walk:
    """One pass over one log file."""

    def __init__(self, task: LogTask, survey: LogSurvey, reader: FileReader) -> None:
        self.task = task
        self.survey = survey
        self.reader = reader
        self.strip = Strip(reader.size, task.span_count)
        self.live = LiveScan()
        self.topics = TopicNumbers()
        self.by_topic = TopicCounter(task.limits.topic_bucket_count)
        self.run_count = 0
        self.waiting: list[Region] = []

    def batches(self) -> Iterator[tuple[RecordBatch, QueueTable, FileReader]]:
        """The live records, batch by batch; all else goes to the survey."""
        item, table = self.task.item, QueueTable()
        options = item.options(self.reader.size)
        for found in self.live.walk(self.reader, item.base_offset, options, table, past_end=True):
            if isinstance(found, Region):
                self._region(found)
                continue
            self._flush()
            counts = found.counts.copy()
            stale_pos = self.live.stale_pos
            if stale_pos is not None:
                found.cut(int(np.searchsorted(found["pos"], stale_pos)))
            if found.record_count:
                self._live(found)
                topic = self.topics.numbers(table)[found["queue_index"]]
                self.by_topic.add(topic, found["store_timestamp"])
                yield found, table, self.reader
            found.counts[:] = counts  # the scan continues from the whole batch
        self._flush()

    def _live(self, batch: RecordBatch) -> None:
        survey, times = self.survey, batch["store_timestamp"]
        self.run_count += batch.record_count
        survey.record_count += batch.record_count
        survey.buckets.add(times, batch["total_size"].astype(np.int64))
        first, last = int(times[0]), int(times[-1])
        for at in range(len(survey.bad) - 1, -1, -1):
            if survey.bad[at].behind is not None:
                break
            survey.bad[at] = Bad(survey.bad[at].span, survey.bad[at].before, first)
        before = times[:1] if survey.last_timestamp is None else np.array([survey.last_timestamp], np.int64)
        steps = np.diff(np.concatenate([before, times]))
        rows = np.flatnonzero(steps >= GAP_MS)
        if len(rows):
            found = zip(steps[rows].tolist(), times[rows].tolist(), batch["pos"][rows].tolist(), strict=True)
            survey.gaps = sorted([*survey.gaps, *found], reverse=True)[: self.task.limits.gap_count]
        if survey.first_timestamp is None:
            survey.first_timestamp = first
        survey.last_timestamp = last

    def _region(self, region: Region) -> None:
        if region.kind is not RegionKind.RECORDS:
            self.waiting.append(region)  # what comes after it says whether it is live
            if len(self.waiting) > self.task.limits.damage_count:
                self._flush()
            return
        count, self.run_count = self.run_count, 0
        stale_pos = self.live.stale_pos
        if stale_pos is None or stale_pos >= region.end:
            self.strip.add(Span.of(region.start, region.end, "records", region.record_count))
            return
        if stale_pos > region.start:
            self.strip.add(Span.of(region.start, stale_pos, "records", count))
        left = region.record_count - count
        self.strip.add(Span.of(max(stale_pos, region.start), region.end, "stale", left))

    def _flush(self) -> None:
        """Regions between records, now that the records after them are known."""
        stale_pos, survey = self.live.stale_pos, self.survey
        for region in self.waiting:
            is_stale = stale_pos is not None and region.start >= stale_pos
            kind = "stale" if is_stale and region.kind is not RegionKind.ZERO else region.kind.value
            span = Span.of(region.start, region.end, kind)  # type: ignore[arg-type]
            self.strip.add(span)
            if kind in BAD:
                survey.bad_count += 1
                if len(survey.bad) < self.task.limits.damage_count:
                    survey.bad.append(Bad(span, survey.last_timestamp))
        self.waiting = []


def survey_index(task: IndexSurveyTask) -> IndexSurvey:
    """Kernel: count the slots and the lengths of the chains of an index file by its entries' hashes."""
    try:
        with IndexReader(task.file, task.geometry) as reader:
            return _index(reader)
    except StoreError as error:
        return IndexSurvey(error=str(error))


def _index(reader: IndexReader) -> IndexSurvey:
    if reader.slot_count > MAX_SLOTS or not reader.has_header:
        return IndexSurvey(error="the file has no header" if not reader.has_header else "too many slots")
    used = sum(int(np.count_nonzero(data.view(np.int32))) for _, data in reader.slot_blocks())
    lengths = np.zeros(reader.slot_count, np.int32)
    last = reader.used_entry
    for first in range(1, last + 1, BLOCK_COUNT):
        block = reader.entries(first, min(BLOCK_COUNT, last + 1 - first))
        slots = block["keyHash"].astype(np.int64) % reader.slot_count
        np.add.at(lengths, slots, 1)
    lengths = lengths[lengths > 0]
    places = np.ceil(np.log2(lengths)).astype(np.int64) if len(lengths) else np.zeros(0, np.int64)
    header = reader.header
    return IndexSurvey(
        reader.slot_count,
        used,
        reader.entry_count,
        last,
        int(lengths.max(initial=0)),
        tuple(np.bincount(places).tolist()) if len(places) else (),
        header.begin_timestamp,
        header.end_timestamp,
        header.begin_physical_offset,
        header.end_physical_offset,
    )
