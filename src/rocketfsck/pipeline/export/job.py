"""Stores as Parquet files, or as a Delta or Iceberg table: written by a library, committed in one step.

    DIR/topic=…/date=…/part-….parquet           Parquet: the table
    DIR/run-<id>/in_topic=…/in_date=…/…         Delta, Iceberg: the files of one run
    DIR/_delta_log/, metadata/, catalog.db      Delta's log; Iceberg's metadata and its catalog
    …/_damage/                                  ranges of bytes that are not messages
    …/_manifest.json, …/_SUCCESS                what was written; last of all, that it is whole

Arrow makes Parquet files, here or on workers (`local`). What makes them a table is one step: a new
directory gets its name; a table of Delta or Iceberg a commit, which has the marks of how far each log was
read (`model`). So a run that is killed leaves the table as it was, and files that no reader of the table
sees. Plain Parquet at a URL has its names as it is written, and readers wait for `_SUCCESS`.

An export decided: which stores can be opened, which parts of them are read, what their rows are.

Stores are opened and listed where the work is done; the driver gets what is in them. A store that cannot be
opened, or whose log was cut or replaced, is left out and named.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from rocketfsck._version import __version__
from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.errors import RocketfsckError, StoreError, UsageError
from rocketfsck.pipeline.export import model
from rocketfsck.pipeline.export.files import WRITING, Place, errors_of, manifest_of
from rocketfsck.pipeline.export.local import Writing, Written, write_by_workers, write_here
from rocketfsck.pipeline.export.rows import ExportRows, broker_of
from rocketfsck.pipeline.export.tables import Commit, LakeTable, TableChangedError, TablePlace, TableShape
from rocketfsck.pipeline.sources import StoreSource, open_source
from rocketfsck.pipeline.views.model import Part, WantedRows
from rocketfsck.pipeline.views.table import plan_parts, schema_of
from rocketfsck.progress import phase
from rocketfsck.store.places.urls import is_remote
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.publish import building_directory, clear_leftovers, sync_path, sync_tree

SCHEMA_VERSION = 1
BODY_COLUMNS = frozenset({"body", "body_crc_ok"})
DEFAULT_PARTITION: dict[str, tuple[str, ...]] = {
    "messages": ("topic", model.DATE),
    "consumequeue": ("topic",),
}


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """What an export reads of one store; `begin` is where it continues in the log, in bytes."""

    facts: Mapping[str, Any]
    parts: tuple[Part, ...]
    begin: int | None = None
    gap: model.DeletedRange | None = None


def open_one(
    view: str, wanted: WantedRows, marks: Mapping[str, model.Mark], source: StoreSource
) -> OpenedStore | RocketfsckError:
    """The kernel: open a store and list its parts, or the reason why not.

    `marks` are those of the brokers in the table that is appended to.
    """
    mark = marks.get(source.broker)
    try:
        begin, gap = (None, None) if mark is None else model.continuation(source, mark)
        if begin is not None:
            wanted = replace(wanted, begin_offset=begin)
        facts = store_facts(source)
        return OpenedStore(facts, tuple(plan_parts(view, [source], wanted)), begin, gap)
    except RocketfsckError as error:
        return error


def open_all(
    sources: Sequence[StoreSource],
    view: str,
    wanted: WantedRows,
    marks: Mapping[str, model.Mark],
    engine: Engine,
) -> tuple[dict[str, OpenedStore], tuple[tuple[str, str], ...]]:
    """What is in each store, by broker, and of those that could not be opened the broker and the reason.

    Raises the first such reason if no store is left.
    """
    found: list[OpenedStore | RocketfsckError | None] = [None] * len(sources)
    with phase("opening the stores", len(sources), "files") as at:
        for done, outcome in enumerate(engine.run(partial(open_one, view, wanted, marks), sources), 1):
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


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """An export decided: what is read, in which columns; `about` is what the manifest says of it.

    `failed` are brokers whose stores are left out, and why.
    """

    rows: ExportRows
    parts: tuple[Part, ...]
    about: Mapping[str, Any]
    gaps: tuple[model.DeletedRange, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()

    @property
    def sources(self) -> tuple[StoreSource, ...]:
        """The stores that are read."""
        return tuple(dict.fromkeys(part.source for part in self.parts))

    def without(self, broker: str, reason: str) -> ExportPlan:
        """The plan without the store of a broker."""
        return replace(
            self,
            parts=tuple(part for part in self.parts if part.source.broker != broker),
            about={**self.about, "stores": [one for one in self.about["stores"] if one["broker"] != broker]},
            gaps=tuple(gap for gap in self.gaps if gap.broker != broker),
            failed=(*self.failed, (broker, reason)),
        )


def plan_export(
    sources: Sequence[StoreSource],
    options: model.ExportOptions,
    engine: Engine,
    marks: Mapping[str, model.Mark] | None = None,
) -> ExportPlan:
    """Decide an export, with the stores opened by `engine`; `marks` are those of the table appended to.

    A store that cannot be opened is left out. Raises as `export_stores` does.
    """
    partition = options.partition
    if partition is None:
        partition = DEFAULT_PARTITION.get(options.view, ())
    wanted = _wanted(options, partition)
    _demand_partition(schema_of(options.view, wanted), partition)
    opened, failed = open_all(sources, options.view, wanted, marks or {}, engine)
    about = {
        "schema_version": SCHEMA_VERSION,
        "kind": "rocketfsck.export",
        "version": __version__,
        "view": options.view,
        "partition": list(partition),
        "stores": [store.facts for store in opened.values()],
    }
    begins = {broker: store.begin for broker, store in opened.items() if store.begin is not None}
    in_files, drops = options.table_format != "parquet", options.wanted.mode == "DROPMALFORMED"
    return ExportPlan(
        ExportRows(options.view, wanted, partition, in_files, drops, begins),
        tuple(part for store in opened.values() for part in store.parts),
        about,
        tuple(store.gap for store in opened.values() if store.gap is not None),
        failed,
    )


def _wanted(options: model.ExportOptions, partition: Sequence[str]) -> WantedRows:
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
    chosen |= {*model.PROVENANCE, wanted.corrupt_column, *partition}
    if options.view == "messages":
        chosen.add(model.TIME)
    if not options.bodies:
        chosen -= BODY_COLUMNS
    columns = tuple(name for name in every if name in chosen)
    return replace(wanted, mode=mode, columns=columns, damage_rows=True)


def _demand_partition(schema: pa.Schema, partition: Sequence[str]) -> None:
    if len(set(partition)) < len(partition):
        raise UsageError(f"the partition names a column twice: {', '.join(partition)}")
    for name in partition:
        if name == model.DATE and model.TIME in schema.names:
            continue
        if name not in schema.names:
            raise UsageError(f"the view has no column {name!r} for directories")
        if not pa.types.is_string(schema.field(name).type):
            raise UsageError(f"the column {name!r} holds no text and cannot name directories")


def export_stores(
    sources: Sequence[StoreSource],
    into: Path,
    options: model.ExportOptions | None = None,
    *,
    engine: Engine | None = None,
    replace_existing: bool = False,
    append: bool = False,
) -> model.ExportResult:
    """Export stores into the new directory or to the URL `into`; with `append`, what the table lacks.

    Raises UsageError for what makes no sense, a directory that exists (but for `replace_existing` and
    `append`), a table with other columns or of another selection, and packages that are missing; StoreError
    where something cannot be read or written, no store continues what the table has, and where another run
    changed the table first. Then `into` is as it was. Of several stores, those that cannot be opened or read
    are left out and named in the result.
    """
    options = options or model.ExportOptions()
    job = _Job(model.newly_listed(sources), options, LocalEngine() if engine is None else engine)
    _demand_sense(into, options, replace_existing, append)
    into = into if is_remote(into) else into.absolute()
    table = _table_at(into, options, append)
    if table is not None:
        return job.add(into, table)
    if is_remote(into):
        return job.put(into, replace_existing)
    return job.build(into, replace_existing)


def _demand_sense(into: Path, options: model.ExportOptions, replace_existing: bool, append: bool) -> None:
    _place_of(into, options).demand()
    is_plain = options.table_format == "parquet"
    if append and is_plain:
        raise UsageError("only Delta and Iceberg tables can be appended to: Parquet files have no commit")
    if append and options.view != "messages":
        raise UsageError(f"only messages can be appended: rows of the view {options.view} change")
    if append and (options.wanted.begin_offset is not None or options.wanted.end_offset is not None):
        raise UsageError("a run that appends starts where the table ends: name no physical offsets")
    if replace_existing and is_remote(into) and not is_plain:
        raise UsageError(f"{into}: --replace is for Parquet files; delete the table first")


def _table_at(into: Path, options: model.ExportOptions, append: bool) -> LakeTable | None:
    """The table that is appended to; None where a new one is to be made."""
    if options.table_format == "parquet":
        return None
    place = _place_of(into, options)
    if not append and not is_remote(into):
        place.demand_new()
        return None
    if not is_remote(into) and not into.exists():
        return None
    table = place.find()
    if table is None:
        if is_remote(into):
            return None
        is_delta = options.table_format == "delta"
        what = "is not a Delta table" if is_delta else f"the catalog has no table {place.name}"
        raise UsageError(f"{into}: exists, but {what}")
    if not append:
        raise UsageError(f"{into}: already exists")
    if table.selection() is None:
        raise UsageError(f"{into}: the table was not made by `rocketfsck export` and cannot be appended to")
    if table.selection() != model.selection_digest(options):
        raise UsageError(f"{into}: the table was made with another selection of messages, or another --mode")
    return table


def _place_of(into: Path, options: model.ExportOptions) -> TablePlace:
    name = options.table or f"rocketmq.{options.view}"
    return TablePlace(into, options.table_format, name, options.properties)


@dataclass(frozen=True, slots=True)
class _Job:
    """One export: its stores, and who does the work."""

    sources: tuple[StoreSource, ...]
    options: model.ExportOptions
    engine: Engine

    @property
    def is_plain(self) -> bool:
        return self.options.table_format == "parquet"

    @property
    def selection(self) -> int | None:
        return model.selection_digest(self.options) if self.options.view == "messages" else None

    def build(self, into: Path, replace_existing: bool) -> model.ExportResult:
        """A new directory, which appears when it is whole."""
        if (into.exists() or into.is_symlink()) and not replace_existing:
            raise UsageError(f"{into}: already exists")
        plan = plan_export(self.sources, self.options, self.engine)
        with errors_of(into, WRITING):
            leftovers = clear_leftovers(into)
        with (
            errors_of(into, WRITING),
            building_directory(into, replace=replace_existing, sync=True) as building,
        ):
            place = Place(building)
            plan, result = self.written(plan, place)
            if self.options.table_format == "delta":
                self.create(building, plan, result)
            if self.options.table_format != "iceberg":
                place.put(model.SUCCESS, b"")
        if self.options.table_format == "iceberg":  # its metadata has whole paths: made where the files stay
            self.create(into, plan, result)
            Place(into).put(model.SUCCESS, b"")
        return replace(result, path=str(into), leftovers=leftovers)

    def put(self, into: Path, replace_existing: bool) -> model.ExportResult:
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
        if not names and not root.put_new(model.MANIFEST, b"{}\n"):  # of two exports at once, one is first
            raise UsageError(f"{into}: already exists")
        root.delete(model.SUCCESS)
        try:
            plan, result = self.written(plan, root, names)
        except BaseException:
            with suppress(StoreError):
                root.clear(names)
                if model.SUCCESS in names:
                    root.put(model.SUCCESS, b"")
            raise
        for name in names - {model.MANIFEST, model.SUCCESS}:
            root.delete(name)
        root.put(model.SUCCESS, b"")
        return replace(result, path=str(into))

    def add(self, into: Path, table: LakeTable) -> model.ExportResult:
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
                    with errors_of(into, WRITING):
                        sync_below(place.root)
                table.append(Commit(result.files, about, result.marks))
                place.put(model.SUCCESS, b"")
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
    ) -> tuple[ExportPlan, model.ExportResult]:
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

    def attempt(self, plan: ExportPlan, place: Place, kept: Set[str]) -> model.ExportResult:
        options = self.options
        if not place.is_remote:
            with errors_of(place.root, WRITING):
                place.root.mkdir(exist_ok=True)
        written = self.write(plan, place, kept)
        marks = {}
        if not self.is_plain and options.view == "messages":
            marks = model.marks_of(plan.sources, written.last, self.engine)
        result = model.ExportResult(
            path=str(place.root),
            files=tuple(sorted(written.files, key=lambda file: file.path)),
            damage=written.damage,
            damage_told=not options.wanted.selects_messages,
            marks=marks,
            gaps=plan.gaps,
            failed=plan.failed,
        )
        place.put(model.MANIFEST, manifest_of(plan.about, options, result))
        return result

    def write(self, plan: ExportPlan, place: Place, kept: Set[str]) -> Written:
        """Have Arrow write the files, here or on workers."""
        writing = Writing(plan.rows, place, self.options)
        if isinstance(self.engine, LocalEngine):
            return write_here(writing, plan.parts, self.engine)
        return write_by_workers(writing, plan.parts, self.engine, kept)

    def create(self, root: Path, plan: ExportPlan, result: model.ExportResult) -> None:
        """Make the table of the files below `root`."""
        about = {**plan.about, "run": result.run}
        commit = Commit(result.files, about, result.marks, self.selection)
        _place_of(root, self.options).create(_shape(plan), commit)


def _shape(plan: ExportPlan) -> TableShape:
    return TableShape(plan.rows.schema, plan.rows.partition)


def _below(result: model.ExportResult, place: Place) -> model.ExportResult:
    """The same with the paths of the files from the root of the table on."""
    run = place.root.name
    return replace(
        result, run=run, files=tuple(replace(file, path=f"{run}/{file.path}") for file in result.files)
    )


def _is_written(place: Place) -> bool:
    with suppress(StoreError):
        return model.MANIFEST in place.names()
    return True


def _is_ours(name: str) -> bool:
    """Whether an export may have put an object: others are never deleted."""
    return name in (model.MANIFEST, model.SUCCESS) or name.endswith((".parquet", f"/{model.SUCCESS}"))


def sync_below(folder: Path) -> None:
    """Make all files and directories below durable, and the name of the directory itself. Raises OSError."""
    with fileops.open_directory(folder) as root:
        sync_tree(root)
    sync_path(folder.parent)
