"""What the records of a commit log file met in the queues, and what they missed, as ranges.

A task makes these, and `crossqueues` puts those of all files together. Reference 3.8.

Which lost messages of light queues another queue has already counted, by physical offset.

    own queue    --own-->    CountedOnce  <--fresh--  light queue

A light queue lists records that have a queue of their own; a message that is gone is gone once. Only where
the topic of a record was deleted do light queues alone tell of it. Reference 2.13, 3.4.

Units of many queues side by side in one array, read ahead, for the records that come next.

    room := ROOM_COUNT // number of queues units, from one place of the queue on; one room a queue

Records of all queues meet their units in one pass of NumPy. A queue costs a step only when its room is used
up: once for every `room` units that it has, however many commit log files its records are in. What is in a
room may be older than what is on the disk: only a unit that fits its record counts, and a caller that misses
a unit reads the queue again.

Shared by all threads of a process. Memory: 20 bytes for each of ROOM_COUNT units, of which only what was read
is touched; no file stays open. Reference 3.1.

The queues of a store as numbers, so that a commit log file meets 10,000 of them without a step for each.

    row      a (topic, queueId), in the order of `Store.queues`: its row in every table that `new_table` makes
    number   a queue's place in `Store.queues`; a (topic, queueId) may have a queue of each kind

Made once for a check (`Context.shared`). Reference 1.1.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dtypes import UNIT_DTYPE, Flags, Longs
from rocketfsck.reader.units import OFFSET_LIMIT, Units, is_light_queue
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.spans import among, distinct, merge_spans
from rocketfsck.store.model import ConsumeQueue, MappedFile, Store
from rocketfsck.store.reading import read_once
from rocketfsck.verify.finding import Facts, Finding, Findings, unit_place

NO_NUMBER = -1


class KnownQueues:
    """The rows and numbers of a store's queues.

    `files` and `batches` have the number of each row's queue of that kind, NO_NUMBER for none; `alone` is as
    `files` where a row has no other queue. `rows` has the row of each number.
    """

    __slots__ = ("_names", "_table", "alone", "batches", "files", "rows")

    def __init__(self, store: Store) -> None:
        self._table = QueueTable()
        rows = np.full(len(store.queues), NO_NUMBER, np.int64)
        files: list[int] = []
        batches: list[int] = []
        for number, queue in enumerate(store.queues):
            row = self._table.intern(os.fsencode(queue.topic), queue.queue_id)
            if row == len(files):
                files.append(NO_NUMBER)
                batches.append(NO_NUMBER)
            if row >= 0:
                (files if queue.kind == "file" else batches)[row] = number
                rows[number] = row
        self._names = self._table.names
        self.files: Longs = np.array(files, np.int64)
        self.batches: Longs = np.array(batches, np.int64)
        self.alone: Longs = np.where(self.batches < 0, self.files, NO_NUMBER)
        self.rows = rows

    def __len__(self) -> int:
        return len(self.files)

    def new_table(self) -> QueueTable:
        """A table of its own for a task; its first rows are these."""
        table = QueueTable()
        table.begin_as(self._table, self._names)
        return table

    def kinds(self, row: int) -> dict[str, int]:
        """The numbers of a row's queues by their kinds; none for a row beyond these."""
        if row >= len(self):
            return {}
        found = (("file", int(self.files[row])), ("batch", int(self.batches[row])))
        return {kind: number for kind, number in found if number >= 0}

    def numbers(self, rows: Longs) -> NDArray[np.int32]:
        """A number of each row's queues, that of kind "file" first; NO_NUMBER for rows beyond these."""
        found = np.full(len(rows), NO_NUMBER, np.int32)
        known = rows < len(self)
        files, batches = self.files[rows[known]], self.batches[rows[known]]
        found[known] = np.where(files < 0, batches, files)
        return found


ROOM_COUNT = 1 << 21
"""Units in memory."""
MOST, LEAST = 1 << 14, 4
"""Units in a room."""

BEFORE, MOST_BEFORE = 8, 256
"""A part of the room, and so many units at most, is for units in front of the first one asked for: of files
that other threads are in."""

UNIT_SIZE = UNIT_DTYPE.itemsize


class UnitRooms:
    """Rooms for the queues of kind "file"; a queue is its number in `Store.queues`.

    With so many queues that a room would have fewer than LEAST units, the last queues have none.
    """

    __slots__ = ("_count", "_first", "_lock", "_queues", "_units", "room")

    def __init__(self, store: Store) -> None:
        queue_count = len(store.queues)
        self._queues = store.queues
        self.room = min(max(ROOM_COUNT // max(queue_count, 1), LEAST), MOST)
        count = min(queue_count, ROOM_COUNT // self.room)
        self._units = np.zeros(count * self.room, UNIT_DTYPE)
        self._first: Longs = np.zeros(count, np.int64)
        self._count: Longs = np.zeros(count, np.int64)
        self._lock = Lock()

    def take(self, queue: Longs, index: Longs, starts: Longs) -> tuple[Units, Flags]:
        """The units at `index` of the queues `queue`, whose elements are in groups that begin at `starts`.

        And which of the groups were found: the units of others are zeros.
        """
        numbers, units = queue[starts], np.zeros(len(queue), UNIT_DTYPE)
        least, most = np.minimum.reduceat(index, starts), np.maximum.reduceat(index, starts)
        fits = (numbers >= 0) & (numbers < len(self._first)) & (least >= 0)
        fits &= most - least < self.room - self.room // BEFORE
        groups = np.flatnonzero(fits)
        numbers, least, most = numbers[groups], least[groups], most[groups]
        with self._lock:
            for at in np.flatnonzero(~self._has(numbers, least, most)).tolist():
                self._fill(int(numbers[at]), int(least[at]))
            fits[groups] = self._has(numbers, least, most)
            sizes = np.diff(np.append(starts, len(queue)))
            rows = np.flatnonzero(np.repeat(fits, sizes))
            taken = queue[rows]
            units[rows] = self._units[taken * self.room + (index[rows] - self._first[taken])]
        return units, fits

    def meet(self, numbers: Longs, rows: Sequence[Longs]) -> tuple[Flags, Longs]:
        """Which rows belong to queues in which a unit is not just as it should be, and the ranges of the
        units of all others (`scan.compiled.units`), by compiled code.

        `numbers` are the queues of the table's rows, `rows` the columns of `Asked`. Where a unit is in no
        room, the room moves there, but never back: a queue in disorder is gone through by itself.
        """
        from rocketfsck.scan.compiled.units import Asked, Rooms, meet_units, unit_runs

        asked = Asked(*rows)
        row_count = int(asked.queue.max()) + 1
        odd = np.zeros(row_count, np.bool_)
        rooms = Rooms(numbers, self._units.ctypes.data, self.room, self._first, self._count)
        moved: set[int] = set()
        with self._lock:
            at = meet_units(0, asked, rooms, odd)
            while at < len(asked.queue):
                row, index = int(asked.queue[at]), int(asked.index[at])
                if not self._move(int(numbers[row]), index, moved):
                    odd[row] = True
                at = meet_units(at, asked, rooms, odd)
        first, end = np.zeros((2, row_count), np.int64)
        runs = np.empty((len(asked.queue), 3), np.int64)
        count = unit_runs(asked.queue, asked.index, odd, first, end, runs)
        is_odd = odd[asked.queue] if odd.any() else np.zeros(len(asked.queue), np.bool_)
        return is_odd, runs[:count].copy()

    def _move(self, number: int, index: int, moved: set[int]) -> bool:
        """Read a queue's units around `index`, unless that is behind what was read for the same rows."""
        if number in moved and index < self._first[number]:
            return False
        moved.add(number)
        self._fill(number, index)
        return bool(self._first[number] <= index < self._first[number] + self._count[number])

    def _has(self, numbers: Longs, least: Longs, most: Longs) -> Flags:
        first = self._first[numbers]
        found: Flags = (least >= first) & (most < first + self._count[numbers])
        return found

    def _fill(self, number: int, index: int) -> None:
        """Read a queue's units around `index`. What cannot be read is for others to tell."""
        self._count[number] = 0
        file = _file_of(self._queues[number], index * UNIT_SIZE)
        if file is None:
            return
        first = (file.start_offset or 0) // UNIT_SIZE
        index = max(index - min(self.room // BEFORE, MOST_BEFORE), first)
        at = (index - first) * UNIT_SIZE
        count = min((file.size - at) // UNIT_SIZE, self.room)
        units = self._units[number * self.room : number * self.room + count]
        if read_once(file.location, units.view(np.uint8).data, at):
            self._first[number], self._count[number] = index, count


def _file_of(queue: ConsumeQueue, pos: int) -> MappedFile | None:
    """The file that holds the byte at a position of the stream; None for none, or more than one."""
    found = None
    for file in reversed(queue.files):
        start = file.start_offset
        if start is not None and start <= pos < start + file.size:
            if found is not None or start % UNIT_SIZE:
                return None
            found = file
    return found


# Light queues (LMQ) whose units are before their places: a broker gave numbers away without writing units.
#
# See `formats.properties`. Reference 2.13, 3.4.

MAX_NAMES = 1 << 14
"""Light queues whose skipped numbers are counted in a commit log file."""

FIRST, LAST, AT, COUNT, OFFSET = range(1, 6)
"""Columns of rows on shifted units, behind the queue: first and last queueOffset, place, number, record."""


def judge_shifted(store: Store, number: int, rows: Sequence[Sequence[int]], skipped_count: int) -> Findings:
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
    where = unit_place(store.queues[number], row[AT], row[COUNT], row[OFFSET])
    found = {"first_queue_offset": row[FIRST], "last_queue_offset": row[LAST], "shift": shift}
    return Finding(RuleName.UNIT_SHIFTED, where, found, count=row[COUNT])


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
