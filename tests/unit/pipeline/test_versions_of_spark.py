"""What versions of pyspark do not have is refused in one line."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("pyspark")
from pyspark.sql.types import StructType

import rocketfsck.pipeline
from rocketfsck.errors import UsageError
from rocketfsck.pipeline import datasource, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Session:
    """A session that keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[type] = []

    @property
    def dataSource(self) -> _Session:  # noqa: N802 - Spark's name
        return self

    def register(self, source: type) -> None:
        self.given.append(source)


def test_before_4_0_there_are_no_data_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    session = _Session()
    register(cast("SparkSession", session))
    assert session.given == [datasource.RocketMQDataSource]
    monkeypatch.delitem(sys.modules, "rocketfsck.pipeline.datasource")
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)
    with pytest.raises(UsageError, match=r"^pyspark 4\S+ has no data sources in Python: use 4.0 or later$"):
        register(cast("SparkSession", session))


STREAMS = "pyspark.sql.streaming.datasource"
"""A module that pyspark has from 4.2 on."""


def test_before_4_2_there_are_no_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but them is there: what Spark imports to find the data source needs nothing of later versions."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # what is set is taken back
    for name in ("pyspark_rocketmq", "rocketfsck.pipeline.datasource", "rocketfsck.pipeline.streaming"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, STREAMS, None)
    monkeypatch.setattr(rocketfsck.pipeline, "datasource", None, raising=False)
    source = import_module("pyspark_rocketmq").DefaultSource({"path": "/not/read"})
    reader = source.streamReader(StructType())
    for begin in (reader.latestOffset, reader.initialOffset):
        with pytest.raises(UsageError, match=r"streams need pyspark 4.2 or later"):
            begin()
