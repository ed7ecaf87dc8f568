"""Reads header, slots and entries of an index file by number, alone or in blocks, and follows chains.

    file  := header[40] slot[4] * S entry[20] * N        entry 0 is never used (reference 4.1)
    chain := slot -> newest entry -> prevIndex -> prevIndex … 0

A chain is followed one entry at a time here, wherever its links lead. Two things that look alike do not do
so: a check that all chains are right puts the entries in order instead (`scan.join.replay`), and a broker's
own walk (`query.keys`) goes round a circle without end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import StoreError
from rocketfsck.formats import indexfile
from rocketfsck.formats.dtypes import ENTRY_DTYPE, SLOT_DTYPE, Longs
from rocketfsck.scan.spans import group_bounds
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.model import IndexFile
from rocketfsck.store.reading import Closing, FileReader, PathLike

BLOCK_COUNT = 1 << 16
SPAN_COUNT = 1 << 12
NEAR_COUNT = 1 << 8
"""Entries that far apart in a chain are read together: a slot that most entries are in has long chains."""
FEW_COUNT = 64
"""Entries of a chain that are read one by one, before that is done: most chains are no longer."""

_ENTRY = indexfile.ENTRY.packer()
_SLOT = indexfile.SLOT.packer()

Entries = NDArray[Any]


def read_entry(reader: FileReader, number: int, slot_count: int) -> indexfile.Entry | None:
    """One entry of an index file with so many slots; None where the file ends before it does."""
    data = reader.read_upto(indexfile.entry_pos(number, slot_count), indexfile.ENTRY_SIZE)
    return indexfile.Entry(number, *_ENTRY.unpack_from(data)) if len(data) == indexfile.ENTRY_SIZE else None


def walk_chain(
    newest: int, last: int, read: Callable[[int], indexfile.Entry | None]
) -> Iterator[indexfile.Entry]:
    """The entries from `newest` on, as their links lead, whatever they say.

    Ends where a link leads to none of the entries 1 to `last`, to one that `read` does not have, or to one
    that the walk has come by.
    """
    number, seen = newest, set[int]()
    while 0 < number <= last and number not in seen and (entry := read(number)) is not None:
        seen.add(number)
        yield entry
        number = entry.previous


def read_header(location: PathLike) -> indexfile.IndexHeader | None:
    """The header of an index file; None where it is too short for one. Raises StoreError."""
    with FileReader(location) as reader:
        return _header_of(reader)


def readable_headers(files: Iterable[IndexFile]) -> list[tuple[IndexFile, indexfile.IndexHeader]]:
    """The files that have a header, and can be read."""
    found = []
    for file in files:
        with suppress(StoreError):
            found.append((file, read_header(file.location)))
    return [(file, header) for file, header in found if header is not None]


def _header_of(reader: FileReader) -> indexfile.IndexHeader | None:
    data = reader.read_upto(0, indexfile.INDEX_HEADER_SIZE)
    return indexfile.decode_header(data) if len(data) == indexfile.INDEX_HEADER_SIZE else None


class IndexReader(Closing):
    """One index file, open for reading. A context manager.

    `header` is all zeros where the file is too short for one (`has_header`). `last_entry` is the number of
    the last entry that the bytes hold.
    """

    __slots__ = ("_reader", "entry_count", "file", "first_pos", "header", "last_entry", "size", "slot_count")

    def __init__(self, file: IndexFile, geometry: Geometry) -> None:
        self.file = file
        self.slot_count = max(geometry.slot_count, 1)
        self.entry_count = max(geometry.entry_count, 1)
        self._reader = FileReader(file.location)
        self.size = self._reader.size
        self.first_pos = indexfile.entry_pos(0, self.slot_count)
        self.header = _header_of(self._reader) or indexfile.IndexHeader()
        whole = max(self.size - self.first_pos, 0) // indexfile.ENTRY_SIZE
        self.last_entry = max(min(whole, self.entry_count) - 1, 0)

    def close(self) -> None:
        self._reader.close()

    @property
    def has_header(self) -> bool:
        return self.size >= indexfile.INDEX_HEADER_SIZE

    @property
    def held_slot_count(self) -> int:
        """How many slots the file has room for: `slot_count` may be a wrong setting, and any number."""
        return min(self.slot_count, max(self.size - indexfile.INDEX_HEADER_SIZE, 0) // indexfile.SLOT_SIZE)

    @property
    def index_count(self) -> int:
        """The number that the next entry gets; a broker reads 0 and less as 1."""
        return max(self.header.index_count, 1)

    @property
    def used_entry(self) -> int:
        """The number of the last entry in use, by the header and by what the file's bytes hold."""
        return min(self.header.entry_count, self.last_entry)

    def entries(self, first: int, count: int, room: NDArray[np.uint8] | None = None) -> Entries:
        """Entries `first` to `first + count - 1`; the caller keeps to `last_entry`.

        The entries are read into `room` where that is given: a walk through all of them reuses its memory.
        """
        size = indexfile.ENTRY_SIZE * count
        data = np.empty(size, np.uint8) if room is None else room[:size]
        self._reader.read_into(data.data, self.first_pos + indexfile.ENTRY_SIZE * first)
        return data.view(ENTRY_DTYPE)

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """The bytes of entries `first` to `last` in blocks, each with the number of its first entry; a block
        is good until the next.
        """
        with self.window(first, last + 1) as window:
            while first <= last:
                count = min((window.end - window.start) // indexfile.ENTRY_SIZE, last + 1 - first)
                if count:
                    yield first, window.buffer[window.start : window.start + indexfile.ENTRY_SIZE * count]
                    window.start += indexfile.ENTRY_SIZE * count
                    first += count
                elif not window.extend():
                    return

    def window(self, first: int, end: int) -> ReadAhead:
        """A window that goes through the entries `first:end`, to be closed by the caller.

        At its start is entry `first`; it can be extended while it holds less than an entry.
        """
        start_pos, end_pos = (self.first_pos + indexfile.ENTRY_SIZE * number for number in (first, end))
        window = ReadAhead(self._reader, front_size=indexfile.ENTRY_SIZE, start=start_pos, end=end_pos)
        window.move_to(start_pos)
        return window

    def slots(self, first: int, count: int) -> Longs:
        """Slots `first` to `first + count - 1`, as far as the file goes (the rest as 0)."""
        data = self._slot_bytes(first, np.empty(indexfile.SLOT_SIZE * count, np.uint8))
        found: Longs = data.view(SLOT_DTYPE).astype(np.int64)
        return found

    def slot_blocks(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """The bytes of the slots that the file holds, as `slots` gives them, in blocks, each with the number
        of its first; a block is good until the next."""
        room = np.empty(indexfile.SLOT_SIZE * BLOCK_COUNT, np.uint8)
        for first in range(0, self.held_slot_count, BLOCK_COUNT):
            count = min(BLOCK_COUNT, self.held_slot_count - first)
            yield first, self._slot_bytes(first, room[: indexfile.SLOT_SIZE * count])

    def _slot_bytes(self, first: int, room: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Fills `room` with slots from `first` on; with 0 from the first one that the file does not hold."""
        pos = indexfile.slot_pos(first)
        size = max(min(room.size, self.size - pos), 0) // indexfile.SLOT_SIZE * indexfile.SLOT_SIZE
        if size:
            self._reader.read_into(room[:size].data, pos)
        room[size:] = 0
        return room

    def gather(self, numbers: Longs) -> Entries:
        """The entries of these numbers, in any order."""
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        found = np.zeros(len(numbers), ENTRY_DTYPE)
        bounds = group_bounds(ordered // SPAN_COUNT).tolist()
        for low, high in itertools.pairwise(bounds):
            first, last = int(ordered[low]), int(ordered[high - 1])
            found[order[low:high]] = self.entries(first, last - first + 1)[ordered[low:high] - first]
        return found

    def newest(self, slot: int) -> int | None:
        """What a slot says; None where the file is too short to hold it."""
        data = self._reader.read_upto(indexfile.slot_pos(slot), indexfile.SLOT_SIZE)
        return int(_SLOT.unpack(data)[0]) if len(data) == indexfile.SLOT_SIZE else None

    def entry(self, number: int) -> indexfile.Entry | None:
        """An entry; None where the file, or its geometry, has no such."""
        within = 0 <= number < self.entry_count
        return read_entry(self._reader, number, self.slot_count) if within else None

    def chain(self, key_hash: int) -> Iterator[indexfile.Entry | str]:
        """The entries of the hash's slot, newest first, then why the chain ends where it is not at its end.

        Numbers fall along a chain that puts have made: one that does not ends it. A sound chain yields
        entries only.
        """
        slot = indexfile.slot_of(key_hash, self.slot_count)
        number = self.newest(slot)
        last = self.index_count - 1
        if number is None:
            yield f"the file ends before slot {slot}"
        elif number and not 0 < number <= last:
            yield f"the slot names entry {number}, but the file has entries 1 to {last}"
        elif number:
            read = self._falling()
            while number:
                entry = read(number)
                if entry is None:
                    yield f"the file ends before entry {number}"
                    return
                yield entry
                if not 0 <= entry.previous < number:
                    yield f"entry {number} leads to {entry.previous}, which is not an earlier entry"
                    return
                number = entry.previous

    def _falling(self) -> Callable[[int], indexfile.Entry | None]:
        """`entry` for numbers that fall: after the first, `SPAN_COUNT` that are near are read at once."""
        low, block, few = self.entry_count, b"", FEW_COUNT
        unpack, size = _ENTRY.unpack_from, indexfile.ENTRY_SIZE

        def read(number: int) -> indexfile.Entry | None:
            nonlocal low, block, few
            if number < low:
                if few > 0 or low - number > NEAR_COUNT:
                    low, block, few = number, b"", few - 1
                    return self.entry(number)
                low = max(number + 1 - SPAN_COUNT, 0)
                try:
                    block = self._reader.read_upto(self.first_pos + size * low, size * (number + 1 - low))
                except StoreError:  # a bad place further down: what is above it is read one by one
                    low, block = 0, b""
            at = size * (number - low)
            if at + size > len(block):
                return self.entry(number)
            return indexfile.Entry(number, *unpack(block, at))

        return read

    def any_byte(self, number: int) -> bool:
        """Whether an entry is not all zero."""
        return any(self.entries(number, 1).tobytes())

    def last_not_zero_below(self, number: int) -> int:
        """The last entry below `number` that is not all zero; 0 if there is none."""
        while number > 1:
            low = max(number - BLOCK_COUNT, 1)
            block = self.entries(low, number - low)
            rows = np.flatnonzero(block.view(np.uint8).reshape(len(block), -1).any(axis=1))
            if len(rows):
                return low + int(rows[-1])
            number = low
        return 0

    def last_not_zero(self, first: int = 0) -> int:
        """The last entry from `first` on that is not all zero; `first - 1` if there is none."""
        end = self.first_pos + indexfile.ENTRY_SIZE * (self.last_entry + 1)
        last_pos = self._reader.used_end(self.first_pos + indexfile.ENTRY_SIZE * first, end) - 1
        return (last_pos - self.first_pos) // indexfile.ENTRY_SIZE

    def find_offset(self, offset: int, last: int) -> int | None:
        """The first of the entries 1 to `last` that points to `offset` or beyond it, `last + 1` for none.

        By binary search over entries that rise. None where the entries looked at do not: then only a walk
        through all of them tells.
        """
        low, high = 1, last + 1
        least, most = -1, 1 << 63
        while low < high:
            middle = (low + high) // 2
            entry = self.entries(middle, 1)
            found = int(entry["phyOffset"][0])
            never_put = not found and not entry["keyHash"][0]
            if never_put or not least <= found <= most:
                return None
            if found < offset:
                low, least = middle + 1, found
            else:
                high, most = middle, found
        return low
