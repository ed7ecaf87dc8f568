"""Items as text: aligned rows under a header, notes for what is not a row, or bytes next to their fields."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from rocketfsck.cli.dump.item import Span, hex32, hex_lines
from rocketfsck.cli.output import NAMES
from rocketfsck.cli.show.text import pad, sentence, shorten, table_columns, timestamp, visible

if TYPE_CHECKING:
    from rocketfsck.cli.dump.item import DumpSource, Item, Kind
    from rocketfsck.cli.show.text import Palette

BODY_SHOWN = 200
CELL_SHOWN = 80


def heading(source: DumpSource, kind: Kind, palette: Palette) -> str:
    """The line above a file's items."""
    of = ""
    if source.topic is not None:
        of = f", topic {visible(source.topic)}" + (
            "" if source.queue_id is None else f" queue {source.queue_id}"
        )
    start = f", from offset {source.start_offset}" if source.start_offset else ""
    return palette.bold(f"{visible(source.name)}: {kind.title}{of}, {source.size} bytes{start}")


class TextRenderer:
    """Turns items into lines; the columns' header comes before the first row of each run of rows."""

    def __init__(self, kind: Kind, palette: Palette, *, verbose: bool, body: bool) -> None:
        self._kind = kind
        self._palette = palette
        self._verbose = verbose
        self._body = body
        self._header_due = True
        self._shown = _shown_count([column.width for column in kind.text])

    def lines(self, item: Item) -> Iterator[str]:
        row = [column.cell(item) for column in self._kind.text]
        if item.block or (self._verbose and item.values):
            yield from self._block(item)
        elif any(row):
            if self._header_due:
                yield self._palette.dim(self._row([column.title for column in self._kind.text]))
                self._header_due = False
            line = self._row([shorten(cell, CELL_SHOWN) for cell in row])
            yield f"{line}  {self._note(item)}" if item.note else line
        else:
            yield self._aside(item)
        if self._body and item.kind == "record":
            yield from _body_lines(item.values)

    def _row(self, cells: list[str]) -> str:
        padded = (
            pad(cell, column.width, right=column.right)
            for cell, column in zip(cells[: self._shown], self._kind.text, strict=False)
        )
        return "  ".join(padded).rstrip()

    def _note(self, item: Item) -> str:
        text = sentence(item.note)
        return self._palette.warning(text) if "odd: " in text else self._palette.dim(text)

    def _aside(self, item: Item) -> str:
        note = sentence(item.note)
        text = f"-- bytes {item.start} to {item.end}: {item.kind}{f', {note}' if note else ''}"
        return self._palette.warning(text) if item.kind in _ODD_KINDS else self._palette.dim(text)

    def _block(self, item: Item) -> Iterator[str]:
        note = f"  {sentence(item.note)}" if item.note else ""
        yield self._palette.dim(f"-- bytes {item.start} to {item.end}: {item.kind}{note}")
        shown = {name: value for name, value in item.values.items() if not (name in NAMES and self._body)}
        broad = max(map(len, shown), default=0)
        for name, value in shown.items():
            first, *others = value_lines(name, value)
            yield f"  {name:<{broad}}  {first}".rstrip()
            yield from (f"  {'':<{broad}}  {line}" for line in others)


def _shown_count(widths: Sequence[int]) -> int:
    """How many columns of these widths the terminal has room for."""
    limit = table_columns()
    ends = accumulate((size + 2 for size in widths), initial=-2)
    return len(widths) if limit is None else max(sum(end <= limit for end in ends) - 1, 1)


_ODD_KINDS = frozenset(
    {"torn", "malformed", "damaged", "partial", "unknown", "garbage", "unreadable", "surplus"}
)


def value_lines(name: str, value: Any) -> list[str]:
    """A value of a block, one or more printable lines."""
    if isinstance(value, bool) or value is None:
        return ["-" if value is None else str(value).lower()]
    if isinstance(value, int) and name == "magic_code":
        return [f"{hex32(value)} ({value})"]
    if isinstance(value, int):
        return [f"{value}  {timestamp(value)}" if value > 0 and _is_time(name) else str(value)]
    if isinstance(value, (str, bytes)):
        return [visible(value)]
    if isinstance(value, Mapping) and all(isinstance(item, str) for item in value.values()):
        return [f"{visible(str(key))} = {visible(item)}" for key, item in value.items()] or ["-"]
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return [" ".join(map(visible, value)) or "-"]
    return config_lines(value)


def _is_time(name: str) -> bool:
    return name.endswith("timestamp")


def config_lines(value: Any) -> list[str]:
    """A JSON value, indented, every line printable."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return [sentence(line) for line in text.split("\n")]


def _body_lines(values: Mapping[str, Any]) -> Iterator[str]:
    if values.get("body_note"):
        yield f"    body: {sentence(values['body_note'])}"
    body = values.get("body_decoded") or values.get("body_hex") or values.get("body")
    if body is None:
        return
    yield "    body: " + shorten(visible(body[: BODY_SHOWN * 4]), BODY_SHOWN)


def hex_item_lines(source: DumpSource, item: Item, palette: Palette) -> Iterator[str]:
    """The item's bytes with its fields next to them; what is not a structure has only its kind there."""
    note = f"  {sentence(item.note)}" if item.note else ""
    yield palette.bold(f"{item.kind}") + palette.dim(f"  bytes {item.start} to {item.end}{note}")
    spans: Iterable[Span] = item.spans() if item.spans else [Span(item.kind, item.start, item.end)]
    yield from hex_lines(source.read, spans, item.start, item.end, "  ", zero_until=source.zero_until)
