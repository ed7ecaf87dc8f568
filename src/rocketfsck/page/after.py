"""The store as a plan would leave it, for the page: as differences from the page of the store as it is.

    view of the store that the plan was tried on --> the same tables as before --> cells that are not the same

Queues and topics keep their rows; files that go keep theirs, and new ones follow. So numbers of rows lead to
the same things before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

from rocketfsck.common.rulenames import RuleName
from rocketfsck.page import files as page_files
from rocketfsck.page import surveying
from rocketfsck.page.findings import later_findings
from rocketfsck.page.model import After, Cells, ChangedTable, FileFate, Page, StartSaid
from rocketfsck.page.survey import IndexSurvey
from rocketfsck.page.tables import Indexes, Limits, columns, runs_of, shown
from rocketfsck.query.start import model
from rocketfsck.query.start.verdict import Prediction, StartVerdict, verdict_of
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.report import Report
from rocketfsck.verify.tasks.task import QueueFacts

# What brokers keep and cut when they start, for the page.

StartText = Callable[[StartVerdict], tuple[str, str]]
"""The versions that a verdict is about, and what their brokers do, as text."""


def starts_of(predictions: Sequence[Prediction], text_of: StartText, limits: Limits) -> tuple[StartSaid, ...]:
    """A row for each class of versions."""
    return tuple(_start(verdict_of(one), one.start, text_of, limits) for one in predictions)


def starts_said(starts: Sequence[StartVerdict], text_of: StartText, limits: Limits) -> tuple[StartSaid, ...]:
    """The same of verdicts alone: without ranges and files."""
    return tuple(_start(start, None, text_of, limits) for start in starts)


def _start(verdict: StartVerdict, start: model.Start | None, text_of: StartText, limits: Limits) -> StartSaid:
    versions, text = text_of(verdict)
    losses = None if start is None or not start.loads else start.losses
    changes = () if start is None else start.files
    ignored = () if start is None else start.ignored
    fates = [FileFate(shown(one.file, limits.text_size), one.change, one.why) for one in changes]
    fates += [
        FileFate(shown(one.file, limits.text_size), "ignored", shown(one.why, limits.text_size))
        for one in ignored
    ]
    return StartSaid(
        versions,
        shown(text, limits.text_size),
        verdict.covered,
        verdict.loads,
        None if start is None or start.min_offset < 0 else start.min_offset,
        None if start is None else start.cut_offset,
        verdict.cut_count,
        verdict.lost_count,
        verdict.unreadable_count,
        verdict.queues_destroyed,
        () if losses is None else losses.cut[: limits.range_count],
        () if losses is None else losses.by_queue[: limits.range_count],
        () if losses is None else losses.unreadable[: limits.range_count],
        tuple(fates[: limits.start_file_count]),
        len(fates),
    )


@dataclass(frozen=True, slots=True)
class Tried:
    """A store as a plan leaves it: the report on it, what its files hold, its queues, and its starts. `name`
    gives texts the names that things have in the store, where it is a view of that.

    `unchecked` says why nobody checked the store: the report then has what the plan leaves. "" otherwise.
    """

    store: Store
    report: Report
    survey: surveying.Survey
    facts: Sequence[QueueFacts]
    predictions: Sequence[Prediction]
    name: Callable[[str], str]
    unchecked: str = ""


def after_of(
    page: Page,
    report: Report,
    table: page_files.FileTable,
    stated: surveying.QueueFindings,
    tried: Tried,
    start_text: StartText,
    limits: Limits,
) -> After:
    """What is different from `page`, whose files are in `table` and whose queues `stated` has."""
    few = limits.of_changes
    store, survey, left = tried.store, tried.survey, tried.report.findings
    found = surveying.queues_stated(store, tried.facts, survey.account, left, limits)
    then = surveying.QueueFindings(stated.names, found.facts, found.logs)
    later = page_files.later_table(table, store, then.rows, limits)
    page_files.put_log(later, store, survey.logs)
    page_files.put_queues(later, store.queues, then.facts)
    page_files.put_indexes(later, store, survey.indexes)
    places = [later.known(file.relative) for file in store.commitlog.files]
    findings = later_findings(page.findings, report, tried.report, tried.unchecked, later, then.rows, few)
    every = surveying.groups_of(then, survey.positions, limits)
    same_groups = every[:2] == (page.groups, page.positions)
    groups, positions, position_counts, lags = surveying.groups_of(then, survey.positions, few)
    timeline = surveying.timeline_of(store, survey.logs, places, survey.events, later, then, limits)
    indexes = indexes_of(store, survey.indexes, later, left, limits)
    files, _ = page_files.columns_of(later.rows)
    strips = [
        number
        for number, row in enumerate(later.rows)
        if number >= len(table.rows) or row.spans != table.rows[number].spans
    ][: limits.strip_count]
    strip_files, spans = page_files.columns_of([later.rows[number] for number in strips])
    damage, damage_counts = page_files.damage_of(survey.logs, places, limits)
    listed = sum(row.file_count > 0 for row in later.rows)
    return After(
        _starts(tried, start_text, limits),
        tuple(shown(name, limits.text_size) for name in list(later.directories)[len(table.directories) :]),
        (
            *_cells("map.files", page.map.files, files, without="first_span"),
            *_cells("topics", page.topics, surveying.topics_of(then, limits)),
            *_cells("queues", page.queues, surveying.queues_of(then, left, lags)),
        ),
        tuple(strips),
        strip_files.first_span,
        spans,
        damage,
        damage_counts,
        findings,
        None if timeline == page.timeline else timeline,
        None if same_groups else groups,
        None if same_groups else positions,
        None if same_groups else position_counts,
        None if indexes == page.indexes else indexes,
        max(_file_count(store) - listed, 0) if not later.together else 0,
    )


def _starts(tried: Tried, start_text: StartText, limits: Limits) -> tuple[StartSaid, ...]:
    def text_of(verdict: StartVerdict) -> tuple[str, str]:
        versions, text = start_text(verdict)
        return versions, tried.name(text)

    return tuple(
        replace(start, files=tuple(replace(file, file=tried.name(file.file)) for file in start.files))
        for start in starts_of(tried.predictions, text_of, limits)
    )


def damaged_size(tried: Tried) -> int | None:
    """Damaged bytes of the log where a plan was tried; None where not all were found."""
    surveys = [survey for survey in tried.survey.logs if survey is not None]
    if any(len(survey.bad) != survey.bad_count or survey.error for survey in surveys):
        return None
    spans = (one.span for survey in surveys for one in survey.bad)
    return sum(span.end - span.start for span in spans if span.kind in ("damaged", "torn"))


def _file_count(store: Store) -> int:
    return len({file.relative for file in (*store.commitlog.files, *store.all_files())})


def _cells(name: ChangedTable, before: object, after: object, without: str = "") -> Iterator[Cells]:
    """The columns of two tables that differ, with the rows that do."""
    for item in fields(before):  # type: ignore[arg-type]
        old, new = getattr(before, item.name), getattr(after, item.name)
        if item.name == without:
            continue
        rows = [row for row, value in enumerate(new) if row >= len(old) or old[row] != value]
        if rows:
            yield Cells(name, item.name, tuple(runs_of(rows)), tuple(new[row] for row in rows))


_LOST_ENTRIES = frozenset({RuleName.INDEX_ENTRY_ORPHAN})


def indexes_of(
    store: Store,
    surveys: Sequence[IndexSurvey | None],
    table: page_files.FileTable,
    findings: Iterable[Finding],
    limits: Limits,
) -> Indexes:
    """The index files that could be read; `findings` say which entries no query finds."""
    lost: dict[str, int] = {}
    for finding in findings:
        if finding.rule in _LOST_ENTRIES:
            lost[finding.where.file] = lost.get(finding.where.file, 0) + finding.count
    rows = []
    for file, survey in zip(store.indexes[: limits.index_count], surveys, strict=False):
        if survey is None or survey.error:
            continue
        rows.append(
            (
                table.known(file.relative),
                survey.slot_count,
                survey.used_slot_count,
                survey.entry_count,
                survey.used_entry_count,
                survey.longest_chain,
                survey.chain_counts,
                lost.get(file.relative, 0),
                survey.begin_timestamp,
                survey.end_timestamp,
                survey.begin_physical_offset,
                survey.end_physical_offset,
            )
        )
    return columns(Indexes, rows)
