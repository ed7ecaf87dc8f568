"""Light queues (LMQ): they list records that have a queue of their own. Reference 2.13, 3.4."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.properties import LMQ_PREFIX
from rocketfsck.reader.unitblocks import BLOCK_COUNT, Kind, kinds_of
from rocketfsck.reader.units import UnitReader
from rocketfsck.scan.sorting import distinct
from rocketfsck.store.model import ConsumeQueue, Store

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
