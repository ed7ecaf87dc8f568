"""The verdict: what it is made from, and that what a check has read need not be read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.query.start import verdict as starts
from rocketfsck.repair.plan.model import Unanswered
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.verdict import (
    COMPARES,
    judge_store,
    predicted,
    ranked,
    sound_end_of,
    urgent_classes,
)
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import LiveState, LockState
from rocketfsck.store.model import Geometry
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.rules.catalog import severity_of
from rocketfsck.verify.run import check_store
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store
from rocketfsck.writer.damage import damage_store

from tests.conftest import REAL_NAMES, STORE_NAMES, Directory


@pytest.mark.parametrize("name", STORE_NAMES)
def test_a_sound_log_is_recovered_as_if_it_were_walked(store_dir: Directory, name: str) -> None:
    store = open_store(store_dir(name))
    report = check_store(store)
    end = sound_end_of(store, report)
    classes = starts.start_classes(starts.versions_of(store))
    walked = starts.predict_starts(store, classes, losses=False)
    assert starts.predict_starts(store, classes, losses=False, sound_end=end) == walked
    assert (end is not None) or store.abort is not None or name in ("4.9.8-ghosttail",)


def test_the_units_of_a_long_sound_queue_are_counted_by_halves(tmp_path: Path) -> None:
    messages = [OutgoingMessage("T", b"", 1_700_000_000_000 + number) for number in range(8_000)]
    write_store(
        tmp_path / "store", messages, WriteOptions(sync=False, geometry=Geometry(1 << 21, 20 * 5_000))
    )
    store = open_store(tmp_path / "store")
    end = sound_end_of(store, check_store(store))
    assert end is not None
    classes = starts.start_classes(starts.versions_of(store))
    walked = starts.predict_starts(store, classes, losses=False)
    assert starts.predict_starts(store, classes, losses=False, sound_end=end) == walked


@pytest.mark.parametrize("name", REAL_NAMES)
def test_every_part_of_a_released_brokers_store_is_checked(real_dir: Directory, name: str) -> None:
    report = check_store(open_store(real_dir(name)))
    assert report.not_checked == ()
    assert report.severity_counts[Severity.ERROR] == 0


def test_a_part_or_a_lower_level_is_not_trusted(store_dir: Directory) -> None:
    store = open_store(store_dir("5.3.3-multiseg"))
    assert sound_end_of(store, check_store(store, CheckOptions(level="cross"))) is None
    report = check_store(store)
    assert sound_end_of(store, report) is not None
    assert sound_end_of(store, replace(report, suppressed=1)) is None


def test_what_could_not_be_read_is_not_healthy(store_dir: Directory) -> None:
    store = open_store(store_dir("5.3.3-multiseg"))
    report = check_store(store)
    assert judge_store(store, report).state == "healthy"
    failed = replace(report, not_checked=(NotChecked("index", "cannot be read", operational=True),))
    verdict = judge_store(store, failed)
    assert (verdict.state, verdict.may_start) == ("partial", None)


def test_a_store_in_use_is_not_judged_by_a_start(store_dir: Directory) -> None:
    store = open_store(store_dir("5.3.3-multiseg"))
    held = replace(store, live=LiveState(LockState.HELD, "a test says so"))
    report = check_store(store)
    verdict = judge_store(held, report)
    assert (verdict.state, verdict.may_start, verdict.starts) == ("running", None, ())
    asked = judge_store(held, report, version="5.3.3")
    assert [start.version for start in asked.starts] == ["5.3.3"] and asked.state == "running"
    wanted = [item.version for item in predicted(store, report)]
    assert [item.version for item in predicted(held, report, while_running=True)] == wanted


def test_a_plan_that_cannot_be_made_is_said(store_dir: Directory, tmp_path: Path) -> None:
    damage_store(store_dir("5.3.3-multiseg"), tmp_path / "store", ["torn-tail"], 1, write_truth=False)
    store = open_store(tmp_path / "store")
    verdict = judge_store(store, replace(check_store(store), suppressed=1))
    assert verdict.prospect is None
    assert "baseline" in verdict.obstacle


def test_harm_puts_its_diagnosis_first(store_dir: Directory, tmp_path: Path) -> None:
    damage_store(
        store_dir("4.9.8-multiseg"), tmp_path / "store", ["torn-tail", "missing-queue"], 1, write_truth=False
    )
    store = open_store(tmp_path / "store")
    report = check_store(store)
    verdict = judge_store(store, report)
    assert verdict.state == "harmful"
    order = [diagnosis.fault_class for diagnosis in ranked(report, verdict).diagnoses]
    assert order[: len(verdict.urgent)] == list(verdict.urgent)
    assert set(verdict.urgent) <= set(urgent_classes(verdict.starts))


def test_the_next_command_can_be_pasted(store_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "the store"
    damage_store(store_dir("5.3.3-multiseg"), root, ["body-flip"], 1, write_truth=False)
    store = open_store(root)
    report = check_store(store)
    verdict = judge_store(store, report)
    assert verdict.prospect is not None
    reason = f"{COMPARES} with another copy"
    left = tuple(
        Unanswered(finding.fingerprint, finding.rule, "", reason)
        for finding in report.findings
        if severity_of(finding) > Severity.INFO
    )
    plan = replace(make_plan(store, report), actions=(), unanswered=left)
    assert judge_store(store, report, plan=plan).next_command == f"rocketfsck compare '{root}' REPLICA"
