"""What the rebuilding of queues and index needs of a batch of records, as columns of int64.

One row a dispatch (a unit that the broker would write), one row a record that is indexed, one row a key.
Reference 3.4, 4.5, 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.magic import INNER_BATCH, TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketfsck.scan.columns import RecordBatch, Trait
from rocketfsck.scan.dispatch import dispatches_of

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class UnitRows:
    """Dispatches in log order. `queue` is the row in the scan's QueueTable (-1: it took no more names).

    `index` is the queueOffset, `base` and `count` the msgBaseOffset and the number of messages (what a batch
    queue keeps), `offset` where the record stands in the log. `own` tells the record's own queue from those
    that a multi-dispatch record lists; `inner` marks inner batches, whose topics have batch queues.
    """

    queue: Longs
    index: Longs
    base: Longs
    count: Longs
    offset: Longs
    size: Longs
    tags: Longs
    time: Longs
    own: Flags
    inner: Flags

    def __len__(self) -> int:
        return len(self.queue)


@dataclass(frozen=True, slots=True)
class KeyRows:
    """Every record (`offset`, `time`), also those without keys, and the keys of those that are indexed.

    `key_hash[i]` is a key of the record in row `key_record[i]`; the keys are in the order of their puts.
    """

    offset: Longs
    time: Longs
    key_hash: Longs
    key_record: Longs

    def __len__(self) -> int:
        return len(self.offset)


def unit_rows(batch: RecordBatch, base_offset: int, delay_levels: Mapping[int, int]) -> UnitRows:
    """The dispatches of a batch's records, copied out of it."""
    found = dispatches_of(batch, base_offset, delay_levels=delay_levels)
    own = np.ones(len(found), np.bool_)
    own[1:] = found.row[1:] != found.row[:-1]
    index = np.where(own, batch["queue_offset"][found.row], found.index)
    inner = (batch["traits"][found.row] & int(Trait.INNER_BATCH)) != 0
    inner &= (batch["sys_flag"][found.row] & INNER_BATCH) != 0
    return UnitRows(
        found.queue,
        index,
        found.index,
        found.count,
        found.offset,
        found.size,
        found.tags,
        found.time,
        own,
        inner & own,
    )


def key_rows(batch: RecordBatch, base_offset: int) -> KeyRows:
    """The records of a batch and the keys that the broker indexes, copied out of it."""
    hashes = batch["key_hash"].astype(np.int64)
    records = batch["key_record"].astype(np.int64)
    rolled_back = (batch["sys_flag"] & TRANSACTION_MASK) == TRANSACTION_ROLLBACK
    if rolled_back.any():
        kept = ~rolled_back[records]
        hashes, records = hashes[kept], records[kept]
    return KeyRows(batch["pos"] + np.int64(base_offset), batch["store_timestamp"].copy(), hashes, records)
