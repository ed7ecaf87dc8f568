"""Units of many queues side by side in one array, read ahead, for the records that come next.

    room := COUNT // number of queues units, from one place of the queue on; one room a queue

Records of all queues meet their units in one pass of NumPy. A queue costs a step only when its room is used
up: once for every `room` units that it has, however many commit log files its records are in. What is in a
room may be older than what is on the disk: only a unit that fits its record counts, and a caller that misses
a unit reads the queue again.

Shared by all threads of a process. Memory: 20 bytes for each of COUNT units, of which only what was read is
touched; no file stays open. Reference 3.1.
"""

from __future__ import annotations

from threading import Lock

import numpy as np

from rocketfsck.formats.arrays import Flags, Longs
from rocketfsck.formats.dtypes import UNIT_DTYPE
from rocketfsck.reader.units import Units
from rocketfsck.store.model import ConsumeQueue, MappedFile, Store
from rocketfsck.store.reading import read_once

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
