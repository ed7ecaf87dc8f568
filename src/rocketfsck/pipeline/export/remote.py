"""Exports to an object store: data objects first, in a directory of the run, and the commit is one object.

    URL/run-<16 hex digits>/topic=…/date=…/part-….parquet    objects of one run
    URL/_manifest.json, URL/_SUCCESS                          Parquet: which run is the table; it is whole
    URL/_delta_log/…                                          Delta: the commit is a conditional put
    Iceberg                                                   the commit is the catalog's

Readers of plain Parquet that list objects wait for `_SUCCESS`, as after any job on an object store; the
manifest, which is put whole before it, names the objects. Whatever is killed leaves what was there before,
and a directory `run-…` that the next run deletes.

Runs in an object store: each has a directory of its own, and shows that its driver lives.

    URL/run-<16 hex digits>/_owner    written again every minute as long as the driver works
                           /…         the files of the run

There are no locks. A run that has written nothing for a quarter of an hour, by the clock of the store, is a
killed one: the next run deletes its objects unless a commit names it, first of all `_owner`. A driver commits
only while its own `_owner` is there and was written in time, and never writes a deleted one again, so a
driver that was stopped for as long commits nothing whose objects are gone.
"""

from __future__ import annotations

import json
import re
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.export import tables
from rocketfsck.pipeline.export.existing import RUN_NAME, ExistingTable, TableChangedError, find_table
from rocketfsck.pipeline.export.file import FileShape
from rocketfsck.pipeline.export.manifest import write_manifest
from rocketfsck.pipeline.export.marks import newly_listed, selection_digest
from rocketfsck.pipeline.export.model import MANIFEST, SUCCESS, ExportOptions, ExportResult
from rocketfsck.pipeline.export.objects import WORK, Objects
from rocketfsck.pipeline.export.plan import ExportPlan, plan_export
from rocketfsck.pipeline.export.tasks import write_files
from rocketfsck.pipeline.sources import StoreSource
from rocketfsck.store.scratch import scratch_parent

OWNER = "_owner"
BEAT_SECONDS = 60.0
LEASE_SECONDS = 900.0


@dataclass(slots=True)
class ObjectRun:
    """A run below the table's URL. With `keep` its objects stay, whatever error follows."""

    table: Objects
    name: str
    keep: bool = False
    _beaten: float = 0.0  # time.time(): a machine may sleep
    _done: threading.Event = field(default_factory=threading.Event)

    @property
    def objects(self) -> Objects:
        """The objects of the run."""
        return self.table.below(self.name)

    def beat(self) -> None:
        """Show that the driver lives. Raises StoreError."""
        at = time.time()
        self.objects.put(OWNER, b"")
        self._beaten = at

    @property
    def is_owned(self) -> bool:
        """Whether no other run can have taken this one for dead. Raises StoreError."""
        return time.time() - self._beaten < LEASE_SECONDS / 2 and self.objects.exists(OWNER)

    def beats(self) -> None:
        """Do so until the run is done; one that fails is made up for by the next."""
        while not self._done.wait(BEAT_SECONDS):
            try:
                if not self.is_owned:
                    return
                self.beat()
            except StoreError:
                continue

    def end(self) -> None:
        """No beat follows."""
        self._done.set()

    def demand_owned(self) -> None:
        """Raise StoreError if another run may have taken this one for dead."""
        if not self.is_owned:
            raise StoreError(
                "this run did not reach the object store for too long, so nothing was committed",
                path=self.table.url(self.name),
            )


@contextmanager
def object_run(table: Objects, name: str | None = None) -> Iterator[ObjectRun]:
    """A new run of this driver, called `run-…` unless it has a name.

    With an error nothing is left of it, unless `keep`. Raises StoreError.
    """
    run = ObjectRun(table, name or f"run-{secrets.token_hex(8)}")
    beating = threading.Thread(target=run.beats, name="rocketfsck-owner", daemon=True)
    try:
        run.beat()
        beating.start()
        yield run
    except BaseException:
        _end(run, beating)
        if not run.keep:
            _delete_quietly(run)
        raise
    _end(run, beating)
    run.objects.delete(OWNER)


def _end(run: ObjectRun, beating: threading.Thread) -> None:
    run.end()
    if beating.is_alive():
        beating.join()


def _delete_quietly(run: ObjectRun) -> None:
    try:
        run.table.delete(run.name)
    except StoreError:
        return  # the next run deletes the rest


def claim_dead(run: ObjectRun, pattern: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """The names of runs next to this one, without an end, that are dead, and of those that may be alive.

    The dead ones have no owner from then on. Raises StoreError.
    """
    table = run.table
    now = run.objects.last_change(OWNER)
    dead: list[str] = []
    active: list[str] = []
    for name in table.top_names():
        if not pattern.fullmatch(name) or name == run.name or table.exists(f"{name}/{SUCCESS}"):
            continue
        (active if now - table.last_change(name) < LEASE_SECONDS else dead).append(name)
    for name in dead:
        table.delete(f"{name}/{OWNER}")
    return dead, active


@dataclass(frozen=True, slots=True)
class Cleared:
    """Names of runs: those deleted, and those that may be alive."""

    leftovers: tuple[str, ...]
    active: tuple[str, ...]


def clear_object_runs(run: ObjectRun, committed: Callable[[], frozenset[str]]) -> Cleared:
    """Delete the runs of killed drivers that no commit names. Raises StoreError.

    `committed` is asked for the names of committed runs when the owners are known to be gone.
    """
    table = run.table
    dead, active = claim_dead(run, RUN_NAME)
    named = committed() if dead or active else frozenset()
    for name in dead:
        if name in named:
            table.put(f"{name}/{SUCCESS}", b"")
        else:
            table.delete(name)
    return Cleared(
        tuple(name for name in dead if name not in named),
        tuple(name for name in active if name not in named),
    )


_OURS = frozenset({MANIFEST, SUCCESS})
_OF_TABLES = {"parquet": _OURS, "delta": frozenset[str](), "iceberg": frozenset({"metadata"})}
"""What a new export may find at its place: what an earlier one replaces, or a commit that failed left."""


def export_to_objects(
    sources: Sequence[StoreSource],
    into: Path,
    options: ExportOptions,
    *,
    engine: Engine | None = None,
    replace_existing: bool = False,
    append: bool = False,
) -> ExportResult:
    """Export stores to the URL `into`, or append to the table there what is new.

    Raises UsageError for what makes no sense, and StoreError where something cannot be read or written, or
    another run committed first. Then the table is as it was.
    """
    _demand_sense(into, options, replace_existing)
    engine = LocalEngine() if engine is None else engine
    table, name = Objects(into), options.table or f"rocketmq.{options.view}"
    if options.table_format == "parquet":
        return _Plain(table, options).export(sources, engine, replace_existing)
    found = find_table(into, options.table_format, name, options.properties)
    if found is None:
        _demand_free(table, options)
    elif not append:
        raise UsageError(f"{into}: already exists")
    else:
        demand_selection(into, found, selection_digest(options))
    return _Table(table, options, name).export(sources, engine, found)


def demand_selection(into: Path, table: ExistingTable, selection: int) -> None:
    """Raise UsageError unless the table was made with this selection."""
    if table.selection() is None:
        raise UsageError(f"{into}: the table was not made by `rocketfsck export` and cannot be appended to")
    if table.selection() != selection:
        raise UsageError(f"{into}: the table was made with another selection of messages, or another --mode")


def _demand_sense(into: Path, options: ExportOptions, replace_existing: bool) -> None:
    tables.demand(options.table_format)
    tables.demand_catalog(into, options.table_format, options.properties)
    if replace_existing and options.table_format != "parquet":
        raise UsageError(f"{into}: --replace is for Parquet files; delete the table first")


def _demand_free(table: Objects, options: ExportOptions) -> None:
    """Raise UsageError if anything else is below the URL."""
    free = _OF_TABLES[options.table_format]
    if any(name not in free and not RUN_NAME.fullmatch(name) for name in table.top_names()):
        raise UsageError(f"{table.root}: already exists")


@dataclass(frozen=True, slots=True)
class _Plain:
    """Parquet files: the manifest says which run is the table."""

    table: Objects
    options: ExportOptions

    def export(self, sources: Sequence[StoreSource], engine: Engine, replace_existing: bool) -> ExportResult:
        _demand_free(self.table, self.options)
        if self._settled() and not replace_existing:
            raise UsageError(f"{self.table.root}: already exists")
        sources = newly_listed(sources)
        plan = plan_export(sources, self.options, engine)
        with object_run(self.table) as run:
            cleared = clear_object_runs(run, lambda: frozenset(self._runs()))
            result = _written(run, plan, self.options, engine, cleared)
            run.demand_owned()
            former = self._runs()
            about = {**plan.about_without(result.failed), "run": run.name, "replaces": [*former]}
            manifest = _manifest(about, plan.shape, self.options, result)
            if replace_existing:
                self.table.delete(SUCCESS)
                run.keep = True
                self.table.put(MANIFEST, manifest)
            else:
                run.keep = True
                if not self.table.put_new(MANIFEST, manifest):
                    run.keep = False
                    raise UsageError(f"{self.table.root}: already exists")
            self._settled()
        return result

    def _manifest(self) -> dict[str, Any]:
        data = self.table.get(MANIFEST)
        try:
            read = json.loads(data) if data is not None else {}
        except ValueError:
            read = None
        if not isinstance(read, dict):
            raise StoreError("is not the manifest of an export", path=self.table.url(MANIFEST))
        return read

    def _runs(self) -> tuple[str, ...]:
        """The run that is the table, if there is one."""
        return _run_names([self._manifest().get("run")])

    def _settled(self) -> bool:
        """Finish what a commit begins: delete what it replaces, and say that it is whole. False: none."""
        manifest = self._manifest()
        if not manifest:
            return False
        if not self.table.exists(SUCCESS):
            replaced = manifest.get("replaces")
            for name in _run_names(replaced if isinstance(replaced, list) else []):
                if name != manifest.get("run"):
                    self.table.delete(name)
            self.table.put(SUCCESS, b"")
        return True


@dataclass(frozen=True, slots=True)
class _Table:
    """A Delta or Iceberg table, whose own log says which objects it has."""

    table: Objects
    options: ExportOptions
    name: str

    def export(
        self, sources: Sequence[StoreSource], engine: Engine, found: ExistingTable | None
    ) -> ExportResult:
        sources = newly_listed(sources)
        with object_run(self.table) as run:
            cleared = clear_object_runs(run, self._committed)
            # the state that the commit is based on: after the look at what killed runs left
            found = found and self._find()
            mended = found is not None and found.mend()
            marks = {} if found is None else found.marks([source.broker for source in sources])
            plan = plan_export(sources, self.options, engine, marks)
            if found is not None:
                found.demand_shape(plan.table_schema, plan.shape.partition)
            result = _written(run, plan, self.options, engine, cleared)
            result = replace(result, appended=found is not None, mended=mended)
            if found is not None and not result.last:  # damage alone, which the next run finds again
                self.table.delete(run.name)
                return replace(result, aside=(), run="")
            about = {**plan.about_without(result.failed), "run": run.name}
            run.objects.put(MANIFEST, _manifest(about, plan.shape, self.options, result))
            run.demand_owned()
            self._commit(run, found, plan, result, about)
            run.objects.put(SUCCESS, b"")
        return result

    def _find(self) -> ExistingTable | None:
        options = self.options
        return find_table(self.table.root, options.table_format, self.name, options.properties)

    def _committed(self) -> frozenset[str]:
        found = self._find()
        return frozenset() if found is None else found.runs()

    def _commit(
        self,
        run: ObjectRun,
        found: ExistingTable | None,
        plan: ExportPlan,
        result: ExportResult,
        about: Mapping[str, Any],
    ) -> None:
        options, marks = self.options, result.marks
        run.keep = True  # from here on nobody but the table knows
        if found is not None:
            try:
                found.append(result.files, marks, about)
            except TableChangedError:
                run.keep = False
                raise
            return
        is_appendable = options.view == "messages"
        selection = selection_digest(options) if is_appendable else None
        shared: tuple[Path, pa.Schema, Sequence[str], Any, Any] = (
            self.table.root,
            plan.table_schema,
            plan.shape.partition,
            result.files,
            about,
        )
        if options.table_format == "delta":
            tables.commit_delta(*shared, marks=marks if is_appendable else {}, selection=selection)
        else:
            tables.commit_iceberg(
                *shared,
                name=self.name,
                properties=options.properties,
                marks=marks if is_appendable else {},
                selection=selection,
            )


def _written(
    run: ObjectRun, plan: ExportPlan, options: ExportOptions, engine: Engine, cleared: Cleared
) -> ExportResult:
    """The files of a run, by their names below the table."""
    result = write_files(run.objects.root, plan, options, engine)
    run.objects.delete(WORK)
    if result.failed != plan.failed:  # their tasks may have written something
        named = (*result.files, *result.aside, *result.crowded)
        run.objects.keep_only({OWNER, *(file.path for file in named)})
    return replace(
        result.below(run.name),
        path=str(run.table.root),
        run=run.name,
        leftovers=cleared.leftovers,
        active_runs=cleared.active,
    )


def _manifest(
    about: Mapping[str, Any], shape: FileShape, options: ExportOptions, result: ExportResult
) -> bytes:
    with tempfile.TemporaryDirectory(prefix="rocketfsck-export-", dir=scratch_parent()) as folder:
        write_manifest(Path(folder), about, shape, options, result)
        return (Path(folder) / MANIFEST).read_bytes()


def _run_names(values: Sequence[Any]) -> tuple[str, ...]:
    """Those that are names of runs: a manifest is data, and what it names may be deleted."""
    return tuple(value for value in values if isinstance(value, str) and RUN_NAME.fullmatch(value))
