"""Where units go, and their bytes: the dispatches of a log into the units of its queues.

Reference 3.4 step by step, with one difference: a unit after a hole of the queue is at its own
queueOffset, where a broker would append it. The placing believes in a hole if the log between the queue's
last record and this one has room for the records that are missing, and if the broker gave away fewer numbers
than are missing (reference 2.13); otherwise it appends the unit.

`_place` is written in the part of Python that Numba compiles too, and runs as it is or compiled; NumPy packs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.consumequeue import BATCH_UNIT, EXT_UNIT_MIN_SIZE, UNIT
from rocketfsck.formats.dtypes import BATCH_UNIT_DTYPE, EXT_HEAD_DTYPE, UNIT_DTYPE
from rocketfsck.formats.javatext import INT64_MAX, INT64_MIN
from rocketfsck.formats.magic import MIN_RECORD_SIZE
from rocketfsck.scan.build.rows import (
    BASE,
    COUNT,
    FLAGS,
    INDEX,
    INNER,
    OFFSET,
    OWN,
    QUEUE,
    ROW_SIZE,
    SIZE,
    SKIPPED,
    TAGS,
    TIME,
)
from rocketfsck.scan.machine.jit import in_form

LEFT_OUT, REFUSED_NAME = -1, -2
"""Numbers of queues that are not built: not wanted, and of a name that no directory can have."""

PLAIN, BATCH, EXT = range(3)
"""Kinds of units, which are kept apart: consumequeue, batchconsumequeue, consumequeue_ext."""
UNIT_SIZES = (UNIT.size, BATCH_UNIT.size, EXT_UNIT_MIN_SIZE)

# what is kept of each queue, a row of int64
(
    FOLLOWING,  # number of the next unit; -1 before the first
    REACHED,  # maxPhysicOffset
    LAST_END,  # physical offset after the last record
    FIRST,  # queueOffset (msgBaseOffset) of the first unit
    TAIL,  # the queueOffset that follows the last unit's
    UNITS,
    RECORDS,
    DUPLICATES,  # records whose queueOffset was taken: no unit
    MISPLACED,  # units that are not at their record's queueOffset
    REFUSED,  # first records with a queueOffset that no file can have
    OPENED,  # unit number that a file was made for before its put was skipped
    EXT_UNITS,
    IS_BATCH,
    SAW_INNER,  # an inner batch was met though the queue does not hold batches
    GIVEN_AWAY,  # numbers that the broker gave to records without a unit
) = range(15)
STATE_SIZE = 15
NEW_STATE = (-1, -1, -1, -1, -1, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0)

# a unit on its way, a row of int64
P_QUEUE, P_PLACE, P_OFFSET, P_SIZE, P_TAGS, P_TIME, P_BASE, P_COUNT = range(8)
PENDING_SIZE = 8

# places to be filled with pre-blank units: queue, first place, place behind, time of the unit behind, kind
GAP_SIZE = 5
HOLE, PRE_BLANK = 0, 1

# what `place_units` is given
(
    SKIPS_BELOW,  # a queueOffset that was taken is skipped (dialect)
    REACH_IS_END,  # maxPhysicOffset is a record's end (dialect)
    FILE_UNITS,  # units in a consume queue file
    EXT_FILE_UNITS,  # units in an ext file; 0: no ext units
    EXT_FILE_SIZE,
) = range(5)

MAX_UNIT_NUMBER = INT64_MAX // UNIT_SIZES[PLAIN] - (1 << 31)


_LOW_HALF, _SIGN = 0xFFFFFFFF, 1 << 31
_UNITS = (UNIT_DTYPE, BATCH_UNIT_DTYPE, EXT_HEAD_DTYPE)


def place_units(
    rows: Longs,
    numbers: Longs,
    state: Longs,
    how: Longs,
    pending: tuple[Longs, Longs, Longs],
    pending_counts: Longs,
    gaps: Longs,
    *,
    compiled: bool,
) -> int:
    """Append the units of `rows` (`buildrows.unit_rows`) to `pending` by kind; the number of rows of `gaps`.

    `numbers[row of the scan's table]` is the queue's number, LEFT_OUT or REFUSED_NAME; its last element
    stands for -1. `state` has a row of STATE_SIZE a queue and is moved on, as are `pending_counts`. There
    must be room for as many units of each kind, and gaps, as there are rows. All arrays are contiguous.
    """
    given = (rows, numbers, state, how, *pending, pending_counts, gaps)
    arrays: list[Any] = [array.reshape(-1) for array in given]
    if not compiled:
        arrays = [array.data for array in arrays]  # quicker to index than arrays, and exact
    return int(in_form(_place, compiled)(*arrays))


def _place(
    rows: Any,
    numbers: Any,
    state: Any,
    how: Any,
    plain_units: Any,
    batch_units: Any,
    ext_units: Any,
    pending_counts: Any,
    gaps: Any,
) -> int:
    gap_count = 0
    for row in range(0, len(rows), ROW_SIZE):
        number = numbers[rows[row + QUEUE] if rows[row + QUEUE] >= 0 else len(numbers) - 1]
        if number < 0:
            continue
        queue = number * STATE_SIZE
        flags = rows[row + FLAGS]
        if flags & SKIPPED != 0:
            state[queue + GIVEN_AWAY] += 1
            continue
        is_batch = state[queue + IS_BATCH] != 0
        own = flags & OWN != 0
        if own:
            state[queue + RECORDS] += 1
        if flags & INNER != 0 and not is_batch:
            state[queue + SAW_INNER] = 1
        tags = rows[row + TAGS]
        time = rows[row + TIME]
        if how[EXT_FILE_UNITS] > 0 and own and not is_batch:
            place = state[queue + EXT_UNITS]
            state[queue + EXT_UNITS] = place + 1
            unit = pending_counts[EXT] * PENDING_SIZE
            pending_counts[EXT] += 1
            ext_units[unit + P_QUEUE] = number
            ext_units[unit + P_PLACE] = place
            ext_units[unit + P_OFFSET] = 0
            ext_units[unit + P_SIZE] = 0
            ext_units[unit + P_TAGS] = tags
            ext_units[unit + P_TIME] = time
            ext_units[unit + P_BASE] = 0
            ext_units[unit + P_COUNT] = 0
            file = place // how[EXT_FILE_UNITS]
            at = place % how[EXT_FILE_UNITS]
            tags = file * how[EXT_FILE_SIZE] + at * EXT_UNIT_MIN_SIZE + INT64_MIN
        start = rows[row + OFFSET]
        end = start + rows[row + SIZE]
        reach = end if how[REACH_IS_END] != 0 and not is_batch else start
        if reach <= state[queue + REACHED]:
            continue
        at = rows[row + INDEX]
        base = rows[row + BASE]
        count = rows[row + COUNT]
        following = state[queue + FOLLOWING]
        if is_batch:
            at = max(following, 0)
            if following < 0:
                state[queue + FIRST] = base
            # base + count, which wraps around like Java's, by halves: neither form of this code may overflow
            low = (base & _LOW_HALF) + count
            high = (((base >> 32) + (low >> 32) + _SIGN) & _LOW_HALF) - _SIGN
            state[queue + TAIL] = high << 32 | low & _LOW_HALF
        else:
            gap = -1
            if following < 0:
                if at < 0 or at > MAX_UNIT_NUMBER:
                    state[queue + REFUSED] += 1
                    continue
                state[queue + FIRST] = at
                following = at - at % how[FILE_UNITS]
                if following < at:
                    gap = PRE_BLANK
            elif at != following:
                state[queue + OPENED] = following
                if at < following and at != 0 and how[SKIPS_BELOW] != 0:
                    state[queue + DUPLICATES] += 1
                    continue
                room = (start - state[queue + LAST_END]) // MIN_RECORD_SIZE
                if state[queue + GIVEN_AWAY] < at - following <= room and at <= MAX_UNIT_NUMBER:
                    gap = HOLE
                else:
                    state[queue + MISPLACED] += 1
                    at = following
            if gap >= 0:
                gaps[gap_count * GAP_SIZE] = number
                gaps[gap_count * GAP_SIZE + 1] = following
                gaps[gap_count * GAP_SIZE + 2] = at
                gaps[gap_count * GAP_SIZE + 3] = time
                gaps[gap_count * GAP_SIZE + 4] = gap
                gap_count += 1
            state[queue + TAIL] = at + 1
        state[queue + FOLLOWING] = at + 1
        state[queue + REACHED] = reach
        state[queue + LAST_END] = end
        state[queue + UNITS] += 1
        kind = BATCH if is_batch else PLAIN
        units = batch_units if is_batch else plain_units
        unit = pending_counts[kind] * PENDING_SIZE
        pending_counts[kind] += 1
        units[unit + P_QUEUE] = number
        units[unit + P_PLACE] = at
        units[unit + P_OFFSET] = start
        units[unit + P_SIZE] = rows[row + SIZE]
        units[unit + P_TAGS] = tags
        units[unit + P_TIME] = time
        units[unit + P_BASE] = base
        units[unit + P_COUNT] = count
    return gap_count


def pack_units(pending: Longs, kind: int, file_units: int) -> tuple[NDArray[np.void], Longs]:
    """The bytes of pending units, those of a queue side by side, in their order; and their runs.

    A row of the runs says which units follow one another in a file: queue, first place, first row, row
    behind, time of the last.
    """
    pending = pending[np.argsort(pending[:, P_QUEUE], kind="stable")]
    units = np.zeros(len(pending), _UNITS[kind])
    if kind == EXT:
        units["size"], units["tagsCode"] = EXT_UNIT_MIN_SIZE, pending[:, P_TAGS]
        units["msgStoreTime"] = pending[:, P_TIME]
    else:
        units["offset"], units["size"] = pending[:, P_OFFSET], pending[:, P_SIZE]
        units["tagsCode"] = pending[:, P_TAGS]
    if kind == BATCH:
        units["storeTime"], units["msgBaseOffset"] = pending[:, P_TIME], pending[:, P_BASE]
        units["batchSize"], units["compactedOffset"] = pending[:, P_COUNT].astype(np.int16), -1
    queue, place = pending[:, P_QUEUE], pending[:, P_PLACE]
    begins = np.ones(len(pending), np.bool_)
    begins[1:] = (queue[1:] != queue[:-1]) | (place[1:] != place[:-1] + 1)
    first = np.flatnonzero(begins | (place % file_units == 0))
    behind = np.append(first, len(pending))[1:]
    return units, np.stack([queue[first], place[first], first, behind, pending[behind - 1, P_TIME]], axis=1)
