"""Regions of a commit log file: what every byte is, where the log goes on after damage."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketfsck.errors import StoreError
from rocketfsck.scan.columns import Fault, new_batch
from rocketfsck.scan.log.resync import Reason, RegionKind
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.reading import FileReader

from tests.conftest import STORE_NAMES, Directory, Document
from tests.unit.scan.logmaker import BASE, blank, closed, log, outline, record, scan

FILE_SIZE = 4096
ANY_FILE = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def _write(folder: Path, data: bytes, size: int = FILE_SIZE) -> Path:
    path = folder / f"{BASE:020d}"
    path.write_bytes(data + bytes(max(size - len(data), 0)))
    return path


def test_a_completed_file(tmp_path: Path) -> None:
    data = log(b"one", b"two", b"three")
    rows, regions = scan(_write(tmp_path, closed(data, FILE_SIZE)))
    assert outline(regions) == [
        ("records", "blank", 0, len(data)),
        ("blank", "", len(data), len(data) + 8),
        ("filler", "", len(data) + 8, FILE_SIZE),
    ]
    assert [row["queue_offset"] for row in rows] == [0, 1, 2]
    assert not any(row["faults"] for row in rows)


def test_a_blank_that_takes_exactly_what_is_left(tmp_path: Path) -> None:
    data = log(b"one")
    _, regions = scan(_write(tmp_path, data + blank(8), 0))
    assert [region.kind for region in regions] == [RegionKind.RECORDS, RegionKind.BLANK]


def test_an_active_file(tmp_path: Path) -> None:
    data = log(b"one", b"two")
    _, regions = scan(_write(tmp_path, data))
    assert outline(regions) == [("records", "zero", 0, len(data)), ("zero", "", len(data), FILE_SIZE)]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 91, FILE_SIZE])
def test_zeros_only(tmp_path: Path, size: int) -> None:
    _, regions = scan(_write(tmp_path, b"", size))
    assert outline(regions) == ([("zero", "", 0, size)] if size else [])


def test_junk_behind_a_blank_is_filler(tmp_path: Path) -> None:
    data = log(b"one")
    stale = log(b"stale", start=len(data) + 8)  # even with the right physicalOffset
    left = FILE_SIZE - len(data)
    rows, regions = scan(_write(tmp_path, data + blank(left) + stale))
    assert len(rows) == 1
    assert [region.kind for region in regions] == [RegionKind.RECORDS, RegionKind.BLANK, RegionKind.FILLER]


def test_a_blank_of_a_wrong_size_in_the_middle_does_not_hide_records(tmp_path: Path) -> None:
    first = log(b"one")
    second = log(b"two", start=len(first) + 8)
    rows, regions = scan(_write(tmp_path, first + blank(100) + second))
    assert [row["pos"] for row in rows] == [0, len(first) + 8]
    assert outline(regions)[1:3] == [
        ("blank", "blank-size", len(first), len(first) + 8),
        ("records", "zero", len(first) + 8, len(first) + 8 + len(second)),
    ]
    assert [row["run"] for row in rows] == [0, 1]


def test_a_broken_length_inside_a_framed_record_is_malformed(tmp_path: Path) -> None:
    one, two = log(b"one"), log(b"two", start=len(log(b"one")))
    three = log(b"three", start=len(one) + len(two))
    broken = bytearray(two)
    broken[84:88] = struct.pack(">i", 2)  # bodyLength
    rows, regions = scan(_write(tmp_path, one + bytes(broken) + three))
    assert outline(regions)[1] == ("malformed", regions[1].reason.value, len(one), len(one) + len(two))
    assert regions[1].reason in (Reason.LENGTHS, Reason.PROPERTIES_LENGTH, Reason.TOPIC_LENGTH)
    assert [row["pos"] for row in rows] == [0, len(one) + len(two)]


def test_a_broken_magic_is_malformed_where_total_size_still_frames_it(tmp_path: Path) -> None:
    data = bytearray(log(b"one", b"two", b"three"))
    size = len(log(b"one"))
    data[size + 4] ^= 0xFF
    _, regions = scan(_write(tmp_path, bytes(data)))
    assert outline(regions)[1] == ("malformed", "magic", size, 2 * size)


def test_a_broken_total_size_is_damage_up_to_the_next_record(tmp_path: Path) -> None:
    data = bytearray(log(b"one", b"two", b"three"))
    size = len(log(b"one"))
    data[size : size + 4] = struct.pack(">i", 0x7FFFFFFF)
    rows, regions = scan(_write(tmp_path, bytes(data)))
    assert outline(regions)[1] == ("damaged", "size", size, 2 * size)
    assert [row["pos"] for row in rows] == [0, 2 * size]


@pytest.mark.parametrize("total_size", [0, -1, 90, -(1 << 31), (1 << 31) - 1])
def test_hostile_total_sizes_end_in_a_region(tmp_path: Path, total_size: int) -> None:
    data = bytearray(log(b"one"))
    data[0:4] = struct.pack(">i", total_size)
    rows, regions = scan(_write(tmp_path, bytes(data)))
    assert rows == []
    assert outline(regions)[0] == ("torn", "size", 0, len(data))


def test_a_torn_record_runs_to_its_own_end(tmp_path: Path) -> None:
    one, two = log(b"one"), log(b"two" * 50, start=len(log(b"one")))
    _, regions = scan(_write(tmp_path, one + two[:153]))
    assert outline(regions) == [
        ("records", "lengths", 0, len(one)),
        ("torn", "lengths", len(one), len(one) + len(two)),
        ("zero", "", len(one) + len(two), FILE_SIZE),
    ]


def test_a_torn_header_of_six_bytes(tmp_path: Path) -> None:
    one = log(b"one")
    _, regions = scan(_write(tmp_path, one + record(BASE + len(one))[:6]))
    assert outline(regions)[1] == ("torn", "magic", len(one), len(one) + 6)


def test_a_half_record_with_sound_records_behind_it_is_damage_not_torn(tmp_path: Path) -> None:
    one = log(b"one")
    half = record(BASE + len(one), body=b"x" * 300)[:200] + bytes(300)
    later = log(b"later", start=len(one) + len(half))
    _, regions = scan(_write(tmp_path, one + half + later))
    assert [region.kind for region in regions] == [
        RegionKind.RECORDS,
        RegionKind.DAMAGED,
        RegionKind.RECORDS,
        RegionKind.ZERO,
    ]
    assert regions[2].start == len(one) + len(half)


def test_a_file_that_was_cut_inside_a_record(tmp_path: Path) -> None:
    data = log(b"one", b"two")
    _, regions = scan(_write(tmp_path, data[:-10], 0), options=ScanOptions(file_size=FILE_SIZE))
    assert outline(regions)[1] == ("torn", "cut", len(data) // 2, len(data) - 10)


@pytest.mark.parametrize("left", range(1, 10))
def test_a_file_that_was_cut_inside_its_zeros(tmp_path: Path, left: int) -> None:
    data = log(b"one")
    _, regions = scan(_write(tmp_path, data + bytes(left), 0), options=ScanOptions(file_size=FILE_SIZE))
    assert [(kind, start, end) for kind, _, start, end in outline(regions)] == [
        ("records", 0, len(data)),
        ("zero", len(data), len(data) + left),
    ]


def test_records_behind_a_hole_of_zeros_are_found(tmp_path: Path) -> None:
    one = log(b"one")
    late = log(b"late", start=1000)
    rows, regions = scan(_write(tmp_path, one + bytes(1000 - len(one)) + late))
    assert outline(regions)[1:3] == [
        ("zero", "", len(one), 1000),
        ("records", "zero", 1000, 1000 + len(late)),
    ]
    assert [row["run"] for row in rows] == [0, 1]


def test_garbage_behind_zeros(tmp_path: Path) -> None:
    one = log(b"one")
    _, regions = scan(_write(tmp_path, one + bytes(500) + b"garbage"))
    assert outline(regions)[1:] == [
        ("zero", "", len(one), len(one) + 500),
        ("damaged", "garbage", len(one) + 500, len(one) + 507),
        ("zero", "", len(one) + 507, FILE_SIZE),
    ]


@pytest.mark.parametrize("size", [20, 200, 1500, 70_000, 1 << 24])
def test_garbage_that_begins_with_a_header_behind_zeros_begins_with_its_zeros(
    tmp_path: Path, size: int
) -> None:
    one = log(b"one")
    moved = bytearray(record(BASE, body=b"moved"))  # not where it says: no record of this log
    moved[:4] = size.to_bytes(4, "big")
    _, regions = scan(_write(tmp_path, one + bytes(500) + moved))
    assert outline(regions)[1:] == [
        ("zero", "", len(one), len(one) + 500),
        ("damaged", "garbage", len(one) + 500, len(one) + 500 + len(moved)),
        ("zero", "", len(one) + 500 + len(moved), FILE_SIZE),
    ]


def test_a_copy_of_a_record_in_a_body_is_not_taken_for_one(tmp_path: Path) -> None:
    inner = record(BASE + 3, body=b"inner")
    data = bytearray(log(inner * 3, b"next"))
    data[0:8] = b"\xff" * 8  # the outer header is lost: only carving can find what is behind it
    rows, regions = scan(_write(tmp_path, bytes(data)))
    assert len(rows) == 1
    assert rows[0]["physical_offset"] == BASE + rows[0]["pos"]
    assert outline(regions)[0][:2] == ("damaged", "magic")


def test_a_moved_file_is_carved_by_its_own_records_count(tmp_path: Path) -> None:
    data = bytearray(log(b"one", b"two", b"three", base=0))
    size = len(log(b"one"))
    data[size : size + 8] = b"\xee" * 8
    rows, _ = scan(_write(tmp_path, bytes(data)), base=BASE)
    assert [row["pos"] for row in rows] == [0, 2 * size]
    assert all(row["faults"] & Fault.PHYSICAL_OFFSET for row in rows)


def test_a_record_too_long_for_the_window_is_read_in_pieces(tmp_path: Path) -> None:
    body = random.Random(5).randbytes(300_000)
    data = log(b"one", body, b"three", topic=b"T" * 120)
    path = _write(tmp_path, closed(data, 1 << 20), 0)
    expected = scan(path)
    assert scan(path, buffer_size=4096, front_size=1024) == expected
    assert [row["faults"] for row in expected[0]] == [0, 0, 0]
    spoilt = bytearray(path.read_bytes())
    spoilt[200_000] ^= 1
    path.write_bytes(spoilt)
    rows, _ = scan(path, buffer_size=4096, front_size=1024)
    assert [row["faults"] for row in rows] == [0, Fault.BODY_CRC, 0]
    assert rows == scan(path)[0]


@pytest.mark.parametrize("change", [(84, 9_000_000), (84, 250_000), (84, -5)])
def test_a_long_record_with_wrong_lengths_stops_alike_in_pieces(
    tmp_path: Path, change: tuple[int, int]
) -> None:
    data = bytearray(log(b"x" * 300_000, b"next"))
    struct.pack_into(">i", data, *change)
    path = _write(tmp_path, bytes(data), 1 << 20)
    assert scan(path, buffer_size=4096, front_size=1024) == scan(path)


@pytest.mark.parametrize("window", [(91, 0), (128, 64), (1000, 300), (4096, 4096)])
def test_the_window_does_not_matter(store_dir: Directory, window: tuple[int, int]) -> None:
    source = store_dir("4.9.8-ghosttail") / "commitlog"
    for path in sorted(source.iterdir()):
        expected = scan(path, base=int(path.name))
        for threaded in (True, False):
            found = scan(
                path, base=int(path.name), buffer_size=window[0], front_size=window[1], threaded=threaded
            )
            assert found == expected


@pytest.mark.parametrize("name", STORE_NAMES)
def test_broker_written_files_are_records_blank_and_zeros(name: str, store_dir: Directory) -> None:
    kinds = []
    for path in sorted((store_dir(name) / "commitlog").iterdir()):
        _, regions = scan(path, base=int(path.name))
        kinds += [region.kind for region in regions]
    normal = {RegionKind.RECORDS, RegionKind.BLANK, RegionKind.FILLER, RegionKind.ZERO}
    assert set(kinds) - normal == ({RegionKind.DAMAGED} if name == "4.9.8-ghosttail" else set())


def test_the_torn_tail_that_a_broker_cut(restart_dir: Directory, oracle: Document) -> None:
    name = "4.9.8-basic--torn-tail"
    path = restart_dir(name) / "commitlog" / f"{0:020d}"
    _, regions = scan(path, base=0)
    torn = next(region for region in regions if region.kind == RegionKind.TORN)
    assert torn.start == oracle(name)["afterLoad"]["commitlogMaxOffset"]


def test_a_sparse_file_is_not_read_through(tmp_path: Path) -> None:
    path = _write(tmp_path, log(b"one"))
    os.truncate(path, 64 << 30)
    far = log(b"far", start=40 << 30)
    with path.open("r+b") as file:
        file.seek(40 << 30)
        file.write(far)
    rows, regions = scan(path)
    assert [row["pos"] for row in rows] == [0, 40 << 30]
    assert [region.kind for region in regions] == [
        RegionKind.RECORDS,
        RegionKind.ZERO,
        RegionKind.RECORDS,
        RegionKind.ZERO,
    ]


def test_a_file_that_shrinks_is_an_error_with_its_name(tmp_path: Path) -> None:
    path = _write(tmp_path, log(*[b"x" * 500] * 400), 1 << 20)
    with FileReader(path) as reader:
        found = scan_log_file(reader, BASE, ScanOptions(), QueueTable(), batch=new_batch(8, 1 << 15))
        next(found)
        os.truncate(path, 1000)
        with ReadAhead(reader, buffer_size=4096) as window, pytest.raises(StoreError, match=path.name):
            while window.extend():
                window.start = window.end
        found.close()


def test_small_batches_hold_the_same_rows(tmp_path: Path) -> None:
    path = _write(tmp_path, log(*[b"x"] * 20))
    expected, _ = scan(path)
    with FileReader(path) as reader:
        batch = new_batch(3, 1 << 15)
        found = scan_log_file(reader, BASE, ScanOptions(), QueueTable(), batch=batch)
        positions = [pos for item in found if item is batch for pos in batch["pos"].tolist()]
    assert positions == [row["pos"] for row in expected]


@ANY_FILE
@given(st.binary(max_size=3000))
def test_any_bytes_are_tiled(tmp_path: Path, data: bytes) -> None:
    scan(_write(tmp_path, data, 0))


@ANY_FILE
@given(st.randoms(use_true_random=False), st.integers(1, 12))
def test_any_mutation_is_tiled_and_keeps_what_is_untouched(
    tmp_path: Path, source: random.Random, times: int
) -> None:
    pieces = [log(b"body" * source.randrange(20), start=0) for _ in range(8)]
    data = bytearray()
    starts = []
    for piece in pieces:
        starts.append(len(data))
        data += record(BASE + len(data), body=b"b" * (len(piece) % 97))
    ends = [*starts[1:], len(data)]
    data += bytes(300)
    touched: set[int] = set()
    for _ in range(times):
        at = source.randrange(len(data))
        size = min(source.choice([1, 1, 2, 8, 40]), len(data) - at)
        data[at : at + size] = source.choice(
            [source.randbytes(size), bytes(size), (b"\xda\xa3\x20\xa7" * 10)[:size]]
        )
        touched.update(range(at, at + size))
    path = _write(tmp_path, bytes(data), 0)
    rows, _ = scan(path)
    found = {row["pos"] for row in rows}
    for start, end in zip(starts, ends, strict=True):
        if not touched.intersection(range(start, end)) and not _is_hidden(rows, start):
            assert start in found
    for window in (97, 512):
        assert scan(path, buffer_size=window, front_size=200)[0] == rows


def _is_hidden(rows: list[dict[str, int]], start: int) -> bool:
    """A damaged record that still adds up may run over its neighbour."""
    return any(row["pos"] < start < row["pos"] + row["total_size"] for row in rows)


def test_a_total_size_that_leads_over_sound_records_is_the_one_that_is_wrong(tmp_path: Path) -> None:
    data = bytearray(log(b"one", b"two", b"three"))
    size = len(log(b"one"))
    data[0:4] = struct.pack(">i", 2 * size)
    rows, regions = scan(_write(tmp_path, bytes(data)))
    assert outline(regions)[0][:1] + outline(regions)[0][2:] == ("damaged", 0, size)
    assert [row["pos"] for row in rows] == [size, 2 * size]


class CountingReader(FileReader):
    """Counts what is read."""

    byte_count = 0

    def read_into(self, view: memoryview | bytearray, pos: int = 0) -> None:
        self.byte_count += len(view)
        super().read_into(view, pos)


def _header(pos: int, total_size: int) -> bytes:
    return struct.pack(">ii20xqi", total_size, -626843481, BASE + pos, 0)


BETWEEN: dict[str, Callable[[int], bytes]] = {
    "garbage": lambda _pos: b"\xff" * 9,
    "zeros": lambda _pos: bytes(9),
    "blanks of a wrong size": lambda _pos: blank(77),
    "headers that claim what follows": lambda pos: _header(pos, 1 << 20),
    "headers that claim a little": lambda pos: _header(pos, 120),
    "magics": lambda _pos: b"\xda\xa3\x20\xa7" * 12,
}


@pytest.mark.parametrize("kind", sorted(BETWEEN))
@pytest.mark.parametrize("window", [{}, {"buffer_size": 4096, "front_size": 1024}], ids=["whole", "small"])
def test_hostile_neighbours_do_not_make_the_file_be_read_again_and_again(
    tmp_path: Path, kind: str, window: dict[str, Any]
) -> None:
    data = bytearray()
    starts = []
    while len(data) < 1 << 17:
        starts.append(len(data))
        data += record(BASE + len(data), body=b"x")
        data += BETWEEN[kind](len(data))
    path = _write(tmp_path, bytes(data), 0)
    with CountingReader(path) as reader:
        source = ReadAhead(reader, threaded=False, **window)
        batch = new_batch()
        found = []
        for item in scan_log_file(reader, BASE, ScanOptions(), QueueTable(), batch=batch, source=source):
            if item is batch:
                found += batch["pos"].tolist()
        assert found == starts
        assert reader.byte_count < 6 * len(data)
