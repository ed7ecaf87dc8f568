"""The queries of examples/night, on the tables of runs in every format: Spark's SQL."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from rocketfsck import CheckOptions, check_stores
from rocketfsck.engine import LocalEngine
from rocketfsck.pipeline.fleet.tables import RunTables, compared

from tests.conftest import Directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

NIGHT = Path(__file__).parents[2] / "examples" / "night"
FORMATS = ("parquet", "delta", "iceberg")


def _flip(store: Path) -> None:
    file = min(path for path in (store / "commitlog").iterdir() if path.name.isdigit())
    content = bytearray(file.read_bytes())
    content[65_536] ^= 1
    file.write_bytes(content)


@pytest.fixture(scope="module")
def runs(store_dir: Directory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of three runs in each format: a store that is sound, is damaged, and is sound again."""
    into = tmp_path_factory.mktemp("night")
    store = into / "broker-b" / "store"
    shutil.copytree(store_dir("4.9.8-multiseg"), store)
    for _ in range(3):
        report = check_stores([store], CheckOptions(), LocalEngine(1))
        for table_format in FORMATS:
            tables = RunTables(into / table_format, table_format)
            tables.append(compared(report, tables))
        _flip(store)
    return into


def _table(into: Path, name: str, table_format: str) -> pa.Table:
    if table_format == "parquet":
        return ds.dataset(into / name).to_table()
    if table_format == "delta":
        deltalake = pytest.importorskip("deltalake")
        return pa.table(deltalake.DeltaTable((into / name).as_uri()).to_pyarrow_table())
    catalog = pytest.importorskip("pyiceberg.catalog").load_catalog(
        "rocketfsck", type="sql", uri=f"sqlite:///{quote(str(into))}/catalog.db"
    )
    return catalog.load_table(f"rocketmq.check_{name}").scan().to_arrow()


def _ask(spark: SparkSession, runs: Path, table_format: str, query: str) -> list[dict[str, Any]]:
    for name in ("stores", "findings"):
        table = _table(runs / table_format, name, table_format)
        rows = [tuple(row.values()) for row in table.to_pylist()]
        spark.createDataFrame(rows, _schema(table)).createOrReplaceTempView(name)
    return [row.asDict() for row in spark.sql(query).collect()]


def _schema(table: pa.Table) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(table.schema)


@pytest.mark.parametrize("table_format", FORMATS)
def test_changes(spark: SparkSession, runs: Path, table_format: str) -> None:
    found = _ask(spark, runs, table_format, (NIGHT / "changes.sql").read_text())
    assert [(row["change"], row["rule"], row["severity"]) for row in found] == [
        ("new", "CL004", "error"),
        ("gone", "CL004", "error"),
    ]
    new, gone = found
    assert new["run_id"] == gone["compared_run_id"]
    assert new["compared_run_id"] < new["run_id"] < gone["run_id"]
    assert new["fingerprint"] == gone["fingerprint"]


def test_queries_of_the_dashboard(spark: SparkSession, runs: Path) -> None:
    panels = json.loads((NIGHT / "grafana-tables.json").read_text())["panels"]
    found = {panel["title"]: _ask(spark, runs, "parquet", panel["targets"][0]["rawSql"]) for panel in panels}
    assert [row["change"] for row in found["New and gone"]] == ["gone"]
    assert found["Gone"] == [{"value": 1}]
    assert [row["value"] for row in found["Errors"]] == [0, 1, 0]
    assert all(found.values())


@pytest.mark.parametrize("table_format", FORMATS)
def test_trends(spark: SparkSession, runs: Path, table_format: str) -> None:
    found = _ask(spark, runs, table_format, (NIGHT / "trends.sql").read_text())
    assert [row["error_growth"] for row in found] == [None, 1, -1]
    assert [row["byte_growth"] for row in found] == [None, 0, 0]
    assert [row["state"] for row in found] == ["healthy", "damaged", "healthy"]
    assert found[0]["run_at"].strftime("%Y%m%dT%H%M%SZ") == found[0]["run_id"][:16]
