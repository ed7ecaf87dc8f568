"""Index files: header, hash slots, entries, and the chain of one slot. Reference 4.

Index files of tiered storage: header, slots in use, items; compacted or as they are written. Ref. 1.10.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rocketfsck.cli.dump.fixed import rest_items, unit_items
from rocketfsck.cli.dump.item import (
    DumpFilter,
    DumpSource,
    Item,
    Spec,
    TextColumn,
    layout_columns,
    layout_spans,
)
from rocketfsck.cli.output import Column
from rocketfsck.cli.show.text import timestamp, visible
from rocketfsck.errors import UsageError
from rocketfsck.formats.indexfile import (
    ENTRY,
    ENTRY_SIZE,
    HEADER,
    INDEX_HEADER_SIZE,
    SLOT,
    SLOT_SIZE,
    IndexHeader,
    decode_header,
    entry_pos,
    index_file_size,
    slot_of,
    slot_pos,
)
from rocketfsck.formats.javatext import index_hash
from rocketfsck.formats.smallfiles import index_filename_time
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
from rocketfsck.reader.index import read_entry, walk_chain
from rocketfsck.reader.tiered import TieredIndexHeader, read_local_header, read_segment_header
from rocketfsck.store.index_geometry import infer_index_geometry
from rocketfsck.store.model import IndexFile
from rocketfsck.store.places.locations import path_of

_MAGICS = {TIERED_INDEX_MAGIC_BEGIN: "being written", TIERED_INDEX_MAGIC_END: "complete"}


def tiered_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The header, the slots in use and the items; where the numbers do not fit the length, the bytes."""
    header = _tiered_header(source)
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


def _tiered_header(source: DumpSource) -> TieredIndexHeader:
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


COLUMNS = (
    *layout_columns(HEADER),
    Column("slot", "int"),
    *layout_columns(SLOT),
    Column("entry", "int"),
    *layout_columns(ENTRY),
    Column("timestamp", "int"),
    Column("count", "int"),
    Column("chainEnd", "text"),
)
TEXT = (
    TextColumn("slot", "slot", 8),
    TextColumn("newest", "newestIndex", 9),
    TextColumn("entry", "entry", 9),
    TextColumn("keyHash", "keyHash", 11),
    TextColumn("phyOffset", "phyOffset", 14),
    TextColumn("timeDiff", "timeDiff", 10),
    TextColumn("prevIndex", "prevIndex", 9),
    TextColumn("time", "timestamp", 24, render=timestamp),
)
FILTERS = ("topic", "key", "slot", "begin", "end", "physical_offsets")
_NEIGHBOURS = 50


def index_geometry(source: DumpSource) -> tuple[int, int] | None:
    """Slots and entries of the file: as given, as its store has them, as its length and bytes allow, or as
    the files next to it have them. None where nothing tells."""
    if source.slot_count is not None and source.entry_count is not None:
        return source.slot_count, source.entry_count
    geometry = source.store.geometry if source.store else None
    if geometry and geometry.index_file_size == source.size:
        return geometry.slot_count, geometry.entry_count
    file = IndexFile(source.reader.path, source.name, source.size, 0, source.reader.allocated_size)
    guess = infer_index_geometry([file], slot_count=source.slot_count, entry_count=source.entry_count)
    if guess.proven and guess.slot_count is not None and guess.entry_count is not None:
        return guess.slot_count, guess.entry_count
    return (geometry.slot_count, geometry.entry_count) if geometry else _neighbours_geometry(source)


def _neighbours_geometry(source: DumpSource) -> tuple[int, int] | None:
    """What the other index files of the directory say, if this one was cut or grew."""
    from rocketfsck.store import identify_file

    path = path_of(source.reader.path)
    for other in sorted(path.parent.iterdir())[:_NEIGHBOURS]:
        if index_filename_time(other.name) is None or other.name == path.name or not other.is_file():
            continue
        found = identify_file(other)
        if found.slot_count is not None and found.entry_count is not None:
            return found.slot_count, found.entry_count
    return None


def index_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """Header, slots and entries in file order; with --slot a chain in its own order."""
    if wanted.topic is not None and wanted.key is None:
        raise UsageError("an index file holds hashes of topic#key, no topics: give --key, too")
    if wanted.key is not None and wanted.topic is None:
        raise UsageError("an index file holds hashes of topic#key: give --topic, too")
    if source.size < INDEX_HEADER_SIZE:
        yield Item("partial", 0, source.size, {}, f"{source.size} bytes, less than a header")
        return
    geometry = index_geometry(source)
    if geometry is None:
        yield from _without_geometry(source, wanted)
        return
    slot_count, entry_count = geometry
    header = decode_header(source.read(0, INDEX_HEADER_SIZE))
    if wanted.slot is not None:
        yield from _chain(source, wanted, slot_count, header)
        return
    if not wanted.any:
        yield _header(source, _shape(source, slot_count, entry_count))
        slots_end = min(entry_pos(0, slot_count), source.size)

        def slot(pos: int, values: dict[str, Any]) -> tuple[str, dict[str, Any], str]:
            return "slot", {"slot": (pos - INDEX_HEADER_SIZE) // SLOT_SIZE, **values}, ""

        yield from unit_items(source, SLOT, slot, start=INDEX_HEADER_SIZE, end=slots_end, what="slot")
    yield from _entries(source, wanted, slot_count, entry_count, header)


def _without_geometry(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The header; where slots end and entries begin is not known."""
    unknown = "the number of slots and entries is unknown; give --slots and --entries"
    if wanted.any:
        raise UsageError(f"{visible(source.name)}: {unknown}")
    yield _header(source, unknown)
    if source.size > INDEX_HEADER_SIZE:
        yield Item("unknown", INDEX_HEADER_SIZE, source.size, {}, "slots and entries")


def _shape(source: DumpSource, slot_count: int, entry_count: int) -> str:
    expected = index_file_size(slot_count, entry_count)
    fits = "" if expected == source.size else f", which makes {expected} bytes; the file has {source.size}"
    return f"{slot_count} slots and {entry_count} entries{fits}"


def _header(source: DumpSource, note: str) -> Item:
    values = HEADER.parse(source.read(0, INDEX_HEADER_SIZE))
    return Item(
        "header", 0, INDEX_HEADER_SIZE, values, note, lambda: layout_spans(HEADER, 0, values), block=True
    )


def _entries(
    source: DumpSource, wanted: DumpFilter, slot_count: int, entry_count: int, header: IndexHeader
) -> Iterator[Item]:
    first = entry_pos(0, slot_count)
    end = min(entry_pos(entry_count, slot_count), source.size)
    wished = _wished_hash(wanted)

    def entry(pos: int, values: dict[str, Any]) -> tuple[str, dict[str, Any], str] | None:
        number = (pos - first) // ENTRY_SIZE
        if wished is not None and values["keyHash"] != wished:
            return None
        shown = _entry_values(number, values, slot_count, header.begin_timestamp)
        if not wanted.has_offset(values["phyOffset"]) or not wanted.has_time(shown["timestamp"]):
            return None
        used = 1 <= number <= header.entry_count
        if wanted.any and not used:
            return None
        return "entry" if used else "unused", shown, "" if used else "not in use"

    if wanted.any:
        end = min(end, entry_pos(header.entry_count + 1, slot_count))
    for start, stop in _stretches(source, first, end, wished):
        yield from unit_items(
            source, ENTRY, entry, start=start, end=stop, zeros=not wanted.any, what="entry", plural="entries"
        )
    if end < source.size and not wanted.any:
        yield Item("surplus", end, source.size, {}, f"{source.size - end} bytes after the last entry")


def _stretches(source: DumpSource, first: int, end: int, wished: int | None) -> Iterator[tuple[int, int]]:
    """The entries to look at: all of them, or each that has a hash, found without decoding the others."""
    if wished is None:
        if first < end:
            yield first, end
        return
    pattern = wished.to_bytes(4, "big", signed=True)
    for pos, piece in source.pieces(first, end, ENTRY_SIZE):
        at = piece.find(pattern)
        while at >= 0:
            if at % ENTRY_SIZE == 0:
                yield pos + at, min(pos + at + ENTRY_SIZE, end)
            at = piece.find(pattern, at + 1)


def _wished_hash(wanted: DumpFilter) -> int | None:
    if wanted.topic is None or wanted.key is None:
        return None
    return index_hash(wanted.topic, wanted.key)


def _entry_values(number: int, values: dict[str, Any], slot_count: int, begin: int) -> dict[str, Any]:
    return {
        "slot": slot_of(values["keyHash"], slot_count),
        "entry": number,
        **values,
        "timestamp": begin + values["timeDiff"] * 1000,
    }


def _chain(source: DumpSource, wanted: DumpFilter, slot_count: int, header: IndexHeader) -> Iterator[Item]:
    """The slot, then its entries from the newest on, then why the chain ends."""
    assert wanted.slot is not None
    if not 0 <= wanted.slot < slot_count:
        raise UsageError(f"--slot: the file has the slots 0 to {slot_count - 1}")
    pos = slot_pos(wanted.slot)
    number = SLOT.parse(source.read(pos, SLOT_SIZE))["newestIndex"]
    yield Item("slot", pos, pos + SLOT_SIZE, {"slot": wanted.slot, "newestIndex": number})
    before = None
    for entry in walk_chain(
        number, header.entry_count, lambda number: read_entry(source.reader, number, slot_count)
    ):
        before, number = entry.number, entry.previous
        pos = entry_pos(before, slot_count)
        values = ENTRY.parse(source.read(pos, ENTRY_SIZE))
        shown = _entry_values(before, values, slot_count, header.begin_timestamp)
        note = "" if shown["slot"] == wanted.slot else f"the hash belongs to slot {shown['slot']}"
        if wanted.has_offset(entry.physical_offset) and wanted.has_time(shown["timestamp"]):
            yield Item("entry", pos, pos + ENTRY_SIZE, shown, note)
    missing = entry_pos(number, slot_count)
    is_cut = 0 < number <= header.entry_count and missing + ENTRY_SIZE > source.size
    pos = missing if is_cut else pos
    reason = _why_ended(number, before, header.entry_count, is_cut=is_cut)
    yield Item("chain-end", pos, pos, {"slot": wanted.slot, "chainEnd": reason}, f"the chain ends: {reason}")


def _why_ended(number: int, before: int | None, used: int, *, is_cut: bool) -> str:
    """Why a walk ends behind entry `before` (None: at the slot), which leads to `number`."""
    link = "the slot is empty" if before is None else f"prevIndex of entry {before} is {number}"
    if number == 0:
        return link
    if not 0 < number <= used:
        said = link if before is not None else f"the slot says {number}"
        return f"{said}, and entries 1 to {used} are in use"
    if is_cut:
        return f"entry {number} would be after the end of the file"
    return f"{link}, which the chain already passed: a cycle"


SPECS = {
    "index": Spec(COLUMNS, TEXT, FILTERS, index_items),
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
        tiered_items,
    ),
}
