"""ST057: log files that are gone from the front, but that no broker deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.repair.advice import MISSING_FIRST
from rocketfsck.repair.verdict import judge_store
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.queues import crossqueues
from rocketfsck.verify.report import Report

from tests.conftest import Directory


def checked(root: Path) -> tuple[Report, list[Finding]]:
    report = check_store(open_store(root), CheckOptions(jobs=1))
    return report, [finding for finding in report.findings if finding.rule == "ST057"]


def without_first(root: Path, count: int) -> int:
    """Delete the first commit log files; how many messages were in them."""
    files = sorted((root / "commitlog").iterdir())
    before = check_store(open_store(root)).account
    for file in files[:count]:
        file.unlink()
    after = check_store(open_store(root)).account
    assert before is not None and after is not None
    return before.fates.in_log_count - after.fates.in_log_count


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("without", ["", "index", "consumequeue"])
def test_files_that_a_broker_would_delete_tell(store_copy: Directory, count: int, without: str) -> None:
    root = store_copy("5.3.3-multiseg")
    gone = without_first(root, count)
    assert gone > 100
    if without:
        for file in [path for path in sorted((root / without).rglob("*")) if path.is_file()]:
            if without == "index" or file.name == "0" * 20:
                file.unlink()
    report, found = checked(root)
    if not found:  # all that told is deleted: as after expiry
        assert without and not report.account.lost_count  # type: ignore[union-attr]
        return
    (finding,) = found
    assert not (without == "index" and "index/" in str(finding.found["files"]))
    assert report.account is not None
    if not without:
        assert report.account.lost_count == gone
        verdict = judge_store(open_store(root), report)
        assert (verdict.state, verdict.advice) == ("lost", MISSING_FIRST)


@pytest.mark.parametrize(("hours", "at_once", "is_found"), [(0, 4, False), (0, 3, True), (1, 4, True)])
def test_a_broker_that_was_stopped_while_files_expire(
    store_copy: Directory, monkeypatch: pytest.MonkeyPatch, hours: int, at_once: int, is_found: bool
) -> None:
    root = store_copy("5.3.3-multiseg")
    without_first(root, 4)
    monkeypatch.setattr(crossqueues, "EXPIRED_AT_ONCE", at_once)
    conf = root.with_suffix(".conf")
    conf.write_text(f"fileReservedTime={hours}\n")
    report = check_store(open_store(root, broker_conf=conf), CheckOptions(jobs=1))
    assert any(finding.rule == "ST057" for finding in report.findings) is is_found
    assert report.account is not None and bool(report.account.lost_count) is is_found


@pytest.mark.parametrize("name", ["4.9.8-expired", "5.1.3-expired"])
def test_expired_files_are_not_missed(store_dir: Directory, name: str) -> None:
    report, found = checked(store_dir(name))
    assert not found and report.account is not None and not report.account.lost_count


def test_an_index_of_another_time_tells_nothing(store_copy: Directory) -> None:
    root = store_copy("5.3.3-multiseg")
    without_first(root, 4)
    for file in sorted((root / "index").iterdir())[3:]:
        file.unlink()
    for file in [path for path in (root / "consumequeue").rglob("*") if path.is_file()]:
        if file.name == "0" * 20:
            file.unlink()
    _, found = checked(root)
    assert not any("index/" in str(finding.found["files"]) for finding in found)
