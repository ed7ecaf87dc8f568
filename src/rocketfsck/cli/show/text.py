"""Text for terminals: everything that a store says is hostile until it went through here.

What comes out of `visible` is printable characters and spaces only: no control characters, no escape
sequences, no bidirectional or invisible formatting, no line breaks, no lone surrogates. What was there
instead is shown as a backslash escape (`\\n`, `\\x1b`, `\\u202e`), and a backslash as two, so that different
texts stay different.
"""

from __future__ import annotations

import time

from rocketfsck.common.wording import count_of, visible

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


__all__ = [
    "byte_size",
    "count_of",
    "duration",
    "pad",
    "shorten",
    "timestamp",
    "visible",
    "width",
]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_FIRST_YEAR_MS = -62135596800000
_LAST_YEAR_MS = 253402300800000


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


def timestamp(value: int) -> str:
    """Milliseconds since 1970 as `2023-03-01T08:00:00.123Z`; what no calendar holds stays a number."""
    if not _FIRST_YEAR_MS <= value < _LAST_YEAR_MS:
        return f"{value} ms"
    seconds, millis = divmod(value, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).rjust(19, "0") + f".{millis:03d}Z"


def byte_size(count: int) -> str:
    """`1536` as `1.5 KiB`."""
    amount = float(count)
    for unit in _UNITS:
        if abs(amount) < 1024 or unit == _UNITS[-1]:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError


def duration(seconds: float) -> str:
    """`0.3 s`, `12 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
