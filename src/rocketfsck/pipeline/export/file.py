"""One Parquet file of an export: written under a temporary name, made durable, and renamed when it is whole.

    _temporary/<attempt>-<n>.parquet  ->  topic=…/date=…/part-00003-00000.parquet

The name is the task's and says nothing of the attempt: an attempt that is made twice, or at the same time on
two machines, writes the same bytes to the same place. Nobody makes the root: when the driver has published
it under another name, a straggler finds nothing to write to.

Where the root is a URL, the file is written on this machine and put as one object. One that is to be merged
waits below `_work`, so that a late attempt brings back nothing that a reader of the table would find.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from rocketfsck.pipeline.export.layout import Cell
from rocketfsck.pipeline.export.objects import Objects, held, local_part
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import named_errors
from rocketfsck.writer.disk.publish import sync_path

TEMPORARY = "_temporary"
METADATA_KEY = b"rocketfsck"

ROW_GROUP_SIZE = 32 << 20
"""Bytes (in memory) of a row group: what a reader must hold, and what its statistics leave out at once."""

FILE_SIZE = 512 << 20
"""Bytes of a file, about: a longer one is followed by another."""


@dataclass(frozen=True, slots=True)
class FileShape:
    """How files are written. `order` are the columns by which the rows ascend.

    `schema` is that of the files, with or without the columns of the partition; `metadata` is JSON for the
    footer; `plain_names`: directories have names of ASCII alone. `folder` is where
    they are below the root.
    """

    schema: pa.Schema
    partition: tuple[str, ...]
    order: tuple[str, ...] = ()
    compression: str = "zstd"
    metadata: bytes = b"{}"
    row_group_size: int = ROW_GROUP_SIZE
    file_size: int = FILE_SIZE
    plain_names: bool = False
    folder: str = ""
    hold_size: int = 0

    def path(self, cell: Cell, name: str) -> str:
        """Where a file of a partition stands, below the root."""
        folders = cell.folder(self.partition, plain=self.plain_names)
        return "/".join((*([self.folder] if self.folder else []), *folders, name))

    @property
    def file_schema(self) -> pa.Schema:
        """The schema of the files, with the metadata of the footer."""
        return self.schema.with_metadata({METADATA_KEY: self.metadata})


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file as it was written: `path` below the root, rows, bytes, and of columns (min, max, nulls)."""

    path: str
    cell: Cell
    row_count: int
    size: int
    bounds: dict[str, tuple[Any, Any, int]] = field(default_factory=dict)


class FileWriter:
    """Writes one file; `close` gives what was written, `abort` leaves nothing."""

    def __init__(self, root: Path, path: str, cell: Cell, shape: FileShape) -> None:
        self._root, self._path, self._cell, self._shape = root, path, cell, shape
        self._is_remote = is_remote(root)
        with _writing(root):
            self._part = (
                local_part() if self._is_remote else root / TEMPORARY / f"{secrets.token_hex(12)}.parquet"
            )
        self._found: list[Any] = []
        schema = shape.file_schema
        with _writing(self._part):
            self._writer = pq.ParquetWriter(
                self._part,
                schema,
                compression=shape.compression,
                write_statistics=[item.name for item in schema if _is_short(item.type)],
                use_dictionary=[item.name for item in schema if pa.types.is_string(item.type)],
                write_page_index=True,
                write_page_checksum=True,
                sorting_columns=_sorting(schema, shape.order),
                metadata_collector=self._found,
            )
        self.row_count = 0

    def write(self, table: pa.Table) -> None:
        """Add a row group."""
        with _writing(self._part):
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self.row_count += table.num_rows

    @property
    def size(self) -> int:
        """Bytes on disk so far."""
        return self._part.stat().st_size

    def close(self) -> DataFile:
        """Make the file durable and give it its name."""
        try:
            with _writing(self._part):
                self._writer.close()
                size = self._part.stat().st_size
                if not self._is_remote:
                    self._rename()
            if self._is_remote:
                if size < self._shape.hold_size:
                    self._path = held(self._path)
                Objects(self._root).put_file(self._path, self._part)
                self._part.unlink()
        except BaseException:
            self.abort()
            raise
        return DataFile(self._path, self._cell, self.row_count, size, _bounds(self._found[0]))

    def _rename(self) -> None:
        sync_path(self._part)
        target = self._root
        for folder in self._path.split("/")[:-1]:
            target = target / folder
            with contextlib.suppress(FileExistsError):
                target.mkdir()
        self._part.replace(self._root / self._path)

    def abort(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(Exception):
            self._writer.close()
        with contextlib.suppress(OSError):
            self._part.unlink()


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    with named_errors(path, "cannot be written"):
        yield


def _is_short(kind: pa.DataType) -> bool:
    """Whether the bounds of such a column are worth their bytes: bodies have none."""
    return not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_nested(kind))


def _sorting(schema: pa.Schema, order: Sequence[str]) -> list[Any] | None:
    """The columns that Parquet's footer declares as ascending; a place is a column of leaves."""
    wanted = []
    place: dict[str, int] = {}
    for at, path in enumerate(_leaves(schema)):
        place.setdefault(path, at)
    for name in order:
        if name not in place:
            break
        wanted.append(pq.SortingColumn(place[name]))
    return wanted or None


def _leaves(schema: pa.Schema) -> Iterator[str]:
    """The name of the column that each leaf of the Parquet schema belongs to."""

    def count(kind: pa.DataType) -> int:
        if not pa.types.is_nested(kind):
            return 1
        if pa.types.is_map(kind):
            return count(kind.key_type) + count(kind.item_type)
        if pa.types.is_struct(kind):
            return sum(count(kind.field(at).type) for at in range(kind.num_fields))
        return count(kind.value_type)

    for item in schema:
        yield from [item.name] * count(item.type)


def _bounds(metadata: Any) -> dict[str, tuple[Any, Any, int]]:
    """Of each plain column of numbers, over all row groups: least, greatest (None: only nulls), nulls."""
    found: dict[str, tuple[Any, Any, int]] = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for at in range(row_group.num_columns):
            column = row_group.column(at)
            statistics = column.statistics
            if "." in column.path_in_schema or statistics is None or column.physical_type == "BYTE_ARRAY":
                continue
            low, high = (statistics.min, statistics.max) if statistics.has_min_max else (None, None)
            nulls = int(statistics.null_count or 0)
            known = found.get(column.path_in_schema)
            if known is not None:
                low = min((value for value in (low, known[0]) if value is not None), default=None)
                high = max((value for value in (high, known[1]) if value is not None), default=None)
                nulls += known[2]
            found[column.path_in_schema] = (low, high, nulls)
    return found
