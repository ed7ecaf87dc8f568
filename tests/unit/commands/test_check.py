"""What commands do without a terminal: the same as on the command line, from a dataclass to an answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rocketfsck
from rocketfsck.commands.apply import PlanCommand, UndoCommand, plan, undo
from rocketfsck.commands.check import CheckCommand, check, check_fleet
from rocketfsck.commands.fix import FixCommand, fix
from rocketfsck.commands.shared import Masking, StoreOptions
from rocketfsck.errors import EXIT_CORRECTED, EXIT_PROBLEMS, RocketfsckError, UsageError
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.stopping import RulePolicy
from rocketfsck.writer.damage import damage_store

from tests.conftest import Directory

STATED = StoreOptions(broker_version="4.9.8")


@pytest.fixture
def torn(store_dir: Directory, tmp_path: Path) -> Path:
    root = tmp_path / "store"
    damage_store(store_dir("4.9.8-multiseg"), root, ["torn-tail"], 1, write_truth=False)
    return root


def test_a_check_gives_report_verdict_and_exit_status(torn: Path) -> None:
    answer = rocketfsck.check(CheckCommand((torn,), CheckOptions(level="cross"), stated=STATED))
    assert (answer.exit_code, answer.plan, answer.masks) == (EXIT_PROBLEMS, None, None)
    assert answer.report.level == "cross"
    assert {finding.rule for finding in answer.found} >= {finding.rule for finding in answer.report.findings}
    assert answer.verdict.next_command is not None


def test_a_check_goes_by_policy_and_masks(torn: Path) -> None:
    command = CheckCommand((torn,), stated=STATED, masking=Masking(mask=True), plans=True)
    first = check(command)
    rule = first.report.findings[0].rule
    answer = check(command, {rule: RulePolicy(ignore=True)})
    assert first.plan is not None and first.plan.actions and first.masks is not None
    assert rule not in answer.report.counts and rule in answer.asked.ignore


def test_one_store_and_several(torn: Path, store_dir: Directory) -> None:
    both = CheckCommand((torn, store_dir("4.9.8-multiseg")), CheckOptions(level="quick"), stated=STATED)
    with pytest.raises(UsageError, match="check_fleet"):
        check(both)
    assert len(check_fleet(both).report.stores) == 2


def test_a_place_that_cannot_have_the_state_is_named_at_once(torn: Path, tmp_path: Path) -> None:
    """Before a session of Spark starts, and before the store is read."""
    states = tmp_path / "states"
    states.mkdir()
    (torn / "commitlog").rename(torn / "gone")
    for state, said in (
        (states, "is a directory, as for several stores"),
        (states / "none" / "a", "No such file"),
    ):
        with pytest.raises(RocketfsckError, match=f"{state}.*{said}"):
            check(CheckCommand((torn,), CheckOptions(since=state), stated=STATED))


def test_plan_fix_and_undo(torn: Path) -> None:
    before = sorted(path.name for path in torn.rglob("*"))
    planned = plan(PlanCommand(torn, stated=STATED))
    assert planned.plan.actions and planned.exit_code == EXIT_PROBLEMS
    with pytest.raises(UsageError, match="must agree"):
        fix(FixCommand(torn, stated=STATED))
    assert fix(FixCommand(torn, stated=STATED), lambda _: None).done is None
    done = fix(FixCommand(torn, yes=True, stated=STATED))
    assert done.exit_code == EXIT_CORRECTED and done.done is not None
    undo(UndoCommand(torn))
    assert sorted(path.name for path in torn.rglob("*")) == before


def test_commands_need_no_click() -> None:
    folder = Path(rocketfsck.__file__).parent / "commands"
    names = [f"rocketfsck.commands.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__"]
    code = f"import sys, {', '.join(names)}; print({{'click', 'numba'}} & {{*sys.modules}})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"
