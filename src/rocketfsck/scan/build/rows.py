"""What the rebuilding of queues and index needs of a batch of records.

One row a dispatch (a unit that the broker would write), one a record for the index, one a key.
Reference 3.4, 4.5, 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rocketfsck.formats.arrays import Longs, Words
from rocketfsck.formats.magic import INNER_BATCH, TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketfsck.scan.columns import RecordBatch, Trait
from rocketfsck.scan.dispatch import dispatches_of

# the columns of a dispatch
(
    QUEUE,  # row in the scan's QueueTable, -1: it took no more names
    INDEX,  # queueOffset
    BASE,  # msgBaseOffset, what a batch queue keeps
    COUNT,  # number of messages
    OFFSET,  # where the record is in the log
    SIZE,
    TAGS,
    TIME,
    FLAGS,
) = range(9)
ROW_SIZE = 9

OWN = 1
"""The record's own queue, not one that a multi-dispatch record lists."""
INNER = 2
"""An inner batch: its topic has batch queues."""
SKIPPED = 4
"""No dispatch: a broker gave the record a number in the queue, and writes no unit for it."""


@dataclass(frozen=True, slots=True)
class KeyRows:
    """Every record (`offset`, `time`), also those without keys, and the keys of those that are indexed.

    `key_hash[i]` is a key of the record in row `key_record[i]`; the keys are in the order of their puts.
    """

    offset: Longs
    time: Longs
    key_hash: Words
    key_record: Words

    def __len__(self) -> int:
        return len(self.offset)


def unit_rows(batch: RecordBatch, base_offset: int, delay_levels: Mapping[int, int]) -> Longs:
    """The dispatches of a batch's records in log order, a row of ROW_SIZE each, copied out of it."""
    found = dispatches_of(batch, base_offset, delay_levels=delay_levels)
    own = np.ones(len(found), np.bool_)
    own[1:] = found.row[1:] != found.row[:-1]
    inner = own & ((batch["traits"][found.row] & int(Trait.INNER_BATCH)) != 0)
    inner &= (batch["sys_flag"][found.row] & INNER_BATCH) != 0
    rows = np.empty((len(found), ROW_SIZE), np.int64)
    rows[:, QUEUE] = found.queue
    rows[:, INDEX] = np.where(own, batch["queue_offset"][found.row], found.index)
    rows[:, BASE] = found.index
    rows[:, COUNT] = found.count
    rows[:, OFFSET] = found.offset
    rows[:, SIZE] = found.size
    rows[:, TAGS] = found.tags
    rows[:, TIME] = found.time
    rows[:, FLAGS] = OWN * own + INNER * inner
    return rows


def key_rows(batch: RecordBatch, base_offset: int) -> KeyRows:
    """The records of a batch and the keys that the broker indexes, copied out of it."""
    hashes, records = batch["key_hash"].copy(), batch["key_record"].copy()
    rolled_back = (batch["sys_flag"] & TRANSACTION_MASK) == TRANSACTION_ROLLBACK
    if rolled_back.any():
        kept = ~rolled_back[records]
        hashes, records = hashes[kept], records[kept]
    return KeyRows(batch["pos"] + np.int64(base_offset), batch["store_timestamp"].copy(), hashes, records)


def rows_from(rows: KeyRows, offset: int) -> KeyRows:
    """The rows of records that do not lie before `offset`."""
    first = int(np.searchsorted(rows.offset, offset))
    keys = rows.key_record >= first
    return KeyRows(
        rows.offset[first:], rows.time[first:], rows.key_hash[keys], rows.key_record[keys] - np.int32(first)
    )
