"""The memory of a driver: jobs over 10 and over 500 stores of real brokers, on a cluster of its own.

The stores are those of tests/data/stores and tests/data/real, each many times by hard links. Memory is what
the kernel says of the driver's processes (`VmHWM`), its Python and its Java, and what was left in Java's heap
after the fullest collection.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Row
from tests.conftest import DATA, REAL_NAMES, STORE_NAMES
from tests.spark.cluster import Cluster, standalone_cluster

ABOUT = """\
Written by `python -m benchmarks driver`; not edited. Jobs over stores that real brokers wrote (those of
tests/data/stores and tests/data/real, each many times by hard links), one command each, on a standalone
master with two workers; the driver is a process of its own. The yardstick is the same job over 10 stores.

- *Python*: the most memory that the driver's Python had (`VmHWM`); it keeps a row for each store.
- *Java*: the same of the driver's Java, whose heap is limited to 512 MiB; *heap*: what was left in it after
  the fullest collection.
- *in shares*: every store is cut into tasks, as stores of more than 2 GiB are.
"""
COUNTS = (10, 500)
GOAL = 1.25
MIB = 1 << 20
_SHARES = """
import sys
from rocketfsck.pipeline.fleet import stages as driver
driver.WHOLE_WEIGHT = 0
from rocketfsck.cli.app import run
sys.exit(run(sys.argv[1:]))
"""
_LEFT = re.compile(r"->(\d+)M\(")


@dataclass(frozen=True, slots=True)
class Used:
    """Bytes of the driver's Python, of its Java, and of what is left in Java's heap."""

    python: int
    java: int
    heap: int
    seconds: float


def driver_rows(folder: Path, counts: tuple[int, ...] = COUNTS, *, with_goals: bool) -> Iterator[Row]:
    """Rows for each job and each number of stores."""
    work = Path(tempfile.mkdtemp(prefix="driver-", dir=folder))
    try:
        _unpack(work / "once")
        for count in counts:
            _link_fleet(work / "once", work / f"fleet-{count}", count)
        with standalone_cluster(work / "cluster") as cluster:
            for name in ("check", "check in shares", "rebuild"):
                found = {count: _used(cluster, name, work, count) for count in counts}
                yield from _rows(name, found, counts, with_goals)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _rows(name: str, found: dict[int, Used], counts: tuple[int, ...], with_goals: bool) -> Iterator[Row]:
    for part in ("python", "java", "heap"):
        least = getattr(found[counts[0]], part)
        for count in counts[1:]:
            used = getattr(found[count], part)
            yield Row(
                f"{name} of {count} stores, {part.capitalize() if part != 'heap' else part}",
                found[count].seconds * 1e3,
                f"{least / MIB:.1f} MiB with {counts[0]}",
                used / least,
                GOAL if with_goals and part == "python" else None,
                rate=f"{used / MIB:.1f} MiB",
            )


def _unpack(folder: Path) -> None:
    for area, names in (("stores", STORE_NAMES), ("real", REAL_NAMES)):
        for name in names:
            with tarfile.open(DATA / area / f"{name}.tar.xz") as archive:
                archive.extractall(folder, filter="tar")


def _link_fleet(once: Path, fleet: Path, count: int) -> None:
    stores = sorted(path for path in once.iterdir() if (path / "store").is_dir())
    for number in range(count):
        shutil.copytree(
            stores[number % len(stores)] / "store",
            fleet / f"broker-{number:03}" / "store",
            copy_function=os.link,
            symlinks=True,
        )


def _used(cluster: Cluster, name: str, work: Path, count: int) -> Used:
    """What a job over so many stores takes."""
    made = Path(tempfile.mkdtemp(prefix="made-", dir=work))
    log, said = made / "gc", made / "said"
    command, _, shares = name.partition(" ")
    arguments = {
        "check": ["--tables", str(made / "tables"), "--quiet"],
        "rebuild": ["all", "--into", str(made / "built"), "--no-sync", "--format", "json"],
    }[command]
    if command == "rebuild":
        arguments = [arguments[0], str(work / f"fleet-{count}" / "broker-*"), *arguments[1:]]
    else:
        arguments = [str(work / f"fleet-{count}" / "broker-*"), *arguments]
    program = ["-c", _SHARES] if shares else ["-m", "rocketfsck"]
    line = [sys.executable, *program, command, *arguments, "--engine", "spark", "--master", cluster.url]
    line += ["--spark-conf", "spark.driver.memory=512m"]
    line += ["--spark-conf", f"spark.driver.extraJavaOptions=-XX:+UseSerialGC -Xlog:gc:file={log}"]
    started = time.perf_counter()
    with said.open("wb") as stream:
        driver = subprocess.Popen(line, env=cluster.environment, stdout=stream, stderr=stream)
        peaks: dict[str, int] = {}
        while driver.poll() is None:
            for pid in _family(driver.pid):
                kind, peak = _peak(pid)
                peaks[kind] = max(peaks.get(kind, 0), peak)
            time.sleep(0.2)
    seconds = time.perf_counter() - started
    if driver.returncode & ~(4 | 8):
        raise RuntimeError(said.read_text("utf-8", "replace"))
    left = [int(size) for size in _LEFT.findall(log.read_text("utf-8", "replace"))]
    shutil.rmtree(made, ignore_errors=True)
    return Used(peaks["python"], peaks["java"], max(left, default=1) * MIB, seconds)


def _family(pid: int) -> list[int]:
    """A process and its Java, as its children are found (the launcher may be between)."""
    found = [pid]
    for parent in found:
        try:
            text = Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii")
        except OSError:
            continue
        found += map(int, text.split())
    return found


def _peak(pid: int) -> tuple[str, int]:
    """What a process is, and its peak in bytes."""
    try:
        text = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
    except OSError:
        return "other", 0
    name, peak = re.search(r"Name:\s*(\S+)", text), re.search(r"VmHWM:\s*(\d+) kB", text)
    kind = name[1] if name else ""
    kind = "java" if kind == "java" else "python" if kind.startswith(("python", "pytest")) else "other"
    return kind, int(peak[1]) << 10 if peak else 0
