"""A second look: what only one of two reads shows is no damage, and nothing is repaired there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import LockState
from rocketfsck.store.reading import FileReader, forget_cached
from rocketfsck.verify.finding import Finding, Severity, Where
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.queues import file as queues
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES, describe
from rocketfsck.verify.run import check_store
from rocketfsck.verify.tasks import execute
from rocketfsck.verify.tasks.task import QueuesTask

from tests.conftest import Directory
from tests.flippingreads import flipping

NOW = 1_800_000_000_000
LOG = "commitlog/00000000000000000000"
BODY_AT = 3300
"""In a body of the first commit log file of 5.3.3-basic."""


@pytest.fixture
def store(store_dir: Directory, tmp_path: Path) -> Path:
    return Path(shutil.copytree(store_dir("5.3.3-basic"), tmp_path / "store"))


def check(root: Path, **options: object) -> Report:
    return check_store(open_store(root), CheckOptions(now_timestamp=NOW, **options))  # type: ignore[arg-type]


def check_flipped(root: Path, file: Path, pos: int, marker: Path, **options: object) -> Report:
    """A check to whose first reader of the byte a wrong one is given."""
    opened = open_store(root)
    with flipping(file, pos, marker):
        report = check_store(opened, CheckOptions(now_timestamp=NOW, **options))  # type: ignore[arg-type]
    assert marker.exists(), "nobody read the byte"
    return report


def rules(report: Report) -> list[str]:
    return [item.rule for item in report.findings if RULES[item.rule].severity > Severity.INFO]


def break_file(path: Path, pos: int) -> None:
    data = bytearray(path.read_bytes())
    data[pos] ^= 0xFF
    path.write_bytes(data)


def test_a_read_that_is_wrong_once(store: Path, tmp_path: Path) -> None:
    report = check_flipped(store, store / LOG, BODY_AT, tmp_path / "marker")
    assert rules(report) == ["ST048"]
    (found,) = (item for item in report.findings if item.rule == "ST048")
    assert found.where.file == LOG
    assert found.where.start is not None and found.where.end is not None
    assert found.where.start <= BODY_AT < found.where.end
    assert found.found == {"rules": "CL004"}
    assert describe(found) == "two reads of the same bytes differ: only one of them breaks CL004"
    assert report.exit_code == 4
    assert rules(check(store)) == []


def test_damage_that_stays_is_damage(store: Path) -> None:
    break_file(store / LOG, BODY_AT)
    assert rules(check(store)) == ["CL004"]


def test_damage_beside_a_read_that_is_wrong_once(store: Path, tmp_path: Path) -> None:
    break_file(store / LOG, 9000)
    report = check_flipped(store, store / LOG, BODY_AT, tmp_path / "marker")
    assert sorted(rules(report)) == ["CL004", "ST048"]
    assert report.counts["CL004"] == 1


@pytest.mark.parametrize("pos", [3, 60])
def test_a_unit_that_is_wrong_once(
    store: Path, tmp_path: Path, pos: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the check of the queue. That of the log looks again at any unit before it misses it."""
    queue = store / "consumequeue" / "GammaBulk0" / "0" / ("0" * 20)

    def check_flipped_queues(task: QueuesTask) -> queues.QueuesResult:
        with flipping(queue, pos, tmp_path / "marker"):
            return true_check(task)

    true_check = queues.check_queues
    monkeypatch.setattr(queues, "check_queues", check_flipped_queues)
    report = check(store, jobs=1)
    monkeypatch.undo()
    assert (tmp_path / "marker").exists()
    assert set(rules(report)) == {"ST048"}
    assert {item.where.file for item in report.findings if item.rule == "ST048"} == {
        "consumequeue/GammaBulk0/0/00000000000000000000"
    }
    break_file(queue, pos)
    assert "ST048" not in rules(check(store))
    assert rules(check(store))


def test_the_rules_that_were_asked_for(store: Path, tmp_path: Path) -> None:
    place = (store, store / LOG, BODY_AT)
    assert rules(check_flipped(*place, tmp_path / "one", select=("CL004",))) == ["ST048"]
    assert rules(check_flipped(*place, tmp_path / "two", select=("CQ",))) == []


def test_no_repair_where_reads_differ(store: Path, tmp_path: Path) -> None:
    unit = next(path for path in sorted((store / "consumequeue").rglob("0*")) if path.is_file())
    break_file(unit, 3)
    planned = make_plan(open_store(store), check(store))
    assert planned.actions
    report = check_flipped(store, store / LOG, BODY_AT, tmp_path / "marker")
    assert "ST048" in rules(report)
    for only in ((), tuple({action.name for action in planned.actions})):
        plan = make_plan(open_store(store), report, only=only)
        assert plan.actions == ()
    reasons = {item.rule: item.reason for item in plan.unanswered}
    assert "nobody knows the bytes while reads of them differ" in reasons["ST048"]
    assert any("two reads of the same bytes differ (ST048)" in reason for reason in reasons.values())


def test_a_healthy_file_is_checked_once(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[str] = []
    monkeypatch.setattr(execute, "forget_cached", lambda path, _ranges: forgotten.append(str(path)))
    check(store)
    assert forgotten == []
    break_file(store / LOG, BODY_AT)
    check(store)
    assert forgotten == [str(store / LOG)]


def test_a_file_that_somebody_writes_is_not_in_doubt(store: Path, tmp_path: Path) -> None:
    opened = open_store(store)
    status = (store / LOG).stat()
    os.utime(store / LOG, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with flipping(store / LOG, BODY_AT, tmp_path / "marker"):
        report = check_store(opened, CheckOptions(now_timestamp=NOW))
    assert rules(report) == ["CL004"]


def test_a_file_that_somebody_writes_meanwhile(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the two looks: then the first one counts."""
    break_file(store / LOG, BODY_AT)
    monkeypatch.setattr(execute, "forget_cached", lambda path, _ranges: break_file(Path(path), BODY_AT))
    assert rules(check(store, jobs=1)) == ["CL004"]


def test_a_file_that_is_gone_has_changed(store: Path) -> None:
    files = open_store(store).commitlog.files
    assert not execute._changed(files)
    (store / LOG).unlink()
    assert execute._changed(files)


def test_a_store_behind_a_url_is_read_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes come by a network: a page cache has none of them."""
    system = pytest.importorskip("fsspec").filesystem("memory")
    monkeypatch.setattr(execute, "forget_cached", None)
    break_file(store / LOG, BODY_AT)
    for path in (path for path in sorted(store.rglob("*")) if path.is_file()):
        system.pipe_file(f"/reread/{path.relative_to(store).as_posix()}", path.read_bytes())
    try:
        report = check_store(open_store("memory://reread"), CheckOptions(now_timestamp=NOW))
    finally:
        system.rm("/reread", recursive=True)
    assert rules(report) == ["CL004"]


def test_the_first_places_of_a_file_are_read_again() -> None:
    """Of a file with many; a finding of the whole file names no place."""
    many = [
        Finding(RuleName.RECORD_BODY_CRC, Where(file=LOG, start=at, end=None if at % 2 else at + 5))
        for at in range(execute.PLACE_LIMIT + 3)
    ]
    whole = Finding(RuleName.RECORD_BODY_CRC, Where(file="commitlog/other"))
    (places,) = execute._places([whole, *many]).items()
    assert places[0] == LOG
    assert len(places[1]) == execute.PLACE_LIMIT
    assert places[1][:2] == [(0, 5), (1, 2)]


def test_every_file_that_may_be_in_doubt(store_dir: Directory) -> None:
    store = open_store(store_dir("4.9.8-cqext"))
    files = {file.relative for file in execute._files(store)}
    families = ("commitlog/", "consumequeue/", "consumequeue_ext/", "index/")
    assert {file.relative for file in store.all_files() if file.relative.startswith(families)} == files
    assert any(name.startswith("consumequeue_ext/") for name in files)


def test_a_store_in_use_is_read_once(store: Path, tmp_path: Path) -> None:
    opened = open_store(store)
    opened = replace(opened, live=replace(opened.live, state=LockState.HELD))
    with flipping(store / LOG, BODY_AT, tmp_path / "marker"):
        report = check_store(opened, CheckOptions(now_timestamp=NOW))
    assert "CL004" in rules(report)
    assert "ST048" not in rules(report)


def test_a_file_that_cannot_be_read_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_file(store / LOG, BODY_AT)

    def fail(path: str, _ranges: Iterator[tuple[int, int]]) -> None:
        raise StoreError("cannot be opened: Input/output error", path=path)

    monkeypatch.setattr(execute, "forget_cached", fail)
    report = check(store)
    assert any(item.operational and "Input/output error" in item.reason for item in report.not_checked)


def test_pages_leave_the_cache(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(10_000))
    forget_cached(file, [(0, 1), (4096, 9000), (9999, 10_000)])
    with FileReader(file) as reader:
        assert reader.read(0, 10_000) == bytes(10_000)
    with pytest.raises(StoreError, match="cannot be opened"):
        forget_cached(tmp_path / "none", [(0, 1)])
