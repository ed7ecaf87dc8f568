"""Messages by their place in a queue, and places by time.

    queue offset -> unit -> record; where the queue does not tell, the log is scanned for the record itself
    time         -> the first message of the queue stored at that time or later (and the last one until then)

Reference 3.1, 3.7, 7.3.

Messages that only tiered storage still has, for queries that find none in the store itself. Ref. 1.10.

    by queue offset    the unit of the queue's segments, which leads into the queue's own log
    by key             the items of every index segment, by the slot of the key's hash

Every queue of tiered storage is read as a store of its own: its log has the form of a commit log, its units
those of a consume queue. A message's offset is then its place in that log, and `file` says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import TIERED_COMPACTED_ITEM_DTYPE, Longs
from rocketfsck.formats.javatext import INT32_MIN, INT64_MAX, INT64_MIN, index_hash
from rocketfsck.formats.magic import is_in_consume_queue
from rocketfsck.formats.tiered import TIERED_COMPACTED_SLOT, TIERED_INDEX_HEADER
from rocketfsck.query import keys
from rocketfsck.query.answers import STALE, Answer, Found, Lead, Outcome, ScanStep, Trace
from rocketfsck.query.content.evaluate import scan_log
from rocketfsck.query.keys import Via
from rocketfsck.query.view import QueueView, StoreView, places_of
from rocketfsck.reader.tiered import TieredQueue, heads_at, read_segment_header, tiered_queues
from rocketfsck.reader.units import StreamReader
from rocketfsck.scan.columns import Fault, RecordBatch
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.views.messages import MAX_BODY_SIZE, Message, MessageFilter
from rocketfsck.store.model import ConsumeQueue, OtherKind, Store
from rocketfsck.store.reading import FileReader

PROBE_LIMIT = 4096
"""As many units that lead to no record are passed over in search of one that does."""


def find_by_offset(
    store: Store,
    topic: str,
    queue_id: int,
    queue_offset: int,
    *,
    via: Via = "auto",
    view: StoreView | None = None,
) -> Answer:
    """The message at a queue offset.

    The consume queue is what "index" means here; "auto" scans the log where the queue does not lead to the
    message although the offset should be there. UNKNOWN_TOPIC where the store knows no such topic. Raises
    StoreError when the log or the queue cannot be read.
    """
    if view is None:
        with StoreView(store) as own:
            return find_by_offset(store, topic, queue_id, queue_offset, via=via, view=own)
    trace = Trace()
    leads: list[Lead] = []
    found: dict[int, Found] = {}
    queue = view.queue(topic, queue_id)
    if via != "scan" and queue is not None:
        _by_unit(view, queue, queue_offset, trace, leads, found)
    elif via != "scan":
        trace.notes.append(f"the store has no consume queue {queue_id} of topic {topic}")
    by_unit = set(found)
    expired = queue is not None and not found and queue_offset < queue.min_offset
    if via in ("scan", "both") or (via == "auto" and not found and not expired):
        reason = "asked for" if via != "auto" else "the consume queue does not lead to it"
        _by_scan(view, (topic, queue_id, queue_offset), reason, trace, found)
    in_order = tuple(found[offset] for offset in sorted(found))
    hidden = tuple(sorted(found.keys() - by_unit)) if via in ("auto", "both") else ()
    if in_order:
        return Answer(Outcome.FOUND, in_order, "", hidden, tuple(leads), trace)
    unknown = view.why_no_topic(topic)
    if unknown is not None:
        return Answer(Outcome.UNKNOWN_TOPIC, (), unknown, (), tuple(leads), trace)
    why = f"queue {queue_id} of topic {topic} has no message at queue offset {queue_offset}"
    if queue is not None:
        why += f"; the queue has offsets {queue.min_offset} to {queue.max_offset}, half-open"
    return Answer(Outcome.NOT_FOUND, (), why, (), tuple(leads), trace)


def _by_unit(
    view: StoreView,
    queue: QueueView,
    queue_offset: int,
    trace: Trace,
    leads: list[Lead],
    found: dict[int, Found],
) -> None:
    unit = queue.any_unit_of(queue_offset)
    if unit is None:
        trace.notes.append("the consume queue has no unit for it")
        return
    pos = unit.index * queue.queue.unit_size
    place = queue.file_at(pos)
    assert place is not None
    file, pos = queue.files[place], pos - queue.starts[place]
    source = f"{file.relative} at byte {pos}"
    trace.notes.append(
        f"{source}: offset {unit.physical_offset}, size {unit.size}, tagsCode {unit.tags_code}"
    )
    message = view.log.message_at(unit.physical_offset)
    if not isinstance(message, Message):
        gone = unit.physical_offset < view.log.min_offset
        why = "the record has expired" if gone else "no record begins there"
        leads.append(Lead(unit.physical_offset, source, why))
    elif not queue.serves(unit, message):
        own = "/".join(map(str, places_of(message)[0]))
        leads.append(Lead(unit.physical_offset, source, f"the record there belongs to {own}"))
    elif view.liveness(unit.physical_offset) is False:
        leads.append(Lead(unit.physical_offset, source, STALE))
    else:
        found[unit.physical_offset] = view.found(message, unit.physical_offset, "unit")


def _by_scan(
    view: StoreView, place: tuple[str, int, int], why: str, trace: Trace, found: dict[int, Found]
) -> None:
    count = 0
    for offset, message in scan_log(view.log, _QueueFilter(*place)):
        if offset not in found:
            found[offset] = view.found(message, offset, "scan")
            count += 1
    trace.scan_steps.append(ScanStep(0, view.log.end_offset, why, count))


class _QueueFilter:
    """Records that belong to one place of a queue, as their own or as a further one."""

    def __init__(self, topic: str, queue_id: int, queue_offset: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self._own = MessageFilter(topic=topic, queue_id=queue_id)

    def rows(self, batch: RecordBatch, table: QueueTable, base_offset: int) -> NDArray[np.intp]:
        own = self._own.rows(batch, table, base_offset)
        low = batch["inner_base"][own]
        high = low + np.maximum(batch["batch_size"][own], 1)
        own = own[(low <= self.queue_offset) & (self.queue_offset < high)]
        further = batch["dispatch_record"][batch["dispatch_offset"] == self.queue_offset]
        rows: NDArray[np.intp] = np.union1d(own, further.astype(np.intp))
        return rows

    def accepts(self, message: Message) -> bool:
        if not is_in_consume_queue(message.sys_flag):
            return False
        first, *others = places_of(message)
        if (self.topic, self.queue_id, self.queue_offset) in others:
            return True
        return first[:2] == (self.topic, self.queue_id)


@dataclass(frozen=True, slots=True)
class TimeAnswer:
    """The places of a time (ms) in a queue. `lower` is the first queue offset stored at that time or later,
    `upper` the last one stored at that time or earlier; `min_offset` and `max_offset` bound the queue.

    `lower` is `max_offset` where nothing is that late, `upper` None where nothing is that early. The times
    are the records' own; `gone_count` units led to no record.
    """

    lower: int
    upper: int | None
    lower_timestamp: int | None
    upper_timestamp: int | None
    min_offset: int
    max_offset: int
    gone_count: int
    outcome: Outcome = Outcome.FOUND
    why: str = ""


def find_by_time(
    store: Store, topic: str, queue_id: int, timestamp: int, *, view: StoreView | None = None
) -> TimeAnswer:
    """Where a time is in a queue, by binary search over the storeTimestamps of its records.

    Trusts that times rise along the queue, as all searches for a time do; where a broker's clock went back
    the answer is one of several. UNKNOWN_TOPIC for a topic that the store does not know, NOT_FOUND for a
    queue that it does not have. Raises StoreError when the log or the queue cannot be read.
    """
    if view is None:
        with StoreView(store) as own:
            return find_by_time(store, topic, queue_id, timestamp, view=own)
    queue = view.queue(topic, queue_id)
    if queue is None:
        unknown = view.why_no_topic(topic)
        outcome = Outcome.UNKNOWN_TOPIC if unknown else Outcome.NOT_FOUND
        why = unknown or f"the store has no consume queue {queue_id} of topic {topic}"
        return TimeAnswer(0, None, None, None, 0, 0, 0, outcome, why)
    search = _TimeSearch(queue)
    low = search.first(lambda stored: stored >= timestamp)
    behind = search.first(lambda stored: stored > timestamp)
    upper = behind - 1 if behind > queue.min_index else None
    return TimeAnswer(
        queue.queue_offset_at(low),
        None if upper is None else queue.queue_offset_at(upper),
        search.time(low) if low < queue.end_index else None,
        None if upper is None else search.time(upper),
        queue.min_offset,
        queue.max_offset,
        search.gone_count,
    )


class _TimeSearch:
    """Binary search by time over the units of a queue that lead to records."""

    def __init__(self, queue: QueueView) -> None:
        self.queue = queue
        self.gone_count = 0
        self._times: dict[int, int | None] = {}

    def time(self, index: int) -> int | None:
        """The storeTimestamp of a unit's record, None where there is none."""
        if index not in self._times:
            self._times[index] = self.queue.time_of(self.queue.unit(index))
            self.gone_count += self._times[index] is None
        return self._times[index]

    def first(self, is_late: Callable[[int], bool]) -> int:
        """The first index whose record is late; a unit without a record counts like the next one with."""
        low, high = self.queue.min_index, self.queue.end_index
        while low < high:
            middle = (low + high) // 2
            probe = middle
            while probe < high and probe < middle + PROBE_LIMIT and self.time(probe) is None:
                probe += 1
            stored = self.time(probe) if probe < high else None
            if stored is None or is_late(stored):
                high = middle
            else:
                low = probe + 1
        return low


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
        store, topic, key, unique=unique, tag=tag, via=via, max_body_size=max_body_size, view=view, **window
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
            mine = find_by_offset(queue_store(store, queue), topic, queue_id, queue_offset)
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
