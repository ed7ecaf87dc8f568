"""Faults of the files of RocksDB databases: CURRENT, manifest, tables, WAL.

The database is one of consume queues: a broker does not start without it. What lies behind the files, the
rows, is RocksDB's own to write. Reference 11.4.
"""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import Other, OtherKind, StoreFile
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import PromisedPlace
from rocketfsck.writer.damage.related import rules

DATABASE = "a RocksDB of consume queues"
CURRENT = "CURRENT"
_UNREAD = rules(
    RuleName.DATABASE_UNREADABLE,
    RuleName.DATABASE_FILE_MISSING,
    RuleName.DATABASE_FILE_DAMAGED,
    RuleName.QUEUE_MISSING,
    RuleName.UNKNOWN_DATABASE,
)
"""What nobody can read of a database, and what is then not known of its queues."""


def _database(job: Job) -> Other:
    found = [
        other
        for other in job.store.others
        if other.kind is OtherKind.ROCKSDB
        and other.relative in QUEUE_DATABASES
        and _files(other, ".sst")
        and all(job.is_free(file.relative) for file in other.files)
    ]
    return job.choose(found, f"{DATABASE} with tables")


def _files(other: Other, ending: str) -> list[StoreFile]:
    return [file for file in other.files if file.name.endswith(ending)]


def _manifest(job: Job) -> StoreFile:
    other = _database(job)
    named = job.editor.content(f"{other.relative}/{CURRENT}").decode("ascii", "replace").strip()
    return job.choose([file for file in other.files if file.name == named], "manifest that CURRENT names")


@damage(None, causes=(RuleName.DATABASE_FILE_MISSING,), needs=DATABASE, may_also=_UNREAD)
def database_current_missing(job: Job) -> None:
    """CURRENT of a database of consume queues is missing."""
    file = f"{_database(job).relative}/{CURRENT}"
    job.editor.remove(file)
    job.note = f"{file} removed"
    job.promise(RuleName.DATABASE_FILE_MISSING, PromisedPlace(file))


@damage(None, causes=(RuleName.DATABASE_FILE_DAMAGED,), needs=DATABASE, may_also=_UNREAD)
def database_current_flipped(job: Job) -> None:
    """CURRENT of a database of consume queues does not name a manifest."""
    file = f"{_database(job).relative}/{CURRENT}"
    job.editor.write(file, 0, b"m")
    job.note = f"{file} begins with m"
    job.promise(RuleName.DATABASE_FILE_DAMAGED, PromisedPlace(file))


@damage(None, causes=(RuleName.DATABASE_FILE_MISSING,), needs=DATABASE, may_also=_UNREAD)
def database_manifest_missing(job: Job) -> None:
    """The manifest of a database of consume queues is missing."""
    file = _manifest(job).relative
    job.editor.remove(file)
    job.note = f"{file} removed"
    job.promise(RuleName.DATABASE_FILE_MISSING, PromisedPlace(file))


@damage(None, causes=(RuleName.DATABASE_FILE_DAMAGED,), needs=DATABASE, may_also=_UNREAD)
def database_manifest_cut(job: Job) -> None:
    """The manifest of a database of consume queues ends too early."""
    file = _manifest(job)
    size = 1 + job.rng.randrange(6)
    job.editor.truncate(file.relative, size)
    job.note = f"{file.relative} cut to {size:,} bytes"
    job.promise(RuleName.DATABASE_FILE_DAMAGED, PromisedPlace(file.relative))


@damage(None, causes=(RuleName.DATABASE_FILE_DAMAGED,), needs=DATABASE, may_also=_UNREAD)
def database_manifest_flipped(job: Job) -> None:
    """One bit of the manifest of a database of consume queues is flipped."""
    file = _manifest(job)
    pos = job.rng.randrange(7, file.size)
    job.flip_bit(file.relative, pos)
    job.note = f"one bit of byte {pos} of {file.relative}"
    job.promise(RuleName.DATABASE_FILE_DAMAGED, PromisedPlace(file.relative))


def _table(job: Job) -> StoreFile:
    return job.choose(_files(_database(job), ".sst"), "table")


@damage(None, causes=(RuleName.DATABASE_FILE_MISSING,), needs=DATABASE, may_also=_UNREAD)
def database_table_missing(job: Job) -> None:
    """A table of a database of consume queues is missing."""
    file = _table(job).relative
    job.editor.remove(file)
    job.note = f"{file} removed"
    job.promise(RuleName.DATABASE_FILE_MISSING, PromisedPlace(file))


@damage(None, causes=(RuleName.DATABASE_FILE_DAMAGED,), needs=DATABASE, may_also=_UNREAD)
def database_table_cut(job: Job) -> None:
    """A table of a database of consume queues is shorter than the manifest says."""
    file = _table(job)
    size = job.rng.randrange(file.size)
    job.editor.truncate(file.relative, size)
    job.note = f"{file.relative} cut to {size:,} bytes"
    job.promise(RuleName.DATABASE_FILE_DAMAGED, PromisedPlace(file.relative))


@damage(None, causes=(RuleName.DATABASE_FILE_MISSING,), needs=DATABASE, may_also=_UNREAD)
def database_log_missing(job: Job) -> None:
    """The WAL of a database of consume queues is missing."""
    logs = _files(_database(job), ".log")
    job.need(len(logs) == 1, "RocksDB of consume queues with one WAL")
    job.editor.remove(logs[0].relative)
    job.note = f"{logs[0].relative} removed"
    job.promise(RuleName.DATABASE_FILE_MISSING, PromisedPlace(logs[0].relative))
