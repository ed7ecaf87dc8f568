"""Two replicas of one log: what they share, where they part, what each has that the other lacks.

    bytes     equal blocks of the common range are skipped at the speed of reading
    records   files with any difference are carved, and the records matched by physical offset and bytes

Bytes that differ in no record (what stands behind a BLANK) are no difference: brokers do not copy them
exactly (reference 2.8). Fault catalogue, H1 and H2.

Memory: the read buffers and some 300 bytes a record of the files that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rocketfsck.errors import UsageError
from rocketfsck.repair.carve import Carver, Found, Longs
from rocketfsck.repair.carve_confidence import Flags
from rocketfsck.repair.compare_bytes import (
    BLOCK_SIZE,
    LogBytes,
    Part,
    Progress,
    any_in,
    are_proven,
    find_unlike_blocks,
    is_covered,
    left_in_file,
    shared_parts,
)
from rocketfsck.repair.salvage_choose import takes_queue_offset
from rocketfsck.scan.columns import Fault
from rocketfsck.scan.sorting import distinct
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.live import live_end_offset

DIFFERENT_LIMIT = 1000
"""Records that are different on the two sides and told one by one."""

SIDES = ("A", "B")
_BAD = int(Fault.BODY_CRC | Fault.BODY_CRC_NEGATIVE | Fault.PROPERTY_CRC)


@dataclass(frozen=True, slots=True)
class Side:
    """One replica. Physical offsets: `start_offset` of its first file, `end_offset` behind its last live
    record (equal where it has none). `last_timestamp` is the storeTimestamp of its last record, if known."""

    path: Path
    start_offset: int
    end_offset: int
    last_timestamp: int | None


@dataclass(frozen=True, slots=True)
class Copy:
    """A record as one side has it. `valid`: its checksums fit."""

    size: int
    topic: bytes
    queue_id: int
    queue_offset: int
    store_timestamp: int
    valid: bool


@dataclass(frozen=True, slots=True)
class Different:
    """A place where a record begins on at least one side and the sides do not have the same one.

    `first_byte` and `end_byte` bound the bytes that differ, counted from `physical_offset` (None where only
    one side has a record here). A copy is None where no record begins here on that side.
    """

    physical_offset: int
    a: Copy | None
    b: Copy | None
    first_byte: int | None
    end_byte: int | None


@dataclass(frozen=True, slots=True)
class Lack:
    """Records of a queue that one side has and the other lacks: how many, and the queue offsets they span.

    `side` has them. `queue_id` is -1 for records that take no queue offset.
    """

    side: str
    topic: bytes
    queue_id: int
    record_count: int
    first_queue_offset: int
    last_queue_offset: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two replicas have in common and what not.

    `common` is the range of physical offsets that both hold, None if there is none. `equal_size` bytes of it
    are the same; `unlike_size` bytes differ, in records or outside of any. `different` are the first places
    where records differ in the common range, `different_count` all of them. `lacks` are by queue.
    `resume_offset` is where the shorter copy can go on from the other: everything common before it is the
    same; None without a common range.
    """

    a: Side
    b: Side
    common: tuple[int, int] | None
    equal_size: int
    unlike_size: int
    different: tuple[Different, ...]
    different_count: int
    lacks: tuple[Lack, ...]
    resume_offset: int | None

    @property
    def same(self) -> bool:
        """Whether both hold the same records."""
        return not self.different_count and not self.lacks

    @property
    def first_divergence(self) -> Different | None:
        return self.different[0] if self.different else None


def compare_stores(a: Store, b: Store, *, progress: Progress | None = None) -> Comparison:
    """Compare two stores. Raises StoreError if something cannot be read, UsageError without commit logs."""
    for store in (a, b):
        if not any(file.start_offset is not None for file in store.commitlog.files):
            raise UsageError(f"{store.root}: no commit log to compare")
    sides = [describe_side(store) for store in (a, b)]
    low = max(side.start_offset for side in sides)
    high = min(side.end_offset for side in sides)
    with LogBytes(a) as log_a, LogBytes(b) as log_b:
        shared = shared_parts(log_a, log_b, low, high)
        unlike, unlike_size = find_unlike_blocks(log_a, log_b, shared, progress)
    found = [_carve(store, side, shared, unlike) for store, side in zip((a, b), sides, strict=True)]
    missing = [
        ~(_is_in(own, other) | _is_proven(own, shared, unlike))
        for own, other in ((found[0], found[1]), (found[1], found[0]))
    ]
    places = sorted(
        {
            int(offset)
            for rows, flags in zip(found, missing, strict=True)
            for offset in rows["physical_offset"][flags & _within(rows, low, high)].tolist()
        }
    )
    with LogBytes(a) as log_a, LogBytes(b) as log_b:
        different = tuple(_different(place, found, (log_a, log_b)) for place in places[:DIFFERENT_LIMIT])
    lacks = [
        lack
        for name, rows, flags in zip(SIDES, found, missing, strict=True)
        for lack in _lacks(name, rows, np.flatnonzero(flags))
    ]
    return Comparison(
        a=sides[0],
        b=sides[1],
        common=(low, high) if low < high else None,
        equal_size=sum(end - start for start, end in shared) - unlike_size,
        unlike_size=unlike_size,
        different=different,
        different_count=len(places),
        lacks=tuple(lacks),
        resume_offset=_resume(low, high, shared, places),
    )


def describe_side(store: Store) -> Side:
    """Where a store's log begins and where its live records end. Raises StoreError."""
    files = store.commitlog.files
    start = next(file.start_offset for file in files if file.start_offset is not None)
    for index in range(len(files) - 1, -1, -1):
        begins = files[index].start_offset
        if begins is None:
            continue
        end = live_end_offset(store, index)
        if end > begins:
            return Side(store.root, start, end, _last_timestamp(files[index], end))
    return Side(store.root, start, start, None)


def _last_timestamp(file: MappedFile, end: int) -> int | None:
    carver = Carver()
    with FileReader(file.path) as reader:
        carver.carve(reader, 0)
    found = carver.found
    live = np.flatnonzero(found["pos"] + (file.start_offset or 0) < end)
    return int(found["store_timestamp"][live[-1]]) if len(live) else None


def _carve(store: Store, side: Side, shared: Sequence[tuple[int, int]], unlike: Longs) -> Found:
    """The live records of the files that are not all the same on the other side."""
    carver = Carver()
    files = [file for file in store.commitlog.files if file.start_offset is not None and file.size]
    bases: list[int] = []
    for file in files:
        start = file.start_offset or 0
        end = min(start + file.size, side.end_offset)
        if start >= end or (is_covered(start, end, shared) and not any_in(unlike, start, end)):
            continue
        with FileReader(file.path) as reader:
            carver.carve(reader, len(bases))
        bases.append(start)
    found = carver.found
    place = found["pos"] + np.array([*bases, 0], np.int64)[found["source"]]
    # a record elsewhere than its physicalOffset says is none of this log (C3)
    return found.take(np.flatnonzero((place == found["physical_offset"]) & (place < side.end_offset)))


def _is_in(found: Found, other: Found) -> Flags:
    """Which records of `found` the other side has, byte for byte. Both are in the order of their offsets."""
    at = np.searchsorted(other["physical_offset"], found["physical_offset"])
    flags = np.zeros(len(found), np.bool_)
    inside = at < len(other)
    at = at[inside]
    same = np.ones(len(at), np.bool_)
    for name in ("physical_offset", "total_size", "crc"):
        same &= other[name][at] == found[name][inside]
    flags[inside] = same
    return flags


def _is_proven(found: Found, shared: Sequence[Part], unlike: Longs) -> Flags:
    """Which records lie in bytes that are the same on both sides."""
    start = found["physical_offset"]
    return are_proven(start, start + found["total_size"], shared, unlike)


def _within(found: Found, low: int, high: int) -> Flags:
    flags: Flags = (found["physical_offset"] >= low) & (found["physical_offset"] < high)
    return flags


def _different(place: int, found: Sequence[Found], logs: tuple[LogBytes, LogBytes]) -> Different:
    copies = [_copy_at(side, place) for side in found]
    size = min(copy.size for copy in copies if copy is not None)
    first: int | None = None
    last: int | None = None
    left = min(left_in_file(log, place) for log in logs)
    for pos in range(0, min(size, left), BLOCK_SIZE):
        count = min(BLOCK_SIZE, size - pos, left - pos)
        data = []
        for log in logs:
            buffer = np.empty(count, np.uint8)
            log.read_into(buffer.data, place + pos)
            data.append(buffer)
        at = np.flatnonzero(data[0] != data[1])
        if len(at):
            first = pos + int(at[0]) if first is None else first
            last = pos + int(at[-1]) + 1
    return Different(place, copies[0], copies[1], first, last)


def _copy_at(found: Found, place: int) -> Copy | None:
    """The record that begins at an offset, None if none does."""
    row = int(np.searchsorted(found["physical_offset"], place))
    if row == len(found) or int(found["physical_offset"][row]) != place:
        return None
    number = int(found["queue_index"][row])
    topic, queue_id = found.table.names[number] if number >= 0 else (b"", -1)
    return Copy(
        int(found["total_size"][row]),
        topic,
        queue_id,
        int(found["queue_offset"][row]),
        int(found["store_timestamp"][row]),
        not int(found["faults"][row]) & _BAD,
    )


def _lacks(side: str, found: Found, rows: Longs) -> list[Lack]:
    queue = np.where(takes_queue_offset(found)[rows], found["queue_index"][rows], -1)
    lacks = []
    for number in distinct(queue).tolist():
        part = rows[queue == number]
        topic, queue_id = found.table.names[number] if number >= 0 else (b"", -1)
        offsets = found["queue_offset"][part]
        lacks.append(Lack(side, topic, queue_id, len(part), int(offsets.min()), int(offsets.max())))
    return sorted(lacks, key=lambda lack: (lack.topic, lack.queue_id))


def _resume(low: int, high: int, shared: list[tuple[int, int]], places: list[int]) -> int | None:
    """The end of what is the same without a break from the common start on."""
    if low >= high:
        return None
    reached = low
    for start, end in shared:
        if start > reached:
            break
        reached = max(reached, end)
    return min([reached, *places[:1]])
