"""Holes are zeros: a store that was copied with holes is predicted and checked as one without."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocketfsck.query.start.model import Start
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Finding

from tests.conftest import Directory

BLOCK_SIZE = 4096
NOW = 1_900_000_000_000
NAMES = ("4.9.8-lmq", "5.3.3-killed", "5.5.0-batchcq", "5.5.0-full-killed", "5.5.0-timer")
"""A start puts units into the queues of zeros of all but the second, and truncates them afterwards."""


def with_holes(source: str, target: str) -> str:
    """Copy a file as `cp --sparse=always` does: blocks of zeros are not written."""
    data = Path(source).read_bytes()
    with Path(target).open("wb") as file:
        for pos in range(0, len(data), BLOCK_SIZE):
            block = data[pos : pos + BLOCK_SIZE]
            if any(block):
                file.seek(pos)
                file.write(block)
        file.truncate(len(data))
    shutil.copystat(source, target)
    return target


def without_holes(source: str, target: str) -> str:
    """Copy a file's bytes: blocks of zeros are written."""
    Path(target).write_bytes(Path(source).read_bytes())
    shutil.copystat(source, target)
    return target


def lose_power(root: Path) -> None:
    """Every second queue file has its length and nothing in it, as after a power cut."""
    for area in ("consumequeue", "batchconsumequeue"):
        for path in sorted(root.glob(f"{area}/*/*/*"))[::2]:
            path.write_bytes(bytes(path.stat().st_size))
    (root / "abort").touch()


def seen_of(root: Path) -> tuple[Start, list[Finding]]:
    """What a start does with a store, and what a check finds in it."""
    store = open_store(root, version=root.parent.name)
    start = simulate_start(store, root.parent.name)
    return start, list(check_store(store, CheckOptions(now_timestamp=NOW)).findings)


@pytest.mark.parametrize("name", NAMES)
def test_holes_are_zeros(name: str, any_dir: Directory, tmp_path: Path) -> None:
    root, version = tmp_path / "damaged", name.partition("-")[0]
    shutil.copytree(any_dir(name), root)
    lose_power(root)
    seen = []
    for copy in (without_holes, with_holes):
        place = tmp_path / version
        shutil.copytree(root, place / "store", copy_function=copy)
        seen.append(seen_of(place / "store"))
        shutil.rmtree(place)
    assert seen[0] == seen[1]
