"""The queue offset for a time, as brokers search it. Reference 7.3.

Two searches were in use for consume queues of 20-byte units (`QueryTraits.time_search`), one for batch
queues. "nearest": the first file that was modified at that time or later, in it the unit whose record's time
is nearest. "boundary": the file by its records' own times, in it the first unit of that time or later (lower)
or the last of that time or earlier (upper).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from rocketfsck.query.queues import QueueView
from rocketfsck.query.versions import QueryTraits

Boundary = Literal["lower", "upper"]


class TimeSearch:
    """Searches one queue as a broker does; everything in units, positions in their file."""

    def __init__(self, queue: QueueView, traits: QueryTraits, min_index: int) -> None:
        self.queue = queue
        self.traits = traits
        self.min_index = min_index
        self.log = queue.log
        self.units_a_file = max(queue.queue.mapped_files.file_size // queue.queue.unit_size, 1)

    def offset(self, timestamp: int, boundary: Boundary = "lower") -> int:
        """The queue offset for a time in ms."""
        if self.queue.queue.kind == "batch":
            return self._batch(timestamp)
        if not self.queue.files:
            return 0
        if self.traits.time_search == "nearest":
            return self._nearest(timestamp)
        return min(max(self._boundary(timestamp, boundary), self.min_index), self.queue.max_offset)

    def _time(self, index: int) -> int:
        """The storeTimestamp of a unit's record, -1 where a broker finds none."""
        unit = self.queue.unit(index)
        return -1 if unit is None else self.log.store_timestamp(unit.physical_offset, unit.size)

    def _span(self, number: int) -> tuple[int, int]:
        """The indexes of a file's units: first, and behind the last that is in use."""
        first = self.queue.starts[number] // self.queue.queue.unit_size
        count = self.queue.files[number].size // self.queue.queue.unit_size
        return first, min(first + count, max(self.queue.end_index, first))

    def _used_files(self) -> list[int]:
        """Files that hold units; a broker has no others."""
        numbers = range(len(self.queue.files))
        return [number for number in numbers if self._span(number)[1] > self._span(number)[0]]

    def _nearest(self, timestamp: int) -> int:
        files = self._used_files()
        if not files:
            return 0
        modified = (number for number in files if self.queue.files[number].mtime_ns // 1_000_000 >= timestamp)
        first, end = self._span(next(modified, files[-1]))
        low, high = max(first, self.min_index), end - 1
        left = right = -1
        left_time = right_time = -1
        floor = self.log.min_offset
        while high >= low:
            middle = (low + high) // 2
            unit = self.queue.unit(middle)
            if unit is None:  # the files overlap or leave a gap
                return 0
            if unit.physical_offset < floor:
                low, left = middle + 1, middle
                continue
            stored = self._time(middle)
            if stored < 0:
                return 0
            if stored == timestamp:
                return middle
            if stored > timestamp:
                high, right, right_time = middle - 1, middle, stored
            else:
                low, left, left_time = middle + 1, middle, stored
        if left_time == -1:
            return _index(right, first)
        if right_time == -1:
            return left
        return right if abs(timestamp - left_time) > abs(timestamp - right_time) else left

    def _boundary(self, timestamp: int, boundary: Boundary) -> int:
        number = self._boundary_file(timestamp, boundary)
        if number is None:
            return 0
        first, end = self._span(number)
        floor, ceiling = max(first, self.min_index), end - 1
        upper = boundary == "upper"
        if self._time(ceiling) < timestamp:
            return ceiling if upper else ceiling + 1
        if self._time(floor) > timestamp:
            return 0 if upper else first
        low, high = floor, ceiling
        left = right = -1
        oldest = self.log.min_offset
        while high >= low:
            middle = (low + high) // 2
            unit = self.queue.unit(middle)
            if unit is None:  # the files overlap or leave a gap
                return 0
            if unit.physical_offset < oldest:
                low, left = middle + 1, middle
                continue
            stored = self._time(middle)
            if stored < 0:
                return 0
            if stored == timestamp:
                return self._edge(middle, -1 if not upper else 1, floor, ceiling, timestamp)
            if stored > timestamp:
                high, right = middle - 1, middle
            else:
                low, left = middle + 1, middle
        return _index(left if upper else right, first)

    def _boundary_file(self, timestamp: int, boundary: Boundary) -> int | None:
        files = self._used_files()
        if not files:
            return None
        if boundary == "lower":
            for number in files[:-1]:
                if self._time(self._span(number)[1] - 1) >= timestamp:
                    return number
            return files[-1]
        for number in reversed(files):
            if self._time(self._span(number)[0]) <= timestamp:
                return number
        return None

    def _edge(self, index: int, step: int, floor: int, ceiling: int, timestamp: int) -> int:
        """The last of the neighbours that have the same time."""
        while floor <= index + step <= ceiling and self._time(index + step) == timestamp:
            index += step
        return index

    def _batch(self, timestamp: int) -> int:
        """A batch queue's units know their times: the first base of that time or later, or the last base."""
        time_of: Callable[[int], int] = self._unit_time
        files = self._used_files()
        if not files:
            return -1
        low, high = self._span(files[0])[0], self._span(files[-1])[1]
        last = high - 1
        if timestamp >= time_of(last):
            return self.queue.queue_offset_at(last)
        while low < high:
            middle = (low + high) // 2
            if time_of(middle) < timestamp:
                low = middle + 1
            else:
                high = middle
        return self.queue.queue_offset_at(low)

    def _unit_time(self, index: int) -> int:
        unit = self.queue.unit(index)
        return unit.store_timestamp or 0 if unit is not None else 0


def _index(found: int, first: int) -> int:
    """An index, or what a broker makes of none: the byte before the file, in whole units."""
    return found if found >= 0 else max(first - 1, 0)
