"""The view `consumequeue`: one row a unit of a consume queue, by queue and place.

Units of `kind` `unit`, and `invalid` ones, which are damage; `zero` and `pre_blank`, which fill files, only
with `live_only` off; without them holes are not read. A part is a run of files of several queues.
Reference 3.1, 3.3, 3.7.

The view `index`: one row an index entry in use, by file and number.

The names of the fields are those of the entry (reference 4.1); `slot` is where its chain hangs, and
`store_timestamp` the time that `time_diff` means, to the second. A part is a file, or `split_size` bytes of
its entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rocketfsck.errors import StoreError
from rocketfsck.formats.consumequeue import BATCH_UNIT, UNIT
from rocketfsck.formats.indexfile import ENTRY, ENTRY_SIZE, entry_pos
from rocketfsck.formats.layout import shown_name, shown_unit_name
from rocketfsck.pipeline.sources import StoreSource
from rocketfsck.pipeline.views import model
from rocketfsck.reader.index import BLOCK_COUNT as ENTRY_BLOCK_COUNT
from rocketfsck.reader.index import IndexReader
from rocketfsck.reader.units import BLOCK_COUNT, Kind, UnitReader, kinds_of
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.model import ConsumeQueue, IndexFile, Store

_ENTRY_FIELDS = {shown_name(field.name): field for field in ENTRY.fields}
"""Fields of an entry by the names of their columns."""


@dataclass(frozen=True, slots=True)
class EntryFile:
    """An index file, and the geometry that it is read by."""

    file: IndexFile
    slot_count: int
    entry_count: int


def _entry_fields() -> list[pa.Field]:
    text, long, integer = pa.string(), pa.int64(), pa.int32()
    return [
        *model.typed(text, "broker", "file"),
        pa.field("entry", integer),
        pa.field("pos", long),
        pa.field("slot", integer),
        *(model.field_of(name, field) for name, field in _ENTRY_FIELDS.items()),
        pa.field("store_timestamp", long),
        pa.field(model.CORRUPT, text),
    ]


def _plan_entries(source: StoreSource, store: Store, wanted: model.WantedRows) -> Iterator[model.Part]:
    """Positions of a part are those of its entries, whole ones."""
    geometry = store.geometry
    for file in store.indexes:
        item = EntryFile(file, geometry.slot_count, geometry.entry_count)
        if not wanted.split_size:
            yield model.Part(source, ENTRIES.name, file.relative, 0, None, file.size, item).of_file(file)
            continue
        first = entry_pos(0, max(geometry.slot_count, 1))
        step = max(wanted.split_size // ENTRY_SIZE, 1) * ENTRY_SIZE
        bounds: list[int] = [0, *range(first + step, file.size, step)]
        for start, end in zip(bounds, [*bounds[1:], None], strict=True):
            yield model.Part(source, ENTRIES.name, file.relative, start, end, step, item).of_file(file)


def _read_entries(part: model.Part, wanted: model.WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    place = {"broker": part.source.broker, "file": model.printable(part.file), "pos": part.start}
    batches = _batches(part, wanted, schema)
    yield from model.guarded(wanted, schema, batches, lambda: place, part.file)


def _batches(part: model.Part, wanted: model.WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    item: EntryFile = part.item
    geometry = Geometry(slot_count=item.slot_count, entry_count=item.entry_count)
    with IndexReader(item.file, geometry) as reader:
        first = max(-(-(part.start - reader.first_pos) // ENTRY_SIZE), 1)
        end = reader.used_entry + 1
        if part.end is not None:
            end = min(end, -(-(part.end - reader.first_pos) // ENTRY_SIZE))
        for number in range(first, end, ENTRY_BLOCK_COUNT):
            entries = reader.entries(number, min(ENTRY_BLOCK_COUNT, end - number))
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
    part: model.Part,
    reader: IndexReader,
    numbers: NDArray[np.int32],
    entries: NDArray[Any],
    wanted: model.WantedRows,
) -> pa.Array:
    name = field.name
    if name in _ENTRY_FIELDS:
        values = entries[_ENTRY_FIELDS[name].name]
        return model.numbers(values.astype(values.dtype.newbyteorder("=")))
    if name == "entry":
        return model.numbers(numbers)
    if name == "pos":
        return model.numbers(reader.first_pos + ENTRY_SIZE * numbers.astype(np.int64))
    if name == "slot":
        return model.numbers((entries["keyHash"].astype(np.int64) % reader.slot_count).astype(np.int32))
    if name == "store_timestamp":
        seconds = entries["timeDiff"].astype(np.int64)
        return model.numbers(np.int64(reader.header.begin_timestamp) + 1000 * seconds)
    if name == wanted.corrupt_column:
        return pa.nulls(len(entries), pa.string())
    return model.repeated(part.source.broker if name == "broker" else part.file, len(entries))


_KNOWN = frozenset({"broker", "file", "pos", "slot", "entry"})
ENTRIES = model.View(
    "index",
    _entry_fields,
    _plan_entries,
    _read_entries,
    model.OFFSETS,
    frozenset({"index"}),
    _KNOWN,
    of_files=True,
)


PART_SIZE = 64 << 20
"""Bytes of queue files that one part has at most, where one file has not more."""

_KINDS = [kind.name.lower() for kind in Kind]
_FILLING = (Kind.ZERO, Kind.PRE_BLANK)
_FIELDS = {
    shown_unit_name(field.name): field
    for layout in (UNIT, BATCH_UNIT)
    for field in layout.fields
    if field.name != "reserved"
}
"""Fields of the units by the names of their columns; a queue of either kind lacks those of the other."""


@dataclass(frozen=True, slots=True)
class UnitRange:
    """Units `start:end` of a queue, by index; `queue` has no more files than they are in."""

    queue: ConsumeQueue
    start: int
    end: int


def _fields() -> list[pa.Field]:
    text, long = pa.string(), pa.int64()
    return [
        *model.typed(text, "broker", "topic"),
        pa.field("queue_id", pa.int32()),
        pa.field("queue_kind", text),
        pa.field("index", long),
        pa.field("kind", text),
        *(model.field_of(name, field) for name, field in _FIELDS.items()),
        pa.field("file", text),
        pa.field("pos", long),
        pa.field(model.CORRUPT, text),
    ]


def _plan(source: StoreSource, store: Store, wanted: model.WantedRows) -> Iterator[model.Part]:
    most = wanted.split_size or PART_SIZE
    ranges: list[UnitRange] = []
    size = 0
    for queue in store.queues:
        if wanted.queue_id not in (None, queue.queue_id):
            continue
        if wanted.topic not in (None, model.printable(queue.topic)):
            continue
        for one in _ranges(queue, wanted.split_size):
            count = (one.end - one.start) * queue.unit_size
            if ranges and size + count > most:
                yield model.Part(source, UNITS.name, size=size, item=tuple(ranges))
                ranges, size = [], 0
            ranges.append(one)
            size += count
    if ranges:
        yield model.Part(source, UNITS.name, size=size, item=tuple(ranges))


def _ranges(queue: ConsumeQueue, split_size: int) -> Iterator[UnitRange]:
    """The whole units of each file, each once, as `reader.units.read_blocks` goes through them."""
    unit_size = queue.unit_size
    done = 0
    for file in queue.files:
        start = file.start_offset or 0
        first, end = max(-(-start // unit_size), done), (start + file.size) // unit_size
        step = max(split_size // unit_size, 1) if split_size else max(end - first, 1)
        for low in range(first, end, step):
            high = min(low + step, end)
            yield UnitRange(_part_of(queue, low * unit_size, high * unit_size), low, high)
        done = max(done, end)


def _part_of(queue: ConsumeQueue, low: int, high: int) -> ConsumeQueue:
    """The queue with just the files that have bytes between these stream positions."""
    files = tuple(
        file
        for file in queue.files
        if (file.start_offset or 0) < high and (file.start_offset or 0) + file.size > low
    )
    return replace(queue, mapped_files=replace(queue.mapped_files, files=files), ext=None)


def _read(part: model.Part, wanted: model.WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    one: UnitRange
    for one in part.item:
        reader = _RangeReader(part, one, wanted, schema)
        yield from model.guarded(wanted, schema, reader.batches(), reader.place, reader.file)


class _RangeReader:
    """Reads one range; `next` is the index that comes next."""

    def __init__(self, part: model.Part, one: UnitRange, wanted: model.WantedRows, schema: pa.Schema) -> None:
        self.broker = part.source.broker
        self.range = one
        self.wanted = wanted
        self.schema = schema
        self.next = one.start

    def _places(self, index: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """The file, by its number in the range's queue, and the position in it, of units."""
        files, pos = self.range.queue.files, index * self.range.queue.unit_size
        starts = np.array([file.start_offset or 0 for file in files], np.int64)
        number = np.searchsorted(starts, pos, side="right") - 1
        return number, pos - starts[number]

    @property
    def file(self) -> str:
        number, _ = self._places(np.array([self.next]))
        return self.range.queue.files[int(number[0])].relative

    def place(self) -> dict[str, Any]:
        queue = self.range.queue
        return {
            "broker": self.broker,
            "topic": model.printable(queue.topic),
            "queue_id": queue.queue_id,
            "queue_kind": queue.kind,
            "index": self.next,
            "file": model.printable(self.file),
        }

    def batches(self) -> Iterator[pa.RecordBatch]:
        with UnitReader(self.range.queue) as reader:
            while self.next < self.range.end:
                if self.wanted.live_only:
                    self._pass_holes(reader)
                count = min(BLOCK_COUNT, self.range.end - self.next)
                if count:
                    units = reader.units(self.next, count)
                    yield self._batch(self.next, units)
                    self.next += count

    def _pass_holes(self, reader: UnitReader) -> None:
        """Go on to the first block that has data: units in holes are zeros, no rows.

        Whole blocks are passed over, so that batches are the same with holes and without.
        """
        size = reader.unit_size
        pos, found = self.next * size, self.range.end * size
        for number, start in enumerate(reader.starts):
            if start >= found:
                break
            file = reader.reader(number)
            if file.size < reader.files[number].size:
                return  # it became shorter: reading it says so
            data = next(file.data_extents(max(pos - start, 0)), None)
            if data is not None:
                found = min(found, max(start + data[0], pos))
        skipped = (found - pos) // size
        self.next += skipped if found == self.range.end * size else skipped // BLOCK_COUNT * BLOCK_COUNT

    def _batch(self, first: int, units: NDArray[Any]) -> pa.RecordBatch:
        kinds = kinds_of(units)
        index = np.arange(first, first + len(units), dtype=np.int64)
        keep = self._kept(units, kinds)
        if self.wanted.mode == "FAILFAST":
            self._demand_sound(index[keep & (kinds == Kind.INVALID)])
        rows = np.flatnonzero(keep)
        units, kinds, index = units[rows], kinds[rows], index[rows]
        columns = [self._column(field, index, units, kinds) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _kept(self, units: NDArray[Any], kinds: NDArray[np.int8]) -> NDArray[np.bool_]:
        wanted, keep = self.wanted, np.ones(len(units), np.bool_)
        if wanted.live_only:
            keep &= ~np.isin(kinds, _FILLING)
        if wanted.mode == "DROPMALFORMED":
            keep &= kinds != Kind.INVALID
        if wanted.begin_offset is not None:
            keep &= units["offset"] >= wanted.begin_offset
        if wanted.end_offset is not None:
            keep &= units["offset"] < wanted.end_offset
        return keep

    def _demand_sound(self, bad: NDArray[np.int64]) -> None:
        if len(bad):
            number, pos = self._places(bad[:1])
            path = self.range.queue.files[int(number[0])].location
            raise StoreError(f"unit {bad[0]} of the queue is invalid", path=path, offset=int(pos[0]))

    def _column(
        self, field: pa.Field, index: NDArray[np.int64], units: NDArray[Any], kinds: NDArray[np.int8]
    ) -> pa.Array:
        name, queue = field.name, self.range.queue
        if name in _FIELDS:
            stored = _FIELDS[name].name
            if stored not in (units.dtype.names or ()):
                return pa.nulls(len(units), field.type)
            return _native(units[stored], field.type)
        if name == "index":
            return model.numbers(index)
        if name == "kind":
            return model.chosen(kinds, _KINDS)
        if name == "queue_id":
            return model.numbers(np.full(len(units), queue.queue_id, np.int32))
        if name == "pos":
            return model.numbers(self._places(index)[1])
        if name == "file":
            names = [model.printable(file.relative) for file in queue.files]
            return model.chosen(self._places(index)[0], names)
        if name == self.wanted.corrupt_column:
            return self._corrupt(index, kinds)
        texts = {"broker": self.broker, "topic": queue.topic, "queue_kind": queue.kind}
        return model.repeated(texts[name], len(units))

    def _corrupt(self, index: NDArray[np.int64], kinds: NDArray[np.int8]) -> pa.Array:
        _, pos = self._places(index)
        end = pos + self.range.queue.unit_size
        said = model.accounts("unit", "invalid", self.file, start=pos, end=end)
        return pc.if_else(pa.array(kinds == Kind.INVALID), said, pa.scalar(None, pa.string()))


def _native(column: NDArray[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(np.ascontiguousarray(column.astype(column.dtype.newbyteorder("=")))).cast(kind)


UNITS = model.View(
    "consumequeue",
    _fields,
    _plan,
    _read,
    model.OFFSETS | {"topic", "queue_id"},
    frozenset({"consumequeue", "batchconsumequeue"}),
    frozenset({"broker", "topic", "queue_id", "queue_kind", "index", "kind", "file", "pos"}),
)
