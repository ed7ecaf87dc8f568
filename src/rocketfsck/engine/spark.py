"""Runs kernels on Spark: one row of a range is one task, and its result comes back as bytes.

    range(n) -> mapInArrow: (index) -> (index, seconds, result as a pickle, error as a pickle)

Nothing of a store travels but paths: a worker opens the files itself, so all of them must see the store under
the same path. Kernel and tasks go out once, as a broadcast that every worker process reads once (with Spark
Connect, which has none, each job takes its own); results are small by contract (`docs/adr/0004`) and come
back in waves of jobs, so that the driver never holds those of all tasks. Same kernels, same results as
`LocalEngine`, in whatever order they come.
"""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocketfsck.engine.guard import explained, guarded
from rocketfsck.engine.seam import Outcome, Result, Task, bound
from rocketfsck.engine.session import attempt_count, is_embedded, open_session, spark_context
from rocketfsck.engine.worker import RESULT_SCHEMA, RUNNER
from rocketfsck.progress import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkEngine", "open_session"]

WAVES = 2
"""Jobs at once: the next one's tasks run where the last one's leave cores free."""
TASKS_A_CORE = 8
LOOK_SECONDS = 1.0
"""Between two looks at what Spark says of its tasks."""
LEAST_TASKS = 64
"""A wave is at least so many tasks, and `TASKS_A_CORE` for every core: a job costs some 0.2 s."""


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Tasks on a Spark session. `partitions` is how many parts they are put in (default: one each).

    `paths` are what every executor must see, or the run fails with a clear error before anything is read.
    """

    session: SparkSession
    partitions: int = 0
    paths: tuple[str, ...] = ()

    @property
    def job_count(self) -> int:
        """How many tasks run at once, as far as the session tells."""
        context = spark_context(self.session)
        if context is not None:
            return max(int(context.defaultParallelism), 1)
        return max(
            int(self.session.range(1 << 10).selectExpr("spark_partition_id() AS p").distinct().count()), 1
        )

    def run(
        self, kernel: Callable[[Task], Result], tasks: Sequence[Task], *, deadline: float | None = None
    ) -> Iterator[Outcome[Task, Result]]:
        """Yield one `Outcome` a task; see `seam.Engine.run`.

        A RocketfsckError of a kernel is raised as it is, whatever else one raises is a StoreError. A
        StoreError that may pass (`errors.may_pass`), raised or returned by a kernel, counts only if it comes
        again at the last of the attempts that Spark is set to make. `deadline` is a `time.monotonic()` value
        of this process; executors go by their clocks.

        Raises UsageError for executors that cannot run the package, StoreError for those that do not see
        `paths`, and for a task whose worker died on every attempt.
        """
        if not tasks:
            return
        last_time = None if deadline is None else time.time() + deadline - time.monotonic()
        wave = len(tasks) if self.partitions else max(LEAST_TASKS, TASKS_A_CORE * self.job_count)
        job = _SparkJob(self, bound(kernel), tasks, last_time, f"rocketfsck-{uuid.uuid4()}")
        waiting = iter(range(0, len(tasks), wave))
        with ThreadPoolExecutor(max_workers=WAVES) as pool:
            running: set[Future[list[Any]]] = set()
            try:
                while True:
                    while len(running) < WAVES and (first := next(waiting, None)) is not None:
                        last = min(first + wave, len(tasks))
                        if last_time is not None and first and time.time() >= last_time:
                            yield from (
                                Outcome(index, tasks[index], None, 0.0) for index in range(first, last)
                            )
                            continue
                        running.add(pool.submit(job.collect, first, last))
                    if not running:
                        return
                    done, running = wait(running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
                    say(tasks_done(self.session))
                    for future in done:
                        yield from _outcomes(future.result(), tasks)
            finally:
                say("")
                job.close(running)


def tasks_done(session: SparkSession) -> str:
    """How many tasks of the stages that run are done, in words; "" where the session does not tell."""
    from py4j.protocol import Py4JError  # what pyspark has no class of its own for

    context = spark_context(session)
    if context is None:
        return ""
    try:
        tracker = context.statusTracker()
        found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Py4JError:
        return ""
    stages = [stage for stage in found if stage is not None]
    count = sum(stage.numTasks for stage in stages)
    return f"Spark: {sum(stage.numCompletedTasks for stage in stages)} of {count} tasks" if count else ""


def _outcomes(rows: list[Any], tasks: Sequence[Task]) -> Iterator[Outcome[Task, Any]]:
    for row in rows:
        if row["error"] is not None:
            raise pickle.loads(row["error"])
        result = None if row["result"] is None else pickle.loads(row["result"])
        yield Outcome(row["index"], tasks[row["index"]], result, row["seconds"])


@dataclass
class _SparkJob:
    """The Spark jobs of one run, all under one tag."""

    engine: SparkEngine
    kernel: Callable[[Any], Any]
    tasks: Sequence[Any]
    last_time: float | None
    tag: str

    def __post_init__(self) -> None:
        session, work = self.engine.session, (self.kernel, dict(enumerate(self.tasks)))
        self.context = spark_context(session)
        self.shared = None if self.context is None else self.context.broadcast(work)
        self.attempts = attempt_count(session)
        self.paths = () if is_embedded(session) else self.engine.paths

    def collect(self, first: int, last: int) -> list[Any]:
        """Run the tasks from `first` to before `last`: their rows."""
        from py4j.protocol import Py4JError  # what pyspark has no class of its own for
        from pyspark.errors import PySparkException

        session, work = self.engine.session, self.shared or self._pickled(first, last)
        parts = min(self.engine.partitions or last - first, last - first)
        function = guarded(RUNNER, (work, self.last_time, self.attempts), self.paths)
        self._tag_thread()
        try:
            return session.range(first, last, 1, parts).mapInArrow(function, RESULT_SCHEMA).collect()
        except (PySparkException, Py4JError) as error:
            raise explained(error) from error

    def close(self, running: set[Future[list[Any]]]) -> None:
        """End what still runs, and forget what was sent."""
        from py4j.protocol import Py4JError  # what pyspark has no class of its own for
        from pyspark.errors import PySparkException

        with suppress(PySparkException, Py4JError):
            while running:  # a job that a thread is just about to start is ended the next time
                if self.context is None:
                    self.engine.session.interruptTag(self.tag)
                else:
                    self.context.cancelJobsWithTag(self.tag)
                _, running = wait(running, timeout=0.5)
            if self.shared is not None:
                self.shared.destroy()

    def _tag_thread(self) -> None:
        """Name what this thread starts; of a session's tags only the thread knows that has set them."""
        if self.context is None:
            self.engine.session.addTag(self.tag)
        else:
            self.context.addJobTag(self.tag)
            self.context.setInterruptOnCancel(True)

    def _pickled(self, first: int, last: int) -> bytes:
        work = (self.kernel, {index: self.tasks[index] for index in range(first, last)})
        return pickle.dumps(work, pickle.HIGHEST_PROTOCOL)
