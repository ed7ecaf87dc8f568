"""broker.conf: the Java properties format, as `java.util.Properties#load(InputStream)` reads it.

Grammar (bytes are ISO-8859-1): natural lines end in LF, CR or CRLF; a natural line that is empty or whose
first non-blank character is `#` or `!` is skipped; a line that ends in an odd number of backslashes continues
in the next natural line, whose leading blanks are dropped; blanks are space, TAB and FF. The key ends at the
first unescaped `=`, `:` or blank; blanks around that are dropped, one `=` or `:` belongs to it. Escapes:
`\\t \\n \\r \\f \\uXXXX`, any other `\\c` is `c`. A later line for the same key wins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.reading import read_whole

MAX_SETTINGS_SIZE = 1 << 20

_BLANK = " \t\f"
_NATURAL_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_KEY_END = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.|\Z)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_settings(data: bytes) -> dict[str, str]:
    """Keys and values of a properties file; raises ValueError for a malformed `\\uXXXX`, as Java does."""
    settings: dict[str, str] = {}
    for line in _logical_lines(data.decode("latin-1")):
        key = _KEY_END.match(line)
        assert key is not None  # it matches the empty string
        settings[_unescape(key[1])] = _unescape(line[key.end() :])
    return settings


def read_settings(path: Path) -> Settings:
    """The settings in a broker.conf; raises StoreError if it cannot be read or is malformed."""
    data = read_whole(path, MAX_SETTINGS_SIZE)
    try:
        return Settings(path, parse_settings(data))
    except ValueError as error:
        raise StoreError(str(error), path=os.fspath(path)) from error


def setting_path(value: str) -> Path:
    """A path in a setting. The broker reads the file as ISO-8859-1; where the bytes are a name, use them."""
    try:
        as_bytes = Path(os.fsdecode(value.encode("latin-1")))
        return as_bytes if as_bytes.exists() else Path(value)
    except (UnicodeEncodeError, OSError, ValueError):
        return Path(value)


def _logical_lines(text: str) -> Iterator[str]:
    pending: str | None = None
    for natural in _NATURAL_LINE.finditer(text):
        line = natural[1].lstrip(_BLANK)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            pending = line[:-1]
            continue
        pending = None
        yield line


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_replacement, text) if "\\" in text else text


def _replacement(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    if code == "u":
        raise ValueError(f"a malformed \\uXXXX escape: {match.string[match.start() : match.start() + 6]!r}")
    return _CONTROL.get(code, code)
