"""What an export is asked for, what a task of it does, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rocketfsck.errors import UsageError
from rocketfsck.pipeline.views.model import Part, WantedRows

if TYPE_CHECKING:
    from rocketfsck.pipeline.export.file import DataFile, FileShape


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

CROWDED = "_crowded"
"""Where the rows are whose partitions were too many."""


MANIFEST = "_manifest.json"
SUCCESS = "_SUCCESS"
MEMORY_SIZE = 256 << 20


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is exported and how.

    `wanted` says which rows and columns; its mode is what becomes of damage: kept aside, dropped and counted,
    or an error. `partition` are columns of text, or `date` (the day of the storeTimestamp, UTC); None is what
    suits the view. `memory_size` bounds the rows that a task holds, in bytes. `properties` are those of the
    Iceberg catalog, `table` its table as `namespace.name`. Raises UsageError for what makes no sense.
    """

    view: str = "messages"
    table_format: TableFormat = "parquet"
    wanted: WantedRows = field(default_factory=WantedRows)
    partition: tuple[str, ...] | None = None
    compression: str = "zstd"
    bodies: bool = True
    memory_size: int = MEMORY_SIZE
    merge: bool = True
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
            raise UsageError("a task needs at least 1 MiB of memory for its rows")


@dataclass(frozen=True, slots=True)
class ExportTask:
    """Parts of one store, one after the other, that one worker exports. `root` is where files are built."""

    number: int
    root: Path
    parts: tuple[Part, ...]
    wanted: WantedRows
    shape: FileShape
    aside: FileShape
    crowded: FileShape
    drop_damage: bool
    memory_size: int
    is_messages: bool = True

    @property
    def aside_wanted(self) -> bool:
        """Whether rows of damage are kept next to the table."""
        return self.is_messages and not self.drop_damage


@dataclass(frozen=True, slots=True)
class LastRecord:
    """The last message that a task read: its place in the commit log and its size, both in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class ExportTaskResult:
    """What one task wrote. Damage is ranges that are not messages; corrupt are messages with a wrong CRC.

    `last` is the last message of the view `messages` that was read, exported or dropped.
    """

    files: tuple[DataFile, ...]
    aside: tuple[DataFile, ...]
    crowded: tuple[DataFile, ...]
    damage_count: int = 0
    damaged_byte_count: int = 0
    corrupt_count: int = 0
    spill_count: int = 0
    last: LastRecord | None = None


@dataclass(frozen=True, slots=True)
class DeletedRange:
    """Half-open range of a broker's commit log that the broker deleted before it was exported, in bytes."""

    broker: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export wrote: the files of the table, and next to it damage and what was too many partitions.

    `damage_told` is False where messages were selected: damage has no topic and no time, so none is read.
    `last` is the last message read of each broker, `marks` say so to a run that appends. `leftovers` are
    directories that killed runs left and this run removed; `active_runs` are those in an object store whose
    processes may be alive. `gaps` belong to a run that appends; `appended` is True if it did, and `mended` if
    it first mended a table of a former version, in which filters on columns without bounds found nothing.
    `run` is the directory of this run, if any.
    `failed` are brokers of whose stores nothing is in the result, since they could not be opened or read,
    each with the reason.
    """

    path: str
    files: tuple[DataFile, ...]
    aside: tuple[DataFile, ...]
    crowded: tuple[DataFile, ...]
    damage_count: int
    damaged_byte_count: int
    corrupt_count: int
    damage_told: bool
    task_count: int
    merged_count: int
    last: Mapping[str, LastRecord] = field(default_factory=dict)
    marks: Mapping[str, Mark] = field(default_factory=dict)
    gaps: tuple[DeletedRange, ...] = ()
    leftovers: tuple[str, ...] = ()
    appended: bool = False
    mended: bool = False
    active_runs: tuple[str, ...] = ()
    run: str = ""
    failed: tuple[tuple[str, str], ...] = ()

    def below(self, run: str) -> ExportResult:
        """The same with the files' paths in the directory of a run."""
        files, aside, crowded = (
            tuple(replace(file, path=f"{run}/{file.path}") for file in group)
            for group in (self.files, self.aside, self.crowded)
        )
        return replace(self, files=files, aside=aside, crowded=crowded)

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
        """Whether something is wrong: damage, wrong CRCs, rows that are not in the table, gaps."""
        return bool(self.damage_count or self.corrupt_count or self.crowded or self.gaps)
