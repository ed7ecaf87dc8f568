"""The help of commands in the language in use: click's layout, with our texts and our way to break lines."""

from __future__ import annotations

from collections.abc import Iterable

import click

from rocketfsck.cli.lang import is_translating, said
from rocketfsck.cli.show.text import pad, width, wrapped, wrapped_as_said

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
