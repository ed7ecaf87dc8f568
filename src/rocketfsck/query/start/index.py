"""The index while a broker starts: which files stay, and what is put into them. Reference 4.4 to 4.8."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import StoreError
from rocketfsck.formats import dtypes, indexfile, smallfiles
from rocketfsck.formats.dialect import Dialect
from rocketfsck.query.start.load import entries_of
from rocketfsck.query.start.model import Fate, FileChange, IndexFileStart, IndexStart, Refusal
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.places.entries import EntryKind
from rocketfsck.store.reading import FileReader

DIRECTORY_REASON = "java.io.FileNotFoundException: {name} (Is a directory)"


@dataclass(slots=True)
class OpenIndex:
    """An index file in the broker's memory. `index_count` is the number of the next entry, from 1."""

    file: str
    is_new: bool
    extended: bool
    index_count: int
    begin_physical_offset: int
    end_physical_offset: int
    kept_end_offset: int
    added_count: int = 0

    def summary(self) -> IndexFileStart:
        """The file after the start."""
        fate: Fate = "created" if self.is_new else "extended" if self.extended else "kept"
        bounds = self.begin_physical_offset, self.end_physical_offset
        return IndexFileStart(self.file, fate, self.index_count - 1, self.added_count, *bounds)


class PutEntries:
    """The entries that a start puts, in their order: key hash, physical offset and storeTime (ms) of each.

    At most `limit`: StoreError with more, which are then not kept in memory.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self._parts: list[tuple[NDArray[np.int32], dtypes.Longs, dtypes.Longs]] = []

    def add(self, batch: RecordBatch, rows: NDArray[np.intp]) -> None:
        """Take the keys of those records of a batch."""
        taken = np.zeros(batch.record_count, np.bool_)
        taken[rows] = True
        keys = np.flatnonzero(taken[batch["key_record"]])
        self.count += len(keys)
        if self.count > self.limit:
            raise StoreError(
                f"a start puts more than {self.limit:,} entries into the index: rebuild the index first, or "
                "ask for the state of a running broker"
            )
        records = batch["key_record"][keys]
        columns = batch["physical_offset"][records], batch["store_timestamp"][records]
        hashes = batch["key_hash"][keys].copy()
        self._parts.append((hashes, *(column.astype(np.int64) for column in columns)))

    @cached_property
    def columns(self) -> tuple[NDArray[np.int32], dtypes.Longs, dtypes.Longs]:
        """Hashes, offsets and times."""
        if not self._parts:
            return np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64)
        hashes, offsets, times = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return hashes, offsets, times


class IndexModel:
    """The index files in the broker's order. `entries` takes what is put, where somebody wants it."""

    def __init__(self, geometry: Geometry, dialect: Dialect, *, enabled: bool) -> None:
        self.capacity = geometry.entry_count
        self.file_size = geometry.index_file_size
        self.dialect = dialect
        self.enabled = enabled
        self.files: list[OpenIndex] = []
        self.entries: PutEntries | None = None
        self.changes: list[FileChange] = []
        self.refusal: Refusal | None = None
        self.deleted_entry_count = 0
        self._deleted_ranges: list[tuple[int, int]] = []

    def load(self, directory: Path, *, clean: bool, index_msg_timestamp: int) -> None:
        """IndexService.load: after an unclean stop, files newer than the checkpoint are deleted."""
        for entry in entries_of(directory):
            if smallfiles.java_parse_long(entry.name) is None:
                continue
            relative = f"index/{entry.name}"
            if entry.kind is not EntryKind.FILE:
                self.refusal = Refusal(relative, DIRECTORY_REASON.format(name=entry.path))
                return
            header = _header_of(entry.path)
            if not clean and header.end_timestamp > index_msg_timestamp:
                why = f"endTimestamp is later than the checkpoint's indexMsgTimestamp {index_msg_timestamp}"
                self.changes.append(FileChange(relative, "deleted", entry.size, why))
                self.deleted_entry_count += header.entry_count
                if header.entry_count:
                    self._deleted_ranges.append((header.begin_physical_offset, header.end_physical_offset))
                continue
            extended = entry.size < self.file_size
            if extended:
                why = "the broker maps the file at its full length"
                self.changes.append(FileChange(relative, "resized", self.file_size, why))
            begin, end = header.begin_physical_offset, header.end_physical_offset
            self.files.append(
                OpenIndex(relative, False, extended, max(header.index_count, 1), begin, end, end)
            )

    def put(
        self, offset: dtypes.Longs, key_count: dtypes.Longs, rolled_back: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Index records in order, by physicalOffset and number of keys; which of them now have all entries.

        A record below the newest file's endPhyOffset is passed over, whoever it was that put it there.
        """
        count = len(offset)
        if not self.enabled or not count:
            return np.zeros(count, np.bool_)
        self._last()
        keys = np.where(rolled_back, 0, key_count)
        end = self.files[-1].end_physical_offset
        reached = np.maximum.accumulate(np.where(keys > 0, offset, end))
        before = np.concatenate([[end], np.maximum(reached[:-1], end)])
        taken: NDArray[np.bool_] = np.asarray((offset >= before) & (keys > 0), np.bool_)
        rows = np.flatnonzero(taken)
        self._put_entries(offset[rows], keys[rows])
        if count and (not len(rows) or rows[-1] < count - 1):
            self._last()  # whatever the record, the file is there before it is looked at
        return taken

    def _put_entries(self, offset: dtypes.Longs, keys: dtypes.Longs) -> None:
        ends = np.cumsum(keys)
        total, done = int(ends[-1]) if len(ends) else 0, 0
        while done < total:
            file = self._last()
            count = min(total - done, self.capacity - file.index_count)
            first, last = np.searchsorted(ends, [done, done + count - 1], side="right").tolist()
            if file.index_count <= 1:
                file.begin_physical_offset = int(offset[first])
            file.end_physical_offset = int(offset[last])
            file.index_count += count
            file.added_count += count
            done += count

    def _last(self) -> OpenIndex:
        """The file that is put into; a new one where there is none or the last is full."""
        if self.files and self.files[-1].index_count < self.capacity:
            return self.files[-1]
        end = max(self.files[-1].end_physical_offset, 0) if self.files else 0
        number = sum(file.is_new for file in self.files) + 1
        self.files.append(OpenIndex(f"index/{number}?", True, False, 1, end, end, end))
        why = "new entries go into this file"
        self.changes.append(FileChange(f"index/{number}?", "created", self.file_size, why))
        return self.files[-1]

    def covers(self, offset: dtypes.Longs) -> NDArray[np.bool_]:
        """Which physical offsets lie in what the files on disk say they hold.

        Not those of a file that was cut and is mapped at its full length: its chains begin with what it lost.
        """
        kept = (
            (file.begin_physical_offset, file.kept_end_offset)
            for file in self.files
            if not file.is_new and not file.extended and file.index_count - file.added_count > 1
        )
        return _lie_in(offset, kept)

    def lacks(self, offset: dtypes.Longs) -> NDArray[np.bool_]:
        """Which physical offsets no file on disk covers; without an index, of those that one did."""
        missing = ~self.covers(offset)
        return missing if self.enabled else missing & self.covered_before(offset)

    def covered_before(self, offset: dtypes.Longs) -> NDArray[np.bool_]:
        """Which physical offsets lie in the files that are deleted."""
        return _lie_in(offset, self._deleted_ranges)

    def summary(self, max_offset: int) -> IndexStart:
        """The index after the start, with the log's end at `max_offset`."""
        end = self.files[-1].end_physical_offset if self.files and self.enabled else 0
        files = tuple(file.summary() for file in self.files)
        added_count = sum(file.added_count for file in files)
        return IndexStart(files, self.deleted_entry_count, added_count, end if end > max_offset else None)


def _lie_in(offset: dtypes.Longs, ranges: Iterable[tuple[int, int]]) -> NDArray[np.bool_]:
    found = np.zeros(len(offset), np.bool_)
    for begin, end in ranges:
        found |= (offset >= begin) & (offset <= end)
    return found


def _header_of(path: str) -> indexfile.IndexHeader:
    """The header as the mapped file gives it: what a short file lacks reads as zeros."""
    with FileReader(path) as reader:
        return indexfile.decode_header(
            reader.read_upto(0, indexfile.INDEX_HEADER_SIZE).ljust(indexfile.INDEX_HEADER_SIZE, b"\0")
        )
