r"""Fills the document of a page from a report and, where it is at hand, the store.

    report, verdict, plan, facts of the check  \
                                                >  Page
    survey of the store's files                /

What the report alone cannot give is left out, and the page says so.

What retention takes, for the page: the files that go, by the times at which they go, and who loses what.

    query.retention --> when a broker deletes how many files, with their physical offsets
                    --> messages that a group has not consumed until then, by group and topic

Files that go at one time are one row: a broker deletes from the front of the log, so that each row is a range
of physical offsets, and rows follow each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile

from rocketfsck._version import __version__
from rocketfsck.formats.smallfiles import filename_to_offset
from rocketfsck.page import surveying, tables
from rocketfsck.page.after import StartText, Tried, after_of, damaged_size, indexes_of, starts_of, starts_said
from rocketfsck.page.files import FileTable, file_table, map_of, put_indexes, put_log, put_queues
from rocketfsck.page.findings import WindowOf, findings_of
from rocketfsck.page.model import ActionSaid, LeftOut, Page, PlanSaid, StartSaid, Summary, UnansweredSaid
from rocketfsck.page.survey import LogSurvey
from rocketfsck.query.retention import FileRetention, Retention, UnconsumedMessages
from rocketfsck.query.start.verdict import Prediction
from rocketfsck.repair.plan.law import notice_text, total_notices
from rocketfsck.repair.plan.model import Action, Plan
from rocketfsck.repair.state import Outlook
from rocketfsck.repair.verdict import Verdict
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.report import Report
from rocketfsck.verify.tasks.task import Fact, QueueFacts


def retention_of(found: Retention, limits: tables.Limits) -> tables.RetentionSaid:
    """What was foreseen, as the page says it."""
    steps = list(_steps(found.files))
    rows = _unconsumed(found.unconsumed)
    rules = found.rules
    return tables.RetentionSaid(
        rules.reserved_hours,
        rules.delete_hours,
        str(rules.zone),
        rules.now_timestamp,
        found.growth_per_day,
        tables.columns(tables.RetentionSteps, steps[: limits.retention_count]),
        tables.Counts(len(steps), min(len(steps), limits.retention_count)),
        tables.columns(
            tables.UnconsumedRows,
            [
                (tables.shown(group, limits.text_size), tables.shown(topic, limits.text_size), count, at)
                for group, topic, count, at in rows[: limits.unconsumed_count]
            ],
        ),
        tables.Counts(len(rows), min(len(rows), limits.unconsumed_count)),
        "" if found.problem is None else tables.shown(str(found.problem), limits.text_size),
    )


def _steps(files: Iterable[FileRetention]) -> Iterable[tuple[int, int, int, int, int | None, bool]]:
    """Runs of files that go together: first and end physical offset, files, bytes, when, whether they go."""
    for (at, goes), run in groupby(files, key=lambda file: (file.delete_timestamp, _goes(file))):
        listed = list(run)
        last = listed[-1]
        end = last.start_offset + last.size
        yield listed[0].start_offset, end, len(listed), sum(file.size for file in listed), at, goes


def _goes(file: FileRetention) -> bool:
    """Whether a broker deletes the file by its age: the last one stays."""
    return file.expires_timestamp is not None


def _unconsumed(rows: Iterable[UnconsumedMessages]) -> list[tuple[str, str, int, int | None]]:
    """(group, topic, messages, when the first of them go), the soonest and the most first."""
    sums: dict[tuple[str, str], tuple[int, int | None]] = {}
    for row in rows:
        count, at = sums.get((row.group, row.topic), (0, row.delete_timestamp))
        times = [time for time in (at, row.delete_timestamp) if time is not None]
        sums[row.group, row.topic] = (count + row.message_count, min(times, default=None))
    listed = [(group, topic, count, at) for (group, topic), (count, at) in sums.items()]
    return sorted(listed, key=lambda row: (row[3] is None, row[3] or 0, -row[2], row[:2]))


# What-if: a plan for the page, and the store before and after it.


def answers_of(plan: Plan | None, limits: tables.Limits) -> dict[str, tuple[int, ...]]:
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
    limits: tables.Limits,
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
    obstacle = "" if verdict is None else tables.shown(verdict.obstacle, limits.text_size)
    if plan is None:
        return PlanSaid((), tables.Counts(0, 0), (), (), before, before, obstacle)
    actions = tuple(_action(action, table, limits) for action in plan.actions[: limits.action_count])
    unanswered: Counter[tuple[str, str]] = Counter()
    for item in plan.unanswered:
        unanswered[item.rule, item.reason] += item.count
    return PlanSaid(
        actions,
        tables.Counts(len(plan.actions), len(actions)),
        tuple(
            UnansweredSaid(rule, count, tables.shown(reason, limits.text_size))
            for (rule, reason), count in unanswered.most_common(limits.unanswered_count)
        ),
        tuple(tables.shown(notice_text(notice), limits.text_size) for notice in total_notices(plan.actions)),
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


def _action(action: Action, table: FileTable, limits: tables.Limits) -> ActionSaid:
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
        tables.shown(action.note, limits.text_size),
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


NO_STORE = "the page was made from a saved report, without the store"
_TIMES = ("store_timestamp", "timestamp", "begin_timestamp")


@dataclass(frozen=True, slots=True)
class Material:
    """All that a page is made of. `lines` are what `check` prints of the verdict; its headline is what
    comes before the first label.

    `store` is None where only a report is at hand, `verdict` where the report has none. `facts` are those of
    the check's tasks, `predictions` the starts behind the verdict, `plan` what was planned (None: nothing is
    to be done, or nothing can be planned), `tried` what came of trying it, `untried` why that was not done.
    `start_text` and `window_of` say what is said elsewhere, too.
    """

    report: Report
    verdict: Verdict | None
    lines: tuple[str, ...]
    start_text: StartText
    window_of: WindowOf
    store: Store | None = None
    facts: Sequence[Fact] = ()
    predictions: Sequence[Prediction] = ()
    plan: Plan | None = None
    tried: Tried | None = None
    untried: str = ""


def collect(
    material: Material, survey: surveying.Survey | None = None, limits: tables.Limits = tables.DEFAULT
) -> Page:
    """The page of a store that was checked; `survey` is that of `material.store`. Nothing is read."""
    report, store = material.report, material.store
    survey = survey or surveying.Survey()
    left_out = list(survey.left_out)
    facts = [fact for fact in material.facts if isinstance(fact, QueueFacts)]
    tried = material.tried
    others = set() if tried is None else surveying.names_of(tried.store, tried.survey.account)
    found = report.findings if tried is None else (*report.findings, *tried.report.findings)
    stated = surveying.queues_stated(store, facts, survey.account, found, limits, others)
    table = FileTable() if store is None else file_table(store, stated.rows, limits)
    if store is None:
        _reported(table, report)
        left_out += [
            LeftOut(part, NO_STORE)
            for part in ("map.spans", "windows", "timeline", "retention", "positions", "indexes", "plan")
        ]
    else:
        put_log(table, store, survey.logs)
        put_queues(table, store.queues, stated.facts)
        put_indexes(table, store, survey.indexes)
    places = [] if store is None else [table.places[file.relative] for file in store.commitlog.files]
    groups, standing, position_counts, lags = surveying.groups_of(stated, survey.positions, limits)
    times = _Times(survey.logs, places, table)
    answers = answers_of(material.plan, limits)
    findings, windows = findings_of(report, table, stated.rows, answers, times.of, material.window_of, limits)
    verdict = material.verdict
    damage, then = (None, None) if tried is None else (damaged_size(tried), tried.report)
    plan = None
    if store is not None:
        plan = plan_of(material.plan, report, verdict, table, limits, then, damage, material.untried)
    timeline = None
    if store is not None:
        timeline = surveying.timeline_of(store, survey.logs, places, survey.events, table, stated, limits)
    lines = tuple(tables.shown(line, limits.text_size * 4) for line in material.lines)
    page = Page(
        kind="rocketfsck.page",
        tool_version=__version__,
        started_timestamp=report.started_timestamp,
        seconds=report.seconds,
        level=report.level,
        store=tables.all_shown(report.store),
        state="unknown" if material.verdict is None else material.verdict.state,
        headline=" ".join(takewhile(lambda line: line[:1] not in ("", " "), lines)),
        lines=lines,
        verdict=tables.all_shown(material.verdict),
        coverage=report.coverage.statement,
        not_checked=(unchecked := _not_checked(report, limits)),
        not_checked_counts=tables.Counts(len(report.not_checked), len(unchecked)),
        diagnoses=tables.all_shown(report.diagnoses),
        starts=_starts(material, limits),
        map=map_of(table, report.regions, survey.logs, places, limits, is_walked=store is not None),
        findings=findings,
        windows=windows,
        timeline=timeline,
        retention=None if survey.retention is None else retention_of(survey.retention, limits),
        topics=surveying.topics_of(stated, limits),
        queues=surveying.queues_of(stated, report.findings, lags),
        groups=groups,
        positions=None if store is None else standing,
        position_counts=position_counts,
        indexes=None if store is None else indexes_of(store, survey.indexes, table, report.findings, limits),
        plan=plan,
        left_out=tuple(left_out),
    )
    if tried is None or plan is None:
        return page
    after = after_of(page, report, table, stated, tried, material.start_text, limits)
    return replace(page, plan=replace(plan, tried=after))


def _not_checked(report: Report, limits: tables.Limits) -> tuple[LeftOut, ...]:
    return tuple(
        LeftOut(tables.shown(one.what, limits.text_size), tables.shown(one.reason, limits.text_size))
        for one in report.not_checked[: limits.not_checked_count]
    )


def _starts(material: Material, limits: tables.Limits) -> tuple[StartSaid, ...]:
    if material.predictions:
        return starts_of(material.predictions, material.start_text, limits)
    starts = () if material.verdict is None else material.verdict.starts
    return starts_said(starts, material.start_text, limits)


def _reported(table: FileTable, report: Report) -> None:
    """The commit log files of a report, with the sizes that their regions add up to."""
    for file, regions in report.regions.items():
        row = table.rows[table.add(file, "commitlog", ())]
        row.size = sum(region.byte_count for region in regions)
        row.record_count = sum(region.record_count for region in regions if region.kind == "records")
        start_offset = filename_to_offset(file.rpartition("/")[2])
        if start_offset is not None:
            row.start_offset = start_offset


class _Times:
    """When the records of findings were stored, as far as it is known."""

    def __init__(self, surveys: Sequence[LogSurvey | None], places: Sequence[int], table: FileTable) -> None:
        self._table = table
        self._bad = {
            (place, one.span.start): one.before if one.before is not None else one.behind
            for survey, place in zip(surveys, places, strict=True)
            if survey is not None
            for one in survey.bad
        }

    def of(self, finding: Finding) -> int | None:
        """The time (ms) that a finding states, else that of the record in front of its damage."""
        for name in _TIMES:
            value = finding.found.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
        where = finding.where
        if where.start is None:
            return None
        return self._bad.get((self._table.known(where.file), where.start))
