"""Checks the compacted logs of a store: records, units, keys, positions. Reference 1.9.

    record: sound, at its place, in its queue    KV003, KV004
    unit -> record, record -> unit               KV005, KV006
    queue offsets rise                           KV007
    a key once, up to the position               KV008, KV009

The scan that reads the commit log reads a log file, too: a
record's physicalOffset is its place here.

Checks the files of the compacted logs, not their records: names, lengths, leftovers, positions. Ref. 1.9.

log file  <--same name-->  unit file         KV001, KV002
compacting/, replicating/                    KV010
position-checkpoint, else its .bak           KV009
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import consumequeue, dtypes, properties
from rocketfsck.reader import compaction
from rocketfsck.reader.configs import compacted_topics
from rocketfsck.reader.records import LogReader
from rocketfsck.scan.columns import KEY_WORD, Fault, RecordBatch
from rocketfsck.scan.log.resync import Reason, Region, RegionKind
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.spans import group_bounds
from rocketfsck.store.model import MappedFile, OtherKind, Store, StoreFile
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Facts, Finding, Findings, Where
from rocketfsck.verify.log.regions import odd_copies
from rocketfsck.verify.report import Items, NotChecked
from rocketfsck.verify.tasks.task import Context, Known, capped


def check_positions(store: Store, positions: dict[str, int]) -> Items:
    """`position-checkpoint`, else its .bak, whose content goes to `positions`."""
    others = (other for other in store.others if other.kind is OtherKind.COMPACTION_CHECKPOINT)
    files = {file.name: file for other in others for file in other.files}
    file, backup = files.get("position-checkpoint"), files.get("position-checkpoint.bak")
    for which in (file, backup):
        if which is None:
            continue
        try:
            positions.update(compaction.read_positions(which))
        except FormatError as error:
            found: Facts = {"queue": "any queue", "reason": str(error), "offset": "nothing"}
            yield Finding(RuleName.COMPACTION_POSITION, Where(which.relative, error.offset), found)
        except StoreError as error:
            yield NotChecked(which.relative, str(error), operational=True)
        else:
            return


def check_files(queue: compaction.CompactedQueue) -> Findings:
    """A log file without its unit file or the reverse, lengths, and what broken work left behind."""
    for side, one, other in (("unit", queue.log, queue.units), ("log", queue.units, queue.log)):
        names = {file.name for file in other.files}
        for file in one.files:
            if file.name not in names:
                alone = {"missing": f"{side} file"}
                yield Finding(RuleName.COMPACTION_FILE_ALONE, place_of(queue, file), alone)
            if file.size != one.file_size:
                where, size, wanted = place_of(queue, file), {"size": file.size}, {"size": one.file_size}
                yield Finding(RuleName.COMPACTION_FILE_LENGTH, where, size, wanted)
    for left in queue.leftovers:
        where = Where(left.relative, topic=queue.topic, queue_id=queue.queue_id)
        yield Finding(RuleName.COMPACTION_LEFTOVER, where, {"size": left.size})


def place_of(
    queue: compaction.CompactedQueue,
    file: StoreFile,
    start: int | None = None,
    end: int | None = None,
    queue_offset: int | None = None,
) -> Where:
    """Where something in a file of a compacted queue is: positions in the file, and the queue offset."""
    return Where(file.relative, start, end, None, queue.topic, queue.queue_id, queue_offset)


MAX_KEYED = 8 << 20
"""Records of one queue whose keys are compared: 24 bytes each are kept."""

_COMPARED = (
    ("size", "total_size"),
    ("tagsCode", "tags_code"),
    ("storeTime", "store_timestamp"),
    ("msgBaseOffset", "queue_offset"),
)
_CONSTANT = (("batchSize", 1), ("compactedOffset", -1), ("reserved", 0))
_HASH = np.uint64(0x9E3779B97F4A7C15)


def check_compaction(context: Context, known: Known) -> Items:
    """All compacted logs; at the level quick only what files there are, and the positions."""
    queues = compaction.compacted_queues(context.store)
    yield from _check_missing(context.store, queues, known)
    has_positions = any(
        other.files for other in context.store.others if other.kind is OtherKind.COMPACTION_CHECKPOINT
    )
    positions: dict[str, int] = {}
    yield from check_positions(context.store, positions)
    for queue in queues:
        yield from check_files(queue)
        if context.level == "quick":
            continue
        try:
            position = positions.get(compaction.position_name(queue.topic, queue.queue_id))
            walk = _CompactionWalk(context, queue, position, has_positions)
            yield from capped(walk.run(), context.detail_limit)
            if walk.left_out:
                reason = f"keys are compared for the first {MAX_KEYED:,} records only"
                yield NotChecked(queue.log.files[0].relative, reason)
        except StoreError as error:
            yield NotChecked(error.path or "compaction", str(error), operational=True)


def _check_missing(store: Store, queues: Sequence[compaction.CompactedQueue], known: Known) -> Findings:
    """Queues of compaction topics that have units, and no compacted log to be served from."""
    if not store.dialect.compaction or not store.settings.flag("enableCompaction", True):
        return
    there = {(queue.topic, queue.queue_id) for queue in queues}
    topics = compacted_topics(store)
    for (topic, queue_id), queue in sorted(known.queues.items()):
        if topic in topics and queue.unit_count and (topic, queue_id) not in there:
            where = Where(f"consumequeue/{topic}/{queue_id}", topic=topic, queue_id=queue_id)
            yield Finding(RuleName.COMPACTION_MISSING, where, {"unit_count": queue.unit_count})


@dataclass(slots=True)
class _Keys:
    """A number for the keys of each record met, its queue offset, and its place in the log."""

    numbers: list[NDArray[np.uint64]] = field(default_factory=list)
    offsets: list[dtypes.Longs] = field(default_factory=list)
    places: list[dtypes.Longs] = field(default_factory=list)
    count: int = 0

    def add(self, batch: RecordBatch, base: int, position: int) -> None:
        """The records of a batch that were compacted, which are those up to the position."""
        words = batch["key_kind"] == KEY_WORD
        record = batch["key_record"][words].astype(np.int64)
        mixed = (batch["key_hash"][words].astype(np.uint64) << np.uint64(20)) ^ batch["key_size"][
            words
        ].astype(np.uint64)
        numbers = np.zeros(batch.record_count, np.uint64)
        nth = np.arange(len(record), dtype=np.int64) - np.searchsorted(record, record)
        np.add.at(numbers, record, mixed * _HASH * (nth.astype(np.uint64) * np.uint64(2) + np.uint64(1)))
        compacted = np.flatnonzero((batch["queue_offset"] <= position) & (numbers != 0))
        self.numbers.append(numbers[compacted])
        self.offsets.append(batch["queue_offset"][compacted].astype(np.int64))
        self.places.append(batch["pos"][compacted].astype(np.int64) + base)
        self.count += len(compacted)

    def twice(self) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Pairs of (queue offset, place) of records with the same number, earlier offset first."""
        if not self.count:
            return
        numbers = np.concatenate(self.numbers)
        offsets, places = np.concatenate(self.offsets), np.concatenate(self.places)
        order = np.lexsort((offsets, numbers))
        for low, high in pairwise(group_bounds(numbers[order]).tolist()):
            for one, other in pairwise(order[low:high].tolist()):
                yield (int(offsets[one]), int(places[one])), (int(offsets[other]), int(places[other]))


@dataclass(slots=True)
class _UnitFile:
    """The units in use of one file: `places` in the log file are where they point, `met` says at a record."""

    file: MappedFile
    rows: compaction.Units
    places: dtypes.Longs
    met: NDArray[np.bool_]


@dataclass(slots=True)
class _CompactionWalk:
    """One pass over a queue's files, in order of their names."""

    context: Context
    queue: compaction.CompactedQueue
    position: int | None
    has_positions: bool
    compacted_at: int | None = None
    previous: int = -1
    last_offset: int = -1
    left_out: bool = False
    keys: _Keys = field(default_factory=_Keys)

    def run(self) -> Findings:
        for file in self.queue.log.files:
            unit_file = self.queue.unit_file(file.name)
            used = None
            if unit_file is not None:
                units = compaction.read_units(unit_file)
                yield from self._units(unit_file, units)
                rows = units.leading
                places = rows["offset"].astype(np.int64) - (file.start_offset or 0)
                used = _UnitFile(unit_file, rows, places, np.zeros(len(rows), np.bool_))
            yield from self._file(file, used)
        yield from self._keys_twice()
        if self.position is None and self.compacted_at is not None and not self.has_positions:
            where = Where(compaction.CHECKPOINT, topic=self.queue.topic, queue_id=self.queue.queue_id)
            reason = f"the position is missing, although messages after {self.compacted_at} were compacted"
            name = compaction.position_name(self.queue.topic, self.queue.queue_id)
            facts: Facts = {"queue": name, "offset": "nothing", "reason": reason}
            yield Finding(RuleName.COMPACTION_POSITION, where, facts)
        behind = self.position is not None and self.last_offset >= 0 and self.position > self.last_offset
        if behind or (self.position is not None and self.position < -1):
            reason = f"the last message of this queue has offset {self.last_offset}"
            found: Facts = {"queue": compaction.position_name(self.queue.topic, self.queue.queue_id)}
            where = Where(compaction.CHECKPOINT, topic=self.queue.topic, queue_id=self.queue.queue_id)
            yield Finding(
                RuleName.COMPACTION_POSITION, where, {**found, "offset": self.position, "reason": reason}
            )

    def _units(self, file: MappedFile, content: compaction.FileUnits) -> Findings:
        """Units by themselves: constants, rising queue offsets, what ends them."""
        units, count = content.leading, content.count
        self.context.shared.ask(RuleName.COMPACTION_UNIT, count)
        ends = (b"", consumequeue.SPARSE_END_UNIT, bytes(consumequeue.BATCH_UNIT_SIZE))
        if content.end not in ends:
            end = np.frombuffer(content.end, dtypes.BATCH_UNIT_DTYPE)[0]
            yield self._unit(file, end, count, "the bytes are neither a unit nor the end of the units")
        behind = content.numbers[count:]
        if len(behind):
            reason = "the unit comes after the end of the units"
            yield self._unit(file, content.rows[count], int(behind[0]), reason, len(behind))
        for name, value in _CONSTANT:
            for row in np.flatnonzero(units[name] != value).tolist():
                yield self._unit(file, units[row], row, f"{name} is {int(units[name][row])}, not {value}")
        bases = np.concatenate(([self.previous], units["msgBaseOffset"].astype(np.int64)))
        for row in np.flatnonzero(np.diff(bases) <= 0).tolist():
            found: Facts = {"queue_offset": int(bases[row + 1]), "previous": int(bases[row])}
            yield Finding(RuleName.COMPACTION_ORDER, self._place(file, units[row], row), found)
        skips = np.flatnonzero(np.diff(bases[1:]) > 1)
        if self.compacted_at is None and len(skips):
            self.compacted_at = int(bases[1 + skips[0]])
        self.previous = int(bases[-1])
        self.last_offset = max(self.last_offset, int(bases.max()))

    def _file(self, file: MappedFile, units: _UnitFile | None) -> Findings:
        """The records of a log file, against the units in use of its unit file."""
        base = file.start_offset or 0
        store = self.context.store
        table = QueueTable()
        size, is_full = max(self.queue.log.file_size, file.size), self.context.level == "full"
        options = ScanOptions(is_full, store.dialect.property_parser, size)
        with FileReader(file.location) as reader:
            for item in scan_log_file(reader, base, options, table):
                if isinstance(item, Region):
                    yield from self._region(file, item)
                    continue
                yield from self._records(file, item, table)
                if units is not None:
                    yield from self._join(file, units, item)
                if self.position is not None and self.keys.count < MAX_KEYED:
                    self.keys.add(item, base, self.position)
                elif self.position is not None:
                    self.left_out = True
        if units is not None:
            for row in np.flatnonzero(~units.met).tolist():
                yield self._unit(units.file, units.rows[row], row, "no record of the file begins there")

    def _region(self, file: MappedFile, region: Region) -> Findings:
        """Bytes that are neither records nor the rest of the file."""
        wrong = region.kind in (RegionKind.MALFORMED, RegionKind.DAMAGED, RegionKind.TORN)
        if wrong or region.reason is Reason.BLANK_SIZE:
            found: Facts = {"reason": f"{region.kind}, {region.reason}".rstrip(", ")}
            where = place_of(self.queue, file, region.start, region.end)
            yield Finding(RuleName.COMPACTION_RECORD, where, found)

    def _records(self, file: MappedFile, batch: RecordBatch, table: QueueTable) -> Findings:
        topic, queue_id = self.queue.topic, self.queue.queue_id
        for wrong, text in odd_copies(batch, table, topic, queue_id, "the compaction log"):
            for row in np.flatnonzero(wrong).tolist():
                where = self._record_place(file, batch, row)
                yield Finding(RuleName.COMPACTION_RECORD, where, {"reason": text})
        if self.context.level == "full":
            self.context.shared.ask(RuleName.COMPACTION_BODY_CRC, batch.record_count)
        for row in np.flatnonzero(batch["faults"] & (Fault.BODY_CRC | Fault.BODY_CRC_NEGATIVE)).tolist():
            where, found = self._record_place(file, batch, row), {"crc": int(batch["body_crc"][row])}
            yield Finding(RuleName.COMPACTION_BODY_CRC, where, found)

    def _join(self, file: MappedFile, units: _UnitFile, batch: RecordBatch) -> Findings:
        """The units of the records of a batch: each has one, which says the same."""
        pos = batch["pos"]
        at = np.searchsorted(pos, units.places)
        hit = np.flatnonzero(at < len(pos))
        hit = hit[pos[at[hit]] == units.places[hit]]
        units.met[hit] = True
        with_unit = np.zeros(len(pos), np.bool_)
        with_unit[at[hit]] = True
        without = np.flatnonzero(~with_unit)
        if len(without):
            where = self._record_place(file, batch, int(without[0]))
            yield Finding(RuleName.COMPACTION_RECORD_WITHOUT_UNIT, where, count=len(without))
        for name, column in _COMPARED:
            wanted, stated = batch[column][at[hit]], units.rows[name][hit]
            for index in np.flatnonzero(stated != wanted).tolist():
                text = f"{name} is {int(stated[index])}, but the record has {int(wanted[index])}"
                row = int(hit[index])
                yield self._unit(units.file, units.rows[row], row, text)

    def _keys_twice(self) -> Findings:
        with LogReader(self.queue.log) as log:
            for (offset, place), (later, later_place) in self.keys.twice():
                key = self._key(log, place)
                if key is not None and key == self._key(log, later_place):
                    file = log.files[max(log.last_from(place), 0)]
                    start = place - (file.start_offset or 0)
                    found: Facts = {
                        "key": key,
                        "queue_offset": offset,
                        "later_queue_offset": later,
                        "compacted_queue_offset": self.position,
                    }
                    where = place_of(self.queue, file, start, queue_offset=offset)
                    yield Finding(RuleName.COMPACTION_KEY_TWICE, where, found)

    def _key(self, log: LogReader, place: int) -> str | None:
        found = log.properties(place, self.context.store.dialect.property_parser)
        return None if found is None else found[1].get(properties.KEYS)

    def _record_place(self, file: MappedFile, batch: RecordBatch, row: int) -> Where:
        start = int(batch["pos"][row])
        end = start + int(batch["total_size"][row])
        return place_of(self.queue, file, start, end, int(batch["queue_offset"][row]))

    def _place(self, file: MappedFile, unit: np.void, number: int) -> Where:
        size = consumequeue.BATCH_UNIT_SIZE
        start = number * size
        return place_of(self.queue, file, start, start + size, int(unit["msgBaseOffset"]))

    def _unit(self, file: MappedFile, unit: np.void, number: int, reason: str, count: int = 1) -> Finding:
        found: Mapping[str, Any] = {"offset": int(unit["offset"]), "reason": reason}
        return Finding(RuleName.COMPACTION_UNIT, self._place(file, unit, number), found, count=count)
