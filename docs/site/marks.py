"""Text as Markdown: what would be read as a mark, outside of code, is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_CODE = re.compile(r"(`[^`\n]*`)")


def plain(text: str) -> str:
    """Text in which only code is a mark: no HTML and no emphasis."""
    pieces = _CODE.split(text)
    return "".join(
        piece if number % 2 else piece.replace("<", "&lt;").replace("*", "\\*")
        for number, piece in enumerate(pieces)
    )


def cell(text: str) -> str:
    """Text for a cell of a table: on one line, bars escaped."""
    return plain(" ".join(text.split())).replace("|", "\\|")


def code(text: str) -> str:
    """Text as code, in a cell of a table, too."""
    return f"`{text}`".replace("|", "\\|")


def anchor_of(heading: str) -> str:
    """The anchor that code hosts and the site give a heading."""
    return re.sub(r"[^\w\s-]", "", heading.lower()).replace(" ", "-")


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """A table of Markdown; the cells are as they are to be."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""
