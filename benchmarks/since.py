"""The second night: what `check --since` reads of a store that has grown by a hundredth, against all of it.

Bytes are those that the process has read by system calls (`rchar` of /proc/self/io), from the page cache or
the disk: the program, its kernels and the verdict are among them. The growth is put in place, as brokers do.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rocketfsck.store.reading import FileReader
from rocketfsck.writer import WriteOptions
from rocketfsck.writer.manifest import ManifestLevel
from rocketfsck.writer.synth import parse_mix, synthesize

from benchmarks.measure import Row

ABOUT = """\
Written by `python -m benchmarks since`; not edited. Bytes read by the whole process, the program itself among
them, by a check of a store that grew by 1 % since the last check. Stores are those of
`rocketfsck write --synth plain` with messages of 1 KiB and files of the usual sizes.

- *second night*: `check --since`, of the store after it grew; the yardstick is all bytes of the store.
- *third night*: the same of the store as it is; *first night*: reads everything, and writes the state.
"""
GOAL = 0.03
_READ = """
import json, sys
from rocketfsck.cli.app import run
code = run(sys.argv[1:])
sys.stdout.flush()
count = int(open("/proc/self/io").read().split()[1])
print(json.dumps([code, count]), file=sys.stderr)
"""


def since_rows(folder: Path, size: int, *, with_goals: bool) -> Iterator[Row]:
    """A row for each night; the stores, of `size` bytes of log, are made and deleted again."""
    root, grown, state = folder / "since-store", folder / "since-grown", folder / "since-state"
    for path in (root, grown):
        shutil.rmtree(path, ignore_errors=True)
    state.unlink(missing_ok=True)
    try:
        for path, amount in ((root, size), (grown, size + size // 100)):
            options = WriteOptions(sync=False)
            synthesize(path, parse_mix("plain"), options, size=amount, manifest=ManifestLevel.NONE)
        for name in ("first", "second", "third"):
            if name == "second":
                _grow(root, grown)
            total = _used(root)
            started = time.perf_counter()
            count = _bytes_read(["check", str(root), "--since", str(state), "--quiet"])
            seconds = time.perf_counter() - started
            goal = GOAL if with_goals and name != "first" else None
            rate = f"{count / (1 << 20):,.0f} MiB read"
            yardstick = f"{total / (1 << 20):,.0f} MiB in the store"
            yield Row(f"{name} night", seconds * 1e3, yardstick, count / total, goal, rate=rate)
    finally:
        for path in (root, grown):
            shutil.rmtree(path, ignore_errors=True)
        state.unlink(missing_ok=True)


def _grow(root: Path, grown: Path) -> None:
    """Put what `grown` has besides into the files of a store, which begins with the same messages."""
    for path in grown.rglob("*"):
        target = root / path.relative_to(grown)
        if path.is_dir():
            target.mkdir(exist_ok=True)
            continue
        is_new = not target.exists()
        with FileReader(path) as new, target.open("w+b" if is_new else "r+b") as file:
            if is_new:  # else the time of the last change stays as it is
                file.truncate(new.size)
            for pos, data in new.data_chunks():
                file.seek(pos)
                if file.read(len(data)) != data:
                    file.seek(pos)
                    file.write(data)


def _used(root: Path) -> int:
    """The bytes of a store without holes."""
    return sum(path.stat().st_blocks * 512 for path in root.rglob("*") if path.is_file())


def _bytes_read(arguments: list[str]) -> int:
    done = subprocess.run([sys.executable, "-c", _READ, *arguments], capture_output=True, text=True)
    code, count = json.loads(done.stderr.splitlines()[-1])
    if code:
        raise RuntimeError(done.stdout + done.stderr)
    return int(count)
