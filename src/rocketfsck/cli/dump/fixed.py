"""Files that are one array of equal structures: consume queue units, batch units, DLedger index units.

The unit's layout is `formats`' own; here are its struct code (all integers, big-endian), the folding of runs
of zero units into one item, and what is said of a unit beyond its fields.

Files of one structure or a few lines: checkpoint, timercheck, abort, lock, identity, config JSON.

Consume queues: 20-byte units, 46-byte batch units, and the extension's units. Reference 3.

DLedger's log and its index: entry headers with the commit log records in them. Reference 2.14.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rocketfsck.cli.dump import item as dump_item
from rocketfsck.cli.dump.item import DumpFilter, DumpSource, Item
from rocketfsck.cli.dump.records import record_spans
from rocketfsck.cli.output import Column, of_kind
from rocketfsck.cli.show.text import count_of, timestamp
from rocketfsck.errors import FormatError
from rocketfsck.formats import checkpoint, consumequeue, dledger, properties, smallfiles, timer
from rocketfsck.formats.layout import Layout, shown_unit_name

TEXT_LIMIT = 1 << 20

TEXT_COLUMNS = (Column("content", "name"),)
CONFIG_COLUMNS = (Column("content", "json"), Column("error", "text"))


def struct_items(source: DumpSource, layout: Layout, kind: str) -> Iterator[Item]:
    """One fixed structure at the start of a file, as far as the file has it, and what comes after it."""
    values: dict[str, Any] = {}
    spans: list[dump_item.Span] = []
    end = 0
    data = source.read(0, min(source.size, layout.size))
    for declared in layout.fields:
        assert declared.offset is not None and declared.size is not None
        if declared.offset + declared.size > len(data):
            break
        end = declared.offset + declared.size
        value = int.from_bytes(data[declared.offset : end], "big", signed=True)
        values[declared.name] = value
        spans.append(
            dump_item.Span(declared.name, declared.offset, end, dump_item.field_text(declared, value))
        )
    if values:
        yield Item(kind, 0, end, values, "", lambda: spans, block=True)
    if end < min(source.size, layout.size):
        stop = min(source.size, layout.size)
        yield Item("partial", end, stop, {}, f"{stop - end} bytes, less than a field")
        end = stop
    if end < source.size:
        yield from rest_items(source, end)


def checkpoint_items(source: DumpSource, _wanted: DumpFilter) -> Iterator[Item]:
    """The store's checkpoint: five longs, of which older brokers write three or four."""
    yield from struct_items(source, checkpoint.CHECKPOINT, "checkpoint")


def rest_items(source: DumpSource, start: int, what: str = "bytes that mean nothing here") -> Iterator[Item]:
    """What is in a file where nothing should be: zeros, and other bytes."""
    pos = start
    while pos < source.size:
        zero = source.zero_until(pos, source.size)
        if zero > pos:
            yield Item("zero", pos, zero, {}, f"{zero - pos} bytes of zeros")
            pos = zero
            continue
        end = pos
        while end < source.size:
            piece = source.read(end, min(4096, source.size - end))
            at = piece.find(b"\0" * 16)
            end += len(piece) if at < 0 else at
            if at >= 0:
                break
        yield Item("unknown", pos, end, {}, f"{end - pos} {what}")
        pos = end


def raw_items(source: DumpSource, _wanted: DumpFilter) -> Iterator[Item]:
    """A file of no known kind: where it holds zeros and where something else. --hex shows what."""
    yield from rest_items(source, source.first_pos, "bytes of no known structure")


def text_items(source: DumpSource, _wanted: DumpFilter) -> Iterator[Item]:
    """A file of text: abort (a process id), lock, brokerIdentity, and others alike."""
    data = source.read(0, min(source.size, TEXT_LIMIT))
    yield Item("text", 0, len(data), {"content": data}, block=True)
    if len(data) < source.size:
        yield Item("unknown", len(data), source.size, {}, f"{source.size - len(data)} more bytes not shown")


def config_items(source: DumpSource, _wanted: DumpFilter) -> Iterator[Item]:
    """A JSON config as the broker reads it, and what comes after it or is wrong with it."""
    from rocketfsck.formats.config import valid_prefix
    from rocketfsck.reader.configs import CONFIG_LIMIT

    if source.size > CONFIG_LIMIT:
        yield Item("unknown", 0, source.size, {}, f"{source.size} bytes are too many for a config")
        return
    data = source.read(0, source.size)
    try:
        content, end = valid_prefix(data)
    except FormatError as error:
        said = str(error)
        yield Item("unreadable", 0, source.size, {"error": said}, f"not JSON that a broker reads: {said}")
        return
    rest = data[end:]
    blanks = len(rest) - len(rest.lstrip(b" \t\r\n"))
    yield Item("config", 0, end + blanks, {"content": content}, block=True)
    if end + blanks < source.size:
        note = f"{source.size - end - blanks} bytes after the JSON: a broker cannot read this file"
        yield Item("garbage", end + blanks, source.size, {"error": note}, note)


def epoch_items(source: DumpSource, _wanted: DumpFilter) -> Iterator[Item]:
    """`epochFileCheckpoint`: their number, a CRC, then a line an epoch; judged as a broker does."""
    data = source.read(0, min(source.size, TEXT_LIMIT))
    try:
        entries = smallfiles.decode_epochs(data).entries
    except FormatError as error:
        said = str(error)
        yield Item(
            "unreadable",
            0,
            len(data),
            {"content": data, "error": said},
            f"not an epoch file: {said}",
            block=True,
        )
    else:
        ends = [entry.start_offset for entry in entries[1:]] + [None]
        pos = 0
        for number, line in enumerate(data.splitlines(keepends=True)):
            start, pos = pos, pos + len(line)
            if number < 2:
                name = ("count", "crc")[number]
                yield Item(name, start, pos, {"content": line.strip()}, f"{name} {line.strip().decode()}")
                continue
            entry, end = entries[number - 2], ends[number - 2]
            values = {"epoch": entry.epoch, "startOffset": entry.start_offset, "endOffset": end}
            yield Item("epoch", start, pos, values)
    if len(data) < source.size:
        yield Item("unknown", len(data), source.size, {}, f"{source.size - len(data)} more bytes not shown")


_NOT_ZERO = re.compile(rb"[^\0]")

Described = tuple[str, dict[str, Any], str] | None
"""A unit's kind, values and note; None leaves it out."""


def unit_items(
    source: DumpSource,
    layout: Layout,
    describe: Callable[[int, dict[str, Any]], Described],
    *,
    start: int = 0,
    end: int | None = None,
    zeros: bool = True,
    what: str = "unit",
    plural: str | None = None,
) -> Iterator[Item]:
    """The units in `start:end` of a file as items; with `zeros` also runs of zero units and what is left.

    Units before the source's `first_pos` are left out.
    """
    end = source.size if end is None else end
    unit = layout.packer()
    names = [item.name for item in layout.fields]
    nothing = bytes(unit.size)
    pos = start + max(source.first_pos - start, 0) // unit.size * unit.size
    while end - pos >= unit.size:
        step = max((1 << 16) // unit.size, 1) * unit.size
        piece = source.read(pos, min(step, (end - pos) // unit.size * unit.size))
        taken = 0
        while taken < len(piece):
            at = pos + taken
            if piece.startswith(nothing, taken):
                other = _NOT_ZERO.search(piece, taken)  # no look at the file for every short run
                zero = pos + other.start() if other else source.zero_until(pos + len(piece), end)
                zero_end = at + (zero - at) // unit.size * unit.size
                if zeros:
                    yield zero_item(at, zero_end, unit.size, what, plural)
                taken = zero_end - pos
                continue
            values = dict(zip(names, unit.unpack_from(piece, taken), strict=True))
            taken += unit.size
            said = describe(at, values)
            if said is not None:
                kind, shown, note = said
                yield Item(kind, at, at + unit.size, shown, note, _spans(layout, at, values, note))
        pos += taken
    if pos < end and zeros:
        yield Item("partial", pos, end, {}, f"{end - pos} bytes, less than a {what}")


def zero_item(start: int, end: int, unit_size: int, what: str, plural: str | None = None) -> Item:
    """A run of zero units."""
    number = (end - start) // unit_size
    return Item("zero", start, end, {"count": number}, f"{count_of(number, what, plural)} of zeros")


def _spans(layout: Layout, start: int, values: Mapping[str, Any], note: str) -> Callable[[], list[Any]]:
    texts = {layout.fields[-1].name: f"{values[layout.fields[-1].name]}  {note}".rstrip()} if note else None
    return lambda: dump_item.layout_spans(layout, start, values, texts=texts)


QUEUE_COLUMNS = (Column("topic", "name"), Column("queueId", "int"))
UNIT_COLUMNS = (
    *QUEUE_COLUMNS,
    Column("queueOffset", "int"),
    *dump_item.layout_columns(consumequeue.UNIT),
    *of_kind("int", "extOffset", "count"),
)
UNIT_TEXT = dump_item.text_columns(queueOffset=12, offset=14, size=10, tagsCode=20)
UNIT_FILTERS = ("topic", "queue_id", "tag", "physical_offsets", "queue_offsets")

BATCH_COLUMNS = (*QUEUE_COLUMNS, *dump_item.layout_columns(consumequeue.BATCH_UNIT), Column("count", "int"))
_TIMES = ("storeTime", "msgStoreTime")
BATCH_TEXT = (
    *dump_item.text_columns(msgBaseOffset=13, batchSize=9, offset=14, size=10, tagsCode=20),
    *dump_item.text_columns(times=_TIMES, storeTime=24, compactedOffset=15),
)
BATCH_FILTERS = (*UNIT_FILTERS, "begin", "end")

EXT_COLUMNS = (*QUEUE_COLUMNS, Column("extOffset", "int"), *dump_item.layout_columns(consumequeue.EXT_UNIT))
EXT_TEXT = dump_item.text_columns(
    times=_TIMES, extOffset=12, size=6, tagsCode=12, msgStoreTime=24, bitMapSize=10
)
_EXT_UNIT_LIMIT = 1 << 15  # its size is an i16
_EXT_PIECE_SIZE = 1 << 20
EXT_FILTERS = ("topic", "queue_id", "tag", "begin", "end")


def _whose(source: DumpSource) -> dict[str, Any]:
    return {"topic": source.topic, "queueId": source.queue_id}


def consumequeue_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The units of a consume queue file; `queueOffset` follows from the file's name and the position."""
    code = None if wanted.tag is None else properties.tags_code(wanted.tag)
    whose = _whose(source)
    blank = consumequeue.UNIT.parse(consumequeue.PRE_BLANK_UNIT)

    def describe(pos: int, values: dict[str, Any]) -> Described:
        queue_offset = (source.start_offset + pos) // consumequeue.UNIT_SIZE
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

    yield from unit_items(source, consumequeue.UNIT, describe, zeros=not wanted.any)


def _tags_note(source: DumpSource, shown: dict[str, Any]) -> str:
    code = shown["tagsCode"]
    if consumequeue.is_ext_address(code):
        shown["extOffset"] = consumequeue.ext_offset(code)
        return f"ext unit at {shown['extOffset']}"
    return f"deliver at {timestamp(code)}" if source.topic == timer.SCHEDULE_TOPIC and code > 0 else ""


def batch_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The units of a batch consume queue, or of a compaction queue."""
    code = None if wanted.tag is None else properties.tags_code(wanted.tag)
    whose = _whose(source)
    end_mark = consumequeue.BATCH_UNIT.parse(consumequeue.SPARSE_END_UNIT)

    def describe(_pos: int, values: dict[str, Any]) -> Described:
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

    yield from unit_items(source, consumequeue.BATCH_UNIT, describe, zeros=not wanted.any)


def ext_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The units of a consume queue extension file, found by their sizes from its start."""
    code = None if wanted.tag is None else properties.tags_code(wanted.tag)
    whose = _whose(source)
    pos = piece_pos = source.first_pos
    piece = b""
    while pos < source.size:
        if pos + _EXT_UNIT_LIMIT > piece_pos + len(piece) < source.size:
            piece_pos, piece = pos, source.read(pos, min(_EXT_PIECE_SIZE, source.size - pos))
        data = piece[pos - piece_pos : pos - piece_pos + _EXT_UNIT_LIMIT]
        zero = source.zero_until(pos, source.size) if data.startswith(b"\0\0") else pos
        if zero - pos >= consumequeue.EXT_UNIT_MIN_SIZE or zero == source.size:
            if not wanted.any:
                yield Item("zero", pos, zero, {}, f"{zero - pos} bytes of zeros")
            pos = piece_pos = zero
            piece = b""
            continue
        try:
            unit = consumequeue.decode_ext_unit(data)
        except FormatError as error:
            if not wanted.any:
                yield Item("unknown", pos, source.size, {}, f"no unit: {error}")
            return
        if unit is None:
            if not wanted.any:
                yield Item("end", pos, pos + len(consumequeue.EXT_END_MARK), {}, "end of this file's units")
            pos += len(consumequeue.EXT_END_MARK)
            continue
        values = consumequeue.EXT_UNIT.parse(data)
        if wanted.has_time(unit.msg_store_time) and (code is None or unit.tags_code == code):
            shown = {**whose, "extOffset": source.start_offset + pos, **values}
            yield Item("unit", pos, pos + unit.size, shown, "", _ext_spans(pos, values))
        pos += unit.size


def _ext_spans(start: int, values: dict[str, Any]) -> Any:
    texts = {"filterBitMap": values["filterBitMap"].hex()}
    return lambda: dump_item.layout_spans(consumequeue.EXT_UNIT, start, values, texts=texts)


_NAMES = {
    dledger.MAGIC_NORMAL: "normal",
    dledger.MAGIC_NOOP: "no-op",
    dledger.MAGIC_CONFIG_CHANGE: "config change",
}
_COLUMNS = (
    *dump_item.layout_columns(dledger.DLEDGER_ENTRY),
    Column("topic", "name"),
    Column("physicalOffset", "int"),
)


def data_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The entries, as long as their headers make sense; then what is left."""
    pos = source.first_pos
    while source.size - pos >= dledger.DLEDGER_BLANK.size:
        blank = dledger.DLEDGER_BLANK.parse(source.read(pos, dledger.DLEDGER_BLANK.size))
        if blank["magic"] == dledger.MAGIC_BLANK:
            note = f"end of the file's entries, {blank['size']} bytes left"
            if not wanted.any:
                yield dump_item.layout_item("blank", dledger.DLEDGER_BLANK, pos, blank, note)
            pos += dledger.DLEDGER_BLANK.size
            break
        if source.size - pos < dledger.ENTRY_HEADER_SIZE:
            break
        values = dledger.DLEDGER_ENTRY.parse(source.read(pos, dledger.ENTRY_HEADER_SIZE))
        size = values["size"]
        sound = values["magic"] in _NAMES and values["bodyLen"] == size - dledger.ENTRY_HEADER_SIZE >= 0
        if not sound or pos + size > source.size:
            break
        if wanted.has_offset(source.start_offset + pos, source.start_offset + pos + size):
            yield _entry(source, wanted, pos, values)
        pos += size
    if not wanted.any:
        yield from rest_items(source, pos)


def _entry(source: DumpSource, wanted: DumpFilter, pos: int, values: dict[str, Any]) -> Item:
    end = pos + values["size"]
    shown = dict(values)
    note = _NAMES[values["magic"]]
    if values["pos"] != source.start_offset + pos:
        note += f", says it is at {values['pos']}"
    body = record_spans(source, pos + dledger.ENTRY_HEADER_SIZE, end, wanted.body)
    for span in body:
        if span.name == "topic":
            shown["topic"] = source.read(span.start, span.end - span.start)
        elif span.name == "physicalOffset":
            shown["physicalOffset"] = int(span.text)

    def spans() -> list[dump_item.Span]:
        return [*dump_item.layout_spans(dledger.DLEDGER_ENTRY, pos, values), *body]

    return Item("entry", pos, end, shown, note, spans)


def index_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The index's units; the entry number follows from the place, too."""

    def describe(pos: int, values: dict[str, Any]) -> Described:
        if not wanted.has_offset(values["pos"]):
            return None
        number = (source.start_offset + pos) // dledger.INDEX_UNIT_SIZE
        note = "" if number == values["index"] else f"at the place of entry {number}"
        return "unit", values, note

    yield from unit_items(source, dledger.DLEDGER_INDEX, describe, zeros=not wanted.any)


_ENTRY_TEXT = dump_item.text_columns(left=("topic",), index=10, term=6, pos=14, size=9, topic=20)
_OFFSETS = ("physical_offsets",)


SPECS = {
    "consumequeue": dump_item.Spec(
        UNIT_COLUMNS, UNIT_TEXT, UNIT_FILTERS, consumequeue_items, shown_unit_name
    ),
    "batchconsumequeue": dump_item.Spec(
        BATCH_COLUMNS, BATCH_TEXT, BATCH_FILTERS, batch_items, shown_unit_name
    ),
    "consumequeue-ext": dump_item.Spec(EXT_COLUMNS, EXT_TEXT, EXT_FILTERS, ext_items),
    "dledger-data": dump_item.Spec(_COLUMNS, _ENTRY_TEXT, _OFFSETS, data_items),
    "dledger-index": dump_item.Spec(
        (*dump_item.layout_columns(dledger.DLEDGER_INDEX), Column("count", "int")),
        _ENTRY_TEXT[:4],
        _OFFSETS,
        index_items,
    ),
    "epoch": dump_item.Spec(
        (*of_kind("int", "epoch", "startOffset", "endOffset"), *TEXT_COLUMNS, Column("error", "text")),
        dump_item.text_columns(epoch=8, startOffset=16, endOffset=16),
        (),
        epoch_items,
    ),
    "checkpoint": dump_item.Spec(dump_item.layout_columns(checkpoint.CHECKPOINT), (), (), checkpoint_items),
    "config": dump_item.Spec(CONFIG_COLUMNS, (), (), config_items),
    "raw": dump_item.Spec((), (), (), raw_items),
    "text": dump_item.Spec(TEXT_COLUMNS, (), (), text_items),
}
