"""What is known of a store besides its files: sizes, dialect, settings, lock. Each with how it is known.

`store.model` gives all these names, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rocketfsck.formats.indexfile import index_file_size

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


GEOMETRY_DEFAULTS: Mapping[str, int] = {
    "commitlog_file_size": 1 << 30,
    "consumequeue_file_size": 6_000_000,
    "batch_file_size": 13_800_000,
    "ext_file_size": 48 << 20,
    "slot_count": 5_000_000,
    "entry_count": 20_000_000,
    "timerlog_file_size": 100 << 20,
}
"""Reference, appendix B. Sizes in bytes."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """The sizes that shape a store's files. Sizes in bytes; `slot_count`/`entry_count` per index file.

    `sources` says for every field where its value is from; `notes` how it was inferred, where it was, and
    what else would fit. `proven` are the fields whose inferred values the bytes prove: others are likely
    only. `contradicted` are those that were given although the bytes prove another value.
    """

    commitlog_file_size: int = GEOMETRY_DEFAULTS["commitlog_file_size"]
    consumequeue_file_size: int = GEOMETRY_DEFAULTS["consumequeue_file_size"]
    batch_file_size: int = GEOMETRY_DEFAULTS["batch_file_size"]
    ext_file_size: int = GEOMETRY_DEFAULTS["ext_file_size"]
    slot_count: int = GEOMETRY_DEFAULTS["slot_count"]
    entry_count: int = GEOMETRY_DEFAULTS["entry_count"]
    timerlog_file_size: int = GEOMETRY_DEFAULTS["timerlog_file_size"]
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
