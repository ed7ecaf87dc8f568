"""A consume queue as runs of units of one kind: the walk behind the rules on a queue's own order.

    queue := pre-blank* unit* zero*                        as a broker leaves it
    run   := neighbours of one kind: UNIT, ZERO, PRE_BLANK or INVALID

One pass over the files in blocks; per unit only NumPy. Reference 3.1, 3.3, 3.5, 3.7.

The check of many queues of one short file each, in one pass over the units of all of them.

Only what is sound is taken (`reader.shortqueues`): there is nothing to say of such a queue but which of its
units are expired. All others are gone through one by one (`file`). Reference 3.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.consumequeue import MAX_EXT_ADDRESS, PRE_BLANK_SIZE, UNIT_SIZE
from rocketfsck.reader.shortqueues import read_short_queues
from rocketfsck.reader.units import Kind, UnitReader, Units
from rocketfsck.scan.spans import group_bounds
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.verify.finding import queue_place
from rocketfsck.verify.tasks.task import Collector, Context, QueueKnown, QueuesTask

MAX_RUNS = 20_000
"""Runs kept of one queue: a sound queue has at most three."""


@dataclass(frozen=True, slots=True)
class UnitRun:
    """Units `start:end` (indexes) of one kind; commitlog offsets of first and last, and the last's end."""

    kind: Kind
    start: int
    end: int
    first_offset: int
    last_offset: int
    last_end: int

    @property
    def count(self) -> int:
        return self.end - self.start


@dataclass(slots=True)
class RunList:
    """Collects runs; neighbours of one kind become one run, whatever blocks they came in."""

    runs: list[UnitRun] = field(default_factory=list)
    not_kept_count: int = 0

    def add_block(self, index: int, units: Units, kinds: NDArray[np.int8]) -> None:
        """Take a block of units that begins at `index`."""
        offset, size = units["offset"], units["size"]
        bounds = group_bounds(kinds).tolist()
        for low, high in itertools.pairwise(bounds):
            kind, first, last = Kind(int(kinds[low])), int(offset[low]), int(offset[high - 1])
            self.add(UnitRun(kind, index + low, index + high, first, last, last + int(size[high - 1])))

    def add_zeros(self, index: int, count: int) -> None:
        """Take `count` units of zeros that begin at `index`."""
        self.add(UnitRun(Kind.ZERO, index, index + count, 0, 0, 0))

    def add(self, run: UnitRun) -> None:
        """Take a run that begins where the one before ends, or after it."""
        if self.runs:
            before = self.runs[-1]
            if before.kind == run.kind and before.end == run.start:
                self.runs[-1] = replace(
                    before, end=run.end, last_offset=run.last_offset, last_end=run.last_end
                )
                return
        if len(self.runs) >= MAX_RUNS:
            self.not_kept_count += run.count if run.kind != Kind.ZERO else 0
            return
        self.runs.append(run)


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something in the sequence of runs that a sound queue does not have; `rule` is its id."""

    rule: str
    run: UnitRun


@dataclass(frozen=True, slots=True)
class Shape:
    """What the runs of a queue say. Indexes; `end` is the one after the last unit of the queue.

    `stale` are the runs after a gap that do not continue where the queue was: left by a truncation.
    """

    start: int
    end: int
    pre_blank_count: int
    unit_count: int
    last_end: int
    flaws: tuple[Flaw, ...]
    stale: tuple[tuple[int, int], ...]


def shape_of(runs: list[UnitRun], files_start: int) -> Shape:
    """Judge the runs of a queue whose first unit on disk has the index `files_start`."""
    flaws: list[Flaw] = []
    stale: list[tuple[int, int]] = []
    pre_blank_count = unit_count = 0
    end, last_offset, last_end = files_start, -1, -1
    waiting: list[Flaw] = []
    for number, run in enumerate(runs):
        if run.kind == Kind.PRE_BLANK:
            if number == 0 and run.start == files_start:
                pre_blank_count, end = run.count, run.end
            else:
                waiting.append(Flaw(RuleName.PRE_BLANK_MISPLACED, run))
        elif run.kind == Kind.INVALID:
            waiting.append(Flaw(RuleName.UNIT_INVALID, run))
        elif run.kind == Kind.ZERO:
            waiting.append(Flaw(RuleName.UNIT_HOLE, run))
        elif run.first_offset > last_offset or run.start == end:
            flaws += waiting
            waiting = []
            unit_count += run.count
            end, last_offset, last_end = run.end, run.last_offset, run.last_end
        else:
            flaws += _after(waiting)
            waiting = []
            flaws.append(Flaw(RuleName.UNIT_STALE, run))
            stale.append((run.start, run.end))
    flaws += _after(waiting)
    return Shape(files_start, end, pre_blank_count, unit_count, last_end, tuple(flaws), tuple(stale))


def _after(flaws: list[Flaw]) -> list[Flaw]:
    """What was treated as a part of the queue, once it turns out that no unit of the queue follows.

    Zeros are the rest of the file then. Pre-blank units hold no places of lost records there: brokers that
    come to them count them as units, and continue their numbers after them.
    """
    return [
        replace(flaw, rule=RuleName.UNIT_STALE) if flaw.rule == RuleName.PRE_BLANK_MISPLACED else flaw
        for flaw in flaws
        if flaw.rule != RuleName.UNIT_HOLE
    ]


# What a check of a consume queue leaves for a later one, which continues after it.
#
# Only of a queue with nothing odd: pre-blanks, then units without a gap. Reference 3.1, 3.3.


def known_units(queue: ConsumeQueue, shape: Shape, runs: list[UnitRun]) -> QueueKnown | None:
    """The units of a queue that has no finding but expired units; None where more is to be said of it."""
    units = [run for run in runs if run.kind == Kind.UNIT]
    if queue.kind != "file" or queue.ext is not None or shape.flaws or len(units) != 1:
        return None
    (run,) = units
    if run.start != shape.start + shape.pre_blank_count:
        return None
    return QueueKnown(
        shape.start, shape.pre_blank_count, run.end, run.first_offset, run.last_offset, run.last_end
    )


def known_runs(known: QueueKnown, reader: UnitReader, runs: RunList) -> int:
    """Put what is known of a queue in front of its runs; the index after that, 0 where it does not help.

    Files in front may have expired since: then the first unit on disk is another one.
    """
    start = reader.first_index
    if not known.start <= start < known.end or (start > known.start and known.pre_blank_count):
        return 0
    first, first_offset = known.start + known.pre_blank_count, known.first_offset
    if start > known.start:
        first, first_offset = start, int(reader.units(start, 1)["offset"][0])
    if known.pre_blank_count:
        runs.add(UnitRun(Kind.PRE_BLANK, start, first, 0, 0, PRE_BLANK_SIZE))
    runs.add(UnitRun(Kind.UNIT, first, known.end, first_offset, known.last_offset, known.last_end))
    return known.end


# Units whose records the commit log has no more. Reference 3.3, 3.5.


def judge_expiry(
    queue: ConsumeQueue, shape: Shape, live_index: int | None, log_start: int | None, collector: Collector
) -> None:
    """Say which units of a queue are expired: those in front of `live_index`, all where that is None.

    `log_start` is the physical offset at which the log begins, None where it has no files.
    """
    where = queue_place(queue.topic, queue.queue_id, queue.kind)
    if shape.pre_blank_count and not shape.unit_count:
        collector.find(RuleName.QUEUE_PRE_BLANK_ONLY, where, {"unit_count": shape.pre_blank_count})
    if log_start is None or not shape.unit_count:
        return
    if live_index is None:
        collector.find(RuleName.QUEUE_EXPIRED, where, {"unit_count": shape.unit_count})
    elif live_index > shape.start + shape.pre_blank_count:
        count = live_index - shape.start - shape.pre_blank_count
        collector.find(RuleName.UNITS_EXPIRED, where, {"unit_count": count, "min_live_offset": live_index})


ShortQueue = tuple[UnitRun, int | None] | bytes
"""The units of a sound queue, and the index of its first live one, None for none; else what was read."""


def short_queues(context: Context, wanted: Iterable[int]) -> dict[int, ShortQueue]:
    """The short ones among these elements of `store.queues`, by their numbers there.

    One that is not sound is to be gone through as it was read: bytes that are right when they are read again
    are wrong all the same (`tasks.execute`).
    """
    queues = context.store.queues
    numbers = [number for number in wanted if _may_be_short(context, number)]
    files = [queues[number].files[0] for number in numbers]
    units = read_short_queues([file.location for file in files], [file.size for file in files])
    found: dict[int, ShortQueue] = {numbers[place]: data for place, data in units.odd.items()}
    if not len(units):
        return found
    log_start = context.store.commitlog.start_offset
    live = units.count if log_start is None else units.first_from(log_start)
    without_ext = np.logical_and.reduceat(units.tags > MAX_EXT_ADDRESS, units.bounds[:-1])
    last_end = units.last_offset + units.last_size
    columns = (units.place, units.count, units.first_offset, units.last_offset, last_end, live, without_ext)
    for row in zip(*(column.tolist() for column in columns), strict=True):
        place, count, first_offset, last_offset, end, live_count, plain = row
        if plain:
            first = (files[place].start_offset or 0) // UNIT_SIZE
            run = UnitRun(Kind.UNIT, first, first + count, first_offset, last_offset, end)
            found[numbers[place]] = (run, first + live_count if live_count < count else None)
    return found


def _may_be_short(context: Context, number: int) -> bool:
    queue = context.store.queues[number]
    if queue.kind != "file" or queue.ext is not None or len(queue.files) != 1:
        return False
    start = queue.files[0].start_offset
    return start is not None and start % UNIT_SIZE == 0


def unknown_queues(task: QueuesTask) -> Iterator[int]:
    """The numbers of the queues that no earlier check knows."""
    for place, number in enumerate(range(task.start, task.end)):
        if not task.known or task.known[place] is None:
            yield number


def sound_size(context: Context, short: Mapping[int, ShortQueue]) -> int:
    """The bytes of the files of the sound ones."""
    sound = (number for number, found in short.items() if isinstance(found, tuple))
    return sum(context.store.queues[number].files[0].size for number in sound)
