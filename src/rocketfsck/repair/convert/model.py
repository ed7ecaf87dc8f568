"""What a conversion made, as its answer says it.

Which stores are not converted: those of another kind than it takes, damaged ones, and rows of databases.

Rows of timers and prepared messages name physical offsets, and nothing else has them. Reference 11.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rocketfsck.common.documents import LEFT_OUT
from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS, StoreError, UsageError
from rocketfsck.formats.rocks import MARKS
from rocketfsck.query.start.verdict import StartVerdict
from rocketfsck.repair.build.databases import MESSAGE_FAMILIES
from rocketfsck.repair.salvage.ledger import QueueAccount
from rocketfsck.store.model import Other, OtherKind, Store
from rocketfsck.store.rocks.families import MESSAGE_DATABASE, Content, contents_of, database_at, databases_of
from rocketfsck.store.rocks.lifting import is_lifted
from rocketfsck.store.rocks.reading import read_rows
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.run import check_store


def _not_in_entries(store: Store) -> str | None:
    return None if store.has_entries else "the commit log is plain already"


def _not_in_plain_files(store: Store) -> str | None:
    if store.has_entries:
        return "the commit log is DLedger's: `rocketfsck convert plain` takes --commitlog-file-size, too"
    databases = [other.relative for other in databases_of(store) if is_lifted(other)]
    into = "`rocketfsck convert files` takes --commitlog-file-size, too"
    return f"{databases[0]} is a RocksDB: {into}" if databases else None


def _not_in_databases(store: Store) -> str | None:
    if store.has_entries:
        return "the commit log is DLedger's: make it plain first, with `rocketfsck convert plain`"
    if any(is_lifted(other) for other in databases_of(store)):
        return None
    database = database_at(store, MESSAGE_DATABASE)
    if database is not None and any(_has_rows(database, family) for family in MESSAGE_FAMILIES):
        return None
    return "queues, config and index are in files already"


_IN_FILES = {"storeType": "default", "indexRocksDBEnable": "false"}


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion of a whole store: why a store cannot be made into one of that kind, None where it can; and
    the settings of the new store that are always the same."""

    refusal: Callable[[Store], str | None]
    settings: Mapping[str, str] = field(default_factory=dict)


CONVERSIONS: Mapping[str, Conversion] = {
    "plain": Conversion(_not_in_entries),
    "geometry": Conversion(_not_in_plain_files),
    "files": Conversion(_not_in_databases, _IN_FILES),
}
"""By the name of what is made."""


def refuse_running(store: Store) -> None:
    """Raise StoreError if a broker has the store open."""
    if store.live.locked:
        raise StoreError("a broker is running in it: stop it first", path=str(store.root))


def is_problem(rule: str) -> bool:
    """Whether a finding of this rule is above info."""
    return RULES[rule].severity > Severity.INFO


def refuse_damaged(store: Store, matters: Callable[[Finding], bool]) -> None:
    """Raise StoreError if a check finds what matters: what is wrong in the log has no place in another."""
    report = check_store(store, CheckOptions(level="full"))
    rules = {finding.rule for finding in report.findings if matters(finding)}
    if rules:
        text = f"is damaged ({', '.join(sorted(rules))}): repair it first with `rocketfsck fix`"
        raise StoreError(text, path=str(store.root))


def refuse_rows(store: Store) -> None:
    """Raise UsageError if timers or prepared messages are in a database: its rows name physical offsets, and
    without its marks a broker would deliver all timers again."""
    database = database_at(store, MESSAGE_DATABASE)
    if database is None:
        return
    for family in MESSAGE_FAMILIES[1:]:
        if _has_rows(database, family):
            _refuse_family(store, database, family)


def _has_rows(database: Other, family: str) -> bool:
    """Whether rows of a family of messages say anything: the marks of timers do."""
    return any(
        key not in MARKS[family] or family == "timer"
        for rows in read_rows(database, [family])
        for key, _ in rows.pairs()
    )


def refuse_forbidden(store: Store) -> None:
    """Raise UsageError if a database says which topics groups may not read: what is lifted does not."""
    for database in databases_of(store):
        has_family = Content.FORBIDDEN in contents_of(database.relative)
        if has_family and any(True for rows in read_rows(database, ["forbidden"]) for _ in rows.pairs()):
            _refuse_family(store, database, "forbidden")


def _refuse_family(store: Store, database: Other, family: str) -> None:
    text = f"{database.relative} has rows of {family}, which convert does not take along"
    raise UsageError(f"{store.root}: {text}")


def is_other_database(other: Other) -> bool:
    """Whether a database names no physical offsets: messages that groups took by pop, users and rights."""
    is_known = is_lifted(other) or other.relative == MESSAGE_DATABASE
    return other.kind is OtherKind.ROCKSDB and not is_known


SCHEMA_VERSION = 1

ConversionName = Literal["plain", "geometry", "files", "controller"]


@dataclass(frozen=True, slots=True)
class PartLeftOut:
    """A part of the old store that the new one has not, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConvertedStore:
    """The store that was written.

    `record_count` records of `queue_count` queues, `record_byte_count` bytes, at the physical offsets
    `start_offset` to `end_offset`; `timer_unit_count` units of the timer log lead to them. The `former_count`
    records of deleted topics were left out. `empty_queue_count` queues have no record, and go on
    with the queue offset of before. The last `unagreed_count` entries are not known to be on more nodes than
    this one.
    """

    into: Path
    version: str
    record_count: int
    record_byte_count: int
    former_count: int
    queue_count: int
    empty_queue_count: int
    start_offset: int
    end_offset: int
    commitlog_file_size: int
    consumequeue_file_size: int
    timer_unit_count: int
    unagreed_count: int
    parts_left_out: tuple[PartLeftOut, ...]
    starts: tuple[StartVerdict, ...]


@dataclass(frozen=True, slots=True)
class QueueLeftOut:
    """A queue of the old store without messages in the new one, and the queue offset that it is at."""

    topic: str
    queue_id: int
    next_queue_offset: int


@dataclass(frozen=True, slots=True)
class ExtractDocument:
    """The store that was cut out of another.

    `record_count` records, `record_byte_count` bytes, at the physical offsets `start_offset` to `end_offset`;
    `outside_count` of them were stored outside the times that were asked for, and `light_queue_count` light
    queues list them, too. `moved_count` committed offsets were moved into their queues.
    """

    schema_version: int
    kind: Literal["rocketfsck.extract"]
    into: Path
    version: str
    record_count: int
    record_byte_count: int
    outside_count: int
    start_offset: int
    end_offset: int
    commitlog_file_size: int
    moved_count: int
    queues: tuple[QueueAccount, ...]
    light_queue_count: int
    queues_left_out: tuple[QueueLeftOut, ...]
    parts_left_out: tuple[PartLeftOut, ...]
    starts: tuple[StartVerdict, ...]

    @property
    def exit_code(self) -> int:
        """4: a start that was predicted fails or loses something."""
        return _exit_code(self.starts)


@dataclass(frozen=True, slots=True)
class JoiningStore:
    """A store, where its log ends, the records that it lacks of the first, and the epoch file for it."""

    path: Path
    end_offset: int
    lacking_count: int
    epoch_file: Path
    epoch_count: int


@dataclass(frozen=True, slots=True)
class ControllerFiles:
    """The files that were written; the store that is to start first comes before the others."""

    into: Path
    epoch: int
    start_offset: int
    stores: tuple[JoiningStore, ...]


@dataclass(frozen=True, slots=True)
class ConvertDocument:
    """What came of it: a new store, or the files that join stores to a controller."""

    schema_version: int
    kind: Literal["rocketfsck.convert"]
    what: ConversionName
    converted: ConvertedStore | None = field(default=None, metadata=LEFT_OUT)
    controller: ControllerFiles | None = field(default=None, metadata=LEFT_OUT)

    @property
    def exit_code(self) -> int:
        """4: a start that was predicted fails or loses something."""
        return _exit_code(self.converted.starts if self.converted is not None else ())


def _exit_code(starts: Iterable[StartVerdict]) -> int:
    return EXIT_PROBLEMS if any(start.covered and not start.harmless for start in starts) else EXIT_CLEAN
