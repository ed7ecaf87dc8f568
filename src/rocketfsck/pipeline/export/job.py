"""Stores as Parquet files, or as a Delta or Iceberg table: written in the workers, committed by the driver.

    DIR/topic=…/date=…/part-<task>-<n>.parquet    the table
    DIR/_damage/part-<task>-<n>.parquet           ranges of bytes that are no message
    DIR/_crowded/…                                rows of partitions beyond those that a task may have
    DIR/_delta_log/, metadata/, catalog.db        Delta's log; Iceberg's metadata and its catalog
    DIR/_manifest.json, DIR/_SUCCESS              what was written; last of all, that it is whole

Everything is built in a directory beside DIR that takes its name when it is whole, so that half an export is
never seen under that name. Tasks and files are the same whatever the engine and however many run at once.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from rocketfsck import __version__
from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.export import tables
from rocketfsck.pipeline.export.file import TEMPORARY, DataFile, FileShape
from rocketfsck.pipeline.export.merge import merge_files, plan_merges
from rocketfsck.pipeline.export.model import (
    ASIDE,
    CROWDED,
    DATE,
    MANIFEST,
    PROVENANCE,
    SUCCESS,
    TIME,
    ExportOptions,
    ExportResult,
    ExportTask,
    TaskResult,
)
from rocketfsck.pipeline.export.work import export_part
from rocketfsck.pipeline.sources import Source, open_source
from rocketfsck.pipeline.views.model import Part, Wanted
from rocketfsck.pipeline.views.table import plan_parts, schema_of
from rocketfsck.store.reading import Progress
from rocketfsck.writer.disk.publish import building_directory

TASK_SIZE = 256 << 20
"""Bytes of a store that one task reads, about: so many, whatever the engine, that files are the same."""

WORK = "_work"
"""Where the workers write. What the driver takes out of it is the export, and nothing else."""

SCHEMA_VERSION = 1
BODY_COLUMNS = frozenset({"body", "body_crc_ok"})
DEFAULT_PARTITION: dict[str, tuple[str, ...]] = {"messages": ("topic", DATE), "consumequeue": ("topic",)}
ORDER = ("broker", "offset")
IN_LOG_ORDER = ("messages", "regions")


@dataclass(frozen=True, slots=True)
class _Plan:
    """An export decided: what is read, what the files are like."""

    wanted: Wanted
    shape: FileShape
    aside: FileShape
    crowded: FileShape
    table_schema: pa.Schema
    parts: tuple[Part, ...]
    about: dict[str, Any]


def export_stores(
    sources: Sequence[Source],
    into: Path,
    options: ExportOptions | None = None,
    *,
    engine: Engine | None = None,
    replace_existing: bool = False,
    progress: Progress | None = None,
) -> ExportResult:
    """Export stores into the new directory `into`; `progress` is told bytes read, and of how many.

    Raises UsageError for what makes no sense, a directory that exists (but for `replace_existing`) and
    packages that are missing; StoreError where something cannot be read or written. Then `into` is as it was.
    """
    options = options or ExportOptions()
    engine = LocalEngine() if engine is None else engine
    tables.demand(options.table_format)
    name = options.table or f"rocketmq.{options.view}"
    tables.demand_new_table(name, options.properties)
    into = into.absolute()
    if (into.exists() or into.is_symlink()) and not replace_existing:
        raise UsageError(f"{into}: exists already")
    plan = _plan(sources, options)
    with _told(into), building_directory(into, replace=replace_existing, sync=True) as building:
        work = building / WORK
        (work / TEMPORARY).mkdir(parents=True)
        result = _write(work, plan, options, engine, progress)
        _accept(building, work, result)
        _write_manifest(building, plan, options, result)
        if options.table_format == "delta":
            tables.commit_delta(building, plan.table_schema, plan.shape.partition, result.files, plan.about)
        if options.table_format != "iceberg":
            (building / SUCCESS).touch()
    if options.table_format == "iceberg":
        # Iceberg's metadata has whole paths: it is made where the files stay.
        tables.commit_iceberg(
            into,
            plan.table_schema,
            plan.shape.partition,
            result.files,
            plan.about,
            name=name,
            properties=options.properties,
        )
        with _told(into):
            (into / SUCCESS).touch()
    return replace(result, path=str(into))


def _plan(sources: Sequence[Source], options: ExportOptions) -> _Plan:
    partition = options.partition
    if partition is None:
        partition = DEFAULT_PARTITION.get(options.view, ())
    wanted = _wanted(options, partition)
    schema = schema_of(options.view, wanted)
    _demand_partition(schema, partition)
    about = {
        "schema_version": SCHEMA_VERSION,
        "kind": "rocketfsck.export",
        "version": __version__,
        "view": options.view,
        "partition": list(partition),
        "stores": [_store_facts(source) for source in sources],
    }
    table_schema = pa.schema(list(schema))
    if DATE in partition and DATE not in schema.names:
        table_schema = table_schema.append(pa.field(DATE, pa.date32()))
    if options.wanted.mode != "PERMISSIVE" and wanted.corrupt_column in table_schema.names:
        table_schema = table_schema.remove(table_schema.get_field_index(wanted.corrupt_column))
    kept = options.table_format == "iceberg"
    files = [item for item in table_schema if kept or item.name not in partition]
    shape = FileShape(
        pa.schema(files),
        partition,
        order=ORDER if options.view in IN_LOG_ORDER else (),
        compression=options.compression,
        metadata=json.dumps(about).encode(),
        plain_names=options.table_format != "parquet",
    )
    damage = [
        schema.field(name) for name in (*PROVENANCE, "live", wanted.corrupt_column) if name in schema.names
    ]
    aside = replace(shape, schema=pa.schema(damage), partition=(), folder=ASIDE)
    crowded = replace(shape, schema=schema, partition=(), folder=CROWDED)
    parts = tuple(plan_parts(options.view, sources, wanted))
    return _Plan(wanted, shape, aside, crowded, table_schema, parts, about)


def _wanted(options: ExportOptions, partition: Sequence[str]) -> Wanted:
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
    return replace(wanted, mode=mode, columns=tuple(name for name in every if name in chosen))


def _demand_partition(schema: pa.Schema, partition: Sequence[str]) -> None:
    if len(set(partition)) < len(partition):
        raise UsageError(f"a column of the partition was named twice: {', '.join(partition)}")
    for name in partition:
        if name == DATE and TIME in schema.names:
            continue
        if name not in schema.names:
            raise UsageError(f"rows cannot be put in directories by {name!r}: the view has no such column")
        if not pa.types.is_string(schema.field(name).type):
            raise UsageError(f"rows cannot be put in directories by {name!r}: it is no text")


def _store_facts(source: Source) -> dict[str, Any]:
    store = open_source(source)
    evidence = store.dialect_evidence
    return {
        "broker": source.broker,
        "store": source.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        "dialect": str(evidence.dialect.version),
        "dialect_given": evidence.given,
    }


def _write(
    work: Path, plan: _Plan, options: ExportOptions, engine: Engine, progress: Progress | None
) -> ExportResult:
    tasks = [
        ExportTask(
            number,
            str(work),
            parts,
            plan.wanted,
            plan.shape,
            plan.aside,
            plan.crowded,
            options.wanted.mode == "DROPMALFORMED",
            options.memory_size,
            options.view == "messages",
        )
        for number, parts in enumerate(_runs(plan.parts))
    ]
    total = sum(part.size for part in plan.parts)
    done = 0
    found: list[TaskResult | None] = [None] * len(tasks)
    for outcome in engine.run(export_part, tasks):
        found[outcome.index] = outcome.result
        done += sum(part.size for part in outcome.task.parts)
        if progress is not None:
            progress(done, total)
    results = [result for result in found if result is not None]
    files = [file for result in results for file in result.files]
    before = len(files)
    if options.merge:
        files = _merged(work, files, plan.shape, engine)
    return ExportResult(
        path=str(work),
        files=tuple(sorted(files, key=lambda file: file.path)),
        aside=tuple(file for result in results for file in result.aside),
        crowded=tuple(file for result in results for file in result.crowded),
        damage_count=sum(result.damage_count for result in results),
        damage_size=sum(result.damage_size for result in results),
        corrupt_count=sum(result.corrupt_count for result in results),
        damage_told=not options.wanted.selects_messages,
        task_count=len(tasks),
        merged_count=before - len(files),
    )


def _runs(parts: Sequence[Part]) -> Iterator[tuple[Part, ...]]:
    """Parts of one store, one after the other, as long as a task should be."""
    run: list[Part] = []
    for part in parts:
        if run and (part.source != run[0].source or sum(item.size for item in run) >= TASK_SIZE):
            yield tuple(run)
            run = []
        run.append(part)
    if run:
        yield tuple(run)


def _merged(work: Path, files: list[DataFile], shape: FileShape, engine: Engine) -> list[DataFile]:
    kept, tasks = plan_merges(files, shape, str(work))
    for outcome in engine.run(merge_files, tasks):
        kept += outcome.result or []
    return kept


def _accept(building: Path, work: Path, result: ExportResult) -> None:
    """Move the files that the tasks named to where they stay, and take the rest away.

    An attempt that still runs finds its directory gone, and what it wrote is not among the files.
    """
    for file in (*result.files, *result.aside, *result.crowded):
        target = building / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        (work / file.path).rename(target)
    gone = work.with_name("_gone")
    work.rename(gone)
    shutil.rmtree(gone)


def _write_manifest(building: Path, plan: _Plan, options: ExportOptions, result: ExportResult) -> None:
    head = plan.about | {
        "format": options.table_format,
        "mode": options.wanted.mode,
        "selection": {
            name: value
            for name, value in asdict(options.wanted).items()
            if value is not None and name not in ("mode", "corrupt_column")
        },
        "row_count": result.row_count,
        "damage_count": result.damage_count,
        "damage_size": result.damage_size,
        "damage_told": result.damage_told,
        "corrupt_count": result.corrupt_count,
    }
    with (building / MANIFEST).open("w", encoding="ascii") as stream:
        stream.write(json.dumps(head, indent=1)[:-2])
        for name, files in (("files", result.files), ("damage", result.aside), ("crowded", result.crowded)):
            stream.write(f',\n "{name}": [')
            before = "\n  "
            for file in files:
                stream.write(before + json.dumps(_file_facts(file, plan.shape if name == "files" else None)))
                before = ",\n  "
            stream.write("]")
        stream.write("\n}\n")


def _file_facts(file: DataFile, shape: FileShape | None) -> dict[str, Any]:
    values = {} if shape is None else dict(zip(shape.partition, file.cell.values, strict=True))
    bounds = {
        name: {"min": low, "max": high}
        for name, (low, high, _) in file.bounds.items()
        if name in ("offset", TIME, "queue_offset")
    }
    return {"path": file.path, "partition": values, "row_count": file.row_count, "size": file.size, **bounds}


@contextmanager
def _told(into: Path) -> Iterator[None]:
    """What the system says of the target, as our own errors."""
    try:
        yield
    except FileExistsError as error:
        raise UsageError(f"{into}: exists already") from error
    except OSError as error:
        raise StoreError(f"cannot be written: {error.strerror or error}", path=str(into)) from error
