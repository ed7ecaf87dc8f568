"""What-if: a plan for the page, and the store before and after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rocketfsck.page.files import FileTable
from rocketfsck.page.limits import Limits
from rocketfsck.page.model import ActionSaid, PlanSaid, Summary, UnansweredSaid
from rocketfsck.page.table import shown
from rocketfsck.page.tables import Counts
from rocketfsck.query.start.verdict import StartVerdict
from rocketfsck.repair.plan.law import notice_text, total_notices
from rocketfsck.repair.plan.model import Action, Plan
from rocketfsck.repair.verdict import Verdict, prospect_of
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.report import Report


def answers_of(plan: Plan | None, limits: Limits) -> dict[str, tuple[int, ...]]:
    """The rows of the actions that answer a finding, by its fingerprint; -1 for those that are not listed."""
    found: dict[str, tuple[int, ...]] = {}
    for number, action in enumerate(() if plan is None else plan.actions):
        row = number if number < limits.action_count else -1
        for fingerprint in action.why:
            known = found.get(fingerprint, ())
            found[fingerprint] = known if row in known else (*known, row)
    return found


def plan_of(
    plan: Plan | None,
    report: Report,
    verdict: Verdict | None,
    table: FileTable,
    limits: Limits,
    tried: AfterNumbers | None = None,
    untried: str = "",
) -> PlanSaid:
    """The plan in short; without one, only the numbers of today. `tried` is what came of trying the plan,
    `untried` why that was not done."""
    before = Summary(
        report.checked["commitlog"].record_count if "commitlog" in report.checked else None,
        _readable(verdict),
        report.severity_counts[Severity.ERROR],
        report.severity_counts[Severity.WARNING],
        None if verdict is None else verdict.damaged_byte_count,
    )
    obstacle = "" if verdict is None else shown(verdict.obstacle, limits.text_size)
    if plan is None:
        return PlanSaid((), Counts(0, 0), (), (), before, before, 0, obstacle)
    actions = tuple(_action(action, table, limits) for action in plan.actions[: limits.action_count])
    unanswered = Counter((item.rule, item.reason) for item in plan.unanswered)
    return PlanSaid(
        actions,
        Counts(len(plan.actions), len(actions)),
        tuple(
            UnansweredSaid(rule, count, shown(reason, limits.text_size))
            for (rule, reason), count in unanswered.most_common(limits.unanswered_count)
        ),
        tuple(shown(notice_text(notice), limits.text_size) for notice in total_notices(plan.actions)),
        before,
        _after(plan, report, before, tried),
        prospect_of(plan, report.findings).lost_record_count,
        obstacle,
        untried=untried,
    )


def _readable(verdict: Verdict | None) -> int | None:
    """Messages that consumers reach after the start of the store's own version."""
    return None if verdict is None else readable_of(verdict.version, verdict.starts)


def readable_of(version: str, starts: Iterable[StartVerdict]) -> int | None:
    """Messages that consumers reach after the start of a version."""
    return next((start.reached_count for start in starts if version in start.alike), None)


def _after(plan: Plan, report: Report, before: Summary, tried: AfterNumbers | None) -> Summary:
    """The numbers that the plan predicts, and those that were counted where it was tried."""
    prospect = prospect_of(plan, report.findings)
    records, readable = before.record_count, before.readable_count
    regained = sum(gain.count for action in plan.actions for gain in action.regained)
    if tried is None:
        severities = Counter(report.severity_of(item.rule) for item in plan.unanswered)
        return Summary(
            None if records is None else records + regained,
            None if readable is None else readable + prospect.gains.get("record", 0),
            severities[Severity.ERROR],
            severities[Severity.WARNING],
            0 if not plan.unanswered else None,
        )
    more = tried.record_count_change
    return Summary(
        None if records is None else records + more,
        tried.readable_count,
        tried.error_count,
        tried.warning_count,
        tried.damaged_byte_count,
    )


@dataclass(frozen=True, slots=True)
class AfterNumbers:
    """What was counted where a plan was tried: how many records are in the log more than before, messages
    that consumers reach, damaged bytes (None: not known), and findings."""

    record_count_change: int
    readable_count: int | None
    damaged_byte_count: int | None
    error_count: int
    warning_count: int


def _action(action: Action, table: FileTable, limits: Limits) -> ActionSaid:
    losses: Counter[str] = Counter()
    for loss in action.losses:
        losses[loss.what] += loss.count
    extents = [
        (table.place(extent.file), extent.start, extent.end)
        for extent in action.preconditions[: limits.extent_count]
    ]
    return ActionSaid(
        action.name,
        _target(action, extents, table),
        shown(action.note, limits.text_size),
        action.preen,
        tuple(extents),
        len(action.why),
        dict(action.gains),
        dict(losses),
        action.write_byte_count,
    )


def _target(action: Action, extents: Sequence[tuple[int, int, int | None]], table: FileTable) -> int:
    """The row of the file that an action is about; of a directory, that of the first file in it."""
    number = table.known(action.target)
    return extents[0][0] if number < 0 and extents else number
