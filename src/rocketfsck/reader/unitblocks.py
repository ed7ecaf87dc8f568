"""The units of a consume queue block by block, and of what kind each is. Per unit only NumPy.

Reference 3.1, 3.3, 3.5, 3.7.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.consumequeue import PRE_BLANK_SIZE
from rocketfsck.formats.properties import LMQ_PREFIX
from rocketfsck.reader.units import UnitReader, Units
from rocketfsck.scan.sorting import distinct
from rocketfsck.store.model import ConsumeQueue, Store

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
        blank = empty & (size == PRE_BLANK_SIZE)
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
        index, end = max(-(-start // size), done), (start + file.size) // size
        while index < end:
            count = min(block_count, end - index)
            yield index, reader.units(index, count)
            index += count
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
                index = low
            while index < high:
                count = min(block_count, high - index)
                yield index, count, reader.units(index, count)
                index += count
        if index < end:
            yield index, end - index, None
        done = max(done, end)


# Light queues (LMQ): they list records that have a queue of their own. Reference 2.13, 3.4.

OFFSET_LIMIT = 1 << 22
"""Physical offsets that are kept of all light queues together."""


def is_light_queue(queue: ConsumeQueue) -> bool:
    """Whether a queue lists records of others."""
    return queue.topic.startswith(LMQ_PREFIX)


def unit_offsets(reader: UnitReader, start: int, end: int) -> Iterator[Longs]:
    """The physical offsets that the units `start:end` of a queue name, block by block. Raises StoreError."""
    for low, high in reader.with_data(start, end):
        for first in range(low, high, BLOCK_COUNT):
            units = reader.units(first, min(BLOCK_COUNT, high - first))
            yield units["offset"][kinds_of(units) == Kind.UNIT].astype(np.int64)


def light_offsets(store: Store, first: int) -> Longs:
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
