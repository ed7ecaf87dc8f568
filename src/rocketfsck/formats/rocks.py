"""Keys and values of the RocksDB consume queue (5.2.0+). Reference 3.9.

    default CF: key   := topicLen 0x01 topic 0x01 queueId 0x01 cqOffset
                value := phyOffset size tagsCode storeTime
    offset CF:  key   := topicLen 0x01 topic 0x01 ("max" | "min") 0x01 queueId
                value := phyOffset cqOffset
                         | phyOffset                of DISPATCHED_KEY: the end of the last record with units

The database itself is RocksDB's (`rocksfiles`); only what the broker puts into it is here. The broker's other
databases: `rocksmessages`, `rocksconfig`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from rocketfsck.errors import FormatError
from rocketfsck.formats.layout import I32, I64, Layout, declare, field

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

_SEPARATOR = b"\x01"
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
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
    return _topic_prefix(key.topic) + _I32.pack(key.queue_id) + _SEPARATOR + _I64.pack(key.cq_offset)


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
