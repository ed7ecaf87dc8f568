"""The verdict on a checked store: may a broker be started, what is lost, what comes back, what to run next.

    report of a check  \\
    predicted starts    >  Verdict
    plan of a repair   /

A start is predicted for every version that the store may be of, and the worst of them decides. Where the
check found nothing above info, messages out of reach are not looked for: that would read the log once more.
Design, section 5.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS, RocketfsckError
from rocketfsck.formats.dialect import dialect_for
from rocketfsck.query.start.verdict import (
    Prediction,
    StartVerdict,
    predict_each,
    start_classes,
    verdict_of,
    versions_of,
)
from rocketfsck.repair.plan.law import assumed_names, total_notices
from rocketfsck.repair.plan.model import Action, Notice, Plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.rulenames import RuleName
from rocketfsck.store.model import Store
from rocketfsck.store.places.locations import is_remote
from rocketfsck.verify.advice import fix_command, store_command
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES, severity_of

State = Literal["healthy", "damaged", "harmful", "refused", "running", "partial", "unknown"]
"""What a store is, for whoever wants to start a broker on it.

    healthy   nothing above info was found, and a start takes nothing
    damaged   something was found, and a start takes nothing more
    harmful   a broker of some version starts, and deletes or loses something
    refused   a broker of some version does not start
    running   a broker holds the store
    partial   nothing above info was found in what was checked, which is not all
    unknown   the start cannot be predicted
"""

COMPARES = "rocketfsck compare"
"""What a reason names where another copy of the store is all that helps."""
_REGIONS_OF_DAMAGE = frozenset({"damaged", "torn"})


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a repair would do about the findings.

    `action_count` actions, `safe_count` of them provably safe, answer `answered_count` findings above info
    and leave `unanswered_count`; `reason` says why for the worst of these. `lost_record_count` records and
    `lost_entry_count` index entries are not there afterwards. `notices` are what the broker and its
    consumers will notice, `assumed` values that need the user's word.
    """

    action_count: int
    safe_count: int
    answered_count: int
    unanswered_count: int
    lost_record_count: int
    lost_entry_count: int
    gains: Mapping[str, int] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()
    assumed: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict. `may_start` is None where nobody can say; `version` is the one that the store is read as.

    `starts` has a prediction for every class of versions in question; `urgent` are the fault classes found
    whose damage a start makes worse. `lost_configs` are config files that a broker cannot read: its start
    resets what they hold, or is refused. `damaged_byte_count` bytes of the log belong to no sound record.
    `prospect` is None where nothing is to be repaired, or no plan can be made; `obstacle` then says why.
    `next_command` is a command line, None where nothing is to be done.
    """

    state: State
    may_start: bool | None
    version: str
    error_count: int
    warning_count: int
    info_count: int
    starts: tuple[StartVerdict, ...] = ()
    urgent: tuple[str, ...] = ()
    lost_configs: tuple[str, ...] = ()
    damaged_byte_count: int = 0
    prospect: Prospect | None = None
    obstacle: str = ""
    next_command: str | None = None


def judge_store(
    store: Store,
    report: Report,
    *,
    version: str | None = None,
    plan: Plan | None = None,
    predictions: Sequence[Prediction] | None = None,
) -> Verdict:
    """The verdict on a store that was just checked; `version` asks for the start of that one alone. `plan`
    and `predictions` are those that were made already.

    Raises UsageError for a version that is none. What cannot be predicted or planned is said in the verdict.
    """
    sound = _is_sound(report)
    if predictions is None:
        predictions = predicted(store, report, version=version)
    starts = tuple(map(verdict_of, predictions))
    prospect, obstacle = (None, "") if sound else _prospect(store, report, plan)
    counts = report.severity_counts
    found = {diagnosis.fault_class for diagnosis in report.diagnoses}
    state = _state(store, report, starts)
    return Verdict(
        state,
        {"healthy": True, "damaged": True, "harmful": False, "refused": False}.get(state),
        str(store.dialect.version),
        counts[Severity.ERROR],
        counts[Severity.WARNING],
        counts[Severity.INFO],
        starts,
        tuple(name for name in urgent_classes(starts) if name in found),
        _lost_configs(report),
        sum(
            region.byte_count
            for regions in report.regions.values()
            for region in regions
            if region.kind in _REGIONS_OF_DAMAGE
        ),
        prospect,
        obstacle,
        _next(store, report, prospect, state),
    )


_HARMS: tuple[tuple[str, str], ...] = (
    ("queues_destroyed", "C8"),
    ("cut_count", "C1 C2 C3 C4 C5 C10 C7"),
    ("reason", "C6 Q6 Q10 I10 C7"),
    ("hidden_file_count", "C6"),
    ("lost_count", "Q7 Q1 Q3 Q2 C2 C5"),
    ("reissued_count", "Q7 Q3 Q4 C2 C1"),
    ("shifted_count", "Q3 Q7 C2"),
    ("unreadable_count", "C5 C2"),
    ("lost_key_count", "I1 I2 I10"),
)
"""What a start does (a member of `StartVerdict`), worst first, and the classes of damage that make it do so.

A diagnosis is urgent if the start makes its damage worse: one that refuses, deletes or cuts takes more than
the damage itself has.
"""


def exit_status(report: Report, verdict: Verdict, *, narrowed: bool = False) -> int:
    """The exit status of a check, and of a `fix` that changes nothing.

    A start that is refused, or deletes something, is a problem, too, where its cause may be in what the check
    did not look at. `narrowed`: the user asked for a part of the findings.
    """
    hidden = report.level != "full" or not report.coverage.complete
    harmful = verdict.may_start is False and hidden and not narrowed
    return report.exit_code | (EXIT_PROBLEMS if harmful else EXIT_CLEAN)


def urgent_classes(starts: Iterable[StartVerdict]) -> tuple[str, ...]:
    """Classes of the fault catalogue whose damage a start makes worse, the most urgent first."""
    known = [start for start in starts if start.covered]
    found = [
        name
        for does, classes in _HARMS
        if any(getattr(start, does) for start in known)
        for name in classes.split()
    ]
    return tuple(dict.fromkeys(found))


def ranked(report: Report, verdict: Verdict) -> Report:
    """The report with its urgent diagnoses in front, the most urgent first; the others keep their order."""
    order = {name: place for place, name in enumerate(urgent_classes(verdict.starts))}
    diagnoses = sorted(report.diagnoses, key=lambda diagnosis: order.get(diagnosis.fault_class, len(order)))
    return replace(report, diagnoses=tuple(diagnoses))


def predicted(
    store: Store, report: Report, *, version: str | None = None, while_running: bool = False
) -> list[Prediction]:
    """The start of every version in question on a store that was just checked, or of that one `version`.

    Next to a running broker, none but that of the `version`, unless `while_running`: a later start finds
    another store, and after an unclean stop, which this would be, a start reads much of the log. Raises
    UsageError for a version that is none.
    """
    if store.live.locked and version is None and not while_running:
        return []
    sound = _is_sound(report)
    versions = versions_of(store) if version is None else (dialect_for(version).version,)
    sound_end = sound_end_of(store, report) if sound else None
    return predict_each(store, start_classes(versions), losses=not sound, sound_end=sound_end)


def sound_end_of(store: Store, report: Report) -> int | None:
    """The physical offset behind the last record, where the report of a sound store tells it: every byte was
    read, and the last file with records has nothing else but zeros."""
    if report.level != "full" or not report.coverage.complete or report.suppressed:
        return None
    for file in reversed(store.commitlog.files):
        regions = report.regions.get(file.relative, ())
        kinds = {region.kind for region in regions}
        if file.start_offset is None or not kinds or kinds - {"records", "filler", "zero", "blank"}:
            return None
        if kinds == {"zero"}:
            continue
        used = sum(region.byte_count for region in regions if region.kind != "zero")
        return file.start_offset + (file.size if "blank" in kinds else used)
    return None


def _state(store: Store, report: Report, starts: Sequence[StartVerdict]) -> State:
    if store.live.locked:
        return "running"
    known = [start for start in starts if start.covered]
    if any(not start.loads for start in known):
        return "refused"
    if any(start.takes(hidden=not _is_known_sound(report)) for start in known) or _lost_configs(report):
        return "harmful"
    if not known or len(known) < len(starts):
        return "unknown"
    if not _is_sound(report):
        return "damaged"
    failed = any(item.operational for item in report.not_checked)
    return "partial" if failed or not report.coverage.complete else "healthy"


def _lost_configs(report: Report) -> tuple[str, ...]:
    """Config files without a sound copy: the broker writes default settings in their place."""
    files = (finding.where.file for finding in report.findings if finding.rule == RuleName.CONFIG_LOST)
    return tuple(dict.fromkeys(files))


def _is_sound(report: Report) -> bool:
    """Whether nothing above info was found in what was checked."""
    return (report.worst or Severity.INFO) is Severity.INFO


def _is_known_sound(report: Report) -> bool:
    """Whether everything was looked at, and nothing is wrong: files that a broker passes over are no loss."""
    return _is_sound(report) and report.level == "full" and report.coverage.complete


def _prospect(store: Store, report: Report, plan: Plan | None) -> tuple[Prospect | None, str]:
    """What a plan would do; else why there is none."""
    obstacle = ""
    if plan is None:
        plan, obstacle = plan_or_obstacle(store, report)
    return (None, obstacle) if plan is None else (prospect_of(plan, report.findings), "")


def plan_or_obstacle(store: Store, report: Report) -> tuple[Plan | None, str]:
    """The plan of the repair; else why there is none, "" where nothing is to be repaired."""
    if _is_sound(report):
        return None, ""
    if is_remote(store.root):
        return None, "a repair needs the store on this machine"
    try:
        return make_plan(store, report), ""
    except RocketfsckError as error:
        return None, str(error)


def total_gains(actions: Iterable[Action]) -> dict[str, int]:
    """What all actions bring back, by what it is."""
    totals: dict[str, int] = {}
    for action in actions:
        for what, count in action.gains.items():
            totals[what] = totals.get(what, 0) + count
    return totals


def prospect_of(plan: Plan, findings: Iterable[Finding]) -> Prospect:
    """A plan in short."""
    losses = [loss for action in plan.actions for loss in action.losses]
    answered = plan.answered
    worst = max(plan.unanswered, key=lambda item: RULES[item.rule].severity, default=None)
    return Prospect(
        len(plan.actions),
        sum(action.preen for action in plan.actions),
        sum(finding.fingerprint in answered for finding in findings if severity_of(finding) > Severity.INFO),
        len(plan.unanswered),
        sum(loss.count for loss in losses if loss.what == "record"),
        sum(loss.count for loss in losses if loss.what == "entry"),
        total_gains(plan.actions),
        total_notices(plan.actions),
        assumed_names(plan.actions),
        "" if worst is None else worst.reason,
    )


def _next(store: Store, report: Report, prospect: Prospect | None, state: State) -> str | None:
    """The one command to run: what repairs, else what shows the worst of it."""
    if prospect is not None and prospect.action_count and state != "running":
        return fix_command(store, report.level)
    if prospect is not None and COMPARES in prospect.reason:
        return f"{COMPARES} {shlex.quote(str(store.root))} REPLICA"
    if prospect is None and state in ("harmful", "refused") and report.level != "full":
        return store_command(["check"], store.told, store.root)
    return next(iter(report.next_commands), None)
