"""Commit log files for tests, made with the reference encoder."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from rocketfsck.formats.magic import MAGIC_BLANK
from rocketfsck.formats.record import Host, encode_record, make_record
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.resync import Region
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.reading import FileReader

BASE = 65536
STORE_TIMESTAMP = 1_700_000_000_000

Row = dict[str, Any]


def record(physical_offset: int, **changes: Any) -> bytes:
    """One record; `physical_offset` is its place in the commit log."""
    values: Row = {
        "topic": b"TopicTest",
        "queue_id": 1,
        "queue_offset": 7,
        "born_timestamp": STORE_TIMESTAMP - 5,
        "born_host": Host(bytes([10, 1, 2, 3]), 54321),
        "store_timestamp": STORE_TIMESTAMP,
        "store_host": Host(bytes([10, 20, 30, 40]), 10911),
        "body": b"hello",
        "properties": b"KEYS\x01k1 k2\x02UNIQ_KEY\x01U1\x02TAGS\x01TagA\x02",
    }
    return encode_record(make_record(physical_offset=physical_offset, **(values | changes)))


def log(*bodies: bytes, base: int = BASE, start: int = 0, **changes: Any) -> bytes:
    """Records with these bodies, one after the other from file position `start` on."""
    data = b""
    for number, body in enumerate(bodies):
        data += record(base + start + len(data), body=body, queue_offset=number, **changes)
    return data


def blank(size: int) -> bytes:
    return struct.pack(">ii", size, MAGIC_BLANK)


def closed(data: bytes, file_size: int) -> bytes:
    """`data` with the BLANK that fits and zeros up to the end of the file."""
    left = file_size - len(data)
    return data + blank(left) + bytes(left - 8)


def scan(
    path: Path,
    *,
    base: int = BASE,
    options: ScanOptions | None = None,
    table: QueueTable | None = None,
    **window: Any,
) -> tuple[list[Row], list[Region]]:
    """All rows (with their keys and run) and all regions of a file; the regions are seen to tile it."""
    rows: list[Row] = []
    regions: list[Region] = []
    with FileReader(path) as reader:
        source = ReadAhead(reader, **window) if window else None
        queues = QueueTable() if table is None else table
        found = scan_log_file(reader, base, options or ScanOptions(), queues, source=source)
        for item in found:
            if isinstance(item, Region):
                regions.append(item)
            else:
                rows += _rows(item)
        assert tiles(regions, reader.size)
    assert sum(region.record_count for region in regions) == len(rows)
    return rows, regions


def _rows(batch: RecordBatch) -> list[Row]:
    columns = {name: batch[name].tolist() for name in batch.records}
    keys = list(zip(*(batch[name].tolist() for name in batch.keys), strict=True))
    found = []
    for number in range(batch.record_count):
        row: Row = {name: column[number] for name, column in columns.items()}
        start = row.pop("key_start")
        row["keys"] = [(key[0], *key[2:]) for key in keys[start : start + row["key_count"]]]
        assert all(key[1] == number for key in keys[start : start + row["key_count"]])
        row["run"] = batch.run
        found.append(row)
    return found


def tiles(regions: list[Region], size: int) -> bool:
    """Whether the regions lie one after the other from 0 to `size`, none of them empty."""
    at = 0
    for region in regions:
        if region.start != at or region.end <= at:
            return False
        at = region.end
    return at == size


def outline(regions: list[Region]) -> list[tuple[str, str, int, int]]:
    return [(region.kind.value, region.reason.value, region.start, region.end) for region in regions]
