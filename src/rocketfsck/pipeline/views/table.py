"""The views by name, and the three things that can be asked of each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from rocketfsck.errors import UsageError
from rocketfsck.pipeline.sources import StoreSource, open_source
from rocketfsck.pipeline.views.answers import ANSWERS
from rocketfsck.pipeline.views.arrays import printable
from rocketfsck.pipeline.views.damage import UNREADABLE, account, one_row
from rocketfsck.pipeline.views.damaged import DAMAGED
from rocketfsck.pipeline.views.entries import ENTRIES
from rocketfsck.pipeline.views.files import FILES
from rocketfsck.pipeline.views.findings import FINDINGS
from rocketfsck.pipeline.views.messages import MESSAGES
from rocketfsck.pipeline.views.model import CORRUPT, Part, View, WantedRows, is_of_wanted_file
from rocketfsck.pipeline.views.regions import REGIONS
from rocketfsck.pipeline.views.units import UNITS
from rocketfsck.store.areas import demand_listed, unlisted
from rocketfsck.store.model import Store, Stray

_OF_BYTES = (MESSAGES, DAMAGED, UNITS, ENTRIES, REGIONS, FINDINGS, FILES)
VIEWS: dict[str, View] = {view.name: view for view in (*_OF_BYTES, *ANSWERS)}
VIEW_NAMES = tuple(VIEWS)


def schema_of(view: str, wanted: WantedRows | None = None) -> pa.Schema:
    """The columns that every batch of the view has.

    All types are signed, and none is a dictionary: Spark takes them as they are. Raises UsageError for a view
    or column that is not there.
    """
    wanted = wanted or WantedRows()
    chosen = view_named(view)
    fields = {field.name: field for field in chosen.fields()}
    corrupt = fields.pop(CORRUPT, None)
    if corrupt is not None:
        if wanted.corrupt_column in fields:
            raise UsageError(f"the column {wanted.corrupt_column!r} has another meaning in this view")
        fields[wanted.corrupt_column] = corrupt.with_name(wanted.corrupt_column)
    names = wanted.columns if wanted.columns is not None else chosen.default(wanted)
    unknown = [name for name in names if name not in fields]
    if unknown:
        raise UsageError(
            f"the view {view} has no column {', '.join(unknown)}; the columns are {', '.join(fields)}"
        )
    return pa.schema([fields[name] for name in names])


def plan_parts(view: str, sources: Sequence[StoreSource], wanted: WantedRows | None = None) -> list[Part]:
    """The parts that the rows are in, by store and in the store's order.

    Stores are listed again, but for sources whose `listed` was set: they share one look. What could not be
    listed in a directory that the view goes by is a part of its own with `on_unreadable` of `row`. Raises
    UsageError as `schema_of` does, and StoreError for a store that cannot be listed, else in full.
    """
    wanted = wanted or WantedRows()
    schema_of(view, wanted)
    listed = time.time_ns()
    found: list[Part] = []
    for source in sources:
        now = source if source.listed else replace(source, listed=listed)
        found += plan_store(view, now, open_source(now), wanted)
    return found


def plan_store(view: str, source: StoreSource, store: Store, wanted: WantedRows) -> list[Part]:
    """The parts of one store, which is open already. Raises as `plan_parts` does."""
    chosen = view_named(view)
    if not (wanted.on_unreadable == "row" or wanted.ignore_corrupt_files):
        demand_listed(store, chosen.areas)
    found = list(chosen.plan(source, store, wanted))
    if chosen.of_files and wanted.selects_files:
        found = [part for part in found if is_of_wanted_file(part, wanted)]
    return found + [Part(source, view, stray.relative, item=stray) for stray in unlisted(store, chosen.areas)]


def read_part(part: Part, wanted: WantedRows | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a part as batches of exactly the columns of `schema_of`, none of them empty.

    Damage is rows, nothing, or a StoreError with file and position, as the mode says; bytes that cannot be
    read are a StoreError or rows, as `on_unreadable` says. Batches are bounded in bytes.
    """
    wanted = wanted or WantedRows()
    if isinstance(part.item, Stray):
        yield from _unlisted_row(part, part.item, wanted)
        return
    for batch in view_named(part.view).read(part, wanted, schema_of(part.view, wanted)):
        if batch.num_rows:
            yield batch


def _unlisted_row(part: Part, stray: Stray, wanted: WantedRows) -> Iterator[pa.RecordBatch]:
    """The row in place of files that a plan could not find, in a view that has rows for them."""
    reason = f"{stray.path}: cannot be read: {stray.detail or stray.reason}"
    place = {"broker": part.source.broker, "file": printable(part.file)}
    if part.view == DAMAGED.name:
        said = {"kind": UNREADABLE, "reason": printable(reason), "live": True}
    elif wanted.on_unreadable == "fail":
        return
    else:
        said = {wanted.corrupt_column: account(UNREADABLE, printable(reason), part.file, start=0)}
    yield one_row(schema_of(part.view, wanted), {**place, **said})


def view_named(name: str) -> View:
    """The view of a name; raises UsageError for a name that no view has."""
    if name not in VIEWS:
        raise UsageError(f"no view has the name {name!r}; the views are {', '.join(VIEWS)}")
    return VIEWS[name]
