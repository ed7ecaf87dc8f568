"""Damage of any kind in any file: a start is predicted or a StoreError says why not, and it ends."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.store import open_store

from tests.conftest import Directory

STORES = ("4.9.8-basic", "5.0.0-innerbatch", "4.9.8-lmq", "4.9.8-cqext", "5.3.3-propcrc")
VERSIONS = ("4.3.1", "4.4.0", "4.9.8", "5.1.4", "5.3.3", "5.3.4", "5.5.1")
PIECES = (b"\xff", b"\0", b"\x7f\xff\xff\xff\xff\xff\xff\xff", b"\x80\0\0\0\0\0\0\0", b"\0\0\0\1")


def break_something(root: Path, chance: random.Random) -> None:
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.parent.name != "config")
    for path in chance.sample(files, min(4, len(files))):
        data = bytearray(path.read_bytes())
        kind = chance.random()
        if kind < 0.1:
            path.unlink()
        elif kind < 0.25:
            path.write_bytes(data[: chance.randrange(len(data) + 1)])
        elif data:
            for _ in range(chance.randint(1, 4)):
                at = chance.randrange(max(len(bytes(data).rstrip(b"\0")), 1))
                piece = chance.choice(PIECES) if chance.random() < 0.7 else chance.randbytes(8)
                data[at : at + len(piece)] = piece
            path.write_bytes(data)
    if chance.random() < 0.5:
        (root / "abort").touch()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(30))
def test_no_damage_stops_the_prediction(seed: int, store_dir: Directory, tmp_path: Path) -> None:
    chance = random.Random(seed)
    root = Path(shutil.copytree(store_dir(chance.choice(STORES)), tmp_path / "store"))
    break_something(root, chance)
    for version in chance.sample(VERSIONS, 2):
        try:
            start = simulate_start(open_store(root, version=version), version)
        except StoreError as error:
            assert error.path is not None
            continue
        assert start.loads or start.refusals
        assert start.max_offset >= start.min_offset
        assert all(queue.max_offset >= 0 and queue.added_count >= 0 for queue in start.queues)
