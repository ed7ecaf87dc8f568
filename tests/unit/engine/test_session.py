"""What is said where Spark does not start, without a Spark that starts."""

from __future__ import annotations

import sys

import pytest

from rocketfsck.errors import StoreError, UsageError


class Raised:
    """An exception in Java, as py4j has it."""

    def getMessage(self) -> str:  # noqa: N802  Java's name
        return "System memory 100 must be at least 400.\nAnd more."


@pytest.mark.parametrize("in_java", [True, False])
def test_an_error_of_java_is_a_line(in_java: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    from rocketfsck.engine.session import open_session

    def refuse(_: SparkSession.Builder) -> SparkSession:
        error = Py4JError("An error occurred while calling a constructor.\n: at org.apache.spark")
        if in_java:
            error.java_exception = Raised()
        raise error

    monkeypatch.setattr(SparkSession, "getActiveSession", staticmethod(lambda: None))
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", refuse)
    words = "System memory 100 must be at least 400." if in_java else "An error occurred while calling"
    with pytest.raises(StoreError, match="Spark does not start: ") as caught:
        open_session("local[1]")
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
def test_what_jobs_need_is_said_before_a_session_starts(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyspark itself says it with the first job, and every store of a fleet would have failed."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from rocketfsck.engine.session import open_session

    monkeypatch.setattr(SparkSession, "getActiveSession", staticmethod(lambda: None))
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: pytest.fail("a session was started"))
    monkeypatch.setitem(sys.modules, package, None)
    words = r"^Spark's jobs need pandas and pyarrow: \w+ >= [\d.]+ must be installed; .* not found: run pip"
    with pytest.raises(UsageError, match=words):
        open_session("local[1]")
