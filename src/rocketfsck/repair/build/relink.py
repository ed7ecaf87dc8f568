"""An index file whose links, slots and header are made again from its own entries. Reference 4.1, 4.4.

For a file whose entries are sound and whose chains are not: hashes, offsets and timeDiffs stay as they are.

Parts of index files: the headers that a store has, names, slots from entries, slots into a file.

Reference 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.formats.dtypes import ENTRY_DTYPE
from rocketfsck.formats.indexfile import (
    ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    SLOT_SIZE,
    IndexHeader,
    encode_header,
    entry_pos,
    index_file_size,
)
from rocketfsck.reader.index import IndexReader, readable_headers
from rocketfsck.reader.records import head_of
from rocketfsck.repair.build.files import BuiltIndexFile, opened, set_time, write_part
from rocketfsck.scan.build.units import link_entries
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.store.model import IndexFile, Store
from rocketfsck.store.reading import FileReader

PIECE_COUNT = 1 << 20
SLOT_PIECE_COUNT = 1 << 14


def names_by_begin(files: Sequence[IndexFile]) -> dict[int, str]:
    """What the store calls the files that begin at an offset, where only one does."""
    found: dict[int, list[str]] = {}
    for file, header in readable_headers(files):
        if file.created is not None and header.entry_count:
            found.setdefault(header.begin_physical_offset, []).append(file.name)
    return {offset: names[0] for offset, names in found.items() if len(names) == 1}


class FileNames:
    """Names for index files, one after the other.

    As `given`, in order; else what the store calls the file that begins with the same record, where that is
    later than the name before; else the clock's when it was made, in `time_zone`. `last` is the name before.
    """

    def __init__(
        self, files: Sequence[IndexFile], time_zone: str, given: Sequence[str] | None = None
    ) -> None:
        self.last: str | None = None
        self._time_zone = time_zone
        self._given = None if given is None else list(given)
        self._known = names_by_begin(files) if given is None else {}

    def name(self, number: int, begin_physical_offset: int, created_timestamp: int) -> str:
        """The name of the file with this number, that follows `last`."""
        if self._given is not None and number < len(self._given):
            return self._given[number]
        known = self._known.get(begin_physical_offset)
        if known is not None and (self.last is None or known > self.last):
            return known
        from rocketfsck.writer.indexfile import wall_clock_name

        return wall_clock_name(created_timestamp, self._time_zone, self.last)


def slots_of_entries(path: Path, slot_count: int, count: int) -> NDArray[np.int32]:
    """The slots that the first `count` entries of an index file lead to: of each the newest entry."""
    slots = np.zeros(slot_count, np.int32)
    with FileReader(path) as reader:
        for first in range(1, count + 1, PIECE_COUNT):
            size = min(PIECE_COUNT, count + 1 - first)
            data = reader.read(entry_pos(first, slot_count), size * ENTRY_SIZE)
            hashes = np.frombuffer(data, ENTRY_DTYPE)["keyHash"].astype(np.int64)
            # of equal slots the last assignment counts
            slots[hashes % slot_count] = np.arange(first, first + size, dtype=np.int32)
    return slots


def write_slots(path: Path, slots: NDArray[np.int32], file_size: int) -> None:
    """Write the slots of an index file; chunks of zeros stay holes."""
    step = SLOT_PIECE_COUNT
    for start in range(0, len(slots), step):
        chunk = slots[start : start + step]
        if chunk.any():
            data = chunk.astype(">i4").tobytes()
            write_part(path, data, INDEX_HEADER_SIZE + SLOT_SIZE * start, file_size, None)


RELINKED_COUNT = 1 << 16


def relink_index_file(store: Store, file: IndexFile, target: Path) -> BuiltIndexFile:
    """Write at `target` the index file with links, slots and header as puts of its entries leave them.

    Entries count up to the header's indexCount, or, where that cannot be, up to the last that is not zero.
    The header's times come from the records that its first and last entries point at, else from the header
    that is there. Raises StoreError if the file is shorter than its geometry, holds a negative hash, or
    something cannot be read or written.
    """
    with opened(target) as root:
        return _relink(store, file, Path(root) / target.name)


def _relink(store: Store, file: IndexFile, target: Path) -> BuiltIndexFile:
    geometry = store.geometry
    size = index_file_size(geometry.slot_count, geometry.entry_count)
    with IndexReader(file, geometry) as reader:
        if reader.size < entry_pos(1, geometry.slot_count):
            raise StoreError(
                f"has {count_of(reader.size, 'byte')}, too few for its slots", path=file.location
            )
        header, count = reader.header, _entry_count(reader)
        write_part(target, b"", 0, size, None)
        slots = np.zeros(geometry.slot_count, np.int32)
        compiled, used = compiled_wanted(file.allocated_size), 0
        first = last = None
        for number in range(1, count + 1, RELINKED_COUNT):
            entries = reader.entries(number, min(RELINKED_COUNT, count + 1 - number))
            if (entries["keyHash"] < 0).any():
                wrong = number + int(np.flatnonzero(entries["keyHash"] < 0)[0])
                raise StoreError(f"entry {wrong} has a negative hash", path=file.location)
            hashes = entries["keyHash"].astype(np.int32)
            previous, empty = link_entries(hashes, number, slots, compiled=compiled)
            entries["prevIndex"] = previous
            used += empty
            write_part(target, entries.tobytes(), entry_pos(number, geometry.slot_count), size, None)
            first = entries[0] if first is None else first
            last = entries[-1]
    new = IndexHeader(index_count=1 if store.dialect.abort_has_pid else 0)
    if first is not None and last is not None:
        begin, end = int(first["phyOffset"]), int(last["phyOffset"])
        begin_timestamp = store_timestamp_at(store, begin)
        if begin_timestamp is None:
            begin_timestamp = header.begin_timestamp
        end_timestamp = store_timestamp_at(store, end)
        if end_timestamp is None:
            end_timestamp = header.end_timestamp
        used = count if store.dialect.counts_entries_in_hash_slot_count else used
        new = IndexHeader(begin_timestamp, end_timestamp, begin, end, used, count + 1)
    write_slots(target, slots, size)
    write_part(target, encode_header(new), 0, size, None)
    if count:
        set_time(target, new.end_timestamp)
    return BuiltIndexFile(
        target.name,
        count,
        new.begin_physical_offset,
        new.end_physical_offset,
        new.begin_timestamp,
        new.end_timestamp,
    )


def _entry_count(reader: IndexReader) -> int:
    stated, room = reader.header.index_count - 1, reader.last_entry
    if 0 < stated <= room and reader.any_byte(stated) and not (stated < room and reader.any_byte(stated + 1)):
        return stated
    return reader.last_not_zero(1)


def store_timestamp_at(store: Store, offset: int) -> int | None:
    """The storeTimestamp of the record at a physical offset; None if there is none."""
    try:
        head = head_of(store.commitlog, offset)
    except StoreError:
        return None
    return None if head is None else head.store_timestamp
