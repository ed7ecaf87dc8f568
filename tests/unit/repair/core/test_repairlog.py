"""The log of repairs: a line for each action with what it changed; it survives an undo and odd lines."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.results import NAME, append_actions, read_actions, state_log
from rocketfsck.repair.plan.document import kept_plan, plan_digest
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.plan.table import hash_bytes
from rocketfsck.store import open_store
from rocketfsck.verify.run import check_store
from rocketfsck.writer.damage import damage_store

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli, cli

__all__ = ["cli"]


@pytest.fixture
def torn(store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROCKETFSCK_STATE_DIR", str(tmp_path / "state"))
    root = tmp_path / "torn"
    damage_store(store_dir("4.9.8-multiseg"), root, ["torn-tail"], 1, write_truth=False)
    return root


def contents(root: Path) -> dict[Path, bytes]:
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("options", [[], ["--in-place"]])
def test_every_action_is_logged_with_what_it_changed(
    cli: Cli, torn: Path, tmp_path: Path, options: list[str]
) -> None:
    log = tmp_path / "log.jsonl"
    before = {path: hash_bytes(str(path)) for path in torn.rglob("*") if path.is_file()}
    ended = json.loads(cli("fix", "--yes", torn, "--log", log, "--format", "json", *options).out)
    found = lines(log)
    assert found == lines(state_log(str(torn))) == lines(Path(ended["apply"]["kept"]) / NAME)
    assert [item["action"] for item in found] == [item["name"] for item in ended["plan"]["actions"]]
    assert [item["rules"] for item in found] == [item["rules"] for item in ended["plan"]["actions"]]
    assert {(item["answer"], item["result"]) for item in found} == {("yes", "applied")}
    assert [item["number"] for item in found] == [*range(1, len(found) + 1)]
    extents = [extent for item in found for extent in item["extents"]]
    assert {"commitlog", "checkpoint"} <= {extent["file"].partition("/")[0] for extent in extents}
    for extent in extents:
        path = torn / extent["file"]
        assert extent["before"] != extent["after"]
        if extent["end"] is None and extent["after"] is not None:
            assert (before[path], hash_bytes(str(path))) == (extent["before"], extent["after"])
    assert cli("undo", torn, "--log", log).code == 0
    back = lines(log)
    assert back[: len(found)] == found
    assert [item["result"] for item in back[len(found) :]] == ["taken-back"] * len(found)
    assert [item["extents"] for item in back[len(found) :]] == [item["extents"] for item in found]
    assert lines(state_log(str(torn))) == back
    assert state_log(str(torn)).stat().st_mode & 0o077 == 0


def test_the_same_repair_again_is_logged_again(cli: Cli, torn: Path) -> None:
    cli("fix", "--preen", torn)
    done = len(lines(state_log(str(torn))))
    cli("undo", torn)
    assert cli("apply", torn).code == 5  # undo has kept the plan
    found = lines(state_log(str(torn)))
    assert [item["result"] for item in found] == ["applied"] * done + ["taken-back"] * done + [
        "applied"
    ] * done
    assert found[-1]["answer"] == "plan"
    cli("undo", torn)
    assert len(lines(state_log(str(torn)))) == 4 * done


def test_an_undo_can_be_undone(cli: Cli, torn: Path) -> None:
    cli("fix", "--yes", torn)
    repaired = contents(torn)
    assert cli("undo", torn).code == 0
    assert kept_plan(torn).actions
    assert cli("apply", torn).code == 1
    assert {
        path.relative_to(torn): path.read_bytes() for path in torn.rglob("*") if path.is_file()
    } == repaired


def test_what_is_not_published_is_logged(cli: Cli, torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketfsck.repair.apply.judging.start_problem", lambda _: "a test says so")
    assert cli("fix", "--yes", torn).code == 4
    found = lines(state_log(str(torn)))
    assert {(item["result"], item["problem"]) for item in found} == {("not-published", "a test says so")}
    assert all(item["extents"] == [] for item in found)


def test_a_log_that_cannot_be_written_stops_a_repair_before_it_begins(cli: Cli, torn: Path) -> None:
    before = sorted(path.name for path in torn.parent.iterdir())
    for log, code in ((torn / "log", 16), (Path("/dev/null/log"), 8)):
        assert cli("fix", "--yes", torn, "--log", log).code == code
    assert sorted(path.name for path in torn.parent.iterdir()) == before
    assert cli("undo", torn, "--log", torn / "log").code == 16


def test_a_state_directory_that_cannot_be_written_does_not(
    cli: Cli, torn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETFSCK_STATE_DIR", "/dev/null/none")
    ended = cli("fix", "--yes", torn)
    assert ended.code == 1
    assert "Note: the repair is not logged: " in ended.err
    assert cli("undo", torn).code == 0


def test_odd_lines_are_passed_over(cli: Cli, torn: Path) -> None:
    path = state_log(str(torn))
    path.parent.mkdir(parents=True)
    odd = b'\n{}\n[1]\n"x"\n\xff\n{"kind": "rocketfsck.repair.action"}\n' + b"[" * 100_000 + b"\n"
    path.write_bytes(odd)
    assert read_actions(path) == ()
    cli("fix", "--yes", torn)
    assert len(read_actions(path)) == 4
    assert path.read_bytes().startswith(odd)
    assert read_actions(path.parent / "none") == ()
    append_actions(path, read_actions(path)[:1])
    assert len(read_actions(path)) == 5


def test_a_confirmed_plan_is_the_same_plan(
    cli: Cli, store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted repair whose assumptions were confirmed is finished by the same command."""
    monkeypatch.setenv("ROCKETFSCK_STATE_DIR", str(tmp_path / "state"))
    root = tmp_path / "store"
    damage_store(store_dir("4.9.8-multiseg"), root, ["missing-all-queues"], 1, write_truth=False)
    names = ["consumequeue_file_size", "queue_kinds"]
    words = ["fix", "--yes", root, *(f"--assume={name}" for name in names)]

    class KilledError(BaseException):
        pass

    def kill(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr("rocketfsck.repair.area.journal.write_manifests", kill)
        patch.setattr("rocketfsck.repair.apply.applying._clean_up", lambda *_: "")
        with pytest.raises(KilledError):
            cli(*words, "--in-place")
    ended = cli(*words, "--in-place")
    assert ended.code == 1
    assert "this run finished the rest" in ended.out
    found = lines(state_log(str(root)))
    assert set(names) <= {name for item in found for name in item["confirmed"]}
    assert len({item["plan_digest"] for item in found}) == 1


def test_without_an_area_python_logs_beside_the_journal_alone(torn: Path) -> None:
    store = open_store(torn)
    plan = make_plan(store, check_store(store))
    report = apply_plan(plan)
    (first, *_) = read_actions(Path(report.kept) / NAME)
    assert (first.answer, first.plan_digest) == ("plan", plan_digest(plan))
    assert not state_log(str(torn)).exists()
    shutil.rmtree(report.kept)
