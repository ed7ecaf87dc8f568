"""SARIF 2.1.0, the interchange format of analysis tools (OASIS), as code hosts and editors read it.

A file of the store is an artifact relative to the base `STORE`; a place is a region of bytes. The places that
no file names (a queue, a hash slot) are logical locations. `fixes` are the actions of the plan that replace
bytes of files (`forms.fixes`); a result also names its repair and the commands in its properties.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rocketfsck._version import __version__
from rocketfsck.cli.forms.checked import CheckSaid
from rocketfsck.common.documents import json_text, named, plain, printable
from rocketfsck.common.rows import text_bytes
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.tried import Replacement, replacements_of
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Finding, Severity, Where
from rocketfsck.verify.report import NotChecked, Report, suggestions
from rocketfsck.verify.rules.catalog import FAULT_CLASSES, RULES, Rule, describe

# The `fixes` of SARIF results: bytes of files that a repair replaces, and the bytes that take their place.
#
# A fix is an action of the plan. SARIF's fixes replace bytes; actions that make, move or delete files, that
# build a file from the log, or that follow from earlier actions have none. `rocketfsck fix` carries out all.

Artifact = Callable[[str], dict[str, str]]
"""How a file of the store is named."""


def fixes_of(plan: Plan, store: Store, artifact: Artifact) -> Mapping[str, list[dict[str, Any]]]:
    """The fixes of every finding that has any, by its fingerprint."""
    found: dict[str, list[dict[str, Any]]] = {}
    for action, kept in replacements_of(plan, store):
        changes = [
            {"artifactLocation": artifact(file), "replacements": [_replacement(item) for item in items]}
            for file, items in groupby(sorted(kept, key=attrgetter("file")), attrgetter("file"))
        ]
        fix = {"description": {"text": printable(action.note)}, "artifactChanges": changes}
        for fingerprint in action.why:
            found.setdefault(fingerprint, []).append(fix)
    return found


def _replacement(item: Replacement) -> dict[str, Any]:
    said: dict[str, Any] = {"deletedRegion": {"byteOffset": item.pos, "byteLength": item.size}}
    if item.data:
        said["insertedContent"] = {"binary": base64.b64encode(item.data).decode("ascii")}
    return said


SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
BASE = "STORE"
LEVELS: Mapping[Severity, str] = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
FINGERPRINT = "rocketfsck/v1"
_PLACES = ("physical_offset", "queue_offset", "slot", "entry")


def pieces(said: CheckSaid) -> Iterator[str]:
    """The document: a run, its rules (those with findings), and a result a finding, one a line."""
    report = said.report
    rules = [RULES[name] for name in sorted(name for name, count in report.counts.items() if count)]
    numbers: dict[str, int] = {rule.id: number for number, rule in enumerate(rules)}
    yield f'{{"$schema": {json_text(SCHEMA)}, "version": "2.1.0", "runs": [{{\n'
    yield f'"tool": {json_text({"driver": _driver(rules)})},\n'
    yield f'"originalUriBaseIds": {json_text({BASE: {"uri": _directory_uri(report.store.root)}})},\n'
    yield f'"invocations": [{json_text(_invocation(said))}],\n'
    yield f'"properties": {json_text(_properties(said))},\n"results": ['
    before = "\n"
    fixes = {} if said.plan is None or said.store is None else fixes_of(said.plan, said.store, _artifact)
    for finding in report.findings:
        result = _result(finding, report, numbers[finding.rule])
        if finding.fingerprint in fixes:
            result["fixes"] = fixes[finding.fingerprint]
        yield before + json_text(result)
        before = ",\n"
    yield "\n]}]}\n"


def _driver(rules: list[Rule]) -> dict[str, Any]:
    return {
        "name": "rocketfsck",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rule) for rule in rules],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    known = None if rule.fault_class is None else FAULT_CLASSES[rule.fault_class]
    help_text = rule.why if known is None else f"{known.meaning} {known.advice}"
    return {
        "id": str(rule.id),
        "name": rule.slug,
        "shortDescription": {"text": rule.meaning},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{help_text} `rocketfsck explain {rule.id}` says more."},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
        "properties": {
            "tags": [rule.family],
            "reference": rule.reference,
            "fault_class": rule.fault_class,
            "repair": rule.repair,
        },
    }


def _invocation(said: CheckSaid) -> dict[str, Any]:
    report = said.report
    started = datetime.fromtimestamp(report.started_timestamp / 1000, UTC)
    return {
        "executionSuccessful": not any(item.operational for item in report.not_checked),
        "exitCode": said.exit_code,
        "startTimeUtc": _time(started),
        "endTimeUtc": _time(started + timedelta(seconds=report.seconds)),
        "toolExecutionNotifications": [_notification(item) for item in report.not_checked],
    }


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _notification(item: NotChecked) -> dict[str, Any]:
    said: dict[str, Any] = {
        "level": "error" if item.operational else "note",
        "message": {"text": f"not checked: {printable(item.reason)}"},
    }
    if item.what:
        said["locations"] = [{"physicalLocation": {"artifactLocation": _artifact(item.what)}}]
    return said


def _properties(said: CheckSaid) -> dict[str, Any]:
    report, verdict = said.report, said.verdict
    return {
        "state": verdict.state,
        "may_start": verdict.may_start,
        "next_command": plain(verdict.next_command),
        "level": report.level,
        "counts": {printable(name): count for name, count in report.counts.items()},
        "suppressed": report.suppressed,
        "coverage": report.coverage.statement,
    }


def _result(finding: Finding, report: Report, number: int) -> dict[str, Any]:
    rule, where = RULES[finding.rule], finding.where
    vectors = suggestions(finding, report.opened)
    return {
        "ruleId": finding.rule,
        "ruleIndex": number,
        "level": LEVELS[report.severity_of(finding.rule)],
        "message": {"text": printable(describe(finding))},
        "locations": [_location(where)],
        "partialFingerprints": {FINGERPRINT: finding.fingerprint},
        "occurrenceCount": max(finding.count, 1),
        "properties": {
            **{name: value for name in _PLACES if (value := getattr(where, name)) is not None},
            "found": named(finding.found),
            "expected": named(finding.expected),
            "repair": rule.repair,
            "suggest": plain([list(vector) for vector in vectors]),
        },
    }


def _location(where: Where) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(where.file)}
    if where.start is not None and where.start >= 0:
        physical["region"] = {"byteOffset": where.start}
        if where.end is not None and where.end >= where.start:
            physical["region"]["byteLength"] = where.end - where.start
    said: dict[str, Any] = {"physicalLocation": physical}
    if where.topic is not None:
        topic = printable(where.topic)
        name = topic if where.queue_id is None else f"{topic}/{where.queue_id}"
        kind = "topic" if where.queue_id is None else "queue"
        said["logicalLocations"] = [{"fullyQualifiedName": name, "kind": kind}]
    return said


def _artifact(file: str) -> dict[str, str]:
    """A file of the store, relative to it; one of another commit log path with a URI of its own."""
    if "://" in file or file.startswith("/"):
        return {"uri": _absolute_uri(file)}
    return {"uri": quote(text_bytes(file), safe="/") or ".", "uriBaseId": BASE}


def _directory_uri(root: str) -> str:
    place = root if "://" in root else str(Path(root).absolute())
    return f"{_absolute_uri(place).rstrip('/')}/"


def _absolute_uri(place: str) -> str:
    """The URI of an absolute path, or of a place that has a URI."""
    scheme, _, path = place.rpartition("://")
    return f"{scheme or 'file'}://{quote(text_bytes(path), safe='/')}"
