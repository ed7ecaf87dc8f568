"""The views that are answers of commands: `offsets`, `topics`, `subscriptions`, `lost`, `starts`.

One part a store. Who reads messages needs nothing of what makes these rows: what does is loaded when one of
them is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from rocketfsck.errors import UsageError
from rocketfsck.pipeline.sources import StoreSource
from rocketfsck.pipeline.views.arrays import Row, printable, row_batches
from rocketfsck.pipeline.views.damage import guarded
from rocketfsck.pipeline.views.model import CORRUPT, Part, View, WantedRows, default_columns
from rocketfsck.store.model import Store

NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AnswerRows:
    """The columns of a view between `broker` and `_corrupt_record`, and its rows.

    `rows` takes the store, what is wanted, and the names of the columns that are; a row of damage has the
    column for it.
    """

    fields: Callable[[], list[pa.Field]]
    rows: Callable[[StoreSource, WantedRows, frozenset[str]], Iterator[Row]]


def _view(
    name: str,
    load: Callable[[], AnswerRows],
    *,
    conditions: frozenset[str] = NOTHING,
    areas: frozenset[str] = NOTHING,
) -> View:
    def every() -> list[pa.Field]:
        return [pa.field("broker", pa.string()), *load().fields(), pa.field(CORRUPT, pa.string())]

    def plan(source: StoreSource, store: Store, wanted: WantedRows) -> Iterator[Part]:
        if wanted.level == "quick" and not areas:
            raise UsageError(
                f"a quick check does not count messages: the view {name} needs level cross or full"
            )
        yield Part(source, name, size=sum(file.size for file in store.commitlog.files))

    def read(part: Part, wanted: WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        place = {"broker": part.source.broker}
        found = load().rows(part.source, wanted, frozenset(schema.names))
        rows = ({**place, **row} for row in found if _is_chosen(row, wanted))
        yield from guarded(wanted, schema, row_batches(rows, schema), lambda: place, "")

    return View(
        name,
        every,
        lambda wanted: default_columns(every(), wanted),
        plan,
        read,
        conditions,
        areas,
    )


def _is_chosen(row: Row, wanted: WantedRows) -> bool:
    """Whether a row belongs to the topic and queue that are wanted; damage always does."""
    if row.get(wanted.corrupt_column) is not None:
        return True
    if wanted.topic is not None and row.get("topic") != printable(wanted.topic):
        return False
    return wanted.queue_id is None or row.get("queue_id") == wanted.queue_id


def _offsets() -> AnswerRows:
    from rocketfsck.pipeline.views import consumers

    return AnswerRows(consumers.offset_fields, consumers.offset_rows)


def _topics() -> AnswerRows:
    from rocketfsck.pipeline.views import consumers

    return AnswerRows(consumers.topic_fields, consumers.topic_rows)


def _subscriptions() -> AnswerRows:
    from rocketfsck.pipeline.views import consumers

    return AnswerRows(consumers.subscription_fields, consumers.subscription_rows)


def _lost() -> AnswerRows:
    from rocketfsck.pipeline.views import outlooks

    return AnswerRows(outlooks.lost_fields, outlooks.lost_rows)


def _starts() -> AnswerRows:
    from rocketfsck.pipeline.views import outlooks

    return AnswerRows(outlooks.start_fields, outlooks.start_rows)


_QUEUES = frozenset({"config", "commitlog", "consumequeue", "batchconsumequeue"})

ANSWERS = (
    _view("offsets", _offsets, conditions=frozenset({"topic", "queue_id"}), areas=_QUEUES),
    _view("topics", _topics, conditions=frozenset({"topic"}), areas=_QUEUES),
    _view("subscriptions", _subscriptions, conditions=frozenset({"topic"}), areas=frozenset({"config"})),
    _view("lost", _lost, conditions=frozenset({"topic", "queue_id"})),
    _view("starts", _starts),
)
