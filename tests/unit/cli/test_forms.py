"""Forms of other tools: real parsers read what `check --format sarif|junit|openmetrics` writes."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast, overload
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree

import pytest
from jsonschema import Draft4Validator
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text_format

from rocketfsck.cli.forms.checked import CheckSaid, render
from rocketfsck.cli.output import CHECK_FORMS, CheckForm
from rocketfsck.repair.verdict import judge_store
from rocketfsck.store.opening import open_store
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.run import check_store

from tests.conftest import DATA, Directory
from tests.unit.cli.conftest import Cli

DAMAGED = "5.1.3-basic--flip-last-file"
HOSTILE = (
    "\x1b[2J\x00\x07",
    "]]><script>&amp;",
    "\"quotes' \\n \\",
    "two\nlines\r\n\x85\u2028",
    "\udcff\udcfe",
    "\ud800 lone \udfff",
    "\ufffe\uffff",
    "%2e%2e/#?",
)


@cache
def _schema() -> Draft4Validator:
    return Draft4Validator(json.loads((DATA / "schemas" / "sarif-2.1.0-rtm.5.json").read_text()))


def _sarif(text: str) -> dict[str, Any]:
    """The only run of a document, which is as the schema says."""
    document = json.loads(text)
    assert [error.message[:300] for error in _schema().iter_errors(document)] == []
    [run] = document["runs"]
    return cast(dict[str, Any], run)


@pytest.fixture
def said(restart_dir: Directory) -> CheckSaid:
    store = open_store(restart_dir(DAMAGED))
    report = check_store(store)
    return CheckSaid(report, judge_store(store, report), 4, CheckOptions().wanted_rules())


def _text(form: CheckForm, said: CheckSaid) -> str:
    text = "".join(render(form, said))
    assert all(line.isprintable() for line in text.removesuffix("\n").split("\n"))
    return text


def _hostile(said: CheckSaid) -> CheckSaid:
    """The same check with names that are made to deceive, in every place that takes a text."""
    findings = tuple(
        Finding("CQ004", Where(f"consumequeue/{name}/0", 20, 40, topic=name, queue_id=0), {"text": name})
        for name in HOSTILE
    )
    left = tuple(NotChecked(name, f"no: {name}", operational=True) for name in HOSTILE)
    report = replace(
        said.report,
        findings=findings,
        counts={"CQ004": len(findings)},
        not_checked=left,
        store=replace(said.report.store, root=f"/data/{''.join(HOSTILE)}"),
    )
    return replace(said, report=report)


def test_sarif(cli: Cli, restart_dir: Directory, said: CheckSaid) -> None:
    root = restart_dir(DAMAGED)
    ended = cli("check", root, "--format", "sarif")
    assert ended.code == 4
    run = _sarif(ended.out)
    assert run["originalUriBaseIds"]["STORE"]["uri"] == f"file://{root}/"
    rules = run["tool"]["driver"]["rules"]
    results = run["results"]
    assert [result["ruleId"] for result in results] == [finding.rule for finding in said.report.findings]
    for result, finding in zip(results, said.report.findings, strict=True):
        rule = rules[result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
        assert rule["defaultConfiguration"]["level"] == result["level"]
        assert result["partialFingerprints"] == {"rocketfsck/v1": finding.fingerprint}
        place = result["locations"][0]["physicalLocation"]
        assert (root / place["artifactLocation"]["uri"]).exists()
        if finding.where.start is not None and finding.where.end is not None:
            size = finding.where.end - finding.where.start
            assert place["region"] == {"byteOffset": finding.where.start, "byteLength": size}
    [crc] = [result for result in results if result["ruleId"] == "CL004"]
    assert crc["level"] == "error"
    assert crc["properties"]["suggest"][1] == ["rocketfsck", "explain", "CL004"]
    assert run["invocations"][0]["exitCode"] == 4
    assert run["properties"]["may_start"] is False


def test_sarif_of_a_sound_store(cli: Cli, store_dir: Directory) -> None:
    ended = cli("check", store_dir("5.1.3-basic"), "--format", "sarif", "--select", "CL001")
    assert ended.code == 0
    assert _sarif(ended.out)["results"] == []


def test_sarif_of_hostile_names(said: CheckSaid) -> None:
    run = _sarif(_text("sarif", _hostile(said)))
    for name, result in zip(HOSTILE, run["results"], strict=True):
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        path = unquote_to_bytes(uri).decode("utf-8", "surrogateescape")
        wanted = name.encode("utf-8", "surrogatepass" if "\ud800" in name else "surrogateescape")
        assert path == f"consumequeue/{wanted.decode('utf-8', 'surrogateescape')}/0"
    assert run["invocations"][0]["executionSuccessful"] is False
    notifications = run["invocations"][0]["toolExecutionNotifications"]
    assert [item["level"] for item in notifications] == ["error"] * len(HOSTILE)


def test_sarif_places() -> None:
    from rocketfsck.cli.forms.sarif import _artifact, _location

    assert _artifact("") == {"uri": ".", "uriBaseId": "STORE"}
    assert _artifact("/other log/0") == {"uri": "file:///other%20log/0"}
    assert _artifact("s3://bucket/a log/0") == {"uri": "s3://bucket/a%20log/0"}
    assert _location(Where("a", 5))["physicalLocation"]["region"] == {"byteOffset": 5}
    assert "region" not in _location(Where("a"))["physicalLocation"]
    assert _location(Where("a", topic="T"))["logicalLocations"] == [
        {"fullyQualifiedName": "T", "kind": "topic"}
    ]


def test_junit(cli: Cli, restart_dir: Directory, said: CheckSaid) -> None:
    ended = cli("check", restart_dir(DAMAGED), "--format", "junit")
    assert ended.code == 4
    suites = ElementTree.fromstring(ended.out)
    cases = {case.attrib["name"].split()[0]: case for case in suites.iter("testcase")}
    assert set(cases) >= said.rules
    assert suites.tag == "testsuites"
    assert int(suites.attrib["tests"]) == len(list(suites.iter("testcase")))
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    assert failed == {"CL004"}
    assert int(suites.attrib["failures"]) == len(failed)
    failure = cases["CL004"].find("failure")
    assert failure is not None
    assert failure.attrib["type"] == "error"
    assert "commitlog/00000000000000000000, bytes 26305 to 26603" in (failure.text or "")
    assert cases["CL011"].find("system-out") is not None
    for suite in suites:
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
        assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))


def test_junit_says_what_was_not_checked(cli: Cli, restart_dir: Directory) -> None:
    root = restart_dir(DAMAGED)
    suites = ElementTree.fromstring(cli("check", root, "--level", "quick", "--format", "junit").out)
    names = {case.attrib["name"].split()[0] for case in suites.iter("testcase")}
    assert "CL004" not in names, "its rules belong to the level full"
    left = [case for case in suites.iter("testcase") if case.find("skipped") is not None]
    assert left
    assert int(suites.attrib["skipped"]) == len(left)


def test_junit_of_hostile_names(said: CheckSaid) -> None:
    suites = ElementTree.fromstring(_text("junit", _hostile(said)))
    [failure] = suites.iter("failure")
    lines = (failure.text or "").splitlines()
    assert len(lines) == len(HOSTILE) + 1
    assert "]]><script>&amp;" in lines[1]
    assert len(list(suites.iter("error"))) == int(suites.attrib["errors"]) == len(HOSTILE)


def _samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The same by both parsers: OpenMetrics' and that of the older format, which node_exporter reads."""
    found = [
        {
            (
                sample.name,
                frozenset((k, v) for k, v in sample.labels.items() if k not in ("store", "broker")),
            ): sample.value
            for family in read(text)
            for sample in family.samples
        }
        for read in (read_openmetrics, read_text_format)
    ]
    assert found[0] == found[1]
    return found[0]


def test_openmetrics(cli: Cli, restart_dir: Directory, said: CheckSaid, tmp_path: Path) -> None:
    target = tmp_path / "rocketfsck.prom"
    ended = cli("check", restart_dir(DAMAGED), "--format", "openmetrics", "-o", target)
    assert (ended.code, ended.out, ended.err) == (4, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["rocketfsck.prom"]
    text = target.read_text()
    assert text.endswith("\n# EOF\n")
    samples = _samples(text)

    def value(name: str, **labels: str) -> float:
        return samples[f"rocketfsck_{name}", frozenset(labels.items())]

    assert value("findings", severity="error") == 1
    assert value("rule_findings", rule="CL004", slug="record-body-crc", severity="error") == 1
    assert value("store_state", state="harmful") == 1
    assert value("store_state", state="healthy") == 0
    assert value("may_start") == 0
    assert value("check_exit_code") == 4
    assert value("checked_messages", family="commitlog") == said.report.checked["commitlog"].record_count
    assert value("check_timestamp_seconds") > 1.7e9
    families = read_openmetrics(text)  # type: ignore[no-untyped-call]
    units = {family.name: family.unit for family in families}
    assert units["rocketfsck_checked_bytes"] == "bytes"
    assert units["rocketfsck_check_duration_seconds"] == "seconds"


def test_openmetrics_of_hostile_names(said: CheckSaid) -> None:
    """A store's path is a label; the names in it are none, however many there are."""
    text = _text("openmetrics", _hostile(said))
    assert _samples(text)["rocketfsck_rule_findings", _labels("CQ004")] == len(HOSTILE)
    few = text.count("\n")
    more = _hostile(said)
    many = replace(more, report=replace(more.report, findings=more.report.findings * 50))
    assert _text("openmetrics", many).count("\n") == few


def _labels(rule: str) -> frozenset[tuple[str, str]]:
    known = RULES[rule]
    said = {"rule": rule, "slug": known.slug, "severity": known.severity.word}
    return frozenset(said.items())


class _Many(Sequence[Finding]):
    """Findings that are made when they are asked for."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Finding]:
        return (Finding("CQ004", Where("consumequeue/T/0/0", n, n + 20)) for n in range(self._count))

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Finding]: ...
    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("nobody needs one of them")


@pytest.mark.parametrize("form", CHECK_FORMS)
def test_memory_does_not_grow_with_the_findings(said: CheckSaid, form: CheckForm) -> None:
    def peak(count: int) -> int:
        many = cast(tuple[Finding, ...], _Many(count))
        report = replace(said.report, findings=many, counts={"CQ004": count})
        tracemalloc.start()
        try:
            for _ in render(form, replace(said, report=report)):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    assert peak(8000) < peak(500) + 200_000


def test_other_forms_are_for_reports_only(cli: Cli, store_dir: Directory) -> None:
    assert cli("dump", store_dir("5.1.3-basic"), "--format", "sarif").code == 16


def test_a_path_that_is_no_utf8(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(store_dir("5.1.3-basic"), tmp_path / "odd\udcff"))
    run = _sarif(cli("check", root, "--format", "sarif", "--level", "quick").out)
    assert run["originalUriBaseIds"]["STORE"]["uri"].endswith("odd%FF/")
    ElementTree.fromstring(cli("check", root, "--format", "junit", "--level", "quick").out)
    _samples(cli("check", root, "--format", "openmetrics", "--level", "quick").out)
