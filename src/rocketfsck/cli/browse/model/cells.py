"""Rows as text: the columns of a kind of file, as wide as what is shown of it, every value printable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rocketfsck.cli.browse.model.files import MARKS, FileRow, OpenFile
from rocketfsck.cli.dump.item import Item, value_text
from rocketfsck.cli.show.text import byte_size, pad, shorten, visible, width

if TYPE_CHECKING:
    from rocketfsck.cli.browse.model.findings import Findings

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


def file_title() -> str:
    """The line above the files."""
    return f"  {'size':>9}  {'on disk':>9}  findings  file"


def file_line(row: FileRow, findings: Findings | None, columns: int) -> str:
    """A file in a line of so many columns: of a long name the end is shown.

    The size on the disk is there where the file has holes.
    """
    counts = {} if findings is None else findings.counts(row.key)
    marks = " ".join(f"{count}{MARKS[severity]}" for severity, count in counts.items())
    mark = MARKS[max(counts)] if counts else " "
    on_disk = byte_size(row.allocated_size) if row.allocated_size < row.size else ""
    sizes = f"{byte_size(row.size):>9}  {on_disk:>9}"
    before = f"{mark} {sizes}  {marks:<8}  "
    of = f"  {row.title}" if row.target.database is not None else ""
    return before + _end_of(visible(row.target.name) + of, max(columns - len(before), 8))


def _end_of(text: str, columns: int) -> str:
    if width(text) <= columns:
        return text
    while width(text) >= columns:
        text = text[1:]
    return f"…{text}"
