"""Messages that wait to be delivered: which, until when, for which topic. Reference 1.8, 2.11, 2.13.

A unit of the timer log waits if it is due at the wheel's reading time (`config/timercheck`) or later; without
that file every unit counts. The unit's message is in the timer topic, with the topic that it is for as a
property.

A message of a delay level waits in its queue of SCHEDULE_TOPIC_XXXX from the level's offset on
(`config/delayOffset.json`); the unit's tagsCode is when it is due.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice

import numpy as np

from rocketfsck.errors import FormatError
from rocketfsck.formats import config, consumequeue, javatext, timer
from rocketfsck.formats.properties import REAL_QID, REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, UNIQ_KEY
from rocketfsck.query.view import StoreView
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.timers import TimerBlock, read_progress, timer_log, timer_units, unit_at
from rocketfsck.reader.units import Kind, StreamReader, Unit, UnitReader, kinds_of, read_blocks
from rocketfsck.store.model import ConsumeQueue, Store


class TimerAction(StrEnum):
    """What the broker does when a unit is due."""

    DELIVER = "deliver"  # put the message into its topic
    ROLL = "roll"  # put it on the wheel again: it is due later than the wheel reaches
    RECALL = "recall"  # take another message off the wheel


@dataclass(frozen=True, slots=True)
class TimedMessage:
    """One unit that waits, and its message; what is read off the message is None where it cannot be read.

    `due_timestamp` (ms) is when the broker takes it off the wheel, `deliver_timestamp` when the message is to
    be delivered: later for one that rolls. `recalled_key` is the unique key of the message that it recalls.
    `unit_pos` is the position of the unit in the timer log, or in the queue of the `delay_level`.
    """

    due_timestamp: int
    action: TimerAction
    physical_offset: int
    size: int
    unit_pos: int
    deliver_timestamp: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    unique_key: str | None = None
    recalled_key: str | None = None
    delay_level: int | None = None


def timed_messages(
    store: Store, *, begin: int | None = None, end: int | None = None, max_count: int | None = None
) -> Iterator[TimedMessage]:
    """The messages that wait for a timer or a delay level, in the order in which they are due.

    `begin` and `end` (ms, half-open) bound when they are due, `max_count` how many. Memory is 16 bytes for
    each timer. Raises StoreError for files that cannot be read.
    """
    wheel = wheel_messages(store, begin=begin, end=end, max_count=max_count)
    levels = (_of_level(store, waiting, begin, end) for waiting in delayed_units(store))
    yield from islice(heapq.merge(wheel, *levels, key=lambda message: message.due_timestamp), max_count)


def delayed_units(store: Store) -> Iterator[tuple[int, Iterator[Unit]]]:
    """The units that wait in each delay level, by level. Raises StoreError for files that cannot be read."""
    with StoreView(store) as view:
        try:
            value = view.config("delayOffset.json")
            delivered = {} if value is None else config.delay_offsets(value)
        except FormatError:
            delivered = {}
    for queue in store.queues:
        if queue.topic == timer.SCHEDULE_TOPIC and queue.kind == "file":
            level = timer.delay_level_of_queue(queue.queue_id)
            yield level, _waiting(queue, delivered.get(level, 0))


def _waiting(queue: ConsumeQueue, begin: int) -> Iterator[Unit]:
    """The units from a queue offset on, up to the first that is not one."""
    with UnitReader(queue) as reader:
        for first, units in read_blocks(reader):
            kinds = kinds_of(units)
            bad = np.flatnonzero((kinds != Kind.UNIT) & (kinds != Kind.PRE_BLANK))
            end = int(bad[0]) if len(bad) else len(units)
            for row in range(max(begin - first, 0), end):
                if kinds[row] == Kind.UNIT and units["tagsCode"][row] > 0:
                    yield Unit.of(first + row, units[row])
            if len(bad):
                return


def _of_level(
    store: Store, waiting: tuple[int, Iterator[Unit]], begin: int | None, end: int | None
) -> Iterator[TimedMessage]:
    level, units = waiting
    start = store.commitlog.start_offset or 0
    with LogReader(store.commitlog) as records:
        for unit in units:
            due = unit.tags_code
            if unit.physical_offset < start or due < (begin or 0) or (end is not None and due >= end):
                continue
            pos = unit.index * consumequeue.UNIT_SIZE
            message = TimedMessage(due, TimerAction.DELIVER, unit.physical_offset, unit.size, pos)
            yield replace(_with_record(message, records, store), delay_level=level)


def wheel_messages(
    store: Store, *, begin: int | None = None, end: int | None = None, max_count: int | None = None
) -> Iterator[TimedMessage]:
    """As `timed_messages`, those on the timer wheel."""
    log = timer_log(store)
    if log is None:
        return
    progress = read_progress(store)
    least = max(0 if progress is None else progress.read_timestamp, begin or 0)
    with StreamReader(log) as stream, LogReader(store.commitlog) as records:
        dues, places = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for block in timer_units(stream):
            if isinstance(block, TimerBlock):
                due = block.deliver_timestamp
                rows = np.flatnonzero((due >= least) & (due < end if end is not None else True))
                dues.append(due[rows])
                places.append(block.pos[rows])
        due, pos = np.concatenate(dues), np.concatenate(places)
        for row in np.argsort(due, kind="stable")[:max_count].tolist():
            yield _message(stream, records, int(pos[row]), store)


def _message(log: StreamReader, records: LogReader, pos: int, store: Store) -> TimedMessage:
    block = TimerBlock(np.array([pos]), unit_at(log, np.array([pos])))
    offset, size = int(block.physical_offset[0]), int(block.units["sizePy"][0])
    magic, due = int(block.units["magic"][0]), int(block.deliver_timestamp[0])
    action = TimerAction.DELIVER
    if magic & timer.MAGIC_ROLL:
        action = TimerAction.ROLL
    elif magic & timer.MAGIC_DELETE:
        action = TimerAction.RECALL
    return _with_record(TimedMessage(due, action, offset, size, pos), records, store)


def _with_record(message: TimedMessage, records: LogReader, store: Store) -> TimedMessage:
    """The message with what its record says, as it is where that cannot be read."""
    read = records.properties(message.physical_offset, store.dialect.property_parser)
    if read is None:
        return message
    properties = read[1]
    return replace(
        message,
        deliver_timestamp=javatext.parse_int64(properties.get(TIMER_OUT_MS, "")),
        topic=properties.get(REAL_TOPIC),
        queue_id=javatext.parse_int32(properties.get(REAL_QID, "")),
        unique_key=properties.get(UNIQ_KEY),
        recalled_key=properties.get(TIMER_DEL_UNIQKEY),
    )
