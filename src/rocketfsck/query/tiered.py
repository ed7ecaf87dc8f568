"""Messages that only tiered storage still has, for queries that find none in the store itself. Ref. 1.10.

    by queue offset    the unit of the queue's segments, which leads into the queue's own log
    by key             the items of every index segment, by the slot of the key's hash

Every queue of tiered storage is read as a store of its own: its log has the form of a commit log, its units
those of a consume queue. A message's offset is then its place in that log, and `file` says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rocketfsck.formats.dtypes import TIERED_COMPACTED_ITEM_DTYPE, Longs
from rocketfsck.formats.javatext import INT32_MIN, INT64_MAX, INT64_MIN, index_hash
from rocketfsck.formats.tiered import TIERED_COMPACTED_SLOT, TIERED_INDEX_HEADER
from rocketfsck.query import keys, places
from rocketfsck.query.answers import Answer, Found, Outcome
from rocketfsck.query.keys import Via
from rocketfsck.query.view import StoreView
from rocketfsck.reader.tiered import TieredQueue, heads_at, read_segment_header, tiered_queues
from rocketfsck.reader.units import StreamReader
from rocketfsck.scan.columns import Fault
from rocketfsck.scan.views.messages import MAX_BODY_SIZE, Message
from rocketfsck.store.model import ConsumeQueue, OtherKind, Store
from rocketfsck.store.reading import FileReader

VIA = "tiered"
"""The way to a message that tiered storage has."""
MAX_ITEMS = 1024
"""Items of one slot that are looked at, as a broker does."""


def queue_store(store: Store, queue: TieredQueue) -> Store:
    """A queue of tiered storage as a store: its log, its units, and nothing else."""
    units = ConsumeQueue(queue.topic, queue.queue_id, "file", queue.units)
    return replace(
        store, commitlog=queue.log, queues=(units,), ext_queues=(), indexes=(), others=(), configs=()
    )


def find_by_offset(
    store: Store,
    topic: str,
    queue_id: int,
    queue_offset: int,
    *,
    via: Via = "auto",
    view: StoreView | None = None,
) -> Answer:
    """The message at a queue offset: `query.places.find_by_offset`, else what tiered storage has."""
    answer = places.find_by_offset(store, topic, queue_id, queue_offset, via=via, view=view)
    return with_tiered_offset(store, answer, topic, queue_id, queue_offset)


def find_by_key(
    store: Store,
    topic: str,
    key: str,
    *,
    unique: bool = False,
    tag: bool = False,
    via: Via = "auto",
    max_body_size: int = MAX_BODY_SIZE,
    view: StoreView | None = None,
    **window: int,
) -> Answer:
    """The messages with a key: `query.keys.find_by_key`, and what only tiered storage has, whose index has no
    tags. `window` are `begin_timestamp`, `end_timestamp` (ms, half-open) and `max_count`."""
    answer = keys.find_by_key(
        store,
        topic,
        key,
        unique=unique,
        tag=tag,
        via=via,
        max_body_size=max_body_size,
        view=view,
        **window,
    )
    if tag:
        return answer
    return with_tiered_key(store, answer, topic, key, unique=unique, max_body_size=max_body_size, **window)


def with_tiered_offset(store: Store, answer: Answer, topic: str, queue_id: int, queue_offset: int) -> Answer:
    """The answer to a query by queue offset; where the store has no such message, tiered storage's.

    Raises StoreError when segments cannot be read.
    """
    if answer.outcome is Outcome.FOUND:
        return answer
    for queue in tiered_queues(store):
        if (queue.topic, queue.queue_id) == (topic, queue_id) and queue.log.files and queue.units.files:
            mine = places.find_by_offset(queue_store(store, queue), topic, queue_id, queue_offset)
            if mine.outcome is Outcome.FOUND:
                found = tuple(map(_from_tiered, mine.found))
                return replace(answer, outcome=Outcome.FOUND, found=found, why="")
    return answer


def with_tiered_key(
    store: Store,
    answer: Answer,
    topic: str,
    key: str,
    *,
    unique: bool = False,
    begin_timestamp: int = INT64_MIN,
    end_timestamp: int = INT64_MAX,
    max_count: int | None = None,
    max_body_size: int = MAX_BODY_SIZE,
) -> Answer:
    """The answer to a query by key, and the messages besides that tiered storage has. Timestamps are ms,
    half-open; `max_count` bounds the answer. Raises StoreError when segments cannot be read."""
    known = {(item.message.queue_id, item.message.queue_offset) for item in answer.found}
    further: list[Found] = []
    for queue in tiered_queues(store):
        if queue.topic != topic or not queue.log.files:
            continue
        with StreamReader(queue.log) as log:
            starts, _ = heads_at(log, np.unique(_places(store, queue, index_hash(topic, key))))
        with StoreView(queue_store(store, queue)) as view:
            for place in np.unique(starts).tolist():
                message = view.log.message_at(place, max_body_size=max_body_size)
                if not isinstance(message, Message) or (message.queue_id, message.queue_offset) in known:
                    continue
                words = [] if unique else message.keys
                if key not in (message.unique_key, *words):
                    continue
                if begin_timestamp <= message.store_timestamp < end_timestamp:
                    further.append(_from_tiered(view.found(message, place, VIA)))
    room = len(further) if max_count is None else max(max_count - len(answer.found), 0)
    if not further[:room]:
        return answer
    further.sort(key=lambda item: item.message.store_timestamp)
    found = (*further[len(further) - room :], *answer.found)
    return replace(answer, outcome=Outcome.FOUND, found=found, why="")


def _from_tiered(found: Found) -> Found:
    """The records of a segment go up to its very end; nothing in it comes from an earlier life."""
    message = replace(found.message, faults=found.message.faults & ~Fault.END_OF_FILE)
    return replace(found, message=message, live=True, via=(VIA,))


def _places(store: Store, queue: TieredQueue, key_hash: int) -> Longs:
    """Where the items of a hash say that records of a queue are."""
    found = [
        place
        for other in store.others
        if other.kind is OtherKind.TIERED_SEGMENT_INDEX
        for file in other.files
        for place in _places_in(file.location, queue.queue_id, key_hash)
    ]
    return np.array(found, np.int64)


def _places_in(location: str, queue_id: int, key_hash: int) -> Iterator[int]:
    with FileReader(location) as reader:
        shape = read_segment_header(reader).shape
        if shape is None:
            return
        start = TIERED_INDEX_HEADER.size + key_hash % shape.slot_count * TIERED_COMPACTED_SLOT.size
        slot = TIERED_COMPACTED_SLOT.parse(reader.read(start, TIERED_COMPACTED_SLOT.size))
        count = min(slot["length"] // shape.item_size, MAX_ITEMS)
        position = slot["position"]
        if count <= 0 or position < shape.items_start or position + count * shape.item_size > shape.end:
            return
        rows = np.frombuffer(reader.read(position, count * shape.item_size), TIERED_COMPACTED_ITEM_DTYPE)
    hashes = np.where(rows["hash"] == INT32_MIN, 0, rows["hash"])
    yield from rows["offset"][(hashes == key_hash) & (rows["queueId"] == queue_id)].tolist()


__all__ = ["VIA", "find_by_key", "find_by_offset", "queue_store", "with_tiered_key", "with_tiered_offset"]
