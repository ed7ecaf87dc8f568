"""Which stores are not converted: those of another kind than it takes, damaged ones, and rows of databases.

Rows of timers and prepared messages name physical offsets, and nothing else has them. Reference 11.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.rocks import MARKS
from rocketfsck.repair.build.databases import MESSAGE_FAMILIES
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
