"""What a prediction must not invent or leave out: other forms of stores, kinds of topics, earlier losses."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.formats.consumequeue import PRE_BLANK_UNIT
from rocketfsck.query.start.databases import BOTH_VERSION_REASON, RECHECK_REASON, VERSION_REASON
from rocketfsck.query.start.settings import NO_DATA_REASON, NO_ENTRIES_REASON, NotCoveredError
from rocketfsck.query.start.simulate import simulate_start, simulate_starts
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.model import Store

from tests.conftest import Directory, Document
from tests.unit.query.maker import make, message, reopen


def grown(root: Path, count: int = 60) -> Store:
    return make(root, [message(number) for number in range(count)])


def reasons(store: Store, version: str = "5.3.3", **settings: Any) -> tuple[str, ...]:
    try:
        simulate_start(store, version, conf=Settings(None, settings))
    except NotCoveredError as error:
        return error.reasons
    return ()


def test_rocksdb_queues_are_known_by_their_files(tmp_path: Path) -> None:
    grown(tmp_path, 3)
    assert reasons(reopen(tmp_path)) == ()
    (tmp_path / "store/consumequeue/CURRENT").write_text("MANIFEST-000001\n")
    store = reopen(tmp_path)
    assert reasons(store) == (BOTH_VERSION_REASON.format(first="5.3.4"),)
    assert reasons(store, "5.1.4") == ()
    assert reasons(store, storeType="default") == ()
    assert reasons(store, storeType="default", rocksdbCQDoubleWriteEnable="true") == (
        BOTH_VERSION_REASON.format(first="5.3.4"),
    )
    assert reasons(store, "5.2.0", storeType="defaultRocksDB") == (VERSION_REASON.format(first="5.3.2"),)
    assert reasons(store, "5.5.0") == ()
    assert not simulate_start(store, "5.5.0").loads, "there is no such manifest"
    (tmp_path / "store/consumequeue/CURRENT").unlink()
    (tmp_path / "store/consumequeue_rocksdb").mkdir()
    assert reasons(reopen(tmp_path)) == (BOTH_VERSION_REASON.format(first="5.3.4"),)


@pytest.mark.parametrize(
    ("settings", "version", "expected"),
    [
        ({"combineCQPreferCQType": "defaultRocksDB"}, "5.5.0", "combineCQPreferCQType"),
        ({"combineAssignOffsetCQType": "defaultRocksDB"}, "5.4.0", "combineAssignOffsetCQType"),
        ({"storeType": "defaultRocksDB", "recheckReputOffsetFromCq": "true"}, "5.3.4", RECHECK_REASON),
    ],
)
def test_settings_that_make_a_start_with_rocksdb_another_one(
    settings: dict[str, str], version: str, expected: str, tmp_path: Path
) -> None:
    stated = {"rocksdbCQDoubleWriteEnable": "true", **settings}
    (reason,) = reasons(grown(tmp_path, 3), version, **stated)
    assert reason.startswith(expected)


def test_a_queue_database_that_is_not_read_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown(tmp_path, 3)
    (tmp_path / "store/consumequeue/CURRENT").write_text("MANIFEST-000001\n")
    for module in ("query.start.databases", "store.rocks.lifting"):
        monkeypatch.setattr(f"rocketfsck.{module}.why_not_readable", lambda _: "nobody knows how")
    (reason,) = reasons(reopen(tmp_path), "5.5.0")
    assert reason == "the consume queues are in RocksDB, and nobody knows how"


def test_a_log_of_dledger_is_known_by_its_files(tmp_path: Path) -> None:
    grown(tmp_path, 3)
    data = tmp_path / "store/dledger-n0/data"
    data.mkdir(parents=True)
    (data / f"{0:020d}").write_bytes(bytes(4096))
    store = reopen(tmp_path)
    assert reasons(store) == (NO_ENTRIES_REASON,)  # both logs begin at 0
    assert reasons(store, "4.4.0") == ()
    assert reasons(store, enableDLegerCommitLog="false") == ()
    (data / f"{0:020d}").unlink()
    assert reasons(reopen(tmp_path)) == (NO_DATA_REASON,)


def test_a_commit_log_in_other_directories_is_not_called_lost(tmp_path: Path) -> None:
    store = grown(tmp_path)
    (tmp_path / "store/commitlog").rename(tmp_path / "store/disk1")
    (tmp_path / "store/disk2").mkdir()
    plain = open_store(tmp_path / "store", version="5.3.3")
    (reason,) = reasons(plain)
    assert "disk1 may be the commit log" in reason
    assert "disk2" not in reason
    stated = open_store(tmp_path / "store", version="5.3.3", commitlog_paths=[tmp_path / "store/disk1"])
    assert (
        simulate_start(stated, "5.3.3").max_offset == simulate_start(replace(stated), "5.3.3").max_offset > 0
    )
    shutil.rmtree(tmp_path / "store/disk1")
    assert simulate_start(open_store(store.root, version="5.3.3"), "5.3.3").queues_destroyed


def test_topics_without_a_topics_json_have_the_kind_that_their_records_show(
    store_copy: Directory, manifest: Document
) -> None:
    root = store_copy("5.0.0-innerbatch")
    for path in root.rglob("*/0*"):
        if path.is_file() and path.parent.name != "commitlog":
            path.unlink()
    shutil.rmtree(root / "batchconsumequeue")
    store = open_store(root)
    assert not [file for file in store.configs if file.relative == "config/topics.json"]
    start = simulate_start(store, "5.3.3")
    assert {
        (queue.topic, queue.queue_id): (queue.min_offset, queue.max_offset) for queue in start.queues
    } == {
        (queue["topic"], queue["queueId"]): (queue["minOffset"], queue["maxOffset"])
        for queue in manifest("5.0.0-innerbatch")["phases"][-1]["live"]["queues"]
    }
    created = {item.file.split("/")[0] for item in start.files if item.change == "created"}
    assert created >= {"batchconsumequeue", "consumequeue"}
    assert any("topics.json is missing" in note for note in start.notes)
    assert not any("topics.json" in note for note in simulate_start(store, "4.9.8").notes)


def test_a_store_without_batch_topics_needs_no_word_on_topics_json(tmp_path: Path) -> None:
    grown(tmp_path, 3)
    assert not any("topics.json" in note for note in simulate_start(reopen(tmp_path), "5.3.3").notes)


@pytest.mark.parametrize(("blank_count", "without"), [(4, 34), (0, 30)])
def test_records_in_front_of_a_queues_first_unit_have_none(
    blank_count: int, without: int, tmp_path: Path
) -> None:
    store = grown(tmp_path)
    for file in store.queues[0].files:
        if (file.start_offset or 0) < 600:
            file.path.unlink()
    first = store.queues[0].files[3].path
    first.write_bytes(PRE_BLANK_UNIT * blank_count + first.read_bytes()[20 * blank_count :])
    start = simulate_start(reopen(tmp_path), "5.3.3")
    assert start.losses.by_queue_count == without == start.queues[0].unreachable_count
    assert start.losses.new_by_queue_count == 0
    assert start.losses.by_queue[0].start_offset == 0


def test_units_that_lead_into_a_hole_of_the_log_are_counted(tmp_path: Path) -> None:
    store = grown(tmp_path, 80)
    assert simulate_start(store, "5.3.3").losses.unreadable_count == 0
    missing = store.commitlog.files[1]
    offsets = [
        int.from_bytes(data[pos : pos + 8], "big")
        for file in store.queues[0].files
        for data in [file.path.read_bytes()]
        for pos in range(0, len(data), 20)
        if any(data[pos + 8 : pos + 12])
    ]
    start_offset = missing.start_offset or 0
    end_offset = start_offset + missing.size
    missing.path.unlink()
    start = simulate_start(reopen(tmp_path), "5.3.3")
    count = sum(start_offset <= offset < end_offset for offset in offsets)
    assert count > 10
    assert start.losses.unreadable_count == count
    assert [(item.start_offset, item.end_offset) for item in start.losses.unreadable] == [
        (start_offset, end_offset)
    ]
    assert start.harmful


def test_units_behind_the_end_of_the_log_are_counted_where_they_stay(tmp_path: Path) -> None:
    store = make(tmp_path, [message(number) for number in range(45)], version="4.3.1")
    last = store.queues[0].files[-1].path
    data = bytearray(last.read_bytes())
    data[100:120] = (1 << 20).to_bytes(8, "big") + (200).to_bytes(4, "big") + bytes(8)
    last.write_bytes(data)
    old = simulate_start(reopen(tmp_path, version="4.3.1"), "4.3.1")  # a clean stop: it does not truncate
    assert (old.losses.unreadable_count, old.losses.unreadable[0].end_offset) == (1, (1 << 20) + 1)
    assert old.losses.unreadable[0].start_offset == old.max_offset
    assert simulate_start(reopen(tmp_path, version="5.3.3"), "5.3.3").losses.unreadable_count == 0


@pytest.mark.parametrize(
    "name", ["4.9.8-multiseg--flip-older-file", "5.3.3-killed--as-is", "4.9.8-basic--cq-deleted"]
)
def test_starts_of_many_versions_at_once_are_those_of_each(name: str, restart_dir: Directory) -> None:
    store = open_store(restart_dir(name))
    versions = ["4.0.0", "4.4.0", "4.9.8", "5.1.4", "5.3.3", "5.3.4", "5.5.1"]
    assert simulate_starts(store, versions) == [simulate_start(store, version) for version in versions]


def test_rebuilt_directories_stand_in_the_place_of_the_stores_own(tmp_path: Path) -> None:
    store = grown(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    shutil.move(store.root / "consumequeue", elsewhere)
    gone = reopen(tmp_path)
    assert simulate_start(gone, "5.1.4").losses.by_queue_count == 60
    (start,) = simulate_starts(gone, ["5.1.4"], areas={"consumequeue": elsewhere})
    assert (start.losses.by_queue_count, start.files) == (0, ())
    assert start.queues[0].max_offset == 60
    (elsewhere / "Order/0" / f"{600:020d}").write_bytes(b"short")
    (start,) = simulate_starts(gone, ["5.1.4"], areas={"consumequeue": elsewhere})
    assert start.refusals[0].file == f"consumequeue/Order/0/{600:020d}"


def test_a_queue_of_many_holes_is_not_read_as_a_whole(tmp_path: Path) -> None:
    store = grown(tmp_path, 5)
    path = tmp_path / "store/consumequeue/Order/0" / f"{0:020d}"
    with path.open("r+b") as stream:
        stream.seek((20 << 30) - 20)
        stream.write((7).to_bytes(8, "big") + (200).to_bytes(4, "big") + bytes(8))
    geometry = replace(store.geometry, consumequeue_file_size=20 << 30)
    start = simulate_start(replace(store, geometry=geometry), "5.3.3")
    assert start.queues[0].hidden_count == 1
