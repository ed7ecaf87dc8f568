"""Stores of brokers that are newer than this tool: no error where they are sound, hands off what is new.

The stores in tests/data/real were written by released 5.5.0 brokers. Where one is read as 5.3.4, which does
not know that tags are indexed, it is an example of a store of a broker that is newer still. ADR 0011.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.repair.plan.law import NOT_UNDERSTOOD
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.watched import unknown_areas

from tests.conftest import REAL_NAMES, Directory
from tests.databases import change_rows, copied_store

NOW = 1_800_000_000_000
OLDER = "5.3.4"

TAG_ENTRIES = {"5.5.0-batchcq": 50, "5.5.0-full-killed": 439, "5.5.0-long": 254}


KILLED: dict[str, set[str]] = {
    # killed: the next start deletes the newest index file
    "5.3.3-killed-lmq": {"CP001", "CP003"},
    "5.5.0-full-killed": {"CP001", "CP003", "CP005"},
    "5.5.0-pop-kv-killed": {"CP001", "CP003"},
    # and dispatches what the database of queues had not flushed
    "5.5.0-rocksdb-config-v2": {"CP001", "CP003", "RK018"},
}


def check(root: Path, version: str | None = None) -> Report:
    return check_store(open_store(root, version=version), CheckOptions(now_timestamp=NOW))


def above_info(report: Report) -> set[str]:
    return {rule for rule, count in report.counts.items() if count and RULES[rule].severity > Severity.INFO}


@pytest.mark.parametrize("name", REAL_NAMES)
def test_a_store_of_a_released_broker(name: str, real_dir: Directory) -> None:
    assert above_info(check(real_dir(name))) == KILLED.get(name, set())


def test_topics_that_a_broker_never_writes(real_dir: Directory, tmp_path: Path) -> None:
    """Of topics that it made itself, config/rdb has none, however the broker ended: nobody deleted them."""
    root = real_dir("5.5.0-rocksdb-config-v2")
    report = check(root)
    (finding,) = (finding for finding in report.findings if finding.rule == RuleName.TOPICS_NOT_WRITTEN)
    assert finding.found["topic_count"] == 5
    assert report.account is not None
    assert (report.account.unreachable_count, report.account.count("removed")) == (123, 0)
    stopped = copied_store(root, tmp_path / "store")
    (stopped / "abort").unlink()
    changed = {b"\x01\x00\x03\x01data_version": struct.pack(">3q", 0, NOW, 9)}
    change_rows(stopped, "config/rdb", "default", changed)
    report = check(stopped)
    assert not report.counts.get(RuleName.TOPICS_NOT_WRITTEN), "somebody may have deleted them later"
    assert report.account is not None
    assert (report.account.unreachable_count, report.account.count("removed")) == (123, 0)


def test_no_queues_of_files_beside_a_database_of_queues(real_dir: Directory) -> None:
    root = real_dir("5.5.0-rocksdb-config-v2")
    report = check(root)
    plan = make_plan(open_store(root), report)
    assert {action.target for action in plan.actions} <= {"checkpoint", "consumequeue_rocksdb"}
    assert "consumequeue" in unknown_areas(report.findings)


@pytest.mark.parametrize("name", TAG_ENTRIES)
def test_tag_entries_are_not_damage(name: str, real_dir: Directory) -> None:
    report = check(real_dir(name), OLDER)
    assert not {rule for rule in above_info(report) if rule.startswith(("IX", "XR"))}
    found = next(finding for finding in report.findings if finding.rule == "XR035").found
    assert found["entry_count"] == TAG_ENTRIES[name]
    assert "index" in unknown_areas(report.findings)


def test_no_repair_of_an_index_that_is_not_understood(real_copy: Directory) -> None:
    root = real_copy("5.5.0-batchcq")
    index = next((root / "index").iterdir())
    with index.open("r+b") as file:
        file.seek(40 + 4 * open_store(root).geometry.slot_count + 20 * 3)
        file.write(b"\x01\x02\x03\x04")  # the hash of one key's entry
    report = check(root, OLDER)
    assert "XR024" in above_info(report)
    store = open_store(root, version=OLDER)
    plan = make_plan(store, report)
    assert not [action for action in plan.actions if action.target.startswith("index")]
    reasons = {item.rule: item.reason for item in plan.unanswered}
    assert "this version does not understand" in reasons["XR024"]
    assert "--only rebuild-index" in reasons["XR024"]

    forced = make_plan(store, report, only=["rebuild-index"])
    (action,) = forced.actions
    assert (action.name, action.preen) == ("rebuild-index", False)
    assert [(notice.kind, notice.count) for notice in action.notices] == [(NOT_UNDERSTOOD, 2)]
    assert not make_plan(store, report, only=["rebuild-index"], preen=True).actions
