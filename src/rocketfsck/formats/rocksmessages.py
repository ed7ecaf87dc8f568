"""What brokers keep in RocksDB of single messages, besides the consume queues. Reference 11.3, 11.7.

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

from rocketfsck.common.wording import count_of
from rocketfsck.errors import FormatError
from rocketfsck.formats.layout import I32, I64, Layout, declare, field

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

_I32 = struct.Struct(">i")
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
    return b"".join(
        (
            _I64.pack(key.visible_time),
            key.group + AT + key.topic + AT,
            _I32.pack(key.queue_id) + AT,
            _I64.pack(key.queue_offset),
        )
    )


def decode_pop_key(key: bytes) -> PopKey:
    """The parts of the key of a message in flight; FormatError if it has none."""
    if len(key) < 23 or key[-9:-8] != AT or key[-14:-13] != AT:
        raise FormatError("key: not that of a message in flight", offset=0)
    group, separator, topic = key[8:-14].partition(AT)
    if not separator:
        raise FormatError("separator: missing after the group", offset=8)
    return PopKey(
        _I64.unpack_from(key)[0],
        group,
        topic,
        _I32.unpack(key[-13:-9])[0],
        _I64.unpack(key[-8:])[0],
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
