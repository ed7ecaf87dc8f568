"""Messages that wait for a timer: which, until when, for which topic. Reference 1.8, 2.13.

A unit of the timer log waits if it is due at the wheel's reading time (`config/timercheck`) or later; without
that file every unit counts. Its message is in the timer topic, with the topic that it is for as a property.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from rocketfsck.formats.javatext import parse_int32, parse_int64
from rocketfsck.formats.properties import REAL_QID, REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, UNIQ_KEY
from rocketfsck.formats.timer import MAGIC_DELETE, MAGIC_ROLL
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.timerfiles import read_progress, timer_log
from rocketfsck.reader.timers import TimerBlock, timer_units, unit_at
from rocketfsck.reader.units import StreamReader
from rocketfsck.store.model import Store


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


def timed_messages(
    store: Store, *, begin: int | None = None, end: int | None = None, max_count: int | None = None
) -> Iterator[TimedMessage]:
    """The messages that wait, in the order in which they are due.

    `begin` and `end` (ms, half-open) bound when they are due, `max_count` how many. Memory is 16 bytes for
    each. Raises StoreError for files that cannot be read.
    """
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
    if magic & MAGIC_ROLL:
        action = TimerAction.ROLL
    elif magic & MAGIC_DELETE:
        action = TimerAction.RECALL
    read = records.properties(offset, store.dialect.property_parser)
    if read is None:
        return TimedMessage(due, action, offset, size, pos)
    properties = read[1]
    return TimedMessage(
        due,
        action,
        offset,
        size,
        pos,
        parse_int64(properties.get(TIMER_OUT_MS, "")),
        properties.get(REAL_TOPIC),
        parse_int32(properties.get(REAL_QID, "")),
        properties.get(UNIQ_KEY),
        properties.get(TIMER_DEL_UNIQKEY),
    )
