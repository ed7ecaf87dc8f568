"""Events of the commit log, from one pass over its records: first and last messages, times without any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappush, heappushpop

import numpy as np
from numpy.typing import NDArray

from rocketfsck.progress import phase
from rocketfsck.query.counts.counting import StoreCounts, count_file
from rocketfsck.query.counts.statistics import LogStatistics, statistics_of
from rocketfsck.query.timeline.events import TimelineEvent
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.options import log_item
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.reading import FileReader

GAP_LIMIT = 1000
"""Gaps that are kept: the longest."""
HOUR_MS = 3_600_000
_Gap = tuple[int, int, int]


class LogMarks:
    """What a pass over the log takes down: times at given physical offsets, and gaps of at least `gap_ms`.

    The time of an offset is that of the last record that begins there or before it. A gap is (its length in
    ms, the physical offset of the record after it, that record's time).
    """

    def __init__(self, offsets: Sequence[int], gap_ms: int) -> None:
        self._wanted = np.unique(np.array(list(offsets), np.int64))
        self._gap_ms = gap_ms
        self._last: int | None = None
        self.times: dict[int, int] = {}
        self.gaps: list[_Gap] = []
        self.base = 0

    def see(self, batch: RecordBatch, _table: QueueTable, _reader: FileReader) -> None:
        """Take down what a batch tells; batches come in the log's order."""
        times = batch["store_timestamp"]
        if not len(times):
            return
        places = self.base + batch["pos"]
        self._place(places, times)
        before = np.concatenate([times[:1] if self._last is None else [self._last], times[:-1]])
        steps = times - before
        for row in np.flatnonzero(steps >= self._gap_ms).tolist():
            self._keep((int(steps[row]), int(places[row]), int(times[row])))
        self._last = int(times[-1])

    def _place(self, places: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        wanted = self._wanted[np.searchsorted(self._wanted, places[0]) :]
        rows = np.searchsorted(places, wanted, side="right") - 1
        self.times.update(zip(wanted.tolist(), times[rows].tolist(), strict=True))

    def _keep(self, gap: _Gap) -> None:
        if len(self.gaps) < GAP_LIMIT:
            heappush(self.gaps, gap)
        else:
            heappushpop(self.gaps, gap)


def log_events(
    store: Store, *, gap_ms: int = HOUR_MS, offsets: Sequence[int] = ()
) -> tuple[list[TimelineEvent], dict[int, int]]:
    """The events of the log, and the time (ms) at each of some physical offsets where one is known.

    Memory depends on the number of files, queues and offsets. Raises StoreError for a file that cannot be
    read.
    """
    marks = LogMarks(offsets, gap_ms)
    account = StoreCounts()
    with phase("reading the commit log", sum(file.size for file in store.commitlog.files)):
        for number, file in enumerate(store.commitlog.files):
            marks.base = file.start_offset or 0
            account.add(count_file(log_item(store, file), number, marks.see))
    statistics = statistics_of(store, account)
    found = [*_topics(statistics), *_gaps(marks), *_deletions(store, statistics)]
    return found, marks.times


def _topics(statistics: LogStatistics) -> Iterator[TimelineEvent]:
    for topic, tally in statistics.topics.items():
        count = f"{tally.message_count:,} in the log"
        yield TimelineEvent(
            tally.first_timestamp, "First Message Stored", f"first message of {topic}", "topic", topic=topic
        )
        text = f"last message of {topic}, {count}"
        yield TimelineEvent(tally.last_timestamp, "Last Message Stored", text, "topic", topic=topic)
    for file in statistics.files:
        if file.last_timestamp is not None:
            text = f"last message in {file.file}"
            yield TimelineEvent(file.last_timestamp, "Last Message Stored", text, "file", file.file)


def _gaps(marks: LogMarks) -> Iterator[TimelineEvent]:
    for length, offset, at in marks.gaps:
        text = f"no message was stored for {gap_text(length)}, up to this one"
        yield TimelineEvent(at, "End Of Gap", text, "gap", physical_offset=offset)
        yield TimelineEvent(
            at - length, "Begin Of Gap", f"no message for {gap_text(length)} from here on", "gap"
        )


def gap_text(length: int) -> str:
    """A length of time (ms) as text: "2 d 3 h"."""
    minutes = length // 60_000
    days, rest = divmod(minutes, 1440)
    hours, minutes = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min")]
    shown = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(shown) or f"{length / 1000:g} s"


def _deletions(store: Store, statistics: LogStatistics) -> Iterator[TimelineEvent]:
    """Messages that were deleted, and when the files at hand are old enough for it."""
    first = store.commitlog.files[0] if store.commitlog.files else None
    begin = None if statistics.total is None else statistics.total.first_timestamp
    if first is not None and first.start_offset and begin is not None:
        text = f"earlier messages were deleted: the log begins at physical offset {first.start_offset}"
        yield TimelineEvent(begin, "Begin Of Log", text, "deletion", first.relative)
    hours = statistics.reserved_hours
    known = "" if statistics.reserved_known else ", the default"
    for file in statistics.files[:-1]:
        if file.last_timestamp is not None:
            text = f"{file.file} is old enough to be deleted (fileReservedTime of {hours} h{known})"
            yield TimelineEvent(
                file.last_timestamp + hours * HOUR_MS, "Expiration Time", text, "deletion", file.file
            )


def first_events(files: Sequence[MappedFile], times: dict[int, int]) -> Iterator[TimelineEvent]:
    """The first message of each log file, of which the pass has taken down the time."""
    for file in files:
        at = times.get(file.start_offset or 0)
        if at is not None:
            text = f"first message in {file.relative}"
            yield TimelineEvent(
                at, "First Message Stored", text, "file", file.relative, physical_offset=file.start_offset
            )
