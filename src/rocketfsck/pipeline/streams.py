"""The rows of one open store as a stream of Arrow record batches, with timestamps that are times."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from rocketfsck.errors import UsageError
from rocketfsck.pipeline.sources import StoreSource, broker_name
from rocketfsck.pipeline.views.model import CONDITIONS, Part, WantedRows
from rocketfsck.pipeline.views.table import plan_store, read_part, schema_of, view_named
from rocketfsck.store.model import Store

TIME = pa.timestamp("ms", "UTC")
FIRST_TIME = -62_135_596_800_000
"""The first millisecond of the year 1: nothing before it is a Python datetime."""
LAST_TIME = 253_402_300_799_999
"""The last millisecond of the year 9999."""
_TIMES = frozenset({"store_timestamp", "born_timestamp"})


def read_stream(store: Store, view: str, wanted: WantedRows, *, real_times: bool) -> pa.RecordBatchReader:
    """The rows of a view of a store, part after part, as they are asked for.

    With `real_times`, timestamps have the type `TIME`, and those outside of the years 1 to 9999 are null;
    else they are numbers in ms. Raises UsageError for a view, column or condition that there is not, and
    StoreError for directories that cannot be listed; the stream raises StoreError when bytes cannot be read.
    """
    named = {name for name in CONDITIONS if getattr(wanted, name) is not None}
    for name in sorted(named - view_named(view).conditions):
        raise UsageError(f"the view {view} has no selection by {name}")
    schema = schema_of(view, wanted)
    parts = plan_store(view, source_of(store), store, wanted)
    if not real_times:
        return pa.RecordBatchReader.from_batches(schema, _batches(parts, wanted))
    timed = pa.schema([field.with_type(TIME) if _is_time(field) else field for field in schema])
    found = (_timed(batch, timed) for batch in _batches(parts, wanted))
    return pa.RecordBatchReader.from_batches(timed, found)


def source_of(store: Store) -> StoreSource:
    """The source that an open store is."""
    stated = store.stated
    conf = None if stated.broker_conf is None else os.fspath(stated.broker_conf)
    root = os.fspath(store.root)
    return StoreSource(
        broker_name(root, conf),
        root,
        stated.version,
        conf,
        tuple(os.fspath(path) for path in stated.commitlog_paths),
        stated.delay_levels,
        storage_options=stated.storage_options,
    )


def _batches(parts: list[Part], wanted: WantedRows) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from read_part(part, wanted)


def _is_time(field: pa.Field) -> bool:
    return field.name in _TIMES and field.type == pa.int64()


def _timed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        _times(column) if field.type == TIME else column
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _times(numbers: pa.Array) -> pa.Array:
    possible = pc.and_(pc.greater_equal(numbers, FIRST_TIME), pc.less_equal(numbers, LAST_TIME))
    return pc.if_else(possible, numbers, pa.scalar(None, pa.int64())).cast(TIME)
