"""What the records of a commit log file met in the queues, and what they missed, as ranges.

A task makes these, and `crossqueues` puts those of all files together. Reference 3.8.

Which lost messages of light queues another queue has already counted, by physical offset.

    own queue    --own-->    CountedOnce  <--fresh--  light queue

A light queue lists records that have a queue of their own; a message that is gone is gone once. Only where
the topic of a record was deleted do light queues alone tell of it. Reference 2.13, 3.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.reader.units import OFFSET_LIMIT, is_light_queue
from rocketfsck.scan.spans import among, distinct, merge_spans
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.verify.finding import Facts, Finding, unit_place

# Light queues (LMQ) whose units are before their places: a broker gave numbers away without writing units.
#
# See `formats.properties`. Reference 2.13, 3.4.

MAX_NAMES = 1 << 14
"""Light queues whose skipped numbers are counted in a commit log file."""

FIRST, LAST, AT, COUNT, OFFSET = range(1, 6)
"""Columns of rows on shifted units, behind the queue: first and last queueOffset, place, number, record."""


def judge_shifted(
    store: Store, number: int, rows: Sequence[Sequence[int]], skipped_count: int
) -> Iterator[Finding]:
    """One note on a light queue whose units are before their places because its numbers were given away.

    Where that does not explain it, an error for each run of shifted units (XR006).

    `rows` are those runs in log order, `skipped_count` the records that took a number and have no unit. The
    shift cannot be more than that, unless records before the log's start took numbers, too.
    """
    queue = store.queues[number]
    shifts = [row[FIRST] - row[AT] for row in rows]
    before = min(shifts) if store.commitlog.start_offset else 0
    if skipped_count and min(shifts) > 0 and max(shifts) - before <= skipped_count:
        count = sum(row[COUNT] for row in rows)
        found: Facts = {"unit_count": count, "largest_shift": max(shifts), "record_count": skipped_count}
        yield Finding(RuleName.LIGHT_UNITS_SHIFTED, unit_place(queue, rows[0][AT], 1, rows[0][OFFSET]), found)
        return
    for row, shift in zip(rows, shifts, strict=True):
        yield shifted(store, number, row, -shift)


def shifted(store: Store, number: int, row: Sequence[int], shift: int) -> Finding:
    """The finding on units that are `shift` places away from their own."""
    return Finding(
        RuleName.UNIT_SHIFTED,
        unit_place(store.queues[number], row[AT], row[COUNT], row[OFFSET]),
        {"first_queue_offset": row[FIRST], "last_queue_offset": row[LAST], "shift": shift},
        count=row[COUNT],
    )


class CountedOnce:
    """The physical offsets of lost messages. Own queues come first, light ones afterwards.

    Beyond `OFFSET_LIMIT` every unit of a light queue counts as a copy: most are. Without light queues
    nothing `is_needed`, and nothing is kept.
    """

    def __init__(self, *, is_needed: bool = True) -> None:
        self.is_needed = is_needed
        self._own: list[Longs] = []
        self._count = 0
        self._sorted: Longs | None = None
        self._light: set[int] = set()

    @property
    def is_full(self) -> bool:
        """Whether offsets were left out, so that copies can no longer be recognised."""
        return self._count > OFFSET_LIMIT

    def copies(self, queue: ConsumeQueue, offsets: Longs) -> Flags:
        """Which of a queue's units of lost messages, by their offsets, a queue before it has counted."""
        if is_light_queue(queue):
            return ~self.fresh(offsets)
        self.own(offsets)
        return np.zeros(len(offsets), np.bool_)

    def own(self, offsets: Longs) -> None:
        """Take the offsets of messages that their own queue lost."""
        if not self.is_needed:
            return
        self._count += len(offsets)
        if self.is_full:
            self._own.clear()
        elif len(offsets):
            self._own.append(offsets)

    def fresh(self, offsets: Longs) -> Flags:
        """Which units of a light queue, by their offsets, no queue before it has counted."""
        if self._sorted is None:
            self._sorted = distinct(np.concatenate([np.zeros(0, np.int64), *self._own]))
            self._own.clear()
        flags = np.zeros(len(offsets), np.bool_)
        if self.is_full:
            return flags
        for row in np.flatnonzero(~among(offsets, self._sorted)).tolist():
            offset = int(offsets[row])
            flags[row] = offset not in self._light
            self._light.add(offset)
        self._count += int(np.count_nonzero(flags))
        return flags


def own_first(queues: Iterable[tuple[int, ConsumeQueue]]) -> list[tuple[int, ConsumeQueue]]:
    """Queues with their numbers, the light ones last."""
    return sorted(queues, key=lambda item: (is_light_queue(item[1]), item[0]))


Name = tuple[str, int]


class Missing(IntEnum):
    """What is where a record's unit should be."""

    NO_QUEUE = 0
    NOTHING = 1  # a unit of zeros, or no file
    PRE_BLANK = 2
    OTHER = 3  # another unit
    BEFORE = 4  # the queue begins later


@dataclass(frozen=True, slots=True)
class UnitRanges:
    """What the records of one commit log file met in the queues.

    A row stands for a queue: `numbers` are their places in `Store.queues` (-1: none such), `unknown_names`
    the (topic, queueId) of the rows that are -1, in order. `matched` has rows (row, first unit, unit after
    the last); `missed` rows (row, first queueOffset, last queueOffset, first physical offset, last physical
    offset, record count, Missing); `delays` rows (delay level, milliseconds, unit count, queue number,
    queueOffset of the first, its physical offset). `shifted` are the light queues' units that are away from
    their places: rows (row, first queueOffset, last queueOffset, place of the first, unit count, physical
    offset of the first record).
    """

    numbers: NDArray[np.int32]
    unknown_names: tuple[Name, ...]
    matched: Longs
    missed: Longs
    delays: Longs
    shifted: Longs
    not_kept_count: int = 0

    def names(self, store: Store, rows: Iterable[int]) -> list[Name]:
        """The (topic, queueId) of these rows."""
        unknown = np.cumsum(self.numbers < 0) - 1
        queues = store.queues
        return [
            self.unknown_names[int(unknown[row])]
            if self.numbers[row] < 0
            else (queues[self.numbers[row]].topic, queues[self.numbers[row]].queue_id)
            for row in rows
        ]


def ranges_of(row: Longs, index: Longs) -> Longs:
    """Units, ordered by row, as ranges (row, first, after the last)."""
    if not len(row):
        return np.zeros((0, 3), np.int64)
    first = np.ones(len(row), np.bool_)
    first[1:] = (row[1:] != row[:-1]) | (index[1:] != index[:-1] + 1)
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(row)) - 1
    return np.column_stack((row[starts], index[starts], index[ends] + 1))


def joined(matched: Longs) -> Longs:
    """The same units in the fewest ranges, by row and place."""
    if not len(matched):
        return matched
    matched = matched[np.lexsort((matched[:, 1], matched[:, 0]))]
    first = np.ones(len(matched), np.bool_)
    first[1:] = (matched[1:, 0] != matched[:-1, 0]) | (matched[1:, 1] != matched[:-1, 2])
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(matched)) - 1
    return np.column_stack((matched[starts, 0], matched[starts, 1], matched[ends, 2]))


# Which units of which queue met their records, put together over the files of the log.


class MatchedUnits:
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
        continues = first & (start == self._end[number])
        start[continues] = self._start[number[continues]]
        ended = number[first & ~continues]
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
