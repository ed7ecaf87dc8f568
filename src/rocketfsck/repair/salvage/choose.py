"""Which of the records found go into the new store, and what becomes of the others.

Of equal bytes one is taken. A record of an earlier life of the log (its queue offset was given out again, and
it is older than what is before it) is not: a broker cut it off. Two different records that lay claim to the
same bytes of the log cannot both be kept in their places. Fault catalogue, C3; reference 2.13, 6.6.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Flags, Longs
from rocketfsck.formats.magic import FENCE_TOPIC, TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketfsck.repair.carve.carve import CarvedRecords
from rocketfsck.repair.carve.confidence import Confidence, Level
from rocketfsck.scan.sorting import among, distinct


class Fate(IntEnum):
    """What becomes of a record."""

    TAKEN = 0
    COPY = 1
    UNSURE = 2
    EARLIER_LIFE = 3
    OVERLAPPED = 4
    FENCE = 5
    TOO_LARGE = 6
    DAMAGED_COPY = 7


FATES: dict[Fate, tuple[str, str]] = {
    Fate.TAKEN: ("taken", "in the new store"),
    Fate.COPY: ("copy", "the same bytes are taken from another place"),
    Fate.UNSURE: ("unsure", "the confidence is too low for --min-confidence"),
    Fate.EARLIER_LIFE: ("earlier-life", "a later record has its queue offset"),
    Fate.OVERLAPPED: (
        "overlapped",
        "a record with higher confidence, or a newer record, has its place in the log",
    ),
    Fate.FENCE: ("fence", "a filler record, not a message"),
    Fate.TOO_LARGE: ("too-large", "no file of this size can hold it"),
    Fate.DAMAGED_COPY: ("damaged-copy", "a sound record with the same physical offset is taken"),
}
"""The name of a fate in a ledger, and what it means."""


def choose(found: CarvedRecords, confidence: Confidence, level: Level, *, in_place: bool) -> NDArray[np.int8]:
    """The `Fate` of every record. With `in_place` each keeps its physical offset, so none may overlap."""
    fates = np.full(len(found), int(Fate.TAKEN), np.int8)
    fates[~confidence.at_least(level)] = Fate.UNSURE
    fates[is_fence(found)] = Fate.FENCE
    own = confidence.first_copy == np.arange(len(found))
    fates[~own] = np.where(fates[confidence.first_copy[~own]] == Fate.FENCE, Fate.FENCE, Fate.COPY)
    fates[_of_earlier_life(found, fates == Fate.TAKEN)] = Fate.EARLIER_LIFE
    if in_place:
        fates[find_overlapped(found, confidence, np.flatnonzero(fates == Fate.TAKEN))] = Fate.OVERLAPPED
    taken = distinct(found["physical_offset"][fates == Fate.TAKEN])
    fates[(fates == Fate.UNSURE) & among(found["physical_offset"], taken)] = Fate.DAMAGED_COPY
    return fates


def is_fence(found: CarvedRecords) -> Flags:
    """Filler records of an earlier repair."""
    topics = [topic for topic, _ in found.table.names] + [b""]
    whole = np.array([topic == FENCE_TOPIC for topic in topics])
    begun = np.array([bool(topic) and FENCE_TOPIC.startswith(topic) for topic in topics])
    queue = found["queue_index"]
    flags: Flags = whole[queue] | (begun[queue] & (found["body_size"] == 0))
    flags &= (found["sys_flag"] & TRANSACTION_MASK) == TRANSACTION_ROLLBACK
    return flags


def takes_queue_offset(found: CarvedRecords) -> Flags:
    """The records that have a place in a queue (reference 8)."""
    kind = found["sys_flag"] & TRANSACTION_MASK
    flags: Flags = ((kind == 0) | (kind == TRANSACTION_COMMIT)) & (found["queue_index"] >= 0)
    return flags


def _of_earlier_life(found: CarvedRecords, alive: Flags) -> Longs:
    """Rows whose queue offset a newer record before them in the log has passed."""
    rows = np.flatnonzero(alive & takes_queue_offset(found))
    queue = found["queue_index"][rows].astype(np.int64)
    rows = rows[np.lexsort((found["store_timestamp"][rows], found["physical_offset"][rows], queue))]
    queue = found["queue_index"][rows].astype(np.int64)
    following = found["queue_offset"][rows] + np.clip(found["batch_size"][rows], 1, None)
    passed = found["queue_offset"][rows] < _greatest_before(queue, following)
    older = found["store_timestamp"][rows] < _greatest_before(queue, found["store_timestamp"][rows])
    earlier: Longs = rows[passed & older]
    return earlier


def _greatest_before(group: Longs, values: Longs) -> Longs:
    """For each row the greatest value before it in its group (rows of a group adjoin); the least if none."""
    least = np.iinfo(np.int64).min
    if not len(values):
        return values
    ordered, rank = np.unique(values, return_inverse=True)
    number = np.cumsum(np.concatenate(([0], group[1:] != group[:-1])))
    step = len(ordered)
    greatest = np.maximum.accumulate(rank + number * step) - number * step
    before = np.full(len(values), least, np.int64)
    same = group[1:] == group[:-1]
    before[1:][same] = ordered[greatest[:-1][same]]
    return before


def find_overlapped(found: CarvedRecords, confidence: Confidence, rows: Longs) -> list[int]:
    """Of rows that want the same bytes of the log, those that do not get them: the less sure, the older."""
    rows = rows[np.argsort(found["physical_offset"][rows], kind="stable")]
    start = found["physical_offset"][rows]
    end = start + found["total_size"][rows]
    reached = np.maximum.accumulate(end)
    first = np.ones(len(rows), np.bool_)
    first[1:] = start[1:] >= reached[:-1]
    bounds = np.append(np.flatnonzero(first), len(rows))
    lost: list[int] = []
    for number in np.flatnonzero(np.diff(bounds) > 1).tolist():
        group = rows[bounds[number] : bounds[number + 1]]
        order = np.lexsort((-found["store_timestamp"][group], -confidence.points[group]))
        lost += _weaker(found, group[order].tolist())
    return lost


def _weaker(found: CarvedRecords, rows: list[int]) -> list[int]:
    """Rows, the best first, that overlap a better one."""
    taken: list[tuple[int, int]] = []
    lost = []
    for row in rows:
        start = int(found["physical_offset"][row])
        end = start + int(found["total_size"][row])
        at = bisect_left(taken, (start, start))
        clear = (at == len(taken) or taken[at][0] >= end) and (at == 0 or taken[at - 1][1] <= start)
        if clear:
            insort(taken, (start, end))
        else:
            lost.append(row)
    return lost
