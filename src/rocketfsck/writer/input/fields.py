"""The fields of a message as JSON lines and Arrow columns name them, and how each becomes a value.

RocketMQ's own names, those of `dump` and of the Arrow schema of records, so that what was dumped can be
written again. What a store derives (offsets, sizes, CRCs, what is wrong) is known by name and not used.
Reference 2.1 to 2.13.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from rocketfsck.errors import UsageError
from rocketfsck.formats import columns, javatext, magic, record
from rocketfsck.formats import properties as props
from rocketfsck.formats.columns import DERIVED as DERIVED_COLUMNS
from rocketfsck.writer.message import messages


class InputError(UsageError):
    """A row that cannot become a message. `place` says which, `field` is the field's name, if it is one."""

    def __init__(self, place: str, field: str, reason: str) -> None:
        super().__init__(f"{place}: {field}: {reason}" if field else f"{place}: {reason}")
        self.place = place
        self.field = field
        self.reason = reason


SCHEMA_VERSION = 1
MAX_PORT = 65535
AS_STORED = "record"
"""The kind of a row of `dump`: a message as it is in a log."""

EMPTY_KINDS = frozenset({"blank", "filler", "zero"})
"""Kinds of rows of `dump` that hold no message: they are passed over."""

KINDS: Mapping[str, messages.Kind] = {kind.value: kind for kind in messages.Kind} | {
    AS_STORED: messages.Kind.NORMAL
}

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class InputField:
    """One field: its name, what makes a value of it (ValueError with the reason), and what it says."""

    name: str
    convert: Convert
    doc: str


def integer(least: int, most: int) -> Convert:
    """A converter for whole numbers in a range."""

    def convert(value: Any) -> int:
        if type(value) is not int:
            raise ValueError(f"{_shown(value)} is not a whole number")
        if not least <= value <= most:
            raise ValueError(f"{_shown(value)} must be {least} to {most}")
        return value

    return convert


def text(value: Any) -> str:
    """A text; bytes (Arrow's binary) are taken as UTF-8."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"byte {error.start} is not UTF-8") from None
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is not text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"character {error.start} is half of a surrogate pair") from None
    return value


def body_bytes(value: Any) -> bytes:
    """A body: text is stored as UTF-8."""
    return value if isinstance(value, bytes) else text(value).encode("utf-8")


def base64_bytes(value: Any) -> bytes:
    """Bytes from base64, with its padding and only characters of its alphabet."""
    try:
        return b64decode(text(value), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not base64: {error}") from None


def bit_map(value: Any) -> bytes:
    """Bytes as they are (Arrow's binary), or from base64."""
    return value if isinstance(value, bytes) else base64_bytes(value)


def hex_bytes(value: Any) -> bytes:
    """Bytes from hexadecimal digits."""
    try:
        return bytes.fromhex(text(value))
    except ValueError as error:
        raise ValueError(f"not hexadecimal: {error}") from None


def host(value: Any) -> record.Host:
    """`10.1.2.3:10911` or `[2001:db8::1]:10911`."""
    name, separator, port = text(value).rpartition(":")
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    elif ":" in name:
        raise ValueError(f"{_shown(value)}: an IPv6 address needs brackets")
    try:
        address = ip_address(name).packed
    except ValueError:
        raise ValueError(f"{_shown(value)} is not ADDRESS:PORT") from None
    if not separator or not (port.isascii() and port.isdigit()) or int(port[:9]) > MAX_PORT:
        raise ValueError(f"{_shown(value)}: the port must be 0 to {MAX_PORT}")
    return record.Host(address, int(port))


def words(value: Any) -> str:
    """KEYS: the value itself, or a list of words without spaces."""
    if not isinstance(value, list):
        return text(value)
    listed = [text(item) for item in value]
    for word in listed:
        if " " in word or not word:
            raise ValueError(f"{_shown(word)} is more than one word: spaces separate keys")
    return " ".join(listed)


def names(value: Any) -> tuple[str, ...]:
    """Names of queues."""
    if not isinstance(value, list):
        raise ValueError(f"{_shown(value)} is not a list")
    return tuple(text(item) for item in value)


def properties(value: Any) -> messages.Properties:
    """An object (written in the order of the broker's map), a list of pairs (in this order), or bytes."""
    if isinstance(value, bytes):
        return raw_properties(value)
    if isinstance(value, Mapping):
        return {_property_name(name): _property_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return tuple(_pair(item) for item in value)
    raise ValueError(f"{_shown(value)} is neither an object nor a list of pairs")


def raw_properties(value: bytes) -> bytes:
    """A properties string, stored as it is."""
    if len(value) > props.MAX_PROPERTIES_SIZE:
        raise ValueError(f"{len(value)} bytes: the limit is {props.MAX_PROPERTIES_SIZE:,}")
    return value


def properties_base64(value: Any) -> bytes:
    """A properties string in base64."""
    return raw_properties(base64_bytes(value))


def _pair(item: Any) -> tuple[str, str | None]:
    if not isinstance(item, (list, tuple)) or len(item) != 2:
        raise ValueError(f"{_shown(item)} is not a pair of name and value")
    return _property_name(item[0]), _property_value(item[1])


def _property_name(name: Any) -> str:
    known = text(name)
    if not known or "\x01" in known or "\x02" in known:
        raise ValueError(f"{_shown(known)} cannot be a property's name")
    return known


def _property_value(value: Any) -> str | None:
    if value is None:
        return None
    known = text(value)
    if "\x01" in known or "\x02" in known:
        raise ValueError(f"{_shown(known)} holds a separator (0x01 or 0x02)")
    return known


def items(value: Any) -> tuple[record.InnerItem, ...]:
    """The messages of a batch: objects with body or body_b64, properties or properties_b64, flag."""
    if not isinstance(value, list):
        raise ValueError(f"{_shown(value)} is not a list")
    return tuple(_item(item, number) for number, item in enumerate(value, 1))


def _item(value: Any, number: int) -> record.InnerItem:
    if not isinstance(value, Mapping):
        raise ValueError(f"item {number}: {_shown(value)} is not an object")
    found: dict[str, Any] = {}
    for name, given in value.items():
        if name not in _ITEM_FIELDS:
            raise ValueError(f"item {number}: unknown field {_shown(name)}")
        target, convert = _ITEM_FIELDS[name]
        if given is None:
            continue
        if target in found:
            raise ValueError(f"item {number}: {target} appears twice")
        try:
            found[target] = convert(given)
        except ValueError as error:
            raise ValueError(f"item {number}: {name}: {error}") from None
    return record.InnerItem(found.get("body", b""), found.get("properties", b""), flag=found.get("flag", 0))


def _item_properties(value: Any) -> bytes:
    pairs = properties(value)
    if isinstance(pairs, bytes):
        return pairs
    return raw_properties(props.serialize_properties(pairs, trailing_separator=True))


_ITEM_FIELDS: Mapping[str, tuple[str, Convert]] = {
    "body": ("body", body_bytes),
    "body_b64": ("body", base64_bytes),
    "properties": ("properties", _item_properties),
    "properties_b64": ("properties", properties_base64),
    "flag": ("flag", integer(javatext.INT32_MIN, javatext.INT32_MAX)),
}


def kind(value: Any) -> str:
    """A kind of message, or one of the kinds of rows of `dump`."""
    known = text(value)
    if known not in KINDS and known not in EMPTY_KINDS:
        raise ValueError(f"{_shown(known)} is not one of {', '.join(KINDS)}")
    return known


def _schema_version(value: Any) -> int:
    if value != SCHEMA_VERSION or type(value) is not int:
        raise ValueError(f"{_shown(value)}: this program reads {SCHEMA_VERSION}")
    return SCHEMA_VERSION


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


_TIMESTAMP = integer(0, javatext.INT64_MAX)

_LEAST = {"flag": javatext.INT32_MIN}
"""Numbers that may be negative."""


def _given(column: columns.MessageColumn) -> InputField:
    """The field of a number that the record has as it was given."""
    most = javatext.INT32_MAX if column.kind == "i4" else javatext.INT64_MAX
    convert = integer(_LEAST.get(column.name, 0), most)
    return InputField(column.name, convert, f"{record.RECORD.field(column.field).doc}; default 0")


FIELDS: tuple[InputField, ...] = (
    InputField("topic", text, "topic of the message"),
    InputField("queue_id", integer(0, javatext.INT32_MAX), "queue of the topic; default 0"),
    InputField("body", body_bytes, "the body, text as UTF-8; default empty"),
    InputField("body_b64", base64_bytes, "the body in base64"),
    InputField("body_hex", hex_bytes, "the body in hexadecimal digits"),
    InputField("tags", text, "the property TAGS"),
    InputField("keys", words, "the property KEYS: one text, or a list of words"),
    InputField("unique_key", text, "the property UNIQ_KEY"),
    InputField("properties", properties, "object (the broker's order) or list of pairs (this order)"),
    InputField("properties_b64", properties_base64, "the properties string, in base64"),
    InputField("properties_raw_b64", properties_base64, "the same, under the name that dump uses"),
    InputField("properties_raw", lambda value: raw_properties(body_bytes(value)), "the same, as binary"),
    InputField("sys_flag", integer(0, magic.KNOWN_SYS_FLAGS), "compression and other bits; default 0"),
    InputField("born_timestamp", _TIMESTAMP, "ms; default: storeTimestamp"),
    InputField("store_timestamp", _TIMESTAMP, "ms; default: 1 ms after the message before"),
    InputField("born_host", host, "ADDRESS:PORT of the producer; default 127.0.0.1:50000"),
    InputField("store_host", host, "ADDRESS:PORT of the broker; default 127.0.0.1:10911"),
    *map(_given, columns.GIVEN),
    InputField("delay_level", integer(0, javatext.INT32_MAX), "the property DELAY; default none"),
    InputField("multi_dispatch", names, "the queues of the property INNER_MULTI_DISPATCH"),
    InputField("filter_bit_map", bit_map, "bit map of the consume queue's ext unit, in base64"),
    InputField("items", items, "the messages of a legacy or inner batch"),
    InputField("kind", kind, "kind of message: normal (the default), half, commit …"),
    InputField("schema_version", _schema_version, "1"),
)
FIELDS_BY_NAME: Mapping[str, InputField] = {field.name: field for field in FIELDS}

DERIVED = frozenset({
    *(column.name for column in (*columns.NUMBERS, *DERIVED_COLUMNS) if column.name not in FIELDS_BY_NAME),
    "topic_size", "traits", "reason", "file", "start", "end", "offset", "position", "run", "tags_code",
    "batch_count", "msg_base_offset", "key_hashes", "topic_b64", "file_b64",
})  # fmt: skip
"""Fields of dumped records that the new store sets itself: known, and not used."""
