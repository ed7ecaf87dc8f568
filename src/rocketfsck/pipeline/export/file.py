"""One Parquet file of an export: written under a temporary name, made durable, and renamed when it is whole.

    _temporary/<attempt>-<n>.parquet  ->  topic=…/date=…/part-00003-00000.parquet

The name is the task's and says nothing of the attempt: an attempt that is made twice, or at the same time on
two machines, writes the same bytes to the same place. Nobody makes the root: when the driver has published
it under another name, a straggler finds nothing to write to.

Where the root is a URL, the file is written on this machine and put as one object. One that is to be merged
waits below `_work`, so that a late attempt brings back nothing that a reader of the table would find.

Where the rows of an export go: one directory a topic and day, named as Hive, Spark and Arrow read them.

    topic=<escaped>/date=2023-11-14/part-<task>-<number>.parquet

A topic is hostile: whatever could leave its directory, act on a terminal or mean something to a reader of
paths is `%XX`, as Hive and Spark escape it (Spark's `escapePathName`, and a few characters more). What is
beyond ASCII stays as it is, since those do not decode it; where a table's own log has the values, and nobody
decodes names, it is escaped, too. The empty text is null, as it is for Hive.

A file system has 255 bytes for a name. Where `topic=` and the escaped value are longer, the directory has
the first characters of the value and its SHA-256, and so has a value that looks like that, or like null: two
values never have one directory. Readers take such a name for the value, so the files themselves have the
whole value, too: the column `topic_text` (`text_name`), in every file of every partition. ADR 0018.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet as pq

from rocketfsck.pipeline.export.objects import Objects, held, local_part
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import named_errors
from rocketfsck.writer.disk.publish import sync_path

DAY_MS = 86_400_000
NULL_NAME = "__HIVE_DEFAULT_PARTITION__"
NAME_SIZE = 255
"""Bytes of the name of a directory, on every file system that is likely."""

_LAST_DAY = 100_000
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
_DIGEST = re.compile(r"-[0-9a-f]{64}\Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One partition: the values of the partition columns as text, in their order; None is null."""

    values: tuple[str | None, ...]

    def folder(self, names: tuple[str, ...], *, plain: bool = False) -> tuple[str, ...]:
        """The directories that lead to it; `plain`: of ASCII alone."""
        return tuple(
            f"{name}={escape(value, NAME_SIZE - len(name) - 1, plain=plain)}"
            for name, value in zip(names, self.values, strict=True)
        )

    @property
    def sort_key(self) -> tuple[tuple[bool, str], ...]:
        """Nulls last."""
        return tuple((value is None, value or "") for value in self.values)


def text_name(name: str) -> str:
    """The column of the files that has the whole values of the partition column `name`."""
    return f"{name}_text"


def file_columns(schema: pa.Schema, partition: Sequence[str], table_format: str) -> pa.Schema:
    """The columns of the files of a table with the columns `schema`.

    Iceberg has all in the files; the values of Delta's partition are in its log, and those of plain Parquet
    in the names of directories, and as text in the files.
    """
    if table_format == "iceberg":
        return pa.schema(list(schema))
    columns = [item for item in schema if item.name not in partition]
    if table_format == "parquet":
        columns += [
            pa.field(text_name(name), schema.field(name).type)
            for name in partition
            if pa.types.is_string(schema.field(name).type)
        ]
    return pa.schema(columns)


def escape(value: str | None, size: int, *, plain: bool = False) -> str:
    """A partition value as a part of a path, of at most `size` (70 or more) bytes; NULL_NAME for nothing."""
    if not value:
        return NULL_NAME
    escaped = [_escaped(character, plain) for character in value]
    odd = value == NULL_NAME or _DIGEST.search(value)
    if not odd and sum(len(part.encode()) for part in escaped) <= size:
        return "".join(escaped)
    digest = f"-{hashlib.sha256(value.encode()).hexdigest()}"
    ends = accumulate((len(part.encode()) for part in escaped), initial=len(digest))
    count = sum(end <= size for end in ends) - 1
    return "".join(escaped[:count]) + digest


def _escaped(character: str, plain: bool) -> str:
    if character in _PLAIN or (ord(character) >= 0x80 and not plain):
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode())


def days_of(timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
    """The days (since 1970, UTC) of times in ms; -1 for a time that has no date."""
    days = timestamps // DAY_MS
    days[(days < 0) | (days > _LAST_DAY)] = -1
    return days


def date_text(day: int) -> str | None:
    """A day as `2023-11-14`; None for -1."""
    return None if day < 0 else (_EPOCH + timedelta(days=day)).date().isoformat()


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
