"""What is measured of Spark: commands on two slots of this machine, and on clusters of one and two workers.

Every figure is of a process of its own, started when the files are in the page cache and the kernels are
compiled. The time of a command leaves out the session's start, which has a row of its own. Executors of the
cluster are kept to a core each, so that one worker is one core, and two are two.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.commands import TOOL, run
from benchmarks.measure import Row
from tests.spark.cluster import standalone_cluster

ABOUT = """\
Written by `python -m benchmarks spark`; not edited. Least times of {rounds} rounds (3 at most), each command
in a process of its own, files in the page cache, kernels compiled before. The time of a command leaves out
the session's start (`getOrCreate` and a first task on every core), which stands beside it.

- *check*: every rule at the level `full`; *rebuild*: all queues and index files; *export*: Parquet without
  bodies. All of a store of `rocketfsck write --synth plain` in commit log files of 1 GiB.
- *topics*: messages counted by topic: `groupBy("topic").count()` of the data source, or its column `topic`
  read and counted in one process.
- *on local[2]*: an embedded session of two slots, against two threads of the same command without Spark.
- *cluster*: a standalone master and workers of one core each, every one kept to a core of its own.
- *driver*: its Python (findings and summaries), and its JVM, which is the executor, too, and has a heap of
  1 GiB. The Pythons of the executor, which read the store, are processes of their own.
"""
GIB = 1 << 30
SHARE_OF_MEMORY = 10
EMBEDDED_GOAL = 1.5
MEMORY_GOAL = 1.25
WORKERS_GOAL = 1.6


def spark_rows(folder: Path, size: int, rounds: int, *, with_goals: bool) -> Iterator[Row]:
    """Check, rebuild and export of a store of `size` bytes of log, which is made, and deleted in the end."""
    segment = GIB if size >= SHARE_OF_MEMORY * GIB else size // SHARE_OF_MEMORY
    root, part = folder / f"spark-{size}", folder / f"spark-{size // SHARE_OF_MEMORY}"
    made = Path(tempfile.mkdtemp(prefix="made-", dir=folder))
    try:
        _make(root, size, segment)
        _make(part, size // SHARE_OF_MEMORY, segment)
        yield from _embedded_rows(root, part, made, rounds, with_goals)
        yield from _cluster_rows(root, made, rounds, with_goals)
    finally:
        for path in (root, part, made):
            shutil.rmtree(path, ignore_errors=True)


def _embedded_rows(root: Path, part: Path, made: Path, rounds: int, with_goals: bool) -> Iterator[Row]:
    size = f"{sum(path.stat().st_size for path in (root / 'commitlog').iterdir()) / GIB:.1f} GiB of log"
    checked: dict[str, Any] = {}
    for name, arguments in {**_commands(root, made), "topics": ["count-topics", str(root)]}.items():
        took = _least(
            {
                "local": partial(_took, "none", [*arguments, "--jobs", "2"]),
                "spark": partial(_took, "local[2]", arguments),
            },
            rounds,
        )
        local, spark = took["local"], took["spark"]
        checked = checked or spark
        yield Row(
            f"{name} of {size}, Spark on local[2]",
            spark["seconds"] * 1e3,
            f"two threads, {local['seconds']:.1f} s",
            spark["seconds"] / local["seconds"],
            EMBEDDED_GOAL if with_goals and name == "check" else None,
            rate=f"session {spark['session']:.1f} s",
        )
        yield Row(
            f"… processor time of {name}",
            spark["cpu"] * 1e3,
            f"without Spark, {local['cpu']:.1f} s",
            spark["cpu"] / local["cpu"],
        )
    small = _took("local[2]", _commands(part, made)["check"])
    for name, what in (("python", "Python"), ("jvm", "JVM, which runs the executor, too")):
        yield Row(
            f"… peak memory of the driver: {what}",
            checked["seconds"] * 1e3,
            f"a store of a tenth, {small[name] >> 20} MiB",
            checked[name] / small[name],
            MEMORY_GOAL if with_goals and name == "python" else None,
            rate=f"{checked[name] >> 20} MiB",
        )


def _cluster_rows(root: Path, made: Path, rounds: int, with_goals: bool) -> Iterator[Row]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return
    found: dict[int, dict[str, Any]] = {}
    with standalone_cluster(made / "cluster", 1, core=cores[0]) as cluster:
        for workers in (1, 2):
            if workers == 2:
                cluster.start_workers("worker2", core=cores[1])
            found[workers] = {
                name: _least(
                    {"spark": partial(_took, cluster.url, arguments, cluster.environment)},
                    rounds,
                )["spark"]
                for name, arguments in _commands(root, made).items()
            }
    for name, two in found[2].items():
        one = found[1][name]
        yield Row(
            f"{name}, a cluster of two workers",
            two["seconds"] * 1e3,
            f"throughput of one worker, {one['seconds']:.1f} s",
            one["seconds"] / two["seconds"],
            WORKERS_GOAL if with_goals and name == "check" else None,
            at_least=True,
        )


def _commands(root: Path, made: Path) -> dict[str, list[str]]:
    return {
        "check": ["check", str(root)],
        "rebuild": ["rebuild", "all", str(root), "--into", str(made / "built"), "--no-sync"],
        "export": ["export", str(root), "--into", str(made / "exported"), "--no-bodies"],
    }


def _least(jobs: dict[str, Callable[[], dict[str, Any]]], rounds: int) -> dict[str, dict[str, Any]]:
    """What each job's quickest round took; the first round of all is not counted."""
    taken: dict[str, list[dict[str, Any]]] = {name: [] for name in jobs}
    for _ in range(rounds + 1):
        for name, job in jobs.items():
            taken[name].append(job())
    return {name: min(found[1:], key=lambda one: one["seconds"]) for name, found in taken.items()}


def _took(master: str, arguments: list[str], environment: dict[str, str] | None = None) -> dict[str, Any]:
    if "--into" in arguments:
        shutil.rmtree(arguments[arguments.index("--into") + 1], ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.sparkjob", master, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=Path(__file__).parents[1],
    )
    try:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise RuntimeError(f"{' '.join(arguments)} on {master}: {done.stderr}") from error
    if found["status"]:
        raise RuntimeError(f"{' '.join(arguments)} on {master}: exit status {found['status']}: {done.stderr}")
    return found


def _make(root: Path, size: int, segment: int) -> None:
    if not root.exists():
        made_up = ("--synth", "plain", "--size", str(size), "--commitlog-file-size", str(segment))
        run((*TOOL, "write", *made_up, "--no-sync", "--manifest", "none", "--into", str(root)))
