"""Checks of consume queues by themselves: order, holes, pre-blanks, stale units, extension addresses.

What a unit says of its record is compared in `check_log_file`, where the records pass; what is left over of
both sides is put together in `merge_queues`. Reference 3, 9.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rocketfsck.formats.consumequeue import MAX_EXT_ADDRESS
from rocketfsck.reader.unitblocks import Kind, kinds_of, read_data_blocks
from rocketfsck.reader.units import UnitReader, Units
from rocketfsck.rulenames import RuleName
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.verify.emit import add_rows, queue_place, unit_place
from rocketfsck.verify.finding import Where
from rocketfsck.verify.queues.crossqueues import merge_queues
from rocketfsck.verify.queues.extfile import check_ext
from rocketfsck.verify.queues.unitruns import RunList, Shape, shape_of
from rocketfsck.verify.tasks.facts import QueueFacts
from rocketfsck.verify.tasks.task import Checked, Collector, Context, QueuesTask, TaskResult

__all__ = ["QueueExtent", "check_queues", "merge_queues"]


@dataclass(frozen=True, slots=True)
class QueueExtent:
    """Which units a queue has, as indexes: `number` is its place in `Store.queues`.

    Pre-blanks are before `start`, expired units before `live_start`; `stale` are ranges behind `end`.
    """

    number: int
    start: int
    live_start: int
    end: int
    stale: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class QueuesResult(TaskResult):
    """What the check of some queues found, with the extent of each of them."""

    facts: tuple[QueueFacts, ...] = ()
    summary: tuple[QueueExtent, ...] = ()


def check_queues(task: QueuesTask) -> QueuesResult:
    """Check `store.queues[start:end]`. Facts: a QueueFacts a queue."""
    context = task.context
    collector = context.collector()
    checked = Checked()
    facts: list[QueueFacts] = []
    extents: list[QueueExtent] = []
    for number in range(task.start, task.end):
        walk = _QueueWalk(context, number, collector)
        walk.quick() if context.level == "quick" else walk.whole()
        facts.append(walk.facts())
        extents.append(walk.extent())
        checked += walk.checked()
    return QueuesResult(collector.findings, collector.counts, checked, tuple(facts), tuple(extents))


class _QueueWalk:
    """One pass over one queue."""

    def __init__(self, context: Context, number: int, collector: Collector) -> None:
        self.context = context
        self.number = number
        self.queue: ConsumeQueue = context.store.queues[number]
        self.collector = collector
        self.log_start = context.store.commitlog.start_offset
        self.runs = RunList()
        self.shape = Shape(0, 0, 0, 0, -1, (), ())
        self.live_index: int | None = None
        self.last_offset: tuple[int, int] | None = None  # index behind the last unit, its commitlog offset
        self.first_base = self.next_base = 0
        self.has_ext = False
        self.byte_count = 0
        self.broken = False

    def whole(self) -> None:
        """Go through every unit."""
        with UnitReader(self.queue) as reader:
            for index, count, units in read_data_blocks(reader):
                if units is None:
                    self.runs.add_zeros(index, count)
                else:
                    self._block(index, units)
            self.shape = shape_of(self.runs.runs, reader.first_index)
            self._judge(reader)
            self.byte_count = sum(file.size for file in reader.files)
        if self.queue.ext is not None or self.has_ext:
            check_ext(self.queue, self.shape.end, self.log_start or 0, self.collector)

    def quick(self) -> None:
        """Find the ends only: by halves, since a queue is units and then zeros."""
        with UnitReader(self.queue) as reader:
            low, high = reader.first_index, reader.end_index
            while low < high:
                middle = (low + high) // 2
                if int(kinds_of(reader.units(middle, 1))[0]) in (Kind.UNIT, Kind.PRE_BLANK):
                    low = middle + 1
                else:
                    high = middle
            start = reader.first_index
            for index in dict.fromkeys((start, low - 1)):
                if start <= index < low:
                    units = reader.units(index, 1)
                    self.runs.add_block(index, units, kinds_of(units))
                    self._bases(units)
            last_end = self.runs.runs[-1].last_end if self.runs.runs else -1
            if self.log_start is not None and low > start:
                live = reader.find_offset(self.log_start)
                self.live_index = live if live < low else None
        self.shape = Shape(start, low, 0, low - start, last_end, (), ())

    def _block(self, index: int, units: Units) -> None:
        kinds = kinds_of(units)
        self.runs.add_block(index, units, kinds)
        rows = np.flatnonzero(kinds == Kind.UNIT)
        if not len(rows):
            return
        offset = units["offset"][rows].astype(np.int64)
        if self.last_offset is not None and self.last_offset[0] == index + int(rows[0]):
            before = np.concatenate(([self.last_offset[1]], offset[:-1]))
        else:
            before = np.concatenate(([-1], offset[:-1]))
        neighbours = np.ones(len(rows), np.bool_)
        neighbours[1:] = np.diff(rows) == 1
        wrong = np.flatnonzero(neighbours & (offset <= before))
        if len(wrong):
            self.broken = True
            file = unit_place(self.queue, index + int(rows[wrong[0]])).file
            add_rows(
                self.collector,
                RuleName.UNIT_ORDER,
                file,
                wrong,
                lambda row: (
                    unit_place(self.queue, index + int(rows[row]), physical_offset=int(offset[row])),
                    {"previous_offset": int(before[row])},
                    {},
                ),
            )
        self.last_offset = (index + int(rows[-1]) + 1, int(offset[-1]))
        if self.live_index is None and self.log_start is not None:
            live = np.flatnonzero(offset >= self.log_start)
            if len(live):
                self.live_index = index + int(rows[live[0]])
        if self.queue.kind == "batch":
            self._batch_block(index, units[rows], rows)
        elif not self.has_ext:
            self.has_ext = bool((units["tagsCode"] <= MAX_EXT_ADDRESS).any())

    def _bases(self, units: Units) -> None:
        if self.queue.kind == "batch" and len(units):
            if not self.next_base:
                self.first_base = int(units["msgBaseOffset"][0])
            last = units[-1:]  # arrays: a sum beyond a long wraps, as the broker's does
            self.next_base = int((last["msgBaseOffset"].astype(np.int64) + last["batchSize"])[0])

    def _batch_block(
        self, index: int, units: Units, rows: np.ndarray[tuple[int], np.dtype[np.int64]]
    ) -> None:
        base, size = units["msgBaseOffset"].astype(np.int64), units["batchSize"].astype(np.int64)
        expected = base + size
        expected[1:] = expected[:-1]
        expected[0] = self.next_base if self.next_base else base[0]

        def place(row: int) -> Where:
            return unit_place(self.queue, index + int(rows[row]))

        add_rows(
            self.collector,
            RuleName.BATCH_UNIT_BASE,
            place(0).file,
            np.flatnonzero(base != expected),
            lambda row: (
                _at_base(place(row), int(base[row])),
                {"unit_index": index + int(rows[row])},
                {"queue_offset": int(expected[row])},
            ),
        )
        odd = (units["compactedOffset"] != -1) | (units["reserved"] != 0)
        add_rows(
            self.collector,
            RuleName.BATCH_UNIT_RESERVED,
            place(0).file,
            np.flatnonzero(odd),
            lambda row: (
                _at_base(place(row), int(base[row])),
                {
                    "unit_index": index + int(rows[row]),
                    "compacted_offset": int(units["compactedOffset"][row]),
                    "reserved": int(units["reserved"][row]),
                },
                {},
            ),
        )
        self._bases(units)

    def _judge(self, reader: UnitReader) -> None:
        shape, queue = self.shape, self.queue
        for flaw in shape.flaws:
            run = flaw.run
            where = unit_place(queue, run.start, run.count)
            facts: dict[str, int] = {"unit_count": run.count}
            if flaw.rule == RuleName.UNIT_INVALID:
                unit = reader.units(run.start, 1)[0]
                facts["size"] = int(unit["size"])
                where = unit_place(queue, run.start, run.count, int(unit["offset"]))
            self.broken = True
            self.collector.find(flaw.rule, where, facts, count=run.count)
        if self.runs.not_kept_count:
            count = self.runs.not_kept_count
            self.broken = True
            self.collector.find(
                RuleName.UNIT_INVALID, self._whole_queue(), {"further_count": count}, count=count
            )
        self._judge_files(reader)
        self._judge_expiry()

    def _judge_files(self, reader: UnitReader) -> None:
        size = self.queue.unit_size
        for file in reader.files:
            rest = file.size % size
            tail = reader.read((file.start_offset or 0) + file.size - rest, rest)
            if any(tail):
                self.broken = True
                place = Where(
                    file=file.relative,
                    start=file.size - rest,
                    end=file.size,
                    topic=self.queue.topic,
                    queue_id=self.queue.queue_id,
                )
                self.collector.find(RuleName.UNIT_PARTIAL, place, {"byte_count": rest})
        if len(reader.files) > 1 and self.shape.unit_count:
            last = reader.files[-1]
            if self.runs.runs[-1].kind == Kind.ZERO and self.shape.end * size <= (last.start_offset or 0):
                index = (last.start_offset or 0) // size
                if self.runs.runs[-1].start <= index:
                    self.collector.find(
                        RuleName.QUEUE_LAST_FILE_EMPTY, unit_place(self.queue, index, last.size // size)
                    )

    def _judge_expiry(self) -> None:
        shape = self.shape
        where = self._whole_queue()
        if shape.pre_blank_count and not shape.unit_count:
            self.collector.find(RuleName.QUEUE_PRE_BLANK_ONLY, where, {"unit_count": shape.pre_blank_count})
        if self.log_start is None or not shape.unit_count:
            return
        if self.live_index is None:
            self.collector.find(RuleName.QUEUE_EXPIRED, where, {"unit_count": shape.unit_count})
        elif self.live_index > shape.start + shape.pre_blank_count:
            count = self.live_index - shape.start - shape.pre_blank_count
            self.collector.find(
                RuleName.UNITS_EXPIRED, where, {"unit_count": count, "min_live_offset": self.live_index}
            )

    def _whole_queue(self) -> Where:
        queue = self.queue
        return queue_place(queue.topic, queue.queue_id, queue.kind)

    def facts(self) -> QueueFacts:
        queue, shape = self.queue, self.shape
        batch = queue.kind == "batch"
        live = self.live_index
        if self.log_start is None and shape.unit_count:
            live = shape.start + shape.pre_blank_count
        return QueueFacts(
            topic=queue.topic,
            queue_id=queue.queue_id,
            kind=queue.kind,
            min_offset=self.first_base if batch else shape.start,
            max_offset=self.next_base if batch else shape.end,
            min_live_offset=live if not batch or live is None else self._base_at(live),
            max_physical_end=shape.last_end,
            unit_count=shape.unit_count,
            damaged=self.broken,
        )

    def _base_at(self, index: int) -> int:
        with UnitReader(self.queue) as reader:
            return int(reader.units(index, 1)["msgBaseOffset"][0])

    def extent(self) -> QueueExtent:
        shape = self.shape
        start = shape.start + shape.pre_blank_count
        live = shape.end if self.live_index is None else self.live_index
        return QueueExtent(self.number, start, max(start, live), shape.end, shape.stale)

    def checked(self) -> Checked:
        return Checked(len(self.queue.files), self.byte_count, unit_count=self.shape.unit_count)


def _at_base(where: Where, base: int) -> Where:
    """The same place with the queue offset of a batch unit's first message."""
    return replace(where, queue_offset=base)
