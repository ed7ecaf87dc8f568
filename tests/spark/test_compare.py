"""Two replicas compared on Spark: the same as in process, for any number of partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketfsck.cli.app import run
from rocketfsck.engine import LocalEngine
from rocketfsck.engine.spark import SparkEngine
from rocketfsck.repair.compare.compare import compare_stores
from rocketfsck.store import open_store

from tests.cases.test_compare import spoiled
from tests.conftest import Directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_any_number_of_partitions(spark: SparkSession, store_dir: Directory, tmp_path: Path) -> None:
    a, b = map(open_store, spoiled(store_dir("4.9.8-multiseg"), tmp_path, 1))
    whole = compare_stores(a, b, engine=LocalEngine(1))
    assert whole.different and whole.lacks
    for partitions in (1, 3, 16):
        assert compare_stores(a, b, engine=SparkEngine(spark, partitions)) == whole


def test_the_command(
    spark: SparkSession, store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert spark
    said = []
    a, b = spoiled(store_dir("5.3.3-multiseg"), tmp_path, 2)
    for engine in ("local", "spark"):
        capfd.readouterr()
        assert run(["compare", str(a), str(b), "--engine", engine, "--format", "json"]) == 4
        said.append(json.loads(capfd.readouterr().out))
    assert said[0] == said[1]
