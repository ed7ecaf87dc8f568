"""The words for why bytes are not records, and the judgement on what lies between and after live records.

    file := live records and gaps, BLANK and filler | zeros | torn record | stale tail

A gap with live records after it is damage in the middle: a reader loses the boundary there (fault catalogue
C2), also at a record that only lacks a magic code, or passes over a record that its totalSize frames and that
is wrong inside (C10). A cut record with nothing after it is a torn tail (C1); a run of records of an earlier
life, and all that follows it, is a stale tail (C3). Reference 2.8, 6.2, 6.6.

Records with a magic code that no known broker writes: framed like records, but damage to every scan.

    damaged range := frame* rest        frame := totalSize:i32 magic:i32 …        one magic in the whole log

Reference 2.1; ADR 0011.

The live rows of one record batch as the checks see them: its columns, and places for findings.

What is wrong with records of a log that holds copies: compacted logs, segments of tiered storage.

One finding a record and reason; the columns are those of a scan (`scan.columns`). Reference 2.4.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.formats.magic import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketfsck.scan.columns import Fault, RecordBatch
from rocketfsck.scan.log.resync import NOT_FOUND, Reason, Region, RegionKind, find_candidate
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.spans import true_spans
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Facts, Where
from rocketfsck.verify.tasks.task import Collector, RegionTotal, Results, TaskResult, aggregate
from rocketfsck.verify.watched import LEAST_COUNT, SHARE

_FAULTS: tuple[tuple[Fault, str], ...] = (
    (Fault.SYS_FLAG | Fault.COMPRESSION_TYPE, "sysFlag has bits without a meaning"),
    (Fault.PORT, "a host has an impossible port"),
    (
        Fault.QUEUE_ID | Fault.QUEUE_OFFSET | Fault.PREPARED_OFFSET | Fault.BODY_SIZE | Fault.PROPERTIES_SIZE,
        "a field is negative",
    ),
    (
        Fault.TOPIC_EMPTY | Fault.TOPIC_CHARSET | Fault.TOPIC_SIZE | Fault.TOPIC_UTF8,
        "the topic name is impossible",
    ),
    (Fault.PROPERTY_NUL, "the properties contain NUL bytes"),
)


def odd_copies(
    batch: RecordBatch, table: QueueTable, topic: str, queue_id: int, log_name: str
) -> Iterator[tuple[Flags, str]]:
    """Which records of a batch have a fault, and which: pairs of flags, one a record, and a reason.

    `table` is that of the scan; the log holds one queue, and `log_name` is what the reason calls it.
    """
    own = (topic.encode("utf-8", "surrogateescape"), queue_id)
    rows = [row for row, name in enumerate(table.names) if name == own]
    faults = batch["faults"]
    yield ~np.isin(batch["queue_index"], rows), "the record belongs to another queue"
    yield (faults & Fault.PHYSICAL_OFFSET) != 0, f"physicalOffset is not the record's place in {log_name}"
    for bits, reason in _FAULTS:
        yield (faults & bits) != 0, reason


@dataclass(slots=True)
class LiveRows:
    """The records of a batch of the file `relative`, which begins at `base_offset`.

    Good only until the scan continues: the columns are views of the batch.
    """

    batch: RecordBatch
    table: QueueTable
    relative: str
    base_offset: int

    @property
    def count(self) -> int:
        return self.batch.record_count

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A record column, as a view."""
        return self.batch[name]

    @property
    def physical(self) -> Longs:
        """Where the records are in the log (not what their field says)."""
        offsets: Longs = self["pos"] + np.int64(self.base_offset)
        return offsets

    @property
    def in_index(self) -> Flags:
        """Whether dispatch indexes the record's keys (reference 8)."""
        flags: Flags = (self["sys_flag"] & TRANSACTION_MASK) != TRANSACTION_ROLLBACK
        return flags

    def topic(self, row: int) -> str | None:
        """The topic of a row as the name of a directory; None where the table has no room for it."""
        number = int(self["queue_index"][row])
        return os.fsdecode(self.table.names[number][0]) if number >= 0 else None

    def place(self, row: int, last_row: int | None = None) -> Where:
        """Where a record is, or the run of records from `row` to `last_row`."""
        last = row if last_row is None else last_row
        pos, end = int(self["pos"][row]), int(self["pos"][last]) + int(self["total_size"][last])
        queue_id, queue_offset = int(self["queue_id"][row]), int(self["queue_offset"][row])
        place = (pos, end, self.base_offset + pos)
        return Where(self.relative, *place, self.topic(row), queue_id, queue_offset)


def no_facts(row: int) -> Facts:
    """Nothing to say of a row."""
    del row
    return {}


def add_runs(
    collector: Collector,
    rule: str,
    rows: LiveRows,
    flags: Flags,
    found: Callable[[int], Facts] = no_facts,
    expected: Callable[[int], Facts] = no_facts,
) -> None:
    """One finding for every run of flagged rows, with the facts of its first row; many runs are counted."""
    starts, ends = true_spans(flags)
    limit = collector.room(rule, rows.relative)
    for start, end in zip(starts[:limit].tolist(), ends[:limit].tolist(), strict=True):
        collector.find(rule, rows.place(start, end - 1), found(start), expected(start), count=end - start)
    rest = int((ends[limit:] - starts[limit:]).sum())
    if rest:
        collector.add(aggregate(rule, rows.relative, rest))


MAX_BAD_RANGES = 1 << 16
FILLER_PROBE_SIZE = 1 << 20

DAMAGED, EMPTY, STALE = 1, 2, 3
"""Codes of bad ranges: damaged bytes; zeros, BLANK and filler; records of an earlier life of the log."""

REASONS = {
    Reason.NONE: "the bytes do not begin like a record",
    Reason.END: "the file ends",
    Reason.ZERO: "all bytes are zero",
    Reason.BLANK: "a BLANK",
    Reason.BLANK_SIZE: "a BLANK that does not end with the file",
    Reason.MAGIC: "no known magic code",
    Reason.SIZE: "totalSize is impossible",
    Reason.LENGTHS: "the lengths do not add up to totalSize",
    Reason.BODY_LENGTH: "bodyLength runs past the record",
    Reason.TOPIC_LENGTH: "topicLength runs past the record or is negative",
    Reason.PROPERTIES_LENGTH: "propertiesLength runs past the record",
    Reason.SHORT: "too few bytes for a header",
    Reason.CUT: "the file ends before the record does",
    Reason.GARBAGE: "the bytes follow zeros and do not start a record",
}


@dataclass(frozen=True, slots=True)
class BadRanges:
    """Ranges of a file (positions, in order) that hold no live records, with their codes."""

    start: Longs
    end: Longs
    code: Longs


@dataclass(slots=True)
class RegionJudge:
    """Takes the regions of a file in order and says what is wrong between the live records.

    `live_end` is the file position after the last live record or BLANK header; `live_count` counts live
    records, `stale_start` is where an earlier life of the log begins, if one does.
    """

    relative: str
    base_offset: int
    reader: FileReader
    collector: Collector
    in_entries: bool
    _gap: list[Region] = field(default_factory=list)
    _blank: Region | None = None
    _bad: list[tuple[int, int, int]] = field(default_factory=list)
    _totals: dict[str, list[int]] = field(default_factory=dict)
    _stale_records: int = 0
    _stale_bytes: int = 0
    _stale_end: int = 0
    live_end: int = 0
    live_count: int = 0
    stale_start: int | None = None
    damaged: bool = False
    ends_with_blank: bool = False

    @property
    def after_gap(self) -> bool:
        """Whether bytes that are not a record, framed or not, lie in front of the position reached."""
        return any(region.kind != RegionKind.MALFORMED for region in self._gap)

    def live_records(self, region: Region, count: int, end: int) -> None:
        """A run of records of which `count` live ones end at `end`; the rest of it is stale."""
        if count:
            self._close_gap(region, count)
            self._total("records", end - region.start, count)
            self.live_end, self.live_count = end, self.live_count + count
            self.ends_with_blank = False
        if end < region.end:
            self._start_stale(end)
            self._take_stale(
                Region(end, region.end, RegionKind.STALE, record_count=region.record_count - count)
            )

    def other(self, region: Region) -> None:
        """Any region that holds no records."""
        if self.stale_start is not None and region.kind != RegionKind.ZERO:
            self._take_stale(region)
            return
        if region.kind == RegionKind.BLANK:
            self._total(region.kind, region.size, 0)
            self._close_gap(None, 0)
            self._blank = region
            self._judge_blank(region)
            self._mark(region, EMPTY)
            self.live_end, self.ends_with_blank = region.end, True
        elif region.kind == RegionKind.FILLER:
            self._total(region.kind, region.size, 0)
            self._mark(region, EMPTY)
            self._judge_filler(region)
        else:
            self._gap.append(region)
            if region.kind == RegionKind.MALFORMED and not _stops_readers(region):
                self._malformed(region)

    def finish(self) -> None:
        """The end of the file: what is left is a tail."""
        tail = [region for region in self._gap if region.kind != RegionKind.MALFORMED]
        for region in self._gap:
            self._total(region.kind, region.size, region.record_count)
            self._mark(region, EMPTY if region.kind == RegionKind.ZERO else DAMAGED)
            if region.kind == RegionKind.MALFORMED and _stops_readers(region):
                self._malformed(region)  # nothing live follows it
        self._gap = []
        if self.stale_start is not None:
            where = self._place(self.stale_start, self._stale_end)
            found = {"record_count": self._stale_records, "byte_count": self._stale_bytes}
            self.collector.find(RuleName.STALE_TAIL, where, found)
            return
        dirty = [region for region in tail if region.kind != RegionKind.ZERO]
        if not dirty:
            return
        start, end = dirty[0].start, dirty[-1].end
        if dirty[0].kind == RegionKind.TORN:
            rule = RuleName.LOG_TORN_TAIL
            self.damaged = True
        elif self.live_count or self.ends_with_blank:
            rule = RuleName.BYTES_BEHIND_END
        else:
            rule = RuleName.LOG_NO_RECORDS
            self.damaged = True
        found_facts: Facts = {"byte_count": end - start, "reason": REASONS[dirty[0].reason]}
        self.collector.find(rule, self._place(start, end), found_facts)

    def bad_ranges(self) -> BadRanges:
        """Every range that holds no live record, as far as they were kept."""
        columns = np.array(sorted(self._bad), np.int64).reshape(-1, 3)
        return BadRanges(columns[:, 0].copy(), columns[:, 1].copy(), columns[:, 2].copy())

    def totals(self) -> tuple[RegionTotal, ...]:
        """Regions, bytes and records by kind; the bytes sum up to the file."""
        return tuple(RegionTotal(kind, *numbers) for kind, numbers in sorted(self._totals.items()))

    def begin_stale(self, pos: int) -> None:
        """Records of an earlier life begin at `pos`, behind a gap that belongs to it."""
        self._start_stale(self._gap[0].start if self._gap else pos)
        for region in self._gap:
            self._take_stale(region)
        self._gap = []

    def _start_stale(self, pos: int) -> None:
        if self.stale_start is None:
            self.stale_start = pos

    def _take_stale(self, region: Region) -> None:
        self._total("stale", region.size, region.record_count)
        self._mark(region, STALE)
        self._stale_records += region.record_count
        self._stale_bytes += region.size
        self._stale_end = region.end

    def _close_gap(self, following: Region | None, count: int) -> None:
        """Live records, or a BLANK, follow the gap."""
        blank, self._blank = self._blank, None
        gap, self._gap = self._gap, []
        for region in gap:
            self._total(region.kind, region.size, region.record_count)
            self._mark(region, DAMAGED)
        if blank is not None and following is not None:
            self.damaged = True
            where = self._place(blank.start, following.start)
            found = {"byte_count": following.end - blank.end, "record_count": count}
            self.collector.find(RuleName.BLANK_TOO_EARLY, where, found)
            return
        lost = [region for region in gap if region.kind != RegionKind.MALFORMED or _stops_readers(region)]
        if lost:
            self.damaged = True
            start, end = lost[0].start, lost[-1].end
            head = self.reader.read_upto(start, 8)
            found_facts: Facts = {
                "byte_count": end - start,
                "reason": REASONS[Reason.ZERO if lost[0].kind == RegionKind.ZERO else lost[0].reason],
                "first_bytes_hex": head.hex(),
                "next_physical_offset": self.base_offset + end,
                "next_record_count": count,
            }
            self.collector.find(RuleName.LOG_BOUNDARY_LOST, self._place(start, end), found_facts)

    def _malformed(self, region: Region) -> None:
        self.damaged = True
        found: Facts = {"byte_count": region.size, "reason": REASONS[region.reason]}
        self.collector.find(RuleName.RECORD_MALFORMED, self._place(region.start, region.end), found)

    def _judge_blank(self, region: Region) -> None:
        if region.reason == Reason.BLANK_SIZE:
            at = region.start + (4 if self.in_entries else 0)  # a blank of DLedger's: its size comes last
            total_size = int.from_bytes(self.reader.read(at, 4), "big", signed=True)
            left = self.reader.size - region.start
            where = self._place(region.start, region.end)
            self.collector.find(RuleName.BLANK_SIZE, where, {"size": total_size}, {"size": left})

    def _judge_filler(self, region: Region) -> None:
        """Filler is arbitrary bytes, but records that know their place were not filler once."""
        size = min(region.size, FILLER_PROBE_SIZE)
        data = np.frombuffer(self.reader.read(region.start, size), np.uint8)
        base, file_size = self.base_offset, self.reader.size
        found = find_candidate(data, 0, size, region.start, base, base, file_size, file_size)
        if found != NOT_FOUND and bytes(data[found + 4 : found + 7]) == b"\xda\xa3\x20":
            where = self._place(region.start, region.end)
            facts: Facts = {"byte_count": region.size, "record_count": None}
            self.collector.find(RuleName.BLANK_TOO_EARLY, where, facts)

    def _mark(self, region: Region, code: int) -> None:
        if len(self._bad) < MAX_BAD_RANGES:
            self._bad.append((region.start, region.end, code))

    def _total(self, kind: str, size: int, record_count: int) -> None:
        numbers = self._totals.setdefault(str(kind), [0, 0, 0])
        numbers[0] += 1
        numbers[1] += size
        numbers[2] += record_count

    def _place(self, start: int, end: int) -> Where:
        return Where(self.relative, start, end, physical_offset=self.base_offset + start)


def _stops_readers(region: Region) -> bool:
    """Whether a broker reads no further than these bytes: without a magic code it looks at no totalSize."""
    return region.reason == Reason.MAGIC


FRAME_LIMIT = 200_000
"""Frames that are gone through: what follows them is taken to be like them."""
_HEAD = 8
_LEAST_SIZE = 48
_KNOWN = frozenset({MAGIC_V1, MAGIC_V2, MAGIC_BLANK, 0})
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class UnknownFrames:
    """The records of one unknown `magic`: `spans` are their physical offsets, half-open and in order; `file`
    has the first."""

    magic: int
    file: str
    record_count: int
    byte_count: int
    spans: tuple[Span, ...]

    def holds(self, physical_offset: int | None) -> bool:
        """Whether a place of the log is among them; None is in no place."""
        if physical_offset is None:
            return False
        number = bisect_right(self.spans, physical_offset, key=itemgetter(0)) - 1
        return number >= 0 and physical_offset < self.spans[number][1]


def unknown_frames(store: Store, logs: Results) -> UnknownFrames | None:
    """The records of the one unknown magic that the damaged ranges of a log consist of, if they do."""
    magics: dict[int, list[tuple[int, Span, str]]] = {}
    bad_count = walked = 0
    for file, log in zip(store.commitlog.files, logs, strict=True):
        if log is None or file.start_offset is None:
            continue
        for start, end in _damaged(log):
            if walked >= FRAME_LIMIT:
                break
            magic, count, stop = _walk(file, start, end, FRAME_LIMIT - walked)
            walked += count
            bad_count += end - start
            if count and magic is not None:
                base = file.start_offset
                magics.setdefault(magic, []).append((count, (base + start, base + stop), file.relative))
    if not magics:
        return None
    magic, found = max(magics.items(), key=lambda item: sum(row[0] for row in item[1]))
    record_count = sum(row[0] for row in found)
    byte_count = sum(high - low for _, (low, high), _ in found)
    if record_count < LEAST_COUNT or byte_count < SHARE * bad_count:
        return None
    return UnknownFrames(magic, found[0][2], record_count, byte_count, tuple(sorted(row[1] for row in found)))


def _damaged(log: TaskResult) -> Iterator[Span]:
    """The damaged ranges of a file, by position."""
    bad = log.summary.bad
    for start, end, code in zip(bad.start.tolist(), bad.end.tolist(), bad.code.tolist(), strict=True):
        if code == DAMAGED:
            yield start, end


def _walk(file: MappedFile, start: int, end: int, limit: int) -> tuple[int | None, int, int]:
    """The magic of the frames that follow each other from `start`, their number, and where they end."""
    known: int | None = None
    pos, count = start, 0
    try:
        with FileReader(file.location) as reader:
            while count < limit and pos + _HEAD <= end:
                head = reader.read(pos, _HEAD)
                size, magic = (int.from_bytes(head[at : at + 4], "big", signed=True) for at in (0, 4))
                if magic in _KNOWN or (known is not None and magic != known) or size < _LEAST_SIZE:
                    break
                if pos + size > end:
                    break
                known, pos, count = magic, pos + size, count + 1
    except StoreError:
        return None, 0, start
    return known, count, pos
