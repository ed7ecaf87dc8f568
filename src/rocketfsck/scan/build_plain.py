"""Where units and index entries go, in plain Python: the oracle of `kernels_build`, and quick for small logs.

Reference 3.4 step by step, with one difference: a unit behind a hole of the queue stands at its own
queueOffset, where a broker would append it. A hole is believed if the log between the queue's last record and
this one has room for the records that are missing; otherwise the unit is appended. Index entries are put as
in reference 4.4.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.indexfile import ENTRY_SIZE, slot_of, time_diff
from rocketfsck.formats.javatext import int64
from rocketfsck.formats.magic import MIN_RECORD_SIZE

Longs = NDArray[np.int64]
_ENTRY = struct.Struct(">iqii")

# what is kept of each queue, a row of int64
(
    FOLLOWING,  # number of the next unit; -1 before the first
    REACHED,  # maxPhysicOffset
    LAST_END,  # physical offset behind the last record
    FIRST,  # queueOffset (msgBaseOffset) of the first unit
    TAIL,  # the queueOffset that follows the last unit's
    UNITS,
    DUPLICATES,  # records whose queueOffset was taken: no unit
    MISPLACED,  # units that do not stand at their record's queueOffset
    REFUSED,  # first records with a queueOffset that no file can have
    OPENED,  # unit number that a file was made for before its put was skipped
    EXT_UNITS,
    IS_BATCH,
) = range(12)
STATE_SIZE = 12
NEW_STATE = (-1, -1, -1, -1, -1, 0, 0, 0, 0, -1, 0, 0)

MAX_UNIT_NUMBER = ((1 << 63) - 1) // 20 - (1 << 31)


def place_units(
    queue: Longs,
    index: Longs,
    base: Longs,
    count: Longs,
    offset: Longs,
    size: Longs,
    own: Longs,
    state: Longs,
    *,
    skips_below: bool,
    reach_is_end: bool,
    with_ext: bool,
    place: Longs,
    ext_place: Longs,
    gaps: Longs,
) -> int:
    """Fill `place` with each row's unit number in its queue, -1 for no unit; the number of rows of `gaps`.

    `state` has a row of STATE_SIZE a queue and is moved on. `ext_place` gets the number of the row's ext
    unit, -1 for none. A row of `gaps` is queue, first missing unit, the unit behind, its row; there
    may be as many as rows. Rows with a negative queue are left out.
    """
    gap_count = 0
    for row in range(len(queue)):
        place[row] = ext_place[row] = -1
        number = int(queue[row])
        if number < 0:
            continue
        kept = state[number]
        is_batch = bool(kept[IS_BATCH])
        if with_ext and own[row] and not is_batch:
            ext_place[row] = kept[EXT_UNITS]
            kept[EXT_UNITS] += 1
        start = int(offset[row])
        end = start + int(size[row])
        reach = end if reach_is_end and not is_batch else start
        if reach <= kept[REACHED]:
            continue
        at, following = int(index[row]), int(kept[FOLLOWING])
        if is_batch:
            at = max(following, 0)
            if following < 0:
                kept[FIRST] = base[row]
            kept[TAIL] = int64(int(base[row]) + int(count[row]))
        else:
            if following < 0:
                if not 0 <= at <= MAX_UNIT_NUMBER:
                    kept[REFUSED] += 1
                    continue
                kept[FIRST] = at
            elif at != following:
                kept[OPENED] = following
                if at < following and at != 0 and skips_below:
                    kept[DUPLICATES] += 1
                    continue
                room = (start - int(kept[LAST_END])) // MIN_RECORD_SIZE
                if 0 < at - following <= room and at <= MAX_UNIT_NUMBER:
                    gaps[gap_count] = (number, following, at, row)
                    gap_count += 1
                else:
                    kept[MISPLACED] += 1
                    at = following
            kept[TAIL] = at + 1
        kept[FOLLOWING] = at + 1
        kept[REACHED] = reach
        kept[LAST_END] = end
        kept[UNITS] += 1
        place[row] = at
    return gap_count


def put_entries(
    key_hash: Longs,
    key_record: Longs,
    offset: Longs,
    time: Longs,
    number: int,
    begin_timestamp: int,
    slots: NDArray[np.int32],
    out: NDArray[np.uint8],
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
