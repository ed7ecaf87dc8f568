"""What many queues cost: check and rebuild of as many messages in 32, 1,000 and 10,000 queues.

    5 or 100 commit log files x 32, 1,000 or 10,000 queues x check or rebuild x in process or on local[2]

Processor time of all processes of a command, those of the JVM and its Pythons, too. What a queue costs by
itself is part of a figure; what it costs in every commit log file once more must not be.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from benchmarks.commands import TOOL, run
from benchmarks.measure import Row

ABOUT = """\
Written by `python -m benchmarks queues` (`queues-spark`); not edited. Least processor times of {rounds}
rounds (3 at most), of all processes of a command, by turns, files in the page cache, kernels compiled before.
Stores are those of `rocketfsck write --synth plain,zipf=0` with messages of 1 KiB, spread evenly over the
queues. The yardstick is the same command on the same messages in 32 queues.

- *check*: every rule at the level `full`, and the verdict; *rebuild*: all queues and index files.
- *bare loop*: 10,000 times `mkdir`, and one file in it made, given its length and one unit, closed, by the
  system's calls and nothing else, on the same file system. That much of a rebuild is the file system's.
- Each rebuild has a directory of its own, and all are deleted at the end: an ext4 without a journal looks at
  the inodes that were deleted in the last minutes, one by one, whenever it makes a file.
- *on Spark*: an embedded session of two slots, its start included.
"""
QUEUE_COUNTS = (32, 1_000, 10_000)
FILE_COUNTS = (5, 100)
GOAL = 2.0
TOPIC_COUNT = 8
_CPU = """
import ctypes, json, os, resource, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: a JVM outlives the Python that started it
silent = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_WRONLY, 0) for descriptor in (1, 2)]
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=silent)
code = None
while True:
    try:
        pid, status = os.wait()
    except ChildProcessError:
        break
    if pid == child:
        code = os.waitstatus_to_exitcode(status)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, used.ru_utime + used.ru_stime]))
"""


def queue_rows(folder: Path, size: int, rounds: int, *, spark: bool, with_goals: bool) -> Iterator[Row]:
    """The rows of all stores, each of `size` bytes of log; the stores are made if they are not there."""
    built = folder / "queues-built"
    shutil.rmtree(built, ignore_errors=True)
    built.mkdir(parents=True)
    numbers = count()
    place, extra = (" on Spark", ("--engine", "spark", "--master", "local[2]")) if spark else ("", ())
    for file_count in FILE_COUNTS:
        stores = {queues: store_of(folder, size, queues, file_count) for queues in QUEUE_COUNTS}
        for name in ("check", "rebuild"):
            taken = dict.fromkeys(stores, float("inf"))
            bare = float("inf")
            for number in range(rounds + 1):
                for queues, root in stores.items():
                    cpu = _cpu([*TOOL, *_arguments(name, root, built / f"{next(numbers)}"), *extra])
                    if number:
                        taken[queues] = min(taken[queues], cpu)
                if name == "rebuild":
                    bare = min(bare, _bare_loop(built / f"{next(numbers)}", QUEUE_COUNTS[-1]))
            least = taken[QUEUE_COUNTS[0]]
            yardstick = f"{QUEUE_COUNTS[0]} queues, {least:.2f} s"
            for queues in QUEUE_COUNTS[1:]:
                job = f"{name}{place}, {file_count} log files, {queues:,} queues"
                goal = GOAL if with_goals else None
                yield Row(job, taken[queues] * 1e3, yardstick, taken[queues] / least, goal)
            if name == "rebuild":
                job = f"bare loop beside these rebuilds, {_file_system(folder)}"
                yield Row(job, bare * 1e3, yardstick, bare / least)
    shutil.rmtree(built)


def _bare_loop(root: Path, directory_count: int) -> float:
    """Processor seconds of making as many directories with a file each as a rebuild of that many queues."""
    root.mkdir()
    started = time.process_time()
    for number in range(directory_count):
        directory = f"{root}/{number}"
        os.mkdir(directory)  # noqa: PTH102 - nothing but the system's calls
        descriptor = os.open(f"{directory}/{0:020d}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.ftruncate(descriptor, 6_000_000)
        os.pwrite(descriptor, b"unit" * 5, 0)
        os.close(descriptor)
    return time.process_time() - started


def _file_system(folder: Path) -> str:
    """The kind of file system that a folder is on, as the system names it."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
    path = folder.resolve()
    above = [(len(point), kind) for point, kind in mounts if path.is_relative_to(point)]
    return max(above)[1]


def _arguments(name: str, root: Path, made: Path) -> list[str]:
    if name == "check":
        return ["check", "--level", "full", str(root)]
    return ["rebuild", "all", str(root), "--into", str(made), "--no-sync"]


def _cpu(command: Sequence[str]) -> float:
    """Processor seconds of a command and of all that it leaves behind; raises if it fails."""
    done = subprocess.run(
        [sys.executable, "-c", _CPU, *command], capture_output=True, check=True, env=dict(os.environ)
    )
    code, cpu = json.loads(done.stdout)
    if code:
        raise RuntimeError(f"{' '.join(command)}: exit status {code}")
    return float(cpu)


def store_of(folder: Path, size: int, queue_count: int, file_count: int) -> Path:
    """A store of so many bytes of log, queues and commit log files; made if it is not there."""
    root = folder / f"queues-{size}-{queue_count}-{file_count}"
    if not root.exists():
        mix = f"plain,zipf=0,topics={TOPIC_COUNT},queues={queue_count // TOPIC_COUNT}"
        segment = -(-size // file_count // 4096) * 4096 + 4096
        made_up = ("--synth", mix, "--size", str(size), "--commitlog-file-size", str(segment))
        run((*TOOL, "write", *made_up, "--no-sync", "--manifest", "none", "--into", str(root)))
    return root
