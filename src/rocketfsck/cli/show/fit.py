"""Lines in the width of a terminal: what is too long is broken at blanks, a table sheds columns.

A command line that is to be pasted is never broken. Nothing is broken where nobody looks: in a pipe or a file
a text is as it is made, in paragraphs of 100 columns.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import IO, Any

from rocketfsck.cli.show.text import width

LEAST, MOST, DEFAULT = 60, 200, 100
"""Columns of a text at the least, at the most, and where no terminal says."""

_SGR = re.compile("\x1b\\[[0-9;]*m")
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
    return width(_SGR.sub("", text))


def fit(line: str, columns: int) -> Iterator[str]:
    """A line as lines of at most `columns`, if it has blanks to be broken at; further ones are indented."""
    if shown_width(line) <= columns or any(word in line for word in _PASTED):
        yield line
        return
    indent = len(line) - len(line.lstrip(" "))
    current, used = " " * indent, indent
    first = True
    for gap, word in re.findall(r"( *)([^ ]+)", line[indent:]):
        size = shown_width(word)
        if not first and used + len(gap) + size > columns:
            yield current
            current = " " * (indent + 2) + word
            used = indent + 2 + size
        else:
            current += gap + word
            used += len(gap) + size
        first = False
    yield current


class FittedStream:
    """A text stream whose lines are as long as the terminal is wide."""

    def __init__(self, stream: IO[str], columns: int) -> None:
        self._stream = stream
        self._columns = columns
        self._rest = ""

    def write(self, text: str) -> int:
        """Take text; whole lines are passed on."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._stream.writelines(f"{part}\n" for part in fit(line, self._columns))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Take several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Pass on what is there of a line, too."""
        if self._rest:
            self._stream.write(self._rest)
            self._rest = ""
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
