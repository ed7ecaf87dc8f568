"""From a report to a plan: what is answered by what, in which order, and what is not and why."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.errors import UsageError
from rocketfsck.repair.plan.arguments import Arguments, NewSize
from rocketfsck.repair.plan.model import Action, Extent, Notice
from rocketfsck.repair.plan.planning import describe_store, make_plan, open_planned
from rocketfsck.repair.plan.table import PlanScene, Repair, Row, hash_bytes
from rocketfsck.store import open_store
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.options import CheckOptions, Subset
from rocketfsck.verify.run import check_store
from rocketfsck.writer.disk.confined import open_root

from tests.conftest import Directory
from tests.unit.repair.core.plans import REPAIRS, plan_of

NAME = "4.9.8-basic"


@pytest.fixture
def damaged(store_copy: Directory) -> Path:
    root = store_copy(NAME)
    (root / "commitlog" / "notes.txt").write_text("stray")
    (root / "consumequeue" / "odd.txt").write_text("stray")
    file = next(iter(sorted((root / "consumequeue").glob("*/0/*"))))
    with file.open("r+b") as stream:
        stream.write(bytes(7) + b"\x77" + bytes(12))
    checkpoint = root / "checkpoint"
    checkpoint.write_bytes(b"\xff" * len(checkpoint.read_bytes()))
    return root


def test_actions_are_ordered_and_the_rest_has_reasons(damaged: Path) -> None:
    plan = plan_of(damaged)
    names = [action.name for action in plan.actions]
    assert names[0] == "move-stray" and names[-1] == "rebuild-queue"
    assert names == sorted(names)
    assert plan.level == "full" and plan.counts
    reasons = {item.reason for item in plan.unanswered}
    assert "the repair write-checkpoint is not automatic" in reasons
    named = {item.fingerprint for item in plan.unanswered}
    assert not named & {name for action in plan.actions for name in action.why}
    extent = plan.actions[0].preconditions[0]
    assert extent.sha256 == hash_bytes(f"{damaged}/{extent.file}")


def test_preen_only_and_except(damaged: Path) -> None:
    assert {action.name for action in plan_of(damaged, preen=True).actions} == {"move-stray"}
    assert any("not provably safe" in item.reason for item in plan_of(damaged, preen=True).unanswered)
    only = plan_of(damaged, only=["rebuild-queue"])
    assert {action.name for action in only.actions} == {"rebuild-queue"}
    assert any("other repairs" in item.reason for item in only.unanswered)
    assert {action.name for action in plan_of(damaged, except_=["rebuild-queue"]).actions} == {"move-stray"}
    for option in ("only", "except_"):
        with pytest.raises(UsageError, match="no repair has the name 'cut'; the names are move"):
            plan_of(damaged, **{option: ["cut"]})


def test_a_sound_store_needs_nothing(store_dir: Directory) -> None:
    plan = plan_of(store_dir(NAME))
    assert plan.actions == () and plan.unanswered == ()


def test_reports_of_something_else_are_refused(damaged: Path) -> None:
    store = open_store(damaged)
    part = check_store(store, CheckOptions(jobs=1, subset=Subset.parse("1/9")))
    with pytest.raises(UsageError, match="part of the store"):
        make_plan(store, part, repairs=REPAIRS)
    report = check_store(store, CheckOptions(jobs=1))
    with pytest.raises(UsageError, match="baseline"):
        make_plan(store, replace(report, suppressed=1), repairs=REPAIRS)
    (damaged / "abort").write_bytes(b"")
    with pytest.raises(UsageError, match="another state: file count"):
        make_plan(open_store(damaged), report, repairs=REPAIRS)


def _table(actions: Sequence[Action]) -> dict[str, Row]:
    def plan(_scene: PlanScene, _findings: Sequence[Finding]) -> Iterable[Action]:
        return actions

    return {"move-stray": Repair("move-stray", 1, "", plan, REPAIRS["move-stray"].act, Arguments)}


def test_the_same_action_is_planned_once_and_bugs_are_told(damaged: Path) -> None:
    store = open_store(damaged)
    report = check_store(store, CheckOptions(jobs=1))
    one = Action(
        "move-stray", "f", "", why=("b",), write_byte_count=3, preconditions=(Extent("f", 0, 5, ""),)
    )
    two = replace(one, why=("a", "b"), write_byte_count=9, notices=(Notice("renumbered", 1),))
    (action,) = make_plan(store, report, repairs=_table([one, two])).actions
    assert action.why == ("a", "b") and action.write_byte_count == 9 and not action.preen
    assert action.preconditions == one.preconditions
    with pytest.raises(AssertionError, match="two actions move-stray overlap in 'f'"):
        make_plan(store, report, repairs=_table([one, replace(one, arguments=NewSize(1))]))
    behind = replace(one, arguments=NewSize(1), preconditions=(Extent("f", 5, 9, ""),))
    safe = tuple(replace(action, preen=True) for action in (one, behind))
    assert make_plan(store, report, repairs=_table([one, behind])).actions == safe
    overlapping = replace(one, target="g", preconditions=(Extent("g", 0, 5, ""), Extent("g", 4, 8, "")))
    (action,) = make_plan(store, report, repairs=_table([overlapping])).actions
    assert action == replace(overlapping, preen=True)


@pytest.mark.parametrize("conf", [None, "brokerName=a\n", "messageIndexEnable=false\n"])
def test_what_a_check_says_without_an_index_is_said_again(
    conf: str | None, store_copy: Directory, tmp_path: Path
) -> None:
    """Only a broker.conf that somebody gave shows that the index is wanted."""
    root = store_copy(NAME)
    shutil.rmtree(root / "index")
    with (root / "checkpoint").open("r+b") as checkpoint:
        checkpoint.seek(16)
        checkpoint.write(bytes(8))  # indexMsgTimestamp
    given = tmp_path / "given.conf"
    given.write_text(conf or "")
    store = open_store(root, broker_conf=given if conf else None)
    expected = {None: {"XR031"}, "brokerName=a\n": {"XR040"}}.get(conf, set())
    again = open_planned(describe_store(store), root, (), open_root(tmp_path) / "conf")
    for opened in (store, again):
        report = check_store(opened, CheckOptions(jobs=1))
        assert {rule for rule, count in report.counts.items() if count} & {"XR031", "XR040"} == expected
    assert describe_store(again) == describe_store(store)


def test_the_store_is_opened_as_it_was(store_copy: Directory, tmp_path: Path) -> None:
    root = store_copy(NAME)
    store = open_store(root)
    planned = describe_store(store)
    settings = open_root(tmp_path) / "conf"
    again = open_planned(planned, root, (), settings)
    assert again.dialect_evidence.versions == store.dialect_evidence.versions
    assert again.dialect_evidence.given is False
    assert describe_store(again) == planned
    assert planned.commitlog_paths == ()
    stated = open_store(root, version="4.9.8", commitlog_paths=[root / "index"])
    planned = describe_store(stated)
    assert planned.version_given and planned.commitlog_paths == (f"{root}/index",)
    assert open_planned(planned, root, [root / "index"], settings).dialect_evidence.given
    assert describe_store(open_store(root / "commitlog")).commitlog_paths == ()
    for broken in (
        replace(planned, geometry={"slot_count": 0}),
        replace(planned, geometry={"x": 1}),
        replace(planned, settings={"messageIndexSafe": "a\nb"}),
        replace(planned, version="x"),
    ):
        with pytest.raises(UsageError):
            open_planned(broken, root, (), settings)
    huge = replace(planned, geometry={"slot_count": 1 << 40})
    assert open_planned(huge, root, (), settings).geometry.slot_count == store.geometry.slot_count
