"""An export decided: which parts of which stores are read, and what its files are like."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from rocketfsck._version import __version__
from rocketfsck.engine import Engine
from rocketfsck.errors import UsageError
from rocketfsck.pipeline.export.file import FileShape
from rocketfsck.pipeline.export.layout import file_columns
from rocketfsck.pipeline.export.marks import Mark
from rocketfsck.pipeline.export.merge import SMALL_SIZE
from rocketfsck.pipeline.export.model import ASIDE, CROWDED, DATE, PROVENANCE, TIME, ExportOptions, Gap
from rocketfsck.pipeline.export.opening import open_all
from rocketfsck.pipeline.sources import Source
from rocketfsck.pipeline.views.model import Part, Wanted
from rocketfsck.pipeline.views.table import schema_of

SCHEMA_VERSION = 1
BODY_COLUMNS = frozenset({"body", "body_crc_ok"})
DEFAULT_PARTITION: dict[str, tuple[str, ...]] = {"messages": ("topic", DATE), "consumequeue": ("topic",)}
ORDER = ("broker", "offset")
IN_LOG_ORDER = ("messages", "regions")


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """An export decided: what is read, what the files are like."""

    wanted: Wanted
    shape: FileShape
    aside: FileShape
    crowded: FileShape
    table_schema: pa.Schema
    parts: tuple[Part, ...]
    about: dict[str, Any]
    begins: Mapping[str, int] = field(default_factory=dict)
    """Brokers whose log is read from this offset on, in bytes."""
    gaps: tuple[Gap, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    """Brokers whose stores could not be opened, and why."""

    def about_without(self, failed: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """`about`, without the stores of brokers that failed."""
        gone = {broker for broker, _ in failed}
        return {**self.about, "stores": [one for one in self.about["stores"] if one["broker"] not in gone]}

    def wanted_of(self, broker: str) -> Wanted:
        """What is read of the stores of a broker."""
        begin = self.begins.get(broker)
        return self.wanted if begin is None else replace(self.wanted, begin_offset=begin)


def plan_export(
    sources: Sequence[Source],
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
