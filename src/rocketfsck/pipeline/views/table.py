"""The views by name, and the three things that can be asked of each.

The views that are answers of commands: `offsets`, `topics`, `subscriptions`, `lost`, `starts`.

One part a store. Who reads messages needs nothing of what makes these rows: what does is loaded when one of
them is read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from rocketfsck.errors import UsageError
from rocketfsck.pipeline.sources import StoreSource, open_source
from rocketfsck.pipeline.views import model
from rocketfsck.pipeline.views.findings import FILES, FINDINGS
from rocketfsck.pipeline.views.messages import MESSAGES
from rocketfsck.pipeline.views.regions import DAMAGED, REGIONS
from rocketfsck.pipeline.views.units import ENTRIES, UNITS
from rocketfsck.store.areas import demand_listed, unlisted
from rocketfsck.store.model import Store, Stray


def _answer(
    name: str, *conditions: str, areas: frozenset[str] = frozenset(), counts: bool = False
) -> model.View:
    def fields() -> list[pa.Field]:
        from rocketfsck.pipeline.views.consumers import ANSWERS

        return ANSWERS[name][0]

    def rows(source: StoreSource, wanted: model.WantedRows, names: frozenset[str]) -> Iterator[model.Row]:
        from rocketfsck.pipeline.views.consumers import ANSWERS

        return (row for row in ANSWERS[name][1](source, wanted, names) if _is_chosen(row, wanted))

    return model.store_view(name, fields, rows, frozenset(conditions), areas, counts=counts)


def _is_chosen(row: model.Row, wanted: model.WantedRows) -> bool:
    """Whether a row belongs to the topic and queue that are wanted; damage always does."""
    if row.get(wanted.corrupt_column) is not None:
        return True
    if wanted.topic is not None and row.get("topic") != model.printable(wanted.topic):
        return False
    return wanted.queue_id is None or row.get("queue_id") == wanted.queue_id


_QUEUES = frozenset({"config", "commitlog", "consumequeue", "batchconsumequeue"})

ANSWERS = (
    _answer("offsets", "topic", "queue_id", areas=_QUEUES),
    _answer("topics", "topic", areas=_QUEUES),
    _answer("subscriptions", "topic", areas=frozenset({"config"})),
    _answer("lost", "topic", "queue_id", counts=True),
    _answer("starts", counts=True),
)


_OF_BYTES = (MESSAGES, DAMAGED, UNITS, ENTRIES, REGIONS, FINDINGS, FILES)
VIEWS: dict[str, model.View] = {view.name: view for view in (*_OF_BYTES, *ANSWERS)}
VIEW_NAMES = tuple(VIEWS)


def schema_of(view: str, wanted: model.WantedRows | None = None) -> pa.Schema:
    """The columns that every batch of the view has.

    All types are signed, and none is a dictionary: Spark takes them as they are. Raises UsageError for a view
    or column that is not there.
    """
    wanted = wanted or model.WantedRows()
    chosen = view_named(view)
    fields = {field.name: field for field in chosen.fields()}
    corrupt = fields.pop(model.CORRUPT, None)
    if corrupt is not None:
        if wanted.corrupt_column in fields:
            raise UsageError(f"the column {wanted.corrupt_column!r} has another meaning in this view")
        fields[wanted.corrupt_column] = corrupt.with_name(wanted.corrupt_column)
    hidden = chosen.further
    if corrupt is not None and wanted.mode != "PERMISSIVE":
        hidden |= {wanted.corrupt_column}
    names = [name for name in fields if name not in hidden] if wanted.columns is None else wanted.columns
    unknown = [name for name in names if name not in fields]
    if unknown:
        raise UsageError(
            f"the view {view} has no column {', '.join(unknown)}; the columns are {', '.join(fields)}"
        )
    return pa.schema([fields[name] for name in names])


def plan_parts(
    view: str, sources: Sequence[StoreSource], wanted: model.WantedRows | None = None
) -> list[model.Part]:
    """The parts that the rows are in, by store and in the store's order.

    Stores are listed again, but for sources whose `listed` was set: they share one look. What could not be
    listed in a directory that the view goes by is a part of its own with `on_unreadable` of `row`. Raises
    UsageError as `schema_of` does, and StoreError for a store that cannot be listed, else in full.
    """
    wanted = wanted or model.WantedRows()
    schema_of(view, wanted)
    listed = time.time_ns()
    found: list[model.Part] = []
    for source in sources:
        now = source if source.listed else replace(source, listed=listed)
        found += plan_store(view, now, open_source(now), wanted)
    return found


def plan_store(view: str, source: StoreSource, store: Store, wanted: model.WantedRows) -> list[model.Part]:
    """The parts of one store, which is open already. Raises as `plan_parts` does."""
    chosen = view_named(view)
    if not (wanted.on_unreadable == "row" or wanted.ignore_corrupt_files):
        demand_listed(store, chosen.areas)
    found = list(chosen.plan(source, store, wanted))
    if chosen.of_files and wanted.selects_files:
        found = [part for part in found if model.is_of_wanted_file(part, wanted)]
    return found + [
        model.Part(source, view, stray.relative, item=stray) for stray in unlisted(store, chosen.areas)
    ]


def read_part(part: model.Part, wanted: model.WantedRows | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a part as batches of exactly the columns of `schema_of`, none of them empty.

    Damage is rows, nothing, or a StoreError with file and position, as the mode says; bytes that cannot be
    read are a StoreError or rows, as `on_unreadable` says. Batches are bounded in bytes.
    """
    wanted = wanted or model.WantedRows()
    if isinstance(part.item, Stray):
        yield from _unlisted_row(part, part.item, wanted)
        return
    for batch in view_named(part.view).read(part, wanted, schema_of(part.view, wanted)):
        if batch.num_rows:
            yield batch


def _unlisted_row(part: model.Part, stray: Stray, wanted: model.WantedRows) -> Iterator[pa.RecordBatch]:
    """The row in place of files that a plan could not find, in a view that has rows for them."""
    reason = f"{stray.path}: cannot be read: {stray.detail or stray.reason}"
    place = {"broker": part.source.broker, "file": model.printable(part.file)}
    if part.view == DAMAGED.name:
        said = {"kind": model.UNREADABLE, "reason": model.printable(reason), "live": True}
    elif wanted.on_unreadable == "fail":
        return
    else:
        said = {
            wanted.corrupt_column: model.account(
                model.UNREADABLE, model.printable(reason), part.file, start=0
            )
        }
    yield model.one_row(schema_of(part.view, wanted), {**place, **said})


def view_named(name: str) -> model.View:
    """The view of a name; raises UsageError for a name that no view has."""
    if name not in VIEWS:
        raise UsageError(f"no view has the name {name!r}; the views are {', '.join(VIEWS)}")
    return VIEWS[name]
