"""The index files of a broker: those on disk, less what its start deletes, and what its start puts.

A start after a kill dispatches records again whose entries it has kept: the last one always, and all that the
log has behind the newest file's endPhyOffset. A query by key then gives them once more. Reference 4.5 to 4.8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rocketfsck.formats.indexfile import IndexHeader
from rocketfsck.formats.javatext import INT32_MAX
from rocketfsck.query.start.index import IndexModel, OpenIndex, PutEntries
from rocketfsck.reader.index import read_header
from rocketfsck.store.model import IndexFile


@dataclass(frozen=True, slots=True)
class ServedIndex:
    """An index file in a broker's memory: `file` on disk (None: a start creates it), its header, and which of
    the entries that the start puts are in it."""

    file: IndexFile | None
    header: IndexHeader
    first: int = 0
    end: int = 0

    def put_entries(self, entries: PutEntries | None, key_hash: int) -> Iterator[tuple[int, int]]:
        """Physical offset and time (ms, as the entry has it) of those with this hash, the last put first."""
        if entries is None or self.first == self.end:
            return
        hashes, offsets, times = (column[self.first : self.end] for column in entries.columns)
        begin = self.header.begin_timestamp
        for row in np.flatnonzero(hashes == key_hash)[::-1].tolist():
            seconds = min(max(int(times[row]) - begin, 0) // 1000, INT32_MAX) if begin > 0 else 0
            yield int(offsets[row]), begin + 1000 * seconds


def files_on_disk(files: Sequence[IndexFile]) -> list[ServedIndex]:
    """The files as they are."""
    return [ServedIndex(file, _header(file)) for file in files]


def files_after_start(
    files: Sequence[IndexFile], model: IndexModel, entries: PutEntries
) -> list[ServedIndex]:
    """The files as a start leaves them."""
    known = {file.relative: file for file in files}
    made: list[ServedIndex] = []
    first = 0
    for opened in model.files:
        end = first + opened.added_count
        file = None if opened.is_new else known.get(opened.file)
        made.append(ServedIndex(file, _put(opened, file, entries, first, end), first, end))
        first = end
    return made


def _put(opened: OpenIndex, file: IndexFile | None, entries: PutEntries, first: int, end: int) -> IndexHeader:
    header = IndexHeader() if file is None else _header(file)
    if first == end:
        return header
    _, offsets, times = entries.columns
    if header.index_count <= 1:
        header = replace(header, begin_timestamp=int(times[first]), begin_physical_offset=int(offsets[first]))
    return replace(
        header,
        end_timestamp=int(times[end - 1]),
        end_physical_offset=int(offsets[end - 1]),
        index_count=opened.index_count,
    )


def _header(file: IndexFile) -> IndexHeader:
    """That of the file; zeros for a short one, which a broker makes longer."""
    return read_header(file.location) or IndexHeader()
