"""Tables of Spark's catalog that are stores: made, described, asked, dropped; the store is never touched."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Directory

pytest.importorskip("pyspark")
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

SMALL = "5.3.3-trans"


def _bytes(root: Path) -> dict[str, str]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """A database of its own, whose managed tables would have their files in the test's directory."""
    spark.sql(f"CREATE DATABASE stores LOCATION '{tmp_path / 'warehouse'}'")
    spark.sql("USE stores")
    yield spark
    spark.sql("USE default")
    spark.sql("DROP DATABASE stores CASCADE")


def _count(spark: SparkSession, query: str) -> int:
    (row,) = spark.sql(query).collect()
    found: int = row[0]
    return found


def test_ways_to_make_a_table(catalog: SparkSession, store_copy: Directory) -> None:
    root = store_copy(SMALL)
    before = _bytes(root)
    catalog.sql(f"CREATE TABLE by_path USING rocketmq OPTIONS (path '{root}')")
    catalog.sql(f"CREATE TABLE by_location USING rocketmq LOCATION '{root}'")
    catalog.sql(
        f"CREATE TABLE by_store USING rocketmq OPTIONS (store '{root}', topic 'Tx', columns 'offset, topic') "
        "COMMENT 'of transactions' TBLPROPERTIES ('made.by' = 'a test')"
    )
    catalog.sql(f"CREATE TEMPORARY VIEW by_view USING rocketmq OPTIONS (path '{root}', topic 'Tx')")
    catalog.catalog.createTable("by_call", str(root), "rocketmq", view="files")
    assert [_count(catalog, f"SELECT count(*) FROM {name}") for name in ("by_path", "by_location")] == [
        51,
        51,
    ]
    assert [_count(catalog, f"SELECT count(*) FROM {name}") for name in ("by_store", "by_view")] == [15, 15]
    assert _count(catalog, "SELECT count(*) FROM by_path WITH (topic = 'Tx')") == 15
    assert _count(catalog, "SELECT count(*) FROM by_path a JOIN by_store b ON a.offset = b.offset") == 15
    assert _count(catalog, "SELECT count(*) FROM by_call WHERE kind = 'commitlog'") == 1
    assert [row[:2] for row in catalog.sql("DESCRIBE by_store").collect()] == [
        ("offset", "bigint"),
        ("topic", "string"),
    ]
    (said,) = catalog.sql("SHOW TABLE EXTENDED LIKE 'by_path'").collect()
    assert "Type: EXTERNAL" in said["information"]
    for name in ("by_path", "by_location", "by_store", "by_call"):
        with pytest.raises(PySparkException):
            catalog.sql(f"TRUNCATE TABLE {name}")
        with pytest.raises(PySparkException):
            catalog.sql(f"INSERT OVERWRITE {name} SELECT * FROM {name}")
        catalog.sql(f"DROP TABLE {name} PURGE")
    catalog.sql("DROP VIEW by_view")
    assert _bytes(root) == before


@pytest.mark.parametrize(
    ("clauses", "said"),
    [
        ("OPTIONS (path '{root}', topik 'Tx')", "no option has the name topik"),
        ("OPTIONS (path '{root}', `option.topic` 'Tx')", "no option has the name option.topic"),
        ("OPTIONS (path '{root}') TBLPROPERTIES ('topic' = 'Tx')", "topic: use OPTIONS"),
        ("OPTIONS (path '{root}', pushdown 'true')", "the option pushdown was removed"),
        ("OPTIONS (store 'relative')", "a table needs an absolute path"),
        ("", "name a store"),
    ],
)
def test_tables_without_sense(catalog: SparkSession, store_dir: Directory, clauses: str, said: str) -> None:
    with pytest.raises(PySparkException, match=f"UsageError: .*{said}"):
        catalog.sql(f"CREATE TABLE wrong USING rocketmq {clauses.format(root=store_dir(SMALL))}")
    assert not catalog.catalog.tableExists("wrong")


def test_a_list_of_columns_leaves_no_room_for_options(catalog: SparkSession, store_dir: Directory) -> None:
    catalog.sql(f"CREATE TABLE listed (offset BIGINT) USING rocketmq OPTIONS (path '{store_dir(SMALL)}')")
    with pytest.raises(PySparkException, match="a table is made without a list of columns"):
        catalog.sql("SELECT * FROM listed").collect()


def test_what_show_create_table_prints_makes_the_table_again(
    catalog: SparkSession, store_dir: Directory
) -> None:
    options = (
        f"path '[\"{store_dir(SMALL)}\"]', topic 'Tx', columns 'offset, topic, store_timestamp, _metadata'"
    )
    catalog.sql(f"CREATE TABLE made USING rocketmq OPTIONS ({options})")
    rows = catalog.sql("SELECT * FROM made ORDER BY offset").collect()
    (printed,) = catalog.sql("SHOW CREATE TABLE made").collect()
    catalog.sql("DROP TABLE made")
    catalog.sql(f"{printed[0]} USING rocketmq")  # Spark leaves this out for a data source in Python
    assert catalog.sql("SELECT * FROM made ORDER BY offset").collect() == rows
    assert len(rows) == 15


def test_a_store_is_not_written_to(catalog: SparkSession, store_copy: Directory) -> None:
    root = store_copy(SMALL)
    before = _bytes(root)
    catalog.sql(f"CREATE TABLE made USING rocketmq OPTIONS (path '{root}', columns 'offset, topic')")
    for attempt in (
        lambda: catalog.sql("INSERT INTO made VALUES (1, 'x')"),
        lambda: catalog.table("made").write.format("rocketmq").mode("append").save(str(root)),
    ):
        with pytest.raises(PySparkException, match="UsageError: stores are only read here") as caught:
            attempt()
        assert "Traceback" not in str(caught.value)
        assert len(str(caught.value).strip().splitlines()) <= 2
    assert _bytes(root) == before


SESSION = """
import sys
from rocketfsck.engine.spark import open_session
warehouse, query = sys.argv[1:]
metastore = f"jdbc:derby:;databaseName={warehouse}/metastore;create=true"
spark = open_session("local[1]", conf={
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.warehouse.dir": f"{warehouse}/tables",
    "spark.hadoop.javax.jdo.option.ConnectionURL": metastore,
})
print([tuple(row) for row in spark.sql(query).collect()])
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.nightly
def test_a_table_of_a_metastore_is_there_in_the_next_session(store_dir: Directory, tmp_path: Path) -> None:
    def session(query: str) -> str:
        command = [sys.executable, "-c", SESSION, str(tmp_path), query]
        ran = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=os.environ, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip().splitlines()[-1]

    root = store_dir(SMALL)
    assert session(f"CREATE TABLE kept USING rocketmq OPTIONS (path '{root}', topic 'Tx')") == "[]"
    assert session("SELECT topic, count(*) FROM kept GROUP BY topic") == "[('Tx', 15)]"
