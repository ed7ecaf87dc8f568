"""Which lost messages of light queues another queue has already counted, by physical offset.

    own queue    --own-->    CountedOnce  <--fresh--  light queue

A light queue lists records that have a queue of their own; a message that is gone is gone once. Only where
the topic of a record was deleted do light queues alone tell of it. Reference 2.13, 3.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.arrays import Flags, Longs
from rocketfsck.reader.unitblocks import OFFSET_LIMIT, is_light_queue
from rocketfsck.scan.sorting import among, distinct
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.verify.emit import unit_place
from rocketfsck.verify.finding import Facts, Finding

# Light queues (LMQ) whose units are before their places: a broker gave numbers away without writing units.
#
# See `formats.lightqueues`. Reference 2.13, 3.4.

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
