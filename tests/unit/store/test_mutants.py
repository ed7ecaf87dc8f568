"""Broker-written stores altered at random still open: facts or StoreError, nothing else."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError
from rocketfsck.store.identify import identify_file
from rocketfsck.store.opening import open_store

from tests.conftest import STORE_NAMES

Directory = Callable[[str], Path]
ODD_NAMES = [b"\xff", b".tmp", b"1", b"0" * 20, b"9" * 20, b"+1", b"%n", b"\x1b[2J", b"x" * 200]


def overwrite(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 8)):
        if data:
            pos = rng.randrange(min(len(data), 200) if rng.random() < 0.5 else len(data))
            chunk = rng.choice([b"\0" * 4, b"\xff" * 4, b"\x7f\xff\xff\xff", rng.randbytes(8)])
            data[pos : pos + len(chunk)] = chunk
    path.write_bytes(data)


def cut(path: Path, rng: random.Random) -> None:
    os.truncate(path, rng.choice([0, 1, 39, 40, rng.randrange(path.stat().st_size + 1)]))


def grow(path: Path, rng: random.Random) -> None:
    os.truncate(path, rng.choice([path.stat().st_size + 1, 1 << 33, 420_000_040]))


def rename(path: Path, rng: random.Random) -> None:
    path.rename(path.parent / os.fsdecode(rng.choice(ODD_NAMES)))


def replace(path: Path, rng: random.Random) -> None:
    path.unlink()
    kind = rng.randrange(4)
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        path.symlink_to(path)
    elif kind == 2:
        os.mkfifo(path)


ALTERATIONS = [overwrite, overwrite, overwrite, cut, grow, rename, replace]


def check_mutants(source: Path, target: Path, seeds: range) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        shutil.copytree(source, target)
        files = sorted(path for path in target.rglob("*") if path.is_file())
        for path in rng.sample(files, min(3, len(files))):
            rng.choice(ALTERATIONS)(path, rng)
        store = open_store(target)
        assert store.dialect_evidence.versions
        assert store.geometry.slot_count > 0
        assert store.geometry.entry_count > 0
        assert all(file.size == file.path.stat().st_size for file in store.all_files())
        for path in rng.sample(files, min(5, len(files))):
            try:
                assert identify_file(path).size == path.stat().st_size
            except StoreError as error:
                assert error.path == str(path)
        shutil.rmtree(target)


@pytest.mark.parametrize("name", ["4.9.8-cqext", "5.0.0-innerbatch", "5.3.3-basic"])
def test_mutants(store_dir: Directory, tmp_path: Path, name: str) -> None:
    check_mutants(store_dir(name), tmp_path / "store", range(10))


@pytest.mark.nightly
@pytest.mark.parametrize("name", STORE_NAMES)
def test_many_mutants(store_dir: Directory, tmp_path: Path, name: str) -> None:
    check_mutants(store_dir(name), tmp_path / "store", range(10, 60))
