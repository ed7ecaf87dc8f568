"""A consume queue as runs of units of one kind: the walk behind the rules on a queue's own order.

    queue := pre-blank* unit* zero*                        as a broker leaves it
    run   := neighbours of one kind: UNIT, ZERO, PRE_BLANK or INVALID

One pass over the files in blocks; per unit only NumPy. Reference 3.1, 3.3, 3.5, 3.7.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.consumequeue import PRE_BLANK_SIZE
from rocketfsck.reader.units import UnitReader, Units
from rocketfsck.rulenames import RuleName
from rocketfsck.scan.spans import group_bounds

BLOCK_COUNT = 1 << 15
MAX_RUNS = 20_000
"""Runs kept of one queue: a sound queue has at most three."""


class Kind(IntEnum):
    """What a unit is, as a broker that recovers the queue sees it."""

    ZERO = 0
    UNIT = 1
    PRE_BLANK = 2
    INVALID = 3


@dataclass(frozen=True, slots=True)
class Run:
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


def kinds_of(units: Units) -> NDArray[np.int8]:
    """The `Kind` of every unit of a block."""
    offset, size = units["offset"], units["size"]
    sound = (offset >= 0) & (size > 0)
    if "batchSize" in (units.dtype.names or ()):
        sound &= (units["msgBaseOffset"] >= 0) & (units["batchSize"] > 0)
        zero = ~units.view(np.uint8).reshape(len(units), -1).any(axis=1)
        blank = np.zeros(len(units), np.bool_)
    else:
        empty = (offset == 0) & (units["tagsCode"] == 0)
        zero = empty & (size == 0)
        blank = empty & (size == PRE_BLANK_SIZE)
    kinds = np.full(len(units), Kind.INVALID, np.int8)
    kinds[sound] = Kind.UNIT
    kinds[blank] = Kind.PRE_BLANK
    kinds[zero] = Kind.ZERO
    return kinds


def read_blocks(reader: UnitReader, block_count: int = BLOCK_COUNT) -> Iterator[tuple[int, Units]]:
    """The whole units of every file in order, as (index of the first, units)."""
    size = reader.unit_size
    done = 0
    for file in reader.files:
        start = file.start_offset or 0
        index, end = max(-(-start // size), done), (start + file.size) // size
        while index < end:
            count = min(block_count, end - index)
            yield index, reader.units(index, count)
            index += count
        done = max(done, end)


def read_data_blocks(
    reader: UnitReader, block_count: int = BLOCK_COUNT
) -> Iterator[tuple[int, int, Units | None]]:
    """The same units as (index of the first, their count, units); None for those of holes, which are zero.

    Holes are not read: a queue's last file is little else, and so is a store of many queues.
    """
    size = reader.unit_size
    done = 0
    for number, file in enumerate(reader.files):
        start = file.start_offset or 0
        index, end = max(-(-start // size), done), (start + file.size) // size
        for data_start, data_end in reader.reader(number).data_extents():
            low = min(max((start + data_start) // size, index), end)
            high = min(max(-(-(start + data_end) // size), index), end)
            if low > index:
                yield index, low - index, None
                index = low
            while index < high:
                count = min(block_count, high - index)
                yield index, count, reader.units(index, count)
                index += count
        if index < end:
            yield index, end - index, None
        done = max(done, end)


class RunList:
    """Collects runs; neighbours of one kind become one run, whatever blocks they came in."""

    __slots__ = ("not_kept_count", "runs")

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.not_kept_count = 0

    def add_block(self, index: int, units: Units, kinds: NDArray[np.int8]) -> None:
        """Take a block of units that begins at `index`."""
        offset, size = units["offset"], units["size"]
        bounds = group_bounds(kinds).tolist()
        for low, high in itertools.pairwise(bounds):
            last = high - 1
            self._add(
                Run(
                    Kind(int(kinds[low])),
                    index + low,
                    index + high,
                    int(offset[low]),
                    int(offset[last]),
                    int(offset[last]) + int(size[last]),
                )
            )

    def add_zeros(self, index: int, count: int) -> None:
        """Take `count` units of zeros that begin at `index`."""
        self._add(Run(Kind.ZERO, index, index + count, 0, 0, 0))

    def _add(self, run: Run) -> None:
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
    run: Run


@dataclass(frozen=True, slots=True)
class Shape:
    """What the runs of a queue say. Indexes; `end` is the one behind the last unit of the queue.

    `stale` are the runs behind a gap that do not go on where the queue was: left by a truncation.
    """

    start: int
    end: int
    pre_blank_count: int
    unit_count: int
    last_end: int
    flaws: tuple[Flaw, ...]
    stale: tuple[tuple[int, int], ...]


def shape_of(runs: list[Run], files_start: int) -> Shape:
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
            flaws += _behind(waiting)
            waiting = []
            flaws.append(Flaw(RuleName.UNIT_STALE, run))
            stale.append((run.start, run.end))
    flaws += _behind(waiting)
    return Shape(files_start, end, pre_blank_count, unit_count, last_end, tuple(flaws), tuple(stale))


def _behind(flaws: list[Flaw]) -> list[Flaw]:
    """What was taken for a part of the queue, once it turns out that no unit of the queue follows.

    Zeros are the rest of the file then. Pre-blank units hold no places of lost records there: brokers that
    come to them count them as units, and number what comes next behind them.
    """
    return [
        replace(flaw, rule=RuleName.UNIT_STALE) if flaw.rule == RuleName.PRE_BLANK_MISPLACED else flaw
        for flaw in flaws
        if flaw.rule != RuleName.UNIT_HOLE
    ]
