"""What a store holds, counted: messages and bytes by topic, queue and day, and the ages of its files.

One pass over the live records of the commit log, without their bodies, in columns. Days are days of the
storeTimestamp in UTC. Memory is bounded by the number of queues and of days, which are bounded themselves:
what a hostile log names beyond that is counted together. Reference 2.1, 3.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from rocketfsck.engine import LocalEngine
from rocketfsck.formats.javatext import java_decode
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.jit import compiled_wanted
from rocketfsck.scan.live import LiveScan
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.sorting import distinct
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.reading import FileReader

DAY_MS = 86_400_000
DEFAULT_RESERVED_HOURS = 72
"""fileReservedTime (Appendix B)."""

_LAST_DAY = 100_000
"""The year 2243: what a clock says beyond it is of no day."""

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Tally:
    """Messages counted together. Bytes are those of whole records; times are storeTimestamps in ms."""

    message_count: int
    byte_count: int
    first_timestamp: int
    last_timestamp: int


@dataclass(frozen=True, slots=True)
class QueueTally:
    """One queue's messages in the commit log. Offsets are queue offsets, half-open."""

    topic: str
    queue_id: int
    tally: Tally
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class FileAge:
    """A commit log file and the newest storeTimestamp (ms) in it, None without records."""

    file: str
    size: int
    last_timestamp: int | None


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """The live records of the commit log.

    `total` is None without records. `days` are (date, tally), ascending; "" stands for times that are of no
    date. `uncounted_queues` counts messages of queues beyond those that a table holds; they are in `total`
    and in `days`. `reserved_hours` is the setting fileReservedTime, `reserved_known` whether it was read.
    """

    total: Tally | None
    queues: tuple[QueueTally, ...]
    days: tuple[tuple[str, Tally], ...]
    files: tuple[FileAge, ...]
    uncounted_queues: int
    reserved_hours: int
    reserved_known: bool

    @property
    def topics(self) -> dict[str, Tally]:
        """The messages of each topic's queues together, the largest topic first."""
        found: dict[str, list[Tally]] = {}
        for queue in self.queues:
            found.setdefault(queue.topic, []).append(queue.tally)
        merged = {topic: _merged(tallies) for topic, tallies in found.items()}
        return dict(sorted(merged.items(), key=lambda item: (-item[1].byte_count, item[0])))

    def expired_files(self, now_timestamp: int) -> tuple[FileAge, ...]:
        """Files that a broker would delete at `now_timestamp` (ms) when it next cleans up.

        By their newest record: a broker goes by the time of modification, which in a copy may be another.
        It never deletes the last file.
        """
        limit = now_timestamp - self.reserved_hours * 3_600_000
        found = []
        for file in self.files[:-1]:
            if file.last_timestamp is None or file.last_timestamp > limit:
                break
            found.append(file)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class _FileTask:
    store: Store
    file: MappedFile


@dataclass(frozen=True, slots=True)
class _Counts:
    """What one file adds. The arrays have a row a queue of `names`, and one more for all others."""

    names: list[tuple[bytes, int]]
    count: NDArray[np.int64]
    size: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    days: dict[int, Tally]


def count_log(store: Store, *, jobs: int = 0) -> LogStatistics:
    """Count the live records of a store's commit log on `jobs` threads (default: all cores).

    Raises StoreError when a file cannot be read.
    """
    tasks = [_FileTask(store, file) for file in store.commitlog.files]
    found: list[_Counts | None] = [None] * len(tasks)
    for outcome in LocalEngine(jobs).run(_count_file, tasks):
        found[outcome.index] = outcome.result
    counts = [item for item in found if item is not None]
    queues, others = _merge_queues(counts)
    days = _merge_days(counts)
    hours = _setting(store.settings.values.get("fileReservedTime"))
    return LogStatistics(
        total=_merged(days.values()) if days else None,
        queues=queues,
        days=tuple((_date(day), days[day]) for day in sorted(days)),
        files=tuple(
            FileAge(task.file.relative, task.file.size, int(item.last.max()) if item.count.any() else None)
            for task, item in zip(tasks, counts, strict=True)
        ),
        uncounted_queues=others,
        reserved_hours=DEFAULT_RESERVED_HOURS if hours is None else hours,
        reserved_known=hours is not None,
    )


def _setting(text: str | None) -> int | None:
    try:
        return None if text is None else max(int(text), 0)
    except ValueError:
        return None


def _count_file(task: _FileTask) -> _Counts:
    table = QueueTable()
    scan = LiveScan()
    days: dict[int, Tally] = {}
    columns = _columns(0)
    with FileReader(task.file.location) as reader:
        options = ScanOptions(
            read_bodies=False,
            property_parser=task.store.dialect.property_parser,
            file_size=max(task.store.commitlog.file_size, reader.size),
        )
        compiled = compiled_wanted(reader.size)
        base_offset = task.file.start_offset or 0
        for batch in scan.batches(reader, base_offset, options, table, compiled=compiled):
            if len(columns[0]) <= len(table):
                columns = _grown(columns, 2 * len(table))
            _add_queues(batch, columns)
            _add_days(batch, days)
    kept = len(table)
    rows = np.append(np.arange(kept), len(columns[0]) - 1)  # messages of no row are in the last one
    count, size, first, last, low, high = (column[rows] for column in columns)
    return _Counts(table.names, count, size, first, last, low, high, days)


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


def _add_days(batch: RecordBatch, days: dict[int, Tally]) -> None:
    time, size = batch["store_timestamp"], batch["total_size"]
    day = time // DAY_MS
    day[(day < 0) | (day > _LAST_DAY)] = -1
    for number in distinct(day).tolist():
        rows = day == number
        times = time[rows]
        tally = Tally(
            int(np.count_nonzero(rows)),
            int(size[rows].sum(dtype=np.int64)),
            int(times.min()),
            int(times.max()),
        )
        days[number] = _merged([days[number], tally]) if number in days else tally


def _merge_queues(counts: Iterable[_Counts]) -> tuple[tuple[QueueTally, ...], int]:
    """The queues of all files by topic and queueId, and how many messages are of none of them."""
    merged: dict[tuple[bytes, int], QueueTally] = {}
    others = 0
    for item in counts:
        others += int(item.count[-1])
        for row, name in enumerate(item.names):
            if not item.count[row]:
                continue
            tally = Tally(*(int(column[row]) for column in (item.count, item.size, item.first, item.last)))
            low, high = int(item.low[row]), int(item.high[row]) + 1
            known = merged.get(name)
            if known is not None:
                tally = _merged([known.tally, tally])
                low, high = min(low, known.min_offset), max(high, known.max_offset)
            merged[name] = QueueTally(java_decode(name[0]), name[1], tally, low, high)
    return tuple(merged[name] for name in sorted(merged)), others


def _merge_days(counts: Iterable[_Counts]) -> dict[int, Tally]:
    merged: dict[int, list[Tally]] = {}
    for item in counts:
        for day, tally in item.days.items():
            merged.setdefault(day, []).append(tally)
    return {day: _merged(tallies) for day, tallies in merged.items()}


def _merged(tallies: Iterable[Tally]) -> Tally:
    listed = list(tallies)
    return Tally(
        sum(item.message_count for item in listed),
        sum(item.byte_count for item in listed),
        min(item.first_timestamp for item in listed),
        max(item.last_timestamp for item in listed),
    )


def _date(day: int) -> str:
    if day < 0:
        return ""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)).date().isoformat()
