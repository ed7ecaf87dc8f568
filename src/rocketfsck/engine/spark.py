"""Runs kernels on Spark: one row of a range is one task, and its result comes back as bytes.

    range(n) -> mapInArrow: (index) -> (index, seconds, result as a pickle)

Nothing of a store travels but paths: a worker opens the files itself, so all of them must see the store under
the same path. Tasks and kernel go out once, in the function's closure; results are small by contract
(`docs/adr/0004`). Same kernels, same results as `LocalEngine`, in whatever order they come.
"""

from __future__ import annotations

import gc
import os
import pickle
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketfsck.engine.java import find_java, java_home
from rocketfsck.engine.seam import Outcome, Result, Task
from rocketfsck.errors import StoreError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

LOCAL_RETRIES = 4
"""Attempts for a task of an embedded session, where Spark's own default is one."""

RESULT_SCHEMA = "index long, seconds double, result binary"

_RAISED = re.compile(r"[A-Za-z_.]+(Error|Exception|Exit): (?!.*Traceback)")
_LOGGING = Path(__file__).with_name("log4j2.properties")

_EMBEDDED = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
}
_EVERYWHERE = {
    "spark.python.unix.domain.socket.enabled": "true",  # over TCP each task waits some 40 ms
    "spark.python.unix.domain.socket.dir": "/tmp",  # the path of a socket must be short
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
}


def open_session(master: str | None = None, *, conf: Mapping[str, str] | None = None) -> SparkSession:
    """The session that is active, else a new one on `master` (default: all cores of this machine).

    An embedded one needs no Java installed (`engine.java`). Workers use the interpreter of this process.
    Raises UsageError where pyspark or a Java is missing, StoreError where Spark does not start.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UsageError("Spark is not installed: run pip install 'rocketfsck[spark]'") from error
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ["JAVA_HOME"] = str(java_home(find_java()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    url = _with_retries(master or "local[*]")
    settings = dict(_EVERYWHERE)
    if url.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= _EMBEDDED
    builder = SparkSession.builder.appName("rocketfsck").master(url)
    for name, value in (settings | dict(conf or {})).items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        raise StoreError(f"Spark does not start: {error}", path=url) from error


def _with_retries(master: str) -> str:
    """`local[4]` as `local[4,4]`: a worker that dies is then replaced, as on a cluster."""
    if master == "local":
        return f"local[1,{LOCAL_RETRIES}]"
    if master.startswith("local[") and "," not in master:
        return f"{master[:-1]},{LOCAL_RETRIES}]"
    return master


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Tasks on a Spark session. `partitions` is how many parts they are put in (default: one each)."""

    session: SparkSession
    partitions: int = 0

    @property
    def job_count(self) -> int:
        """How many tasks run at once, as far as the session tells."""
        return max(int(self.session.sparkContext.defaultParallelism), 1)

    def run(
        self,
        kernel: Callable[[Task], Result],
        tasks: Sequence[Task],
        *,
        deadline: float | None = None,
    ) -> Iterator[Outcome[Task, Result]]:
        """Yield one `Outcome` a task; see `seam.Engine.run`.

        What raises in a kernel, on its last attempt, raises StoreError here. `deadline` is a
        `time.monotonic()` value of this process.
        """
        if not tasks:
            return
        from pyspark.errors import PySparkException

        last_time = None if deadline is None else time.time() + deadline - time.monotonic()
        job = _Job(pickle.dumps((kernel, list(tasks)), pickle.HIGHEST_PROTOCOL), last_time)
        parts = min(self.partitions or len(tasks), len(tasks))
        rows = self.session.range(0, len(tasks), 1, parts).mapInArrow(job, RESULT_SCHEMA)
        try:
            found = rows.collect()
        except PySparkException as error:
            raise StoreError(f"the job failed: {_reason(error)}", path="spark") from error
        for row in found:
            result = None if row["result"] is None else pickle.loads(row["result"])
            yield Outcome(row["index"], tasks[row["index"]], result, row["seconds"])


def _reason(error: Exception) -> str:
    """What a worker raised, out of the stacks of two languages; else the error's first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    return (raised or lines or [type(error).__name__])[-1 if raised else 0]


class _Job:
    """The function that runs on workers."""

    def __init__(self, payload: bytes, last_time: float | None) -> None:
        self.payload = payload
        self.last_time = last_time

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        _settle()
        kernel, tasks = pickle.loads(self.payload)
        for batch in batches:
            for index in batch.column(0).to_pylist():
                result, seconds = self._run(kernel, tasks[index])
                columns: list[Any] = [[index], [seconds], [result]]
                types = (pa.int64(), pa.float64(), pa.binary())
                arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, ["index", "seconds", "result"])

    def _run(self, kernel: Callable[[Any], Any], task: Any) -> tuple[bytes | None, float]:
        if self.last_time is not None and time.time() >= self.last_time:
            return None, 0.0
        started = time.monotonic()
        result = kernel(task)
        return pickle.dumps(result, pickle.HIGHEST_PROTOCOL), time.monotonic() - started


_settled = False


def _settle() -> None:
    """Once a worker: what is loaded by now stays, and needs no look by the collection after every task."""
    global _settled
    if not _settled:
        gc.collect()
        gc.freeze()
        _settled = True
