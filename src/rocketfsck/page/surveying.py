"""Reads what a page needs of a store: the log and the index in one pass, and the small files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rocketfsck.engine import Engine
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.page.model import LeftOut
from rocketfsck.page.queues import Position
from rocketfsck.page.survey import IndexSurvey, IndexSurveyTask, LogSurvey, LogTask, survey_index, survey_log
from rocketfsck.page.tables import DEFAULT, Limits, shown
from rocketfsck.progress import phase
from rocketfsck.query.counts.counting import StoreCounts
from rocketfsck.query.offsets import group_positions
from rocketfsck.query.retention import Retention, foresee_retention, retention_rules
from rocketfsck.query.timeline.events import TimelineEvent, file_events
from rocketfsck.query.view import StoreView
from rocketfsck.scan.options import log_item
from rocketfsck.store.model import Store, StoreFile

Surveyed = TypeVar("Surveyed", LogSurvey, IndexSurvey)


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found in the files. `logs` and `tables` have an element for each file in the order of the
    store, None for one that was left out; `left_out` says why, also of files that could not be read."""

    logs: tuple[LogSurvey | None, ...] = ()
    indexes: tuple[IndexSurvey | None, ...] = ()
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

    def log(self, file: StoreFile, number: int) -> LogSurvey | None:
        """What is known of a commit log file, which has this number now; None where it is to be read."""
        found = self._found(file, self.store.commitlog.files, self.survey.logs)
        if found is None:
            return None
        account = replace(found.account, newest={number: found.last_timestamp})
        return replace(found, number=number, account=account)

    def index(self, file: StoreFile) -> IndexSurvey | None:
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
    limits: Limits = DEFAULT,
    earlier: Earlier | None = None,
    now_timestamp: int | None = None,
) -> Survey:
    """Read the store, but for what an `earlier` survey has read. What cannot be read is left out, with the
    reason. What retention takes is foreseen from `now_timestamp` (ms) on; None: nobody wants that."""
    files = store.commitlog.files
    share = max(min(limits.span_count // max(len(files), 1), limits.file_span_count), 4)
    logs = [None if earlier is None else earlier.log(file, at) for at, file in enumerate(files)]
    unread = [at for at, survey in enumerate(logs) if survey is None]
    tasks = [LogTask(log_item(store, files[at]), at, share, limits) for at in unread]
    with phase("reading the commit log for the page", sum(files[at].size for at in unread)):
        for outcome in engine.run(survey_log, tasks):
            logs[unread[outcome.index]] = outcome.result
    account = StoreCounts()
    for log in logs:
        if log is not None:
            account.add(log.account)
    indexes: list[IndexSurvey | None] = [None] * len(store.indexes)
    wanted = []
    for number, file in enumerate(store.indexes[: limits.index_count]):
        indexes[number] = None if earlier is None else earlier.index(file)
        wanted += [number] if indexes[number] is None else []
    with phase("reading the index for the page"):
        index_tasks = [IndexSurveyTask(store.indexes[number], store.geometry) for number in wanted]
        for found in engine.run(survey_index, index_tasks):
            indexes[wanted[found.index]] = found.result
    with phase("reading the small files for the page"):
        left_out = [*_unread(store, logs, indexes)]
        positions = _positions(store, left_out)
        # what is tried was written just now: the times of its files say nothing
        events = tuple(file_events(store)) if earlier is None else earlier.survey.events
        retention = None if now_timestamp is None else _retention(store, now_timestamp, limits, left_out)
    return Survey(tuple(logs), tuple(indexes), account, events, positions, retention, tuple(left_out))


def _unread(
    store: Store, logs: Sequence[LogSurvey | None], indexes: Sequence[IndexSurvey | None]
) -> Iterator[LeftOut]:
    names = [file.relative for file in (*store.commitlog.files, *store.indexes)]
    for name, survey in zip(names, [*logs, *indexes], strict=True):
        if survey is None or survey.error:
            reason = "there are too many index files" if survey is None else survey.error
            yield LeftOut(shown(name, 400), shown(reason, 400))


def _positions(store: Store, left_out: list[LeftOut]) -> tuple[Position, ...]:
    """Where the consumer groups are, by the config files."""
    try:
        with StoreView(store) as view:
            return tuple(group_positions(view))
    except (FormatError, StoreError) as error:
        left_out.append(LeftOut("positions", shown(str(error), 400)))
        return ()


def _retention(store: Store, now_timestamp: int, limits: Limits, left_out: list[LeftOut]) -> Retention | None:
    """What a broker deletes by age, from a time (ms) on, in UTC: in which zone it runs nobody knows."""
    if len(store.queues) > limits.queue_count:
        left_out.append(LeftOut("retention", "the store has too many queues"))
        return None
    try:
        with StoreView(store) as view:
            return foresee_retention(view, retention_rules(store, "UTC", now_timestamp))
    except (FormatError, StoreError) as error:
        left_out.append(LeftOut("retention", shown(str(error), 400)))
        return None
