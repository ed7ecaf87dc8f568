"""The dispatches of a batch of records as rows, compiled: `unit_rows` as in `buildrows`, row for row.

Reference 2.13, 3.2, 8.
"""

# mypy: disable-error-code="no-any-return, assignment, return-value, arg-type"
# (machine integers: what is an int here has 64 bits and no Python type)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.magic import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_MASK
from rocketfsck.scan import buildrows
from rocketfsck.scan.columns import RecordBatch, Trait
from rocketfsck.scan.dispatch import UNKNOWN_LEVEL_DELAY
from rocketfsck.scan.jit import entry

QUEUE, INDEX, BASE, COUNT, OFFSET, SIZE, TAGS, TIME, FLAGS = range(buildrows.ROW_SIZE)
OWN, INNER = buildrows.OWN, buildrows.INNER
T_INNER, T_DELAYED = int(Trait.INNER_BATCH), int(Trait.SCHEDULE_TOPIC | Trait.DELAY)


@entry
def _collect(
    count: int,
    sys_flag: Any,
    traits: Any,
    queue_index: Any,
    queue_offset: Any,
    inner_base: Any,
    batch_size: Any,
    pos: Any,
    total_size: Any,
    tags_code: Any,
    store_timestamp: Any,
    delay_level: Any,
    dispatch_count: int,
    dispatch_record: Any,
    dispatch_queue: Any,
    dispatch_offset: Any,
    base_offset: int,
    delays: Any,
    rows: Any,
) -> int:
    done = 0
    other = 0
    for row in range(count):
        while other < dispatch_count and dispatch_record[other] < row:
            other += 1
        kind = sys_flag[row] & TRANSACTION_MASK
        if kind != 0 and kind != TRANSACTION_COMMIT:
            continue
        tags = tags_code[row]
        level = delay_level[row]
        if level > 0 and traits[row] & T_DELAYED == T_DELAYED:
            tags = store_timestamp[row] + delays[min(level, len(delays) - 1)]
        flags = OWN
        if traits[row] & T_INNER != 0 and sys_flag[row] & INNER_BATCH != 0:
            flags |= INNER
        rows[done, QUEUE] = queue_index[row]
        rows[done, INDEX] = queue_offset[row]
        rows[done, BASE] = inner_base[row]
        rows[done, COUNT] = batch_size[row]
        rows[done, OFFSET] = pos[row] + base_offset
        rows[done, SIZE] = total_size[row]
        rows[done, TAGS] = tags
        rows[done, TIME] = store_timestamp[row]
        rows[done, FLAGS] = flags
        done += 1
        while other < dispatch_count and dispatch_record[other] == row:
            rows[done, QUEUE] = dispatch_queue[other]
            rows[done, INDEX] = dispatch_offset[other]
            rows[done, BASE] = dispatch_offset[other]
            rows[done, COUNT] = 1
            rows[done, OFFSET] = pos[row] + base_offset
            rows[done, SIZE] = total_size[row]
            rows[done, TAGS] = tags
            rows[done, TIME] = store_timestamp[row]
            rows[done, FLAGS] = 0
            done += 1
            other += 1
    return done


def unit_rows(batch: RecordBatch, base_offset: int, delay_levels: Mapping[int, int]) -> Longs:
    """See `buildrows.unit_rows`."""
    last = max(delay_levels, default=0)
    delays = np.full(last + 1, UNKNOWN_LEVEL_DELAY, np.int64)
    for level, delay in delay_levels.items():
        delays[level] = delay
    dispatch_count = len(batch["dispatch_record"])
    rows = np.empty((batch.record_count + dispatch_count, buildrows.ROW_SIZE), np.int64)
    columns, dispatches = batch.records, batch.dispatches
    count = _collect(
        batch.record_count,
        columns["sys_flag"],
        columns["traits"],
        columns["queue_index"],
        columns["queue_offset"],
        columns["inner_base"],
        columns["batch_size"],
        columns["pos"],
        columns["total_size"],
        columns["tags_code"],
        columns["store_timestamp"],
        columns["delay_level"],
        dispatch_count,
        dispatches["dispatch_record"],
        dispatches["dispatch_queue"],
        dispatches["dispatch_offset"],
        base_offset,
        delays,
        rows,
    )
    return rows[:count]
