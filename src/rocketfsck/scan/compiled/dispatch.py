"""The lists of multi-dispatch records, for kernels: the further queues that a record is dispatched to.

    INNER_MULTI_DISPATCH     := name (',' name)*        INNER_MULTI_QUEUE_OFFSET := offset (',' offset)*

Split like Java's `String.split`: empty pieces at the end do not count. A broker that cannot use the lists
writes no further unit at all. Stated in `plain`; reference 2.13.

The queue table, for kernels: (topic, queueId) -> row, and what is known of a row's topic.

The table's arrays are those of `scan.queues.QueueTable`; a kernel has their addresses and sizes in one
array, `table`, in the order below. What lies in a topic's bytes alone, its faults and its hash, is worked
out once a row (reference 2.1, 4.3).

The properties of a record, for kernels: the values that the scan wants, and whether all are in shape.

    properties := name 0x01 value (0x02 name 0x01 value)* 0x02?        (reference 2.5)

One pass over the bytes; both of RocketMQ's parsers. What they make of a piece differs
only where a piece has no 0x01, several, or nothing on one side of it.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketfsck.scan.columns import DISPATCH_DTYPES, KEY_DTYPES, RECORD_DTYPES, Fault
from rocketfsck.scan.compiled import text
from rocketfsck.scan.machine.intrinsics import (
    WORD_MASK,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    native_i32,
    native_i64,
    row_storer,
    store_i32,
    store_i64,
    store_u8,
)
from rocketfsck.scan.machine.jit import helper, inlined
from rocketfsck.scan.queues import MAX_PROBES, NO_ROW

# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)


# the properties wanted: their place among the values found
TAGS, KEYS, UNIQ_KEY, DELAY, INNER_NUM, INNER_BASE, DISPATCH, DISPATCH_OFFSET, CRC32 = range(9)
FOUND_COUNT = 9

_F_NUL, _F_SHAPE = int(Fault.PROPERTY_NUL), int(Fault.PROPERTY_SHAPE)
_HIGH_BITS = -0x7F7F7F7F7F7F7F80  # of each byte of a word


def word(name: str) -> int:
    """ASCII text as the number that a big-endian load gives."""
    return int.from_bytes(name.encode(), "big")


_W_TAGS, _W_KEYS, _W_DELA, _W_UNIQ_KEY = word("TAGS"), word("KEYS"), word("DELA"), word("UNIQ_KEY")
_W_CRC32, _W_INNER_NU, _W_INNER_BA = word("__CRC32#"), word("INNER_NU"), word("INNER_BA")
_W_INNER_MU, _W_LTI_DISP, _W_ATCH = word("INNER_MU"), word("LTI_DISP"), word("ATCH")
_W_LTI_QUEU, _W_E_OFFSET, _W_SE = word("LTI_QUEU"), word("E_OFFSET"), word("SE")


@inlined
def wanted_property(name: int, size: int) -> int:
    """Which of the properties wanted the `size` bytes at address `name` spell, -1 for none."""
    if size == 4:
        word = load_i32(name)
        if word == _W_TAGS:
            return TAGS
        return KEYS if word == _W_KEYS else -1
    if size == 8:
        long_word = load_i64(name)
        if long_word == _W_UNIQ_KEY:
            return UNIQ_KEY
        return CRC32 if long_word == _W_CRC32 else -1
    if size == 5:
        return DELAY if load_i32(name) == _W_DELA and load_u8(name + 4) == 0x59 else -1
    if size < 9 or size > 24:
        return -1
    first = load_i64(name)
    if size == 9:
        return INNER_NUM if first == _W_INNER_NU and load_u8(name + 8) == 0x4D else -1
    if size == 10:
        return INNER_BASE if first == _W_INNER_BA and load_i16(name + 8) == _W_SE else -1
    if first != _W_INNER_MU:
        return -1
    if size == 20:
        return DISPATCH if load_i64(name + 8) == _W_LTI_DISP and load_i32(name + 16) == _W_ATCH else -1
    if size == 24 and load_i64(name + 8) == _W_LTI_QUEU and load_i64(name + 16) == _W_E_OFFSET:
        return DISPATCH_OFFSET
    return -1


@inlined
def no_mark(word: int) -> bool:
    """Whether none of a word's eight bytes is 0, 1 or 2."""
    return ((word & 0x7F7F7F7F7F7F7F7F) + 0x7D7D7D7D7D7D7D7D | word) & _HIGH_BITS == _HIGH_BITS


@helper
def odd_piece(piece: int, mark: int, marks: int, size: int, split: bool) -> int:
    """The size of the value of a piece that is not `name 0x01 value`, -1 if the parser drops it.

    `mark` is the first 0x01's place in the piece of `size` bytes, `marks` how many there are.
    """
    if marks == 0:
        return -1
    if not split:
        return size - mark - 1 if 0 < mark < size - 1 else -1
    kept = size
    while kept > 0 and load_u8(piece + kept - 1) == 1:
        kept -= 1
        marks -= 1
    return kept - mark - 1 if marks == 1 else -1


@inlined
def find_properties(address: int, size: int, split: bool, found: int) -> int:
    """Notes in `found` where the wanted properties' values are; gives the faults of the properties' shape.

    A value is noted as place << 32 | size; the last of a name wins.
    """
    faults = 0
    piece = 0
    mark = 0
    marks = 0
    nul = 0
    end = -1
    while end < size:
        end += 1
        while end + 8 <= size and no_mark(native_i64(address + end)):
            end += 8
        if end < size:
            byte = load_u8(address + end)
            if byte > 2:
                continue
            if byte == 1:
                if marks == 0:
                    mark = end
                marks += 1
                continue
            if byte == 0:  # a write that was torn leaves zeros to the end, or many, or no shape
                nul = 1
                if end == size - 1 or (end + 8 <= size and native_i64(address + end) == 0):
                    faults |= _F_NUL
                continue
        if marks == 1 and mark > piece and mark + 1 < end:
            index = wanted_property(address + piece, mark - piece)
            if index >= 0:
                store_i64(found + 8 * index, (mark + 1) << 32 | (end - mark - 1))
        elif end > piece:
            faults |= _F_SHAPE
            value_size = odd_piece(address + piece, mark - piece, marks, end - piece, split)
            if value_size >= 0:
                index = wanted_property(address + piece, mark - piece)
                if index >= 0:
                    store_i64(found + 8 * index, (mark + 1) << 32 | value_size)
        piece = end + 1
        marks = 0
    if nul and faults & _F_SHAPE:
        faults |= _F_NUL
    return faults


COUNTS, SLOTS, SLOT_COUNT, NAME_POS, NAME_SIZE, NAME_QUEUE = range(6)
STATE, TOPIC_FAULTS, TOPIC_HASH = range(6, 9)
ARENA, ARENA_SIZE, ROW_CAPACITY, MAX_QUEUES, MAX_NAME_SIZE = range(9, 14)
TABLE_SIZE = 14

KNOWN, IS_SCHEDULE = 1, 2  # bits of a row's topic_state
NO_ROOM = -2

_F_TOPIC_EMPTY, _F_TOPIC_CHARSET = int(Fault.TOPIC_EMPTY), int(Fault.TOPIC_CHARSET)
_F_TOPIC_UTF8 = int(Fault.TOPIC_UTF8)
_W_SCHEDULE, _W_TOPIC, _W_XXXX = word("SCHEDULE"), word("_TOPIC_X"), word("XXXX")


@inlined
def is_schedule(address: int) -> bool:
    """Whether the 19 bytes at an address are SCHEDULE_TOPIC_XXXX."""
    begins = load_i64(address) == _W_SCHEDULE and load_i64(address + 8) == _W_TOPIC
    return begins and load_u32(address + 15) == _W_XXXX


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
    if not text.is_utf8(address, size):
        faults |= _F_TOPIC_CHARSET | _F_TOPIC_UTF8
    if size == 19 and is_schedule(address):
        state |= IS_SCHEDULE
    value = (text.text_hash(address, size, 0) * 31 + 0x23) & WORD_MASK
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
    value = text.byte_hash(address, size)
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
            and text.same_bytes(
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


COMMA = 0x2C
SLASH = 0x2F
MOST = 0x7FFFFFFFFFFFFFFF
UNUSABLE = -3

NAME_ROOM = 3 * 32768
"""Bytes of scratch for a name whose malformed bytes become U+FFFD."""

_W_RMQ_SYS = word("rmq_sys_")
_W_RETRY, _SEVEN_BYTES = word("%RETRY%"), (1 << 56) - 1
_W_LMQ, _FIVE_BYTES = word("%LMQ%"), (1 << 40) - 1

store_dispatch = row_storer(list(DISPATCH_DTYPES.values()), len(RECORD_DTYPES) + len(KEY_DTYPES))


@helper
def is_never_multi_dispatched(topic: int, size: int) -> bool:
    """Whether a topic is one of those whose lists a broker does not look at."""
    if size < 7:
        return False
    first = load_i64(topic)
    if first >> 8 & _SEVEN_BYTES == _W_RETRY or (size >= 8 and first == _W_RMQ_SYS):
        return True
    return size >= 19 and is_schedule(topic)


@helper
def listed_count(address: int, size: int) -> tuple[int, int]:
    """How many pieces Java's split makes of a list, and the size of the part that they take."""
    kept = size
    while kept > 0 and load_u8(address + kept - 1) == COMMA:
        kept -= 1
    if kept == 0:
        return 1 if size == 0 else 0, 0
    count = 1
    for index in range(kept):
        if load_u8(address + index) == COMMA:
            count += 1
    return count, kept


@helper
def piece_size(address: int, left: int) -> int:
    """The bytes up to the next comma."""
    size = 0
    while size < left and load_u8(address + size) != COMMA:
        size += 1
    return size


@helper
def has_slash(address: int, size: int) -> bool:
    """Whether a name would be a path."""
    found = False
    for index in range(size):
        found = found or load_u8(address + index) == SLASH
    return found


@helper
def replaced(address: int, size: int, out: int) -> int:
    """Writes bytes as Java would after decoding them, U+FFFD for what is malformed; gives their number."""
    at = 0
    done = 0
    while at < size:
        used = 1
        code = load_u8(address + at)
        if code >= 0x80:
            code, used = text.decode_step(address + at, size - at)
        if code == text.ODD:
            store_u8(out + done, 0xEF)
            store_u8(out + done + 1, 0xBF)
            store_u8(out + done + 2, 0xBD)
            done += 3
        else:
            for index in range(used):
                store_u8(out + done + index, load_u8(address + at + index))
            done += used
        at += used
    return done


class Further(NamedTuple):
    """Where the further queues of the record at row `row` go: dispatch rows from `first` on.

    `table` and `columns` are those of a scan's `Room`, `name_room` is the address of NAME_ROOM bytes.
    """

    table: int
    columns: int
    row: int
    first: int
    capacity: int
    name_room: int


@helper
def store_dispatches(
    further: Further, queue: tuple[int, int, int], names: tuple[int, int], offsets: tuple[int, int]
) -> int:
    """Writes the further queues of a record and gives the dispatch row after them.

    That row may lie beyond the capacity: rows there are counted, not written. UNUSABLE where a broker
    gives up, NO_ROOM where the queue table must grow first. `queue` is the address and the size of the
    record's topic and its queueId; lists are addresses and sizes.
    """
    topic, topic_size, queue_id = queue
    name, names_size = names
    offset, offsets_size = offsets
    count, names_size = listed_count(name, names_size)
    other, offsets_size = listed_count(offset, offsets_size)
    if count != other:
        return UNUSABLE
    at = 0
    for _ in range(count):
        size = piece_size(offset + at, offsets_size - at)
        is_number, _number = text.parse_decimal(offset + at, size, MOST)
        if not is_number:
            return UNUSABLE
        at += size + 1
    if is_never_multi_dispatched(topic, topic_size):
        return further.first
    done = further.first
    at = 0
    names_end = name + names_size
    for _ in range(count):
        size = piece_size(offset + at, offsets_size - at)
        _is_number, number = text.parse_decimal(offset + at, size, MOST)
        at += size + 1
        name_size = piece_size(name, names_end - name)
        if not has_slash(name, name_size):
            number_of_queue = queue_id
            if name_size >= 5 and load_i64(name - 3) & _FIVE_BYTES == _W_LMQ:
                number_of_queue = 0
            if text.is_utf8(name, name_size):
                found = intern_queue(further.table, name, name_size, number_of_queue)
            else:
                used = replaced(name, name_size, further.name_room)
                found = intern_queue(further.table, further.name_room, used, number_of_queue)
            if found == NO_ROOM:
                return NO_ROOM
            if done < further.capacity:
                store_dispatch(further.columns, done, (further.row, found, number))
            done += 1
        name += name_size + 1
    return done
