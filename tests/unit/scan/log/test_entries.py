"""Records in DLedger's entries: the plain scan and the kernels, sound files and damaged ones."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.common.budget import within
from rocketfsck.formats.dledger import DLEDGER_BLANK, DLEDGER_ENTRY, ENTRY_HEADER_SIZE
from rocketfsck.scan.columns import RecordBatch, new_batch
from rocketfsck.scan.log.resync import Reason, Region, RegionKind
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.reading import FileReader

from tests.unit.scan.logmaker import record

BASE, SIZE = 1 << 20, 8192
Found = tuple[list[Region], list[dict[str, Any]]]


def entry(pos: int, index: int, *, magic: int = 1, body_size: int = 20) -> bytes:
    place = BASE + pos + ENTRY_HEADER_SIZE
    body = record(place, queue_offset=index, body=b"x" * body_size) if magic == 1 else bytes(body_size)
    header = {
        "magic": magic, "size": ENTRY_HEADER_SIZE + len(body), "index": index, "term": 2, "pos": BASE + pos,
        "channel": 0, "chainCrc": 0, "bodyCrc": 0, "bodyLen": len(body),
    }  # fmt: skip
    return DLEDGER_ENTRY.build(header) + body


def made(
    count: int, *, blank: bool = True, noop_at: int = -1, body_size: int = 20
) -> tuple[bytearray, list[int]]:
    data, places = bytearray(), []
    for index in range(count):
        places.append(len(data))
        data += entry(len(data), index, magic=2 if index == noop_at else 1, body_size=body_size)
    places.append(len(data))
    if blank:
        data += DLEDGER_BLANK.build({"magic": -1, "size": SIZE - len(data)})
    return data + bytes(SIZE - len(data)), places


def scanned(path: Path, data: bytearray, *, compiled: bool, rows: int = 64, small: bool = False) -> Found:
    path.write_bytes(data)
    regions, records = [], []
    with FileReader(path) as reader, within(compiled=compiled):
        source = ReadAhead(reader, buffer_size=256, front_size=256, threaded=False) if small else None
        options = ScanOptions(True, "scan", len(data), in_entries=True)
        for found in scan_log_file(
            reader,
            BASE,
            options,
            QueueTable(),
            batch=new_batch(rows, 64, 64),
            source=source,
        ):
            if isinstance(found, RecordBatch):
                columns = {name: found[name].tolist() for name in found.records}
                records += [
                    dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
                ]
            else:
                regions.append(found)
    assert [region.start for region in regions[1:]] == [region.end for region in regions[:-1]]
    assert (regions[0].start, regions[-1].end) == (0, len(data))
    return regions, records


@pytest.fixture(params=["plain", "compiled", "windows"])
def scan(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[bytearray], Found]:
    def run(data: bytearray) -> Found:
        compiled, small = request.param == "compiled", request.param == "windows"
        return scanned(tmp_path / "log", data, compiled=compiled, rows=3, small=small)

    return run


def kinds(found: Found) -> list[tuple[RegionKind, int]]:
    return [(region.kind, region.record_count) for region in found[0]]


def test_records_are_48_bytes_behind_their_entries(scan: Callable[[bytearray], Found]) -> None:
    data, places = made(10, noop_at=4)
    found = scan(data)
    assert kinds(found) == [(RegionKind.RECORDS, 9), (RegionKind.BLANK, 0), (RegionKind.FILLER, 0)]
    assert [row["pos"] for row in found[1]] == [
        pos + ENTRY_HEADER_SIZE for index, pos in enumerate(places[:-1]) if index != 4
    ]
    assert not any(row["faults"] for row in found[1])
    assert found[0][1].reason == Reason.NONE
    assert kinds(scan(made(10, blank=False)[0])) == [(RegionKind.RECORDS, 10), (RegionKind.ZERO, 0)]


def test_records_larger_than_the_window(tmp_path: Path) -> None:
    data, places = made(5, body_size=1000)
    found = scanned(tmp_path / "log", data, compiled=False, small=True)
    assert [row["pos"] for row in found[1]] == [pos + ENTRY_HEADER_SIZE for pos in places[:-1]]


@pytest.mark.parametrize(
    ("at", "value", "kind", "count", "reason"),
    [
        (0, 77, RegionKind.DAMAGED, 10, Reason.MAGIC),  # the entry's magic: the record is there, bare
        (4, 9, None, 10, None),  # its size: the record says where the next one is
        (44, 9, None, 10, None),
        (48, 5, RegionKind.MALFORMED, 9, Reason.SIZE),  # the record's totalSize
        (52, 5, RegionKind.MALFORMED, 9, Reason.MAGIC),
        (48 + 84, 1 << 20, RegionKind.MALFORMED, 9, Reason.BODY_LENGTH),
    ],
)
def test_a_damaged_entry_takes_no_other_with_it(
    scan: Callable[[bytearray], Found],
    at: int,
    value: int,
    kind: RegionKind | None,
    count: int,
    reason: Reason | None,
) -> None:
    data, places = made(10)
    struct.pack_into(">i", data, places[3] + at, value)
    found = scan(data)
    assert len(found[1]) == count
    gaps = [region for region in found[0] if region.kind not in ("records", "blank", "filler")]
    assert [(gap.kind, gap.reason) for gap in gaps] == ([] if kind is None else [(kind, reason)])
    if kind is RegionKind.MALFORMED:
        assert (gaps[0].start, gaps[0].end) == (places[3], places[4])
    elif kind is not None:
        assert (gaps[0].start, gaps[0].end) == (places[3], places[3] + ENTRY_HEADER_SIZE)


def test_a_record_damaged_with_its_header_is_stepped_over(scan: Callable[[bytearray], Found]) -> None:
    data, places = made(10)
    data[places[3] : places[3] + 60] = b"x" * 60
    found = scan(data)
    assert len(found[1]) == 9
    (gap,) = [region for region in found[0] if region.kind == RegionKind.DAMAGED]
    assert (gap.start, gap.end) == (places[3], places[4])


def test_the_end_of_a_file(scan: Callable[[bytearray], Found]) -> None:
    data, places = made(10)
    struct.pack_into(">i", data, places[10] + 4, 99)
    assert scan(data)[0][1].reason == Reason.BLANK_SIZE
    data, places = made(10, blank=False)
    data[places[9] + 60 :] = bytes(SIZE - places[9] - 60)  # written in part
    found = scan(data)
    assert kinds(found)[0] == (RegionKind.RECORDS, 9)
    assert found[0][1].kind in (RegionKind.TORN, RegionKind.DAMAGED)
    assert found[0][1].start == places[9]
    data, places = made(10)
    struct.pack_into(">i", data, places[9] + 52, 5)  # the last one, in front of the blank
    assert kinds(scan(data)) == [
        (RegionKind.RECORDS, 9),
        (RegionKind.MALFORMED, 0),
        (RegionKind.BLANK, 0),
        (RegionKind.FILLER, 0),
    ]


def test_zeros_between_entries(scan: Callable[[bytearray], Found]) -> None:
    data, places = made(10)
    data[places[3] : places[5]] = bytes(places[5] - places[3])
    found = scan(data)
    assert len(found[1]) == 8
    assert (found[0][1].kind, found[0][1].start, found[0][1].end) == (RegionKind.ZERO, places[3], places[5])


def test_an_entry_that_cannot_end_in_the_file(scan: Callable[[bytearray], Found]) -> None:
    data, places = made(10, noop_at=4)
    struct.pack_into(">i", data, places[4] + 4, 1 << 20)
    found = scan(data)
    assert len(found[1]) == 9
    assert [region.reason for region in found[0] if region.kind == RegionKind.DAMAGED] == [Reason.SIZE]
    struct.pack_into(">i", data, places[4] + 4, 5)
    assert len(scan(data)[1]) == 9


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("magic", [2, 3])
def test_an_entry_without_a_record_that_fits_no_buffer(tmp_path: Path, magic: int, compiled: bool) -> None:
    data = bytearray(entry(0, 0))
    data += entry(len(data), 1, magic=magic, body_size=9000)
    data += entry(len(data), 2)
    data += DLEDGER_BLANK.build({"magic": -1, "size": 1 << 14}) + bytes(1 << 14)
    regions, records = scanned(tmp_path / "log", data, compiled=compiled, small=True)
    assert [row["queue_offset"] for row in records] == [0, 2]
    assert (regions[0].kind, regions[0].start) == (RegionKind.RECORDS, 0)
    assert regions[0].end == len(data) - (1 << 14) - 8


def test_an_entry_with_a_record_that_is_none_is_found_however_large(tmp_path: Path) -> None:
    data = bytearray(entry(0, 0))
    start = len(data)
    large = bytearray(entry(start, 1, magic=2, body_size=9000))
    large[3] = 1
    data += large + entry(start + len(large), 2) + bytes(64)
    regions, _ = scanned(tmp_path / "log", data, compiled=False, small=True)
    assert (regions[1].start, regions[1].end) == (start, start + len(large))
    assert regions[1].kind != RegionKind.RECORDS
