"""The rebuilding of many stores: each result is that of the store alone, in a directory of its own."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.fleet import stages
from rocketfsck.pipeline.fleet.rebuilding import rebuild_stores
from rocketfsck.pipeline.fleet.records import RECORDS, RebuiltStores
from rocketfsck.pipeline.fleet.stages import Begin, End, Share, task_of
from rocketfsck.pipeline.rebuild.segment import SegmentTask
from rocketfsck.repair.build.run import RebuildOptions, rebuild_store
from rocketfsck.repair.build.walk import walk_log
from rocketfsck.store import open_store

from tests.conftest import Directory
from tests.unit.pipeline.fleeting import Distant
from tests.unit.pipeline.rebuilding import ALL, names, tree

OPTIONS = RebuildOptions(sync=False)


@pytest.fixture
def fleet(store_dir: Directory, tmp_path: Path) -> Path:
    """Sound stores (a, c), a damaged one (b), one without a log (d)."""
    shutil.copytree(store_dir("5.3.3-basic"), tmp_path / "fleet" / "broker-a" / "store")
    shutil.copytree(store_dir("5.1.3-basic"), tmp_path / "fleet" / "broker-b")
    with (tmp_path / "fleet" / "broker-b" / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek(300)
        log.write(b"\xff" * 64)
    shutil.copytree(store_dir("4.9.8-multiseg"), tmp_path / "fleet" / "broker-c")
    (tmp_path / "fleet" / "broker-d" / "consumequeue").mkdir(parents=True)
    (tmp_path / "fleet" / "broker-d" / "abort").touch()
    return tmp_path / "fleet"


def roots(fleet: Path) -> dict[str, Path]:
    return {"broker-a": fleet / "broker-a" / "store", "broker-b": fleet / "broker-b"} | {
        "broker-c": fleet / "broker-c"
    }


def assert_as_alone(fleet: Path, found: RebuiltStores, into: Path, alone: Path) -> None:
    assert [(row.broker, row.state, row.exit_code) for row in found.stores] == [
        ("broker-a", "rebuilt", 0),
        ("broker-b", "damaged", 4),
        ("broker-c", "rebuilt", 0),
        ("broker-d", "failed", 8),
    ]
    assert (found.exit_code, found.state_counts) == (12, {"failed": 1, "damaged": 1, "rebuilt": 2})
    assert names(into) == ["broker-a", "broker-b", "broker-c"]
    for row in found.stores[:3]:
        target = alone / row.broker
        alone.mkdir(exist_ok=True)
        if not target.exists():
            built = rebuild_store(open_store(roots(fleet)[row.broker]), target, ALL)
            assert built.queues is not None
            assert row.unit_count == built.queues.unit_count
            assert row.record_count == built.record_count
        assert tree(into / row.broker) == tree(target)
        assert row.into == str(into / row.broker)
        assert row.seconds > 0
    assert found.stores[3].error == "has no commit log files to build from"
    assert [row.may_start for row in found.stores] == [True, found.stores[1].may_start, True, None]


@pytest.mark.parametrize("limit", [0, 1 << 20, 1 << 40])
def test_results_are_those_of_each_store_alone(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """On threads and elsewhere; whole on one worker, and in parts."""
    monkeypatch.setattr(stages, "WHOLE_WEIGHT", limit)
    engines: list[Engine] = [LocalEngine(3), Distant()]
    for number, engine in enumerate(engines):
        into = tmp_path / f"built-{number}"
        found = rebuild_stores([fleet / "broker-*"], into, "all", OPTIONS, engine)
        assert_as_alone(fleet, found, into, tmp_path / "alone")


def test_only_a_part(fleet: Path, tmp_path: Path) -> None:
    found = rebuild_stores([fleet / "broker-[ac]"], tmp_path / "built", "index", OPTIONS)
    assert {row.may_start for row in found.stores} == {True}
    assert {row.queue_count for row in found.stores} == {None}
    folders = {path.name for path in (tmp_path / "built").rglob("*") if path.is_dir()}
    assert folders == {"broker-a", "broker-c", "index", RECORDS}
    missing = rebuild_stores(
        [fleet / "broker-[ac]"], tmp_path / "more", "index", replace(OPTIONS, only_missing=True)
    )
    assert {row.may_start for row in missing.stores} == {None}


def test_collisions_are_refused_before_anything_is_built(fleet: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "broker-a"
    shutil.copytree(fleet / "broker-c", other)
    into = tmp_path / "built"
    with pytest.raises(UsageError, match=r"broker-a/store and .*other/broker-a would both be rebuilt"):
        rebuild_stores([fleet / "broker-a", other], into, "all", OPTIONS)
    (into / "broker-c").mkdir(parents=True)
    with pytest.raises(UsageError, match="broker-c exists, and rocketfsck does not overwrite it"):
        rebuild_stores([fleet / "broker-*"], into, "all", OPTIONS)
    with pytest.raises(UsageError, match="no name for a directory"):
        rebuild_stores(["/"], into, "all", OPTIONS)
    assert [path.name for path in into.iterdir()] == ["broker-c"]
    (into / "broker-c").rmdir()
    into.rmdir()
    into.write_text("x")
    with pytest.raises(StoreError, match="cannot be made"):
        rebuild_stores([fleet / "broker-*"], into, "all", OPTIONS)


def test_a_store_that_kills_workers_fails_alone(fleet: Path, tmp_path: Path) -> None:
    engine = Distant(kills=lambda step: step.number == 1)
    found = rebuild_stores([fleet / "broker-*"], tmp_path / "built", "all", OPTIONS, engine)
    assert [row.state for row in found.stores] == ["rebuilt", "failed", "rebuilt", "failed"]
    assert found.stores[1].error == "spark: the job failed: a worker died"
    assert names(tmp_path / "built") == ["broker-a", "broker-c"]


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "WHOLE_WEIGHT", 0)
    monkeypatch.setattr(stages, "LEAST_WEIGHT", 300 << 10)


@pytest.mark.usefixtures("cut")
def test_large_stores_are_cut_into_shares_over_all(fleet: Path, tmp_path: Path) -> None:
    """First the logs of all, then the queues and index files of all; every step may be done twice."""
    engine = Distant(twice=True)
    found = rebuild_stores([fleet / "broker-*"], tmp_path / "built", "all", OPTIONS, engine)
    assert_as_alone(fleet, found, tmp_path / "built", tmp_path / "alone")
    kinds = [type(step) for step in engine.steps[::2]]
    assert (kinds.count(Begin), kinds.count(End)) == (4 + 3, 2 * 3)  # a large store is opened twice
    shares = [step for step in engine.steps[::2] if isinstance(step, Share)]
    stages = [type(task_of(step.packed, step.first)) is SegmentTask for step in shares]
    assert stages == sorted(stages, reverse=True)
    assert {step.number for step in shares} == {0, 1, 2}
    assert {task_of(step.packed, step.first).__class__.__name__ for step in shares} == {
        "SegmentTask",
        "QueueTask",
        "IndexTask",
    }


@pytest.mark.usefixtures("cut")
def test_a_log_file_that_kills_workers_is_named_and_the_others_are_built(fleet: Path, tmp_path: Path) -> None:
    deadly = f"commitlog/{2 * 131072:020}"

    def kills(step: Any) -> bool:
        if not isinstance(step, Share) or step.number != 2:
            return False
        tasks = (task_of(step.packed, number) for number in range(step.first, step.last))
        return any(isinstance(task, SegmentTask) and task.file.relative == deadly for task in tasks)

    found = rebuild_stores([fleet / "broker-*"], tmp_path / "built", "all", OPTIONS, Distant(kills=kills))
    assert [row.state for row in found.stores] == ["rebuilt", "damaged", "failed", "failed"]
    assert (
        found.stores[2].error
        == f"{deadly}: cannot be read by any worker: spark: the job failed: a worker died"
    )
    assert names(tmp_path / "built") == ["broker-a", "broker-b"]


@pytest.mark.usefixtures("cut")
def test_a_scratch_file_that_cannot_be_written_fails_its_store_alone(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = walk_log

    def full(store: Any, **more: Any) -> Any:
        if "broker-c" in str(store.root):
            raise StoreError("cannot be written: No space left on device", path="units")
        return real(store, **more)

    monkeypatch.setattr("rocketfsck.pipeline.rebuild.segment.walk_log", full)
    found = rebuild_stores([fleet / "broker-*"], tmp_path / "built", "all", OPTIONS, Distant())
    assert [row.state for row in found.stores] == ["rebuilt", "damaged", "failed", "failed"]
    assert found.stores[2].error == "units: cannot be written: No space left on device"


def test_parts_without_links_are_copied(fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system may have no hard links."""
    monkeypatch.setattr(stages, "WHOLE_WEIGHT", 0)

    def refuse(*_: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    found = rebuild_stores([fleet / "broker-*"], tmp_path / "built", "all", OPTIONS, Distant())
    assert_as_alone(fleet, found, tmp_path / "built", tmp_path / "alone")
