"""Carving: found wherever it is, nothing found twice, bounded whatever the bytes."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2
from rocketfsck.formats.record import Host, Record, encode_record, make_record
from rocketfsck.progress import part, phase
from rocketfsck.repair.carve import carve
from rocketfsck.repair.carve.carve import CarvedRecords, Carver, list_sources
from rocketfsck.scan.columns import Fault
from rocketfsck.store.reading import FileReader

from tests.reported import reported

HOST = Host(bytes([10, 0, 0, 1]), 10911)
V6 = Host(bytes(range(16)), 10911)


def record(offset: int, body: bytes = b"body", **more: object) -> bytes:
    fields: dict[str, object] = {
        "topic": b"Topic",
        "queue_id": 1,
        "queue_offset": 7,
        "physical_offset": offset,
        "born_timestamp": 1_700_000_000_000,
        "born_host": HOST,
        "store_timestamp": 1_700_000_000_001,
        "store_host": HOST,
        "body": body,
        "properties": b"KEYS\x01k\x02",
    }
    made: Record = make_record(**(fields | more))  # type: ignore[arg-type]
    return encode_record(made)


def carved(path: Path, data: bytes) -> CarvedRecords:
    path.write_bytes(data)
    carver = Carver()
    with FileReader(path) as reader:
        count = carver.carve(reader, 0)
    found = carver.found
    assert count == len(found)
    return found


@pytest.fixture(params=["plain", "compiled"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ROCKETFSCK_KERNELS", request.param)
    return str(request.param)


def test_records_of_every_kind(kernels: str, tmp_path: Path) -> None:
    assert kernels
    pieces = [
        record(0),
        b"junk",
        record(5000, magic_code=MAGIC_V2, topic=b"t" * 200),
        record(9, born_host=V6, store_host=V6),
        b"\xda\xa3\x20\xa7",
        record(77, b""),
        record(1 << 50, os.urandom(3000), sys_flag=8),
    ]
    found = carved(tmp_path / "file", b"".join(pieces))
    pos, expected = 0, []
    for piece in pieces:
        if len(piece) > 90:
            expected.append((pos, len(piece), zlib.crc32(piece)))
        pos += len(piece)
    rows = zip(found["pos"].tolist(), found["total_size"].tolist(), found["crc"].tolist(), strict=True)
    assert list(rows) == expected
    assert found["physical_offset"].tolist() == [0, 5000, 9, 77, 1 << 50]
    assert found.topic(0) == b"Topic"
    assert found.end.tolist() == [pos + size for pos, size, _ in expected]


@given(st.lists(st.one_of(st.binary(max_size=60), st.integers(0, 400)), max_size=8))
def test_what_is_put_in_is_found(tmp_path_factory: pytest.TempPathFactory, parts: list[bytes | int]) -> None:
    pieces = [part if isinstance(part, bytes) else record(part, bytes(part)) for part in parts]
    data, starts = b"", []
    for piece, size in zip(pieces, parts, strict=True):
        if isinstance(size, int):
            starts.append(len(data))
        data += piece
    found = carved(tmp_path_factory.mktemp("carve") / "file", data)
    assert found["pos"].tolist() == starts


def test_records_that_stand_alone_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carve, "PENDING_COUNT", 3)
    data = b"".join(bytes(48) + record(number) for number in range(10))
    found = carved(tmp_path / "file", data)
    assert found["physical_offset"].tolist() == list(range(10))
    assert {name: column.dtype.str[1:] for name, column in found.columns.items()} == carve.COLUMNS


def test_a_cut_record_is_not_found(kernels: str, tmp_path: Path) -> None:
    assert kernels
    whole = record(0)
    for size in (7, 8, 35, 36, 90, len(whole) - 1):
        assert not len(carved(tmp_path / "file", whole[:size]))
    assert not len(carved(tmp_path / "file", b""))


def test_what_is_inside_a_doubtful_record_is_found_too(kernels: str, tmp_path: Path) -> None:
    """A frame whose body has another CRC may be no record: what lies in it might be."""
    assert kernels
    inner = record(40, b"inner")
    outer = bytearray(record(0, b"x" * 20 + inner + b"y" * 20))
    sound = carved(tmp_path / "file", bytes(outer) + record(500))
    assert sound["pos"].tolist() == [0, len(outer)]
    outer[90] ^= 1
    found = carved(tmp_path / "file", bytes(outer) + record(500))
    assert found["pos"].tolist() == [0, 108, len(outer)]
    assert [bool(faults & Fault.BODY_CRC) for faults in found["faults"].tolist()] == [True, False, False]


def test_records_larger_than_a_window(kernels: str, tmp_path: Path) -> None:
    assert kernels
    body = os.urandom(9 << 20)
    large = record(100, body)
    broken = bytearray(record(200, body))
    broken[5 << 20] ^= 4
    data = b"before" + large + record(1) + bytes(broken) + record(2)
    found = carved(tmp_path / "file", data)
    at = [6, 6 + len(large), 6 + len(large) + len(record(1))]
    assert found["pos"].tolist() == [*at, at[2] + len(broken)]
    assert found["crc"].tolist()[0] == zlib.crc32(large)
    assert found["crc"].tolist()[2] == zlib.crc32(broken)
    assert bool(found["faults"][2] & Fault.BODY_CRC)
    cut = carved(tmp_path / "file", large[: 8 << 20])
    assert not len(cut)


def test_holes_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    first, second = record(3), record(64 << 20)
    with path.open("wb") as stream:
        stream.write(first)
        stream.seek(64 << 20)
        stream.write(second)
        stream.truncate(1 << 36)  # 64 GiB: reading it would take minutes
    carver = Carver()
    stated: list[tuple[int, int]] = []
    with reported("carving", stated), phase("carving", 1 << 36), FileReader(path) as reader, part(1 << 36):
        carver.carve(reader, 5)
    assert carver.found["pos"].tolist() == [0, 64 << 20]
    assert set(carver.found["source"].tolist()) == {5}
    assert stated == sorted(stated) and any(64 << 20 < done < 1 << 36 for done, _ in stated)


def test_nested_frames_are_not_searched_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames in frames that all end in one place, every CRC wrong: searched as often as is allowed."""
    tail = record(0, b"")[88:]
    data = tail
    for number in range(60):
        head = bytearray(record(number, b"")[:88])
        head[0:4] = (88 + len(data)).to_bytes(4, "big")
        head[8:12] = (5).to_bytes(4, "big")
        head[84:88] = (len(data) - len(tail)).to_bytes(4, "big")
        data = bytes(head) + data
    monkeypatch.setattr(carve, "_DOUBT_LIMIT", 0)
    all_of_them = carved(tmp_path / "file", data)
    assert len(all_of_them) > 15
    assert int(all_of_them["total_size"].sum()) <= 18 * len(data)
    assert len(all_of_them) < 60


def test_a_magic_alone_is_nothing(tmp_path: Path) -> None:
    data = b"".join(
        size.to_bytes(4, "big", signed=True) + magic.to_bytes(4, "big", signed=True) + b"\7" * 100
        for size in (-1, 0, 90, 91, 105, 1 << 30)
        for magic in (MAGIC_V1, MAGIC_V2)
    )
    assert not len(carved(tmp_path / "file", data))


def test_rows_can_be_taken(tmp_path: Path) -> None:
    found = carved(tmp_path / "file", record(0) + record(1) + record(2))
    assert found.take(np.array([2, 0]))["physical_offset"].tolist() == [2, 0]


class TestSources:
    """Which files are carved."""

    def test_derived_files_of_a_store_are_left_out(self, tmp_path: Path) -> None:
        for name in (
            "commitlog/00000000000000000000",
            "commitlog/odd",
            "config/x",
            "index/y",
            "abort",
            "new",
        ):
            path = tmp_path / "store" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
        files, skipped = list_sources([tmp_path])
        found = {str(file.path.relative_to(tmp_path / "store")): file.base_offset for file in files}
        assert found == {"commitlog/00000000000000000000": 0, "commitlog/odd": None, "new": None}
        assert {item.path.name for item in skipped} == {"config", "index", "abort"}

    def test_elsewhere_nothing_is_derived(self, tmp_path: Path) -> None:
        (tmp_path / "index").mkdir()
        (tmp_path / "index" / "file").write_bytes(b"x")
        assert [file.path.name for file in list_sources([tmp_path])[0]] == ["file"]

    def test_what_is_no_file_and_what_is_named_twice(self, tmp_path: Path) -> None:
        path = tmp_path / "d" / "file"
        path.parent.mkdir()
        path.write_bytes(b"x")
        (tmp_path / "d" / "link").symlink_to(path)
        os.link(path, tmp_path / "d" / "other")
        os.mkfifo(tmp_path / "d" / "fifo")
        files, skipped = list_sources([path, tmp_path / "d"])
        assert [file.path for file in files] == [path]
        reasons = {(item.path.name, item.reason) for item in skipped}
        assert reasons == {
            ("file", "the same file as another"),
            ("other", "the same file as another"),
            ("link", "a symbolic link"),
            ("fifo", "not a regular file"),
        }

    def test_what_cannot_be_read_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError):
            list_sources([])
        with pytest.raises(StoreError, match="gone"):
            list_sources([tmp_path / "gone"])
        os.mkfifo(tmp_path / "fifo")
        with pytest.raises(StoreError, match="neither"):
            list_sources([tmp_path / "fifo"])

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may list everything")
    def test_a_directory_that_may_not_be_listed(self, tmp_path: Path) -> None:
        (tmp_path / "closed").mkdir(mode=0)
        with pytest.raises(StoreError, match="cannot be listed"):
            list_sources([tmp_path])

    def test_a_directory_that_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def walk(top: Path, onerror: object) -> list[object]:
            assert callable(onerror)
            onerror(OSError(5, "Input/output error", str(top)))
            return []

        monkeypatch.setattr(os, "walk", walk)
        with pytest.raises(StoreError, match="cannot be listed: Input/output error"):
            list_sources([tmp_path])
