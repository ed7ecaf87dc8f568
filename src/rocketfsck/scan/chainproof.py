"""That the chains of an index file are sound, proved by two products, compiled only.

A sound file's entries and slots hold the same pairs twice, but for those that hold 0:

    (slot, number) of each entry                                      what was put
    (slot, prevIndex) of each entry and (slot, head) of each slot     what the file says of it

If these are equal, each pair as often, and every prevIndex is below its own entry, then the first entry of a
slot links to 0, as nothing else of its slot is below it. As many numbers are left as there are entries, so no
other one is 0: the links of the others and the head are the entries, each once. The second one can only link
to the first, and so on up to the head. Every chain lists its entries, each once and falling.

Whether the pairs are equal is seen without any table: with a number x for each pair, the products of
(point + x) modulo the prime 2**61 - 1 are two polynomials in `point`, which is drawn at random for every
file. Different ones agree in at most as many points as there are pairs: a file at fault passes with a
probability below 2**-35, whatever its bytes, and a sound one always does. Reading is in order, once; a replay
(`replay`) reads a table of all slots at random, which takes several times as long. What does not pass is for
the replay to look at.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from rocketfsck.scan.replay import ENTRY_DTYPE, ENTRY_SIZE, LEAST, MOST, EntryFlag

SLOT_LIMIT = 1 << 25
"""Slots that a proof is good for: all numbers of pairs stay below 2**57."""
POINT_LIMIT = (1 << 60) - 1
PRIME = (1 << 61) - 1


class ChainProof:
    """The products while entries are put; then the slots are counted in, and `holds` says what came of it.

    Takes the facts of entries on its way, as `IndexReplay` does.
    """

    __slots__ = (
        "_divisor",
        "_flags",
        "_least",
        "_most",
        "_point",
        "_provable",
        "_slot_pos",
        "_state",
        "_terms",
        "slot_count",
    )

    def __init__(self, slot_count: int) -> None:
        """Raises ValueError for more slots than SLOT_LIMIT, or less than 2."""
        if not 1 < slot_count <= SLOT_LIMIT:
            raise ValueError(f"{slot_count} slots")
        self.slot_count = slot_count
        bit_count = 31 + (slot_count - 1).bit_length()
        self._divisor = (-(-(1 << bit_count) // slot_count), bit_count)  # exact for hashes below 2**31
        self._point = 1 + secrets.randbelow(POINT_LIMIT - 1)
        self._state = np.array([1, 1, 1, 1, 0, -1, 0], np.int64)  # kernels_index.PROOF_PUT and further
        self._terms = np.zeros(512, np.int64)
        self._flags, self._least, self._most = EntryFlag(0), MOST, LEAST
        self._provable = True
        self._slot_pos = 0

    @property
    def used_slot_count(self) -> int:
        """How many slots are not 0, of those counted in."""
        return int(self._state[6])

    @property
    def holds(self) -> bool:
        """Whether the chains of the entries and slots so far are sound."""
        put, found, put_too, found_too = self._state[:4].tolist()
        whole = self._slot_pos == self.slot_count
        return self._provable and whole and bool(put * put_too % PRIME == found * found_too % PRIME)

    def fork(self, last_offset: int) -> ChainProof:
        """A proof at the same point, for entries from some number on: `last_offset` is that in front of them.

        Two threads can then take a part of the entries each; `absorb` brings the parts together.
        """
        other = ChainProof(self.slot_count)
        other._point = self._point
        other._state[5] = last_offset
        return other

    def absorb(self, other: ChainProof) -> None:
        """Count in the entries of a proof that was forked from this one. Its facts stay its own."""
        for place in range(4):
            product = int(self._state[place]) * int(other._state[place])
            self._state[place] = product % PRIME
        self._provable &= other._provable

    def take_facts(self) -> tuple[EntryFlag, int, int]:
        """Flags, least and most phyOffset of the entries put since they were last taken."""
        found = self._flags, self._least, self._most
        self._flags, self._least, self._most = EntryFlag(0), MOST, LEAST
        return found

    def put(self, entries: NDArray[np.uint8], first: int) -> None:
        """Put entries in order; `entries` are the file's bytes of whole ones, `first` is the first's number.

        Raises ValueError for other sizes.
        """
        from rocketfsck.scan import kernels_index

        count, rest = divmod(entries.size, ENTRY_SIZE)
        if rest or first < 1 or first + count > 1 << 31 or not entries.flags.c_contiguous:
            raise ValueError(f"{entries.size} bytes of entries from {first} on")
        if not count:
            return
        state = self._state
        state[4] = 0
        kernels_index.link_products(
            entries.ctypes.data,
            count,
            first,
            self.slot_count,
            *self._divisor,
            8 * self._point,
            self._terms.ctypes.data,
            state.ctypes.data,
        )
        least, most = int.from_bytes(entries[4:12].tobytes(), signed=True), int(state[5])
        flags = int(state[4]) & (1 << 64) - 1
        if flags:
            hashes, times, offsets, links = (flags >> 16 * number & 0xFFFF for number in range(4))
            self._flags |= EntryFlag.NEGATIVE_HASH if hashes else EntryFlag(0)
            self._flags |= EntryFlag.NEGATIVE_TIME if times else EntryFlag(0)
            if hashes or links:
                self._provable = False
            if offsets:
                self._flags |= EntryFlag.FALLING_OFFSET
                offset = entries.view(ENTRY_DTYPE)["offset"]
                least, most = int(offset.min()), int(offset.max())
        self._least, self._most = min(self._least, least), max(self._most, most)

    def put_slots(self, slots: NDArray[np.uint8]) -> None:
        """Count in the next slots, the file's bytes. Raises ValueError for more than there are."""
        from rocketfsck.scan import kernels_index

        count = slots.size // 4
        if slots.size % 4 or self._slot_pos + count > self.slot_count or not slots.flags.c_contiguous:
            raise ValueError(f"{slots.size} bytes of slots from {self._slot_pos} on")
        kernels_index.head_products(
            slots.ctypes.data, count, self._slot_pos, 8 * self._point, self._state.ctypes.data
        )
        self._slot_pos += count
