"""Where salvaged records go: each to its own physical offset, or one after the other.

keep    every record at its physicalOffset, fences over what is missing between them, BLANKs at the ends
pack    from one file's length on, without gaps; the records' physicalOffset is rewritten

A packed log does not begin at 0. The units that keep the places of lost records in a queue name the offset 0.
A broker that finds no message there continues with the next file of the log: of a file that begins at 0 it
delivers nothing more (`count_skipped`). Reference 2.8, 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rocketfsck.common.wording import count_of
from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.magic import BLANK_HEADER_SIZE, MIN_RECORD_SIZE
from rocketfsck.repair.carve.carve import CarvedRecords
from rocketfsck.repair.log.filler import RECORD_SIZE_LIMIT, min_filler_size
from rocketfsck.repair.salvage.choose import takes_queue_offset

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


def place_kept(found: CarvedRecords, rows: Longs, file_size: int) -> Placement | str:
    """The rows (none overlaps another) in their own places, or why that cannot be."""
    rows = rows[np.argsort(found["physical_offset"][rows], kind="stable")]
    start = found["physical_offset"][rows].astype(np.int64)
    end = start + found["total_size"][rows]
    crossing = np.flatnonzero(start % file_size + (end - start) + BLANK_HEADER_SIZE > file_size)
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
            fences.append((low, low + file_size - BLANK_HEADER_SIZE))
            blanks.append((low + file_size - BLANK_HEADER_SIZE, low + file_size))
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
        room = before[at] + file_size - BLANK_HEADER_SIZE
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
    room[order[1:]] = np.where(count > 0, np.maximum(count * MIN_RECORD_SIZE - between, 0), 0)
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
    return np.flatnonzero(found["total_size"] + BLANK_HEADER_SIZE <= file_size)
