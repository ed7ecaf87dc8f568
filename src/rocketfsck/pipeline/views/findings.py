"""The view `findings`: one row a finding of a check of each store, in the report's order.

A check is one part: it compares every file with the others. `level` is the check's (default `cross`). What
the check could not read ends it, or is a row whose `_corrupt_record` says so, as `on_unreadable` says.

The view `files`: one row a file of a store, and one a thing that is there but belongs to no known part.

The rows say what a listing says. For `expires_timestamp` the first record of each commit log file is read: a
broker deletes a file when it has not changed for fileReservedTime, and a file changes for the last time when
the next one gets its first message. One part a store. An entry that could not be looked at hides what is in
it, so it ends the query, or is a row with `_corrupt_record`, as `on_unreadable` says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.sources import open_source
from rocketfsck.pipeline.views import model
from rocketfsck.store.logpaths import without_entries
from rocketfsck.store.model import MappedFileQueue, Store, StoreFile, StrayReason
from rocketfsck.verify.finding import Finding, Level

if TYPE_CHECKING:
    from rocketfsck.verify.report import NotChecked, Report

EXPIRES = "expires_timestamp"
HOUR_MS = 3_600_000


def _file_fields() -> list[pa.Field]:
    text, long = pa.string(), pa.int64()
    return [
        *model.typed(text, "file", "kind", "topic"),
        pa.field("queue_id", pa.int32()),
        *model.typed(
            long, "start_offset", "size", "expected_size", "allocated_size", "modified_timestamp", EXPIRES
        ),
        *model.typed(text, "stray", "detail", "path"),
    ]


def file_rows(store: Store, wanted: model.WantedRows, *, expiry: bool) -> Iterator[dict[str, Any]]:
    """Every file of `Store.all_files`, in that order, then the strays.

    With `expiry`, commit log files are read for the time at which each may be deleted. Raises StoreError for
    an entry that could not be looked at, unless what cannot be read is to be ignored.
    """
    log = without_entries(store).commitlog  # `others` have the rest
    expires = _expiry(store, log) if expiry else {}
    for row in _queue_rows("commitlog", log):
        yield {**row, EXPIRES: expires.get(row["start_offset"])}
    for queue in store.queues:
        kind = "consumequeue" if queue.kind == "file" else "batchconsumequeue"
        yield from _queue_rows(kind, queue.mapped_files, queue.topic, queue.queue_id)
    for ext in store.ext_queues:
        yield from _queue_rows("consumequeue_ext", ext.mapped_files, ext.topic, ext.queue_id)
    for index in store.indexes:
        yield _file_row(index, "index")
    singles = (("checkpoint", store.checkpoint), ("abort", store.abort), ("lock", store.lock))
    for name, single in singles:
        if single is not None:
            yield _file_row(single, name)
    for config in store.configs:
        yield _file_row(config, "config")
    for other in store.others:
        for file in other.files:
            yield _file_row(file, other.kind.value, other.topic, other.queue_id)
    for stray in store.strays:
        is_unread = stray.reason is StrayReason.UNREADABLE
        reason = f"{stray.path}: cannot be read: {stray.detail}"
        if is_unread and not (wanted.on_unreadable == "row" or wanted.ignore_corrupt_files):
            raise StoreError(f"cannot be read: {stray.detail}", path=str(stray.path))
        yield {
            "file": model.printable(stray.relative),
            "kind": model.printable(stray.area),
            "size": stray.size,
            "stray": stray.reason.value,
            "detail": model.printable(stray.detail),
            "path": model.printable(str(stray.path)),
            wanted.corrupt_column: model.account(
                model.UNREADABLE, model.printable(reason), stray.relative, start=0
            )
            if is_unread
            else None,
        }


def _expiry(store: Store, log: MappedFileQueue) -> dict[int | None, int]:
    """When the commit log files are old enough to be deleted, by start offset; a broker keeps the last one.

    By the time of the next file's first message; where that cannot be read, by the file's own time, which a
    copy may not have from its original.
    """
    from rocketfsck.query.info.store import log_info

    hours = store.settings.reserved_hours
    found: dict[int | None, int] = {}
    for file, following in pairwise(log.files):
        changed = log_info(following).first_store_timestamp
        found[file.start_offset] = (changed or file.mtime_ns // 1_000_000) + hours * HOUR_MS
    return found


def _queue_rows(
    kind: str, queue: MappedFileQueue, topic: str | None = None, queue_id: int | None = None
) -> Iterator[dict[str, Any]]:
    for file in queue.files:
        row = _file_row(file, kind, topic, queue_id)
        yield {**row, "start_offset": file.start_offset, "expected_size": queue.file_size}


def _file_row(
    file: StoreFile, kind: str, topic: str | None = None, queue_id: int | None = None
) -> dict[str, Any]:
    return {
        "file": model.printable(file.relative),
        "kind": kind,
        "topic": None if topic is None else model.printable(topic),
        "queue_id": queue_id,
        "size": file.size,
        "allocated_size": file.allocated_size,
        "modified_timestamp": file.mtime_ns // 1_000_000,
        "path": model.printable(file.location),
    }


FILES = model.store_view(
    "files",
    _file_fields,
    lambda source, wanted, names: file_rows(open_source(source), wanted, expiry=EXPIRES in names),
    walks=False,
)


DEFAULT_LEVEL: Level = "cross"
_PLACES = ("start", "end", "physical_offset", "queue_id", "queue_offset", "slot", "entry")


def _fields() -> list[pa.Field]:
    text, long = pa.string(), pa.int64()
    return [
        *model.typed(text, "rule", "slug", "severity", "fault_class", "repair", "message", "file", "topic"),
        *model.typed(long, *_PLACES),
        *model.typed(text, "found", "expected"),
        pa.field("count", long),
        *model.typed(text, "fingerprint", "diagnosis", "finding"),
    ]


def checked(store: Store, wanted: model.WantedRows) -> Report:
    """The report of a check at the level that is wanted."""
    # Imported late: what a check takes is half of what a process loads to read messages.
    from rocketfsck.engine import LocalEngine
    from rocketfsck.verify.options import CheckOptions
    from rocketfsck.verify.run import check_store

    options = CheckOptions(level=wanted.level or DEFAULT_LEVEL, now_timestamp=wanted.now_timestamp)
    return check_store(store, options, engine=LocalEngine(1))


def report_rows(report: Report, wanted: model.WantedRows) -> Iterator[dict[str, Any]]:
    """The rows of a report: its findings, then what could not be read (`left_out_rows`)."""
    problems = list(left_out_rows(report, wanted))
    titles: dict[str, str] = {}
    for diagnosis in report.diagnoses:
        for rule in diagnosis.rules:
            titles.setdefault(rule, diagnosis.title)
    for finding in report.findings:
        yield _row(finding, titles.get(finding.rule))
    yield from problems


def left_out_rows(report: Report, wanted: model.WantedRows) -> Iterator[dict[str, Any]]:
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
        "file": model.printable(where.file),
        "topic": None if where.topic is None else model.printable(where.topic),
        **{name: getattr(where, name) for name in _PLACES},
        "found": json.dumps(document["found"]),
        "expected": json.dumps(document["expected"]),
        "count": finding.count,
        "fingerprint": finding.fingerprint,
        "diagnosis": diagnosis,
        "finding": json.dumps(document),
    }


def _left_out(item: NotChecked, wanted: model.WantedRows) -> dict[str, Any]:
    said = model.account("not-checked", model.printable(item.reason), item.what)
    return {"file": model.printable(item.what), wanted.corrupt_column: said}


FINDINGS = model.store_view(
    "findings",
    _fields,
    lambda source, wanted, names: report_rows(checked(open_source(source), wanted), wanted),  # noqa: ARG005
    further=frozenset({"finding"}),
)
