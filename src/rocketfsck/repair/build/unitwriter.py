"""Units on their way into files: collected, put together by queue, written in as few pieces as possible.

    consumequeue/<topic>/<queueId>/         offset size tagsCode
    batchconsumequeue/<topic>/<queueId>/    offset size tagsCode storeTime msgBaseOffset batchSize -1 0
    consumequeue_ext/<topic>/<queueId>/     20 tagsCode storeTime 0

The directories of the last MAX_OPEN topics are kept open, so that a file is reached from its topic on and not
from the root. Memory: MAX_UNITS units. Reference 3.1, 3.6, 3.7.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.filename import offset_to_filename
from rocketfsck.repair.build.files import make_new_directory, write_part
from rocketfsck.repair.build.queuestates import Name
from rocketfsck.scan.build.units import P_OFFSET, PENDING_SIZE, UNIT_SIZES, pack_units
from rocketfsck.store.reading import FileReader, named_errors
from rocketfsck.writer.disk.confined import ConfinedPlace, Root, enter_root, place_at

MAX_UNITS = 1 << 19
MAX_OPEN = 64


@dataclass(frozen=True, slots=True)
class QueueArea:
    """One kind of queue files: its directory, units in a file, the file's length in bytes."""

    kind: int
    directory: str
    file_units: int
    file_size: int

    @property
    def unit_size(self) -> int:
        return UNIT_SIZES[self.kind]


@dataclass(slots=True)
class UnitWriter:
    """Collects units of one area: whoever makes them puts their rows (`scan.build.units.P_…`) into
    `pending`. `newest_offset` is the highest physical offset of a unit that was written, -1 before the first.
    """

    root: Path
    area: QueueArea
    names: list[Name]
    pending: Longs = field(default_factory=lambda: np.empty((MAX_UNITS, PENDING_SIZE), np.int64))
    newest_offset: int = -1
    _topics: dict[str, Root] = field(default_factory=dict)
    _made: set[int] = field(default_factory=set)
    _begun: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)

    def go_on(self, queue: int, following: int, path: str) -> None:
        """A queue continues with unit `following`: what the existing file `path` holds before it is copied
        when the file is made."""
        number, place = divmod(following, self.area.file_units)
        if place:
            self._begun[queue, number] = path, place * self.area.unit_size

    def flush(self, count: int) -> None:
        """Write the first `count` units of `pending`. Raises StoreError if a file cannot be written."""
        if not count:
            return
        area, size = self.area, self.area.unit_size
        units, runs = pack_units(self.pending[:count], area.kind, area.file_units)
        self.newest_offset = max(self.newest_offset, int(self.pending[:count, P_OFFSET].max()))
        data = units.view(np.uint8).data
        for queue, place, start, end, time in runs.tolist():
            self.write(queue, place, data[size * start : size * end], time)

    def fill(self, queue: int, start: int, end: int, unit: bytes, timestamp: int | None) -> None:
        """Write the same unit at the places `start:end`."""
        per_file = self.area.file_units
        while start < end:
            stop = min(end, (start // per_file + 1) * per_file)
            self.write(queue, start, unit * (stop - start), timestamp)
            start = stop

    def write(self, queue: int, first: int, data: memoryview | bytes, timestamp: int | None) -> None:
        """Write units that follow one another in one file."""
        number, place = divmod(first, self.area.file_units)
        file = self.place_of(queue, number)
        before = self._begun.pop((queue, number), None)
        if before is not None:
            with FileReader(before[0]) as reader:
                write_part(file, reader.read(0, before[1]), 0, self.area.file_size, timestamp)
        write_part(file, data, place * self.area.unit_size, self.area.file_size, timestamp)

    def place_of(self, queue: int, number: int) -> ConfinedPlace:
        """The file of a queue by its number in the stream; its directory is made."""
        topic, queue_id = self.names[queue]
        root = self._topics.get(topic) or self._enter(topic)
        if queue not in self._made:
            make_new_directory(root / str(queue_id))
            self._made.add(queue)
        return root / f"{queue_id}/{offset_to_filename(number * self.area.file_size)}"

    def _enter(self, topic: str) -> Root:
        """A topic's directory, made if need be and opened. Raises StoreError."""
        place = place_at(self.root) / self.area.directory / topic
        make_new_directory(place)
        if len(self._topics) >= MAX_OPEN:
            self._topics.pop(next(iter(self._topics))).close()
        with named_errors(place, "cannot be opened"):
            root = self._topics[topic] = enter_root(place)
        return root
