"""One consume queue while a broker starts: recovery, truncation, minimum, appends. Reference 3.3 to 3.5, 6.6.

A model of positions, not of bytes: `LoadedFile.wrote_pos` says where a file's units end for the broker. What
is on disk after that is only looked at where the broker itself looks.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.dtypes import Longs, unit_dtype
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.query.start.load import Disk, LoadedFile, LoadedQueue, RecoveredQueue

CHUNK_UNITS = 1 << 16
FAR = (1 << 63) - 1
EMPTY_FILE_REASON = "java.lang.IllegalArgumentException: newPosition < 0: (-{unit_size} < 0)"
ENDLESS_REASON = "the truncation never ends, because each file of this queue holds one unit"


class StartFailedError(Exception):
    """The broker's own code throws, or never ends. `file` is where, `reason` its own words."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(reason)
        self.file = file
        self.reason = reason


@dataclasses.dataclass(frozen=True, slots=True)
class AppendedColumns:
    """Appended units, in order: queueOffset of the record, the log's offset, size and tagsCode of each."""

    index: Longs
    offset: Longs
    size: Longs
    tags: Longs

    def at(self, rows: Longs | slice) -> AppendedColumns:
        """Those of them."""
        return AppendedColumns(self.index[rows], self.offset[rows], self.size[rows], self.tags[rows])


@dataclasses.dataclass(slots=True, eq=False)
class QueueModel:
    """A consume queue. `max_physic_offset` and `min_pos` are the broker's own variables."""

    loaded: LoadedQueue
    dialect: Dialect
    disk: Disk = dataclasses.field(default_factory=Disk)
    dtype: np.dtype[Any] = dataclasses.field(init=False)
    unit_size: int = dataclasses.field(init=False)
    counts_ends: bool = dataclasses.field(init=False)
    original_files: tuple[str, ...] = dataclasses.field(init=False)
    first_file: LoadedFile | None = dataclasses.field(init=False)
    last: tuple[int, int] | None = None  # of the last valid unit: physical offset and size
    max_physic_offset: int = -1
    min_pos: int = 0
    min_base_offset: int = 0
    max_base_offset: int = 0
    covered_offset: int = -1  # start of the furthest record that a unit on disk points to
    covered_before: int = -1  # the same when the queue had recovered
    disk_end: int = 0  # up to here the units are those on disk, after it those that the start appends
    appended_offset: int = -1  # what max_physic_offset became with the last of those
    found_count: int = 0
    cut_count: int = 0
    hidden_count: int = 0
    phantom_count: int = 0  # what is not a unit, but is kept as the first of its file
    added_count: int = 0
    shifted_count: int = 0

    def __post_init__(self) -> None:
        self.dtype = unit_dtype(self.loaded.kind)
        self.unit_size = self.dtype.itemsize
        self.counts_ends = self.dialect.max_physic_offset_is_end and self.loaded.kind == "file"
        self.original_files = tuple(file.relative for file in self.files)
        self.first_file = self.files[0] if self.files else None

    @property
    def files(self) -> list[LoadedFile]:
        return self.loaded.files

    @property
    def end_pos(self) -> int:
        """The stream position after the last unit: MappedFileQueue.getMaxOffset."""
        return self.files[-1].start_offset + self.files[-1].wrote_pos if self.files else 0

    @property
    def min_offset(self) -> int:
        return self.min_base_offset if self.loaded.kind == "batch" else self.min_pos // self.unit_size

    @property
    def max_offset(self) -> int:
        return self.max_base_offset if self.loaded.kind == "batch" else self.end_pos // self.unit_size

    def recover(self) -> None:
        """Walk the last three files; units end at the first that is not valid."""
        if not self.files:
            return
        paths = tuple(file.path for file in self.files)
        known = self.disk.recovered.get(paths)
        if known is None:
            known = self.disk.recovered[paths] = self._recovered()
        files = [self.files[number] for number, _ in known.kept]
        for file, (_, wrote_pos) in zip(files, known.kept, strict=True):
            file.wrote_pos = wrote_pos
        self.loaded.files = files
        self.found_count, self.hidden_count = known.found_count, known.hidden_count
        self.covered_offset = self.covered_before = known.covered_offset
        if known.last is not None:
            self._see(*known.last)
        self.disk_end = self.end_pos
        self.revise()

    def _recovered(self) -> RecoveredQueue:
        number = max(len(self.files) - 3, 0)
        self.found_count = sum(file.size // self.unit_size for file in self.files[:number])
        while True:
            file = self.files[number]
            count = self._valid_count(file, None)
            self.found_count += count
            file.wrote_pos = count * self.unit_size
            if file.wrote_pos < file.size or number + 1 == len(self.files):
                break
            number += 1
        end = file.start_offset + file.wrote_pos
        self.hidden_count = self._hidden_count(file, file.wrote_pos)
        self.hidden_count += sum(self._hidden_count(other, 0) for other in self.files[number + 1 :])
        kept = [
            (number, other.wrote_pos if other.end_offset <= end else end % other.size)
            for number, other in enumerate(self.files)
            if other.end_offset <= end or other.start_offset <= end
        ]
        counts = self.found_count, self.hidden_count
        return RecoveredQueue(tuple(kept), *counts, self.covered_offset, self.last)

    def _valid_count(self, file: LoadedFile, cut_offset: int | None) -> int:
        """How many units from the file's first on are valid (and below the cut); remembers the last.

        Units that the start appended count as such, though they are not on disk.
        """
        if file.is_new:
            self.max_physic_offset = self.appended_offset
            return file.wrote_pos // self.unit_size
        if self.disk.is_sound and cut_offset is None and self.loaded.kind == "file":
            return self._sound_count(file)
        low = max(self.disk_end - file.start_offset, 0) // self.unit_size
        high = (self.end_pos - file.start_offset) // self.unit_size if cut_offset is not None else 0
        count = 0
        for units in self.read(file, whole_to=high * self.unit_size):
            good = self.valid(units)
            if cut_offset is not None:
                good &= units["offset"] < cut_offset
                good[max(low - count, 0) : max(high - count, 0)] = True
                if count == 0:
                    good[0] = True  # kept whatever it is
            stop = len(units) if good.all() else int(np.argmin(good))
            if stop and low <= count + stop - 1 < high:
                self.max_physic_offset = self.appended_offset
            elif stop:
                self._see(int(units["offset"][stop - 1]), int(units["size"][stop - 1]))
            covered = units["offset"][: min(stop, max(low - count, 0)) if high else stop]
            covered = covered[self.valid(units[: len(covered)])]
            if len(covered):
                self.covered_offset = max(self.covered_offset, int(covered.max()))
            count += stop
            if stop < len(units):
                break
        return count

    def _sound_count(self, file: LoadedFile) -> int:
        """How many units a file has, by halves: those of a sound queue are valid up to the first zeros."""
        size = self.unit_size
        with self.disk.opened(file.path) as reader:

            def units(number: int) -> NDArray[Any]:
                return np.frombuffer(reader.read(number * size, size), self.dtype)

            numbers = range(file.size // size)
            count = bisect_left(numbers, True, key=lambda number: not self.valid(units(number)).all())
            if count:
                last = units(count - 1)[0]
                self._see(int(last["offset"]), int(last["size"]))
                self.covered_offset = max(self.covered_offset, int(last["offset"]))
        return count

    def _hidden_count(self, file: LoadedFile, pos: int) -> int:
        """Valid units from `pos` on, where no recovery looks. Holes are without units and are not read."""
        count, size = 0, self.unit_size
        with self.disk.opened(file.path) as reader:
            for start, end in reader.data_extents(pos):
                low = max(pos, start - (start - pos) % size)
                pos = min(end + (pos - end) % size, file.size)
                pieces = self.read(file, low, pos)
                count += sum(int(np.count_nonzero(self.valid(units))) for units in pieces)
        return count

    def _see(self, offset: int, size: int) -> None:
        self.last = offset, size
        self.max_physic_offset = offset + size if self.counts_ends else offset

    def valid(self, units: NDArray[Any]) -> NDArray[np.bool_]:
        """Which units a recovery accepts."""
        good = (units["offset"] >= 0) & (units["size"] > 0)
        if self.loaded.kind == "batch":
            good &= (units["msgBaseOffset"] >= 0) & (units["batchSize"] > 0)
        return np.asarray(good, np.bool_)

    def read(
        self, file: LoadedFile, pos: int = 0, end: int | None = None, *, whole_to: int = 0
    ) -> Iterator[NDArray[Any]]:
        """The whole units of a file on disk in pieces; a hole that reaches to its end is not read.

        Nor are the holes behind each piece: a reader mostly stops at the first unit of zeros. Up to position
        `whole_to` a hole is given as its zeros are: the start appends units there.
        """
        size, limit = self.unit_size, file.size if end is None else end
        with self.disk.opened(file.path) as reader:
            while limit - pos >= size:
                data = next(reader.data_extents(pos), None)
                if data is None:
                    limit = min(limit, max(pos + size, whole_to))
                count = min(CHUNK_UNITS, (limit - pos) // size)
                if data is not None and data[0] == pos:
                    count = min(count, -(-(data[1] - pos) // size))
                yield np.frombuffer(reader.read(pos, count * size), self.dtype)
                pos += count * size

    def truncate(self, cut_offset: int) -> None:
        """Drop the units of records at and after the cut: truncateDirtyLogicFiles.

        Only the last file is looked into; its first unit, if it is below the cut, stays whatever it is.
        """
        if self._is_before(cut_offset):
            return
        before, covered = self.end_pos, self.covered_offset
        self.max_physic_offset = cut_offset if self.counts_ends else cut_offset - 1
        self.covered_offset = -1
        while self.files:
            file = self.files[-1]
            if not self._first_is_appended(file) and int(self._unit_at(file, 0)["offset"]) >= cut_offset:
                self.files.pop()
                continue
            if file.size == self.unit_size:
                raise StartFailedError(file.relative, ENDLESS_REASON)
            appended = self._first_is_appended(file)
            if file.is_new and not file.wrote_pos:  # `open_next` made it: its first unit of zeros stays
                file.wrote_pos, self.phantom_count, self.max_physic_offset = self.unit_size, 1, 0
                break
            file.wrote_pos = self._valid_count(file, cut_offset) * self.unit_size
            self.phantom_count = int(not appended and not self.valid(self._units_at(file, 0)).all())
            break
        self.covered_offset = min(covered, max(self.covered_offset, self._covered_before_last()))
        if self.disk_end >= before:
            self.disk_end = self.end_pos
        self.cut_count += max(before - max(self.end_pos, self._first_pos()), 0) // self.unit_size
        self.revise()

    def _covered_before_last(self) -> int:
        """Where the last unit on disk in front of the last file leads to; -1 without one."""
        files = [file for file in self.files[:-1] if not file.is_new and file.start_offset < self.disk_end]
        if not files:
            return -1
        end = min(files[-1].size, self.disk_end - files[-1].start_offset)
        last = self._units_at(files[-1], end - self.unit_size)
        return int(last[0]["offset"]) if self.valid(last).all() else -1

    def _is_before(self, cut_offset: int) -> bool:
        """Whether recovery found one file with units, all of records below the cut: nothing changes."""
        if self.loaded.kind != "file" or len(self.files) != 1 or self.added_count or self.cut_count:
            return False
        (file,) = self.files
        recovered = not file.is_new and file.size > self.unit_size and self.end_pos == self.disk_end
        return recovered and file.wrote_pos > 0 and self.covered_offset < cut_offset

    def _first_is_appended(self, file: LoadedFile) -> bool:
        return file.is_new or self.disk_end <= file.start_offset < self.end_pos

    def _first_pos(self) -> int:
        return self.files[0].start_offset if self.files else 0

    def _unit_at(self, file: LoadedFile, pos: int) -> Any:
        return self._units_at(file, pos)[0]

    def _units_at(self, file: LoadedFile, pos: int) -> NDArray[Any]:
        if file.is_new:  # only a file that nothing was put into is read: `open_next`
            return np.zeros(1, self.dtype)
        with self.disk.opened(file.path) as reader:
            return np.frombuffer(reader.read(pos, self.unit_size), self.dtype)

    def destroy(self) -> None:
        """Delete all files: the commit log is empty (fault class C8)."""
        self.cut_count += self.found_count
        self.loaded.files = []
        self.max_physic_offset = -1
        self.min_pos = self.min_base_offset = self.max_base_offset = 0
        self.covered_offset = -1

    def revise(self) -> None:
        """The bounds of a batch queue come from the units themselves."""
        if self.loaded.kind != "batch":
            return
        self.min_base_offset = self.max_base_offset = 0
        filled = [file for file in self.files if file.wrote_pos and not file.is_new]
        if filled:
            last = self._unit_at(filled[-1], filled[-1].wrote_pos - self.unit_size)
            self.max_base_offset = int(last["msgBaseOffset"]) + int(last["batchSize"])
            self.min_base_offset = int(self._unit_at(filled[0], 0)["msgBaseOffset"])

    def correct_min(self, min_physical_offset: int) -> None:
        """Let the queue begin with the first unit whose record is still there: correctMinOffset.

        Raises StartFailedError where the broker throws. Units that the start itself appended point behind
        whatever is looked for here.
        """
        if self.loaded.kind == "batch":
            self._correct_batch_min(min_physical_offset)
        elif self.dialect.min_offset_by_search:
            self._search_min(min_physical_offset)
        else:
            self._scan_min(min_physical_offset)

    def _scan_min(self, min_physical_offset: int) -> None:
        found = np.flatnonzero(self._first_file_offsets(0) >= min_physical_offset)
        if len(found):
            self.min_pos = self._first_pos() + int(found[0]) * self.unit_size

    def _correct_batch_min(self, min_physical_offset: int) -> None:
        if not self.files or self.files[0].is_new:
            return
        first = self.files[0]
        for units in self.read(first, 0, min(first.wrote_pos, self.disk_end - first.start_offset)):
            found = np.flatnonzero((units["offset"] >= min_physical_offset) & self.valid(units))
            if len(found):
                self.min_base_offset = int(units["msgBaseOffset"][found[0]])
                return

    def _first_file_offsets(self, pos: int) -> Longs:
        """The physical offsets of the first file's units from `pos` on.

        Those that the start appended have records that are there: they stand for any offset.
        """
        if not self.files:
            return np.zeros(0, np.int64)
        file = self.files[0]
        end = file.wrote_pos
        if file.is_new:
            offsets = np.full(end // self.unit_size, FAR, np.int64)
            offsets[: (self.min_pos - file.start_offset) // self.unit_size] = 0  # blank units
            return offsets[pos // self.unit_size :]
        disk_end = min(end, max(self.disk_end - file.start_offset, pos))
        pieces = [units["offset"].astype(np.int64) for units in self.read(file, pos, disk_end)]
        pieces.append(np.full((end - disk_end) // self.unit_size, FAR, np.int64))
        return np.concatenate(pieces)

    def _search_min(self, min_physical_offset: int) -> None:
        if self.min_pos >= self.end_pos or not self.files:
            return
        last, first = self.files[-1], self.files[0]
        if last.wrote_pos < self.unit_size:
            raise StartFailedError(last.relative, EMPTY_FILE_REASON.format(unit_size=self.unit_size))
        on_disk = self.end_pos <= self.disk_end
        last_pos = last.wrote_pos - self.unit_size
        if on_disk and int(self._unit_at(last, last_pos)["offset"]) < min_physical_offset:
            self.min_pos = self.end_pos
            return
        intact = self.min_pos >= first.start_offset
        start = max(self.min_pos - first.start_offset, 0)
        if start >= first.wrote_pos:
            return
        if intact and on_disk and int(self._unit_at(first, start)["offset"]) >= min_physical_offset:
            return
        offset = self._first_file_offsets(start)
        if not len(offset):  # less than a unit: the broker's exception is caught, and nothing changes
            return
        if intact and offset[0] >= min_physical_offset:
            return
        low, high = _searched(offset, min_physical_offset)
        found = np.flatnonzero(offset[low : high + 1] >= min_physical_offset)
        if len(found):
            self.min_pos = first.start_offset + start + (low + int(found[0])) * self.unit_size

    def append(self, units: AppendedColumns) -> int:
        """Put units, at least one, at the end of the queue; the number in the queue of the first one."""
        if not self.files:
            self._create_first(int(units.index[0]))
        place = self.end_pos // self.unit_size
        left = len(units.offset)
        if self.loaded.kind == "file":
            places = place + np.arange(left)
            self.shifted_count += int(np.count_nonzero(places != units.index))
        self.added_count += left
        while left:
            last = self.files[-1]
            if last.wrote_pos >= last.size:
                self._create(last.end_offset)
                continue
            count = min(left, (last.size - last.wrote_pos) // self.unit_size)
            if not count:  # files that do not follow each other leave a rest that no unit fits in
                break
            last.wrote_pos += count * self.unit_size
            left -= count
        self.added_count -= left
        end = int(units.offset[-1]) + (int(units.size[-1]) if self.counts_ends else 0)
        self.max_physic_offset = self.appended_offset = end
        return place

    def open_next(self) -> None:
        """A put that is passed over takes the queue's last file first: a full one gets a successor."""
        if self.files and self.files[-1].wrote_pos >= self.files[-1].size:
            self._create(self.files[-1].end_offset)

    def _create_first(self, index: int) -> None:
        """The first file of a queue; what is in front of the first unit is filled with blank ones."""
        pos = index * self.unit_size if self.loaded.kind == "file" else 0
        size = self.loaded.file_size
        self._create(pos - pos % size)
        if pos:
            self.files[-1].wrote_pos = pos % size
            self.min_pos = pos

    def _create(self, start_offset: int) -> None:
        size = self.loaded.file_size
        relative = f"{self.loaded.directory}/{offset_to_filename(start_offset)}"
        self.files.append(LoadedFile("", relative, start_offset, size, 0, is_new=True))


def _searched(offset: Longs, wanted: int) -> tuple[int, int]:
    """The two neighbours where the broker's binary search ends; it need not find what is not sorted."""
    low, high = 0, len(offset) - 1
    while high - low > 1:
        middle = (low + high) // 2
        value = int(offset[middle])
        if value == wanted:
            return middle, middle
        if value > wanted:
            high = middle
        else:
            low = middle
    return low, high
