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
