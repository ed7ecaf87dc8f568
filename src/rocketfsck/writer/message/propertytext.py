"""The properties of a record: from what the caller gives to the bytes that a broker stores. Reference 2.5.

A broker keeps properties in a HashMap and writes them in its iteration order, which depends on the number of
buckets it began with (16, from 5.1.0 on 128). Raw bytes are stored as they are, as brokers up to 4.8.0 store
the producer's own string, until something must be added: then they are parsed and written again.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.properties import (
    CRC32,
    MAX_PROPERTIES_SIZE,
    NAME_VALUE_SEPARATOR,
    PROPERTY_CRC_SIZE,
    PROPERTY_SEPARATOR,
    java_hash_map_order,
    parse_properties,
    serialize_properties,
)
from rocketfsck.writer.message.messages import MessageError, Properties

_CRC_START = f"{CRC32}{NAME_VALUE_SEPARATOR}".encode()


def as_map(properties: Properties, dialect: Dialect) -> dict[str, str | None]:
    """The properties as the broker's map: the last of several equal names wins."""
    if isinstance(properties, bytes):
        return dict(parse_properties(properties, dialect.property_parser) or {})
    return dict(properties)


def with_properties(properties: Properties, added: Mapping[str, str], dialect: Dialect) -> Properties:
    """The properties with these set: in place of an equal name, else at the end."""
    if not added:
        return properties
    if isinstance(properties, tuple):
        names = {name for name, _ in properties}
        kept = tuple((name, added.get(name, value)) for name, value in properties)
        return kept + tuple((name, value) for name, value in added.items() if name not in names)
    return {**as_map(properties, dialect), **added}


def without_property(properties: Properties, name: str, dialect: Dialect) -> Properties:
    """The properties without this one; raw bytes that do not have it stay as they are."""
    if name not in as_map(properties, dialect):
        return properties
    if isinstance(properties, tuple):
        return tuple(pair for pair in properties if pair[0] != name)
    kept = as_map(properties, dialect)
    del kept[name]
    return kept


def without_crc(properties: Properties, dialect: Dialect) -> Properties:
    """The properties without a CRC of the record that they are from: raw bytes lose only that."""
    if isinstance(properties, bytes) and properties[-PROPERTY_CRC_SIZE:].startswith(_CRC_START):
        return properties[:-PROPERTY_CRC_SIZE]
    return without_property(properties, CRC32, dialect)


def property_bytes(properties: Properties, dialect: Dialect, capacity: int | None = None) -> bytes:
    """The properties string as this dialect stores it; `capacity` are the HashMap's buckets if not its usual.

    MessageError for names and values that hold a separator (nothing can escape it) and for more than 32767
    bytes. An empty value is written, though most brokers do not read it back.
    """
    if isinstance(properties, bytes):
        return _checked(properties)
    if isinstance(properties, Mapping):
        order = java_hash_map_order(properties, capacity or dialect.property_map_capacity)
        pairs = tuple((name, properties[name]) for name in order)
    else:
        pairs = properties
    for name, value in pairs:
        _check_pair(name, value)
    return _checked(
        serialize_properties(pairs, dialect.trailing_separator, null_as_text=dialect.null_property_as_text)
    )


def _check_pair(name: str, value: str | None) -> None:
    if not name:
        raise MessageError("a property without a name")
    for text in (name, value or ""):
        if NAME_VALUE_SEPARATOR in text or PROPERTY_SEPARATOR in text:
            raise MessageError(f"property {name!r} holds a separator (0x01 or 0x02)")


def _checked(data: bytes) -> bytes:
    if len(data) > MAX_PROPERTIES_SIZE:
        raise MessageError(f"properties of {len(data)} bytes: the limit is {MAX_PROPERTIES_SIZE:,}")
    return data
