"""One commit log file as it was before the damage: where every record and every field of it stands.

Consume queues as they were before the damage: units by index, and where each stands.

An index file as it was before the damage: header, slots, entries, and the chains that its puts made.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import consumequeue, dtypes, indexfile, magic
from rocketfsck.formats.record import RECORD
from rocketfsck.scan.columns import RecordBatch, Trait
from rocketfsck.scan.log.resync import RegionKind
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.model import ConsumeQueue, IndexFile, MappedFile, Store
from rocketfsck.store.reading import FileReader
from rocketfsck.writer.damage.model import DamageError, PromisedPlace

MAX_QUEUE_SIZE = 128 << 20
"""Bytes of a queue that can be looked at: it is held in memory."""
TREES = {"file": "consumequeue", "batch": "batchconsumequeue"}


@dataclass(frozen=True, slots=True)
class SceneUnit:
    """One unit: `index` is its place in the queue's stream, `base` its first message's queue offset."""

    queue: ConsumeQueue
    index: int
    file: MappedFile
    start: int
    offset: int
    size: int
    tags_code: int
    base: int

    @property
    def end(self) -> int:
        return self.start + self.queue.unit_size


class QueueScene:
    """The units of one queue. `first_index` is the first on disk, `end_index` comes after the last in use.

    Raises DamageError for a queue of more than MAX_QUEUE_SIZE.
    """

    def __init__(self, queue: ConsumeQueue) -> None:
        self.queue = queue
        dtype = dtypes.unit_dtype(queue.kind)
        self.files = [file for file in queue.files if file.start_offset is not None]
        if sum(file.size for file in self.files) > MAX_QUEUE_SIZE:
            raise DamageError(
                f"{queue_directory(queue)} has more than {MAX_QUEUE_SIZE >> 20} MiB: the limit for damage"
            )
        parts = []
        for file in self.files:
            with FileReader(file.path) as reader:
                data = reader.read(0, reader.size // queue.unit_size * queue.unit_size)
            parts.append(np.frombuffer(data, dtype))
        self.units: NDArray[Any] = np.concatenate(parts) if parts else np.zeros(0, dtype)
        self.first_index = (self.files[0].start_offset or 0) // queue.unit_size if self.files else 0
        used = np.flatnonzero(self.units["size"] != 0)
        self.end_index = self.first_index + (int(used[-1]) + 1 if len(used) else 0)
        joined = all(
            (file.start_offset or 0) + file.size == following.start_offset
            for file, following in pairwise(self.files)
        )
        self.whole = joined and not any(file.size % queue.unit_size for file in self.files)

    @property
    def file_end_index(self) -> int:
        """The index after the last unit that the files have room for."""
        return self.first_index + len(self.units)

    @property
    def start_index(self) -> int:
        """The index of the first unit that is not a pre-blank one."""
        blank = (self.units["size"] == consumequeue.PRE_BLANK_SIZE) & (self.units["offset"] == 0)
        real = np.flatnonzero(~blank)
        return self.first_index + (int(real[0]) if len(real) else len(self.units))

    def offsets(self) -> NDArray[np.int64]:
        """Commit log offsets of the units `start_index:end_index`."""
        low, high = self.start_index - self.first_index, self.end_index - self.first_index
        offsets: NDArray[np.int64] = self.units["offset"][low:high].astype(np.int64)
        return offsets

    def unit(self, index: int) -> SceneUnit:
        """The unit at an index that the files have."""
        row = self.units[index - self.first_index]
        pos = index * self.queue.unit_size
        file = next(file for file in reversed(self.files) if (file.start_offset or 0) <= pos)
        base = int(row["msgBaseOffset"]) if self.queue.kind == "batch" else index
        start = pos - (file.start_offset or 0)
        offset, size, tags_code = (int(row[name]) for name in ("offset", "size", "tagsCode"))
        return SceneUnit(self.queue, index, file, start, offset, size, tags_code, base)

    def find(self, offset: int) -> SceneUnit | None:
        """The unit that points to this commit log offset."""
        offsets = self.offsets()
        at = int(np.searchsorted(offsets, offset))
        if at < len(offsets) and int(offsets[at]) == offset:
            return self.unit(self.start_index + at)
        return None


def unit_place(unit: SceneUnit, count: int = 1, physical_offset: int | None = None) -> PromisedPlace:
    """Where a finding on `count` units from this one on is: in the file that holds the first of them."""
    end = min(unit.start + count * unit.queue.unit_size, unit.file.size)
    topic, queue_id = unit.queue.topic, unit.queue.queue_id
    return PromisedPlace(unit.file.relative, unit.start, end, physical_offset, topic, queue_id, unit.index)


def queue_directory(queue: ConsumeQueue) -> str:
    """The directory of a queue, relative to the store's root."""
    return f"{TREES[queue.kind]}/{queue.topic}/{queue.queue_id}"


class IndexScene:
    """One index file. `used` is the number of the last entry in use, `last_entry` of the last there is room
    for. `sound` says whether length, links and slots are those that the puts made."""

    def __init__(self, file: IndexFile, geometry: Geometry) -> None:
        self.file = file
        self.slot_count, self.entry_count = geometry.slot_count, geometry.entry_count
        with FileReader(file.path) as reader:
            head = reader.read_upto(0, indexfile.INDEX_HEADER_SIZE)
            self.whole = reader.size == geometry.index_file_size
            has_header = len(head) == indexfile.INDEX_HEADER_SIZE
            self.header = indexfile.decode_header(head) if has_header else indexfile.IndexHeader()
            self.last_entry = self.entry_count - 1
            self.used = min(self.header.entry_count, self.last_entry) if self.whole else 0
            self.entries: NDArray[Any] = np.zeros(0, indexfile.ENTRY.dtype())
            self.slots: dtypes.Longs = np.zeros(0, np.int64)
            if self.whole:
                data = reader.read(self.pos_of(0), indexfile.ENTRY_SIZE * (self.used + 1))
                self.entries = np.frombuffer(data, indexfile.ENTRY.dtype())
                heads = reader.read(indexfile.INDEX_HEADER_SIZE, indexfile.SLOT_SIZE * self.slot_count)
                self.slots = np.frombuffer(heads, ">i4").astype(np.int64)

    @cached_property
    def slot_of(self) -> dtypes.Longs:
        """The slot of every entry, by number; entry 0 has none (-1)."""
        slots: dtypes.Longs = self.entries["keyHash"].astype(np.int64) % self.slot_count
        slots[:1] = -1
        return slots

    @cached_property
    def offsets(self) -> dtypes.Longs:
        """The commit log offset of every entry, by number."""
        offsets: dtypes.Longs = self.entries["phyOffset"].astype(np.int64)
        return offsets

    @cached_property
    def sound(self) -> bool:
        if not self.whole or self.header.index_count not in (0, 1, self.used + 1):
            return False
        expected = np.zeros(self.used + 1, np.int64)
        order = np.lexsort((np.arange(self.used + 1), self.slot_of))
        slot = self.slot_of[order]
        same = np.flatnonzero((slot[1:] == slot[:-1]) & (slot[1:] >= 0)) + 1
        expected[order[same]] = order[same - 1]
        heads = np.zeros(self.slot_count, np.int64)
        heads[self.slot_of[1:]] = np.arange(1, self.used + 1)  # the last put of a slot wins
        links = self.entries["prevIndex"].astype(np.int64)
        rises = bool((np.diff(self.offsets[1:]) >= 0).all())
        return bool((links == expected).all() and (heads == self.slots).all()) and rises

    def chain(self, slot: int) -> list[int]:
        """The entries of a slot, newest first."""
        numbers: list[int] = np.flatnonzero(self.slot_of == slot)[::-1].tolist()
        return numbers

    def chains(self, length: int) -> list[int]:
        """The slots whose chains have at least this many entries."""
        counts = np.bincount(self.slot_of[1:], minlength=self.slot_count) if self.used else np.zeros(0)
        slots: list[int] = np.flatnonzero(counts >= length).tolist()
        return slots

    def pos_of(self, entry: int) -> int:
        return indexfile.entry_pos(entry, self.slot_count)

    def entry_place(
        self, entry: int, *, slot: bool = False, bounded: bool = True, offset: bool = False
    ) -> PromisedPlace:
        """Where a finding on an entry is; with `slot` and `offset` it names these, too."""
        start = self.pos_of(entry)
        end = start + indexfile.ENTRY_SIZE if bounded else None
        physical_offset = int(self.offsets[entry]) if offset else None
        own_slot = int(self.slot_of[entry]) if slot else None
        return PromisedPlace(self.file.relative, start, end, physical_offset, slot=own_slot, entry=entry)

    def slot_place(self, slot: int) -> PromisedPlace:
        """Where a finding on a slot is."""
        start = indexfile.slot_pos(slot)
        return PromisedPlace(file=self.file.relative, start=start, end=start + indexfile.SLOT_SIZE, slot=slot)


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record; positions are in its file, `number` counts the file's records from 0."""

    file: MappedFile
    number: int
    pos: int
    total_size: int
    magic_code: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    prepared_transaction_offset: int
    body_pos: int
    body_size: int
    topic_pos: int
    topic_size: int
    properties_pos: int
    properties_size: int
    delay_level: int
    batch_size: int
    key_count: int
    traits: Trait

    @property
    def end(self) -> int:
        return self.pos + self.total_size

    @property
    def physical_offset(self) -> int:
        """Where the record is in the commit log."""
        return (self.file.start_offset or 0) + self.pos

    @property
    def transaction(self) -> int:
        return magic.transaction_type(self.sys_flag)

    def spans(self) -> dict[str, tuple[int, int]]:
        """Half-open file positions of every field, by RocketMQ's own names."""
        sizes = {
            "bornHost": 20 if self.sys_flag & magic.BORN_HOST_V6 else 8,
            "storeHost": 20 if self.sys_flag & magic.STORE_HOST_V6 else 8,
            "body": max(self.body_size, 0),
            "topicLength": 2 if self.magic_code == magic.MAGIC_V2 else 1,
            "topic": self.topic_size,
            "properties": max(self.properties_size, 0),
        }
        found: dict[str, tuple[int, int]] = {}
        pos = self.pos
        for field in RECORD.fields:
            size = sizes.get(field.name, field.size)
            assert size is not None
            found[field.name] = (pos, pos + size)
            pos += size
        return found


_SCANNED = tuple(name for name in LogRecord.__slots__ if name not in ("file", "number", "topic", "traits"))
_COLUMNS = (*_SCANNED, "physical_offset", "queue_index", "faults", "traits")


class LogScene:
    """The records of one file, and what follows them.

    `live_end` is the position after the last record (or BLANK header), `blank_pos` that of the BLANK
    that ends the file (None without one), `sound` whether the file is records, then a BLANK or zeros,
    `tail_is_sound` whether it ends with records and zeros.
    """

    def __init__(self, store: Store, file: MappedFile) -> None:
        self.file = file
        table = QueueTable()
        columns: dict[str, list[NDArray[np.int64]]] = {name: [] for name in _COLUMNS}
        kinds: list[RegionKind] = []
        self.live_end = 0
        self.blank_pos: int | None = None
        options = log_options(store, file, read_bodies=False)
        with FileReader(file.path) as reader:
            self.size = reader.size
            for item in scan_log_file(reader, file.start_offset or 0, options, table):
                if isinstance(item, RecordBatch):
                    for name in _COLUMNS:
                        columns[name].append(item[name].astype(np.int64))
                    continue
                kinds.append(item.kind)
                if item.kind in (RegionKind.RECORDS, RegionKind.BLANK):
                    self.live_end = item.end
                if item.kind == RegionKind.BLANK:
                    self.blank_pos = item.start
        none = np.zeros(0, np.int64)
        self._columns = {name: np.concatenate([none, *parts]) for name, parts in columns.items()}
        self._names = table.names
        blank, zero = [RegionKind.BLANK], [RegionKind.ZERO]
        ends: tuple[list[RegionKind], ...] = ([*blank, RegionKind.FILLER], blank, zero, [])
        self.tail_is_sound = kinds[-2:] == [RegionKind.RECORDS, RegionKind.ZERO]
        self.sound = kinds[:1] == [RegionKind.RECORDS] and kinds[1:] in ends

    def __len__(self) -> int:
        return len(self._columns["pos"])

    def column(self, name: str) -> NDArray[np.int64]:
        """A column of all records, by the scan's own names."""
        return self._columns[name]

    def record(self, number: int) -> LogRecord:
        """The record of this number; negative numbers count from the end."""
        if number < 0:
            number += len(self)
        values = {name: int(column[number]) for name, column in self._columns.items()}
        row = values["queue_index"]
        return LogRecord(
            file=self.file,
            number=number,
            topic=os.fsdecode(self._names[row][0]) if row >= 0 else "",
            traits=Trait(values["traits"]),
            **{name: values[name] for name in _SCANNED},
        )

    @cached_property
    def by_pos(self) -> dict[int, int]:
        """Record numbers by file position."""
        return {pos: number for number, pos in enumerate(self._columns["pos"].tolist())}

    def at(self, pos: int) -> LogRecord | None:
        """The record that holds the byte at this position, None if none does."""
        number = int(np.searchsorted(self._columns["pos"], pos, "right")) - 1
        if number < 0:
            return None
        record = self.record(number)
        return record if pos < record.end else None
