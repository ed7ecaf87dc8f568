"""What a page needs of the commit log and the index, from one compiled pass over their files, on any engine.

    log file   -> strip of regions, damage in place and time, messages by queue and time, gaps in time
    index file -> slots in use, lengths of chains

A kernel is a top-level function of a small task; what comes back is bounded, whatever the files hold.
Reference 2, 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.page.buckets import TimeBuckets
from rocketfsck.page.limits import Limits
from rocketfsck.page.strips import BAD, Span, Strip
from rocketfsck.progress import part
from rocketfsck.query.counts.counting import StoreCounts, count_batches
from rocketfsck.reader.index import BLOCK_COUNT, IndexReader
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.log.regions import Region, RegionKind
from rocketfsck.scan.options import LogItem
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.model import IndexFile
from rocketfsck.store.reading import FileReader

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
