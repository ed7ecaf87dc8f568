"""Commit log records into columns, compiled: `scan_records` as in `scan.plain.records`, fault for fault.

Grammar: reference 2.1 (record), 2.5 (properties), 2.8 (BLANK), 2.15 (what a broker checks); the order in
which a frame is tested is written in `scan.plain.records`. One pass a record: frame, fixed fields, CRC of the
body, queue look-up, properties by their separators, hashes of the keys found.

The kernel sees addresses only, so any array will do, a read-only one too. The kernel neither allocates nor
raises; what it cannot do itself, make room in the queue table, it hands back as `_TABLE_FULL`.
"""

# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import columns as fields
from rocketfsck.formats import dledger, magic
from rocketfsck.formats.dtypes import Longs
from rocketfsck.formats.properties import PROPERTY_CRC_SIZE
from rocketfsck.scan.columns import (
    DISPATCH_DTYPES,
    KEY_DTYPES,
    KEY_TAGS,
    RECORD_DTYPES,
    Fault,
    RecordBatch,
    Trait,
)
from rocketfsck.scan.compiled import dispatch, text
from rocketfsck.scan.machine import jit
from rocketfsck.scan.machine.intrinsics import (
    WORD_MASK,
    call_crc,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    native_i32,
    native_i64,
    row_storer,
    store_i64,
)
from rocketfsck.scan.machine.jit import entry, helper, inlined
from rocketfsck.scan.options import ScanOptions, Stop
from rocketfsck.scan.queues import QueueTable

_T_HASH = 31 * ord("T") + ord("#")
_TAGS_KIND = KEY_TAGS
_HEADER = dledger.ENTRY_HEADER_SIZE
_TABLE_FULL = -100  # in place of a Stop: the queue table must grow

_V1, _V2, _BLANK, _LEAST = magic.MAGIC_V1, magic.MAGIC_V2, magic.MAGIC_BLANK, magic.MIN_RECORD_SIZE
_LIMIT, _BATCH_FULL, _NEED_BYTES = int(Stop.LIMIT), int(Stop.BATCH_FULL), int(Stop.NEED_BYTES)
_AT_BLANK, _AT_ZERO, _BAD_MAGIC = int(Stop.BLANK), int(Stop.ZERO), int(Stop.MAGIC)
_BAD_SIZE, _BAD_LENGTHS, _BAD_BODY = int(Stop.SIZE), int(Stop.LENGTHS), int(Stop.BODY_LENGTH)
_BAD_TOPIC, _BAD_PROPERTIES, _SHORT = int(Stop.TOPIC_LENGTH), int(Stop.PROPERTIES_LENGTH), int(Stop.SHORT)

_F_BODY_CRC, _F_CRC_NEGATIVE = int(Fault.BODY_CRC), int(Fault.BODY_CRC_NEGATIVE)
_F_PHYSICAL_OFFSET, _F_SYS_FLAG = int(Fault.PHYSICAL_OFFSET), int(Fault.SYS_FLAG)
_F_COMPRESSION, _F_PORT, _F_QUEUE_ID = int(Fault.COMPRESSION_TYPE), int(Fault.PORT), int(Fault.QUEUE_ID)
_F_QUEUE_OFFSET, _F_PREPARED = int(Fault.QUEUE_OFFSET), int(Fault.PREPARED_OFFSET)
_F_BODY_SIZE, _F_PROPERTIES_SIZE = int(Fault.BODY_SIZE), int(Fault.PROPERTIES_SIZE)
_F_TOPIC_SIZE = int(Fault.TOPIC_SIZE)
_F_PROPERTY_CRC = int(Fault.PROPERTY_CRC)
_F_DELAY, _F_INNER, _F_END = int(Fault.DELAY), int(Fault.INNER_BATCH), int(Fault.END_OF_FILE)
_F_MULTI = int(Fault.MULTI_DISPATCH)

_T_MULTI, _T_INNER, _T_CRC = int(Trait.MULTI_DISPATCH), int(Trait.INNER_BATCH), int(Trait.PROPERTY_CRC)
_T_TRAILING, _T_SCHEDULE = int(Trait.TRAILING_SEPARATOR), int(Trait.SCHEDULE_TOPIC)
_T_DELAY = int(Trait.DELAY)
_T_UNIQUE, _T_KEYS, _T_PROPERTIES = int(Trait.HAS_UNIQUE_KEY), int(Trait.HAS_KEYS), int(Trait.HAS_PROPERTIES)

# the column's place in the array of addresses
_RECORD = {name: index for index, name in enumerate(RECORD_DTYPES)}
_KEY = {name: len(RECORD_DTYPES) + index for index, name in enumerate(KEY_DTYPES)}
_DISPATCH = {name: len(RECORD_DTYPES) + len(KEY_DTYPES) + index for index, name in enumerate(DISPATCH_DTYPES)}
_PLACES = _RECORD | _KEY | _DISPATCH
store_row = row_storer(list(RECORD_DTYPES.values()), 0)
store_key = row_storer(list(KEY_DTYPES.values()), len(RECORD_DTYPES))
_STOPS = {int(stop): stop for stop in Stop}


# one scratch array a batch: addresses of the columns, of the queue table, the values found, room for a name
_TABLE = len(_PLACES)
_FOUND = _TABLE + dispatch.TABLE_SIZE
_NAME = _FOUND + dispatch.FOUND_COUNT
_SCRATCH = _NAME + dispatch.NAME_ROOM // 8
_scratches: dict[int, tuple[weakref.ref[RecordBatch], NDArray[np.int64], int]] = {}


@helper
def host_value(address: int, growth: int) -> int:
    """The column's value for a host: its 8 bytes, or FNV-1a 64 of the 20 of an IPv6 one."""
    if growth == 0:
        return load_i64(address)
    value = np.uint64(0xCBF29CE484222325)
    for index in range(magic.IPV6_HOST_SIZE):
        value = (value ^ np.uint64(load_u8(address + index))) * np.uint64(0x100000001B3)
    return np.int64(value)


@inlined
def _port(behind: int) -> int:
    """The port of the host that ends at an address, unsigned."""
    return load_u32(behind - 4)


def _parts_of(table: QueueTable) -> NDArray[np.int64]:
    """What `_scan` wants to know of a queue table: addresses of its arrays, and sizes."""
    if table.parts is None:
        parts = table.parts = np.zeros(dispatch.TABLE_SIZE, np.int64)
        for place, array in (
            (dispatch.COUNTS, table.counts),
            (dispatch.NAME_POS, table.name_pos),
            (dispatch.SLOTS, table.slots),
            (dispatch.NAME_SIZE, table.name_size),
            (dispatch.NAME_QUEUE, table.queue_id),
            (dispatch.STATE, table.topic_state),
            (dispatch.TOPIC_FAULTS, table.topic_faults),
            (dispatch.TOPIC_HASH, table.topic_hash),
            (dispatch.ARENA, table.arena),
        ):
            parts[place] = array.ctypes.data
        parts[dispatch.SLOT_COUNT] = len(table.slots)
        parts[dispatch.ARENA_SIZE] = len(table.arena)
        parts[dispatch.ROW_CAPACITY] = len(table.queue_id)
        parts[dispatch.MAX_QUEUES], parts[dispatch.MAX_NAME_SIZE] = table.limits
    return table.parts


class Piece(NamedTuple):
    """Bytes to scan: `buffer` is an address, `start` and `end` are places after it, the rest as in
    `scan_records`."""

    buffer: int
    start: int
    end: int
    file_pos: int
    base_offset: int
    file_size: int


class Manner(NamedTuple):
    """How records are read: the options of a scan, and the address of the CRC's code."""

    split: bool
    read_bodies: bool
    in_entries: bool
    index_tags: bool
    crc: int


class Room(NamedTuple):
    """Where rows go, and how many of each kind have room.

    `columns` and `table` are addresses of addresses: of a batch's columns in the order of `_PLACES`, and of
    the queue table's parts. `found` is the address of scratch.
    """

    columns: int
    table: int
    found: int
    rows: int
    keys: int
    dispatches: int


@entry
def _scan(piece: Piece, manner: Manner, room: Room, counts: Longs) -> tuple[int, int]:
    """See `scan_records`."""
    buffer, start, end, file_pos, base_offset, file_size = piece
    split, read_bodies, in_entries, index_tags, external = manner
    columns, table, found, row_capacity, key_capacity, dispatch_capacity = room
    row = counts[0]
    key_row = counts[1]
    dispatch_row = counts[3]
    pos = start
    first = start  # of the entry around the record, where there are any
    stop = _LIMIT
    while True:
        if pos >= end:
            stop = _LIMIT
            break
        if row >= row_capacity:
            stop = _BATCH_FULL
            break
        if in_entries and end - pos >= magic.BLANK_HEADER_SIZE:
            entry_magic = load_i32(buffer + pos)
            entry_size = load_i32(buffer + pos + fields.MAGIC_CODE_AT)
            if entry_size in (_V1, _V2, _BLANK):
                pass  # a bare record
            elif entry_magic == dledger.MAGIC_BLANK:
                stop = _AT_BLANK
                break
            elif entry_magic >= dledger.MAGIC_NORMAL and entry_magic <= dledger.MAGIC_CONFIG_CHANGE:
                least = _HEADER if entry_magic == dledger.MAGIC_NORMAL else entry_size
                if least < _HEADER or max(least, _HEADER) > file_size - file_pos - pos:
                    stop = _BAD_SIZE
                    break
                if end - pos < least:
                    stop = _NEED_BYTES
                    break
                pos += least
                if entry_magic != dledger.MAGIC_NORMAL:
                    first = pos
                    continue
        record = buffer + pos
        left = file_size - file_pos - pos
        given = end - pos
        if left < magic.BLANK_HEADER_SIZE:
            if given < left:
                stop = _NEED_BYTES
            else:
                stop = _AT_ZERO if text.all_zero(record, given) else _SHORT
            break
        if given < magic.BLANK_HEADER_SIZE:
            stop = _NEED_BYTES
            break
        total_size = load_i32(record)
        magic_code = load_i32(record + fields.MAGIC_CODE_AT)
        if magic_code != _V1 and magic_code != _V2:
            if total_size == 0 and magic_code == 0:
                stop = _AT_ZERO
            elif magic_code == _BLANK:
                stop = _AT_BLANK
            else:
                stop = _BAD_MAGIC
            break
        if total_size < _LEAST or total_size > left:
            stop = _BAD_SIZE
            break
        if total_size > given:
            stop = _NEED_BYTES
            break
        record_end = record + total_size
        sys_flag = load_i32(record + fields.SYS_FLAG_AT)
        is_v2 = 1 if magic_code == _V2 else 0
        born_growth = fields.IPV6_GROWTH if sys_flag & magic.BORN_HOST_V6 else 0
        store_growth = fields.IPV6_GROWTH if sys_flag & magic.STORE_HOST_V6 else 0
        after_born = record + born_growth  # what all places behind bornHost count from
        after_hosts = after_born + store_growth
        body = after_hosts + fields.BODY_AT
        if body + 1 + is_v2 + 2 > record_end:
            stop = _BAD_LENGTHS
            break
        body_size = load_i32(after_hosts + fields.BODY_LENGTH_AT)
        body_bytes = max(body_size, 0)
        topic = body + body_bytes + 1 + is_v2
        if topic + 2 > record_end:
            stop = _BAD_BODY
            break
        topic_size = load_i16(topic - 2) if is_v2 else load_i8(topic - 1)
        properties = topic + topic_size + 2
        if topic_size < 0 or properties > record_end:
            stop = _BAD_TOPIC
            break
        properties_size = load_i16(properties - 2)
        properties_end = properties + max(properties_size, 0)
        if properties_end != record_end:
            stop = _BAD_PROPERTIES if properties_end > record_end else _BAD_LENGTHS
            break

        queue_id = load_i32(record + fields.QUEUE_ID_AT)
        turned_away = native_i64(native_i64(table + 8 * dispatch.COUNTS) + 24)
        queue_row = dispatch.intern_queue(table, topic, topic_size, queue_id)
        if queue_row == dispatch.NO_ROOM:
            stop = _TABLE_FULL
            break
        state = 0
        if queue_row >= 0:
            state = native_i32(native_i64(table + 8 * dispatch.STATE) + 4 * queue_row)
        if state != 0:
            faults = native_i32(native_i64(table + 8 * dispatch.TOPIC_FAULTS) + 4 * queue_row)
            topic_hash = native_i32(native_i64(table + 8 * dispatch.TOPIC_HASH) + 4 * queue_row) & WORD_MASK
        else:
            state, faults, topic_hash = dispatch.topic_facts(table, queue_row, topic, topic_size)

        body_crc = load_i32(record + fields.BODY_CRC_AT)
        queue_offset = load_i64(record + fields.QUEUE_OFFSET_AT)
        physical_offset = load_i64(record + fields.PHYSICAL_OFFSET_AT)
        prepared_offset = load_i64(after_hosts + fields.PREPARED_OFFSET_AT)
        found_at = file_pos + pos
        compression = sys_flag >> 8 & 7
        if read_bodies and body_size > 0:
            faults |= _F_BODY_CRC if call_crc(external, body, body_size) & 0x7FFFFFFF != body_crc else 0
        faults |= _F_CRC_NEGATIVE if body_crc < 0 else 0
        faults |= _F_PHYSICAL_OFFSET if physical_offset != base_offset + found_at else 0
        faults |= _F_SYS_FLAG if sys_flag & ~magic.KNOWN_SYS_FLAGS else 0
        faults |= _F_COMPRESSION if compression > 3 or (compression != 0 and sys_flag & 1 == 0) else 0
        ports = _port(after_born + fields.STORE_TIMESTAMP_AT) | _port(after_hosts + fields.RECONSUME_TIMES_AT)
        faults |= _F_PORT if ports > 0xFFFF else 0
        faults |= _F_QUEUE_ID if queue_id < 0 else 0
        faults |= _F_QUEUE_OFFSET if queue_offset < 0 else 0
        faults |= _F_PREPARED if prepared_offset < 0 else 0
        faults |= _F_BODY_SIZE if body_size < 0 else 0
        faults |= _F_PROPERTIES_SIZE if properties_size < 0 else 0
        faults |= _F_TOPIC_SIZE if is_v2 and topic_size > magic.MAX_TOPIC_SIZE_V2 else 0
        faults |= _F_END if found_at + total_size > file_size - magic.BLANK_HEADER_SIZE else 0
        traits = _T_SCHEDULE if state & dispatch.IS_SCHEDULE else 0

        tags_code = 0
        delay_level = 0
        batch_size = 1
        inner_base = queue_offset
        first_key = key_row
        first_dispatch = dispatch_row
        if properties_size > 0:
            traits |= _T_PROPERTIES
            for index in range(dispatch.FOUND_COUNT):
                store_i64(found + 8 * index, 0)
            faults |= dispatch.find_properties(properties, properties_size, split, found)
            traits |= _T_TRAILING if load_u8(record_end - 1) == 2 else 0
            span = native_i64(found + 8 * dispatch.TAGS)
            if span != 0:
                tags_code = text.signed32(text.text_hash(properties + (span >> 32), span & WORD_MASK, 0))
            span = native_i64(found + 8 * dispatch.UNIQ_KEY)
            if span != 0:
                traits |= _T_UNIQUE
                if key_row < key_capacity:
                    at = properties + (span >> 32)
                    size = span & WORD_MASK
                    value = text.index_hash(text.text_hash(at, size, topic_hash))
                    store_key(columns, key_row, (value, row, file_pos + at - buffer, size, 0))
                key_row += 1
            span = native_i64(found + 8 * dispatch.KEYS)
            if span != 0:
                traits |= _T_KEYS
                at = properties + (span >> 32)
                keys_end = at + (span & WORD_MASK)
                while at < keys_end:
                    size, value = text.word_hash(at, keys_end, topic_hash)
                    if size > 0:
                        if key_row < key_capacity:
                            value = text.index_hash(value)
                            store_key(columns, key_row, (value, row, file_pos + at - buffer, size, 1))
                        key_row += 1
                    at += size + 1
            span = native_i64(found + 8 * dispatch.TAGS)
            if index_tags and span & WORD_MASK != 0:
                if key_row < key_capacity:
                    at = properties + (span >> 32)
                    size = span & WORD_MASK
                    # "T#" comes behind the "topic#" of other keys
                    begun = (topic_hash * 31**2 + _T_HASH) & WORD_MASK
                    value = text.index_hash(text.text_hash(at, size, begun))
                    store_key(columns, key_row, (value, row, file_pos + at - buffer, size, _TAGS_KIND))
                key_row += 1
            span = native_i64(found + 8 * dispatch.DELAY)
            if span != 0:
                traits |= _T_DELAY
                at = properties + (span >> 32)
                is_number, delay_level = text.parse_decimal(at, span & WORD_MASK, 0x7FFFFFFF)
                faults |= _F_DELAY if not is_number and state & dispatch.IS_SCHEDULE else 0
            span = native_i64(found + 8 * dispatch.INNER_NUM)
            other = native_i64(found + 8 * dispatch.INNER_BASE)
            if span != 0 and other != 0:
                traits |= _T_INNER
                is_count, number = text.parse_decimal(properties + (span >> 32), span & WORD_MASK, 0x7FFF)
                at = properties + (other >> 32)
                is_base, base = text.parse_decimal(at, other & WORD_MASK, dispatch.MOST)
                if is_count and is_base:
                    batch_size = number
                    inner_base = base
                faults |= _F_INNER if not is_count or not is_base or base != queue_offset else 0
            span = native_i64(found + 8 * dispatch.DISPATCH)
            other = native_i64(found + 8 * dispatch.DISPATCH_OFFSET)
            if span != 0 and other != 0:
                traits |= _T_MULTI
                name_room = found + 8 * dispatch.FOUND_COUNT
                next_row = dispatch.store_dispatches(
                    dispatch.Further(table, columns, row, dispatch_row, dispatch_capacity, name_room),
                    (topic, topic_size, queue_id),
                    (properties + (span >> 32), span & WORD_MASK),
                    (properties + (other >> 32), other & WORD_MASK),
                )
                if next_row == dispatch.NO_ROOM:
                    store_i64(native_i64(table + 8 * dispatch.COUNTS) + 24, turned_away)
                    key_row = first_key
                    stop = _TABLE_FULL
                    break
                if next_row == dispatch.UNUSABLE:
                    faults |= _F_MULTI
                else:
                    dispatch_row = next_row
            span = native_i64(found + 8 * dispatch.CRC32)
            if span != 0:
                traits |= _T_CRC
                if read_bodies:
                    covered = total_size - PROPERTY_CRC_SIZE
                    value = call_crc(external, record, covered) & 0x7FFFFFFF
                    right = span & WORD_MASK == 10 and text.reversed_digits(value, properties + (span >> 32))
                    faults |= 0 if right else _F_PROPERTY_CRC
            if key_row > key_capacity or dispatch_row > dispatch_capacity:
                key_row = first_key
                dispatch_row = first_dispatch
                stop = _BATCH_FULL
                break

        store_row(
            columns,
            row,
            (
                found_at,
                total_size,
                magic_code,
                body_crc,
                queue_id,
                load_i32(record + fields.FLAG_AT),
                queue_offset,
                physical_offset,
                sys_flag,
                load_i64(record + fields.BORN_TIMESTAMP_AT),
                load_i64(after_born + fields.STORE_TIMESTAMP_AT),
                host_value(record + fields.BORN_HOST_AT, born_growth),
                host_value(after_born + fields.STORE_HOST_AT, store_growth),
                load_i32(after_hosts + fields.RECONSUME_TIMES_AT),
                prepared_offset,
                file_pos + body - buffer,
                body_size,
                topic_size,
                file_pos + topic - buffer,
                properties_size,
                file_pos + properties - buffer,
                tags_code,
                delay_level,
                queue_row,
                batch_size,
                inner_base,
                first_key,
                key_row - first_key,
                faults,
                traits,
            ),
        )
        row += 1
        pos += total_size
        first = pos
    if pos != first:  # after the header of an entry
        pos = first
        if stop in (_AT_ZERO, _AT_BLANK):
            stop = _BAD_MAGIC
        elif stop == _SHORT:
            stop = _BAD_SIZE
    counts[0] = row
    counts[1] = key_row
    counts[3] = dispatch_row
    return pos, stop


def scan_records(
    buffer: NDArray[np.uint8],
    start: int,
    end: int,
    file_pos: int,
    base_offset: int,
    file_size: int,
    options: ScanOptions,
    batch: RecordBatch,
    table: QueueTable,
) -> tuple[int, Stop]:
    """Append the records of `buffer[start:end]` to `batch` until something stops the run.

    `file_pos` is the file position of `buffer[0]`, `base_offset` the physical offset of the file's first
    byte, `file_size` the length of the file in bytes. Returns the index in `buffer` where the run stopped
    and why. Reads nothing outside `buffer[start:end]`. Raises ValueError for a range outside the buffer.
    """
    if not 0 <= start <= end <= buffer.size or not buffer.flags.c_contiguous:
        raise ValueError(f"bytes {start}:{end} of a buffer of {buffer.size}")
    external = jit.chosen()
    if external is None:
        raise RuntimeError(
            "compiled code has no CRC-32 that works here; set ROCKETFSCK_KERNELS=plain to run "
            "without compiled code"
        )
    scratch, address = _scratch_of(batch)
    is_split = options.property_parser == "split"
    manner = Manner(is_split, options.read_bodies, options.in_entries, options.index_tags, external)
    room = Room(address, address + 8 * _TABLE, address + 8 * _FOUND, *batch.capacities)
    while True:
        scratch[_TABLE:_FOUND] = _parts_of(table)
        piece = Piece(buffer.ctypes.data, start, end, file_pos, base_offset, file_size)
        start, stop = _scan(piece, manner, room, batch.counts)
        if stop != _TABLE_FULL:
            return start, _STOPS[stop]
        table.reserve(int(table.counts[2]))


def _scratch_of(batch: RecordBatch) -> tuple[NDArray[np.int64], int]:
    """The scratch array of a batch, which begins with its columns' addresses, and its own address."""
    number = id(batch)
    known = _scratches.get(number)
    if known is not None and known[0]() is batch:
        return known[1], known[2]
    scratch = np.zeros(_SCRATCH, np.int64)
    for name, column in (batch.records | batch.keys | batch.dispatches).items():
        scratch[_PLACES[name]] = column.ctypes.data
    gone = weakref.ref(batch, lambda _: _scratches.pop(number, None))
    _scratches[number] = (gone, scratch, scratch.ctypes.data)
    return scratch, scratch.ctypes.data
