"""A store on an S3-compatible server, checked on Spark: the workers read it with what the driver was told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from rocketfsck import check_store, open_store
from rocketfsck.engine import LocalEngine
from rocketfsck.engine.spark import SparkEngine

from tests.conftest import Directory
from tests.s3 import KEY, SECRET, files_of, s3_client, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketfsck.store import Store

pytest.importorskip("fsspec")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as url:
        yield url


def findings(store: Store, engine: Any) -> dict[str, Any]:
    document = check_store(store, engine=engine).to_json()
    assert not document["not_checked"]
    for name in ("started_timestamp", "seconds"):
        document.pop(name)
    return document


def test_the_check_finds_the_same(spark: SparkSession, endpoint: str, store_dir: Directory) -> None:
    client = s3_client(endpoint)
    for name, data in files_of(store_dir("5.3.3-multiseg")).items():
        client.put_object(Bucket="bucket", Key=f"store/{name}", Body=data)
    options = {"endpoint_url": endpoint, "key": KEY, "secret": SECRET}
    store = open_store("s3://bucket/store", storage_options=options)
    there = findings(store, SparkEngine(spark, partitions=2))
    assert there == findings(store, LocalEngine(2))
    assert SECRET not in json.dumps(there)


def test_the_data_source_reads_the_same(spark: SparkSession, endpoint: str, store_dir: Directory) -> None:
    client = s3_client(endpoint)
    local = store_dir("5.3.3-basic")
    for name, data in files_of(local).items():
        client.put_object(Bucket="bucket", Key=f"basic/{name}", Body=data)
    options = json.dumps({"endpoint_url": endpoint, "key": KEY, "secret": SECRET})
    columns = {"columns": "broker,physical_offset,topic,body"}
    there = spark.read.format("rocketmq").options(storage_options=options, broker="b", **columns)
    here = spark.read.format("rocketmq").options(broker="b", **columns)
    rows = sorted(map(tuple, there.load("s3://bucket/basic").collect()))
    assert rows == sorted(map(tuple, here.load(str(local)).collect()))
    assert rows
