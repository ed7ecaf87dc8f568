r"""What is known of a store besides its files: sizes, dialect, settings, lock. Each with how it is known.

`store.model` gives all these names, too.

broker.conf: the Java properties format, as `java.util.Properties#load(InputStream)` reads it.

Grammar (bytes are ISO-8859-1): natural lines end in LF, CR or CRLF; a natural line that is empty or whose
first non-blank character is `#` or `!` is skipped; a line that ends in an odd number of backslashes continues
in the next natural line, whose leading blanks are dropped; blanks are space, TAB and FF. The key ends at the
first unescaped `=`, `:` or blank; blanks around that are dropped, one `=` or `:` belongs to it. Escapes:
`\t \n \r \f \uXXXX`, any other `\c` is `c`. A later line for the same key wins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rocketfsck.errors import StoreError
from rocketfsck.formats.indexfile import index_file_size
from rocketfsck.store.reading import read_whole

if TYPE_CHECKING:
    from rocketfsck.formats.dialect import Dialect, Version


@dataclass(frozen=True, slots=True)
class UnfinishedRepair:
    """The work area `directory` (a name next to the store) and the state that its journal has.

    `is_mixed`: the repair changes files in place, and some may be changed already and others not. Otherwise
    the store is as a whole as it was, or as a whole repaired.
    """

    directory: str
    state: str
    is_mixed: bool


Source = Literal["given", "inferred", "default"]


class LockState(StrEnum):
    """What the POSIX record lock on byte 0 of `lock` says."""

    HELD = "held"  # another process holds it: a live broker
    FREE = "free"
    ABSENT = "absent"  # there is no lock file
    UNKNOWN = "unknown"  # not testable


@dataclass(frozen=True, slots=True)
class LiveState:
    """Whether a broker is running in the store, and how that is known (a sentence).

    `holder_pid` is None where the system does not tell (a lock held on another host gives none);
    `holder_command` is the holder's command line where /proc gives it.
    """

    state: LockState
    how: str
    holder_pid: int | None = None
    holder_command: str | None = None

    @property
    def locked(self) -> bool | None:
        """True: held by a live process. False: free. None: unknown."""
        return {LockState.HELD: True, LockState.UNKNOWN: None}.get(self.state, False)


@dataclass(frozen=True, slots=True)
class Geometry:
    """The sizes that shape a store's files. Sizes in bytes; `slot_count`/`entry_count` per index file. The
    defaults are those of brokers (reference, appendix B).

    `sources` says for every field where its value is from; `notes` how it was inferred, where it was, and
    what else would fit. `proven` are the fields whose inferred values the bytes prove: others are likely
    only. `contradicted` are those that were given although the bytes prove another value.
    """

    commitlog_file_size: int = 1 << 30
    consumequeue_file_size: int = 6_000_000
    batch_file_size: int = 13_800_000
    ext_file_size: int = 48 << 20
    slot_count: int = 5_000_000
    entry_count: int = 20_000_000
    timerlog_file_size: int = 100 << 20
    sources: Mapping[str, Source] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    proven: frozenset[str] = frozenset()
    contradicted: frozenset[str] = frozenset()

    def source(self, name: str) -> Source:
        """Where the field `name` is from: "given" (broker.conf), "inferred" (the files) or "default"."""
        if name not in GEOMETRY_DEFAULTS:
            raise KeyError(name)
        return self.sources.get(name, "default")

    @property
    def index_file_size(self) -> int:
        return index_file_size(self.slot_count, self.entry_count)


GEOMETRY_DEFAULTS: Mapping[str, int] = {
    size.name: size.default for size in fields(Geometry) if isinstance(size.default, int)
}
"""The sizes alone, by name."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that the bytes tell about the versions that wrote them."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class LogPlaces:
    """The directories that are read as the commit log (`store.logpaths`), with notes on how they were found.

    `inferred`: nobody named them, their files tell. `doubtful` are the names of directories in the root that
    may be the log or a part of it, each with the reason why they are not read.
    """

    directories: tuple[Path, ...] = ()
    notes: tuple[Evidence, ...] = ()
    inferred: bool = False
    doubtful: tuple[tuple[str, str], ...] = ()


OWN_LOG = LogPlaces()
DEFAULT_RESERVED_HOURS = 72
"""fileReservedTime (Appendix B)."""


@dataclass(frozen=True, slots=True)
class DialectEvidence:
    """Which broker versions may have written the store last, and how that is known.

    `versions` are all that fit the evidence, oldest first; `dialect` is that of one of them. `given` if the
    user named the version. `conflict` if no known version fits all evidence (a store that several versions
    wrote, or a damaged one): then `versions` fit the strongest part of it. `possible` are all that the bytes
    do not rule out: hints that a client may have left do not count, and a conflict rules out nothing.
    """

    dialect: Dialect
    versions: tuple[Version, ...]
    known_from: tuple[Evidence, ...]
    given: bool = False
    conflict: bool = False
    possible: tuple[Version, ...] = ()

    def values_of(self, trait: str) -> tuple[object, ...]:
        """The distinct values that a trait of Dialect has in all versions that fit, oldest version first."""
        from rocketfsck.formats.dialect import dialect_of

        return tuple(dict.fromkeys(getattr(dialect_of(version), trait) for version in self.versions))


@dataclass(frozen=True, slots=True)
class Settings:
    """A broker.conf as read: every key with its last value. Empty where none was given."""

    path: Path | None = None
    values: Mapping[str, str] = field(default_factory=dict)

    def get(self, *names: str) -> str | None:
        """The value of the first of `names` that is set."""
        return next((self.values[name] for name in names if name in self.values), None)

    def flag(self, name: str, default: bool) -> bool:
        """A boolean setting, as `Boolean.parseBoolean` reads it."""
        value = self.values.get(name)
        return default if value is None else value.strip().lower() == "true"

    def number(self, name: str) -> int | None:
        """A setting as a number of at least 0; None where nothing is set that can be read as one."""
        try:
            return max(int(self.values[name]), 0)
        except (KeyError, ValueError):
            return None

    @property
    def reserved_hours(self) -> int:
        """fileReservedTime: hours for which a broker keeps a commit log file that does not change."""
        hours = self.number("fileReservedTime")
        return DEFAULT_RESERVED_HOURS if hours is None else hours


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
