"""The properties string of a record: `name 0x01 value 0x02 …`, UTF-8, without any escaping. Reference 2.5,
2.7, 3.2.

Two parsers are in use and see different pairs in odd input: the *split* parser (up to 4.9.0 and
5.0.0-PREVIEW) takes a piece of exactly two parts, the *scan* parser (4.9.1+, 5.0.0-ALPHA+) splits a piece at
its first 0x01 and takes it when neither side is empty. For both the last of several equal names wins. A
propertiesLength of 0 or less gives no map at all, which is not the same as an empty map. Whether the last
pair ends in 0x02 depends on the writer's version.

The optional property CRC is the record's last 20 bytes: `__CRC32#` 0x01, ten digits with the least
significant first, 0x02.

Light queues (LMQ) of which a broker gave numbers away without writing units.

    INNER_MULTI_DISPATCH := name (',' name)*      INNER_MULTI_QUEUE_OFFSET := offset? (',' offset?)*

From 5.0.0 on a broker takes a number for each name that begins with %LMQ% and leaves the places of all
others empty. Java's split drops empty places at the end, so that the lists have different lengths: then the
broker writes no unit for any name, and the numbers that it took are gone. The queue's next unit comes right
after the last one, before the place of its number, until a start counts again. Reference 2.13, 3.4.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Literal

from rocketfsck.formats import javatext

Parser = Literal["split", "scan"]

NAME_VALUE_SEPARATOR = "\x01"
PROPERTY_SEPARATOR = "\x02"
KEY_SEPARATOR = " "
MULTI_DISPATCH_SEPARATOR = ","
LMQ_PREFIX = "%LMQ%"
"""What the names of light queues begin with."""
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
MAX_PROPERTIES_SIZE = 32767

KEYS = "KEYS"
TAGS = "TAGS"
WAIT = "WAIT"
DELAY = "DELAY"
RETRY_TOPIC = "RETRY_TOPIC"
REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
TRAN_MSG = "TRAN_MSG"
PGROUP = "PGROUP"
UNIQ_KEY = "UNIQ_KEY"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
CLUSTER = "CLUSTER"
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
DUP_INFO = "DUP_INFO"
TRANSACTION_ID = "__transactionId__"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
CRC32 = "__CRC32#"

PROPERTY_CRC_SIZE = 20
_CRC_NAME = f"{CRC32}{NAME_VALUE_SEPARATOR}".encode()


def _split_pairs(text: str) -> Iterable[tuple[str, str]]:
    for piece in javatext.split_java(text, PROPERTY_SEPARATOR):
        parts = javatext.split_java(piece, NAME_VALUE_SEPARATOR)
        if len(parts) == 2:
            yield parts[0], parts[1]


def _scan_pairs(text: str) -> Iterable[tuple[str, str]]:
    for piece in text.split(PROPERTY_SEPARATOR):
        name, _, value = piece.partition(NAME_VALUE_SEPARATOR)
        if name and value:
            yield name, value


def property_pairs(data: bytes, parser: Parser) -> list[tuple[str, str]]:
    """Every pair that the parser accepts, in order, equal names included; none for empty bytes."""
    text = javatext.java_decode(data)
    return list(_split_pairs(text) if parser == "split" else _scan_pairs(text))


def parse_properties(data: bytes, parser: Parser) -> dict[str, str] | None:
    """The map that a broker with this parser sees; None (no map at all) for empty bytes."""
    return dict(property_pairs(data, parser)) if data else None


def serialize_properties(
    pairs: Mapping[str, str | None] | Iterable[tuple[str, str | None]],
    trailing_separator: bool,
    *,
    null_as_text: bool = False,
) -> bytes:
    """The properties string for these pairs, in the order given.

    `trailing_separator` ends the last pair with 0x02 (up to 4.9.0, 5.0.0-PREVIEW, 5.2.0+). A None value is
    skipped, or written as the text `null` with `null_as_text` (up to 4.7.0).
    """
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    joined = PROPERTY_SEPARATOR.join(
        f"{name}{NAME_VALUE_SEPARATOR}{'null' if value is None else value}"
        for name, value in items
        if value is not None or null_as_text
    )
    return javatext.java_encode(joined + PROPERTY_SEPARATOR if joined and trailing_separator else joined)


def java_hash_map_order(names: Iterable[str], capacity: int = 16) -> list[str]:
    """The order in which a Java HashMap that began with `capacity` buckets gives these distinct names.

    Brokers write properties in this order (capacity 16 up to 5.0.0, 128 from 5.1.0). Names that share a
    bucket keep the order given; buckets that Java turns into trees (8 names and more in one) keep it too.
    """
    listed = list(dict.fromkeys(names))
    while capacity * 3 // 4 < len(listed):
        capacity *= 2

    def bucket(name: str) -> int:
        hashed = javatext.java_hash(name) & 0xFFFFFFFF
        return (hashed ^ hashed >> 16) & (capacity - 1)

    return sorted(listed, key=bucket)


def split_keys(keys: str) -> list[str]:
    """The non-empty pieces of a KEYS value between single ASCII spaces: what is indexed besides UNIQ_KEY."""
    return [piece for piece in keys.split(KEY_SEPARATOR) if piece]


def tags_code(tags: str | None) -> int:
    """The tagsCode of a normal record: the Java hash of the whole TAGS value, 0 without."""
    return javatext.java_hash(tags) if tags else 0


def property_crc(record: bytes) -> int:
    """The CRC that the last 20 bytes of `record` should state: over everything before them, 31 bits."""
    return zlib.crc32(memoryview(record)[: max(len(record) - PROPERTY_CRC_SIZE, 0)]) & 0x7FFFFFFF


def property_crc_digits(crc: int) -> bytes:
    """The ten ASCII digits of a property CRC, least significant first."""
    return f"{crc:010d}"[::-1].encode()


def property_crc_trailer(crc: int) -> bytes:
    """The 20 bytes that end a record with a property CRC."""
    return _CRC_NAME + property_crc_digits(crc) + PROPERTY_SEPARATOR.encode()


def property_crc_value(value: str) -> int:
    """The number that a broker reads from a `__CRC32#` value: Java int arithmetic on any characters."""
    units = javatext.utf16_units(value)
    total = 0
    for high, low in zip(units[-2::-2], units[::-2], strict=True):
        total = javatext.int32(total * 10 + (high << 8 | low) - 0x30)
    return total


def is_light(topic: bytes) -> bool:
    """Whether a queue is a light one by its name."""
    return topic.startswith(LMQ_PREFIX.encode())


def skipped_names(names: bytes, offsets: bytes) -> list[str] | None:
    """The light queues whose numbers a broker gave away for a record with these lists.

    None if no broker writes such lists.
    """
    listed = javatext.split_java(javatext.java_decode(names), MULTI_DISPATCH_SEPARATOR)
    places = javatext.java_decode(offsets).split(MULTI_DISPATCH_SEPARATOR)
    if len(listed) != len(places):
        return None
    light = [name for name in listed if name.startswith(LMQ_PREFIX)]
    for name, place in zip(listed, places, strict=True):
        if name.startswith(LMQ_PREFIX) != (javatext.parse_int64(place) is not None) or (
            place and name not in light
        ):
            return None
    return light


def lists_in(properties: bytes) -> tuple[bytes, bytes]:
    """The lists of queues and of offsets in a record's properties, as they are; empty where there is none."""
    names, offsets = (
        properties.partition(name)[2].split(b"\x02", 1)[0]
        for name in (b"INNER_MULTI_DISPATCH\x01", b"INNER_MULTI_QUEUE_OFFSET\x01")
    )
    return names, offsets


def skipped_by(properties: bytes) -> list[str] | None:
    """`skipped_names` of the lists in a record's properties."""
    return skipped_names(*lists_in(properties))
