"""What a pull gives: `DefaultMessageStore.getMessage` and `getCommitLogOffsetInQueue`. Reference 3.3, 7.3.

The records' bytes are not looked at: a unit that points at bytes of the log is answered with these bytes,
whatever they are. Pre-blank units are units like others.

The queue offset for a time, as brokers search it. Reference 7.3.

Two searches were in use for consume queues of 20-byte units (`Dialect.time_search`), one for batch
queues (`files`), one for queues in RocksDB. "nearest": the first file that was modified at that time or
later, in it the unit whose record's time is nearest. "boundary": the file by its records' own times, in it
the first unit of that time or later (lower) or the last of that time or earlier (upper).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from rocketfsck.formats.dialect import Dialect
from rocketfsck.query.serving import files as serving_files
from rocketfsck.query.serving.files import Boundary, ServedFile, ServedLog, ServedQueue
from rocketfsck.reader.units import Unit

NO_TIME = -1
_UNDERFLOW = "java.nio.BufferUnderflowException"
_ILLEGAL = "java.lang.IllegalArgumentException"


def offset_of_time(
    queue: ServedQueue,
    log: ServedLog,
    dialect: Dialect,
    timestamp: int,
    boundary: Boundary = "lower",
) -> int:
    """The queue offset for a time in ms: `getOffsetInQueueByTime`.

    Raises BrokerThrowsError where the broker throws, StoreError where the queue or the log cannot be read.
    """
    if queue.kind == "batch":
        found = serving_files.batch_offset_of_time(queue, timestamp, boundary)
    elif queue.in_database and dialect.upper_boundary:
        return _database_search(queue, log, timestamp, boundary)
    elif not queue.files:
        found = 0
    elif dialect.time_search == "nearest":
        found = _TimeSearch(queue, log).nearest(timestamp)
    else:
        found = _TimeSearch(queue, log).boundary(timestamp, boundary)
    return min(max(found, queue.min_offset), queue.max_offset) if dialect.time_clamped else found


def _database_search(
    queue: ServedQueue,
    log: ServedLog,
    timestamp: int,
    boundary: Boundary,
) -> int:
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
            raise serving_files.BrokerThrowsError(_ILLEGAL if floor > file.wrote_pos else _UNDERFLOW)
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


TRANSFER_SIZE, TRANSFER_COUNT = 256 * 1024, 32
"""`maxTransferBytesOnMessageInMemory` and `maxTransferCountOnMessageInMemory`."""
FILTER_SIZE = 16000
"""`maxFilterMessageSize`: bytes of units that one pull goes through."""

Status = Literal[
    "FOUND",
    "NO_MATCHED_MESSAGE",
    "MESSAGE_WAS_REMOVING",
    "OFFSET_FOUND_NULL",
    "OFFSET_OVERFLOW_BADLY",
    "OFFSET_OVERFLOW_ONE",
    "OFFSET_TOO_SMALL",
    "NO_MESSAGE_IN_QUEUE",
    "NO_MATCHED_LOGIC_QUEUE",
]


@dataclass(frozen=True, slots=True)
class PullAnswer:
    """`GetMessageResult`: physical offsets of the records given, and the queue offset to go on with."""

    status: Status
    offsets: tuple[int, ...]
    next_begin_offset: int
    min_offset: int
    max_offset: int


def pull(
    queue: ServedQueue,
    log: ServedLog,
    dialect: Dialect,
    offset: int,
    max_num: int,
) -> PullAnswer:
    """A pull of at most `max_num` messages (those of batches counted) from a queue offset.

    Raises BrokerThrowsError where the broker throws, StoreError where the queue cannot be read.
    """
    low, high = queue.min_offset, queue.max_offset
    if high == 0:
        return PullAnswer("NO_MESSAGE_IN_QUEUE", (), 0, low, high)
    if offset < low:
        return PullAnswer("OFFSET_TOO_SMALL", (), low, low, high)
    if offset == high:
        return PullAnswer("OFFSET_OVERFLOW_ONE", (), offset, low, high)
    if offset > high:
        to_min = dialect.overflow_to_min and low == 0
        return PullAnswer("OFFSET_OVERFLOW_BADLY", (), low if to_min else high, low, high)
    found = locate(queue, offset)
    if found is None:
        return PullAnswer("OFFSET_FOUND_NULL", (), _next_file(queue, offset), low, high)
    units = _rows(queue, offset, max_num) if queue.in_database else _units(queue, *found)
    return _Pull(queue, log, dialect, offset, max_num).run(units)


def _units(queue: ServedQueue, file: ServedFile, pos: int) -> Iterator[Unit]:
    """The units of one file of the queue from a position on: a pull does not go on into the next file."""
    for place in range(pos, file.wrote_pos, queue.unit_size):
        yield queue.unit(file, place)


def _rows(queue: ServedQueue, offset: int, max_num: int) -> Iterator[Unit]:
    """The rows of a database for as many messages as were asked for, up to one that is missing."""
    for queue_offset in range(offset, offset + max_num):
        unit = queue.unit_at(queue_offset)
        if unit is None:
            return
        yield unit


def locate(queue: ServedQueue, offset: int) -> tuple[ServedFile, int] | None:
    """The file and the position in it where the broker reads the unit of a queue offset; None for none."""
    return queue.file_of(offset) if queue.kind == "file" else serving_files.find_batch(queue, offset)


def commit_log_offset(queue: ServedQueue, offset: int) -> int:
    """`getCommitLogOffsetInQueue`: where the unit of a queue offset points; 0 without one."""
    found = locate(queue, offset)
    return queue.unit(*found).physical_offset if found is not None else 0


def _next_file(queue: ServedQueue, offset: int) -> int:
    """`rollNextFile` of a queue: a batch queue and one in a database have none and say 0."""
    if queue.kind == "batch" or queue.in_database:
        return 0
    units = max(queue.file_size // queue.unit_size, 1)
    return offset + units - offset % units


@dataclass(slots=True)
class _Pull:
    """The walk over the units of a queue from the offset on."""

    queue: ServedQueue
    log: ServedLog
    dialect: Dialect
    offset: int
    max_num: int
    offsets: list[int] = field(default_factory=list)
    total_size: int = 0
    count: int = 0
    status: Status = "NO_MATCHED_MESSAGE"
    skip_below: int | None = None

    def run(self, units: Iterable[Unit]) -> PullAnswer:
        following = self.offset
        for unit in units:
            if following >= self.queue.max_offset:
                break
            skipped = self.skip_below is not None and unit.physical_offset < self.skip_below
            if self._is_too_far(unit):
                break
            if self._is_full(unit) and not (skipped and self.dialect.pull_skips_first):
                break
            following = unit.queue_offset + unit.count
            if not skipped:
                self._take(unit)
        bounds = self.queue.min_offset, self.queue.max_offset
        return PullAnswer(self.status, tuple(self.offsets), following, *bounds)

    def _is_too_far(self, unit: Unit) -> bool:
        """Whether the pull has gone through as many units as one does."""
        size = self.queue.unit_size
        distance = unit.queue_offset - self.offset
        if self.dialect.pull_limit == "bytes":
            distance *= size
        else:
            size = 20  # this limit is reckoned in units of 20 bytes for batch queues too
        limit = max(FILTER_SIZE, self.max_num * size)
        return distance >= limit if self.dialect.pull_limit_inclusive else distance > limit

    def _is_full(self, unit: Unit) -> bool:
        """Whether one pull holds no more: by messages asked for, by bytes, by messages in memory."""
        if not self.total_size or not self.count:
            return False
        if self.count + unit.count > self.max_num:
            return True
        if serving_files.java_int(self.total_size + unit.size) > TRANSFER_SIZE:
            return True
        return self.count > TRANSFER_COUNT - 1

    def _take(self, unit: Unit) -> None:
        found = self.log.select(unit.physical_offset, unit.size)
        if found is None:
            if not self.total_size:
                self.status = "MESSAGE_WAS_REMOVING"
            self.skip_below = self.log.next_file(unit.physical_offset)
            return
        file, pos = found
        self.offsets.append(file.start_offset + pos)  # offset 0 is answered with the log's first file
        self.total_size += unit.size
        self.count += unit.count
        self.status, self.skip_below = "FOUND", None
