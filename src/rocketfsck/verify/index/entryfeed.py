"""The index entries that point into one commit log file, over all index files, for
`scan.join.keyjoin.EntryJoin`.

    file of sound order: entries rise, so that the part that concerns the log file is found by halves
    any other file:      gone through as a whole; what concerns the log file is put in order first

Files are taken in the order of what they hold; that of their names is looked at elsewhere (IX022).

Where the slots and entries of an index file are, for findings, and where its entries point.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import ENTRY_DTYPE, Longs
from rocketfsck.formats.indexfile import ENTRY_SIZE, HEADER, SLOT_SIZE, entry_pos, slot_pos
from rocketfsck.reader.index import BLOCK_COUNT, IndexReader
from rocketfsck.scan.join.keyjoin import put_rows
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.model import Store
from rocketfsck.store.reading import Closing
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.tasks.task import IndexFacts, TaskResult


@dataclass(frozen=True, slots=True)
class IndexExtent:
    """What of an index file concerns the log: `entry_count` entries in use, by where they point.

    `expired_count` point below the log's start, `missing_count` into commitlog files that are not there and
    `beyond_count` beyond the last file; each with the first such entry. Entry numbers count from 1.
    `slot_count` slots have entries, 0 where not all were seen or hashSlotCount cannot be right. `first_time`
    is entry 1's timeDiff, -1 where it was not looked at. `notes`: what `spread` found, if that is known.
    """

    entry_count: int
    first_offset: int
    last_offset: int
    expired_count: int = 0
    missing_count: int = 0
    missing_entry: int = 0
    beyond_count: int = 0
    beyond_entry: int = 0
    beyond_offset: int = 0
    slot_count: int = 0
    first_time: int = -1
    notes: tuple[Finding, ...] | None = field(default=None, compare=False)


def index_facts(result: TaskResult) -> IndexFacts:
    """The facts of the check of an index file."""
    facts = result.facts[0]
    assert isinstance(facts, IndexFacts)
    return facts


def header_place(file: str, name: str) -> Where:
    """One field of an index file's header."""
    start = HEADER.offset(name)
    return Where(file, start, start + (HEADER.field(name).size or 0))


def entry_place(
    file: str, slot_count: int, entry: int, count: int = 1, physical_offset: int | None = None
) -> Where:
    """The entries `entry:entry + count` of an index file with so many hash slots."""
    start = entry_pos(entry, slot_count)
    return Where(file, start, start + ENTRY_SIZE * count, physical_offset=physical_offset, entry=entry)


def slot_place(file: str, slot: int) -> Where:
    """One hash slot of an index file."""
    start = slot_pos(slot)
    return Where(file, start, start + SLOT_SIZE, slot=slot)


Number = TypeVar("Number", int, Longs)

NUMBER_BITS = 32
COLUMN_COUNT = 5
EDGE_COUNT = 32
"""Entries next to the ends of a part that must be in order for the part to be believed."""
MAX_SORTED = 1 << 21
"""Entries that are put in order in memory (40 bytes each); of files with more the order is taken as it is."""


def split_number(number: Number) -> tuple[Number, Number]:
    """The places in `Store.indexes` and the entries that a feed's number, or a column of them, means."""
    return number >> NUMBER_BITS, number & ((1 << NUMBER_BITS) - 1)


@dataclass(frozen=True, slots=True)
class _Part:
    """Entries `start:end` of an index file; `first` and `last` offsets are -1 unless they are in order."""

    index: int
    start: int
    end: int
    first: int
    last: int

    @property
    def in_order(self) -> bool:
        return self.first >= 0


class LogEntryFeed(Closing):
    """Entries that point into `start:end` of the log. A context manager; one index file is open at a time.

    What `read` gives is good until the next call.
    """

    def __init__(self, store: Store, start: int, end: int) -> None:
        self._store = store
        self._start = start
        self._end = end
        self._compiled = compiled_wanted()
        self._room = np.empty((0, COLUMN_COUNT), np.int64)
        self._reader: IndexReader | None = None
        self._open_index = -1
        self._window: ReadAhead | None = None
        self._sorted: Longs | None = None
        parts = [part for index in range(len(store.indexes)) if (part := self._part(index)) is not None]
        self._parts = sorted(parts, key=lambda part: part.first)
        self._next = self._parts[0].start if self._parts else 0
        if not self._rises() and sum(part.end - part.start for part in parts) <= MAX_SORTED:
            rows = [np.zeros((0, COLUMN_COUNT), np.int64)]
            try:
                while len(block := self._read(BLOCK_COUNT)):
                    rows.append(block.copy())
            finally:
                self.close()
            merged = np.concatenate(rows)
            self._sorted = merged[np.lexsort((merged[:, 0], merged[:, 1]))]  # by offset, as they were put
            self._next = 0

    def read(self, count: int) -> Longs:
        """Up to `count` further entries: number, offset, keyHash, timeDiff, begin timestamp."""
        if self._sorted is None:
            return self._read(count)
        first = self._next
        self._next = min(first + count, len(self._sorted))
        return self._sorted[first : self._next]

    def _part(self, index: int) -> _Part | None:
        """The part of an index file that points into the log file; None for no entry."""
        reader = self._opened(index)
        used = reader.used_entry
        low, high = reader.find_offset(self._start, used), reader.find_offset(self._end, used)
        if low is None or high is None or self._broken_at(low, used) or self._broken_at(high, used):
            return _Part(index, 1, used + 1, -1, -1)
        if low >= high:
            return None
        ends = (int(reader.entries(entry, 1)["phyOffset"][0]) for entry in (low, high - 1))
        return _Part(index, low, high, *ends)

    def _broken_at(self, edge: int, used: int) -> bool:
        """Whether entries next to the edge of a part are out of order."""
        first, last = max(edge - EDGE_COUNT, 1), min(edge + EDGE_COUNT, used)
        if first > last:
            return False
        offsets = self._opened(self._open_index).entries(first, last - first + 1)["phyOffset"]
        return bool((np.diff(offsets.astype(np.int64)) < 0).any())

    def _rises(self) -> bool:
        """Whether the parts, one after the other, are in order."""
        last = -1
        for part in self._parts:
            if not part.in_order or part.first < last:
                return False
            last = part.last
        return True

    def _read(self, count: int) -> Longs:
        while (entries := self._entries()) is not None:
            index, first = self._parts[0].index, self._next
            block = entries[: ENTRY_SIZE * count].view(ENTRY_DTYPE)
            self._next += len(block)
            if len(self._room) < len(block):
                self._room = np.empty((len(block), COLUMN_COUNT), np.int64)
            place = (index << NUMBER_BITS) + first, self._opened(index).header.begin_timestamp
            span = self._start, self._end
            rows = put_rows(block, *place, *span, self._room, compiled=self._compiled)
            if len(rows):
                return rows
        return np.zeros((0, COLUMN_COUNT), np.int64)

    def _entries(self) -> NDArray[np.uint8] | None:
        """What is next, as on disk: one entry at least. None at the end."""
        while self._parts and self._next >= self._parts[0].end:
            self.close()
            del self._parts[0]
            self._next = self._parts[0].start if self._parts else 0
        if not self._parts:
            return None
        part = self._parts[0]
        reader = self._opened(part.index)
        if self._window is None:
            self._window = reader.window(part.start, part.end)
        window = self._window
        low = reader.first_pos + ENTRY_SIZE * self._next
        end = window.window_end
        while end - low < ENTRY_SIZE and end < window.size:
            window.move_to(low)
            window.extend()
            end = window.window_end
        start = low - window.file_pos
        size = (end - low) // ENTRY_SIZE * ENTRY_SIZE
        return window.buffer[start : start + size]

    def _opened(self, index: int) -> IndexReader:
        if self._reader is None or self._open_index != index:
            self.close()
            self._reader = IndexReader(self._store.indexes[index], self._store.geometry)
            self._open_index = index
        return self._reader

    def close(self) -> None:
        if self._window is not None:
            self._window.close()
            self._window = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None
