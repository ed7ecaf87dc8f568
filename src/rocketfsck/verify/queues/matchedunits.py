"""Which units of which queue met their records, put together over the files of the log."""

from __future__ import annotations

import numpy as np

from rocketfsck.formats.arrays import Longs
from rocketfsck.scan.spans import merge_spans
from rocketfsck.verify.queues.unitranges import UnitRanges


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
