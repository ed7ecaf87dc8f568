"""OpenMetrics: a check as gauges, for the textfile collector of Prometheus' node_exporter.

All metrics are gauges and no sample has a time of its own: the collector reads the older text format, too,
which has no other fitting types, and refuses times. Names found in a store are never labels: the number of
series of a store depends only on the tables of rules, states and families. The check of many stores has the
families of the check of one that the table of stores knows, and says of each store what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from rocketfsck._version import __version__
from rocketfsck.cli.forms.checked import CheckSaid
from rocketfsck.cli.show.text import sentence
from rocketfsck.pipeline.fleet.model import ORDER, FleetReport, StoreRow
from rocketfsck.pipeline.sources import broker_name
from rocketfsck.repair.state import State
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.tasks.task import Checked

PREFIX = "rocketfsck"
Labels = Mapping[str, str]
Samples = Iterable[tuple[Labels, float | int]]
Values = Iterable[tuple[Labels, float | int | None]]
"""Samples of a store, None where nobody knows the value."""
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@dataclass(frozen=True, slots=True)
class Metric:
    """A family of metrics: its name, which ends with its unit if it has one, and what it says."""

    name: str
    about: str
    unit: str = ""


FINDINGS = Metric("findings", "Findings of the last check, by severity.")
RULE_FINDINGS = Metric(
    "rule_findings", "Findings of the last check, by rule; rules without one are left out."
)
NEW_FINDINGS = Metric("new_findings", "Errors and warnings that the last run of the store did not have.")
GONE_FINDINGS = Metric("gone_findings", "Errors and warnings of the last run of the store that are gone.")
STATE = Metric("store_state", "1 for the state that the store is in, 0 for the others.")
MAY_START = Metric("may_start", "1 if a broker may be started, 0 if not; left out where nobody can say.")
EXIT_CODE = Metric("check_exit_code", "Exit status of the last check, a sum of bits.")
DAMAGED = Metric("damaged_bytes", "Bytes of the commit log that belong to no sound record.", "bytes")
MESSAGES = Metric(
    "messages", "Messages whose records are in the log; left out where the check did not count them."
)
LOST = Metric("lost_messages", "Messages that are lost; left out where the check did not count them.")
STORE_SIZE = Metric("store_bytes", "Bytes of the files of the store.", "bytes")
COVERAGE = Metric("coverage_ratio", "Share of the bytes of data files that the check went through.", "ratio")
COMPLETE = Metric("check_complete", "1 if the check looked at everything, 0 if not.")
OLDEST = Metric(
    "oldest_read_timestamp_seconds", "When the part was read that was read longest ago (--since).", "seconds"
)
LEFT_OUT = Metric("not_checked", "Things that were not checked; operational: they could not be read.")
SUPPRESSED = Metric("suppressed_findings", "Findings that the baseline knows.")
DURATION = Metric("check_duration_seconds", "How long the last check took.", "seconds")
TIME = Metric("check_timestamp_seconds", "When the last check began, since 1970.", "seconds")
ABOUT = Metric("check_about", "Always 1; how the last check was made, as labels.")
_CHECKED = {
    "file_count": Metric("checked_files", "Files that the check looked at."),
    "byte_count": Metric("checked_bytes", "Bytes that the check read, each once.", "bytes"),
    "record_count": Metric("checked_messages", "Records of messages that the check went through."),
    "unit_count": Metric("checked_units", "Consume queue units that the check went through."),
    "entry_count": Metric("checked_index_entries", "Index entries that the check went through."),
}
"""The metric of each member of `Checked`."""


def pieces(said: CheckSaid) -> Iterator[str]:
    """The exposition, a family of metrics a piece, with its end mark."""
    root = said.report.store.root
    store = {"store": root, "broker": broker_name(root, None)}
    for metric, samples in _families(said):
        yield "".join(_lines(metric, [({**store, **labels}, value) for labels, value in samples]))
    yield "# EOF\n"


def fleet_pieces(report: FleetReport) -> Iterator[str]:
    """The exposition of a check of many stores: a family has its samples of all stores."""
    stores = [(row, {"store": row.root, "broker": row.broker}) for row in report.stores]
    for metric, samples_of in _FLEET_FAMILIES:
        samples = [
            ({**store, **labels}, value)
            for row, store in stores
            for labels, value in samples_of(report, row)
            if value is not None
        ]
        if samples:
            yield "".join(_lines(metric, samples))
    yield "# EOF\n"


def _fleet_about(report: FleetReport, row: StoreRow) -> Values:
    return [({"version": __version__, "level": report.level, "broker_version": row.version or ""}, 1)]


def _member(name: str) -> Callable[[FleetReport, StoreRow], Values]:
    """A family of one value, a member of the row; true is 1."""

    def samples(_report: FleetReport, row: StoreRow) -> Values:
        value = getattr(row, name)
        return [({}, int(value) if isinstance(value, bool) else value)]

    return samples


_FLEET_FAMILIES: tuple[tuple[Metric, Callable[[FleetReport, StoreRow], Values]], ...] = (
    (ABOUT, _fleet_about),
    (
        FINDINGS,
        lambda _, row: [
            ({"severity": severity.word}, getattr(row, f"{severity.word}_count")) for severity in Severity
        ],
    ),
    (NEW_FINDINGS, _member("new_finding_count")),
    (GONE_FINDINGS, _member("gone_finding_count")),
    (STATE, lambda _, row: [({"state": name}, int(name == row.state)) for name in ORDER]),
    (MAY_START, _member("may_start")),
    (EXIT_CODE, _member("exit_code")),
    (MESSAGES, _member("message_count")),
    (LOST, _member("lost_record_count")),
    (DAMAGED, _member("damaged_byte_count")),
    (STORE_SIZE, _member("byte_count")),
    (COMPLETE, _member("is_complete")),
    (OLDEST, lambda _, row: [({}, _seconds(row.oldest_read_timestamp))]),
    (DURATION, _member("seconds")),
    (TIME, lambda report, _: [({}, _seconds(report.started_timestamp))]),
)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _families(said: CheckSaid) -> Iterator[tuple[Metric, Samples]]:
    report, verdict = said.report, said.verdict
    about = {"version": report.tool_version, "level": report.level, "broker_version": verdict.version}
    yield ABOUT, [(about, 1)]
    counts = report.severity_counts
    yield FINDINGS, [({"severity": severity.word}, count) for severity, count in counts.items()]
    yield (
        RULE_FINDINGS,
        [
            ({"rule": name, "slug": RULES[name].slug, "severity": report.severity_of(name).word}, count)
            for name, count in sorted(report.counts.items())
            if count
        ],
    )
    yield STATE, [({"state": name}, int(name == verdict.state)) for name in get_args(State)]
    if verdict.may_start is not None:
        yield MAY_START, [({}, int(verdict.may_start))]
    yield EXIT_CODE, [({}, said.exit_code)]
    if verdict.messages is not None:
        yield MESSAGES, [({}, verdict.messages.now.in_log_count)]
        yield LOST, [({}, verdict.messages.now.lost_count)]
    yield DAMAGED, [({}, verdict.damaged_byte_count)]
    yield STORE_SIZE, [({}, report.store.byte_count)]
    yield COVERAGE, [({}, _share(report.coverage.done_byte_count, report.coverage.byte_count))]
    failed = sum(item.operational for item in report.not_checked)
    left = len(report.not_checked) - failed
    yield COMPLETE, [({}, int(report.coverage.complete and not failed))]
    yield LEFT_OUT, [({"operational": "true"}, failed), ({"operational": "false"}, left)]
    yield SUPPRESSED, [({}, report.suppressed)]
    for member in Checked.__slots__:
        amounts = [({"family": name}, getattr(done, member)) for name, done in report.checked.items()]
        yield _CHECKED[member], amounts
    yield DURATION, [({}, report.seconds)]
    yield TIME, [({}, report.started_timestamp / 1000)]


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _lines(metric: Metric, samples: Samples) -> Iterator[str]:
    name = f"{PREFIX}_{metric.name}"
    yield f"# TYPE {name} gauge\n"
    if metric.unit:
        yield f"# UNIT {name} {metric.unit}\n"
    yield f"# HELP {name} {metric.about}\n"
    for labels, value in samples:
        pairs = ",".join(f'{key}="{_quoted(text)}"' for key, text in labels.items())
        yield f"{name}{{{pairs}}} {value!r}\n"


def _quoted(text: str) -> str:
    """A label's value: what is not printable as escapes, then as the format quotes."""
    return sentence(text).translate(_ESCAPES)
