"""The view `regions`: what every byte range of the commit log files is, one row a range.

The ranges tile the files. The kinds and reasons are the scan's (`scan.log.resync`); where records of an
earlier life of the log begin, a range of records is cut in two, and what is there and after it is not `live`.
One part a file.

The view `damage`: one row a place of the commit log where a sound message should be and is not.

    damaged, malformed, torn, zero    a range of bytes that holds no message (`scan.log.resync`)
    record                            a message with a wrong CRC; topic and queue are those that it names
    unreadable                        bytes that could not be read, where such files are to be ignored

The parts are those of the view `messages`, which has all other rows. CRCs are compared unless `level` is
`cross`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.sources import StoreSource
from rocketfsck.pipeline.views import model
from rocketfsck.pipeline.views.messages import DAMAGE_FAULTS, PartReader, plan_log_parts
from rocketfsck.pipeline.views.walking import DAMAGE, Chunk, DamagedRange, Rows, chunks_of, topic_of
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.log.resync import Reason, Region, RegionKind
from rocketfsck.scan.options import LogItem, log_item
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.views.arrow import LogBatch
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader

RECORD = "record"
"""The kind of a message with a wrong CRC."""


def _damage_fields() -> list[pa.Field]:
    text, long = pa.string(), pa.int64()
    return [
        *model.range_fields(),
        pa.field("live", pa.bool_()),
        pa.field("topic", text),
        pa.field("queue_id", pa.int32()),
        pa.field("queue_offset", long),
    ]


class DamageReader(PartReader):
    """Reads the damage of one part."""

    def __init__(self, part: model.Part, wanted: model.WantedRows, schema: pa.Schema) -> None:
        super().__init__(part, wanted, schema)
        self.checks = wanted.level in (None, "full")
        self.gives_damage = True

    def damage_row(self, found: DamagedRange) -> pa.RecordBatch:
        size, reason = found.end - found.start, model.printable(found.reason)
        values = {**self.place_of(found), "size": size, "kind": found.kind, "reason": reason}
        return model.one_row(self.schema, values)

    def _damage(self, found: DamagedRange) -> Iterator[pa.RecordBatch]:
        self.demand_permissive(found)
        yield self.damage_row(found)

    def _messages(self, log: LogBatch) -> Iterator[pa.RecordBatch]:
        rows = self._rows(log)
        if self.wanted.mode == "FAILFAST":
            self._sound(log.batch, rows)
        faults = log.batch["faults"][rows]
        bad: Rows = rows[np.logical_or.reduce([(faults & fault) != 0 for fault, _ in DAMAGE_FAULTS])]
        text = self.topics and log.table.turned_away_count > 0
        for chunk in chunks_of(log, bad, self.item.parser, compiled=self.compiled, bodies=0, text=text):
            columns = [self._column(field, chunk) for field in self.schema]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, field: pa.Field, chunk: Chunk) -> pa.Array:
        if field.name == "kind":
            return model.repeated(RECORD, len(chunk))
        if field.name == "reason":
            return model.chosen(_first_fault(chunk), [reason for _, reason in DAMAGE_FAULTS])
        if field.name == "topic":
            return topic_of(chunk)
        return super()._column(field, chunk).cast(field.type)


def _first_fault(chunk: Chunk) -> NDArray[np.intp]:
    """For each row the number of the first fault of DAMAGE_FAULTS that it has."""
    faults = chunk["faults"]
    found: NDArray[np.intp] = np.argmax([(faults & fault) != 0 for fault, _ in DAMAGE_FAULTS], axis=0)
    return found


DAMAGED = model.View(
    "damage",
    _damage_fields,
    partial(plan_log_parts, "damage"),
    lambda part, wanted, schema: DamageReader(part, wanted, schema).read(),
    model.OFFSETS,
    model.COMMITLOG,
    frozenset({"broker", "file", "kind", "reason", "live"}),
    of_files=True,
)


def _fields() -> list[pa.Field]:
    return [
        *model.range_fields(),
        pa.field("record_count", pa.int64()),
        pa.field("live", pa.bool_()),
        pa.field(model.CORRUPT, pa.string()),
    ]


def _plan(source: StoreSource, store: Store, wanted: model.WantedRows) -> Iterator[model.Part]:
    """A part for every log file that the offsets touch."""
    for file in store.commitlog.files:
        base = file.start_offset or 0
        if wanted.begin_offset is not None and base + file.size <= wanted.begin_offset:
            continue
        if wanted.end_offset is not None and base >= wanted.end_offset:
            continue
        part = model.Part(source, "regions", file.relative, 0, None, file.size, log_item(store, file))
        yield part.of_file(file)


def _place(part: model.Part, pos: int, size: int) -> model.Row:
    offset = part.item.base_offset + pos
    file = model.printable(part.file)
    return {"broker": part.source.broker, "file": file, "offset": offset, "pos": pos, "size": size}


def _read(part: model.Part, wanted: model.WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    place = _place(part, 0, part.size)
    yield from model.guarded(wanted, schema, _batches(part, wanted, schema), lambda: place, part.file)


def _batches(part: model.Part, wanted: model.WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    rows = (_row(part, region, is_live, wanted) for region, is_live in live_regions(part.item))
    yield from model.row_batches((row for row in rows if row is not None), schema)


def live_regions(item: LogItem) -> Iterator[tuple[Region, bool]]:
    """The regions of a log file in order, and whether each is live; raises StoreError when bytes cannot be
    read."""
    live = LiveScan()
    with FileReader(item.location) as reader:
        options = item.options(reader.size)
        count = 0  # live records of the run that is under way
        waiting: list[Region] = []  # a gap: what comes after it says whether it is live
        for found in live.walk(reader, item.base_offset, options, QueueTable(), past_end=True):
            stale_pos = live.stale_pos
            if not isinstance(found, Region):
                if stale_pos is None:
                    count += found.record_count
                elif int(found["pos"][0]) < stale_pos:
                    count += int((found["pos"] < stale_pos).sum())
                yield from ((one, stale_pos is None or one.start < stale_pos) for one in waiting)
                waiting = []
            elif found.kind is not RegionKind.RECORDS:
                waiting.append(found)
            else:
                yield from _cut(found, count, stale_pos)
                count = 0
        yield from ((one, live.stale_pos is None or one.start < live.stale_pos) for one in waiting)


def _cut(region: Region, live_count: int, stale_pos: int | None) -> Iterator[tuple[Region, bool]]:
    """A run of records, in two where a stale tail begins in it."""
    if stale_pos is None or stale_pos >= region.end:
        yield region, True
    elif stale_pos <= region.start:
        yield region, False
    else:
        left = region.record_count - live_count
        yield Region(region.start, stale_pos, region.kind, Reason.NONE, live_count, region.run), True
        yield Region(stale_pos, region.end, region.kind, region.reason, left, region.run), False


def _row(part: model.Part, region: Region, is_live: bool, wanted: model.WantedRows) -> dict[str, Any] | None:
    offset = part.item.base_offset + region.start
    if wanted.begin_offset is not None and offset < wanted.begin_offset:
        return None
    if wanted.end_offset is not None and offset >= wanted.end_offset:
        return None
    is_damage = region.kind in DAMAGE and (is_live or not wanted.live_only)
    if is_damage and wanted.mode == "DROPMALFORMED":
        return None
    if is_damage and wanted.mode == "FAILFAST":
        said = f"{region.kind} bytes up to {region.end} ({region.reason})"
        raise StoreError(said, path=part.item.location, offset=region.start)
    said = model.account(
        region.kind, region.reason, part.file, start=region.start, end=region.end, offset=offset
    )
    return {
        **_place(part, region.start, region.size),
        "kind": region.kind.value,
        "reason": region.reason.value,
        "record_count": region.record_count,
        "live": is_live,
        wanted.corrupt_column: said if is_damage else None,
    }


_KNOWN = model.PLACE | {"kind", "reason", "record_count", "live"}
REGIONS = model.View("regions", _fields, _plan, _read, model.OFFSETS, model.COMMITLOG, _KNOWN, of_files=True)
