"""Checks the queues of tiered storage: records, units, and what the store itself has of them. Ref. 1.10.

    record: sound, at its place, of its queue         TS010, TS011
    unit -> record                                    TS012
    record -> unit                                    TS013
    record == the commit log's of that queue offset   TS014
    coda                                              TS015
    begin and end of a segment in the metadata        TS007

The scan that reads the commit log reads a segment, too: a record's physicalOffset is its place in the
queue's own log. A record may be there twice, if it was written and its unit was not; the unit has the later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.formats import consumequeue, dtypes, tiered
from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2
from rocketfsck.reader.tiered import SegmentRow, TieredQueue, heads_at
from rocketfsck.reader.units import StreamReader, UnitReader, Units, read_data_blocks
from rocketfsck.scan.columns import Fault, RecordBatch
from rocketfsck.scan.log.resync import Reason, Region, RegionKind
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.spans import true_spans
from rocketfsck.store.model import ConsumeQueue, MappedFile, MappedFileQueue
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Facts, Finding, Findings, Where
from rocketfsck.verify.log.regions import odd_copies
from rocketfsck.verify.tasks.task import Context
from rocketfsck.verify.tiered.indexheaders import QueueKeys

BLOCK = 1 << 15
"""Units that are looked at together."""

_ZEROS = "the unit is all zeros"
_NO_LOG = "the queue has no log"

_SAME = ("totalSize", "magicCode", "bodyCRC", "flag", "queueOffset")
"""What a record of the commit log and its copy have in common, of the fields in front of their bodies."""


@dataclass(slots=True)
class _Times:
    """The first, last, least and greatest storeTimestamp that belong to a segment (ms)."""

    first: int = tiered.NO_TIMESTAMP
    last: int = tiered.NO_TIMESTAMP
    least: int = tiered.NO_TIMESTAMP
    greatest: int = -1

    def add(self, times: dtypes.Longs) -> None:
        if not len(times):
            return
        if self.greatest < 0:
            self.first = int(times[0])
        self.last = int(times[-1])
        self.least, self.greatest = min(self.least, int(times.min())), max(self.greatest, int(times.max()))


class _WrongUnits(NamedTuple):
    """Units `first:behind`, which are wrong in the same way; the first one points to `offset`."""

    first: int
    behind: int
    offset: int
    reason: str


@dataclass(slots=True)
class QueueWalk:
    """One pass over the segments of a queue; `rows` are the metadata's of its log and of its units."""

    context: Context
    queue: TieredQueue
    log_rows: Mapping[int, SegmentRow]
    unit_rows: Mapping[int, SegmentRow]
    keys: QueueKeys | None = None
    record_count: int = 0
    unit_count: int = 0
    _unit_times: list[_Times] = field(default_factory=list)
    _unit_met: list[int] = field(default_factory=list)

    def run(self) -> Findings:
        """The findings, the log's first."""
        self._unit_times = [_Times() for _ in self.queue.units.files]
        self._unit_met = [0 for _ in self.queue.units.files]
        with StreamReader(self.queue.log) as log, unit_reader(self.queue) as units:
            for file in self.queue.log.files:
                yield from self._file(file, units)
            yield from self._units(log, units)
            if not self.context.store.has_entries:
                yield from self._local(log, units)
        for number, file in enumerate(self.queue.units.files):
            row = self.unit_rows.get(file.start_offset or 0)
            if row is not None and row.size == file.size == self._unit_met[number] * consumequeue.UNIT_SIZE:
                yield from _compare_times(file, row, self._unit_times[number])

    def _file(self, file: MappedFile, units: StreamReader) -> Findings:
        """The records of a log segment, each against the unit of its queue offset."""
        base = file.start_offset or 0
        store = self.context.store
        table, times, sound = QueueTable(), _Times(), True
        options = ScanOptions(self.context.level == "full", store.dialect.property_parser, file.size)
        with FileReader(file.location) as reader:
            for item in scan_log_file(reader, base, options, table):
                if isinstance(item, Region):
                    found = list(self._region(file, reader, item, times))
                    sound = sound and not found
                    yield from found
                    continue
                self.record_count += item.record_count
                times.add(item["store_timestamp"].astype(np.int64))
                yield from self._records(file, item, table)
                yield from self._join(file, item, units)
                if self.keys is not None:
                    self.keys.add(item, base)
        row = self.log_rows.get(base)
        if row is not None and row.size == file.size and sound and times.greatest >= 0:
            yield from _compare_times(file, row, times)

    def _region(self, file: MappedFile, reader: FileReader, region: Region, times: _Times) -> Findings:
        """Bytes that are not records: only a coda may be there."""
        if region.kind in (RegionKind.RECORDS, RegionKind.FILLER):
            return
        if region.kind is RegionKind.BLANK and region.reason is not Reason.BLANK_SIZE:
            data = reader.read_upto(region.start, tiered.TIERED_CODA.size)
            coda = tiered.TIERED_CODA.parse(data) if len(data) == tiered.TIERED_CODA.size else {"size": 0}
            if coda["size"] == tiered.TIERED_CODA.size == file.size - region.start:
                if coda["maxStoreTimestamp"] not in (times.last, times.greatest):
                    where, stated = self._place(file, region.start, file.size), coda["maxStoreTimestamp"]
                    found: Facts = {"timestamp": stated}
                    yield Finding(RuleName.TIERED_CODA, where, found, {"timestamp": times.greatest})
                return
        found = {"reason": f"{region.kind}, {region.reason}".rstrip(", ")}
        yield Finding(RuleName.TIERED_RECORD, self._place(file, region.start, region.end), found)

    def _records(self, file: MappedFile, batch: RecordBatch, table: QueueTable) -> Findings:
        topic, queue_id = self.queue.topic, self.queue.queue_id
        for wrong, text in odd_copies(batch, table, topic, queue_id, "this log"):
            for row in np.flatnonzero(wrong)[:BLOCK].tolist():
                yield Finding(RuleName.TIERED_RECORD, self._record(file, batch, row), {"reason": text})
        if self.context.level == "full":
            self.context.shared.ask(RuleName.TIERED_BODY_CRC, batch.record_count)
        for row in np.flatnonzero(batch["faults"] & (Fault.BODY_CRC | Fault.BODY_CRC_NEGATIVE)).tolist():
            crc: Facts = {"crc": int(batch["body_crc"][row])}
            yield Finding(RuleName.TIERED_BODY_CRC, self._record(file, batch, row), crc)

    def _join(self, file: MappedFile, batch: RecordBatch, units: StreamReader) -> Findings:
        """Each record has a unit at its queue offset; where that points here, it says the same."""
        queue_offset = batch["queue_offset"].astype(np.int64)
        sound = (queue_offset >= 0) & (queue_offset < tiered.NO_TIMESTAMP // consumequeue.UNIT_SIZE)
        index = np.where(sound, queue_offset, -1) * consumequeue.UNIT_SIZE
        end = units.end // consumequeue.UNIT_SIZE * consumequeue.UNIT_SIZE
        behind = np.flatnonzero(sound & (index >= end))
        if len(behind):
            where = self._record(file, batch, int(behind[0]))
            yield Finding(RuleName.TIERED_RECORD_WITHOUT_UNIT, where, count=len(behind))
        rows = units.gather(index, dtypes.UNIT_DTYPE)
        place = batch["pos"].astype(np.int64) + (file.start_offset or 0)
        here = (rows["offset"] == place) & (index >= units.start) & (index < end)
        # Up to 5.2.0, the unit of a segment's first record has the place of the coda in front of it.
        here |= (rows["offset"] == place - tiered.TIERED_CODA.size) & (batch["pos"] == 0) & (place > 0)
        for name, column in (("size", "total_size"), ("tagsCode", "tags_code")):
            for row in np.flatnonzero(here & (rows[name] != batch[column])).tolist():
                text = f"{name} is {int(rows[name][row])}, but the record has {int(batch[column][row])}"
                offset = int(queue_offset[row])
                yield self._unit(offset, int(rows["offset"][row]), text)
        self._count(index[here], batch["store_timestamp"].astype(np.int64)[here])

    def _count(self, places: dtypes.Longs, times: dtypes.Longs) -> None:
        """Note when the records of units were stored, by the segment of the units."""
        starts = np.array([file.start_offset or 0 for file in self.queue.units.files], np.int64)
        number = np.searchsorted(starts, places, "right") - 1
        for which in np.unique(number).tolist():
            self._unit_times[which].add(times[number == which])
            self._unit_met[which] += int(np.count_nonzero(number == which))

    def _units(self, log: StreamReader, units: UnitReader) -> Findings:
        """Each unit points to a record of its queue offset. The log may begin later: its segments expire
        on their own. Neighbours that are wrong in the same way are one finding."""
        for run in self._joined(self._wrong(log, units)):
            yield self._unit(run.first, run.offset, run.reason, run.behind - run.first)
        for file in self.queue.units.files:
            if file.size % consumequeue.UNIT_SIZE:
                start = file.size - file.size % consumequeue.UNIT_SIZE
                text = f"{count_of(file.size - start, 'byte')}, less than a unit"
                offset = ((file.start_offset or 0) + start) // consumequeue.UNIT_SIZE
                found: Facts = {"offset": None, "reason": text}
                yield Finding(RuleName.TIERED_UNIT, self._place(file, start, file.size, offset), found)

    def _wrong(self, log: StreamReader, units: UnitReader) -> Iterator[_WrongUnits]:
        """What is wrong, in order of the units; holes are not read."""
        for first, count, rows in read_data_blocks(units, BLOCK):
            self.unit_count += count
            self.context.shared.ask(RuleName.TIERED_UNIT, count)
            if rows is None:
                yield _WrongUnits(first, first + count, 0, _ZEROS if log.files else _NO_LOG)
                continue
            index = np.arange(first, first + count, dtype=np.int64)
            places = rows["offset"].astype(np.int64)
            kept = places >= log.start if len(log.files) else np.zeros(count, np.bool_)
            _, heads = heads_at(log, places)
            magic = (heads["magicCode"] == MAGIC_V1) | (heads["magicCode"] == MAGIC_V2)
            other = (heads["queueOffset"] != index) | (heads["queueId"] != self.queue.queue_id)
            other_size = heads["totalSize"] != rows["size"]
            tests: list[tuple[dtypes.Flags, str]] = [
                (_is_zero(rows), _ZEROS),
                (places < 0, "the offset is negative"),
                (kept & (places >= log.end), "that offset is beyond the end of the log"),
                (kept & (places < log.end) & ~magic, "no record begins there"),
                (kept & magic & other, "another message is there"),
                (kept & magic & other_size, "the unit has another size than the record"),
            ]
            if not len(log.files):
                tests = [(np.ones(count, np.bool_), _NO_LOG)]
            found: list[_WrongUnits] = []
            done = np.zeros(count, np.bool_)
            for wrong, text in tests:
                starts, ends = true_spans(wrong & ~done)
                for low, high in zip(starts.tolist(), ends.tolist(), strict=True):
                    found.append(_WrongUnits(first + low, first + high, int(places[low]), text))
                done |= wrong
            yield from sorted(found)

    def _joined(self, runs: Iterator[_WrongUnits]) -> Iterator[_WrongUnits]:
        """The same units in the fewest runs of one file each."""
        edges = {-(-(file.start_offset or 0) // consumequeue.UNIT_SIZE) for file in self.queue.units.files}
        last: _WrongUnits | None = None
        for run in runs:
            if last is None:
                last = run
            elif (last.behind, last.reason) == (run.first, run.reason) and run.first not in edges:
                last = last._replace(behind=run.behind)
            else:
                yield last
                last = run
        if last is not None:
            yield last

    def _local(self, log: StreamReader, units: UnitReader) -> Findings:
        """The messages that the commit log still has, too, are the same there."""
        store = self.context.store
        own = [
            queue
            for queue in store.queues
            if (queue.topic, queue.queue_id, queue.kind) == (self.queue.topic, self.queue.queue_id, "file")
        ]
        for queue in own:
            with StreamReader(queue.mapped_files) as near, StreamReader(store.commitlog) as commitlog:
                for first, _, rows in read_data_blocks(units, BLOCK):
                    if rows is None:
                        continue
                    index = np.arange(first, first + len(rows), dtype=np.int64)
                    local = near.gather(index * consumequeue.UNIT_SIZE, dtypes.UNIT_DTYPE)
                    _, heads = heads_at(log, rows["offset"].astype(np.int64))
                    theirs = commitlog.gather(local["offset"].astype(np.int64), dtypes.RECORD_HEAD_DTYPE)
                    both = (local["size"] > 0) & _is_message(heads) & _is_message(theirs)
                    both &= (theirs["queueOffset"] == index) & (heads["queueOffset"] == index)
                    both &= theirs["physicalOffset"] == local["offset"]
                    differs = np.zeros(len(rows), np.bool_)
                    for name in _SAME:
                        differs |= heads[name] != theirs[name]
                    for row in np.flatnonzero(both & differs).tolist():
                        place = int(rows["offset"][row])
                        yield self._differs(int(index[row]), place, heads[row], theirs[row])

    def _differs(self, offset: int, place: int, head: np.void, theirs: np.void) -> Finding:
        name = next(name for name in _SAME if head[name] != theirs[name])
        file = _file_of(self.queue.log.files, place)
        start = place - (file.start_offset or 0)
        found: Facts = {"field": name, "value": int(head[name])}
        wanted: Facts = {"value": int(theirs[name]), "offset": int(theirs["physicalOffset"])}
        where = self._place(file, start, start + int(head["totalSize"]), offset)
        return Finding(RuleName.TIERED_NOT_AS_LOCAL, where, found, wanted)

    def _unit(self, queue_offset: int, offset: int, reason: str, count: int = 1) -> Finding:
        file = _file_of(self.queue.units.files, queue_offset * consumequeue.UNIT_SIZE)
        start = queue_offset * consumequeue.UNIT_SIZE - (file.start_offset or 0)
        if count > 1:
            reason += f"; the same is true of {count_of(count - 1, 'more unit')} after it"
        found: Facts = {"offset": offset, "reason": reason}
        where = self._place(file, start, start + count * consumequeue.UNIT_SIZE, queue_offset)
        return Finding(RuleName.TIERED_UNIT, where, found, count=count)

    def _record(self, file: MappedFile, batch: RecordBatch, row: int) -> Where:
        start = int(batch["pos"][row])
        end = start + int(batch["total_size"][row])
        return self._place(file, start, end, int(batch["queue_offset"][row]))

    def _place(self, file: MappedFile, start: int, end: int, queue_offset: int | None = None) -> Where:
        queue = self.queue
        return Where(file.relative, start, end, None, queue.topic, queue.queue_id, queue_offset)


def unit_reader(queue: TieredQueue) -> UnitReader:
    """The units of a queue. Where segments overlap, the later one has what both have."""
    starts = [file.start_offset or 0 for file in queue.units.files]
    sizes = [max(following - start, 0) for start, following in pairwise(starts)]
    files = [
        replace(file, size=min(file.size, size))
        for file, size in zip(queue.units.files, [*sizes, tiered.NO_TIMESTAMP], strict=False)
    ]
    units = MappedFileQueue(queue.units.locations, queue.units.file_size, tuple(files))
    return UnitReader(ConsumeQueue(queue.topic, queue.queue_id, "file", units))


def _is_zero(units: Units) -> dtypes.Flags:
    found: dtypes.Flags = (units["offset"] == 0) & (units["size"] == 0) & (units["tagsCode"] == 0)
    return found


def _is_message(heads: NDArray[Any]) -> dtypes.Flags:
    found: dtypes.Flags = (heads["magicCode"] == MAGIC_V1) | (heads["magicCode"] == MAGIC_V2)
    return found


def _file_of(files: Sequence[MappedFile], place: int) -> MappedFile:
    """The last file that begins at or before a place of the stream."""
    found = files[0]
    for file in files:
        if (file.start_offset or 0) <= place:
            found = file
    return found


def _compare_times(file: MappedFile, row: SegmentRow, times: _Times) -> Findings:
    stated = (
        ("beginTimestamp", row.begin_timestamp, (times.least, times.first)),
        ("endTimestamp", row.end_timestamp, (times.greatest, times.last)),
    )
    for name, value, right in stated:
        if value not in right:
            where = Where(file.relative)
            yield Finding(
                RuleName.TIERED_SEGMENT_TIME, where, {"field": name, "value": value}, {"value": right[0]}
            )
