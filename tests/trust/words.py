"""What the parts of the page have in common."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from rocketfsck.verify.rules.catalog import RULES


def link(rule: str) -> str:
    """A rule, as a link to its text."""
    return f"[{rule}](../specs/rules.md#{rule.lower()}-{RULES[rule].slug})"


def count(number: int) -> str:
    """A count with separators."""
    return f"{number:,}"


def share(part: int, whole: int) -> str:
    """A share in per cent, rounded down: 100 % is said of all only."""
    return f"{1000 * part // whole / 10:g} %" if whole else "–"


def part(
    title: str, name: str, *, commit: str, asked: str, how: str, figures: Iterable[str], not_shown: str
) -> list[str]:
    """A part of the page, whose document has this name. `figures` are lines that end with a blank one."""
    return [
        f"## {title}",
        "",
        *wrapped(f"**The question.** {asked}"),
        "",
        *wrapped(
            f"**How it was asked.** {how} Measured on commit `{commit}`; all figures: "
            f"[{name}.json](trust/{name}.json)."
        ),
        "",
        *figures,
        *wrapped(f"**What the figures do not show.** {not_shown}"),
        "",
    ]


def wrapped(text: str) -> list[str]:
    """A paragraph, or an item of a list, in lines of 118 columns."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.wrap(text, 118, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
