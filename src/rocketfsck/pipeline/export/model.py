"""What an export is asked for, what a task of it does, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rocketfsck.errors import UsageError
from rocketfsck.pipeline.views.model import Part, Wanted

if TYPE_CHECKING:
    from rocketfsck.pipeline.export.file import DataFile, FileShape

TableFormat = Literal["parquet", "delta", "iceberg"]
FORMATS: tuple[TableFormat, ...] = ("parquet", "delta", "iceberg")
COMPRESSIONS = ("zstd", "snappy", "lz4", "gzip", "none")

PROVENANCE = ("broker", "file", "offset", "pos", "size")
"""Columns that lead back to a row's bytes: always exported, where a view has them."""

TIME = "store_timestamp"
DATE = "date"

ASIDE = "_damage"
"""Where the rows of damage are, beside the table: readers leave out names that begin with an underscore."""

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
    wanted: Wanted = field(default_factory=Wanted)
    partition: tuple[str, ...] | None = None
    compression: str = "zstd"
    bodies: bool = True
    memory_size: int = MEMORY_SIZE
    merge: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    table: str = ""

    def __post_init__(self) -> None:
        if self.table_format not in FORMATS:
            raise UsageError(f"a format is one of {', '.join(FORMATS)}, not {self.table_format!r}")
        if self.compression not in COMPRESSIONS:
            raise UsageError(f"a compression is one of {', '.join(COMPRESSIONS)}, not {self.compression!r}")
        if self.table_format != "iceberg" and (self.properties or self.table):
            raise UsageError("a catalog and the name of a table are Iceberg's")
        if self.table and not all(self.table.rpartition(".")[::2]):
            raise UsageError(f"a table of Iceberg is named namespace.table, not {self.table!r}")
        if self.memory_size < 1 << 20:
            raise UsageError("a task needs at least 1 MiB of memory for its rows")


@dataclass(frozen=True, slots=True)
class ExportTask:
    """Parts of one store, one after the other, that one worker exports. `root` is where files are built."""

    number: int
    root: str
    parts: tuple[Part, ...]
    wanted: Wanted
    shape: FileShape
    aside: FileShape
    crowded: FileShape
    drop_damage: bool
    memory_size: int
    is_messages: bool = True

    @property
    def aside_wanted(self) -> bool:
        """Whether rows of damage are kept beside the table."""
        return self.is_messages and not self.drop_damage


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one task wrote. Damage is ranges that are no message; corrupt are messages of a wrong CRC."""

    files: tuple[DataFile, ...]
    aside: tuple[DataFile, ...]
    crowded: tuple[DataFile, ...]
    damage_count: int = 0
    damage_size: int = 0
    corrupt_count: int = 0
    spill_count: int = 0


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export wrote: the files of the table, and beside it damage and what was too many partitions.

    `damage_told` is False where messages were selected: damage has no topic and no time, so none is read.
    """

    path: str
    files: tuple[DataFile, ...]
    aside: tuple[DataFile, ...]
    crowded: tuple[DataFile, ...]
    damage_count: int
    damage_size: int
    corrupt_count: int
    damage_told: bool
    task_count: int
    merged_count: int

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
        """Whether something is not as it should be: damage, wrong CRCs, rows that are not in the table."""
        return bool(self.damage_count or self.corrupt_count or self.crowded)
