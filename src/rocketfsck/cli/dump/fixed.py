"""Files that are one array of equal structures: consume queue units, batch units, DLedger index units.

The unit's layout is `formats`' own; here are its struct code (all integers, big-endian), the folding of runs
of zero units into one item, and what is said of a unit beyond its fields.

Files of one structure or a few lines: checkpoint, timercheck, abort, lock, identity, config JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rocketfsck.cli.dump.item import Item, Spec, TextColumn, field_text, layout_columns, layout_spans
from rocketfsck.cli.dump.source import DumpFilter, DumpSource
from rocketfsck.cli.output import Column
from rocketfsck.cli.show.hexview import Span
from rocketfsck.cli.show.text import count_of
from rocketfsck.errors import FormatError
from rocketfsck.formats.checkpoint import CHECKPOINT

if TYPE_CHECKING:
    from rocketfsck.formats.layout import Layout


TEXT_LIMIT = 1 << 20

TEXT_COLUMNS = (Column("content", "name"),)
CONFIG_COLUMNS = (Column("content", "json"), Column("error", "text"))


def struct_items(source: DumpSource, layout: Layout, kind: str) -> Iterator[Item]:
    """One fixed structure at the start of a file, as far as the file has it, and what comes after it."""
    values: dict[str, Any] = {}
    spans: list[Span] = []
    end = 0
    data = source.read(0, min(source.size, layout.size))
    for declared in layout.fields:
        assert declared.offset is not None and declared.size is not None
        if declared.offset + declared.size > len(data):
            break
        end = declared.offset + declared.size
        value = int.from_bytes(data[declared.offset : end], "big", signed=True)
        values[declared.name] = value
        spans.append(Span(declared.name, declared.offset, end, field_text(declared, value)))
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
    yield from struct_items(source, CHECKPOINT, "checkpoint")


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
    from rocketfsck.formats.smallfiles import decode_epochs

    data = source.read(0, min(source.size, TEXT_LIMIT))
    try:
        entries = decode_epochs(data).entries
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


SPECS = {
    "epoch": Spec(
        (
            Column("epoch", "int"),
            Column("startOffset", "int"),
            Column("endOffset", "int"),
            Column("content", "name"),
            Column("error", "text"),
        ),
        (
            TextColumn("epoch", "epoch", 8),
            TextColumn("startOffset", "startOffset", 16),
            TextColumn("endOffset", "endOffset", 16),
        ),
        (),
        epoch_items,
    ),
    "checkpoint": Spec(layout_columns(CHECKPOINT), (), (), checkpoint_items),
    "config": Spec(CONFIG_COLUMNS, (), (), config_items),
    "raw": Spec((), (), (), raw_items),
    "text": Spec(TEXT_COLUMNS, (), (), text_items),
}


_NOT_ZERO = re.compile(rb"[^\0]")

Describe = Callable[[int, dict[str, Any]], "tuple[str, dict[str, Any], str] | None"]
"""From a unit's position and fields to its item's kind, values and note; None leaves it out."""


def unit_items(
    source: DumpSource,
    layout: Layout,
    describe: Describe,
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
    return lambda: layout_spans(layout, start, values, texts=texts)
