"""The rows of an export: the same columns with the same values, whichever library writes them.

    a batch of a view  ->  its columns, `date`, and for Parquet `topic_text`; and the columns of directories

Writers of Parquet take directories out of the files and cut no names, but a file system has 255 bytes for
one, and readers decode names in several ways. So the column that names a directory has the value where it is
printable ASCII of at most 80 bytes (200 where nothing needs an escape), else `sha256-` and its SHA-256. Plain
Parquet has the whole value in `topic_text` (ADR 0018); the tables of Delta and Iceberg have it in the files,
and their directories have columns of other names (`in_topic`), which nobody reads.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.export.model import DATE, PROVENANCE, TIME, DamageCount
from rocketfsck.pipeline.views.model import Part, WantedRows
from rocketfsck.pipeline.views.table import read_part, schema_of
from rocketfsck.store.places.urls import is_remote

DAY_MS = 86_400_000
NULL_NAME = "__HIVE_DEFAULT_PARTITION__"
_DIGEST = "sha256-"
_PLAIN = re.compile(r"(?!sha256-|__HIVE_DEFAULT_PARTITION__\Z)([A-Za-z0-9_.-]{1,200}|[ -~]{1,80})")
_LAST_DAY = 100_000


@dataclass(frozen=True)
class ExportRows:
    """Which rows an export has, and in which columns; plain values, which travel to workers.

    `begins` are the offsets (bytes) from which on the logs of brokers are read that a table has a part of.
    With `in_files` the columns of the partition are in the files, too. `drops` leaves damage out.
    """

    view: str
    wanted: WantedRows
    partition: tuple[str, ...]
    in_files: bool
    drops: bool
    begins: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def read_schema(self) -> pa.Schema:
        """The columns of the view that are read."""
        return schema_of(self.view, self.wanted)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the table, with those of the partition."""
        columns = list(self.read_schema)
        if DATE in self.partition and DATE not in self.read_schema.names:
            columns.append(pa.field(DATE, pa.date32()))
        hidden = {self.wanted.corrupt_column} if self.drops or self.wanted.mode == "FAILFAST" else set()
        return pa.schema([column for column in columns if column.name not in hidden])

    @cached_property
    def folders(self) -> tuple[str, ...]:
        """The columns that name directories, from the outermost on."""
        return tuple(f"in_{name}" if self.in_files else name for name in self.partition)

    @cached_property
    def written(self) -> pa.Schema:
        """The columns that a writer gets: those of the files, and those of the directories."""
        own = [column for column in self.schema if self.in_files or column.name not in self.partition]
        texts = [] if self.in_files else [pa.field(text_name(name), pa.string()) for name in self._texts]
        kinds = [self.schema.field(name).type for name in self.partition]
        places = [pa.field(name, kind) for name, kind in zip(self.folders, kinds, strict=True)]
        return pa.schema([*own, *texts, *places])

    @cached_property
    def aside(self) -> pa.Schema:
        """The columns of the rows of damage next to the table."""
        names = (*PROVENANCE, "live", self.wanted.corrupt_column)
        return pa.schema([self.read_schema.field(name) for name in names if name in self.read_schema.names])

    @cached_property
    def _texts(self) -> list[str]:
        return [name for name in self.partition if pa.types.is_string(self.schema.field(name).type)]

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows of a part as the view has them. Raises StoreError, also for a log that was cut since."""
        begin = self.begins.get(part.source.broker)
        wanted = self.wanted if begin is None else replace(self.wanted, begin_offset=begin)
        yield from read_part(part, wanted)
        if self.wanted.on_unreadable == "fail":
            _demand_uncut(part)

    def hand(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the view with the columns of `written`."""
        columns = {name: batch[name] for name in batch.schema.names}
        if DATE in self.partition and DATE not in columns:
            columns[DATE] = _dates(batch[TIME])
        for name, place in zip(self.partition, self.folders, strict=True):
            values = columns[name]
            if name in self._texts:
                columns[text_name(name)] = values
                values = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
            columns[name] = values
            columns[place] = folder_names(values) if name in self._texts else values
        return pa.RecordBatch.from_arrays([columns[item.name] for item in self.written], schema=self.written)

    def split(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch, DamageCount]:
        """The rows for the table and those of damage next to it, and what is damaged.

        Damage of messages is not a row of the table; a row of another view is, even for damage.
        """
        column = self.wanted.corrupt_column
        if column not in batch.schema.names or batch[column].null_count == len(batch):
            return batch, batch.slice(0, 0), DamageCount()
        is_odd = pc.is_valid(batch[column])
        rows = batch.filter(pc.invert(is_odd)) if self.drops else batch
        if self.view != "messages":
            found = batch.filter(is_odd)
            return rows, found.slice(0, 0), DamageCount(len(found), _size(found))
        is_damage = pc.and_(is_odd, pc.is_null(batch[TIME]))
        damage = batch.filter(is_damage)
        rows = rows if self.drops else batch.filter(pc.invert(is_damage))
        count = DamageCount(len(damage), _size(damage), pc.sum(is_odd).as_py() - len(damage))
        return rows, damage, count


def text_name(name: str) -> str:
    """The column of the files that has the whole values of the partition column `name`."""
    return f"{name}_text"


def folder_names(values: pa.Array) -> pa.Array:
    """What names the directories of these texts: two values never have one directory."""
    codes = values.dictionary_encode()
    names = pa.array([folder_name(text) for text in codes.dictionary.to_pylist()], pa.string())
    return names.take(codes.indices)


def folder_name(text: str | None) -> str | None:
    """The value of the column that names a directory, before a writer escapes it."""
    if not text or _PLAIN.fullmatch(text):
        return text or None
    return _DIGEST + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _dates(times: pa.Array) -> pa.Array:
    """The days (UTC) of times in ms; null for a time that is outside the calendar."""
    days = np.array(times.cast(pa.int64()).fill_null(-1)) // DAY_MS
    return pa.array(days.astype(np.int32), pa.int32(), mask=(days < 0) | (days > _LAST_DAY)).cast(pa.date32())


def _size(damage: pa.RecordBatch) -> int:
    sizes = damage["size"] if "size" in damage.schema.names else None
    return 0 if sizes is None else pc.sum(sizes.cast(pa.int64())).as_py() or 0


def _demand_uncut(part: Part) -> None:
    """Raise StoreError for a file of this machine that has fewer bytes than when the export was planned."""
    if is_remote(part.source.path) or not part.file:
        return
    file = Path(part.source.path) / part.file
    try:
        size = file.stat().st_size
    except OSError:
        return  # deleted after it was read
    if size < part.file_size:
        raise StoreError(f"the log was cut: {size} of {part.file_size} bytes are left", path=str(file))


def broker_of(error: StoreError, parts: Sequence[Part]) -> str | None:
    """The broker whose store an error names, if it is one of these parts'."""
    text = str(error)
    found = {part.source.path: part.source.broker for part in parts if f"{part.source.path}/" in f"{text}/"}
    return found[max(found, key=len)] if found else None
