"""The verdict on top of the browser, state by state."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from rocketfsck.cli.browse.model.findings import headline, next_step, tone_of
from rocketfsck.cli.show.verdict import START_IT, TONES, headline_of
from rocketfsck.engine import LocalEngine
from rocketfsck.repair.state import State
from rocketfsck.repair.verdict import judge_store
from rocketfsck.store import open_store
from rocketfsck.verify import check_store
from rocketfsck.verify.report import Report

from tests.conftest import Directory


@pytest.fixture
def report(store_dir: Directory) -> Report:
    return check_store(open_store(store_dir("4.4.0-basic")), engine=LocalEngine(1))


def test_the_verdict_speaks(report: Report, store_dir: Directory) -> None:
    verdict = judge_store(open_store(store_dir("4.4.0-basic")), report)
    assert headline(report, verdict) == headline_of(verdict)
    assert next_step(report, replace(verdict, next_command=None, state="healthy")) == ""
    assert next_step(report, replace(verdict, next_command=None, state="unclean")) == START_IT
    assert next_step(report, replace(verdict, next_command="x\x1b")) == "x\\x1b"
    assert {tone_of(report, replace(verdict, state=state)) for state in ("damaged", "partial")} == {"warning"}
    assert tone_of(report, replace(verdict, state="lost")) == "error"
    assert set(TONES) < set(get_args(State))


@pytest.mark.parametrize(
    ("counts", "tone", "said"),
    [
        ({}, "good", "nothing"),
        ({"CL011": 2}, "good", "2 notes"),
        ({"CL007": 1, "CL011": 1}, "warning", "1 warning, 1 note"),
        ({"CL004": 4347, "CL011": 1}, "error", "4,347 errors, 1 note"),
    ],
)
def test_without_a_verdict_the_counts_speak(
    counts: dict[str, int], tone: str, said: str, report: Report
) -> None:
    other = replace(report, counts=counts, next_commands=())
    assert headline(other, None) == f"The report has no verdict. Found: {said}."
    assert tone_of(other, None) == tone
    assert next_step(other, None) == ""
