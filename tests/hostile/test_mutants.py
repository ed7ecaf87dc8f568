"""Mutants of real stores: whatever the damage, a check ends with a report whose parts fit together."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, Report, check_store

from tests.conftest import Directory
from tests.hostile.mutate import mutate_store

SUBJECTS = (
    "4.4.0-basic",
    "4.4.0-trans",
    "4.9.8-cqext",
    "4.9.8-delay",
    "4.9.8-ghosttail",
    "4.9.8-ipv6",
    "4.9.8-lmq",
    "5.0.0-innerbatch",
    "5.1.3-collisions",
    "5.3.3-basic",
    "5.3.3-propcrc",
    "HEAD-basic",
)
CHUNK = 60
SAMPLE = 120
NIGHTLY = 20_000


def check_mutant(seed: int, store_dir: Directory, folder: Path) -> None:
    subject = SUBJECTS[seed % len(SUBJECTS)]
    store = Path(shutil.copytree(store_dir(subject), folder / f"mutant-{seed}"))
    try:
        done = mutate_store(seed, store)
        before = _listing(store)
        try:
            report = check_store(
                open_store(store), CheckOptions(level="full", now_timestamp=1_800_000_000_000)
            )
        except Exception as error:  # the seed and the damage are what is needed to look into it
            error.add_note(f"mutant {seed} of {subject}: {done}")
            raise
        assert report.exit_code & ~0b1100 == 0, (seed, done)
        for name, regions in report.regions.items():
            size = os.stat(store / name).st_size  # noqa: PTH116 - the name may hold any bytes
            assert sum(region.byte_count for region in regions) == size, (seed, done, name)
        document = json.loads(json.dumps(report.to_json()))
        assert Report.from_json(document) == report, (seed, done)
        assert _listing(store) == before, (seed, done)
    finally:
        shutil.rmtree(store)


def _listing(store: Path) -> list[tuple[str, int, int]]:
    found = ((path, path.lstat()) for path in sorted(store.rglob("*")))
    return [(str(path), status.st_size, status.st_mtime_ns) for path, status in found]


@pytest.mark.parametrize("start", range(0, SAMPLE, CHUNK))
def test_mutants(start: int, store_dir: Directory, tmp_path: Path) -> None:
    for seed in range(start, start + CHUNK):
        check_mutant(seed, store_dir, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(SAMPLE, NIGHTLY + SAMPLE, CHUNK))
def test_more_mutants(start: int, store_dir: Directory, tmp_path: Path) -> None:
    for seed in range(start, start + CHUNK):
        check_mutant(seed, store_dir, tmp_path)
