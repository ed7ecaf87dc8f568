"""The check of many stores: the row of each says what a check of it alone says, whatever the others are."""

from __future__ import annotations

import gc
import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck import CheckOptions, check_store, check_stores, open_store
from rocketfsck.engine.seam import Outcome
from rocketfsck.errors import LostError, StoreError, UsageError
from rocketfsck.pipeline.fleet import run
from rocketfsck.pipeline.fleet.model import (
    FLEET_FINDING_COLUMNS,
    STORE_COLUMNS,
    CheckedStore,
    StoreRow,
    packed,
)
from rocketfsck.pipeline.fleet.stages import Begin, Ended, run_small, run_step
from rocketfsck.pipeline.sources import find_places, read_list
from rocketfsck.repair.state import check_status
from rocketfsck.repair.verdict import judge_store
from rocketfsck.verify.stopping import RulePolicy

from tests.conftest import Directory

NOW = 1_800_000_000_000
OPTIONS = CheckOptions(now_timestamp=NOW)
SOUND, KILLED = "5.3.3-basic", "4.9.8-killed"
DAMAGED = "5.1.3-basic--flip-last-file"


@pytest.fixture
def fleet(store_dir: Directory, restart_dir: Directory, tmp_path: Path) -> Path:
    """A directory with a sound store, one of a killed broker, a damaged one (broker-c/store)."""
    shutil.copytree(store_dir(SOUND), tmp_path / "fleet" / "broker-a")
    shutil.copytree(store_dir(KILLED), tmp_path / "fleet" / "broker-b")
    shutil.copytree(restart_dir(DAMAGED), tmp_path / "fleet" / "broker-c" / "store")
    return tmp_path / "fleet"


def test_a_row_is_what_a_check_of_the_store_alone_says(fleet: Path) -> None:
    report = check_stores([fleet / "broker-*"], OPTIONS)
    assert [row.broker for row in report.stores] == ["broker-a", "broker-b", "broker-c"]
    assert [Path(row.root) for row in report.stores] == [
        fleet / "broker-a",
        fleet / "broker-b",
        fleet / "broker-c" / "store",
    ]
    for row in report.stores:
        store = open_store(row.root)
        alone = check_store(store, OPTIONS)
        verdict = judge_store(store, alone)
        assert (row.state, row.may_start, row.next_command, row.exit_code) == (
            verdict.state,
            verdict.may_start,
            verdict.next_command,
            check_status(alone, verdict.state),
        )
        assert (row.error_count, row.warning_count, row.info_count) == tuple(alone.severity_counts.values())
        assert (row.byte_count, row.is_complete) == (alone.store.byte_count, True)
        assert row.seconds > 0
    assert {row.state for row in report.stores} == {"healthy", "unclean", "harmful"}
    assert report.exit_code == 4
    assert [row.broker for row in report.worst_first()] == ["broker-c", "broker-b", "broker-a"]
    assert report.state_counts == {"harmful": 1, "unclean": 1, "healthy": 1}


def test_the_tables(fleet: Path) -> None:
    report = check_stores([fleet / "broker-*"], OPTIONS)
    stores, findings = report.to_arrow(), report.findings_to_arrow()
    names = [field.name for field in stores.schema]
    assert [name for name in names if not name.endswith("_b64")] == [column.name for column in STORE_COLUMNS]
    assert stores.column("run_id").unique().to_pylist() == [report.run_id]
    assert stores.column("unlisted_finding_count").to_pylist() == [0, 0, 0]
    found = [name for name in findings.schema.names if not name.endswith("_b64")]
    assert found == [column.name for column in FLEET_FINDING_COLUMNS]
    alone = [check_store(open_store(row.root), OPTIONS).to_arrow() for row in report.stores]
    assert findings.num_rows == sum(table.num_rows for table in alone)
    for name in ("rule", "file", "start", "fingerprint", "message", "suggest"):
        assert findings.column(name).to_pylist() == [
            value for table in alone for value in table.column(name).to_pylist()
        ]
    assert findings.column("root").unique().to_pylist() == [row.root for row in report.stores]


def test_the_worst_findings_are_listed_all_are_counted(fleet: Path) -> None:
    every = list(check_stores([fleet / "broker-b", fleet / "broker-c"], OPTIONS).finding_rows())
    report = check_stores([fleet / "broker-b", fleet / "broker-c"], OPTIONS, finding_limit=2)
    some = list(report.finding_rows())
    assert len(some) == 4
    for number, row in enumerate(report.stores):
        mine = [finding for finding in every if finding["root"] == row.root]
        [kept] = report.findings.batches([number])
        assert kept["fingerprint"].to_pylist() == [one["fingerprint"] for one in mine[:2]]
        assert row.unlisted_finding_count == sum(one["count"] for one in mine[2:])
    none = check_stores([fleet / "broker-c"], OPTIONS, finding_limit=0)
    assert list(none.finding_rows()) == []
    assert none.findings_to_arrow().num_rows == 0
    assert none.stores[0].unlisted_finding_count is None


def test_a_store_that_cannot_be_checked_does_not_end_the_others(fleet: Path) -> None:
    (fleet / "file").write_text("x")
    paths = [
        fleet / "missing",
        fleet / "file",
        fleet / "none-*",
        fleet / "broker-a" / "commitlog",
        fleet / "broker-a",
    ]
    report = check_stores(paths, OPTIONS)
    assert [row.state for row in report.stores] == ["failed"] * 4 + ["healthy"]
    assert [row.error for row in report.stores] == [
        "cannot be listed: No such file or directory",
        "is a file, not a store",
        "no directory matches this pattern",
        f"is a part of the store {fleet / 'broker-a'}",
        None,
    ]
    assert [row.exit_code for row in report.stores] == [8, 8, 8, 8, 0]
    assert report.exit_code == 8
    assert all(row.may_start is None and row.error_count is None for row in report.stores[:4])
    assert report.to_arrow().column("error").null_count == 1


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeError("boom\n"), 128, "internal error: RuntimeError: boom\\n"),
        (OSError(5, "Input/output error"), 8, "cannot be checked: Input/output error"),
        (UsageError("no such version"), 8, "no such version"),
        (MemoryError(), 8, "the check needs more memory than there is"),
    ],
)
def test_whatever_a_check_raises_is_in_the_row(
    fleet: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, said: str
) -> None:
    def check(store: Any, *args: Any, **options: Any) -> Any:
        if store.root.name == "broker-a":
            raise error
        return check_store(store, *args, **options)

    monkeypatch.setattr(run, "check_store", check)
    report = check_stores([fleet / "broker-a", fleet / "broker-b"], OPTIONS)
    assert [row.state for row in report.stores] == ["failed", "unclean"]
    assert (report.stores[0].error, report.stores[0].exit_code) == (said, code)


def test_policy_and_version_count_for_every_store(fleet: Path) -> None:
    policy = {"CP001": RulePolicy(severity="info"), "CP003": RulePolicy(severity="info")}
    [plain] = check_stores([fleet / "broker-b"], OPTIONS).stores
    [row] = check_stores([fleet / "broker-b"], OPTIONS, policy=policy).stores
    assert (plain.exit_code, row.exit_code) == (0, 0)
    assert row.state == plain.state == "unclean"  # the verdict does not look at a policy
    [old] = check_stores([fleet / "broker-a"], OPTIONS, version="4.9.8").stores
    assert old.state != "failed"
    with pytest.raises(UsageError):
        check_stores([fleet / "broker-a"], OPTIONS, version="none")


@pytest.mark.parametrize(
    "options",
    [CheckOptions(baseline=Path("b")), CheckOptions(resume=Path("r")), CheckOptions(max_duration=1.0)],
)
def test_options_of_one_store_are_refused(fleet: Path, options: CheckOptions) -> None:
    with pytest.raises(UsageError, match="one store"):
        check_stores([fleet / "broker-a"], options)
    with pytest.raises(UsageError, match="at least 0"):
        check_stores([fleet / "broker-a"], finding_limit=-1)
    with pytest.raises(UsageError, match="no rule"):
        check_stores([fleet / "broker-a"], CheckOptions(select=("XYZ",)))


def test_places(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fleet / "broker-file").write_text("x")
    found = find_places([fleet / "broker-[bc]", fleet / "broker-*", "memory://none/broker-a"])
    names = ["broker-b", "broker-c/store", "broker-a", "memory://none/broker-a"]
    assert [str(place).removeprefix(f"{fleet}/") for place in found] == names
    (fleet / "broker-[x]").mkdir()
    assert find_places([fleet / "broker-[x]"]) == (fleet / "broker-[x]",)
    monkeypatch.chdir(fleet)
    assert find_places(["broker-a", fleet / "broker-a"]) == (fleet / "broker-a",)
    assert find_places([fleet / "nothing-*", "none"]) == (fleet / "nothing-*", fleet / "none")
    with pytest.raises(UsageError, match="name a store"):
        find_places([])


def test_a_list_of_places(tmp_path: Path) -> None:
    listed = tmp_path / "stores.txt"
    listed.write_bytes(b"# brokers\n/data/a\n\n  /data/b-*  \r\n/data/\xff\n")
    assert read_list(listed) == ("/data/a", "/data/b-*", "/data/\udcff")
    for content in (b"# none\n", b"/data\0/a\n"):
        listed.write_bytes(content)
        with pytest.raises(UsageError):
            read_list(listed)
    with pytest.raises(StoreError, match="cannot be read"):
        read_list(tmp_path / "missing")


@dataclass
class Fake:
    """An engine whose tasks do nothing, but count what the driver holds; it fails with tasks of `deadly`."""

    deadly: frozenset[int] = frozenset()
    result: bytes = b""
    held: int = 0
    runs: int = 0

    @property
    def job_count(self) -> int:
        return 1

    def run(
        self, kernel: Callable[[Any], Any], tasks: Sequence[Any], *, deadline: float | None = None
    ) -> Iterator[Outcome[Any, Any]]:
        assert kernel in (run_small, run_step)
        assert deadline is None
        self.runs += 1
        for index, task in enumerate(tasks):
            if task.number in self.deadly:
                raise LostError("a worker died", path="spark")
            checked = CheckedStore(done(task), pickle.loads(pickle.dumps(self.result)))
            yield Outcome(index, task, Ended(checked), 0.5)
            if task.number % 100 == 9:
                self.held = max(self.held, sum(isinstance(item, CheckedStore) for item in gc.get_objects()))


def done(task: Begin) -> StoreRow:
    assert isinstance(task.job, run.CheckJob)
    place = task.job.place
    return StoreRow(task.job.asked.run_id, place.name, str(place), "healthy", 0, error_count=0)


def test_the_driver_holds_rows_and_no_findings() -> None:
    """Of 500 stores as of 10: the last result or two, and a row of less than 2 KiB for each store."""
    findings = packed([{"run_id": "x", "message": str(number) * 100} for number in range(1000)])
    held = {}
    for count in (10, 500):
        engine = Fake(result=findings)
        report = check_stores([f"/data/{number}" for number in range(count)], OPTIONS, engine)
        held[count] = engine.held
        assert len(report.stores) == count
        assert [batch.num_rows for batch in report.findings.batches([count - 1])] == [1000]
        assert all(len(pickle.dumps(row)) < 2048 for row in report.stores)
    assert 1 <= held[10] == held[500] <= 3


def test_a_row_of_a_real_store_is_small(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(*_args: Any, **_options: Any) -> Any:
        raise StoreError("x" * 100_000)

    [row] = check_stores([fleet / "broker-c"], OPTIONS).stores
    assert len(pickle.dumps(row)) < 2048
    monkeypatch.setattr(run, "check_store", check)
    [row] = check_stores([fleet / "broker-c"], OPTIONS).stores
    assert row.error is not None
    assert len(row.error) == run.ERROR_LENGTH


@pytest.mark.parametrize("deadly", [{0}, {4}, {8}, {2, 3, 7}])
def test_a_store_that_kills_workers_is_found_and_the_others_are_checked(deadly: set[int]) -> None:
    engine = Fake(frozenset(deadly))
    report = check_stores([f"/data/{number}" for number in range(9)], OPTIONS, engine)
    assert {number for number, row in enumerate(report.stores) if row.state == "failed"} == deadly
    assert {row.error for row in report.stores if row.state == "failed"} == {"spark: a worker died"}
    assert all(row.root == f"/data/{number}" for number, row in enumerate(report.stores))
    assert engine.runs <= 2 + 16 * len(deadly)  # each is begun once more, to see which of its tasks it is


def test_two_runs_have_two_ids() -> None:
    ids = {run.make_run_id(1_800_000_000.0) for _ in range(50)}
    assert len(ids) == 50
    assert all(name.startswith("20270115T080000Z-") for name in ids)
    later = run.make_run_id(1_800_000_000.002)
    assert max(ids) < later < run.make_run_id(1_800_000_001.0)


def test_seconds_of_a_row_are_those_of_its_task() -> None:
    [row] = check_stores(["/data/a"], OPTIONS, Fake()).stores
    assert row == replace(row, seconds=0.5)
