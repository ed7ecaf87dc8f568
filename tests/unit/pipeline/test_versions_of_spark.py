"""What versions of pyspark do not have is refused in one line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("pyspark")
from pyspark.sql.types import StructType

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


def test_before_4_2_there_are_no_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # what is set is taken back
    monkeypatch.setattr(datasource, "find_spec", lambda _: None)
    reader = datasource.RocketMQDataSource({"path": "/not/read"}).streamReader(StructType())
    assert isinstance(reader, datasource.NoStreamReader)
    for begin in (reader.latestOffset, reader.initialOffset):
        with pytest.raises(UsageError, match=r"streams need pyspark 4.2 or later"):
            begin()
