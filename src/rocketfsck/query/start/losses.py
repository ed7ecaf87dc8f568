"""What a start puts out of reach: records after the cut, records without a unit or an index entry.

Counts are exact, ranges are kept up to a limit. Reference 6.3 to 6.7, fault catalogue section 4.

The records that a start hands to nobody: whether queues and index lead to them afterwards, and did before.

Whatever the log holds is looked at, after damage too, not only what the broker would read. Queues and index
files count as whole between the first and the furthest record that they lead to. Reference 3.3 and
6.5 to 6.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rocketfsck.formats import magic
from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.formats.javatext import java_decode
from rocketfsck.query.start.index import IndexModel
from rocketfsck.query.start.load import LoadedFile
from rocketfsck.query.start.model import LostRange, Skipped
from rocketfsck.query.start.queues import FAR
from rocketfsck.query.start.startqueues import StartQueues
from rocketfsck.scan.columns import Fault, RecordBatch
from rocketfsck.scan.log.resync import Region
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.spans import among
from rocketfsck.store.reading import FileReader

RANGE_LIMIT = 256


class Ranges:
    """Counts records and keeps the first ranges of neighbours among them."""

    def __init__(self) -> None:
        self.record_count = 0
        self._ranges: list[LostRange] = []
        self._open = False

    def add(self, offset: Longs, size: Longs, chosen: Flags) -> None:
        """Records by where they stand, in order; those that are `chosen` count."""
        rows = np.flatnonzero(chosen)
        if len(rows):
            starts = np.flatnonzero(np.append(True, np.diff(rows) > 1))
            for first, last in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
                low, high = int(rows[first]), int(rows[last - 1])
                self._take(int(offset[low]), int(offset[high] + size[high]), last - first, low == 0)
                if len(self._ranges) >= RANGE_LIMIT:
                    break
            self.record_count += len(rows)
        self._open = bool(len(chosen)) and bool(chosen[-1])

    def _take(self, start: int, end: int, count: int, is_first: bool) -> None:
        if is_first and self._open and self._ranges:
            last = self._ranges.pop()
            start, count = last.start_offset, last.record_count + count
        self._ranges.append(LostRange(start, end, count))

    def result(self) -> tuple[LostRange, ...]:
        return tuple(self._ranges)


MAX_OFFSET = (1 << 63) - 1


class _Numbering:
    """The queueOffsets of records, seen in the log's order, by row of a table of queues.

    `following` is the one after the last queueOffset since a queue began with 0: after its topic was
    deleted, a queue begins again. `first`, `last` and `begin` are physical offsets: of the first and last
    record, and of the last one with queueOffset 0. -1 or MAX_OFFSET: none such.
    """

    __slots__ = ("begin", "first", "following", "last", "until")

    def __init__(self) -> None:
        self.until = -1
        self.following = np.zeros(0, np.int64)
        self.first = np.full(0, MAX_OFFSET, np.int64)
        self.last = np.full(0, -1, np.int64)
        self.begin = np.full(0, -1, np.int64)

    def make_room(self, count: int) -> None:
        """Let the arrays have at least `count` rows."""
        more = count - len(self.following)
        if more > 0:
            more += count
            self.following = np.append(self.following, np.zeros(more, np.int64))
            self.first = np.append(self.first, np.full(more, MAX_OFFSET, np.int64))
            self.last = np.append(self.last, np.full(more, -1, np.int64))
            self.begin = np.append(self.begin, np.full(more, -1, np.int64))

    def see(self, row: Longs, place: Longs, base: Longs, following: Longs) -> None:
        """Take records at physical offsets `place`, in order, with queueOffsets `base` to `following`."""
        self.until = int(place[-1])
        np.minimum.at(self.first, row, place)
        np.maximum.at(self.last, row, place)
        again = base == 0
        self.following[row[again]] = 0
        np.maximum.at(self.begin, row[again], place[again])
        present = place >= self.begin[row]
        np.maximum.at(self.following, row[present], following[present])

    @classmethod
    def joined(cls, parts: Sequence[_Numbering], count: int) -> _Numbering:
        """What several passes over parts of a log show together; `count` rows."""
        found = cls()
        found.make_room(count)
        for part in parts:
            part.make_room(len(found.following))
            size = len(found.following)
            found.first = np.minimum(found.first, part.first[:size])
            found.last = np.maximum(found.last, part.last[:size])
            found.begin = np.maximum(found.begin, part.begin[:size])
        for part in parts:
            present = part.last[: len(found.begin)] >= found.begin
            found.following[present] = np.maximum(found.following, part.following[: len(present)])[present]
        return found


class Census:
    """What is known of the records of the final log: queue offsets in use, and which are out of reach."""

    def __init__(self, table: QueueTable) -> None:
        self.table = table
        self.by_queue = Ranges()
        self.by_key = Ranges()
        self.new_by_queue_count = 0
        self.new_by_key_count = 0
        self.reached_count = 0
        self._passes = [_Numbering()]
        self._missed: Longs = np.zeros(256, np.int64)
        self._last_missed: Longs = np.full(256, -1, np.int64)

    def see(
        self,
        batch: RecordBatch,
        base_offset: int,
        wanted: Flags,
        without_unit: Flags,
        without_entry: Flags,
        had_unit: Flags,
        had_entry: Flags,
    ) -> None:
        """Take in the `wanted` records of a batch: what they lack after the start, what they had before."""
        rows = np.flatnonzero(wanted)
        self.new_by_queue_count += int(np.count_nonzero((without_unit & had_unit)[rows]))
        self.new_by_key_count += int(np.count_nonzero((without_entry & had_entry)[rows]))
        offset, size = batch["pos"][rows] + base_offset, batch["total_size"][rows].astype(np.int64)
        self.by_queue.add(offset, size, without_unit[rows])
        self.by_key.add(offset, size, without_entry[rows])
        queue, place = batch["queue_index"].astype(np.int64), batch["pos"].astype(np.int64) + base_offset
        dispatched = is_dispatched(batch)[rows]
        self.reached_count += int(np.count_nonzero(dispatched & ~without_unit[rows]))
        used = rows[dispatched & (queue[rows] >= 0)]
        self._make_room()
        if len(used):
            base = batch["inner_base"][used]
            following = base + np.maximum(batch["batch_size"][used], 1)
            self._number(queue[used], place[used], base, following)
        missed = rows[without_unit[rows] & (queue[rows] >= 0)]
        np.add.at(self._missed, queue[missed], 1)
        np.maximum.at(self._last_missed, queue[missed], place[missed])

    def _number(self, row: Longs, place: Longs, base: Longs, following: Longs) -> None:
        if place[0] < self._passes[-1].until:  # what was not handed on is looked over afterwards
            self._passes.append(_Numbering())
        self._passes[-1].make_room(len(self.table))
        self._passes[-1].see(row, place, base, following)

    def _make_room(self) -> None:
        count = len(self.table)
        if count > len(self._missed):
            more = 2 * count - len(self._missed)
            self._missed = np.append(self._missed, np.zeros(more, np.int64))
            self._last_missed = np.append(self._last_missed, np.full(more, -1, np.int64))

    def _numbering(self) -> _Numbering:
        return _Numbering.joined(self._passes, len(self.table))

    def queues(self) -> dict[tuple[bytes, int], tuple[int, int]]:
        """By queue that a record names: the queueOffset after the last, and records without a unit."""
        following = self._numbering().following
        return {
            name: (int(following[row]), int(self._missed[row]))
            for row, name in enumerate(self.table.names)
            if row < len(self._missed)
        }

    def last_missed(self) -> dict[tuple[bytes, int], int]:
        """The physical offset of the last record without a unit of each queue; -1 without any."""
        rows = enumerate(self.table.names)
        return {name: int(self._last_missed[row]) for row, name in rows if row < len(self._last_missed)}

    def made_again(self) -> dict[bytes, int]:
        """The topics of which a queue has begun again with 0: the physical offset where the first one did."""
        numbering = self._numbering()
        found: dict[bytes, int] = {}
        for row in np.flatnonzero(numbering.begin > numbering.first).tolist():
            topic = self.table.names[row][0]
            found[topic] = min(int(numbering.begin[row]), found.get(topic, MAX_OFFSET))
        return found

    def last_records(self) -> dict[tuple[bytes, int], int]:
        """The physical offset of the last record of each queue."""
        last = self._numbering().last
        return {name: int(last[row]) for row, name in enumerate(self.table.names)}


@dataclass(frozen=True, slots=True)
class Astray:
    """A file of the commit log directory that the start deletes or does not see, loaded at `start_offset`.

    `is_hidden`: the broker does not see it, so that all of it is out of reach, wherever it belongs. Records
    that end after `until` are cut off, and counted so.
    """

    path: str
    start_offset: int
    is_hidden: bool
    until: int = MAX_OFFSET


def count_astray(files: Iterable[Astray], kept: Sequence[LoadedFile], options: ScanOptions) -> int:
    """The sound records of these files that none of the `kept` files of the log has.

    What a start cuts off at its own place is not counted here: see `count_cut`.
    """
    count = 0
    for file in files:
        with FileReader(file.path) as reader:
            for found in scan_log_file(reader, file.start_offset, options, QueueTable()):
                if isinstance(found, Region):
                    continue
                stated = found["physical_offset"]
                away = stated - found["pos"] != file.start_offset
                away |= file.is_hidden
                away &= found["pos"] + found["total_size"] <= file.until - file.start_offset
                for other in kept:
                    away &= (stated < other.start_offset) | (stated >= other.end_offset)
                count += int(np.count_nonzero(away))
    return count


def is_dispatched(batch: RecordBatch) -> Flags:
    """Which records belong into a consume queue."""
    transaction = batch["sys_flag"] & magic.TRANSACTION_MASK
    return np.asarray(
        (transaction == magic.TRANSACTION_NOT) | (transaction == magic.TRANSACTION_COMMIT), np.bool_
    )


def count_cut(
    files: Sequence[LoadedFile],
    cut_offset: int,
    kept_timestamp: int | None,
    options: ScanOptions,
    begin_of: Callable[[tuple[str, int]], int],
    listed: Callable[[], Longs],
) -> tuple[Ranges, int]:
    """The records that end beyond the cut, and how many further ones there are remains of an earlier log.

    `begin_of` gives the physical offset that a queue begins at: records in front of it belong to a topic that
    was deleted, and nobody misses them, unless light queues list them: `listed` gives the physical offsets
    that these list, in order.

    `kept_timestamp` is the storeTimestamp of the last record that the recovery read. What is older than the
    last record in front of the cut and comes after it was cut off before.
    """
    lost, stale_count = Ranges(), 0
    light: Longs | None = None
    table, begins = QueueTable(), np.full(1, -1, np.int64)  # the last one is for records without a queue
    for file in files:
        if file.end_offset <= cut_offset:
            continue
        wanted = replace(options, in_entries=file.in_entries)
        with FileReader(file.path) as reader:
            for found in scan_log_file(reader, file.start_offset, wanted, table):
                if isinstance(found, Region):
                    continue
                fresh_names = table.names[len(begins) - 1 :]
                known = [begin_of((java_decode(topic), number)) for topic, number in fresh_names]
                begins = np.concatenate([begins[:-1], np.array(known, np.int64), begins[-1:]])
                offset = found["pos"] + file.start_offset
                right = (found["faults"] & Fault.PHYSICAL_OFFSET) == 0
                cut = offset + found["total_size"] > cut_offset  # one that goes over it is not read either
                before = np.flatnonzero(right & ~cut)
                if len(before):
                    kept_timestamp = int(found["store_timestamp"][before[-1]])
                behind = right & cut
                deleted = behind & (offset < begins[found["queue_index"]])
                if deleted.any():
                    light = listed() if light is None else light
                    behind &= ~deleted | among(offset, light)
                fresh = behind
                if kept_timestamp is not None:
                    fresh = behind & (found["store_timestamp"] >= kept_timestamp)
                stale_count += int(np.count_nonzero(behind & ~fresh))
                lost.add(offset, found["total_size"].astype(np.int64), fresh)
    return lost, stale_count


@dataclass(frozen=True, slots=True)
class Handed:
    """What was dispatched: by the recovery from file number `first_file` on, records above `above_offset`; by
    the dispatcher from `from_offset` on, but for the ranges that it skipped."""

    first_file: int
    above_offset: int
    from_offset: int
    skipped: tuple[Skipped, ...]


class Remains:
    """What one start's queues and index lead to, for records that nothing was handed on of."""

    def __init__(self, queues: StartQueues, index: IndexModel, census: Census) -> None:
        self.queues = queues
        self.index = index
        self.census = census
        # by row of the table: up to where units are, and were, and from where on they are and were; the last
        # row is for queues that it did not take
        self._covered = np.array([(FAR, FAR, 0)], np.int64)

    def judge(self, batch: RecordBatch, base_offset: int, wanted: Flags) -> None:
        """Tell the census of those records of a batch, of the file that begins at `base_offset`."""
        limits = self._limits()[batch["queue_index"]]
        offset = batch["physical_offset"]
        keyed = batch["key_count"] > 0
        keyed &= (batch["sys_flag"] & magic.TRANSACTION_MASK) != magic.TRANSACTION_ROLLBACK
        in_front = offset < limits[:, 2]
        self.census.see(
            batch,
            base_offset,
            wanted,
            is_dispatched(batch) & ((offset > limits[:, 0]) | in_front),
            keyed & self.index.lacks(offset),
            (offset <= limits[:, 1]) & ~in_front,
            self.index.covered_before(offset),
        )

    def _limits(self) -> Longs:
        known = len(self._covered) - 1
        fresh = self.census.table.names[known:]
        if fresh:
            names = [(java_decode(topic), queue_id) for topic, queue_id in fresh]
            rows = [self.queues.covered(name) or (-1, -1, 0) for name in names]
            self._covered = np.concatenate([self._covered[:-1], rows, self._covered[-1:]])
        return self._covered


@dataclass(frozen=True, slots=True)
class Look:
    """A start whose log is to be looked over: its files after the start, what it handed on, where it ends."""

    files: Sequence[LoadedFile]
    handed: Handed
    max_offset: int
    remains: Remains

    def passed(self, file: LoadedFile) -> list[tuple[int, int]]:
        return [
            (item.start_offset, item.end_offset)
            for item in self.handed.skipped
            if item.start_offset < file.end_offset and item.end_offset > file.start_offset
        ]

    def wants(self, file: LoadedFile) -> bool:
        """Whether the file may have records that were not handed on."""
        return file.start_offset < self.handed.from_offset or bool(self.passed(file))

    def take(self, batch: RecordBatch, number: int, file: LoadedFile) -> None:
        """Judge the records of a batch of file `number` that were not handed on."""
        handed = self.handed
        offset = batch["pos"] + file.start_offset
        wanted = offset < handed.from_offset
        if number >= handed.first_file:
            wanted &= batch["physical_offset"] <= handed.above_offset
        for low, high in self.passed(file):
            wanted |= (offset >= low) & (offset < high)
        wanted &= (offset < self.max_offset) & ((batch["faults"] & Fault.PHYSICAL_OFFSET) == 0)
        self.remains.judge(batch, file.start_offset, wanted)


def look_over(looks: Sequence[Look], table: QueueTable, options: ScanOptions) -> None:
    """Read the log once for several starts, which share a table of queues.

    Raises StoreError for what cannot be read.
    """
    wanted: dict[str, tuple[LoadedFile, list[tuple[Look, int]]]] = {}
    for look in looks:
        for number, file in enumerate(look.files):
            if look.wants(file):
                wanted.setdefault(file.path, (file, []))[1].append((look, number))
    for file, takers in wanted.values():
        read = replace(options, in_entries=file.in_entries)
        with FileReader(file.path) as reader:
            for batch in scan_log_file(reader, file.start_offset, read, table):
                if isinstance(batch, Region):
                    continue
                for look, number in takers:
                    look.take(batch, number, file)
