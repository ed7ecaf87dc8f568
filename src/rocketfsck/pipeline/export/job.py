"""Stores as Parquet files, or as a Delta or Iceberg table: written in the workers, committed by the driver.

    DIR/topic=…/date=…/part-<task>-<n>.parquet    the table
    DIR/_damage/part-<task>-<n>.parquet           ranges of bytes that are not messages
    DIR/_crowded/…                                rows of partitions beyond those that a task may have
    DIR/_delta_log/, metadata/, catalog.db        Delta's log; Iceberg's metadata and its catalog
    DIR/_manifest.json, DIR/_SUCCESS              what was written; last of all, that it is whole
    DIR/run-<id>/                                  the same of a run that appends (`append`)

Everything is built in a directory next to DIR that takes its name when it is whole, so that half an export
is never seen under that name. `remote` does the same for object stores, which have no renames.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.export import tables
from rocketfsck.pipeline.export.file import TEMPORARY
from rocketfsck.pipeline.export.manifest import write_manifest
from rocketfsck.pipeline.export.marks import newly_listed, selection_digest
from rocketfsck.pipeline.export.model import SUCCESS, ExportOptions, ExportResult
from rocketfsck.pipeline.export.objects import WORK
from rocketfsck.pipeline.export.plan import plan_export
from rocketfsck.pipeline.export.remote import export_to_objects
from rocketfsck.pipeline.export.tasks import write_files
from rocketfsck.pipeline.sources import StoreSource
from rocketfsck.store.places.urls import is_remote
from rocketfsck.writer.disk.publish import building_directory, clear_leftovers


def export_stores(
    sources: Sequence[StoreSource],
    into: Path,
    options: ExportOptions | None = None,
    *,
    engine: Engine | None = None,
    replace_existing: bool = False,
) -> ExportResult:
    """Export stores into the new directory `into`, or to a URL (`remote`).

    Raises UsageError for what makes no sense, a directory that exists (but for `replace_existing`) and
    packages that are missing; StoreError where something cannot be read or written. Then `into` is as it was.
    Of several stores, those that cannot be opened or read are left out and named in the result.
    """
    options = options or ExportOptions()
    if is_remote(into):
        return export_to_objects(sources, into, options, engine=engine, replace_existing=replace_existing)
    engine = LocalEngine() if engine is None else engine
    tables.demand(options.table_format)
    name = options.table or f"rocketmq.{options.view}"
    tables.demand_new_table(name, options.properties)
    into = into.absolute()
    if (into.exists() or into.is_symlink()) and not replace_existing:
        raise UsageError(f"{into}: already exists")
    sources = newly_listed(sources)
    plan = plan_export(sources, options, engine)
    with named(into):
        leftovers = clear_leftovers(into)
    with named(into), building_directory(into, replace=replace_existing, sync=True) as building:
        work = building / WORK
        (work / TEMPORARY).mkdir(parents=True)
        result = write_files(work, plan, options, engine)
        accept_files(building, work, result)
        about = plan.about_without(result.failed)
        write_manifest(building, about, plan.shape, options, result)
        appendable = options.table_format != "parquet" and options.view == "messages"
        selection = selection_digest(options) if appendable else None
        if options.table_format == "delta":
            tables.commit_delta(
                building,
                plan.table_schema,
                plan.shape.partition,
                result.files,
                about,
                marks=result.marks,
                selection=selection,
            )
        if options.table_format != "iceberg":
            (building / SUCCESS).touch()
    if options.table_format == "iceberg":
        # Iceberg's metadata has whole paths: it is made where the files stay.
        tables.commit_iceberg(
            into,
            plan.table_schema,
            plan.shape.partition,
            result.files,
            about,
            name=name,
            properties=options.properties,
            marks=result.marks,
            selection=selection,
        )
        with named(into):
            (into / SUCCESS).touch()
    return replace(result, path=str(into), leftovers=leftovers)


def accept_files(building: Path, work: Path, result: ExportResult) -> None:
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


@contextmanager
def named(into: Path) -> Iterator[None]:
    """What the system says of the target, as our own errors."""
    try:
        yield
    except FileExistsError as error:
        raise UsageError(f"{into}: already exists") from error
    except OSError as error:
        raise StoreError(f"cannot be written: {error.strerror or error}", path=str(into)) from error
