"""Units on their way into files: collected, put together by queue, written in as few pieces as possible.

    consumequeue/<topic>/<queueId>/         offset size tagsCode
    batchconsumequeue/<topic>/<queueId>/    offset size tagsCode storeTime msgBaseOffset batchSize -1 0
    consumequeue_ext/<topic>/<queueId>/     20 tagsCode storeTime 0

Memory: MAX_ROWS units. Reference 3.1, 3.6, 3.7.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.filename import offset_to_filename
from rocketfsck.repair.build.files import make_directory, write_part
from rocketfsck.repair.build.queuestates import Longs, Name, queue_directory

MAX_ROWS = 1 << 19

PLAIN = np.dtype([("offset", ">i8"), ("size", ">i4"), ("tags", ">i8")])
BATCH = np.dtype([
    ("offset", ">i8"),
    ("size", ">i4"),
    ("tags", ">i8"),
    ("time", ">i8"),
    ("base", ">i8"),
    ("count", ">i2"),
    ("compacted", ">i4"),
    ("reserved", ">i4"),
])  # fmt: skip
EXT = np.dtype([("unit_size", ">i2"), ("tags", ">i8"), ("time", ">i8"), ("map_size", ">i2")])
EXT_UNIT_SIZE = EXT.itemsize


@dataclass(frozen=True, slots=True)
class Area:
    """One kind of queue files: its directory, the layout of a unit, units in a file, the file's length."""

    directory: str
    layout: np.dtype[np.void]
    file_units: int
    file_size: int


@dataclass(slots=True)
class UnitWriter:
    """Collects units of one area; `queue` and `place` say where one goes, columns have the layout's names."""

    root: Path
    area: Area
    names: list[Name]
    _rows: list[tuple[Longs, Longs, Longs, NDArray[np.void]]] = field(default_factory=list)
    _row_count: int = 0
    _directories: dict[int, Path] = field(default_factory=dict)

    def add(self, queue: Longs, place: Longs, time: Longs, columns: dict[str, Longs | int]) -> None:
        """Take units over."""
        if not len(queue):
            return
        units = np.empty(len(queue), self.area.layout)
        for name, column in columns.items():
            units[name] = column
        # Plain bytes: joined arrays of numbers would become native ones.
        self._rows.append((queue, place, time, units.view(f"V{self.area.layout.itemsize}")))
        self._row_count += len(queue)
        if self._row_count >= MAX_ROWS:
            self.flush()

    @property
    def directories(self) -> tuple[Path, ...]:
        """The directories made so far."""
        return tuple(self._directories.values())

    def flush(self) -> None:
        """Write everything. Raises StoreError if a file cannot be written."""
        if not self._rows:
            return
        queue, place, time, units = (np.concatenate(columns) for columns in zip(*self._rows, strict=True))
        self._rows.clear()
        self._row_count = 0
        order = np.argsort(queue, kind="stable")
        queue, place, time, units = queue[order], place[order], time[order], units[order]
        breaks = (queue[1:] != queue[:-1]) | (place[1:] != place[:-1] + 1)
        breaks |= place[1:] % self.area.file_units == 0
        starts = np.concatenate(([0], np.flatnonzero(breaks) + 1))
        ends = np.concatenate((starts[1:], [len(queue)]))
        data = units.view(np.uint8).data
        size = self.area.layout.itemsize
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            number, first = int(queue[start]), int(place[start])
            self._write(number, first, data[size * start : size * end], int(time[end - 1]))

    def fill(self, number: int, start: int, end: int, unit: bytes, timestamp: int | None) -> None:
        """Write the same unit at the places `start:end`."""
        per_file = self.area.file_units
        while start < end:
            stop = min(end, (start // per_file + 1) * per_file)
            self._write(number, start, unit * (stop - start), timestamp)
            start = stop

    def _write(self, number: int, first: int, data: memoryview | bytes, timestamp: int | None) -> None:
        per_file, size = self.area.file_units, self.area.layout.itemsize
        start, place = divmod(first, per_file)
        path = self._directory(number) / offset_to_filename(start * self.area.file_size)
        write_part(path, data, place * size, self.area.file_size, timestamp)

    def _directory(self, number: int) -> Path:
        found = self._directories.get(number)
        if found is None:
            found = self._directories[number] = queue_directory(
                self.root, self.area.directory, self.names[number]
            )
            make_directory(found)
        return found
