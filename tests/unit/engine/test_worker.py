"""What runs on executors: what may pass is raised, for Spark to try again, as long as it does."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketfsck.engine import worker
from rocketfsck.engine.session import _joined, attempt_count
from rocketfsck.engine.worker import run_tasks
from rocketfsck.errors import PassingError, StoreError, UsageError, may_pass
from rocketfsck.reader.shortqueues import read_short_queues
from rocketfsck.store.areas import list_directory
from rocketfsck.store.meant import find_meant_stores
from rocketfsck.store.reading import FileReader, read_once

pytest.importorskip("pyspark")


def _failed(number: int) -> StoreError:
    try:
        try:
            raise OSError(number, os.strerror(number))
        except OSError as error:
            raise StoreError("cannot be read", path="f", offset=7) from error
    except StoreError as error:
        return error


def raising(number: int) -> None:
    raise _failed(number)


def returning(number: int) -> StoreError:
    return _failed(number)


def misled(number: int) -> None:
    raise UsageError(f"no such thing: {number}")


def _run(kernel: Callable[[int], Any], number: int, attempts: int) -> tuple[Any, Any]:
    index = pa.RecordBatch.from_arrays([pa.array([0])], ["id"])
    work = pickle.dumps((kernel, {0: number}))
    (batch,) = run_tasks(iter([index]), work, None, attempts)
    (row,) = batch.to_pylist()
    found = [None if row[name] is None else pickle.loads(row[name]) for name in ("result", "error")]
    return found[0], found[1]


@pytest.mark.parametrize("kernel", [raising, returning])
@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNRESET])
def test_what_may_pass_is_tried_again(
    kernel: Callable[[int], Any], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for attempt in range(3):
        monkeypatch.setattr(worker, "attempt_number", lambda attempt=attempt: attempt)
        with pytest.raises(StoreError, match="f at byte 7: cannot be read"):
            _run(kernel, number, 4)
    monkeypatch.setattr(worker, "attempt_number", lambda: 3)
    result, error = _run(kernel, number, 4)
    assert isinstance(result if kernel is returning else error, StoreError)


def test_what_was_loaded_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first task of a kernel loads its modules; Spark's collection after each task passes over them."""
    looks: list[int] = []
    monkeypatch.setattr(worker, "_settled", 0)
    monkeypatch.setattr(gc, "collect", lambda: looks.append(len(looks)))
    monkeypatch.setattr(gc, "freeze", lambda: None)
    for number in range(3):
        monkeypatch.setitem(sys.modules, f"loaded_{number // 2}", types.ModuleType("loaded"))
        _run(returning, errno.ENOENT, 1)
    assert looks == [0, 1]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.EISDIR])
def test_what_stays_is_a_result_at_once(number: int) -> None:
    assert isinstance(_run(returning, number, 4)[0], StoreError)
    assert isinstance(_run(raising, number, 4)[1], StoreError)
    assert isinstance(_run(misled, number, 4)[1], UsageError)


def _begin_of(path: str) -> bytes:
    with FileReader(path) as reader:
        return reader.read(0, 4)


def _extents_of(path: str) -> list[tuple[int, int]]:
    with FileReader(path) as reader:
        return list(reader.data_extents())


def _once(path: str) -> bool:
    return read_once(path, memoryview(bytearray(4)), 0)


READS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "opening": ("open", _begin_of),
    "reading": ("preadv", _begin_of),
    "extents": ("lseek", _extents_of),
    "opening once": ("open", _once),
    "reading once": ("preadv", _once),
    "opening queues": ("open", lambda path: read_short_queues([path], [20])),
    "reading queues": ("pread", lambda path: read_short_queues([path], [20])),
    "listing": ("scandir", lambda path: list_directory(Path(path).parent)),
    "looking for stores": ("scandir", lambda path: find_meant_stores(Path(path).parent)),
}
"""Ways to read, each with the function of the system that fails."""


class Careless:
    """A kernel that goes on without what it cannot read."""

    def __init__(self, name: str, path: str) -> None:
        self.name, self.path = name, path

    def __call__(self, _: int) -> str:
        try:
            READS[self.name][1](self.path)
        except StoreError:
            return "unreadable"
        return "done"


def _breaks(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, READS[name][0], fail)


@pytest.mark.parametrize("name", READS)
def test_who_goes_on_without_a_read_that_may_pass_is_tried_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not without one that fails for ever; the last attempt has to go on."""
    path = tmp_path / "file"
    path.write_bytes(bytes(20))
    kernel = Careless(name, str(path))
    assert _run(kernel, 0, 4)[0] == "done"
    for attempt in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(worker, "attempt_number", lambda attempt=attempt: attempt)
            _breaks(patch, name, errno.EACCES)
            result, error = _run(kernel, 0, 4)
            assert (result in ("done", "unreadable"), error) == (True, None)
            _breaks(patch, name, errno.EIO)
            with pytest.raises(PassingError, match="Input/output error"):
                _run(kernel, 0, 4)
    with monkeypatch.context() as patch:
        patch.setattr(worker, "attempt_number", lambda: 3)
        _breaks(patch, name, errno.EIO)
        assert _run(kernel, 0, 4)[0] in ("done", "unreadable")
    assert _run(kernel, 0, 4)[0] == "done"


def test_what_may_pass(tmp_path: Path) -> None:
    assert may_pass(_failed(errno.EIO))
    assert may_pass(TimeoutError())
    assert may_pass(MemoryError())
    assert not may_pass(_failed(errno.ENOENT))
    assert not may_pass(StoreError("is too short"))
    assert not may_pass(pickle.loads(pickle.dumps(ValueError("x"))))
    with pytest.raises(StoreError) as caught:
        FileReader(tmp_path / "nothing")
    assert not may_pass(caught.value)


class _Session:
    def __init__(self, **conf: str) -> None:
        self.conf = {name.replace("_", "."): value for name, value in conf.items()}


@pytest.mark.parametrize(
    ("conf", "count"),
    [
        ({"spark_master": "local"}, 1),
        ({"spark_master": "local[*]"}, 1),
        ({"spark_master": "local[2,4]"}, 4),
        ({"spark_master": "local[*, 3]", "spark_task_maxFailures": "9"}, 3),
        ({"spark_master": "local-cluster[2,1,1024]"}, 4),
        ({"spark_master": "spark://host:7077", "spark_task_maxFailures": "2"}, 2),
        ({"spark_master": "yarn"}, 4),
        ({}, 4),
    ],
)
def test_how_often_spark_starts_a_task(conf: dict[str, str], count: int) -> None:
    assert attempt_count(_Session(**conf)) == count  # type: ignore[arg-type]


def test_options_of_java_do_not_drop_the_quiet_logging() -> None:
    name = "spark.driver.extraJavaOptions"
    ours = {name: "-Dlog4j2.configurationFile=file:/quiet", "spark.ui.enabled": "false"}
    assert _joined(ours, {name: "-Xss4m", "spark.ui.enabled": "true"}) == {
        name: "-Dlog4j2.configurationFile=file:/quiet -Xss4m",
        "spark.ui.enabled": "true",
    }
    assert _joined({}, {name: "-Xss4m"}) == {name: "-Xss4m"}
