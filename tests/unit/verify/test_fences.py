"""Filler that a repair put in the place of lost records: what it explains, and what not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocketfsck import iter_messages
from rocketfsck.repair.log import filler_records
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.writer import OutgoingMessage, PutRecord, WriteOptions, write_store

from tests.conftest import Directory

START = 1_700_000_000_000
OPTIONS = WriteOptions(
    version="5.3.3",
    geometry=Geometry(commitlog_file_size=4096, consumequeue_file_size=400, slot_count=5, entry_count=50),
    message_index=False,
    sync=False,
)


def _written(place: Path) -> list[PutRecord]:
    records: list[PutRecord] = []
    messages = [OutgoingMessage("T", bytes(300), START + number, queue_id=number % 2) for number in range(24)]
    write_store(place, messages, OPTIONS, on_put=records.append)
    return records


def _fence(store: Path, put: PutRecord) -> None:
    """Put filler in the place of a record."""
    size = OPTIONS.geometry.commitlog_file_size
    start, pos = divmod(put.physical_offset, size)
    path = store / "commitlog" / f"{start * size:020d}"
    data = bytearray(path.read_bytes())
    data[pos : pos + put.record.total_size] = b"".join(
        filler_records(put.physical_offset, put.record.total_size, version="5.3.3", store_timestamp=START)
    )
    path.write_bytes(data)


def _check(store: Path) -> Report:
    return check_store(open_store(store, version="5.3.3"), CheckOptions(now_timestamp=START + 10**9))


def _first_of_a_file(records: list[PutRecord]) -> int:
    """The number of the first record that does not stand in the first file."""
    size = OPTIONS.geometry.commitlog_file_size
    return next(number for number, put in enumerate(records) if put.physical_offset >= size)


@pytest.mark.parametrize("where", ["inside", "first of a file", "second of a file", "last of a file"])
def test_a_fence_explains_the_gap(tmp_path: Path, where: str) -> None:
    records = _written(tmp_path / "store")
    first = _first_of_a_file(records)
    number = {"inside": 4, "first of a file": first, "second of a file": first + 1}.get(where, first - 1)
    _fence(tmp_path / "store", records[number])
    found = _check(tmp_path / "store")
    assert found.worst is not None
    assert found.exit_code == 0
    assert {"XR015"} <= set(found.counts)
    assert "CL028" not in found.counts


def test_a_gap_before_the_fence_is_one(tmp_path: Path) -> None:
    records = _written(tmp_path / "store")
    first = _first_of_a_file(records)
    _fence(tmp_path / "store", records[first + 6])
    path = tmp_path / "store" / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    victim = records[3]
    start, size = victim.physical_offset, victim.record.total_size
    other = b"".join(filler_records(start, size, version="5.3.3", store_timestamp=START))
    data[start : start + size] = other.replace(b"rocketfsck", b"Rocketfsck")  # of another
    path.write_bytes(data)
    assert "CL028" in _check(tmp_path / "store").counts


def test_without_a_queue_the_gap_is_told(tmp_path: Path) -> None:
    records = _written(tmp_path / "store")
    _fence(tmp_path / "store", records[_first_of_a_file(records)])
    shutil.rmtree(tmp_path / "store" / "consumequeue" / "T")
    assert "CL028" in _check(tmp_path / "store").counts


@pytest.mark.parametrize("in_database", [True, False])
def test_rows_of_a_database_explain_the_gap(real_copy: Directory, in_database: bool) -> None:
    root = real_copy("5.5.0-rocksdb-cq")
    messages = [*iter_messages(open_store(root, version="5.5.0"), topic="RockBulk0", queue_id=0)]
    lost = messages[len(messages) // 2]
    (path,) = [
        file
        for file in (root / "commitlog").iterdir()
        if 0 <= lost.physical_offset - int(file.name) < file.stat().st_size
    ]
    data, pos = bytearray(path.read_bytes()), lost.physical_offset - int(path.name)
    data[pos : pos + lost.total_size] = b"".join(
        filler_records(lost.physical_offset, lost.total_size, version="5.5.0", store_timestamp=START)
    )
    path.write_bytes(data)
    if not in_database:
        shutil.rmtree(root / "consumequeue")
    found = check_store(open_store(root, version="5.5.0"), CheckOptions(jobs=1))
    assert ("CL028" in found.counts) is not in_database
