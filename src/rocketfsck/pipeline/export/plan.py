"""An export decided: which parts of which stores are read, and what its files are like.

Small files of one partition made one: else a topic with a little in every log file has as many files.

    part-00003-0000.parquet, part-00007-0000.parquet, …  ->  merged-00000-0000.parquet

Rows keep their order, which is that of the tasks. Who merges leaves the sources where they are, so that an
attempt can be made again. In an object store all small files wait below `_work`, and one that is merged with
no other is copied from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from rocketfsck._version import __version__
from rocketfsck.engine import Engine
from rocketfsck.errors import RocketfsckError, StoreError, UsageError
from rocketfsck.pipeline.export.file import Cell, DataFile, FileShape, FileWriter, file_columns
from rocketfsck.pipeline.export.marks import continuation
from rocketfsck.pipeline.export.model import (
    ASIDE,
    CROWDED,
    DATE,
    PROVENANCE,
    TIME,
    DeletedRange,
    ExportOptions,
    Mark,
)
from rocketfsck.pipeline.export.objects import Objects, final
from rocketfsck.pipeline.sources import StoreSource, open_source
from rocketfsck.pipeline.views.model import Part, WantedRows
from rocketfsck.pipeline.views.table import plan_parts, schema_of
from rocketfsck.progress import phase
from rocketfsck.store.places.urls import is_remote

SMALL_SIZE = 16 << 20
"""Bytes of a file below which it is put together with others of its partition."""

MERGED_SIZE = 128 << 20
"""Bytes of the files that one merged file is made of, at most."""

TASK_SIZE = 256 << 20
"""Bytes that one task merges, about."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Files of one partition, in order, that become the file `path`."""

    cell: Cell
    sources: tuple[DataFile, ...]
    path: str


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Merges that one worker makes, one after the other."""

    root: Path
    shape: FileShape
    merges: tuple[Merge, ...]


def plan_merges(
    files: Sequence[DataFile], shape: FileShape, root: Path, *, small_size: int = SMALL_SIZE
) -> tuple[list[DataFile], list[MergeTask]]:
    """The files that stay, and tasks that make others of the rest; `files` come in the order of the tasks."""
    small: dict[Cell, list[DataFile]] = {}
    for file in files:
        if file.size < small_size:
            small.setdefault(file.cell, []).append(file)
    merges: list[tuple[Merge, int]] = []
    for cell in sorted(small, key=lambda cell: cell.sort_key):
        for number, group in enumerate(_groups(small[cell])):
            path = final(group[0].path)
            if len(group) > 1:
                path = shape.path(cell, f"merged-{number:05d}.parquet")
            if path != group[0].path:
                merges.append((Merge(cell, tuple(group), path), sum(file.size for file in group)))
    gone = {file.path for merge, _ in merges for file in merge.sources}
    tasks: list[MergeTask] = []
    batch: list[Merge] = []
    size = 0
    for merge, merge_size in merges:
        batch.append(merge)
        size += merge_size
        if size >= TASK_SIZE:
            tasks.append(MergeTask(root, shape, tuple(batch)))
            batch, size = [], 0
    if batch:
        tasks.append(MergeTask(root, shape, tuple(batch)))
    return [file for file in files if file.path not in gone], tasks


def merge_files(task: MergeTask) -> list[DataFile]:
    """Kernel: make the files of a task. Raises StoreError when one cannot be read or written."""
    shape = replace(task.shape, hold_size=0)
    return [
        _merge(task.root, shape, merge) if len(merge.sources) > 1 else _copy(task.root, merge)
        for merge in task.merges
    ]


def _copy(root: Path, merge: Merge) -> DataFile:
    (file,) = merge.sources
    Objects(root).copy(file.path, merge.path)
    return replace(file, path=merge.path)


def _groups(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    group: list[DataFile] = []
    size = 0
    for file in files:
        if group and size + file.size > MERGED_SIZE:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    yield group


def _merge(root: Path, shape: FileShape, merge: Merge) -> DataFile:
    writer = FileWriter(root, merge.path, merge.cell, shape)
    try:
        waiting: list[pa.Table] = []
        size = 0
        for table in _row_groups(root, shape, [file.path for file in merge.sources]):
            waiting.append(table)
            size += table.nbytes
            if size >= shape.row_group_size:
                writer.write(pa.concat_tables(waiting))
                waiting, size = [], 0
        if waiting:
            writer.write(pa.concat_tables(waiting))
        return writer.close()
    except BaseException:
        writer.abort()
        raise


def _row_groups(root: Path, shape: FileShape, paths: Sequence[str]) -> Iterator[pa.Table]:
    for path in paths:
        try:
            with pq.ParquetFile(_opened(root, path)) as file:
                for number in range(file.num_row_groups):
                    yield file.read_row_group(number).cast(shape.schema)
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"cannot be read: {error}", path=str(root / path)) from error


def _opened(root: Path, path: str) -> Path | pa.BufferReader:
    if not is_remote(root):
        return root / path
    data = Objects(root).get(path)
    if data is None:
        raise StoreError("cannot be read: a file of this run is gone", path=str(root / path))
    return pa.BufferReader(data)


# The stores of an export are opened and listed where the work is done; the driver gets what is in them.
#
# A store that cannot be opened, or whose log was cut or replaced, is left out and named.


@dataclass(frozen=True, slots=True)
class OpenTask:
    """One store to open, and the mark of its broker in the table that is appended to."""

    source: StoreSource
    view: str
    wanted: WantedRows
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """What an export reads of one store; `begin` is where it continues in the log, in bytes."""

    facts: Mapping[str, Any]
    parts: tuple[Part, ...]
    begin: int | None = None
    gap: DeletedRange | None = None


def open_one(task: OpenTask) -> OpenedStore | RocketfsckError:
    """The kernel: open a store and list its parts, or the reason why not."""
    source, wanted = task.source, task.wanted
    try:
        begin, gap = (None, None) if task.mark is None else continuation(source, task.mark)
        if begin is not None:
            wanted = replace(wanted, begin_offset=begin)
        facts = store_facts(source)
        return OpenedStore(facts, tuple(plan_parts(task.view, [source], wanted)), begin, gap)
    except RocketfsckError as error:
        return error


def open_all(
    sources: Sequence[StoreSource], view: str, wanted: WantedRows, marks: Mapping[str, Mark], engine: Engine
) -> tuple[dict[str, OpenedStore], tuple[tuple[str, str], ...]]:
    """What is in each store, by broker, and of those that could not be opened the broker and the reason.

    Raises the first such reason if no store is left.
    """
    jobs = [OpenTask(source, view, wanted, marks.get(source.broker)) for source in sources]
    found: list[OpenedStore | RocketfsckError | None] = [None] * len(jobs)
    with phase("opening the stores", len(jobs), "files") as at:
        for done, outcome in enumerate(engine.run(open_one, jobs), 1):
            found[outcome.index] = outcome.result
            at.at(done)
    opened, failed = {}, []
    for source, result in zip(sources, found, strict=True):
        if isinstance(result, RocketfsckError):
            failed.append((source.broker, result))
        elif result is not None:
            opened[source.broker] = result
    if failed and not opened:
        raise failed[0][1]
    return opened, tuple((broker, str(error)) for broker, error in failed)


def store_facts(source: StoreSource) -> dict[str, Any]:
    """What the manifest says of a store. Raises StoreError and UsageError as `open_source` does."""
    store = open_source(source)
    evidence = store.dialect_evidence
    return {
        "broker": source.broker,
        "store": source.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        "dialect": str(evidence.dialect.version),
        "dialect_given": evidence.given,
    }


SCHEMA_VERSION = 1
BODY_COLUMNS = frozenset({"body", "body_crc_ok"})
DEFAULT_PARTITION: dict[str, tuple[str, ...]] = {"messages": ("topic", DATE), "consumequeue": ("topic",)}
ORDER = ("broker", "offset")
IN_LOG_ORDER = ("messages", "regions")


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """An export decided: what is read, what the files are like."""

    wanted: WantedRows
    shape: FileShape
    aside: FileShape
    crowded: FileShape
    table_schema: pa.Schema
    parts: tuple[Part, ...]
    about: dict[str, Any]
    begins: Mapping[str, int] = field(default_factory=dict)
    """Brokers whose log is read from this offset on, in bytes."""
    gaps: tuple[DeletedRange, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    """Brokers whose stores could not be opened, and why."""

    def about_without(self, failed: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """`about`, without the stores of brokers that failed."""
        gone = {broker for broker, _ in failed}
        return {**self.about, "stores": [one for one in self.about["stores"] if one["broker"] not in gone]}

    def wanted_of(self, broker: str) -> WantedRows:
        """What is read of the stores of a broker."""
        begin = self.begins.get(broker)
        return self.wanted if begin is None else replace(self.wanted, begin_offset=begin)


def plan_export(
    sources: Sequence[StoreSource],
    options: ExportOptions,
    engine: Engine,
    marks: Mapping[str, Mark] | None = None,
) -> ExportPlan:
    """Decide an export, with the stores opened by `engine`; `marks` are those of the table appended to.

    A store that cannot be opened is left out. Raises as `export_stores` does.
    """
    partition = options.partition
    if partition is None:
        partition = DEFAULT_PARTITION.get(options.view, ())
    wanted = _wanted(options, partition)
    schema = schema_of(options.view, wanted)
    _demand_partition(schema, partition)
    opened, failed = open_all(sources, options.view, wanted, marks or {}, engine)
    about = {
        "schema_version": SCHEMA_VERSION,
        "kind": "rocketfsck.export",
        "version": __version__,
        "view": options.view,
        "partition": list(partition),
        "stores": [store.facts for store in opened.values()],
    }
    table_schema = pa.schema(list(schema))
    if DATE in partition and DATE not in schema.names:
        table_schema = table_schema.append(pa.field(DATE, pa.date32()))
    if options.wanted.mode != "PERMISSIVE" and wanted.corrupt_column in table_schema.names:
        table_schema = table_schema.remove(table_schema.get_field_index(wanted.corrupt_column))
    files = file_columns(table_schema, partition, options.table_format)
    shape = FileShape(
        files,
        partition,
        order=ORDER if options.view in IN_LOG_ORDER else (),
        compression=options.compression,
        metadata=json.dumps(about).encode(),
        plain_names=options.table_format != "parquet",
        hold_size=SMALL_SIZE if options.merge else 0,
    )
    damage = [
        schema.field(name) for name in (*PROVENANCE, "live", wanted.corrupt_column) if name in schema.names
    ]
    aside = replace(shape, schema=pa.schema(damage), partition=(), folder=ASIDE, hold_size=0)
    crowded = replace(shape, schema=schema, partition=(), folder=CROWDED, hold_size=0)
    return ExportPlan(
        wanted,
        shape,
        aside,
        crowded,
        table_schema,
        tuple(part for store in opened.values() for part in store.parts),
        about,
        {broker: store.begin for broker, store in opened.items() if store.begin is not None},
        tuple(store.gap for store in opened.values() if store.gap is not None),
        failed,
    )


def _wanted(options: ExportOptions, partition: Sequence[str]) -> WantedRows:
    """What is read: the columns asked for, those that lead back to the bytes, those of the partition.

    Damage is always read, so that it can be counted, but for FAILFAST.
    """
    wanted = options.wanted
    mode = wanted.mode if wanted.mode == "FAILFAST" else "PERMISSIVE"
    every = schema_of(options.view, replace(wanted, columns=None, mode=mode)).names
    chosen = set(every if wanted.columns is None else wanted.columns)
    unknown = chosen - set(every)
    if unknown:  # said by the view, with the names that there are
        schema_of(options.view, replace(wanted, columns=tuple(sorted(unknown))))
        every = [*every, *sorted(unknown)]
    chosen |= {*PROVENANCE, wanted.corrupt_column, *partition}
    if options.view == "messages":
        chosen.add(TIME)
    if not options.bodies:
        chosen -= BODY_COLUMNS
    columns = tuple(name for name in every if name in chosen)
    return replace(wanted, mode=mode, columns=columns, damage_rows=True)


def _demand_partition(schema: pa.Schema, partition: Sequence[str]) -> None:
    if len(set(partition)) < len(partition):
        raise UsageError(f"the partition names a column twice: {', '.join(partition)}")
    for name in partition:
        if name == DATE and TIME in schema.names:
            continue
        if name not in schema.names:
            raise UsageError(f"the view has no column {name!r} for directories")
        if not pa.types.is_string(schema.field(name).type):
            raise UsageError(f"the column {name!r} holds no text and cannot name directories")
