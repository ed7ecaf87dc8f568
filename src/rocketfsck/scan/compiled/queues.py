"""The queue table, for kernels: (topic, queueId) -> row, and what is known of a row's topic.

The table's arrays are those of `scan.queues.QueueTable`; a kernel has their addresses and sizes in one
array, `table`, in the order below. What lies in a topic's bytes alone, its faults and its hash, is worked
out once a row (reference 2.1, 4.3).
"""

# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)

from __future__ import annotations

from rocketfsck.scan.columns import Fault
from rocketfsck.scan.compiled.properties import word
from rocketfsck.scan.compiled.text import byte_hash, is_utf8, same_bytes, text_hash
from rocketfsck.scan.machine.intrinsics import (
    WORD_MASK,
    load_i64,
    load_u8,
    load_u32,
    native_i32,
    native_i64,
    store_i32,
    store_i64,
    store_u8,
)
from rocketfsck.scan.machine.jit import helper
from rocketfsck.scan.queues import MAX_PROBES, NO_ROW

COUNTS, SLOTS, SLOT_COUNT, NAME_POS, NAME_SIZE, NAME_QUEUE = range(6)
STATE, TOPIC_FAULTS, TOPIC_HASH = range(6, 9)
ARENA, ARENA_SIZE, ROW_CAPACITY, MAX_QUEUES, MAX_NAME_SIZE = range(9, 14)
TABLE_SIZE = 14

KNOWN, IS_SCHEDULE = 1, 2  # bits of a row's topic_state
NO_ROOM = -2

_F_TOPIC_EMPTY, _F_TOPIC_CHARSET = int(Fault.TOPIC_EMPTY), int(Fault.TOPIC_CHARSET)
_F_TOPIC_UTF8 = int(Fault.TOPIC_UTF8)
_W_SCHEDULE, _W_TOPIC, _W_XXXX = word("SCHEDULE"), word("_TOPIC_X"), word("XXXX")


@helper
def topic_facts(table: int, row: int, address: int, size: int) -> tuple[int, int, int]:
    """(state, faults, hash of the topic and `#`) of a topic; kept in the table's row if there is one."""
    faults = 0
    state = KNOWN
    if size == 0:
        faults = _F_TOPIC_EMPTY
    for index in range(size):
        byte = load_u8(address + index)
        if byte < 0x20 or byte == 0x2F or byte == 0x7F:
            faults |= _F_TOPIC_CHARSET
    if not is_utf8(address, size):
        faults |= _F_TOPIC_CHARSET | _F_TOPIC_UTF8
    if (
        size == 19
        and load_i64(address) == _W_SCHEDULE
        and load_i64(address + 8) == _W_TOPIC
        and load_u32(address + 15) == _W_XXXX
    ):
        state |= IS_SCHEDULE
    value = (text_hash(address, size, 0) * 31 + 0x23) & WORD_MASK
    if row >= 0:
        store_i32(native_i64(table + 8 * TOPIC_FAULTS) + 4 * row, faults)
        store_i32(native_i64(table + 8 * TOPIC_HASH) + 4 * row, value)
        store_i32(native_i64(table + 8 * STATE) + 4 * row, state)
    return state, faults, value


@helper
def intern_queue(table: int, address: int, size: int, queue_id: int) -> int:
    """The row of a queue, added if it is new.

    NO_ROW if the table takes no more; NO_ROOM if it must grow, by a name of counts[2] bytes.
    """
    value = byte_hash(address, size)
    value = ((value ^ (queue_id & WORD_MASK)) * 0x9E3779B1 + size) & WORD_MASK
    value ^= value >> 15
    value = (value * 0x85EBCA77) & WORD_MASK
    value ^= value >> 13
    mask = native_i64(table + 8 * SLOT_COUNT) - 1
    free = -1
    for probe in range(MAX_PROBES):
        slot = native_i64(table + 8 * SLOTS) + 4 * ((value + probe) & mask)
        row = native_i32(slot) - 1
        if row < 0:
            free = slot
            break
        if (
            native_i32(native_i64(table + 8 * NAME_QUEUE) + 4 * row) == queue_id
            and native_i32(native_i64(table + 8 * NAME_SIZE) + 4 * row) == size
            and same_bytes(
                address,
                native_i64(table + 8 * ARENA) + native_i64(native_i64(table + 8 * NAME_POS) + 8 * row),
                size,
            )
        ):
            return row
    counts = native_i64(table + 8 * COUNTS)
    rows = native_i64(counts)
    used = native_i64(counts + 8)
    if rows >= native_i64(table + 8 * MAX_QUEUES) or used + size > native_i64(table + 8 * MAX_NAME_SIZE):
        store_i64(counts + 24, native_i64(counts + 24) + 1)
        return NO_ROW
    if (
        rows >= native_i64(table + 8 * ROW_CAPACITY)
        or used + size + 64 > native_i64(table + 8 * ARENA_SIZE)
        or 2 * (rows + 1) > mask + 1
    ):
        store_i64(counts + 16, size)
        return NO_ROOM
    if free < 0:
        store_i64(counts + 24, native_i64(counts + 24) + 1)
        return NO_ROW
    for index in range(size):
        store_u8(native_i64(table + 8 * ARENA) + used + index, load_u8(address + index))
    store_i64(native_i64(table + 8 * NAME_POS) + 8 * rows, used)
    store_i32(native_i64(table + 8 * NAME_SIZE) + 4 * rows, size)
    store_i32(native_i64(table + 8 * NAME_QUEUE) + 4 * rows, queue_id)
    store_i32(native_i64(table + 8 * STATE) + 4 * rows, 0)
    store_i32(free, rows + 1)
    store_i64(counts, rows + 1)
    store_i64(counts + 8, used + size)
    return rows
