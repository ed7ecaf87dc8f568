"""Exports on Spark are those of this machine, to the byte, whatever dies on the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketfsck.cli.app import run
from rocketfsck.engine import LocalEngine
from rocketfsck.engine.spark import SparkEngine
from rocketfsck.pipeline.export import tasks
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.statistics import count_stores

from tests.conftest import Directory
from tests.spark.kernels import DyingInTheEnd
from tests.unit.pipeline.exporting import (
    LONG,
    ODD_TOPICS,
    export,
    manifest_of,
    odd_topics_store,
    rows_of,
    sums_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

STORES = ("5.3.3-multiseg", "4.9.8-ipv6")


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "TASK_SIZE", 1)  # a task for every log file


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("partitions", [1, 3, 16])
def test_any_number_of_partitions(
    spark: SparkSession, store_dir: Directory, tmp_path: Path, partitions: int
) -> None:
    stores = [store_dir(name) for name in STORES]
    export(tmp_path / "local", *stores)
    result = export(tmp_path / "spark", *stores, engine=SparkEngine(spark, partitions))
    assert result.task_count > 6
    assert sums_of(tmp_path / "spark") == sums_of(tmp_path / "local")


@pytest.mark.usefixtures("small_tasks")
def test_workers_that_die_in_the_middle(
    spark: SparkSession, store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the kernel that writes files, one of that which merges them: before a file has its name."""
    stores = [store_dir(name) for name in STORES]
    export(tmp_path / "local", *stores)
    for name in ("export_part", "merge_files"):
        monkeypatch.setattr(tasks, name, DyingInTheEnd(getattr(tasks, name), tmp_path))
    export(tmp_path / "spark", *stores, engine=SparkEngine(spark))
    assert {"export_part", "merge_files"} <= {path.name.split()[0] for path in tmp_path.iterdir()}
    assert sums_of(tmp_path / "spark") == sums_of(tmp_path / "local")


def test_counts_are_those_of_this_machine(spark: SparkSession, store_dir: Directory) -> None:
    sources = find_sources([store_dir(name) for name in STORES])
    assert count_stores(sources, key_count=50, engine=SparkEngine(spark, 3)) == count_stores(
        sources, key_count=50, engine=LocalEngine(2)
    )


def test_spark_reads_what_it_wrote(
    spark: SparkSession, restart_dir: Directory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command; topics and days are columns of the table, damage is not in it."""
    out, store = tmp_path / "out", restart_dir("4.9.8-basic--torn-tail")
    assert run(["export", "--engine", "spark", str(store), "--into", str(out)]) == 4
    assert "1 range of the commit log" in capsys.readouterr().out
    frame = spark.read.option("basePath", str(out)).parquet(str(out))
    found = {
        (row["topic"], str(row["date"])): row["count"]
        for row in frame.groupBy("topic", "date").count().collect()
    }
    expected: dict[tuple[str, str], int] = {}
    for row in rows_of(out):
        key = row["topic"], row["date"]
        expected[key] = expected.get(key, 0) + 1
    assert found == expected
    assert sum(found.values()) == manifest_of(out)["row_count"] == 181


def test_spark_reads_every_topic(spark: SparkSession, tmp_path: Path) -> None:
    """Of the files; what it takes from the names of directories is the same, or a cut one."""
    out = tmp_path / "out"
    export(out, odd_topics_store(tmp_path / "store"))
    rows = spark.read.parquet(str(out)).orderBy("offset").collect()
    assert [row["topic_text"] for row in rows] == list(ODD_TOPICS)
    assert [row["topic"] for row in rows] == [row["topic"] for row in rows_of(out)]
    assert len({row["topic"] for row in rows}) == len(rows)
    (found,) = spark.read.parquet(str(out)).where(f"topic_text = '{LONG}'").collect()
    assert (found["topic"][:40], found["topic"] == LONG) == (LONG[:40], False)
