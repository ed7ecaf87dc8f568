"""Whether a directory is a store that a broker could have written: a full check, as an assertion.

A store that is still to be written: what the strategies draw and the fixtures write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rocketfsck import writer
from rocketfsck.common.documents import printable
from rocketfsck.engine import LocalEngine
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.opening import open_store
from rocketfsck.verify.finding import Finding, Level, Severity
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES, describe, severity_of
from rocketfsck.verify.run import check_store

_SETTINGS = (
    ("mappedFileSizeCommitLog", "commitlog_file_size"),
    ("mappedFileSizeConsumeQueue", "consumequeue_file_size"),
    ("mapperFileSizeBatchConsumeQueue", "batch_file_size"),
    ("mappedFileSizeConsumeQueueExt", "ext_file_size"),
    ("maxHashSlotNum", "slot_count"),
    ("maxIndexNum", "entry_count"),
)


def broker_conf_of(geometry: Geometry) -> str:
    """The lines of a broker.conf that state these sizes: what a real broker would be given."""
    return "".join(f"{name}={getattr(geometry, field)}\n" for name, field in _SETTINGS)


@dataclass(frozen=True)
class PlannedStore:
    """What a store is to hold. `events` are messages and, in between, what else happens to a broker."""

    options: writer.WriteOptions
    events: tuple[writer.Event, ...]

    @property
    def version(self) -> str:
        return self.options.version

    @property
    def messages(self) -> tuple[writer.OutgoingMessage, ...]:
        return tuple(event for event in self.events if isinstance(event, writer.OutgoingMessage))

    @property
    def broker_conf(self) -> str:
        """The settings of its broker, as the text of a broker.conf."""
        return broker_conf_of(self.options.geometry)

    @property
    def was_killed(self) -> bool:
        """Whether the broker died at its end or in between: then a check says what that left."""
        return self.options.end_state is writer.EndState.KILLED or any(
            isinstance(event, writer.Restart) and event.killed for event in self.events
        )

    def write(self, directory: Path | str) -> writer.WrittenStore:
        """Write it into a new directory, as its broker would; `write_store` says what is raised."""
        return writer.write_store(directory, self.events, replace(self.options, sync=False))


SHOWN = 20
"""Breaches that an error's text shows; `report` holds them all."""


class NotConformantError(AssertionError):
    """The directory is not a conformant store. `report` is the whole report, `findings` the breaches."""

    def __init__(self, message: str, report: Report, findings: tuple[Finding, ...]) -> None:
        super().__init__(message)
        self.report = report
        self.findings = findings


def breaches(report: Report) -> tuple[Finding, ...]:
    """The findings of a report that a store must not have: everything above info, worst first."""
    return tuple(finding for finding in report.findings if severity_of(finding) > Severity.INFO)


def assert_conformant(
    directory: Path | str,
    *,
    version: str | None = None,
    level: Level = "full",
    ignore: Iterable[str] = (),
    broker_conf: Path | None = None,
    commitlog_paths: Sequence[Path] = (),
    delay_levels: str | None = None,
    now_timestamp: int | None = None,
) -> Report:
    """Assert that a directory is a store without any fault; gives the report of the check.

    `version` names the broker version whose bytes are meant (else it is inferred, and whatever some version
    writes is right). `level` is quick, cross or full. `ignore` names rules that need not hold: ids, slugs or
    starts of ids, such as CP001 for the directory of a program that was killed. `broker_conf` gives file
    sizes and settings that the bytes do not tell, `delay_levels` the messageDelayLevel. `now_timestamp` (ms)
    replaces the clock. Nothing in the directory is opened for writing.

    Raises NotConformantError, an AssertionError that lists every breach with its place; StoreError for a
    directory that cannot be read, and UsageError for rules or versions that there are not.
    """
    __tracebackhide__ = True  # pytest then shows the caller, who knows what was written
    store = open_store(
        directory,
        broker_conf=broker_conf,
        version=version,
        commitlog_paths=commitlog_paths,
        delay_levels=delay_levels,
    )
    options = CheckOptions(level=level, ignore=tuple(ignore), now_timestamp=now_timestamp)
    report = check_store(store, options, engine=LocalEngine(1))
    findings = breaches(report)
    unread = [item for item in report.not_checked if item.operational]
    if not findings and not unread:
        return report
    lines = [f"{printable(str(directory))} is not a conformant store ({_as(report)}):"]
    lines += [_line(finding) for finding in findings[:SHOWN]]
    if len(findings) > SHOWN:
        lines.append(f"  ... and {len(findings) - SHOWN} more")
    lines += [
        f"  {printable(item.what)} could not be read: {printable(item.reason)}" for item in unread[:SHOWN]
    ]
    lines += [f"  {item.fault_class}, {item.title}: {item.text}" for item in report.diagnoses[:3]]
    lines += [f"  next: {command}" for command in report.next_commands[:2]]
    raise NotConformantError("\n".join(lines), report, findings)


def _as(report: Report) -> str:
    how = "given" if report.store.dialect_given else "inferred"
    return f"as {report.store.dialect}, {how}; level {report.level}"


def _line(finding: Finding) -> str:
    rule, where = RULES[finding.rule], finding.where
    place = printable(where.file) or "the store"
    if where.start is not None:
        place += f" at byte {where.start}"
    return f"  {rule.id} {rule.slug}, {place}: {describe(finding)}"
