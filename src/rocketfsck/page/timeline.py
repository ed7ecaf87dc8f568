"""The store in time, for the page: messages by time, events, and when damaged bytes were written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rocketfsck.page.files import FileTable
from rocketfsck.page.queues import QueueFindings
from rocketfsck.page.survey import GAP_MS, LogSurvey, TimeBuckets
from rocketfsck.page.tables import Buckets, Counts, Events, Limits, LostTimes, Timeline, columns, shown
from rocketfsck.page.topictimes import LAST_MS, topic_times
from rocketfsck.query.timeline.events import TimelineEvent, gap_text
from rocketfsck.store.model import Store

_RANK = {"broker": 0, "gap": 1, "deletion": 1, "config": 2, "file": 3}
"""Which events are kept where there are too many."""


def timeline_of(
    store: Store,
    surveys: Sequence[LogSurvey | None],
    places: Sequence[int],
    events: Iterable[TimelineEvent],
    table: FileTable,
    stated: QueueFindings,
    limits: Limits,
) -> Timeline:
    """The timeline; `places` are the rows of the surveys' files."""
    buckets = TimeBuckets(limits.bucket_count)
    for survey in surveys:
        if survey is not None:
            buckets.take(survey.buckets)
    listed = [*events, *_gaps(store, surveys, limits), *_begin(store, surveys)]
    listed = [event for event in listed if 0 < event.timestamp <= LAST_MS]
    kept = sorted(listed, key=lambda event: (_RANK.get(event.kind, 4), event.timestamp))
    kept = sorted(kept[: limits.event_count], key=lambda event: event.timestamp)
    extent = buckets.extent()
    lost = list(_lost(surveys, places))
    return Timeline(
        buckets.step_ms,
        None if extent is None else extent[0],
        None if extent is None else extent[1],
        columns(Buckets, buckets.rows()),
        columns(
            Events,
            [
                (
                    event.timestamp,
                    event.kind,
                    shown(event.message, limits.text_size),
                    -1 if event.file is None else table.known(event.file),
                    event.physical_offset,
                )
                for event in kept
            ],
        ),
        Counts(len(listed), len(kept)),
        columns(LostTimes, lost[: limits.lost_count]),
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


def _gaps(store: Store, surveys: Sequence[LogSurvey | None], limits: Limits) -> list[TimelineEvent]:
    """The longest times without a message, within files and from one to the next."""
    found: list[tuple[int, int, int]] = []
    last: int | None = None
    for file, survey in zip(store.commitlog.files, surveys, strict=True):
        if survey is None or survey.first_timestamp is None:
            continue
        base = file.start_offset or 0
        found += [(length, at, base + pos) for length, at, pos in survey.gaps]
        if last is not None and survey.first_timestamp - last >= GAP_MS:
            found.append((survey.first_timestamp - last, survey.first_timestamp, base))
        last = survey.last_timestamp
    events = []
    for length, at, offset in sorted(found, reverse=True)[: limits.gap_count]:
        text = f"no message was stored for {gap_text(length)}, up to this one"
        events.append(TimelineEvent(at, "End Of Gap", text, "gap", physical_offset=offset))
        text = f"no message for {gap_text(length)} from here on"
        events.append(TimelineEvent(at - length, "Begin Of Gap", text, "gap"))
    return events


def _begin(store: Store, surveys: Sequence[LogSurvey | None]) -> Iterator[TimelineEvent]:
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
    surveys: Sequence[LogSurvey | None], places: Sequence[int]
) -> Iterator[tuple[int, int, int, int, int]]:
    """Damaged regions between the times of the records around them."""
    for survey, place in zip(surveys, places, strict=True):
        for one in () if survey is None else survey.bad:
            before, behind = one.before, one.behind
            first = behind if before is None else before
            last = before if behind is None else behind
            if first is not None and last is not None:
                yield min(first, last), max(first, last), place, one.span.start, one.span.end - one.span.start
