"""Faults of rows in RocksDB databases, and of the WAL that has the last of them.

RocksDB itself writes a changed row (`store.rocks.rowpipe`), so that its files fit each other and only the row
is wrong. For one seed the row is always the same; the files that RocksDB makes are not. Reference 3.9, 11.3.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import FormatError
from rocketfsck.formats.rocks import ROCKS_UNIT, decode_unit_key
from rocketfsck.formats.rocksfiles import log_records
from rocketfsck.formats.rocksmessages import MARKS, TYPE_KEY, decode_index_key
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import Other, StoreFile
from rocketfsck.store.rocks.families import DEFAULT, databases_of
from rocketfsck.store.rocks.reading import read_rows
from rocketfsck.store.rocks.rowpipe import row_pipe
from rocketfsck.store.scratch import scratch_parent
from rocketfsck.writer.damage.databasefaults import DATABASE
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import PromisedPlace
from rocketfsck.writer.damage.related import rules

MESSAGES = "a RocksDB of messages"
WAL = "a RocksDB with rows in its WAL"
LATER_MS = 90_000_000


@dataclass(frozen=True, slots=True)
class _DatabaseRows:
    """A database with all its rows, by family, the first being default."""

    other: Other
    families: dict[str, dict[bytes, bytes]]


def _rows(job: Job, names: Collection[str], what: str) -> _DatabaseRows:
    """A database with rows in its default family."""
    found = []
    for other in databases_of(job.store):
        if other.relative in names and job.is_free(f"{other.relative}/"):
            families: dict[str, dict[bytes, bytes]] = {DEFAULT: {}}
            for rows in read_rows(other):
                families.setdefault(rows.family, {}).update(rows.pairs())
            if families[DEFAULT]:
                found.append(_DatabaseRows(other, families))
    return job.choose(found, what)


def _write(job: Job, rows: _DatabaseRows) -> None:
    """Put a database with these rows into the place of the one that is there."""
    directory = rows.other.relative
    with tempfile.TemporaryDirectory(prefix="rocketfsck-", dir=scratch_parent()) as scratch:
        target = Path(scratch) / "made"
        with row_pipe(target, tuple(rows.families)) as pipe:
            for family, pairs in rows.families.items():
                for key, value in pairs.items():
                    pipe.put(family, key, value)
            pipe.end()
        for file in rows.other.files:
            job.editor.remove(file.relative)
        for path in sorted(target.iterdir()):
            job.editor.create(f"{directory}/{path.name}", path.read_bytes())


@damage(None, causes=(RuleName.ROW_TIME,), needs=DATABASE)
def database_unit_time(job: Job) -> None:
    """The row of a unit has another storeTime than its record."""
    rows = _rows(job, QUEUE_DATABASES, "RocksDB with units")
    units = rows.families[DEFAULT]
    chosen = job.choose([key for key in sorted(units) if _is_unit(key, units[key])], "unit in RocksDB")
    values = ROCKS_UNIT.parse(units[chosen])
    units[chosen] = ROCKS_UNIT.build({**values, "storeTime": values["storeTime"] + LATER_MS})
    _write(job, rows)
    key = decode_unit_key(chosen)
    topic = key.topic.decode("utf-8", "replace")
    job.note = f"the storeTime of the unit {topic}/{key.queue_id}/{key.cq_offset} in {rows.other.relative}"
    place = PromisedPlace(topic=topic, queue_id=key.queue_id, queue_offset=key.cq_offset)
    job.promise(RuleName.ROW_TIME, place)


def _is_unit(key: bytes, value: bytes) -> bool:
    try:
        decode_unit_key(key)
    except FormatError:
        return False
    return len(value) == ROCKS_UNIT.size


@damage(None, causes=(RuleName.INDEX_ROW_MISSING, RuleName.INDEX_ROW_DANGLING), needs=MESSAGES)
def database_index_row(job: Job) -> None:
    """The index row of a key belongs to another key."""
    rows = _rows(job, ("rocksdbstore",), "RocksDB with an index")
    index = rows.families[DEFAULT]
    keys = [key for key in sorted(index) if _is_index_key(key)]
    chosen = job.choose(keys, "index row of a key")
    found = decode_index_key(chosen)
    at = chosen.index(b"@" + TYPE_KEY + b"@" + found.text, 8) + 3
    index[chosen[:at] + bytes([chosen[at] ^ 1]) + chosen[at + 1 :]] = index.pop(chosen)
    _write(job, rows)
    job.note = f"an index row of the record at {found.physical_offset} in {rows.other.relative}"
    place = PromisedPlace(rows.other.relative, physical_offset=found.physical_offset)
    job.promise(RuleName.INDEX_ROW_MISSING, place)
    job.promise(RuleName.INDEX_ROW_DANGLING, place)


def _is_index_key(key: bytes) -> bool:
    try:
        return key not in MARKS[DEFAULT] and decode_index_key(key).type == TYPE_KEY
    except FormatError:
        return False


@damage(
    None,
    causes=(RuleName.DATABASE_FILE_DAMAGED, RuleName.DATABASE_LOG_CUT),
    needs=WAL,
    may_also=rules(RuleName.DATABASE_CONFIG, RuleName.DATABASE_UNREADABLE),
)
def database_log_torn(job: Job) -> None:
    """The WAL of a database ends within its last record."""
    logs = [
        (file, ends)
        for other in databases_of(job.store)
        for file in other.files
        if file.name.endswith(".log") and file.size and job.is_free(file.relative)
        if (ends := _ends(job, file))
    ]
    file, ends = job.choose(logs, WAL.removeprefix("a "))
    size = ends[-1] - 1 - job.rng.randrange(6)
    job.editor.truncate(file.relative, size)
    job.note = f"{file.relative} cut to {size:,} bytes, {ends[-1]:,} of them whole records"
    job.promise((RuleName.DATABASE_FILE_DAMAGED, RuleName.DATABASE_LOG_CUT), PromisedPlace(file.relative))


def _ends(job: Job, file: StoreFile) -> list[int]:
    """Where the records of a WAL end; none where it is damaged."""
    try:
        return [record.end for record in log_records(job.editor.content(file.relative))]
    except FormatError:
        return []
