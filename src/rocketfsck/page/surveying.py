"""Reads what a page needs of a store: the log and the index in one pass, and the small files.

The store in time, for the page: messages by time, events, and when damaged bytes were written.

Topics, queues and consumer groups of a page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rocketfsck.common.rulenames import RuleName
from rocketfsck.engine import Engine
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.javatext import java_decode
from rocketfsck.page import survey as page_survey
from rocketfsck.page import tables
from rocketfsck.page.files import FileTable
from rocketfsck.page.model import LeftOut
from rocketfsck.page.topictimes import LAST_MS, topic_times
from rocketfsck.progress import phase
from rocketfsck.query.counts import StoreCounts, Tally, merged
from rocketfsck.query.offsets import group_positions
from rocketfsck.query.retention import Retention, foresee_retention, retention_rules
from rocketfsck.query.timeline import TimelineEvent, file_events, gap_text
from rocketfsck.query.view import StoreView
from rocketfsck.scan.options import log_item
from rocketfsck.store.model import Store, StoreFile
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.tasks.task import QueueFacts

QueueName = tuple[str, int]
Position = tuple[str, str, int, int]
"""(group, topic, queueId, the queue offset that the group consumes next)"""

GAPS = frozenset(
    {RuleName.QUEUE_OFFSET_GAP, RuleName.UNIT_HOLE, RuleName.QUEUE_MISSING, RuleName.UNIT_IN_MISSING_SEGMENT}
)
"""Findings of queue offsets that have no message, or no unit."""


@dataclass(frozen=True, slots=True)
class QueueFindings:
    """What is known of queues: names with their rows, what the check found and what the log has."""

    names: tuple[QueueName, ...]
    facts: Mapping[QueueName, QueueFacts]
    logs: Mapping[QueueName, tuple[Tally, int, int]]

    @property
    def rows(self) -> dict[QueueName, int]:
        return {name: row for row, name in enumerate(self.names)}


def queues_stated(
    store: Store | None,
    facts: Iterable[QueueFacts],
    account: StoreCounts,
    findings: Iterable[Finding],
    limits: tables.Limits,
    others: Iterable[QueueName] = (),
) -> QueueFindings:
    """All queues that are anywhere, in order, at most `limits.queue_count` of them; `others` are some more
    names."""
    known = {(fact.topic, fact.queue_id): fact for fact in facts}
    logs = {(java_decode(topic), number): value for (topic, number), value in account.queues.items()}
    names = set(known) | names_of(store, account) | set(others)
    names |= {
        (finding.where.topic, finding.where.queue_id)
        for finding in findings
        if finding.where.topic is not None and finding.where.queue_id is not None
    }
    return QueueFindings(tuple(sorted(names)[: limits.queue_count]), known, logs)


def names_of(store: Store | None, account: StoreCounts) -> set[QueueName]:
    """The queues that have a directory in the store, or messages in its log."""
    names = {(java_decode(topic), number) for topic, number in account.queues}
    return names if store is None else names | {(queue.topic, queue.queue_id) for queue in store.queues}


def topics_of(stated: QueueFindings, limits: tables.Limits) -> tables.Topics:
    """The topics by name."""
    counts = Counter(topic for topic, _ in stated.names)
    tallies: dict[str, list[Tally]] = {}
    for name, (tally, _, _) in stated.logs.items():
        tallies.setdefault(name[0], []).append(tally)
    rows = []
    for topic in sorted(counts):
        found = merged(tallies[topic]) if topic in tallies else None
        numbers = (0, 0, None, None) if found is None else _numbers(found)
        rows.append((tables.shown(topic, limits.text_size), counts[topic], *numbers))
    return tables.columns(tables.Topics, rows)


def _numbers(tally: Tally) -> tuple[int, int, int, int]:
    return tally.message_count, tally.byte_count, tally.first_timestamp, tally.last_timestamp


def queues_of(
    stated: QueueFindings, findings: Iterable[Finding], lags: Mapping[int, int]
) -> tables.QueueColumns:
    """The queues, in the order of `stated.names`; `lags` are the largest by row."""
    topics = {topic: row for row, topic in enumerate(sorted({topic for topic, _ in stated.names}))}
    found: Counter[tuple[str | None, int | None]] = Counter()
    gaps: Counter[tuple[str | None, int | None]] = Counter()
    for finding in findings:
        name = (finding.where.topic, finding.where.queue_id)
        found[name] += finding.count
        gaps[name] += finding.count if finding.rule in GAPS else 0
    rows = []
    for row, name in enumerate(stated.names):
        fact, log = stated.facts.get(name), stated.logs.get(name)
        units = (None, None) if fact is None else (fact.min_offset, fact.max_offset)
        logged = (None, None, None) if log is None else (log[1], log[2], log[0].message_count)
        rows.append((topics[name[0]], name[1], *units, *logged, gaps[name], found[name], lags.get(row)))
    return tables.columns(tables.QueueColumns, rows)


def groups_of(
    stated: QueueFindings, positions: Sequence[Position], limits: tables.Limits
) -> tuple[tuple[str, ...], tables.Groups, tables.Counts, dict[int, int]]:
    """Names of groups, their positions (the largest lags), how many there are, the largest lag by queue."""
    rows = stated.rows
    names: dict[str, int] = {}
    lags: dict[int, int] = {}
    found = []
    for group, topic, queue_id, offset in positions:
        row = rows.get((topic, queue_id))
        if row is None:
            continue
        fact, log = stated.facts.get((topic, queue_id)), stated.logs.get((topic, queue_id))
        end = fact.max_offset if fact is not None else 0 if log is None else log[2]
        begin = fact.min_offset if fact is not None else 0 if log is None else log[1]
        lag = max(end - max(offset, begin), 0)
        lags[row] = max(lags.get(row, 0), lag)
        found.append((group, row, offset, lag))
    found.sort(key=lambda item: (-item[3], item[0], item[1]))
    kept = [
        (names.setdefault(group, len(names)), row, offset, lag)
        for group, row, offset, lag in found[: limits.position_count]
    ]
    texts = tuple(tables.shown(name, limits.text_size) for name in names)
    return texts, tables.columns(tables.Groups, kept), tables.Counts(len(found), len(kept)), lags


_RANK = {"broker": 0, "gap": 1, "deletion": 1, "config": 2, "file": 3}
"""Which events are kept where there are too many."""


def timeline_of(
    store: Store,
    surveys: Sequence[page_survey.LogSurvey | None],
    places: Sequence[int],
    events: Iterable[TimelineEvent],
    table: FileTable,
    stated: QueueFindings,
    limits: tables.Limits,
) -> tables.Timeline:
    """The timeline; `places` are the rows of the surveys' files."""
    buckets = page_survey.TimeBuckets(limits.bucket_count)
    for survey in surveys:
        if survey is not None:
            buckets.take(survey.buckets)
    listed = [*events, *_gaps(store, surveys, limits), *_begin(store, surveys)]
    listed = [event for event in listed if 0 < event.timestamp <= LAST_MS]
    kept = sorted(listed, key=lambda event: (_RANK.get(event.kind, 4), event.timestamp))
    kept = sorted(kept[: limits.event_count], key=lambda event: event.timestamp)
    extent = buckets.extent()
    lost = list(_lost(surveys, places))
    return tables.Timeline(
        buckets.step_ms,
        None if extent is None else extent[0],
        None if extent is None else extent[1],
        tables.columns(tables.Buckets, buckets.rows()),
        tables.columns(
            tables.Events,
            [
                (
                    event.timestamp,
                    event.kind,
                    tables.shown(event.message, limits.text_size),
                    -1 if event.file is None else table.known(event.file),
                    event.physical_offset,
                )
                for event in kept
            ],
        ),
        tables.Counts(len(listed), len(kept)),
        tables.columns(tables.LostTimes, lost[: limits.lost_count]),
        topic_times(
            [None if survey is None or survey.error else survey.topics for survey in surveys],
            _totals(stated),
            {topic: row for row, topic in enumerate(sorted({topic for topic, _ in stated.names}))},
            limits,
        ),
    )


def _totals(stated: QueueFindings) -> Counter[str]:
    """The messages of each topic in the commit log."""
    totals: Counter[str] = Counter()
    for (topic, _), (tally, _, _) in stated.logs.items():
        totals[topic] += tally.message_count
    return totals


def _gaps(
    store: Store, surveys: Sequence[page_survey.LogSurvey | None], limits: tables.Limits
) -> list[TimelineEvent]:
    """The longest times without a message, within files and from one to the next."""
    found: list[tuple[int, int, int]] = []
    last: int | None = None
    for file, survey in zip(store.commitlog.files, surveys, strict=True):
        if survey is None or survey.first_timestamp is None:
            continue
        base = file.start_offset or 0
        found += [(length, at, base + pos) for length, at, pos in survey.gaps]
        if last is not None and survey.first_timestamp - last >= page_survey.GAP_MS:
            found.append((survey.first_timestamp - last, survey.first_timestamp, base))
        last = survey.last_timestamp
    events = []
    for length, at, offset in sorted(found, reverse=True)[: limits.gap_count]:
        text = f"no message was stored for {gap_text(length)}, up to this one"
        events.append(TimelineEvent(at, "End Of Gap", text, "gap", physical_offset=offset))
        text = f"no message for {gap_text(length)} from here on"
        events.append(TimelineEvent(at - length, "Begin Of Gap", text, "gap"))
    return events


def _begin(store: Store, surveys: Sequence[page_survey.LogSurvey | None]) -> Iterator[TimelineEvent]:
    """First and last message of each file, and what was deleted before."""
    for file, survey in zip(store.commitlog.files, surveys, strict=True):
        if survey is None or survey.first_timestamp is None or survey.last_timestamp is None:
            continue
        base = file.start_offset
        if file is store.commitlog.files[0] and base:
            text = f"earlier messages were deleted: the log begins at physical offset {base}"
            yield TimelineEvent(survey.first_timestamp, "Begin Of Log", text, "deletion", file.relative)
        text = f"first message in {file.relative}"
        yield TimelineEvent(
            survey.first_timestamp, "First Message Stored", text, "file", file.relative, None, None, base
        )
        text = f"last message in {file.relative}"
        yield TimelineEvent(survey.last_timestamp, "Last Message Stored", text, "file", file.relative)


def _lost(
    surveys: Sequence[page_survey.LogSurvey | None], places: Sequence[int]
) -> Iterator[tuple[int, int, int, int, int]]:
    """Damaged regions between the times of the records around them."""
    for survey, place in zip(surveys, places, strict=True):
        for one in () if survey is None else survey.bad:
            before, behind = one.before, one.behind
            first = behind if before is None else before
            last = before if behind is None else behind
            if first is not None and last is not None:
                yield min(first, last), max(first, last), place, one.span.start, one.span.end - one.span.start


Surveyed = TypeVar("Surveyed", page_survey.LogSurvey, page_survey.IndexSurvey)


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found in the files. `logs` and `tables` have an element for each file in the order of the
    store, None for one that was left out; `left_out` says why, also of files that could not be read."""

    logs: tuple[page_survey.LogSurvey | None, ...] = ()
    indexes: tuple[page_survey.IndexSurvey | None, ...] = ()
    account: StoreCounts = field(default_factory=StoreCounts)
    events: tuple[TimelineEvent, ...] = ()
    positions: tuple[Position, ...] = ()
    retention: Retention | None = None
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True)
class Earlier:
    """A survey of a store, which has the files of the one to survey that `is_same` says it has."""

    store: Store
    survey: Survey
    is_same: Callable[[StoreFile], bool]

    def log(self, file: StoreFile, number: int) -> page_survey.LogSurvey | None:
        """What is known of a commit log file, which has this number now; None where it is to be read."""
        found = self._found(file, self.store.commitlog.files, self.survey.logs)
        if found is None:
            return None
        account = replace(found.account, newest={number: found.last_timestamp})
        return replace(found, number=number, account=account)

    def index(self, file: StoreFile) -> page_survey.IndexSurvey | None:
        """What is known of an index file; None where it is to be read."""
        return self._found(file, self.store.indexes, self.survey.indexes)

    def _found(
        self, file: StoreFile, files: Sequence[StoreFile], surveys: Sequence[Surveyed | None]
    ) -> Surveyed | None:
        if not self.is_same(file):
            return None
        known = (survey for one, survey in zip(files, surveys, strict=True) if one.relative == file.relative)
        return next(known, None)


def survey_store(
    store: Store,
    engine: Engine,
    limits: tables.Limits = tables.DEFAULT,
    earlier: Earlier | None = None,
    now_timestamp: int | None = None,
) -> Survey:
    """Read the store, but for what an `earlier` survey has read. What cannot be read is left out, with the
    reason. What retention takes is foreseen from `now_timestamp` (ms) on; None: nobody wants that."""
    files = store.commitlog.files
    share = max(min(limits.span_count // max(len(files), 1), limits.file_span_count), 4)
    logs = [None if earlier is None else earlier.log(file, at) for at, file in enumerate(files)]
    unread = [at for at, survey in enumerate(logs) if survey is None]
    tasks = [page_survey.LogTask(log_item(store, files[at]), at, share, limits) for at in unread]
    with phase("reading the commit log for the page", sum(files[at].size for at in unread)):
        for outcome in engine.run(page_survey.survey_log, tasks):
            logs[unread[outcome.index]] = outcome.result
    account = StoreCounts()
    for log in logs:
        if log is not None:
            account.add(log.account)
    indexes: list[page_survey.IndexSurvey | None] = [None] * len(store.indexes)
    wanted = []
    for number, file in enumerate(store.indexes[: limits.index_count]):
        indexes[number] = None if earlier is None else earlier.index(file)
        wanted += [number] if indexes[number] is None else []
    with phase("reading the index for the page"):
        index_tasks = [
            page_survey.IndexSurveyTask(store.indexes[number], store.geometry) for number in wanted
        ]
        for found in engine.run(page_survey.survey_index, index_tasks):
            indexes[wanted[found.index]] = found.result
    with phase("reading the small files for the page"):
        left_out = [*_unread(store, logs, indexes)]
        positions = _positions(store, left_out)
        # what is tried was written just now: the times of its files say nothing
        events = tuple(file_events(store)) if earlier is None else earlier.survey.events
        retention = None if now_timestamp is None else _retention(store, now_timestamp, limits, left_out)
    return Survey(tuple(logs), tuple(indexes), account, events, positions, retention, tuple(left_out))


def _unread(
    store: Store,
    logs: Sequence[page_survey.LogSurvey | None],
    indexes: Sequence[page_survey.IndexSurvey | None],
) -> Iterator[LeftOut]:
    names = [file.relative for file in (*store.commitlog.files, *store.indexes)]
    for name, survey in zip(names, [*logs, *indexes], strict=True):
        if survey is None or survey.error:
            reason = "there are too many index files" if survey is None else survey.error
            yield LeftOut(tables.shown(name, 400), tables.shown(reason, 400))


def _positions(store: Store, left_out: list[LeftOut]) -> tuple[Position, ...]:
    """Where the consumer groups are, by the config files."""
    try:
        with StoreView(store) as view:
            return tuple(group_positions(view))
    except (FormatError, StoreError) as error:
        left_out.append(LeftOut("positions", tables.shown(str(error), 400)))
        return ()


def _retention(
    store: Store, now_timestamp: int, limits: tables.Limits, left_out: list[LeftOut]
) -> Retention | None:
    """What a broker deletes by age, from a time (ms) on, in UTC: in which zone it runs nobody knows."""
    if len(store.queues) > limits.queue_count:
        left_out.append(LeftOut("retention", "the store has too many queues"))
        return None
    try:
        with StoreView(store) as view:
            return foresee_retention(view, retention_rules(store, "UTC", now_timestamp))
    except (FormatError, StoreError) as error:
        left_out.append(LeftOut("retention", tables.shown(str(error), 400)))
        return None
