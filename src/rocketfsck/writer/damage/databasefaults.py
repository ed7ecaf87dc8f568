"""Faults of the files of RocksDB databases: CURRENT, manifest, tables, WAL.

The database is one of consume queues: a broker does not start without it. What lies behind the files, the
rows, is RocksDB's own to write. Reference 11.4.

Faults of rows in RocksDB databases, and of the WAL that has the last of them.

RocksDB itself writes a changed row (`store.rocks.reading`), so that its files fit each other and only the row
is wrong. For one seed the row is always the same; the files that RocksDB makes are not. Reference 3.9, 11.3.

Faults of DLedger's log: headers of entries, units of its index, the files of a node's state.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from rocketfsck.common.outputs import scratch_parent
from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import FormatError
from rocketfsck.formats import dledger
from rocketfsck.formats.layout import Layout
from rocketfsck.formats.rocks import MARKS, ROCKS_UNIT, TYPE_KEY, decode_index_key, decode_unit_key
from rocketfsck.formats.rocksfiles import log_records
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import MappedFile, Other, OtherKind, StoreFile
from rocketfsck.store.rocks.families import DEFAULT, databases_of
from rocketfsck.store.rocks.reading import read_rows, row_pipe
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import ANYWHERE, RECORD_CHANGED, TAIL_LOST, PromisedPlace, rules

NODE = "a DLedger log"
_WALKED = 5000
_OF_ENTRY = rules(
    RuleName.DLEDGER_INDEX_ENTRY, RuleName.DLEDGER_ENTRY_PLACE, RuleName.DLEDGER_RANGE, RuleName.DLEDGER_TERM,
    RuleName.LOG_BOUNDARY_LOST,
)  # fmt: skip
_OF_LOST = rules(_OF_ENTRY, TAIL_LOST, RuleName.LOG_TORN_TAIL, RuleName.DLEDGER_STATE)


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry in the middle of a node's log, before the fault: its header, and its unit of the index."""

    data: MappedFile
    pos: int
    values: dict[str, int]
    index: MappedFile
    unit_pos: int

    @property
    def header_place(self) -> PromisedPlace:
        return PromisedPlace(self.data.relative, self.pos, self.pos + dledger.ENTRY_HEADER_SIZE)

    @property
    def unit_place(self) -> PromisedPlace:
        return PromisedPlace(self.index.relative, self.unit_pos, self.unit_pos + dledger.INDEX_UNIT_SIZE)


def _directory(job: Job) -> str:
    files = [file for file in job.store.commitlog.files if file.in_entries]
    job.need(files, NODE)
    return files[0].relative.partition("/")[0]


def _index(job: Job) -> MappedFile:
    """The index file that holds the units of the first entries."""
    directory = _directory(job)
    indexes = (other for other in job.store.others if other.kind is OtherKind.DLEDGER_INDEX)
    mapped = [other.mapped_files for other in indexes if other.relative == f"{directory}/index"]
    files = [file for found in mapped if found is not None for file in found.files]
    job.need(files and job.is_free(files[0].relative), "free DLedger index")
    return files[0]


def _entry(job: Job) -> _Entry:
    """One of the entries in the first data file, neither the first one nor the last."""
    index = _index(job)
    data = next(file for file in job.store.commitlog.files if file.in_entries)
    job.need(job.is_free(data.relative), "free DLedger data file")
    found: list[_Entry] = []
    pos = 0
    while len(found) < _WALKED and pos + dledger.ENTRY_HEADER_SIZE <= data.size:
        head = job.editor.read(data.relative, pos, pos + dledger.ENTRY_HEADER_SIZE)
        values = dledger.DLEDGER_ENTRY.parse(head)
        unit_pos = values["index"] * dledger.INDEX_UNIT_SIZE - (index.start_offset or 0)
        fits = 0 <= unit_pos <= index.size - dledger.INDEX_UNIT_SIZE
        if values["magic"] != dledger.MAGIC_NORMAL or not fits:
            break
        found.append(_Entry(data, pos, values, index, unit_pos))
        pos += values["size"]
    return job.choose(found[2:-2], "entry in the middle of the DLedger log")


def _set(job: Job, layout: Layout, file: str, pos: int, name: str, value: int) -> None:
    """Write a field of a header or of a unit at a file position."""
    job.editor.set_number(file, pos, layout, name, value)
    job.note = f"{name} at byte {pos} of {file} is {value}"


def _set_header(job: Job, name: str, value: int) -> _Entry:
    entry = _entry(job)
    _set(job, dledger.DLEDGER_ENTRY, entry.data.relative, entry.pos, name, value)
    return entry


@damage("H4", RuleName.DLEDGER_ENTRY_PLACE, NODE, _OF_ENTRY)
def dledger_entry_place(job: Job) -> None:
    """A DLedger entry has a wrong position."""
    entry = _set_header(job, "pos", 1 + job.rng.randrange(1 << 40))
    job.promise(entry.header_place)


@damage("H4", RuleName.DLEDGER_INDEX_ENTRY, NODE, _OF_ENTRY)
def dledger_entry_term(job: Job) -> None:
    """A DLedger entry has another term than its unit."""
    entry = _set_header(job, "term", 1000 + job.rng.randrange(1 << 20))
    job.promise(entry.unit_place)


@damage("H4", RuleName.DLEDGER_INDEX_ENTRY, NODE, _OF_ENTRY)
def dledger_entry_number(job: Job) -> None:
    """A DLedger entry has another number than its unit."""
    entry = _set_header(job, "index", (1 << 40) + job.rng.randrange(1 << 20))
    job.promise(entry.unit_place)


@damage("H4", RuleName.DLEDGER_INDEX_ENTRY, NODE, _OF_ENTRY)
def dledger_entry_size(job: Job) -> None:
    """A DLedger entry states another size than its body has."""
    entry = _set_header(job, "size", 1 + job.rng.randrange(dledger.ENTRY_HEADER_SIZE - 1))
    job.promise(entry.unit_place)


@damage("H4", RuleName.DLEDGER_UNUSED_FIELD, NODE)
def dledger_entry_crc(job: Job) -> None:
    """A DLedger entry's field that every version leaves zero has a value."""
    entry = _set_header(job, "bodyCrc", 1 + job.rng.randrange(1 << 30))
    job.promise(entry.header_place)


@damage("H4", RuleName.DLEDGER_INDEX_ENTRY, NODE, _OF_ENTRY)
def dledger_unit_place(job: Job) -> None:
    """A unit of the DLedger index points to a place where no entry begins."""
    entry = _entry(job)
    place = entry.values["pos"] + 1 + job.rng.randrange(dledger.ENTRY_HEADER_SIZE)
    _set(job, dledger.DLEDGER_INDEX, entry.index.relative, entry.unit_pos, "pos", place)
    job.promise(entry.unit_place)


@damage("H4", RuleName.DLEDGER_INDEX_ENTRY, NODE, _OF_ENTRY)
def dledger_unit_size(job: Job) -> None:
    """A unit of the DLedger index has another size than its entry."""
    entry = _entry(job)
    value = entry.values["size"] + 1 + job.rng.randrange(1 << 20)
    _set(job, dledger.DLEDGER_INDEX, entry.index.relative, entry.unit_pos, "size", value)
    job.promise(entry.unit_place)


@damage("H4", RuleName.DLEDGER_INDEX_ENTRY, NODE, _OF_ENTRY)
def dledger_unit_empty(job: Job) -> None:
    """A unit in the middle of the DLedger index is zero."""
    entry = _entry(job)
    job.editor.write(entry.index.relative, entry.unit_pos, bytes(dledger.INDEX_UNIT_SIZE))
    job.done(f"unit {entry.values['index']} of the DLedger index is zero", entry.unit_place)


@damage("H4", RuleName.RECORD_BODY_CRC, NODE, RECORD_CHANGED)
def dledger_record_body(job: Job) -> None:
    """One bit of a record's body in a DLedger entry is flipped."""
    what = "record with a body in an entry"
    record = job.record(what, lambda log, item: log.file.in_entries and item.body_size)
    pos = record.body_pos + job.rng.randrange(record.body_size)
    job.flip_bit(record.file.relative, pos)
    job.done(f"one bit of byte {pos} of {record.file.relative}, in a body", job.record_place(record))


@damage("H4", RuleName.SEGMENT_LENGTH, NODE, _OF_LOST)
def dledger_data_short(job: Job) -> None:
    """A DLedger data file ends within an entry."""
    entry = _entry(job)
    size = entry.pos + 1 + job.rng.randrange(entry.values["size"] - 1)
    size -= size % 1024 == 0  # a whole number of KiB would pass for a setting
    job.editor.truncate(entry.data.relative, size)
    job.done(f"{entry.data.relative} cut to {size} bytes", PromisedPlace(entry.data.relative, 0, size))


@damage("H4", RuleName.DLEDGER_INDEX_ENTRY, NODE, _OF_LOST, RuleName.COMMITLOG_MISSING)
def dledger_data_missing(job: Job) -> None:
    """The only DLedger data file is missing."""
    index, entry = _index(job), _entry(job)
    files = [file for file in job.store.commitlog.files if file.in_entries]
    job.need(len(files) == 1, "single DLedger data file")
    job.remove(entry.data.relative, PromisedPlace(index.relative, 0, dledger.INDEX_UNIT_SIZE))


@damage("H4", RuleName.DLEDGER_RANGE, NODE, _OF_ENTRY)
def dledger_index_tail(job: Job) -> None:
    """The DLedger index ends before its log."""
    entry = _entry(job)
    size = job.editor.used_size(entry.index.relative) - entry.unit_pos
    job.editor.write(entry.index.relative, entry.unit_pos, bytes(size))
    job.done(f"the DLedger index is zero from unit {entry.values['index']} on", entry.header_place)


@damage("H4", RuleName.DLEDGER_RANGE, NODE, _OF_ENTRY)
def dledger_index_missing(job: Job) -> None:
    """The DLedger index is missing."""
    job.remove(_index(job).relative, ANYWHERE)


def _state(job: Job, name: str) -> str:
    file = f"{_directory(job)}/{name}"
    job.need(job.editor.exists(file) and job.is_free(file), f"free {name} of DLedger")
    return file


@damage("H4", RuleName.DLEDGER_STATE, NODE)
def dledger_checkpoint_ahead(job: Job) -> None:
    """DLedger's checkpoint counts more agreed entries than exist."""
    file = _state(job, "checkpoint")
    data = f"committedIndex={(1 << 40) + job.rng.randrange(1 << 20)}\nendIndex=1\n".encode()
    job.editor.replace(file, data)
    job.done(f"{file} names an entry that does not exist", PromisedPlace(file, 0, len(data)))


@damage("H4", RuleName.DLEDGER_STATE, NODE)
def dledger_checkpoint_missing(job: Job) -> None:
    """DLedger's checkpoint is missing."""
    job.remove(_state(job, "checkpoint"))


@damage("H4", RuleName.DLEDGER_STATE, NODE)
def dledger_term_text(job: Job) -> None:
    """DLedger's currterm holds no number."""
    file = _state(job, "currterm")
    data = b"voteLeader=n0\ncurrTerm=\x00\x00\n"
    job.editor.replace(file, data)
    job.done(f"{file} has no number", PromisedPlace(file, 0, len(data)))


DATABASE = "a RocksDB of consume queues"
CURRENT = "CURRENT"
_UNREAD = rules(
    RuleName.DATABASE_UNREADABLE, RuleName.DATABASE_FILE_MISSING, RuleName.DATABASE_FILE_DAMAGED,
    RuleName.QUEUE_MISSING, RuleName.UNKNOWN_DATABASE,
)  # fmt: skip
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


@damage(None, RuleName.DATABASE_FILE_MISSING, DATABASE, _UNREAD)
def database_current_missing(job: Job) -> None:
    """CURRENT of a database of consume queues is missing."""
    job.remove(f"{_database(job).relative}/{CURRENT}")


@damage(None, RuleName.DATABASE_FILE_DAMAGED, DATABASE, _UNREAD)
def database_current_flipped(job: Job) -> None:
    """CURRENT of a database of consume queues does not name a manifest."""
    file = f"{_database(job).relative}/{CURRENT}"
    job.editor.write(file, 0, b"m")
    job.done(f"{file} begins with m", PromisedPlace(file))


@damage(None, RuleName.DATABASE_FILE_MISSING, DATABASE, _UNREAD)
def database_manifest_missing(job: Job) -> None:
    """The manifest of a database of consume queues is missing."""
    job.remove(_manifest(job).relative)


@damage(None, RuleName.DATABASE_FILE_DAMAGED, DATABASE, _UNREAD)
def database_manifest_cut(job: Job) -> None:
    """The manifest of a database of consume queues ends too early."""
    file = _manifest(job)
    size = 1 + job.rng.randrange(6)
    job.cut(file.relative, size, PromisedPlace(file.relative))


@damage(None, RuleName.DATABASE_FILE_DAMAGED, DATABASE, _UNREAD)
def database_manifest_flipped(job: Job) -> None:
    """One bit of the manifest of a database of consume queues is flipped."""
    file = _manifest(job)
    pos = job.rng.randrange(7, file.size)
    job.flip_bit(file.relative, pos)
    job.done(f"one bit of byte {pos} of {file.relative}", PromisedPlace(file.relative))


def _table(job: Job) -> StoreFile:
    return job.choose(_files(_database(job), ".sst"), "table")


@damage(None, RuleName.DATABASE_FILE_MISSING, DATABASE, _UNREAD)
def database_table_missing(job: Job) -> None:
    """A table of a database of consume queues is missing."""
    job.remove(_table(job).relative)


@damage(None, RuleName.DATABASE_FILE_DAMAGED, DATABASE, _UNREAD)
def database_table_cut(job: Job) -> None:
    """A table of a database of consume queues is shorter than the manifest says."""
    file = _table(job)
    size = job.rng.randrange(file.size)
    job.cut(file.relative, size, PromisedPlace(file.relative))


@damage(None, RuleName.DATABASE_FILE_MISSING, DATABASE, _UNREAD)
def database_log_missing(job: Job) -> None:
    """The WAL of a database of consume queues is missing."""
    logs = _files(_database(job), ".log")
    job.need(len(logs) == 1, "RocksDB of consume queues with one WAL")
    job.remove(logs[0].relative)


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


@damage(None, RuleName.ROW_TIME, DATABASE)
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
    job.promise(place)


def _is_unit(key: bytes, value: bytes) -> bool:
    try:
        decode_unit_key(key)
    except FormatError:
        return False
    return len(value) == ROCKS_UNIT.size


@damage(None, (RuleName.INDEX_ROW_MISSING, RuleName.INDEX_ROW_DANGLING), MESSAGES)
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
    job.promise(place, RuleName.INDEX_ROW_MISSING)
    job.promise(place, RuleName.INDEX_ROW_DANGLING)


def _is_index_key(key: bytes) -> bool:
    try:
        return key not in MARKS[DEFAULT] and decode_index_key(key).type == TYPE_KEY
    except FormatError:
        return False


@damage(
    None, (RuleName.DATABASE_FILE_DAMAGED, RuleName.DATABASE_LOG_CUT), WAL, RuleName.DATABASE_CONFIG,
    RuleName.DATABASE_UNREADABLE,
)  # fmt: skip
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
    job.promise(PromisedPlace(file.relative))


def _ends(job: Job, file: StoreFile) -> list[int]:
    """Where the records of a WAL end; none where it is damaged."""
    try:
        return [record.end for record in log_records(job.editor.content(file.relative))]
    except FormatError:
        return []
