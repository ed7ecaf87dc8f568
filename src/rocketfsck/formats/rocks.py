"""Keys and values of the RocksDB consume queue (5.2.0+). Reference 3.9.

    default CF: key   := topicLen 0x01 topic 0x01 queueId 0x01 cqOffset
                value := phyOffset size tagsCode storeTime
    offset CF:  key   := topicLen 0x01 topic 0x01 ("max" | "min") 0x01 queueId
                value := phyOffset cqOffset
                         | phyOffset                of DISPATCHED_KEY: the end of the last record with units

The database itself is RocksDB's (`rocksfiles`); only what the broker puts into it is here.

Keys and values of the configs that brokers keep in RocksDB. Reference 1.6.4, 11.5.

first form (5.1.4+), a database a table, or one for all (config/metadata, 5.4.0+):
    key := name (of a topic, of a group, or topic "@" group)       value := JSON
    family kvDataVersion, or <table>Version: "kvDataVersionKey"    value := JSON of a data version
second form (5.3.2+), config/rdb:
    key := 0x01 table(i16) 0x01 "data_version"                     value := stateVersion timestamp counter
         | 0x01 table(i16) 0x02 length(i16) name                   value := 0x01 JSON       topic, group
         | 0x01 table(i16) 0x02 length group 0x01 length topic 0x01 queueId     value := offset(i64)

What brokers keep in RocksDB of single messages, besides the consume queues. Reference 11.3, 11.7.

    rocksdbstore/, family default (5.4.0+), an index entry:
        key   := hour "@" topic "@" ("K" | "T") "@" text "@" uniqKey "@" phyOffset     a key, or the tags
               | hour "@" topic "@" "U" "@" uniqKey "@" phyOffset                      the unique key itself
        value := storeTime
    family timer: key := deliverTime uniqKey                value := size phyOffset
    family trans: key := phyOffset "@" topic "@" uniqKey    value := checkCount size
    both others:  key := a MARK                             value := i64
    kvStore/, family popState (5.3.2+), a message in flight:
        key   := visibleTime group "@" topic "@" queueId "@" queueOffset
        value := JSON

Numbers are big-endian; texts are UTF-8 and may hold "@" themselves, so that not every key can be split.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from rocketfsck.common.wording import count_of
from rocketfsck.errors import FormatError
from rocketfsck.formats.layout import I32, I64, Layout, declare, field

ROCKS_DATA_VERSION: Layout = declare(
    "rocksdb_data_version",
    "RocksDB data version",
    "1.6.4",
    field("stateVersion", I64, "", "the store's state machine version"),
    field("timestamp", I64, "ms", "of the last change"),
    field("counter", I64, "changes", "number of changes"),
)

VERSION_KEY = b"kvDataVersionKey"
VERSION_FAMILIES = frozenset(
    {"kvDataVersion", "topicVersion", "subscriptionGroupVersion", "consumerOffsetVersion"}
)
JSON_TYPE = 1
"""The serialization type of the second form's values that a broker reads."""


class Table(IntEnum):
    """The tables of the second form."""

    CONSUMER_OFFSET = 1
    PULL_OFFSET = 2
    TOPIC = 3
    SUBSCRIPTION_GROUP = 4


OFFSET_TABLES = frozenset({Table.CONSUMER_OFFSET, Table.PULL_OFFSET})

_TABLE_PREFIX, _VERSION_PREFIX, _DATA_PREFIX = 1, 1, 2
_HEAD = struct.Struct(">bhb")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_SEPARATOR = b"\x01"
_VERSION_NAME = b"data_version"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A key of the second form. `name` is the topic's or group's; None for the table's data version."""

    table: Table
    name: bytes | None


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """A key of the second form's two tables of offsets."""

    table: Table
    group: bytes
    topic: bytes
    queue_id: int


def encode_config_key(key: ConfigKey | OffsetKey) -> bytes:
    """The bytes of a key of the second form."""
    if isinstance(key, OffsetKey):
        head = _HEAD.pack(_TABLE_PREFIX, key.table, _DATA_PREFIX)
        names = (_I16.pack(len(name)) + name + _SEPARATOR for name in (key.group, key.topic))
        return head + b"".join(names) + _I32.pack(key.queue_id)
    if key.name is None:
        return _HEAD.pack(_TABLE_PREFIX, key.table, _VERSION_PREFIX) + _VERSION_NAME
    return _HEAD.pack(_TABLE_PREFIX, key.table, _DATA_PREFIX) + _I16.pack(len(key.name)) + key.name


def decode_config_key(key: bytes) -> ConfigKey | OffsetKey:
    """A key of the second form; FormatError if the bytes are not one."""
    if len(key) < _HEAD.size:
        raise FormatError(f"table: {_HEAD.size} bytes in a key of {len(key)}", offset=0)
    prefix, number, record = _HEAD.unpack_from(key)
    if prefix != _TABLE_PREFIX or number not in set(Table):
        raise FormatError(f"table: {prefix}, {number} is not a known table", offset=0)
    table, rest = Table(number), key[_HEAD.size :]
    if record == _VERSION_PREFIX and rest == _VERSION_NAME:
        return ConfigKey(table, None)
    if record != _DATA_PREFIX:
        raise FormatError(f"record prefix: {record}", offset=3)
    if table not in OFFSET_TABLES:
        name, end = _name(key, _HEAD.size)
        if end != len(key):
            raise FormatError(f"length: {len(name)} in a key of {len(key)} bytes", offset=_HEAD.size)
        return ConfigKey(table, name)
    group, pos = _separated_name(key, _HEAD.size)
    topic, pos = _separated_name(key, pos)
    if len(key) != pos + _I32.size:
        raise FormatError("queueId: needs 4 bytes at the end of the key", offset=pos)
    return OffsetKey(table, group, topic, _I32.unpack_from(key, pos)[0])


def _name(key: bytes, pos: int) -> tuple[bytes, int]:
    """A name after its length, and the position after the name."""
    if len(key) < pos + _I16.size:
        raise FormatError("length: needs 2 bytes", offset=pos)
    (size,) = _I16.unpack_from(key, pos)
    end = pos + _I16.size + size
    if size < 0 or end > len(key):
        raise FormatError(f"length: {size} in a key of {len(key)} bytes", offset=pos)
    return key[pos + _I16.size : end], end


def _separated_name(key: bytes, pos: int) -> tuple[bytes, int]:
    name, end = _name(key, pos)
    if key[end : end + 1] != _SEPARATOR:
        raise FormatError("separator: missing after a name", offset=end)
    return name, end + 1


def json_of(value: bytes) -> bytes:
    """The JSON in a value of the second form's topics and groups; FormatError for other serializations."""
    if not value or value[0] != JSON_TYPE:
        raise FormatError(f"serialization type: {value[:1]!r}; brokers read 1 (JSON)", offset=0)
    return value[1:]


ROCKS_TIMER: Layout = declare(
    "rocksdb_timer_value",
    "RocksDB timer value",
    "11.3",
    field("size", I32, "bytes", "the record's totalSize"),
    field("phyOffset", I64, "bytes", "commitlog offset of the record"),
)
ROCKS_TRANS: Layout = declare(
    "rocksdb_trans_value",
    "RocksDB transaction value",
    "11.3",
    field("checkCount", I32, "", "how often the producer was asked"),
    field("size", I32, "bytes", "the record's totalSize"),
)

MARKS: dict[str, tuple[bytes, ...]] = {
    "default": (b"lastOffsetPy", b"lastStoreTimeStamp"),
    "timer": (b"sys_topic_scan_offset_checkpoint", b"timeline_checkpoint"),
    "trans": (b"lastOffsetPy",),
}
"""By family of `rocksdbstore/`: the keys that are not of a message; each has an i64."""

HOUR_MS = 3_600_000
AT = b"@"
TYPE_KEY, TYPE_TAG, TYPE_UNIQUE = b"K", b"T", b"U"

_I64 = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class IndexKey:
    """The key of an index entry. `hour` is the storeTime (ms) with its minutes cut off; `text` is a key
    (type K), the tags (T), or empty (U)."""

    hour: int
    topic: bytes
    type: bytes
    text: bytes
    unique_key: bytes
    physical_offset: int


@dataclass(frozen=True, slots=True)
class TimerKey:
    """The key of a message that waits: when it is due (ms), and its unique key."""

    deliver_time: int
    unique_key: bytes


@dataclass(frozen=True, slots=True)
class TransKey:
    """The key of a prepared message that was neither committed nor rolled back."""

    physical_offset: int
    topic: bytes
    unique_key: bytes


@dataclass(frozen=True, slots=True)
class PopKey:
    """The key of a message that a POP consumer has: when it becomes visible again (ms), whose, and which."""

    visible_time: int
    group: bytes
    topic: bytes
    queue_id: int
    queue_offset: int


def encode_index_key(key: IndexKey) -> bytes:
    """The bytes of an index entry's key."""
    return _I64.pack(key.hour) + index_middle(key) + _I64.pack(key.physical_offset)


def index_middle(key: IndexKey) -> bytes:
    """The text between the two numbers of an index entry's key, which queries look for."""
    parts = [b"", key.topic, key.type, key.text, key.unique_key, b""]
    if key.type == TYPE_UNIQUE:
        del parts[3]
    return AT.join(parts)


def decode_index_key(key: bytes) -> IndexKey:
    """The parts of an index entry's key; FormatError if it has none.

    Topics and unique keys have no "@", so that what is left between them is the text, whatever it holds.
    """
    if len(key) < 20 or key[8:9] != AT or key[-9:-8] != AT:
        raise FormatError("key: not that of an index entry", offset=0)
    topic, _, rest = key[9:-9].partition(AT)
    kind, _, rest = rest.partition(AT)
    if kind == TYPE_UNIQUE:
        text, unique_key = b"", rest
    elif kind in (TYPE_KEY, TYPE_TAG) and AT in rest:
        text, _, unique_key = rest.rpartition(AT)
    else:
        raise FormatError(f"type: {kind[:20]!r}, then {count_of(len(rest), 'byte')}", offset=10 + len(topic))
    return IndexKey(_I64.unpack_from(key)[0], topic, kind, text, unique_key, _I64.unpack(key[-8:])[0])


def encode_timer_key(key: TimerKey) -> bytes:
    """The bytes of a waiting message's key."""
    return _I64.pack(key.deliver_time) + key.unique_key


def decode_timer_key(key: bytes) -> TimerKey:
    """The parts of a waiting message's key; FormatError if it has none."""
    if len(key) < 8:
        raise FormatError(f"deliverTime: 8 bytes in a key of {len(key)}", offset=0)
    return TimerKey(_I64.unpack_from(key)[0], key[8:])


def encode_trans_key(key: TransKey) -> bytes:
    """The bytes of a prepared message's key."""
    return _I64.pack(key.physical_offset) + AT + key.topic + AT + key.unique_key


def decode_trans_key(key: bytes) -> TransKey:
    """The parts of a prepared message's key; FormatError where a broker takes it for none."""
    parts = key[8:].split(AT)
    if len(key) < 9 or len(parts) != 3 or parts[0]:
        raise FormatError("key: not that of a prepared message", offset=min(len(key), 8))
    return TransKey(_I64.unpack_from(key)[0], parts[1], parts[2])


def encode_pop_key(key: PopKey) -> bytes:
    """The bytes of the key of a message in flight."""
    names, place = (key.group, key.topic, _I32.pack(key.queue_id)), _I64.pack(key.queue_offset)
    return _I64.pack(key.visible_time) + AT.join((*names, place))


def decode_pop_key(key: bytes) -> PopKey:
    """The parts of the key of a message in flight; FormatError if it has none."""
    if len(key) < 23 or key[-9:-8] != AT or key[-14:-13] != AT:
        raise FormatError("key: not that of a message in flight", offset=0)
    group, separator, topic = key[8:-14].partition(AT)
    if not separator:
        raise FormatError("separator: missing after the group", offset=8)
    return PopKey(
        _I64.unpack_from(key)[0], group, topic, _I32.unpack(key[-13:-9])[0], _I64.unpack(key[-8:])[0]
    )


def decode_i64(value: bytes, name: str) -> int:
    """A value of one i64, `name` for the error; FormatError for any other length."""
    if len(value) != 8:
        raise FormatError(f"{name}: {len(value)} bytes, but an i64 has 8", offset=0)
    number: int = _I64.unpack(value)[0]
    return number


def encode_i64(value: int) -> bytes:
    """A value of one i64."""
    return _I64.pack(value)


ROCKS_UNIT: Layout = declare(
    "rocksdb_consumequeue_unit",
    "RocksDB consume queue value",
    "3.9",
    field("phyOffset", I64, "bytes", "commitlog offset of the record"),
    field("size", I32, "bytes", "the record's totalSize"),
    field("tagsCode", I64, "", "as in the consume queue unit"),
    field("storeTime", I64, "ms", "the record's storeTimestamp"),
)
ROCKS_OFFSET: Layout = declare(
    "rocksdb_consumequeue_offset",
    "RocksDB consume queue bound",
    "3.9",
    field("phyOffset", I64, "bytes", "commitlog offset of the record at the bound"),
    field("cqOffset", I64, "messages", "queue offset of the bound"),
)

_BOUNDS = (b"max", b"min")


@dataclass(frozen=True, slots=True)
class UnitKey:
    """The key of a unit."""

    topic: bytes
    queue_id: int
    cq_offset: int


@dataclass(frozen=True, slots=True)
class BoundKey:
    """The key of a queue's greatest (`is_max`) or least queue offset."""

    topic: bytes
    queue_id: int
    is_max: bool


DISPATCHED_TOPIC = b"CHECKPOINT_TOPIC"
"""Of the bound of this topic the value has 8 bytes: the physical offset up to which records have units."""


def _topic_prefix(topic: bytes) -> bytes:
    return _I32.pack(len(topic)) + _SEPARATOR + topic + _SEPARATOR


def _split_topic(key: bytes, rest_size: int) -> tuple[bytes, bytes]:
    """The topic, and the `rest_size` bytes after it and its separator."""
    if len(key) < 5 or key[4:5] != _SEPARATOR:
        raise FormatError("topicLen: no length and separator", offset=0)
    (topic_size,) = _I32.unpack_from(key)
    end = 5 + topic_size
    if topic_size < 0 or len(key) != end + 1 + rest_size:
        raise FormatError(f"topicLen: {topic_size} in a key of {len(key)} bytes", offset=0)
    if key[end : end + 1] != _SEPARATOR:
        raise FormatError("separator: missing after the topic", offset=end)
    return key[5:end], key[end + 1 :]


def decode_unit_key(key: bytes) -> UnitKey:
    """A key of the default column family; FormatError if the bytes are not one."""
    topic, rest = _split_topic(key, 13)
    if rest[4:5] != _SEPARATOR:
        raise FormatError("separator: missing after queueId", offset=len(key) - 9)
    return UnitKey(topic, _I32.unpack_from(rest)[0], _I64.unpack_from(rest, 5)[0])


def encode_unit_key(key: UnitKey) -> bytes:
    """The bytes of a key of the default column family."""
    return queue_prefix(key.topic, key.queue_id) + _I64.pack(key.cq_offset)


def queue_prefix(topic: bytes, queue_id: int) -> bytes:
    """What the keys of a queue's units begin with; those of no other queue do."""
    return _topic_prefix(topic) + _I32.pack(queue_id) + _SEPARATOR


def decode_bound_key(key: bytes) -> BoundKey:
    """A key of the `offset` column family; FormatError if the bytes are not one."""
    topic, rest = _split_topic(key, 8)
    if rest[:3] not in _BOUNDS:
        raise FormatError(f"bound: {rest[:3]!r} is neither max nor min", offset=len(key) - 8)
    if rest[3:4] != _SEPARATOR:
        raise FormatError("separator: missing after the bound", offset=len(key) - 5)
    return BoundKey(topic, _I32.unpack_from(rest, 4)[0], rest[:3] == _BOUNDS[0])


def encode_bound_key(key: BoundKey) -> bytes:
    """The bytes of a key of the `offset` column family."""
    return _topic_prefix(key.topic) + _BOUNDS[not key.is_max] + _SEPARATOR + _I32.pack(key.queue_id)


DISPATCHED_KEY = encode_bound_key(BoundKey(DISPATCHED_TOPIC, 0, True))
