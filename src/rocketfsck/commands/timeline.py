"""Puts what the files of a store say about time in the order of time.

Predicts what a start of a broker would do to a store, without a start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from rocketfsck.commands.shared import AsBroker, StoreOptions, StorePlace
from rocketfsck.common.options import Option
from rocketfsck.errors import EXIT_CLEAN, EXIT_OPERATIONAL, EXIT_PROBLEMS, StoreError
from rocketfsck.verify.options import CheckOptions, LevelAsked

if TYPE_CHECKING:
    from rocketfsck.query.start.model import Start
    from rocketfsck.query.start.verdict import Prediction
    from rocketfsck.query.timeline import TimelineEvent
    from rocketfsck.store import Store
    from rocketfsck.verify.finding import Finding
    from rocketfsck.verify.report import Report


@dataclass(frozen=True, slots=True)
class SimulateCommand:
    """Whose start on which store is predicted, and whether the log is read for what comes out of reach."""

    store_path: StorePlace
    as_broker: AsBroker = None
    losses: Annotated[
        bool,
        Option(
            "Look for messages that come out of reach: reads the whole commit log once.",
            names=("--losses/--no-losses",),
            shows_default=True,
        ),
    ] = True
    stated: StoreOptions = field(default_factory=StoreOptions)


@dataclass(frozen=True, slots=True)
class SimulateAnswer:
    """What is predicted, for each class of versions that start alike."""

    store: Store
    predictions: Sequence[Prediction]

    @property
    def starts(self) -> list[Start]:
        """The starts that could be predicted."""
        return [item.start for item in self.predictions if item.start is not None]

    @property
    def harmful(self) -> bool:
        """Whether a start fails or loses something."""
        return any(start.harmful for start in self.starts)

    @property
    def uncovered(self) -> StoreError | None:
        """Why there is no prediction for some versions; None where there is one for all."""
        return next((item.error for item in self.predictions if item.error is not None), None)

    @property
    def exit_code(self) -> int:
        code = EXIT_PROBLEMS if self.harmful else EXIT_CLEAN
        return code | (EXIT_CLEAN if self.uncovered is None else EXIT_OPERATIONAL)


def simulate(options: SimulateCommand) -> SimulateAnswer:
    """Predict the starts. Raises UsageError for what is not a version, StoreError for what cannot be read."""
    from rocketfsck.query.start.verdict import predict_each, start_classes, versions_of

    # opened as what wrote the store, whichever broker is to start on it
    store = options.stated.open("simulate", options.store_path)
    if options.as_broker is None:
        classes = start_classes(versions_of(store))
    else:
        from rocketfsck.formats.dialect import dialect_for

        classes = [(dialect_for(options.as_broker).version,)]
    return SimulateAnswer(store, predict_each(store, classes, losses=options.losses))


@dataclass(frozen=True, slots=True)
class TimelineCommand:
    """Whose times are wanted, and whether the findings of a check are among them; `gap_seconds` is the least
    time without messages that is an event."""

    path: StorePlace
    level: LevelAsked = "full"
    no_check: Annotated[bool, Option("Leave the findings out; nothing is checked.")] = False
    gap_seconds: Annotated[
        float,
        Option(
            "Show times of this length or longer in which no message was stored.",
            names=("--gap",),
            kind="duration",
            typed_default="1h",
            shows_default=True,
        ),
    ] = 3600.0
    stated: StoreOptions = field(default_factory=StoreOptions)


@dataclass(frozen=True, slots=True)
class TimelineAnswer:
    """The events, not yet in order, each with its finding or None, and the report, None without a check."""

    store: Store
    events: list[tuple[TimelineEvent, Finding | None]]
    report: Report | None

    @property
    def exit_code(self) -> int:
        failed = self.report is not None and any(item.operational for item in self.report.not_checked)
        return EXIT_OPERATIONAL if failed else EXIT_CLEAN


def timeline(options: TimelineCommand) -> TimelineAnswer:
    """All events of a store. Raises StoreError for what is not a store or cannot be read."""
    from rocketfsck.verify.run import check_store

    store = options.stated.open("timeline", options.path)
    report = None if options.no_check else check_store(store, CheckOptions(level=options.level))
    events = list(_events(store, report, int(options.gap_seconds * 1000)))
    return TimelineAnswer(store, events, report)


def _events(
    store: Store, report: Report | None, gap_ms: int
) -> Iterator[tuple[TimelineEvent, Finding | None]]:
    from rocketfsck.query.timeline import due_events, file_events, first_events, log_events

    findings: Sequence[Finding] = () if report is None else report.findings
    offsets = [file.start_offset or 0 for file in store.commitlog.files]
    offsets += [
        finding.where.physical_offset for finding in findings if finding.where.physical_offset is not None
    ]
    of_log, times = log_events(store, gap_ms=gap_ms, offsets=offsets)
    for events in (file_events(store), of_log, first_events(store.commitlog.files, times), due_events(store)):
        for event in events:
            yield event, None
    for finding in findings:
        at = _time_of(finding, times)
        if at is not None:
            yield _event(finding, at), finding


def _time_of(finding: Finding, times: dict[int, int]) -> int | None:
    """The time of a finding: one that the finding states, else that of the record where it is."""
    for name in ("store_timestamp", "timestamp", "begin_timestamp"):
        value = finding.found.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None if finding.where.physical_offset is None else times.get(finding.where.physical_offset)


def _event(finding: Finding, at: int) -> TimelineEvent:
    from rocketfsck.query.timeline import TimelineEvent
    from rocketfsck.verify.rules.catalog import RULES, describe

    where, rule = finding.where, RULES[finding.rule]
    text = f"{rule.id} {rule.slug}: {describe(finding)}"
    return TimelineEvent(
        at, "Finding", text, "finding", where.file, where.topic, where.queue_id, where.physical_offset
    )
