"""fix: check, verdict, plan, question, repair, undo; and plans that are kept for apply."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from rocketfsck.cli.commands import fix
from rocketfsck.repair.plan.kept import kept_path
from rocketfsck.writer.damage import damage_store

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

TORN = ["torn-tail"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def torn(store_dir: Directory, tmp_path: Path) -> Path:
    root = tmp_path / "torn"
    damage_store(store_dir("4.9.8-multiseg"), root, TORN, 1, write_truth=False)
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_yes_repairs_and_undo_takes_it_back(cli: Cli, torn: Path) -> None:
    before = contents(torn)
    ended = cli("fix", "--yes", torn)
    assert ended.code == 1
    assert ended.out.splitlines()[0].startswith("Damaged. ")
    assert "Planned actions, in order" in ended.out
    assert f"To undo: rocketfsck undo {torn}" in ended.out
    assert cli("check", torn).code == 0
    again = cli("fix", "--yes", torn)
    assert (again.code, again.out.splitlines()[0]) == (0, "Healthy: a broker may be started.")
    assert cli("undo", torn).code == 0
    assert contents(torn) == before


def test_a_dry_run_and_a_healthy_store_change_nothing(cli: Cli, torn: Path, store_dir: Directory) -> None:
    before = contents(torn)
    ended = cli("fix", "-n", torn)
    assert ended.code == 4
    assert ended.out.endswith("Nothing was changed.\n")
    assert contents(torn) == before
    assert [path.name for path in torn.parent.iterdir()] == ["torn"]
    assert cli("fix", "-y", store_dir("5.3.3-basic")).code == 0


def test_preen_does_what_is_provably_safe(cli: Cli, torn: Path) -> None:
    document = json.loads(cli("fix", "--preen", torn, "--format", "json").out)
    assert document["plan"]["actions"]
    assert all(action["preen"] for action in document["plan"]["actions"])
    assert "cut-log" not in {action["name"] for action in document["plan"]["actions"]}
    assert document["apply"]["published"] is True
    assert document["verdict"]["prospect"]["unanswered_count"] > 0


@pytest.mark.parametrize(
    ("answer", "code"), [("y\ny\ny\ny\n", 1), ("a\n", 1), ("y\na\n", 1), ("q\n", 4), ("y\nq\n", 4), ("", 32)]
)
def test_a_question_for_each_kind_is_asked_on_a_terminal(
    cli: Cli, torn: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    before = contents(torn)
    ended = cli("fix", torn)
    assert ended.code == code
    assert ended.err.startswith("Carry out cut-log (1 action; loses 1 record, ")
    assert ended.err.count("? [y/N/a/q/?]") == max(1, answer.count("\n"))
    assert (contents(torn) == before) is (code != 1)


def test_no_question_without_a_terminal(cli: Cli, torn: Path) -> None:
    ended = cli("fix", torn)
    assert (ended.code, ended.out) == (16, "")
    assert fix.NO_TERMINAL in ended.err
    assert cli("fix", "-y", "-n", torn).code == 16


def test_what_is_assumed_needs_a_word(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    damage_store(store_dir("4.9.8-multiseg"), root, ["missing-all-queues"], 1, write_truth=False)
    refused = cli("fix", "--yes", root)
    assert refused.code == 4
    text = " ".join(refused.out.split())
    assert "confirm with --broker-conf FILE or --assume consumequeue_file_size" in text
    assert not list((root / "consumequeue").rglob("0*"))
    ended = cli("fix", "--yes", root, "--assume", "consumequeue_file_size", "--assume", "queue_kinds")
    assert ended.code == 1
    assert cli("check", root).code == 0


def test_an_interrupted_repair_is_finished(cli: Cli, torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    with monkeypatch.context() as patch:
        patch.setattr("rocketfsck.repair.apply.applying.write_file", Mock(side_effect=Killed))
        patch.setattr("rocketfsck.repair.apply.applying._clean_up", lambda *_: "")
        with pytest.raises(Killed):
            fix.command.main(["--yes", "--in-place", str(torn)], standalone_mode=False)
    ended = cli("fix", "--yes", torn)
    assert ended.code == 1
    assert "this run finished the rest" in ended.out
    assert cli("check", torn).code == 0


def test_a_plan_without_a_file_is_kept_for_apply(cli: Cli, torn: Path) -> None:
    assert cli("apply", torn).code == 16
    assert f"Next: rocketfsck apply {torn}\n" in cli("plan", torn).out
    assert kept_path(torn).stat().st_mode & 0o077 == 0
    assert cli("apply", torn).code == 1
    assert cli("check", torn).code == 0


def test_without_a_place_to_keep_plans(cli: Cli, torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETFSCK_STATE_DIR", "/dev/null/none")
    ended = cli("plan", torn)
    assert ended.code == 8
    assert "/dev/null/none" in ended.err
    assert cli("plan", torn, "-o", torn.parent / "plan.json").code == 4
