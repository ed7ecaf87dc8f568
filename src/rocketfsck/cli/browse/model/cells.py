"""Rows as text: the columns of a kind of file, as wide as what is shown of it, every value printable.

One row in full: what was found about it, and its bytes next to the names of their fields.

    00000000  00 00 00 9a              |....    | size = 154
    00000004  da a3 20 a7              |.. .    | magic_code = 0xdaa320a7

The number of lines follows from the fields alone; bytes are read when their lines are shown, so that a body
of a gigabyte is as quick as a byte. A row of a database has values in place of bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from rocketfsck.cli.browse.model.files import MARKS, OpenFile
from rocketfsck.cli.dump.item import Item, value_text
from rocketfsck.cli.show.hexview import Span, tile
from rocketfsck.cli.show.text import count_of, pad, shorten, visible, width
from rocketfsck.progress import go_on

if TYPE_CHECKING:
    from rocketfsck.cli.browse.model.findings import Findings, Placed


TEXT_LIMIT = 4_096
MOST_SPANS = 100_000
"""More fields than a record's 32 KiB of properties can make."""


class Fields:
    """The lines of one row, by number. Made in a worker thread: the fields' values are read then."""

    def __init__(
        self, file: OpenFile, item: Item, findings: Sequence[Placed] = (), *, line_size: int = 8
    ) -> None:
        self.file = file
        self.item = item
        self.line_size = line_size
        self.head = [f"{placed.mark} {shorten(placed.title, TEXT_LIMIT)}" for placed in findings]
        self.spans: list[Span] = []
        if file.source.database is not None:
            self.head += [f"{name} = {_said(value)}" for name, value in item.values.items()]
        else:
            given = item.spans() if item.spans is not None else ()
            self.spans = list(tile(given, item.start, item.end))[:MOST_SPANS]
        self._ends = list(accumulate(map(self._line_count, self.spans), initial=len(self.head)))
        self._digits = max(8, len(f"{item.end:x}"))

    @property
    def count(self) -> int:
        """How many lines there are."""
        return self._ends[-1]

    def _line_count(self, span: Span) -> int:
        return 1 if span.hidden else -(-(span.end - span.start) // self.line_size)

    def lines(self, first: int, end: int) -> list[str]:
        """The lines `first:end`, printable. Raises StoreError when bytes cannot be read."""
        found = self.head[first:end]
        number = max(first, len(self.head))
        at = bisect_right(self._ends, number) - 1
        while number < end and at < len(self.spans):
            go_on()
            span, begin = self.spans[at], self._ends[at]
            last = min(end, self._ends[at + 1])
            found += self._span_lines(span, number - begin, last - begin)
            number = last
            at += 1
        return found

    def line_of(self, pos: int) -> int:
        """The number of the line that shows the byte at `pos` of the file."""
        for number, span in enumerate(self.spans):
            if span.start <= pos < span.end:
                return self._ends[number] + (0 if span.hidden else (pos - span.start) // self.line_size)
        return 0

    def _span_lines(self, span: Span, first: int, end: int) -> list[str]:
        if span.hidden:
            size = span.end - span.start
            return [self._line(span.start, f"({count_of(size, 'byte')} hidden: b)", "", span.name)]
        low = span.start + first * self.line_size
        data = self.file.source.read(low, min(span.start + end * self.line_size, span.end) - low)
        label = f"{span.name} = {shorten(span.text, TEXT_LIMIT)}" if span.text else span.name
        found = []
        for number in range(first, end):
            at = (number - first) * self.line_size
            piece = data[at : at + self.line_size]
            shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
            found.append(self._line(low + at, piece.hex(" "), shown, "" if number else label))
        return found

    def _line(self, pos: int, middle: str, shown: str, label: str) -> str:
        wide = 3 * self.line_size
        return f"{pos:0{self._digits}x}  {middle:<{wide}}|{shown:<{self.line_size}}| {label}".rstrip()


def _said(value: object) -> str:
    return shorten("-" if value is None else visible(value_text(value), keep_backslash=True), TEXT_LIMIT)


CELL_LIMIT = 40
NOTE_LIMIT = 400


class Table:
    """The rows of a window: `title` is the line above them, `lines` one for each row."""

    def __init__(self, file: OpenFile, items: Sequence[Item], findings: Findings | None) -> None:
        columns = file.kind.text
        texts = [[shorten(column.cell(item), CELL_LIMIT) for column in columns] for item in items]
        widths = [
            max(width(column.title), *(width(row[number]) for row in texts), 0) if texts else 0
            for number, column in enumerate(columns)
        ]
        at = "row" if file.source.database is not None else "byte"
        digits = max([len(at), *(len(str(item.start)) for item in items)])
        cells = (
            pad(column.title, size, right=column.right) for column, size in zip(columns, widths, strict=True)
        )
        self.title = f"  {at:>{digits}}  {'  '.join(cells)}".rstrip()
        self.lines: list[str] = []
        for item, row in zip(items, texts, strict=True):
            worst = None if findings is None else findings.worst(file.row.key, item.start, item.end)
            mark = " " if worst is None else MARKS[worst]
            note = shorten(visible(item.note, keep_backslash=True), NOTE_LIMIT)
            if any(row):
                cells = (
                    pad(cell, size, right=column.right)
                    for cell, column, size in zip(row, columns, widths, strict=True)
                )
                said = "  ".join((*cells, note)).rstrip()
            else:
                said = f"-- {item.kind}{f': {note}' if note else ''}{_block(item)}"
            self.lines.append(f"{mark} {item.start:>{digits}}  {said}")


def _block(item: Item) -> str:
    """The values of what is shown in a block of its own elsewhere, in a line."""
    said = " ".join(f"{name}={value_text(value)}" for name, value in item.values.items() if value is not None)
    return f" {shorten(visible(said, keep_backslash=True), NOTE_LIMIT)}" if item.block else ""
