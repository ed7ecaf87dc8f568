"""What the records of a commit log file met in the queues, and what they missed, as ranges.

A task makes these, and `crossqueues` puts those of all files together. Reference 3.8.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs
from rocketfsck.scan.spans import merge_spans
from rocketfsck.store.model import Store

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
