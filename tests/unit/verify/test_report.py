"""A report survives JSON, sums up its findings and gives the exit status."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import UsageError
from rocketfsck.store.model import StatedOptions
from rocketfsck.verify.diagnoses import diagnose, next_commands
from rocketfsck.verify.finding import Finding, Severity, Where
from rocketfsck.verify.report import (
    Coverage,
    Diagnosis,
    NotChecked,
    Report,
    StoreFacts,
    finding_from_json,
    finding_to_json,
)
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.tasks.task import Checked, RegionTotal

STORE = StoreFacts(
    root="/data/\udcff",
    dialect="4.9.8",
    versions=("4.9.7", "4.9.8"),
    dialect_given=False,
    known_from=(("properties", "no separator at the end"),),
    geometry={"commitlog_file_size": 1 << 30},
    geometry_sources={"commitlog_file_size": "default"},
    live=None,
    live_known_from="there is no file `lock`",
    file_count=3,
    byte_count=2**40,
    start_offset=0,
    end_offset=2**40,
)
ODD = os.fsdecode(b"topic\xff")
FINDINGS = (
    Finding(
        "ST010", Where(file="commitlog/x", start=0, end=9, physical_offset=2**62), {"missing_byte_count": 1}
    ),
    Finding("ST041", Where(file=ODD, topic="\ud800", queue_id=1), {"reason": "\udc80\ud800"}, {"a": None}, 3),
    Finding("ST041", Where(file="\udcc3\udca9", slot=1, entry=2), {"yes": True}),
)
REPORT = Report(
    store=STORE,
    level="full",
    tool_version="0.1.0",
    started_timestamp=1_700_000_000_000,
    seconds=1.25,
    checked={"commitlog": Checked(1, 2, 3, 4, 5)},
    coverage=Coverage(4, 3, 100, 75),
    not_checked=(NotChecked(ODD, "cannot be read", operational=True),),
    findings=FINDINGS,
    counts={"ST010": 1, "ST041": 4},
    suppressed=2,
    diagnoses=(Diagnosis("C5", "segment missing", "text", "error", ("ST010",), (ODD,), 1, "command"),),
    regions={"commitlog/x": (RegionTotal("records", 1, 90, 2), RegionTotal("zero", 1, 10, 0))},
    next_commands=("rocketfsck explain ST010",),
)


def test_a_report_survives_json() -> None:
    text = json.dumps(REPORT.to_json())
    assert Report.from_json(json.loads(text)) == REPORT


def test_json_says_its_schema_and_keeps_odd_bytes_as_base64() -> None:
    document = REPORT.to_json()
    assert (document["schema_version"], document["kind"], document["exit_code"]) == (
        1,
        "rocketfsck.check",
        12,
    )
    assert document["store"]["root_b64"] == "L2RhdGEv/w=="
    first, odd, pair = document["findings"]
    assert first["severity"] == "error"
    assert first["slug"] == "segment-gap"
    assert first["where"]["physical_offset"] == 2**62
    assert first["fingerprint"] == FINDINGS[0].fingerprint
    assert odd["where"]["file_b64"] == "dG9waWP/"
    assert set(odd["where"]) == {"file_b64", "topic_utf16", "queue_id"}
    assert set(pair["where"]) == {"file_utf16", "slot", "entry"}  # its bytes would be another text
    assert document["coverage"]["statement"].startswith("checked 3 of 4 tasks, 75 of 100 bytes (75.0%)")


@pytest.mark.parametrize("finding", FINDINGS)
def test_findings_survive_json(finding: Finding) -> None:
    document = json.loads(json.dumps(finding_to_json(finding)))
    assert finding_from_json(document) == finding


@pytest.mark.parametrize(
    ("counts", "operational", "exit_code", "worst"),
    [
        ({}, False, 0, None),
        ({"ST041": 5}, False, 0, Severity.INFO),
        ({"ST041": 5, "CP001": 1}, False, 4, Severity.WARNING),
        ({"ST010": 1, "CP001": 1}, False, 4, Severity.ERROR),
        ({"ST010": 0}, False, 0, None),
        ({}, True, 8, None),
        ({"ST010": 1}, True, 12, Severity.ERROR),
    ],
)
def test_the_exit_status(
    counts: dict[str, int], operational: bool, exit_code: int, worst: Severity | None
) -> None:
    left_out = (NotChecked("f", "r", operational),)
    report = dataclasses.replace(REPORT, counts=counts, not_checked=left_out)
    assert report.exit_code == exit_code
    assert report.worst is worst


def test_severity_counts_are_exact_and_worst_first() -> None:
    assert list(REPORT.severity_counts.items()) == [
        (Severity.ERROR, 1),
        (Severity.WARNING, 0),
        (Severity.INFO, 4),
    ]


def test_coverage_of_nothing_is_complete() -> None:
    assert Coverage(0, 0, 0, 0).complete
    assert Coverage(0, 0, 0, 0).statement == "checked 0 of 0 tasks, 0 of 0 bytes (100.0%)"
    assert "may hold damage" in Coverage(2, 1, 10, 5).statement


def damaged(**members: Any) -> Any:
    return {**json.loads(json.dumps(REPORT.to_json())), **members}


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        damaged(kind="other"),
        damaged(schema_version=2),
        damaged(store=None),
        damaged(store={}),
        damaged(findings=[{"rule": "XX001"}]),
        damaged(findings=7),
        damaged(coverage={}),
        damaged(counts=[]),
        damaged(diagnoses=[{"severity": "terrible"}]),
        damaged(regions={"x": [{}]}),
    ],
)
def test_what_is_no_report_is_refused(document: Any) -> None:
    with pytest.raises(UsageError):
        Report.from_json(document)


@pytest.mark.parametrize("where", [{"file": 5}, {"file": None}, {"file": "f", "topic": 7}, {"start": "1"}])
def test_a_place_of_other_kinds_of_values_is_refused(where: dict[str, Any]) -> None:
    document = finding_to_json(Finding("CL001", Where(file="f"))) | {"where": where}
    with pytest.raises(UsageError, match="where"):
        finding_from_json(document)


def test_the_next_command_names_no_file_that_is_missing(tmp_path: Path) -> None:
    (diagnosis,) = diagnose([Finding("CP006", Where(file="checkpoint"))], str(tmp_path))
    assert diagnosis.next_command == f"rocketfsck info {tmp_path}"
    (tmp_path / "checkpoint").touch()
    (diagnosis,) = diagnose([Finding("CP006", Where(file="checkpoint"))], str(tmp_path))
    assert diagnosis.next_command == f"rocketfsck dump --limit 20 {tmp_path}/checkpoint"


def test_what_a_start_would_do_is_worth_a_prediction(tmp_path: Path) -> None:
    stated = StatedOptions(tmp_path / "a b.conf", None, (tmp_path / "log",))
    abort = Finding("CP001", Where(file="abort", start=0, end=0))
    (diagnosis,) = diagnose([abort], str(tmp_path), stated, "4.9.8")
    words = shlex.split(diagnosis.next_command or "")
    assert words == [
        "rocketfsck", "simulate", "--as-broker", "4.9.8", "--broker-conf", str(tmp_path / "a b.conf"),
        "--commitlog-path", str(tmp_path / "log"), str(tmp_path),
    ]  # fmt: skip
    (other,) = diagnose([Finding("CP007", Where(file="checkpoint"))], str(tmp_path), stated, "4.9.8")
    assert "simulate" not in str(other.next_command)


def test_a_plan_is_named_where_a_repair_answers(tmp_path: Path) -> None:
    plan = f"rocketfsck plan {tmp_path}"
    repaired, note = Finding("XR004", Where(file="x")), Finding("CP013", Where(file="checkpoint"))
    nothing = Finding("CL023", Where(file="x"))
    assert RULES["XR004"].repair is not None
    assert RULES["CP013"].repair is not None
    assert RULES["CL023"].repair is None
    assert next_commands([], [repaired], plan)[-1] == plan
    assert plan not in next_commands([], [nothing], plan)
    assert next_commands([], [note], plan) == ()  # a note is nothing to repair
    assert next_commands([], [repaired]) == ("rocketfsck explain XR004",)
