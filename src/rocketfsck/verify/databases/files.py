"""The files of every database by its own manifest; what keeps RocksDB from reading one. Reference 11.4."""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.store.model import Other, Store
from rocketfsck.store.rocks.families import OddRows, databases_of
from rocketfsck.store.rocks.files import Fault, FileFault, file_faults
from rocketfsck.store.rocks.reading import RocksError, why_not_readable
from rocketfsck.verify.finding import Facts, Finding, Where
from rocketfsck.verify.report import NotChecked

SHOWN_KEY = 60
"""Bytes of a key that a finding shows."""


def check_database_files(store: Store) -> Iterator[Finding | NotChecked]:
    """Yield what is wrong with the files of the databases, whether or not they can be read."""
    for other in databases_of(store):
        try:
            for fault in file_faults(other):
                yield _finding(store, other, fault)
        except StoreError as error:
            yield NotChecked(other.relative, str(error), operational=True)


def _finding(store: Store, other: Other, fault: FileFault) -> Finding:
    file = f"{other.relative}/{fault.name}"
    facts: dict[str, int | str | bool | None] = {"name": fault.name, "database": other.relative}
    if fault.fault in (Fault.MISSING, Fault.NO_WAL):
        facts["detail"] = fault.detail
        return Finding(RuleName.DATABASE_FILE_MISSING, Where(file=file), facts)
    facts["reason"] = fault.detail
    expected: Facts = {}
    if fault.fault is Fault.LENGTH:
        facts["reason"] = (
            f"the file has {count_of(fault.size or 0, 'byte')}, but the manifest says {fault.expected:,}"
        )
        facts["size"], expected = fault.size, {"size": fault.expected}
    where = Where(file=file, start=fault.pos, end=fault.size)
    cut = fault.at_end and store.abort is not None
    rule = RuleName.DATABASE_LOG_CUT if cut else RuleName.DATABASE_FILE_DAMAGED
    return Finding(rule, where, facts, expected)


def unreadable(store: Store, other: Other, error: StoreError) -> Finding | NotChecked:
    """What to say of a database that could not be read: a finding, unless it is not the database's fault."""
    if why_not_readable(other) is not None or not isinstance(error, RocksError):
        return NotChecked(other.relative, str(error), operational=not isinstance(error, RocksError))
    if store.live.locked:
        return NotChecked(
            other.relative, f"a broker is changing the database during the check: {error.message}"
        )
    file = other.relative if error.file is None else f"{other.relative}/{error.file}"
    facts: Facts = {"database": other.relative, "reason": error.message, "name": error.file}
    return Finding(RuleName.DATABASE_UNREADABLE, Where(file=file), facts)


def odd_rows(database: str, odd: OddRows) -> Iterator[Finding]:
    """Rows that cannot be decoded: one finding for each family."""
    for family, row in sorted(odd.first.items()):
        facts: Facts = {
            "row_count": odd.counts[family],
            "family": family,
            "database": database,
            "key": row.key[:SHOWN_KEY].hex(),
            "reason": row.reason,
        }
        yield Finding(RuleName.DATABASE_ROW_ODD, Where(file=database), facts)
