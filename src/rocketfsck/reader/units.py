"""Reads units of one consume queue by their place in the queue.

    stream := the files in order of name; a name is the stream's byte position of the file's first byte

A place that no file holds reads as a unit of zeros, which is what a broker would find there. Bounded: a
read is cut into blocks by the caller, and at most a few files are open at once. Reference 3.1, 3.7.

The units of a consume queue block by block, and of what kind each is. Per unit only NumPy.

Reference 3.1, 3.3, 3.5, 3.7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import consumequeue, dtypes, properties
from rocketfsck.scan.spans import distinct, group_bounds
from rocketfsck.store.model import ConsumeQueue, ExtQueue, Store
from rocketfsck.store.openfiles import OpenFiles
from rocketfsck.store.reading import FileReader

# Units of consume queue extensions, one after another.
#
#     ext file := unit* [ff ff]   unit := size:i16 tagsCode:i64 msgStoreTime:i64 bitMapSize:i16 filterBitMap
#
# Reference 3.6.

_CHUNK_SIZE = 1 << 16
_HEAD = consumequeue.EXT_UNIT.packer(last="size")


def unit_sizes(data: bytes) -> Iterator[int]:
    """The lengths in bytes of the units from the beginning of `data` on, up to the first that is not one."""
    pos = 0
    while pos + consumequeue.EXT_UNIT_MIN_SIZE <= len(data):
        (size,) = _HEAD.unpack_from(data, pos)
        if size < consumequeue.EXT_UNIT_MIN_SIZE or pos + size > len(data):
            return
        yield size
        pos += size


def count_bit_maps(ext: ExtQueue) -> int:
    """How many units of an extension have a filter bit map. Raises StoreError for a file that fails."""
    count = 0
    for file in ext.files:
        with FileReader(file.path) as reader:
            pos = 0
            while data := reader.read(pos, min(_CHUNK_SIZE, reader.size - pos)):
                sizes = list(unit_sizes(data))
                count += sum(size > consumequeue.EXT_UNIT_MIN_SIZE for size in sizes)
                pos += sum(sizes)
                if not sizes:
                    break
    return count


SPAN_SIZE = 1 << 20
"""Bytes of a stream that are read at once for what is gathered from them."""

SEARCH_COUNT = 512
"""Units that a search reads at once, when no more are left to search."""
_BEHIND = (1 << 63) - 1

Units = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit: its place in the stream, what it points at, and the queue offsets that it stands for.

    `tags_code` may be a delivery time or the address of an ext unit. `store_timestamp` (ms) only batch units
    have.
    """

    index: int
    queue_offset: int
    count: int
    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int | None = None

    @classmethod
    def of(cls, index: int, row: np.void) -> Self:
        """The unit at this place, as it was read (`unit_dtype`)."""
        offset, size, tags = int(row["offset"]), int(row["size"]), int(row["tagsCode"])
        if "batchSize" not in (row.dtype.names or ()):
            return cls(index, index, 1, offset, size, tags)
        base, count = int(row["msgBaseOffset"]), int(row["batchSize"])
        return cls(index, base, count, offset, size, tags, int(row["storeTime"]))

    @property
    def is_used(self) -> bool:
        """The broker's own test: it points somewhere."""
        return self.physical_offset >= 0 and self.size > 0

    @property
    def is_pre_blank(self) -> bool:
        """Whether it only fills the queue's first file (reference 3.3)."""
        return (self.physical_offset, self.size, self.tags_code) == (0, consumequeue.PRE_BLANK_SIZE, 0)

    @property
    def is_message(self) -> bool:
        """Whether it points somewhere, and does more than to fill the queue's first file."""
        return self.is_used and not self.is_pre_blank


class StreamReader(OpenFiles):
    """The bytes of a mapped file queue by their position in the stream; bytes that no file holds are zero."""

    __slots__ = ()

    @property
    def start(self) -> int:
        """Stream position of the first byte on disk; 0 without files."""
        return self.starts[0] if self.starts else 0

    @property
    def end(self) -> int:
        """Stream position after the last byte on disk; 0 without files."""
        ends = (start + file.size for start, file in zip(self.starts, self.files, strict=True))
        return max(ends, default=0)

    def read(self, pos: int, size: int) -> bytearray:
        """`size` bytes from stream position `pos` on. Raises StoreError for a file that fails or shrinks."""
        data = bytearray(size)
        view = memoryview(data)
        for index in range(max(self.last_from(pos), 0), len(self.files)):
            start = self.starts[index]
            if start >= pos + size:
                break
            low, high = max(start, pos), min(start + self.files[index].size, pos + size)
            if low < high:
                self.reader(index).read_into(view[low - pos : high - pos], low - start)
        return data

    def gather(self, places: dtypes.Longs, dtype: dtypes.Dtype) -> NDArray[Any]:
        """The structures at these stream positions, in any order: zeros where none begins in the stream."""
        size = dtype.itemsize
        found = np.zeros((len(places), size), np.uint8)
        rows = np.flatnonzero((places >= self.start) & (places < self.end))
        rows = rows[np.argsort(places[rows], kind="stable")]
        for low, high in pairwise(group_bounds(places[rows] // SPAN_SIZE).tolist()):
            start, last = int(places[rows[low]]), int(places[rows[high - 1]])
            data = np.frombuffer(self.read(start, last - start + size), np.uint8)
            found[rows[low:high]] = data[(places[rows[low:high]] - start)[:, None] + np.arange(size)]
        return found.view(dtype).reshape(-1)


class UnitReader(StreamReader):
    """The units of a consume queue by index: their place in the stream, for kind "file" the queue offset."""

    __slots__ = ("dtype", "unit_size")

    def __init__(self, queue: ConsumeQueue) -> None:
        super().__init__(queue.mapped_files)
        self.dtype = dtypes.unit_dtype(queue.kind)
        self.unit_size = queue.unit_size

    @property
    def first_index(self) -> int:
        return self.start // self.unit_size

    @property
    def end_index(self) -> int:
        """The index after the last whole unit on disk."""
        return self.end // self.unit_size

    def units(self, index: int, count: int) -> Units:
        """`count` units from `index` on, big-endian; zeros where no file is."""
        data = self.read(index * self.unit_size, count * self.unit_size)
        return np.frombuffer(data, self.dtype)

    def unit(self, index: int) -> Unit | None:
        """The unit at an index, None where no file holds it. Raises StoreError when it cannot be read."""
        place = self.at(index * self.unit_size) if index >= 0 else None
        if place is None:
            return None
        reader, pos = place
        data = reader.read_upto(pos, self.unit_size)
        return Unit.of(index, np.frombuffer(data, self.dtype)[0]) if len(data) == self.unit_size else None

    def with_data(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of the index range `start:end` that hold data, in order of the files.

        The units in between are in holes, or in no file: they read as zeros. Raises StoreError for a file
        that cannot be opened.
        """
        size = self.unit_size
        for number, file in enumerate(self.files):
            first = file.start_offset or 0
            limit = min(end, (first + file.size) // size)
            if max(start, first // size) >= limit:
                continue
            for low, high in self.reader(number).data_extents():
                least, most = max(start, (first + low) // size), min(limit, -(-(first + high) // size))
                if least < most:
                    yield least, most

    def find_offset(self, offset: int, end: int | None = None) -> int:
        """The index of the first unit whose commitlog offset is `offset` or more, by binary search; `end`, or
        the end of the files, for none before it.

        Trusts that offsets rise; units of zeros count as after the end. The caller looks at what it gets.
        """
        return OffsetSearch(self, end).find(offset)


class OffsetSearch:
    """`UnitReader.find_offset` for many offsets: what was read for one of them serves the next.

    Keeps an offset for each unit that was looked at by itself, at most one in `SEARCH_COUNT` / 2 of a queue,
    and the last `SEARCH_COUNT` that were read together.
    """

    __slots__ = ("_block", "_looks", "_reader", "_span", "_start")

    def __init__(self, reader: UnitReader, end: int | None = None) -> None:
        self._reader = reader
        self._span = (reader.first_index, reader.end_index if end is None else min(end, reader.end_index))
        self._looks: dict[int, int] = {}
        self._start, self._block = 0, [0] * 0

    def find(self, offset: int) -> int:
        """As `UnitReader.find_offset`. Raises StoreError."""
        low, high = self._span
        while low < high:
            middle = (low + high) // 2
            if high - low <= SEARCH_COUNT and not self._has(low, high):
                self._start, self._block = low, self._offsets(low, high - low)
            if self._offset(middle) < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _has(self, low: int, high: int) -> bool:
        return self._start <= low and high <= self._start + len(self._block)

    def _offset(self, index: int) -> int:
        if self._has(index, index + 1):
            return self._block[index - self._start]
        if index not in self._looks:
            self._looks[index] = self._offsets(index, 1)[0]
        return self._looks[index]

    def _offsets(self, index: int, count: int) -> list[int]:
        """The commitlog offsets of units; zeros count as after the end."""
        units = self._reader.units(index, count)
        offsets: list[int] = np.where(units["size"] > 0, units["offset"], _BEHIND).tolist()
        return offsets


BLOCK_COUNT = 1 << 15


class Kind(IntEnum):
    """What a unit is, as a broker that recovers the queue sees it."""

    ZERO = 0
    UNIT = 1
    PRE_BLANK = 2
    INVALID = 3


def kinds_of(units: Units) -> NDArray[np.int8]:
    """The `Kind` of every unit of a block."""
    offset, size = units["offset"], units["size"]
    sound = (offset >= 0) & (size > 0)
    if "batchSize" in (units.dtype.names or ()):
        sound &= (units["msgBaseOffset"] >= 0) & (units["batchSize"] > 0)
        zero = ~units.view(np.uint8).reshape(len(units), -1).any(axis=1)
        blank = np.zeros(len(units), np.bool_)
    else:
        empty = (offset == 0) & (units["tagsCode"] == 0)
        zero = empty & (size == 0)
        blank = empty & (size == consumequeue.PRE_BLANK_SIZE)
    kinds = np.full(len(units), Kind.INVALID, np.int8)
    kinds[sound] = Kind.UNIT
    kinds[blank] = Kind.PRE_BLANK
    kinds[zero] = Kind.ZERO
    return kinds


def read_blocks(reader: UnitReader, block_count: int = BLOCK_COUNT) -> Iterator[tuple[int, Units]]:
    """The whole units of every file in order, as (index of the first, units)."""
    size = reader.unit_size
    done = 0
    for file in reader.files:
        start = file.start_offset or 0
        first, end = max(-(-start // size), done), (start + file.size) // size
        for index in range(first, end, block_count):
            yield index, reader.units(index, min(block_count, end - index))
        done = max(done, end)


def read_data_blocks(
    reader: UnitReader, block_count: int = BLOCK_COUNT, *, first: int = 0
) -> Iterator[tuple[int, int, Units | None]]:
    """The same units, from the index `first` on, as (index of the first, their count, units); None for those
    of holes, which are zero.

    Holes are not read: a queue's last file is little else, and so is a store of many queues.
    """
    size = reader.unit_size
    done = first
    for number, file in enumerate(reader.files):
        start = file.start_offset or 0
        index, end = max(-(-start // size), done), (start + file.size) // size
        for data_start, data_end in reader.reader(number).data_extents():
            low = min(max((start + data_start) // size, index), end)
            high = min(max(-(-(start + data_end) // size), index), end)
            if low > index:
                yield index, low - index, None
            for place in range(low, high, block_count):
                count = min(block_count, high - place)
                yield place, count, reader.units(place, count)
            index = max(low, high)
        if index < end:
            yield index, end - index, None
        done = max(done, end)


# Light queues (LMQ): they list records that have a queue of their own. Reference 2.13, 3.4.

OFFSET_LIMIT = 1 << 22
"""Physical offsets that are kept of all light queues together."""


def is_light_queue(queue: ConsumeQueue) -> bool:
    """Whether a queue lists records of others."""
    return queue.topic.startswith(properties.LMQ_PREFIX)


def unit_offsets(reader: UnitReader, start: int, end: int) -> Iterator[dtypes.Longs]:
    """The physical offsets that the units `start:end` of a queue name, block by block. Raises StoreError."""
    for low, high in reader.with_data(start, end):
        for first in range(low, high, BLOCK_COUNT):
            units = reader.units(first, min(BLOCK_COUNT, high - first))
            yield units["offset"][kinds_of(units) == Kind.UNIT].astype(np.int64)


def light_offsets(store: Store, first: int) -> dtypes.Longs:
    """The physical offsets from `first` on that light queues list, in order, each once; at most about
    `OFFSET_LIMIT`. Raises StoreError for a file that fails."""
    found, count = [np.zeros(0, np.int64)], 0
    for queue in store.queues:
        if not is_light_queue(queue) or count > OFFSET_LIMIT:
            continue
        with UnitReader(queue) as reader:
            for offsets in unit_offsets(reader, reader.find_offset(first), reader.end_index):
                found.append(offsets[offsets >= first])
                count += len(found[-1])
    return distinct(np.concatenate(found))
