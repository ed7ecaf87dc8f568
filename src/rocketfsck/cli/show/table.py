"""Plain aligned columns: no borders, no rich, the same on a terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rocketfsck.cli.show.text import pad, width


def aligned(rows: Iterable[Sequence[str]], right: Sequence[int] = (), gap: str = "  ") -> Iterator[str]:
    """Lines of rows with cells padded to the widest of their column; columns `right` at their right edge.

    The cells must be printable. Rows may be shorter than others.
    """
    held = [tuple(row) for row in rows]
    columns = max((len(row) for row in held), default=0)
    widths = [max((width(row[at]) for row in held if at < len(row)), default=0) for at in range(columns)]
    for row in held:
        cells = (pad(cell, widths[at], right=at in right) for at, cell in enumerate(row))
        yield gap.join(cells).rstrip()


def wrapped(text: str, columns: int, indent: str = "") -> Iterator[str]:
    """`text` in lines of at most `columns`, each with `indent` in front."""
    from textwrap import wrap

    yield from wrap(
        text, columns, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    ) or [indent.rstrip()]
