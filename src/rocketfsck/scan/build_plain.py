"""Where units and index entries go, in plain Python: the oracle of `kernels_build`, and quick for small logs.

Reference 3.4 step by step, with one difference: a unit behind a hole of the queue stands at its own
queueOffset, where a broker would append it. A hole is believed if the log between the queue's last record and
this one has room for the records that are missing, and if the broker gave away fewer numbers than are missing
(reference 2.13); otherwise the unit is appended. Index entries are put as
in reference 4.4.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Bytes, Longs
from rocketfsck.formats.indexfile import ENTRY_SIZE, slot_of, time_diff
from rocketfsck.formats.javatext import INT64_MIN, int64
from rocketfsck.formats.magic import MIN_RECORD_SIZE
from rocketfsck.scan.buildrows import (
    BASE,
    COUNT,
    FLAGS,
    INDEX,
    INNER,
    OFFSET,
    OWN,
    QUEUE,
    SIZE,
    SKIPPED,
    TAGS,
    TIME,
)

_ENTRY = struct.Struct(">iqii")
_UNITS = (struct.Struct(">qiq"), struct.Struct(">qiqqqhii"), struct.Struct(">hqqh"))

LEFT_OUT, REFUSED_NAME = -1, -2
"""Numbers of queues that are not built: not wanted, and of a name that no directory can have."""

PLAIN, BATCH, EXT = range(3)
"""Kinds of units, which are kept apart: consumequeue, batchconsumequeue, consumequeue_ext."""
UNIT_SIZES = (20, 46, 20)

# what is kept of each queue, a row of int64
(
    FOLLOWING,  # number of the next unit; -1 before the first
    REACHED,  # maxPhysicOffset
    LAST_END,  # physical offset behind the last record
    FIRST,  # queueOffset (msgBaseOffset) of the first unit
    TAIL,  # the queueOffset that follows the last unit's
    UNITS,
    RECORDS,
    DUPLICATES,  # records whose queueOffset was taken: no unit
    MISPLACED,  # units that do not stand at their record's queueOffset
    REFUSED,  # first records with a queueOffset that no file can have
    OPENED,  # unit number that a file was made for before its put was skipped
    EXT_UNITS,
    IS_BATCH,
    SAW_INNER,  # an inner batch was met though the queue is none of batches
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

# what `place_units` is told
(
    SKIPS_BELOW,  # a queueOffset that was taken is skipped (dialect)
    REACH_IS_END,  # maxPhysicOffset is a record's end (dialect)
    FILE_UNITS,  # units in a consume queue file
    EXT_FILE_UNITS,  # units in an ext file; 0: no ext units
    EXT_FILE_SIZE,
) = range(5)

# units that follow one another in a file: queue, first place, first and last row, time of the last
RUN_SIZE = 5

MAX_UNIT_NUMBER = ((1 << 63) - 1) // 20 - (1 << 31)


def place_units(
    rows: Longs,
    numbers: Longs,
    state: Longs,
    how: Longs,
    pending: tuple[Longs, Longs, Longs],
    pending_counts: Longs,
    gaps: Longs,
) -> int:
    """Append the units of `rows` (`buildrows.unit_rows`) to `pending` by kind; the number of rows of `gaps`.

    `numbers[row of the scan's table]` is the queue's number, LEFT_OUT or REFUSED_NAME; its last element
    stands for -1. `state` has a row of STATE_SIZE a queue and is moved on, as are `pending_counts`. There
    must be room for as many units of each kind, and gaps, as there are rows.
    """
    gap_count = 0
    for row in rows.tolist():
        number = int(numbers[row[QUEUE]])
        if number < 0:
            continue
        kept = state[number]
        if row[FLAGS] & SKIPPED:
            kept[GIVEN_AWAY] += 1
            continue
        own, is_batch = bool(row[FLAGS] & OWN), bool(kept[IS_BATCH])
        kept[RECORDS] += own
        if row[FLAGS] & INNER and not is_batch:
            kept[SAW_INNER] = 1
        tags = row[TAGS]
        if how[EXT_FILE_UNITS] and own and not is_batch:
            place = int(kept[EXT_UNITS])
            kept[EXT_UNITS] += 1
            unit = (number, place, 0, 0, tags, row[TIME], 0, 0)
            pending[EXT][pending_counts[EXT]] = unit
            pending_counts[EXT] += 1
            file, at = divmod(place, int(how[EXT_FILE_UNITS]))
            tags = file * int(how[EXT_FILE_SIZE]) + at * UNIT_SIZES[EXT] + INT64_MIN
        start = row[OFFSET]
        end = start + row[SIZE]
        reach = end if how[REACH_IS_END] and not is_batch else start
        if reach <= kept[REACHED]:
            continue
        at, following = row[INDEX], int(kept[FOLLOWING])
        if is_batch:
            at = max(following, 0)
            if following < 0:
                kept[FIRST] = row[BASE]
            kept[TAIL] = int64(row[BASE] + row[COUNT])
        else:
            if following < 0:
                if not 0 <= at <= MAX_UNIT_NUMBER:
                    kept[REFUSED] += 1
                    continue
                kept[FIRST] = at
                before = at - at % int(how[FILE_UNITS])
                if before < at:
                    gaps[gap_count] = (number, before, at, row[TIME], PRE_BLANK)
                    gap_count += 1
            elif at != following:
                kept[OPENED] = following
                if at < following and at != 0 and how[SKIPS_BELOW]:
                    kept[DUPLICATES] += 1
                    continue
                room = (start - int(kept[LAST_END])) // MIN_RECORD_SIZE
                if int(kept[GIVEN_AWAY]) < at - following <= room and at <= MAX_UNIT_NUMBER:
                    gaps[gap_count] = (number, following, at, row[TIME], HOLE)
                    gap_count += 1
                else:
                    kept[MISPLACED] += 1
                    at = following
            kept[TAIL] = at + 1
        kept[FOLLOWING] = at + 1
        kept[REACHED] = reach
        kept[LAST_END] = end
        kept[UNITS] += 1
        kind = BATCH if is_batch else PLAIN
        unit = (number, at, start, row[SIZE], tags, row[TIME], row[BASE], row[COUNT])
        pending[kind][pending_counts[kind]] = unit
        pending_counts[kind] += 1
    return gap_count


def pack_units(
    pending: Longs, count: int, queue_count: int, kind: int, file_units: int, out: Bytes, runs: Longs
) -> int:
    """Write the bytes of `count` pending units into `out`, those of a queue side by side, in their order.

    The rows of `runs` say which rows of `out` follow one another in a file; gives their number.
    """
    assert queue_count >= 0
    layout, size = _UNITS[kind], UNIT_SIZES[kind]
    run_count = 0
    before = (-1, -1)
    ordered = sorted(pending[:count].tolist(), key=lambda unit: unit[P_QUEUE])  # stable
    for row, unit in enumerate(ordered):
        where, tags, time = (unit[P_OFFSET], unit[P_SIZE]), unit[P_TAGS], unit[P_TIME]
        values = (
            (*where, tags),
            (*where, tags, time, unit[P_BASE], _short(unit[P_COUNT]), -1, 0),
            (size, tags, time, 0),
        )[kind]
        layout.pack_into(out.data, size * row, *values)
        here = (unit[P_QUEUE], unit[P_PLACE])
        if here != (before[0], before[1] + 1) or unit[P_PLACE] % file_units == 0:
            runs[run_count] = (*here, row, row, 0)
            run_count += 1
        runs[run_count - 1, 3] = row + 1
        runs[run_count - 1, 4] = unit[P_TIME]
        before = here
    return run_count


def _short(value: int) -> int:
    return ((value + (1 << 15)) & 0xFFFF) - (1 << 15)


def put_entries(
    key_hash: NDArray[np.int32],
    key_record: NDArray[np.int32],
    offset: Longs,
    time: Longs,
    number: int,
    begin_timestamp: int,
    slots: NDArray[np.int32],
    out: Bytes,
) -> int:
    """Put keys as the entries `number` and on of an index file, their bytes into `out`.

    `key_record` are rows of `offset` and `time`; `slots` is moved on. Gives how many found their slot empty.
    """
    empty = 0
    for key, (hash_value, row) in enumerate(zip(key_hash.tolist(), key_record.tolist(), strict=True)):
        slot = slot_of(hash_value, len(slots))
        entry = number + key
        previous = int(slots[slot])
        if not 0 < previous <= entry:
            previous = 0
            empty += 1
        slots[slot] = entry
        diff = time_diff(int(time[row]), begin_timestamp)
        _ENTRY.pack_into(out.data, key * ENTRY_SIZE, hash_value, int(offset[row]), diff, previous)
    return empty
