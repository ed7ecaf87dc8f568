"""The queue offset for a time, as brokers search it. Reference 7.3.

Two searches were in use for consume queues of 20-byte units (`Dialect.time_search`), one for batch
queues (`files`), one for queues in RocksDB. "nearest": the first file that was modified at that time or
later, in it the unit whose record's time is nearest. "boundary": the file by its records' own times, in it
the first unit of that time or later (lower) or the last of that time or earlier (upper).
"""

from __future__ import annotations

from rocketfsck.formats.dialect import Dialect
from rocketfsck.query.serving.files import (
    Boundary,
    BrokerThrowsError,
    ServedFile,
    ServedLog,
    ServedQueue,
    batch_offset_of_time,
)

NO_TIME = -1
_UNDERFLOW = "java.nio.BufferUnderflowException"
_ILLEGAL = "java.lang.IllegalArgumentException"


def offset_of_time(
    queue: ServedQueue, log: ServedLog, dialect: Dialect, timestamp: int, boundary: Boundary = "lower"
) -> int:
    """The queue offset for a time in ms: `getOffsetInQueueByTime`.

    Raises BrokerThrowsError where the broker throws, StoreError where the queue or the log cannot be read.
    """
    if queue.kind == "batch":
        found = batch_offset_of_time(queue, timestamp, boundary)
    elif queue.in_database and dialect.upper_boundary:
        return _database_search(queue, log, timestamp, boundary)
    elif not queue.files:
        found = 0
    elif dialect.time_search == "nearest":
        found = _TimeSearch(queue, log).nearest(timestamp)
    else:
        found = _TimeSearch(queue, log).boundary(timestamp, boundary)
    return min(max(found, queue.min_offset), queue.max_offset) if dialect.time_clamped else found


def _database_search(queue: ServedQueue, log: ServedLog, timestamp: int, boundary: Boundary) -> int:
    """`binarySearchInCQByTime`: over the queue offsets of a queue in RocksDB, by the times in its rows.

    The answer is not brought between the ends of the queue: it may be 0 or -1 where the queue begins later.
    """
    floor, ceiling = queue.min_offset, queue.max_offset - 1
    if ceiling < 0:
        return 0

    def time_of(place: int) -> int | None:
        unit = queue.unit_at(place)
        if unit is None:
            return None
        stored = queue.row_time(place)
        return log.store_timestamp(unit.physical_offset, unit.size) if stored is None else stored

    def is_expired(place: int) -> bool:
        unit = queue.unit_at(place)
        return unit is not None and unit.physical_offset < log.min_offset

    last, first = time_of(ceiling), time_of(floor)
    if last is not None and last < timestamp:
        return ceiling if boundary == "upper" else ceiling + 1
    if first is not None and first > timestamp:
        return 0 if boundary == "upper" else floor
    low, high, left, right = floor, ceiling, -1, -1
    while high >= low:
        middle = low + (high - low) // 2
        stored = time_of(middle)
        if stored is None:
            low = middle + 1
        elif is_expired(middle):
            low, left = middle + 1, middle
        elif stored < 0:
            return 0
        elif stored == timestamp:
            step = 1 if boundary == "upper" else -1
            while floor <= middle + step <= ceiling and time_of(middle + step) == timestamp:
                middle += step
            return middle
        elif stored > timestamp:
            high, right = middle - 1, middle
        else:
            low, left = middle + 1, middle
    return left if boundary == "upper" else right


class _TimeSearch:
    """Searches the files of one queue. Positions are those of units in their file."""

    def __init__(self, queue: ServedQueue, log: ServedLog) -> None:
        self.queue = queue
        self.log = log
        self.size = queue.unit_size

    def _time(self, file: ServedFile, pos: int) -> int:
        """The time (ms) of a unit's record, -1 where the broker finds none."""
        unit = self.queue.unit(file, pos)
        return self.log.store_timestamp(unit.physical_offset, unit.size)

    def _is_expired(self, file: ServedFile, pos: int) -> bool:
        return self.queue.unit(file, pos).physical_offset < self.log.min_offset

    def _floor(self, file: ServedFile) -> int:
        return max(self.queue.min_pos - file.start_offset, 0)

    def _middle(self, low: int, high: int) -> int:
        return (low + high) // (2 * self.size) * self.size

    def _queue_offset(self, file: ServedFile, pos: int) -> int:
        """The queue offset of a position; -1, for none, is the byte in front of the file."""
        return max(file.start_offset + pos, 0) // self.size

    def nearest(self, timestamp: int) -> int:
        files = self.queue.files
        late = (file for file in files if file.mtime >= timestamp)
        file = next(late, files[-1])
        low, high = self._floor(file), file.wrote_pos - self.size
        if not file.wrote_pos:
            return 0
        left = right = -1
        left_time = right_time = NO_TIME
        while high >= low:
            middle = self._middle(low, high)
            if self._is_expired(file, middle):
                low, left = middle + self.size, middle
                continue
            stored = self._time(file, middle)
            if stored < 0:
                return 0
            if stored == timestamp:
                return self._queue_offset(file, middle)
            if stored > timestamp:
                high, right, right_time = middle - self.size, middle, stored
            else:
                low, left, left_time = middle + self.size, middle, stored
        if left_time == NO_TIME:
            return self._queue_offset(file, right)
        if right_time == NO_TIME:
            return self._queue_offset(file, left)
        is_right = abs(timestamp - left_time) > abs(timestamp - right_time)
        return self._queue_offset(file, right if is_right else left)

    def boundary(self, timestamp: int, boundary: Boundary) -> int:
        file = self._file_of(timestamp, boundary)
        if file is None or not file.wrote_pos:
            return 0
        floor, ceiling = self._floor(file), file.wrote_pos - self.size
        if self._time(file, ceiling) < timestamp:
            behind = 0 if boundary == "upper" else self.size
            return self._queue_offset(file, ceiling + behind)
        if floor > ceiling:
            raise BrokerThrowsError(_ILLEGAL if floor > file.wrote_pos else _UNDERFLOW)
        if self._time(file, floor) > timestamp:
            return 0 if boundary == "upper" else self._queue_offset(file, 0)
        low, high = floor, ceiling
        left = right = -1
        while high >= low:
            middle = self._middle(low, high)
            if self._is_expired(file, middle):
                low, left = middle + self.size, middle
                continue
            stored = self._time(file, middle)
            if stored < 0:
                return 0
            if stored == timestamp:
                step = self.size if boundary == "upper" else -self.size
                return self._queue_offset(file, self._edge(file, middle, step, floor, ceiling))
            if stored > timestamp:
                high, right = middle - self.size, middle
            else:
                low, left = middle + self.size, middle
        return self._queue_offset(file, left if boundary == "upper" else right)

    def _edge(self, file: ServedFile, pos: int, step: int, floor: int, ceiling: int) -> int:
        """The last of the neighbours that have the same time."""
        stored = self._time(file, pos)
        while floor <= pos + step <= ceiling and self._time(file, pos + step) == stored:
            pos += step
        return pos

    def _file_of(self, timestamp: int, boundary: Boundary) -> ServedFile | None:
        """The first file whose last record is at that time or later, or the last whose first is not later.

        A file without such a record has the time -1: the first search passes it over, the second takes it.
        The broker looks at both ends of every file first, and throws where it cannot.
        """
        files = self.queue.files
        starts = [self._bound(file, 0) for file in files]
        stops = [self._bound(file, file.size - self.size) for file in files[:-1]]
        if boundary == "lower":
            reaching = (file for file, stop in zip(files, stops, strict=False) if stop >= timestamp)
            return next(reaching, files[-1])
        begun = (file for file, start in zip(files[::-1], starts[::-1], strict=True) if start <= timestamp)
        return next(begun, None)

    def _bound(self, file: ServedFile, pos: int) -> int:
        if pos + self.size > file.wrote_pos:
            return NO_TIME
        stored = self._time(file, pos)
        return stored if stored > 0 else NO_TIME
