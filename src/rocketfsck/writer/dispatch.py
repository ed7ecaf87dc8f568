"""From a record in the log to consume queues and index, as the broker's dispatcher goes. Reference 8.

What decides is what the record's bytes say: the properties are parsed again with the dialect's parser.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketfsck.formats.consumequeue import ExtUnit
from rocketfsck.formats.indexfile import IndexHeader
from rocketfsck.formats.javatext import TAG_KEY_PREFIX, parse_int16, parse_int32, parse_int64, split_java
from rocketfsck.formats.properties import (
    DELAY,
    INNER_BASE,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    INNER_NUM,
    KEYS,
    MULTI_DISPATCH_SEPARATOR,
    TAGS,
    UNIQ_KEY,
    parse_properties,
    split_keys,
    tags_code,
)
from rocketfsck.formats.record import Record, is_in_consume_queue, is_indexed
from rocketfsck.formats.timer import SCHEDULE_TOPIC, deliver_timestamp
from rocketfsck.writer.consumequeue import QueueTable, put_batch_unit, put_ext_unit, put_unit
from rocketfsck.writer.indexfile import IndexService, index_record
from rocketfsck.writer.message.compose import multi_dispatch_queue_id, takes_multi_dispatch
from rocketfsck.writer.options import WriteOptions


@dataclass(frozen=True, slots=True)
class ExtraUnit:
    """A unit in another queue than the record's own."""

    topic: str
    queue_id: int
    queue_offset: int


@dataclass(frozen=True, slots=True)
class DispatchOutcome:
    """What the dispatch of one record did: whether its own queue got a unit, the other queues that did, and
    the index files that it found full."""

    in_queue: bool
    extra_units: tuple[ExtraUnit, ...]
    full_index_files: tuple[IndexHeader, ...]


def dispatch_record(
    record: Record, queues: QueueTable, index: IndexService, filter_bit_map: bytes = b""
) -> DispatchOutcome:
    """Put a record into its consume queue(s) and the index."""
    options = queues.options
    properties = parse_properties(record.properties, options.dialect.property_parser) or {}
    topic = record.topic.decode()
    in_queue = is_in_consume_queue(record.sys_flag)
    extra: tuple[ExtraUnit, ...] = ()
    if in_queue:
        code = record_tags_code(record, topic, properties, options)
        _put_own_unit(record, topic, properties, code, queues, filter_bit_map)
        extra = _put_extra_units(record, topic, properties, code, queues)
    full: list[IndexHeader] = []
    if options.message_index:
        keys = _keys(properties, options) if is_indexed(record.sys_flag) else []
        full = index_record(index, topic, keys, record.physical_offset, record.store_timestamp)
    return DispatchOutcome(in_queue, extra, tuple(full))


def _keys(properties: dict[str, str], options: WriteOptions) -> list[str]:
    unique_key = properties.get(UNIQ_KEY)
    # UNIQ_KEY is put even when it is empty, KEYS' pieces and TAGS are not.
    keys = ([] if unique_key is None else [unique_key]) + split_keys(properties.get(KEYS, ""))
    tags = properties.get(TAGS) if options.dialect.tag_entries else None
    return [*keys, f"{TAG_KEY_PREFIX}{tags}"] if tags else keys


def record_tags_code(record: Record, topic: str, properties: dict[str, str], options: WriteOptions) -> int:
    """The tagsCode of a record's unit: the hash of its tags, or when it is due."""
    if topic == SCHEDULE_TOPIC and DELAY in properties:
        level = parse_int32(properties[DELAY]) or 0
        if level > 0:
            return deliver_timestamp(level, record.store_timestamp, options.delay_levels)
    return tags_code(properties.get(TAGS))


def _put_own_unit(
    record: Record,
    topic: str,
    properties: dict[str, str],
    code: int,
    queues: QueueTable,
    filter_bit_map: bytes,
) -> None:
    queue = queues.state(topic, record.queue_id)
    offset, size = record.physical_offset, record.total_size
    if queue.is_batch:
        base, count = record.queue_offset, 1
        if INNER_NUM in properties and INNER_BASE in properties:
            count = parse_int16(properties[INNER_NUM]) or 0
            base = parse_int64(properties[INNER_BASE]) or 0
        put_batch_unit(queue, offset, size, code, record.store_timestamp, base, count)
        return
    if queue.ext is not None:
        address = put_ext_unit(queue, ExtUnit(code, record.store_timestamp, filter_bit_map))
        code = code if address is None else address
    put_unit(queue, offset, size, code, record.queue_offset)


def _put_extra_units(
    record: Record, topic: str, properties: dict[str, str], code: int, queues: QueueTable
) -> tuple[ExtraUnit, ...]:
    names, offsets = properties.get(INNER_MULTI_DISPATCH), properties.get(INNER_MULTI_QUEUE_OFFSET)
    if not takes_multi_dispatch(topic, queues.options) or not names or not offsets:
        return ()
    found = []
    name_list = split_java(names, MULTI_DISPATCH_SEPARATOR)
    offset_list = split_java(offsets, MULTI_DISPATCH_SEPARATOR)
    for name, text in zip(name_list, offset_list, strict=True):
        queue_id = multi_dispatch_queue_id(name, record.queue_id)
        queue_offset = parse_int64(text) or 0
        put_unit(
            queues.state(name, queue_id),
            record.physical_offset,
            record.total_size,
            code,
            queue_offset,
        )
        found.append(ExtraUnit(name, queue_id, queue_offset))
    return tuple(found)
