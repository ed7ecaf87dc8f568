"""What an export is asked for, and what comes out: plain values.

How far each broker's log is in a table: what a run that appends starts from.

    mark := epoch, offset and size of the last record read, 63 bits of the SHA-256 of its bytes

A broker never changes a record of its commit log, and never reuses an offset, but where the log was cut: then
another record, or none, is at that offset, or another epoch of the controller holds it. So a log whose record
and epoch agree with the mark continues what the table has; everything after the record is new.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import partial
from operator import add
from typing import Any, Literal

from rocketfsck.common.documents import convert
from rocketfsck.engine import Engine
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.sources import StoreSource, open_source
from rocketfsck.pipeline.views.messages import MESSAGES
from rocketfsck.pipeline.views.model import CONDITIONS, WantedRows
from rocketfsck.reader.configs import read_epochs
from rocketfsck.store.areas import demand_listed
from rocketfsck.store.model import Store, files_at
from rocketfsck.store.reading import read_at


@dataclass(frozen=True, slots=True)
class Mark:
    """The last record of a broker's log that a table has or passed over; `offset` and `size` in bytes."""

    epoch: int
    offset: int
    size: int
    digest: int

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.offset + self.size


TableFormat = Literal["parquet", "delta", "iceberg"]
FORMATS: tuple[TableFormat, ...] = ("parquet", "delta", "iceberg")
COMPRESSIONS = ("zstd", "snappy", "lz4", "gzip", "none")

PROVENANCE = ("broker", "file", "offset", "pos", "size")
"""Columns that lead back to a row's bytes: always exported, where a view has them."""

TIME = "store_timestamp"
DATE = "date"

ASIDE = "_damage"
"""Where the rows of damage are, next to the table: readers leave out names that begin with an underscore."""

MANIFEST = "_manifest.json"
SUCCESS = "_SUCCESS"
MEMORY_SIZE = 256 << 20


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is exported and how.

    `wanted` says which rows and columns; its mode is what becomes of damage: kept aside, dropped and counted,
    or an error. `partition` are columns of text, or `date` (the day of the storeTimestamp, UTC); None is what
    suits the view. `memory_size` bounds the rows that this process holds, in bytes; Spark has bounds of its
    own. `properties` are those of the
    Iceberg catalog, `table` its table as `namespace.name`. Raises UsageError for what makes no sense.
    """

    view: str = "messages"
    table_format: TableFormat = "parquet"
    wanted: WantedRows = field(default_factory=WantedRows)
    partition: tuple[str, ...] | None = None
    compression: str = "zstd"
    bodies: bool = True
    memory_size: int = MEMORY_SIZE
    properties: Mapping[str, str] = field(default_factory=dict)
    table: str = ""

    def __post_init__(self) -> None:
        if self.table_format not in FORMATS:
            raise UsageError(f"the format {self.table_format!r} is not one of {', '.join(FORMATS)}")
        if self.compression not in COMPRESSIONS:
            raise UsageError(f"the compression {self.compression!r} is not one of {', '.join(COMPRESSIONS)}")
        if self.table_format != "iceberg" and (self.properties or self.table):
            raise UsageError("only Iceberg has a catalog and a table name")
        if self.table and not all(self.table.rpartition(".")[::2]):
            raise UsageError(f"an Iceberg table has a name like namespace.table, not {self.table!r}")
        if self.memory_size < 1 << 20:
            raise UsageError("an export needs at least 1 MiB of memory for its rows")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file: `path` below the root, rows, bytes, and of columns of numbers (min, max, nulls).

    `values` are those of the columns of the partition, as text; None is null.
    """

    path: str
    row_count: int
    size: int
    values: tuple[str | None, ...] = ()
    bounds: Mapping[str, tuple[Any, Any, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DamageCount:
    """Ranges of bytes that are not messages, their bytes, and messages with a wrong CRC."""

    count: int = 0
    byte_count: int = 0
    corrupt_count: int = 0

    def __add__(self, other: DamageCount) -> DamageCount:
        return DamageCount(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class DeletedRange:
    """Half-open range of a broker's commit log that the broker deleted before it was exported, in bytes."""

    broker: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export wrote: the files of the table, and what is damaged.

    `damage_told` is False where messages were selected: damage has no topic and no time, so none is read.
    `marks` say how far each broker's log is in the table. `leftovers` are directories that killed exports
    left and this one removed. `gaps` belong to a run that appends; `appended` is True if it did, and `mended`
    if it first mended a table of a former version, in which filters on columns without bounds found nothing.
    `run` is the directory of this run, if any. `failed` are brokers of whose stores nothing is in the result,
    since they could not be opened or read, each with the reason.
    """

    path: str
    files: tuple[DataFile, ...]
    damage: DamageCount
    damage_told: bool
    marks: Mapping[str, Mark] = field(default_factory=dict)
    gaps: tuple[DeletedRange, ...] = ()
    leftovers: tuple[str, ...] = ()
    appended: bool = False
    mended: bool = False
    run: str = ""
    failed: tuple[tuple[str, str], ...] = ()

    @property
    def row_count(self) -> int:
        """Rows of the table."""
        return sum(file.row_count for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of the table's files."""
        return sum(file.size for file in self.files)

    @property
    def has_problems(self) -> bool:
        """Whether something is wrong: damage, wrong CRCs, gaps."""
        return bool(self.damage.count or self.damage.corrupt_count or self.gaps)


NO_EPOCH = 0
UNKNOWN_EPOCH = -1
"""The epoch file could not be read when the mark was made."""


def selection_digest(options: ExportOptions) -> int:
    """63 bits for what is selected: a table is appended to by the selection that it was made with."""
    wanted = options.wanted
    chosen = {name: getattr(wanted, name) for name in sorted(CONDITIONS)}
    return _digest(json.dumps([chosen, wanted.mode, wanted.live_only]).encode())


def marks_of(sources: Sequence[StoreSource], last: Mapping[str, int], engine: Engine) -> dict[str, Mark]:
    """The marks of the brokers with a `last` message. Raises StoreError where one cannot be read."""
    chosen = [source for source in sources if source.broker in last]
    found = {outcome.task.broker: outcome.result for outcome in engine.run(partial(mark_one, last), chosen)}
    return {broker: mark for broker, mark in found.items() if mark is not None}


def mark_one(last: Mapping[str, int], source: StoreSource) -> Mark:
    """The kernel: the mark of one store at its `last` offset. Raises StoreError if no record is there."""
    store, offset = open_source(source), last[source.broker]
    try:
        epoch = _epoch_of(store, offset)
    except StoreError:
        epoch = UNKNOWN_EPOCH
    size = int.from_bytes(_bytes_at(store, offset, 4))
    return Mark(epoch, offset, size, _record_digest(store, offset, size))


def continuation(source: StoreSource, mark: Mark) -> tuple[int, DeletedRange | None]:
    """Where to continue in a log that has a mark, and what was deleted since.

    Raises StoreError, also for a log that does not continue what the mark says.
    """
    store = open_source(source)
    demand_listed(store, MESSAGES.areas)  # a log that cannot be listed looks cut
    _demand_same(store, source, mark)
    start = store.commitlog.start_offset or 0
    return mark.end, DeletedRange(source.broker, mark.end, start) if start > mark.end else None


def newly_listed(sources: Sequence[StoreSource]) -> tuple[StoreSource, ...]:
    """The sources with one new look at each store for all that a run does."""
    now = time.time_ns()
    return tuple(source if source.listed else replace(source, listed=now) for source in sources)


def _demand_same(store: Store, source: StoreSource, mark: Mark) -> None:
    where = f"the table ends at the record at offset {mark.offset} (epoch {mark.epoch}) of {source.broker}"
    start, end = store.commitlog.start_offset, store.commitlog.end_offset
    if start is None or end is None or end < mark.end:
        reached = "is empty" if end is None else f"ends at offset {end}"
        raise _cut(source, f"{where}, but the commit log {reached}")
    epoch = _epoch_of(store, mark.offset)
    if epoch != mark.epoch:
        raise _cut(source, f"{where}, but now this offset has the epoch {epoch}")
    if start > mark.offset:
        return  # the broker deleted the record: nothing is left to compare
    if _record_digest(store, mark.offset, mark.size) != mark.digest:
        raise _cut(source, f"{where}, but now other bytes are there")


def _cut(source: StoreSource, reason: str) -> StoreError:
    return StoreError(
        f"{reason}: the log was cut or replaced, so nothing of it was appended; export it to a new table",
        path=source.path,
    )


def _epoch_of(store: Store, offset: int) -> int:
    """The epoch that an offset belongs to; 0 without an epoch file, or before its first epoch."""
    begun = (entry.epoch for entry in read_epochs(store) if entry.start_offset <= offset)
    return max(begun, default=NO_EPOCH)


def _record_digest(store: Store, offset: int, size: int) -> int:
    return _digest(_bytes_at(store, offset, size))


def _bytes_at(store: Store, offset: int, size: int) -> bytes:
    file = next(iter(files_at(store.commitlog.files, offset)), None)
    base = file.start_offset or 0 if file is not None else 0
    if file is None or offset - base + size > file.size:
        raise StoreError(f"the commit log has no bytes at offset {offset}", path=str(store.root))
    return read_at(file.location, offset - base, size)


def _digest(data: bytes) -> int:
    """As many bits of the SHA-256 as a version in Delta's log has."""
    return int.from_bytes(hashlib.sha256(data).digest()[:8]) >> 1


def marks_to_json(marks: Mapping[str, Mark]) -> str:
    """Marks by broker as JSON."""
    return json.dumps({broker: asdict(mark) for broker, mark in sorted(marks.items())})


def marks_from_json(text: str) -> dict[str, Mark]:
    """The marks in JSON; raises ValueError for anything else."""
    read: dict[str, Mark] = convert(dict[str, Mark], json.loads(text))
    for mark in read.values():
        if mark.offset < 0 or mark.size < 0:
            raise ValueError(f"{mark} is not a mark")
    return read
