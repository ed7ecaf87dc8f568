"""A repair that brokers would start worse with is not published; starts refused before and after are said."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.cli.show.repair import apply_lines
from rocketfsck.cli.show.start import comparison_lines, verdict_lines, verdict_text
from rocketfsck.cli.show.text import Palette
from rocketfsck.query.start.verdict import COMPARED, StartVerdict
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.judging import (
    Former,
    StartComparison,
    compare_starts,
    predict_rebuilt,
    start_problem,
)
from rocketfsck.repair.apply.results import ApplyReport
from rocketfsck.repair.build.run import RebuildOptions
from rocketfsck.repair.plan.arguments import Arguments
from rocketfsck.repair.plan.model import Action, Loss
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.plan.table import ActScene
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Settings
from rocketfsck.verify import CheckOptions, check_store

from tests.unit.query.maker import make, message, reopen
from tests.unit.repair.core.plans import REPAIRS, plan_of, snapshot
from tests.unit.repair.core.test_applying import MODES, beside, only, with_act

FINE = StartVerdict("5.3.3", ("5.3.2", "5.3.3"), True, True, cut_count=0, lost_count=0, reached_count=9)


@MODES
@pytest.mark.parametrize("check", [True, False])
def test_a_repair_that_starts_worse_is_not_published(damaged: Path, in_place: bool, check: bool) -> None:
    """Whether the result is checked or not: what the check finds comes first."""
    plan = only(plan_of(damaged, only=["move-stray"]), preconditions=())
    assert apply_plan(plan_of(damaged), repairs=REPAIRS, keep=False).published
    for path in damaged.parent.glob("store.*-*"):
        shutil.rmtree(path)
    before = snapshot(damaged)

    def spoil(scene: ActScene, _action: Action, _arguments: Arguments) -> None:
        scene.tree.create("commitlog/more", 5)

    report = apply_plan(plan, repairs=with_act(spoil), in_place=in_place, check=check)
    assert not report.published and report.exit_code == 4 and report.kept == ""
    if not check:
        assert "would start worse than before: it does not start (commitlog/more: 5 length" in report.problem
        assert any(item.worse for item in report.starts)
        assert ApplyReport.from_json(json.loads(json.dumps(report.to_json()))) == report
        text = "\n".join(apply_lines(report, Palette(False), 100))
        assert "worse than before: " in text and "nothing was changed" in text
    assert snapshot(damaged) == before and beside(damaged) == set()


def test_a_report_tells_of_every_version(damaged: Path) -> None:
    report = apply_plan(plan_of(damaged), repairs=REPAIRS)
    versions = [version for item in report.starts for version in item.after.alike]
    assert versions == list(dict.fromkeys(versions))
    assert set(versions) == set(plan_of(damaged).store.versions)
    assert all(item.after.harmless for item in report.starts)
    own = str(open_store(damaged).dialect.version)
    assert [item.before is not None for item in report.starts] == [
        own in item.after.alike for item in report.starts
    ]
    text = "\n".join(apply_lines(report, Palette(False), 100))
    assert "Start of a broker (predicted)" in text
    assert "starts and loses nothing" in text


def test_a_start_that_is_refused_before_and_after_is_said(tmp_path: Path) -> None:
    store = make(tmp_path, [message(number) for number in range(30)])
    (store.root / "commitlog/stray").write_bytes(b"12345")
    (item,) = compare_starts(Former(reopen(tmp_path)), reopen(tmp_path), ())
    assert item.before is not None and not item.before.loads and not item.after.loads
    assert item.worse == () and start_problem([item]) == ""
    assert "does not start: commitlog/stray: 5 length not matched" in verdict_text(item.after)


def test_what_the_plan_gives_up_is_not_worse(tmp_path: Path) -> None:
    store = make(tmp_path, [message(number) for number in range(80)])
    good = reopen(tmp_path)
    before = Path(shutil.copytree(tmp_path, tmp_path.with_name("before")))
    last = store.commitlog.files[-1].path
    last.write_bytes(bytes(last.stat().st_size))
    lost = Action("x", "", "", losses=(Loss("record", 80),))
    judged = [
        compare_starts(Former(reopen(before)), reopen(tmp_path), actions)[0] for actions in ((), (lost,))
    ]
    assert any("messages fewer" in reason for reason in judged[0].worse)
    assert not any("messages fewer" in reason for reason in judged[1].worse)
    assert good.root == store.root


def test_settings_decide(tmp_path: Path) -> None:
    store = make(tmp_path, [message(number) for number in range(3)])
    conf = Settings(None, {"enableDLegerCommitLog": "true"})
    (item,) = compare_starts(Former(store, conf), store, ())
    assert item.before is not None
    assert not item.before.covered and not item.after.covered and item.worse == ()
    assert verdict_text(item.after).startswith("cannot be predicted: ")


def test_the_settings_that_decide_are_those_of_the_plan_and_of_the_apply(tmp_path: Path) -> None:
    """A slave does not dispatch; what `apply` is given comes before what the plan was made with."""
    store = make(tmp_path, [message(number) for number in range(30)])
    (store.root / "commitlog/notes.txt").write_text("stray")
    conf = tmp_path / "plan.conf"
    conf.write_text((tmp_path / "broker.conf").read_text() + "brokerId=1\nlisten=no\n")
    stated = open_store(store.root, broker_conf=conf, version="5.3.3")
    plan = make_plan(stated, check_store(stated, CheckOptions(jobs=1)))
    assert plan.store.settings == {"brokerId": "1"}
    given = Settings(None, {**stated.settings.values, "enableDLegerCommitLog": "true"})
    report = apply_plan(plan, keep=False, settings=given)
    assert report.published
    assert [item.after.covered for item in report.starts] == [False]


def test_parts_that_were_rebuilt_are_judged_in_their_place(tmp_path: Path) -> None:
    store = make(tmp_path, [message(number) for number in range(30)])
    built = tmp_path / "built"
    built.mkdir()
    for name in ("consumequeue", "index", "checkpoint"):
        shutil.move(store.root / name, built / name)
    (store.root / "consumequeue/Order/0").mkdir(parents=True)
    (store.root / "consumequeue/Order/0/bad").write_bytes(b"12")
    damaged = reopen(tmp_path)
    (alone,) = predict_rebuilt(damaged, built, RebuildOptions(index=True, checkpoint=True))
    (whole,) = predict_rebuilt(damaged, built, RebuildOptions(queues=True, index=True, checkpoint=True))
    assert not alone.loads and "consumequeue/Order/0/bad" in alone.obstacle
    assert whole.harmless
    assert list(verdict_lines([whole])) == ["start of a broker (predicted), 5.3.3: starts"]


@pytest.mark.parametrize("name", [name for name in COMPARED if name != "unread_part_count"])
def test_whatever_a_start_takes_is_said(name: str) -> None:
    taking = replace(FINE, **{name: name == "queues_destroyed" or 2})  # type: ignore[arg-type]
    assert taking.takes() or name in ("unreadable_count",)
    assert "loses nothing" not in verdict_text(taking)


def test_verdicts_in_words() -> None:
    assert verdict_text(FINE) == "starts and loses nothing"
    many = replace(FINE, queues_destroyed=True, cut_count=1, lost_count=2000, deleted_file_count=3)
    assert verdict_text(many) == (
        "starts; deletes all consume queues; cuts 1 message off the log; "
        "hides 2,000 messages from consumers; deletes 3 files"
    )
    others = [replace(FINE, alike=("5.2.0", "5.3.0", "5.3.1")), replace(FINE, alike=("4.9.8",)), many]
    assert list(verdict_lines([FINE, *others])) == [
        f"start of a broker (predicted), 5.3.2 to 5.3.3: {verdict_text(many)}",
        "start of a broker (predicted), 4.9.8, 5.2.0 to 5.3.3: starts and loses nothing",
    ]
    item = StartComparison(FINE, replace(FINE, cut_count=4), ("cuts 4",))
    assert start_problem([StartComparison(None, FINE), item]) == (
        "a broker of version 5.3.3 would start worse than before: it cuts 4"
    )


def test_versions_are_grouped_by_what_they_do_now() -> None:
    """As in the verdict: the worst first, and no version apart because only its start before is known."""
    new = replace(FINE, version="5.3.4", alike=("5.3.4",))
    cut = replace(new, cut_count=3)
    refused = replace(FINE, version="5.3.1", alike=("5.3.1",), loads=False, file="a", reason="no")
    items = [StartComparison(None, FINE), StartComparison(cut, new), StartComparison(refused, refused)]
    assert list(comparison_lines(items, Palette(False), 100))[2:] == [
        "  5.3.1: does not start: a: no",
        "  5.3.2 to 5.3.4: starts and loses nothing",
        "    before the repair, 5.3.4: starts; cuts 3 messages off the log",
    ]
    worse = [StartComparison(new, cut, ("cuts 3 messages",))]
    assert list(comparison_lines(worse, Palette(False), 100))[-1] == "    worse than before: cuts 3 messages"
