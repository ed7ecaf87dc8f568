"""Faults of DLedger's log: headers of entries, units of its index, the files of a node's state."""

from __future__ import annotations

from dataclasses import dataclass

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dledger import (
    DLEDGER_ENTRY,
    DLEDGER_INDEX,
    ENTRY_HEADER_SIZE,
    INDEX_UNIT_SIZE,
    MAGIC_NORMAL,
)
from rocketfsck.formats.layout import Layout
from rocketfsck.store.model import MappedFile, OtherKind
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import RECORD_CHANGED, TAIL_LOST, PromisedPlace, rules

NODE = "a DLedger log"
_WALKED = 5000
_OF_ENTRY = rules(
    RuleName.DLEDGER_INDEX_ENTRY,
    RuleName.DLEDGER_ENTRY_PLACE,
    RuleName.DLEDGER_RANGE,
    RuleName.DLEDGER_TERM,
    RuleName.LOG_BOUNDARY_LOST,
)
_OF_LOST = _OF_ENTRY | TAIL_LOST | rules(RuleName.LOG_TORN_TAIL, RuleName.DLEDGER_STATE)


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
        return PromisedPlace(self.data.relative, self.pos, self.pos + ENTRY_HEADER_SIZE)

    @property
    def unit_place(self) -> PromisedPlace:
        return PromisedPlace(self.index.relative, self.unit_pos, self.unit_pos + INDEX_UNIT_SIZE)


def _directory(job: Job) -> str:
    files = [file for file in job.store.commitlog.files if file.in_entries]
    job.need(files, NODE)
    return files[0].relative.partition("/")[0]


def _index(job: Job) -> MappedFile:
    """The index file that holds the units of the first entries."""
    directory = _directory(job)
    files = [
        file
        for other in job.store.others
        if other.kind is OtherKind.DLEDGER_INDEX and other.relative == f"{directory}/index"
        for file in (other.mapped_files.files if other.mapped_files is not None else ())
    ]
    job.need(files and job.is_free(files[0].relative), "free DLedger index")
    return files[0]


def _entry(job: Job) -> _Entry:
    """One of the entries in the first data file, neither the first one nor the last."""
    index = _index(job)
    data = next(file for file in job.store.commitlog.files if file.in_entries)
    job.need(job.is_free(data.relative), "free DLedger data file")
    found: list[_Entry] = []
    pos = 0
    while len(found) < _WALKED and pos + ENTRY_HEADER_SIZE <= data.size:
        values = DLEDGER_ENTRY.parse(job.editor.read(data.relative, pos, pos + ENTRY_HEADER_SIZE))
        unit_pos = values["index"] * INDEX_UNIT_SIZE - (index.start_offset or 0)
        if values["magic"] != MAGIC_NORMAL or not 0 <= unit_pos <= index.size - INDEX_UNIT_SIZE:
            break
        found.append(_Entry(data, pos, values, index, unit_pos))
        pos += values["size"]
    return job.choose(found[2:-2], "entry in the middle of the DLedger log")


def _set(job: Job, layout: Layout, file: str, pos: int, name: str, value: int) -> None:
    """Write a field of a header or of a unit at a file position."""
    size = layout.field(name).size or 0
    job.editor.write(file, pos + layout.offset(name), value.to_bytes(size, "big", signed=True))
    job.note = f"{name} at byte {pos} of {file} is {value}"


def _set_header(job: Job, name: str, value: int) -> _Entry:
    entry = _entry(job)
    _set(job, DLEDGER_ENTRY, entry.data.relative, entry.pos, name, value)
    return entry


@damage("H4", causes=(RuleName.DLEDGER_ENTRY_PLACE,), needs=NODE, may_also=_OF_ENTRY)
def dledger_entry_place(job: Job) -> None:
    """A DLedger entry has a wrong position."""
    entry = _set_header(job, "pos", 1 + job.rng.randrange(1 << 40))
    job.promise(RuleName.DLEDGER_ENTRY_PLACE, entry.header_place)


@damage("H4", causes=(RuleName.DLEDGER_INDEX_ENTRY,), needs=NODE, may_also=_OF_ENTRY)
def dledger_entry_term(job: Job) -> None:
    """A DLedger entry has another term than its unit."""
    entry = _set_header(job, "term", 1000 + job.rng.randrange(1 << 20))
    job.promise(RuleName.DLEDGER_INDEX_ENTRY, entry.unit_place)


@damage("H4", causes=(RuleName.DLEDGER_INDEX_ENTRY,), needs=NODE, may_also=_OF_ENTRY)
def dledger_entry_number(job: Job) -> None:
    """A DLedger entry has another number than its unit."""
    entry = _set_header(job, "index", (1 << 40) + job.rng.randrange(1 << 20))
    job.promise(RuleName.DLEDGER_INDEX_ENTRY, entry.unit_place)


@damage("H4", causes=(RuleName.DLEDGER_INDEX_ENTRY,), needs=NODE, may_also=_OF_ENTRY)
def dledger_entry_size(job: Job) -> None:
    """A DLedger entry states another size than its body has."""
    entry = _set_header(job, "size", 1 + job.rng.randrange(ENTRY_HEADER_SIZE - 1))
    job.promise(RuleName.DLEDGER_INDEX_ENTRY, entry.unit_place)


@damage("H4", causes=(RuleName.DLEDGER_UNUSED_FIELD,), needs=NODE)
def dledger_entry_crc(job: Job) -> None:
    """A DLedger entry's field that every version leaves zero has a value."""
    entry = _set_header(job, "bodyCrc", 1 + job.rng.randrange(1 << 30))
    job.promise(RuleName.DLEDGER_UNUSED_FIELD, entry.header_place)


@damage("H4", causes=(RuleName.DLEDGER_INDEX_ENTRY,), needs=NODE, may_also=_OF_ENTRY)
def dledger_unit_place(job: Job) -> None:
    """A unit of the DLedger index points to a place where no entry begins."""
    entry = _entry(job)
    place = entry.values["pos"] + 1 + job.rng.randrange(ENTRY_HEADER_SIZE)
    _set(job, DLEDGER_INDEX, entry.index.relative, entry.unit_pos, "pos", place)
    job.promise(RuleName.DLEDGER_INDEX_ENTRY, entry.unit_place)


@damage("H4", causes=(RuleName.DLEDGER_INDEX_ENTRY,), needs=NODE, may_also=_OF_ENTRY)
def dledger_unit_size(job: Job) -> None:
    """A unit of the DLedger index has another size than its entry."""
    entry = _entry(job)
    value = entry.values["size"] + 1 + job.rng.randrange(1 << 20)
    _set(job, DLEDGER_INDEX, entry.index.relative, entry.unit_pos, "size", value)
    job.promise(RuleName.DLEDGER_INDEX_ENTRY, entry.unit_place)


@damage("H4", causes=(RuleName.DLEDGER_INDEX_ENTRY,), needs=NODE, may_also=_OF_ENTRY)
def dledger_unit_empty(job: Job) -> None:
    """A unit in the middle of the DLedger index is zero."""
    entry = _entry(job)
    job.editor.write(entry.index.relative, entry.unit_pos, bytes(INDEX_UNIT_SIZE))
    job.note = f"unit {entry.values['index']} of the DLedger index is zero"
    job.promise(RuleName.DLEDGER_INDEX_ENTRY, entry.unit_place)


@damage("H4", causes=(RuleName.RECORD_BODY_CRC,), needs=NODE, may_also=RECORD_CHANGED)
def dledger_record_body(job: Job) -> None:
    """One bit of a record's body in a DLedger entry is flipped."""
    record = job.record(
        "record with a body in an entry", lambda log, item: log.file.in_entries and item.body_size
    )
    pos = record.body_pos + job.rng.randrange(record.body_size)
    job.flip_bit(record.file.relative, pos)
    job.note = f"one bit of byte {pos} of {record.file.relative}, in a body"
    job.promise(RuleName.RECORD_BODY_CRC, job.record_place(record))


@damage("H4", causes=(RuleName.SEGMENT_LENGTH,), needs=NODE, may_also=_OF_LOST)
def dledger_data_short(job: Job) -> None:
    """A DLedger data file ends within an entry."""
    entry = _entry(job)
    size = entry.pos + 1 + job.rng.randrange(entry.values["size"] - 1)
    size -= size % 1024 == 0  # a whole number of KiB would pass for a setting
    job.editor.truncate(entry.data.relative, size)
    job.note = f"{entry.data.relative} cut to {size} bytes"
    job.promise(RuleName.SEGMENT_LENGTH, PromisedPlace(entry.data.relative, 0, size))


@damage(
    "H4",
    causes=(RuleName.DLEDGER_INDEX_ENTRY,),
    needs=NODE,
    may_also=_OF_LOST | rules(RuleName.COMMITLOG_MISSING),
)
def dledger_data_missing(job: Job) -> None:
    """The only DLedger data file is missing."""
    index, entry = _index(job), _entry(job)
    files = [file for file in job.store.commitlog.files if file.in_entries]
    job.need(len(files) == 1, "single DLedger data file")
    job.editor.remove(entry.data.relative)
    job.note = f"{entry.data.relative} removed"
    job.promise(RuleName.DLEDGER_INDEX_ENTRY, PromisedPlace(index.relative, 0, INDEX_UNIT_SIZE))


@damage("H4", causes=(RuleName.DLEDGER_RANGE,), needs=NODE, may_also=_OF_ENTRY)
def dledger_index_tail(job: Job) -> None:
    """The DLedger index ends before its log."""
    entry = _entry(job)
    size = job.editor.used_size(entry.index.relative) - entry.unit_pos
    job.editor.write(entry.index.relative, entry.unit_pos, bytes(size))
    job.note = f"the DLedger index is zero from unit {entry.values['index']} on"
    job.promise(RuleName.DLEDGER_RANGE, entry.header_place)


@damage("H4", causes=(RuleName.DLEDGER_RANGE,), needs=NODE, may_also=_OF_ENTRY)
def dledger_index_missing(job: Job) -> None:
    """The DLedger index is missing."""
    file = _index(job)
    job.editor.remove(file.relative)
    job.note = f"{file.relative} removed"
    job.promise(RuleName.DLEDGER_RANGE)


def _state(job: Job, name: str) -> str:
    file = f"{_directory(job)}/{name}"
    job.need(job.editor.exists(file) and job.is_free(file), f"free {name} of DLedger")
    return file


@damage("H4", causes=(RuleName.DLEDGER_STATE,), needs=NODE)
def dledger_checkpoint_ahead(job: Job) -> None:
    """DLedger's checkpoint counts more agreed entries than exist."""
    file = _state(job, "checkpoint")
    data = f"committedIndex={(1 << 40) + job.rng.randrange(1 << 20)}\nendIndex=1\n".encode()
    job.editor.replace(file, data)
    job.note = f"{file} names an entry that does not exist"
    job.promise(RuleName.DLEDGER_STATE, PromisedPlace(file, 0, len(data)))


@damage("H4", causes=(RuleName.DLEDGER_STATE,), needs=NODE)
def dledger_checkpoint_missing(job: Job) -> None:
    """DLedger's checkpoint is missing."""
    file = _state(job, "checkpoint")
    job.editor.remove(file)
    job.note = f"{file} removed"
    job.promise(RuleName.DLEDGER_STATE, PromisedPlace(file))


@damage("H4", causes=(RuleName.DLEDGER_STATE,), needs=NODE)
def dledger_term_text(job: Job) -> None:
    """DLedger's currterm holds no number."""
    file = _state(job, "currterm")
    data = b"voteLeader=n0\ncurrTerm=\x00\x00\n"
    job.editor.replace(file, data)
    job.note = f"{file} has no number"
    job.promise(RuleName.DLEDGER_STATE, PromisedPlace(file, 0, len(data)))
