"""The timer wheel as its log makes it: units put into slots in the order of the log. Reference 1.8.

    slot number := slotTime % slot count        slotTime := delivery time / precision

Whole blocks of units are put at a time; memory is that of the wheel, however long the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.formats.timer import SLOTS_TOTAL
from rocketfsck.scan.spans import group_bounds

SLOT_COUNT = 2 * SLOTS_TOTAL
NO_POS = -1
_NO_TIME = np.iinfo(np.int64).min


def _filled(value: int) -> Longs:
    return np.full(SLOT_COUNT, value, np.int64)


@dataclass(slots=True)
class WheelReplay:
    """What the slots hold after the units that were put; by slot number.

    `time` is the slotTime (`has` says whether there is one), `first` and `last` the positions of its oldest
    and newest unit, `count` its messages: units that delete one count as -1. `whole`: its oldest unit has no
    predecessor, so that all units of the slot were put.
    """

    time: Longs = field(default_factory=lambda: _filled(_NO_TIME))
    first: Longs = field(default_factory=lambda: _filled(NO_POS))
    last: Longs = field(default_factory=lambda: _filled(NO_POS))
    count: Longs = field(default_factory=lambda: np.zeros(SLOT_COUNT, np.int64))
    whole: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(SLOT_COUNT, np.bool_))

    def has(self, number: Longs, slot_time: Longs) -> Flags:
        """Whether these slots hold these times."""
        return np.asarray(self.time[number] == slot_time, np.bool_)

    def copy(self) -> WheelReplay:
        """The state as it is now."""
        return WheelReplay(*(getattr(self, name).copy() for name in self.__slots__))

    def put(
        self, pos: Longs, slot_time: Longs, prev_pos: Longs, deletes: Flags, log_start: int
    ) -> tuple[Longs, Longs]:
        """Put units, in the order of the log. Gives the rows whose prevPos is not the position of the unit of
        the slot before them, and that position (-1 for none) for each.

        What a slot had before `log_start` is not known: a unit that is the first of its slot in the log may
        have any predecessor there.
        """
        order = np.argsort(slot_time, kind="stable")
        bounds = group_bounds(slot_time[order])
        heads, tails = order[bounds[:-1]], order[bounds[1:] - 1]
        expected = np.empty(len(pos), np.int64)
        expected[order[1:]] = pos[order[:-1]]
        number = slot_time[heads] % SLOT_COUNT
        known = self.has(number, slot_time[heads])
        expected[heads] = np.where(known, self.last[number], NO_POS)
        wrong = prev_pos != expected
        unseen = heads[~known]
        wrong[unseen] &= (prev_pos[unseen] < 0) | (prev_pos[unseen] >= log_start)
        steps = np.where(deletes, -1, 1)[order]
        added = np.add.reduceat(steps, bounds[:-1]) if len(steps) else steps
        # two times of one slot are 14 days apart: the later one in the log has it
        for rows in _rounds(number, tails):
            self._take(number[rows], slot_time[heads[rows]], pos[heads[rows]], pos[tails[rows]], added[rows])
            self.whole[number[rows]] = np.where(
                known[rows], self.whole[number[rows]], prev_pos[heads[rows]] == NO_POS
            )
        rows = np.flatnonzero(wrong)
        return rows, expected[rows]

    def _take(self, number: Longs, time: Longs, first: Longs, last: Longs, added: Longs) -> None:
        same = self.has(number, time)
        self.first[number] = np.where(same, self.first[number], first)
        self.count[number] = np.where(same, self.count[number], 0) + added
        self.last[number] = last
        self.time[number] = time


def _rounds(number: Longs, tails: Longs) -> Sequence[Longs]:
    """The groups in rounds in which no slot comes twice, each slot's groups in the order of the log."""
    order = np.lexsort((tails, number))
    bounds = group_bounds(number[order])
    rank = np.arange(len(order)) - np.repeat(bounds[:-1], np.diff(bounds))
    return [order[rank == turn] for turn in range(int(rank.max()) + 1 if len(rank) else 0)]
