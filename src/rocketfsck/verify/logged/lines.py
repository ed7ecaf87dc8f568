"""Texts of logs as entries: what was said, at which level, with which stack trace.

The layout before a message depends on the broker's logback.xml: `%d %p %t - %m` (as released), or time,
level, logger and message in other orders. So an entry has several readings, the likeliest first: whichever
is a known statement is the right one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MESSAGE_LIMIT = 4096
"""As many characters of a line are looked at: templates are shorter, and mostly what fills their holes."""

_STAMP = re.compile(
    r"^\W{0,3}(?:\d{4}[-/]\d{1,2}[-/]\d{1,2}[T ,]{0,2})?\d{1,2}:\d{2}:\d{2}(?:[.,]\d{1,9})?"
    r"(?:Z|[+-]\d{2}:?\d{2})?\W{0,3}"
)
_LEVEL = re.compile(r"\b(ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE)\b\]?\s*")
_FRAME = re.compile(r"^\s*at (?:[\w.@-]+/{1,2})?([\w.$]+)\.([\w$<>]+)\(")
_OLD_FRAME = re.compile(r"^\s+([a-z][\w$]*(?:\.[\w$]+){2,})\.([\w$<>]+)\([\w$]+\.java")
_ERROR = re.compile(
    r"^(?:\s*(?:Caused by|Suppressed): )?(?:[a-zA-Z_][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error)\b(?::|\s*$)"
)
_MORE = re.compile(r"^\s*\.\.\. \d+ (?:more|common frames omitted)")
_LEVEL_NAMES = {"WARNING": "warn"}


@dataclass(slots=True)
class LogEntry:
    """One entry of a log. `number` is its line, from 1; `errors` are the lines of exceptions, `frames` the
    methods of their traces as (class without package, method), innermost first."""

    number: int
    text: str
    errors: list[str] = field(default_factory=list)
    frames: list[tuple[str, str]] = field(default_factory=list)

    @property
    def level(self) -> str | None:
        """The level that the line says, in small letters."""
        found = _LEVEL.search(self.text[:200])
        return None if found is None else _LEVEL_NAMES.get(found[1], found[1].lower())

    def readings(self) -> Iterator[str]:
        """What may be the message, without the layout before it; blanks are single."""
        text = " ".join(self.text[:MESSAGE_LIMIT].split())
        rest = text[_stamp_end(text) :]
        level = _LEVEL.search(rest[:200])
        if level is not None:
            after = rest[level.end() :]
            _, dash, message = after.partition(" - ")
            if dash:
                yield message
            elif after.startswith("- "):
                yield after[2:]
            yield after.partition(" ")[2]
            yield after
        yield rest
        if rest is not text:
            yield text


def _stamp_end(text: str) -> int:
    found = _STAMP.match(text)
    return 0 if found is None else found.end()


def entries_of(text: str) -> Iterator[LogEntry]:
    """The entries of a text. Lines of a stack trace belong to the entry before them."""
    entry: LogEntry | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        head = line[:MESSAGE_LIMIT]
        frame = _FRAME.match(head) or _OLD_FRAME.match(head)
        is_error = _ERROR.match(head) is not None
        if not (frame or is_error or _MORE.match(head)):
            if entry is not None:
                yield entry
            entry = LogEntry(number, line)
            continue
        if entry is None:
            entry = LogEntry(number, head.strip() if is_error else "")
        if is_error:
            entry.errors.append(head.strip())
        elif frame:
            entry.frames.append((frame[1].rpartition(".")[2], frame[2]))
    if entry is not None:
        yield entry
