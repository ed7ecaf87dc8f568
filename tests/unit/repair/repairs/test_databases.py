"""Databases that are built again from the log: there and back, and what they knew that the log does not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.rocks import DISPATCHED_KEY, decode_unit_key, encode_i64
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.plan.law import all_assumptions
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.verify import check_store
from rocketfsck.writer.disk import fileops

from tests.cases.test_repairs import Cycle, bad, go_round
from tests.conftest import Directory
from tests.databases import change_rows, database_of, rows_of, write_database

QUEUES, MESSAGES = "rebuild-queue-database", "rebuild-message-database"
Break = Callable[[Path], object]


@pytest.fixture(autouse=True)
def without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fileops, "sync", lambda _path: None)


def one(directory: Path, pattern: str) -> Path:
    """The last file of a database that fits a pattern."""
    return sorted(directory.glob(pattern))[-1]


def flip(path: Path, pos: int) -> None:
    data = bytearray(path.read_bytes())
    data[pos] ^= 1
    path.write_bytes(data)


BREAKS: dict[str, Break] = {
    "a table is missing": lambda path: one(path, "*.sst").unlink(),
    "a bit of a table": lambda path: flip(one(path, "*.sst"), 200),
    "a bit of the manifest": lambda path: flip(one(path, "MANIFEST-*"), 60),
    "no CURRENT": lambda path: (path / "CURRENT").unlink(),
    "an empty CURRENT": lambda path: (path / "CURRENT").write_bytes(b""),
}


def test_a_database_that_is_gone_with_topics_that_were_deleted(real_copy: Directory) -> None:
    """They stay deleted: that consumers get fewer messages than of a start without it is no harm."""
    root = real_copy("5.5.0-deleted-rocksdb")
    shutil.rmtree(root / "consumequeue")
    account = rounded(root, QUEUES).after.account
    assert account is not None
    assert (account.count("served"), account.count("removed"), account.is_whole) == (83, 36, True)


def test_a_database_that_is_gone_is_not_made_of_files(real_copy: Directory) -> None:
    """The configs in RocksDB show where the broker has its queues."""
    root = real_copy("5.5.0-rocksdb-cq")
    before = rows_of(database_of(root, "consumequeue"))["default"]
    shutil.rmtree(root / "consumequeue")
    rounded(root, QUEUES)
    mended(root)
    assert rows_of(database_of(root, "consumequeue"))["default"] == before


def planned(root: Path) -> Plan:
    store = open_store(root)
    return make_plan(store, check_store(store))


def rounded(root: Path, action: str, *, in_place: bool = False) -> Cycle:
    """There and back, with one action that leaves nothing to be said."""
    cycle = go_round(root, in_place=in_place)
    assert [item.name for item in cycle.plan.actions] == [action]
    assert not bad(cycle.after)
    return cycle


@pytest.mark.parametrize("name", BREAKS)
@pytest.mark.parametrize(
    ("store", "database", "action"),
    [
        ("5.5.0-rocksdb-cq", "consumequeue", QUEUES),
        ("5.5.0-combine", "consumequeue", QUEUES),
        ("5.5.0-rocksdb-all", "rocksdbstore", MESSAGES),
    ],
)
def test_a_broken_database_is_built_again_and_given_back(
    store: str, database: str, action: str, name: str, real_copy: Directory
) -> None:
    root = real_copy(store)
    BREAKS[name](root / database)
    cycle = rounded(root, action, in_place=name == "no CURRENT")
    (done,) = cycle.plan.actions
    assert done.preen == (action == QUEUES or name == "a bit of a table")  # then timers and others are read


def mended(root: Path) -> None:
    """Apply the plan of a store."""
    plan = planned(root)
    assumed = [item.name for item in all_assumptions(plan.actions) if item.how == "assumed"]
    assert set(assumed) <= {"delay_levels"}
    report = apply_plan(plan, assume=assumed)
    assert not report.problem and not report.unmet and not report.fresh


def test_the_rows_are_those_of_the_broker_again(real_copy: Directory) -> None:
    root = real_copy("5.5.0-rocksdb-cq")
    before = rows_of(database_of(root, "consumequeue"))
    BREAKS["a table is missing"](root / "consumequeue")
    mended(root)
    after = rows_of(database_of(root, "consumequeue"))
    assert after["default"] == before["default"]
    start = simulate_start(open_store(root), "5.5.0")
    assert start.loads and sum(queue.found_count for queue in start.queues) == 227


@pytest.mark.parametrize("store", ["5.3.3-expired-rocksdb", "5.4.0-expired-rocksdb"])
@pytest.mark.parametrize("whole", [True, False])
def test_expired_queues_continue_where_they_were(store: str, whole: bool, real_copy: Directory) -> None:
    root = real_copy(store)
    former = rows_of(database_of(root, "consumequeue"))
    greatest = {key: value for key, value in former["offset"].items() if b"\x01max\x01" in key}
    if whole:
        change_rows(root, "consumequeue", "offset", {DISPATCHED_KEY: encode_i64(1 << 50)})
    else:
        flip(one(root / "consumequeue", "MANIFEST-*"), 60)
    plan = planned(root)
    (action,) = plan.actions
    assert action.name == QUEUES and action.preen == whole
    assumed = [item.name for item in all_assumptions(plan.actions) if item.how == "assumed"]
    assert ("queue_ends" in assumed) == (not whole)
    report = apply_plan(plan, assume=assumed)
    assert not report.problem, report.fresh
    after = rows_of(database_of(root, "consumequeue"))
    if whole:
        assert {key: value for key, value in after["offset"].items() if key in greatest} == greatest
    else:
        assert not bad(check_store(open_store(root)))


@pytest.mark.parametrize("whole", [True, False])
def test_deleted_topics_stay_deleted(whole: bool, real_copy: Directory) -> None:
    root = real_copy("5.5.0-deleted-rocksdb")
    former = rows_of(database_of(root, "consumequeue"))
    if whole:
        change_rows(root, "consumequeue", "offset", {DISPATCHED_KEY: encode_i64(1 << 50)})
    else:
        flip(one(root / "consumequeue", "MANIFEST-*"), 60)
    mended(root)
    after = rows_of(database_of(root, "consumequeue"))
    assert {decode_unit_key(key).topic for key in after["default"]} == {
        decode_unit_key(key).topic for key in former["default"]
    }
    report = check_store(open_store(root))
    assert not bad(report)
    assert report.account is not None
    assert report.account.count("removed") == 36


def test_rows_that_somebody_deleted_come_back(real_copy: Directory) -> None:
    root = real_copy("5.5.0-rocksdb-cq")
    before = rows_of(database_of(root, "consumequeue"))["default"]
    gone = sorted(before)[3:40]
    change_rows(root, "consumequeue", "default", dict.fromkeys(gone))
    plan = planned(root)
    (action,) = plan.actions
    assert action.name == QUEUES and action.preen and action.gains["record"] == len(gone)
    assert RuleName.RECORD_WITHOUT_ROW in action.rules
    mended(root)
    assert rows_of(database_of(root, "consumequeue"))["default"] == before


def test_further_families_are_copied(real_copy: Directory) -> None:
    root = real_copy("5.5.0-rocksdb-cq")
    change_rows(root, "consumequeue", "offset", {DISPATCHED_KEY: encode_i64(1 << 50)})
    families = rows_of(database_of(root, "consumequeue"))
    write_database(root / "consumequeue", {**families, "novel": {b"key": b"value"}})
    mended(root)
    assert rows_of(database_of(root, "consumequeue"))["novel"] == {b"key": b"value"}


def test_databases_of_configs_are_left_alone(real_copy: Directory) -> None:
    root = real_copy("5.5.0-rocksdb-cq")
    (root / "config" / "topics" / "CURRENT").unlink()
    plan = planned(root)
    assert not plan.actions
    assert any("copy its whole directory back" in item.reason for item in plan.unanswered)


def test_lost_timers_are_said(real_copy: Directory) -> None:
    root = real_copy("5.5.0-rocksdb-all")
    BREAKS["a bit of the manifest"](root / "rocksdbstore")
    (action,) = planned(root).actions
    assert {item.kind for item in action.notices} >= {"message-rows-lost"} and not action.preen


def times_changed(root: Path, count: int) -> None:
    """Another storeTime in the first rows."""
    units = rows_of(database_of(root, "consumequeue"))["default"]
    change_rows(
        root,
        "consumequeue",
        "default",
        {key: value[:-8] + (5).to_bytes(8) for key, value in sorted(units.items())[:count]},
    )


def test_more_wrong_times_than_are_listed(real_copy: Directory) -> None:
    root = real_copy("5.5.0-rocksdb-cq")
    before = rows_of(database_of(root, "consumequeue"))["default"]
    times_changed(root, 150)
    report = check_store(open_store(root))
    assert report.counts[RuleName.ROW_TIME] == 150
    mended(root)
    assert rows_of(database_of(root, "consumequeue"))["default"] == before


def test_times_that_are_all_otherwise_are_nothing_to_repair(real_copy: Directory) -> None:
    root = real_copy("5.5.0-rocksdb-cq")
    times_changed(root, 1000)
    report = check_store(open_store(root))
    assert report.counts[RuleName.REGULAR_DEVIATION] == 1 and not report.counts.get(RuleName.ROW_TIME)
    assert not planned(root).actions


def test_units_that_a_killed_broker_had_not_flushed(real_copy: Directory) -> None:
    """A real broker that was started on this store gave out all messages; so does the repair."""
    root = real_copy("5.5.0-rocksdb-config-v2")
    report = check_store(open_store(root))
    (finding,) = (item for item in report.findings if item.rule == RuleName.ROWS_NOT_FLUSHED)
    assert finding.where.physical_offset == 0
    plan = planned(root)
    assert QUEUES in [action.name for action in plan.actions]
    mended(root)
    start = simulate_start(open_store(root), "5.5.0")
    assert sum(queue.found_count for queue in start.queues) == 123
    assert sum(queue.added_count for queue in start.queues) == 0
