"""Stores as Parquet files, or as a Delta or Iceberg table: written in the workers, committed by the driver.

    DIR/topic=…/date=…/part-<task>-<n>.parquet    the table
    DIR/_damage/part-<task>-<n>.parquet           ranges of bytes that are not messages
    DIR/_crowded/…                                rows of partitions beyond those that a task may have
    DIR/_delta_log/, metadata/, catalog.db        Delta's log; Iceberg's metadata and its catalog
    DIR/_manifest.json, DIR/_SUCCESS              what was written; last of all, that it is whole
    DIR/run-<id>/                                  the same of a run that appends

Everything is built in a directory next to DIR that takes its name when it is whole, so that half an export
is never seen under that name. `remote` does the same for object stores, which have no renames.

What is new in stores, appended to a Delta or Iceberg table: each message once, however often it is run.

    DIR/run-<16 hex digits>/…   the files of one run, its _manifest.json and, after the commit, _SUCCESS

A run reads the marks of the table (`marks`), writes what follows them into a directory of its own, and
commits its files together with the new marks. A run that is killed before the commit leaves the table as it
was, and a directory that no commit names; the process that owns it holds a lock (flock). The next run removes
the directories that nobody owns.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.export import tables
from rocketfsck.pipeline.export.existing import RUN_NAME, ExistingTable, TableChangedError, open_table
from rocketfsck.pipeline.export.file import TEMPORARY
from rocketfsck.pipeline.export.manifest import write_manifest
from rocketfsck.pipeline.export.marks import newly_listed, selection_digest
from rocketfsck.pipeline.export.model import SUCCESS, ExportOptions, ExportResult
from rocketfsck.pipeline.export.objects import WORK
from rocketfsck.pipeline.export.plan import plan_export
from rocketfsck.pipeline.export.remote import demand_selection, export_to_objects
from rocketfsck.pipeline.export.tasks import write_files
from rocketfsck.pipeline.sources import StoreSource
from rocketfsck.store.places.urls import is_remote
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.publish import building_directory, clear_leftovers, sync_path, sync_tree


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


def append_stores(
    sources: Sequence[StoreSource],
    into: Path,
    options: ExportOptions,
    *,
    engine: Engine | None = None,
) -> ExportResult:
    """Append the messages that the table in `into` does not have; without a table, export all of them.

    Raises UsageError for what makes no sense, a directory without such a table, and other columns or another
    selection than the table has; StoreError where something cannot be written, no store can be read or
    continues what the table has, and where another run changed the table first. Then the table is as it was.
    """
    _demand_appendable(options)
    if is_remote(into):
        return export_to_objects(sources, into, options, engine=engine, append=True)
    into = into.absolute()
    if not os.path.lexists(into):
        return export_stores(sources, into, options, engine=engine)
    tables.demand(options.table_format)
    name = options.table or f"rocketmq.{options.view}"
    opened = partial(open_table, into, options.table_format, name, options.properties)
    demand_selection(into, opened(), selection_digest(options))
    with named(into):
        leftovers = clear_runs(into, opened)
    table = opened()
    mended = table.mend()
    sources = newly_listed(sources)
    engine = LocalEngine() if engine is None else engine
    plan = plan_export(sources, options, engine, table.marks([source.broker for source in sources]))
    table.demand_shape(plan.table_schema, plan.shape.partition)
    with named(into), run_directory(into) as run:
        work = run.path / WORK
        (work / TEMPORARY).mkdir(parents=True)
        result = write_files(work, plan, options, engine)
        accept_files(run.path, work, result)
        result = result.below(run.path.name)
        if result.last:
            about = {**plan.about_without(result.failed), "run": run.path.name}
            write_manifest(run.path, about, plan.shape, options, result)
            sync_below(run.path)
            run.is_committing = True
            table.append(result.files, result.marks, about)
            (run.path / SUCCESS).touch()
        else:  # damage alone, which the next run finds again
            shutil.rmtree(run.path)
            result = replace(result, aside=())
    name = run.path.name if result.last else ""
    return replace(result, path=str(into), leftovers=leftovers, appended=True, mended=mended, run=name)


def _demand_appendable(options: ExportOptions) -> None:
    if options.table_format == "parquet":
        raise UsageError("only Delta and Iceberg tables can be appended to: Parquet files have no commit")
    if options.view != "messages":
        raise UsageError(f"only messages can be appended: rows of the view {options.view} change")
    if options.wanted.begin_offset is not None or options.wanted.end_offset is not None:
        raise UsageError("a run that appends starts where the table ends: name no physical offsets")


@dataclass(slots=True)
class AppendRun:
    """The directory of a run; with `is_committing` nobody but the table knows whether it belongs to it."""

    path: Path
    is_committing: bool = False


@contextmanager
def run_directory(into: Path) -> Iterator[AppendRun]:
    """A new directory in a table for the files of one run, locked by this process.

    With an error nothing is left of it; but if the commit ended in an error, the next run asks the table.
    Raises OSError.
    """
    run = AppendRun(into / f"run-{secrets.token_hex(8)}")
    run.path.mkdir()
    descriptor = os.open(run.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks: then nothing counts as a leftover
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield run
        except TableChangedError:
            shutil.rmtree(run.path, ignore_errors=True)
            raise
        except BaseException:
            if not run.is_committing:
                shutil.rmtree(run.path, ignore_errors=True)
            raise
    finally:
        os.close(descriptor)


def clear_runs(into: Path, opened: Callable[[], ExistingTable]) -> tuple[str, ...]:
    """Remove the directories of killed runs that no commit names; gives their names. Raises OSError.

    A directory stays that another process holds, that a commit names, or that is not of this form.
    """
    suspects = [
        path
        for path in sorted(into.iterdir())
        if RUN_NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
        if not (path / SUCCESS).exists()
    ]
    removed = []
    for path in suspects:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue  # its run is alive
            if path.name in opened().runs():  # as it is now that the owner is gone
                (path / SUCCESS).touch()
                continue
            shutil.rmtree(path)
            removed.append(path.name)
        finally:
            os.close(descriptor)
    return tuple(removed)


def sync_below(folder: Path) -> None:
    """Make all files and directories below durable, and the name of the directory itself. Raises OSError."""
    with fileops.open_directory(folder) as root:
        sync_tree(root)
    sync_path(folder.parent)
