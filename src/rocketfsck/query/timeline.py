"""Events of a timeline, and those that names, times of modification and small files tell. Nothing is scanned.

A time of modification is that of the files at hand: a copy that does not keep it tells when it was copied.

Events of the commit log, from one pass over its records: first and last messages, times without any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from heapq import heappush, heappushpop
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import checkpoint, config, indexfile, timer
from rocketfsck.progress import phase
from rocketfsck.query.counts import LogStatistics, StoreCounts, count_file, statistics_of
from rocketfsck.query.timers import delayed_units, wheel_messages
from rocketfsck.query.view import StoreView
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.options import log_item
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import MappedFile, OtherKind, Store, StoreFile
from rocketfsck.store.reading import FileReader

EventKind = Literal["file", "broker", "config", "topic", "gap", "deletion", "due", "finding"]

_CHECKPOINT_FIELDS = {
    "physicMsgTimestamp": "messages up to this time are on disk in the commit log, says the checkpoint",
    "logicsMsgTimestamp": "messages up to this time are on disk in the consume queues, says the checkpoint",
    "indexMsgTimestamp": "messages up to this time are on disk in the index, says the checkpoint",
}
_VERSIONED = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One thing that happened at `timestamp` (ms), or will. `timestamp_desc` says which time this is,
    `message` what happened. Names in both are as they are in the store: whoever prints makes them safe.

    `physical_offset` is the record that tells of it.
    """

    timestamp: int
    timestamp_desc: str
    message: str
    kind: EventKind
    file: str | None = None
    topic: str | None = None
    queue_id: int | None = None
    physical_offset: int | None = None


def file_events(store: Store) -> Iterator[TimelineEvent]:
    """The events of all files but the records of the log. A file that cannot be read tells its times only."""
    yield from _modified(store)
    yield from _indexes(store)
    yield from _checkpoint(store)
    yield from _configs(store)


def _modified(store: Store) -> Iterator[TimelineEvent]:
    """When log and index files, the checkpoint and the config files were last written."""
    files = [*store.commitlog.files, *store.indexes, *store.configs]
    files += [] if store.checkpoint is None else [store.checkpoint]
    for file in files:
        yield _written(file, f"{file.relative} was last written")
    if store.abort is not None:
        text = "a broker started; it has not stopped in an orderly way since, or still runs"
        yield _written(store.abort, text, "Broker Start", "broker")
    for other in store.others:
        if other.kind is OtherKind.ABORT_BACKUP:
            for file in other.files:
                yield _written(file, "a broker of 5.0.0 or later stopped or started", "Abort Moved", "broker")
    if store.lock is not None:
        yield _written(store.lock, "a broker last wrote its lock file", "Lock Written", "broker")


def _written(
    file: StoreFile, text: str, desc: str = "Content Modification Time", kind: EventKind = "file"
) -> TimelineEvent:
    return TimelineEvent(file.mtime_ns // 1_000_000, desc, text, kind, file.relative)


def _indexes(store: Store) -> Iterator[TimelineEvent]:
    for index in store.indexes:
        if index.created is not None:
            at = int(index.created.replace(tzinfo=UTC).timestamp() * 1000)
            text = f"{index.relative} was made, by its name: in the broker's time zone, shown as if UTC"
            yield TimelineEvent(at, "Creation Time", text, "file", index.relative)
        try:
            with FileReader(index.path) as reader:
                header = indexfile.decode_header(reader.read_upto(0, indexfile.HEADER.size))
        except (FormatError, StoreError):
            continue
        for name, at in (("first", header.begin_timestamp), ("last", header.end_timestamp)):
            if at > 0:
                text = f"{name} message in {index.relative}"
                yield TimelineEvent(at, f"{name.capitalize()} Message Indexed", text, "file", index.relative)


def _checkpoint(store: Store) -> Iterator[TimelineEvent]:
    file = store.checkpoint
    if file is None:
        return
    try:
        with FileReader(file.path) as reader:
            values = checkpoint.CHECKPOINT.parse(reader.read_upto(0, checkpoint.CHECKPOINT.size))
    except (FormatError, StoreError):
        return
    for name, text in _CHECKPOINT_FIELDS.items():
        if values[name] > 0:
            yield TimelineEvent(values[name], f"Checkpoint {name}", text, "broker", file.relative)


def _configs(store: Store) -> Iterator[TimelineEvent]:
    """When a table of the broker last changed, by the version that it keeps."""
    with StoreView(store) as view:
        for name in _VERSIONED:
            try:
                value = view.config(name)
                version = None if value is None else config.data_version(value)
            except (FormatError, StoreError):
                continue
            if version is not None and version.timestamp > 0:
                text = f"the broker's table {name} last changed (its counter of changes is {version.counter})"
                yield TimelineEvent(version.timestamp, "Table Changed", text, "config", f"config/{name}")


# Events that are still to come: messages that wait for a timer, and those of delay levels.

DUE_LIMIT = 10_000
"""Messages that are listed of the timers, and of each delay level."""


def due_events(store: Store) -> Iterator[TimelineEvent]:
    """What waits, in the order of each source. Raises StoreError for files that cannot be read."""
    for message in wheel_messages(store, max_count=DUE_LIMIT):
        at = message.deliver_timestamp or message.due_timestamp
        to = "" if message.topic is None else f" of {message.topic}"
        text = f"a message{to} waits on the timer wheel ({message.action.value})"
        yield _due(at, text, message.topic, message.queue_id, message.physical_offset)
    for level, units in delayed_units(store):
        text, queue_id = f"a message of delay level {level} waits", timer.delay_queue_id(level)
        for unit in islice(units, DUE_LIMIT):
            yield _due(unit.tags_code, text, timer.SCHEDULE_TOPIC, queue_id, unit.physical_offset)


def _due(at: int, text: str, topic: str | None, queue_id: int | None, offset: int) -> TimelineEvent:
    return TimelineEvent(at, "Scheduled Delivery", text, "due", None, topic, queue_id, offset)


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
        text = f"first message of {topic}"
        yield TimelineEvent(tally.first_timestamp, "First Message Stored", text, "topic", topic=topic)
        text = f"last message of {topic}, {tally.message_count:,} in the log"
        yield TimelineEvent(tally.last_timestamp, "Last Message Stored", text, "topic", topic=topic)
    for file in statistics.files:
        if file.last_timestamp is not None:
            text = f"last message in {file.file}"
            yield TimelineEvent(file.last_timestamp, "Last Message Stored", text, "file", file.file)


def _gaps(marks: LogMarks) -> Iterator[TimelineEvent]:
    for length, offset, at in marks.gaps:
        text = f"no message was stored for {gap_text(length)}, up to this one"
        yield TimelineEvent(at, "End Of Gap", text, "gap", physical_offset=offset)
        text = f"no message for {gap_text(length)} from here on"
        yield TimelineEvent(at - length, "Begin Of Gap", text, "gap")


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
            at = file.last_timestamp + hours * HOUR_MS
            yield TimelineEvent(at, "Expiration Time", text, "deletion", file.file)


def first_events(files: Sequence[MappedFile], times: dict[int, int]) -> Iterator[TimelineEvent]:
    """The first message of each log file, of which the pass has taken down the time."""
    for file in files:
        at = times.get(file.start_offset or 0)
        if at is not None:
            text = f"first message in {file.relative}"
            yield TimelineEvent(
                at, "First Message Stored", text, "file", file.relative, physical_offset=file.start_offset
            )
