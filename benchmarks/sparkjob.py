"""One command in a process of its own, in this process's Spark session or without one: what it took.

    python -m benchmarks.sparkjob MASTER ARGUMENTS...     MASTER: none, local[2], spark://host:7077

Prints JSON: seconds until the session has run a first task on every core, seconds of the command and of all
its processors (of this Python, the JVM and its Pythons), bytes in memory of this Python and of the JVM at
their peaks. The session is the one that the command then finds. The command `count-topics STORE` counts the
messages of each topic, by the data source or by its columns alone.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rocketfsck.cli.app import run
from rocketfsck.engine import LocalEngine
from rocketfsck.engine.spark import SparkEngine, open_session

COUNT = "count-topics"
_TICKS = os.sysconf("SC_CLK_TCK")
_WAIT_FOR_ALL = {
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


def main(master: str, arguments: list[str]) -> dict[str, Any]:
    """Run a command; what it took."""
    started = time.perf_counter()
    is_count = arguments[0] == COUNT
    session, jvm_pid = opened(master)
    if session is not None and not is_count:
        arguments = [*arguments, "--engine", "spark"]
    session_seconds = time.perf_counter() - started
    started, used = time.perf_counter(), cpu_seconds()
    with contextlib.redirect_stdout(io.StringIO()):
        status = counted(session, arguments[1]) if is_count else run(arguments)
    seconds, used = time.perf_counter() - started, cpu_seconds() - used
    found = {
        "status": status,
        "session": session_seconds,
        "seconds": seconds,
        "cpu": used,
        "python": _peak_size("self"),
        "jvm": _peak_size(jvm_pid) if jvm_pid else 0,
    }
    if session is not None:
        session.stop()
    return found


def opened(master: str) -> tuple[Any, int]:
    """A session that has run a task on every core, and the process of its JVM; None and 0 for `none`."""
    if master == "none":
        return None, 0
    session = open_session(master, conf=_WAIT_FOR_ALL)
    engine = SparkEngine(session)
    list(engine.run(abs, range(4 * engine.job_count)))
    return session, int(session._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]


def counted(session: Any, store: str) -> int:
    """`SELECT topic, count(*) … GROUP BY topic` in the session, or the column read and counted here.

    Here on two threads, as a session has two slots.
    """
    if session is not None:
        from rocketfsck.pipeline import register

        register(session)
        frame = session.read.format("rocketmq").option("columns", "topic").load(store)
        frame.groupBy("topic").count().collect()
        return 0
    from rocketfsck.pipeline.sources import find_sources
    from rocketfsck.pipeline.views.model import WantedRows
    from rocketfsck.pipeline.views.table import plan_parts, read_part

    wanted = WantedRows(columns=("topic",))

    def count(part: Any) -> Counter[str | None]:
        topics = Counter[str | None]()
        for batch in read_part(part, wanted):
            topics.update({one["values"]: one["counts"] for one in batch["topic"].value_counts().to_pylist()})
        return topics

    parts = list(plan_parts("messages", find_sources([store]), wanted))
    sum((outcome.result or Counter() for outcome in LocalEngine(2).run(count, parts)), Counter())
    return 0


def cpu_seconds(pid: int | None = None) -> float:
    """Processor time of this process and all below it, those that ended there, too; or of one process."""
    used: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # a process that has ended meanwhile
            fields = path.read_text("utf-8", "replace").rpartition(")")[2].split()
            used[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    if pid is not None:
        return used[pid][1] / _TICKS if pid in used else 0.0
    ours = {os.getpid()}
    while more := {one for one, (parent, _) in used.items() if parent in ours and one not in ours}:
        ours |= more
    return sum(used[one][1] for one in ours if one in used) / _TICKS


def _peak_size(pid: int | str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) << 10


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2:])))
