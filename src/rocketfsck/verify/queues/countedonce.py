"""Which lost messages of light queues another queue has already counted, by physical offset.

    own queue    --own-->    CountedOnce  <--fresh--  light queue

A light queue lists records that have a queue of their own; a message that is gone is gone once. Only where
the topic of a record was deleted do light queues alone tell of it. Reference 2.13, 3.4.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rocketfsck.formats.arrays import Flags, Longs
from rocketfsck.reader.lightunits import OFFSET_LIMIT, is_light_queue
from rocketfsck.scan.sorting import among, distinct
from rocketfsck.store.model import ConsumeQueue


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
