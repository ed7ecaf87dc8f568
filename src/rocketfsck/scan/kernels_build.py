"""Where units and index entries go, compiled: as in `build_plain`, row for row.

Slots are read at random, so keys come in blocks: one pass finds their slots and asks for the memory, the
next one puts them. Reference 3.4, 4.4.
"""

# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.magic import MIN_RECORD_SIZE
from rocketfsck.scan import build_plain as plain
from rocketfsck.scan.build_plain import Longs
from rocketfsck.scan.intrinsics import native_i32, native_i64, prefetch, store_i32, store_i64
from rocketfsck.scan.jit import entry, inlined
from rocketfsck.scan.kernels_index import BLOCK, ENTRY_SIZE, MAX_TIME_DIFF, slot_of
from rocketfsck.scan.kernels_synth import store_be32, store_be64
from rocketfsck.scan.replay import division_factor

FOLLOWING, REACHED, LAST_END, FIRST, TAIL = (
    plain.FOLLOWING,
    plain.REACHED,
    plain.LAST_END,
    plain.FIRST,
    plain.TAIL,
)
UNITS, DUPLICATES, MISPLACED, REFUSED = plain.UNITS, plain.DUPLICATES, plain.MISPLACED, plain.REFUSED
OPENED, EXT_UNITS, IS_BATCH = plain.OPENED, plain.EXT_UNITS, plain.IS_BATCH
MAX_UNIT_NUMBER, LEAST_SIZE = plain.MAX_UNIT_NUMBER, MIN_RECORD_SIZE


@entry
def _place(
    queue: Any,
    index: Any,
    base: Any,
    count: Any,
    offset: Any,
    size: Any,
    own: Any,
    state: Any,
    skips_below: bool,
    reach_is_end: bool,
    with_ext: bool,
    place: Any,
    ext_place: Any,
    gaps: Any,
) -> int:
    gap_count = 0
    for row in range(len(queue)):
        place[row] = -1
        ext_place[row] = -1
        number = queue[row]
        if number < 0:
            continue
        is_batch = state[number, IS_BATCH] != 0
        if with_ext and own[row] and not is_batch:
            ext_place[row] = state[number, EXT_UNITS]
            state[number, EXT_UNITS] += 1
        start = offset[row]
        end = start + size[row]
        reach = end if reach_is_end and not is_batch else start
        if reach <= state[number, REACHED]:
            continue
        at = index[row]
        following = state[number, FOLLOWING]
        if is_batch:
            at = max(following, 0)
            if following < 0:
                state[number, FIRST] = base[row]
            state[number, TAIL] = base[row] + count[row]
        else:
            if following < 0:
                if at < 0 or at > MAX_UNIT_NUMBER:
                    state[number, REFUSED] += 1
                    continue
                state[number, FIRST] = at
            elif at != following:
                state[number, OPENED] = following
                if at < following and at != 0 and skips_below:
                    state[number, DUPLICATES] += 1
                    continue
                room = (start - state[number, LAST_END]) // LEAST_SIZE
                # not `at - following`: hostile offsets would wrap around
                if at > following and at <= MAX_UNIT_NUMBER and at - following <= room:
                    gaps[gap_count, 0] = number
                    gaps[gap_count, 1] = following
                    gaps[gap_count, 2] = at
                    gaps[gap_count, 3] = row
                    gap_count += 1
                else:
                    state[number, MISPLACED] += 1
                    at = following
            state[number, TAIL] = at + 1
        state[number, FOLLOWING] = at + 1
        state[number, REACHED] = reach
        state[number, LAST_END] = end
        state[number, UNITS] += 1
        place[row] = at
    return gap_count


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
    """See `build_plain.place_units`. All arrays are contiguous and long enough."""
    return int(
        _place(
            queue,
            index,
            base,
            count,
            offset,
            size,
            own,
            state,
            skips_below,
            reach_is_end,
            with_ext,
            place,
            ext_place,
            gaps,
        )
    )


@inlined
def time_diff(store_timestamp: int, begin_timestamp: int) -> int:
    """timeDiff as a put writes it: the difference wraps around like Java's (reference 4.4, steps 3 and 4)."""
    difference = store_timestamp - begin_timestamp
    if begin_timestamp <= 0 or difference <= 0:
        return 0
    return min(difference // 1000, MAX_TIME_DIFF)


@entry
def _put(
    key_hash: Any,
    key_record: Any,
    offset: Any,
    time: Any,
    number: int,
    begin_timestamp: int,
    slots: int,
    slot_count: int,
    factor: int,
    scratch: int,
    out: int,
) -> int:
    empty = 0
    base = 0
    count = len(key_hash)
    while base < count:
        size = min(BLOCK, count - base)
        for index in range(size):
            slot = slot_of(key_hash[base + index], slot_count, factor)
            prefetch(slots + 4 * slot)
            store_i64(scratch + 8 * index, slot)
        for index in range(size):
            key = base + index
            row = key_record[key]
            at = out + ENTRY_SIZE * key
            slot = native_i64(scratch + 8 * index)
            entry_number = number + key
            previous = native_i32(slots + 4 * slot)
            if previous <= 0 or previous > entry_number:
                previous = 0
                empty += 1
            store_i32(slots + 4 * slot, entry_number)
            store_be32(at, key_hash[key])
            store_be64(at + 4, offset[row])
            store_be32(at + 12, time_diff(time[row], begin_timestamp))
            store_be32(at + 16, previous)
        base += size
    return empty


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
    """See `build_plain.put_entries`. All arrays are contiguous, `out` long enough, hashes not negative."""
    scratch = np.empty(BLOCK, np.int64)
    return int(
        _put(
            key_hash,
            key_record,
            offset,
            time,
            number,
            begin_timestamp,
            slots.ctypes.data,
            len(slots),
            division_factor(len(slots)),
            scratch.ctypes.data,
            out.ctypes.data,
        )
    )
