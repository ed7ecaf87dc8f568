"""plan, apply, undo on the command line: output, exit status, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rocketfsck.cli.app import run
from rocketfsck.cli.show.repair import apply_lines, loss_text, plan_lines, undo_lines
from rocketfsck.cli.show.text import Palette
from rocketfsck.repair.apply.ledger import Ledger, LedgerAccount, OffsetRange
from rocketfsck.repair.apply.results import ApplyReport, UndoReport
from rocketfsck.repair.plan.arguments import NewName
from rocketfsck.repair.plan.document import parse_plan
from rocketfsck.repair.plan.model import (
    Action,
    Assumption,
    Conflict,
    Extent,
    Gain,
    Loss,
    Notice,
    Plan,
    PlanTarget,
    Unanswered,
)
from rocketfsck.writer.damage import damage_store

from tests.conftest import Directory

HOSTILE = "a\x1b[31m\udcff\u202eb"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are 100 wide, wherever the tests run."""
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def store(restart_dir: Directory, tmp_path: Path) -> Path:
    return Path(shutil.copytree(restart_dir("4.9.8-basic--torn-tail"), tmp_path / "store"))


def test_plan_apply_undo(store: Path, tmp_path: Path, capsys: Capture) -> None:
    plan_path = tmp_path / "plan.json"
    assert run(["plan", str(store)]) == 4
    shown = capsys.readouterr().out
    assert "cut-log" in shown and f"Next: rocketfsck apply {store}" in shown
    assert "physical offset 49078 to 49334" in shown
    assert run(["plan", str(store), "-o", str(plan_path)]) == 4
    assert f"Next: rocketfsck apply {plan_path}" in capsys.readouterr().out
    assert run(["apply", str(plan_path)]) == 1
    shown = capsys.readouterr().out
    assert "  set-offsets config/consumerOffset.json\n" in shown  # a group was beyond the cut queue's new end
    assert "corrected by 5 actions" in shown and f"rocketfsck undo {store}" in shown
    assert run(["plan", str(store)]) == 0
    assert "no repair is needed" in capsys.readouterr().out
    assert run(["undo", str(store)]) == 0
    assert "is undone" in capsys.readouterr().out
    assert run(["undo", str(store)]) == 16
    assert [path.name for path in tmp_path.iterdir() if path != store] == ["plan.json"]


def test_json(store: Path, tmp_path: Path, capsys: Capture) -> None:
    report, plan_path, out = tmp_path / "report.json", tmp_path / "plan.json", tmp_path / "out.json"
    assert run(["check", str(store), "--format", "json", "-o", str(report)]) == 4
    assert run(["plan", str(store), "--report", str(report), "--format", "json", "-o", str(plan_path)]) == 4
    text = capsys.readouterr().out
    assert text == plan_path.read_text() and parse_plan(text.encode()).actions
    command = ["apply", str(plan_path), "--in-place", "--no-undo", "--format", "json", "-o", str(out)]
    assert run(command) == 1
    assert capsys.readouterr().out == ""
    document = json.loads(out.read_text())
    assert document["kind"] == "rocketfsck.apply" and document["exit_code"] == 1 and document["published"]
    assert run(["undo", str(store)]) == 16


def test_undo_in_json_with_another_place(store: Path, tmp_path: Path, capsys: Capture) -> None:
    place, plan_path = tmp_path / "work", tmp_path / "plan.json"
    place.mkdir()
    run(["plan", str(store), "-o", str(plan_path)])
    assert run(["apply", str(plan_path), "--work-dir", str(place)]) == 1
    assert f"rocketfsck undo {store} --work-dir {place}" in capsys.readouterr().out
    assert run(["undo", str(store), "--work-dir", str(place), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "rocketfsck.undo"


def test_preen_only_and_except(store: Path, capsys: Capture) -> None:
    assert run(["plan", str(store), "--preen", "--level", "cross", "-j", "1"]) == 4
    assert "not provably safe" in capsys.readouterr().out
    assert run(["plan", str(store), "--only", "write-checkpoint"]) == 4
    assert "other repairs" in capsys.readouterr().out
    assert run(["plan", str(store), "--except", "nonsense"]) == 16
    assert "no repair has the name 'nonsense'" in capsys.readouterr().err


def test_what_is_assumed_is_confirmed(store_dir: Directory, tmp_path: Path, capsys: Capture) -> None:
    root, plan_path, conf = tmp_path / "store", tmp_path / "plan.json", tmp_path / "broker.conf"
    shutil.copytree(store_dir("4.9.8-basic"), root)
    shutil.rmtree(root / "consumequeue")
    assert run(["plan", str(root), "-o", str(plan_path)]) == 4
    shown = capsys.readouterr().out
    assert "  assumed: consumequeue_file_size 6000000 (no file shows the value: the default)" in shown
    assert f"Next: rocketfsck apply {plan_path} --assume consumequeue_file_size\n" in shown
    assert "needs your judgement" in shown and "182 messages can be consumed again" in shown
    assert run(["apply", str(plan_path)]) == 16
    said = capsys.readouterr().err
    assert "--broker-conf FILE of this broker, or --assume consumequeue_file_size" in said
    conf.write_text("mappedFileSizeConsumeQueue=600\n")
    assert run(["apply", str(plan_path), "--broker-conf", str(conf)]) == 16
    assert "is 600 in broker.conf, but the plan was made with 6000000" in capsys.readouterr().err
    assert run(["plan", str(root), "--broker-conf", str(conf), "-o", str(plan_path)]) == 4
    shown = capsys.readouterr().out
    assert "  given: consumequeue_file_size 600" in shown and "; safe" in shown
    assert run(["apply", str(plan_path), "--broker-conf", str(conf)]) == 1
    assert "What this relies on" in capsys.readouterr().out
    assert run(["undo", str(root)]) == 0
    run(["plan", str(root), "-o", str(plan_path)])
    capsys.readouterr()
    assert (
        run(["apply", str(plan_path), "--assume", "consumequeue_file_size=6000000", "--format", "json"]) == 1
    )
    (size,) = [
        item
        for item in json.loads(capsys.readouterr().out)["assumptions"]
        if item["name"] == "consumequeue_file_size"
    ]
    assert size["how"] == "given" and size["evidence"].startswith("confirmed by --assume")


def test_a_check_says_that_fillers_are_delivered(
    store_dir: Directory, tmp_path: Path, capsys: Capture
) -> None:
    root, plan_path = tmp_path / "store", tmp_path / "plan.json"
    damage_store(store_dir("4.4.0-multiseg"), root, ["missing-segment"], 1, write_truth=False)
    run(["plan", str(root), "-o", str(plan_path)])
    given = "consumers without a tag filter (`*`) receive 155 filler messages in place of lost ones"
    assert given in capsys.readouterr().out
    assert run(["apply", str(plan_path), "--assume", "missing_files"]) == 1
    assert given in capsys.readouterr().out
    assert run(["check", str(root)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Healthy: ")
    assert "(`*`) receive 155 filler messages in place of lost ones (XR015)" in " ".join(shown.split())


def test_what_is_refused(store: Path, tmp_path: Path, capsys: Capture) -> None:
    plan_path = tmp_path / "plan.json"
    assert run(["plan", str(store), "-o", str(store / "plan.json")]) == 16
    assert run(["plan", str(tmp_path / "none")]) == 8
    assert run(["apply", str(plan_path)]) == 8
    plan_path.write_text("{}")
    assert run(["apply", str(plan_path)]) == 16
    assert run(["plan", str(store), "--report", str(plan_path)]) == 16
    run(["plan", str(store), "-o", str(plan_path)])
    capsys.readouterr()
    assert run(["apply", str(plan_path), "-o", str(store / "out")]) == 16
    assert run(["undo", str(store), "-o", str(store / "out")]) == 16
    (store / "checkpoint").write_bytes(b"")
    assert run(["apply", str(plan_path)]) == 8
    assert "the store changed since the plan was made" in capsys.readouterr().err


def test_hostile_names_do_not_reach_the_terminal() -> None:
    loss = Loss(HOSTILE, 3, HOSTILE, 1, 5, 9, 7, 8, HOSTILE)
    gain = Gain(HOSTILE, 3, HOSTILE, 1, 5, 9, 7, 8)
    action = Action(
        HOSTILE, HOSTILE, HOSTILE, NewName(HOSTILE), ("a",), (HOSTILE,), (), (loss,) * 20, {HOSTILE: 2}, 9,
        sources=(Extent(HOSTILE, 0, 1, HOSTILE),), regained=(gain,) * 20,
        assumptions=tuple(Assumption(HOSTILE, HOSTILE, how, HOSTILE) for how in ("bytes", "assumed")),
        notices=(Notice(HOSTILE, 2),),
    )  # fmt: skip
    item = Unanswered("f", "CL002", HOSTILE, HOSTILE)
    planned = PlanTarget(HOSTILE, HOSTILE, {}, (), "", None, None)
    conflicts = (Conflict(2, 5, 9, HOSTILE),) * 20
    plan = Plan(planned, "full", "", (action,), (item,) * 20, {"CL002": 2}, conflicts, 40)
    account = LedgerAccount(
        "file", HOSTILE, 0, 9, 0, 0, 0, 0, 9, 0, (OffsetRange(0, 4, 4), OffsetRange(6, 7, 1)) * 9, 1
    )
    report = ApplyReport(
        f"/x {HOSTILE}", "beside", "", (HOSTILE,) * 20, True, True, f"/y/{HOSTILE}", "", {"CL002": 1}, {},
        (item,), (item,), (item,), Ledger((account,) * 20, None, 1, 2, action.notices),
        action.assumptions,
    )  # fmt: skip
    texts = [
        *plan_lines(plan, Palette(False), 100),
        *apply_lines(report, Palette(False), 100),
        *undo_lines(UndoReport(HOSTILE, "beside", "", True, HOSTILE), Palette(False)),
    ]
    assert all(line.isprintable() for line in texts), [line for line in texts if not line.isprintable()]
    assert any("… 8 more" in line for line in texts)
    assert loss_text(loss).startswith("3 ")
    assert "What is not taken from the other copy: 40 records" in texts
    assert any(line.startswith("  2 records, physical offset 5 to 9: ") for line in texts)
    assert any("\x1b[1m" in line for line in plan_lines(plan, Palette(True), 100))


def test_losses_and_results_in_words() -> None:
    assert loss_text(Loss("entry", 2)) == "2 entries"
    assert loss_text(Loss("unit", 1, "T", None, 5, 5)) == "1 unit, topic T, queue offset 5"
    assert loss_text(Loss("unit", 1, "T", 2, 5)) == "1 unit, topic T queue 2, queue offset 5"
    assert loss_text(Loss("byte", 9, start_offset=3)) == "9 bytes, physical offset 3"
    refused = applied(ApplyReport("/s", "beside", "", ("x",), problem="worse"))
    assert "Result: nothing was changed: worse." in refused and "Tried next to the store" in refused
    assert "the plan has no actions" in applied(ApplyReport("/s", "beside", "", ()))
    assert "kept in" not in applied(ApplyReport("/s", "", "", ("x",), True))
    plan = Plan(PlanTarget("/s", "4", {}, (), "", 0, 1), "full", "", ())
    assert "found at level full: nothing" in "\n".join(plan_lines(plan, Palette(False), 99))


def applied(report: ApplyReport) -> str:
    return "\n".join(apply_lines(report, Palette(False), 99))
