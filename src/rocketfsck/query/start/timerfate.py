"""What becomes of the messages of the timer topic: on the wheel, delivered twice, or never. Reference 1.8.

A message is delivered as often as slots lead to its units, and once more if the topic is read again from its
place or from one in front of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rocketfsck.formats.arrays import Flags, Longs
from rocketfsck.formats.javatext import parse_int64
from rocketfsck.formats.properties import TIMER_OUT_MS
from rocketfsck.formats.timer import MAGIC_DELETE, TIMER_LOG_UNIT_SIZE
from rocketfsck.query.start.timerlog import LogRows, SlotChains
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.timerfiles import TimerProgress
from rocketfsck.reader.units import UnitReader
from rocketfsck.store.model import ConsumeQueue, Store

LOOKED_AT = 100_000
"""Messages without a unit whose records are read one by one."""
SHOWN_LOST = 100
NO_TIME = np.iinfo(np.int64).min
BLOCK_COUNT = 1 << 15


@dataclass(frozen=True, slots=True)
class TimerQueue:
    """The timer topic's queue as the start has recovered it, before it dispatches: its bounds."""

    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class TimerUnits:
    """The units of a log by the messages that they are for: when each is due at the latest, and how often
    slots lead to one. The last row is for messages without a unit."""

    offset: Longs
    due: Longs
    count: Longs
    recalls: Flags

    @classmethod
    def of(cls, rows: LogRows, chains: SlotChains) -> TimerUnits:
        """The units of all rows."""
        real = np.flatnonzero(rows.units["size"] == TIMER_LOG_UNIT_SIZE)
        offset, which = np.unique(rows.units["offsetPy"][real].astype(np.int64), return_inverse=True)
        due = np.full(len(offset) + 1, NO_TIME)
        np.maximum.at(due, which, rows.due[real])
        count = np.zeros(len(offset) + 1, np.int64)
        np.add.at(count, which, chains.counts[real])
        recalls = np.zeros(len(offset) + 1, np.bool_)
        recalls[which] = (rows.units["magic"][real] & MAGIC_DELETE) != 0
        return cls(offset, due, count, recalls)

    def find(self, offset: Longs) -> tuple[Longs, Flags]:
        """The row of each message, and whether it has one."""
        row = np.searchsorted(self.offset, offset).astype(np.int64)
        inside = row < len(self.offset)
        has = np.zeros(len(offset), np.bool_)
        has[inside] = self.offset[row[inside]] == offset[inside]
        return np.where(has, row, len(self.offset)), has


@dataclass(slots=True)
class Fate:
    """What becomes of the messages of the timer topic."""

    store: Store
    rows: LogRows
    chains: SlotChains
    progress: TimerProgress
    stop_timestamp: int
    queue_offset: int
    unknown: bool  # no timercheck: all that was due is taken to be delivered
    waiting_count: int = 0
    lost_count: int = 0
    repeated_count: int = 0
    lost: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    looked: int = 0

    def look(self, queue: ConsumeQueue | None, bounds: TimerQueue) -> None:
        """Every message whose unit is in the queue."""
        if queue is None:
            if bounds.max_offset or len(self.rows.pos):
                self.notes.append(
                    "the queue of the timer topic is missing: the prediction leaves out messages without a "
                    "timer unit"
                )
            return
        known = TimerUnits.of(self.rows, self.chains)
        with UnitReader(queue) as reader, LogReader(self.store.commitlog) as records:
            for low, high in reader.with_data(bounds.min_offset, bounds.max_offset):
                for start in range(low, high, BLOCK_COUNT):
                    units = reader.units(start, min(BLOCK_COUNT, high - start))
                    used = np.flatnonzero((units["size"] > 0) & (units["offset"] >= 0))
                    offset = units["offset"][used].astype(np.int64)
                    self._judge(offset, start + used.astype(np.int64), known, records)
        if self.looked > LOOKED_AT:
            self.notes.append(f"the prediction covers the first {LOOKED_AT:,} messages without a timer unit")

    def _judge(self, offset: Longs, number: Longs, known: TimerUnits, records: LogReader) -> None:
        row, has_unit = known.find(offset)
        due = np.where(has_unit, known.due[row], self._dues(offset, has_unit, records))
        reached = np.where(has_unit, known.count[row], 0)
        recalls = has_unit & known.recalls[row]
        seen = has_unit | (number < self.progress.queue_offset) | self.unknown
        done = seen & (due < self.stop_timestamp)
        again = number >= self.queue_offset
        delivered = reached + again
        timed = due != NO_TIME
        lost = timed & ~done & (delivered == 0)
        repeated = timed & ~recalls & np.where(done, delivered > 0, delivered > 1)
        self.waiting_count += int(np.count_nonzero(timed & ~done & (delivered > 0)))
        self.lost_count += int(np.count_nonzero(lost))
        self.repeated_count += int(np.count_nonzero(repeated))
        self.lost += offset[lost][: SHOWN_LOST - len(self.lost)].tolist()

    def _dues(self, offset: Longs, has_unit: Flags, records: LogReader) -> Longs:
        """When messages without a unit are due, by their records."""
        dues = np.full(len(offset), NO_TIME)
        for index in np.flatnonzero(~has_unit).tolist():
            self.looked += 1
            if self.looked > LOOKED_AT:
                break
            read = records.properties(int(offset[index]), self.store.dialect.property_parser)
            due = None if read is None else parse_int64(read[1].get(TIMER_OUT_MS, ""))
            dues[index] = NO_TIME if due is None else due
        return dues
