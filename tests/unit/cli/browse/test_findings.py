"""The findings by rule, with the numbers that `check` says, whatever the report lists of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocketfsck.cli.browse.model.files import Shelf
from rocketfsck.cli.browse.model.findings import NO_COUNTS, Findings
from rocketfsck.cli.browse.views.app import BrowseApp
from rocketfsck.cli.browse.views.base import Session
from rocketfsck.engine import LocalEngine
from rocketfsck.store import open_store
from rocketfsck.verify import check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.report import Report

from tests.conftest import Directory
from tests.unit.cli.browse.pilot import Driver, drive_app

FLIPPED = "commitlog/00000000000000393216"


@pytest.fixture
def shelf(restart_dir: Directory) -> Shelf:
    return Shelf(open_store(restart_dir("4.9.8-multiseg--flip-older-file")))


@pytest.fixture
def report(shelf: Shelf) -> Report:
    return check_store(shelf.store, engine=LocalEngine(1))


def test_rules_unfold_to_their_findings(shelf: Shelf, report: Report) -> None:
    async def script(at: Driver) -> None:
        await at.press("f")
        assert at.lines[0].startswith(" The report has no verdict. Found: 1 error, 12 notes.")
        assert "i ▸ CL011 " in at.text
        assert "commitlog/00000000000000000000 at byte 615" not in at.text
        await at.press("down")
        assert at.cursor.startswith("> i ▸ CL011 ")
        assert at.cursor.endswith(" (5)")
        await at.press("enter", "down")
        assert at.cursor.startswith(
            "> i     commitlog/00000000000000000000 at byte 615: the properties of 32"
        )
        await at.press("down", "enter")
        assert at.lines[0].startswith(" commitlog/00000000000000131072")
        assert at.cursor.split()[2] == "1964"
        await at.press("f")
        assert at.cursor.startswith("> i     commitlog/00000000000000131072 at byte 1964")
        await at.press("up", "up", "enter")
        assert at.cursor.startswith("> i ▸ CL011 ")
        assert "at byte 615" not in at.text
        await at.press("down", "enter")
        assert "This finding is about no file that can be shown." in at.text

    app = BrowseApp(Session(shelf, "store", findings=Findings(shelf, report)))
    drive_app(app, script, size=(120, 30))


def test_the_counts_are_those_of_check(shelf: Shelf, report: Report) -> None:
    """A report that lists 1 of 4,347 findings of a rule, and none of another."""
    cut = replace(report, counts={**report.counts, "CL004": 4347, "CL010": 2})

    async def script(at: Driver) -> None:
        assert any("1E+ 1i" in line for line in at.lines if FLIPPED in line)
        await at.press("f")
        assert " Findings at level full: 4,347 errors, " in at.text
        assert at.cursor.startswith("> E ▸ CL004 record-body-crc (4,347)")
        await at.press("enter", "down", "down")
        assert at.cursor.startswith("> E     … and 4,346 more that the report does not list")
        await at.press("enter")
        assert "The report lists no more of them: rocketfsck explain CL004" in at.text
        await at.press("up", "enter")
        assert at.lines[0].startswith(f" {FLIPPED}")

    app = BrowseApp(Session(shelf, "store", findings=Findings(shelf, cut)))
    drive_app(app, script, size=(120, 30))
    groups = {group.rule: group for group in Findings(shelf, cut).groups}
    assert (groups["CL010"].count, groups["CL010"].items, groups["CL010"].is_single) == (2, (), False)


def test_a_policy_says_how_bad_a_rule_is(shelf: Shelf, report: Report) -> None:
    findings = Findings(shelf, replace(report, severities={"CL004": "info", "CL011": "warning"}))
    assert findings.groups[0].rule == "CL011"
    assert findings.worst(FLIPPED, 65601, 65602) == Severity.INFO
    counts = findings.counts(FLIPPED)
    assert counts.said == "1! 1i"
    both = counts + findings.counts("commitlog/00000000000000000000")
    assert both.said == "2! 1i"
    assert both.worst == Severity.WARNING
    assert NO_COUNTS.worst is None
    assert NO_COUNTS.said == ""
