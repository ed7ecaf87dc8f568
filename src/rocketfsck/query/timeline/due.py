"""Events that are still to come: messages that wait for a timer, and those of delay levels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rocketfsck.formats.delay import SCHEDULE_TOPIC, delay_queue_id
from rocketfsck.query.timeline.events import Event
from rocketfsck.query.timers import delayed_units, wheel_messages
from rocketfsck.store.model import Store

DUE_LIMIT = 10_000
"""Messages that are listed of the timers, and of each delay level."""


def due_events(store: Store) -> Iterator[Event]:
    """What waits, in the order of each source. Raises StoreError for files that cannot be read."""
    for message in wheel_messages(store, max_count=DUE_LIMIT):
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
    for level, units in delayed_units(store):
        for unit in islice(units, DUE_LIMIT):
            yield Event(
                unit.tags_code,
                "Scheduled Delivery",
                f"a message of delay level {level} waits",
                "due",
                topic=SCHEDULE_TOPIC,
                queue_id=delay_queue_id(level),
                physical_offset=unit.physical_offset,
            )
