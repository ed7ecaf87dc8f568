"""Consume queues as the dispatcher fills them: plain, with ext units, and batch queues. Reference 3.1 to 3.7.

A unit after the last one's record is appended; one at or before it was dispatched already and is skipped.
A queue whose first unit has a queue offset above 0 begins in the file of that offset, and the room before
it there is filled with pre-blank units.

From a record in the log to consume queues and index, as the broker's dispatcher goes. Reference 8.

What decides is what the record's bytes say: the properties are parsed again with the dialect's parser.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rocketfsck.formats import consumequeue, indexfile, javatext, magic, timer
from rocketfsck.formats import properties as props
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.layout import Layout
from rocketfsck.formats.record import Record
from rocketfsck.writer.commitlog import MappedFileStream
from rocketfsck.writer.indexfile import IndexService, index_record
from rocketfsck.writer.message.compose import multi_dispatch_queue_id, takes_multi_dispatch
from rocketfsck.writer.options import WriteOptions

UNIT_CHUNK_SIZE = 4096
"""Bytes of units that a queue holds back: small, for there may be many queues."""

_EXT_END_SIZE = 4
_COMPACTED_OFFSET = -1
Key = tuple[str, int]


@dataclass(slots=True)
class QueueState:
    """One queue being written: `next_offset` is the queue offset that the next message of it gets."""

    topic: str
    queue_id: int
    is_batch: bool
    stream: MappedFileStream
    dialect: Dialect
    ext: MappedFileStream | None = None
    max_physic_offset: int = -1
    next_offset: int = 0

    @property
    def layout(self) -> Layout:
        """The layout of its units."""
        return consumequeue.BATCH_UNIT if self.is_batch else consumequeue.UNIT

    def unit(self, position: int) -> dict[str, int]:
        """The unit at a position of the stream."""
        return self.layout.parse(self.stream.read_back(position, self.layout.size))


@dataclass(slots=True)
class QueueTable:
    """All queues of the store by (topic, queueId), in the order of their first message."""

    root: Path
    options: WriteOptions
    states: dict[Key, QueueState] = field(default_factory=dict)
    removed: set[Key] = field(default_factory=set)

    def state(self, topic: str, queue_id: int) -> QueueState:
        """The queue, made in memory when it is first asked for; its files come with its first unit."""
        key = topic, queue_id
        found = self.states.get(key)
        if found is None:
            found = self.states[key] = new_queue_state(self.root, self.options, topic, queue_id)
            if key not in self.removed:
                found.next_offset = self.options.queue_start_offsets.get(key, 0)
        return found

    def remove(self, key: Key) -> None:
        """Forget a queue whose files are deleted: its numbering begins again at 0."""
        del self.states[key]
        self.removed.add(key)

    def next_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset that the next message of this queue gets."""
        return self.state(topic, queue_id).next_offset


def new_queue_state(root: Path, options: WriteOptions, topic: str, queue_id: int) -> QueueState:
    """A queue without files."""
    geometry = options.geometry
    is_batch = topic in options.batch_topics
    folder = Path(topic) / str(queue_id)
    tree, size = ("consumequeue", geometry.consumequeue_file_size)
    if is_batch:
        tree, size = ("batchconsumequeue", geometry.batch_file_size)
    stream = MappedFileStream(root / tree / folder, size, UNIT_CHUNK_SIZE)
    ext = None
    if options.consumequeue_ext and not is_batch:
        ext = MappedFileStream(root / "consumequeue_ext" / folder, geometry.ext_file_size, UNIT_CHUNK_SIZE)
    return QueueState(topic, queue_id, is_batch, stream, options.dialect, ext)


def put_unit(queue: QueueState, offset: int, size: int, tags_code: int, queue_offset: int) -> bool:
    """Put the unit of a record; whether it was appended, or skipped as one that was there already."""
    reach = offset + size if queue.dialect.max_physic_offset_is_end else offset
    if reach <= queue.max_physic_offset:
        return False
    stream = queue.stream
    expected = queue_offset * consumequeue.UNIT_SIZE
    if stream.last_start is None:
        stream.begin_file(expected // stream.file_size * stream.file_size)
        _fill_pre_blank(stream, expected)
    elif not stream.remaining:
        stream.next_file()
    if queue_offset and expected < stream.position and queue.dialect.skips_units_below_current:
        return False
    queue.max_physic_offset = reach
    stream.write(consumequeue.UNIT.build({"offset": offset, "size": size, "tagsCode": tags_code}))
    return True


def _fill_pre_blank(stream: MappedFileStream, until: int) -> None:
    many = consumequeue.PRE_BLANK_UNIT * (UNIT_CHUNK_SIZE // consumequeue.UNIT_SIZE)
    while stream.position < until:
        stream.write(many[: min(until - stream.position, len(many))])


def put_ext_unit(queue: QueueState, unit: consumequeue.ExtUnit) -> int | None:
    """Put an ext unit; its address for the tagsCode, None where it does not fit in any file."""
    stream = queue.ext
    assert stream is not None
    if unit.size > stream.file_size - _EXT_END_SIZE:
        return None
    if stream.last_start is None:
        stream.next_file()
    elif unit.size > stream.remaining - _EXT_END_SIZE:
        stream.write(consumequeue.EXT_END_MARK[: stream.remaining])
        stream.next_file()
    address = consumequeue.ext_address(stream.position)
    stream.write(consumequeue.encode_ext_unit(unit))
    return address


def put_batch_unit(queue: QueueState, record: Record, tags_code: int, base: int, count: int) -> bool:
    """Put the unit of a record of a batch topic, of `count` messages from queue offset `base` on; whether it
    was appended."""
    if record.physical_offset <= queue.max_physic_offset:
        return False
    if not queue.stream.remaining:
        queue.stream.next_file()
    queue.max_physic_offset = record.physical_offset
    queue.stream.write(
        consumequeue.BATCH_UNIT.build({
            "offset": record.physical_offset, "size": record.total_size, "tagsCode": tags_code,
            "storeTime": record.store_timestamp, "msgBaseOffset": base, "batchSize": count,
            "compactedOffset": _COMPACTED_OFFSET, "reserved": 0,
        })
    )  # fmt: skip
    return True


def expire_files(queue: QueueState, min_physical_offset: int) -> None:
    """Delete leading files whose last unit lies before the log's beginning; never the last file."""
    stream = queue.stream
    while stream.first_start is not None and stream.first_start != stream.last_start:
        last_unit = queue.unit(stream.first_start + stream.file_size - queue.layout.size)
        if last_unit["offset"] >= min_physical_offset:
            break
        stream.delete_first()
    if queue.ext is not None:
        _expire_ext(queue, min_physical_offset)


def _expire_ext(queue: QueueState, min_physical_offset: int) -> None:
    """Delete ext files before the one that the queue's first unit in the log points into."""
    ext, stream = queue.ext, queue.stream
    if ext is None or stream.first_start is None or stream.last_start is None:
        return
    position = stream.first_start
    while position < min(stream.first_start + stream.file_size, stream.position):
        unit = queue.unit(position)
        if unit["offset"] >= min_physical_offset:
            if consumequeue.is_ext_address(unit["tagsCode"]):
                least = consumequeue.ext_offset(unit["tagsCode"])
                while ext.first_start != ext.last_start and (ext.first_start or 0) + ext.file_size < least:
                    ext.delete_first()
            return
        position += consumequeue.UNIT_SIZE


def is_expired(queue: QueueState, min_physical_offset: int) -> bool:
    """Whether nothing that the queue points at is in the log any more."""
    stream = queue.stream
    if stream.last_start is None:
        return False
    unit = queue.unit(stream.position - queue.layout.size)
    return unit["offset"] + unit["size"] < min_physical_offset


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
    full_index_files: tuple[indexfile.IndexHeader, ...]

    @property
    def full_index_timestamp(self) -> int | None:
        """When the last of these index files ends."""
        return self.full_index_files[-1].end_timestamp if self.full_index_files else None


def dispatch_record(
    record: Record, queues: QueueTable, index: IndexService, filter_bit_map: bytes = b""
) -> DispatchOutcome:
    """Put a record into its consume queue(s) and the index."""
    options = queues.options
    properties = props.parse_properties(record.properties, options.dialect.property_parser) or {}
    topic = record.topic.decode()
    in_queue = magic.is_in_consume_queue(record.sys_flag)
    extra: tuple[ExtraUnit, ...] = ()
    if in_queue:
        code = record_tags_code(record, topic, properties, options)
        _put_own_unit(record, properties, code, queues.state(topic, record.queue_id), filter_bit_map)
        extra = _put_extra_units(record, topic, properties, code, queues)
    full: list[indexfile.IndexHeader] = []
    if options.message_index:
        keys = _keys(properties, options) if magic.is_indexed(record.sys_flag) else []
        full = index_record(index, topic, keys, record.physical_offset, record.store_timestamp)
    return DispatchOutcome(in_queue, extra, tuple(full))


def _keys(properties: dict[str, str], options: WriteOptions) -> list[str]:
    unique_key = properties.get(props.UNIQ_KEY)
    # UNIQ_KEY is put even when it is empty, KEYS' pieces and TAGS are not.
    keys = ([] if unique_key is None else [unique_key]) + props.split_keys(properties.get(props.KEYS, ""))
    tags = properties.get(props.TAGS) if options.dialect.tag_entries else None
    return [*keys, f"{javatext.TAG_KEY_PREFIX}{tags}"] if tags else keys


def record_tags_code(record: Record, topic: str, properties: dict[str, str], options: WriteOptions) -> int:
    """The tagsCode of a record's unit: the hash of its tags, or when it is due."""
    if topic == timer.SCHEDULE_TOPIC and props.DELAY in properties:
        level = javatext.parse_int32(properties[props.DELAY]) or 0
        if level > 0:
            return timer.deliver_timestamp(level, record.store_timestamp, options.delay_levels)
    return props.tags_code(properties.get(props.TAGS))


def _put_own_unit(
    record: Record, properties: dict[str, str], code: int, queue: QueueState, filter_bit_map: bytes
) -> None:
    if queue.is_batch:
        base, count = record.queue_offset, 1
        if props.INNER_NUM in properties and props.INNER_BASE in properties:
            count = javatext.parse_int16(properties[props.INNER_NUM]) or 0
            base = javatext.parse_int64(properties[props.INNER_BASE]) or 0
        put_batch_unit(queue, record, code, base, count)
        return
    if queue.ext is not None:
        address = put_ext_unit(queue, consumequeue.ExtUnit(code, record.store_timestamp, filter_bit_map))
        code = code if address is None else address
    put_unit(queue, record.physical_offset, record.total_size, code, record.queue_offset)


def _put_extra_units(
    record: Record, topic: str, properties: dict[str, str], code: int, queues: QueueTable
) -> tuple[ExtraUnit, ...]:
    names = properties.get(props.INNER_MULTI_DISPATCH)
    offsets = properties.get(props.INNER_MULTI_QUEUE_OFFSET)
    if not takes_multi_dispatch(topic, queues.options) or not names or not offsets:
        return ()
    found = []
    name_list = javatext.split_java(names, props.MULTI_DISPATCH_SEPARATOR)
    offset_list = javatext.split_java(offsets, props.MULTI_DISPATCH_SEPARATOR)
    for name, text in zip(name_list, offset_list, strict=True):
        queue_id = multi_dispatch_queue_id(name, record.queue_id)
        queue_offset = javatext.parse_int64(text) or 0
        queue = queues.state(name, queue_id)
        put_unit(queue, record.physical_offset, record.total_size, code, queue_offset)
        found.append(ExtraUnit(name, queue_id, queue_offset))
    return tuple(found)
