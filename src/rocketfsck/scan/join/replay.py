"""Index files by replaying their puts, plain (NumPy) or compiled.

    index := header[40] slot:i32[S] entry[20][N]      entry 0 is never used (reference 4.1, 4.4)

Entries come in order, in pieces of any size, as the file's own bytes; memory is the table of slots. What is
wrong with a chain that differs is found by following it, which is left to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import ENTRY_DTYPE, SLOT_DTYPE, Longs
from rocketfsck.formats.indexfile import ENTRY_SIZE, SLOT_SIZE
from rocketfsck.scan.machine.jit import compiled_wanted

LINK_LIMIT = 1 << 16
"""Wrong links that a replay keeps; further ones are only counted."""
PLACE_BITS = 20
LEAST, MOST = -(1 << 63), (1 << 63) - 1


class EntryFlag(IntFlag):
    """What at least one entry put so far is; none of it in a sound file without clock steps."""

    NEGATIVE_HASH = 1
    NEGATIVE_TIME = 2
    FALLING_OFFSET = 4  # below the offset of the entry in front of it; in front of all is -1


@dataclass(frozen=True, slots=True)
class WrongLinks:
    """Columns of entries whose prevIndex is not the entry put before them into their slot (0: none)."""

    entry: Longs
    previous: Longs
    expected: Longs
    slot: Longs
    further_count: int


class IndexReplay:
    """The table of slots while `entry_count` entries or so are put. `heads[slot]` is the newest entry of the
    slot, 0 for none."""

    def __init__(self, slot_count: int, *, entry_count: int = 0, limit: int = LINK_LIMIT) -> None:
        if not 0 < slot_count < 1 << 31:
            raise ValueError(f"{slot_count} slots")
        self.slot_count = slot_count
        self.compiled = compiled_wanted(ENTRY_SIZE * entry_count)
        self.limit = limit
        self.heads: NDArray[np.int32] = np.empty(slot_count, np.int32)
        # not np.zeros: only what np.empty gives lies in huge pages, and it is read at random
        self.heads.fill(0)
        self._out = np.zeros((limit, 4), np.int64)
        # rows, further, flags, least and most offset, last offset
        self._state = np.array([0, 0, 0, MOST, LEAST, -1], np.int64)
        self._scratch = np.zeros(256, np.int64)
        self._factor = division_factor(slot_count)

    @property
    def flags(self) -> EntryFlag:
        return EntryFlag(int(self._state[2]))

    @property
    def least_offset(self) -> int:
        """The least phyOffset put so far (without any: more than `most_offset`)."""
        return int(self._state[3])

    @property
    def most_offset(self) -> int:
        return int(self._state[4])

    @property
    def wrong_count(self) -> int:
        return int(self._state[0] + self._state[1])

    def take_facts(self) -> tuple[EntryFlag, int, int]:
        """Flags, least and most phyOffset of the entries put since they were last taken."""
        found = self.flags, self.least_offset, self.most_offset
        self._state[2:5] = (0, MOST, LEAST)
        return found

    def wrong_links(self) -> WrongLinks:
        """The wrong links so far, the first `limit` of them, in order."""
        rows = self._out[: int(self._state[0])]
        return WrongLinks(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3], int(self._state[1]))

    def put(self, entries: NDArray[np.uint8], first: int) -> None:
        """Put entries in order; `entries` are the file's bytes of whole ones, `first` is the first's number.

        Raises ValueError for other sizes.
        """
        count, rest = divmod(entries.size, ENTRY_SIZE)
        if rest or first < 1 or first + count > 1 << 31 or not entries.flags.c_contiguous:
            raise ValueError(f"{entries.size} bytes of entries from {first} on")
        if not count:
            return
        if self.compiled:
            self._put_compiled(entries, count, first)
        else:
            for low in range(0, count, 1 << 16):
                piece = entries[ENTRY_SIZE * low : ENTRY_SIZE * (low + (1 << 16))]
                self._put_plain(piece.view(ENTRY_DTYPE), first + low)

    def first_wrong_slot(self, slots: NDArray[np.uint8], first: int) -> int:
        """The number of the first of these slots, the file's bytes, that is not the head; -1 for none."""
        count = slots.size // SLOT_SIZE
        fits = slots.size % SLOT_SIZE == 0 and first >= 0 and first + count <= self.slot_count
        if not fits or not slots.flags.c_contiguous:
            raise ValueError(f"{slots.size} bytes of slots from {first} on")
        if self.compiled:
            from rocketfsck.scan.compiled import index as kernels

            found = kernels.first_difference(slots.ctypes.data, count, self.heads.ctypes.data + 4 * first)
            return -1 if found < 0 else first + found
        rows = np.flatnonzero(slots.view(SLOT_DTYPE) != self.heads[first : first + count])
        return first + int(rows[0]) if len(rows) else -1

    def _put_compiled(self, entries: NDArray[np.uint8], count: int, first: int) -> None:
        from rocketfsck.scan.compiled import index as kernels

        arrays = (entries, self.heads, self._out, self._state, self._scratch)
        given, heads, out, state, scratch = (array.ctypes.data for array in arrays)
        numbers = (count, first, self.slot_count, self._factor)
        kernels.replay(given, *numbers, heads, out, self.limit, state, scratch)

    def _put_plain(self, entries: NDArray[Any], first: int) -> None:
        state = self._state
        offset = entries["phyOffset"].astype(np.int64)
        slots = entries["keyHash"].astype(np.int64) % self.slot_count
        expected = self._expected(slots, first)
        previous = entries["prevIndex"].astype(np.int64)
        wrong = np.flatnonzero(previous != expected)
        room = wrong[: self.limit - int(state[0])]
        rows = np.stack([room + first, previous[room], expected[room], slots[room]], axis=1)
        self._out[int(state[0]) : int(state[0]) + len(room)] = rows
        state[0] += len(room)
        state[1] += len(wrong) - len(room)
        flags = EntryFlag(0)
        if (entries["keyHash"] < 0).any():
            flags |= EntryFlag.NEGATIVE_HASH
        if (entries["timeDiff"] < 0).any():
            flags |= EntryFlag.NEGATIVE_TIME
        if offset[0] < state[5] or (offset[1:] < offset[:-1]).any():
            flags |= EntryFlag.FALLING_OFFSET
        state[3] = min(int(state[3]), int(offset.min()))
        state[4] = max(int(state[4]), int(offset.max()))
        state[5] = offset[-1]
        state[2] |= int(flags)

    def _expected(self, slots: Longs, first: int) -> Longs:
        # one sort of (slot, place) brings the entries of a slot together, in the order of their putting
        ordered = np.sort(slots << PLACE_BITS | np.arange(len(slots)))
        order, ordered = ordered & ((1 << PLACE_BITS) - 1), ordered >> PLACE_BITS
        opens = np.append(True, ordered[1:] != ordered[:-1])
        before = np.empty(len(slots), np.int64)
        before[1:] = order[:-1] + first
        before[opens] = self.heads[ordered[opens]]
        closes = np.append(opens[1:], True)
        self.heads[ordered[closes]] = order[closes] + first
        expected = np.empty(len(slots), np.int64)
        expected[order] = before
        return expected


def division_factor(slot_count: int) -> int:
    """ceil(2**64 / slot_count) as a signed 64-bit number, to divide a keyHash by; 0 for one slot."""
    factor = 0 if slot_count == 1 else -(-(1 << 64) // slot_count)
    return factor - (1 << 64) if factor >> 63 else factor
