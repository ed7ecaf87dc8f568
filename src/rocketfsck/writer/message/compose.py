"""From a message to the record it becomes, before the log gives it its place. Reference 2.2, 2.9 to 2.13.

What a broker does to a message on its way to the append lock: a delayed one goes to SCHEDULE_TOPIC_XXXX, a
half one to the half topic, a batch is taken apart, the topic's length chooses V1 or V2. Everything that a
broker would refuse is refused here, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rocketfsck.formats import columns, javatext, magic, record, timer
from rocketfsck.formats import properties as props
from rocketfsck.formats.dialect import Dialect
from rocketfsck.writer.message import messages
from rocketfsck.writer.message.messages import Kind, MessageError
from rocketfsck.writer.options import WriteOptions

MAX_NAME_SIZE = 255
"""Bytes of a topic that can be a directory's name."""

NOT_MULTI_DISPATCHED = (messages.RETRY_PREFIX, "rmq_sys_", timer.SCHEDULE_TOPIC)
"""Topics that begin so are not dispatched to the queues that their messages list."""

_TRANSACTION_BITS = {
    Kind.PREPARED: magic.TRANSACTION_PREPARED,
    Kind.COMMIT: magic.TRANSACTION_COMMIT,
    Kind.ROLLBACK: magic.TRANSACTION_ROLLBACK,
}


def _range(column: columns.MessageColumn) -> tuple[str, int, int]:
    if column.kind == "i4":
        return column.name, javatext.INT32_MIN, javatext.INT32_MAX
    return column.name, 0, javatext.INT64_MAX


_RANGES = (
    ("queue_id", 0, javatext.INT32_MAX),
    ("sys_flag", 0, magic.KNOWN_SYS_FLAGS),
    ("store_timestamp", javatext.INT64_MIN, javatext.INT64_MAX),
    ("delay_level", 0, javatext.INT32_MAX),
    *map(_range, columns.GIVEN),
)


@dataclass(frozen=True, slots=True)
class Draft:
    """One record but for what the append lock adds: offsets, INNER_BASE, multi-dispatch offsets, CRC.

    `message_count` is what the queue's counter advances by (0 for prepared and rollback). `message` gives
    hosts and timestamps. `with_crc` says that the record ends with a CRC of its own bytes: where the broker
    is set to append it, and where the message had one, which belonged to a record at another place.
    """

    message: messages.OutgoingMessage
    topic: str
    topic_bytes: bytes
    queue_id: int
    magic_code: int
    sys_flag: int
    flag: int
    body: bytes
    properties: messages.Properties
    message_count: int = 1
    with_crc: bool = False

    @property
    def born_timestamp(self) -> int:
        """When the producer made it: as given, else when it was stored."""
        given = self.message.born_timestamp
        return self.message.store_timestamp if given is None else given


def compose(message: messages.OutgoingMessage, options: WriteOptions) -> tuple[Draft, ...]:
    """The records that this message becomes: one, or one an item of a legacy batch.

    MessageError for anything that a broker of this version with these settings refuses.
    """
    dialect = options.dialect
    _check_numbers(message)
    _check_hosts(message, dialect)
    draft = _plain_draft(message, options)
    if message.kind is Kind.LEGACY_BATCH:
        return tuple(_unpacked(draft, dialect, options))
    if message.kind is Kind.INNER_BATCH:
        return (_inner_batch(draft, options),)
    if message.items:
        raise MessageError(f"items in a {message.kind.value} message")
    if message.kind is Kind.HALF:
        return (_half(draft, options),)
    return (draft if message.kind is Kind.DELIVERED else _delayed(draft, options),)


def _check_numbers(message: messages.OutgoingMessage) -> None:
    for name, least, most in _RANGES:
        value = getattr(message, name)
        if type(value) is not int or not least <= value <= most:
            raise MessageError(f"{name} is {value!r}: needs {least} to {most}")
    born = message.born_timestamp
    if born is not None and not javatext.INT64_MIN <= born <= javatext.INT64_MAX:
        raise MessageError(f"born_timestamp is {born!r}: needs {javatext.INT64_MIN} to {javatext.INT64_MAX}")


def _check_hosts(message: messages.OutgoingMessage, dialect: Dialect) -> None:
    for name, host in (("born_host", message.born_host), ("store_host", message.store_host)):
        if len(host.address) not in (4, 16) or not 0 <= host.port <= 65535:
            raise MessageError(f"{name} is {host!r}: no address of 4 or 16 bytes with a port")
        if len(host.address) == 16 and not dialect.ipv6_hosts:
            raise MessageError(f"{name} is IPv6, which {dialect.version} does not store")


def _sys_flag(message: messages.OutgoingMessage) -> int:
    sys_flag = message.sys_flag
    if sys_flag & (magic.NEED_UNWRAP | magic.INNER_BATCH) and message.kind is not Kind.INNER_BATCH:
        raise MessageError(
            f"sys_flag {sys_flag:#x} has the inner batch bit, but the kind is {message.kind.value}"
        )
    if sys_flag & magic.COMPRESSION_TYPE_MASK and not sys_flag & magic.COMPRESSED:
        raise MessageError(f"sys_flag {sys_flag:#x} has a compression type without the compressed bit")
    if sys_flag & magic.COMPRESSION_TYPE_MASK > 0x300:
        raise MessageError(f"sys_flag {sys_flag:#x} has an undefined compression type")
    # Brokers before 4.9.4 do not know compression types but store what the producer says.
    given = sys_flag & magic.TRANSACTION_MASK
    otherwise = given if message.kind is Kind.NORMAL else magic.TRANSACTION_NOT
    bits = _TRANSACTION_BITS.get(message.kind, otherwise)
    if given not in (magic.TRANSACTION_NOT, bits):
        raise MessageError(f"sys_flag {sys_flag:#x} does not fit a {message.kind.value} message")
    return sys_flag & ~magic.TRANSACTION_MASK | bits


def _check_name(name: str, what: str) -> bytes:
    encoded = javatext.java_encode(name)
    if not encoded or name in (".", "..") or "/" in name or "\0" in name:
        raise MessageError(f"{what} {name!r} cannot be a directory's name")
    if len(encoded) > MAX_NAME_SIZE:
        raise MessageError(f"{what} of {len(encoded)} bytes: the limit is {MAX_NAME_SIZE}")
    return encoded


def _topic(topic: str, message: messages.OutgoingMessage, dialect: Dialect) -> tuple[bytes, int]:
    encoded = _check_name(topic, "topic")
    if encoded.decode() != topic:
        raise MessageError(f"topic {topic!r} is not text that UTF-8 can hold")
    if javatext.utf16_length(topic) <= magic.MAX_TOPIC_SIZE_V1:
        if len(encoded) > magic.MAX_TOPIC_SIZE_V1:
            raise MessageError(f"topic of {len(encoded)} bytes: the broker would write a negative length")
        return encoded, magic.MAGIC_V1
    may_be_long = dialect.v2_allowed and topic.startswith(messages.RETRY_PREFIX)
    if not may_be_long or message.kind is Kind.LEGACY_BATCH:
        raise MessageError(
            f"topic of {javatext.utf16_length(topic)} characters: the limit is {magic.MAX_TOPIC_SIZE_V1}"
        )
    assert len(encoded) <= magic.MAX_TOPIC_SIZE_V2
    return encoded, magic.MAGIC_V2


def _plain_draft(message: messages.OutgoingMessage, options: WriteOptions) -> Draft:
    dialect = options.dialect
    sys_flag = _sys_flag(message)
    topic_bytes, magic_code = _topic(message.topic, message, dialect)
    added: dict[str, str] = {}
    if message.delay_level:
        added[props.DELAY] = str(message.delay_level)
    if message.multi_dispatch:
        added[props.INNER_MULTI_DISPATCH] = props.MULTI_DISPATCH_SEPARATOR.join(message.multi_dispatch)
    properties = messages.with_properties(message.properties, added, dialect)
    bare = messages.without_crc(properties, dialect)
    transaction = sys_flag & magic.TRANSACTION_MASK
    draft = Draft(
        message=message,
        topic=message.topic,
        topic_bytes=topic_bytes,
        queue_id=message.queue_id,
        magic_code=magic_code,
        sys_flag=sys_flag,
        flag=message.flag,
        body=message.body,
        properties=bare,
        with_crc=options.append_property_crc or bare != properties,
        message_count=int(transaction in (magic.TRANSACTION_NOT, magic.TRANSACTION_COMMIT)),
    )
    if message.multi_dispatch and not takes_multi_dispatch(message.topic, options):
        raise MessageError("multi_dispatch, which the settings of this store or topic exclude")
    _check_inner_properties(draft, options)
    _check_multi_dispatch(draft, options)
    return draft


def takes_multi_dispatch(topic: str, options: WriteOptions) -> bool:
    """Whether messages of this topic are dispatched to the queues that they list."""
    return options.multi_dispatch and not topic.startswith(NOT_MULTI_DISPATCHED)


def multi_dispatch_names(draft: Draft, options: WriteOptions) -> list[str]:
    """The queues that a draft is dispatched to apart from its own."""
    if not takes_multi_dispatch(draft.topic, options):
        return []
    listed = messages.as_map(draft.properties, options.dialect).get(props.INNER_MULTI_DISPATCH)
    return javatext.split_java(listed, props.MULTI_DISPATCH_SEPARATOR) if listed and listed.strip() else []


def multi_dispatch_queue_id(name: str, queue_id: int) -> int:
    """The queueId of a queue in a multi-dispatch list: 0 for a light one, else the message's own."""
    return 0 if name.startswith(messages.LMQ_PREFIX) else queue_id


def _check_multi_dispatch(draft: Draft, options: WriteOptions) -> None:
    names = multi_dispatch_names(draft, options)
    if not names:
        return
    is_normal = draft.message.kind is Kind.NORMAL and draft.message_count
    if not is_normal or draft.topic in options.batch_topics:
        raise MessageError("only normal messages of ordinary topics are dispatched to several queues")
    for name in names:
        _check_name(name, "queue")
        if not name.startswith(messages.LMQ_PREFIX) and options.dialect.light_queues_only:
            raise MessageError(
                f"queue {name!r}: {options.dialect.version} dispatches to {messages.LMQ_PREFIX}* only"
            )
        if name in options.batch_topics:
            raise MessageError(f"queue {name!r} belongs to a batch topic")
        if (name, multi_dispatch_queue_id(name, draft.queue_id)) == (draft.topic, draft.queue_id):
            raise MessageError(f"queue {name!r} is the message's own")
    if len(set(names)) != len(names):
        raise MessageError("the multi-dispatch list names a queue twice")


def _check_inner_properties(draft: Draft, options: WriteOptions) -> None:
    """INNER_NUM and INNER_BASE make a record an inner batch to the dispatcher, whatever its sysFlag says."""
    if options.dialect.batch_queues and draft.message.kind is not Kind.INNER_BATCH:
        properties = messages.as_map(draft.properties, options.dialect)
        if props.INNER_NUM in properties and props.INNER_BASE in properties:
            raise MessageError("INNER_NUM and INNER_BASE outside an inner batch")


def _half(draft: Draft, options: WriteOptions) -> Draft:
    dialect = options.dialect
    if not dialect.half_topic:
        raise MessageError(f"{dialect.version} has no half topic: its prepared records are in the real topic")
    if props.INNER_MULTI_DISPATCH in messages.as_map(draft.properties, dialect) and options.multi_dispatch:
        raise MessageError("a half message cannot be dispatched to several queues")
    properties = messages.as_map(draft.properties, dialect)
    if props.DELAY in properties:
        raise MessageError("a half message cannot be delayed")
    added = {props.REAL_TOPIC: draft.topic, props.REAL_QID: str(draft.queue_id)}
    if props.TRAN_MSG not in properties:
        added[props.TRAN_MSG] = "true"
    unique_key = properties.get(props.UNIQ_KEY)
    if unique_key and dialect.half_has_transaction_id:
        added[props.TRANSACTION_ID] = unique_key
    return _moved(draft, props.HALF_TOPIC, 0, added, dialect)


def _moved(draft: Draft, topic: str, queue_id: int, added: dict[str, str], dialect: Dialect) -> Draft:
    properties = messages.with_properties(draft.properties, added, dialect)
    moved = replace(draft, topic=topic, topic_bytes=topic.encode(), queue_id=queue_id)
    return replace(moved, magic_code=magic.MAGIC_V1, properties=properties)


def _delayed(draft: Draft, options: WriteOptions) -> Draft:
    """A message with DELAY goes to the schedule topic if it is neither prepared nor rolled back."""
    text = messages.as_map(draft.properties, options.dialect).get(props.DELAY)
    if text is None or not draft.message_count:
        return draft
    level = javatext.parse_int32(text)
    if level is None:
        raise MessageError(f"DELAY is {text!r}, not a number")
    if level <= 0 or draft.topic == timer.SCHEDULE_TOPIC:
        return draft
    if multi_dispatch_names(draft, options):
        raise MessageError("a delayed message cannot be dispatched to several queues")
    level = min(level, max(options.delay_levels, default=0))
    if level <= 0:
        raise MessageError("a delayed message, but there are no delay levels")
    added = {props.DELAY: str(level), props.REAL_TOPIC: draft.topic, props.REAL_QID: str(draft.queue_id)}
    return _moved(draft, timer.SCHEDULE_TOPIC, timer.delay_queue_id(level), added, options.dialect)


def _check_batch(draft: Draft) -> tuple[record.InnerItem, ...]:
    message = draft.message
    if message.body:
        raise MessageError("a batch has items, not a body")
    if not message.items:
        raise MessageError("a batch without items")
    if message.delay_level:
        raise MessageError("a batch cannot be delayed")
    return message.items


def _unpacked(draft: Draft, dialect: Dialect, options: WriteOptions) -> Iterable[Draft]:
    if not dialect.legacy_batch:
        raise MessageError(f"{dialect.version} has no batches")
    if draft.topic in options.batch_topics:
        raise MessageError(f"a legacy batch in the batch topic {draft.topic}")
    shared = _shared_properties(draft, options)
    separator = props.PROPERTY_SEPARATOR.encode()
    for item in _check_batch(draft):
        own = item.properties
        joins = dialect.batch_joins_properties and shared and own and own[-1:] != separator
        whole = own + (separator if joins else b"") + shared
        properties = messages.property_bytes(whole, dialect)
        yield replace(draft, flag=item.flag, body=item.body, properties=properties)


def _shared_properties(draft: Draft, options: WriteOptions) -> bytes:
    """The batch's own properties, where each of its records gets them (2.12).

    A broker adds the map that it reads out of the request, so raw bytes do not keep their form here.
    """
    dialect = options.dialect
    if not dialect.batch_shares_properties:
        return b""
    own = draft.properties
    read = messages.as_map(own, dialect) if isinstance(own, bytes) else own
    return messages.property_bytes(read, dialect, options.property_map_capacity)


def _inner_batch(draft: Draft, options: WriteOptions) -> Draft:
    items = _check_batch(draft)
    if draft.topic not in options.batch_topics:
        raise MessageError(f"an inner batch, but {draft.topic} is not among the batch topics")
    if len(items) > javatext.INT16_MAX:
        raise MessageError(f"an inner batch of {len(items):,} messages: the limit is {javatext.INT16_MAX:,}")
    added = {props.INNER_NUM: str(len(items))}
    properties = messages.with_properties(draft.properties, added, options.dialect)
    sys_flag = draft.sys_flag | magic.NEED_UNWRAP | magic.INNER_BATCH
    made = replace(draft, sys_flag=sys_flag, message_count=len(items))
    return replace(made, body=record.encode_items(items), properties=properties)
