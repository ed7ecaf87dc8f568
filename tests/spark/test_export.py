"""Exports on Spark have the rows of those of this machine, in every format, whatever is damaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from rocketfsck.cli.app import run
from rocketfsck.engine import LocalEngine
from rocketfsck.engine.spark import SparkEngine
from rocketfsck.pipeline.export import job
from rocketfsck.pipeline.fleet.counting import count_stores
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views.model import WantedRows
from rocketfsck.pipeline.views.table import VIEW_NAMES
from rocketfsck.store.places.locations import locate

from tests.conftest import Directory
from tests.unit.pipeline.exporting import (
    LONG,
    ODD_TOPICS,
    contents_of,
    export,
    manifest_of,
    odd_topics_store,
    rows_of,
)
from tests.unit.pipeline.test_export_append import cut
from tests.unit.pipeline.test_export_tables import READERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning",
        "ignore::DeprecationWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]

STORES = ("5.3.3-multiseg", "4.9.8-ipv6")
DAMAGED = ("4.9.8-basic--torn-tail", "5.1.3-basic--flip-last-file")


def _facts(result: Any) -> tuple[Any, ...]:
    return (result.row_count, result.damage, result.damage_told, result.marks, result.failed)


def test_the_rows_of_several_stores(spark: SparkSession, store_dir: Directory, tmp_path: Path) -> None:
    stores = [store_dir(name) for name in STORES]
    local = export(tmp_path / "local", *stores)
    found = export(tmp_path / "spark", *stores, engine=SparkEngine(spark))
    assert _facts(found) == _facts(local)
    assert contents_of(tmp_path / "spark") == contents_of(tmp_path / "local")
    assert {path.name for path in (tmp_path / "spark").iterdir()} >= {"_SUCCESS", "_manifest.json"}
    paths = {file["path"] for file in manifest_of(tmp_path / "spark")["files"]}
    assert paths == {path.relative_to(tmp_path / "spark").as_posix() for path in _files(tmp_path / "spark")}


def _files(into: Path) -> list[Path]:
    return [path for path in into.rglob("*.parquet") if "_damage" not in path.parts]


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
@pytest.mark.parametrize("name", DAMAGED)
def test_the_rows_of_damaged_stores(
    spark: SparkSession, restart_dir: Directory, tmp_path: Path, name: str, mode: Any
) -> None:
    store, wanted = restart_dir(name), WantedRows(mode=mode)
    local = export(tmp_path / "local", store, wanted=wanted)
    found = export(tmp_path / "spark", store, wanted=wanted, engine=SparkEngine(spark))
    assert local.has_problems
    assert _facts(found) == _facts(local)
    assert contents_of(tmp_path / "spark") == contents_of(tmp_path / "local")


@pytest.mark.parametrize("view", [name for name in VIEW_NAMES if name != "messages"])
def test_the_rows_of_other_views(
    spark: SparkSession, restart_dir: Directory, tmp_path: Path, view: str
) -> None:
    from pyarrow import parquet as pq

    store = restart_dir(DAMAGED[0])
    local = export(tmp_path / "local", store, view=view, partition=())
    found = export(tmp_path / "spark", store, view=view, partition=(), engine=SparkEngine(spark))
    assert _facts(found) == _facts(local)
    rows = [
        sorted((row for file in _files(tmp_path / name) for row in pq.read_table(file).to_pylist()), key=str)
        for name in ("local", "spark")
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("table_format", READERS)
def test_tables_are_appended_to_by_both_engines(
    spark: SparkSession, store_copy: Directory, tmp_path: Path, table_format: Any
) -> None:
    """In turn: each has the rows once, and they are those of one export."""
    store, out = store_copy(STORES[0]), tmp_path / "out"
    engine = SparkEngine(spark)
    options: dict[str, Any] = {"table_format": table_format, "append": True}
    counts = []
    for size, one in ((500, engine), (700, None), (900, engine)):
        grow = cut(store, size)
        counts.append(export(out, store, engine=one, **options).row_count)
        grow()
    assert counts == [500, 200, 200]
    export(out, store, engine=engine, **options)
    assert export(out, store, engine=engine, **options).row_count == 0
    export(tmp_path / "local", store, table_format=table_format)
    found, wanted = (READERS[table_format](place).sort_by("offset") for place in (out, tmp_path / "local"))
    assert found.to_pylist() == wanted.to_pylist()


def test_a_store_that_cannot_be_read_is_named(
    spark: SparkSession,
    store_dir: Directory,
    store_copy: Directory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its log is gone when the workers read it."""
    broken = store_copy(STORES[1])

    def planned(*given: Any) -> Any:
        monkeypatch.undo()
        made = job.plan_export(*given)
        (broken / "commitlog" / f"{0:020}").unlink(missing_ok=True)
        return made

    monkeypatch.setattr(job, "plan_export", planned)
    result = export(tmp_path / "out", store_dir(STORES[0]), broken, engine=SparkEngine(spark))
    ((_, reason),) = result.failed
    assert ("commitlog" in reason, "\n" in reason) == (True, False)
    assert {row["broker"] for row in rows_of(tmp_path / "out")} == {STORES[0]}


def test_workers_write_to_a_url(spark: SparkSession, store_dir: Directory, tmp_path: Path) -> None:
    """Without a file system of Spark's; one file of a task that nobody waited for is not in the table."""
    pytest.importorskip("s3fs")
    from tests.s3 import KEY, SECRET, s3_client, s3_server_apart

    with s3_server_apart() as url:
        client = s3_client(url)
        place = locate("s3://bucket/tables", {"endpoint_url": url, "key": KEY, "secret": SECRET})
        found = export(place, store_dir(STORES[0]), engine=SparkEngine(spark))
        local = export(tmp_path / "local", store_dir(STORES[0]))
        assert _facts(found) == _facts(local)
        keys = {item["Key"] for item in client.list_objects_v2(Bucket="bucket")["Contents"]}
        assert keys == {f"tables/{file.path}" for file in found.files} | {
            "tables/_SUCCESS",
            "tables/_manifest.json",
        }


def test_counts_are_those_of_this_machine(spark: SparkSession, store_dir: Directory) -> None:
    sources = find_sources([store_dir(name) for name in STORES])
    here, there = (
        count_stores(sources, key_count=50, engine=engine)
        for engine in (LocalEngine(2), SparkEngine(spark, 3))
    )
    assert list(there.brokers) == list(here.brokers)
    assert replace(there, brokers=()) == replace(here, brokers=())


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


@pytest.mark.parametrize("on_spark", [False, True])
def test_spark_reads_every_topic(spark: SparkSession, tmp_path: Path, on_spark: bool) -> None:
    """Of the files; what it takes from the names of directories is the same, or a SHA-256."""
    out = tmp_path / "out"
    export(out, odd_topics_store(tmp_path / "store"), engine=SparkEngine(spark) if on_spark else None)
    rows = spark.read.parquet(str(out)).orderBy("offset").collect()
    assert [row["topic_text"] for row in rows] == list(ODD_TOPICS)
    assert [row["topic"] for row in rows] == [row["topic"] for row in rows_of(out)]
    assert len({row["topic"] for row in rows}) == len(rows)
    (found,) = spark.read.parquet(str(out)).where(f"topic_text = '{LONG}'").collect()
    assert found["topic"].startswith("sha256-")
