"""One consume queue in RocksDB while a broker starts: its two bounds and its rows. Reference 3.9, 6.3, 6.4.

    least, greatest := queue offset, physical offset of its record

A put writes the row of its own queue offset, whatever is there, and the greatest becomes what was put last.
A truncation moves the greatest alone; the least is corrected when somebody asks for it. The units on disk are
files made of the rows (`store.rocks.lifting`); those that the start puts are kept here.
"""

from __future__ import annotations

import numpy as np

from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.dtypes import Longs
from rocketfsck.query.start.load import LoadedQueue
from rocketfsck.query.start.queues import AppendedColumns, QueueModel
from rocketfsck.store.model import QueueBounds

Bound = tuple[int, int]


class RowsModel(QueueModel):
    """A consume queue in a database. `end` is the queue offset behind the greatest."""

    __slots__ = ("greatest", "least", "put_offsets", "put_places")

    def __init__(self, loaded: LoadedQueue, dialect: Dialect, bounds: QueueBounds | None = None) -> None:
        super().__init__(loaded, dialect)
        self.counts_ends = False
        self.least: Bound | None = None if bounds is None else bounds.least
        self.greatest: Bound | None = None if bounds is None else bounds.greatest
        self.found_count = 0 if bounds is None else bounds.row_count
        self.put_places: Longs = np.zeros(0, np.int64)
        self.put_offsets: Longs = np.zeros(0, np.int64)

    @property
    def end(self) -> int:
        """The queue offset behind the greatest; 0 for a queue without any."""
        return 0 if self.greatest is None else self.greatest[0] + 1

    @property
    def end_pos(self) -> int:
        return self.end * self.unit_size

    def recover(self) -> None:
        """Take the bounds as they are: RocksDB's own recovery has been."""
        if self.greatest is not None:
            self.covered_offset = self.covered_before = self.greatest[1]
            self.max_physic_offset = self.greatest[1]
        self.disk_end = self.end_pos
        self._fit_files()

    def offset_at(self, queue_offset: int) -> int | None:
        """The physical offset in the row of a queue offset; None without a row."""
        found = np.flatnonzero(self.put_places == queue_offset)
        if len(found):
            return int(self.put_offsets[found[-1]])
        if queue_offset * self.unit_size >= self.disk_end:
            return None
        pos = queue_offset * self.unit_size
        for file in self.loaded.files:
            if not file.is_new and file.start_offset <= pos < file.end_offset:
                unit = self._unit_at(file, pos - file.start_offset)
                used = int(unit["size"]) > 0 and not self._is_before_least(queue_offset)
                return int(unit["offset"]) if used else None
        return None

    def _is_before_least(self, queue_offset: int) -> bool:
        return self.least is not None and queue_offset < self.least[0]

    def put(self, units: AppendedColumns) -> None:
        """Put rows in the order of the log; `added_count` counts those that are new or other than before."""
        for place, offset in zip(units.index.tolist(), units.offset.tolist(), strict=True):
            self.added_count += self.offset_at(place) != offset
        self.put_places = np.concatenate([self.put_places, units.index])
        self.put_offsets = np.concatenate([self.put_offsets, units.offset])
        self.greatest = (int(units.index[-1]), int(units.offset[-1]))
        self.max_physic_offset = self.appended_offset = self.greatest[1]
        self._fit_files()

    def truncate(self, cut_offset: int) -> None:
        """Move the greatest in front of the cut, as `truncateDirtyOffset` does."""
        greatest, least = self.greatest, self.least
        if greatest is None or greatest[1] < cut_offset:
            return
        if least is None or least[1] > cut_offset:
            return  # "correctMaxCqOffset error": the broker throws, catches it, and leaves the queue
        found = self._search(greatest[0], least[0], cut_offset, least=False)
        if found is not None:
            self.greatest = found
        elif greatest[0] != least[0]:
            self.greatest = (least[0], least[1])
        self.cut_count += max(greatest[0] - self.greatest[0], 0) if self.greatest else 0
        self.covered_offset = min(self.covered_offset, self.greatest[1]) if self.greatest else -1
        self.disk_end = min(self.disk_end, self.end_pos)
        self._fit_files()

    def correct_min(self, min_physical_offset: int) -> None:
        """`getMinCqOffset`, for a log that begins at this physical offset."""
        if self.least is None or self.least[1] < min_physical_offset:
            low = 0 if self.least is None else self.least[0]
            greatest = self.greatest
            if greatest is None:
                self.least = (0, min_physical_offset)
            elif greatest[1] < min_physical_offset:
                self.least = (greatest[0] + 1, min_physical_offset)
            else:
                found = self._search(greatest[0], low, min_physical_offset, least=True)
                if found is not None:
                    self.least = found
                elif greatest[0] != low:
                    self.least = greatest
        self.min_pos = max(self.least[0] if self.least else 0, 0) * self.unit_size

    def _search(self, high: int, low: int, wanted: int, *, least: bool) -> Bound | None:
        """`binarySearchInCQ`: the first row from `wanted` on, or the last before it. The latter search ends
        where it meets `wanted` itself, and may then miss rows that are nearer."""
        found: Bound | None = None
        while high >= low:
            middle = low + (high - low) // 2
            offset = self.offset_at(middle)
            if offset is None:
                low = middle + 1
            elif offset == wanted:
                return (middle, offset) if least else found
            elif offset > wanted:
                high = middle - 1
                found = (middle, offset) if least else found
            else:
                low = middle + 1
                found = found if least else (middle, offset)
        return found

    def destroy(self) -> None:
        """Forget all: the directory of the database is deleted."""
        super().destroy()
        self.least = self.greatest = None
        self.put_places = self.put_offsets = np.zeros(0, np.int64)
        self.disk_end = 0

    def _fit_files(self) -> None:
        """Have files up to the end: readers of units go by them."""
        files = self.loaded.files
        if not files and self.end:
            first = (
                self.least[0] if self.least else int(self.put_places.min(initial=self.end - 1))
            ) * self.unit_size
            self._create(first - first % self.loaded.file_size)
        while files and files[-1].end_offset < self.end_pos:
            self._create(files[-1].end_offset)
        for file in files:
            file.wrote_pos = min(max(self.end_pos - file.start_offset, 0), file.size)
