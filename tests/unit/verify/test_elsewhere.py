"""Stores that keep queues or the log where this version does not look: nothing there is called lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, Severity, check_store
from rocketfsck.verify.report import Report
from rocketfsck.verify.watched import unknown_areas

from tests.databases import write_database
from tests.unit.verify.storemaker import NOW

Copies = Callable[[str], Path]


def check(root: Path) -> Report:
    return check_store(open_store(root), CheckOptions(now_timestamp=NOW))


def test_queues_in_rocksdb_are_not_missing(store_copy: Copies) -> None:
    root = store_copy("5.3.3-basic")
    shutil.rmtree(root / "consumequeue")
    (root / "consumequeue").mkdir()
    assert {"XR002", "CF011", "CF022"} <= {finding.rule for finding in check(root).findings}
    database(root, "consumequeue")
    report = check(root)
    assert report.worst == Severity.INFO
    assert not {"XR002", "CF011", "CF022"} & {finding.rule for finding in report.findings}
    assert "consumequeue" not in {item.what for item in report.not_checked}
    assert report.checked["databases"].file_count


@pytest.mark.parametrize("kept", [0, 3])
def test_a_log_that_dledger_keeps_is_not_missing(store_copy: Copies, kept: int) -> None:
    root = store_copy("5.3.3-multiseg")
    data = root / "dledger-n0/data"
    data.mkdir(parents=True)
    for path in sorted((root / "commitlog").iterdir())[kept:]:
        path.rename(data / path.name)
    of_another_node(root)
    report = check(root)
    assert report.worst in (None, Severity.INFO), [finding.rule for finding in report.findings]
    assert "dledger-n0/data" in {item.what for item in report.not_checked}


def test_offsets_of_consumers_are_not_behind_where_the_log_is_elsewhere(store_copy: Copies) -> None:
    root = store_copy("5.3.3-basic")
    (root / "dledger-n0/data").mkdir(parents=True)
    path = root / "commitlog/00000000000000000000"
    path.rename(root / "dledger-n0/data" / path.name)
    of_another_node(root)
    assert {finding.rule for finding in check(root).findings} <= {"CF017", "IX028"}


def of_another_node(root: Path) -> None:
    """Nothing says any more which of DLedger's files are the log of this store."""
    (root / "dledger-n1/data").mkdir(parents=True)
    (root / "dledger-n1/data/00000000000000000000").write_bytes(bytes(64))


def database(root: Path, name: str) -> None:
    """A RocksDB that holds nothing yet."""
    write_database(root / name, {"default": {}, "offset": {}})


@pytest.mark.parametrize(
    ("name", "rule", "areas"),
    [
        ("consumequeue_rocksdb", "ST043", {"consumequeue", "batchconsumequeue", "consumequeue_ext"}),
        ("queues_v9", "ST044", {"consumequeue", "batchconsumequeue", "consumequeue_ext", "index"}),
    ],
)
def test_queues_in_another_database(store_copy: Copies, name: str, rule: str, areas: set[str]) -> None:
    root = store_copy("5.3.3-basic")
    shutil.rmtree(root / "consumequeue")
    database(root, name)
    report = check(root)
    assert report.worst == Severity.INFO
    (finding,) = (finding for finding in report.findings if finding.rule in ("ST043", "ST044"))
    count = len(list((root / name).iterdir()))
    assert (finding.rule, finding.where.file, finding.found["file_count"]) == (rule, name, count)
    assert set(unknown_areas(report.findings)) == areas
    assert (name in {item.what for item in report.not_checked}) == (rule == "ST044")
    assert not make_plan(open_store(root), report).actions
    forced = make_plan(open_store(root), report, only=["rebuild-queue"])
    assert not forced.actions  # nothing is missing that a repair could be asked for


def test_a_database_beside_damaged_queues_keeps_repairs_off(store_copy: Copies) -> None:
    root = store_copy("5.3.3-basic")
    database(root, "consumequeue_rocksdb")
    file = next(path for path in sorted((root / "consumequeue").rglob("0*")) if path.is_file())
    with file.open("r+b") as stream:
        stream.write(b"\1" * 20)
    report = check(root)
    assert report.worst == Severity.ERROR
    assert not make_plan(open_store(root), report).actions
    (action,) = make_plan(open_store(root), report, only=["rebuild-queue"]).actions
    assert not action.preen


@pytest.mark.parametrize("name", ["rocksdbstore", "kvStore"])
def test_databases_without_queues_stop_nothing(store_copy: Copies, name: str) -> None:
    root = store_copy("5.3.3-basic")
    shutil.rmtree(root / "consumequeue")
    database(root, name)
    report = check(root)
    assert not unknown_areas(report.findings)
    assert "XR002" in {finding.rule for finding in report.findings}
    assert [action.name for action in make_plan(open_store(root), report).actions] == ["rebuild-queue"]


def test_a_version_that_makes_no_such_database_does_not_know_its_index(store_copy: Copies) -> None:
    root = store_copy("5.3.3-basic")
    database(root, "rocksdbstore")
    old = check_store(open_store(root, version="5.3.3"), CheckOptions(now_timestamp=NOW))
    assert set(unknown_areas(old.findings)) == {"index"}
    assert "ST045" not in check(root).counts


def test_a_directory_that_is_no_database_stays_a_stray(store_copy: Copies) -> None:
    root = store_copy("5.3.3-basic")
    (root / "queues_v9").mkdir()
    (root / "queues_v9/CURRENT").write_text("something else")
    report = check(root)
    assert [finding.where.file for finding in report.findings if finding.rule == "ST041"] == ["queues_v9"]
    assert not unknown_areas(report.findings)
