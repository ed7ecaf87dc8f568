"""Which records go into a store that is cut out of another, and which of its queues have none there.

Of each queue a run of queue offsets is taken: from the first message of the time window to the last one, with
those between them whose storeTimestamp is outside the window, as after a step of the broker's clock. A 5.5.0
broker passes over a hole of a packed log, but a hole looks like a loss to everyone else.

The log keeps records that no queue has any more: of topics that were deleted, or whose number a broker has
given out again. The consume queues tell them from the others. What comes after the last unit of a queue is
dispatched by the next start. Reference 2.13, 3.8, 6.5.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rocketfsck.common.wording import visible
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.consumequeue import UNIT_SIZE
from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.query.view import QueueView, StoreView
from rocketfsck.reader.units import BLOCK_COUNT, Kind, is_light_queue, kinds_of
from rocketfsck.repair.build.checkpoint import last_in_queues
from rocketfsck.repair.carve.carve import CarvedRecords
from rocketfsck.repair.convert.model import QueueLeftOut
from rocketfsck.repair.log.edit import read_log_end
from rocketfsck.repair.salvage.choose import takes_queue_offset
from rocketfsck.repair.salvage.ledger import QueueAccount
from rocketfsck.scan.spans import among, group_bounds
from rocketfsck.store.model import Store
from rocketfsck.verify.store.offsets import RETRY_PREFIX, is_system_topic

MAX_QUEUE_OFFSET = ((1 << 63) - 1) // UNIT_SIZE
"""The file of a later unit has no name."""

QueueBounds = dict[tuple[str, int], tuple[int, int]]
"""The first queue offset, and that after the last one, by topic and queueId."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The messages that are wanted: of these topics, empty for all but those of RocketMQ itself and those of
    messages to be retried; of one queue of a topic, None for all; with a storeTimestamp (ms) from `begin` on,
    before `end`, None for any."""

    topics: frozenset[str] = frozenset()
    queue_id: int | None = None
    begin: int | None = None
    end: int | None = None

    def has_topic(self, topic: str) -> bool:
        """Whether messages of a topic are wanted."""
        if self.topics:
            return topic in self.topics
        return not is_system_topic(topic) and not topic.startswith(RETRY_PREFIX)

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """Whether messages of a queue are wanted."""
        return self.has_topic(topic) and self.queue_id in (None, queue_id)


def served_rows(store: Store, found: CarvedRecords) -> Flags:
    """The records that consumers get, now or after a start, and those that have no place in a queue.

    `store` has the queues of its databases. Raises StoreError where a queue leads elsewhere than to its
    records, and for what cannot be read.
    """
    taking = takes_queue_offset(found)
    flags = ~taking
    rows = np.flatnonzero(taking)
    rows = rows[np.argsort(found["queue_index"][rows], kind="stable")]
    with StoreView(store) as view:
        dispatched = _dispatched_offset(store)
        for low, high in pairwise(group_bounds(found["queue_index"][rows]).tolist()):
            own = rows[low:high]
            topic, queue_id = found.table.names[int(found["queue_index"][own[0]])]
            queue = view.queue(os.fsdecode(topic), queue_id)
            offsets = found["physical_offset"][own]
            reached = dispatched
            if queue is not None:
                for units in _led_to(queue, offsets, found["queue_offset"][own]):
                    flags[own[units]] = True
                    reached = int(offsets[units[-1]])
                queue.close()
            flags[own] |= offsets > reached
    return flags


def _dispatched_offset(store: Store) -> int:
    """The physical offset of the last record that has a unit; -1 for none."""
    last = last_in_queues(store, read_log_end(store))
    return -1 if last is None else last.physical_offset


def _led_to(queue: QueueView, physical: Longs, queue_offsets: Longs) -> Iterator[Longs]:
    """Block by block the records, by their number among those of the queue, that the units of it lead to."""
    is_batch = queue.queue.kind == "batch"
    for first in range(queue.min_index, queue.end_index, BLOCK_COUNT):
        units = queue.units(first, min(BLOCK_COUNT, queue.end_index - first))
        leading = np.flatnonzero(kinds_of(units) == Kind.UNIT)
        offsets = units["offset"][leading].astype(np.int64)
        numbers = units["msgBaseOffset"][leading].astype(np.int64) if is_batch else first + leading
        rows = np.searchsorted(physical, offsets)
        rows[rows == len(physical)] = 0
        wrong = np.flatnonzero(~among(offsets, physical) | (queue_offsets[rows] != numbers))
        if len(wrong):
            text = f"has a unit at queue offset {numbers[wrong[0]]} of a record with another place"
            raise StoreError(text, path=str(queue.files[0].path), offset=int(offsets[wrong[0]]))
        if len(rows):
            yield rows


def rows_between(found: CarvedRecords, wanted: Wanted) -> tuple[Flags, int]:
    """The rows of the time window, each queue without holes; and how many of them are outside the window."""
    inside = np.ones(len(found), np.bool_)
    if wanted.begin is not None:
        inside &= found["store_timestamp"] >= wanted.begin
    if wanted.end is not None:
        inside &= found["store_timestamp"] < wanted.end
    own = takes_queue_offset(found)
    queue, offset = found["queue_index"], found["queue_offset"]
    bounds = np.iinfo(np.int64)
    first = np.full(len(found.table.names), bounds.max, np.int64)
    last = np.full(len(found.table.names), bounds.min, np.int64)
    within = inside & own
    np.minimum.at(first, queue[within], offset[within])
    np.maximum.at(last, queue[within], offset[within])
    flags = np.where(own, (offset >= first[queue]) & (offset <= last[queue]), inside)
    return flags, int(np.count_nonzero(flags & ~inside))


def light_bounds(store: Store, found: CarvedRecords) -> QueueBounds:
    """The light queues that list the records taken, each from its first such unit to its last.

    Raises UsageError for one that lists another message between them.
    """
    bounds: QueueBounds = {}
    with StoreView(store) as view:
        for listing in filter(is_light_queue, store.queues):
            queue = view.queue(listing.topic, listing.queue_id)
            assert queue is not None
            low, high, count = queue.end_index, queue.min_index, 0
            for first, offsets in _unit_offsets(queue):
                taken = first + np.flatnonzero(among(offsets, found["physical_offset"]))
                if len(taken):
                    low, high, count = min(low, int(taken[0])), int(taken[-1]) + 1, count + len(taken)
            queue.close()
            if count and count < high - low:
                text = f"the light queue {visible(listing.topic)} lists other messages between those wanted"
                raise UsageError(f"{text}: take all topics whose messages it lists, with all their queues")
            if count:
                bounds[listing.topic, listing.queue_id] = low, high
    return bounds


def _unit_offsets(queue: QueueView) -> Iterator[tuple[int, Longs]]:
    """The index of the first unit of each block, and where the units of it lead."""
    for first in range(queue.min_index, queue.end_index, BLOCK_COUNT):
        units = queue.units(first, min(BLOCK_COUNT, queue.end_index - first))
        yield first, units["offset"].astype(np.int64)


def queue_bounds(queues: Iterable[QueueAccount]) -> QueueBounds:
    """The bounds of the queues that records are taken of."""
    return {
        (queue.topic, queue.queue_id): (queue.first_queue_offset, queue.end_queue_offset) for queue in queues
    }


def queues_left_out(
    store: Store, is_wanted: Callable[[str, int], bool], taken: QueueBounds
) -> Iterator[QueueLeftOut]:
    """The wanted queues without a record in the new store, but for those that never had one.

    A database knows the last queue offset of a queue whose rows have all expired. Raises StoreError where no
    queue can end.
    """
    ends = {
        name: queue.greatest[0] + 1
        for database in store.lifted.queues.values()
        for name, queue in database.bounds.items()
        if queue.greatest is not None
    }
    with StoreView(store) as view:
        for name in sorted({(queue.topic, queue.queue_id) for queue in store.queues} | ends.keys()):
            if name in taken or not is_wanted(*name):
                continue
            queue, end = view.queue(*name), ends.get(name, 0)
            if queue is not None:
                end = max(end, queue.max_offset)
                queue.close()
            if end > MAX_QUEUE_OFFSET:
                raise StoreError(f"queue {name[1]} of {visible(name[0])} cannot end at queue offset {end}")
            if end > 0:
                yield QueueLeftOut(*name, end)


def prove_bounds(made: Store, bounds: QueueBounds) -> None:
    """Raise StoreError unless each queue of a store begins and ends at these queue offsets."""
    with StoreView(made) as view:
        for (topic, queue_id), (first, end) in bounds.items():
            queue = view.queue(topic, queue_id)
            if queue is None or (queue.min_offset, queue.max_offset) != (first, end):
                text = f"queue {queue_id} of {visible(topic)} cannot have the queue offsets {first} to {end}"
                raise StoreError(f"{text}: its broker has numbered it in another way than its records say")
            queue.close()
