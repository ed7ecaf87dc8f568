"""`rocketfsck timeline STORE`: what the files of a store tell about time, in the order of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.output import FORMATS, Column, Destination, open_rows
from rocketfsck.cli.settings import Jobs
from rocketfsck.cli.show.text import aligned, shorten, visible
from rocketfsck.commands.timeline import TimelineCommand, timeline
from rocketfsck.common.options import PutAfter

if TYPE_CHECKING:
    from rocketfsck.query.timeline.events import TimelineEvent
    from rocketfsck.verify.finding import Finding

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLine(TimelineCommand):
    """A timeline, and where it goes."""

    answer: Annotated[Destination, Formats(FORMATS)]
    jobs: Annotated[Jobs, PutAfter("gap_seconds")] = None


@command_of(TimelineLine)
def command(line: TimelineLine) -> int:
    """Show what the files of STORE say about time, in the order of time (UTC).

    The events: files created and written, starts of brokers, the first and last message of each file and
    topic, times without messages, deletions, messages that wait, and findings at the time of their record.
    CSV and JSON lines have Timesketch's form; `timestamp` is in microseconds.
    """
    came = timeline(line)
    rows = sorted(_rows(came.events), key=lambda row: row["timestamp"])
    read = [line.path, *line.stated.commitlog_paths, *came.store.commitlog.directories]
    with line.answer.open(read) as stream:
        if line.answer.form == "text":
            stream.writelines(f"{text}\n" for text in _lines(rows))
        else:
            head = {"kind": "rocketfsck.timeline", "store": str(line.path)}
            with open_rows(stream, line.answer.form, COLUMNS, head) as writer:
                for row in rows:
                    writer.write(row)
    return came.exit_code


def _rows(events: Iterable[tuple[TimelineEvent, Finding | None]]) -> Iterator[dict[str, Any]]:
    for event, finding in events:
        row = _row(event)
        if row is not None:
            yield row if finding is None else {**row, **_of_finding(finding)}


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
