"""What is left over when the records of all commit log files have met the units of all queues.

    records without a unit: queue missing, queue behind, holes                      XR001 to XR003
    units without a record: behind the log, in a missing file, in damage, ghosts    XR004, XR005, XR010, XR011
    delays of the schedule topic's units, which no file says                        XR008, XR009

Neighbours with one cause are one finding. Reference 6.6, 9.3.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rocketfsck.errors import RocketfsckError
from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.config import decode_config
from rocketfsck.reader.records import LogReader, is_fence
from rocketfsck.reader.unitblocks import BLOCK_COUNT, Kind, kinds_of
from rocketfsck.reader.units import UnitReader, Units
from rocketfsck.rulenames import RuleName
from rocketfsck.scan.spans import group_bounds, merge_spans, subtract_spans
from rocketfsck.store.elsewhere import has_queues_elsewhere
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.store.reading import read_whole
from rocketfsck.verify.emit import capped, queue_place, unit_place
from rocketfsck.verify.finding import Facts, Finding, Scalar
from rocketfsck.verify.log.map import Ground, LogMap
from rocketfsck.verify.queues.skippedlists import judge_shifted
from rocketfsck.verify.queues.unitjoin import delay_levels_of
from rocketfsck.verify.queues.unitranges import Missing, UnitRanges
from rocketfsck.verify.tasks.task import Context, TaskResult

LOOK_LIMIT = 2000
"""Units without a record whose place in the log is read, per queue; further ones are judged like the last."""

Name = tuple[str, int]

REASONS = {
    Missing.NOTHING: "the place of the unit is empty",
    Missing.PRE_BLANK: "a pre-blank unit is in its place",
    Missing.OTHER: "another unit is in its place",
    Missing.BEFORE: "the queue begins later",
}
BEHIND = "the queue ends earlier"
FENCED = "a filler record is there"
RULE_OF_GROUND = {
    Ground.BEYOND: RuleName.UNIT_BEYOND_LOG,
    Ground.LIVE: RuleName.UNIT_GHOST,
    Ground.DAMAGE: RuleName.UNIT_OF_DAMAGED_RECORD,
    Ground.MISSING: RuleName.UNIT_IN_MISSING_SEGMENT,
    Ground.FENCE: RuleName.UNIT_OF_FILLER,
}


def merge_queues(
    context: Context, queues: Sequence[TaskResult | None], logs: Sequence[TaskResult | None]
) -> Iterator[Finding]:
    """Findings from the results of all queue and commit log tasks, both in store order."""
    if context.level == "quick":
        return
    extents = {extent.number: extent for result in queues if result is not None for extent in result.summary}
    yield from capped(_missing_units(context, logs, extents), context.detail_limit)
    yield from capped(_loose_units(context, logs, extents), context.detail_limit)
    yield from capped(_shifted_units(context, logs), context.detail_limit)
    yield from capped(_delays(context, logs), context.detail_limit)


def _missing_units(
    context: Context, logs: Sequence[TaskResult | None], extents: dict[int, Any]
) -> Iterator[Finding]:
    """Records whose unit is not there, by queue."""
    missed: dict[Name, list[list[int]]] = {}
    numbers: dict[Name, int] = {}
    for log in logs:
        if log is None or not len(log.summary.units.missed):
            continue
        units = log.summary.units
        names = units.names(context.store, units.missed[:, 0].tolist())
        for name, row in zip(names, units.missed.tolist(), strict=True):
            missed.setdefault(name, []).append(row[1:])
            if units.numbers[row[0]] >= 0:
                numbers[name] = int(units.numbers[row[0]])
    topics = _known_topics(context)
    for name in sorted(missed, key=lambda name: (name[0], name[1])):
        number = numbers.get(name)
        if number is None and has_queues_elsewhere(context.store):
            continue
        if number is None:
            deleted = _is_deleted(context, topics, name[0])
            rule = RuleName.QUEUE_DELETED if deleted else RuleName.QUEUE_MISSING
            where = queue_place(*name)
            count = sum(row[4] for row in missed[name])
            first = min(row[2] for row in missed[name])
            yield Finding(rule, where, {"record_count": count, "first_physical_offset": first})
            continue
        extent = extents.get(number)
        end = extent.end if extent is not None else None
        for low, high, first, last, count, reason in _joined(missed[name]):
            behind = reason == Missing.NOTHING and end is not None and low >= end
            queue = context.store.queues[number]
            where = unit_place(queue, low, 1, first)
            if queue.kind == "batch":  # a batch unit's place says nothing of its queue offset
                place = queue_place(queue.topic, queue.queue_id, queue.kind)
                where = replace(place, physical_offset=first, queue_offset=low)
            facts: Facts = {
                "record_count": count,
                "last_queue_offset": high,
                "last_physical_offset": last,
                "reason": BEHIND if behind else REASONS[Missing(reason)],
            }
            yield Finding(RuleName.RECORD_WITHOUT_UNIT, where, facts)


def _shifted_units(context: Context, logs: Sequence[TaskResult | None]) -> Iterator[Finding]:
    """Units of light queues that are not at their places, by queue."""
    runs: dict[int, list[list[int]]] = {}
    skipped: dict[str, int] = {}
    for log in logs:
        if log is None:
            continue
        for name, count in log.summary.skipped.items():
            skipped[name] = skipped.get(name, 0) + count
        units = log.summary.units
        for run in units.shifted.tolist():
            runs.setdefault(int(units.numbers[run[0]]), []).append(run)
    for number, rows in sorted(runs.items()):
        queue = context.store.queues[number]
        yield from judge_shifted(context.store, number, rows, skipped.get(queue.topic, 0))


def _joined(rows: list[list[int]]) -> Iterator[list[int]]:
    """Missed ranges of one queue in the log's order, neighbours with one reason as one."""
    run: list[int] | None = None
    for row in sorted(rows, key=lambda row: row[2]):
        if run is not None and row[5] == run[5] and row[0] == run[1] + 1:
            run[1], run[3], run[4] = row[1], row[3], run[4] + row[4]
            continue
        if run is not None:
            yield run
        run = list(row)
    if run is not None:
        yield run


def _is_deleted(context: Context, topics: set[str] | None, topic: str) -> bool:
    """Whether a topic without this queue is gone as a whole, while others are there."""
    queues = context.store.queues
    return (
        topics is not None
        and topic not in topics
        and bool(queues)
        and not any(queue.topic == topic for queue in queues)
    )


def _known_topics(context: Context) -> set[str] | None:
    """The topics of topics.json; None where it is not there or cannot be read."""
    for file in context.store.configs:
        if file.name == "topics.json":
            try:
                value = decode_config(read_whole(file.path, 256 << 20))
            except RocketfsckError:
                return None
            table = value.get("topicConfigTable") if isinstance(value, dict) else None
            return {str(topic) for topic in table} if isinstance(table, dict) else None
    return None


def _loose_units(
    context: Context, logs: Sequence[TaskResult | None], extents: dict[int, Any]
) -> Iterator[Finding]:
    """Units that met no record, queue by queue."""
    matched = _Matched(len(context.store.queues))
    for log in logs:
        if log is not None:
            matched.add(log.summary.units)
    log_map = LogMap(context.store, logs)
    if not context.store.commitlog.files:
        return
    with LogReader(context.store.commitlog) as log_reader:
        for number, extent in sorted(extents.items()):
            if not extent.stale and matched.has(number, extent.live_start, extent.end):
                continue
            starts, ends = matched.spans(number)
            left = subtract_spans(extent.live_start, extent.end, starts, ends)
            left += [span for span in extent.stale if span[0] >= extent.end]
            if left:
                yield from _Loose(context.store.queues[number], log_map, log_reader).judge(left)


class _Matched:
    """Ranges of units that met their records, per queue, over the log files in order.

    Mostly a queue's ranges go on from file to file: then it takes two numbers. The others are set aside.
    """

    def __init__(self, queue_count: int) -> None:
        self._start: Longs = np.zeros(queue_count, np.int64)
        self._end: Longs = np.zeros(queue_count, np.int64)
        self._aside: list[Longs] = []
        self._by_queue: dict[int, list[Longs]] | None = None

    def add(self, units: UnitRanges) -> None:
        """Take over the ranges of one commit log file."""
        rows = units.matched
        if not len(rows):
            return
        number, start, end = units.numbers[rows[:, 0]].astype(np.int64), rows[:, 1].copy(), rows[:, 2]
        first = np.ones(len(rows), np.bool_)
        first[1:] = rows[1:, 0] != rows[:-1, 0]
        last = np.append(first[1:], True)
        goes_on = first & (start == self._end[number])
        start[goes_on] = self._start[number[goes_on]]
        ended = number[first & ~goes_on]
        ended = ended[self._end[ended] > self._start[ended]]
        self._set_aside(ended, self._start[ended], self._end[ended])
        self._set_aside(number[~last], start[~last], end[~last])
        self._start[number[last]], self._end[number[last]] = start[last], end[last]

    def _set_aside(self, number: Longs, start: Longs, end: Longs) -> None:
        if len(number):
            self._aside.append(np.column_stack((number, start, end)))

    def has(self, number: int, start: int, end: int) -> bool:
        """Whether all units `start:end` of a queue met their records, as far as its ranges go on."""
        return start >= end or bool(self._start[number] <= start and end <= self._end[number])

    def spans(self, number: int) -> tuple[Longs, Longs]:
        """Starts and ends of a queue's ranges, merged and in order."""
        if self._by_queue is None:
            self._by_queue = {}
            for rows in self._aside:
                for row in rows:
                    self._by_queue.setdefault(int(row[0]), []).append(row[1:])
        found = [*self._by_queue.get(number, []), np.array([self._start[number], self._end[number]])]
        columns = np.array([span for span in found if span[0] < span[1]], np.int64).reshape(-1, 2)
        return merge_spans(columns[:, 0], columns[:, 1])


@dataclass(slots=True)
class _Group:
    """Neighbouring units with one cause: indexes `start:end`, lowest and highest offset, sum of sizes."""

    ground: int
    reason: str
    start: int
    end: int
    low: int
    high: int
    byte_count: int


class _Loose:
    """Units of one queue that met no record."""

    def __init__(self, queue: ConsumeQueue, log_map: LogMap, log_reader: LogReader) -> None:
        self.queue = queue
        self.log_map = log_map
        self.log_reader = log_reader
        self.looks = 0
        self.groups: list[_Group] = []

    def judge(self, spans: list[tuple[int, int]]) -> Iterator[Finding]:
        """Look at the units of these index ranges."""
        with UnitReader(self.queue) as reader:
            for span in spans:
                for start, end in reader.with_data(*span):
                    for first in range(start, end, BLOCK_COUNT):
                        self._block(first, reader.units(first, min(BLOCK_COUNT, end - first)))
        yield from self._findings()

    def _block(self, index: int, units: Units) -> None:
        kinds = kinds_of(units)
        offsets = units["offset"].astype(np.int64)
        sizes = units["size"].astype(np.int64)
        grounds = np.where(kinds == Kind.UNIT, self.log_map.grounds(offsets), -1)
        bounds = group_bounds(grounds).tolist()
        for low, high in itertools.pairwise(bounds):
            ground = int(grounds[low])
            if ground in (-1, Ground.EXPIRED, Ground.UNKNOWN):
                continue
            if ground != Ground.LIVE:
                self._add(
                    ground, "", index + low, index + high, offsets[low:high], int(sizes[low:high].sum())
                )
                continue
            for row in range(low, high):
                reason = self._look(index + row, int(offsets[row]), int(sizes[row]))
                self._add(
                    Ground.FENCE if reason == FENCED else ground,
                    reason,
                    index + row,
                    index + row + 1,
                    offsets[row : row + 1],
                    int(sizes[row]),
                )

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
            return "a record of another queue is there"
        if self.queue.kind == "file" and head.queue_offset != index:
            return "the record there has another queueOffset"
        return "the record there is not dispatched"

    def _add(self, ground: int, reason: str, start: int, end: int, offsets: Longs, size: int) -> None:
        low, high = int(offsets.min()), int(offsets.max())
        if self.groups:
            before = self.groups[-1]
            if (before.ground, before.reason, before.end) == (ground, reason, start):
                before.end, before.byte_count = end, before.byte_count + size
                before.low, before.high = min(before.low, low), max(before.high, high)
                return
        self.groups.append(_Group(ground, reason, start, end, low, high, size))

    def _findings(self) -> Iterator[Finding]:
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
            where = unit_place(self.queue, group.start, group.end - group.start, group.low)
            yield Finding(RULE_OF_GROUND[Ground(group.ground)], where, facts)


def _delays(context: Context, logs: Sequence[TaskResult | None]) -> Iterator[Finding]:
    """The delays that the units of each level have, against the list given or the default one."""
    levels = delay_levels_of(context.store)
    given = context.store.delay_levels_source == "given"
    seen: dict[int, dict[int, list[int]]] = {}
    for log in logs:
        if log is None:
            continue
        for level, wait, count, number, index, offset in log.summary.units.delays.tolist():
            known = seen.setdefault(level, {}).setdefault(wait, [0, number, index, offset])
            known[0] += count
    for level, waits in sorted(seen.items()):
        usual = levels.get(min(level, max(levels, default=0)), 1000)
        agreed = usual
        if usual not in waits and not given:
            agreed = max(waits, key=lambda wait: waits[wait][0])
            _, number, index, _ = waits[agreed]
            queue = context.store.queues[number]
            where = unit_place(queue, index)
            yield Finding(
                RuleName.DELAY_LEVELS_INFERRED,
                where,
                {"level": level, "delay_ms": agreed},
                {"delay_ms": usual},
            )
        for wait, (count, number, index, offset) in sorted(waits.items()):
            if wait != agreed:
                where = unit_place(context.store.queues[number], index, 1, offset)
                facts: Facts = {"level": level, "delay_ms": wait, "tags_code": f"storeTimestamp + {wait}"}
                wanted: Facts = {"delay_ms": agreed, "tags_code": f"storeTimestamp + {agreed}"}
                yield Finding(RuleName.UNIT_TAGS_CODE, where, facts, wanted, count=count)
