"""Plain aligned columns: no borders, no rich, the same on a terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rocketfsck.cli.show.fit import table_columns
from rocketfsck.cli.show.text import pad, width

MARGIN = 4
"""Columns that callers may put in front of a table."""
LEAST_LAST = 24
"""A last column of text is broken into lines where this much is left for it, else shed."""


def aligned(rows: Iterable[Sequence[str]], right: Sequence[int] = (), gap: str = "  ") -> Iterator[str]:
    """Lines of rows with cells padded to the widest of their column; columns `right` at their right edge.

    The cells must be printable. Rows may be shorter than others. On a terminal that is too narrow, a text in
    the last column is broken, and other columns are shed from the right, so lines are not always rows:
    `aligned_rows` says which line ends which row.
    """
    return (line for _, line in aligned_rows(rows, right, gap))


def aligned_rows(
    rows: Iterable[Sequence[str]], right: Sequence[int] = (), gap: str = "  "
) -> Iterator[tuple[int | None, str]]:
    """Lines as `aligned` makes them; the last one of a row has the number of the row, others None."""
    held = [tuple(row) for row in rows]
    columns = max((len(row) for row in held), default=0)
    widths = [max((width(row[at]) for row in held if at < len(row)), default=0) for at in range(columns)]
    limit = table_columns()
    shown, last = _fitting(widths, limit, len(gap))
    for number, row in enumerate(held):
        cells = [pad(cell, widths[at], right=at in right) for at, cell in enumerate(row[:shown])]
        if last is None or len(row) < shown or width(cells[-1].rstrip()) <= last:
            yield number, gap.join(cells).rstrip()
            continue
        head = gap.join(cells[:-1])
        *parts, final = wrapped(row[shown - 1], last)
        for part in parts:
            yield None, f"{head}{gap if head else ''}{part}"
            head = " " * width(head)
        yield number, f"{head}{gap if head else ''}{final}"
    if shown < columns:
        count = columns - shown
        yield None, f"({count} more column{'s' if count > 1 else ''} on a wider terminal)"


def _fitting(widths: Sequence[int], limit: int | None, gap: int) -> tuple[int, int | None]:
    """How many columns are shown, and the width that the last of them is broken at (None: it is whole)."""
    shown = len(widths)
    if limit is None:
        return shown, None
    room = limit - MARGIN
    while shown > 1:
        before = sum(widths[: shown - 1]) + gap * (shown - 1)
        if before + widths[shown - 1] <= room:
            return shown, None
        if widths[shown - 1] > LEAST_LAST and room - before >= LEAST_LAST:
            return shown, room - before
        shown -= 1
    return shown, None


def wrapped(text: str, columns: int, indent: str = "") -> Iterator[str]:
    """`text` in lines of at most `columns`, each with `indent` in front."""
    from textwrap import wrap

    yield from wrap(
        text,
        columns,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [indent.rstrip()]
