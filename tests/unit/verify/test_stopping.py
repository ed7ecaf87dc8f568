"""`stop_after`: the first findings, the same for any number of jobs and any order in which tasks end."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.engine import LocalEngine, Outcome
from rocketfsck.errors import UsageError
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.run import check_store
from rocketfsck.verify.tasks.resume import write_baseline

from tests.conftest import Directory

NOW = 1_800_000_000_000


@pytest.fixture
def damaged(store_dir: Directory, tmp_path: Path) -> Path:
    """A store of several commit log files, with wrong bodies in each and a file that is no store's."""
    root = Path(shutil.copytree(store_dir("4.9.8-multiseg"), tmp_path / "damaged"))
    files = sorted((root / "commitlog").iterdir())
    assert len(files) > 2
    for file in files[:3]:
        data = bytearray(file.read_bytes())
        for at in (3000, 9000, 15000):
            data[at] ^= 0xFF
        file.write_bytes(data)
    (root / "checkpoint").write_bytes(b"\xff" * 4096)
    return root


class Backwards:
    """An engine that runs the last task first."""

    job_count = 2

    def __init__(self) -> None:
        self.ran: list[int] = []

    def run(
        self, kernel: Callable[[Any], Any], tasks: Sequence[Any], *, deadline: float | None = None
    ) -> Iterator[Outcome[Any, Any]]:
        assert deadline is None
        for index in reversed(range(len(tasks))):
            self.ran.append(index)
            yield Outcome(index, tasks[index], kernel(tasks[index]), 0.0)


def check(root: Path, engine: Any = None, **options: Any) -> Report:
    report = check_store(open_store(root), CheckOptions(now_timestamp=NOW, **options), engine=engine)
    return replace(report, seconds=0.0)


def wrong(report: Report) -> list[Finding]:
    return [item for item in report.findings if RULES[item.rule].severity > Severity.INFO]


def names(report: Report) -> set[str]:
    return {item.fingerprint for item in wrong(report)}


def test_the_first_findings_and_no_more(damaged: Path) -> None:
    every = check(damaged)
    assert len(wrong(every)) > 4
    for count in (1, 2, 4):
        report = check(damaged, stop_after=count)
        assert len(wrong(report)) == count
        assert names(report) <= names(every)
        assert report.exit_code == 4
        assert report.coverage.stopped_after == count
        assert not report.coverage.complete
        assert f"stopped after {count} finding" in report.coverage.statement
    one, two = (names(check(damaged, stop_after=count)) for count in (1, 2))
    assert one < two


@pytest.mark.parametrize("count", [1, 3, 5])
def test_they_are_the_same_whichever_task_ends_first(damaged: Path, count: int) -> None:
    first = check(damaged, LocalEngine(1), stop_after=count)
    backwards = Backwards()
    assert check(damaged, LocalEngine(4), stop_after=count) == first
    assert check(damaged, backwards, stop_after=count) == first
    assert backwards.ran[-1] == 0, "the first task ended last, and everything waited for it"


def test_what_was_not_come_to_is_named(damaged: Path) -> None:
    report = check(damaged, stop_after=1)
    said = {item.what: item.reason for item in report.not_checked}
    rest = sorted(path.name for path in (damaged / "commitlog").iterdir())[1:]
    assert rest
    for name in rest:
        assert said[f"commitlog/{name}"] == "the check stopped after 1 finding"
    assert any(item.what == "" and "stopped after 1 finding" in item.reason for item in report.not_checked)
    assert not any(item.operational for item in report.not_checked)
    assert report.next_commands[-1].startswith("rocketfsck check ")
    assert "--stop-after" not in report.next_commands[-1]


def test_a_stop_in_the_small_files(damaged: Path) -> None:
    report = check(damaged, select=("CP",), stop_after=1)
    (only,) = wrong(report)
    assert only.rule.startswith("CP")
    assert report.coverage.stopped_after == 1
    assert len(wrong(check(damaged, select=("CP",)))) > 1


def test_more_than_there_are(damaged: Path) -> None:
    assert check(damaged, stop_after=10_000) == check(damaged)


def test_what_the_baseline_knows_does_not_count(damaged: Path, tmp_path: Path) -> None:
    write_baseline(tmp_path / "known", check(damaged, stop_after=2).findings)
    report = check(damaged, stop_after=2, baseline=tmp_path / "known")
    assert len(wrong(report)) == 2
    assert not names(report) & names(check(damaged, stop_after=2))
    assert report.suppressed >= 2


def test_what_an_earlier_part_found_beyond_the_stop_does_not_show(damaged: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    check(damaged, resume=state)
    assert wrong(check(damaged, resume=state, stop_after=1)) == wrong(check(damaged, stop_after=1))


def test_no_repair_is_planned_from_a_check_that_stopped(damaged: Path) -> None:
    with pytest.raises(UsageError, match="covers only a part of the store"):
        make_plan(open_store(damaged), check(damaged, stop_after=1))


def test_at_least_one() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        CheckOptions(stop_after=0)


def test_a_time_limit_beside_it(damaged: Path) -> None:
    started = time.monotonic()
    report = check(damaged, stop_after=1, max_duration=1e-9)
    assert time.monotonic() - started < 60
    assert report.coverage.done_count == 0
