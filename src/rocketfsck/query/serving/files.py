"""The mapped files of a running broker: the commit log and the consume queues as its memory has them.

    file := contents up to `wrote_pos`, and room after it which nothing is read from

What a running broker counts as a queue's units is a position in its memory, not in the files: units that
a truncation left after the position are there for the next start, and not for this broker.
`query.serving.state` says which state a store is taken in. Reference 2.1, 3.1, 3.5, 7.3.

Batch queues of a running broker: the unit of a queue offset, the unit of a time. Reference 3.7, 7.3.

The file is chosen by the first unit of each (`searchBcqByCacheEnable`, on by default, caches these units); in
the file one of two binary searches is used, each with quirks of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats.consumequeue import PRE_BLANK_UNIT
from rocketfsck.formats.dtypes import Longs, unit_dtype
from rocketfsck.reader.heads import HEAD_SIZE, decode_head
from rocketfsck.reader.units import Unit
from rocketfsck.store.model import QueueKind
from rocketfsck.store.openfiles import Readers
from rocketfsck.store.rocks.spilling import TIMES


class BrokerThrowsError(StoreError):
    """The broker's own code throws instead of an answer. `thrown` is the class of what it throws."""

    def __init__(self, thrown: str) -> None:
        super().__init__(f"a broker throws {thrown} instead of answering")
        self.thrown = thrown


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A mapped file: its place in the stream, its length, where its contents end, all in bytes.

    `path` is empty for a file that a start creates. `mtime` in ms.
    """

    path: str
    start_offset: int
    size: int
    wrote_pos: int
    mtime: int = 0

    @property
    def end_offset(self) -> int:
        return self.start_offset + self.size


def java_int(value: int) -> int:
    """A sum of two ints as Java has it: it wraps."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def find_file(files: Sequence[ServedFile], file_size: int, offset: int, *, first_at_0: bool) -> int | None:
    """`findMappedFileByOffset`: the number of the file that holds a stream position, None for none.

    `first_at_0`: position 0 is then answered with the first file.
    """
    if not files:
        return None
    if files[0].start_offset <= offset < files[-1].start_offset + file_size:
        number = offset // file_size - files[0].start_offset // file_size
        if 0 <= number < len(files) and _holds(files[number], file_size, offset):
            return number
        for number, file in enumerate(files):
            if _holds(file, file_size, offset):
                return number
    return 0 if first_at_0 and offset == 0 else None


def _holds(file: ServedFile, file_size: int, offset: int) -> bool:
    return file.start_offset <= offset < file.start_offset + file_size


@dataclass(frozen=True, slots=True)
class ServedLog:
    """The commit log of a running broker. `checks_end`: since 5.1.0 a record's time is only looked for below
    the end of the log; `knows_ipv6`: since 4.6.0 hosts may be long."""

    files: tuple[ServedFile, ...]
    file_size: int
    checks_end: bool
    knows_ipv6: bool
    readers: Readers

    @property
    def min_offset(self) -> int:
        """Physical offset of the first byte; -1 without files."""
        return self.files[0].start_offset if self.files else -1

    @property
    def end_offset(self) -> int:
        """The physical offset after the last byte; 0 without files."""
        return self.files[-1].start_offset + self.files[-1].wrote_pos if self.files else 0

    def select(self, offset: int, size: int) -> tuple[ServedFile, int] | None:
        """`CommitLog.getMessage`: the file with these bytes and the position in it, None where there are
        none. Raises BrokerThrowsError for sizes that the broker does not check."""
        number = find_file(self.files, self.file_size, offset, first_at_0=True)
        if number is None:
            return None
        file, pos = self.files[number], offset % self.file_size
        if java_int(pos + size) > file.wrote_pos:
            return None
        if size < 0 or pos + size > file.size:
            raise BrokerThrowsError("java.lang.IllegalArgumentException")
        return file, pos

    def store_timestamp(self, offset: int, size: int) -> int:
        """`pickupStoreTimestamp`: the time (ms) of the record of a unit, -1 where the broker finds none."""
        if offset < self.min_offset or (self.checks_end and offset + size > self.end_offset):
            return -1
        found = self.select(offset, size)
        if found is None:
            return -1
        file, pos = found
        data = self.readers.opened(file.path).read(pos, min(size, HEAD_SIZE))
        try:
            return decode_head(data, knows_ipv6=self.knows_ipv6).store_timestamp
        except struct.error:
            raise BrokerThrowsError("java.lang.IndexOutOfBoundsException") from None

    def next_file(self, offset: int) -> int:
        """`rollNextFile`: where the file behind the one of an offset begins."""
        return offset + self.file_size - offset % self.file_size


@dataclass(frozen=True, slots=True)
class AppendedUnits:
    """Units that a start appends: their numbers in the stream, rising, and what they hold.

    `base`, `count` and `store_timestamp` are those of batch units.
    """

    place: Longs
    offset: Longs
    size: Longs
    tags: Longs
    base: Longs
    count: Longs
    store_timestamp: Longs


NO_UNITS = AppendedUnits(*(np.zeros(0, np.int64) for _ in range(7)))


@dataclass(frozen=True, slots=True)
class ServedQueue:
    """A consume queue of a running broker. Sizes and positions in bytes of the stream.

    `min_pos` is the position of the first unit that can be read (for kind "file"). `min_offset` and
    `max_offset` are queue offsets: the first that can be read (-1 for a batch queue without units), and the
    one that the next message gets. `in_database`: a broker has it in RocksDB, the files are made of that.
    """

    topic: str
    queue_id: int
    kind: QueueKind
    unit_size: int
    file_size: int
    files: tuple[ServedFile, ...]
    min_pos: int
    min_offset: int
    max_offset: int
    readers: Readers
    appended: AppendedUnits = field(default=NO_UNITS)
    in_database: bool = False

    def unit_at(self, queue_offset: int) -> Unit | None:
        """The unit at a queue offset of a queue of kind "file"; None where it has none."""
        pos = queue_offset * self.unit_size
        for file in reversed(self.files):
            if file.start_offset <= pos < file.start_offset + file.wrote_pos:
                unit = self.unit(file, pos - file.start_offset)
                return unit if unit.is_message else None
        return None

    def unit(self, file: ServedFile, pos: int) -> Unit:
        """The unit at a position of a file, which must be below the file's `wrote_pos`."""
        index = (file.start_offset + pos) // self.unit_size
        found = int(np.searchsorted(self.appended.place, index))
        if found < len(self.appended.place) and self.appended.place[found] == index:
            return self._appended(index, found)
        if file.path:
            data = self.readers.opened(file.path).read(pos, self.unit_size)
        else:
            data = self._filled(file, index)
        return Unit.of(index, np.frombuffer(data, unit_dtype(self.kind))[0])

    def row_time(self, queue_offset: int) -> int | None:
        """The storeTime of a row of a database (`store.rocks.spilling`); None for one that a start adds."""
        first, added = self.files[0], self.appended.place
        found = int(np.searchsorted(added, queue_offset))
        if not first.path or (found < len(added) and added[found] == queue_offset):
            return None
        place = queue_offset - first.start_offset // self.unit_size
        times = self.readers.opened(f"{Path(first.path).parent}{TIMES}")
        return int.from_bytes(times.read(place * 8, 8), "big", signed=True)

    def _filled(self, file: ServedFile, index: int) -> bytes:
        """A unit of a new file that belongs to no record: a pre-blank one before the first, else zeros."""
        first = int(self.appended.place[0]) if len(self.appended.place) else 0
        is_blank = self.kind == "file" and file == self.files[0] and index < first
        return PRE_BLANK_UNIT if is_blank else bytes(self.unit_size)

    def _appended(self, index: int, number: int) -> Unit:
        units = self.appended
        values = int(units.offset[number]), int(units.size[number]), int(units.tags[number])
        if self.kind == "file":
            return Unit(index, index, 1, *values)
        base, count = int(units.base[number]), int(units.count[number])
        return Unit(index, base, count, *values, int(units.store_timestamp[number]))

    def file_of(self, queue_offset: int) -> tuple[ServedFile, int] | None:
        """`getIndexBuffer` of a queue of kind "file": the file and the position of the unit of a queue
        offset; None where the broker has none."""
        pos = queue_offset * self.unit_size
        if pos < self.min_pos:
            return None
        number = find_file(self.files, self.file_size, pos, first_at_0=False)
        if number is None or pos % self.file_size >= self.files[number].wrote_pos:
            return None
        return self.files[number], pos % self.file_size


Boundary = Literal["lower", "upper"]


def first_unit(queue: ServedQueue, file: ServedFile) -> Unit | None:
    """The first unit of a file, None for an empty one."""
    return queue.unit(file, 0) if file.wrote_pos >= queue.unit_size else None


def last_pos(queue: ServedQueue, file: ServedFile) -> int:
    """The position of the last unit of a file that is not empty."""
    return file.wrote_pos - queue.unit_size


def find_batch(queue: ServedQueue, queue_offset: int) -> tuple[ServedFile, int] | None:
    """`getBatchMsgIndexBuffer`: the file and position of the unit whose batch holds a queue offset.

    The unit in front of it where no batch does; None where the broker finds none. Raises BrokerThrowsError
    for a queue without files.
    """
    if queue_offset >= queue.max_offset:
        return None
    _need_files(queue)
    file = _last_file_from(queue, queue_offset, lambda unit: unit.queue_offset)
    if file is None:
        return None
    pos = _search(queue, file, queue_offset)
    return None if pos is None else (file, pos)


def _need_files(queue: ServedQueue) -> None:
    if not queue.files:
        raise BrokerThrowsError("java.lang.NullPointerException")


def _last_file_from(queue: ServedQueue, wanted: int, key: Callable[[Unit], int]) -> ServedFile | None:
    """The last file, in the order of a key of first units, whose first unit is not behind what is wanted."""
    last = first_unit(queue, queue.files[-1])
    if last is not None and key(last) <= wanted:
        return queue.files[-1]
    cache = {key(unit): file for file in queue.files if (unit := first_unit(queue, file)) is not None}
    below = [start for start in cache if start <= wanted]
    return cache[max(below)] if below else None


def _search(queue: ServedQueue, file: ServedFile, queue_offset: int) -> int | None:
    """`binarySearch`: the last unit whose base is not above the offset, where bases rise."""
    size = queue.unit_size
    low, high = 0, last_pos(queue, file)
    most = high
    while low <= high:
        middle = (low + high) // 2 // size * size
        base = queue.unit(file, middle).queue_offset
        if base == queue_offset:
            return middle
        if base > queue_offset:
            high = middle - size
        elif middle == low:
            behind = middle + size
            is_there = behind <= most and queue.unit(file, behind).queue_offset <= queue_offset
            return behind if is_there else middle
        else:
            low = middle
    return None


def batch_offset_of_time(queue: ServedQueue, timestamp: int, boundary: Boundary) -> int:
    """`getOffsetInQueueByTime`: the base of the unit that the broker finds for a time, -1 for none.

    Raises BrokerThrowsError for a queue without files.
    """
    _need_files(queue)
    file = _last_file_from(queue, timestamp, lambda unit: unit.store_timestamp or 0) or queue.files[0]
    if first_unit(queue, file) is None:
        return -1
    high = last_pos(queue, file)
    last = queue.unit(file, high)
    if timestamp >= (last.store_timestamp or 0):
        return last.queue_offset
    pos = _search_time(queue, file, timestamp, boundary)
    return -1 if pos is None else queue.unit(file, pos).queue_offset


def _search_time(queue: ServedQueue, file: ServedFile, timestamp: int, boundary: Boundary) -> int | None:
    """`binarySearchRight`: for "lower" the first unit of that time or later, where times rise."""
    size = queue.unit_size
    low, high = 0, last_pos(queue, file)
    while low <= high:
        middle = (low + high) // 2 // size * size
        stored = queue.unit(file, middle).store_timestamp or 0
        if middle == high:
            return middle if stored >= timestamp else None
        if middle == low:
            if stored >= timestamp:
                return middle
            low = middle + size
        elif boundary == "lower":
            low, high = (middle + size, high) if stored < timestamp else (low, middle)
        else:
            low, high = (middle, high) if stored <= timestamp else (low, middle - size)
    return None
