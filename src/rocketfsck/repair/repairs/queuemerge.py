"""A queue as the log has it, laid over the queue as it is: what the log says nothing of stays.

The log decides for every unit whose record it holds. Where it holds none, the unit that is there is kept if
it points below the log, into a missing file or at a filler record: these are the places of messages that
have expired or are lost, and queue offsets must not move. Everything else goes. Reference 3.1 to 3.5.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.formats import consumequeue, dtypes, smallfiles
from rocketfsck.reader.records import LogReader, is_fence
from rocketfsck.reader.units import Kind, kinds_of
from rocketfsck.repair.area.worktree import WorkTree
from rocketfsck.repair.log import live_rows
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader, named_errors
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import place_at

MAX_FILE_SIZE = 1 << 30
LOOK_LIMIT = 100_000
"""Units of a queue whose place in the log is looked at one by one; further ones are not kept."""

Units = NDArray[np.void]


@dataclass(slots=True)
class Merger:
    """Merges queues of one tree. `looks` counts the places of the log that were read."""

    tree: WorkTree
    store: Store
    log: LogReader
    looks: int = 0
    _live: dict[int, tuple[dtypes.Longs, dtypes.Longs]] = field(default_factory=dict)

    def merge(self, directory: str, built: Path) -> bool:
        """Bring a queue of 20-byte units up to what was built; whether anything changed.

        `built` is a directory of the same queue, or nothing where the log has no record of it. Raises
        StoreError.
        """
        size = self.store.geometry.consumequeue_file_size
        if size > MAX_FILE_SIZE:
            text = f"has files of {count_of(size, 'byte')}; the limit for a queue's file is {MAX_FILE_SIZE:,}"
            raise StoreError(text, path=directory)
        old = self._old_files(directory, size)
        new = (
            {smallfiles.filename_to_offset(path.name) or 0 for path in built.iterdir()}
            if built.is_dir()
            else set()
        )
        starts = sorted({*old, *new})
        first_unit, end_unit = self._extent(built, sorted(new))
        changed = False
        last_offset = -1
        for start in starts:
            made = _padded(self._read_built(built / smallfiles.offset_to_filename(start)), size)
            present = _padded(self._read(old[start], size), size) if start in old else bytes(size)
            units, last_offset = self._merged(
                made, present, start // consumequeue.UNIT_SIZE, first_unit, last_offset
            )
            changed |= self._put(directory, start, old.get(start), units.tobytes(), start in new, built)
        changed |= self._drop_empty(directory, end_unit)
        return changed

    def is_empty(self, directory: str) -> bool:
        """Whether a queue that begins at queue offset 0 holds only zeros in its one file."""
        if not self.tree.exists(directory):
            return False
        starts = [smallfiles.filename_to_offset(name) for name in self.tree.names(directory)]
        return starts == [0] and self._is_zero(f"{directory}/{smallfiles.offset_to_filename(0)}")

    def _old_files(self, directory: str, size: int) -> dict[int, str]:
        """The files of the queue that can be read as such, by where they start."""
        found: dict[int, str] = {}
        if not self.tree.exists(directory):
            return found
        for name in self.tree.names(directory):
            start = smallfiles.filename_to_offset(name)
            if start is None:
                continue
            if start % consumequeue.UNIT_SIZE or start % size:
                self.tree.set_aside(f"{directory}/{name}")
                continue
            found[start] = f"{directory}/{name}"
        return found

    def _extent(self, built: Path, starts: list[int]) -> tuple[int, int]:
        """Queue offsets of the first unit that was built and after the last; (0, 0) for none."""
        first = end = -1
        for start in starts:
            units = np.frombuffer(
                self._read_built(built / smallfiles.offset_to_filename(start)), dtypes.UNIT_DTYPE
            )
            rows = np.flatnonzero(kinds_of(units) == Kind.UNIT)
            if len(rows):
                first = start // consumequeue.UNIT_SIZE + int(rows[0]) if first < 0 else first
                end = start // consumequeue.UNIT_SIZE + int(rows[-1]) + 1
        return max(first, 0), max(end, 0)

    def _merged(
        self, made: bytes, present: bytes, index: int, first_unit: int, last_offset: int
    ) -> tuple[Units, int]:
        """The units of one file, and the highest offset up to their end."""
        result = np.frombuffer(bytearray(made), dtypes.UNIT_DTYPE)
        old = np.frombuffer(present, dtypes.UNIT_DTYPE)
        said = kinds_of(result) == Kind.UNIT
        candidates = np.flatnonzero(~said & (kinds_of(old) == Kind.UNIT))
        offsets = np.where(said, result["offset"], -1).astype(np.int64)
        before = np.maximum.accumulate(np.concatenate(([last_offset], offsets)))
        behind = np.where(said, offsets, np.int64(1) << 62)
        after = np.minimum.accumulate(behind[::-1])[::-1]
        places = old["offset"][candidates].astype(np.int64)
        fitting = (before[candidates] < places) & (places < after[candidates])
        candidates, places = candidates[fitting], places[fitting]
        marks = self._are_places(places, old["size"][candidates].astype(np.int64))
        candidates, places = candidates[marks], places[marks]
        if len(places):  # offsets rise along a queue
            rising = places > np.concatenate(([-1], np.maximum.accumulate(places)[:-1]))
            candidates, places = candidates[rising], places[rising]
        result[candidates] = old[candidates]
        result["tagsCode"][candidates[old["tagsCode"][candidates] <= consumequeue.MAX_EXT_ADDRESS]] = 0
        last_kept = int(places[-1]) if len(places) else -1
        blank = np.frombuffer(consumequeue.PRE_BLANK_UNIT, dtypes.UNIT_DTYPE)[0]
        kinds = kinds_of(result)
        empty = np.flatnonzero(kinds == Kind.ZERO)
        units = np.flatnonzero(kinds == Kind.UNIT)
        last = int(units[-1]) if len(units) else -1
        inner = empty[(empty < last) | (empty + index < first_unit)]
        result[inner] = blank
        return result, max(int(before[-1]), last_kept)

    def _are_places(self, offset: dtypes.Longs, size: dtypes.Longs) -> NDArray[np.bool_]:
        """Which units mark the places of messages that the log does not have any more.

        Such units point below the log's start, into a missing file, into bytes that are not a record, or to
        filler.
        """
        starts = np.array(self.log.starts, np.int64)
        ends = starts + np.array([file.size for file in self.log.files], np.int64)
        number = np.searchsorted(starts, offset, "right") - 1
        behind = offset >= ends[np.maximum(number, 0)] if len(ends) else np.zeros(len(offset), np.bool_)
        found: NDArray[np.bool_] = (number < 0) | (behind & (number + 1 < len(starts)))
        for row in np.flatnonzero((number >= 0) & ~behind).tolist():
            found[row] = self._is_lost(int(number[row]), int(offset[row]), int(size[row]))
        return found

    def _is_lost(self, number: int, offset: int, size: int) -> bool:
        """Whether there is no live record but filler at an offset in a file of the log."""
        if self.looks >= LOOK_LIMIT:
            return False
        self.looks += 1
        starts, ends = self._live_ranges(number)
        at = int(np.searchsorted(starts, offset, "right")) - 1
        if at < 0 or offset >= int(ends[at]):
            return self._continues(number, offset)
        head = self.log.head(offset)
        return head is not None and head.total_size == size and is_fence(head)

    def _continues(self, number: int, offset: int) -> bool:
        """Whether live records follow an offset."""
        for later in range(number, len(self.log.files)):
            starts, _ = self._live_ranges(later)
            if len(starts) and int(starts[-1]) > offset:
                return True
        return False

    def _live_ranges(self, number: int) -> tuple[dtypes.Longs, dtypes.Longs]:
        """Starts and ends (physical offsets) of the runs of live records in a commit log file."""
        found = self._live.get(number)
        if found is None:
            starts: list[int] = []
            ends: list[int] = []
            base = self.log.starts[number]
            for batch in live_rows(self.store, self.log.files[number]):
                low = batch["pos"] + base
                high = low + batch["total_size"]
                breaks = np.flatnonzero(low[1:] != high[:-1]) + 1
                firsts = np.concatenate(([0], breaks)).astype(np.int64)
                lasts = np.concatenate((breaks, [len(low)])).astype(np.int64) - 1
                starts += low[firsts].tolist()
                ends += high[lasts].tolist()
            found = self._live[number] = (np.array(starts, np.int64), np.array(ends, np.int64))
        return found

    def _put(
        self, directory: str, start: int, name: str | None, data: bytes, is_new: bool, built: Path
    ) -> bool:
        """Write what a file must hold, if it does not; its time stays, or is that of what was built."""
        if name is not None and self.tree.size(name) == len(data) and self._read(name, len(data)) == data:
            return False
        if name is None and not is_new:
            return False
        path = self.tree.scratch() / smallfiles.offset_to_filename(start)
        write_sparse(path, data)
        if name is not None:
            mtime_ns = os.stat(self.tree.place(name)).st_mtime_ns  # noqa: PTH116 - names may be any bytes
        else:
            mtime_ns = (built / smallfiles.offset_to_filename(start)).stat().st_mtime_ns
        target = name or f"{directory}/{smallfiles.offset_to_filename(start)}"
        self.tree.adopt(path, target)
        self.tree.set_mtime(target, mtime_ns)
        return True

    def _drop_empty(self, directory: str, end_unit: int) -> bool:
        """Set files of zeros after the last unit aside; whether there were any."""
        if not self.tree.exists(directory):
            return False
        dropped = False
        names = [
            name for name in self.tree.names(directory) if smallfiles.filename_to_offset(name) is not None
        ]
        for name in reversed(names[1:]):
            start = smallfiles.filename_to_offset(name) or 0
            if start < end_unit * consumequeue.UNIT_SIZE or not self._is_zero(f"{directory}/{name}"):
                break
            self.tree.set_aside(f"{directory}/{name}")
            dropped = True
        return dropped

    def _read(self, name: str, size: int) -> bytes:
        """The first `size` bytes of a file, or what it has of them: its length may be any."""
        return self.tree.read(name, 0, min(size, self.tree.size(name)))

    def _is_zero(self, name: str) -> bool:
        with FileReader(self.tree.place(name)) as reader:
            return reader.used_end() == 0

    def _read_built(self, path: Path) -> bytes:
        if not path.exists():
            return b""
        with FileReader(path) as reader:
            return reader.read(0, reader.size)


def write_sparse(path: Path, data: bytes, chunk_size: int = 1 << 16) -> None:
    """Write a new file; chunks of zeros stay holes. Raises StoreError."""
    with named_errors(path, "cannot be written"):
        place = place_at(path)
        fileops.create(place, len(data), 0o644)
        for pos in range(0, len(data), chunk_size):
            chunk = data[pos : pos + chunk_size]
            if any(chunk):
                fileops.write(place, pos, chunk)


def _padded(data: bytes, size: int) -> bytes:
    """Exactly `size` bytes: cut, or filled with zeros; a unit that is cut short becomes zeros."""
    if len(data) >= size:
        return data[:size]
    return data[: len(data) - len(data) % consumequeue.UNIT_SIZE].ljust(size, b"\0")
