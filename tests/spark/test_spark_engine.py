"""A check on Spark says what a check in process says, for any number of partitions, whatever dies."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketfsck.cli.app import run
from rocketfsck.engine import LocalEngine
from rocketfsck.engine import spark as engine_module
from rocketfsck.engine.session import LOCAL_RETRIES
from rocketfsck.engine.spark import SparkEngine
from rocketfsck.errors import StoreError
from rocketfsck.progress import State, phase, watched
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.log.result import LogResult
from rocketfsck.verify.tasks.execute import plan_units
from rocketfsck.verify.tasks.task import Context

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory
from tests.spark.kernels import (
    always_unreadable,
    double,
    dying_once,
    failing,
    failing_or_slow,
    flipped_unit,
    slow,
    unreadable_once,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

NOW = 1_800_000_000_000
FEW = ("4.9.8-multiseg", "5.0.0-innerbatch", "5.3.3-killed")


def _said(root: Path, engine: LocalEngine | SparkEngine, **options: Any) -> dict[str, Any]:
    report = check_store(open_store(root), CheckOptions(now_timestamp=NOW, **options), engine=engine)
    document: dict[str, Any] = json.loads(json.dumps(report.to_json()))
    for varying in ("seconds", "started_timestamp"):
        del document[varying]
    return document


@pytest.mark.parametrize("name", STORE_NAMES)
def test_broker_stores(spark: SparkSession, store_dir: Directory, name: str) -> None:
    root = store_dir(name)
    assert _said(root, SparkEngine(spark, 3)) == _said(root, LocalEngine(1))


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_damaged_stores(spark: SparkSession, restart_dir: Directory, name: str) -> None:
    root = restart_dir(name)
    assert _said(root, SparkEngine(spark, 3)) == _said(root, LocalEngine(1))


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("partitions", [1, 16])
def test_any_number_of_partitions(
    spark: SparkSession, store_dir: Directory, name: str, partitions: int
) -> None:
    root = store_dir(name)
    assert _said(root, SparkEngine(spark, partitions)) == _said(root, LocalEngine(3))


@pytest.mark.parametrize("count", [1, 3])
def test_the_first_findings(spark: SparkSession, restart_dir: Directory, count: int) -> None:
    root = restart_dir(RESTART_NAMES[0])
    found = _said(root, SparkEngine(spark, 3), stop_after=count)
    assert found == _said(root, LocalEngine(2), stop_after=count)
    assert found["coverage"]["stopped_after"] == count


def test_a_time_limit_leaves_tasks_out(spark: SparkSession, store_dir: Directory) -> None:
    found = _said(store_dir("4.9.8-multiseg"), SparkEngine(spark), max_duration=1e-6)
    assert found["coverage"]["done_count"] == 0
    assert {item["reason"] for item in found["not_checked"] if item["what"]} == {
        "the time limit ended the check first"
    }


def test_no_tasks(spark: SparkSession) -> None:
    assert list(SparkEngine(spark).run(double, [])) == []


def test_results_come_with_their_tasks(spark: SparkSession) -> None:
    outcomes = list(SparkEngine(spark, 2).run(double, [1, 2, 3]))
    assert sorted((item.index, item.task, item.result) for item in outcomes) == [
        (0, 1, 2),
        (1, 2, 4),
        (2, 3, 6),
    ]
    assert all(item.seconds >= 0 for item in outcomes)


def test_what_a_kernel_raises_is_told(spark: SparkSession) -> None:
    with pytest.raises(StoreError, match="no such number"):
        list(SparkEngine(spark).run(failing, [7]))


def test_a_worker_that_dies_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    outcomes = list(SparkEngine(spark).run(dying_once, [str(tmp_path / "died")]))
    assert [item.result for item in outcomes] == ["alive"]
    assert (tmp_path / "died").exists()


@pytest.mark.parametrize("how", ["raised", "returned"])
def test_a_disk_that_fails_once_is_read_again(spark: SparkSession, tmp_path: Path, how: str) -> None:
    """By Spark, which starts the task again; a check returns such errors, other jobs raise them."""
    outcomes = list(SparkEngine(spark).run(unreadable_once, [str(tmp_path / how)]))
    assert [item.result for item in outcomes] == ["read"]
    assert (tmp_path / how).exists()


def test_a_disk_that_flips_a_byte_once_is_found_out(
    spark: SparkSession, store_dir: Directory, tmp_path: Path
) -> None:
    store = open_store(store_dir("5.3.3-basic"))
    unit = plan_units(Context(store, "full", NOW))[0]
    file = store.commitlog.files[0].location
    found = []
    for name, engine in (("spark", SparkEngine(spark, 1)), ("local", LocalEngine(1))):
        task = (unit, file, 3300, str(tmp_path / name))
        (outcome,) = engine.run(flipped_unit, [task])
        assert isinstance(outcome.result, LogResult)
        found.append(outcome.result)
    assert found[0].findings == found[1].findings
    assert found[0].counts == found[1].counts
    assert found[0].counts["ST048"] == 1
    assert "CL004" not in found[0].counts


def test_a_disk_that_always_fails_ends_the_job(spark: SparkSession, tmp_path: Path) -> None:
    counter = tmp_path / "count"
    with pytest.raises(StoreError, match=r"^disk at byte 7: cannot be read$"):
        list(SparkEngine(spark).run(always_unreadable, [str(counter)]))
    assert counter.stat().st_size == LOCAL_RETRIES


def test_waves_of_tasks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """More tasks than a job takes: the next job begins before the results of the last are all in."""
    monkeypatch.setattr(engine_module, "LEAST_TASKS", 3)
    monkeypatch.setattr(engine_module, "TASKS_A_CORE", 1)
    outcomes = list(SparkEngine(spark).run(double, list(range(10, 20))))
    assert sorted((item.index, item.task, item.result) for item in outcomes) == [
        (index, 10 + index, 20 + 2 * index) for index in range(10)
    ]


def test_a_run_that_is_given_up_ends_its_jobs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "LEAST_TASKS", 1)
    monkeypatch.setattr(engine_module, "TASKS_A_CORE", 0)
    with pytest.raises(StoreError, match="no such file"):
        list(SparkEngine(spark).run(failing_or_slow, ["", str(tmp_path / "done")]))
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert not (tmp_path / "done").exists()


def test_hostile_files_fail_alone(spark: SparkSession, store_copy: Directory) -> None:
    """What is no log, no queue or no index, or is gone, has its findings; the rest has its own."""
    root = store_copy("4.9.8-multiseg")
    store = open_store(root)
    log, index = store.commitlog.files, store.indexes
    log[1].path.write_bytes(bytes(range(256)) * (log[1].size // 256))
    log[2].path.unlink()
    log[3].path.write_bytes(b"\xda\xa3\x20\xa7" * (log[3].size // 4))
    index[0].path.write_bytes(b"\xff" * index[0].size)
    store.queues[0].files[0].path.write_bytes(b"\x7f" * 21)
    found = []
    for engine in (LocalEngine(1), SparkEngine(spark)):
        report = check_store(store, CheckOptions(now_timestamp=NOW), engine=engine)
        found.append((report.findings, report.counts, report.not_checked))
    assert found[0] == found[1]
    files = {finding.where.file for finding in found[1][0]}
    assert {log[1].relative, log[3].relative, index[0].relative} <= files
    assert any(item.operational and item.what == log[2].relative for item in found[1][2])


@pytest.mark.nightly
@pytest.mark.parametrize("partitions", [1, 3, 16])
def test_ten_million_messages(spark: SparkSession, ten_million: Path, partitions: int) -> None:
    said = _said(ten_million, SparkEngine(spark, partitions))
    assert said["checked"]["commitlog"]["record_count"] > 9_900_000
    assert said["findings"]
    assert said == _said(ten_million, LocalEngine())


@pytest.fixture(scope="module")
def ten_million(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store of 10 M messages in segments of 256 MiB, some of them damaged."""
    root = tmp_path_factory.mktemp("ten") / "store"
    options = ["--synth", "plain", "--messages", "10000000", "--commitlog-file-size", "256MiB"]
    assert run(["write", *options, "--no-sync", "--manifest", "none", "--into", str(root)]) == 0
    store = open_store(root)
    for number, file in enumerate([*store.commitlog.files[1:-1:4], *store.indexes[:1]]):
        with file.path.open("r+b") as stream:
            for pos in range(1000 + number, min(file.size, 200 << 20), 40_000_003):
                stream.seek(pos)
                stream.write(b"\xff" * (100 + number))
    yield root
    shutil.rmtree(root)


def test_the_command_says_the_same(spark: SparkSession, store_dir: Directory, tmp_path: Path) -> None:
    assert spark
    root, said = store_dir("4.9.8-multiseg"), []
    for engine in ("local", "spark"):
        output = tmp_path / engine
        assert run(["check", "--engine", engine, "--format", "csv", "--output", str(output), str(root)]) == 0
        said.append(output.read_bytes())
    assert said[0] == said[1]


def test_the_guides_example(
    spark: SparkSession, store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it but the end: the session is that of these tests."""
    assert spark
    text = (Path(__file__).parents[2] / "docs" / "guide" / "spark.md").read_text("utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert example.rstrip().endswith("session.stop()")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "store").symlink_to(store_dir("5.3.3-basic"))
    names: dict[str, Any] = {}
    exec(example.replace("session.stop()", ""), names)
    assert names["report"].exit_code == 0
    assert names["report"].level == "cross"


def test_tasks_are_counted_while_a_job_runs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "LOOK_SECONDS", 0.05)
    notes: list[str] = []

    def stated(now: State | None) -> None:
        notes.append("" if now is None else now.note)

    with watched(stated), phase("working"):
        assert len(list(SparkEngine(spark, 2).run(slow, [0, 1]))) == 2
    assert any(re.fullmatch(r"Spark: [01] of 2 tasks", note) for note in notes), notes
    assert notes[-1] == ""
