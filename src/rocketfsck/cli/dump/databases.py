"""Rows of RocksDB databases: queue units and bounds, index, timer, transaction and POP records, configs.

A row has no place in a file: `start` and `end` are 0. Reference 3.9, 11.3 to 11.7.

Timer files: the wheel's slots, the log's units, the progress file. Reference 1.8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from rocketfsck.cli.dump import item as dump_item
from rocketfsck.cli.dump.fixed import Described, rest_items, struct_items, unit_items
from rocketfsck.cli.dump.item import DumpFilter, DumpSource, Item
from rocketfsck.cli.output import Column, of_kind
from rocketfsck.common.rows import ColumnKind
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


def wheel_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The slots in use; all others are runs of zeros."""

    def describe(pos: int, values: dict[str, Any]) -> Described:
        number = pos // timer.TIMER_WHEEL_SLOT_SIZE
        if wanted.slot is not None and number != wanted.slot:
            return None
        surplus = " (after the wheel's last slot)" if number >= 2 * timer.SLOTS_TOTAL else ""
        return "slot", {"slot": number, **values}, _magic_text(values["magic"]) + surplus

    yield from unit_items(source, timer.TIMER_WHEEL_SLOT, describe, zeros=not wanted.any, what="slot")


def log_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The units one after the other; where one ends the file's, what comes after it."""
    pos = source.first_pos
    while source.size - pos >= timer.TIMER_LOG_FILLER.size:
        filler = timer.TIMER_LOG_FILLER.parse(source.read(pos, timer.TIMER_LOG_FILLER.size))
        if filler["magic"] == MAGIC_BLANK:
            if not wanted.any:
                note = f"end of the file's units, {filler['size']} bytes left"
                yield dump_item.layout_item("filler", timer.TIMER_LOG_FILLER, pos, filler, note)
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


def _unit(source: DumpSource, wanted: DumpFilter, pos: int, values: dict[str, Any]) -> Item | None:
    deliver = values["currWriteTime"] + values["delayedTime"]
    if not wanted.has_time(deliver) or not wanted.has_offset(values["offsetPy"]):
        return None
    shown = {"timerLogOffset": source.start_offset + pos, **values, "deliverTime": deliver}
    return Item(
        "unit",
        pos,
        pos + timer.TIMER_LOG_UNIT_SIZE,
        shown,
        _magic_text(values["magic"]),
        lambda: dump_item.layout_spans(
            timer.TIMER_LOG_UNIT, pos, values, texts={"magic": _magic_text(values["magic"])}
        ),
    )


def check_items(source: DumpSource, _wanted: DumpFilter) -> Iterator[Item]:
    """`config/timercheck`."""
    yield from struct_items(source, timer.TIMER_CHECK, "timercheck")


_TIMER_SPECS = {
    "timerwheel": dump_item.Spec(
        (Column("slot", "int"), *dump_item.layout_columns(timer.TIMER_WHEEL_SLOT), Column("count", "int")),
        dump_item.text_columns(slot=8, slotTime=14, firstPos=14, lastPos=14, num=8),
        ("slot",),
        wheel_items,
    ),
    "timerlog": dump_item.Spec(
        (
            Column("timerLogOffset", "int"),
            *dump_item.layout_columns(timer.TIMER_LOG_UNIT),
            Column("deliverTime", "int"),
        ),
        dump_item.text_columns(
            times=("deliverTime",), timerLogOffset=14, prevPos=14, deliverTime=24, offsetPy=14, sizePy=8
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
        {Content.TOPICS, Content.GROUPS, Content.FORBIDDEN, Content.OFFSETS, Content.VERSION, Content.CONFIG}
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
        (wanted.physical_offsets is None, lambda: wanted.has_offset(values["phyOffset"])),
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


_NAMES = ("name", "topic", "type", "text", "uniqKey", "group")
_LEFT = (*_NAMES, "content", "family", "key", "value")
_KINDS: Mapping[str, ColumnKind] = {"content": "json", **dict.fromkeys(_NAMES, "name")}
"""Columns that are not numbers."""


def _columns(*names: str) -> tuple[Column, ...]:
    own = (Column(name, _KINDS.get(name, "int")) for name in names)
    return Column("family", "text"), *own, *of_kind("blob", "key", "value"), Column("error", "text")


_text = partial(dump_item.text_columns, _LEFT, ("storeTime", "deliverTime", "visibleTime"))
_OFFSETS = ("physical_offsets",)
_TIMES = ("begin", "end")
_SHAPES: Mapping[str, tuple[tuple[Column, ...], tuple[dump_item.TextColumn, ...], tuple[str, ...]]] = {
    "rocksdb-units": (
        _columns("topic", "queueId", "cqOffset", *(field.name for field in ROCKS_UNIT.fields)),
        _text(topic=24, queueId=7, cqOffset=10, phyOffset=14, size=8, tagsCode=12, storeTime=24),
        ("topic", "queue_id", "queue_offsets", "tag", *_OFFSETS, *_TIMES),
    ),
    "rocksdb-bounds": (
        _columns("name", "topic", "queueId", "cqOffset", "phyOffset"),
        _text(name=10, topic=24, queueId=7, cqOffset=10, phyOffset=14),
        ("topic", "queue_id", "queue_offsets", *_OFFSETS),
    ),
    "rocksdb-index": (
        _columns("name", "topic", "type", "text", "uniqKey", "phyOffset", "hour", "storeTime", "number"),
        _text(name=4, number=4, topic=24, type=4, text=16, uniqKey=32, phyOffset=12, storeTime=24),
        ("topic", "tag", "key", *_OFFSETS, *_TIMES),
    ),
    "rocksdb-timer": (
        _columns("name", "deliverTime", "uniqKey", "phyOffset", "size", "number"),
        _text(deliverTime=24, uniqKey=32, phyOffset=12, size=8, name=8, number=8),
        ("key", *_OFFSETS, *_TIMES),
    ),
    "rocksdb-trans": (
        _columns("name", "topic", "uniqKey", "phyOffset", "checkCount", "size", "number"),
        _text(topic=24, uniqKey=32, phyOffset=12, checkCount=10, size=8, name=8, number=8),
        ("topic", "key", *_OFFSETS),
    ),
    "rocksdb-pop": (
        _columns("visibleTime", "group", "topic", "queueId", "queueOffset", "content"),
        _text(visibleTime=24, group=24, topic=24, queueId=7, queueOffset=12),
        ("topic", "queue_id", "queue_offsets", *_TIMES),
    ),
    "rocksdb-config": (
        _columns("name", "topic", "group", "queueId", "offset", "content"),
        _text(name=32, topic=24, group=24, queueId=7, offset=10, content=20),
        ("topic", "queue_id"),
    ),
    "rocksdb-rows": (_columns(), _text(family=12, key=32, value=32), ()),
}
SPECS = _TIMER_SPECS | {
    name: dump_item.Spec(columns, text, filters, _items(name))
    for name, (columns, text, filters) in _SHAPES.items()
}
