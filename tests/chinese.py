"""What is left of English in texts that are Chinese."""

from __future__ import annotations

import re

_NO_TEXT = (
    re.compile(r"^.*rocketfsck .*$", re.MULTILINE),  # a command, to be pasted
    re.compile(r"`[^`]*`"),
    re.compile(r"\"[^\"]*\""),
    re.compile(r"\bjava\.[\w.]+: .*"),  # what a broker says
    re.compile(r"[\w.%@*-]*[/_=][\w./%@*=-]*"),  # paths, names of fields
    re.compile(r"--?[a-z][\w-]*"),
)
_LEFT = re.compile(r"\b[a-z]{2,}(?:[ ,;:]+[a-z]{2,}){1,}\b")


def english_left(text: str) -> list[str]:
    """Two or more plain English words in a row, names and commands apart."""
    for pattern in _NO_TEXT:
        text = pattern.sub(" \u3000 ", text)
    return _LEFT.findall(text)
