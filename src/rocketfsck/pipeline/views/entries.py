"""The view `index`: one row an index entry in use, by file and number.

The names of the fields are those of the entry (reference 4.1); `slot` is where its chain hangs, and
`store_timestamp` the time that `time_diff` means, to the second. A part is a file, or `split_size` bytes of
its entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rocketfsck.formats.indexfile import ENTRY, ENTRY_SIZE, entry_pos
from rocketfsck.formats.layout import shown_name
from rocketfsck.pipeline.sources import StoreSource
from rocketfsck.pipeline.views import arrays
from rocketfsck.pipeline.views.damage import guarded
from rocketfsck.pipeline.views.model import CORRUPT, Part, View, WantedRows, default_columns
from rocketfsck.reader.index import BLOCK_COUNT, IndexReader
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.model import IndexFile, Store

_FIELDS = {shown_name(field.name): field for field in ENTRY.fields}
"""Fields of an entry by the names of their columns."""


@dataclass(frozen=True, slots=True)
class EntryFile:
    """An index file, and the geometry that it is read by."""

    file: IndexFile
    slot_count: int
    entry_count: int


def _fields() -> list[pa.Field]:

    text, long, integer = pa.string(), pa.int64(), pa.int32()
    return [
        pa.field("broker", text),
        pa.field("file", text),
        pa.field("entry", integer),
        pa.field("pos", long),
        pa.field("slot", integer),
        *(arrays.field_of(name, field) for name, field in _FIELDS.items()),
        pa.field("store_timestamp", long),
        pa.field(CORRUPT, text),
    ]


def _plan(source: StoreSource, store: Store, wanted: WantedRows) -> Iterator[Part]:
    """Positions of a part are those of its entries, whole ones."""
    geometry = store.geometry
    for file in store.indexes:
        item = EntryFile(file, geometry.slot_count, geometry.entry_count)
        if not wanted.split_size:
            yield Part(source, ENTRIES.name, file.relative, 0, None, file.size, item).of_file(file)
            continue
        first = entry_pos(0, max(geometry.slot_count, 1))
        step = max(wanted.split_size // ENTRY_SIZE, 1) * ENTRY_SIZE
        bounds: list[int] = [0, *range(first + step, file.size, step)]
        for start, end in zip(bounds, [*bounds[1:], None], strict=True):
            yield Part(source, ENTRIES.name, file.relative, start, end, step, item).of_file(file)


def _read(part: Part, wanted: WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    place = {"broker": part.source.broker, "file": arrays.printable(part.file), "pos": part.start}
    batches = _batches(part, wanted, schema)
    yield from guarded(wanted, schema, batches, lambda: place, part.file)


def _batches(part: Part, wanted: WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:

    item: EntryFile = part.item
    geometry = Geometry(slot_count=item.slot_count, entry_count=item.entry_count)
    with IndexReader(item.file, geometry) as reader:
        first = max(-(-(part.start - reader.first_pos) // ENTRY_SIZE), 1)
        end = reader.used_entry + 1
        if part.end is not None:
            end = min(end, -(-(part.end - reader.first_pos) // ENTRY_SIZE))
        for number in range(first, end, BLOCK_COUNT):
            entries = reader.entries(number, min(BLOCK_COUNT, end - number))
            numbers = np.arange(number, number + len(entries), dtype=np.int32)
            keep = np.ones(len(entries), np.bool_)
            if wanted.begin_offset is not None:
                keep &= entries["phyOffset"] >= wanted.begin_offset
            if wanted.end_offset is not None:
                keep &= entries["phyOffset"] < wanted.end_offset
            rows = np.flatnonzero(keep)
            columns = [_column(field, part, reader, numbers[rows], entries[rows], wanted) for field in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(
    field: pa.Field,
    part: Part,
    reader: IndexReader,
    numbers: NDArray[np.int32],
    entries: NDArray[Any],
    wanted: WantedRows,
) -> pa.Array:

    name = field.name
    if name in _FIELDS:
        values = entries[_FIELDS[name].name]
        return arrays.numbers(values.astype(values.dtype.newbyteorder("=")))
    if name == "entry":
        return arrays.numbers(numbers)
    if name == "pos":
        return arrays.numbers(reader.first_pos + ENTRY_SIZE * numbers.astype(np.int64))
    if name == "slot":
        return arrays.numbers((entries["keyHash"].astype(np.int64) % reader.slot_count).astype(np.int32))
    if name == "store_timestamp":
        seconds = entries["timeDiff"].astype(np.int64)
        return arrays.numbers(np.int64(reader.header.begin_timestamp) + 1000 * seconds)
    if name == wanted.corrupt_column:
        return pa.nulls(len(entries), pa.string())
    return arrays.repeated(part.source.broker if name == "broker" else part.file, len(entries))


ENTRIES = View(
    "index",
    _fields,
    lambda wanted: default_columns(_fields(), wanted),
    _plan,
    _read,
    frozenset({"begin_offset", "end_offset"}),
    frozenset({"index"}),
    frozenset({"broker", "file", "pos", "slot", "entry"}),
    of_files=True,
)
