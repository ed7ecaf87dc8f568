"""Spark's workers write exports to a server of S3: the files are those of one machine, whatever dies."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketfsck.pipeline.export import tasks, work
from rocketfsck.pipeline.export.job import append_stores
from rocketfsck.pipeline.export.model import ExportOptions, ExportResult, TableFormat
from rocketfsck.pipeline.export.tables import delta_options, iceberg_options
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.store.places.locations import locate
from rocketfsck.store.places.urls import file_system

from tests.conftest import Directory
from tests.s3 import KEY, SECRET, s3_client, s3_server_apart
from tests.spark.cluster import PATIENCE_SECONDS, Cluster, wait_until
from tests.spark.kernels import DyingAtThePut
from tests.unit.pipeline.exporting import export, manifest_of, rows_of, sums_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

pytest.importorskip("s3fs")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning",
        "ignore::DeprecationWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]

STORES = ("5.3.3-multiseg", "4.9.8-ipv6")


@pytest.fixture(scope="module")
def options() -> Iterator[Mapping[str, Any]]:
    """What the file system is told: workers have it from the tasks, not from the environment."""
    with s3_server_apart() as url:
        s3_client(url)
        yield {"endpoint_url": url, "key": KEY, "secret": SECRET}


@pytest.fixture
def target(options: Mapping[str, Any], request: pytest.FixtureRequest) -> Path:
    return locate(f"s3://bucket/{abs(hash(request.node.nodeid))}/tables", options)


def _data(target: Path, run: str) -> dict[str, str]:
    """The SHA-256 of every Parquet object, by its name in the run."""
    system, path = file_system(str(target))
    root = f"{path}/{run}"
    names = [name for name in system.find(path) if name.endswith(".parquet")]
    assert all(name.startswith(f"{root}/") for name in names)  # and none waits to be merged
    return {
        name.removeprefix(f"{root}/"): hashlib.sha256(system.cat_file(name)).hexdigest() for name in names
    }


def _files(folder: Path) -> dict[str, str]:
    return {name: value for name, value in sums_of(folder).items() if name.endswith(".parquet")}


def _table(table_format: str, target: Path, properties: Mapping[str, str]) -> pa.Table:
    if table_format == "delta":
        from deltalake import DeltaTable

        return DeltaTable(str(target), storage_options=delta_options(target)).to_pyarrow_table()
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("rocketfsck", **{**iceberg_options(target), **properties})
    return catalog.load_table("rocketmq.messages").scan().to_arrow()


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.nightly), "after"])
def test_workers_that_die_at_a_put(
    spark: SparkSession,
    store_dir: Directory,
    target: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
) -> None:
    """One that writes files and one that merges them; after the put, another attempt puts the same again."""
    from rocketfsck.engine.spark import SparkEngine

    monkeypatch.setattr(tasks, "TASK_SIZE", 1)  # a task for every log file
    stores = [store_dir(name) for name in STORES]
    export(tmp_path / "local", *stores)
    for name in ("export_part", "merge_files"):
        monkeypatch.setattr(tasks, name, DyingAtThePut(getattr(tasks, name), tmp_path, when))
    result = export(target, *stores, engine=SparkEngine(spark))
    assert {"export_part", "merge_files"} <= {path.name for path in tmp_path.iterdir()}
    assert result.task_count > 6
    assert _data(target, result.run) == _files(tmp_path / "local") != {}


@pytest.mark.parametrize("table_format", ["delta", pytest.param("iceberg", marks=pytest.mark.nightly)])
def test_tables_have_each_row_once_when_workers_die(
    spark: SparkSession,
    store_dir: Directory,
    target: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table_format: TableFormat,
) -> None:
    from rocketfsck.engine.spark import SparkEngine

    monkeypatch.setattr(tasks, "TASK_SIZE", 1)
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}"}
    properties = catalog if table_format == "iceberg" else {}
    stores = [store_dir(name) for name in STORES]
    export(tmp_path / "local", *stores)
    monkeypatch.setattr(tasks, "export_part", DyingAtThePut(work.export_part, tmp_path, "after"))

    def append() -> ExportResult:
        sources = find_sources(stores, brokers=[store.parent.name for store in stores])
        chosen = ExportOptions(table_format=table_format, properties=properties)
        return append_stores(sources, target, chosen, engine=SparkEngine(spark))

    first = append()
    assert (tmp_path / "export_part").exists()
    read = _table(table_format, target, properties).select(["broker", "offset", "topic", "body"])
    rows = sorted((tuple(row.values()) for row in read.to_pylist()), key=lambda row: row[:2])
    wanted = [
        (row["broker"], row["offset"], row["topic"], row["body"]) for row in rows_of(tmp_path / "local")
    ]
    assert rows == wanted
    assert len(rows) == first.row_count
    assert append().row_count == 0


@pytest.mark.nightly
@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_an_executor_is_killed_on_a_cluster(
    cluster: Cluster,
    many_segments: Path,
    target: Path,
    options: Mapping[str, Any],
    tmp_path: Path,
    table_format: str,
) -> None:
    """By the command; speculation is on, and the executors have the keys from the tasks alone."""
    said = tmp_path / "said"
    stated = [word for name, value in options.items() for word in ("--storage-option", f"{name}={value}")]
    line = [
        *("export", str(many_segments), "--into", str(target), "--table-format", table_format, *stated),
        *("--spark-conf", "spark.executorEnv.ROCKETFSCK_KERNELS=plain"),
        *("--spark-conf", "spark.speculation=true"),
    ]
    with said.open("wb") as stream:
        job = subprocess.Popen(cluster.line(*line), env=cluster.environment, stdout=stream, stderr=stream)
    try:
        wait_until(
            lambda: cluster.reading_pids(many_segments) or job.poll() is not None, "a task reads the store"
        )
        assert job.poll() is None, said.read_text("utf-8")
        os.kill(cluster.executor_pids()[0], signal.SIGKILL)
        assert job.wait(PATIENCE_SECONDS) == 4, said.read_text("utf-8")  # the store is damaged
    finally:
        job.kill()
        cluster.restart_dead_workers()
    export(tmp_path / "local", many_segments, table_format=table_format)
    system, path = file_system(str(target))
    parts = {name.removeprefix(f"{path}/").partition("/")[0] for name in system.find(path)}
    (run,) = (part for part in parts if part.startswith("run-"))
    assert _data(target, run) == _files(tmp_path / "local")
    assert manifest_of(tmp_path / "local")["row_count"] > 1000
