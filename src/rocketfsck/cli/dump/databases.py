"""Rows of RocksDB databases: queue units and bounds, index, timer, transaction and POP records, configs.

A row has no place in a file: `start` and `end` are 0. Reference 3.9, 11.3 to 11.7.

Timer files: the wheel's slots, the log's units, the progress file. Reference 1.8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rocketfsck.cli.dump import item as dump_item
from rocketfsck.cli.dump.fixed import rest_items, struct_items, unit_items
from rocketfsck.cli.output import Column
from rocketfsck.cli.show.text import timestamp
from rocketfsck.errors import FormatError
from rocketfsck.formats import timer
from rocketfsck.formats.magic import MAGIC_BLANK
from rocketfsck.formats.properties import tags_code
from rocketfsck.formats.rocks import ROCKS_UNIT
from rocketfsck.store.rocks.families import Content, content_of, decode_row
from rocketfsck.store.rocks.reading import read_rows

_BITS = ((timer.MAGIC_DEFAULT, "default"), (timer.MAGIC_ROLL, "roll"), (timer.MAGIC_DELETE, "delete"))


def _magic_text(magic: int) -> str:
    if not timer.is_valid_timer_magic(magic):
        return f"magic {magic} is not that of a timer"
    return ", ".join(name for bit, name in _BITS if magic & bit)


def wheel_items(source: dump_item.DumpSource, wanted: dump_item.DumpFilter) -> Iterator[dump_item.Item]:
    """The slots in use; all others are runs of zeros."""

    def describe(pos: int, values: dict[str, Any]) -> tuple[str, dict[str, Any], str] | None:
        number = pos // timer.TIMER_WHEEL_SLOT_SIZE
        if wanted.slot is not None and number != wanted.slot:
            return None
        surplus = " (after the wheel's last slot)" if number >= 2 * timer.SLOTS_TOTAL else ""
        return "slot", {"slot": number, **values}, _magic_text(values["magic"]) + surplus

    yield from unit_items(source, timer.TIMER_WHEEL_SLOT, describe, zeros=not wanted.any, what="slot")


def log_items(source: dump_item.DumpSource, wanted: dump_item.DumpFilter) -> Iterator[dump_item.Item]:
    """The units one after the other; where one ends the file's, what comes after it."""
    pos = source.first_pos
    while source.size - pos >= timer.TIMER_LOG_FILLER.size:
        filler = timer.TIMER_LOG_FILLER.parse(source.read(pos, timer.TIMER_LOG_FILLER.size))
        if filler["magic"] == MAGIC_BLANK:
            if not wanted.any:
                yield _filler(pos, filler)
            pos += timer.TIMER_LOG_FILLER.size
            break
        if source.size - pos < timer.TIMER_LOG_UNIT_SIZE:
            break
        values = timer.TIMER_LOG_UNIT.parse(source.read(pos, timer.TIMER_LOG_UNIT_SIZE))
        if values["size"] != timer.TIMER_LOG_UNIT_SIZE:
            break
        item = _unit(source, wanted, pos, values)
        if item is not None:
            yield item
        pos += timer.TIMER_LOG_UNIT_SIZE
    if not wanted.any:
        yield from rest_items(source, pos)


def _filler(pos: int, filler: dict[str, Any]) -> dump_item.Item:
    return dump_item.Item(
        "filler",
        pos,
        pos + timer.TIMER_LOG_FILLER.size,
        filler,
        f"end of the file's units, {filler['size']} bytes left",
        lambda: dump_item.layout_spans(timer.TIMER_LOG_FILLER, pos, filler),
    )


def _unit(
    source: dump_item.DumpSource, wanted: dump_item.DumpFilter, pos: int, values: dict[str, Any]
) -> dump_item.Item | None:
    deliver = values["currWriteTime"] + values["delayedTime"]
    if not wanted.has_time(deliver) or not wanted.has_offset(values["offsetPy"]):
        return None
    shown = {"timerLogOffset": source.start_offset + pos, **values, "deliverTime": deliver}
    return dump_item.Item(
        "unit",
        pos,
        pos + timer.TIMER_LOG_UNIT_SIZE,
        shown,
        _magic_text(values["magic"]),
        lambda: dump_item.layout_spans(
            timer.TIMER_LOG_UNIT, pos, values, texts={"magic": _magic_text(values["magic"])}
        ),
    )


def check_items(source: dump_item.DumpSource, _wanted: dump_item.DumpFilter) -> Iterator[dump_item.Item]:
    """`config/timercheck`."""
    yield from struct_items(source, timer.TIMER_CHECK, "timercheck")


_TIMER_SPECS = {
    "timerwheel": dump_item.Spec(
        (Column("slot", "int"), *dump_item.layout_columns(timer.TIMER_WHEEL_SLOT), Column("count", "int")),
        (
            dump_item.TextColumn("slot", "slot", 8),
            dump_item.TextColumn("slotTime", "slotTime", 14),
            dump_item.TextColumn("firstPos", "firstPos", 14),
            dump_item.TextColumn("lastPos", "lastPos", 14),
            dump_item.TextColumn("num", "num", 8),
        ),
        ("slot",),
        wheel_items,
    ),
    "timerlog": dump_item.Spec(
        (
            Column("timerLogOffset", "int"),
            *dump_item.layout_columns(timer.TIMER_LOG_UNIT),
            Column("deliverTime", "int"),
        ),
        (
            dump_item.TextColumn("timerLogOffset", "timerLogOffset", 14),
            dump_item.TextColumn("prevPos", "prevPos", 14),
            dump_item.TextColumn("deliverTime", "deliverTime", 24, render=timestamp),
            dump_item.TextColumn("offsetPy", "offsetPy", 14),
            dump_item.TextColumn("sizePy", "sizePy", 8),
        ),
        ("begin", "end", "physical_offsets"),
        log_items,
    ),
    "timercheck": dump_item.Spec(dump_item.layout_columns(timer.TIMER_CHECK), (), (), check_items),
}


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
    def items(source: dump_item.DumpSource, wanted: dump_item.DumpFilter) -> Iterator[dump_item.Item]:
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
                    yield dump_item.Item(name, 0, 0, {"family": rows.family, **values})

    return items


def _unreadable(family: str, key: bytes, value: bytes, error: FormatError) -> dump_item.Item:
    values = {"family": family, "key": key, "value": value, "error": str(error)}
    return dump_item.Item("unreadable", 0, 0, values, f"key {key[:40].hex()}: {error}")


def _is_wanted(wanted: dump_item.DumpFilter, values: Mapping[str, Any]) -> bool:
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


def _number(name: str, width: int = 14) -> dump_item.TextColumn:
    return dump_item.TextColumn(name, name, width)


def _name(name: str, width: int = 24) -> dump_item.TextColumn:
    return dump_item.TextColumn(name, name, width, right=False)


def _when(name: str) -> dump_item.TextColumn:
    return dump_item.TextColumn(name, name, 24, render=timestamp)


_OFFSETS = ("physical_offsets",)
_TIMES = ("begin", "end")

_SHAPES: Mapping[str, tuple[tuple[Column, ...], tuple[dump_item.TextColumn, ...], tuple[str, ...]]] = {
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
            dump_item.TextColumn("content", "content", 20, right=False),
        ),
        ("topic", "queue_id"),
    ),
    "rocksdb-rows": (
        _columns(),
        (_name("family", 12), _name("key", 32), _name("value", 32)),
        (),
    ),
}

SPECS = _TIMER_SPECS | {
    name: dump_item.Spec(columns, text, filters, _items(name))
    for name, (columns, text, filters) in _SHAPES.items()
}
