"""`rocketfsck timeline STORE`: what the files of a store tell about time, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command
from rocketfsck.cli.options import jobs_option, level_option
from rocketfsck.cli.output import Column, open_rows
from rocketfsck.cli.params import Destination, StoreOptions, output_options, path_argument, store_options
from rocketfsck.cli.paramtypes import Duration
from rocketfsck.cli.settings import common_options
from rocketfsck.cli.show.table import aligned
from rocketfsck.cli.show.text import shorten, visible
from rocketfsck.errors import EXIT_CLEAN, EXIT_OPERATIONAL

if TYPE_CHECKING:
    from rocketfsck.query.timeline.events import TimelineEvent
    from rocketfsck.store import Store
    from rocketfsck.verify.finding import Finding
    from rocketfsck.verify.report import Report

TEXT_LIMIT = 32_765
"""Bytes of a text at most: what reads timelines (Timesketch, on OpenSearch) drops longer ones."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_MS = 253_402_300_799_999
NAME_SHOWN = 160

COLUMNS = (
    Column("message", "text"),
    Column("datetime", "text"),
    Column("timestamp", "int"),
    Column("timestamp_desc", "text"),
    Column("kind", "text"),
    Column("file", "text"),
    Column("topic", "text"),
    Column("queue_id", "int"),
    Column("physical_offset", "int"),
    Column("rule", "text"),
    Column("severity", "text"),
    Column("fingerprint", "text"),
)


@click.command(cls=Command)
@path_argument("path")
@level_option
@click.option("--no-check", is_flag=True, help="Leave the findings out; nothing is checked.")
@click.option(
    "--gap",
    "gap_seconds",
    type=Duration(),
    default="1h",
    show_default=True,
    help="Show times of this length or longer in which no message was stored.",
)
@jobs_option
@store_options
@output_options()
@common_options
def command(
    path: Path,
    level: Any,
    no_check: bool,
    gap_seconds: float,
    stated: StoreOptions,
    answer: Destination,
) -> int:
    """Show what the files of STORE say about time, in the order of time (UTC).

    The events: files created and written, starts of brokers, the first and last message of each file and
    topic, times without messages, deletions, messages that wait, and findings at the time of their record.
    CSV and JSON lines have Timesketch's form; `timestamp` is in microseconds.
    """
    from rocketfsck.verify.options import CheckOptions
    from rocketfsck.verify.run import check_store

    store = stated.open("timeline", path)
    report = None
    if not no_check:
        report = check_store(store, CheckOptions(level=level))
    rows = sorted(_rows(store, report, int(gap_seconds * 1000)), key=lambda row: row["timestamp"])
    with answer.open([path, *stated.commitlog_paths, *store.commitlog.directories]) as stream:
        if answer.form == "text":
            stream.writelines(f"{line}\n" for line in _lines(rows))
        else:
            head = {"kind": "rocketfsck.timeline", "store": str(path)}
            with open_rows(stream, answer.form, COLUMNS, head) as writer:
                for row in rows:
                    writer.write(row)
    failed = report is not None and any(item.operational for item in report.not_checked)
    return EXIT_OPERATIONAL if failed else EXIT_CLEAN


def _rows(store: Store, report: Report | None, gap_ms: int) -> Iterator[dict[str, Any]]:
    from rocketfsck.query.timeline.events import due_events, file_events
    from rocketfsck.query.timeline.log import first_events, log_events

    findings: Sequence[Finding] = () if report is None else report.findings
    offsets = [file.start_offset or 0 for file in store.commitlog.files]
    offsets += [
        finding.where.physical_offset for finding in findings if finding.where.physical_offset is not None
    ]
    of_log, times = log_events(store, gap_ms=gap_ms, offsets=offsets)
    for events in (file_events(store), of_log, first_events(store.commitlog.files, times), due_events(store)):
        yield from filter(None, map(_row, events))
    for finding in findings:
        at = _time_of(finding, times)
        if at is not None and report is not None:
            row = _row(_event(finding, at))
            if row is not None:
                yield {**row, **_of_finding(finding)}


def _time_of(finding: Finding, times: dict[int, int]) -> int | None:
    """The time of a finding: one that the finding states, else that of the record where it is."""
    for name in ("store_timestamp", "timestamp", "begin_timestamp"):
        value = finding.found.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None if finding.where.physical_offset is None else times.get(finding.where.physical_offset)


def _event(finding: Finding, at: int) -> TimelineEvent:
    from rocketfsck.query.timeline.events import TimelineEvent
    from rocketfsck.verify.rules.catalog import RULES, describe

    where, rule = finding.where, RULES[finding.rule]
    text = f"{rule.id} {rule.slug}: {describe(finding)}"
    return TimelineEvent(
        at, "Finding", text, "finding", where.file, where.topic, where.queue_id, where.physical_offset
    )


def _of_finding(finding: Finding) -> dict[str, Any]:
    from rocketfsck.verify.rules.catalog import RULES

    severity = RULES[finding.rule].severity.word
    return {"rule": finding.rule, "severity": severity, "fingerprint": finding.fingerprint}


def _row(event: TimelineEvent) -> dict[str, Any] | None:
    """An event as values of COLUMNS; None for a time that is not a date."""
    if not 0 < event.timestamp <= _MAX_MS:
        return None
    row: dict[str, Any] = dict.fromkeys(column.name for column in COLUMNS)
    moment = _EPOCH + timedelta(milliseconds=event.timestamp)
    return row | {
        "message": _text(event.message),
        "datetime": moment.isoformat(timespec="milliseconds"),
        "timestamp": event.timestamp * 1000,
        "timestamp_desc": event.timestamp_desc,
        "kind": event.kind,
        "file": _text(event.file),
        "topic": _text(event.topic),
        "queue_id": event.queue_id,
        "physical_offset": event.physical_offset,
    }


def _text(text: str | None) -> str | None:
    """Printable, and not longer than readers of timelines take."""
    if text is None:
        return None
    shown = visible(text, keep_backslash=True)
    if len(shown.encode()) <= TEXT_LIMIT:
        return shown
    return shown.encode()[: TEXT_LIMIT - 3].decode("utf-8", "ignore") + "…"


def _lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    return aligned(
        (row["datetime"].replace("+00:00", "Z"), row["timestamp_desc"], shorten(row["message"], NAME_SHOWN))
        for row in rows
    )
