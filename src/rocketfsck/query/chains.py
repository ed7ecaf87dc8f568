"""The chain of one hash slot of an index file: some 24 bytes a step, never the file.

    chain := slot -> newest entry -> prevIndex -> prevIndex … 0

`walk` follows it as the bytes have it and ends where no broker's put can have made what stands there: numbers
fall along a chain, so one that does not fall ends the walk, and a chain is at most as long as the file has
entries. Reference 4.1 to 4.4, 4.7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rocketfsck.formats.indexfile import (
    ENTRY,
    ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    SLOT,
    SLOT_SIZE,
    IndexHeader,
    decode_header,
    entry_pos,
    slot_of,
    slot_pos,
)
from rocketfsck.store.model import Geometry, IndexFile
from rocketfsck.store.reading import Closing, FileReader

_ENTRY = ENTRY.packer()
_SLOT = SLOT.packer()


@dataclass(frozen=True, slots=True)
class Entry:
    """An index entry: `time_diff` in seconds, `previous` the number of the one before it in its chain."""

    number: int
    key_hash: int
    physical_offset: int
    time_diff: int
    previous: int


class Chains(Closing):
    """An index file, open for look-ups. A context manager.

    `header` is None where the file is too short for one.
    """

    __slots__ = ("_reader", "entry_count", "file", "header", "slot_count")

    def __init__(self, file: IndexFile, geometry: Geometry) -> None:
        self.file = file
        self.slot_count = max(geometry.slot_count, 1)
        self.entry_count = max(geometry.entry_count, 1)
        self._reader = FileReader(file.path)
        head = self._reader.read_upto(0, INDEX_HEADER_SIZE)
        self.header: IndexHeader | None = decode_header(head) if len(head) == INDEX_HEADER_SIZE else None

    def close(self) -> None:
        self._reader.close()

    @property
    def index_count(self) -> int:
        """The number that the next entry gets; a broker reads 0 and less as 1."""
        return max(self.header.index_count, 1) if self.header else 1

    def slot(self, key_hash: int) -> int:
        """The slot of a hash."""
        return slot_of(key_hash, self.slot_count)

    def newest(self, slot: int) -> int | None:
        """The number that stands in a slot; None where the file is too short to hold it."""
        data = self._reader.read_upto(slot_pos(slot), SLOT_SIZE)
        return int(_SLOT.unpack(data)[0]) if len(data) == SLOT_SIZE else None

    def entry(self, number: int) -> Entry | None:
        """An entry; None where the file, or its geometry, has no such."""
        if not 0 <= number < self.entry_count:
            return None
        data = self._reader.read_upto(entry_pos(number, self.slot_count), ENTRY_SIZE)
        if len(data) < ENTRY_SIZE:
            return None
        return Entry(number, *_ENTRY.unpack(data))

    def walk(self, key_hash: int) -> Iterator[Entry | str]:
        """The entries of the hash's slot, newest first, then why the chain ends where it is not at its end.

        A sound chain yields entries only.
        """
        slot = self.slot(key_hash)
        number = self.newest(slot)
        if number is None:
            yield f"the file ends before slot {slot}"
            return
        if number == 0:
            return
        if not 0 < number < self.index_count:
            yield f"the slot says {number}, but the file has entries 1 to {self.index_count - 1}"
            return
        while number:
            entry = self.entry(number)
            if entry is None:
                yield f"the file ends before entry {number}"
                return
            yield entry
            if not 0 <= entry.previous < number:
                yield f"entry {number} leads to {entry.previous}, which is not before it"
                return
            number = entry.previous
