"""Where units and index entries go, compiled: as in `build_plain` and `buildrows`, row for row.

Slots are read at random, so keys come in blocks: one pass finds their slots and asks for the memory, the
next one puts them. Reference 3.4, 4.4.
"""

# mypy: disable-error-code="no-any-return, assignment, return-value, arg-type"
# (machine integers: what is an int here has 64 bits and no Python type)

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Bytes, Longs
from rocketfsck.formats.magic import MIN_RECORD_SIZE
from rocketfsck.scan import build_plain as plain
from rocketfsck.scan import buildrows
from rocketfsck.scan.columns import Trait
from rocketfsck.scan.intrinsics import native_i32, native_i64, prefetch, store_i32, store_i64
from rocketfsck.scan.jit import entry, inlined
from rocketfsck.scan.kernels_index import BLOCK, ENTRY_SIZE, MAX_TIME_DIFF, slot_of
from rocketfsck.scan.kernels_synth import store_be32, store_be64
from rocketfsck.scan.replay import division_factor

QUEUE, INDEX, BASE, COUNT, OFFSET, SIZE, TAGS, TIME, FLAGS = range(buildrows.ROW_SIZE)
OWN, INNER, SKIPPED = buildrows.OWN, buildrows.INNER, buildrows.SKIPPED
FOLLOWING, REACHED, LAST_END, FIRST, TAIL = (
    plain.FOLLOWING,
    plain.REACHED,
    plain.LAST_END,
    plain.FIRST,
    plain.TAIL,
)
UNITS, RECORDS, DUPLICATES, MISPLACED = plain.UNITS, plain.RECORDS, plain.DUPLICATES, plain.MISPLACED
REFUSED, OPENED, EXT_UNITS, IS_BATCH = plain.REFUSED, plain.OPENED, plain.EXT_UNITS, plain.IS_BATCH
SAW_INNER, GIVEN_AWAY = plain.SAW_INNER, plain.GIVEN_AWAY
P_QUEUE, P_PLACE, P_OFFSET, P_SIZE, P_TAGS, P_TIME, P_BASE, P_COUNT = range(plain.PENDING_SIZE)
SKIPS_BELOW, REACH_IS_END, FILE_UNITS = plain.SKIPS_BELOW, plain.REACH_IS_END, plain.FILE_UNITS
EXT_FILE_UNITS, EXT_FILE_SIZE = plain.EXT_FILE_UNITS, plain.EXT_FILE_SIZE
PLAIN, BATCH, EXT = plain.PLAIN, plain.BATCH, plain.EXT
HOLE, PRE_BLANK = plain.HOLE, plain.PRE_BLANK
MAX_UNIT_NUMBER, LEAST_SIZE = plain.MAX_UNIT_NUMBER, MIN_RECORD_SIZE
PLAIN_SIZE, BATCH_SIZE, EXT_SIZE = plain.UNIT_SIZES
LEAST_LONG = -(1 << 63)
T_INNER, T_DELAYED = int(Trait.INNER_BATCH), int(Trait.SCHEDULE_TOPIC | Trait.DELAY)


@entry
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
    plain_count = pending_counts[PLAIN]
    batch_count = pending_counts[BATCH]
    ext_count = pending_counts[EXT]
    for row in range(len(rows)):
        queue = rows[row, QUEUE]
        number = numbers[queue if queue >= 0 else len(numbers) - 1]
        if number < 0:
            continue
        is_batch = state[number, IS_BATCH] != 0
        flags = rows[row, FLAGS]
        if flags & SKIPPED != 0:
            state[number, GIVEN_AWAY] += 1
            continue
        own = flags & OWN != 0
        if own:
            state[number, RECORDS] += 1
        if flags & INNER != 0 and not is_batch:
            state[number, SAW_INNER] = 1
        tags = rows[row, TAGS]
        time = rows[row, TIME]
        if how[EXT_FILE_UNITS] > 0 and own and not is_batch:
            place = state[number, EXT_UNITS]
            state[number, EXT_UNITS] = place + 1
            ext_units[ext_count, P_QUEUE] = number
            ext_units[ext_count, P_PLACE] = place
            ext_units[ext_count, P_OFFSET] = 0
            ext_units[ext_count, P_SIZE] = 0
            ext_units[ext_count, P_TAGS] = tags
            ext_units[ext_count, P_TIME] = time
            ext_units[ext_count, P_BASE] = 0
            ext_units[ext_count, P_COUNT] = 0
            ext_count += 1
            file = place // how[EXT_FILE_UNITS]
            at = place % how[EXT_FILE_UNITS]
            tags = file * how[EXT_FILE_SIZE] + at * EXT_SIZE + LEAST_LONG
        start = rows[row, OFFSET]
        end = start + rows[row, SIZE]
        reach = end if how[REACH_IS_END] != 0 and not is_batch else start
        if reach <= state[number, REACHED]:
            continue
        at = rows[row, INDEX]
        following = state[number, FOLLOWING]
        if is_batch:
            at = max(following, 0)
            if following < 0:
                state[number, FIRST] = rows[row, BASE]
            state[number, TAIL] = rows[row, BASE] + rows[row, COUNT]
        else:
            if following < 0:
                if at < 0 or at > MAX_UNIT_NUMBER:
                    state[number, REFUSED] += 1
                    continue
                state[number, FIRST] = at
                before = at - at % how[FILE_UNITS]
                if before < at:
                    gaps[gap_count, 0] = number
                    gaps[gap_count, 1] = before
                    gaps[gap_count, 2] = at
                    gaps[gap_count, 3] = time
                    gaps[gap_count, 4] = PRE_BLANK
                    gap_count += 1
            elif at != following:
                state[number, OPENED] = following
                if at < following and at != 0 and how[SKIPS_BELOW] != 0:
                    state[number, DUPLICATES] += 1
                    continue
                room = (start - state[number, LAST_END]) // LEAST_SIZE
                if state[number, GIVEN_AWAY] < at - following <= room and at <= MAX_UNIT_NUMBER:
                    gaps[gap_count, 0] = number
                    gaps[gap_count, 1] = following
                    gaps[gap_count, 2] = at
                    gaps[gap_count, 3] = time
                    gaps[gap_count, 4] = HOLE
                    gap_count += 1
                else:
                    state[number, MISPLACED] += 1
                    at = following
            state[number, TAIL] = at + 1
        state[number, FOLLOWING] = at + 1
        state[number, REACHED] = reach
        state[number, LAST_END] = end
        state[number, UNITS] += 1
        target = batch_units if is_batch else plain_units
        place = batch_count if is_batch else plain_count
        target[place, P_QUEUE] = number
        target[place, P_PLACE] = at
        target[place, P_OFFSET] = start
        target[place, P_SIZE] = rows[row, SIZE]
        target[place, P_TAGS] = tags
        target[place, P_TIME] = time
        target[place, P_BASE] = rows[row, BASE]
        target[place, P_COUNT] = rows[row, COUNT]
        if is_batch:
            batch_count += 1
        else:
            plain_count += 1
    pending_counts[PLAIN] = plain_count
    pending_counts[BATCH] = batch_count
    pending_counts[EXT] = ext_count
    return gap_count


def place_units(
    rows: Longs,
    numbers: Longs,
    state: Longs,
    how: Longs,
    pending: tuple[Longs, Longs, Longs],
    pending_counts: Longs,
    gaps: Longs,
) -> int:
    """See `build_plain.place_units`. All arrays are contiguous."""
    return int(_place(rows, numbers, state, how, *pending, pending_counts, gaps))


@entry
def _pack(
    pending: Any,
    count: int,
    ends: Any,
    kind: int,
    unit_size: int,
    file_units: int,
    order: Any,
    out: int,
    runs: Any,
) -> int:
    for row in range(count):
        ends[pending[row, P_QUEUE] + 1] += 1
    for queue in range(1, len(ends)):
        ends[queue] += ends[queue - 1]
    for row in range(count):
        queue = pending[row, P_QUEUE]
        order[ends[queue]] = row
        ends[queue] += 1
    run_count = 0
    last_queue = -1
    last_place = -1
    for place in range(count):
        row = order[place]
        at = out + unit_size * place
        if kind == EXT:
            store_be32(at, unit_size << 16)
            store_be64(at + 2, pending[row, P_TAGS])
            store_be64(at + 10, pending[row, P_TIME])
            store_be32(at + 16, pending[row, P_TIME] << 16)
        else:
            store_be64(at, pending[row, P_OFFSET])
            store_be32(at + 8, pending[row, P_SIZE])
            store_be64(at + 12, pending[row, P_TAGS])
            if kind == BATCH:
                store_be64(at + 20, pending[row, P_TIME])
                store_be64(at + 28, pending[row, P_BASE])
                store_be32(at + 36, pending[row, P_COUNT] << 16 | 0xFFFF)
                store_be32(at + 40, 0xFFFF0000)
                store_be32(at + 42, 0)
        queue = pending[row, P_QUEUE]
        number = pending[row, P_PLACE]
        if queue != last_queue or number != last_place + 1 or number % file_units == 0:
            runs[run_count, 0] = queue
            runs[run_count, 1] = number
            runs[run_count, 2] = place
            run_count += 1
        runs[run_count - 1, 3] = place + 1
        runs[run_count - 1, 4] = pending[row, P_TIME]
        last_queue = queue
        last_place = number
    return run_count


def pack_units(
    pending: Longs, count: int, queue_count: int, kind: int, file_units: int, out: Bytes, runs: Longs
) -> int:
    """See `build_plain.pack_units`. All arrays are contiguous."""
    ends, order = np.zeros(queue_count + 1, np.int64), np.empty(count, np.int64)
    size = plain.UNIT_SIZES[kind]
    return int(_pack(pending, count, ends, kind, size, file_units, order, out.ctypes.data, runs))


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
            slot = slot_of(np.int64(key_hash[base + index]), slot_count, factor)
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
            store_be32(at, np.int64(key_hash[key]))
            store_be64(at + 4, offset[row])
            store_be32(at + 12, time_diff(time[row], begin_timestamp))
            store_be32(at + 16, previous)
        base += size
    return empty


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
