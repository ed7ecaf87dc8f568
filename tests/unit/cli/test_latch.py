"""fix asks once for each kind of repair, on a terminal; what is declined is left out with what needs it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.cli.latch import agreed_plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.state import check_status
from rocketfsck.repair.verdict import judge_store
from rocketfsck.store import open_store
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.run import check_store
from rocketfsck.writer.damage import damage_store

from tests.conftest import Directory

ASKED = "? [y/N/a/q/?]"


@pytest.fixture
def torn(store_dir: Directory, tmp_path: Path) -> Path:
    root = tmp_path / "torn"
    damage_store(store_dir("4.9.8-multiseg"), root, ["torn-tail"], 1, write_truth=False)
    return root


def on_terminal(answers: str, *arguments: object) -> tuple[int, str]:
    """Run the command line on a terminal of its own: its exit status and all that the terminal showed."""
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "rocketfsck", *map(str, arguments)]
    with subprocess.Popen(
        words, stdin=slave, stdout=slave, stderr=slave, env=os.environ | {"TERM": "dumb"}
    ) as run:
        os.close(slave)
        os.write(master, answers.encode())
        shown = b""
        while True:
            try:
                data = os.read(master, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            shown += data
        code = run.wait(120)
    os.close(master)
    return code, shown.decode().replace("\r\n", "\n")


def test_what_is_declined_goes_with_what_needs_it(torn: Path) -> None:
    code, shown = on_terminal("?\nn\ny\ny\ny\n", "fix", torn)
    assert (
        "cut the log after its last whole record\n  `rocketfsck explain cut-log` says more.\n  y  " in shown
    )
    asked = [line.split()[2] for line in shown.splitlines() if line.startswith("Carry out ")]
    assert asked[:2] == ["cut-log", "cut-log"]
    assert "cut-queue" not in asked  # needs cut-log
    final = shown.rpartition("Planned actions")[2]
    assert "cut-log" not in final.partition("What is left")[0]
    assert "left out: cut-log was declined" in " ".join(final.split())
    assert code in (4, 5)
    assert "To undo: rocketfsck undo" in shown or "Nothing was changed." in shown


def test_a_says_yes_to_the_rest_and_q_to_nothing(torn: Path) -> None:
    before = sorted(path.name for path in torn.parent.iterdir())
    code, shown = on_terminal("y\nq\n", "fix", torn)
    assert (code, shown.count(ASKED)) == (4, 2)
    assert shown.endswith("Nothing was changed.\n")
    assert sorted(path.name for path in torn.parent.iterdir()) == before
    code, shown = on_terminal("a\n", "fix", torn)
    assert (code, shown.count(ASKED)) == (1, 1)


def test_what_is_assumed_is_asked_for_after_a(
    store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "store"
    damage_store(store_dir("4.9.8-multiseg"), root, ["missing-all-queues"], 1, write_truth=False)
    store = open_store(root)
    plan = make_plan(store, check_store(store))
    safe = [replace(action, name="write-checkpoint", assumptions=()) for action in plan.actions[:1]]
    plan = replace(plan, actions=(*safe, *plan.actions))
    assuming = [name for name in {action.name for action in plan.actions} if name != "write-checkpoint"]
    questions: list[str] = []

    def answer(text: str, **_: object) -> str:
        questions.append(text)
        return "a"

    monkeypatch.setattr("click.prompt", answer)
    assert agreed_plan(plan, lambda _: plan) is plan
    assert len(questions) == 1 + len(assuming)
    assert "; assumes consumequeue_file_size " in " ".join(questions)


def test_a_plan_without_a_kind_may_bring_another(torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(torn)
    plan = make_plan(store, check_store(store))
    cut, queue = (next(a for a in plan.actions if a.name == name) for name in ("cut-log", "cut-queue"))
    first, second = replace(plan, actions=(cut,)), replace(plan, actions=(queue,))
    answers = iter(["n", "y"])
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(answers))
    assert agreed_plan(first, lambda declined: second if declined == {"cut-log"} else first) is second
    assert not [*answers]
    monkeypatch.setattr("click.prompt", lambda *_, **__: "n")
    assert agreed_plan(first, lambda _: replace(plan, actions=())) is None


def test_one_status_for_check_and_fix(restart_dir: Directory) -> None:
    store = open_store(restart_dir("5.1.3-basic--flip-last-file"))
    for options in (CheckOptions(level="quick"), CheckOptions()):
        report = check_store(store, options)
        assert check_status(report, judge_store(store, report).state) == 4
    sound = replace(report, counts={})
    verdict = judge_store(store, report)
    assert verdict.may_start is False
    assert check_status(sound, verdict.state) == 4  # nothing was found that says why
    assert check_status(replace(sound, severities={"CL024": "info"}), verdict.state) == 0  # the user's word
    assert check_status(replace(sound, level="quick"), verdict.state) == 4
    assert check_status(replace(sound, level="quick"), verdict.state, narrowed=True) == 0
    part = replace(sound, coverage=replace(sound.coverage, done_count=0))
    assert check_status(part, verdict.state) == 4
