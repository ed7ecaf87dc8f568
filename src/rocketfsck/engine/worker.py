"""What runs on executors: tasks in, their results as bytes out; errors as what they say.

(index) -> (index, seconds, result as a pickle, error as a pickle)
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rocketfsck.engine.session import attempt_number
from rocketfsck.errors import PassingError, RocketfsckError, StoreError, attempt, may_pass

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_SCHEMA = "index long, seconds double, result binary, error binary"
RUNNER = f"{__name__}:run_tasks"

Work = tuple[Callable[[Any], Any], dict[int, Any]]

_settled = 0


def run_tasks(
    batches: Iterator[pa.RecordBatch], work: Any, last_time: float | None, attempts: int = 1
) -> Iterator[pa.RecordBatch]:
    """Run the tasks whose numbers come in, a row of results each.

    `work` is a broadcast of (kernel, tasks by number), or its pickle. Nothing is started after `last_time`
    (seconds since the epoch). `attempts` says how often Spark starts a task: what a kernel raises is raised
    here, so that Spark tries again, maybe elsewhere, if it may pass (`errors.may_pass`) and this is not the
    last attempt; so is a StoreError that a kernel returns, and what a read says that fails, even where the
    kernel would go on without the bytes (`errors.attempt`). An OSError or a MemoryError of its own is always
    raised. Everything else would happen anywhere, and is a result.
    """
    import pyarrow as pa

    tries_again = attempt_number() + 1 < attempts
    kernel, tasks = pickle.loads(work) if isinstance(work, bytes) else work.value
    for batch in batches:
        for index in batch.column(0).to_pylist():
            seconds, result, error = _run(kernel, tasks[index], last_time, tries_again=tries_again)
            settle()
            columns: list[Any] = [[index], [seconds], [result], [error]]
            types = (pa.int64(), pa.float64(), pa.binary(), pa.binary())
            arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, ["index", "seconds", "result", "error"])


def _run(
    kernel: Callable[[Any], Any], task: Any, last_time: float | None, *, tries_again: bool
) -> tuple[float, bytes | None, bytes | None]:
    if last_time is not None and time.time() >= last_time:
        return 0.0, None, None
    started = time.monotonic()
    try:
        with attempt(is_last=not tries_again):
            found = kernel(task)
        if tries_again and isinstance(found, StoreError) and may_pass(found):
            raise found
        result = pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
    except (OSError, MemoryError, PassingError):
        raise
    except RocketfsckError as error:
        if tries_again and may_pass(error):
            raise
        return time.monotonic() - started, None, pickle.dumps(error)
    except Exception as error:  # noqa: BLE001
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno} in {frame.name}"
        said = StoreError(f"the job failed: {type(error).__name__}: {error} ({place})", path="spark")
        return time.monotonic() - started, None, pickle.dumps(said)
    return time.monotonic() - started, result, None


def settle() -> None:
    """At the end of a task that has loaded modules: what there is by now stays, and is looked at no more.

    Spark collects garbage after every task, and with our modules a look at all objects takes 20 ms and more.
    """
    global _settled
    if _settled != len(sys.modules):
        gc.collect()
        gc.freeze()
        _settled = len(sys.modules)


_OF_WORKERS = frozenset({"SPARK_PYTHON_RUNTIME", "SPARK_REUSE_WORKER"})
"""What Spark sets for a worker, from 4.2 on and before."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """What we raise on purpose gets to the user as what it says, without the stack of the worker that said
    it.

    Spark asks this variable what to send; a worker that has failed ends, so nothing else is hidden.
    """
    try:
        yield
    except RocketfsckError:
        if not _OF_WORKERS.isdisjoint(os.environ):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
