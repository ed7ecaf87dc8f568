"""The verdict on a checked store: may a broker be started, what is lost, what comes back, what to run next.

    report of a check  \\
    predicted starts    >  Verdict
    plan of a repair   /

A start is predicted for every version that the store may have, and the worst of them decides. Where the check
found nothing above info, messages out of reach are not looked for: that would read the log once more. Design,
section 5.

A plan in short, for the verdict: what it would do about the findings, and what it leaves.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rocketfsck.common.rows import html_of
from rocketfsck.errors import RocketfsckError
from rocketfsck.formats.dialect import dialect_for
from rocketfsck.query.start import verdict as start_verdict
from rocketfsck.repair.advice import Advice, advice_on
from rocketfsck.repair.plan.basis import usual_sizes
from rocketfsck.repair.plan.law import assumed_names, total_notices
from rocketfsck.repair.plan.model import Action, Notice, Plan
from rocketfsck.repair.state import (
    MAY_START,
    AfterStart,
    Outlook,
    State,
    after_start,
    depth_of,
    is_sound,
    lost_configs,
    newer_byte_count,
    newer_record_count,
    planned_fates,
    state_of,
    unknown_topic_count,
    unlisted_topic_count,
)
from rocketfsck.store.model import Store
from rocketfsck.store.places.urls import is_remote
from rocketfsck.verify.diagnoses import ORIGINS, fix_command, store_command
from rocketfsck.verify.finding import MessageAccount, Severity
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES, describe

if TYPE_CHECKING:
    from rocketfsck.repair.area.journal import Area


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a repair would do about the findings.

    `action_count` actions, `safe_count` of them provably safe, correct `answered_count` findings above info
    and leave `unanswered_count`; `reason` says why for the worst of these. A finding that stands for several
    counts as so many. `is_tried`: that was found by trying the plan; otherwise what is left has no action of
    its own, and may be gone all the same. `refused_action_count` actions were left out after the trial.
    `lost_record_count` records and `lost_entry_count` index entries are not there afterwards. `notices` are
    what the broker and its consumers will notice, `assumed` values that need the user's word.
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
    is_tried: bool = False
    refused_action_count: int = 0


def plan_or_obstacle(
    store: Store, report: Report, starts: Sequence[start_verdict.StartVerdict] = ()
) -> tuple[Plan | None, str]:
    """The plan of the repair, tried where that is cheap; else why there is none, "" where nothing is to be
    repaired. `starts` are those that were predicted already."""
    if (report.worst or Severity.INFO) is Severity.INFO:
        return None, ""
    if is_remote(store.root):
        return None, "a repair needs the store on this machine"
    # what plans and repairs is a fifth of the modules of a check, and a sound store needs none of it
    from rocketfsck.repair.apply.holding import held_plan
    from rocketfsck.repair.plan.planning import make_plan

    try:
        return held_plan(make_plan(store, report), store, report, starts=starts), ""
    except RocketfsckError as error:
        return None, str(error)


def total_gains(actions: Iterable[Action]) -> dict[str, int]:
    """What all actions bring back, by what it is."""
    totals: dict[str, int] = {}
    for action in actions:
        for what, count in action.gains.items():
            totals[what] = totals.get(what, 0) + count
    return totals


def prospect_of(plan: Plan, usual: Collection[str] = ()) -> Prospect:
    """A plan in short. The values named `usual` need nobody's word (`basis.usual_sizes`)."""
    losses = [loss for action in plan.actions for loss in action.losses]
    worst = max(plan.unanswered, key=lambda item: RULES[item.rule].severity, default=None)
    return Prospect(
        len(plan.actions),
        sum(action.preen for action in plan.actions),
        plan.answered_count,
        plan.unanswered_count,
        sum(loss.count for loss in losses if loss.what == "record"),
        sum(loss.count for loss in losses if loss.what == "entry"),
        total_gains(plan.actions),
        total_notices(plan.actions),
        tuple(name for name in assumed_names(plan.actions) if name not in usual),
        "" if worst is None else worst.reason,
        plan.is_tried,
        len(plan.refused_actions),
    )


INTERRUPTED = (
    "finish what was interrupted before anything else; the repair is in {place}, and `rocketfsck undo` "
    "takes it back"
)
COMPARES = "rocketfsck compare"
"""What a reason names where another copy of the store is all that helps."""
REBUILDS = "rocketfsck rebuild consumequeue"
"""What a reason names where a database of queues is broken, which no plan changes."""
_REGIONS_OF_DAMAGE = frozenset({"damaged", "torn"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict. `may_start` is None where nobody can say; `version` is the one that the store is read as.

    `starts` has a prediction for every class of versions in question; `urgent` are the fault classes found
    whose damage a start makes worse. `lost_configs` are config files that a broker cannot read: its start
    resets what they hold, or is refused. `unknown_topic_count` topics are in no config file: a broker that
    starts knows nothing of them, nor of `unlisted_topic_count` others that topics.json lacks.
    `newer_record_count` records have a magic code that no known broker writes.
    `damaged_byte_count` bytes of the log belong to no sound record.
    `account` is that of the messages, None where they were not counted; `messages` has it in three states:
    now, after the starts, after the plan. `depth` says what was not looked at,
    a clause for each, and `unread` names the first files that could not be read. `prospect` is None where
    nothing is to be repaired (of a killed broker's store that a start puts in order nobody plans a repair
    but who asks for it), or no plan can be made; `obstacle` then says why. `causes` say where damaged
    files come from, where that is known; `advice` is a sentence to be read before anything is done, "" for
    none. `next_command` is a command line, None where nothing is to be
    done.
    """

    state: State
    may_start: bool | None
    version: str
    error_count: int
    warning_count: int
    info_count: int
    starts: tuple[start_verdict.StartVerdict, ...] = ()
    urgent: tuple[str, ...] = ()
    lost_configs: tuple[str, ...] = ()
    unknown_topic_count: int = 0
    unlisted_topic_count: int = 0
    newer_record_count: int = 0
    damaged_byte_count: int = 0
    account: MessageAccount | None = None
    messages: Outlook | None = None
    depth: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    prospect: Prospect | None = None
    obstacle: str = ""
    causes: tuple[str, ...] = ()
    advice: str = ""
    next_command: str | None = None

    def __repr__(self) -> str:
        return f"<rocketfsck verdict: {'; '.join(f'{name} {value}' for name, value in self._facts())}>"

    def _repr_html_(self) -> str:
        return html_of(f"Verdict: {self.state}", self._facts()[1:])

    def _facts(self) -> list[tuple[str, object]]:
        """What is said of it in short."""
        may_start = {None: "unknown", True: "yes", False: "no"}[self.may_start]
        facts: list[tuple[str, object]] = [("state", self.state), ("may start", may_start)]
        facts += [("errors", self.error_count), ("warnings", self.warning_count)]
        if self.messages is not None:
            facts.append(("lost messages", self.messages.now.lost_count))
        said = (("advice", self.advice), ("next", self.next_command))
        return facts + [(name, text) for name, text in said if text]

    @property
    def finding_count(self) -> int:
        """Findings above info."""
        return self.error_count + self.warning_count


def judge_store(
    store: Store,
    report: Report,
    *,
    version: str | None = None,
    plan: Plan | None = None,
    predictions: Sequence[start_verdict.Prediction] | None = None,
) -> Verdict:
    """The verdict on a store that was just checked; `version` asks for the start of that one alone. `plan`
    and `predictions` are those that were made already.

    Raises UsageError for what is not a version. What cannot be predicted or planned is said in the verdict.
    """
    sound = is_sound(report)
    if predictions is None:
        predictions = predicted(store, report, version=version)
    starts = tuple(map(start_verdict.verdict_of, predictions))
    area = _interrupted(store)
    state = state_of(store, report, starts, is_interrupted=area is not None)
    obstacle = ""
    if plan is None and not sound and state != "unclean":  # a start mends that; to try a plan costs more
        plan, obstacle = plan_or_obstacle(store, report, starts)
    prospect = None if plan is None or sound else prospect_of(plan, usual_sizes(store))
    counts = report.severity_counts
    found = {diagnosis.fault_class for diagnosis in report.diagnoses}
    origins = [finding for finding in report.findings if RULES[finding.rule].fault_class in ORIGINS]
    advice = advice_on(store, report.account, origins, report.counts)
    return Verdict(
        state,
        MAY_START.get(state),
        str(store.dialect.version),
        counts[Severity.ERROR],
        counts[Severity.WARNING],
        counts[Severity.INFO],
        starts,
        tuple(name for name in urgent_classes(starts) if name in found),
        lost_configs(report),
        unknown_topic_count(report),
        unlisted_topic_count(report),
        newer_record_count(report),
        sum(
            region.byte_count
            for regions in report.regions.values()
            for region in regions
            if region.kind in _REGIONS_OF_DAMAGE
        )
        - newer_byte_count(report),
        None if report.account is None else replace(report.account, lost=()),
        _outlook(report, starts, None if sound else plan),
        depth_of(report),
        tuple(dict.fromkeys(item.what or item.reason for item in report.not_checked if item.operational)),
        prospect,
        obstacle,
        tuple(dict.fromkeys(map(describe, origins))),
        advice.text if area is None else INTERRUPTED.format(place=area.path),
        _next(store, report, prospect, state, advice) if area is None else _finish(store, area),
    )


_HARMS: tuple[tuple[str, str], ...] = (
    ("queues_destroyed", "C8"),
    ("astray_count", "C6"),
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


def urgent_classes(starts: Iterable[start_verdict.StartVerdict]) -> tuple[str, ...]:
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
) -> list[start_verdict.Prediction]:
    """The start of every version in question on a store that was just checked, or of that one `version`.

    Next to a running broker, none but that of the `version`, unless `while_running`: a later start finds
    another store, and after an unclean stop, which this would be, a start reads much of the log. Raises
    UsageError for what is not a version.
    """
    if store.live.locked and version is None and not while_running:
        return []
    sound = is_sound(report)
    versions = start_verdict.versions_of(store) if version is None else (dialect_for(version).version,)
    sound_end = sound_end_of(store, report) if sound else None
    return start_verdict.predict_each(
        store, start_verdict.start_classes(versions), losses=not sound, sound_end=sound_end
    )


def sound_end_of(store: Store, report: Report) -> int | None:
    """The physical offset after the last record, where the report of a sound store tells it: every byte was
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


def _interrupted(store: Store) -> Area | None:
    """The area of an interrupted repair of the store, or of its undo."""
    if store.repair is None:
        return None
    from rocketfsck.repair.apply.applying import interrupted_area

    return interrupted_area(store.root)


def _finish(store: Store, area: Area) -> str:
    """What brings an interrupted repair, or an interrupted undo, to its end."""
    from rocketfsck.repair.apply.results import undo_command

    if area.journal.state == "undoing":
        return undo_command(str(store.root), None, area.journal.outside)
    return f"rocketfsck fix {shlex.quote(str(store.root))}"


def _outlook(
    report: Report, starts: Iterable[start_verdict.StartVerdict], plan: Plan | None
) -> Outlook | None:
    """The messages now, after each start, after the plan; None where they were not counted."""
    if report.account is None:
        return None
    now = report.account.fates
    after = [(start, after_start(now, start)) for start in starts]
    rows = tuple(AfterStart(start.version, start.alike, then) for start, then in after if then is not None)
    if plan is None:
        return Outlook(now, rows)
    return Outlook(now, rows, plan.messages_after or planned_fates(now, plan.actions), plan.is_tried)


def _next(
    store: Store, report: Report, prospect: Prospect | None, state: State, advice: Advice
) -> str | None:
    """The one command to run: what repairs, else what shows the worst of it; None where a start is enough."""
    if state == "unclean":
        return None
    if advice.text and advice.is_mended_by_hand:
        return store_command(["check"], store.stated, store.root)
    if advice.is_salvage:
        return f"rocketfsck salvage {shlex.quote(str(store.root))} --into DIRECTORY"
    if advice.text:
        return f"{COMPARES} {shlex.quote(str(store.root))} REPLICA"
    if prospect is not None and prospect.action_count and state != "running":
        return fix_command(store, report.level)
    if prospect is not None and COMPARES in prospect.reason:
        return f"{COMPARES} {shlex.quote(str(store.root))} REPLICA"
    if prospect is not None and REBUILDS in prospect.reason:
        return store_command([*REBUILDS.split()[1:], "--into", "DIRECTORY"], store.stated, store.root)
    if prospect is None and state in ("harmful", "refused") and report.level != "full":
        return store_command(["check"], store.stated, store.root)
    return next(iter(report.next_commands), None)
