"""What runs on executors: tasks in, their results as bytes out.

(index) -> (index, seconds, result as a pickle, error as a pickle)
"""

from __future__ import annotations

import gc
import pickle
import time
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rocketfsck.errors import RocketfsckError, StoreError

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_SCHEMA = "index long, seconds double, result binary, error binary"
RUNNER = f"{__name__}:run_tasks"

Work = tuple[Callable[[Any], Any], dict[int, Any]]

_settled = False


def run_tasks(
    batches: Iterator[pa.RecordBatch], work: Any, last_time: float | None
) -> Iterator[pa.RecordBatch]:
    """Run the tasks whose numbers come in, a row of results each.

    `work` is a broadcast of (kernel, tasks by number), or its pickle. Nothing is started after `last_time`
    (seconds since the epoch). An OSError or a MemoryError is raised, so that Spark tries elsewhere; what
    else a kernel raises would be raised anywhere, and is a result.
    """
    import pyarrow as pa

    _settle()
    kernel, tasks = pickle.loads(work) if isinstance(work, bytes) else work.value
    for batch in batches:
        for index in batch.column(0).to_pylist():
            seconds, result, error = _run(kernel, tasks[index], last_time)
            columns: list[Any] = [[index], [seconds], [result], [error]]
            types = (pa.int64(), pa.float64(), pa.binary(), pa.binary())
            arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, ["index", "seconds", "result", "error"])


def _run(
    kernel: Callable[[Any], Any], task: Any, last_time: float | None
) -> tuple[float, bytes | None, bytes | None]:
    if last_time is not None and time.time() >= last_time:
        return 0.0, None, None
    started = time.monotonic()
    try:
        result = pickle.dumps(kernel(task), pickle.HIGHEST_PROTOCOL)
    except (OSError, MemoryError):
        raise
    except RocketfsckError as error:
        return time.monotonic() - started, None, pickle.dumps(error)
    except Exception as error:  # noqa: BLE001
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno} in {frame.name}"
        said = StoreError(f"the job failed: {type(error).__name__}: {error} ({place})", path="spark")
        return time.monotonic() - started, None, pickle.dumps(said)
    return time.monotonic() - started, result, None


def _settle() -> None:
    """Once a worker: what is loaded by now stays, and needs no look by the collection after every task."""
    global _settled
    if not _settled:
        gc.collect()
        gc.freeze()
        _settled = True
