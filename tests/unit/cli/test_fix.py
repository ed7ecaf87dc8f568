"""fix: check, verdict, plan, question, repair, undo; and plans that are kept for apply."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from rocketfsck.cli.commands import fix
from rocketfsck.engine import LocalEngine
from rocketfsck.repair.plan.document import kept_path
from rocketfsck.verify.run import check_store
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


@pytest.mark.parametrize(("number", "said"), [(signal.SIGINT, "Cancelled."), (signal.SIGTERM, "Terminated.")])
def test_a_signal_ends_a_repair_and_leaves_the_store_as_it_was(
    cli: Cli, torn: Path, number: signal.Signals, said: str
) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("whoever started the tests wants the signal ignored (nohup)")
    before, beside = contents(torn), {path.name for path in torn.parent.iterdir()}
    program = [sys.executable, "-c", "from rocketfsck.cli import main; main()", "fix", "--yes", str(torn)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while {path.name for path in torn.parent.iterdir()} == beside:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 32 and err.rstrip().endswith(said)
    assert contents(torn) == before
    assert {path.name for path in torn.parent.iterdir()} == beside
    assert cli("fix", "--yes", torn).code == 1


def test_yes_repairs_and_undo_takes_it_back(cli: Cli, torn: Path) -> None:
    before = contents(torn)
    ended = cli("fix", "--yes", torn)
    assert ended.code == 1
    assert ended.out.splitlines()[0].startswith("1 message is lost. ")
    assert "Planned actions, in order" in ended.out
    assert f"To undo: rocketfsck undo {torn}" in ended.out
    assert cli("check", torn).code == 0
    again = cli("fix", "--yes", torn)
    assert again.code == 0 and again.out.startswith("Healthy: a broker may be started")
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


def test_jobs_hold_for_the_whole_repair(cli: Cli, torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first check, the trial, building and the last check: all of it runs on so many threads."""
    seen: dict[str, int] = {}
    for place in ("verify.run", "repair.apply.holding", "repair.apply.building"):

        def watched(*given: Any, place: str = place, **more: Any) -> Any:
            seen[place] = LocalEngine(8).job_count
            return check_store(*given, **more)

        monkeypatch.setattr(f"rocketfsck.{place}.check_store", watched)
    assert cli("fix", "--yes", "--jobs", "1", torn).code == 1
    assert seen == dict.fromkeys(seen, 1)
    assert len(seen) == 3
    assert LocalEngine(8).job_count == 8


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


def test_a_size_that_the_user_corrects_is_planned_with(
    cli: Cli, store_dir: Directory, tmp_path: Path
) -> None:
    """No file shows it, and the default is not what the broker has."""
    root = tmp_path / "store"
    damage_store(store_dir("4.9.8-multiseg"), root, ["missing-all-queues"], 1, write_truth=False)
    sizes = {path.stat().st_size for path in store_dir("4.9.8-multiseg").glob("consumequeue/*/*/*")}
    (size,) = sizes
    right = ("--assume", f"consumequeue_file_size={size}")
    plan = json.loads(cli("plan", root, *right, "--format", "json").out)
    assert plan["store"]["geometry"]["consumequeue_file_size"] == size
    (said,) = [item for item in plan["actions"][0]["assumptions"] if item["name"] == right[1].split("=")[0]]
    assert (said["value"], said["how"]) == (size, "given")
    assert cli("fix", "--yes", root, *right, "--assume", "queue_kinds").code == 1
    assert {path.stat().st_size for path in root.glob("consumequeue/*/*/*")} == {size}
    assert cli("check", root).code == 0


def test_the_default_sizes_are_assumed_and_said_once(cli: Cli, tmp_path: Path) -> None:
    """Nothing in the store contradicts them, so nobody has to confirm them."""
    root = tmp_path / "store"
    assert cli("write", "--synth", "plain", "--messages", 60, "--into", root).code == 0
    shutil.rmtree(root / "consumequeue")
    ended = cli("fix", "--yes", root)
    assert ended.code == 1
    assert ended.out.count("consumequeue_file_size") == 1
    assert {path.stat().st_size for path in root.glob("consumequeue/*/*/*")} == {6_000_000}
    assert cli("check", root).code == 0


def test_findings_with_one_reason_have_it_once(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    damage_store(store_dir("4.9.8-multiseg"), root, ["missing-all-queues"], 1, write_truth=False)
    text = " ".join(cli("fix", "--yes", root).out.partition("What is left")[2].split())
    assert text.count("has no consume queue") > 1
    assert text.count("rebuild-queue assumes consumequeue_file_size 6000000") == 1


def test_an_interrupted_repair_is_finished(cli: Cli, torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    with monkeypatch.context() as patch:
        patch.setattr("rocketfsck.repair.area.journal.write_manifests", Mock(side_effect=Killed))
        patch.setattr("rocketfsck.repair.apply.applying._clean_up", lambda *_: "")
        with pytest.raises(Killed):
            fix.fix_command.main(["--yes", "--in-place", str(torn)], standalone_mode=False)
    log = next((torn / "commitlog").iterdir())
    Path(f"{log}.rocketfsck.part").write_bytes(b"")  # what it was about to put there
    found = json.loads(cli("check", "--format", "json", torn).out)
    assert found["exit_code"] == 4
    assert "ST050" in [item["rule"] for item in found["findings"]]
    assert not [item for item in found["findings"] if ".part" in str(item["where"])]
    said = cli("info", torn).out
    assert "a repair of this store is not finished" in said
    assert "some files of the store are changed already" in " ".join(said.split())
    ended = cli("fix", "--yes", torn)
    assert ended.code == 1
    assert "this run finished the rest" in ended.out
    Path(f"{log}.rocketfsck.part").unlink(missing_ok=True)
    assert cli("check", torn).code == 0


def test_a_repair_that_was_killed_while_it_was_built(
    cli: Cli, torn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    with monkeypatch.context() as patch:
        patch.setattr("rocketfsck.repair.apply.applying.build", Mock(side_effect=Killed))
        patch.setattr("rocketfsck.repair.apply.applying._clean_up", lambda *_: "")
        with pytest.raises(Killed):
            fix.fix_command.main(["--yes", str(torn)], standalone_mode=False)
    rules = [item["rule"] for item in json.loads(cli("check", "--format", "json", torn).out)["findings"]]
    assert ("ST051" in rules, "ST050" in rules) == (True, False)
    assert "no file is half changed" in " ".join(cli("info", torn).out.split())
    assert cli("fix", "--yes", torn).code == 1
    ended = cli("check", "--format", "json", torn)
    assert (ended.code, "ST051" in ended.out) == (0, False)


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


@pytest.mark.parametrize("part", ["consumequeue", "commitlog/00000000000000131072"])
def test_what_cannot_be_read_is_no_damage(
    cli: Cli, store_copy: Directory, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """As root the tests may read everything, so the system's answer is made up here."""
    root = store_copy("4.9.8-multiseg")

    def refusing(call: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(path: Any, *given: Any, **more: Any) -> Any:
            if str(path).endswith(part):
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return call(path, *given, **more)

        return refuse

    before = contents(root)
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refusing(os.scandir))
        patch.setattr(os, "open", refusing(os.open))
        checked = cli("check", root)
        lines = [cli("fix", choice, root) for choice in ("--yes", "--preen", "--dry-run")]
    assert checked.code == 8
    assert checked.out.splitlines()[0].endswith(f"a part of it cannot be read: {part}.")
    assert "XR0" not in checked.out
    for ended in lines:
        assert ended.code == 8
        assert f"{part}: no repair is planned for a store of which a part cannot be read" in ended.err
    assert contents(root) == before
