"""Rows of RocksDB databases: queue units and bounds, index, timer, transaction and POP records, configs.

A row has no place in a file: `start` and `end` are 0. Reference 3.9, 11.3 to 11.7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rocketfsck.cli.dump.item import DumpFilter, DumpSource, Item, Spec, TextColumn
from rocketfsck.cli.output import Column
from rocketfsck.cli.show.text import timestamp
from rocketfsck.errors import FormatError
from rocketfsck.formats.properties import tags_code
from rocketfsck.formats.rocks import ROCKS_UNIT
from rocketfsck.store.rocks.families import Content, content_of, decode_row
from rocketfsck.store.rocks.reading import read_rows

CONTENTS: Mapping[str, frozenset[Content]] = {
    "rocksdb-units": frozenset({Content.UNITS}),
    "rocksdb-bounds": frozenset({Content.BOUNDS}),
    "rocksdb-index": frozenset({Content.INDEX}),
    "rocksdb-timer": frozenset({Content.TIMER}),
    "rocksdb-trans": frozenset({Content.TRANS}),
    "rocksdb-pop": frozenset({Content.POP}),
    "rocksdb-config": frozenset(
        {
            Content.TOPICS,
            Content.GROUPS,
            Content.FORBIDDEN,
            Content.OFFSETS,
            Content.VERSION,
            Content.CONFIG,
        }
    ),
    "rocksdb-rows": frozenset({Content.UNKNOWN}),
}
"""By kind: what the families hold whose rows it shows."""


def _items(kind: str) -> Any:
    def items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
        assert source.database is not None
        for rows in read_rows(source.database):
            content = content_of(source.database.relative, rows.family)
            if content not in CONTENTS[kind]:
                continue
            for key, value in rows.pairs():
                try:
                    name, values = decode_row(content, key, value)
                except FormatError as error:
                    if not wanted.any:
                        yield _unreadable(rows.family, key, value, error)
                    continue
                if _is_wanted(wanted, values):
                    yield Item(name, 0, 0, {"family": rows.family, **values})

    return items


def _unreadable(family: str, key: bytes, value: bytes, error: FormatError) -> Item:
    values = {"family": family, "key": key, "value": value, "error": str(error)}
    return Item("unreadable", 0, 0, values, f"key {key[:40].hex()}: {error}")


def _is_wanted(wanted: DumpFilter, values: Mapping[str, Any]) -> bool:
    """Whether a row is among what is asked for; one that has not what is asked about is not."""
    asked = (
        (wanted.topic is None, lambda: values["topic"] == str(wanted.topic).encode()),
        (wanted.queue_id is None, lambda: values["queueId"] == wanted.queue_id),
        (wanted.queue_offsets is None, lambda: wanted.has_queue_offset(_queue_offset(values))),
        (wanted.tag is None, lambda: _has_tag(str(wanted.tag), values)),
        (wanted.key is None, lambda: str(wanted.key).encode() in (values.get("text"), values["uniqKey"])),
        (wanted.begin is None and wanted.end is None, lambda: wanted.has_time(_time(values))),
        (
            wanted.physical_offsets is None,
            lambda: wanted.has_offset(values["phyOffset"]),
        ),
    )
    try:
        return all(unasked or holds() for unasked, holds in asked)
    except KeyError:
        return False


def _queue_offset(values: Mapping[str, Any]) -> int:
    return int(values["cqOffset"] if "cqOffset" in values else values["queueOffset"])


def _has_tag(tag: str, values: Mapping[str, Any]) -> bool:
    if "tagsCode" in values:
        return bool(values["tagsCode"] == tags_code(tag))
    return bool(values["type"] == b"T" and values["text"] == tag.encode())


def _time(values: Mapping[str, Any]) -> int:
    for name in ("storeTime", "deliverTime", "visibleTime"):
        if name in values:
            return int(values[name])
    raise KeyError("time")


def _columns(*columns: tuple[str, Any]) -> tuple[Column, ...]:
    named = [("family", "text"), *columns, ("key", "blob"), ("value", "blob"), ("error", "text")]
    return tuple(Column(name, kind) for name, kind in named)


def _number(name: str, width: int = 14) -> TextColumn:
    return TextColumn(name, name, width)


def _name(name: str, width: int = 24) -> TextColumn:
    return TextColumn(name, name, width, right=False)


def _when(name: str) -> TextColumn:
    return TextColumn(name, name, 24, render=timestamp)


_OFFSETS = ("physical_offsets",)
_TIMES = ("begin", "end")

_SHAPES: Mapping[str, tuple[tuple[Column, ...], tuple[TextColumn, ...], tuple[str, ...]]] = {
    "rocksdb-units": (
        _columns(
            ("topic", "name"),
            ("queueId", "int"),
            ("cqOffset", "int"),
            *((field.name, "int") for field in ROCKS_UNIT.fields),
        ),
        (
            _name("topic"),
            _number("queueId", 7),
            _number("cqOffset", 10),
            _number("phyOffset"),
            _number("size", 8),
            _number("tagsCode", 12),
            _when("storeTime"),
        ),
        ("topic", "queue_id", "queue_offsets", "tag", *_OFFSETS, *_TIMES),
    ),
    "rocksdb-bounds": (
        _columns(
            ("name", "name"),
            ("topic", "name"),
            ("queueId", "int"),
            ("cqOffset", "int"),
            ("phyOffset", "int"),
        ),
        (
            _name("name", 10),
            _name("topic"),
            _number("queueId", 7),
            _number("cqOffset", 10),
            _number("phyOffset"),
        ),
        ("topic", "queue_id", "queue_offsets", *_OFFSETS),
    ),
    "rocksdb-index": (
        _columns(
            ("name", "name"),
            ("topic", "name"),
            ("type", "name"),
            ("text", "name"),
            ("uniqKey", "name"),
            ("phyOffset", "int"),
            ("hour", "int"),
            ("storeTime", "int"),
            ("number", "int"),
        ),
        (
            _name("name", 4),
            _number("number", 4),
            _name("topic"),
            _name("type", 4),
            _name("text", 16),
            _name("uniqKey", 32),
            _number("phyOffset", 12),
            _when("storeTime"),
        ),
        ("topic", "tag", "key", *_OFFSETS, *_TIMES),
    ),
    "rocksdb-timer": (
        _columns(
            ("name", "name"),
            ("deliverTime", "int"),
            ("uniqKey", "name"),
            ("phyOffset", "int"),
            ("size", "int"),
            ("number", "int"),
        ),
        (
            _when("deliverTime"),
            _name("uniqKey", 32),
            _number("phyOffset", 12),
            _number("size", 8),
            _name("name", 8),
            _number("number", 8),
        ),
        ("key", *_OFFSETS, *_TIMES),
    ),
    "rocksdb-trans": (
        _columns(
            ("name", "name"),
            ("topic", "name"),
            ("uniqKey", "name"),
            ("phyOffset", "int"),
            ("checkCount", "int"),
            ("size", "int"),
            ("number", "int"),
        ),
        (
            _name("topic"),
            _name("uniqKey", 32),
            _number("phyOffset", 12),
            _number("checkCount", 10),
            _number("size", 8),
            _name("name", 8),
            _number("number", 8),
        ),
        ("topic", "key", *_OFFSETS),
    ),
    "rocksdb-pop": (
        _columns(
            ("visibleTime", "int"),
            ("group", "name"),
            ("topic", "name"),
            ("queueId", "int"),
            ("queueOffset", "int"),
            ("content", "json"),
        ),
        (
            _when("visibleTime"),
            _name("group"),
            _name("topic"),
            _number("queueId", 7),
            _number("queueOffset", 12),
        ),
        ("topic", "queue_id", "queue_offsets", *_TIMES),
    ),
    "rocksdb-config": (
        _columns(
            ("name", "name"),
            ("topic", "name"),
            ("group", "name"),
            ("queueId", "int"),
            ("offset", "int"),
            ("content", "json"),
        ),
        (
            _name("name", 32),
            _name("topic"),
            _name("group"),
            _number("queueId", 7),
            _number("offset", 10),
            TextColumn("content", "content", 20, right=False),
        ),
        ("topic", "queue_id"),
    ),
    "rocksdb-rows": (
        _columns(),
        (_name("family", 12), _name("key", 32), _name("value", 32)),
        (),
    ),
}

SPECS = {
    name: Spec(columns, text, filters, _items(name)) for name, (columns, text, filters) in _SHAPES.items()
}
