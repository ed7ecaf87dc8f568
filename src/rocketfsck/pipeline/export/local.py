"""Rows into Parquet files on this machine, by Arrow's dataset writer.

    batches in the order of the log  ->  as many as fit into a quarter of the memory, sorted by directory
                                     ->  write_dataset: one file a directory, one row group for each of those

Given the batches as they come, Arrow makes a row group of the few rows that each batch has for a directory.
Sorting is stable, so the rows of a file are in the order of the log.

Rows into Parquet files by the workers of a cluster: each task has Arrow write one part (`local`).

    a task a part  ->  files with names of their own, and what is in them  ->  others are deleted

A task that dies, is made again or runs twice leaves files that no answer names: these are deleted before the
others become a table, and no commit of a table names them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs
from pyarrow import parquet as pq

from rocketfsck.common.budget import current, using
from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.engine.seam import Dead, surviving
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.export.files import WRITING, Place, data_file
from rocketfsck.pipeline.export.model import ASIDE, MANIFEST, DamageCount, DataFile, ExportOptions
from rocketfsck.pipeline.export.rows import ExportRows
from rocketfsck.pipeline.views.model import Part
from rocketfsck.progress import Phase, asked_here, phase, stoppable

OPEN_FILES = 256
"""Files that Arrow has open at once; one that was closed is followed by another."""
MOST_FOLDERS = 50_000
"""Directories of one export; Arrow keeps 20 KiB for each until the end."""
_WAIT_SECONDS, _IDLE_WAITS = 0.005, 100


@dataclass(frozen=True, slots=True)
class Writing:
    """Which rows are written, where, and how; travels to workers."""

    rows: ExportRows
    place: Place
    options: ExportOptions


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: the names of all files, those of the table, and what is damaged.

    `last` are the greatest offsets (bytes) of messages in the files of the table, by broker.
    """

    names: tuple[str, ...]
    files: tuple[DataFile, ...]
    damage: DamageCount
    last: Mapping[str, int]


def joined(written: Iterable[Written]) -> Written:
    """What tasks wrote, together."""
    names: list[str] = []
    files: list[DataFile] = []
    damage, last = DamageCount(), dict[str, int]()
    for each in written:
        names += each.names
        files += each.files
        damage += each.damage
        for broker, offset in each.last.items():
            last[broker] = max(offset, last.get(broker, offset))
    return Written(tuple(names), tuple(files), damage, last)


def write_here(writing: Writing, parts: Sequence[Part], engine: Engine) -> Written:
    """Write the rows of the parts on this machine. Raises StoreError."""
    source, rows, options = _Rows(writing), writing.rows, writing.options
    files: list[DataFile] = []

    def write(system: fs.FileSystem, path: str) -> None:
        def visit(file: Any) -> None:
            name = file.path.removeprefix(f"{path.rstrip('/')}/")
            files.append(data_file(name, file.metadata, file.size, rows.partition, rows.folders))

        with ExitStack() as stack:
            at = stack.enter_context(phase("exporting", sum(part.size for part in parts)))
            found = source.batches(parts, stack, at)
            batches = _sorted(_as_here(found), rows.folders, options.memory_size // 4)
            names = [rows.written.field(name) for name in rows.folders]
            ds.write_dataset(
                pa.RecordBatchReader.from_batches(rows.written, batches),
                path,
                filesystem=system,
                format="parquet",
                basename_template=f"part-{secrets.token_hex(8)}-{{i}}.parquet",
                partitioning=ds.partitioning(pa.schema(names), flavor="hive") if names else None,
                file_options=ds.ParquetFileFormat().make_write_options(compression=options.compression),
                existing_data_behavior="overwrite_or_ignore",
                **_keeping_order(threads=engine.job_count > 1),
                max_open_files=OPEN_FILES,
                max_partitions=1 << 20,
                file_visitor=visit,
            )

    writing.place.asked(WRITING, write)
    names = (*source.names, *(file.path for file in files))
    return Written(names, tuple(file for file in files if file.row_count), source.damage, source.last)


def _keeping_order(*, threads: bool) -> dict[str, bool]:
    """Options for rows in their order; early versions of pyarrow keep it on one thread alone."""
    if "preserve_order" in signature(ds.write_dataset).parameters:
        return {"use_threads": threads, "preserve_order": True}
    return {"use_threads": False}


class _Rows:
    """The rows of parts for Arrow; rows of damage go to a file of their own, and are counted."""

    def __init__(self, writing: Writing) -> None:
        self.rows, self.writing = writing.rows, writing
        self.damage = DamageCount()
        self.names: list[str] = []
        self.last: dict[str, int] = {}
        self._aside: pq.ParquetWriter | None = None

    def batches(self, parts: Sequence[Part], stack: ExitStack, at: Phase) -> Iterator[pa.RecordBatch]:
        done = 0
        for part in parts:
            size = 0
            for batch in self.rows.read(part):
                found, aside, count = self.rows.split(batch)
                self.damage = self.damage + count
                if len(aside) and not self.rows.drops:
                    self._put_aside(aside, stack)
                size += batch.nbytes
                at.at(done + min(size, part.size))
                if len(found):
                    self._see(part.source.broker, found)
                    yield self.rows.hand(found)
            done += part.size
            at.at(done)

    def _see(self, broker: str, found: pa.RecordBatch) -> None:
        if self.rows.view == "messages":
            self.last[broker] = max(self.last.get(broker, -1), pc.max(found["offset"]).as_py())

    def _put_aside(self, damage: pa.RecordBatch, stack: ExitStack) -> None:
        if self._aside is None:
            system, path = self.writing.place.below(ASIDE).system()
            system.create_dir(path)
            name = f"part-{secrets.token_hex(8)}.parquet"
            self.names.append(f"{ASIDE}/{name}")
            self._aside = pq.ParquetWriter(
                f"{path}/{name}",
                self.rows.aside,
                filesystem=system,
                compression=self.writing.options.compression,
            )
            stack.callback(self._aside.close)
        self._aside.write_batch(damage.select(self.rows.aside.names))


def _as_here(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, wherever Arrow asks for them: within the budget of this thread, stopped as it is."""
    budget, ask, done = current(), asked_here(), object()

    def following() -> Iterator[pa.RecordBatch]:
        while True:
            with using(budget), stoppable(ask):
                batch = next(batches, done)
            if batch is done:
                return
            yield batch

    return following()


def _sorted(batches: Iterator[pa.RecordBatch], folders: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
    """The same rows, sorted by directory as far as `size` bytes of them reach."""
    held: list[pa.RecordBatch] = []
    held_size = 0
    seen: set[tuple[Any, ...]] = set()
    for batch in batches:
        held.append(batch)
        held_size += batch.nbytes
        if held_size >= size:
            yield from _in_order(held, folders, seen)
            held, held_size = [], 0
            _wait_for_arrow(2 * size)
    if held:
        yield from _in_order(held, folders, seen)


def _wait_for_arrow(size: int) -> None:
    """Wait until Arrow holds at most `size` bytes, or does not write: it would take 32 batches in advance."""
    last, waits = -1, 0
    while (now := pa.total_allocated_bytes()) > size and waits < _IDLE_WAITS:
        last, waits = now, waits + 1 if now == last else 0
        time.sleep(_WAIT_SECONDS)


def _in_order(
    held: list[pa.RecordBatch], folders: Sequence[str], seen: set[tuple[Any, ...]]
) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(held)
    if folders:
        seen.update(tuple(row.values()) for row in table.group_by(folders).aggregate([]).to_pylist())
        if len(seen) > MOST_FOLDERS:
            raise UsageError(
                f"the export has more than {MOST_FOLDERS:,} directories: give fewer columns to --partition-by"
            )
        keys = [(name, "ascending") for name in folders]
        table = table.take(pc.sort_indices(table.select(folders), sort_keys=keys))
    yield from table.combine_chunks().to_batches()


def write_part(writing: Writing, part: Part) -> Written:
    """The kernel: the files of one part. Raises StoreError."""
    return write_here(writing, (part,), LocalEngine(1))


def write_by_workers(writing: Writing, parts: Sequence[Part], engine: Engine, kept: Set[str]) -> Written:
    """Have workers write the rows of the parts where files with the names `kept` stay.

    Raises StoreError, with the file that no worker survives.
    """
    written: list[Written] = []
    with phase("exporting", sum(part.size for part in parts)) as at:
        done = 0
        for part, found, _ in surviving(engine, partial(write_part, writing), parts):
            if isinstance(found, Dead):
                path = f"{part.source.path}/{part.file}".rstrip("/")
                raise StoreError(f"cannot be read by any worker: {found.error}", path=path)
            written.append(found)
            done += part.size
            at.at(done)
    whole = joined(written)
    writing.place.clear({*kept, *whole.names, MANIFEST})
    return whole
