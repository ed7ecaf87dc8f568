"""An export decided: which stores can be opened, which parts of them are read, what their rows are.

Stores are opened and listed where the work is done; the driver gets what is in them. A store that cannot be
opened, or whose log was cut or replaced, is left out and named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rocketfsck._version import __version__
from rocketfsck.engine import Engine
from rocketfsck.errors import RocketfsckError, UsageError
from rocketfsck.pipeline.export.model import (
    DATE,
    PROVENANCE,
    TIME,
    DeletedRange,
    ExportOptions,
    Mark,
    continuation,
)
from rocketfsck.pipeline.export.rows import ExportRows
from rocketfsck.pipeline.sources import StoreSource, open_source
from rocketfsck.pipeline.views.model import Part, WantedRows
from rocketfsck.pipeline.views.table import plan_parts, schema_of
from rocketfsck.progress import phase

SCHEMA_VERSION = 1
BODY_COLUMNS = frozenset({"body", "body_crc_ok"})
DEFAULT_PARTITION: dict[str, tuple[str, ...]] = {"messages": ("topic", DATE), "consumequeue": ("topic",)}


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


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """An export decided: what is read, in which columns; `about` is what the manifest says of it.

    `failed` are brokers whose stores are left out, and why.
    """

    rows: ExportRows
    parts: tuple[Part, ...]
    about: Mapping[str, Any]
    gaps: tuple[DeletedRange, ...] = ()
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
