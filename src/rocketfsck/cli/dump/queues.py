"""Consume queues: 20-byte units, 46-byte batch units, and the extension's units. Reference 3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rocketfsck.cli.dump.fixed import unit_items
from rocketfsck.cli.dump.item import Item, Spec, TextColumn, layout_columns, layout_spans
from rocketfsck.cli.dump.source import DumpFilter, DumpSource
from rocketfsck.cli.output import Column
from rocketfsck.cli.show.text import timestamp
from rocketfsck.errors import FormatError
from rocketfsck.formats.consumequeue import (
    BATCH_UNIT,
    EXT_END_MARK,
    EXT_UNIT,
    EXT_UNIT_MIN_SIZE,
    PRE_BLANK_UNIT,
    SPARSE_END_UNIT,
    UNIT,
    UNIT_SIZE,
    decode_ext_unit,
    ext_offset,
    is_ext_address,
)
from rocketfsck.formats.names import shown_unit_name
from rocketfsck.formats.properties import tags_code
from rocketfsck.formats.timer import SCHEDULE_TOPIC

QUEUE_COLUMNS = (Column("topic", "name"), Column("queueId", "int"))
UNIT_COLUMNS = (
    *QUEUE_COLUMNS,
    Column("queueOffset", "int"),
    *layout_columns(UNIT),
    Column("extOffset", "int"),
    Column("count", "int"),
)
UNIT_TEXT = (
    TextColumn("queueOffset", "queueOffset", 12),
    TextColumn("offset", "offset", 14),
    TextColumn("size", "size", 10),
    TextColumn("tagsCode", "tagsCode", 20),
)
UNIT_FILTERS = ("topic", "queue_id", "tag", "physical_offsets", "queue_offsets")

BATCH_COLUMNS = (
    *QUEUE_COLUMNS,
    *layout_columns(BATCH_UNIT),
    Column("count", "int"),
)
BATCH_TEXT = (
    TextColumn("msgBaseOffset", "msgBaseOffset", 13),
    TextColumn("batchSize", "batchSize", 9),
    TextColumn("offset", "offset", 14),
    TextColumn("size", "size", 10),
    TextColumn("tagsCode", "tagsCode", 20),
    TextColumn("storeTime", "storeTime", 24, render=timestamp),
    TextColumn("compactedOffset", "compactedOffset", 15),
)
BATCH_FILTERS = (*UNIT_FILTERS, "begin", "end")

EXT_COLUMNS = (
    *QUEUE_COLUMNS,
    Column("extOffset", "int"),
    *layout_columns(EXT_UNIT),
)
EXT_TEXT = (
    TextColumn("extOffset", "extOffset", 12),
    TextColumn("size", "size", 6),
    TextColumn("tagsCode", "tagsCode", 12),
    TextColumn("msgStoreTime", "msgStoreTime", 24, render=timestamp),
    TextColumn("bitMapSize", "bitMapSize", 10),
)
_EXT_UNIT_LIMIT = 1 << 15  # its size is an i16
_EXT_PIECE_SIZE = 1 << 20
EXT_FILTERS = ("topic", "queue_id", "tag", "begin", "end")


def _whose(source: DumpSource) -> dict[str, Any]:
    return {"topic": source.topic, "queueId": source.queue_id}


def consumequeue_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The units of a consume queue file; `queueOffset` follows from the file's name and the position."""
    code = None if wanted.tag is None else tags_code(wanted.tag)
    whose = _whose(source)
    blank = UNIT.parse(PRE_BLANK_UNIT)

    def describe(pos: int, values: dict[str, Any]) -> tuple[str, dict[str, Any], str] | None:
        queue_offset = (source.start_offset + pos) // UNIT_SIZE
        shown: dict[str, Any] = {**whose, "queueOffset": queue_offset, **values}
        if not wanted.has_queue_offset(queue_offset):
            return None
        if values == blank:
            return None if wanted.any and wanted.queue_offsets is None else ("pre-blank", shown, "pre-blank")
        if not wanted.has_offset(values["offset"]):
            return None
        if code is not None and values["tagsCode"] != code:
            return None
        return "unit", shown, _tags_note(source, shown)

    yield from unit_items(source, UNIT, describe, zeros=not wanted.any)


def _tags_note(source: DumpSource, shown: dict[str, Any]) -> str:
    code = shown["tagsCode"]
    if is_ext_address(code):
        shown["extOffset"] = ext_offset(code)
        return f"ext unit at {shown['extOffset']}"
    return f"deliver at {timestamp(code)}" if source.topic == SCHEDULE_TOPIC and code > 0 else ""


def batch_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The units of a batch consume queue, or of a compaction queue."""
    code = None if wanted.tag is None else tags_code(wanted.tag)
    whose = _whose(source)
    end_mark = BATCH_UNIT.parse(SPARSE_END_UNIT)

    def describe(_pos: int, values: dict[str, Any]) -> tuple[str, dict[str, Any], str] | None:
        shown = {**whose, **values}
        if values == end_mark:
            return None if wanted.any else ("end", shown, "end of this file's units")
        base = values["msgBaseOffset"]
        wished = wanted.queue_offsets
        if wished is not None and not (base < wished[1] and base + max(values["batchSize"], 1) > wished[0]):
            return None
        if not wanted.has_offset(values["offset"]):
            return None
        if not wanted.has_time(values["storeTime"]) or (code is not None and values["tagsCode"] != code):
            return None
        return "unit", shown, ""

    yield from unit_items(source, BATCH_UNIT, describe, zeros=not wanted.any)


def ext_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The units of a consume queue extension file, found by their sizes from its start."""
    code = None if wanted.tag is None else tags_code(wanted.tag)
    whose = _whose(source)
    pos = piece_pos = source.first_pos
    piece = b""
    while pos < source.size:
        if pos + _EXT_UNIT_LIMIT > piece_pos + len(piece) < source.size:
            piece_pos, piece = pos, source.read(pos, min(_EXT_PIECE_SIZE, source.size - pos))
        data = piece[pos - piece_pos : pos - piece_pos + _EXT_UNIT_LIMIT]
        zero = source.zero_until(pos, source.size) if data.startswith(b"\0\0") else pos
        if zero - pos >= EXT_UNIT_MIN_SIZE or zero == source.size:
            if not wanted.any:
                yield Item("zero", pos, zero, {}, f"{zero - pos} bytes of zeros")
            pos = piece_pos = zero
            piece = b""
            continue
        try:
            unit = decode_ext_unit(data)
        except FormatError as error:
            if not wanted.any:
                yield Item("unknown", pos, source.size, {}, f"no unit: {error}")
            return
        if unit is None:
            if not wanted.any:
                yield Item("end", pos, pos + len(EXT_END_MARK), {}, "end of this file's units")
            pos += len(EXT_END_MARK)
            continue
        values = EXT_UNIT.parse(data)
        if wanted.has_time(unit.msg_store_time) and (code is None or unit.tags_code == code):
            shown = {**whose, "extOffset": source.start_offset + pos, **values}
            yield Item("unit", pos, pos + unit.size, shown, "", _ext_spans(pos, values))
        pos += unit.size


def _ext_spans(start: int, values: dict[str, Any]) -> Any:
    texts = {"filterBitMap": values["filterBitMap"].hex()}
    return lambda: layout_spans(EXT_UNIT, start, values, texts=texts)


SPECS = {
    "consumequeue": Spec(UNIT_COLUMNS, UNIT_TEXT, UNIT_FILTERS, consumequeue_items, shown_unit_name),
    "batchconsumequeue": Spec(BATCH_COLUMNS, BATCH_TEXT, BATCH_FILTERS, batch_items, shown_unit_name),
    "consumequeue-ext": Spec(EXT_COLUMNS, EXT_TEXT, EXT_FILTERS, ext_items),
}
