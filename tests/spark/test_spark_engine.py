"""A check on Spark says what a check in process says, for any number of partitions, whatever dies."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketfsck.cli.app import run
from rocketfsck.engine import LocalEngine
from rocketfsck.engine.spark import SparkEngine
from rocketfsck.errors import StoreError
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory
from tests.spark.kernels import double, dying_once, failing

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


def test_a_time_limit_leaves_tasks_out(spark: SparkSession, store_dir: Directory) -> None:
    found = _said(store_dir("4.9.8-multiseg"), SparkEngine(spark), max_duration=1e-6)
    assert found["coverage"]["done_count"] == 0
    assert {item["reason"] for item in found["not_checked"] if item["what"]} == {"the time limit came first"}


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
