"""The view `files`: one row a file of a store, and one a thing that is there but belongs to no known part.

The rows say what a listing says: no file is opened. One part a store. An entry that could not be looked
at hides what is in it, so it ends the query, or is a row with `_corrupt_record`, as `on_unreadable` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.sources import StoreSource, open_source
from rocketfsck.pipeline.views.arrays import printable, row_batches
from rocketfsck.pipeline.views.damage import UNREADABLE, account, guarded
from rocketfsck.pipeline.views.model import CORRUPT, Part, View, WantedRows, default_columns
from rocketfsck.store.logpaths import without_entries
from rocketfsck.store.model import MappedFileQueue, Store, StoreFile, StrayReason


def _fields() -> list[pa.Field]:

    text, long = pa.string(), pa.int64()
    return [
        pa.field("broker", text),
        pa.field("file", text),
        pa.field("kind", text),
        pa.field("topic", text),
        pa.field("queue_id", pa.int32()),
        pa.field("start_offset", long),
        pa.field("size", long),
        pa.field("expected_size", long),
        pa.field("allocated_size", long),
        pa.field("modified_timestamp", long),
        pa.field("stray", text),
        pa.field("detail", text),
        pa.field("path", text),
        pa.field(CORRUPT, text),
    ]


def _plan(source: StoreSource, store: Store, wanted: WantedRows) -> Iterator[Part]:  # noqa: ARG001
    yield Part(source, FILES.name)


def _read(part: Part, wanted: WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    place = {"broker": part.source.broker, "path": printable(part.source.path)}
    yield from guarded(wanted, schema, _batches(part, wanted, schema), lambda: place, "")


def _batches(part: Part, wanted: WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    rows = file_rows(open_source(part.source), wanted)
    yield from row_batches(({"broker": part.source.broker, **row} for row in rows), schema)


def file_rows(store: Store, wanted: WantedRows) -> Iterator[dict[str, Any]]:
    """Every file of `Store.all_files`, in that order, then the strays.

    Raises StoreError for one that could not be looked at, unless what cannot be read is to be ignored.
    """
    yield from _queue_rows("commitlog", without_entries(store).commitlog)  # `others` have the rest
    for queue in store.queues:
        kind = "consumequeue" if queue.kind == "file" else "batchconsumequeue"
        yield from _queue_rows(kind, queue.mapped_files, queue.topic, queue.queue_id)
    for ext in store.ext_queues:
        yield from _queue_rows("consumequeue_ext", ext.mapped_files, ext.topic, ext.queue_id)
    for index in store.indexes:
        yield _row(index, "index")
    singles = (("checkpoint", store.checkpoint), ("abort", store.abort), ("lock", store.lock))
    for name, single in singles:
        if single is not None:
            yield _row(single, name)
    for config in store.configs:
        yield _row(config, "config")
    for other in store.others:
        for file in other.files:
            yield _row(file, other.kind.value, other.topic, other.queue_id)
    for stray in store.strays:
        is_unread = stray.reason is StrayReason.UNREADABLE
        reason = f"{stray.path}: cannot be read: {stray.detail}"
        if is_unread and not (wanted.on_unreadable == "row" or wanted.ignore_corrupt_files):
            raise StoreError(f"cannot be read: {stray.detail}", path=str(stray.path))
        yield {
            "file": printable(stray.relative),
            "kind": printable(stray.area),
            "size": stray.size,
            "stray": stray.reason.value,
            "detail": printable(stray.detail),
            "path": printable(str(stray.path)),
            wanted.corrupt_column: account(UNREADABLE, printable(reason), stray.relative, start=0)
            if is_unread
            else None,
        }


def _queue_rows(
    kind: str, queue: MappedFileQueue, topic: str | None = None, queue_id: int | None = None
) -> Iterator[dict[str, Any]]:
    for file in queue.files:
        row = _row(file, kind, topic, queue_id)
        yield {**row, "start_offset": file.start_offset, "expected_size": queue.file_size}


def _row(file: StoreFile, kind: str, topic: str | None = None, queue_id: int | None = None) -> dict[str, Any]:
    return {
        "file": printable(file.relative),
        "kind": kind,
        "topic": None if topic is None else printable(topic),
        "queue_id": queue_id,
        "size": file.size,
        "allocated_size": file.allocated_size,
        "modified_timestamp": file.mtime_ns // 1_000_000,
        "path": printable(file.location),
    }


FILES = View("files", _fields, lambda wanted: default_columns(_fields(), wanted), _plan, _read)
