"""What-if: a plan for the page, and the store before and after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rocketfsck.page.files import FileTable
from rocketfsck.page.limits import Limits
from rocketfsck.page.model import ActionSaid, PlanSaid, Summary, UnansweredSaid
from rocketfsck.page.table import shown
from rocketfsck.page.tables import Counts
from rocketfsck.repair.outlook import Outlook
from rocketfsck.repair.plan.law import notice_text, total_notices
from rocketfsck.repair.plan.model import Action, Plan
from rocketfsck.repair.verdict import Verdict
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
    then: Report | None = None,
    damaged_byte_count: int | None = None,
    untried: str = "",
) -> PlanSaid:
    """The plan in short; without one, only the numbers of today. `then` is what a check found where
    the plan was tried, with `damaged_byte_count` bytes of damage (None: not known); `untried` says why it was
    not."""
    messages = None if verdict is None else verdict.messages
    before = Summary(
        None if messages is None else messages.now.in_log_count,
        None if verdict is None or messages is None else _got_by(messages, verdict.version),
        report.severity_counts[Severity.ERROR],
        report.severity_counts[Severity.WARNING],
        None if verdict is None else verdict.damaged_byte_count,
    )
    obstacle = "" if verdict is None else shown(verdict.obstacle, limits.text_size)
    if plan is None:
        return PlanSaid((), Counts(0, 0), (), (), before, before, obstacle)
    actions = tuple(_action(action, table, limits) for action in plan.actions[: limits.action_count])
    unanswered: Counter[tuple[str, str]] = Counter()
    for item in plan.unanswered:
        unanswered[item.rule, item.reason] += item.count
    return PlanSaid(
        actions,
        Counts(len(plan.actions), len(actions)),
        tuple(
            UnansweredSaid(rule, count, shown(reason, limits.text_size))
            for (rule, reason), count in unanswered.most_common(limits.unanswered_count)
        ),
        tuple(shown(notice_text(notice), limits.text_size) for notice in total_notices(plan.actions)),
        before,
        _after(plan, then or report, messages, damaged_byte_count, is_tried=then is not None),
        obstacle,
        untried=untried,
    )


def _got_by(messages: Outlook, version: str) -> int | None:
    """Messages that consumers get after the start of a version."""
    return next((row.messages.got_count for row in messages.after_starts if version in row.alike), None)


def _after(
    plan: Plan, report: Report, messages: Outlook | None, damaged_byte_count: int | None, *, is_tried: bool
) -> Summary:
    """The numbers that the plan leads to; `report` is that of the store after it, where it was tried."""
    then = None if messages is None else messages.after_plan
    severities: Counter[Severity] = Counter(report.severity_counts if is_tried else {})
    for item in () if is_tried else plan.unanswered:
        severities[report.severity_of(item.rule)] += item.count
    return Summary(
        None if then is None else then.in_log_count,
        None if then is None else then.got_count,
        severities[Severity.ERROR],
        severities[Severity.WARNING],
        damaged_byte_count,
    )


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
        action.finding_count,
        dict(action.gains),
        dict(losses),
        action.write_byte_count,
    )


def _target(action: Action, extents: Sequence[tuple[int, int, int | None]], table: FileTable) -> int:
    """The row of the file that an action is about; of a directory, that of the first file in it."""
    number = table.known(action.target)
    return extents[0][0] if number < 0 and extents else number
