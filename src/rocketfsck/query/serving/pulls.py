"""What a pull gives: `DefaultMessageStore.getMessage` and `getCommitLogOffsetInQueue`. Reference 3.3, 7.3.

The records' bytes are not looked at: a unit that points at bytes of the log is answered with these bytes,
whatever they are. Pre-blank units are units like others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from rocketfsck.formats.dialect import Dialect
from rocketfsck.query.serving.files import ServedFile, ServedLog, ServedQueue, find_batch, java_int
from rocketfsck.reader.units import Unit

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


def pull(queue: ServedQueue, log: ServedLog, dialect: Dialect, offset: int, max_num: int) -> PullAnswer:
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
    return queue.file_of(offset) if queue.kind == "file" else find_batch(queue, offset)


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


class _Pull:
    """The walk over the units of a queue from the offset on."""

    def __init__(
        self, queue: ServedQueue, log: ServedLog, dialect: Dialect, offset: int, max_num: int
    ) -> None:
        self.queue = queue
        self.log = log
        self.dialect = dialect
        self.offset = offset
        self.max_num = max_num
        self.offsets: list[int] = []
        self.total_size = 0
        self.count = 0
        self.status: Status = "NO_MATCHED_MESSAGE"
        self.skip_below: int | None = None

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
        if java_int(self.total_size + unit.size) > TRANSFER_SIZE:
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
