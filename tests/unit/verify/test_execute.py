"""Running the tasks of a check: parts, deadlines, resuming, failures, bounded findings."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.engine import LocalEngine
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.index.file import IndexResult
from rocketfsck.verify.log.result import LogResult
from rocketfsck.verify.options import CheckOptions, Subset
from rocketfsck.verify.queues.file import QueuesResult
from rocketfsck.verify.tasks import execute as module
from rocketfsck.verify.tasks.execute import (
    GROUP_COUNT,
    Executed,
    PlannedTask,
    execute,
    group_queues,
    plan_units,
    run_unit,
)
from rocketfsck.verify.tasks.resume import ResumeState, from_json, identity_of
from rocketfsck.verify.tasks.task import (
    TASK_MINIMUM,
    Checked,
    Context,
    IndexFileTask,
    LogFileTask,
    QueuesTask,
    TaskResult,
    is_aggregate,
)

from tests.reported import reported
from tests.unit.verify.storemaker import LOG_SIZE, NOW, QUEUE_SIZE, Maker

Runner = Callable[[PlannedTask], TaskResult | StoreError]


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    made = Maker(tmp_path)
    made.log(0)
    made.log(LOG_SIZE)
    made.queue("T", 0)
    made.queue("T", 1)
    made.index("20231114221320000")
    return made


RESULTS: dict[type, type[TaskResult]] = {
    LogFileTask: LogResult,
    QueuesTask: QueuesResult,
    IndexFileTask: IndexResult,
}


class Kernel:
    """Counts the tasks that are run; says of each how many bytes it has."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def __call__(self, unit: PlannedTask) -> TaskResult | StoreError:
        self.ran.append(unit.key)
        finding = Finding("ST041", Where(file=unit.files[0]), {"reason": unit.key})
        result = RESULTS[type(unit.task)]
        return result((finding,), {"ST041": 1}, Checked(1, unit.byte_count))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr(module, "run_unit", made)
    return made


def run(maker: Maker, options: CheckOptions | None = None, jobs: int = 1) -> Executed:
    options = options or CheckOptions()
    context = Context(maker.open(), options.level, NOW)
    return execute(context, options, plan_units(context), LocalEngine(jobs))


def test_a_store_is_cut_into_files_and_groups_of_queues(maker: Maker) -> None:
    units = plan_units(Context(maker.open(), "full", NOW))
    assert [type(unit.task).__name__ for unit in units] == [
        "LogFileTask",
        "LogFileTask",
        "QueuesTask",
        "IndexFileTask",
    ]
    queues = units[2].task
    assert isinstance(queues, QueuesTask)
    assert (queues.start, queues.end) == (0, 2)
    assert units[2].byte_count == 400
    assert len({unit.key for unit in units}) == 4


def test_groups_of_queues_are_bounded_and_cover_all(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2, 9):
        maker.queue("T", number)
    store = maker.open()
    assert list(group_queues(store)) == [(0, 9)]
    monkeypatch.setattr("rocketfsck.verify.tasks.execute.GROUP_SIZE", 2 * QUEUE_SIZE + 1)
    assert list(group_queues(store)) == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 9)]
    monkeypatch.setattr(
        "rocketfsck.verify.tasks.execute.GROUP_SIZE", 10
    )  # a queue larger than a group is one
    assert [end - start for start, end in group_queues(store)] == [1] * 9
    monkeypatch.setattr("rocketfsck.verify.tasks.execute.GROUP_SIZE", 1 << 40)
    monkeypatch.setattr("rocketfsck.verify.tasks.execute.GROUP_COUNT", 4)
    assert list(group_queues(store)) == [(0, 4), (4, 8), (8, 9)]
    assert GROUP_COUNT > 4


@pytest.mark.parametrize("jobs", [1, 3])
def test_all_tasks_run_and_results_are_in_store_order(maker: Maker, kernel: Kernel, jobs: int) -> None:
    ran = run(maker, jobs=jobs)
    assert [result.findings[0].found["reason"] for result in ran.results if result] == [
        unit.key for unit in ran.units
    ]
    assert ran.coverage.complete
    assert ran.not_checked == ()
    assert len(kernel.ran) == 4


def test_progress_is_told_in_bytes_from_zero_to_all(maker: Maker, kernel: Kernel) -> None:
    stated: list[tuple[int, int]] = []
    context = Context(maker.open(), "full", NOW)
    units = plan_units(context)
    with reported("", stated):
        execute(context, CheckOptions(), units, LocalEngine(1))
    total = sum(unit.byte_count for unit in units)
    assert stated[0] == (0, total)
    assert stated[-1] == (total, total)
    assert len(set(stated)) == 5
    assert stated == sorted(stated)
    assert kernel.ran


def test_a_subset_is_said_to_be_one(maker: Maker, kernel: Kernel) -> None:
    first = run(maker, CheckOptions(subset=Subset(number=1, total=2)))
    assert first.coverage.done_count == 2
    assert {item.reason for item in first.not_checked} == {"not in the subset 1/2"}
    assert not any(item.operational for item in first.not_checked)
    run(maker, CheckOptions(subset=Subset(number=2, total=2)))
    assert sorted(kernel.ran) == sorted(unit.key for unit in first.units)


def test_no_task_starts_late(maker: Maker, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    ran = run(maker, CheckOptions(max_duration=6.0))
    assert 0 < len(kernel.ran) < 4
    assert {item.reason for item in ran.not_checked} == {"the time limit ended the check first"}
    assert not ran.coverage.complete


def test_a_task_that_cannot_read_stops_no_other(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()

    def fail(unit: PlannedTask) -> TaskResult | StoreError:
        if isinstance(unit.task, LogFileTask) and unit.task.index == 1:
            return StoreError("cannot be read: Input/output error", path=unit.files[0], offset=17)
        return kernel(unit)

    monkeypatch.setattr(module, "run_unit", fail)
    ran = run(maker)
    (left_out,) = ran.not_checked
    assert left_out.operational
    assert left_out.what == "commitlog/00000000000000004096"
    assert "at byte 17: cannot be read" in left_out.reason
    assert len(kernel.ran) == 3


def test_the_kernel_returns_what_kept_it_from_reading(maker: Maker) -> None:
    units = plan_units(Context(maker.open(), "full", NOW))
    for path in (maker.root / "commitlog").iterdir():
        path.unlink()
    (maker.root / "index/20231114221320000").unlink()
    results = [run_unit(unit) for unit in units]
    assert isinstance(results[0], StoreError)
    assert isinstance(results[3], StoreError)
    assert "00000000000000000000" in str(results[0])


def test_a_finished_task_is_not_run_again(maker: Maker, kernel: Kernel, tmp_path: Path) -> None:
    options = CheckOptions(resume=tmp_path / "state", subset=Subset(number=1, total=2))
    first = run(maker, options)
    assert (len(kernel.ran), options.resume and options.resume.exists()) == (2, True)
    whole = run(maker, CheckOptions(resume=options.resume))
    assert len(kernel.ran) == 4
    again = run(maker, CheckOptions(resume=options.resume))
    assert len(kernel.ran) == 4
    assert again.results == whole.results
    assert [one for one in first.results if one] == [
        two for one, two in zip(first.results, again.results, strict=True) if one
    ]


def test_a_changed_file_is_checked_again_with_all_that_refers_to_it(
    maker: Maker, kernel: Kernel, tmp_path: Path
) -> None:
    options = CheckOptions(resume=tmp_path / "state")
    run(maker, options)
    kernel.ran.clear()
    os.utime(maker.root / "index/20231114221320000", ns=(1, 1))
    run(maker, options)
    assert [key.partition(":")[0] for key in kernel.ran] == ["commitlog", "commitlog", "index"]


def test_what_is_done_survives_an_interrupt(
    maker: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel()

    def stop(unit: PlannedTask) -> TaskResult | StoreError:
        if len(kernel.ran) == 2:
            raise KeyboardInterrupt
        return kernel(unit)

    monkeypatch.setattr(module, "run_unit", stop)
    options = CheckOptions(resume=tmp_path / "state")
    with pytest.raises(KeyboardInterrupt):
        run(maker, options)
    monkeypatch.setattr(module, "run_unit", kernel)
    assert run(maker, options).coverage.complete
    assert len(kernel.ran) == 4


def test_state_is_written_while_tasks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketfsck.verify.tasks.resume.SAVE_INTERVAL", 0.0)
    state = ResumeState(tmp_path / "state", "x")
    state.add("key", "stamp", TaskResult())
    assert json.loads((tmp_path / "state").read_text())["tasks"].keys() == {"key"}


def test_state_of_another_store_or_level_is_refused(maker: Maker, kernel: Kernel, tmp_path: Path) -> None:
    path = tmp_path / "state"
    run(maker, CheckOptions(resume=path))
    with pytest.raises(UsageError, match="another store or to a check with other options"):
        run(maker, CheckOptions(resume=path, level="quick"))
    store = maker.open()
    assert identity_of(store, "full", 100) != identity_of(store, "full", 101)
    assert identity_of(store, "full", 100) != identity_of(maker.open("5.0.0"), "full", 100)
    assert kernel.ran


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema_version": 3, "identity": "ID", "tasks": []}',
        '{"schema_version": 3, "identity": "ID", "tasks": {"k": {}}}',
        '{"schema_version": 3, "identity": "ID", "tasks": {"k": 5}}',
    ],
)
def test_what_is_no_state_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state"
    path.write_text(text)
    with pytest.raises(UsageError, match="state"):
        ResumeState(path, "ID")


def test_state_that_is_a_directory_or_holds_other_values_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        ResumeState(tmp_path, "ID")
    path = tmp_path / "state"
    entry = {"k": {"stamp": "s", "result": {"checked": 5}}}
    whole = {"schema_version": 3, "identity": "ID", "tasks": entry}
    path.write_text(json.dumps(whole))
    with pytest.raises(UsageError, match="has changed since a check wrote the file"):
        ResumeState(path, "ID")
    digest = hashlib.sha256(json.dumps(entry).encode()).hexdigest()
    path.write_text(json.dumps(whole | {"digest": digest}))
    state = ResumeState(path, "ID")
    assert state.result("k", "other") is None
    assert state.result("none", "s") is None
    with pytest.raises(UsageError, match="not a result of a check"):
        from_json(LogResult, state.result("k", "s"))


def test_nothing_is_written_into_the_store(maker: Maker) -> None:
    with pytest.raises(UsageError, match="inside the store"):
        run(maker, CheckOptions(resume=maker.root / "state"))
    assert not (maker.root / "state").exists()


def test_a_task_with_too_many_findings_is_trimmed_to_counts(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = TASK_MINIMUM + 50
    monkeypatch.setattr("rocketfsck.verify.tasks.task.TOTAL_LIMIT", 1)
    (first, *_) = plan_units(Context(maker.open(), "full", NOW))
    collector = first.task.context.collector()
    for number in range(count):
        collector.find("ST041", Where(file=f"f{number}"), {"reason": "x"})
    assert sum(finding.count for finding in collector.findings) == count
    assert len([finding for finding in collector.findings if not is_aggregate(finding)]) == TASK_MINIMUM
