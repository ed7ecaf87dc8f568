"""Units of one queue that met no record: what is at the place in the log that each leads to.

Neighbours with one cause are one finding. Reference 6.6, 9.3.

Records of queues that were deleted on purpose: a broker leaves them in the log until their file expires.

    topic not in topics.json, no queue of it                 the topic was deleted
    queueId beyond the topic's queues, no such queue         the topic was deleted, and made again with fewer
    all before the first units of all queues of the topic    the topic was deleted, and made again
    no queue of it, and its queue offsets begin again        the topic was deleted, made again, and lost
    half messages, no queue, before the last of all units    a broker removed the queue with a deleted topic

topics.json decides, or the .bak that a broker would load. One that cannot be read, or names none of the
topics that have queues, tells nothing. Nor does it of a topic that no broker can serve: such a topic was
never there to be deleted. Light queues are in no topics.json: one that is missing was deleted, or the broker
did not write any, unless all other queues are missing, too.
Reference 1.6.1, 6.5, 8.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats import dtypes, javatext, magic, properties, smallfiles
from rocketfsck.reader.configs import loaded_topics, may_lack_topics, swept_before
from rocketfsck.reader.records import LogReader, is_fence
from rocketfsck.reader.units import BLOCK_COUNT, Kind, UnitReader, Units, kinds_of
from rocketfsck.scan.spans import among, common_spans, group_bounds, true_spans
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.verify.finding import Finding, Findings, Scalar, unit_place
from rocketfsck.verify.log.result import Ground, LogMap
from rocketfsck.verify.queues.unitranges import CountedOnce

Name = tuple[str, int]
Missed = Mapping[Name, dtypes.Longs]
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
        self._swept: dict[str, int] = {}

    def has(self, name: Name) -> bool:
        """Whether the records without a unit of a queue are those of a deleted one."""
        return self._is_deleted(name) or self._last.get(name, -1) < self._swept_before(name[0])

    def _is_deleted(self, name: Name) -> bool:
        """Whether a queue was deleted by itself, or with its topic."""
        counts = self._queue_counts
        if counts is None:
            return False
        topic, queue_id = name
        if not smallfiles.is_queue_name(javatext.java_decode(topic.encode("utf-8", "surrogateescape"))):
            return False
        queues = self._by_topic.get(topic, ())
        if topic not in counts:
            if topic.startswith(properties.LMQ_PREFIX) and not self._has_file_queues:
                return False
            return all(self._first_offset(queue) is None for queue in queues)
        if all(queue.queue_id != queue_id for queue in queues) and queue_id >= counts[topic]:
            return True
        return self._begins_again(topic)

    def former(self, name: Name) -> dtypes.Longs:
        """The rows of a queue of a topic without queues that are from before the topic was made again, or
        before a broker removed its queues in use.

        Queues of other topics go on there: where all begin again, all were lost, and the records are not
        replaced on purpose.
        """
        begin = 0
        if not self._by_topic.get(name[0]):
            begin = max(self._former_ends.get(name[0], 0), self._swept_before(name[0]))
        rows = self._missed.get(name, np.zeros((0, 6), np.int64))
        return rows[rows[:, 2] < begin]

    def _swept_before(self, topic: str) -> int:
        """`swept_before` of a topic that topics.json lists; -1 where that tells nothing."""
        if self._queue_counts is None or topic not in self._queue_counts:
            return -1
        if topic not in self._swept:
            self._swept[topic] = swept_before(self._store, topic, self._last, self._is_deleted)
        return self._swept[topic]

    @cached_property
    def _former_ends(self) -> dict[str, int]:
        """The physical offset at which each topic without queues was made again, if it was."""
        by_topic: dict[str, list[dtypes.Longs]] = {}
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

        Where none does, all queues may have been lost, and a broker that stopped in order have begun all of
        them again: a broker that dispatches the whole log then never does that.
        """
        if topic not in self._again:
            last = self._last_of_topic.get(topic, -1)
            begins = {queue.queue_id: self._first_offset(queue) for queue in self._by_topic.get(topic, ())}
            known = [offset for offset in begins.values() if offset is not None]
            repeats = any(
                begins[queue_id] is not None for queue_id in begins if (topic, queue_id) in self._last
            )
            self._again[topic] = (
                repeats
                and min(known) > last
                and (self._others_go_on(topic, last) or self._no_others_were_lost(topic, last))
            )
        return self._again[topic]

    def _no_others_were_lost(self, topic: str, offset: int) -> bool:
        """Whether a broker of this version dispatches the whole log where all queues are lost, and no other
        topic that is in use has records before `offset`, but no queue."""
        if self._store.dialect.dispatch_restart == "commitlog end":
            return False
        return not any(
            name in (self._queue_counts or {}) and name not in self._by_topic and rows[0, 2] < offset
            for (name, _), rows in self._missed.items()
            if name != topic
        )

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
        topics = {} if may_lack_topics(self._store) else loaded_topics(self._store) or {}
        known = self._by_topic or self._last_of_topic
        if topics.keys().isdisjoint(known):
            return None
        return {name: max(topic.read_queue_nums, topic.write_queue_nums) for name, topic in topics.items()}


def _made_again(queues: Sequence[dtypes.Longs]) -> int | None:
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


def _last_begin(rows: dtypes.Longs) -> int:
    """Which row of a queue, in the log's order, began again with queue offset 0 last; 0 where none did."""
    return int(np.flatnonzero(rows[:, 0] == 0).max(initial=0))


LOOK_LIMIT = 2000
"""Units without a record whose place in the log is read, per queue; further ones are judged like the last."""

FENCED = "a filler record is there"
COPIED = "the record of that place in another queue is there"
OWN = "the unit leads to its record, and is after the end of the queue"
NOTHING_LOST = (COPIED, OWN)
RULE_OF_GROUND = {
    Ground.BEYOND: RuleName.UNIT_BEYOND_LOG,
    Ground.LIVE: RuleName.UNIT_GHOST,
    Ground.DAMAGE: RuleName.UNIT_OF_DAMAGED_RECORD,
    Ground.MISSING: RuleName.UNIT_IN_MISSING_SEGMENT,
    Ground.FENCE: RuleName.UNIT_OF_FILLER,
    Ground.MISNAMED: RuleName.UNIT_IN_MISNAMED_FILE,
}
_LOST = np.sort(np.array([Ground.BEYOND, Ground.LIVE, Ground.DAMAGE, Ground.MISSING], np.int64))
"""Grounds of units whose messages the log does not have."""


def _blocks(pieces: Iterable[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Index ranges in order, those near each other together: at most `BLOCK_COUNT` units are read at once."""
    block: list[tuple[int, int]] = []
    for start, end in pieces:
        for low in range(start, end, BLOCK_COUNT):
            high = min(low + BLOCK_COUNT, end)
            if block and not block[-1][1] <= low <= high <= block[0][0] + BLOCK_COUNT:
                yield block
                block = []
            block.append((low, high))
    if block:
        yield block


def _inside(spans: Sequence[tuple[int, int]], first: int, count: int) -> dtypes.Flags:
    """Which of the indexes from `first` on are in the spans, which are apart."""
    steps = np.zeros(count + 1, np.int8)
    columns = np.array(spans, np.int64) - first
    steps[columns[:, 0]] += 1
    steps[columns[:, 1]] -= 1
    return np.cumsum(steps[:-1]) > 0


@dataclass(slots=True)
class _Group:
    """Neighbouring units with one cause: indexes `start:end`, lowest and highest offset, sum of sizes; no
    message is lost with `copies` of them: one before has counted it, or another queue has the unit."""

    ground: int
    reason: str
    start: int
    end: int
    low: int
    high: int
    byte_count: int
    copies: int


@dataclass(slots=True)
class LooseUnits:
    """Units of one queue that met no record; `units` are the ranges of them that are not zeros."""

    queue: ConsumeQueue
    log_map: LogMap
    log_reader: LogReader
    once: CountedOnce
    looks: int = 0
    groups: list[_Group] = field(default_factory=list)
    units: list[tuple[int, int]] = field(default_factory=list)

    def judge(self, spans: list[tuple[int, int]]) -> Findings:
        """Look at the units of these index ranges."""
        with UnitReader(self.queue) as reader:
            data = reader.with_data(spans[0][0], spans[-1][1]) if spans else ()
            for block in _blocks(common_spans(spans, data)):
                first, end = block[0][0], block[-1][1]
                self._block(first, reader.units(first, end - first), block)
        yield from self._findings()

    def _block(self, index: int, units: Units, spans: Sequence[tuple[int, int]]) -> None:
        """Look at the units of the index ranges `spans` among those that begin at `index`."""
        kinds = kinds_of(units)
        if len(spans) > 1:
            kinds[~_inside(spans, index, len(units))] = Kind.ZERO
        offsets = units["offset"].astype(np.int64)
        sizes = units["size"].astype(np.int64)
        grounds = np.where(kinds == Kind.UNIT, self.log_map.grounds(offsets), -1)
        for low, high in zip(*true_spans(kinds != Kind.ZERO), strict=True):
            self.units.append((index + int(low), index + int(high)))
        lost, copied = among(grounds, _LOST), np.zeros(len(units), np.bool_)
        copied[lost] = self.once.copies(self.queue, offsets[lost])
        bounds = group_bounds(grounds).tolist()
        for low, high in itertools.pairwise(bounds):
            ground = int(grounds[low])
            if ground in (-1, Ground.EXPIRED, Ground.UNKNOWN):
                continue
            if ground != Ground.LIVE:
                copies = int(copied[low:high].sum())
                self._add(ground, "", index + low, offsets[low:high], sizes[low:high], copies)
                continue
            for row in range(low, high):
                reason = self._look(index + row, int(offsets[row]), int(sizes[row]))
                copies = int(bool(copied[row]) or reason in NOTHING_LOST)
                ground = Ground.FENCE if reason == FENCED else Ground.LIVE
                one = slice(row, row + 1)
                self._add(ground, reason, index + row, offsets[one], sizes[one], copies)

    def _look(self, index: int, offset: int, size: int) -> str:
        """Why a unit that points between live records is wrong."""
        if self.looks >= LOOK_LIMIT:
            return self.groups[-1].reason if self.groups else "no record of this queue is there"
        self.looks += 1
        head = self.log_reader.head(offset)
        if head is None:
            return "no record starts there"
        if head.total_size == size and is_fence(head):
            return FENCED
        topic = os.fsdecode(head.topic)
        if (topic, head.queue_id) != (self.queue.topic, self.queue.queue_id):
            is_copy = head.total_size == size and head.queue_offset == index and self.queue.kind == "file"
            return COPIED if is_copy else "a record of another queue is there"
        if self.queue.kind == "file" and head.queue_offset != index:
            return "the record there has another queueOffset"
        if self.queue.kind == "file" and head.total_size == size and magic.is_in_consume_queue(head.sys_flag):
            return OWN
        return "the record there is not dispatched"

    def _add(
        self, ground: int, reason: str, start: int, offsets: dtypes.Longs, sizes: dtypes.Longs, copies: int
    ) -> None:
        low, high = int(offsets.min()), int(offsets.max())
        end, size = start + len(offsets), int(sizes.sum())
        if self.groups:
            before = self.groups[-1]
            if (before.ground, before.reason, before.end) == (ground, reason, start):
                before.end, before.byte_count = end, before.byte_count + size
                before.copies += copies
                before.low, before.high = min(before.low, low), max(before.high, high)
                return
        self.groups.append(_Group(ground, reason, start, end, low, high, size, copies))

    def _findings(self) -> Findings:
        for group in self.groups:
            facts: dict[str, Scalar] = {
                "unit_count": group.end - group.start,
                "last_queue_offset": group.end - 1,
                "first_physical_offset": group.low,
                "last_physical_offset": group.high,
            }
            if group.ground == Ground.BEYOND:
                facts["log_end_offset"] = self.log_map.log_end
            elif group.ground == Ground.LIVE:
                facts["reason"] = group.reason
            elif group.ground == Ground.MISSING:
                facts["byte_count"] = group.byte_count
            if group.copies:
                facts["copy_count"] = group.copies
            where = unit_place(self.queue, group.start, group.end - group.start, group.low)
            yield Finding(RULE_OF_GROUND[Ground(group.ground)], where, facts)
