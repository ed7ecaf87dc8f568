"""A large store in a job over many is cut into its tasks, and gives the same; what dies has a name."""

from __future__ import annotations

import shutil
import tracemalloc
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck import CheckOptions, check_stores
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import StoreError
from rocketfsck.pipeline.fleet import stages
from rocketfsck.pipeline.fleet.model import FleetReport
from rocketfsck.pipeline.fleet.stages import Begin, End, Share, run_jobs, task_of

from tests.conftest import Directory
from tests.unit.pipeline.fleeting import Distant, MadeUpJob

OPTIONS = CheckOptions(now_timestamp=1_800_000_000_000)


@pytest.fixture
def fleet(store_dir: Directory, restart_dir: Directory, tmp_path: Path) -> Path:
    """Stores with several commit log files and one, sound and damaged, and one that is missing (broker-9)."""
    for number, name in enumerate(("4.9.8-multiseg", "5.3.3-basic", "4.9.8-killed")):
        shutil.copytree(store_dir(name), tmp_path / f"broker-{number}" / "store")
    for number, name in enumerate(("5.1.3-basic--flip-last-file", "4.9.8-multiseg--flip-older-file")):
        shutil.copytree(restart_dir(name), tmp_path / f"broker-{3 + number}" / "store")
    return tmp_path


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store is a large one, and a share is a task or two."""
    monkeypatch.setattr(stages, "WHOLE_WEIGHT", 0)
    monkeypatch.setattr(stages, "LEAST_WEIGHT", 1 << 20)
    monkeypatch.setattr(stages, "MOST_WEIGHT", 3 << 20)


def said(report: FleetReport) -> dict[str, Any]:
    varying = ("run_id", "seconds", "started_timestamp")
    head = {name: value for name, value in report.head().items() if name not in varying}
    rows = [replace(row, run_id="", seconds=0.0).as_row() for row in report.stores]
    return {**head, "rows": rows, "findings": [one | {"run_id": ""} for one in report.finding_rows()]}


def paths(fleet: Path) -> list[Path]:
    return [*(fleet / f"broker-{number}" for number in range(5)), fleet / "broker-9"]


def test_small_stores_are_a_task_each(fleet: Path) -> None:
    engine = Distant()
    report = check_stores(paths(fleet), OPTIONS, engine)
    assert said(report) == said(check_stores(paths(fleet), OPTIONS, LocalEngine(1)))
    assert len(said(report)["findings"]) > 5
    assert (engine.count(Begin), engine.count(Share), engine.count(End)) == (6, 0, 0)


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("held", [1, 1 << 26])
def test_large_stores_are_cut_into_shares(fleet: Path, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    monkeypatch.setattr(stages, "HELD_SIZE", held)
    engine = Distant()
    report = check_stores(paths(fleet), OPTIONS, engine)
    assert said(report) == said(check_stores(paths(fleet), OPTIONS, LocalEngine(1)))
    assert (engine.count(Begin), engine.count(End)) == (6 + 5, 5)  # a large store is opened twice
    shares = [step for step in engine.steps if isinstance(step, Share)]
    assert len(shares) > 10
    assert max(share.last - share.first for share in shares) > 1
    assert report.stores[0].seconds > 1  # of all its steps


@pytest.mark.parametrize("whole_weight", [0, 1 << 40])
def test_a_task_that_runs_twice_doubles_no_row(
    fleet: Path, monkeypatch: pytest.MonkeyPatch, whole_weight: int
) -> None:
    monkeypatch.setattr(stages, "WHOLE_WEIGHT", whole_weight)
    report = check_stores(paths(fleet), OPTIONS, Distant(twice=True))
    assert said(report) == said(check_stores(paths(fleet), OPTIONS, LocalEngine(1)))
    assert report.findings_to_arrow().num_rows == len(said(report)["findings"]) > 5


def test_threads_of_this_process(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = said(check_stores(paths(fleet), OPTIONS, LocalEngine(1)))
    assert said(check_stores(paths(fleet), OPTIONS, LocalEngine(3))) == alone
    monkeypatch.setattr(stages, "WHOLE_WEIGHT", 1 << 20)  # some at once, the others one after the other
    assert said(check_stores(paths(fleet), OPTIONS, LocalEngine(3))) == alone


def test_a_file_that_kills_workers_has_a_name_and_the_rest_is_checked(fleet: Path) -> None:
    """The store is small: it begins again, in tasks, of which one is left out."""
    deadly = "commitlog/00000000000000000000"

    def kills(step: Any) -> bool:
        if isinstance(step, Begin):
            return step.number == 4 and step.whole_weight > 0
        if not isinstance(step, Share) or step.number != 4:
            return False
        tasks = (task_of(step.packed, number) for number in range(step.first, step.last))
        return any(task.files == (deadly,) for task in tasks)

    report = check_stores(paths(fleet), OPTIONS, Distant(kills=kills))
    plain = check_stores(paths(fleet), OPTIONS, LocalEngine(1))
    row = report.stores[4]
    assert row.error is None
    assert (row.is_complete, row.exit_code & 8) == (False, 8)
    assert row.checked_byte_count == (plain.stores[4].checked_byte_count or 0) - (128 << 10)
    assert row.not_checked == f"{deadly}: cannot be read by any worker: spark: the job failed: a worker died"
    others = [number for number in range(6) if number != 4]
    assert [said(report)["rows"][number] for number in others] == [
        said(plain)["rows"][number] for number in others
    ]


@pytest.mark.usefixtures("cut")
def test_a_store_whose_end_kills_workers_fails_alone(fleet: Path) -> None:
    engine = Distant(kills=lambda step: isinstance(step, End) and step.begin.number == 0)
    report = check_stores(paths(fleet), OPTIONS, engine)
    assert [row.state for row in report.stores].count("failed") == 2
    assert (report.stores[0].state, report.stores[0].error) == (
        "failed",
        "spark: the job failed: a worker died",
    )


@pytest.mark.usefixtures("cut")
def test_a_disk_error_of_a_share_is_a_result(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rocketfsck.verify.tasks import execute

    real = execute._check_of

    def failing(task: Any) -> Any:
        check, kind = real(task)

        def run(task: Any) -> Any:
            if getattr(task, "index", None) == 1:
                raise StoreError("cannot be read: Input/output error", path="commitlog/1")
            return check(task)

        return run, kind

    monkeypatch.setattr(execute, "_check_of", failing)
    report = check_stores([fleet / "broker-0"], OPTIONS, Distant())
    [row] = report.stores
    assert (row.error, row.is_complete, row.exit_code & 8) == (None, False, 8)
    assert row.not_checked is not None
    assert "Input/output error" in row.not_checked


def packed(stores: list[tuple[int, list[int]]], cores: int) -> list[Share]:
    return stages.pack({number: stages.Given(b"", tuple(weights)) for number, weights in stores}, cores)


def test_pack() -> None:
    gib = 1 << 30
    stores = [(7, [gib] * 1000), (3, []), (5, [64 << 20] * 100), (9, [40 * gib, 1])]
    pieces = packed(stores, 16)
    for number, weights in stores:
        mine = [piece for piece in pieces if piece.number == number]
        assert [piece.first for piece in mine] == [0, *(piece.last for piece in mine[:-1])][: len(mine)]
        assert [sum(weights[piece.first : piece.last]) for piece in mine] == [one.weight for one in mine]
        assert (mine[-1].last if mine else 0) == len(weights)
    long = [piece.weight for piece in pieces if piece.number == 7]
    assert long == sorted(long, reverse=True)
    assert max(long) == stages.MOST_WEIGHT
    assert [one.weight for one in pieces if one.last - one.first > 1 and one.weight > 16 * gib] == []
    assert [piece.weight // gib for piece in pieces if piece.number == 9] == [40, 0]
    few = packed([(0, [gib] * 64)], 16)
    assert len(few) == 64
    assert packed([], 4) == []


def test_bounded() -> None:
    assert list(stages.bounded([3, 3, 9, 1, 2], abs, 6)) == [[3, 3], [9], [1, 2]]
    assert list(stages.bounded([], abs, 6)) == []


def test_the_driver_holds_no_more_of_500_large_stores_than_of_10(monkeypatch: pytest.MonkeyPatch) -> None:
    """What travels at once, and the peak of its memory: lists and results wait in files."""
    monkeypatch.setattr(stages, "HELD_SIZE", 300 << 10)
    held, peaks = {}, {}
    for count in (10, 500):
        engine = Distant(cores=64, steps=deque(maxlen=0))
        tracemalloc.start()
        found = sorted(run_jobs(engine, [MadeUpJob(number, 30) for number in range(count)]))
        peaks[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert [(number, result) for number, result, _ in found] == [
            (number, 30 * 1230) for number in range(count)
        ]
        held[count] = engine.held_size
    assert held[10] > 200 << 10
    assert held[500] < 1.2 * held[10]
    assert peaks[500] < 1.25 * peaks[10] + 500 * 4096  # a job, a place and a result for each store
