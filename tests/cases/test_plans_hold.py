"""What a plan promises, `apply` does: what would be refused is left out of the plan, and the rest is done.

Pairs of damages and stores whose plans have something to refuse, and some that have not; all damages of a
few stores nightly.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.engine import LocalEngine
from rocketfsck.repair.apply import holding
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.holding import held_plan
from rocketfsck.repair.plan.law import all_assumptions
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.state import fates_after
from rocketfsck.store import Store, open_store
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.writer.damage import DAMAGES, DamageError, damage_store
from rocketfsck.writer.disk import fileops

from tests.cases.test_repairs import NOW
from tests.conftest import Directory

REFUSING: tuple[tuple[str, str, bool, set[str], set[str]], ...] = (
    ("4.9.8-ghosttail", "partial-unit", True, {"resize-segment"}, {"rebuild-index"}),
    ("4.9.8-ghosttail", "never-filled", True, {"remove-empty-segment"}, {"rebuild-index"}),
    ("4.9.8-ghosttail", "blank-early", False, {"salvage-log", "rebuild-index"}, set()),
    ("5.0.0-innerbatch", "topic-character", False, {"rebuild-queue"}, {"rebuild-index"}),
)
"""Store, damage, whether the plan is of what is safe, what is refused, what is done."""
HOLDING = (
    ("5.3.3-killed", "missing-segment"),
    ("5.3.3-killed", "zero-page"),
    ("4.9.8-multiseg", "torn-tail"),
)
"""Stores and damages of whose plans nothing is refused. After a crash, an index that was made anew is kept by
the next start."""
ALL = ("4.9.8-multiseg", "5.3.3-killed", "4.9.8-ghosttail", "5.0.0-innerbatch", "5.5.0-full-killed")


@pytest.fixture(autouse=True)
def without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fileops, "sync", lambda _path: None)


def harmed(damage: str, store: Path, target: Path) -> tuple[Path, tuple[str, ...]]:
    """A damaged copy of a store, and its commitlog directories; skips where the store has nothing of it."""
    try:
        made = damage_store(store, target / "store", [damage], 1, write_truth=False)
    except DamageError:
        pytest.skip("the store has nothing to damage")
    return target / "store", made.commitlog_paths


def planned(root: Path, preen: bool, paths: tuple[str, ...] = ()) -> tuple[Store, Report, Plan]:
    store = open_store(root, commitlog_paths=[root / path for path in paths])
    report = check_store(store, CheckOptions(now_timestamp=NOW), engine=LocalEngine(1))
    return store, report, make_plan(store, report, preen=preen)


def applied(plan: Plan) -> None:
    """A plan that is carried out as it is."""
    assumed = [item.name for item in all_assumptions(plan.actions) if item.how == "assumed"]
    done = apply_plan(plan, assume=assumed)
    assert not done.problem
    assert done.refused_actions == plan.refused_actions
    assert len(done.actions) == len(plan.actions)


@pytest.mark.parametrize(("store", "damage", "preen", "refused", "done"), REFUSING)
def test_what_does_harm_is_refused_alone(
    store: str,
    damage: str,
    preen: bool,
    refused: set[str],
    done: set[str],
    any_dir: Directory,
    tmp_path: Path,
) -> None:
    root, paths = harmed(damage, any_dir(store), tmp_path)
    opened, report, plan = planned(root, preen, paths)
    held = held_plan(plan, opened, report)
    assert {item.name for item in held.refused_actions} == refused
    assert {action.name for action in held.actions} == done
    left = {item.fingerprint for item in held.unanswered}
    assert plan.answered <= held.answered | left
    assert not any("does not mention" in item.reason for item in held.unanswered)
    assert held.answered_count + held.unanswered_count == plan.answered_count + plan.unanswered_count
    applied(held)


def test_apply_does_what_holds_of_a_plan_that_nobody_tried(any_dir: Directory, tmp_path: Path) -> None:
    root, _ = harmed("partial-unit", any_dir("4.9.8-ghosttail"), tmp_path)
    _, _, plan = planned(root, True)
    done = apply_plan(plan)
    assert not done.problem and done.published
    assert [item.name for item in done.refused_actions] == ["resize-segment"]
    assert "new finding, XR008" in done.refused_actions[0].reason
    assert [action.split()[0] for action in done.actions] == ["rebuild-index"]
    assert apply_plan(plan).finished  # the same plan once more is no other one


def test_a_store_that_is_too_large_for_a_trial_is_refused_as_a_whole(
    any_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = harmed("partial-unit", any_dir("4.9.8-ghosttail"), tmp_path)
    store, report, plan = planned(root, True)
    monkeypatch.setattr(holding, "CHECKED_LIMIT", 0)
    assert held_plan(plan, store, report) is plan
    done = apply_plan(plan)
    assert done.problem == "the result has new problems" and not done.published


@pytest.mark.parametrize("preen", [True, False])
@pytest.mark.parametrize(("store", "damage"), HOLDING)
def test_a_plan_that_holds_keeps_its_actions_and_says_what_they_leave(
    store: str, damage: str, preen: bool, any_dir: Directory, tmp_path: Path
) -> None:
    root, paths = harmed(damage, any_dir(store), tmp_path)
    opened, report, plan = planned(root, preen, paths)
    held = held_plan(plan, opened, report)
    assert held.actions == plan.actions and not held.refused_actions
    assert held.is_tried and plan.messages_now is not None
    applied(held)
    after = check_store(open_store(root), CheckOptions(now_timestamp=NOW), engine=LocalEngine(1))
    assert after.account is not None
    assert held.messages_after == fates_after(plan.messages_now, after.account.fates)


def test_a_fault_that_is_left_under_its_other_name_is_not_answered(
    any_dir: Directory, tmp_path: Path
) -> None:
    """Without `abort`, the end that a crash cut off a database's log is damage."""
    root, _ = harmed("database-log-torn", any_dir("5.5.0-pop-kv-killed"), tmp_path)
    opened, report, plan = planned(root, False)
    held = held_plan(plan, opened, report)
    assert [action.name for action in held.actions] == ["finish-recovery"]
    assert RuleName.DATABASE_LOG_CUT in plan.counts
    assert [item.rule for item in held.unanswered] == [RuleName.DATABASE_FILE_DAMAGED]
    assert not {RuleName.DATABASE_LOG_CUT, RuleName.DATABASE_FILE_DAMAGED} & held.answered_counts.keys()
    assert held.answered_count + held.unanswered_count == plan.answered_count + plan.unanswered_count


@pytest.mark.nightly
@pytest.mark.parametrize("store", ALL)
@pytest.mark.parametrize("damage", DAMAGES)
def test_no_plan_is_refused(store: str, damage: str, any_dir: Directory, tmp_path: Path) -> None:
    for preen in (True, False):
        target = tmp_path / str(preen)
        target.mkdir()
        root, paths = harmed(damage, any_dir(store), target)
        opened, report, plan = planned(root, preen, paths)
        held = held_plan(plan, opened, report)
        if held.actions:
            applied(held)
