"""One commit log file as it was before the damage: where every record and every field of it stands."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.magic import BORN_HOST_V6, MAGIC_V2, STORE_HOST_V6, transaction_type
from rocketfsck.formats.record import RECORD
from rocketfsck.scan.columns import RecordBatch, Trait
from rocketfsck.scan.log.regions import RegionKind
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.reading import FileReader

_COLUMNS = (
    "pos", "total_size", "magic_code", "queue_id", "queue_offset", "physical_offset", "sys_flag",
    "store_timestamp", "prepared_transaction_offset", "body_pos", "body_size", "topic_pos", "topic_size",
    "properties_pos", "properties_size", "delay_level", "queue_index", "batch_size", "key_count", "faults",
    "traits",
)  # fmt: skip


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
        return transaction_type(self.sys_flag)

    def spans(self) -> dict[str, tuple[int, int]]:
        """Half-open file positions of every field, by RocketMQ's own names."""
        sizes = {
            "bornHost": 20 if self.sys_flag & BORN_HOST_V6 else 8,
            "storeHost": 20 if self.sys_flag & STORE_HOST_V6 else 8,
            "body": max(self.body_size, 0),
            "topicLength": 2 if self.magic_code == MAGIC_V2 else 1,
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
        ends: tuple[list[RegionKind], ...] = (
            [RegionKind.BLANK, RegionKind.FILLER],
            [RegionKind.BLANK],
            [RegionKind.ZERO],
            [],
        )
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
            **{
                name: values[name]
                for name in LogRecord.__slots__
                if name not in ("file", "number", "topic", "traits")
            },
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
