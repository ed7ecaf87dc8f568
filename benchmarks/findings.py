"""What a finding costs: whole commands on stores with many of them, against the same store without any.

Processor time of a process of its own, all threads together, less that of the healthy store.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from rocketfsck.formats.dtypes import UNIT_DTYPE
from rocketfsck.formats.indexfile import ENTRY_SIZE, INDEX_HEADER_SIZE, SLOT_SIZE
from rocketfsck.formats.magic import BLANK_HEADER_SIZE, MAGIC_BLANK
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import WriteOptions
from rocketfsck.writer.manifest import ManifestLevel
from rocketfsck.writer.synth import parse_mix, synthesize

from benchmarks.measure import Row

ABOUT = """\
Written by `python -m benchmarks findings`; not edited. Processor time of whole commands, in microseconds for
each place beyond the first thousand: that of a store with so many damaged places less that of the same store
with a thousand of them. The ratio is the share of what is allowed, 50 microseconds. Peak memory is that of
the process.

- *wrong bodies*: one bit of the bodies of four records in five (nearly all would be no damage, ADR 0011);
- *units that lead elsewhere*: a bit of the offset of every second unit; each is two findings;
- *entries of other keys*: a bit of the hash of every second entry;
- *lost frames*: the first eight bytes of one record in 100, in a store of 8,000 queues. Each ends a run of
  records, which every walk of the log takes by itself: there is no goal for them but that the time grows with
  their number alone.
"""
ALLOWED_MICROSECONDS = 50.0
FIRST_COUNT = 1000
"""Places whose cost is not counted: what a command does at the first damage is done once."""
_BODY_POS = 88
"""Where a body begins in a record with IPv4 hosts (reference 2.1)."""
_RECORD_STEP = 100
_RUN = "import sys; from rocketfsck.cli.app import run; sys.exit(run(sys.argv[1:]))"

Harm = Callable[[Path, int], int]
"""Damages at most so many places of a store, and says how many."""


def finding_rows(folder: Path, message_count: int, *, with_goals: bool) -> Iterator[Row]:
    """A row for each kind of damage and each command; the stores are made and deleted again."""
    few, many = folder / "findings-few-queues", folder / "findings-many-queues"
    damaged, little = folder / "findings-damaged", folder / "findings-little"
    everything = (few, many, damaged, little)
    _clear(*everything)
    try:
        _write(few, message_count, "topics=4,queues=4,keys=1")
        _write(many, message_count // 5, "topics=1000,queues=8")
        for root, what, harm in (
            (few, "wrong bodies", _wrong_bodies),
            (few, "units that lead elsewhere", _wrong_units),
            (few, "entries of other keys", _wrong_entries),
            (many, "lost frames", _lost_frames),
        ):
            count = message_count
            for path, most in ((little, FIRST_COUNT), (damaged, count)):
                subprocess.run(["cp", "--archive", "--sparse=always", root, path], check=True)
                count = harm(path, most)
            for command in (("check", "--quiet"), ("plan",), ("fix", "--yes")):
                first, _ = _measured(*command, str(little))
                seconds, peak = _measured(*command, str(damaged))
                each = max(seconds - first, 0.0) * 1e6 / max(count - FIRST_COUNT, 1)
                goal = 1.0 if with_goals and root == few else None
                rate = f"{each:.1f} us each, {peak >> 20} MiB"
                name = f"{command[0]}, {count:,} {what}"
                yardstick = f"{ALLOWED_MICROSECONDS:g} us a place"
                yield Row(name, seconds * 1e3, yardstick, each / ALLOWED_MICROSECONDS, goal, rate=rate)
            _clear(damaged, little)
    finally:
        _clear(*everything)


def _clear(*roots: Path) -> None:
    """Delete stores, and what repairs kept of them."""
    for root in roots:
        for path in root.parent.glob(f"{root.name}*"):
            shutil.rmtree(path)


def _write(root: Path, message_count: int, mix: str) -> None:
    geometry = Geometry(commitlog_file_size=64 << 20, entry_count=max(message_count * 2, 1000))
    options = WriteOptions(sync=False, geometry=geometry)
    wanted = parse_mix(f"plain,body=10,rate=1000,{mix}")
    synthesize(root, wanted, options, message_count=message_count, manifest=ManifestLevel.NONE)


def _measured(*arguments: str) -> tuple[float, int]:
    """Processor seconds of a command in a process of its own, and its peak memory in bytes."""
    line = [sys.executable, "-c", _RUN, *arguments]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode & ~0b101:  # repaired, or something is left
        raise RuntimeError(f"{' '.join(arguments)}: exit status {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss << 10


def _starts(data: bytearray) -> Iterator[int]:
    """Where the records of a commit log file begin."""
    pos = 0
    while pos + BLANK_HEADER_SIZE <= len(data):
        size = int.from_bytes(data[pos : pos + 4], "big", signed=True)
        if size <= 0 or int.from_bytes(data[pos + 4 : pos + 8], "big", signed=True) == MAGIC_BLANK:
            return
        yield pos
        pos += size


def _in_log(root: Path, most: int, change: Callable[[bytearray, list[int], int], int]) -> int:
    count = 0
    for path in sorted((root / "commitlog").iterdir()):
        data = bytearray(path.read_bytes())
        count += change(data, list(_starts(data)), most - count)
        path.write_bytes(data)
    return count


def _wrong_bodies(root: Path, most: int) -> int:
    def change(data: bytearray, starts: list[int], left: int) -> int:
        chosen = [start for number, start in enumerate(starts) if number % 5][:left]
        for start in chosen:
            data[start + _BODY_POS] ^= 1
        return len(chosen)

    return _in_log(root, most, change)


def _lost_frames(root: Path, most: int) -> int:
    def change(data: bytearray, starts: list[int], left: int) -> int:
        chosen = starts[_RECORD_STEP // 2 :: _RECORD_STEP][:left]
        for start in chosen:
            data[start : start + 8] = b"\xff" * 8
        return len(chosen)

    return _in_log(root, most, change)


def _wrong_units(root: Path, most: int) -> int:
    count = 0
    for path in sorted(path for path in (root / "consumequeue").rglob("*") if path.is_file()):
        units = np.fromfile(path, UNIT_DTYPE)
        rows = np.flatnonzero(units["size"] > 0)[::2][: most - count]
        units["offset"][rows] ^= 1
        units.tofile(path)
        count += len(rows)
    return count


def _wrong_entries(root: Path, most: int) -> int:
    slot_count = open_store(root).geometry.slot_count
    count = 0
    for path in sorted((root / "index").iterdir()):
        data = np.fromfile(path, np.uint8)
        entries = data[INDEX_HEADER_SIZE + SLOT_SIZE * slot_count :].reshape(-1, ENTRY_SIZE)
        rows = np.flatnonzero(entries.any(axis=1))[::2][: most - count]
        entries[rows, 3] ^= 1
        data.tofile(path)
        count += len(rows)
    return count
