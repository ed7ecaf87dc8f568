"""Checks of consume queues by themselves: order, holes, pre-blanks, stale units, extension addresses.

What a unit says of its record is compared in `check_log_file`, where the records pass; what is left over of
both sides is put together in `merge_queues`. Reference 3, 9.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.consumequeue import MAX_EXT_ADDRESS
from rocketfsck.progress import moved_by
from rocketfsck.reader.shortqueues import HeldUnits
from rocketfsck.reader.units import Kind, UnitReader, Units, kinds_of, read_data_blocks
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.verify.finding import Where, queue_place, unit_place
from rocketfsck.verify.queues import unitruns
from rocketfsck.verify.queues.unitcompare import check_ext
from rocketfsck.verify.tasks import task as tasks_task


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
class QueuesResult(tasks_task.TaskResult):
    """What the check of some queues found, with the extent of each of them.

    `known`: of each queue, if the context keeps it, what a later check may go on from; None for none.
    """

    facts: tuple[tasks_task.QueueFacts, ...] = ()
    summary: tuple[QueueExtent, ...] = ()
    known: tuple[tasks_task.QueueKnown | None, ...] = ()


def check_queues(task: tasks_task.QueuesTask) -> QueuesResult:
    """Check `store.queues[start:end]`. Facts: a QueueFacts a queue."""
    context = task.context
    collector = context.collector()
    checked = tasks_task.Checked()
    facts: list[tasks_task.QueueFacts] = []
    extents: list[QueueExtent] = []
    known: list[tasks_task.QueueKnown | None] = []
    short = {} if context.level == "quick" else unitruns.short_queues(context, unitruns.unknown_queues(task))
    moved_by(unitruns.sound_size(context, short))
    for number in range(task.start, task.end):
        before = task.known[number - task.start] if task.known else None
        walk = _QueueWalk(context, number, collector, before)
        found = short.get(number)
        if isinstance(found, tuple):
            walk.take(*found)
        elif context.level == "quick":
            walk.quick()
        else:
            walk.whole(found)
        facts.append(walk.facts())
        extents.append(walk.extent())
        checked += walk.checked()
        if context.keeps:
            known.append(walk.known())
    return QueuesResult(
        collector.findings, collector.counts, checked, tuple(facts), tuple(extents), tuple(known)
    )


class _QueueWalk:
    """One pass over one queue."""

    def __init__(
        self,
        context: tasks_task.Context,
        number: int,
        collector: tasks_task.Collector,
        before: tasks_task.QueueKnown | None = None,
    ) -> None:
        self.before = before
        self.context = context
        self.number = number
        self.queue: ConsumeQueue = context.store.queues[number]
        self.collector = collector
        self.log_start = context.store.commitlog.start_offset
        self.runs = unitruns.RunList()
        self.shape = unitruns.Shape(0, 0, 0, 0, -1, (), ())
        self.live_index: int | None = None
        self.last_offset: tuple[int, int] | None = None  # index after the last unit, its commitlog offset
        self.first_base = self.next_base = 0
        self.has_ext = self.broken = False
        self.byte_count = 0

    def whole(self, data: bytes | None = None) -> None:
        """Go through every unit, or those that an earlier check does not know.

        `data` is what was read of the queue's only file, if it was.
        """
        with UnitReader(self.queue) if data is None else HeldUnits(self.queue, data) as reader:
            for index, count, units in read_data_blocks(reader, first=self._known_end(reader)):
                if units is None:
                    self.runs.add_zeros(index, count)
                else:
                    self._block(index, units)
                moved_by(count * self.queue.unit_size)
            self.shape = unitruns.shape_of(self.runs.runs, reader.first_index)
            self._judge(reader)
            self.byte_count = sum(file.size for file in reader.files)
        if self.queue.ext is not None or self.has_ext:
            check_ext(self.queue, self.shape.end, self.log_start or 0, self.collector)

    def _known_end(self, reader: UnitReader) -> int:
        """Take over the units that an earlier check knows; the index after them, 0 for none."""
        known = self.before
        end = 0 if known is None else unitruns.known_runs(known, reader, self.runs)
        if known is None or not end:
            return 0
        self.last_offset = (end, known.last_offset)
        if self.log_start is not None:
            units = self.runs.runs[-1]
            live = units.start
            if units.first_offset < self.log_start:
                live = max(reader.find_offset(self.log_start, end), live)
            self.live_index = live if live < end else None
        moved_by((end - reader.first_index) * self.queue.unit_size)
        return end

    def known(self) -> tasks_task.QueueKnown | None:
        """What a later check may go on from."""
        odd = self.broken or self.has_ext or self.runs.not_kept_count
        return None if odd else unitruns.known_units(self.queue, self.shape, self.runs.runs)

    def take(self, run: unitruns.UnitRun, live_index: int | None) -> None:
        """Take the units of a queue with nothing wrong in it."""
        self.runs.add(run)
        shape = unitruns.Shape(run.start, run.end, 0, run.count, run.last_end, (), ())
        self.shape, self.live_index = shape, live_index
        self.byte_count = sum(file.size for file in self.queue.files)
        unitruns.judge_expiry(self.queue, shape, live_index, self.log_start, self.collector)

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
        self.shape = unitruns.Shape(start, low, 0, low - start, last_end, (), ())

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
            tasks_task.add_rows(
                self.collector,
                RuleName.UNIT_ORDER,
                file,
                wrong,
                lambda row: unit_place(self.queue, index + int(rows[row]), 1, int(offset[row])),
                {"previous_physical_offset": before},
                {},
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
            """The place of a unit, with the queue offset of its first message."""
            return replace(unit_place(self.queue, index + int(rows[row])), queue_offset=int(base[row]))

        number, compacted, reserved = index + rows, units["compactedOffset"], units["reserved"]
        odd = (compacted != -1) | (reserved != 0)
        values = {"unit_number": number, "compacted_offset": compacted, "reserved": reserved}
        right = {"queue_offset": expected}
        for rule, wrong, found, wanted in (
            (RuleName.BATCH_UNIT_BASE, base != expected, {"unit_number": number}, right),
            (RuleName.BATCH_UNIT_RESERVED, odd, values, {}),
        ):
            file = place(0).file
            tasks_task.add_rows(self.collector, rule, file, np.flatnonzero(wrong), place, found, wanted)
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
        unitruns.judge_expiry(self.queue, self.shape, self.live_index, self.log_start, self.collector)

    def _judge_files(self, reader: UnitReader) -> None:
        size = self.queue.unit_size
        for file in reader.files:
            rest = file.size % size
            tail = reader.read((file.start_offset or 0) + file.size - rest, rest)
            if any(tail):
                self.broken = True
                start, name = file.size - rest, (self.queue.topic, self.queue.queue_id)
                place = Where(file.relative, start, file.size, None, *name)
                self.collector.find(RuleName.UNIT_PARTIAL, place, {"byte_count": rest})
        if len(reader.files) > 1 and self.shape.unit_count:
            last = reader.files[-1]
            if self.runs.runs[-1].kind == Kind.ZERO and self.shape.end * size <= (last.start_offset or 0):
                index = (last.start_offset or 0) // size
                if self.runs.runs[-1].start <= index:
                    self.collector.find(
                        RuleName.QUEUE_LAST_FILE_EMPTY, unit_place(self.queue, index, last.size // size)
                    )

    def _whole_queue(self) -> Where:
        queue = self.queue
        return queue_place(queue.topic, queue.queue_id, queue.kind)

    def facts(self) -> tasks_task.QueueFacts:
        queue, shape = self.queue, self.shape
        batch = queue.kind == "batch"
        live = self.live_index
        if self.log_start is None and shape.unit_count:
            live = shape.start + shape.pre_blank_count
        return tasks_task.QueueFacts(
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

    def checked(self) -> tasks_task.Checked:
        return tasks_task.Checked(len(self.queue.files), self.byte_count, unit_count=self.shape.unit_count)
