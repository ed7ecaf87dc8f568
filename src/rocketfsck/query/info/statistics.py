"""What `info --stats` adds: the messages of a store counted, and how the index's keys are spread."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

from rocketfsck.common.documents import FLAT, LEFT_OUT
from rocketfsck.errors import StoreError
from rocketfsck.query.counts.counting import LogStatistics, QueueTally, Tally, count_log
from rocketfsck.query.counts.skew import IndexSkew, measure_skew
from rocketfsck.store import Store
from rocketfsck.store.model import IndexFile


@dataclass(frozen=True, slots=True)
class TopicTallyInfo:
    """The messages of one topic."""

    topic: str
    tally: Tally = field(metadata=FLAT)


@dataclass(frozen=True, slots=True)
class DayTallyInfo:
    """The messages of one day (UTC); of None those whose time has no date."""

    day: str | None
    tally: Tally = field(metadata=FLAT)


@dataclass(frozen=True, slots=True)
class RetentionInfo:
    """What a broker would delete at `now_timestamp` (ms) as too old."""

    reserved_hours: int
    reserved_source: Literal["given", "default"]
    now_timestamp: int
    expired_file_count: int
    expired_byte_count: int


@dataclass(frozen=True, slots=True)
class SkewInfo:
    """The chains of an index file."""

    file: str
    skew: IndexSkew | None = field(default=None, metadata=FLAT)
    error: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True)
class StatisticsInfo:
    """The counted messages; the parts are those of `LogStatistics`."""

    total: Tally | None
    topics: tuple[TopicTallyInfo, ...]
    queues: tuple[QueueTally, ...]
    days: tuple[DayTallyInfo, ...]
    uncounted_queues: int
    retention: RetentionInfo
    indexes: tuple[SkewInfo, ...]


def statistics_info(store: Store, *, now_timestamp: int | None = None) -> StatisticsInfo:
    """Count what is in a store. `now_timestamp` (ms) is what retention is judged by; default: now.

    Raises StoreError when the log cannot be read.
    """
    log = count_log(store)
    now = int(time.time() * 1000) if now_timestamp is None else now_timestamp
    return StatisticsInfo(
        total=log.total,
        topics=tuple(TopicTallyInfo(topic, tally) for topic, tally in log.topics.items()),
        queues=log.queues,
        days=tuple(DayTallyInfo(day or None, tally) for day, tally in log.days),
        uncounted_queues=log.uncounted_queues,
        retention=_retention(log, now),
        indexes=tuple(_skew(store, file) for file in store.indexes),
    )


def _retention(log: LogStatistics, now: int) -> RetentionInfo:
    expired = log.expired_files(now)
    source: Literal["given", "default"] = "given" if log.reserved_known else "default"
    return RetentionInfo(log.reserved_hours, source, now, len(expired), sum(file.size for file in expired))


def _skew(store: Store, file: IndexFile) -> SkewInfo:
    try:
        return SkewInfo(file.relative, measure_skew(store, file))
    except StoreError as error:
        return SkewInfo(file.relative, error=str(error))
