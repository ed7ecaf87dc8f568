"""DLedger's log and its index: entry headers with the commit log records in them. Reference 2.14."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rocketfsck.cli.dump.fixed import rest_items, unit_items
from rocketfsck.cli.dump.item import Item, Spec, TextColumn, layout_columns, layout_spans
from rocketfsck.cli.dump.records import record_spans
from rocketfsck.cli.dump.source import DumpFilter, DumpSource
from rocketfsck.cli.output import Column
from rocketfsck.cli.show.hexview import Span
from rocketfsck.formats.dledger import (
    DLEDGER_BLANK,
    DLEDGER_ENTRY,
    DLEDGER_INDEX,
    ENTRY_HEADER_SIZE,
    INDEX_UNIT_SIZE,
    MAGIC_BLANK,
    MAGIC_CONFIG_CHANGE,
    MAGIC_NOOP,
    MAGIC_NORMAL,
)

_NAMES = {MAGIC_NORMAL: "normal", MAGIC_NOOP: "no-op", MAGIC_CONFIG_CHANGE: "config change"}
_COLUMNS = (*layout_columns(DLEDGER_ENTRY), Column("topic", "name"), Column("physicalOffset", "int"))


def data_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The entries, as long as their headers make sense; then what is left."""
    pos = source.first_pos
    while source.size - pos >= DLEDGER_BLANK.size:
        blank = DLEDGER_BLANK.parse(source.read(pos, DLEDGER_BLANK.size))
        if blank["magic"] == MAGIC_BLANK:
            note = f"end of the file's entries, {blank['size']} bytes left"
            if not wanted.any:
                yield Item("blank", pos, pos + DLEDGER_BLANK.size, blank, note, _blank_spans(pos, blank))
            pos += DLEDGER_BLANK.size
            break
        if source.size - pos < ENTRY_HEADER_SIZE:
            break
        values = DLEDGER_ENTRY.parse(source.read(pos, ENTRY_HEADER_SIZE))
        size = values["size"]
        sound = values["magic"] in _NAMES and values["bodyLen"] == size - ENTRY_HEADER_SIZE >= 0
        if not sound or pos + size > source.size:
            break
        if wanted.has_offset(source.start_offset + pos, source.start_offset + pos + size):
            yield _entry(source, wanted, pos, values)
        pos += size
    if not wanted.any:
        yield from rest_items(source, pos)


def _blank_spans(pos: int, blank: dict[str, Any]) -> Callable[[], list[Span]]:
    return lambda: layout_spans(DLEDGER_BLANK, pos, blank)


def _entry(source: DumpSource, wanted: DumpFilter, pos: int, values: dict[str, Any]) -> Item:
    end = pos + values["size"]
    shown = dict(values)
    note = _NAMES[values["magic"]]
    if values["pos"] != source.start_offset + pos:
        note += f", says it is at {values['pos']}"
    body = record_spans(source, pos + ENTRY_HEADER_SIZE, end, wanted.body)
    for span in body:
        if span.name == "topic":
            shown["topic"] = source.read(span.start, span.end - span.start)
        elif span.name == "physicalOffset":
            shown["physicalOffset"] = int(span.text)

    def spans() -> list[Span]:
        return [*layout_spans(DLEDGER_ENTRY, pos, values), *body]

    return Item("entry", pos, end, shown, note, spans)


def index_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The index's units; the entry number follows from the place, too."""

    def describe(pos: int, values: dict[str, Any]) -> tuple[str, dict[str, Any], str] | None:
        if not wanted.has_offset(values["pos"]):
            return None
        number = (source.start_offset + pos) // INDEX_UNIT_SIZE
        note = "" if number == values["index"] else f"at the place of entry {number}"
        return "unit", values, note

    yield from unit_items(source, DLEDGER_INDEX, describe, zeros=not wanted.any)


_ENTRY_TEXT = (
    TextColumn("index", "index", 10),
    TextColumn("term", "term", 6),
    TextColumn("pos", "pos", 14),
    TextColumn("size", "size", 9),
    TextColumn("topic", "topic", 20, right=False),
)
_OFFSETS = ("physical_offsets",)

SPECS = {
    "dledger-data": Spec(_COLUMNS, _ENTRY_TEXT, _OFFSETS, data_items),
    "dledger-index": Spec(
        (*layout_columns(DLEDGER_INDEX), Column("count", "int")), _ENTRY_TEXT[:4], _OFFSETS, index_items
    ),
}
