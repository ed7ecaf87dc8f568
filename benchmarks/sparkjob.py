"""One command in a process of its own, in this process's Spark session or without one: what it took.

    python -m benchmarks.sparkjob MASTER ARGUMENTS...     MASTER: none, local[2], spark://host:7077

Prints JSON: seconds until the session has run a first task on every core, seconds of the command, bytes in
memory of this Python and of the JVM at their peaks. The session is the one that the command then finds.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from pathlib import Path
from typing import Any

from rocketfsck.cli.app import run
from rocketfsck.engine.spark import SparkEngine, open_session

_WAIT_FOR_ALL = {
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


def main(master: str, arguments: list[str]) -> dict[str, Any]:
    """Run a command; what it took."""
    started = time.perf_counter()
    session = None if master == "none" else open_session(master, conf=_WAIT_FOR_ALL)
    jvm_pid = 0
    if session is not None:
        engine = SparkEngine(session)
        list(engine.run(abs, range(4 * engine.job_count)))
        jvm_pid = int(session._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
        arguments = [*arguments, "--engine", "spark"]
    session_seconds = time.perf_counter() - started
    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        status = run(arguments)
    seconds = time.perf_counter() - started
    found = {
        "status": status,
        "session": session_seconds,
        "seconds": seconds,
        "python": _peak_size("self"),
        "jvm": _peak_size(jvm_pid) if jvm_pid else 0,
    }
    if session is not None:
        session.stop()
    return found


def _peak_size(pid: int | str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) << 10


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2:])))
