"""The records of commit log files counted in columns: by queue, by day, by topic and day.

An account is what was counted; accounts of different files merge in any order, so that files can be counted
anywhere. The size of an account is bounded by `MAX_TALLIES`, whatever a log names. Reference 2.1, 3.5.

What a store holds, counted: messages and bytes by topic, queue and day, and the ages of its files.

One pass over the live records of the commit log, without their bodies, in columns, on any engine. Days are
days of the storeTimestamp in UTC. Memory is bounded by the number of queues, of days and of pairs of the two,
which are bounded themselves: what a hostile log names beyond that is counted together. Reference 2.1, 3.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.documents import FLAT
from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.formats.javatext import java_decode
from rocketfsck.progress import part
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.options import LogItem, log_item
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader

Name = TypeVar("Name")

DAY_MS = 86_400_000

MAX_TALLIES = 1 << 18
"""Queues, and pairs of topic and day, that are counted separately over all files."""

_LAST_DAY = 100_000
"""The year 2243: what a clock says beyond it belongs to no day."""

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Tally:
    """Messages counted together. Bytes are those of whole records; times are storeTimestamps in ms."""

    message_count: int
    byte_count: int
    first_timestamp: int
    last_timestamp: int


@dataclass(frozen=True, slots=True)
class FileRun:
    """Files of one store, one after the other, that one task counts. `first` is the number of the first."""

    first: int
    items: tuple[LogItem, ...]


@dataclass(slots=True)
class StoreCounts:
    """What was counted so far: by queue with its range of offsets, by day, by topic and day, by file.

    Accounts merge in any order; names are bytes as in the log. `newest` has the newest time of each file.
    """

    queues: dict[tuple[bytes, int], tuple[Tally, int, int]] = field(default_factory=dict)
    days: dict[int, Tally] = field(default_factory=dict)
    topic_days: dict[tuple[bytes, int], Tally] = field(default_factory=dict)
    uncounted_queues: int = 0
    uncounted_days: int = 0
    newest: dict[int, int | None] = field(default_factory=dict)

    def add_queue(self, name: tuple[bytes, int], tally: Tally, low: int, high: int) -> None:
        """Count messages of a queue, whose offsets are in `low:high`."""
        known = self.queues.get(name)
        if known is not None:
            self.queues[name] = (merged([known[0], tally]), min(low, known[1]), max(high, known[2]))
        elif len(self.queues) < MAX_TALLIES:
            self.queues[name] = (tally, low, high)
        else:
            self.uncounted_queues += tally.message_count

    def add_topic_day(self, name: tuple[bytes, int], tally: Tally) -> None:
        """Count messages of a topic on a day."""
        if name in self.topic_days or len(self.topic_days) < MAX_TALLIES:
            count_into(self.topic_days, name, tally)
        else:
            self.uncounted_days += tally.message_count

    def add(self, other: StoreCounts) -> None:
        """Take over what another account counted."""
        for queue, (tally, low, high) in other.queues.items():
            self.add_queue(queue, tally, low, high)
        for day, tally in other.days.items():
            count_into(self.days, day, tally)
        for name, tally in other.topic_days.items():
            self.add_topic_day(name, tally)
        self.uncounted_queues += other.uncounted_queues
        self.uncounted_days += other.uncounted_days
        self.newest |= other.newest


def count_files(run: FileRun) -> StoreCounts:
    """Kernel: count the files of a run."""
    account = StoreCounts()
    for number, item in enumerate(run.items, run.first):
        account.add(count_file(item, number))
    return account


def count_file(
    item: LogItem,
    number: int,
    further: Callable[[RecordBatch, QueueTable, FileReader], None] | None = None,
) -> StoreCounts:
    """Count the records of the log's file `number`; `further` gets to see each batch, too.

    Raises StoreError when the file cannot be read.
    """
    counted = count_batches(live_batches(item), further)
    newest = max((tally.last_timestamp for tally in counted.days.values()), default=None)
    counted.newest = {number: newest}
    return counted


def live_batches(item: LogItem) -> Iterator[tuple[RecordBatch, QueueTable, FileReader]]:
    """The live records of a log file, batch by batch, and what their numbers refer to.

    A batch is good until the next one. Raises StoreError when the file cannot be read.
    """
    table = QueueTable()
    with FileReader(item.location) as reader, part(reader.size):
        options = item.options(reader.size)
        for batch in LiveScan().batches(reader, item.base_offset, options, table):
            yield batch, table, reader


def count_batches(
    batches: Iterable[tuple[RecordBatch, QueueTable, FileReader]],
    further: Callable[[RecordBatch, QueueTable, FileReader], None] | None = None,
) -> StoreCounts:
    """Count the records of one log file's batches; `further` gets to see each batch, too."""
    account = StoreCounts()
    columns = _columns(0)
    topics = TopicNumbers()
    names: list[tuple[bytes, int]] = []
    for batch, table, reader in batches:
        names = table.names
        if len(columns[0]) <= len(table):
            columns = _grown(columns, 2 * len(table))
        _add_queues(batch, columns)
        _add_days(batch, topics.numbers(table), topics.names, account)
        if further is not None:
            further(batch, table, reader)
    for row, name in enumerate(names):
        count, size, first, last, low, high = (int(column[row]) for column in columns)
        if count:
            account.add_queue(name, Tally(count, size, first, last), low, high + 1)
    account.uncounted_queues += int(columns[0][-1])  # messages of no row are in the last one
    return account


class TopicNumbers:
    """Numbers for the topics of a table's queues."""

    def __init__(self) -> None:
        self.names: list[bytes] = []
        self._known: dict[bytes, int] = {}
        self._numbers = np.zeros(1, np.int64)
        self._row_count = 0

    def numbers(self, table: QueueTable) -> NDArray[np.int64]:
        """The number of each queue's topic, and at the end -1 for those of no row."""
        names = table.names
        if len(names) > self._row_count:
            found = []
            for topic, _ in names[self._row_count :]:
                number = self._known.setdefault(topic, len(self._known))
                if number == len(self.names):
                    self.names.append(topic)
                found.append(number)
            self._numbers = np.concatenate([self._numbers[: self._row_count], found, [-1]]).astype(np.int64)
            self._row_count = len(names)
        elif not names:
            self._numbers = np.full(1, -1, np.int64)
        return self._numbers


def _columns(size: int) -> list[NDArray[np.int64]]:
    """count, size, first, last, low, high of `size` queues and of all others."""
    starts = (0, 0, _NEVER, -1, _NEVER, -1)
    return [np.full(size + 1, start, np.int64) for start in starts]


def _grown(columns: list[NDArray[np.int64]], size: int) -> list[NDArray[np.int64]]:
    wider = _columns(size)
    for old, new in zip(columns, wider, strict=True):
        new[: len(old) - 1] = old[:-1]
        new[-1] = old[-1]
    return wider


def _add_queues(batch: RecordBatch, columns: list[NDArray[np.int64]]) -> None:
    count, size, first, last, low, high = columns
    queue = batch["queue_index"]
    time, offset = batch["store_timestamp"], batch["queue_offset"]
    np.add.at(count, queue, 1)
    np.add.at(size, queue, batch["total_size"])
    np.minimum.at(first, queue, time)
    np.maximum.at(last, queue, time)
    np.minimum.at(low, queue, offset)
    np.maximum.at(high, queue, offset)


def _add_days(
    batch: RecordBatch, topic_numbers: NDArray[np.int64], topics: Sequence[bytes], account: StoreCounts
) -> None:
    """Count by topic and day, and by day: the rows in groups, so that Python sees a group and no row."""
    time, size = batch["store_timestamp"], batch["total_size"].astype(np.int64)
    day = time // DAY_MS
    day[(day < 0) | (day > _LAST_DAY)] = -1
    topic = topic_numbers[batch["queue_index"]]
    key = (topic + 1) * (_LAST_DAY + 2) + day + 1
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    times = time[order]
    columns = (
        np.diff(np.append(starts, len(key))),
        np.add.reduceat(size[order], starts),
        np.minimum.reduceat(times, starts),
        np.maximum.reduceat(times, starts),
    )
    groups = zip(key[starts].tolist(), *(column.tolist() for column in columns), strict=True)
    for value, count, byte_count, first, last in groups:
        tally = Tally(count, byte_count, first, last)
        number, of_day = divmod(value, _LAST_DAY + 2)
        of_day -= 1
        count_into(account.days, of_day, tally)
        if number:
            account.add_topic_day((topics[number - 1], of_day), tally)
        else:
            account.uncounted_days += count


def merged(tallies: Iterable[Tally]) -> Tally:
    """Several tallies, at least one, as one."""
    listed = list(tallies)
    return Tally(
        sum(item.message_count for item in listed),
        sum(item.byte_count for item in listed),
        min(item.first_timestamp for item in listed),
        max(item.last_timestamp for item in listed),
    )


def count_into(tallies: dict[Name, Tally], name: Name, tally: Tally) -> None:
    """Count what a tally has with what was counted under this name."""
    known = tallies.get(name)
    tallies[name] = tally if known is None else merged([known, tally])


def date_of(day: int) -> str:
    """A day since 1970 as `2023-11-14`, "" for -1."""
    if day < 0:
        return ""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)).date().isoformat()


TASKS_A_JOB = 4
"""Tasks for each that runs at once: what comes back is one account a task, not one a file."""


@dataclass(frozen=True, slots=True)
class QueueTally:
    """One queue's messages in the commit log. Offsets are queue offsets, half-open."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    tally: Tally = field(metadata=FLAT)


@dataclass(frozen=True, slots=True)
class FileAge:
    """A commit log file and the newest storeTimestamp (ms) in it, None without records."""

    file: str
    size: int
    last_timestamp: int | None


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """The live records of the commit log.

    `total` is None without records. `days` are (date, tally), ascending; "" stands for times that have no
    date. `uncounted_queues` counts messages of queues beyond those that a table holds; they are in `total`
    and in `days`. `reserved_hours` is the setting fileReservedTime, `reserved_known` whether it was read.
    `topic_days` are (topic, date, tally) by topic and date; the messages of further ones are counted in
    `uncounted_days`.
    """

    total: Tally | None
    queues: tuple[QueueTally, ...]
    days: tuple[tuple[str, Tally], ...]
    files: tuple[FileAge, ...]
    uncounted_queues: int
    reserved_hours: int
    reserved_known: bool
    topic_days: tuple[tuple[str, str, Tally], ...] = ()
    uncounted_days: int = 0

    @property
    def topics(self) -> dict[str, Tally]:
        """The messages of each topic's queues together, the largest topic first."""
        found: dict[str, list[Tally]] = {}
        for queue in self.queues:
            found.setdefault(queue.topic, []).append(queue.tally)
        tallies = {topic: merged(items) for topic, items in found.items()}
        return dict(sorted(tallies.items(), key=lambda item: (-item[1].byte_count, item[0])))

    def expired_files(self, now_timestamp: int) -> tuple[FileAge, ...]:
        """Files that a broker would delete at `now_timestamp` (ms) when it next cleans up.

        By their newest record: a broker goes by the time of modification, which in a copy may be another.
        A broker never deletes the last file.
        """
        limit = now_timestamp - self.reserved_hours * 3_600_000
        found = []
        for file in self.files[:-1]:
            if file.last_timestamp is None or file.last_timestamp > limit:
                break
            found.append(file)
        return tuple(found)


def count_log(store: Store, *, engine: Engine | None = None) -> LogStatistics:
    """Count the live records of a store's commit log, on threads of this process or an engine.

    Raises StoreError when a file cannot be read.
    """
    engine = LocalEngine() if engine is None else engine
    account = StoreCounts()
    for outcome in engine.run(count_files, plan_runs(store, engine.job_count)):
        if outcome.result is not None:
            account.add(outcome.result)
    return statistics_of(store, account)


def plan_runs(store: Store, job_count: int) -> list[FileRun]:
    """The log's files in runs of like length, some for each task that runs at once."""
    items = [log_item(store, file) for file in store.commitlog.files]
    length = max(-(-len(items) // (TASKS_A_JOB * job_count)), 1)
    return [FileRun(at, tuple(items[at : at + length])) for at in range(0, len(items), length)]


def statistics_of(store: Store, account: StoreCounts) -> LogStatistics:
    """An account of all files of a store, in order and with names as text."""
    return LogStatistics(
        total=merged(account.days.values()) if account.days else None,
        queues=tuple(
            QueueTally(java_decode(topic), queue_id, low, high, tally)
            for (topic, queue_id), (tally, low, high) in sorted(account.queues.items())
        ),
        days=tuple((date_of(day), account.days[day]) for day in sorted(account.days)),
        files=tuple(
            FileAge(file.relative, file.size, account.newest.get(number))
            for number, file in enumerate(store.commitlog.files)
        ),
        uncounted_queues=account.uncounted_queues,
        reserved_hours=store.settings.reserved_hours,
        reserved_known=store.settings.number("fileReservedTime") is not None,
        topic_days=tuple(
            (java_decode(name[0]), date_of(name[1]), account.topic_days[name])
            for name in sorted(account.topic_days)
        ),
        uncounted_days=account.uncounted_days,
    )
