"""A consume queue as runs of units of one kind: the walk behind the rules on a queue's own order.

    queue := pre-blank* unit* zero*                        as a broker leaves it
    run   := neighbours of one kind: UNIT, ZERO, PRE_BLANK or INVALID

One pass over the files in blocks; per unit only NumPy. Reference 3.1, 3.3, 3.5, 3.7.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rocketfsck.reader.unitblocks import Kind
from rocketfsck.reader.units import Units
from rocketfsck.rulenames import RuleName
from rocketfsck.scan.spans import group_bounds

MAX_RUNS = 20_000
"""Runs kept of one queue: a sound queue has at most three."""


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
            self.add(
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
        self.add(Run(Kind.ZERO, index, index + count, 0, 0, 0))

    def add(self, run: Run) -> None:
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
    run: Run


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
    """What was treated as a part of the queue, once it turns out that no unit of the queue follows.

    Zeros are the rest of the file then. Pre-blank units hold no places of lost records there: brokers that
    come to them count them as units, and continue their numbers after them.
    """
    return [
        replace(flaw, rule=RuleName.UNIT_STALE) if flaw.rule == RuleName.PRE_BLANK_MISPLACED else flaw
        for flaw in flaws
        if flaw.rule != RuleName.UNIT_HOLE
    ]
