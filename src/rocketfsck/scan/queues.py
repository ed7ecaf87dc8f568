"""Dense numbers for the queues met in a scan: (topic bytes, queueId) -> row.

Plain NumPy arrays with open addressing, so that compiled code looks names up and adds them without
touching Python. Bounded: hostile bytes can name a new queue in every record, so a table that holds
`max_queues` rows or `max_name_size` bytes of names takes no more, and what it does not know gets
`NO_ROW`. Not safe for use by two threads at once: give every task a table of its own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_ROW = -1
MAX_QUEUES = 1 << 20
MAX_NAME_SIZE = 1 << 26
MAX_PROBES = 256  # names made to collide must not turn every look-up into a walk of the table

FIRST_ROWS = 1024
ROW_COLUMNS = ("name_pos", "name_size", "queue_id", "topic_state", "topic_faults", "topic_hash")

_U32 = 0xFFFFFFFF


def name_hash(topic: bytes, queue_id: int) -> int:
    """The table's own hash, an unsigned 32-bit number; compiled code computes the same."""
    value = _topic_hash(topic)
    value = ((value ^ (queue_id & _U32)) * 0x9E3779B1 + len(topic)) & _U32
    value ^= value >> 15
    value = (value * 0x85EBCA77) & _U32
    return value ^ (value >> 13)


@lru_cache(maxsize=256)
def _topic_hash(topic: bytes) -> int:
    """The part of the hash that queues of a topic have in common."""
    value = 0
    for byte in topic:
        value = (value * 31 + byte) & _U32
    return value


class QueueTable:
    """Rows of (topic, queueId) in the order met. `names[row]` gives a row's name back."""

    def __init__(self, *, max_queues: int = MAX_QUEUES, max_name_size: int = MAX_NAME_SIZE) -> None:
        self.max_queues = max_queues
        self.max_name_size = max_name_size
        capacity = min(FIRST_ROWS, max_queues)
        # counts: rows, bytes of the arena used, size of the name that did not fit, names turned away
        self.counts: NDArray[np.int64] = np.zeros(4, np.int64)
        self.slots: NDArray[np.int32] = np.zeros(4 * FIRST_ROWS, np.int32)  # row + 1, 0 is free
        self.name_pos: NDArray[np.int64] = np.zeros(capacity, np.int64)
        self.name_size: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.queue_id: NDArray[np.int32] = np.zeros(capacity, np.int32)
        # what compiled code knows of a row's topic; topic_state 0: not looked at yet
        self.topic_state: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.topic_faults: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.topic_hash: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.arena: NDArray[np.uint8] = np.zeros(min(1 << 15, max_name_size) + 64, np.uint8)
        # what compiled code knows of these arrays: None once they are others
        self.parts: NDArray[np.int64] | None = None
        self._names: list[tuple[bytes, int]] = []
        self._rows: dict[tuple[bytes, int], int] = {}

    def __len__(self) -> int:
        return int(self.counts[0])

    @property
    def limits(self) -> tuple[int, int]:
        """The most queues, and the most bytes of their names, that it takes."""
        return self.max_queues, self.max_name_size

    @property
    def turned_away_count(self) -> int:
        """How many records named a queue that the full table would not take."""
        return int(self.counts[3])

    @property
    def names(self) -> list[tuple[bytes, int]]:
        """(topic bytes, queueId) of every row. The list grows with the table; do not alter it."""
        known, count = len(self._names), int(self.counts[0])
        if known < count:
            columns = (self.name_pos, self.name_size, self.queue_id)
            rows = zip(*(column[known:count].tolist() for column in columns), strict=True)
            arena = self.arena.data
            for row, (pos, size, queue_id) in enumerate(rows, known):
                name = (bytes(arena[pos : pos + size]), queue_id)
                self._names.append(name)
                self._rows[name] = row
        return self._names

    def intern(self, topic: bytes, queue_id: int) -> int:
        """The row of this queue, added if it is new; `NO_ROW` when it is new and the table is full."""
        if len(self._names) != self.counts[0]:
            self.names  # noqa: B018 - takes over the rows that compiled code added
        row = self._rows.get((topic, queue_id))
        if row is not None:
            return row
        if not self.reserve(len(topic)):
            self.counts[3] += 1
            return NO_ROW
        slot = _free_slot(self.slots, name_hash(topic, queue_id))
        if slot < 0:
            self.counts[3] += 1
            return NO_ROW
        row, pos = int(self.counts[0]), int(self.counts[1])
        self.slots[slot] = row + 1
        self.name_pos[row] = pos
        self.name_size[row] = len(topic)
        self.queue_id[row] = queue_id
        self.arena[pos : pos + len(topic)] = np.frombuffer(topic, np.uint8)
        self.counts[0] = row + 1
        self.counts[1] = pos + len(topic)
        self._names.append((topic, queue_id))
        self._rows[topic, queue_id] = row
        return row

    def begin_as(self, other: QueueTable, names: list[tuple[bytes, int]]) -> None:
        """Take over these names, the first of a table of the same limits, with their rows; this one is empty.

        Quicker than `intern` for each. The other one may grow meanwhile: what it has of these rows stays.
        """
        self.parts = None
        count = len(names)
        capacity = max(FIRST_ROWS, 1 << count.bit_length())
        for column in ROW_COLUMNS:
            setattr(self, column, _grown(getattr(other, column)[:count], min(capacity, self.max_queues)))
        self.arena = other.arena.copy()
        # rows met later went where these had left room, so they can be taken out again
        self.slots = np.where(other.slots <= count, other.slots, np.int32(0))
        used = int(self.name_pos[count - 1]) + int(self.name_size[count - 1]) if count else 0
        self.counts[:2] = (count, used)
        self._names = list(names)
        rows = other._rows.copy()  # much quicker than one by one
        self._rows = rows if len(rows) == count else {name: row for row, name in enumerate(names)}

    def reserve(self, name_size: int) -> bool:
        """Makes room for one more name of this size, growing where allowed; False when full for good."""
        self.parts = None
        rows, used = int(self.counts[0]), int(self.counts[1])
        if rows >= self.max_queues or used + name_size > self.max_name_size:
            return False
        if rows >= len(self.queue_id):
            capacity = min(2 * rows, self.max_queues)
            for column in ROW_COLUMNS:
                setattr(self, column, _grown(getattr(self, column), capacity))
        if used + name_size + 64 > len(self.arena):  # 64 spare bytes: names are compared in wide pieces
            size = max(2 * len(self.arena), used + name_size + 64)
            self.arena = _grown(self.arena, min(size, self.max_name_size + 64))
        if 2 * (rows + 1) > len(self.slots):
            self._rehash(4 * len(self.slots))
        return True

    def _rehash(self, slot_count: int) -> None:
        slots = [0] * slot_count  # quicker than an array, one by one
        for row, (topic, queue_id) in enumerate(self.names):
            slot = _free_slot(slots, name_hash(topic, queue_id))
            if slot >= 0:  # else compiled code finds it no more, but `intern` does
                slots[slot] = row + 1
        self.slots = np.array(slots, np.int32)


def _free_slot(slots: NDArray[np.int32] | list[int], value: int) -> int:
    mask = len(slots) - 1
    for probe in range(MAX_PROBES):
        slot = (value + probe) & mask
        if slots[slot] == 0:
            return slot
    return NO_ROW


def _grown(column: NDArray[Any], size: int) -> NDArray[Any]:
    wider = np.zeros(size, column.dtype)
    wider[: len(column)] = column
    return wider
