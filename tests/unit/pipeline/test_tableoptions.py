"""What Spark gives the data source when a table is made: our options out of it, into the schema, and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rocketfsck.errors import UsageError
from rocketfsck.pipeline.datasource import (
    COMMENT,
    KEPT,
    Reader,
    RocketMQDataSource,
    is_table,
    keep_options,
    kept_options,
    table_options,
)

from tests.conftest import Directory

SCHEMA = StructType(
    [StructField("a", LongType(), True, {"comment": "of the user"}), StructField("b", StringType())]
)
SPARKS = {"provider": "rocketmq", "owner": "me"}


def test_what_a_table_is_made_of() -> None:
    assert is_table({"Provider": "RocketMQ", "owner": "me"}, "rocketmq")
    assert not is_table({"provider": "rocketmq", "path": "/a"}, "rocketmq")
    assert not is_table({"provider": "other", "owner": "me"}, "rocketmq")


def test_options_are_those_of_options_and_location() -> None:
    given = {
        **SPARKS,
        "location": "file:/data/a b/c%20d",
        "path": "file:/data/a b/c%20d",
        "comment": "hi",
        "external": "true",
        "is_managed_location": "false",
        "collation": "UTF8_BINARY",
        "serialization.format": "1",
        "a.b": "c",
        "option.Topic": "T",
        "topic": "T",
    }
    assert table_options(given) == {"path": "/data/a b/c%20d", "topic": "T"}
    assert table_options({**SPARKS, "option.path": "/x", "path": "file:/x"}) == {"path": "/x"}
    assert table_options({**SPARKS, "location": "s3://bucket/x"}) == {"path": "s3://bucket/x"}
    assert table_options({**SPARKS, "path": "file:///x"}) == {"path": "/x"}
    several = {"store": json.dumps(["/a", "/b"])}
    assert table_options({**SPARKS, **several, "option.store": several["store"]}) == several


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"option.path": "/x", "topic": "T"}, "topic: use OPTIONS; rocketfsck does not read TBLPROPERTIES"),
        ({"option.store": "data/x"}, "store: a table needs an absolute path, and data/x is relative"),
        ({"option.paths": '["/a", "b"]'}, "paths: a table needs an absolute path, and b is relative"),
        (
            {"option.path": "/x", "option.broker_conf": "b.conf"},
            "broker_conf: a table needs an absolute path",
        ),
        (
            {"option.path": "/x", "option.storage_options": '{"secret": "s3cret"}'},
            "cannot keep storage_options",
        ),
    ],
)
def test_what_a_table_cannot_keep(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        table_options({**SPARKS, **given})
    assert "s3cret" not in str(caught.value)


def test_there_and_back() -> None:
    options = {"path": """["/a b", "/it's=50%&+"]""", "topic": "\\Thé", "tag": ""}
    schema = StructType.fromJson(json.loads(keep_options(SCHEMA, options).json()))
    assert schema.fields[0].metadata[COMMENT].startswith(KEPT)
    assert [(field.name, field.dataType) for field in schema] == [
        (field.name, field.dataType) for field in SCHEMA
    ]
    assert kept_options(schema, {}) == options
    assert kept_options(schema, {"Topic": "U"}) == {**options, "topic": "U"}
    assert kept_options(schema, {"path": "/other"}) == {"path": "/other"}
    with pytest.raises(UsageError, match=r"name a store: load.*without a list of columns"):
        kept_options(SCHEMA, {"topic": "T"})


@pytest.mark.parametrize("comment", [KEPT + "means the broker", KEPT + "path=/data&topic"])
def test_a_comment_that_is_not_ours(comment: str) -> None:
    schema = StructType([StructField("a", LongType(), True, {COMMENT: comment})])
    with pytest.raises(UsageError, match="is not what rocketfsck keeps there"):
        kept_options(schema, {})


def test_nothing_is_written(store_dir: Directory) -> None:
    source = RocketMQDataSource({"path": str(store_dir("5.3.3-trans"))})
    for write in (source.writer, source.streamWriter):
        with pytest.raises(UsageError, match="stores are only read here"):
            write(SCHEMA, overwrite=False)


def test_the_data_source_of_a_table(store_dir: Directory) -> None:
    root = str(store_dir("5.3.3-trans"))
    given = {
        **SPARKS,
        "path": f"file:{root}",
        "location": f"file:{root}",
        "option.view": "files",
        "view": "files",
    }
    schema = RocketMQDataSource(given).schema()
    assert kept_options(schema, {}) == {"path": root, "view": "files"}
    reader = RocketMQDataSource({}).reader(schema)
    assert isinstance(reader, Reader)
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert f"commitlog/{0:020}" in {row["file"] for row in rows}
    plain = RocketMQDataSource({"path": root, "view": "files"}).schema()
    assert [field.metadata for field in plain] == [{}] * len(plain)
    with pytest.raises(UsageError, match="no option has the name topik"):
        RocketMQDataSource({**given, "option.topik": "x", "topik": "x"}).schema()
    with pytest.raises(UsageError, match="no option has the name owner"):
        RocketMQDataSource({"path": root, "owner": "me"}).schema()
    assert Path(root).is_dir()
