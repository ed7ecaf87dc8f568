"""Index files: header, hash slots, entries, and the chain of one slot. Reference 4.

Index files of tiered storage: header, slots in use, items; compacted or as they are written. Ref. 1.10.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rocketfsck.cli.dump import item as dump_item
from rocketfsck.cli.dump.fixed import Described, rest_items, unit_items
from rocketfsck.cli.dump.item import DumpFilter, DumpSource, Item
from rocketfsck.cli.output import Column, of_kind
from rocketfsck.cli.show.text import timestamp, visible
from rocketfsck.errors import UsageError
from rocketfsck.formats import indexfile, tiered
from rocketfsck.formats.javatext import index_hash
from rocketfsck.formats.smallfiles import index_filename_time
from rocketfsck.reader.index import read_entry, walk_chain
from rocketfsck.reader.tiered import TieredIndexHeader, read_local_header, read_segment_header
from rocketfsck.store.index_geometry import infer_index_geometry
from rocketfsck.store.model import IndexFile
from rocketfsck.store.places.locations import path_of

_MAGICS = {tiered.TIERED_INDEX_MAGIC_BEGIN: "being written", tiered.TIERED_INDEX_MAGIC_END: "complete"}


def tiered_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The header, the slots in use and the items; where the numbers do not fit the length, the bytes."""
    header = _tiered_header(source)
    if not header.values:
        yield from rest_items(source, 0)
        return
    if not wanted.any:
        note = _MAGICS.get(header.values["magicCode"], "not the magic code of an index file")
        yield dump_item.layout_item("header", tiered.TIERED_INDEX_HEADER, 0, header.values, note)
    if header.shape is None:
        if not wanted.any:
            yield from rest_items(source, tiered.TIERED_INDEX_HEADER.size)
        return
    yield from _content(source, wanted, header)


def _tiered_header(source: DumpSource) -> TieredIndexHeader:
    *_, directory, name = ("", *source.reader.path.split("/"))
    local = directory == "tiered_index_file" and name != tiered.OLD_LOCAL_COMPACTING
    if local and source.store is not None:
        return read_local_header(source.store, source.reader)
    header = read_segment_header(source.reader)
    return TieredIndexHeader(header.values, compacted=False) if local else header


def _content(source: DumpSource, wanted: DumpFilter, header: TieredIndexHeader) -> Iterator[Item]:
    shape = header.shape
    assert shape is not None
    begin = header.values["beginTimestamp"]
    unit = 1 if shape.old else 1000

    def slot(pos: int, values: dict[str, Any]) -> Described:
        number = (pos - tiered.TIERED_INDEX_HEADER.size) // tiered.TIERED_COMPACTED_SLOT.size
        if wanted.slot is not None and number != wanted.slot:
            return None
        if not values["length"] if header.compacted else values["newestItem"] < 0:
            return None
        return "slot", {"slot": number, **values}, ""

    def item(pos: int, values: dict[str, Any]) -> Described:
        number = (pos - shape.items_start) // shape.item_size
        time = begin + values["timeDiff"] * unit
        mine = values["hash"] % shape.slot_count == wanted.slot if wanted.slot is not None else True
        if not (mine and wanted.has_time(time) and wanted.has_offset(values["offset"])):
            return None
        if wanted.queue_id is not None and values["queueId"] != wanted.queue_id:
            return None
        return "item", {"item": number, **values, "storeTime": time}, ""

    slots = tiered.TIERED_COMPACTED_SLOT if header.compacted else tiered.TIERED_INDEX_SLOT
    if not wanted.any or wanted.slot is not None:
        yield from unit_items(
            source,
            slots,
            slot,
            start=tiered.TIERED_INDEX_HEADER.size,
            end=shape.items_start,
            zeros=not wanted.any,
            what="slot",
        )
    items = tiered.TIERED_COMPACTED_ITEM if header.compacted else tiered.TIERED_INDEX_ITEM
    yield from unit_items(
        source, items, item, start=shape.items_start, end=shape.end, zeros=not wanted.any, what="item"
    )
    if not wanted.any:
        yield from rest_items(source, shape.end)


COLUMNS = (
    *dump_item.layout_columns(indexfile.HEADER),
    Column("slot", "int"),
    *dump_item.layout_columns(indexfile.SLOT),
    Column("entry", "int"),
    *dump_item.layout_columns(indexfile.ENTRY),
    *of_kind("int", "timestamp", "count"),
    Column("chainEnd", "text"),
)
TEXT = (
    *dump_item.text_columns(slot=8),
    dump_item.TextColumn("newest", "newestIndex", 9),
    *dump_item.text_columns(entry=9, keyHash=11, phyOffset=14, timeDiff=10, prevIndex=9),
    dump_item.TextColumn("time", "timestamp", 24, render=timestamp),
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
    if source.size < indexfile.INDEX_HEADER_SIZE:
        yield Item("partial", 0, source.size, {}, f"{source.size} bytes, less than a header")
        return
    geometry = index_geometry(source)
    if geometry is None:
        yield from _without_geometry(source, wanted)
        return
    slot_count, entry_count = geometry
    header = indexfile.decode_header(source.read(0, indexfile.INDEX_HEADER_SIZE))
    if wanted.slot is not None:
        yield from _chain(source, wanted, slot_count, header)
        return
    if not wanted.any:
        yield _header(source, _shape(source, slot_count, entry_count))
        slots_end = min(indexfile.entry_pos(0, slot_count), source.size)

        def slot(pos: int, values: dict[str, Any]) -> tuple[str, dict[str, Any], str]:
            return "slot", {"slot": (pos - indexfile.INDEX_HEADER_SIZE) // indexfile.SLOT_SIZE, **values}, ""

        yield from unit_items(
            source, indexfile.SLOT, slot, start=indexfile.INDEX_HEADER_SIZE, end=slots_end, what="slot"
        )
    yield from _entries(source, wanted, slot_count, entry_count, header)


def _without_geometry(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The header; where slots end and entries begin is not known."""
    unknown = "the number of slots and entries is unknown; give --slots and --entries"
    if wanted.any:
        raise UsageError(f"{visible(source.name)}: {unknown}")
    yield _header(source, unknown)
    if source.size > indexfile.INDEX_HEADER_SIZE:
        yield Item("unknown", indexfile.INDEX_HEADER_SIZE, source.size, {}, "slots and entries")


def _shape(source: DumpSource, slot_count: int, entry_count: int) -> str:
    expected = indexfile.index_file_size(slot_count, entry_count)
    fits = "" if expected == source.size else f", which makes {expected} bytes; the file has {source.size}"
    return f"{slot_count} slots and {entry_count} entries{fits}"


def _header(source: DumpSource, note: str) -> Item:
    values = indexfile.HEADER.parse(source.read(0, indexfile.INDEX_HEADER_SIZE))
    return dump_item.layout_item("header", indexfile.HEADER, 0, values, note, block=True)


def _entries(
    source: DumpSource, wanted: DumpFilter, slot_count: int, entry_count: int, header: indexfile.IndexHeader
) -> Iterator[Item]:
    first = indexfile.entry_pos(0, slot_count)
    end = min(indexfile.entry_pos(entry_count, slot_count), source.size)
    wished = _wished_hash(wanted)

    def entry(pos: int, values: dict[str, Any]) -> Described:
        number = (pos - first) // indexfile.ENTRY_SIZE
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
        end = min(end, indexfile.entry_pos(header.entry_count + 1, slot_count))
    for start, stop in _stretches(source, first, end, wished):
        yield from unit_items(
            source,
            indexfile.ENTRY,
            entry,
            start=start,
            end=stop,
            zeros=not wanted.any,
            what="entry",
            plural="entries",
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
    for pos, piece in source.pieces(first, end, indexfile.ENTRY_SIZE):
        at = piece.find(pattern)
        while at >= 0:
            if at % indexfile.ENTRY_SIZE == 0:
                yield pos + at, min(pos + at + indexfile.ENTRY_SIZE, end)
            at = piece.find(pattern, at + 1)


def _wished_hash(wanted: DumpFilter) -> int | None:
    if wanted.topic is None or wanted.key is None:
        return None
    return index_hash(wanted.topic, wanted.key)


def _entry_values(number: int, values: dict[str, Any], slot_count: int, begin: int) -> dict[str, Any]:
    return {
        "slot": indexfile.slot_of(values["keyHash"], slot_count),
        "entry": number,
        **values,
        "timestamp": begin + values["timeDiff"] * 1000,
    }


def _chain(
    source: DumpSource, wanted: DumpFilter, slot_count: int, header: indexfile.IndexHeader
) -> Iterator[Item]:
    """The slot, then its entries from the newest on, then why the chain ends."""
    assert wanted.slot is not None
    if not 0 <= wanted.slot < slot_count:
        raise UsageError(f"--slot: the file has the slots 0 to {slot_count - 1}")
    pos = indexfile.slot_pos(wanted.slot)
    number = indexfile.SLOT.parse(source.read(pos, indexfile.SLOT_SIZE))["newestIndex"]
    yield Item("slot", pos, pos + indexfile.SLOT_SIZE, {"slot": wanted.slot, "newestIndex": number})
    before = None
    for entry in walk_chain(
        number, header.entry_count, lambda number: read_entry(source.reader, number, slot_count)
    ):
        before, number = entry.number, entry.previous
        pos = indexfile.entry_pos(before, slot_count)
        values = indexfile.ENTRY.parse(source.read(pos, indexfile.ENTRY_SIZE))
        shown = _entry_values(before, values, slot_count, header.begin_timestamp)
        note = "" if shown["slot"] == wanted.slot else f"the hash belongs to slot {shown['slot']}"
        if wanted.has_offset(entry.physical_offset) and wanted.has_time(shown["timestamp"]):
            yield Item("entry", pos, pos + indexfile.ENTRY_SIZE, shown, note)
    missing = indexfile.entry_pos(number, slot_count)
    is_cut = 0 < number <= header.entry_count and missing + indexfile.ENTRY_SIZE > source.size
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
    "index": dump_item.Spec(COLUMNS, TEXT, FILTERS, index_items),
    "tiered-index": dump_item.Spec(
        (
            *dump_item.layout_columns(tiered.TIERED_INDEX_HEADER),
            Column("slot", "int"),
            *dump_item.layout_columns(tiered.TIERED_COMPACTED_SLOT),
            *of_kind("int", "newestItem", "item"),
            *dump_item.layout_columns(tiered.TIERED_INDEX_ITEM),
            *of_kind("int", "storeTime", "count"),
        ),
        (
            *dump_item.text_columns(slot=8),
            dump_item.TextColumn("items_pos", "position", 10),
            dump_item.TextColumn("items_size", "length", 10),
            *dump_item.text_columns(item=9, hash=12, topicId=8, queueId=8, offset=14, size=8),
            *dump_item.text_columns(times=("storeTime",), storeTime=24),
        ),
        ("slot", "queue_id", "physical_offsets", "begin", "end"),
        tiered_items,
    ),
}
