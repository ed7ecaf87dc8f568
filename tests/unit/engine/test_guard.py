"""What a failed job says: one line of whoever is at fault, out of the stacks of two languages."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rocketfsck
from rocketfsck.engine import guard
from rocketfsck.engine.guard import explained, guarded
from rocketfsck.engine.worker import run_tasks
from rocketfsck.errors import LostError, RocketfsckError, StoreError, UsageError

JAVA = """Job aborted: Task 0 in stage 0.0 failed 4 times: org.apache.spark.api.python.PythonException
Traceback (most recent call last):
  File "worker.py", line 3310, in main
{0}
\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:601)
"""
RUNNER = f"{__name__}:count"


def count(batches: Iterator[int], factor: int) -> Iterator[int]:
    return (factor * number for number in batches)


def _run(*, paths: tuple[str, ...] = ()) -> list[Any]:
    return list(guarded(RUNNER, (3,), paths)(iter([1, 2])))


def test_an_executor_that_has_all_of_it_runs(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert _run(paths=(str(tmp_path), "s3://bucket/store")) == [3, 6]


def test_a_store_that_is_another_there(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    run = guarded(RUNNER, (3,), [str(tmp_path)])
    (tmp_path / "commitlog").rmdir()
    with pytest.raises(RuntimeError, match=r"cannot see .*, or sees something else there") as caught:
        list(run(iter([])))
    stated = explained(RuntimeError(JAVA.format(f"RuntimeError: {caught.value}")))
    assert isinstance(stated, StoreError)
    assert str(tmp_path) in str(stated)
    assert "\n" not in str(stated)


def test_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    run = guarded(RUNNER, (3,))
    monkeypatch.setattr(rocketfsck, "__version__", "0.0.9")
    with pytest.raises(RuntimeError, match=r"the executor has version 0\.0\.9, but the driver") as caught:
        list(run(iter([])))
    assert isinstance(explained(RuntimeError(JAVA.format(f"RuntimeError: {caught.value}"))), UsageError)


def test_something_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "NEEDED", ("numpy", "no_such_package"))
    with pytest.raises(RuntimeError, match="the executor lacks no_such_package") as caught:
        _run()
    stated = explained(RuntimeError(JAVA.format(f"RuntimeError: {caught.value}")))
    assert isinstance(stated, UsageError)
    assert "On a cluster" in str(stated)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            "pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] It is 3.12, and 3.11 here.",
            UsageError,
            "executors and driver run different versions of Python: It is 3.12, and 3.11 here.",
        ),
        (
            'java.io.IOException: Cannot run program "python3.12": error=2, No such file or directory',
            UsageError,
            "executors have no python3.12: set PYSPARK_PYTHON to a Python that the executors have",
        ),
        (
            "ModuleNotFoundError: No module named 'pyarrow'",
            UsageError,
            "the Python of an executor lacks a module: No module named 'pyarrow'",
        ),
        (
            "rocketfsck.errors.StoreError: /store/commitlog/0 at byte 7: cannot be read: Input/output error",
            LostError,
            "/store/commitlog/0 at byte 7: cannot be read: Input/output error",
        ),
        ("ValueError: no such number: 7", LostError, "spark: the job failed: ValueError: no such number: 7"),
    ],
)
def test_what_a_job_failed_of(text: str, kind: type[RocketfsckError], said: str) -> None:
    stated = explained(RuntimeError(JAVA.format(text)))
    assert (type(stated), str(stated)) == (kind, said)


def test_without_a_known_reason_the_first_line() -> None:
    assert str(explained(RuntimeError("\n went wrong \n more"))) == "spark: the job failed: went wrong"
    assert str(explained(RuntimeError(""))) == "spark: the job failed: RuntimeError"


def _fail(error: Exception) -> None:
    raise error


class _Numbers:
    """A batch of one column."""

    def column(self, _: int) -> _Numbers:
        return self

    def to_pylist(self) -> list[int]:
        return [0]


def _outcome(error: Exception) -> dict[str, Any]:
    work = pickle.dumps((_fail, {0: error}))
    (batch,) = run_tasks(iter([_Numbers()]), work, None)
    (row,) = batch.to_pylist()
    found: dict[str, Any] = row
    return found


def test_what_a_kernel_raises_comes_back_as_it_is() -> None:
    row = _outcome(StoreError("cannot be read", path="commitlog/0", offset=7))
    error = pickle.loads(row["error"])
    assert (type(error), str(error)) == (StoreError, "commitlog/0 at byte 7: cannot be read")
    assert row["result"] is None


def test_a_bug_is_told_with_its_place() -> None:
    error = pickle.loads(_outcome(ValueError("no such number"))["error"])
    assert isinstance(error, StoreError)
    assert "ValueError: no such number (" in str(error)
    assert "in _fail)" in str(error)


@pytest.mark.parametrize("kind", [OSError, MemoryError])
def test_what_may_go_well_elsewhere_is_raised(kind: type[Exception]) -> None:
    with pytest.raises(kind):
        _outcome(kind())


def test_nothing_is_started_after_the_last_time() -> None:
    work = pickle.dumps((_fail, {0: ValueError()}))
    (batch,) = run_tasks(iter([_Numbers()]), work, 0.0)
    assert batch.to_pylist() == [{"index": 0, "seconds": 0.0, "result": None, "error": None}]
