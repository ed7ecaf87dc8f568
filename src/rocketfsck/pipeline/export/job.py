"""Stores as Parquet files, or as a Delta or Iceberg table: written by a library, committed in one step.

    DIR/topic=…/date=…/part-….parquet           Parquet: the table
    DIR/run-<id>/in_topic=…/in_date=…/…         Delta, Iceberg: the files of one run
    DIR/_delta_log/, metadata/, catalog.db      Delta's log; Iceberg's metadata and its catalog
    …/_damage/                                  ranges of bytes that are not messages
    …/_manifest.json, …/_SUCCESS                what was written; last of all, that it is whole

Arrow makes Parquet files, here (`local`) or on workers (`work`). What makes them a table is one step: a new
directory gets its name; a table of Delta or Iceberg a commit, which has the marks of how far each log was
read (`marks`). So a run that is killed leaves the table as it was, and files that no reader of the table
sees. Plain Parquet at a URL has its names as it is written, and readers wait for `_SUCCESS`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.export import tables
from rocketfsck.pipeline.export.files import Place, data_files, last_offsets, manifest_of
from rocketfsck.pipeline.export.local import write_by_workers, write_here
from rocketfsck.pipeline.export.model import (
    MANIFEST,
    SUCCESS,
    DamageCount,
    ExportOptions,
    ExportResult,
    marks_of,
    newly_listed,
    selection_digest,
)
from rocketfsck.pipeline.export.plan import ExportPlan, plan_export
from rocketfsck.pipeline.export.rows import broker_of
from rocketfsck.pipeline.export.tables import Commit, LakeTable, TableChangedError, TableShape
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
    append: bool = False,
) -> ExportResult:
    """Export stores into the new directory or to the URL `into`; with `append`, what the table lacks.

    Raises UsageError for what makes no sense, a directory that exists (but for `replace_existing` and
    `append`), a table with other columns or of another selection, and packages that are missing; StoreError
    where something cannot be read or written, no store continues what the table has, and where another run
    changed the table first. Then `into` is as it was. Of several stores, those that cannot be opened or read
    are left out and named in the result.
    """
    options = options or ExportOptions()
    job = _Job(newly_listed(sources), options, LocalEngine() if engine is None else engine)
    _demand_sense(into, options, replace_existing, append)
    into = into if is_remote(into) else into.absolute()
    table = _table_at(into, options, append)
    if table is not None:
        return job.add(into, table)
    if is_remote(into):
        return job.put(into, replace_existing)
    return job.build(into, replace_existing)


def _demand_sense(into: Path, options: ExportOptions, replace_existing: bool, append: bool) -> None:
    tables.demand(options.table_format)
    tables.demand_catalog(into, options.table_format, options.properties)
    is_plain = options.table_format == "parquet"
    if append and is_plain:
        raise UsageError("only Delta and Iceberg tables can be appended to: Parquet files have no commit")
    if append and options.view != "messages":
        raise UsageError(f"only messages can be appended: rows of the view {options.view} change")
    if append and (options.wanted.begin_offset is not None or options.wanted.end_offset is not None):
        raise UsageError("a run that appends starts where the table ends: name no physical offsets")
    if replace_existing and is_remote(into) and not is_plain:
        raise UsageError(f"{into}: --replace is for Parquet files; delete the table first")


def _table_at(into: Path, options: ExportOptions, append: bool) -> LakeTable | None:
    """The table that is appended to; None where a new one is to be made."""
    if options.table_format == "parquet":
        return None
    if not append and not is_remote(into):
        tables.demand_new_table(_name(options), options.properties)
        return None
    if not is_remote(into) and not into.exists():
        return None
    table = tables.find_table(into, options.table_format, _name(options), options.properties)
    if table is None:
        if is_remote(into):
            return None
        is_delta = options.table_format == "delta"
        what = "is not a Delta table" if is_delta else f"the catalog has no table {_name(options)}"
        raise UsageError(f"{into}: exists, but {what}")
    if not append:
        raise UsageError(f"{into}: already exists")
    if table.selection() is None:
        raise UsageError(f"{into}: the table was not made by `rocketfsck export` and cannot be appended to")
    if table.selection() != selection_digest(options):
        raise UsageError(f"{into}: the table was made with another selection of messages, or another --mode")
    return table


def _name(options: ExportOptions) -> str:
    return options.table or f"rocketmq.{options.view}"


@dataclass(frozen=True, slots=True)
class _Job:
    """One export: its stores, and who does the work."""

    sources: tuple[StoreSource, ...]
    options: ExportOptions
    engine: Engine

    @property
    def is_plain(self) -> bool:
        return self.options.table_format == "parquet"

    @property
    def selection(self) -> int | None:
        return selection_digest(self.options) if self.options.view == "messages" else None

    def build(self, into: Path, replace_existing: bool) -> ExportResult:
        """A new directory, which appears when it is whole."""
        if (into.exists() or into.is_symlink()) and not replace_existing:
            raise UsageError(f"{into}: already exists")
        plan = plan_export(self.sources, self.options, self.engine)
        with _named(into):
            leftovers = clear_leftovers(into)
        with _named(into), building_directory(into, replace=replace_existing, sync=True) as building:
            place = Place(building)
            plan, result = self.written(plan, place)
            if self.options.table_format == "delta":
                self.create(building, plan, result)
            if self.options.table_format != "iceberg":
                place.put(SUCCESS, b"")
        if self.options.table_format == "iceberg":  # its metadata has whole paths: made where the files stay
            self.create(into, plan, result)
            Place(into).put(SUCCESS, b"")
        return replace(result, path=str(into), leftovers=leftovers)

    def put(self, into: Path, replace_existing: bool) -> ExportResult:
        """Objects below a URL, which are a table when the last one is there."""
        root = Place(into)
        if not self.is_plain:
            plan = plan_export(self.sources, self.options, self.engine)
            with self.run_in(root) as place:
                plan, result = self.written(plan, place)
                self.create(into, plan, _below(result, place))
            return replace(_below(result, place), path=str(into))
        names = frozenset(root.names())
        if names and not (replace_existing and all(map(_is_ours, names))):
            raise UsageError(f"{into}: already exists")
        plan = plan_export(self.sources, self.options, self.engine)
        if not names and not root.put_new(MANIFEST, b"{}\n"):  # of two exports at once, one is first
            raise UsageError(f"{into}: already exists")
        root.delete(SUCCESS)
        try:
            plan, result = self.written(plan, root, names)
        except BaseException:
            with suppress(StoreError):
                root.clear(names)
                if SUCCESS in names:
                    root.put(SUCCESS, b"")
            raise
        for name in names - {MANIFEST, SUCCESS}:
            root.delete(name)
        root.put(SUCCESS, b"")
        return replace(result, path=str(into))

    def add(self, into: Path, table: LakeTable) -> ExportResult:
        """What is new, to a table that there is."""
        mended = table.mend()
        marks = table.marks([source.broker for source in self.sources])
        plan = plan_export(self.sources, self.options, self.engine, marks)
        table.demand_shape(_shape(plan))
        with self.run_in(Place(into)) as place:
            plan, result = self.written(plan, place)
            if result.files:
                result = _below(result, place)
                about = {**plan.about, "run": place.root.name}
                if not place.is_remote:
                    with _named(into):
                        sync_below(place.root)
                table.append(Commit(result.files, about, result.marks))
                place.put(SUCCESS, b"")
            else:  # damage alone, which the next run finds again
                place.remove()
        return replace(result, path=str(into), appended=True, mended=mended)

    @contextmanager
    def run_in(self, root: Place) -> Iterator[Place]:
        """The directory of a new run; nothing is left of it where nothing was committed."""
        place = root.below(f"run-{secrets.token_hex(8)}")
        try:
            yield place
        except BaseException as error:
            # a commit that failed may have been made all the same
            if isinstance(error, TableChangedError) or not _is_written(place):
                with suppress(StoreError):
                    place.remove()
            raise

    def written(
        self, plan: ExportPlan, place: Place, kept: Set[str] = frozenset()
    ) -> tuple[ExportPlan, ExportResult]:
        """The files of the plan below `place`, without stores that cannot be read: then all is done again.

        `kept` are names of files that were there before.
        """
        while True:
            try:
                return plan, self.attempt(plan, place, kept)
            except StoreError as error:
                broker = broker_of(error, plan.parts)
                if broker is None or len(plan.sources) < 2 or self.options.wanted.mode == "FAILFAST":
                    raise
                plan = plan.without(broker, str(error))
                place.clear(kept)

    def attempt(self, plan: ExportPlan, place: Place, kept: Set[str]) -> ExportResult:
        options, rows = self.options, plan.rows
        if not place.is_remote:
            with _named(place.root):
                place.root.mkdir(exist_ok=True)
        damage = self.write(plan, place, kept)
        files = data_files(place, rows.partition, rows.folders, kept)
        marks = {}
        if not self.is_plain and options.view == "messages":
            marks = marks_of(plan.sources, last_offsets(place, files), self.engine)
        result = ExportResult(
            path=str(place.root),
            files=tuple(files),
            damage=damage,
            damage_told=not options.wanted.selects_messages,
            marks=marks,
            gaps=plan.gaps,
            failed=plan.failed,
        )
        place.put(MANIFEST, manifest_of(plan.about, options, result))
        return result

    def write(self, plan: ExportPlan, place: Place, kept: Set[str]) -> DamageCount:
        """Have Arrow write the files, here or on workers."""
        if isinstance(self.engine, LocalEngine):
            return write_here(plan.rows, plan.parts, place, self.options, self.engine).damage
        return write_by_workers(self.engine, plan.rows, plan.parts, place, self.options, kept)

    def create(self, root: Path, plan: ExportPlan, result: ExportResult) -> None:
        """Make the table of the files below `root`."""
        options = self.options
        about = {**plan.about, "run": result.run}
        commit = Commit(result.files, about, result.marks, self.selection)
        tables.create_table(
            root, options.table_format, _name(options), options.properties, _shape(plan), commit
        )


def _shape(plan: ExportPlan) -> TableShape:
    return TableShape(plan.rows.schema, plan.rows.partition)


def _below(result: ExportResult, place: Place) -> ExportResult:
    """The same with the paths of the files from the root of the table on."""
    run = place.root.name
    return replace(
        result, run=run, files=tuple(replace(file, path=f"{run}/{file.path}") for file in result.files)
    )


def _is_written(place: Place) -> bool:
    with suppress(StoreError):
        return MANIFEST in place.names()
    return True


def _is_ours(name: str) -> bool:
    """Whether an export may have put an object: others are never deleted."""
    return name in (MANIFEST, SUCCESS) or name.endswith((".parquet", f"/{SUCCESS}"))


@contextmanager
def _named(into: Path) -> Iterator[None]:
    """What the system says of the target, as our own errors."""
    try:
        yield
    except FileExistsError as error:
        raise UsageError(f"{into}: already exists") from error
    except OSError as error:
        raise StoreError(f"cannot be written: {error.strerror or error}", path=str(into)) from error


def sync_below(folder: Path) -> None:
    """Make all files and directories below durable, and the name of the directory itself. Raises OSError."""
    with fileops.open_directory(folder) as root:
        sync_tree(root)
    sync_path(folder.parent)
