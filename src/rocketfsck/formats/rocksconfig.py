"""Keys and values of the configs that brokers keep in RocksDB. Reference 1.6.4, 11.5.

first form (5.1.4+), a database a table, or one for all (config/metadata, 5.4.0+):
    key := name (of a topic, of a group, or topic "@" group)       value := JSON
    family kvDataVersion, or <table>Version: "kvDataVersionKey"    value := JSON of a data version
second form (5.3.2+), config/rdb:
    key := 0x01 table(i16) 0x01 "data_version"                     value := stateVersion timestamp counter
         | 0x01 table(i16) 0x02 length(i16) name                   value := 0x01 JSON       topic, group
         | 0x01 table(i16) 0x02 length group 0x01 length topic 0x01 queueId     value := offset(i64)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from rocketfsck.errors import FormatError
from rocketfsck.formats.layout import I64, Layout, declare, field

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
