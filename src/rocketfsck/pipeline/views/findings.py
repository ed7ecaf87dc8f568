"""The view `findings`: one row a finding of a check of each store, in the report's order.

A check is one part: it compares every file with the others. `level` is the check's (default `cross`). What
the check could not read ends it, or is a row whose `_corrupt_record` says so, as `on_unreadable` says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.sources import StoreSource, open_source
from rocketfsck.pipeline.views.arrays import printable, row_batches
from rocketfsck.pipeline.views.damage import account, guarded
from rocketfsck.pipeline.views.model import CORRUPT, Part, View, WantedRows, default_columns
from rocketfsck.store.model import Store
from rocketfsck.verify.rules.rule import Level

if TYPE_CHECKING:
    from rocketfsck.verify.finding import Finding
    from rocketfsck.verify.report import NotChecked, Report

DEFAULT_LEVEL: Level = "cross"
_PLACES = ("start", "end", "physical_offset", "queue_id", "queue_offset", "slot", "entry")


def _fields() -> list[pa.Field]:

    text, long = pa.string(), pa.int64()
    return [
        pa.field("broker", text),
        pa.field("rule", text),
        pa.field("slug", text),
        pa.field("severity", text),
        pa.field("fault_class", text),
        pa.field("repair", text),
        pa.field("message", text),
        pa.field("file", text),
        pa.field("topic", text),
        *(pa.field(name, long) for name in _PLACES),
        pa.field("found", text),
        pa.field("expected", text),
        pa.field("count", long),
        pa.field("fingerprint", text),
        pa.field("diagnosis", text),
        pa.field("finding", text),
        pa.field(CORRUPT, text),
    ]


def _default(wanted: WantedRows) -> list[str]:
    return default_columns([field for field in _fields() if field.name != "finding"], wanted)


def _plan(source: StoreSource, store: Store, wanted: WantedRows) -> Iterator[Part]:  # noqa: ARG001
    yield Part(source, FINDINGS.name, size=sum(file.size for file in store.commitlog.files))


def _read(part: Part, wanted: WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    place = {"broker": part.source.broker}
    yield from guarded(wanted, schema, _batches(part, wanted, schema), lambda: place, "")


def _batches(part: Part, wanted: WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    report = checked(open_source(part.source), wanted)
    rows = [{"broker": part.source.broker, **row} for row in report_rows(report, wanted)]
    yield from row_batches(rows, schema)


def checked(store: Store, wanted: WantedRows) -> Report:
    """The report of a check at the level that is wanted."""
    # Imported late: what a check takes is half of what a process loads to read messages.
    from rocketfsck.engine import LocalEngine
    from rocketfsck.verify.options import CheckOptions
    from rocketfsck.verify.run import check_store

    options = CheckOptions(level=wanted.level or DEFAULT_LEVEL, now_timestamp=wanted.now_timestamp)
    return check_store(store, options, engine=LocalEngine(1))


def report_rows(report: Report, wanted: WantedRows) -> Iterator[dict[str, Any]]:
    """The rows of a report: its findings, then what could not be read (`left_out_rows`)."""
    problems = list(left_out_rows(report, wanted))
    titles: dict[str, str] = {}
    for diagnosis in report.diagnoses:
        for rule in diagnosis.rules:
            titles.setdefault(rule, diagnosis.title)
    for finding in report.findings:
        yield _row(finding, titles.get(finding.rule))
    yield from problems


def left_out_rows(report: Report, wanted: WantedRows) -> Iterator[dict[str, Any]]:
    """A row for each thing that a check could not read; StoreError, unless such things are to be ignored."""
    for item in report.not_checked:
        if item.operational and not (wanted.on_unreadable == "row" or wanted.ignore_corrupt_files):
            raise StoreError(f"could not be checked: {item.reason}", path=item.what or None)
    for item in report.not_checked:
        if item.operational:
            yield _left_out(item, wanted)


def _row(finding: Finding, diagnosis: str | None) -> dict[str, Any]:
    from rocketfsck.verify.report import finding_to_json
    from rocketfsck.verify.rules.catalog import RULES, describe

    document = finding_to_json(finding)
    rule, where = RULES[finding.rule], finding.where
    return {
        "rule": rule.id,
        "slug": rule.slug,
        "severity": rule.severity.name.lower(),
        "fault_class": rule.fault_class,
        "repair": rule.repair,
        "message": describe(finding),
        "file": printable(where.file),
        "topic": None if where.topic is None else printable(where.topic),
        **{name: getattr(where, name) for name in _PLACES},
        "found": json.dumps(document["found"]),
        "expected": json.dumps(document["expected"]),
        "count": finding.count,
        "fingerprint": finding.fingerprint,
        "diagnosis": diagnosis,
        "finding": json.dumps(document),
    }


def _left_out(item: NotChecked, wanted: WantedRows) -> dict[str, Any]:
    said = account("not-checked", printable(item.reason), item.what)
    return {"file": printable(item.what), wanted.corrupt_column: said}


FINDINGS = View("findings", _fields, _default, _plan, _read)
