"""What a broker's retention deletes, when, and which groups lose what by it; and when the disk is full.

A broker goes through the commit log from the front, in the hours of deleteWhen, and deletes files that have
not changed for fileReservedTime hours, up to the first that is younger; the last file stays. A file changes
for the last time when the next one gets its first message: the storeTimestamp of that is used, since a copy
may not have the times of its original. Whether somebody has consumed a message makes no difference.

    disk used above diskMaxUsedSpaceRatio    deletes such files at every hour
    above 85 %                               deletes the oldest files, whatever their age
    above 90 %                               takes no messages

Read are the first record of each file, and units by binary search: nothing for each message.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import accumulate
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rocketfsck.common.rows import Text
from rocketfsck.errors import FormatError, UsageError
from rocketfsck.formats.javatext import INT32_MAX, INT64_MAX, parse_int64
from rocketfsck.query.info.store import log_info
from rocketfsck.query.offsets import Position, group_positions
from rocketfsck.query.view import QueueView, StoreView
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.places.urls import is_remote

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
DEFAULT_DELETE_WHEN, DEFAULT_RATIO = "04", 75
RATIO_BOUNDS = (10, 95)
"""What a broker makes of a lower or higher diskMaxUsedSpaceRatio."""
FORCED_RATIO, REFUSED_RATIO = 85, 90
"""diskSpaceCleanForciblyRatio and diskSpaceWarningLevelRatio: system properties of early versions."""
HORIZON_MS = 3650 * DAY_MS
"""How far ahead (ms) the use of the disk is foreseen."""
LAST_TIMESTAMP = 253_399_536_000_000
"""A month (ms) before the last day that has a date: the next days have one, too, in every time zone."""

Effect = Literal["deletes-early", "deletes-unexpired", "refuses-messages", "full"]


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """The settings by which a broker deletes, in a time zone, and the time (ms) from which on it does.

    `delete_hours` are the hours of the day in deleteWhen: empty if something else is in the list, since such
    a broker deletes nothing by time.
    """

    reserved_hours: int
    delete_hours: tuple[int, ...]
    max_used_percent: int
    zone: tzinfo
    now_timestamp: int

    def next_hour(self, timestamp: int) -> int | None:
        """The first time (ms), from one on, that is in an hour of deleteWhen; None where there is none."""
        if not self.delete_hours or not 0 <= timestamp <= LAST_TIMESTAMP:
            return None
        local = datetime.fromtimestamp(timestamp / 1000, self.zone)
        if local.hour in self.delete_hours:
            return timestamp
        start = int(local.replace(minute=0, second=0, microsecond=0).timestamp()) * 1000
        hours = (start + number * HOUR_MS for number in range(1, 50))  # some days lack an hour
        return next((at for at in hours if self._hour(at) in self.delete_hours), None)

    def _hour(self, timestamp: int) -> int:
        return datetime.fromtimestamp(timestamp / 1000, self.zone).hour


@dataclass(frozen=True, slots=True)
class FileRetention:
    """A commit log file; sizes in bytes, times in ms.

    `first_timestamp` is the storeTimestamp of its first record, None where that cannot be read;
    `expires_timestamp` when it and all before it are old enough, `delete_timestamp` when a broker that runs
    from `now_timestamp` on deletes it: None for the last file, which stays.
    """

    file: str
    start_offset: int
    size: int
    first_timestamp: int | None
    expires_timestamp: int | None = None
    delete_timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class UnconsumedMessages:
    """Messages of a topic in a file to be deleted that a group has not consumed, by its committed offsets."""

    file: str
    delete_timestamp: int | None
    group: str
    topic: str
    message_count: int


@dataclass(frozen=True, slots=True)
class DiskLevel:
    """When the disk of the commit log is used so far (percent), at the growth per day: None for not within
    ten years. Sizes in bytes."""

    effect: Effect
    used_percent: int
    reached_timestamp: int | None
    used_size: int
    total_size: int
    growth_per_day: int


@dataclass(frozen=True, slots=True)
class Retention:
    """What is deleted, who loses what, and how the disk fills.

    `growth_per_day` (bytes) is that of the commit log, from the first records of its first and its last file;
    None where these do not tell. `levels` are empty without it, and for a log that is not on this machine.
    `problem` says why nothing is known of groups.
    """

    rules: RetentionRules
    files: tuple[FileRetention, ...]
    unconsumed: tuple[UnconsumedMessages, ...]
    growth_per_day: int | None
    levels: tuple[DiskLevel, ...]
    problem: Text | None = None


def zone_of(name: str) -> ZoneInfo:
    """A time zone by its name. Raises UsageError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"{name!r} is not a time zone like Asia/Shanghai") from error


def retention_rules(store: Store, time_zone: str, now_timestamp: int | None) -> RetentionRules:
    """What the settings of a store say, and the defaults of a broker; from now on, if no time (ms) is given.

    Raises UsageError for a time zone that there is not.
    """
    setting = store.settings.values.get
    when = setting("deleteWhen", DEFAULT_DELETE_WHEN)
    hours = [parse_int64(text.strip()) for text in when.split(";") if text]
    known = sorted({hour for hour in hours if hour is not None and 0 <= hour < 24})
    ratio = parse_int64(setting("diskMaxUsedSpaceRatio", "").strip())
    low, high = RATIO_BOUNDS
    return RetentionRules(
        min(store.settings.reserved_hours, INT32_MAX),
        () if None in hours else tuple(known),
        DEFAULT_RATIO if ratio is None else min(max(ratio, low), high),
        zone_of(time_zone),
        time.time_ns() // 1_000_000 if now_timestamp is None else now_timestamp,
    )


def foresee_retention(view: StoreView, rules: RetentionRules) -> Retention:
    """What a broker deletes by these rules. Raises StoreError when the log or a queue cannot be read."""
    store = view.store
    files = _files(store.commitlog.files, rules)
    problem = None
    unconsumed: list[UnconsumedMessages] = []
    try:
        unconsumed = list(_unconsumed(view, files))
    except FormatError as error:
        problem = f"no groups: a file in config/ cannot be used: {error}"
    growth = _growth(files)
    levels = () if growth is None else tuple(_levels(store, files, rules, growth))
    return Retention(rules, tuple(files), tuple(unconsumed), growth, levels, problem)


def _files(files: Sequence[MappedFile], rules: RetentionRules) -> list[FileRetention]:
    firsts = [log_info(file).first_store_timestamp for file in files]
    kept = rules.reserved_hours * HOUR_MS
    changed = (
        min((firsts[at + 1] or file.mtime_ns // 1_000_000) + kept, INT64_MAX)
        for at, file in enumerate(files[:-1])
    )
    expiries: list[int | None] = [*accumulate(changed, max), None]  # a younger file keeps those after it
    return [
        FileRetention(
            file.relative, file.start_offset or 0, file.size, first, expires, _deletion(expires, rules)
        )
        for file, first, expires in zip(files, firsts, expiries, strict=False)
    ]


def _deletion(expires: int | None, rules: RetentionRules) -> int | None:
    return None if expires is None else rules.next_hour(max(expires, rules.now_timestamp))


def _unconsumed(view: StoreView, files: Sequence[FileRetention]) -> Iterator[UnconsumedMessages]:
    """By file, group and topic."""
    queues: dict[tuple[str, int], list[Position]] = {}
    for place in group_positions(view):
        queues.setdefault(place[1:3], []).append(place)
    counts: dict[tuple[int, str, str], int] = {}
    for name, places in queues.items():
        queue = view.queue(*name)
        if queue is not None:
            bounds = _bounds(queue, files, min(offset for *_, offset in places))
            for group, topic, _, offset in places:
                for at, low, high in bounds:
                    if high > max(offset, low):
                        key = (at, group, topic)
                        counts[key] = counts.get(key, 0) + high - max(offset, low)
    for (at, group, topic), count in sorted(counts.items()):
        yield UnconsumedMessages(files[at].file, files[at].delete_timestamp, group, topic, count)


def _bounds(queue: QueueView, files: Sequence[FileRetention], least: int) -> list[tuple[int, int, int]]:
    """(file, first queue offset in it, first one after it) for files to be deleted, as far down as messages
    from the queue offset `least` on are in them."""
    ends: list[tuple[int, int]] = []
    for at in reversed(range(len(files) - 1)):
        end = queue.queue_offset_at(queue.first_index_at(files[at + 1].start_offset))
        ends.append((at, end))
        if end <= max(least, queue.min_offset):
            break
    lows = [end for _, end in ends[1:]] + [queue.min_offset]
    return [(at, low, high) for (at, high), low in zip(ends, lows, strict=False)]


def _growth(files: Sequence[FileRetention]) -> int | None:
    """Bytes a day between the first records of the first and the last file that have one."""
    known = [(file.first_timestamp, file.start_offset) for file in files if file.first_timestamp]
    if len(known) < 2:
        return None
    (begin, start), (end, last) = known[0], known[-1]
    if end <= begin or last <= start:
        return None
    return min((last - start) * DAY_MS // (end - begin), INT64_MAX)


def _levels(
    store: Store, files: Sequence[FileRetention], rules: RetentionRules, growth: int
) -> Iterator[DiskLevel]:
    place = store.commitlog.files[-1].location
    if is_remote(place):
        return
    try:
        status = os.statvfs(place)
    except OSError:
        return
    used = (status.f_blocks - status.f_bfree) * status.f_frsize
    total = used + status.f_bavail * status.f_frsize
    steps = list(_steps(files, rules, growth))
    levels: tuple[tuple[Effect, int], ...] = (
        ("deletes-early", rules.max_used_percent),
        ("deletes-unexpired", FORCED_RATIO),
        ("refuses-messages", REFUSED_RATIO),
        ("full", 100),
    )
    for effect, percent in levels:
        reached = _reached(total * percent // 100 - used, steps, growth, rules.now_timestamp)
        yield DiskLevel(effect, percent, reached, used, total, growth)


Step = tuple[int, int]
"""A time (ms), and the bytes that were deleted until before it."""


def _steps(files: Sequence[FileRetention], rules: RetentionRules, growth: int) -> Iterator[Step]:
    """The times at which a broker deletes, up to when it deletes each day what a day brings."""
    now, kept = rules.now_timestamp, rules.reserved_hours * HOUR_MS
    end = now + min(kept + 2 * DAY_MS, HORIZON_MS)
    at = rules.next_hour(now)
    deleted = 0
    while at is not None and at <= end:
        yield at, deleted
        deleted = sum(file.size for file in files if file.delete_timestamp and file.delete_timestamp <= at)
        deleted += max(at - kept - now, 0) * growth // DAY_MS
        at = rules.next_hour(at - at % HOUR_MS + HOUR_MS)
    yield end if at is not None else now + HORIZON_MS, deleted


def _reached(room: int, steps: Iterable[Step], growth: int, now: int) -> int | None:
    """When `room` bytes more than now are used."""
    if room <= 0:
        return now
    for at, deleted in steps:
        reached = now + -(-(room + deleted) * DAY_MS // max(growth, 1))
        if reached <= at:
            return min(reached, INT64_MAX)
    return None
