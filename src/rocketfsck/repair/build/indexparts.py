"""Parts of index files: the headers that a store has, names, slots from entries, slots into a file.

Reference 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import ENTRY_DTYPE
from rocketfsck.formats.indexfile import (
    ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    SLOT_SIZE,
    entry_pos,
)
from rocketfsck.reader.index import readable_headers
from rocketfsck.repair.build.files import write_part
from rocketfsck.store.model import IndexFile
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
