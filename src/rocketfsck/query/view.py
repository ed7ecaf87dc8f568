"""The store as queries see it: its log, its queues, its topics; and what is to be said of one record.

A context manager that holds a few files open. Reference 7, 8.
"""

from __future__ import annotations

from functools import cached_property

from rocketfsck.formats.magic import is_in_consume_queue
from rocketfsck.query.answers import Dispatched, Found, UnitState
from rocketfsck.query.log import LogView
from rocketfsck.query.queues import QueueView, places_of
from rocketfsck.reader.configs import loaded_config, loaded_topics
from rocketfsck.scan.views.messages import Message
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.store.reading import Closing

WALK_LIMIT = 256 << 10
"""A file with more data than this is not walked just to tell whether one record in it is live."""
_SOUND = (UnitState.AGREES, UnitState.EXPIRED)


class StoreView(Closing):
    """What all queries share.

    `walk_limit` (bytes) bounds what is read of a file to tell stale records from live ones; with `walks`
    larger files are walked, too, where nothing less tells.
    """

    def __init__(self, store: Store, *, walk_limit: int = WALK_LIMIT, walks: bool = False) -> None:
        self.store = store
        self.log = LogView(store)
        self.walk_limit = walk_limit
        self.walks = walks
        self._queues: dict[tuple[str, int], QueueView | None] = {}

    def close(self) -> None:
        self.log.close()
        for view in self._queues.values():
            if view is not None:
                view.close()

    @cached_property
    def _by_name(self) -> dict[tuple[str, int], ConsumeQueue]:
        chosen: dict[tuple[str, int], ConsumeQueue] = {}
        for queue in self.store.queues:
            other = chosen.get((queue.topic, queue.queue_id))
            if other is None or queue.mapped_files.size > other.mapped_files.size:
                chosen[queue.topic, queue.queue_id] = queue
        return chosen

    def queue(self, topic: str, queue_id: int) -> QueueView | None:
        """The consume queue of a topic and queueId; None if the store has none."""
        name = (topic, queue_id)
        if name not in self._queues:
            found = self._by_name.get(name)
            self._queues[name] = None if found is None else QueueView(found, self.log)
        return self._queues[name]

    @cached_property
    def topics(self) -> dict[str, set[str]]:
        """Every topic that the store knows, with what knows it: "consumequeue", "topics.json"."""
        topics: dict[str, set[str]] = {}
        for queue in self.store.queues:
            topics.setdefault(queue.topic, set()).add("consumequeue")
        for name in self.configured_topics:
            topics.setdefault(name, set()).add("topics.json")
        return topics

    @cached_property
    def configured_topics(self) -> tuple[str, ...]:
        """The topics of config/topics.json; none where it is missing or cannot be used."""
        return tuple(loaded_topics(self.store) or ())

    def config(self, name: str) -> object | None:
        """The value in a file of config/, or in its .bak as a broker takes it; None where neither helps."""
        return loaded_config(self.store, name)

    def found(self, message: Message, offset: int, *via: str) -> Found:
        """A record with its places in queues."""
        return Found(message, offset, self.liveness(offset), tuple(self._dispatched(message, offset)), via)

    def liveness(self, offset: int) -> bool | None:
        """Whether a record belongs to this life of the log; None where finding out takes a long walk.

        A stale tail ends the log, or comes after the BLANK of a file that others follow: there a record
        that its consume queue leads to counts as live.
        """
        place = self.log.place(offset)
        if place is None:
            return False
        if place[0].allocated_size <= self.walk_limit or self.log.is_walked(offset):
            return self.log.is_live(offset)
        following = (place[0].start_offset or 0) + place[0].size
        if isinstance(self.log.record_at(following), Message):
            message = self.log.record_at(offset)
            if isinstance(message, Message) and self._dispatched(message, offset)[0].state in _SOUND:
                return True
        return self.log.is_live(offset) if self.walks else None

    def _dispatched(self, message: Message, offset: int) -> list[Dispatched]:
        places = []
        for topic, queue_id, queue_offset in places_of(message):
            if not is_in_consume_queue(message.sys_flag):
                places.append(Dispatched(topic, queue_id, queue_offset, UnitState.NOT_EXPECTED))
                continue
            queue = self.queue(topic, queue_id)
            if queue is None:
                places.append(Dispatched(topic, queue_id, queue_offset, UnitState.NO_QUEUE))
                continue
            unit = queue.any_unit_of(queue_offset)
            if unit is None:
                expired = queue_offset < queue.queue_offset_at(queue.first_index)
                state = UnitState.EXPIRED if expired else UnitState.MISSING
            elif (unit.physical_offset, unit.size) == (offset, message.total_size):
                state = UnitState.AGREES
            else:
                state = UnitState.DIFFERS
            places.append(Dispatched(topic, queue_id, queue_offset, state, unit))
        return places

    def why_no_topic(self, topic: str) -> str | None:
        """A sentence if the store knows no such topic, with names that are near; None if it does."""
        if topic in self.topics:
            return None
        from difflib import get_close_matches

        near = get_close_matches(topic, list(self.topics), 3)
        hint = f"; similar: {', '.join(near)}" if near else ""
        return f"the store has no topic {topic}{hint}"
