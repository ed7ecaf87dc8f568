"""Reads what a page needs of a store: the log and the index in one pass, and the small files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rocketfsck.engine import Engine
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.page.limits import DEFAULT, Limits
from rocketfsck.page.model import LeftOut
from rocketfsck.page.queues import Position
from rocketfsck.page.survey import IndexSurvey, IndexTask, LogSurvey, LogTask, survey_index, survey_log
from rocketfsck.page.table import shown
from rocketfsck.progress import phase
from rocketfsck.query.counts.counting import Account
from rocketfsck.query.offsets import group_positions
from rocketfsck.query.timeline.events import Event, file_events
from rocketfsck.query.view import StoreView
from rocketfsck.scan.options import log_item
from rocketfsck.store.model import Store


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found in the files. `logs` and `indexes` have an element for each file in the order of the
    store, None for one that was left out; `left_out` says why, also of files that could not be read."""

    logs: tuple[LogSurvey | None, ...] = ()
    indexes: tuple[IndexSurvey | None, ...] = ()
    account: Account = field(default_factory=Account)
    events: tuple[Event, ...] = ()
    positions: tuple[Position, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def survey_store(store: Store, engine: Engine, limits: Limits = DEFAULT) -> Survey:
    """Read the store. What cannot be read is left out, with the reason."""
    files = store.commitlog.files
    share = max(min(limits.span_count // max(len(files), 1), limits.file_span_count), 4)
    tasks = [LogTask(log_item(store, file), number, share, limits) for number, file in enumerate(files)]
    logs: list[LogSurvey | None] = [None] * len(tasks)
    account = Account()
    with phase("reading the commit log for the page", sum(file.size for file in files)):
        for outcome in engine.run(survey_log, tasks):
            if outcome.result is not None:
                logs[outcome.index] = outcome.result
                account.add(outcome.result.account)
    wanted = store.indexes[: limits.index_count]
    indexes: list[IndexSurvey | None] = [None] * len(store.indexes)
    with phase("reading the index for the page"):
        for found in engine.run(survey_index, [IndexTask(file, store.geometry) for file in wanted]):
            indexes[found.index] = found.result
    with phase("reading the small files for the page"):
        left_out = [*_unread(store, logs, indexes)]
        positions = _positions(store, left_out)
        events = tuple(file_events(store))
    return Survey(tuple(logs), tuple(indexes), account, events, positions, tuple(left_out))


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
