"""Index files of tiered storage: header, slots in use, items; compacted or as they are written. Ref. 1.10."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rocketfsck.cli.dump.fixed import rest_items, unit_items
from rocketfsck.cli.dump.item import Item, Spec, TextColumn, layout_columns, layout_spans
from rocketfsck.cli.dump.source import DumpFilter, DumpSource
from rocketfsck.cli.output import Column
from rocketfsck.cli.show.text import timestamp
from rocketfsck.formats.tiered import (
    OLD_LOCAL_COMPACTING,
    TIERED_COMPACTED_ITEM,
    TIERED_COMPACTED_SLOT,
    TIERED_INDEX_HEADER,
    TIERED_INDEX_ITEM,
    TIERED_INDEX_MAGIC_BEGIN,
    TIERED_INDEX_MAGIC_END,
    TIERED_INDEX_SLOT,
)
from rocketfsck.reader.tiered import TieredIndexHeader, read_local_header, read_segment_header

_MAGICS = {TIERED_INDEX_MAGIC_BEGIN: "being written", TIERED_INDEX_MAGIC_END: "complete"}


def index_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The header, the slots in use and the items; where the numbers do not fit the length, the bytes."""
    header = _header(source)
    if not header.values:
        yield from rest_items(source, 0)
        return
    if not wanted.any:
        note = _MAGICS.get(header.values["magicCode"], "not the magic code of an index file")
        yield Item(
            "header",
            0,
            TIERED_INDEX_HEADER.size,
            header.values,
            note,
            lambda: layout_spans(TIERED_INDEX_HEADER, 0, header.values),
        )
    if header.shape is None:
        if not wanted.any:
            yield from rest_items(source, TIERED_INDEX_HEADER.size)
        return
    yield from _content(source, wanted, header)


def _header(source: DumpSource) -> TieredIndexHeader:
    *_, directory, name = ("", *source.reader.path.split("/"))
    local = directory == "tiered_index_file" and name != OLD_LOCAL_COMPACTING
    if local and source.store is not None:
        return read_local_header(source.store, source.reader)
    header = read_segment_header(source.reader)
    return TieredIndexHeader(header.values, compacted=False) if local else header


def _content(source: DumpSource, wanted: DumpFilter, header: TieredIndexHeader) -> Iterator[Item]:
    shape = header.shape
    assert shape is not None
    begin = header.values["beginTimestamp"]
    unit = 1 if shape.old else 1000

    def slot(pos: int, values: dict[str, Any]) -> tuple[str, dict[str, Any], str] | None:
        number = (pos - TIERED_INDEX_HEADER.size) // TIERED_COMPACTED_SLOT.size
        if wanted.slot is not None and number != wanted.slot:
            return None
        if not values["length"] if header.compacted else values["newestItem"] < 0:
            return None
        return "slot", {"slot": number, **values}, ""

    def item(pos: int, values: dict[str, Any]) -> tuple[str, dict[str, Any], str] | None:
        number = (pos - shape.items_start) // shape.item_size
        time = begin + values["timeDiff"] * unit
        mine = values["hash"] % shape.slot_count == wanted.slot if wanted.slot is not None else True
        if not (mine and wanted.has_time(time) and wanted.has_offset(values["offset"])):
            return None
        if wanted.queue_id is not None and values["queueId"] != wanted.queue_id:
            return None
        return "item", {"item": number, **values, "storeTime": time}, ""

    slots = TIERED_COMPACTED_SLOT if header.compacted else TIERED_INDEX_SLOT
    if not wanted.any or wanted.slot is not None:
        yield from unit_items(
            source,
            slots,
            slot,
            start=TIERED_INDEX_HEADER.size,
            end=shape.items_start,
            zeros=not wanted.any,
            what="slot",
        )
    items = TIERED_COMPACTED_ITEM if header.compacted else TIERED_INDEX_ITEM
    yield from unit_items(
        source, items, item, start=shape.items_start, end=shape.end, zeros=not wanted.any, what="item"
    )
    if not wanted.any:
        yield from rest_items(source, shape.end)


SPECS = {
    "tiered-index": Spec(
        (
            *layout_columns(TIERED_INDEX_HEADER),
            Column("slot", "int"),
            *layout_columns(TIERED_COMPACTED_SLOT),
            Column("newestItem", "int"),
            Column("item", "int"),
            *layout_columns(TIERED_INDEX_ITEM),
            Column("storeTime", "int"),
            Column("count", "int"),
        ),
        (
            TextColumn("slot", "slot", 8),
            TextColumn("items_pos", "position", 10),
            TextColumn("items_size", "length", 10),
            TextColumn("item", "item", 9),
            TextColumn("hash", "hash", 12),
            TextColumn("topicId", "topicId", 8),
            TextColumn("queueId", "queueId", 8),
            TextColumn("offset", "offset", 14),
            TextColumn("size", "size", 8),
            TextColumn("storeTime", "storeTime", 24, render=timestamp),
        ),
        ("slot", "queue_id", "physical_offsets", "begin", "end"),
        index_items,
    ),
}
