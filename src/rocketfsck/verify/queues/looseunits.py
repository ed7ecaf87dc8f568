"""Units of one queue that met no record: what is at the place in the log that each leads to.

Neighbours with one cause are one finding. Reference 6.6, 9.3.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.arrays import Flags, Longs
from rocketfsck.reader.records import LogReader, is_fence
from rocketfsck.reader.unitblocks import BLOCK_COUNT, Kind, kinds_of
from rocketfsck.reader.units import UnitReader, Units
from rocketfsck.scan.sorting import among
from rocketfsck.scan.spans import common_spans, group_bounds, true_spans
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.verify.emit import unit_place
from rocketfsck.verify.finding import Finding, Scalar
from rocketfsck.verify.log.map import Ground, LogMap
from rocketfsck.verify.queues.countedonce import CountedOnce

LOOK_LIMIT = 2000
"""Units without a record whose place in the log is read, per queue; further ones are judged like the last."""

FENCED = "a filler record is there"
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


def _inside(spans: Sequence[tuple[int, int]], first: int, count: int) -> Flags:
    """Which of the indexes from `first` on are in the spans, which are apart."""
    steps = np.zeros(count + 1, np.int8)
    columns = np.array(spans, np.int64) - first
    steps[columns[:, 0]] += 1
    steps[columns[:, 1]] -= 1
    return np.cumsum(steps[:-1]) > 0


@dataclass(slots=True)
class _Group:
    """Neighbouring units with one cause: indexes `start:end`, lowest and highest offset, sum of sizes; the
    messages of `copies` of them are lost to queues before this one, too."""

    ground: int
    reason: str
    start: int
    end: int
    low: int
    high: int
    byte_count: int
    copies: int


class LooseUnits:
    """Units of one queue that met no record; `units` are the ranges of them that are not zeros."""

    def __init__(
        self, queue: ConsumeQueue, log_map: LogMap, log_reader: LogReader, once: CountedOnce
    ) -> None:
        self.queue = queue
        self.once = once
        self.log_map = log_map
        self.log_reader = log_reader
        self.looks = 0
        self.groups: list[_Group] = []
        self.units: list[tuple[int, int]] = []

    def judge(self, spans: list[tuple[int, int]]) -> Iterator[Finding]:
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
                self._add(
                    ground,
                    "",
                    index + low,
                    index + high,
                    offsets[low:high],
                    int(sizes[low:high].sum()),
                    int(copied[low:high].sum()),
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
                    int(copied[row]),
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

    def _add(
        self, ground: int, reason: str, start: int, end: int, offsets: Longs, size: int, copies: int
    ) -> None:
        low, high = int(offsets.min()), int(offsets.max())
        if self.groups:
            before = self.groups[-1]
            if (before.ground, before.reason, before.end) == (ground, reason, start):
                before.end, before.byte_count = end, before.byte_count + size
                before.copies += copies
                before.low, before.high = min(before.low, low), max(before.high, high)
                return
        self.groups.append(_Group(ground, reason, start, end, low, high, size, copies))

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
            if group.copies:
                facts["copy_count"] = group.copies
            where = unit_place(self.queue, group.start, group.end - group.start, group.low)
            yield Finding(RULE_OF_GROUND[Ground(group.ground)], where, facts)
