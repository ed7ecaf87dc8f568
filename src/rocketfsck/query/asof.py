"""What a store held at a time in the past, and what consumers could get of it then.

    the log up to the first message stored later  ->  the units that lead into it  ->  the queues of then

Messages that have expired since then are not there any more: each queue begins where it begins now. A message
of a delay level waits if it is due later than the time. Read are the first record of each file, one commit
log file, and units by binary search; of delay levels all units. Where a clock was set back, the first later
message counts. Reference 1.8, 2.11, 3.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rocketfsck.common.rows import Text
from rocketfsck.formats.timer import SCHEDULE_TOPIC
from rocketfsck.query.info.store import log_info
from rocketfsck.query.log import LogView
from rocketfsck.query.offsets import time_at
from rocketfsck.query.view import QueueView, StoreView
from rocketfsck.reader.units import BLOCK_COUNT, Kind, kinds_of
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.options import log_options
from rocketfsck.scan.queues import QueueTable


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
                    time_at(found, first),
                    time_at(found, last - 1),
                    _waiting_count(found, first, last, timestamp) if queue.topic == SCHEDULE_TOPIC else 0,
                )


def _waiting_count(queue: QueueView, first: int, last: int, timestamp: int) -> int:
    """Units of a delay level that are due after a time: their tagsCode says when."""
    count = 0
    for index in range(first, last, BLOCK_COUNT):
        units = queue.units(index, min(BLOCK_COUNT, last - index))
        count += int(np.count_nonzero((kinds_of(units) == Kind.UNIT) & (units["tagsCode"] > timestamp)))
    return count
