"""`format("rocketmq")` on Spark: the rows of the views, however many partitions; found without a call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

import pytest

from rocketfsck.pipeline import register
from rocketfsck.pipeline.views import VIEW_NAMES, Wanted, schema_of
from rocketfsck.pipeline.views.options import OPTION_NAMES

from tests.conftest import Directory
from tests.unit.pipeline.viewing import read

pytest.importorskip("pyspark")
from pyspark.errors import PySparkException

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
    expected = read(view, root, now_timestamp=NOW)
    found = [_plain(row) for row in _frame(spark, root, view=view, now_timestamp=NOW).collect()]
    assert _in_order(found) == _in_order(expected)
    assert expected


@pytest.mark.parametrize("view", VIEW_NAMES)
def test_schemas_are_those_that_spark_makes_of_its_own(view: str) -> None:
    """Spark demands batches of exactly the schema that it makes of the one that was declared."""
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    every = schema_of(view)
    assert to_arrow_schema(from_arrow_schema(every), timezone="UTC").equals(every)
    names = ("properties_bytes", "keys") if view == "messages" else tuple(every.names[:1])
    some = schema_of(view, Wanted(columns=names))
    assert to_arrow_schema(from_arrow_schema(some), timezone="UTC").equals(some)


def test_any_number_of_partitions(spark: SparkSession, restart_dir: Directory) -> None:
    root = restart_dir("5.3.3-multiseg--flip-older-file")
    expected = _in_order(read("messages", root))
    counts = set()
    for options in ({"end_offset": "131072"}, {"split_size": "51200"}):
        frame = _frame(spark, root, **options)
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


def test_a_schema_of_the_users_own_prunes_columns(spark: SparkSession, store_dir: Directory) -> None:
    reader = spark.read.format("rocketmq").schema("offset BIGINT, topic STRING")
    rows = reader.load(str(store_dir(SMALL))).collect()
    assert [tuple(row) for row in rows] == [
        (row["offset"], row["topic"]) for row in read("messages", store_dir(SMALL))
    ]
    wrong = spark.read.format("rocketmq").schema("offset STRING").load(str(store_dir(SMALL)))
    with pytest.raises(
        Exception, match="the column offset of the view messages is of type bigint, not string"
    ):
        wrong.collect()


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(PUSHDOWN, "true")
    yield spark
    spark.conf.unset(PUSHDOWN)


def test_filters_go_down_where_that_is_asked_for(
    pushing: SparkSession, store_dir: Directory, capsys: pytest.CaptureFixture[str]
) -> None:
    root = store_dir("4.9.8-multiseg")
    frame = _frame(pushing, root, pushdown="true", columns="offset,topic,size")
    chosen = frame.filter("topic = 'Seg0' AND offset >= 131072 AND offset < 390000 AND size > 600")
    expected = [
        row["offset"]
        for row in read("messages", root)
        if row["topic"] == "Seg0" and 131_072 <= row["offset"] < 390_000 and row["size"] > 600
    ]
    assert sorted(row["offset"] for row in chosen.collect()) == expected != []
    assert chosen.rdd.getNumPartitions() == 2
    chosen.explain()
    (left,) = re.findall(r"Filter (\(.*\))", capsys.readouterr().out)
    assert "size" in left
    assert "Seg0" not in left
    assert "131072" not in left


def test_a_frame_can_be_used_again_where_filters_do_not_go_down(
    pushing: SparkSession, store_dir: Directory
) -> None:
    """Where they do, Spark reads no more than the first query wanted."""
    frame = _frame(pushing, store_dir("4.9.8-multiseg"), columns="offset")
    parts = [frame.filter("offset < 131072"), frame.filter("offset >= 131072")]
    assert parts[0].union(parts[1]).count() == 1300
    assert frame.count() == 1300


@pytest.mark.nightly
def test_modes(spark: SparkSession, restart_dir: Directory) -> None:
    root = restart_dir("4.9.8-basic--torn-tail")
    kept = _frame(spark, root, columns="offset,_corrupt_record")
    assert kept.filter("_corrupt_record IS NOT NULL").count() == 1
    assert _frame(spark, root, mode="DROPMALFORMED", columns="offset").count() == kept.count() - 1
    with pytest.raises(PySparkException, match=r"commitlog/0{20} at byte 49078: torn bytes"):
        _frame(spark, root, mode="FAILFAST", columns="offset").collect()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": "x"}, "no option is called topics; there are"),
        ({"view": "x"}, "no view is called 'x'"),
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
            assert one in (*OPTION_NAMES, "pushdown")
    spark.catalog.dropTempView("orders")
