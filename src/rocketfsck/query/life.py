"""The life of one message: every record that is it, in whatever topic, and what happened to it.

    born -> half message -> committed (or not)          RMQ_SYS_TRANS_HALF_TOPIC, its op message, sysFlag 0x8
         -> delayed -> delivered                        SCHEDULE_TOPIC_XXXX, rmq_sys_wheel_timer
         -> stored -> consumed by groups                consumerOffset.json
         -> to be retried -> dead letter                %RETRY%, %DLQ%
         -> popped, acknowledged                        rmq_sys_REVIVE_LOG_*

All records of one message share its UNIQ_KEY; op messages and pop check points name its queue offset in their
bodies. Reference 2.10, 2.11, 7.2, 8, appendix C.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import config, indexfile, javatext, magic, timer
from rocketfsck.formats.properties import HALF_TOPIC, OP_TOPIC
from rocketfsck.query.answers import Answer, Found, Lead, Outcome, Trace, UnitState
from rocketfsck.query.ids import find_by_id, find_unique_anywhere
from rocketfsck.query.keys import Via
from rocketfsck.query.view import StoreView
from rocketfsck.reader.index import IndexReader
from rocketfsck.scan.views.messages import Message
from rocketfsck.store.model import Store

CHECKED_OUT_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
REVIVE_PREFIX = "rmq_sys_REVIVE_LOG_"
RETRY_PREFIX, DLQ_PREFIX = "%RETRY%", "%DLQ%"

_SYSTEM_TOPICS = frozenset({timer.SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC, timer.TIMER_TOPIC})

FOLLOW_LIMIT = 100_000
"""As many units of an op or revive queue behind a message are looked at."""
BODY_LIMIT = 1 << 20
CHAIN_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """An index entry that points at a record: the key it was put for, the file, the slot, its number."""

    key: str
    file: str
    slot: int
    entry: int


@dataclass(frozen=True, slots=True)
class LifeEvent:
    """One thing that happened. `kind` is a word for programs, `text` the sentence.

    `timestamp` in ms is None for what the files say without a time. `offset` is the physical offset of the
    record that tells of it, or that it is said of.
    """

    timestamp: int | None
    kind: str
    text: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Life:
    """`records` are all records of the message in the log's order, `index` the entries of each by its offset,
    `events` the timeline. `outcome` and `why` are as in `Answer`."""

    outcome: Outcome
    why: str
    unique_key: str | None
    records: tuple[Found, ...]
    index: dict[int, tuple[IndexPlace, ...]]
    events: tuple[LifeEvent, ...]


def message_life(
    store: Store,
    text: str,
    *,
    via: Via = "auto",
    view: StoreView | None = None,
) -> Life:
    """What became of the message with this offset id or unique key.

    `via` is how the other records of the message are looked for. Raises StoreError when the log cannot be
    read.
    """
    if view is None:
        with StoreView(store) as own:
            return message_life(store, text, via=via, view=own)
    answer = _first(view, text, via)
    if answer.outcome is not Outcome.FOUND:
        return Life(answer.outcome, answer.why, None, answer.found, {}, ())
    records = {item.offset: item for item in answer.found}
    unique_key = answer.found[0].message.unique_key
    if unique_key is not None and unique_key != text:
        others = find_unique_anywhere(view, unique_key, via, Trace(), [])
        records.update((item.offset, item) for item in others)
    in_order = tuple(records[offset] for offset in sorted(records))
    index = {item.offset: _index_places(view, item) for item in in_order}
    events = sorted(_events(view, in_order), key=_moment)
    return Life(Outcome.FOUND, "", unique_key, in_order, index, tuple(events))


def _moment(event: LifeEvent) -> tuple[bool, int, int]:
    """Sorts events by time, those without one last."""
    return event.timestamp is None, event.timestamp or 0, -1 if event.offset is None else event.offset


def _first(view: StoreView, text: str, via: Via) -> Answer:
    try:
        return find_by_id(view.store, text, via=via, view=view)
    except FormatError:
        leads: list[Lead] = []
        found = find_unique_anywhere(view, text, via, Trace(), leads)
    if found:
        return Answer(Outcome.FOUND, found)
    return Answer(Outcome.NOT_FOUND, (), f"no message has the unique key {text}", leads=tuple(leads))


def _index_places(view: StoreView, found: Found) -> tuple[IndexPlace, ...]:
    """The index entries of a record's keys that point at it."""
    message = found.message
    if not magic.is_indexed(message.sys_flag):
        return ()
    keys = dict.fromkeys([*([message.unique_key] if message.unique_key else []), *message.keys])
    places = []
    for file in view.store.indexes:
        try:
            with IndexReader(file, view.store.geometry) as index:
                for key in keys:
                    key_hash = javatext.index_hash(message.topic, key)
                    for steps, entry in enumerate(index.chain(key_hash)):
                        if isinstance(entry, str) or steps > CHAIN_LIMIT:
                            break
                        if (entry.key_hash, entry.physical_offset) == (key_hash, found.offset):
                            slot = indexfile.slot_of(key_hash, index.slot_count)
                            places.append(IndexPlace(key, file.relative, slot, entry.number))
        except StoreError:
            continue
    return tuple(places)


def _events(view: StoreView, records: tuple[Found, ...]) -> Iterator[LifeEvent]:
    first = records[0].message
    yield LifeEvent(first.born_timestamp, "born", f"created by the producer at {first.born_host}")
    for found in records:
        yield LifeEvent(found.message.store_timestamp, *_role(found, records), found.offset)
        yield from _due(view, found)
        yield from _consumed(view, found)
        if found.message.topic == HALF_TOPIC:
            yield from _completed(view, found)
        yield from _popped(view, found)
    kinds = {magic.transaction_type(found.message.sys_flag) for found in records}
    for found in records:
        is_half = found.message.topic == HALF_TOPIC and magic.TRANSACTION_COMMIT not in kinds
        if is_half and _op_of(view, found) is None:
            text = "neither committed nor rolled back up to the end of the log"
            yield LifeEvent(None, "pending", text, found.offset)


def _role(found: Found, records: tuple[Found, ...]) -> tuple[str, str]:
    """What a record is to the message, as a word and a sentence."""
    message = found.message
    properties = message.properties or {}
    place = f"topic {message.topic} queue {message.queue_id} at queue offset {message.queue_offset}"
    real = f"for topic {properties.get('REAL_TOPIC', '?')} queue {properties.get('REAL_QID', '?')}"
    if message.topic == HALF_TOPIC:
        return "half", f"stored as a half message {real}, at queue offset {message.queue_offset}"
    if message.topic == timer.SCHEDULE_TOPIC:
        return "delayed", f"delayed with level {properties.get('DELAY', '?')} {real}"
    if message.topic == timer.TIMER_TOPIC:
        return "timer", f"put on the timer wheel {real}"
    if message.topic == CHECKED_OUT_TOPIC:
        return "given-up", "given up after too many checks of its transaction"
    if message.topic.startswith(DLQ_PREFIX):
        return "dead", f"dead letter of group {message.topic.removeprefix(DLQ_PREFIX)}"
    if message.topic.startswith(RETRY_PREFIX):
        group = message.topic.removeprefix(RETRY_PREFIX)
        return "retry", f"to be consumed again by group {group}, retry {message.reconsume_times}"
    if magic.transaction_type(message.sys_flag) == magic.TRANSACTION_COMMIT:
        half = message.prepared_transaction_offset
        return "committed", f"committed into {place}; its half message is at {half}"
    kind = magic.TRANSACTION_NAMES[magic.transaction_type(message.sys_flag)]
    if not magic.is_in_consume_queue(message.sys_flag):
        return kind, f"stored in topic {message.topic}, {kind}: in no queue"
    if any(_waited_for(other, found) for other in records):
        return "delivered", f"delivered into {place}"
    return "stored", f"stored in {place}"


def _waited_for(other: Found, found: Found) -> bool:
    """Whether `other` is the record that waited until `found` was due."""
    if other.message.topic not in (timer.SCHEDULE_TOPIC, timer.TIMER_TOPIC) or other.offset >= found.offset:
        return False
    return (other.message.properties or {}).get("REAL_TOPIC") == found.message.topic


def _due(view: StoreView, found: Found) -> Iterator[LifeEvent]:
    message = found.message
    properties = message.properties or {}
    if message.topic == timer.SCHEDULE_TOPIC:
        unit = found.queues[0].unit
        level = javatext.parse_int32(properties.get("DELAY", "")) or 0
        if unit is not None and found.queues[0].state is UnitState.AGREES:
            yield LifeEvent(unit.tags_code, "due", "due for delivery", found.offset)
        elif level > 0:
            levels = timer.parse_delay_levels(view.store.delay_levels)
            due = timer.deliver_timestamp(level, message.store_timestamp, levels)
            yield LifeEvent(due, "due", "due for delivery by its delay level", found.offset)
    elif message.topic == timer.TIMER_TOPIC:
        timer_due = javatext.parse_int64(properties.get("TIMER_OUT_MS", ""))
        if timer_due is not None:
            yield LifeEvent(timer_due, "due", "due for delivery", found.offset)


def _consumed(view: StoreView, found: Found) -> Iterator[LifeEvent]:
    """Groups that are past the record, and those that are not yet."""
    if found.message.topic in _SYSTEM_TOPICS:
        return
    value = view.config("consumerOffset.json")
    if value is None:
        return
    try:
        table = config.consumer_offsets(value)
    except FormatError:
        return
    for place in found.queues[:1]:
        for name, offsets in table.items():
            topic, group = config.split_topic_group(name) or (name, "")
            if topic == place.topic and place.queue_id in offsets:
                offset = offsets[place.queue_id]
                past = offset > place.queue_offset
                verb = "has passed" if past else "has not reached"
                text = f"group {group} {verb} it, at queue offset {offset}"
                kind = "consumed" if past else "not-consumed"
                yield LifeEvent(None, kind, text, found.offset)


def _following(view: StoreView, topic: str, queue_id: int, offset: int) -> Iterator[tuple[int, Message]]:
    """The messages of a queue that come after a physical offset, at most FOLLOW_LIMIT."""
    queue = view.queue(topic, queue_id)
    if queue is None:
        return
    start = queue.first_index_at(offset)
    for index in range(start, min(queue.end_index, start + FOLLOW_LIMIT)):
        unit = queue.unit(index)
        if unit is not None:
            message = view.log.message_at(unit.physical_offset, max_body_size=BODY_LIMIT)
            if isinstance(message, Message):
                yield unit.physical_offset, message


def _op_of(view: StoreView, half: Found) -> tuple[int, Message] | None:
    """The op message that completes a half message: its body lists queue offsets of half messages."""
    for offset, message in _following(view, OP_TOPIC, half.message.queue_id, half.offset):
        words = javatext.java_decode(message.body or b"").split(",")
        if str(half.message.queue_offset) in (word.strip() for word in words):
            return offset, message
    return None


def _completed(view: StoreView, half: Found) -> Iterator[LifeEvent]:
    found = _op_of(view, half)
    if found is not None:
        offset, message = found
        text = "the half message is finished: committed, rolled back or given up"
        yield LifeEvent(message.store_timestamp, "op", text, offset)


def _popped(view: StoreView, found: Found) -> Iterator[LifeEvent]:
    """Pop check points and acknowledgements that name the record's place."""
    place = found.queues[0]
    topics = [topic for topic in view.topics if topic.startswith(REVIVE_PREFIX)]
    for queue in view.store.queues:
        if queue.topic not in topics:
            continue
        for offset, message in _following(view, queue.topic, queue.queue_id, found.offset):
            said = _pop_words(message)
            if (said.get("t"), said.get("q")) != (place.topic, place.queue_id):
                continue
            if message.tags == "ck" and _covers(said, place.queue_offset):
                text = f"popped by group {said.get('c')}, invisible for {said.get('it')} ms"
                yield LifeEvent(message.store_timestamp, "popped", text, offset)
            elif message.tags in ("ack", "bAck") and _is_acked(said, place.queue_offset):
                text = f"acknowledged by group {said.get('c')}"
                yield LifeEvent(message.store_timestamp, "acked", text, offset)


def _pop_words(message: Message) -> dict[str, object]:
    """The JSON of a check point or acknowledgement; empty for any other body."""
    try:
        value = json.loads(message.body or b"")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _covers(said: dict[str, object], queue_offset: int) -> bool:
    start = said.get("so")
    if not isinstance(start, int):
        return False
    differences = said.get("d")
    if isinstance(differences, list) and differences:
        return queue_offset - start in differences
    count = said.get("n")
    return start <= queue_offset < start + (count if isinstance(count, int) else 1)


def _is_acked(said: dict[str, object], queue_offset: int) -> bool:
    several = said.get("aol")
    return said.get("ao") == queue_offset or (isinstance(several, list) and queue_offset in several)
