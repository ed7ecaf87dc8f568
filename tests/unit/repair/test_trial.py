"""Plans that are tried leave the store alone, and say why they are not tried."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.cli.pages.making import page_of
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import StoreError
from rocketfsck.repair.area import thintree
from rocketfsck.repair.plan import trial
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.plan.tried import TriedStore
from rocketfsck.repair.verdict import judge_store, predicted
from rocketfsck.store import Store, open_store
from rocketfsck.store.model import LockState
from rocketfsck.store.reading import FileReader, layers
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.writer.damage import damage_store

from tests.conftest import Directory


@pytest.fixture
def broken(store_dir: Directory, tmp_path: Path) -> tuple[Store, Plan]:
    """A store with damage in the middle of its log, and the plan for it."""
    damage_store(store_dir("4.9.8-basic"), tmp_path / "store", ["boundary-lost"], 1, write_truth=False)
    store = open_store(tmp_path / "store")
    return store, make_plan(store, check_store(store, CheckOptions()))


def listing(root: Path) -> list[tuple[str, int, int, int]]:
    """What would differ of a store that somebody touched."""
    found = []
    for path in sorted(root.rglob("*")):
        status = path.stat()
        found.append((str(path), status.st_size, status.st_ctime_ns, status.st_nlink))
    return found


@pytest.mark.parametrize("copied", [0, 1 << 20])
def test_a_trial_leaves_no_trace(
    broken: tuple[Store, Plan], copied: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not even another number of links; layers and copies read the same."""
    monkeypatch.setattr(thintree, "COPIED_SIZE", copied)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    store, plan = broken
    before = listing(store.root)
    with trial.trying(plan, store) as view:
        assert bool(layers) == (copied == 0)
        then = view.reopen()
        log = then.commitlog.files[0]
        assert not view.is_lent(log)
        with FileReader(log.location) as new, FileReader(store.commitlog.files[0].location) as old:
            assert new.size == old.size
            assert new.read(0, new.size) != old.read(0, old.size)
        assert not check_store(then, CheckOptions()).severity_counts[Severity.ERROR]
    assert not layers
    assert list((tmp_path / "scratch").iterdir()) == []
    assert listing(store.root) == before


def said(store: Store, plan: Plan) -> str:
    """Why the page has no trial."""
    report = check_store(store, CheckOptions())
    found = predicted(store, report)
    verdict = judge_store(store, report, plan=plan, predictions=found)
    page = page_of(report, verdict, LocalEngine(1), store=store, predictions=found, plan=plan)
    assert page.plan is not None
    assert (page.plan.tried is None) == bool(page.plan.untried)
    return page.plan.untried


def test_a_plan_that_writes_too_much(broken: tuple[Store, Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    store, plan = broken
    assert trial.untried_reason(plan, store) == ""
    monkeypatch.setattr(trial, "WRITTEN_LIMIT", 10)
    assert "more than the 10 of a trial" in said(store, plan)


def test_a_running_broker(broken: tuple[Store, Plan]) -> None:
    store, plan = broken
    live = replace(store, live=replace(store.live, state=LockState.HELD))
    assert trial.untried_reason(plan, live) == "a broker is running on the store"


def test_a_trial_that_fails_says_why(broken: tuple[Store, Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    store, plan = broken

    def fail(_view: TriedStore, _actions: object) -> None:
        raise StoreError("cannot be read", path=f"{store.root}/commitlog")

    monkeypatch.setattr(TriedStore, "carry_out", fail)
    assert said(store, plan).startswith("trying the plan failed: ")
    assert not layers


def test_a_store_that_lost_its_log(broken: tuple[Store, Plan]) -> None:
    store, plan = broken
    shutil.rmtree(store.root / "commitlog")
    os.mkdir(store.root / "commitlog")  # noqa: PTH102
    with pytest.raises(StoreError), trial.trying(plan, store):
        pass
