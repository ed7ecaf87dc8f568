"""Starts with consume queues in RocksDB. What is expected here, a real 5.5.0 broker did on such a store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocketfsck.formats.rocks import DISPATCHED_KEY, MARKS, encode_i64
from rocketfsck.query.start.model import Start
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.repairs.reasons import IN_THE_WAY
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store

from tests.conftest import Directory
from tests.databases import bound, change_rows, copied_store

QUEUES = "consumequeue"


@pytest.fixture
def root(real_dir: Directory, tmp_path: Path) -> Path:
    return copied_store(real_dir("5.5.0-rocksdb-cq"), tmp_path / "store")


def started(root: Path, version: str = "5.5.0", **settings: str) -> Start:
    conf = root.parent / "broker.conf"
    sizes = {"mappedFileSizeCommitLog": 65536, "mappedFileSizeConsumeQueue": 2000}
    sizes |= {"maxHashSlotNum": 101, "maxIndexNum": 400}
    stated = {"storeType": "defaultRocksDB", **sizes, **settings}
    conf.write_text("".join(f"{name}={value}\n" for name, value in stated.items()))
    return simulate_start(open_store(root, broker_conf=conf), version)


def bounds(start: Start) -> dict[tuple[str, int], tuple[int, int]]:
    return {
        (queue.topic, queue.queue_id): (queue.min_offset, queue.max_offset)
        for queue in start.queues
        if queue.max_offset
    }


@pytest.mark.parametrize(
    ("name", "size", "reason"),
    [
        ("CURRENT", None, "While creating a new Db, wal_dir contains existing log file: 000004.log"),
        ("MANIFEST-000005", None, "MANIFEST-000005: No such file or directory"),
        ("000010.sst", None, "000010.sst: No such file or directory"),
        ("000010.sst", 1000, "Sst file size mismatch"),
    ],
)
def test_a_damaged_database_keeps_the_broker_from_starting(
    name: str, size: int | None, reason: str, root: Path
) -> None:
    path = root / QUEUES / name
    if size is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:size])
    (refusal,) = started(root).refusals
    assert refusal.file == QUEUES
    assert reason in refusal.reason


def test_a_manifest_that_is_cut_off_makes_a_database_without_rows(root: Path) -> None:
    path = root / QUEUES / "MANIFEST-000005"
    path.write_bytes(path.read_bytes()[:100])
    (root / "abort").touch()
    start = started(root)
    assert start.loads
    assert start.dispatch is not None
    assert start.dispatch.recovery_record_count == 227
    assert sum(queue.found_count for queue in start.queues) == 0


def test_a_wal_that_is_gone_is_not_missed(root: Path) -> None:
    (root / QUEUES / "000004.log").unlink()
    start = started(root)
    assert start.loads
    assert not start.harmful


def test_a_new_database_lacks_the_first_message_after_a_clean_stop(root: Path) -> None:
    before = bounds(started(root))
    for path in (root / QUEUES).iterdir():
        path.unlink()
    start = started(root)
    assert start.loads
    assert set(before.items()) - set(bounds(start).items()) == {(("Warm", 0), (0, 1))}
    (lost,) = start.losses.by_queue
    assert (lost.start_offset, lost.record_count) == (0, 1)
    (root / "abort").touch()
    assert bounds(started(root)) == before, "after an unclean stop all is dispatched"


def test_a_cut_moves_the_bounds_and_what_is_behind_the_mark_is_put_again(root: Path) -> None:
    before = bounds(started(root))
    change_rows(root, QUEUES, "offset", {DISPATCHED_KEY: encode_i64(40000)})
    (root / "abort").touch()
    start = started(root)
    assert bounds(start) == before
    assert start.dispatch is not None
    assert start.scan is not None
    assert start.scan.start_offset == 0, "the second file begins behind the mark"
    assert start.dispatch.recovery_record_count == 227
    assert sum(queue.added_count for queue in start.queues) == 0, "the rows are there"
    (root / "abort").unlink()
    with (root / "commitlog" / f"{65536:020d}").open("r+b") as log:
        log.truncate(4000)
        log.truncate(65536)
    change_rows(root, QUEUES, "offset", {DISPATCHED_KEY: encode_i64(83353)})
    start = started(root)
    assert start.cut_offset is not None
    assert start.cut_offset < 69536 < 83353
    after = bounds(start)
    assert {name for name in before if before[name] != after.get(name)}
    assert all(after[name][1] <= before[name][1] for name in after)
    assert start.losses.by_queue_count == 0
    assert start.losses.unreadable_count == 5, "queues that begin behind the cut stay as they are"


def test_both_places_of_a_database_are_one_too_many(root: Path) -> None:
    (root / "consumequeue_rocksdb").mkdir()
    (root / "consumequeue_rocksdb/CURRENT").write_text("MANIFEST-000005\n")
    (refusal,) = started(root).refusals
    assert "maybe incompatible config" in refusal.reason
    assert started(root, "5.4.0").loads, "which knows only one"


def test_a_file_in_the_place_of_the_database(root: Path) -> None:
    shutil.rmtree(root / QUEUES)
    (root / QUEUES).write_bytes(b"x")
    (refusal,) = started(root).refusals
    assert (refusal.file, refusal.reason.rpartition("' ")[2]) == (QUEUES, "exists but is not a directory")
    store = open_store(root)
    plan = make_plan(store, check_store(store, CheckOptions(jobs=1)))
    assert not plan.actions
    assert {item.reason for item in plan.unanswered} == {IN_THE_WAY.format(database=QUEUES)}


@pytest.mark.parametrize("other", ["subscriptionGroups", "consumerOffsets"])
def test_a_database_of_topics_that_has_something_else(other: str, root: Path) -> None:
    """Topics without names, over which the broker fails when it registers."""
    shutil.rmtree(root / "config/topics")
    shutil.copytree(root / "config" / other, root / "config/topics")
    (refusal,) = started(root).refusals
    assert refusal.file == "config/topics"
    assert refusal.reason.endswith(" has no topicName")


@pytest.mark.parametrize("version", ["5.3.2", "5.3.3", "5.3.4", "5.4.0", "5.5.1"])
def test_versions_that_start_from_the_mark(version: str, root: Path) -> None:
    start = started(root, version)
    assert start.loads
    assert bounds(start) == bounds(started(root))


def test_a_log_without_files_takes_the_rows_along(root: Path) -> None:
    for path in (root / "commitlog").iterdir():
        path.unlink()
    start = started(root)
    assert start.queues_destroyed
    assert bounds(start) == {}


def test_a_queue_without_a_greatest_offset_is_none(root: Path) -> None:
    key, _ = bound("RockOrder", 0, "max", 23, 0)
    change_rows(root, QUEUES, "offset", {key: None})
    assert ("RockOrder", 0) not in bounds(started(root))


@pytest.mark.parametrize(("settings", "first"), [({}, 65536), ({"indexRocksDBEnable": "true"}, 0)])
def test_an_index_in_rocksdb_wants_a_file_that_it_has_had(
    settings: dict[str, str], first: int, root: Path
) -> None:
    start = started(root, **settings)
    assert start.scan is not None
    assert start.scan.start_offset == first
    assert start.dispatch is not None
    assert start.dispatch.recovery_record_count == 0, "a mark of 0 dispatches nothing"


@pytest.mark.parametrize("version", ["5.4.0", "5.5.0"])
def test_the_marks_of_messages(version: str, real_dir: Directory, tmp_path: Path) -> None:
    root = copied_store(real_dir("5.5.0-rocksdb-all"), tmp_path / "store")
    sizes = {"storeType": "default"}
    whole = started(root, version, **sizes, indexRocksDBEnable="true")
    assert whole.loads
    assert not whole.harmful
    assert whole.scan is not None
    assert whole.scan.start_offset == 65536
    change_rows(root, "rocksdbstore", "trans", {MARKS["trans"][0]: encode_i64(60000)})
    behind = started(root, version, **sizes, indexRocksDBEnable="true", transRocksDBEnable="true")
    assert behind.scan is not None
    assert behind.scan.start_offset == 0
    assert behind.dispatch is not None
    assert bool(behind.dispatch.recovery_record_count) == (version == "5.5.0"), "it dispatches by the mark"
    (root / "rocksdbstore/CURRENT").write_text("MANIFEST-000099\n")
    blind = started(root, version, **sizes, indexRocksDBEnable="true")
    assert blind.loads, "the broker goes on without this database"
    assert blind.scan is not None
    assert blind.scan.start_offset == 0, "and looks for a file that it knows to be indexed"


CONFIGS = "config/topics"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("MANIFEST-*", "MANIFEST-000005: No such file or directory"),
        ("*.sst", ".sst: No such file or directory"),
    ],
)
def test_a_damaged_database_of_configs_keeps_the_broker_from_starting(
    name: str, reason: str, root: Path
) -> None:
    for path in (root / CONFIGS).glob(name):
        path.unlink()
    (root / "abort").touch()
    start = started(root)
    (refusal,) = start.refusals
    assert refusal.file == CONFIGS
    assert reason in refusal.reason
    assert start.dispatch is None
    assert not start.files, "the broker gives up before it loads files of messages"
    assert started(root, configManagerVersion="v2").loads, "which reads config/rdb"


def test_rows_of_configs_that_cannot_be_read(root: Path) -> None:
    for path in (root / CONFIGS).glob("*.sst"):
        data = bytearray(path.read_bytes())
        data[20] ^= 1
        path.write_bytes(data)
    (refusal,) = started(root).refusals
    assert (refusal.file, "block checksum mismatch" in refusal.reason) == (CONFIGS, True)


def test_configs_of_the_second_form(real_dir: Directory, tmp_path: Path) -> None:
    root = copied_store(real_dir("5.5.0-rocksdb-config-v2"), tmp_path / "store")
    (current,) = (root / "config/rdb").glob("MANIFEST-*")
    current.unlink()
    (refusal,) = simulate_start(open_store(root), "5.5.0").refusals
    assert refusal.file == "config/rdb"
    assert simulate_start(open_store(root), "5.5.0", losses=False).loads is False
