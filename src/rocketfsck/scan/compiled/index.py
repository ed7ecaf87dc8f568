"""Index files, compiled: the puts replayed, entries as rows for a join.

    entry := keyHash:i32 phyOffset:i64 timeDiff:i32 prevIndex:i32      20 bytes, big-endian (reference 4.1)

If every entry's prevIndex is the entry put into its slot before it, and the slots are those that are left
after the last put, then each chain lists the entries of its slot, each once and falling. No link is ever
followed for that, so no link can lead astray. Reading is in order; the table of slots is read at random,
block by block: one pass asks for the memory, the next one finds it there (ADR 0013).
"""

# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)

from __future__ import annotations

import numpy as np

from rocketfsck.formats.columns import ENTRY_SIZE as ENTRY_SIZE
from rocketfsck.formats.columns import KEY_HASH_AT, PHY_OFFSET_AT, PREV_INDEX_AT, TIME_DIFF_AT
from rocketfsck.scan.machine.intrinsics import (
    high_product,
    load_i32,
    load_i64,
    native_i32,
    native_i64,
    prefetch,
    store_i32,
    store_i64,
)
from rocketfsck.scan.machine.jit import entry, inlined

BLOCK = 256

# what `replay` keeps from call to call
(
    STATE_ROWS,  # rows of wrong links written
    STATE_FURTHER,  # wrong links that found no room
    STATE_FLAGS,
    STATE_LEAST,  # least phyOffset
    STATE_MOST,
    STATE_LAST,  # phyOffset of the last entry
) = range(6)

NEGATIVE_HASH = 1
NEGATIVE_TIME = 2
FALLING_OFFSET = 4


@inlined
def slot_of(key_hash: int, slot_count: int, factor: int) -> int:
    """keyHash modulo the number of slots; `factor` is ceil(2**64 / slot_count), 0 for a single slot."""
    if key_hash < 0:
        return key_hash % slot_count
    if factor == 0:
        return 0
    quotient = np.int64(high_product(np.uint64(key_hash), np.uint64(factor)))
    return key_hash - quotient * slot_count


@entry
def replay(
    entries: int,
    count: int,
    first: int,
    slot_count: int,
    factor: int,
    heads: int,
    out: int,
    out_capacity: int,
    state: int,
    slots: int,
) -> None:
    """Puts entries `first` to `first + count - 1` on top of `heads`, and notes what does not fit.

    A wrong link is a row of four int64 in `out`: entry, prevIndex, expected, slot. `slots` is scratch for
    BLOCK numbers.
    """
    flags = native_i64(state + 8 * STATE_FLAGS)
    least = native_i64(state + 8 * STATE_LEAST)
    most = native_i64(state + 8 * STATE_MOST)
    last = native_i64(state + 8 * STATE_LAST)
    signs = 0
    time_signs = 0
    falling = 0
    base = 0
    while base < count:
        size = min(BLOCK, count - base)
        block = entries + ENTRY_SIZE * base
        for index in range(size):
            at = block + ENTRY_SIZE * index
            hash_value = load_i32(at + KEY_HASH_AT)
            slot = slot_of(hash_value, slot_count, factor)
            prefetch(heads + 4 * slot)
            store_i64(slots + 8 * index, slot)
            offset = load_i64(at + PHY_OFFSET_AT)
            signs |= hash_value
            time_signs |= load_i32(at + TIME_DIFF_AT)
            falling |= 1 if offset < last else 0
            last = offset
            least = min(least, offset)
            most = max(most, offset)
        number = first + base
        for index in range(size):
            at = block + ENTRY_SIZE * index
            slot = native_i64(slots + 8 * index)
            expected = native_i32(heads + 4 * slot)
            previous = load_i32(at + PREV_INDEX_AT)
            store_i32(heads + 4 * slot, number + index)
            if previous != expected:
                row = native_i64(state + 8 * STATE_ROWS)
                if row < out_capacity:
                    store_i64(state + 8 * STATE_ROWS, row + 1)
                    store_i64(out + 32 * row, number + index)
                    store_i64(out + 32 * row + 8, previous)
                    store_i64(out + 32 * row + 16, expected)
                    store_i64(out + 32 * row + 24, slot)
                else:
                    store_i64(state + 8 * STATE_FURTHER, native_i64(state + 8 * STATE_FURTHER) + 1)
        base += size
    flags |= NEGATIVE_HASH if signs < 0 else 0
    flags |= NEGATIVE_TIME if time_signs < 0 else 0
    flags |= FALLING_OFFSET if falling != 0 else 0
    store_i64(state + 8 * STATE_FLAGS, flags)
    store_i64(state + 8 * STATE_LEAST, least)
    store_i64(state + 8 * STATE_MOST, most)
    store_i64(state + 8 * STATE_LAST, last)


@entry
def first_difference(slots: int, count: int, heads: int) -> int:
    """The first of `count` big-endian slots that is not the head of the replay, -1 if there is none."""
    for index in range(count):
        if load_i32(slots + 4 * index) != native_i32(heads + 4 * index):
            return index
    return -1


@entry
def entry_rows(
    entries: int, count: int, number: int, begin_timestamp: int, start: int, end: int, out: int
) -> int:
    """Writes entries that point into `start:end` as rows of five int64; gives how many.

    A row is number, phyOffset, keyHash, timeDiff, beginTimestamp; `number` is the first entry's. An entry of
    zeros is left out: it was never put.
    """
    rows = 0
    for index in range(count):
        at = entries + ENTRY_SIZE * index
        key_hash = load_i32(at + KEY_HASH_AT)
        offset = load_i64(at + PHY_OFFSET_AT)
        time_diff = load_i32(at + TIME_DIFF_AT)
        if start <= offset < end and key_hash | offset | time_diff != 0:
            row = out + 40 * rows
            store_i64(row, number + index)
            store_i64(row + 8, offset)
            store_i64(row + 16, key_hash)
            store_i64(row + 24, time_diff)
            store_i64(row + 32, begin_timestamp)
            rows += 1
    return rows
