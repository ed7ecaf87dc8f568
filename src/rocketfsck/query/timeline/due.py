"""Events that are still to come: messages that wait for a timer, and those of delay levels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from rocketfsck.errors import FormatError
from rocketfsck.formats.configviews import delay_offsets
from rocketfsck.formats.delay import SCHEDULE_TOPIC, delay_level_of_queue
from rocketfsck.query.timeline.events import Event
from rocketfsck.query.timers import timed_messages
from rocketfsck.query.view import StoreView
from rocketfsck.reader.unitblocks import Kind, kinds_of, read_blocks
from rocketfsck.reader.units import UnitReader
from rocketfsck.store.model import Store

DUE_LIMIT = 10_000
"""Messages that are listed of the timers, and of each delay level."""


def due_events(store: Store) -> Iterator[Event]:
    """What waits, in the order of each source. Raises StoreError for files that cannot be read."""
    for message in timed_messages(store, max_count=DUE_LIMIT):
        at = message.deliver_timestamp or message.due_timestamp
        to = "" if message.topic is None else f" of {message.topic}"
        yield Event(
            at,
            "Scheduled Delivery",
            f"a message{to} waits on the timer wheel ({message.action.value})",
            "due",
            topic=message.topic,
            queue_id=message.queue_id,
            physical_offset=message.physical_offset,
        )
    yield from _delayed(store)


def _delayed(store: Store) -> Iterator[Event]:
    """Messages of delay levels that were not delivered, by their units: tagsCode is the time."""
    with StoreView(store) as view:
        try:
            value = view.config("delayOffset.json")
            delivered = {} if value is None else delay_offsets(value)
        except FormatError:
            delivered = {}
    for queue in store.queues:
        if queue.topic != SCHEDULE_TOPIC or queue.kind != "file":
            continue
        level = delay_level_of_queue(queue.queue_id)
        with UnitReader(queue) as reader:
            for at, offset in islice(_waiting(reader, delivered.get(level, 0)), DUE_LIMIT):
                text = f"a message of delay level {level} waits"
                yield Event(
                    at, "Scheduled Delivery", text, "due", None, SCHEDULE_TOPIC, queue.queue_id, offset
                )


def _waiting(reader: UnitReader, begin: int) -> Iterator[tuple[int, int]]:
    """(time, physical offset) of the units from a queue offset on, up to the first that is none."""
    for first, units in read_blocks(reader):
        kinds = kinds_of(units)
        bad = np.flatnonzero((kinds != Kind.UNIT) & (kinds != Kind.PRE_BLANK))
        end = int(bad[0]) if len(bad) else len(units)
        for row in range(max(begin - first, 0), end):
            if kinds[row] == Kind.UNIT and units["tagsCode"][row] > 0:
                yield int(units["tagsCode"][row]), int(units["offset"][row])
        if len(bad):
            return
