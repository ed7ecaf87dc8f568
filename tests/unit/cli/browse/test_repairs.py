"""Single actions of a plan: taken out and in again, with what depends on them; planning that is stopped."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.browse.model import repairs
from rocketfsck.cli.browse.model.findings import Findings
from rocketfsck.cli.browse.model.repairs import Choice, Planned, plan_all, plan_without, save_plan, toggled
from rocketfsck.cli.browse.views.lines import stoppable
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import CancelledError
from rocketfsck.progress import go_on
from rocketfsck.repair.plan.law import all_assumptions, assume_options
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.plan.table import PlanScene
from rocketfsck.store import open_store
from rocketfsck.verify import check_store

from tests.conftest import Directory
from tests.unit.cli.browse.pilot import Driver, drive
from tests.unit.cli.conftest import Cli

SEVERAL = "4.9.8-ghosttail--as-is-second-restart"
"""A plan of a cut log, two queues to be cut after it, and what is built again."""
ALL = ("zero-stale-tail", "cut-queue", "rebuild-queue", "rebuild-index")


def _planned(root: Path) -> Planned:
    store = open_store(root)
    report = check_store(store, engine=LocalEngine(1))
    return plan_all(PlanScene(store, report, report.findings))


def _choice(planned: Planned, start: str) -> Choice:
    return next(choice for choice in planned.choices(ALL) if choice.title.strip()[4:].startswith(start))


def _without(planned: Planned, start: str) -> Planned:
    return plan_without(planned, toggled(planned, _choice(planned, start)))


def test_one_action_is_left_out_and_the_others_stay(restart_dir: Directory, tmp_path: Path, cli: Cli) -> None:
    root = tmp_path / "store"
    shutil.copytree(restart_dir(SEVERAL), root)
    planned = _planned(root)
    fewer = _without(planned, "consumequeue/Gt0/0")
    left = [(action.name, action.target) for action in fewer.plan.actions]
    all_of = [(action.name, action.target) for action in planned.plan.actions]
    assert left == [item for item in all_of if item != ("cut-queue", "consumequeue/Gt0/0")]
    assert _choice(fewer, "cut-queue").title.startswith("[-] ")
    assert _choice(fewer, "consumequeue/Gt0/0").title.startswith("    [ ] ")
    assert _choice(fewer, "consumequeue/Gt0/1").title.startswith("    [x] ")
    assert fewer.about() == "The plan: 4 actions; 1 left out"
    said = [item.reason for item in fewer.plan.unanswered]
    assert said.count("left out: this action was not chosen") == 1
    assert "cut-queue consumequeue/Gt0/0" in "\n".join(planned.lines(80))
    assert "cut-queue consumequeue/Gt0/0" not in "\n".join(fewer.lines(80))
    assert "4 actions for 12 findings" in fewer.lines(80)[-1]
    path = save_plan(fewer, tmp_path / "plan.json")
    ended = cli("apply", path, *assume_options(all_assumptions(fewer.plan.actions)).split())
    assert "4 actions" in ended.out, ended.err
    after = check_store(open_store(root), engine=LocalEngine(1))
    queues = {finding.where.queue_id for finding in after.findings if finding.rule == said_rule(fewer)}
    assert queues == {0}


def said_rule(planned: Planned) -> str:
    """The rule of the finding that nothing answers because its action was not chosen."""
    return next(item.rule for item in planned.plan.unanswered if "not chosen" in item.reason)


def test_what_needs_a_left_out_action_says_so(restart_dir: Directory) -> None:
    planned = _planned(restart_dir("4.9.8-basic--torn-tail"))
    fewer = _without(planned, "cut-log")
    assert {action.name for action in fewer.plan.actions} == {"rebuild-index", "write-checkpoint"}
    assert _choice(fewer, "cut-log").title.startswith("[ ] cut-log")
    needs = _choice(fewer, "cut-queue").title
    assert needs.startswith("[!] cut-queue")
    assert needs.endswith("cut-queue needs cut-log, which is left out")
    assert fewer.about() == "The plan: 2 actions; 1 left out; 1 not possible without what is left out"
    again = _without(fewer, "cut-log")
    assert again.plan == planned.plan
    assert again.choices() == planned.choices()


def test_a_repair_is_taken_with_all_its_actions(restart_dir: Directory) -> None:
    planned = _planned(restart_dir(SEVERAL))
    nothing = _without(planned, "cut-queue")
    assert "cut-queue" not in {action.name for action in nothing.plan.actions}
    one = _without(nothing, "consumequeue/Gt0/1")
    assert [action.target for action in one.plan.actions if action.name == "cut-queue"] == [
        "consumequeue/Gt0/1"
    ]
    assert _without(one, "cut-queue").plan == planned.plan
    assert len(planned.choices()) == 4
    assert len(planned.choices(["cut-queue"])) == 6


def test_a_choice_reads_less_than_the_first_plan(
    restart_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    real = PlanScene.extent

    def counted(scene: PlanScene, file: str, *more: Any) -> Any:
        made.append(file)
        return real(scene, file, *more)

    monkeypatch.setattr(PlanScene, "extent", counted)
    planned = _planned(restart_dir(SEVERAL))
    assert made
    made.clear()
    _without(planned, "consumequeue/Gt0/0")
    assert not made


def test_planning_stops_at_the_next_read(restart_dir: Directory) -> None:
    store = open_store(restart_dir(SEVERAL))
    report = check_store(store, engine=LocalEngine(1))
    stop = threading.Event()
    stop.set()
    scene = PlanScene(store, report, report.findings)
    with stoppable(stop), pytest.raises(CancelledError):
        plan_all(scene)
    assert plan_all(scene).plan.actions


class Slow:
    """`make_plan`, which waits once it is told to, as long as nobody stops it."""

    def __init__(self) -> None:
        self.waits = False
        self.waiting = threading.Event()
        self._real = make_plan

    def __call__(self, *args: Any, **more: Any) -> Any:
        while self.waits:
            self.waiting.set()
            go_on()
            time.sleep(0.005)
        return self._real(*args, **more)

    async def stop(self, at: Driver, key: str) -> None:
        """Press a key that begins a plan, and Escape as soon as it is begun."""
        self.waits = True
        self.waiting.clear()
        await at.pilot.press(key)
        while not self.waiting.is_set():
            await at.pilot.pause(0.005)
        assert "Planning… Escape stops." in at.text
        await at.press("escape")
        self.waits = False


def test_escape_stops_planning_and_keeps_what_was_chosen(
    restart_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    monkeypatch.setattr(repairs, "make_plan", slow)
    root = restart_dir(SEVERAL)
    report = check_store(open_store(root), engine=LocalEngine(1))

    async def script(at: Driver) -> None:
        at.app.session.findings = Findings(at.app.session.shelf, report)
        await slow.stop(at, "p")
        assert "Stopped." in at.text
        assert " files" in at.lines[0]
        await at.press("p", "down", "enter", "down", "space")
        assert "[-] cut-queue" in at.text
        assert at.cursor.startswith(">     [ ] consumequeue/Gt0/0")
        assert "The plan: 4 actions; 1 left out" in at.text
        await at.press("down")
        await slow.stop(at, "space")
        assert "Stopped." in at.text
        assert at.cursor.startswith(">     [x] consumequeue/Gt0/1")
        assert "The plan: 4 actions; 1 left out" in at.text
        await at.press("up", "up", "enter")
        assert "consumequeue/Gt0/0 (" not in at.text
        await at.press("space")
        assert "[x] cut-queue" in at.text

    drive(root, script, size=(100, 40))
