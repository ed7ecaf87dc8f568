"""Rows as text: the columns of a kind of file, as wide as what is shown of it, every value printable.

One row in full: what was found about it, and its bytes next to the names of their fields.

    00000000  00 00 00 9a              |....    | size = 154
    00000004  da a3 20 a7              |.. .    | magic_code = 0xdaa320a7

A field that a finding names has the finding's mark before its name. What is longer than a line continues in
the next one. The number of lines follows from the fields alone; bytes are read when their lines are shown, so
that a body of a gigabyte is as quick as a byte. A row of a database has values in place of bytes.

Which fields of a row a finding is about: those of its bytes, or, where these are the row, by name.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from rocketfsck.cli.browse.model.files import MARKS, OpenFile
from rocketfsck.cli.dump.item import Item, Span, tile, value_text
from rocketfsck.cli.show.text import count_of, pad, sentence, shorten, width
from rocketfsck.progress import go_on
from rocketfsck.verify.finding import Severity

if TYPE_CHECKING:
    from rocketfsck.cli.browse.model.findings import Findings, Placed

FIELD_OF_FACT = {"crc": "body_crc", "stated_physical_offset": "physical_offset"}
FIELD_OF_FACT |= {name: name for name in ("sys_flag", "magic_code")}
"""Facts of findings that are the value of a field, and the field."""
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def wrong_fields(item: Item, spans: Sequence[Span], findings: Iterable[Placed]) -> dict[int, Severity]:
    """The numbers of the fields that findings are about, each with the worst severity."""
    wrong: dict[int, Severity] = {}
    for placed in findings:
        for number in _named(item, spans, placed):
            wrong[number] = max(placed.severity, wrong.get(number, Severity.INFO))
    return wrong


def _named(item: Item, spans: Sequence[Span], placed: Placed) -> Iterator[int]:
    where = placed.finding.where
    is_exact = where.start is not None and where.end is not None
    is_part = placed.start >= item.start and placed.end <= item.end
    is_whole = placed.start <= item.start and placed.end >= item.end
    if is_exact and is_part and not is_whole:
        yield from (n for n, span in enumerate(spans) if placed.start < span.end and span.start < placed.end)
        return
    names = set(_names(placed))
    yield from (n for n, span in enumerate(spans) if span.name in names)


def _names(placed: Placed) -> Iterator[str]:
    found = placed.finding.found
    yield from (field for fact, field in FIELD_OF_FACT.items() if fact in found)
    if "field" in found:
        yield _CAPITAL.sub("_", str(found["field"])).lower()


TEXT_LIMIT = 4_096
LEAST_LABEL = 16
MOST_SPANS = 100_000
"""More fields than a record's 32 KiB of properties can make."""


class Fields:
    """The lines of one row, by number. Made in a worker thread: the fields' values are read then.

    Lines have at most so many `columns`, None breaks none of them. A position has so many `digits`.
    """

    def __init__(
        self,
        file: OpenFile,
        item: Item,
        findings: Sequence[Placed] = (),
        *,
        line_size: int = 8,
        columns: int | None = None,
    ) -> None:
        self.file = file
        self.item = item
        self.line_size = line_size
        self.digits = max(8, len(f"{item.end:x}"))
        self._label_column = self.digits + 4 * line_size + 5
        self._label_width = None if columns is None else max(columns - self._label_column, LEAST_LABEL)
        self.head: list[str] = []
        self._head_severities: list[Severity | None] = []
        for placed in findings:
            self._add_head(f"{placed.mark} {shorten(placed.title, TEXT_LIMIT)}", columns, placed.severity)
        self.spans: list[Span] = []
        if file.source.database is not None:
            for name, value in item.values.items():
                self._add_head(f"{name} = {_said(value)}", columns)
        else:
            given = item.spans() if item.spans is not None else ()
            self.spans = list(tile(given, item.start, item.end))[:MOST_SPANS]
        self.wrong = wrong_fields(item, self.spans, findings)
        counts = (self._line_count(number) for number in range(len(self.spans)))
        self._ends = list(accumulate(counts, initial=len(self.head)))

    def _add_head(self, text: str, columns: int | None, severity: Severity | None = None) -> None:
        lines = broken(text, columns, indent="  ")
        self.head += lines
        self._head_severities += [severity] * len(lines)

    @property
    def count(self) -> int:
        """How many lines there are."""
        return self._ends[-1]

    def _byte_lines(self, span: Span) -> int:
        return 1 if span.hidden else -(-(span.end - span.start) // self.line_size)

    def _line_count(self, number: int) -> int:
        return max(self._byte_lines(self.spans[number]), len(self._labels(number)))

    def _labels(self, number: int) -> list[str]:
        """What is next to the bytes of a field, in lines."""
        span = self.spans[number]
        text = f"{span.name} = {shorten(span.text, TEXT_LIMIT)}" if span.text else span.name
        if number in self.wrong:
            text = f"{MARKS[self.wrong[number]]} {text}"
        return broken(text, self._label_width)

    def lines(self, first: int, end: int) -> list[str]:
        """The lines `first:end`, printable. Raises StoreError when bytes cannot be read."""
        found = self.head[first:end]
        number = max(first, len(self.head))
        at = bisect_right(self._ends, number) - 1
        while number < end and at < len(self.spans):
            go_on()
            begin = self._ends[at]
            last = min(end, self._ends[at + 1])
            found += self._span_lines(at, number - begin, last - begin)
            number = last
            at += 1
        return found

    def line_of(self, pos: int) -> int:
        """The number of the line that shows the byte at `pos` of the file."""
        for number, span in enumerate(self.spans):
            if span.start <= pos < span.end:
                return self._ends[number] + (0 if span.hidden else (pos - span.start) // self.line_size)
        return 0

    def field_of(self, line: int) -> int | None:
        """The number of the field that a line belongs to; None for lines above the fields."""
        return None if line < len(self.head) else min(bisect_right(self._ends, line), len(self.spans)) - 1

    def severity_of(self, line: int) -> Severity | None:
        """How bad the finding is that a line says, or that the field of the line is wrong by."""
        if line < len(self.head):
            return self._head_severities[line]
        return self.wrong.get(bisect_right(self._ends, line) - 1)

    def _span_lines(self, at: int, first: int, end: int) -> list[str]:
        span, labels = self.spans[at], self._labels(at)
        said = dict(enumerate(labels))
        if span.hidden:
            size = span.end - span.start
            hidden = self._line(span.start, f"({count_of(size, 'byte')} hidden: b)", "", labels[0])
            return [hidden if number == 0 else self._more(said[number]) for number in range(first, end)]
        low = span.start + first * self.line_size
        size = min(span.start + end * self.line_size, span.end) - low
        data = self.file.source.read(low, size) if size > 0 else b""
        found = []
        for number in range(first, end):
            at_byte = (number - first) * self.line_size
            piece = data[at_byte : at_byte + self.line_size]
            label = said.get(number, "")
            if not piece:
                found.append(self._more(label))
                continue
            shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
            found.append(self._line(low + at_byte, piece.hex(" "), shown, label))
        return found

    def _more(self, label: str) -> str:
        return f"{'':<{self._label_column}}{label}"

    def _line(self, pos: int, middle: str, shown: str, label: str) -> str:
        wide = 3 * self.line_size
        return f"{pos:0{self.digits}x}  {middle:<{wide}}|{shown:<{self.line_size}}| {label}".rstrip()


def broken(text: str, columns: int | None, indent: str = "") -> list[str]:
    """A text in lines of so many columns; all but the first begin with `indent`."""
    if columns is None or (len(text) <= columns and text.isascii()):
        return [text]
    lines, line, used = [], "", 0
    for character in text:
        wide = width(character)
        if used + wide > columns and line:
            lines.append(line)
            line, used = indent, len(indent)
        line += character
        used += wide
    return [*lines, line]


def _said(value: object) -> str:
    return shorten("-" if value is None else sentence(value_text(value)), TEXT_LIMIT)


CELL_LIMIT = NOTE_LIMIT = 400
"""Columns of a cell: what is wider than the screen is moved to the side."""


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

        def padded(cells: Iterable[str]) -> list[str]:
            sized = zip(cells, columns, widths, strict=True)
            return [pad(cell, size, right=column.right) for cell, column, size in sized]

        title = "  ".join(padded(column.title for column in columns))
        self.title = f"  {at:>{digits}}  {title}".rstrip()
        self.lines: list[str] = []
        for item, row in zip(items, texts, strict=True):
            worst = None if findings is None else findings.worst(file.row.key, item.start, item.end)
            mark = " " if worst is None else MARKS[worst]
            note = shorten(sentence(item.note), NOTE_LIMIT)
            if any(row):
                said = "  ".join((*padded(row), note)).rstrip()
            else:
                said = f"-- {item.kind}{f': {note}' if note else ''}{_block(item)}"
            self.lines.append(f"{mark} {item.start:>{digits}}  {said}")


def _block(item: Item) -> str:
    """The values of what is shown in a block of its own elsewhere, in a line."""
    said = " ".join(f"{name}={value_text(value)}" for name, value in item.values.items() if value is not None)
    return f" {shorten(sentence(said), NOTE_LIMIT)}" if item.block else ""
