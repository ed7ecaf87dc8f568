"""What a GiB costs on Spark: processor time of one command on two sizes of store, in a session that is warm.

    python -m benchmarks.sparkslope MASTER ROUNDS COMMAND SMALL LARGE [BUILT]     MASTER: none, local[2]

Prints JSON: processor seconds of the start (the session and a first task on every core; nothing without
Spark), of the first run, of the least of the later runs on each store, and the JVM's part of the latter. What
a start, the loading of modules and kernels and a cold JVM cost is in the start and the first run, once,
however large a store is; the difference between two sizes is what its bytes cost.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rocketfsck.cli.app import run

from benchmarks import queues
from benchmarks.measure import Row
from benchmarks.sparkjob import COUNT, counted, cpu_seconds, opened

ABOUT = """\
Written by `python -m benchmarks spark-slope`; not edited. Processor time, user and system, of all processes
of a command: its Python, the JVM and the Pythons of the executor. Files are in the page cache, kernels were
compiled before. Stores are those of `rocketfsck write --synth plain,zipf=0` with messages of 1 KiB in 5
commit log files, of 1 and 4 GiB.

- *a GiB*: a third of the difference between 4 GiB and 1 GiB. Least times of {rounds} rounds (3 at most), by
  turns, in a session, or in a process without Spark, that has run the command before. The goal is of these
  rows: what a start costs does not depend on the store.
- *whole*: the store of 4 GiB in such a session, against such a process.
- *once*: the session's start (`getOrCreate` and a first task on every core) and what the first run of a
  command takes more than a later one: modules and kernels in each process of the executor, the plan, and a
  JVM whose code is not compiled yet. Against what the first run in a process without Spark takes more.
- *check*: every rule, and the verdict; *rebuild*: all queues and index files; *export*: messages with their
  bodies to Parquet, by topic and day; *topics*: messages counted by topic: `groupBy("topic").count()` of the
  data source, or its column `topic` read and counted in one process, on two threads.
- *on Spark*: an embedded session of two slots; without Spark: two threads.
"""
GIB = 1 << 30
SIZES = (1, 4)
"""Of the two stores, in GiB."""
GOALS = {"check": 1.3, "rebuild": 1.5, "export": 1.5, "topics": 1.5}
QUEUE_COUNTS = (32, 10_000)
FILE_COUNT = 5


def slope_rows(folder: Path, unit: int, rounds: int, *, with_goals: bool) -> Iterator[Row]:
    """The rows of all commands and numbers of queues, of stores of 1 and 4 `unit` bytes of log."""
    built = folder / "slope-built"
    for count in QUEUE_COUNTS:
        stores = [queues.store_of(folder, size * unit, count, FILE_COUNT) for size in SIZES]
        for name, goal in GOALS.items():
            local, spark = (_took(master, rounds, name, stores, built) for master in ("none", "local[2]"))
            yield from _rows(f"{name}, {count:,} queues", local, spark, goal if with_goals else None)


def _rows(name: str, local: dict[str, Any], spark: dict[str, Any], goal: float | None) -> Iterator[Row]:
    more = SIZES[1] - SIZES[0]
    ours, theirs = ((one["large"] - one["small"]) / more for one in (spark, local))
    jvm = (spark["large_jvm"] - spark["small_jvm"]) / more
    yield Row(
        f"{name}: a GiB", ours * 1e3, f"without Spark, {theirs:.2f} s", ours / theirs, goal,
        rate=f"JVM {jvm:.2f} s",
    )  # fmt: skip
    yield Row(
        f"… whole, {SIZES[1]} GiB", spark["large"] * 1e3, f"without Spark, {local['large']:.2f} s",
        spark["large"] / local["large"], rate=f"JVM {spark['large_jvm']:.2f} s",
    )  # fmt: skip
    once, once_local = (one["start"] + one["first"] - one["small"] for one in (spark, local))
    yield Row(
        "… once", once * 1e3, f"without Spark, {once_local:.2f} s", once / once_local,
        rate=f"start {spark['start']:.1f} s",
    )  # fmt: skip


def _took(master: str, rounds: int, name: str, stores: list[Path], built: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.sparkslope", master, str(rounds), name, *map(str, stores)]
    done = subprocess.run(
        [*command, str(built)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
        env=dict(os.environ),
    )
    for root in built.parent.glob(f"{built.name}*"):
        shutil.rmtree(root, ignore_errors=True)
    try:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}") from error
    return found


def measured(master: str, rounds: int, name: str, stores: list[str], built: str) -> dict[str, float]:
    """Run a command on both stores, again and again: what it took."""
    before = cpu_seconds()
    session, jvm_pid = opened(master)
    found = {"start": cpu_seconds() - before}
    small, large = stores
    found["first"], _ = _cost(session, jvm_pid, name, small, built)
    for number in range(rounds):
        for size, root in (("small", small), ("large", large)):
            cpu, jvm = _cost(session, jvm_pid, name, root, f"{built}-{number}-{size}")
            if cpu < found.get(size, float("inf")):
                found[size], found[f"{size}_jvm"] = cpu, jvm
    if session is not None:
        session.stop()
    return found


def _cost(session: Any, jvm_pid: int, name: str, root: str, built: str) -> tuple[float, float]:
    """Processor seconds of all processes, and of the JVM. Raises RuntimeError where the command fails."""
    at_work = ["--jobs", "2"] if session is None else ["--engine", "spark"]
    arguments = {
        "check": ["check", root],
        "rebuild": ["rebuild", "all", root, "--into", built, "--no-sync"],
        "export": ["export", root, "--into", built],
        "topics": [COUNT, root],
    }[name]
    before, before_jvm = cpu_seconds(), cpu_seconds(jvm_pid) if jvm_pid else 0.0
    with contextlib.redirect_stdout(io.StringIO()):
        status = counted(session, root) if name == "topics" else run([*arguments, *at_work])
    if status:
        raise RuntimeError(f"{name} of {root}: exit status {status}")
    return cpu_seconds() - before, (cpu_seconds(jvm_pid) if jvm_pid else 0.0) - before_jvm


if __name__ == "__main__":
    place, count, what, low, high, into = sys.argv[1:]
    print(json.dumps(measured(place, int(count), what, [low, high], into)))
