"""Units of many queues side by side in one array, read ahead, for the records that come next.

    room := COUNT // number of queues units, from one place of the queue on; one room a queue

Records of all queues meet their units in one pass of NumPy. A queue costs a step only when its room is used
up: once for every `room` units that it has, however many commit log files its records are in. What is in a
room may be older than what is on the disk: only a unit that fits its record counts, and a caller that misses
a unit reads the queue again.

Shared by all threads of a process. Memory: 20 bytes for each of COUNT units, of which only what was read is
touched; no file stays open. Reference 3.1.

The queues of a store as numbers, so that a commit log file meets 10,000 of them without a step for each.

    row      a (topic, queueId), in the order of `Store.queues`: its row in every table that `new_table` makes
    number   a queue's place in `Store.queues`; a (topic, queueId) may have a queue of each kind

Made once for a check (`Context.shared`). Reference 1.1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import UNIT_DTYPE, Flags, Longs
from rocketfsck.reader.units import Units
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import ConsumeQueue, MappedFile, Store
from rocketfsck.store.reading import read_once

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


COUNT = 1 << 21
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
        self.room = min(max(COUNT // max(queue_count, 1), LEAST), MOST)
        count = min(queue_count, COUNT // self.room)
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
        fits = (
            (numbers >= 0)
            & (numbers < len(self._first))
            & (least >= 0)
            & (most - least < self.room - self.room // BEFORE)
        )
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
