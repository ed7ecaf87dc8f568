"""Index files, compiled: the puts replayed, entries as rows for a join.

    entry := keyHash:i32 phyOffset:i64 timeDiff:i32 prevIndex:i32      20 bytes, big-endian (reference 4.1)

If every entry's prevIndex is the entry put into its slot before it, and the slots are those that are left
after the last put, then each chain lists the entries of its slot, each once and falling. No link is ever
followed for that, so no link can lead astray. Reading is in order; the table of slots is read at random,
block by block: one pass asks for the memory, the next one finds it there.
"""

# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)

from __future__ import annotations

import numpy as np

from rocketfsck.scan.intrinsics import (
    high_product,
    load_i32,
    load_i64,
    load_u32,
    native_i32,
    native_i64,
    prefetch,
    store_i32,
    store_i64,
)
from rocketfsck.scan.intrinsics_index import chain_terms, multiply_residue
from rocketfsck.scan.jit import entry, inlined

ENTRY_SIZE = 20
BLOCK = 256
MAX_TIME_DIFF = 0x7FFFFFFF

# what `replay` keeps from call to call
(
    STATE_ROWS,  # rows of wrong links written
    STATE_FURTHER,  # wrong links that found no room
    STATE_FLAGS,
    STATE_LEAST,  # least phyOffset
    STATE_MOST,
    STATE_LAST,  # phyOffset of the last entry
) = range(6)

# what `link_products` and `head_products` keep from call to call
(
    PROOF_PUT,  # product of (slot, entry) over the entries
    PROOF_FOUND,  # product of (slot, prevIndex) over the entries, and of (slot, head) over the slots
    PROOF_PUT_TOO,  # of both there are two: a multiplication need not wait for the one before
    PROOF_FOUND_TOO,
    PROOF_FLAGS,  # as `chain_terms` gives them
    PROOF_LAST,  # phyOffset of the last entry
    PROOF_USED,  # slots that are not 0
) = range(7)
PROOF_LANES = 16
FLAG_HASH, FLAG_TIME, FLAG_OFFSET, FLAG_LINK = (1 << 16 * number for number in range(4))

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


@inlined
def expected_time_diff(store_timestamp: int, begin_timestamp: int) -> int:
    """timeDiff as a put writes it (reference 4.4, steps 3 and 4)."""
    if begin_timestamp <= 0 or store_timestamp <= begin_timestamp:
        return 0
    return min((store_timestamp - begin_timestamp) // 1000, MAX_TIME_DIFF)


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
            hash_value = load_i32(at)
            slot = slot_of(hash_value, slot_count, factor)
            prefetch(heads + 4 * slot)
            store_i64(slots + 8 * index, slot)
            offset = load_i64(at + 4)
            signs |= hash_value
            time_signs |= load_i32(at + 12)
            falling |= 1 if offset < last else 0
            last = offset
            least = min(least, offset)
            most = max(most, offset)
        number = first + base
        for index in range(size):
            at = block + ENTRY_SIZE * index
            slot = native_i64(slots + 8 * index)
            expected = native_i32(heads + 4 * slot)
            previous = load_i32(at + 16)
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
def link_products(
    entries: int,
    count: int,
    first: int,
    slot_count: int,
    multiplier: int,
    shift: int,
    point: int,
    terms: int,
    state: int,
) -> None:
    """Multiplies the terms of entries `first` to `first + count - 1` into the products of a ChainProof.

    The term of (slot, number) is `point` + slot * 2**32 + number, everything times 8; that of (slot, 0) is 1,
    times 8. Nothing is branched on
    and nothing is looked up: bytes that the products are not good for only leave a flag. At `terms` is room
    for 2 * BLOCK numbers.
    """
    put = native_i64(state + 8 * PROOF_PUT)
    found = native_i64(state + 8 * PROOF_FOUND)
    put_too = native_i64(state + 8 * PROOF_PUT_TOO)
    found_too = native_i64(state + 8 * PROOF_FOUND_TOO)
    flags = native_i64(state + 8 * PROOF_FLAGS)
    last = native_i64(state + 8 * PROOF_LAST)
    given = (point, slot_count, multiplier, shift)
    whole = count - count % PROOF_LANES
    base = 0
    while base < whole:
        size = min(BLOCK, whole - base)
        target = terms
        for index in range(base, base + size, PROOF_LANES):
            at = entries + ENTRY_SIZE * index
            flags |= chain_terms(at, first + index, last, given, target)
            last = load_i64(at + ENTRY_SIZE * (PROOF_LANES - 1) + 4)
            target += 16 * PROOF_LANES
        for place in range(terms, terms + 16 * size, 16 * PROOF_LANES):
            for term in range(place, place + 8 * PROOF_LANES, 16):
                put = multiply_residue(put, native_i64(term))
                put_too = multiply_residue(put_too, native_i64(term + 8))
                found = multiply_residue(found, native_i64(term + 8 * PROOF_LANES))
                found_too = multiply_residue(found_too, native_i64(term + 8 * PROOF_LANES + 8))
        base += size
    for index in range(whole, count):
        at = entries + ENTRY_SIZE * index
        key_hash = load_u32(at)
        offset = load_i64(at + 4)
        previous = load_u32(at + 16)
        number = first + index
        base = point + ((key_hash - (key_hash * multiplier >> shift) * slot_count) << 35)
        put = multiply_residue(put, base + 8 * number)
        found = multiply_residue(found, base + 8 * previous if previous != 0 else 8)
        flags |= FLAG_HASH if load_i32(at) < 0 else 0
        flags |= FLAG_TIME if load_i32(at + 12) < 0 else 0
        flags |= FLAG_OFFSET if offset < last else 0
        flags |= FLAG_LINK if previous >= number else 0
        last = offset
    store_i64(state + 8 * PROOF_PUT, put)
    store_i64(state + 8 * PROOF_FOUND, found)
    store_i64(state + 8 * PROOF_PUT_TOO, put_too)
    store_i64(state + 8 * PROOF_FOUND_TOO, found_too)
    store_i64(state + 8 * PROOF_FLAGS, flags)
    store_i64(state + 8 * PROOF_LAST, last)


@entry
def head_products(slots: int, count: int, first: int, point: int, state: int) -> None:
    """Multiplies the terms of `count` big-endian slots from `first` on into the products of a ChainProof."""
    found = native_i64(state + 8 * PROOF_FOUND)
    found_too = native_i64(state + 8 * PROOF_FOUND_TOO)
    used = native_i64(state + 8 * PROOF_USED)
    for index in range(0, count - 1, 2):
        base = point + ((first + index) << 35)
        head = load_u32(slots + 4 * index)
        head_too = load_u32(slots + 4 * index + 4)
        found = multiply_residue(found, base + 8 * head if head != 0 else 8)
        found_too = multiply_residue(found_too, base + (1 << 35) + 8 * head_too if head_too != 0 else 8)
        used += (1 if head != 0 else 0) + (1 if head_too != 0 else 0)
    if count % 2 == 1:
        head = load_u32(slots + 4 * (count - 1))
        base = point + ((first + count - 1) << 35)
        found = multiply_residue(found, base + 8 * head if head != 0 else 8)
        used += 1 if head != 0 else 0
    store_i64(state + 8 * PROOF_FOUND, found)
    store_i64(state + 8 * PROOF_FOUND_TOO, found_too)
    store_i64(state + 8 * PROOF_USED, used)


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
        key_hash = load_i32(at)
        offset = load_i64(at + 4)
        time_diff = load_i32(at + 12)
        if start <= offset < end and key_hash | offset | time_diff != 0:
            row = out + 40 * rows
            store_i64(row, number + index)
            store_i64(row + 8, offset)
            store_i64(row + 16, key_hash)
            store_i64(row + 24, time_diff)
            store_i64(row + 32, begin_timestamp)
            rows += 1
    return rows
