"""Units of the consume queues. Reference 3.1 to 3.8, 1.9.

    file       := unit*                     named by the stream's byte offset of its first byte
    unit       := offset size tagsCode                          20 bytes, queue offset = byte / 20
    batch unit := offset size tagsCode storeTime msgBaseOffset batchSize compactedOffset reserved
    ext file   := ext unit* [0xFFFF]
    ext unit   := size tagsCode msgStoreTime bitMapSize filterBitMap         20 + bitMapSize bytes

A tagsCode of -2147483649 or less is the address of an ext unit. `batchconsumequeue` and the compaction queues
(SparseConsumeQueue) use the batch unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from construct import this

from rocketfsck.errors import FormatError
from rocketfsck.formats.javatext import INT32_MAX, INT32_MIN, INT64_MIN
from rocketfsck.formats.layout import (
    I16,
    I32,
    I64,
    Buffer,
    Bytes,
    Layout,
    checked,
    declare,
    field,
    fields_of,
    members_of,
    values_of,
)

UNIT: Layout = declare(
    "consumequeue_unit",
    "Consume queue unit",
    "3.1",
    field("offset", I64, "bytes", "commitlog offset of the record"),
    field("size", I32, "bytes", "the record's totalSize"),
    field("tagsCode", I64, "", "hash of TAGS, or delivery time in ms, or ext address"),
)
UNIT_SIZE = UNIT.size

PRE_BLANK_SIZE = INT32_MAX
PRE_BLANK_UNIT: bytes = UNIT.build(UNIT.zeros() | {"size": PRE_BLANK_SIZE})
"""Fills the first file of a queue that began at a queue offset above 0 (reference 3.3)."""

BATCH_UNIT: Layout = declare(
    "batch_consumequeue_unit",
    "Batch consume queue unit, also of the compaction queues",
    "3.7",
    field("offset", I64, "bytes", "commitlog (or compaction log) offset of the record"),
    field("size", I32, "bytes", "the record's totalSize"),
    field("tagsCode", I64, "", "as in the consume queue unit"),
    field("storeTime", I64, "ms", "the record's storeTimestamp"),
    field("msgBaseOffset", I64, "messages", "queue offset of the first inner message"),
    field("batchSize", I16, "messages", "inner messages; 1 for a plain message"),
    field("compactedOffset", I32, "", "-1"),
    field("reserved", I32, "", "0"),
)
BATCH_UNIT_SIZE = BATCH_UNIT.size

SPARSE_END_UNIT: bytes = BATCH_UNIT.build(BATCH_UNIT.zeros() | {"offset": -1, "compactedOffset": -1})
"""Ends a file of a compaction queue (reference 1.9)."""

EXT_END_MARK = b"\xff\xff"
_EXT_END_SIZE = -1
MAX_EXT_ADDRESS = INT32_MIN - 1
"""A tagsCode of this or less is the address of an extension unit."""

_EXT_SIZE = checked(I16, lambda size, _: size >= EXT_UNIT_MIN_SIZE)
_BIT_MAP_SIZE = checked(I16, lambda size, fields: size == fields.size - EXT_UNIT_MIN_SIZE)


@dataclass(frozen=True, slots=True)
class ExtUnit:
    """What `consumequeue_ext` keeps of one record; the unit's size follows from the bitmap."""

    tags_code: Annotated[int, field("tagsCode", I64, "", "hash of TAGS")]
    msg_store_time: Annotated[int, field("msgStoreTime", I64, "ms", "the record's storeTimestamp")]
    filter_bit_map: Annotated[
        bytes,
        field("bitMapSize", _BIT_MAP_SIZE, "bytes", "size of the bitmap"),
        field("filterBitMap", Bytes(this.bitMapSize), "", "bloom filter bits of the SQL92 subscriptions"),
    ]

    @property
    def size(self) -> int:
        return EXT_UNIT_MIN_SIZE + len(self.filter_bit_map)


EXT_UNIT: Layout = declare(
    "consumequeue_ext_unit",
    "Consume queue extension unit",
    "3.6",
    field("size", _EXT_SIZE, "bytes", "20 + bitMapSize"),
    *fields_of(ExtUnit),
)
EXT_UNIT_MIN_SIZE: int = EXT_UNIT.least_size


def is_ext_address(tags_code: int) -> bool:
    """Whether a unit's tagsCode is the address of an ext unit: no sign-extended hash is that low."""
    return tags_code <= MAX_EXT_ADDRESS


def ext_offset(tags_code: int) -> int:
    """Byte offset, in the queue's ext stream, of the unit that this tagsCode is the address of."""
    return tags_code - INT64_MIN


def ext_address(offset: int) -> int:
    """The tagsCode that points at the ext unit at this byte offset."""
    return offset + INT64_MIN


def decode_ext_unit(data: Buffer, pos: int = 0) -> ExtUnit | None:
    """The ext unit at `pos`, None for the end-of-file mark.

    FormatError if the bytes end too early, the size is below 20 or is not 20 + bitMapSize.
    """
    if pos >= 0 and data[pos : pos + 2] == EXT_END_MARK:
        return None
    # No unit is longer than an i16 can say, so a huge buffer after it need not be copied.
    values = EXT_UNIT.parse(data, pos, pos + 32768)
    return ExtUnit(*(values[name] for name in members_of(ExtUnit)))


def encode_ext_unit(unit: ExtUnit) -> bytes:
    """The bytes of an ext unit; FormatError if the bitmap is longer than 32747 bytes."""
    return EXT_UNIT.build({**values_of(unit), "size": unit.size, "bitMapSize": len(unit.filter_bit_map)})


def is_valid_unit(offset: int, size: int) -> bool:
    """The broker's own test when it recovers a consume queue; the commitlog is not looked at."""
    return offset >= 0 and size > 0


def is_valid_batch_unit(offset: int, size: int, msg_base_offset: int, batch_size: int) -> bool:
    """The broker's own test when it recovers a batch consume queue."""
    return offset >= 0 and size > 0 and msg_base_offset >= 0 and batch_size > 0


def queue_offset_of(stream_offset: int) -> int:
    """The queue offset of the 20-byte unit at this byte offset of the queue's stream."""
    return stream_offset // UNIT_SIZE


def rounded_file_size(configured: int, unit_size: int = UNIT_SIZE) -> int:
    """The file size that a broker uses for a configured one: rounded up to whole units."""
    if configured < 0:
        raise FormatError(f"file size {configured} is negative")
    return -(-configured // unit_size) * unit_size
