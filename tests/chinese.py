"""What is left of English in texts that are Chinese, and the Chinese lines of the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.cases.transcript import blocks

PAGES = sorted((Path(__file__).parent.parent / "docs" / "zh").rglob("*.md"))

_NO_TEXT = (
    re.compile(r"^.*rocketfsck .*$", re.MULTILINE),  # a command, to be pasted
    re.compile(r"`[^`]*`"),
    re.compile(r"\"[^\"]*\""),
    re.compile(r"\bjava\.[\w.]+: .*"),  # what a broker says
    re.compile(r"(?:length )?not matched(?: message)?(?: store)?(?: config)?"),
    re.compile(r"(?:message )?(?:store )?(?:config )?value[,，].*"),
    re.compile(r"lead double trail|page, config, schema, completion"),  # a key of a message, and commands
    re.compile(r"^(?:WARN|ERROR|INFO) .*$", re.MULTILINE),
    re.compile(r"No such file or directory"),  # what the system says
    re.compile(r"\(exit status \d+\)"),  # the transcript's own
    re.compile(r"[\w.%@*-]*[/_=][\w./%@*=-]*"),  # paths, names of fields
    re.compile(r"--?[a-z][\w-]*"),
)
_LEFT = re.compile(r"\b[a-z]{2,}(?:[ ,;:]+[a-z]{2,})+\b")
_GAP = re.compile(r"\s{2,}|\n")


def english_left(text: str) -> list[str]:
    """Two or more plain English words in a row, names and commands apart; what is on one line is one text."""
    for pattern in _NO_TEXT:
        text = pattern.sub(" \u3000 ", text)
    return [found for piece in _GAP.split(text) for found in _LEFT.findall(piece)]


def printed_lines(page: Path) -> Iterator[tuple[str, str]]:
    """What commands print on a page, paragraph by paragraph: the command, and the lines as one text each.

    Left out is what is the same in every language: JSON, CSV, metrics, and lists of values.
    """
    for block in blocks(page.read_text("utf-8"), True):
        if not block.is_console:
            continue
        command = ""
        for line in block.lines:
            if line.startswith("$ "):
                command = line
            elif (
                line.strip() and not line.startswith(("{", "}", "[", "> ")) and not _AS_IT_IS.search(command)
            ):
                yield command, line


_AS_IT_IS = re.compile(r"--format (?!text)|openmetrics|--body|\bdump\b|\bconfig\b|\btimeline\b|completion")
