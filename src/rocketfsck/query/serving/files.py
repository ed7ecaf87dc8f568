"""The mapped files of a running broker: the commit log and the consume queues as its memory has them.

    file := contents up to `wrote_pos`, and room after it which nothing is read from

What a running broker counts as a queue's units is a position in its memory, not in the files: units that
a truncation left after the position are there for the next start, and not for this broker.
`query.serving.state` says which state a store is taken in. Reference 2.1, 3.1, 3.5, 7.3.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.consumequeue import PRE_BLANK_UNIT
from rocketfsck.formats.dtypes import unit_dtype
from rocketfsck.reader.heads import HEAD_SIZE, decode_head
from rocketfsck.reader.units import Unit
from rocketfsck.store.model import QueueKind
from rocketfsck.store.openfiles import Readers


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
                return unit if unit.is_used and not unit.is_pre_blank else None
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
