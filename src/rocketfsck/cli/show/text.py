r"""Text for terminals: everything that a store says is hostile until it went through here.

What comes out of `visible` is printable characters and spaces only: no control characters, no escape
sequences, no bidirectional or invisible formatting, no line breaks, no lone surrogates. What was there
instead is shown as a backslash escape (`\n`, `\x1b`, `\u202e`), and a backslash as two, so that different
texts stay different.

Lines in the width of a terminal: what is too long is broken at blanks, a table sheds columns.

A command line that is to be pasted is never broken. Nothing is broken where nobody looks: in a pipe or a file
a text is as it is made, in paragraphs of 100 columns.

Plain aligned columns: no borders, no rich, the same on a terminal and in a pipe.

The help of commands in the language in use: click's layout, with our texts and our way to break lines.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, Any

import click

from rocketfsck.cli.lang import is_translating, said, said_row
from rocketfsck.common.wording import byte_size, count_of, timestamp, visible

# The few colours of the text output. With `colored` false every method gives its text back.


class Palette:
    """Wraps printable text in SGR sequences; widths are to be padded before."""

    def __init__(self, colored: bool) -> None:
        self.colored = colored

    def _sgr(self, codes: str, text: str) -> str:
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colored and text else text

    def bold(self, text: str) -> str:
        return self._sgr("1", text)

    def dim(self, text: str) -> str:
        return self._sgr("2", text)

    def error(self, text: str) -> str:
        return self._sgr("1;31", text)

    def warning(self, text: str) -> str:
        return self._sgr("33", text)

    def info(self, text: str) -> str:
        return self._sgr("36", text)

    def good(self, text: str) -> str:
        return self._sgr("32", text)


__all__ = ["byte_size", "count_of", "timestamp", "visible"]


def sentence(text: str) -> str:
    """A text of several words as `visible` makes it, but for backslashes, which stay single."""
    return visible(text, keep_backslash=True)


def section(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Lines below their title, and an empty one above it; nothing where there are none."""
    for number, line in enumerate(lines):
        if not number:
            yield from ("", title)
        yield line


def some(lines: Iterable[str], count: int, limit: int, more: str) -> Iterator[str]:
    """The first `limit` of so many lines; `more` says how many are left out."""
    yield from islice(lines, limit)
    if count > limit:
        yield more.format(count - limit)


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, the last one an ellipsis where it was longer."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"


def width(text: str) -> int:
    """Terminal columns of a printable text: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """`text` filled with spaces to `columns`; `right` puts it at the right edge."""
    fill = " " * (columns - width(text))
    return fill + text if right else text + fill


LEAST, MOST, DEFAULT = 60, 200, 100
"""Columns of a text at the least, at the most, and where no terminal says."""

_SGR = "\x1b\\[[0-9;]*m"
_PASTED = ("rocketfsck ", "pip install ")


def terminal_columns() -> int | None:
    """The width of the terminal that standard output is, or that COLUMNS says; None without either."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isascii() and stated.isdigit() and int(stated) > 0:
        return int(stated)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):
        return None


def text_columns() -> int:
    """The width that paragraphs are broken at."""
    return min(max(terminal_columns() or DEFAULT, LEAST), MOST)


def table_columns() -> int | None:
    """The width that tables keep to; None: they are as wide as they are."""
    known = terminal_columns()
    return None if known is None else min(max(known, LEAST), MOST)


def shown_width(text: str) -> int:
    """Columns that a text takes on a terminal, colours left out."""
    return width(re.sub(_SGR, "", text) if "\x1b" in text else text)


def fit(line: str, columns: int) -> Iterator[str]:
    """A line as lines of at most `columns`, if it has blanks to be broken at; further ones are indented."""
    if shown_width(line) <= columns or any(word in line for word in _PASTED):
        yield line
        return
    indent = " " * (len(line) - len(line.lstrip(" ")))
    yield from _broken(line.lstrip(" "), columns, indent, f"{indent}  ")


_WIDE = "\u3000-\u303f\u3400-\u9fff\uff00-\uffef"
_CLOSING = "，。；：！？、）」』》"
_PIECE = f"( *)((?:[^ {_WIDE}]+|（?[{_WIDE}])[{_CLOSING}]*)"
"""Compiled when the first line is broken: every command starts with this module."""


def _broken(text: str, columns: int, first: str, further: str) -> Iterator[str]:
    """A text in lines of at most `columns`, with `first` before the first and `further` before the others.

    Lines are broken at blanks and between Chinese characters, but not before what closes a clause.
    """
    current, used = first, len(first)
    is_new = True
    for gap, word in re.findall(_PIECE, text):
        size = shown_width(word)
        if not is_new and used + len(gap) + size > columns:
            yield current
            current, used = further + word, len(further) + size
        else:
            current += gap + word
            used += len(gap) + size
        is_new = False
    yield current


class LineStream:
    """A text stream that passes on what `made_of` makes of each line."""

    def __init__(self, stream: IO[str], made_of: Callable[[str], Iterable[str]]) -> None:
        self._stream = stream
        self._made_of = made_of
        self._rest = ""

    def write(self, text: str) -> int:
        """Take text; whole lines are passed on."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._stream.writelines(f"{part}\n" for part in self._made_of(line))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Take several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Pass on what is there of a line, too."""
        if self._rest:
            self._stream.write("\n".join(self._made_of(self._rest)))
            self._rest = ""
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


MARGIN = 4
"""Columns that callers may put in front of a table."""
LEAST_LAST = 24
"""A last column of text is broken into lines where this much is left for it, else shed."""


def aligned(
    rows: Iterable[Sequence[str]], right: Sequence[int] = (), gap: str = "  ", *, labels: bool = False
) -> Iterator[str]:
    """Lines of rows with cells padded to the widest of their column; columns `right` at their right edge.

    `labels`: the first cell of each row says what the others are. The cells must be printable. Rows may be
    shorter than others. On a terminal that is too narrow, a text in the last column is broken, and other
    columns are shed from the right, so lines are not always rows: `aligned_rows` says which ends which row.
    """
    return (line for _, line in aligned_rows(rows, right, gap, labels=labels))


def aligned_rows(
    rows: Iterable[Sequence[str]], right: Sequence[int] = (), gap: str = "  ", *, labels: bool = False
) -> Iterator[tuple[int | None, str]]:
    """Lines as `aligned` makes them; the last one of a row has the number of the row, others None."""
    held = [said_row(row, is_head=number == 0, is_labelled=labels) for number, row in enumerate(rows)]
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
        yield None, said(f"({count} more column{'s' if count > 1 else ''} on a wider terminal)")


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
    """`text` in lines of at most `columns`, each with `indent` in front, in the language in use."""
    if is_translating():
        yield from wrapped_as_said(said(text), columns, indent)
        return
    from textwrap import wrap

    yield from wrap(
        text,
        columns,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [indent.rstrip()]


def wrapped_as_said(text: str, columns: int, indent: str = "") -> Iterator[str]:
    """The same for a text in the language in use, whose characters may be wide, and that has few blanks."""
    return (line.rstrip() for line in _broken(" ".join(text.split()), columns, indent, indent))


_EXTRA = "  ["
"""In front of what click adds to the help of an option: its default, its range."""


class SpokenFormatter(click.HelpFormatter):
    """Writes help in the language in use."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, f"{said('Usage:')} " if prefix is None else prefix)

    def write_heading(self, heading: str) -> None:
        super().write_heading(said(heading))

    def write_text(self, text: str) -> None:
        if not is_translating():
            super().write_text(text)
            return
        indent = " " * self.current_indent
        paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
        blocks = ("\n".join(wrapped(part, self.width, indent)) for part in paragraphs)
        self.write("\n\n".join(blocks) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        if not is_translating():
            super().write_dl(rows, col_max, col_spacing)
            return
        held = list(rows)
        first_column = min(max((width(first) for first, _ in held), default=0), col_max) + col_spacing
        indent = " " * self.current_indent
        for first, second in held:
            fits = width(first) <= first_column - col_spacing
            head = pad(first, first_column) if fits else f"{first}\n{indent}{'':>{first_column}}"
            for line in wrapped_as_said(_option_said(second), max(self.width - first_column - 2, 10)):
                self.write(f"{indent}{head}{line}".rstrip() + "\n")
                head = " " * first_column


def _option_said(text: str) -> str:
    """What an option does, and what click adds to it in brackets."""
    what, mark, extra = text.partition(_EXTRA)
    if not mark:
        return said(text)
    return f"{said(what)} [{'；'.join(said(part) for part in extra.removesuffix(']').split('; '))}]"


class SpokenContext(click.Context):
    """A context whose help is in the language in use."""

    formatter_class = SpokenFormatter
