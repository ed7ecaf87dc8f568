"""`rocketfsck simulate STORE`: what a start of a broker would do, without a start.

`rocketfsck timeline STORE`: what the files of a store tell about time, in the order of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.output import (
    FORMATS,
    SCHEMA_VERSION,
    Column,
    Destination,
    Table,
    of_kind,
    plain_values,
    verbosely,
)
from rocketfsck.cli.paramtypes import Jobs
from rocketfsck.cli.show.text import aligned, sentence, shorten, text_columns
from rocketfsck.commands.timeline import SimulateAnswer, SimulateCommand, TimelineCommand, simulate, timeline
from rocketfsck.common.options import PutAfter

if TYPE_CHECKING:
    from rocketfsck.cli.show.text import Palette
    from rocketfsck.query.start.verdict import Prediction
    from rocketfsck.query.timeline import TimelineEvent
    from rocketfsck.verify.finding import Finding

TEXT_LIMIT = 32_765
"""Bytes of a text at most: what reads timelines (Timesketch, on OpenSearch) drops longer ones."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_MS = 253_402_300_799_999
NAME_SHOWN = 160

COLUMNS = (
    *of_kind("text", "message", "datetime"),
    Column("timestamp", "int"),
    *of_kind("text", "timestamp_desc", "kind", "file", "topic"),
    *of_kind("int", "queue_id", "physical_offset"),
    *of_kind("text", "rule", "severity", "fingerprint"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLine(TimelineCommand):
    """A timeline, and where it goes."""

    answer: Annotated[Destination, Formats(FORMATS)]
    jobs: Annotated[Jobs, PutAfter("gap_seconds")] = None


@command_of(TimelineLine)
def timeline_command(line: TimelineLine) -> int:
    """Show what the files of STORE say about time, in the order of time (UTC).

    The events: files created and written, starts of brokers, the first and last message of each file and
    topic, times without messages, deletions, messages that wait, and findings at the time of their record.
    CSV and JSON lines have Timesketch's form; `timestamp` is in microseconds.
    """
    came = timeline(line)
    rows = sorted(_rows(came.events), key=lambda row: row["timestamp"])
    read = [line.path, *line.stated.commitlog_paths, *came.store.commitlog.directories]
    head = {"kind": "rocketfsck.timeline", "store": str(line.path)}
    line.answer.say_rows(lambda _: _timeline_lines(rows), Table(COLUMNS, head, rows), read)
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
    shown = sentence(text)
    if len(shown.encode()) <= TEXT_LIMIT:
        return shown
    return shown.encode()[: TEXT_LIMIT - 3].decode("utf-8", "ignore") + "…"


def _timeline_lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    return aligned(
        (row["datetime"].replace("+00:00", "Z"), row["timestamp_desc"], shorten(row["message"], NAME_SHOWN))
        for row in rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateLine(SimulateCommand):
    """A prediction, how much of it is shown, and where."""

    answer: Annotated[Destination, Formats(("text", "json"))]
    verbose: Annotated[bool, PutAfter("losses"), verbosely("List every file, queue and range.")] = False


@command_of(SimulateLine)
def simulate_command(line: SimulateLine) -> int:
    """Predict what a broker does when it starts on STORE_PATH: whether it loads, where its recovery begins,
    where it cuts the commit log, which files, units and index entries it deletes, what it dispatches
    again, and which messages become unreachable.

    Without --as-broker, simulate predicts every version that may have written the store. If all starts end
    the same, simulate shows one of them, otherwise a line for each.

    simulate writes nothing and needs no broker. Exit status 4 means that a start fails or loses something, or
    that units point to lost messages; 8 that no prediction exists for a store like this.
    """
    answer = simulate(line)
    if answer.uncovered is not None and line.answer.form != "json" and len(answer.predictions) == 1:
        raise answer.uncovered
    read = [line.store_path, *line.stated.commitlog_paths, *answer.store.commitlog.directories]
    line.answer.say(
        lambda: plain_values(
            {
                "schema_version": SCHEMA_VERSION,
                "kind": "rocketfsck.simulate",
                "store": str(line.store_path),
                "harmful": answer.harmful if answer.starts else None,
                "starts": [_start_document(item) for item in answer.predictions],
            }
        ),
        lambda palette: _lines(answer, palette, text_columns(), everything=line.verbose),
        read,
    )
    return answer.exit_code


def _lines(answer: SimulateAnswer, palette: Palette, columns: int, *, everything: bool) -> Iterator[str]:
    from rocketfsck.cli.show.start import start_lines, verdict_lines, versions_text
    from rocketfsck.query.start.verdict import verdict_of

    verdicts = [verdict_of(item) for item in answer.predictions]
    said, starts = list(verdict_lines(verdicts)), answer.starts
    if len(said) > 1 or not starts:
        yield from said
        yield "--as-broker VERSION shows one of them in detail."
        return
    own = str(answer.store.dialect.version)
    shown = next((start for start in starts if start.version == own), starts[-1])
    yield from start_lines(shown, palette, columns=columns, everything=everything)
    if len(answer.predictions) > 1:
        yield f"Brokers of {versions_text(verdicts)} end up the same."


def _start_document(item: Prediction) -> dict[str, Any]:
    """What is predicted for one class of versions; without a prediction the reasons alone."""
    reasons = getattr(item.error, "reasons", (str(item.error),))  # of other errors the text
    return {
        "alike": item.alike,
        "covered": item.start is not None,
        "not_covered": () if item.error is None else reasons,
        "harmful": None if item.start is None else item.start.harmful,
        **({"version": item.version} if item.start is None else item.start.document()),
    }
