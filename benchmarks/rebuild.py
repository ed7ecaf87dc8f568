"""What is measured of rebuilding: the whole command against the sum of the bytes, and the real broker's own.

The broker's store code (5.3.3, by the oracle of the tests) opens the same log without queues and index, which
makes it write both; its time is that of its loading and dispatching, without the start of the JVM. Then its
files and ours must be the same.
"""

from __future__ import annotations

import filecmp
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from rocketfsck.store import open_store

from benchmarks.commands import TOOL, made_store, run
from benchmarks.measure import Row, Yardstick

VERSION = "5.3.3"
ORACLE_BUILD = Path(__file__).parents[1] / "tests" / "oracle" / "build"
JAVA_SOURCE = Path(__file__).parent / "java" / "rocketfsck" / "oracle" / "Rebuild.java"
JVM_FLAGS = (
    "-Xmx1g",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.999",
    "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.999",
)
SETTINGS = {
    "haListenPort": 0,
    "diskMaxUsedSpaceRatio": 95,
    "cleanFileForciblyEnable": False,
    "fileReservedTime": 876_000,
}
GOALS = {1: 3.0, 4: 6.0}
"""How many times faster than the broker, by GiB of log."""


def rebuild_rows(folder: Path, size: int, rounds: int, *, with_goals: bool) -> Iterator[Row]:
    """Logs of one and four times `size`: the command, and where it can be had, the broker."""
    broker = None if not with_goals else broker_command(folder)
    for times, goal in GOALS.items():
        yield from _rows(folder, times * size, rounds, broker, goal if with_goals else None)


def _rows(
    folder: Path, size: int, rounds: int, broker: list[str] | None, goal: float | None
) -> Iterator[Row]:
    root = made_store(folder, size)
    store = open_store(root)
    target = folder / f"rebuilt-{size}"
    command = (*TOOL, "rebuild", "all", str(root), "--into", str(target), "--no-sync")
    ours = cpu = broker_seconds = broker_cpu = total = float("inf")
    log = folder / f"broker-{size}"
    with ExitStack() as stack:
        used_files = [file for file in store.commitlog.files if file.allocated_size]  # the last may be a hole
        yardsticks = [stack.enter_context(closing(Yardstick(file.path))) for file in used_files]
        for number in range(max(rounds // 2, 1) + 1):
            shutil.rmtree(target, ignore_errors=True)
            used = run(command)
            total = min(total, _seconds_of(yardsticks))
            if broker is not None:
                seconds, processor = _run_broker(broker, root, log)
                broker_seconds, broker_cpu = min(broker_seconds, seconds), min(broker_cpu, processor)
                _must_be_the_same(log, target)
            if number:
                ours, cpu = min(ours, used.seconds), min(cpu, used.cpu)
    name = f"rebuild of queues and index, {size >> 20} MiB of log, whole command"
    yield Row(
        name, ours * 1e3, f"sum of the log, {total * 1e3:.1f} ms", ours / total, rate=f"{cpu:.2f} s of CPU"
    )
    if broker is not None:
        yield Row(
            "… speed of the real broker's own rebuild",
            ours * 1e3,
            f"{broker_seconds:.2f} s, {broker_cpu:.2f} s of CPU",
            broker_seconds / ours,
            goal,
            at_least=True,
        )
    for made in (target, log):
        shutil.rmtree(made, ignore_errors=True)


def _seconds_of(yardsticks: list[Yardstick]) -> float:
    started = time.perf_counter()
    for yardstick in yardsticks:
        yardstick()
    return time.perf_counter() - started


def broker_command(folder: Path) -> list[str] | None:
    """What runs the broker's rebuild; None where there is no JDK or Maven cannot get the store code."""
    if any(shutil.which(name) is None for name in ("java", "javac", "mvn")):
        return None
    built = subprocess.run([str(ORACLE_BUILD), VERSION], capture_output=True, text=True, check=False)
    if built.returncode:
        return None
    home = Path(built.stdout.strip())
    libraries = f"{home / 'oracle.jar'}:{(home / 'classpath').read_text('utf-8').strip()}"
    classes = folder / "broker-classes"
    subprocess.run(["javac", "-cp", libraries, "-d", str(classes), str(JAVA_SOURCE)], check=True)
    return ["java", *JVM_FLAGS, "-cp", f"{classes}:{libraries}", "rocketfsck.oracle.Rebuild"]


def _run_broker(command: list[str], root: Path, store: Path) -> tuple[float, float]:
    """The broker's seconds and CPU seconds over a copy of the log, which it may write to."""
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(root / "commitlog", store / "commitlog")
    job = {"store": str(store), "settings": SETTINGS, "batchTopics": [], "keys": []}
    done = subprocess.run([*command, json.dumps(job)], capture_output=True, text=True, check=True)
    seconds, cpu = json.loads(done.stdout.splitlines()[-1])
    return seconds, cpu


def _must_be_the_same(broker: Path, ours: Path) -> None:
    pairs = [(path, ours / path.relative_to(broker)) for path in (broker / "consumequeue").rglob("*")]
    names = sorted(path.name for path in (ours / "index").iterdir())
    pairs += zip(sorted((broker / "index").iterdir()), (ours / "index" / name for name in names), strict=True)
    for theirs, mine in pairs:
        if theirs.is_file() and not filecmp.cmp(theirs, mine, shallow=False):
            raise RuntimeError(f"{mine} is not what the broker wrote")
