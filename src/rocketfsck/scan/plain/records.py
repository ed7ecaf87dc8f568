"""Commit log records into columns, in plain Python: the oracle of the compiled kernels, and the quick way
through a small file (no compiler to load).

Grammar: reference 2.1 (record), 2.5 (properties), 2.8 (BLANK), 2.15 (what a broker checks). Only the frame
stops a run of records; what is wrong inside a sound frame is a `Fault` of its row.

The frame, in the order in which it is tested (a `Stop` each, at the record's first byte):

1. no bytes left -> LIMIT; the batch has no row free -> BATCH_FULL
2. the file ends within 8 bytes -> ZERO if they are all zero, else SHORT; fewer than 8 given -> NEED_BYTES
3. totalSize and magic both 0 -> ZERO; magic BLANK -> BLANK; neither V1 nor V2 -> MAGIC
4. totalSize below 91 or past the end of the file -> SIZE; past the bytes given -> NEED_BYTES
5. hosts (by sysFlag) and the three length fields do not fit in totalSize -> LENGTHS
6. the body does not leave room for the rest -> BODY_LENGTH; likewise TOPIC_LENGTH (or it is negative) and
   PROPERTIES_LENGTH; bytes left over -> LENGTHS (negative body and properties lengths count as 0)
7. more keys or further queues than their columns have room for -> BATCH_FULL

With `in_entries` each record is in an entry of DLedger's (`scan.plain.entries`), at whose first byte the run
stops where the record has one of these faults; what is not a record after a header is MAGIC or SIZE.

Rows of keys and further queues are written for every record, rolled back ones included: who joins them
applies the rules of dispatch (reference 8).

The properties of a record in plain Python: the values that a scan wants, the keys, the further queues.

    properties := name 0x01 value (0x02 name 0x01 value)* 0x02?        (reference 2.5)

The oracle of `scan.compiled.dispatch` and `scan.compiled.dispatch`.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import columns, javatext, magic, record, timer
from rocketfsck.formats.properties import PROPERTY_CRC_SIZE, property_crc_digits, tags_code
from rocketfsck.scan.columns import KEY_TAGS, KEY_UNIQUE, KEY_WORD, Fault, RecordBatch, Trait
from rocketfsck.scan.options import PropertyParser, ScanOptions, Stop
from rocketfsck.scan.plain.entries import STOP_IN_ENTRY, entry_lead
from rocketfsck.scan.queues import QueueTable

LMQ_PREFIX = "%LMQ%"
NOT_MULTI_DISPATCHED = (b"%RETRY%", b"rmq_sys_", timer.SCHEDULE_TOPIC.encode())

Row = tuple[int, ...]
Queue = tuple[bytes, int, int]
Spans = dict[bytes, tuple[int, int]]


def find_properties(data: bytes, parser: PropertyParser) -> tuple[Spans, bool]:
    """Where each property's value lies in `data` by its name (last one wins), and whether all is in shape.

    In shape: every piece between separators is empty or `name 0x01 value` with both sides non-empty and
    no further 0x01; then both parsers see the same pairs.
    """
    spans: Spans = {}
    shaped = True
    start = 0
    for piece in data.split(b"\x02"):
        end = start + len(piece)
        at = piece.find(b"\x01")
        if 0 < at < len(piece) - 1 and piece.find(b"\x01", at + 1) < 0:
            spans[piece[:at]] = (start + at + 1, end)
        elif piece:
            shaped = False
            found = _odd_piece(piece, at, parser)
            if found is not None:
                spans[piece[:at]] = (start + at + 1, start + found)
        start = end + 1
    return spans, shaped


def _odd_piece(piece: bytes, at: int, parser: PropertyParser) -> int | None:
    """Where the value of an ill-shaped piece ends, None if the parser drops the piece."""
    if at < 0:
        return None
    if parser == "scan":
        return len(piece) if 0 < at < len(piece) - 1 else None
    kept = piece.rstrip(b"\x01")
    return len(kept) if kept.count(b"\x01") == 1 else None


def property_text(data: bytes, spans: Spans, name: bytes) -> str | None:
    """A property's value as Java reads it; None without the property."""
    span = spans.get(name)
    return None if span is None else javatext.java_decode(data[span[0] : span[1]])


def index_words(
    data: bytes, spans: Spans, topic: str, properties_pos: int, *, index_tags: bool = False
) -> list[Row]:
    """The index keys in the broker's order: UNIQ_KEY, the words of KEYS, with `index_tags` TAGS (4.5).

    Rows of hash, position in the file, size and kind; `properties_pos` is where `data` stands.
    """
    words: list[Row] = []
    if (span := spans.get(b"UNIQ_KEY")) is not None:
        low, high = span
        found = javatext.index_hash(topic, javatext.java_decode(data[low:high]))
        words.append((found, properties_pos + low, high - low, KEY_UNIQUE))
    if (span := spans.get(b"KEYS")) is not None:
        low = span[0]
        for word in data[low : span[1]].split(b" "):
            if word:
                found = javatext.index_hash(topic, javatext.java_decode(word))
                words.append((found, properties_pos + low, len(word), KEY_WORD))
            low += len(word) + 1
    if index_tags and (span := spans.get(b"TAGS")) is not None and span[0] < span[1]:
        low, high = span
        found = javatext.tag_index_hash(topic, javatext.java_decode(data[low:high]))
        words.append((found, properties_pos + low, high - low, KEY_TAGS))
    return words


def further_queues(topic: bytes, queue_id: int, names: str, offsets: str) -> list[Queue] | None:
    """The queues besides its own that a record is dispatched to: (topic, queueId, queueOffset).

    None if the lists have different lengths or an offset is not a number, whereupon a broker gives up. Some
    topics are never multi-dispatched; names with a path separator are skipped. Reference 2.13.
    """
    listed = javatext.split_java(names, ",")
    numbers = [javatext.parse_int64(offset) for offset in javatext.split_java(offsets, ",")]
    if len(listed) != len(numbers) or None in numbers:
        return None
    if topic.startswith(NOT_MULTI_DISPATCHED):
        return []
    return [
        (javatext.java_encode(name), 0 if name.startswith(LMQ_PREFIX) else queue_id, number)
        for name, number in zip(listed, numbers, strict=True)
        if number is not None and "/" not in name
    ]


SCHEDULE_TOPIC_BYTES = timer.SCHEDULE_TOPIC.encode()
_HEAD = record.BLANK.packer()
_FIXED = record.RECORD_HEADER.packer(last="bornTimestamp")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_SHORT = struct.Struct(">h")
_AFTER_HOSTS = record.RECORD_HEADER.packer("reconsumeTimes")


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
    and why. Reads nothing outside `buffer[start:end]`.
    """
    view = buffer.data
    pos = start
    first_row, first_key, _, first_dispatch = batch.counts.tolist()
    rows_room, keys_room, dispatches_room = batch.capacities
    row_limit, key_limit = rows_room - first_row, keys_room - first_key
    dispatch_limit = dispatches_room - first_dispatch
    rows: list[Row] = []
    keys: list[Row] = []
    dispatches: list[Row] = []
    while True:
        if pos >= end:
            stop = Stop.LIMIT
            break
        if len(rows) >= row_limit:
            stop = Stop.BATCH_FULL
            break
        first = pos
        if options.in_entries:
            lead = entry_lead(view, pos, end - pos, file_size - file_pos - pos)
            if isinstance(lead, Stop):
                stop = lead
                break
            pos += lead[0]
            if lead[0] and not lead[1]:
                continue
        frame = read_frame(view, pos, end, file_pos, file_size)
        if isinstance(frame, Stop):
            stop = STOP_IN_ENTRY.get(frame, frame) if pos > first else frame
            pos = first
            break
        key_start = first_key + len(keys)
        row, words, queues = _read_row(
            view, pos, frame, file_pos, base_offset, file_size, options, table, key_start
        )
        if len(keys) + len(words) > key_limit or len(dispatches) + len(queues) > dispatch_limit:
            stop = Stop.BATCH_FULL
            pos = first
            break
        keys += [(word[0], first_row + len(rows), *word[1:]) for word in words]
        dispatches += [(first_row + len(rows), *queue) for queue in queues]
        rows.append(row)
        pos += frame[0]
    batch.append(rows, keys, dispatches)
    return pos, stop


def read_frame(
    view: memoryview, pos: int, end: int, file_pos: int, file_size: int
) -> tuple[int, int, int, int, int, int, int] | Stop:
    """Test one record's frame at `view[pos]`.

    Returns totalSize, the indexes of the storeTimestamp, of the body, of the topic, the topic's and the
    properties' index and their end, or why there is no record.
    """
    left = file_size - file_pos - pos
    given = end - pos
    if left < magic.BLANK_HEADER_SIZE:
        if given < left:
            return Stop.NEED_BYTES
        return Stop.SHORT if any(view[pos:end]) else Stop.ZERO
    if given < magic.BLANK_HEADER_SIZE:
        return Stop.NEED_BYTES
    total_size, magic_code = _HEAD.unpack_from(view, pos)
    if total_size == 0 and magic_code == 0:
        return Stop.ZERO
    if magic_code == magic.MAGIC_BLANK:
        return Stop.BLANK
    if magic_code != magic.MAGIC_V1 and magic_code != magic.MAGIC_V2:
        return Stop.MAGIC
    if total_size < magic.MIN_RECORD_SIZE or total_size > left:
        return Stop.SIZE
    if total_size > given:
        return Stop.NEED_BYTES
    record_end = pos + total_size
    sys_flag = _INT.unpack_from(view, pos + columns.SYS_FLAG_AT)[0]
    body = pos + columns.body_place(sys_flag)
    topic_length_size = 2 if magic_code == magic.MAGIC_V2 else 1
    if body + topic_length_size + 2 > record_end:
        return Stop.LENGTHS
    topic = body + max(_INT.unpack_from(view, body - _INT.size)[0], 0) + topic_length_size
    if topic + 2 > record_end:
        return Stop.BODY_LENGTH
    topic_length = _topic_length(view, topic, topic_length_size)
    properties = topic + topic_length + 2
    if topic_length < 0 or properties > record_end:
        return Stop.TOPIC_LENGTH
    properties_end = properties + max(_SHORT.unpack_from(view, properties - 2)[0], 0)
    if properties_end > record_end:
        return Stop.PROPERTIES_LENGTH
    if properties_end != record_end:
        return Stop.LENGTHS
    store_timestamp = pos + columns.store_timestamp_place(sys_flag)
    return total_size, store_timestamp, body, topic, properties - 2, properties, properties_end


def _topic_length(view: memoryview, topic: int, size: int) -> int:
    if size == 2:
        return int(_SHORT.unpack_from(view, topic - 2)[0])
    return view[topic - 1] - 256 if view[topic - 1] > 127 else view[topic - 1]


def _read_row(
    view: memoryview,
    pos: int,
    frame: tuple[int, int, int, int, int, int, int],
    file_pos: int,
    base_offset: int,
    file_size: int,
    options: ScanOptions,
    table: QueueTable,
    key_start: int,
) -> tuple[Row, list[Row], list[Row]]:
    """The record's columns in the order of `RECORD_DTYPES`, its keys as (hash, pos, size, kind), and its
    further queues as (row in the table, queueOffset). `key_start` is the row of its first key."""
    total_size, store_timestamp_pos, body, topic, topic_end, properties, properties_end = frame
    fixed = _FIXED.unpack_from(view, pos)
    (_, magic_code, body_crc, queue_id, _, queue_offset, physical_offset, sys_flag, *_) = fixed
    store_timestamp = _LONG.unpack_from(view, store_timestamp_pos)[0]
    born_host, born_port = _host(view, pos + columns.BORN_HOST_AT, store_timestamp_pos)
    hosts_end = body - _AFTER_HOSTS.size
    store_host, store_port = _host(view, store_timestamp_pos + _LONG.size, hosts_end)
    *after_hosts, body_size = _AFTER_HOSTS.unpack_from(view, hosts_end)
    properties_size = _SHORT.unpack_from(view, topic_end)[0]
    topic_bytes = bytes(view[topic:topic_end])
    topic_text, faults = _topic_facts(topic_bytes)
    found_at = file_pos + pos
    compression = sys_flag >> 8 & 7
    wrong = (
        (body_crc < 0, Fault.BODY_CRC_NEGATIVE),
        (physical_offset != base_offset + found_at, Fault.PHYSICAL_OFFSET),
        (sys_flag & ~magic.KNOWN_SYS_FLAGS, Fault.SYS_FLAG),
        (compression > 3 or (compression and not sys_flag & 1), Fault.COMPRESSION_TYPE),
        (born_port > 0xFFFF or store_port > 0xFFFF, Fault.PORT),
        (queue_id < 0, Fault.QUEUE_ID),
        (queue_offset < 0, Fault.QUEUE_OFFSET),
        (after_hosts[-1] < 0, Fault.PREPARED_OFFSET),
        (body_size < 0, Fault.BODY_SIZE),
        (properties_size < 0, Fault.PROPERTIES_SIZE),
        (magic_code == magic.MAGIC_V2 and len(topic_bytes) > magic.MAX_TOPIC_SIZE_V2, Fault.TOPIC_SIZE),
        (found_at + total_size > file_size - magic.BLANK_HEADER_SIZE, Fault.END_OF_FILE),
    )
    for is_wrong, bit in wrong:
        if is_wrong:
            faults |= bit
    if options.read_bodies and body_size > 0 and crc31(view[body : body + body_size]) != body_crc:
        faults |= Fault.BODY_CRC
    queue_index = table.intern(topic_bytes, queue_id)
    traits = Trait.SCHEDULE_TOPIC if topic_bytes == SCHEDULE_TOPIC_BYTES else 0
    code, delay_level, batch_size, inner_base = 0, 0, 1, queue_offset
    words: list[Row] = []
    queues: list[Row] = []
    if properties_size > 0:
        data = bytes(view[properties:properties_end])
        spans, shaped = find_properties(data, options.property_parser)
        traits |= Trait.HAS_PROPERTIES
        torn = 0 in data and (not shaped or data[-1] == 0 or bytes(8) in data)
        faults |= (0 if shaped else Fault.PROPERTY_SHAPE) | (Fault.PROPERTY_NUL if torn else 0)
        if data[-1] == 2:
            traits |= Trait.TRAILING_SEPARATOR
        code = tags_code(property_text(data, spans, b"TAGS"))
        words = index_words(data, spans, topic_text, file_pos + properties, index_tags=options.index_tags)
        traits |= Trait.HAS_UNIQUE_KEY if b"UNIQ_KEY" in spans else 0
        traits |= Trait.HAS_KEYS if b"KEYS" in spans else 0
        if b"INNER_MULTI_DISPATCH" in spans and b"INNER_MULTI_QUEUE_OFFSET" in spans:
            traits |= Trait.MULTI_DISPATCH
            lists = (b"INNER_MULTI_DISPATCH", b"INNER_MULTI_QUEUE_OFFSET")
            names, offsets = (property_text(data, spans, name) or "" for name in lists)
            listed = further_queues(topic_bytes, queue_id, names, offsets)
            faults |= Fault.MULTI_DISPATCH if listed is None else 0
            queues = [(table.intern(name, number), offset) for name, number, offset in listed or ()]
        if b"DELAY" in spans:
            traits |= Trait.DELAY
            level = javatext.parse_int32(property_text(data, spans, b"DELAY") or "")
            delay_level = level or 0
            if level is None and traits & Trait.SCHEDULE_TOPIC:
                faults |= Fault.DELAY
        if b"INNER_NUM" in spans and b"INNER_BASE" in spans:
            traits |= Trait.INNER_BATCH
            number = javatext.parse_int16(property_text(data, spans, b"INNER_NUM") or "")
            base = javatext.parse_int64(property_text(data, spans, b"INNER_BASE") or "")
            if number is not None and base is not None:
                batch_size, inner_base = number, base
            if number is None or base != queue_offset:
                faults |= Fault.INNER_BATCH
        if b"__CRC32#" in spans:
            traits |= Trait.PROPERTY_CRC
            low, high = spans[b"__CRC32#"]
            if options.read_bodies and data[low:high] != property_crc_digits(
                crc31(view[pos : properties_end - PROPERTY_CRC_SIZE])
            ):
                faults |= Fault.PROPERTY_CRC
    head = (found_at, *fixed, store_timestamp, born_host, store_host, *after_hosts)
    places = (file_pos + body, body_size, len(topic_bytes), file_pos + topic)
    rest = (properties_size, file_pos + properties)
    meant = (code, delay_level, queue_index, batch_size, inner_base, key_start, len(words))
    return (*head, *places, *rest, *meant, int(faults), int(traits)), words, queues


def crc31(data: memoryview | bytes) -> int:
    """CRC-32 without its top bit, as RocketMQ stores it (reference 2.6)."""
    return zlib.crc32(data) & 0x7FFFFFFF


def _host(view: memoryview, start: int, end: int) -> tuple[int, int]:
    """The host as a column value, and its port as an unsigned number."""
    port = int.from_bytes(view[end - 4 : end], "big")
    if end - start == magic.IPV4_HOST_SIZE:
        return _LONG.unpack_from(view, start)[0], port
    value = 0xCBF29CE484222325
    for byte in view[start:end]:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >> 63 else value, port


@lru_cache(maxsize=4096)
def _topic_facts(topic: bytes) -> tuple[str, int]:
    """The topic as Java reads it, and the faults that lie in its bytes alone."""
    faults = 0 if topic else int(Fault.TOPIC_EMPTY)
    if any(byte < 0x20 or byte in (0x2F, 0x7F) for byte in topic):
        faults |= Fault.TOPIC_CHARSET
    try:
        topic.decode("utf-8")
    except UnicodeDecodeError:
        faults |= Fault.TOPIC_CHARSET | Fault.TOPIC_UTF8
    return javatext.java_decode(topic), faults
