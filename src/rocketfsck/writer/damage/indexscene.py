"""An index file as it was before the damage: header, slots, entries, and the chains that its puts made."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.indexfile import (
    ENTRY,
    ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    SLOT_SIZE,
    IndexHeader,
    decode_header,
    entry_pos,
    slot_pos,
)
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.model import IndexFile
from rocketfsck.store.reading import FileReader
from rocketfsck.writer.damage.model import PromisedPlace


class IndexScene:
    """One index file. `used` is the number of the last entry in use, `last_entry` of the last there is room
    for. `sound` says whether length, links and slots are those that the puts made."""

    def __init__(self, file: IndexFile, geometry: Geometry) -> None:
        self.file = file
        self.slot_count, self.entry_count = geometry.slot_count, geometry.entry_count
        with FileReader(file.path) as reader:
            head = reader.read_upto(0, INDEX_HEADER_SIZE)
            self.whole = reader.size == geometry.index_file_size
            self.header = (
                decode_header(head) if len(head) == INDEX_HEADER_SIZE else IndexHeader(0, 0, 0, 0, 0, 0)
            )
            self.last_entry = self.entry_count - 1
            self.used = min(self.header.entry_count, self.last_entry) if self.whole else 0
            self.entries: NDArray[Any] = np.zeros(0, ENTRY.dtype())
            self.slots: Longs = np.zeros(0, np.int64)
            if self.whole:
                data = reader.read(entry_pos(0, self.slot_count), ENTRY_SIZE * (self.used + 1))
                self.entries = np.frombuffer(data, ENTRY.dtype())
                heads = reader.read(INDEX_HEADER_SIZE, SLOT_SIZE * self.slot_count)
                self.slots = np.frombuffer(heads, ">i4").astype(np.int64)

    @cached_property
    def slot_of(self) -> Longs:
        """The slot of every entry, by number; entry 0 has none (-1)."""
        slots: Longs = self.entries["keyHash"].astype(np.int64) % self.slot_count
        slots[:1] = -1
        return slots

    @cached_property
    def offsets(self) -> Longs:
        """The commit log offset of every entry, by number."""
        offsets: Longs = self.entries["phyOffset"].astype(np.int64)
        return offsets

    @cached_property
    def sound(self) -> bool:
        if not self.whole or self.header.index_count not in (0, 1, self.used + 1):
            return False
        expected = np.zeros(self.used + 1, np.int64)
        order = np.lexsort((np.arange(self.used + 1), self.slot_of))
        slot = self.slot_of[order]
        same = np.flatnonzero((slot[1:] == slot[:-1]) & (slot[1:] >= 0)) + 1
        expected[order[same]] = order[same - 1]
        heads = np.zeros(self.slot_count, np.int64)
        heads[self.slot_of[1:]] = np.arange(1, self.used + 1)  # the last put of a slot wins
        links = self.entries["prevIndex"].astype(np.int64)
        rises = bool((np.diff(self.offsets[1:]) >= 0).all())
        return bool((links == expected).all() and (heads == self.slots).all()) and rises

    def chain(self, slot: int) -> list[int]:
        """The entries of a slot, newest first."""
        numbers: list[int] = np.flatnonzero(self.slot_of == slot)[::-1].tolist()
        return numbers

    def chains(self, length: int) -> list[int]:
        """The slots whose chains have at least this many entries."""
        counts = np.bincount(self.slot_of[1:], minlength=self.slot_count) if self.used else np.zeros(0)
        slots: list[int] = np.flatnonzero(counts >= length).tolist()
        return slots

    def link_pos(self, entry: int) -> int:
        """Where an entry's prevIndex is in the file."""
        return self.pos_of(entry) + ENTRY.offset("prevIndex")

    def pos_of(self, entry: int) -> int:
        return entry_pos(entry, self.slot_count)

    def entry_place(
        self, entry: int, *, slot: bool = False, bounded: bool = True, offset: bool = False
    ) -> PromisedPlace:
        """Where a finding on an entry is; with `slot` and `offset` it names these, too."""
        start = self.pos_of(entry)
        return PromisedPlace(
            file=self.file.relative,
            start=start,
            end=start + ENTRY_SIZE if bounded else None,
            physical_offset=int(self.offsets[entry]) if offset else None,
            slot=int(self.slot_of[entry]) if slot else None,
            entry=entry,
        )

    def slot_place(self, slot: int) -> PromisedPlace:
        """Where a finding on a slot is."""
        start = slot_pos(slot)
        return PromisedPlace(file=self.file.relative, start=start, end=start + SLOT_SIZE, slot=slot)
