"""Checks the headers of the index files of tiered storage, and how items and keys are compared. Ref. 1.10.

header: magic code, numbers that fit the length, the times of the metadata    TS020
item, key of a record := hash of topic#key, place of the record               one number each
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.formats import tiered
from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.reader.heads import head_at
from rocketfsck.reader.tiered import SegmentRow, TieredIndexHeader, TieredQueue, is_old_local
from rocketfsck.scan.columns import KEY_TAGS, RecordBatch
from rocketfsck.store.model import StoreFile
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Finding, Findings, Where

MAX_KEYS = 16 << 20
"""Keys of all queues that are compared with the index: 28 bytes each are kept at most."""
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(slots=True)
class QueueItems:
    """The items of one queue: the hash of each, and the place of its record."""

    hashes: list[NDArray[np.int32]] = field(default_factory=list)
    places: list[Longs] = field(default_factory=list)
    count: int = 0
    complete: bool = True

    def drop(self) -> None:
        """Forget all items: there are too many."""
        self.complete, self.count = False, 0
        self.hashes.clear()
        self.places.clear()


@dataclass(slots=True)
class QueueKeys:
    """The keys of a queue's records, as an index has them: hash and place; and when each was stored (ms)."""

    hashes: list[NDArray[np.int32]] = field(default_factory=list)
    places: list[Longs] = field(default_factory=list)
    times: list[Longs] = field(default_factory=list)
    count: int = 0
    complete: bool = True
    room: int = MAX_KEYS
    _pairs: NDArray[np.uint64] | None = None

    def pairs(self) -> NDArray[np.uint64]:
        """The keys as `indexheaders.pairs` has them, in ascending order; all keys have been added."""
        if self._pairs is None:
            self._pairs = np.sort(pairs(self.hashes, self.places))
        return self._pairs

    def add(self, batch: RecordBatch, base: int) -> None:
        """The keys of a batch of records."""
        if not self.complete:
            return
        rows = np.flatnonzero(batch["key_kind"] != KEY_TAGS)
        if self.count + len(rows) > self.room:
            self.complete, self.count = False, 0
            for kept in (self.hashes, self.places, self.times):
                kept.clear()
            return
        records = batch["key_record"][rows]
        self.hashes.append(batch["key_hash"][rows].copy())
        self.places.append(batch["pos"][records].astype(np.int64) + base)
        self.times.append(batch["store_timestamp"][records].astype(np.int64))
        self.count += len(rows)


def pairs(hashes: list[NDArray[np.int32]], places: list[Longs]) -> NDArray[np.uint64]:
    """One number for each hash and place."""
    if not hashes:
        return np.zeros(0, np.uint64)
    found: NDArray[np.uint64] = np.concatenate(places).astype(np.uint64) * _MIX
    return found + np.concatenate(hashes).astype(np.uint64)


def is_in(numbers: NDArray[np.uint64], ordered: NDArray[np.uint64]) -> Flags:
    """Which of the numbers are among others in ascending order."""
    if not len(ordered):
        return np.zeros(len(numbers), np.bool_)
    at = np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)
    found: Flags = ordered[at] == numbers
    return found


def first_time(queue: TieredQueue) -> int:
    """When the first message of a queue's log was stored (ms); 0 where no record begins it."""
    for file in queue.log.files[:1]:
        with FileReader(file.location) as reader:
            head = head_at(reader, 0)
        return 0 if head is None else head.store_timestamp
    return 0


def check_header(
    file: StoreFile, reader: FileReader, header: TieredIndexHeader, row: SegmentRow | None
) -> Findings:
    """What a header says by itself, and what the metadata says of its times."""
    values = header.values
    if not values:
        if reader.size or (row is not None and row.size):  # a segment begins without a byte
            yield header_finding(
                file, 0, reader.size, f"the file has {count_of(reader.size, 'byte')}, less than a header"
            )
        return
    old = not header.compacted and is_old_local(file.name)
    magics = [] if old else [tiered.TIERED_INDEX_MAGIC_END]
    magics += [] if header.compacted else [tiered.TIERED_INDEX_MAGIC_BEGIN]
    if values["magicCode"] not in magics:
        yield header_finding(file, 0, 4, f"magicCode is {values['magicCode']}")
    # Nothing in a local file says how many slots it has, but no number of slots leaves room for more items.
    too_many = not 0 <= values["indexCount"] <= reader.size // tiered.TIERED_INDEX_ITEM.size
    if header.shape is None and (header.compacted or too_many):
        start = tiered.TIERED_INDEX_HEADER.offset("slotCount")
        text = (
            f"slotCount {values['slotCount']} and indexCount {values['indexCount']} do not fit a file "
            f"of {count_of(reader.size, 'byte')}"
        )
        yield header_finding(file, start, tiered.TIERED_INDEX_HEADER.size, text)
    if old:
        yield from _check_old_local(file, reader, header)
    elif not header.compacted and values["beginTimestamp"] != int(file.name):
        text = f"beginTimestamp is {values['beginTimestamp']}, not the number in the file's name"
        yield field_finding(file, "beginTimestamp", text)
    if row is None:
        return
    for name, right in (("beginTimestamp", row.begin_timestamp), ("endTimestamp", row.end_timestamp)):
        if values[name] != right:
            yield field_finding(file, name, f"{name} is {values[name]}, but the metadata says {right}")


def _check_old_local(file: StoreFile, reader: FileReader, header: TieredIndexHeader) -> Findings:
    """What 5.1.x writes around items: no number of slots, times once there are items, a code at the end."""
    values = header.values
    if values["slotCount"] != 0:
        yield field_finding(file, "slotCount", f"slotCount is {values['slotCount']}, not 0")
    empty = values["indexCount"] == 0
    for name in ("beginTimestamp", "endTimestamp"):
        if (values[name] == -1) != empty:
            text = f"{name} is {values[name]}, but indexCount is {values['indexCount']}"
            yield field_finding(file, name, text)
    codes = [tiered.TIERED_INDEX_MAGIC_END]
    codes += [] if file.name == tiered.OLD_LOCAL_NAMES[1] else [-1]
    code = int.from_bytes(reader.read(reader.size - 4, 4), "big", signed=True)
    if code not in codes:
        text = f"the last 4 bytes are {code}, neither -1 nor the code of a full file"
        if len(codes) == 1:
            text = f"the last 4 bytes are {code}: brokers delete the file, because it is not marked as full"
        yield header_finding(file, reader.size - 4, reader.size, text)


def field_finding(file: StoreFile, name: str, reason: str) -> Finding:
    """Something wrong in a field of a header."""
    field = tiered.TIERED_INDEX_HEADER.field(name)
    start = field.offset or 0
    return header_finding(file, start, start + (field.size or 0), reason)


def header_finding(file: StoreFile, start: int, end: int, reason: str) -> Finding:
    """Something wrong in the bytes `start:end` of a header."""
    return Finding(RuleName.TIERED_INDEX_HEADER, Where(file.relative, start, end), {"reason": reason})
