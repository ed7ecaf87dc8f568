"""Which of the records found go into the new store, and what becomes of the others.

Of equal bytes one is taken. A record of an earlier life of the log (its queue offset was given out again, and
it is older than what is before it) is not: a broker cut it off. Two different records that lay claim to the
same bytes of the log cannot both be kept in their places. Fault catalogue, C3; reference 2.13, 6.6.

Where salvaged records go: each to its own physical offset, or one after the other.

keep    every record at its physicalOffset, fences over what is missing between them, BLANKs at the ends
pack    from one file's length on, without gaps; the records' physicalOffset is rewritten

A packed log does not begin at 0. The units that keep the places of lost records in a queue name the offset 0.
A broker that finds no message there continues with the next file of the log: of a file that begins at 0 it
delivers nothing more (`count_skipped`). Reference 2.8, 3.3.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.wording import count_of
from rocketfsck.formats import magic
from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.repair.carve.carve import CarvedRecords
from rocketfsck.repair.carve.confidence import Confidence, Level
from rocketfsck.repair.log import RECORD_SIZE_LIMIT, min_filler_size
from rocketfsck.scan.spans import among, distinct


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
    whole = np.array([topic == magic.FENCE_TOPIC for topic in topics])
    begun = np.array([bool(topic) and magic.FENCE_TOPIC.startswith(topic) for topic in topics])
    queue = found["queue_index"]
    flags: Flags = whole[queue] | (begun[queue] & (found["body_size"] == 0))
    flags &= (found["sys_flag"] & magic.TRANSACTION_MASK) == magic.TRANSACTION_ROLLBACK
    return flags


def takes_queue_offset(found: CarvedRecords) -> Flags:
    """The records that have a place in a queue (reference 8)."""
    kind = found["sys_flag"] & magic.TRANSACTION_MASK
    flags: Flags = ((kind == 0) | (kind == magic.TRANSACTION_COMMIT)) & (found["queue_index"] >= 0)
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


LayoutName = Literal["keep", "pack"]

MAX_FENCED_FILES = 4096
"""Whole files that are made of fences alone: a larger gap does not belong to one store."""

MAX_MISSING = 1 << 20
"""A queue that jumps by more has a wrong queue offset, or another history; no room is made for it."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The rows to write in the order of the new log, each with its physical offset there.

    `fences` and `blanks` are half-open ranges of physical offsets; the last file's rest is zeros. `file_size`
    is that of a commit log file in bytes.
    """

    name: LayoutName
    file_size: int
    rows: Longs
    offsets: Longs
    fences: tuple[tuple[int, int], ...]
    blanks: tuple[tuple[int, int], ...]

    @property
    def start_offset(self) -> int:
        """Where the first file begins; 0 without records."""
        return int(self.offsets[0]) // self.file_size * self.file_size if len(self.offsets) else 0

    def end_offset(self, found: CarvedRecords) -> int:
        """Where the last of the rows ends, which are rows of `found`; there is at least one."""
        return int(self.offsets[-1] + found["total_size"][self.rows[-1]])


@dataclass(frozen=True, slots=True)
class Moves:
    """The old physical offsets of the records of a packed log, ascending, and the new ones."""

    old: Longs
    new: Longs

    def of(self, offsets: Longs) -> Longs:
        """Where the records of these old offsets are, -1 for those not in the log."""
        where = np.searchsorted(self.old, offsets)
        where[where == len(self.old)] = 0
        return np.where(self.old[where] == offsets, self.new[where], -1)


def moves_of(found: CarvedRecords, placement: Placement) -> Moves:
    """The moves of a packed log, whose rows are in the order of their old offsets (`place_packed`)."""
    return Moves(found["physical_offset"][placement.rows], placement.offsets)


def place_kept(found: CarvedRecords, rows: Longs, file_size: int) -> Placement | str:
    """The rows (none overlaps another) in their own places, or why that cannot be."""
    rows = rows[np.argsort(found["physical_offset"][rows], kind="stable")]
    start = found["physical_offset"][rows].astype(np.int64)
    end = start + found["total_size"][rows]
    crossing = np.flatnonzero(start % file_size + (end - start) + magic.BLANK_HEADER_SIZE > file_size)
    if len(crossing):
        return (
            f"the record at {start[crossing[0]]} does not fit into one file of {count_of(file_size, 'byte')}"
        )
    fences: list[tuple[int, int]] = []
    blanks: list[tuple[int, int]] = []
    if len(rows):
        # what reaches the start of each record: the record before, or the start of the first file
        reached = np.concatenate(([start[0] // file_size * file_size], end[:-1]))
        for at in np.flatnonzero(reached != start).tolist():
            reason = _fill(int(reached[at]), int(start[at]), file_size, at == 0, fences, blanks)
            if reason:
                return reason
    return Placement("keep", file_size, rows, start, tuple(fences), tuple(blanks))


def _fill(
    low: int,
    high: int,
    file_size: int,
    is_first: bool,
    fences: list[tuple[int, int]],
    blanks: list[tuple[int, int]],
) -> str:
    """Divide what lies between two records into BLANKs and fences; why it cannot be, "" if it can."""
    file_end = low // file_size * file_size + file_size
    if high >= file_end and not is_first:
        blanks.append((low, file_end))
        low = file_end
        if (high - low) // file_size > MAX_FENCED_FILES:
            return f"more than {MAX_FENCED_FILES} empty files would fill the gap between {low} and {high}"
        while high - low >= file_size:
            fences.append((low, low + file_size - magic.BLANK_HEADER_SIZE))
            blanks.append((low + file_size - magic.BLANK_HEADER_SIZE, low + file_size))
            low += file_size
    if 0 < high - low < min_filler_size():
        return f"the gap of {count_of(high - low, 'byte')} before {high} is too small for a filler record"
    if high > low:
        fences.append((low, high))
    return ""


def place_packed(found: CarvedRecords, rows: Longs, file_size: int) -> Placement:
    """The rows one behind the other, in the order of their physical offsets (the older of equals first).

    Every row must fit in a file (`fits_file`). Where a queue misses records, fences take the room of as many
    of the least: who rebuilds the queues then sees that something was there, and leaves their places.
    """
    rows = rows[np.lexsort((found["store_timestamp"][rows], found["physical_offset"][rows]))]
    items, sizes = _with_fences(found, rows, file_size)
    before = np.concatenate(([0], np.cumsum(sizes)))
    offsets = np.empty(len(items), np.int64)
    blanks: list[tuple[int, int]] = []
    at, base = 0, file_size
    while at < len(items):
        room = before[at] + file_size - magic.BLANK_HEADER_SIZE
        stop = int(np.searchsorted(before, room, side="right")) - 1
        offsets[at:stop] = base + before[at:stop] - before[at]
        if stop < len(items):
            blanks.append((base + int(before[stop] - before[at]), base + file_size))
        at, base = stop, base + file_size
    own = items >= 0
    low = offsets[~own]
    fences = zip(low.tolist(), (low + sizes[~own]).tolist(), strict=True)
    return Placement("pack", file_size, rows, offsets[own], tuple(fences), tuple(blanks))


def _with_fences(found: CarvedRecords, rows: Longs, file_size: int) -> tuple[Longs, Longs]:
    """The rows and, as -1, the fences before some of them; and the sizes of all in bytes."""
    sizes = found["total_size"][rows].astype(np.int64)
    missing = _missing_room(found, rows, sizes)
    least = min_filler_size(property_crc=True)
    limit = max(2 * least, min(RECORD_SIZE_LIMIT, file_size // 4))
    behind = np.flatnonzero(missing)
    wanted = np.maximum(missing[behind], least)
    counts = -(-wanted // limit)
    at = np.repeat(behind, counts)
    parts = np.repeat(-(-wanted // counts), counts)
    return np.insert(rows, at, -1), np.insert(sizes, at, parts)


def _missing_room(found: CarvedRecords, rows: Longs, sizes: Longs) -> Longs:
    """For each row the bytes that are to be before it, so that what its queue misses had room."""
    room = np.zeros(len(rows), np.int64)
    taking = np.flatnonzero(takes_queue_offset(found)[rows])
    if not len(taking):
        return room
    start = np.cumsum(sizes) - sizes
    queue = found["queue_index"][rows[taking]]
    order = taking[np.argsort(queue, kind="stable")]
    queue, offset = found["queue_index"][rows[order]], found["queue_offset"][rows[order]]
    following = offset + np.clip(found["batch_size"][rows[order]], 1, None)
    count = np.where(queue[1:] == queue[:-1], offset[1:] - following[:-1], 0)
    count[(count < 0) | (count > MAX_MISSING)] = 0
    between = start[order[1:]] - start[order[:-1]] - sizes[order[:-1]]
    room[order[1:]] = np.where(count > 0, np.maximum(count * magic.MIN_RECORD_SIZE - between, 0), 0)
    return room


def count_skipped(found: CarvedRecords, placement: Placement) -> int:
    """How many records brokers pass over when they deliver: those of the file that begins at offset 0 which
    follow a hole of their queue."""
    if placement.start_offset:
        return 0
    own = takes_queue_offset(found)[placement.rows]
    rows, target = placement.rows[own], placement.offsets[own]
    queue, offset = found["queue_index"][rows], found["queue_offset"][rows]
    order = np.lexsort((offset, queue))
    rows, target, queue, offset = rows[order], target[order], queue[order], offset[order]
    hole = np.zeros(len(rows), np.bool_)
    following = offset + np.clip(found["batch_size"][rows], 1, None)
    hole[1:] = (queue[1:] == queue[:-1]) & (offset[1:] > following[:-1])
    first = np.searchsorted(queue, queue)
    holes_before = np.concatenate(([0], np.cumsum(hole)))
    behind = holes_before[1:] > holes_before[first]
    return int(np.count_nonzero(behind & (target < placement.file_size)))


def fits_file(found: CarvedRecords, file_size: int) -> Longs:
    """The rows that a file of this size can hold."""
    return np.flatnonzero(found["total_size"] + magic.BLANK_HEADER_SIZE <= file_size)
