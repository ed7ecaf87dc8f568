"""What is measured of whole commands, each in a process of its own: time, processor time and memory.

A command is started by a small process: the peak that Linux reports of a child counts what its parent had
in memory, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from rocketfsck.store import open_store
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.run import check_store

from benchmarks.measure import Row, Yardstick, interleaved

CPU_GOAL = 0.35
HELP_GOAL = 5.0
MEMORY_GOAL = 512 << 20
SMALL_STORE = Path(__file__).parents[1] / "tests" / "data" / "stores" / "5.3.3-basic.tar.xz"
TOOL = (sys.executable, "-m", "rocketfsck")
_RUNNER = """
import json, os, sys, time
started = time.perf_counter()
silent = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_WRONLY, 0) for descriptor in (1, 2)]
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=silent)
_, status, used = os.wait4(child, 0)
seconds = time.perf_counter() - started
cpu = used.ru_utime + used.ru_stime
print(json.dumps([os.waitstatus_to_exitcode(status), seconds, cpu, used.ru_maxrss << 10]))
"""


@dataclass(frozen=True, slots=True)
class Used:
    """What a command took: seconds by the clock, seconds of all cores, and the most bytes in memory."""

    seconds: float
    cpu: float
    peak_size: int


def run(command: Sequence[str], exit_codes: Sequence[int] = (0,), **environment: str) -> Used:
    """Run a command to its end; raises if its exit status is not one of those expected."""
    done = subprocess.run(
        [sys.executable, "-c", _RUNNER, *command],
        capture_output=True,
        check=True,
        env=os.environ | environment,
    )
    code, seconds, cpu, peak = json.loads(done.stdout)
    if code not in exit_codes:
        raise RuntimeError(f"{' '.join(command)}: exit status {code}")
    return Used(seconds, cpu, peak)


def least(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, Used]:
    """Each command once a round; its least seconds and CPU, its greatest peak."""
    taken: dict[str, list[Used]] = {name: [] for name in commands}
    for _ in range(rounds + 1):
        for name, command in commands.items():
            taken[name].append(run(command))
    return {
        name: Used(
            min(used.seconds for used in all_used[1:]),
            min(used.cpu for used in all_used[1:]),
            max(used.peak_size for used in all_used),
        )
        for name, all_used in taken.items()
    }


def start_rows(folder: Path, rounds: int, goals: bool) -> Iterator[Row]:
    """Starting up: `--help` against a Python that does nothing, and what small files take."""
    store = small_store(folder)
    (log,) = sorted((store / "commitlog").iterdir())[:1]
    found = least(
        {
            "pass": (sys.executable, "-c", "pass"),
            "help": (*TOOL, "--help"),
            "info": (*TOOL, "info", str(store)),
            "dump": (*TOOL, "dump", str(log)),
        },
        rounds,
    )
    idle = found["pass"]
    yield Row(
        "rocketfsck --help",
        found["help"].seconds * 1e3,
        f"python -c pass, {idle.seconds * 1e3:.0f} ms",
        found["help"].seconds / idle.seconds,
        HELP_GOAL if goals else None,
    )
    for name, text in (("info", "info of a small store, CPU"), ("dump", "dump of a small file, CPU")):
        cpu = found[name].cpu
        share = cpu / CPU_GOAL
        yield Row(text, cpu * 1e3, f"{CPU_GOAL} s of CPU", share, 1.0 if goals else None)


def store_rows(folder: Path, size: int, rounds: int) -> Iterator[Row]:
    """The whole check of a store: log, consume queues and index of `size` bytes of made-up messages."""
    root = made_store(folder, size)
    store = open_store(root)
    queue_files = [file for queue in store.queues for file in queue.files]
    files = [*store.commitlog.files, *queue_files, *store.indexes]

    records = 0

    def check() -> None:
        nonlocal records
        report = check_store(store, CheckOptions(level="full"))
        records = report.checked["commitlog"].record_count
        if report.exit_code:
            raise RuntimeError(f"a store that was just written has findings: {sorted(report.counts)}")

    with ExitStack() as stack:
        yardsticks = [stack.enter_context(closing(Yardstick(file.path))) for file in files if file.size >= 8]

        def total() -> None:
            for yardstick in yardsticks:
                yardstick()

        found = interleaved({"sum": total, "check": check}, rounds)
    yield Row(
        f"whole check of a store of {size >> 20} MiB of log, all cores",
        found["check"] * 1e3,
        f"sum of all files, {found['sum'] * 1e3:.1f} ms",
        found["check"] / found["sum"],
        rate=f"{records / found['check'] / 1e6:.1f} M records/s",
    )


def memory_rows(folder: Path, size: int, goals: bool) -> Iterator[Row]:
    """The most memory that a check takes."""
    stores = (
        (f"check of a store of {size >> 20} MiB of log", made_store(folder, size), (0,)),
        (f"check of a log of {size >> 24} GiB, all holes", sparse_store(folder, 64 * size), (0, 2, 4, 6)),
    )
    for text, root, exit_codes in stores:
        used = run((*TOOL, "check", "--level", "full", str(root)), exit_codes)
        share = used.peak_size / MEMORY_GOAL
        yield Row(
            f"peak memory, {text}",
            used.seconds * 1e3,
            f"{MEMORY_GOAL >> 20} MiB",
            share,
            1.0 if goals else None,
            rate=f"{used.peak_size >> 20} MiB",
        )


def made_store(folder: Path, size: int) -> Path:
    """A store of plain made-up messages, as the command `write` makes it; made if it is not there."""
    root = folder / f"store-{size}"
    if not root.exists():
        made_up = ("--synth", "plain", "--size", str(size))
        run((*TOOL, "write", *made_up, "--no-sync", "--manifest", "none", "--into", str(root)))
    return root


def sparse_store(folder: Path, size: int) -> Path:
    """A commit log of 64 files without a byte on the disk; made if it is not there."""
    root = folder / f"store-sparse-{size}"
    log = root / "commitlog"
    log.mkdir(parents=True, exist_ok=True)
    for start in range(0, size, size // 64):
        with (log / f"{start:020d}").open("ab") as file:
            file.truncate(size // 64)
    return root


def small_store(folder: Path) -> Path:
    """A store that a broker wrote, of the tests; unpacked if it is not there."""
    root = folder / "small"
    if not root.exists():
        with tarfile.open(SMALL_STORE) as archive:
            archive.extractall(root, filter="data")
    return next(path.parent for path in sorted(root.rglob("commitlog")))
