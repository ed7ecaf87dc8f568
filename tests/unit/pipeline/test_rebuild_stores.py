"""The job builds what `rebuild_store` builds, of every store there is, in any number of parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketfsck.engine import LocalEngine
from rocketfsck.repair.build.run import RebuildOptions
from rocketfsck.store import open_store
from rocketfsck.writer.damage import damage_store

from tests.conftest import NIGHTLY, RESTART_NAMES, STORE_NAMES, Directory
from tests.unit.pipeline.rebuilding import assert_same

PARTITIONS = (1, 3, 16)
ALL_AT = PARTITIONS if NIGHTLY else (3,)
FEW = ("4.9.8-multiseg", "5.0.0-innerbatch")

LOG_FAULTS = (
    ("4.9.8-multiseg", "torn-tail"),
    ("4.9.8-multiseg", "stale-tail"),
    ("4.9.8-multiseg", "record-malformed"),
    ("4.9.8-multiseg", "physical-offset"),
    ("4.9.8-multiseg", "blank-early"),
    ("4.9.8-multiseg", "missing-segment"),
    ("4.9.8-multiseg", "short-segment"),
    ("4.9.8-multiseg", "zero-segment"),
    ("4.9.8-multiseg", "empty-segment"),
    ("4.9.8-multiseg", "time-back"),
    ("5.3.3-multiseg", "queue-offset-repeated"),
    ("5.3.3-multiseg", "zero-page"),
    ("5.3.3-multiseg", "topic-character"),
    ("5.0.0-innerbatch", "body-flip"),
)


@pytest.mark.parametrize("name", STORE_NAMES)
def test_broker_stores(store_dir: Directory, tmp_path: Path, name: str) -> None:
    engines = [LocalEngine(count) for count in (PARTITIONS if name in FEW else ALL_AT)]
    assert_same(open_store(store_dir(name)), tmp_path, engines=engines)


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_stores_after_an_accident(restart_dir: Directory, tmp_path: Path, name: str) -> None:
    assert_same(open_store(restart_dir(name)), tmp_path, engines=[LocalEngine(count) for count in ALL_AT])


@pytest.mark.parametrize(("name", "fault"), LOG_FAULTS)
def test_damaged_logs(store_dir: Directory, tmp_path: Path, name: str, fault: str) -> None:
    damage_store(store_dir(name), tmp_path / "store", [fault], seed=3, write_truth=False)
    engines = [LocalEngine(count) for count in ALL_AT]
    assert_same(open_store(tmp_path / "store"), tmp_path, engines=engines)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("4.9.8-multiseg", "queue-behind"),
        ("4.9.8-multiseg", "index-gone"),
        ("5.0.0-innerbatch", "missing-all-queues"),
    ],
)
def test_what_is_missing(store_dir: Directory, tmp_path: Path, name: str, fault: str) -> None:
    damage_store(store_dir(name), tmp_path / "store", [fault], seed=1, write_truth=False)
    tail = RebuildOptions(queues=True, index=True, only_missing=True, sync=False)
    done = assert_same(open_store(tmp_path / "store"), tmp_path, tail)
    assert done.queues is not None
    assert done.index is not None
    made: list[Any] = [*done.queues.queues, *done.index.files]
    assert made
