"""Records of queues that were deleted on purpose: a broker leaves them in the log until their file expires.

    topic not in topics.json, no queue of it                 the topic was deleted
    queueId beyond the topic's queues, no such queue         the topic was deleted, and made again with fewer
    all before the first units of all queues of the topic    the topic was deleted, and made again
    no queue of it, and its queue offsets begin again        the topic was deleted, made again, and lost

topics.json decides, or the .bak that a broker would load. One that cannot be read, or names none of the
topics that have queues, tells nothing. Nor does it of a topic that no broker can serve: such a topic was
never there to be deleted. Light queues are in no topics.json: one that is missing was deleted, or the broker
did not write any, unless all other queues are missing, too.
Reference 1.6.1, 6.5, 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.filename import is_queue_name
from rocketfsck.formats.javatext import java_decode
from rocketfsck.formats.properties import LMQ_PREFIX
from rocketfsck.reader.configs import loaded_topics
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.units import UnitReader
from rocketfsck.store.model import ConsumeQueue, Store

Name = tuple[str, int]
Missed = Mapping[Name, Longs]
"""Records without a unit by queue, in the log's order: (n, 6) ranges of first and last queueOffset, first and
last physical offset, number of records and reason (`unitjoin.Missing`)."""


class DeletedQueues:
    """Tells which queues' records without a unit belong to a queue that was deleted."""

    def __init__(self, store: Store, missed: Missed, lacks: Callable[[int], bool]) -> None:
        """`lacks`: whether the log has no more what was at a physical offset."""
        self._store = store
        self._lacks = lacks
        self._missed = missed
        self._last = {name: int(rows[:, 3].max()) for name, rows in missed.items()}
        self._last_of_topic: dict[str, int] = {}
        for (topic, _), offset in self._last.items():
            self._last_of_topic[topic] = max(offset, self._last_of_topic.get(topic, -1))
        self._again: dict[str, bool] = {}

    def has(self, name: Name) -> bool:
        """Whether the records without a unit of a queue are those of a deleted one."""
        counts = self._queue_counts
        if counts is None:
            return False
        topic, queue_id = name
        if not is_queue_name(java_decode(topic.encode("utf-8", "surrogateescape"))):
            return False
        queues = self._by_topic.get(topic, ())
        if topic not in counts:
            if topic.startswith(LMQ_PREFIX) and not self._has_file_queues:
                return False
            return all(self._first_offset(queue) is None for queue in queues)
        if all(queue.queue_id != queue_id for queue in queues) and queue_id >= counts[topic]:
            return True
        return self._begins_again(topic)

    def former(self, name: Name) -> Longs:
        """The rows of a queue of a topic without queues that are from before the topic was made again.

        Queues of other topics go on there: where all begin again, all were lost, and the records are not
        replaced on purpose.
        """
        begin = 0 if self._by_topic.get(name[0]) else self._former_ends.get(name[0], 0)
        rows = self._missed.get(name, np.zeros((0, 6), np.int64))
        return rows[rows[:, 2] < begin]

    @cached_property
    def _former_ends(self) -> dict[str, int]:
        """The physical offset at which each topic without queues was made again, if it was."""
        by_topic: dict[str, list[Longs]] = {}
        for (topic, _), rows in self._missed.items():
            if topic not in self._by_topic:
                by_topic.setdefault(topic, []).append(rows)
        begins = {topic: _made_again(queues) for topic, queues in by_topic.items()}
        going_on = [
            (int(rows[0, 2]), int(rows[-1, 3]))
            for topic, queues in by_topic.items()
            if begins[topic] is None
            for rows in queues
        ]
        return {
            topic: begin
            for topic, begin in begins.items()
            if begin is not None
            and (any(first < begin < last for first, last in going_on) or self._others_go_on(topic, begin))
        }

    def _begins_again(self, topic: str) -> bool:
        """Whether every queue of a topic begins behind all records without a unit of the topic, one of them
        with a number that it had before, while a queue of another topic begins before these records.

        Where none does, all queues were lost, and a broker that stopped in order began all of them again.
        """
        if topic not in self._again:
            last = self._last_of_topic.get(topic, -1)
            begins = {queue.queue_id: self._first_offset(queue) for queue in self._by_topic.get(topic, ())}
            known = [offset for offset in begins.values() if offset is not None]
            repeats = any(
                begins[queue_id] is not None for queue_id in begins if (topic, queue_id) in self._last
            )
            self._again[topic] = repeats and min(known) > last and self._others_go_on(topic, last)
        return self._again[topic]

    def _others_go_on(self, topic: str, offset: int) -> bool:
        """Whether a queue of another topic has units, the first for a record before `offset`."""
        for queue in self._store.queues:
            if queue.topic != topic:
                with UnitReader(queue) as reader:
                    if reader.first_index < reader.end_index:
                        unit = reader.unit(reader.first_index)
                        if unit is not None and unit.size and unit.physical_offset < offset:
                            return True
        return False

    def _first_offset(self, queue: ConsumeQueue) -> int | None:
        """The physical offset of the record that unit 0 of a queue leads to: None for a queue without units,
        -1 for one that does not begin with unit 0, or whose unit 0 leads to another record than the one with
        queueOffset 0. Where the log does not have that place any more, the units alone tell."""
        with UnitReader(queue) as reader:
            if not any(True for _ in reader.with_data(reader.first_index, reader.end_index)):
                return None
            unit, second = (reader.unit(0), reader.unit(1)) if queue.kind == "file" else (None, None)
        if unit is None or unit.is_pre_blank or not unit.size:
            return -1
        if self._lacks(unit.physical_offset):  # a single unit may be damaged itself
            continues = (
                second is not None and second.size > 0 and second.physical_offset > unit.physical_offset
            )
            return unit.physical_offset if continues else -1
        with LogReader(self._store.commitlog) as log:
            head = log.head(unit.physical_offset)
        fits = head is not None and (head.queue_id, head.queue_offset) == (queue.queue_id, 0)
        return unit.physical_offset if fits else -1

    @cached_property
    def _has_file_queues(self) -> bool:
        return any(queue.kind == "file" for queue in self._store.queues)

    @cached_property
    def _by_topic(self) -> dict[str, list[ConsumeQueue]]:
        found: dict[str, list[ConsumeQueue]] = {}
        for queue in self._store.queues:
            found.setdefault(queue.topic, []).append(queue)
        return found

    @cached_property
    def _queue_counts(self) -> dict[str, int] | None:
        """The queues of each topic of topics.json; None where that tells nothing.

        The file must name a topic that has queues, or one that has records where there are no queues at all.
        """
        topics = loaded_topics(self._store) or {}
        known = self._by_topic or self._last_of_topic
        if topics.keys().isdisjoint(known):
            return None
        return {name: max(topic.read_queue_nums, topic.write_queue_nums) for name, topic in topics.items()}


def _made_again(queues: Sequence[Longs]) -> int | None:
    """The physical offset at which all queues of a topic, rows in the log's order, began again with queue
    offset 0; None where none did, or one went on there."""
    begins = [_last_begin(rows) for rows in queues]
    first = min(
        (int(rows[begin, 2]) for rows, begin in zip(queues, begins, strict=True) if begin), default=None
    )
    if first is None:
        return None
    formers = [rows[:begin] if begin else rows for rows, begin in zip(queues, begins, strict=True)]
    continues = any(rows[0, 2] < first < rows[-1, 3] for rows in formers)
    return None if continues else first


def _last_begin(rows: Longs) -> int:
    """Which row of a queue, in the log's order, began again with queue offset 0 last; 0 where none did."""
    return int(np.flatnonzero(rows[:, 0] == 0).max(initial=0))
