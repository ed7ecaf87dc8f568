"""Apply and undo: exactly the plan or nothing, and back."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair.apply import applying
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.ledger import Ledger, LedgerAccount, OffsetRange
from rocketfsck.repair.apply.results import ApplyReport
from rocketfsck.repair.apply.undoing import undo
from rocketfsck.repair.plan.arguments import Arguments
from rocketfsck.repair.plan.model import Action, Extent, Plan
from rocketfsck.repair.plan.table import ActScene, Row
from rocketfsck.store import open_store
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.run import check_store
from rocketfsck.writer.disk import fileops

from tests.reported import reported
from tests.unit.repair.core.plans import REPAIRS, plan_of, snapshot

MODES = pytest.mark.parametrize("in_place", [False, True], ids=["beside", "in-place"])


def beside(root: Path) -> set[str]:
    return {path.name for path in root.parent.iterdir()} - {root.name, f"{root.name}.good"}


def only(plan: Plan, **changes: object) -> Plan:
    """The plan's first action alone, changed."""
    actions = [action for action in plan.actions if action.name == "move-stray"]
    return replace(plan, actions=(replace(actions[0], **changes),))  # type: ignore[arg-type]


def with_act(act: object) -> Mapping[str, Row]:
    return {**REPAIRS, "move-stray": replace(REPAIRS["move-stray"], act=act)}  # type: ignore[arg-type]


@MODES
def test_apply_corrects_and_undo_gives_back(damaged: Path, in_place: bool) -> None:
    before = snapshot(damaged)
    plan = plan_of(damaged)
    calls: list[tuple[int, int]] = []
    with reported("checking the repaired store: checking the files", calls):
        report = apply_plan(plan, in_place=in_place, repairs=REPAIRS)
    assert report.published and not report.finished and report.problem == ""
    assert report.exit_code == 1 and calls
    assert report.left == report.unmet == report.fresh == ()
    assert report.before == plan.counts
    assert report.ledger.balanced
    (account,) = report.ledger.queues
    assert (account.corrected, account.lost, account.gained, account.moved) == (1, 0, 0, 0)
    assert account.before == account.after == account.kept + 1
    after = check_store(open_store(damaged), CheckOptions(jobs=1))
    assert after.exit_code == 0
    assert not plan_of(damaged).actions
    good = snapshot(Path(f"{damaged}.good"))
    assert {name: data for name, (_, _, data) in snapshot(damaged).items()} == {
        name: data for name, (_, _, data) in good.items()
    }
    kept = Path(report.kept)
    assert kept.parent == damaged.parent and kept.name.startswith("store.before-")
    assert (kept / "set-aside" / "commitlog" / "notes.txt").read_text() == "stray"
    assert json.loads((kept / "ledger.json").read_text())["queues"][0]["corrected"] == 1
    assert ApplyReport.from_json(json.loads((kept / "result.json").read_text())) == report
    if not in_place:
        assert snapshot(kept / "store") == before
    undone = undo(damaged)
    assert not undone.finished and undone.mode == report.mode and undone.kept == ""
    assert snapshot(damaged) == before
    assert beside(damaged) == set()
    with pytest.raises(UsageError, match="no repair"):
        undo(damaged)


def test_what_a_broker_writes_to_is_no_hard_link(damaged: Path) -> None:
    report = apply_plan(plan_of(damaged), repairs=REPAIRS)
    shared = {
        str(path.relative_to(damaged))
        for path in damaged.rglob("*")
        if path.is_file() and path.stat().st_nlink > 1
    }
    logs = sorted(path.name for path in (damaged / "commitlog").iterdir())
    assert {name for name in shared if name.startswith("commitlog/")} == {
        f"commitlog/{name}" for name in logs[:-2]
    }
    assert "checkpoint" not in shared and "lock" not in shared
    with (damaged / "checkpoint").open("r+b") as stream:
        stream.write(b"x")
    assert (Path(report.kept) / "store" / "checkpoint").read_bytes()[:1] != b"x"


@MODES
def test_without_keeping_there_is_no_undo(damaged: Path, in_place: bool) -> None:
    report = apply_plan(plan_of(damaged), repairs=REPAIRS, keep=False, in_place=in_place)
    kept = Path(report.kept)
    assert {path.name for path in kept.iterdir()} == set(applying.KEPT)
    assert (kept / "set-aside" / "commitlog" / "notes.txt").exists()
    with pytest.raises(UsageError, match="no repair"):
        undo(damaged)
    assert check_store(open_store(damaged), CheckOptions(jobs=1)).exit_code == 0


def test_reports_come_back_from_json() -> None:
    account = LedgerAccount("log", "", 0, 9, 8, 7, 1, 0, 1, 0, (OffsetRange(3, 4, 1),), 1)
    for ledger in (Ledger((account,), account, 3, 4), Ledger()):
        report = ApplyReport("/s", "beside", "aa", ("x",), True, before={"CL002": 1}, ledger=ledger)
        assert ApplyReport.from_json(json.loads(json.dumps(report.to_json()))) == report
    earlier = report.to_json()
    del earlier["state"], earlier["check_exit_code"]  # a repair that an earlier release began
    assert ApplyReport.from_json(earlier) == report
    for document in (None, {}, {**report.to_json(), "ledger": 3}, {**report.to_json(), "left": "x"}):
        with pytest.raises(UsageError):
            ApplyReport.from_json(document)


def test_a_report_that_was_spoilt(damaged: Path) -> None:
    plan = plan_of(damaged)
    report = apply_plan(plan, repairs=REPAIRS)
    (Path(report.kept) / "result.json").write_text("{}")
    with pytest.raises(StoreError, match="not a report of a repair"):
        apply_plan(plan, repairs=REPAIRS)
    undo(damaged)


@MODES
def test_applying_twice_does_it_once(damaged: Path, in_place: bool) -> None:
    plan = plan_of(damaged)
    first = apply_plan(plan, repairs=REPAIRS, in_place=in_place)
    again = apply_plan(plan, repairs=REPAIRS, in_place=in_place)
    assert again == replace(first, finished=True)
    (damaged / "abort").write_bytes(b"")
    with pytest.raises(StoreError, match="changed since the plan was made"):
        apply_plan(plan, repairs=REPAIRS, in_place=in_place)


def test_a_plan_without_actions_does_nothing(damaged: Path) -> None:
    plan = replace(plan_of(damaged), actions=())
    report = apply_plan(plan, repairs=REPAIRS)
    assert not report.published and report.exit_code == 0 and beside(damaged) == set()


@MODES
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"preconditions": (Extent("checkpoint", 0, 8, "00"),)}, "bytes 0 to 8 of 'checkpoint' differ"),
        ({"preconditions": (Extent("gone", 0, None, "00"),)}, "'gone' cannot be read"),
        ({"preconditions": (Extent("checkpoint", 0, 1 << 40, "00"),)}, "cannot be read"),
        ({"preconditions": (Extent("checkpoint", 0, None, None),)}, "'checkpoint' exists now"),
        ({"write_byte_count": 1 << 62}, "the repair needs"),
    ],
)
def test_a_store_that_is_not_as_planned_is_left_alone(
    damaged: Path, in_place: bool, change: dict[str, object], says: str
) -> None:
    before = snapshot(damaged)
    plan = only(plan_of(damaged), **change)
    with pytest.raises(StoreError, match=says):
        apply_plan(plan, repairs=REPAIRS, in_place=in_place)
    assert snapshot(damaged) == before and beside(damaged) == set()


@pytest.mark.parametrize("file", ["../x", "/etc/passwd"])
def test_a_plan_that_leads_elsewhere_is_refused(damaged: Path, file: str) -> None:
    with pytest.raises(UsageError):
        apply_plan(only(plan_of(damaged), preconditions=(Extent(file, 0, 1, "00"),)), repairs=REPAIRS)
    with pytest.raises(UsageError):
        apply_plan(only(plan_of(damaged), target=file, preconditions=()), repairs=REPAIRS)
    with pytest.raises(UsageError, match="no repair has this name"):
        apply_plan(only(plan_of(damaged), name="rm"), repairs=REPAIRS)
    assert beside(damaged) == set()


def test_a_precondition_that_nothing_is_there(damaged: Path) -> None:
    plan = plan_of(damaged)
    actions = [
        replace(a, preconditions=(*a.preconditions, Extent("new", 0, None, None))) for a in plan.actions
    ]
    assert apply_plan(replace(plan, actions=tuple(actions)), repairs=REPAIRS).published


@MODES
def test_a_result_that_is_not_better_is_not_published(damaged: Path, in_place: bool) -> None:
    before = snapshot(damaged)
    plan = plan_of(damaged)

    def nothing(_scene: ActScene, _action: Action, _arguments: Arguments) -> None:
        pass

    report = apply_plan(plan, repairs=with_act(nothing), in_place=in_place)
    assert not report.published and report.unmet and report.exit_code == 4 and report.kept == ""
    assert "still finds" in report.problem

    def worse(scene: ActScene, action: Action, _arguments: Arguments) -> None:
        scene.tree.set_aside(action.target)
        if not scene.tree.exists("commitlog/more.txt"):
            scene.tree.create("commitlog/more.txt", 5)

    report = apply_plan(plan, repairs=with_act(worse), in_place=in_place)
    assert not report.published and [item.rule for item in report.fresh] and "new problems" in report.problem
    assert snapshot(damaged) == before and beside(damaged) == set()


def test_findings_the_plan_does_not_know_are_not_new(damaged: Path) -> None:
    plan = plan_of(damaged)
    part = replace(plan, actions=plan.actions[:1], unanswered=())
    report = apply_plan(part, repairs=REPAIRS)
    assert report.published and report.left and report.exit_code == 5
    assert {item.reason for item in report.left} == {"the plan does not mention this finding"}


@MODES
def test_valid_records_are_lost_only_as_planned(damaged: Path, in_place: bool) -> None:
    before = snapshot(damaged)
    plan = only(plan_of(damaged, only=["move-stray"]))

    def cut(scene: ActScene, action: Action, _arguments: Arguments) -> None:
        scene.tree.set_aside(action.target)
        last = next(name for name in scene.tree.names("commitlog") if name.isdigit())
        scene.tree.zero(f"commitlog/{last}", 0, 400)

    report = apply_plan(plan, repairs=with_act(cut), in_place=in_place)
    assert not report.published and report.exit_code == 4
    assert report.ledger.records is not None and report.ledger.records.unplanned > 0
    assert snapshot(damaged) == before


def test_without_a_check_the_plan_is_done_as_it_is(damaged: Path) -> None:
    report = apply_plan(plan_of(damaged), repairs=with_act(lambda *_: None), check=False)
    assert report.published and (damaged / "commitlog" / "notes.txt").exists()


HOLD = """
import fcntl, sys
stream = open(sys.argv[1], "r+b")
fcntl.lockf(stream, fcntl.LOCK_EX, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


@MODES
def test_a_broker_at_work_is_left_alone(damaged: Path, in_place: bool) -> None:
    plan = plan_of(damaged)
    apply_plan(plan, repairs=REPAIRS, in_place=in_place)
    repaired = snapshot(damaged)
    command = [sys.executable, "-c", HOLD, str(damaged / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreError, match="a broker holds the lock"):
            apply_plan(only(plan), repairs=REPAIRS, in_place=in_place)
        with pytest.raises(StoreError, match="a broker holds the lock"):
            undo(damaged)
        holder.communicate(b"")
    assert snapshot(damaged) == repaired
    undo(damaged)


def test_two_repairs_at_once(damaged: Path) -> None:
    descriptor = os.open(damaged.parent, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(StoreError, match="another repair"):
        apply_plan(plan_of(damaged), repairs=REPAIRS)
    os.close(descriptor)


def test_a_store_without_lock_and_a_store_that_is_gone(damaged: Path, tmp_path: Path) -> None:
    (damaged / "lock").unlink()
    plan = plan_of(damaged)
    with pytest.raises(StoreError):
        apply_plan(replace(plan, store=replace(plan.store, root=str(tmp_path / "no"))), repairs=REPAIRS)
    with pytest.raises(StoreError, match="cannot be opened"):
        undo(tmp_path / "no" / "store")
    assert apply_plan(plan, repairs=REPAIRS).published


@MODES
def test_changes_by_others_are_not_overwritten(damaged: Path, in_place: bool) -> None:
    before = snapshot(damaged)
    plan = plan_of(damaged)

    def intrude(scene: ActScene, action: Action, _arguments: Arguments) -> None:
        REPAIRS["move-stray"].act(scene, action, action.arguments)
        (damaged / "abort").write_bytes(b"x")

    with pytest.raises(StoreError, match="changed while it was repaired: abort"):
        apply_plan(plan, repairs=with_act(intrude), in_place=in_place, check=False)
    (damaged / "abort").unlink()
    assert {name: found[2] for name, found in snapshot(damaged).items()} == {
        name: found[2] for name, found in before.items()
    }


@MODES
def test_undo_keeps_what_was_written_since(damaged: Path, in_place: bool) -> None:
    before = snapshot(damaged)
    plan = plan_of(damaged)
    file = damaged / next(action.target for action in plan.actions if action.name == "rebuild-queue")
    apply_plan(plan, repairs=REPAIRS, in_place=in_place)
    with file.open("r+b") as stream:
        stream.seek(-20, os.SEEK_END)
        stream.write(b"newer message unit..")
    with pytest.raises(StoreError, match=r"changed since it was repaired: consumequeue/.*--force"):
        undo(damaged)
    report = undo(damaged, force=True)
    assert snapshot(damaged) == before
    kept = [path for path in Path(report.kept).rglob("*") if path.is_file() and path.name.endswith(file.name)]
    assert any(path.read_bytes().endswith(b"newer message unit..") for path in kept)
    with pytest.raises(UsageError, match="no repair"):
        undo(damaged)


def test_undo_tells_where_the_kept_store_changed(damaged: Path) -> None:
    report = apply_plan(plan_of(damaged), repairs=REPAIRS)
    (Path(report.kept) / "store" / "checkpoint").write_bytes(b"")
    with pytest.raises(StoreError, match="kept store changed since: checkpoint"):
        undo(damaged)
    undo(damaged, force=True)


def test_repairs_are_taken_back_one_by_one(damaged: Path) -> None:
    states = [snapshot(damaged)]
    for name in ("move-stray", "rebuild-queue"):
        apply_plan(plan_of(damaged, only=[name]), repairs=REPAIRS, in_place=name == "move-stray")
        states.append(snapshot(damaged))
    undo(damaged)
    assert snapshot(damaged) == states[1]
    undo(damaged)
    assert snapshot(damaged) == states[0]


def test_in_place_does_not_write_through_links_of_the_kept_store(damaged: Path) -> None:
    first = apply_plan(plan_of(damaged, only=["move-stray"]), repairs=REPAIRS)
    kept = snapshot(Path(first.kept) / "store")
    apply_plan(plan_of(damaged), repairs=REPAIRS, in_place=True)
    assert snapshot(Path(first.kept) / "store") == kept


@pytest.fixture
def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fileops, "exchange", lambda _first, _second: False)


@pytest.mark.usefixtures("no_exchange")
def test_without_renameat2(damaged: Path) -> None:
    before = snapshot(damaged)
    report = apply_plan(plan_of(damaged), repairs=REPAIRS)
    assert report.published and snapshot(Path(report.kept) / "store") == before
    undo(damaged)
    assert snapshot(damaged) == before


def no_links(name: str, path: str) -> None:
    if name == "link":
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)


@MODES
def test_without_hard_links(damaged: Path, in_place: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(damaged)
    monkeypatch.setattr(fileops, "watch", no_links)
    report = apply_plan(plan_of(damaged), repairs=REPAIRS, in_place=in_place)
    assert report.published
    assert check_store(open_store(damaged), CheckOptions(jobs=1)).exit_code == 0
    assert not any(path.is_symlink() for path in damaged.rglob("*"))
    undo(damaged)
    assert snapshot(damaged) == before


def test_links_and_outside_directories_are_repaired_in_place(damaged: Path, tmp_path: Path) -> None:
    second = tmp_path / "disk2"
    second.mkdir()
    names = sorted(path.name for path in (damaged / "commitlog").iterdir() if path.name.isdigit())
    (damaged / "commitlog" / names[-1]).rename(second / names[-1])
    (second / "notes.txt").write_text("stray")
    topics = tmp_path / "topics"
    (damaged / "consumequeue").rename(topics)
    (damaged / "consumequeue").symlink_to(topics)
    before = snapshot(tmp_path)
    store = open_store(damaged, commitlog_paths=[damaged / "commitlog", second])
    from rocketfsck.repair.plan.planning import make_plan

    plan = make_plan(store, check_store(store, CheckOptions(jobs=1)), repairs=REPAIRS)
    assert f"{second}/notes.txt" in {action.target for action in plan.actions}
    with pytest.raises(UsageError, match=r"commit log files in .*disk2.*--in-place"):
        apply_plan(plan, repairs=REPAIRS)
    for named in ([], [topics], [second]):
        with pytest.raises(UsageError, match=r"outside (of )?the store.*--outside"):
            apply_plan(plan, repairs=REPAIRS, in_place=True, outside=named)
    assert snapshot(tmp_path) == before
    report = apply_plan(plan, repairs=REPAIRS, in_place=True, outside=[topics, second])
    assert report.published and report.exit_code == 1 | 4  # brokers before 4.9.2 know one directory
    assert not (second / "notes.txt").exists() and (damaged / "consumequeue").is_symlink()
    after = snapshot(tmp_path)
    with pytest.raises(UsageError, match=r"name the directories.*--outside"):
        undo(damaged, outside=[second])
    assert snapshot(tmp_path) == after
    undo(damaged, outside=[second, topics])
    assert snapshot(tmp_path) == before


def test_a_linked_directory_is_repaired_in_place_only(damaged: Path, tmp_path: Path) -> None:
    (damaged / "index").rename(tmp_path / "elsewhere")
    (damaged / "index").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="index is a symbolic link"):
        apply_plan(plan_of(damaged), repairs=REPAIRS)
    report = apply_plan(plan_of(damaged), repairs=REPAIRS, in_place=True)
    assert report.published and report.outside == ()  # nothing changes behind the link


@MODES
def test_a_store_by_a_link(damaged: Path, tmp_path: Path, in_place: bool) -> None:
    (tmp_path / "link").symlink_to(damaged)
    (tmp_path / "link.good").symlink_to(f"{damaged}.good")
    before = snapshot(damaged)
    report = apply_plan(plan_of(tmp_path / "link"), repairs=REPAIRS, in_place=in_place)
    assert report.store == str(damaged) and (tmp_path / "link").is_symlink()
    undo(tmp_path / "link")
    assert snapshot(damaged) == before


@MODES
def test_another_place_to_work(damaged: Path, tmp_path: Path, in_place: bool) -> None:
    before = snapshot(damaged)
    place = tmp_path / "work"
    place.mkdir()
    report = apply_plan(plan_of(damaged), repairs=REPAIRS, in_place=in_place, work_dir=place)
    assert Path(report.kept).parent == place
    with pytest.raises(UsageError):
        undo(damaged)
    undo(damaged, work_dir=place)
    assert snapshot(damaged) == before


@MODES
def test_a_lock_that_is_a_directory_stays(damaged: Path, in_place: bool) -> None:
    (damaged / "lock").unlink()
    (damaged / "lock" / "inner").mkdir(parents=True)
    before = snapshot(damaged)
    apply_plan(only(plan_of(damaged)), repairs=REPAIRS, check=False, in_place=in_place)
    assert (damaged / "lock" / "inner").is_dir()
    undo(damaged)
    assert snapshot(damaged) == before


def test_nothing_is_built_inside_the_store(damaged: Path) -> None:
    before = snapshot(damaged)
    for place in (damaged, damaged / "config"):
        with pytest.raises(UsageError, match="inside the store"):
            apply_plan(plan_of(damaged), repairs=REPAIRS, in_place=True, work_dir=place)
    assert snapshot(damaged) == before


def kinds(scene: ActScene, action: Action, _arguments: Arguments) -> None:
    """Files become directories, directories files, names change places."""
    tree = scene.tree
    tree.set_aside(action.target)
    tree.set_aside("index")
    tree.create("index", 3)
    tree.set_aside("notes")
    tree.create("notes/inner/file", 4)
    first, second = [name for name in tree.names("commitlog") if name.isdigit()][:2]
    tree.rename(f"commitlog/{first}", "commitlog/x")
    tree.rename(f"commitlog/{second}", f"commitlog/{first}")
    tree.rename("commitlog/x", f"commitlog/{second}")
    tree.set_mtime("config/delayOffset.json", 7)


@MODES
@pytest.mark.parametrize("links", [True, False])
def test_any_change_can_be_published_and_taken_back(
    damaged: Path, in_place: bool, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (damaged / "dangling").symlink_to("nowhere")
    (damaged / "notes").write_bytes(b"x")
    before = snapshot(damaged)
    plan = only(plan_of(damaged), preconditions=())
    logs = sorted(path.name for path in (damaged / "commitlog").iterdir() if path.name.isdigit())[:2]
    content = [(damaged / "commitlog" / name).read_bytes() for name in logs]
    monkeypatch.setattr(fileops, "watch", None if links else no_links)
    apply_plan(plan, repairs=with_act(kinds), check=False, in_place=in_place)
    assert (damaged / "index").read_bytes() == bytes(3)
    assert (damaged / "notes" / "inner" / "file").read_bytes() == bytes(4)
    assert [(damaged / "commitlog" / name).read_bytes() for name in logs] == content[::-1]
    assert (damaged / "config" / "delayOffset.json").stat().st_mtime_ns == 7
    undo(damaged)
    assert snapshot(damaged) == before


def test_an_area_of_another_store_is_left_alone(damaged: Path, tmp_path: Path) -> None:
    report = apply_plan(plan_of(damaged), repairs=REPAIRS)
    other = tmp_path / "moved"
    shutil.move(damaged, other)
    with pytest.raises(UsageError, match="no repair"):
        undo(other)
    journal = Path(report.kept) / "journal.json"
    for text in ("{", "{}", journal.read_text().replace('"applied"', '"odd"')):
        journal.write_text(text)
        with pytest.raises(StoreError, match="journal"):
            undo(damaged)
    assert other.exists()
