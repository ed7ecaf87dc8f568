"""The view `regions`: what every byte range of the commit log files is, one row a range.

The ranges tile the files. The kinds and reasons are the scan's (`scan.log.regions`); where records of an
earlier life of the log begin, a range of records is cut in two, and what is there and after it is not `live`.
One part a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.sources import StoreSource
from rocketfsck.pipeline.views import arrays
from rocketfsck.pipeline.views.damage import account, guarded, range_fields
from rocketfsck.pipeline.views.model import CORRUPT, PLACE, Part, View, WantedRows, default_columns
from rocketfsck.pipeline.views.walking import DAMAGE
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.log.regions import Reason, Region, RegionKind
from rocketfsck.scan.options import LogItem, log_item
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader


def _fields() -> list[pa.Field]:
    return [
        *range_fields(),
        pa.field("record_count", pa.int64()),
        pa.field("live", pa.bool_()),
        pa.field(CORRUPT, pa.string()),
    ]


def plan_log_files(view: str, source: StoreSource, store: Store, wanted: WantedRows) -> Iterator[Part]:
    """A part for every log file that the offsets touch."""
    for file in store.commitlog.files:
        base = file.start_offset or 0
        if wanted.begin_offset is not None and base + file.size <= wanted.begin_offset:
            continue
        if wanted.end_offset is not None and base >= wanted.end_offset:
            continue
        yield Part(source, view, file.relative, 0, None, file.size, log_item(store, file)).of_file(file)


def _plan(source: StoreSource, store: Store, wanted: WantedRows) -> Iterator[Part]:
    return plan_log_files(REGIONS.name, source, store, wanted)


def _read(part: Part, wanted: WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    item: LogItem = part.item
    place = {
        "broker": part.source.broker,
        "file": arrays.printable(part.file),
        "offset": item.base_offset,
        "pos": 0,
        "size": part.size,
    }
    yield from guarded(wanted, schema, _batches(part, wanted, schema), lambda: place, part.file)


def _batches(part: Part, wanted: WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    rows = (_row(part, region, is_live, wanted) for region, is_live in live_regions(part.item))
    yield from arrays.row_batches((row for row in rows if row is not None), schema)


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


def _row(part: Part, region: Region, is_live: bool, wanted: WantedRows) -> dict[str, Any] | None:
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
    said = account(region.kind, region.reason, part.file, start=region.start, end=region.end, offset=offset)
    return {
        "broker": part.source.broker,
        "file": arrays.printable(part.file),
        "offset": offset,
        "pos": region.start,
        "size": region.size,
        "kind": region.kind.value,
        "reason": region.reason.value,
        "record_count": region.record_count,
        "live": is_live,
        wanted.corrupt_column: said if is_damage else None,
    }


REGIONS = View(
    "regions",
    _fields,
    lambda wanted: default_columns(_fields(), wanted),
    _plan,
    _read,
    frozenset({"begin_offset", "end_offset"}),
    frozenset({"commitlog"}),
    PLACE | {"kind", "reason", "record_count", "live"},
    of_files=True,
)
