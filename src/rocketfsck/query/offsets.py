"""Where queues begin and end, and how far consumer groups have come, from the files alone.

    config/consumerOffset.json     `topic@group` -> queueId -> the queue offset to consume next
    config/lmqConsumerOffset.json  the same with `enableLmq`, in place of consumerOffset.json
    config/delayOffset.json        delay level -> the queue offset of SCHEDULE_TOPIC_XXXX to deliver next

Reference 1.6, 2.11, 3.5.

What a store held at a time in the past, and what consumers could get of it then.

    the log up to the first message stored later  ->  the units that lead into it  ->  the queues of then

Messages that have expired since then are not there any more: each queue begins where it begins now. A message
of a delay level waits if it is due later than the time. Read are the first record of each file, one commit
log file, and units by binary search; of delay levels all units. Where a clock was set back, the first later
message counts. Reference 1.8, 2.11, 3.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from rocketfsck.common.rows import Text
from rocketfsck.formats.config import OFFSET_VIEWS, delay_offsets, split_topic_group
from rocketfsck.formats.timer import DELIVERY, SCHEDULE_TOPIC, delay_queue_id
from rocketfsck.query.info.store import log_info
from rocketfsck.query.view import LogView, QueueView, StoreView, view_of
from rocketfsck.reader.units import BLOCK_COUNT, Kind, kinds_of
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.options import log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import Store

DELAY_FILE = "delayOffset.json"


@dataclass(frozen=True, slots=True)
class QueueOffsets:
    """One queue's true bounds.

    `min_offset` is the first queue offset whose record is in the log, `max_offset` the one that comes next;
    timestamps are the storeTimestamps (ms) of the first and last message, None without any. `stale_count`
    units after the end were left there by a truncation.
    """

    topic: str
    queue_id: int
    kind: str
    min_offset: int
    max_offset: int
    first_timestamp: int | None
    last_timestamp: int | None
    stale_count: int

    @property
    def count(self) -> int:
        """Messages that can be read."""
        return self.max_offset - self.min_offset


class Standing(StrEnum):
    """How a group's position lies to its queue."""

    INSIDE = "inside"
    AHEAD = "ahead"  # after the end of the queue: it gets nothing until the queue has grown so far
    EXPIRED = "expired"  # before the queue's minimum: what lies between is gone
    NO_QUEUE = "no-queue"  # the store has no such queue
    UNREADABLE = "unreadable"  # the queue is in a database that cannot be read


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """How far a group is in one queue: `offset` is the queue offset to consume next, `lag` the messages that
    it still has to get (0 if it is ahead), `lost_count` those that expired before it got them, `ahead_count`
    queue offsets that it skips.

    `next_timestamp` and `last_timestamp` are the storeTimestamps (ms) of the message that it gets next and of
    the newest one of the queue, `age_ms` what lies between: None where there is no such message, or nobody
    looked.
    """

    group: str
    topic: str
    queue_id: int
    offset: int
    min_offset: int
    max_offset: int
    standing: Standing
    next_timestamp: int | None = None
    last_timestamp: int | None = None

    @property
    def lag(self) -> int:
        return max(self.max_offset - max(self.offset, self.min_offset), 0)

    @property
    def lost_count(self) -> int:
        return max(self.min_offset - self.offset, 0) if self.standing is Standing.EXPIRED else 0

    @property
    def ahead_count(self) -> int:
        return self.offset - self.max_offset if self.standing is Standing.AHEAD else 0

    @property
    def age_ms(self) -> int | None:
        if self.next_timestamp is None or self.last_timestamp is None:
            return None
        return self.last_timestamp - self.next_timestamp


GROUP_COUNTS = ("lag", "lost_count", "ahead_count", "age_ms")
"""What follows from the members of `GroupOffsets`."""


def queue_offsets(
    store: Store, *, topic: str | None = None, view: StoreView | None = None
) -> Iterator[QueueOffsets]:
    """Yield every queue, or those of a topic, in the order of the store.

    Raises StoreError when the log or a queue cannot be read.
    """
    with view_of(store, view) as asked:
        for queue in store.queues:
            if topic is None or queue.topic == topic:
                with QueueView(queue, asked.log) as found:
                    yield _offsets_of(found)


def _offsets_of(view: QueueView) -> QueueOffsets:
    queue = view.queue
    first = last = None
    if view.min_index < view.end_index:
        first, last = (view.time_of(view.unit(at)) for at in (view.min_index, view.end_index - 1))
    bounds = (view.min_offset, view.max_offset)
    return QueueOffsets(queue.topic, queue.queue_id, queue.kind, *bounds, first, last, view.stale_count)


def group_offsets(
    store: Store,
    *,
    topic: str | None = None,
    group: str | None = None,
    view: StoreView | None = None,
    times: bool = False,
) -> list[GroupOffsets]:
    """The positions of all groups in all queues, or of one topic or group, by group, topic and queueId.

    With `times`, a message of each row is read for its timestamp, and the newest of each queue. The delivery
    of delayed messages counts as a group of its own (`DELIVERY`). Raises StoreError when the log or a queue
    cannot be read, FormatError when a config file has not the form that a broker would load.
    """
    with view_of(store, view) as asked:
        positions = (
            place
            for place in group_positions(asked)
            if topic in (None, place[1]) and group in (None, place[0])
        )
        return placed(asked, positions, times=times)


Position = tuple[str, str, int, int]
"""(group, topic, queueId, offset)."""


def placed(view: StoreView, positions: Iterable[Position], *, times: bool = False) -> list[GroupOffsets]:
    """How the positions lie to their queues, by group, topic and queueId. Raises StoreError."""
    rows = [_position(view, *position) for position in positions]
    rows.sort(key=lambda row: (row.group, row.topic, row.queue_id))
    if not times:
        return rows
    newest: dict[tuple[str, int], int | None] = {}
    return [_timed(view, row, newest) for row in rows]


def _timed(view: StoreView, row: GroupOffsets, newest: dict[tuple[str, int], int | None]) -> GroupOffsets:
    name = (row.topic, row.queue_id)
    queue = view.queue(*name)
    if queue is None or queue.min_index >= queue.end_index:
        return row
    if name not in newest:
        newest[name] = queue.time_of(queue.unit(queue.end_index - 1))
    unit = queue.unit_of(max(row.offset, row.min_offset)) if row.lag else None
    return replace(row, next_timestamp=queue.time_of(unit), last_timestamp=newest[name])


def group_positions(view: StoreView) -> Iterator[Position]:
    """The positions of all config files."""
    yield from committed_positions(view)
    yield from delivery_positions(view)


def committed_positions(view: StoreView) -> Iterator[Position]:
    """Those that groups committed."""
    committed: dict[str, dict[int, int]] = {}
    for file, offsets_of in OFFSET_VIEWS.items():
        value = view.config(file)
        if value is not None:
            committed |= offsets_of(value)
    yield from positions_in(committed)


def positions_in(committed: Mapping[str, Mapping[int, int]]) -> Iterator[Position]:
    """The positions in a table of offsets by `topic@group` and queueId."""
    for name, offsets in committed.items():
        topic, group = split_topic_group(name) or (name, "")
        for queue_id, offset in offsets.items():
            yield group, topic, queue_id, offset


def delivery_positions(view: StoreView) -> Iterator[Position]:
    """Those of the delivery of delayed messages."""
    value = view.config(DELAY_FILE)
    if value is not None:
        yield from positions_of_levels(delay_offsets(value))


def positions_of_levels(levels: Mapping[int, int]) -> Iterator[Position]:
    """The positions in a table of offsets by delay level."""
    for level, offset in levels.items():
        yield DELIVERY, SCHEDULE_TOPIC, delay_queue_id(level), offset


def _position(view: StoreView, group: str, topic: str, queue_id: int, offset: int) -> GroupOffsets:
    queue = view.queue(topic, queue_id)
    if queue is None:
        standing = Standing.UNREADABLE if view.is_unread(topic, queue_id) else Standing.NO_QUEUE
        return GroupOffsets(group, topic, queue_id, offset, 0, 0, standing)
    low, high = queue.min_offset, queue.max_offset
    standing = Standing.INSIDE
    if offset > high:
        standing = Standing.AHEAD
    elif offset < low:
        standing = Standing.EXPIRED
    return GroupOffsets(group, topic, queue_id, offset, low, high, standing)


@dataclass(frozen=True, slots=True)
class QueueThen:
    """A queue as it was: `min_offset` is the first queue offset that is still in the log, `max_offset` the
    one that the next message got, `waiting_count` of the messages waited for their delay.

    Timestamps (ms) are the storeTimestamps of the first and the last message between, None without any.
    """

    topic: Text
    queue_id: int
    min_offset: int
    max_offset: int
    first_timestamp: int | None
    last_timestamp: int | None
    waiting_count: int

    @property
    def count(self) -> int:
        """Messages that were there and still are."""
        return self.max_offset - self.min_offset


@dataclass(frozen=True, slots=True)
class StoreThen:
    """A store as of a `timestamp` (ms): its log from `start_offset` to `end_offset` (physical offsets), the
    storeTimestamp of the message that came next, None for none, and the queues that had messages."""

    timestamp: int
    start_offset: int
    end_offset: int
    next_timestamp: int | None
    queues: tuple[QueueThen, ...]


def store_as_of(view: StoreView, timestamp: int, *, topic: str | None = None) -> StoreThen:
    """The store at a time (ms), all queues or those of a topic. Raises StoreError for what cannot be read."""
    start = max(view.log.min_offset, 0)
    end, following = _end_at(view.log, timestamp)
    return StoreThen(timestamp, start, end, following, tuple(_queues(view, timestamp, end, topic)))


def _end_at(log: LogView, timestamp: int) -> tuple[int, int | None]:
    """Where the first message stored after a time begins, and its storeTimestamp; the log's end for none."""
    following: int | None = None
    for number in reversed(range(len(log.files))):
        first = log_info(log.files[number]).first_store_timestamp
        if first is None:
            continue
        if first <= timestamp:
            found = _first_later(log, number, timestamp)
            if found is not None:
                return found
            return log.live_end(number), following
        following = first
    return max(log.min_offset, 0), following


def _first_later(log: LogView, number: int, timestamp: int) -> tuple[int, int] | None:
    """The first live record of a file stored after a time: its physical offset and storeTimestamp."""
    base, scan = log.starts[number], LiveScan()
    options = log_options(log.store, log.files[number], read_bodies=False)
    for batch in scan.batches(log.reader(number), base, options, QueueTable()):
        times = batch["store_timestamp"]
        rows = np.flatnonzero(times > timestamp)
        if len(rows):
            return base + int(batch["pos"][rows[0]]), int(times[rows[0]])
    return None


def _queues(view: StoreView, timestamp: int, end: int, topic: str | None) -> Iterator[QueueThen]:
    for queue in view.store.queues:
        if topic is not None and queue.topic != topic:
            continue
        with QueueView(queue, view.log) as found:
            first, last = found.min_index, found.first_index_at(end)
            if first < last:
                yield QueueThen(
                    queue.topic,
                    queue.queue_id,
                    found.queue_offset_at(first),
                    found.queue_offset_at(last),
                    found.time_of(found.unit(first)),
                    found.time_of(found.unit(last - 1)),
                    _waiting_count(found, first, last, timestamp) if queue.topic == SCHEDULE_TOPIC else 0,
                )


def _waiting_count(queue: QueueView, first: int, last: int, timestamp: int) -> int:
    """Units of a delay level that are due after a time: their tagsCode says when."""
    count = 0
    for index in range(first, last, BLOCK_COUNT):
        units = queue.units(index, min(BLOCK_COUNT, last - index))
        count += int(np.count_nonzero((kinds_of(units) == Kind.UNIT) & (units["tagsCode"] > timestamp)))
    return count
