"""What an export is asked for, and what comes out: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rocketfsck.errors import UsageError
from rocketfsck.pipeline.views.model import WantedRows


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
        return DamageCount(
            self.count + other.count,
            self.byte_count + other.byte_count,
            self.corrupt_count + other.corrupt_count,
        )


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
