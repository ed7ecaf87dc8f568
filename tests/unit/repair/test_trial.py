"""Plans that are tried leave the store alone, and say why they are not tried."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.pages import making as trying_page
from rocketfsck.cli.pages.making import asked_again, page_of
from rocketfsck.common.rulenames import RuleName
from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.errors import StoreError
from rocketfsck.page.model import PlanSaid
from rocketfsck.repair.apply.holding import held_plan
from rocketfsck.repair.area import worktree
from rocketfsck.repair.plan import tried
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.plan.tried import TriedStore
from rocketfsck.repair.verdict import judge_store, predicted
from rocketfsck.store import Store, open_store
from rocketfsck.store.circumstances import LockState
from rocketfsck.store.places.entries import layers
from rocketfsck.store.reading import FileReader
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.options import Subset
from rocketfsck.verify.stopping import Policy, RulePolicy, report_by
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
    monkeypatch.setattr(worktree, "COPIED_SIZE", copied)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    store, plan = broken
    before = listing(store.root)
    with tried.trying(plan, store) as view:
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


def page(
    store: Store,
    plan: Plan,
    options: CheckOptions | None = None,
    policy: Policy | None = None,
    engine: Engine | None = None,
    *,
    is_saved: bool = False,
) -> PlanSaid:
    """What the page says of a plan, after a check with these options; is_saved: as if of a saved report."""
    options = options or CheckOptions()
    report = check_store(store, options)
    found = predicted(store, report)
    verdict = judge_store(store, report, plan=plan, predictions=found)
    report = report_by(report, policy or {})
    asked = None if is_saved else asked_again(options, policy or {})
    made = page_of(
        report, verdict, engine or LocalEngine(1), store=store, predictions=found, plan=plan, asked=asked
    )
    assert made.plan is not None
    return made.plan


def said(store: Store, plan: Plan) -> str:
    """Why the page has no trial."""
    found = page(store, plan)
    assert (found.tried is None) == bool(found.untried)
    return found.untried


def left(found: PlanSaid) -> set[str]:
    """The rules of the findings after the plan that were not there before."""
    assert found.tried is not None
    rules = found.tried.findings.rules
    return {rule.rule for rule in rules}


@pytest.mark.parametrize("is_saved", [False, True])
def test_the_view_is_checked_for_what_the_store_was_checked_for(
    broken: tuple[Store, Plan], is_saved: bool
) -> None:
    """Rules that the user did not ask for are left out after the plan, too."""
    store, plan = broken
    whole = page(store, plan, is_saved=is_saved)
    assert {"CL025", "XR015"} <= left(whole)
    assert (whole.after.error_count, whole.after.warning_count) == (0, 0)
    narrow = page(store, plan, CheckOptions(ignore=("XR015",)), is_saved=is_saved)
    assert left(narrow) == left(whole) - {"XR015"}


def test_severities_are_those_that_the_user_wants(broken: tuple[Store, Plan]) -> None:
    found = page(*broken, policy={RuleName.STORE_HOST_CHANGE: RulePolicy(severity="warning")})
    assert (found.after.error_count, found.after.warning_count) == (0, 1)


@pytest.mark.parametrize(
    "options",
    [CheckOptions(max_duration=600), CheckOptions(subset=Subset.parse("100%")), CheckOptions(stop_after=9)],
)
def test_a_check_of_a_part_is_not_done_again(broken: tuple[Store, Plan], options: CheckOptions) -> None:
    """Then what is left is what no action answers, and nothing is new."""
    found = page(*broken, options).tried
    assert found is not None
    assert found.findings.unchecked == "the check was asked for a part of the store"
    assert found.findings.new_count == 0
    assert found.findings.rows.rule == ()
    assert found.findings.gone


@dataclass(frozen=True)
class Elsewhere:
    """An engine that is not this machine's."""

    inner: LocalEngine

    @property
    def job_count(self) -> int:
        return self.inner.job_count

    def run(self, *given: Any, **more: Any) -> Any:
        return self.inner.run(*given, **more)


def test_what_only_a_cluster_can_check_is_not_checked_again(
    broken: tuple[Store, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster: Any = Elsewhere(LocalEngine(1))
    small = page(*broken, engine=cluster).tried
    assert small is not None
    assert small.findings.unchecked == ""
    monkeypatch.setattr(trying_page, "CHECKED_SIZE", 1000)
    large, here = page(*broken, engine=cluster).tried, page(*broken).tried
    assert large is not None
    assert large.findings.unchecked.endswith("one machine checks up to 1,000 bytes")
    assert here is not None
    assert here.findings == small.findings


def test_a_plan_that_writes_too_much(broken: tuple[Store, Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    store, plan = broken
    assert tried.untried_reason(plan, store) == ""
    monkeypatch.setattr(tried, "WRITTEN_LIMIT", 10)
    assert "more than the 10 of a trial" in said(store, plan)


def test_a_running_broker(broken: tuple[Store, Plan]) -> None:
    store, plan = broken
    live = replace(store, live=replace(store.live, state=LockState.HELD))
    assert tried.untried_reason(plan, live) == "a broker is running on the store"


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
    with pytest.raises(StoreError), tried.trying(plan, store):
        pass


def test_a_log_is_repaired_where_its_index_must_be_left(store_dir: Directory, tmp_path: Path) -> None:
    """Entries of the lost record then lead to filler, which has no keys: no new finding."""
    root = tmp_path / "store"
    damage_store(store_dir("4.9.8-basic"), root, ["record-malformed"], 2, write_truth=False)
    (root / "rocksdbstore").mkdir()  # of a later version, which indexes more (ST045)
    store = open_store(root, version="4.9.8")
    report = check_store(store, CheckOptions())
    held = held_plan(make_plan(store, report), store, report)
    assert {action.name for action in held.actions} == {"salvage-log"}
    assert not held.refused_actions
    assert {item.rule for item in held.unanswered} == {RuleName.ENTRY_KEY}
    assert all("--only rebuild-index" in item.reason for item in held.unanswered)
