"""The walk over live records ends where the check says that the log's life does."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store import Store, open_store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.log.file import check_log_file
from rocketfsck.verify.tasks.task import Context, LogFileTask

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory
from tests.unit.scan.logmaker import BASE, log, record

NOW = 1_800_000_000_000


def walk(path: str | Path, base: int, file_size: int = 0) -> tuple[LiveScan, list[int]]:
    scan, offsets = LiveScan(), []
    with FileReader(path) as reader:
        options = ScanOptions(read_bodies=False, file_size=max(file_size, reader.size))
        for batch in scan.batches(reader, base, options, QueueTable()):
            offsets += (batch["pos"] + base).tolist()
    return scan, offsets


def check_ends(store: Store) -> None:
    for index, file in enumerate(store.commitlog.files):
        base = file.start_offset or 0
        scan, _ = walk(file.path, base, store.commitlog.file_size)
        checked = check_log_file(LogFileTask(Context(store, "cross", NOW), index)).summary
        assert checked is not None
        assert base + scan.end_pos == checked.start_offset + checked.live_end


@pytest.mark.parametrize("name", STORE_NAMES)
def test_ends_where_the_check_does(store_dir: Directory, name: str) -> None:
    check_ends(open_store(store_dir(name)))


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_ends_where_the_check_does_in_damaged_stores(restart_dir: Directory, name: str) -> None:
    check_ends(open_store(restart_dir(name)))


def test_stale_tail_behind_records_is_left_out(tmp_path: Path) -> None:
    new = log(b"a", b"b", store_timestamp=2_000_000)
    old = log(b"c", b"d", start=len(new), store_timestamp=1_000_000)
    path = tmp_path / "log"
    path.write_bytes(new + old)
    scan, offsets = walk(path, BASE)
    assert len(offsets) == 2
    assert scan.end_pos == scan.stale_pos == len(new)
    assert not scan.damaged


def test_stale_tail_behind_a_gap_begins_with_the_gap(tmp_path: Path) -> None:
    new = log(b"a", b"b", store_timestamp=2_000_000)
    junk = b"\x11" * 300
    start = len(new) + len(junk)
    old = record(BASE + start, queue_offset=77, store_timestamp=1_000_000)
    path = tmp_path / "log"
    path.write_bytes(new + junk + old)
    scan, offsets = walk(path, BASE)
    assert len(offsets) == 2
    assert (scan.end_pos, scan.stale_pos) == (len(new), len(new))


def test_records_behind_damage_are_live(tmp_path: Path) -> None:
    head = log(b"a", b"b")
    junk = b"\x11" * 300
    tail = record(BASE + len(head) + len(junk), queue_offset=2)
    path = tmp_path / "log"
    path.write_bytes(head + junk + tail)
    scan, offsets = walk(path, BASE)
    assert len(offsets) == 3
    assert scan.end_pos == len(head) + len(junk) + len(tail)
    assert scan.damaged
    assert scan.stale_pos is None
