"""`format("rocketmq")` on Spark: the rows of the views, however many partitions; found without a call."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from rocketfsck.api import iter_messages
from rocketfsck.pipeline import register
from rocketfsck.pipeline.columns import METADATA, OPTION_NAMES, declared, shaped
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views.model import WantedRows
from rocketfsck.pipeline.views.table import VIEW_NAMES, plan_parts, read_part, view_named
from rocketfsck.store import open_store

from tests.conftest import Directory
from tests.unit.pipeline.viewing import read

pytest.importorskip("pyspark")
from pyspark.errors import PySparkException

from tests.spark.failing import FailingDataSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

NOW = 1_800_000_000_000
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SMALL = "5.3.3-trans"


def _frame(spark: SparkSession, root: Path, **options: Any) -> DataFrame:
    return spark.read.format("rocketmq").options(**options).load(str(root))


def _plain(row: Row) -> dict[str, Any]:
    """A row as plain Arrow gives it."""
    values = row.asDict()
    return {
        name: bytes(value)
        if isinstance(value, bytearray)
        else list(value.items())
        if isinstance(value, dict)
        else value
        for name, value in values.items()
    }


def rows_for_spark(view: str, root: Path, **wanted: Any) -> list[dict[str, Any]]:
    """The rows of a view, without Spark; times as Spark's Python has them, naive and local."""
    asked = WantedRows(**wanted)
    schema = declared(view, asked)
    rows = [
        row
        for part in plan_parts(view, find_sources([root]), asked)
        for batch in read_part(part, asked)
        for row in shaped(batch, part, schema).to_pylist()
    ]
    return [
        {
            name: value.astimezone().replace(tzinfo=None) if isinstance(value, datetime) else value
            for name, value in row.items()
        }
        for row in rows
    ]


def _in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr({**row, "properties": sorted(row.get("properties") or [])}) for row in rows)


def test_spark_finds_it_by_the_name_of_a_package(spark: SparkSession, store_dir: Directory) -> None:
    """Spark looks through the modules named pyspark_…; nothing was registered in this session so far."""
    import pyspark_rocketmq

    assert "pyspark_rocketmq" in {module.name for module in iter_modules()}
    assert pyspark_rocketmq.DefaultSource.name() == "rocketmq"
    assert _frame(spark, store_dir(SMALL), columns="offset").count() == 51


@pytest.mark.parametrize("view", VIEW_NAMES)
def test_views(spark: SparkSession, restart_dir: Directory, view: str) -> None:
    root = restart_dir("4.9.8-basic--torn-tail")
    expected = rows_for_spark(view, root, now_timestamp=NOW)
    frame = _frame(spark, root, view=view, now_timestamp=NOW, columns="*")
    assert _in_order([_plain(row) for row in frame.collect()]) == _in_order(expected)
    assert expected
    assert frame.schema["broker"].nullable is False


def _there_and_back(schema: pa.Schema) -> pa.Schema:
    from pyspark.sql.pandas.types import from_arrow_schema

    from rocketfsck.pipeline.datasource import arrow_schema

    return arrow_schema(from_arrow_schema(schema, prefer_timestamp_ntz=False))


@pytest.mark.parametrize("view", VIEW_NAMES)
def test_schemas_are_those_that_spark_makes_of_its_own(view: str) -> None:
    """Spark demands batches of exactly the schema that it makes of the one that was declared."""
    every = declared(view, WantedRows())
    assert _there_and_back(every).equals(every)
    names = ("properties_bytes", "keys") if view == "messages" else tuple(every.names[:1])
    more = (METADATA,) if view_named(view).of_files else ()
    some = declared(view, WantedRows(columns=(*names, *more)))
    assert _there_and_back(some).equals(some)


def test_any_number_of_partitions(spark: SparkSession, restart_dir: Directory) -> None:
    root = restart_dir("5.3.3-multiseg--flip-older-file")
    expected = _in_order(rows_for_spark("messages", root))
    counts = set()
    for options in ({"end_offset": "131072"}, {"split_size": "51200"}):
        frame = _frame(spark, root, columns="*", **options)
        counts.add(frame.rdd.getNumPartitions())
        if "end_offset" not in options:
            assert _in_order([_plain(row) for row in frame.collect()]) == expected
    assert sorted(counts)[0] == 1
    assert sorted(counts)[-1] > 12


def test_sql_over_several_brokers(spark: SparkSession, store_dir: Directory, tmp_path: Path) -> None:
    for broker, name in (("broker-a", SMALL), ("broker-b", "4.9.8-delay")):
        (tmp_path / broker).symlink_to(store_dir(name))
    columns = "broker, topic, store_timestamp"
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW cluster USING rocketmq "
        f"OPTIONS (path '{tmp_path}', columns '{columns}')"
    )
    found = spark.sql("SELECT broker, count(*) AS n FROM cluster GROUP BY broker ORDER BY broker").collect()
    assert [tuple(row) for row in found] == [("broker-a", 51), ("broker-b", 49)]
    assert spark.table("cluster").columns == columns.split(", ")
    spark.catalog.dropTempView("cluster")


def test_globs_and_lists_of_paths(spark: SparkSession, store_dir: Directory, tmp_path: Path) -> None:
    """In Python by `load`, in SQL by the option `path`: a pattern, a list, a JSON list."""
    for broker, name in (("broker-a", SMALL), ("broker-b", "4.9.8-delay"), ("other", "4.9.8-multiseg")):
        (tmp_path / broker).symlink_to(store_dir(name))
    one, two = (str(tmp_path / name) for name in ("broker-a", "broker-b"))
    for paths in (f"{tmp_path}/broker-*", [one, two], json.dumps([one, two])):
        frame = spark.read.format("rocketmq").load(paths)
        assert {tuple(row) for row in frame.groupBy("broker").count().collect()} == {
            ("broker-a", 51),
            ("broker-b", 49),
        }
        text = paths if isinstance(paths, str) else json.dumps(paths)
        for kind in ("TABLE", "TEMPORARY VIEW"):
            spark.sql(f"CREATE {kind} several USING rocketmq OPTIONS (path '{text}')")
            assert spark.sql("SELECT count(*), count(DISTINCT broker) FROM several").first() == (100, 2)
            spark.sql(f"DROP {kind.split()[-1]} several")


def test_spark_refuses_a_path_as_a_table(spark: SparkSession, store_dir: Directory) -> None:
    """Only sources that are Spark's own file formats may stand in front of a path; the guide says so."""
    with pytest.raises(PySparkException, match="UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"):
        spark.sql(f"SELECT * FROM rocketmq.`{store_dir(SMALL)}`")


def test_a_schema_of_the_users_own_prunes_columns(spark: SparkSession, store_dir: Directory) -> None:
    reader = spark.read.format("rocketmq").schema("offset BIGINT, topic STRING")
    rows = reader.load(str(store_dir(SMALL))).collect()
    assert [tuple(row) for row in rows] == [
        (row["offset"], row["topic"]) for row in read("messages", store_dir(SMALL))
    ]
    typed = spark.read.format("rocketmq").schema("store_timestamp TIMESTAMP, born_timestamp BIGINT")
    times = typed.load(str(store_dir(SMALL))).selectExpr("unix_millis(store_timestamp)", "born_timestamp")
    assert [tuple(row) for row in times.collect()] == [
        (row["store_timestamp"], row["born_timestamp"]) for row in read("messages", store_dir(SMALL))
    ]
    wrong = spark.read.format("rocketmq").schema("offset STRING").load(str(store_dir(SMALL)))
    with pytest.raises(
        Exception, match="the column offset of the view messages has the type bigint, not string"
    ):
        wrong.collect()


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(PUSHDOWN, "true")
    yield spark
    spark.conf.unset(PUSHDOWN)


def test_a_frame_can_be_used_twice(pushing: SparkSession, store_dir: Directory) -> None:
    """Whether Spark may hand filters down or not: nothing of one use is kept for another."""
    root = store_dir("4.9.8-multiseg")
    frame = _frame(pushing, root, columns="offset,topic")
    one, other = (frame.where(f"topic = '{topic}'") for topic in ("Seg0", "Seg1"))
    counts = Counter(row["topic"] for row in read("messages", root))
    assert counts["Seg0"] != counts["Seg1"]
    both = one.union(other).groupBy("topic").count()
    assert {row["topic"]: row["count"] for row in both.collect()} == {
        name: counts[name] for name in ("Seg0", "Seg1")
    }
    joined = one.alias("a").crossJoin(other.alias("b"))
    assert joined.count() == counts["Seg0"] * counts["Seg1"]
    assert frame.count() == counts.total() == 1300
    with pytest.raises(PySparkException, match="UsageError: the option pushdown was removed"):
        _frame(pushing, root, pushdown="true")


def test_a_file_that_vanished_ends_the_query(spark: SparkSession, store_copy: Directory) -> None:
    root = store_copy("4.9.8-multiseg")
    file = root / "commitlog" / "00000000000000131072"
    strict, loose = (
        _frame(spark, root, columns="offset,topic,_corrupt_record", **options)
        for options in ({}, {"ignoreMissingFiles": "true"})
    )
    damage = _frame(spark, root, view="damage", ignoreMissingFiles="true")
    assert damage.count() == 0
    assert strict.count() == loose.count() == 1300
    gone = [row["offset"] for row in strict.collect() if 131_072 <= row["offset"] < 262_144]
    file.unlink()
    if spark.version.startswith("4.0."):  # every query lists the files again
        assert strict.count() == 1300 - len(gone)
        return
    with pytest.raises(PySparkException) as caught:
        strict.count()
    assert f"StoreError: {file}: cannot be opened: No such file or directory" in str(caught.value)
    assert "Traceback" not in str(caught.value)
    rows = loose.collect()
    assert [row for row in rows if row["_corrupt_record"] is not None] == []
    assert len(rows) == loose.count() == 1300 - len(gone)
    (lost,) = damage.collect()
    assert (lost["kind"], lost["offset"]) == ("unreadable", 131_072)


def test_a_disk_that_fails_once_is_read_again(
    spark: SparkSession, store_dir: Directory, tmp_path: Path
) -> None:
    """Spark starts the task again, whose rows are then those of a sound disk."""
    root = store_dir("4.9.8-multiseg")
    spark.dataSource.register(FailingDataSource)
    marker = tmp_path / "failed"
    reader = spark.read.format("rocketmq_failing").options(marker=str(marker), columns="offset")
    assert sorted(row[0] for row in reader.load(str(root)).collect()) == sorted(
        row["offset"] for row in read("messages", root)
    )
    assert marker.exists()


def test_what_a_count_counts(spark: SparkSession, restart_dir: Directory) -> None:
    """Messages: ranges that are damaged are rows of a view of their own."""
    root = restart_dir("4.9.8-basic--torn-tail")
    count = sum(1 for _ in iter_messages(open_store(root), live_only=True))
    frame = _frame(spark, root)
    assert frame.count() == len(frame.collect()) == count
    assert not {"body", "properties"} & set(frame.columns)
    assert [row["kind"] for row in _frame(spark, root, view="damage").collect()] == ["torn"]
    flipped = restart_dir("5.1.3-basic--flip-last-file")
    every = _frame(spark, flipped, columns="offset, _corrupt_record").collect()
    (wrong,) = [row for row in every if row["_corrupt_record"]]
    (damaged,) = _frame(spark, flipped, view="damage").collect()
    assert (damaged["kind"], damaged["reason"]) == ("record", "body-crc")
    assert damaged["offset"] == wrong["offset"]
    assert _frame(spark, flipped, mode="DROPMALFORMED").count() == len(every) - 1


@pytest.mark.nightly
def test_modes(spark: SparkSession, restart_dir: Directory) -> None:
    root = restart_dir("4.9.8-basic--torn-tail")
    kept = _frame(spark, root, columns="offset,_corrupt_record")
    assert kept.filter("_corrupt_record IS NOT NULL").count() == 0
    assert _frame(spark, root, mode="DROPMALFORMED", columns="offset").count() == kept.count()
    with pytest.raises(PySparkException, match=r"commitlog/0{20} at byte 49078: torn bytes"):
        _frame(spark, root, mode="FAILFAST", columns="offset").collect()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": "x"}, "no option has the name topics; the options are"),
        ({"view": "x"}, "no view has the name 'x'"),
        ({"columns": "bodies"}, "has no column bodies"),
    ],
)
def test_options_without_sense(
    spark: SparkSession, store_dir: Directory, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException, match=f"UsageError: .*{said}"):
        _frame(spark, store_dir(SMALL), **options)


@pytest.mark.nightly
def test_nothing_to_read_is_no_row(spark: SparkSession, store_dir: Directory) -> None:
    assert _frame(spark, store_dir(SMALL), begin_offset=str(1 << 60)).count() == 0


@pytest.mark.nightly
def test_one_call_registers_it(spark: SparkSession, store_dir: Directory) -> None:
    register(spark)
    register(spark)
    assert _frame(spark, store_dir(SMALL), columns="offset").count() == 51


def test_the_guides_examples(
    spark: SparkSession, store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(__file__).parents[2] / "docs" / "guide" / "spark.md").read_text("utf-8")
    section = text.partition("## As DataFrames")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```py\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    for name in ("4.9.8-multiseg", "5.3.3-multiseg"):
        (tmp_path / "brokers" / name).mkdir(parents=True)
        (tmp_path / "brokers" / name / "store").symlink_to(store_dir(name))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"spark": spark}
    for block in blocks:
        exec(block.replace("brokers", str(tmp_path / "brokers")), names)
    assert [row[0] for row in names["latest"]] == ["4.9.8-multiseg", "5.3.3-multiseg"]
    rows = [row for batch in names["batches"] for row in batch.to_pylist()]
    assert len(rows) == spark.table("orders").count() > 1000
    assert {row["broker"] for row in rows} == {"4.9.8-multiseg", "5.3.3-multiseg"}
    for option in re.findall(r"^\| (`.*?`) \|", section.partition("| option | |")[2], re.MULTILINE):
        for one in re.findall(r"`(.*?)`", option):
            assert one in OPTION_NAMES
    spark.catalog.dropTempView("orders")
