"""Batch queues of a running broker: the unit of a queue offset, the unit of a time. Reference 3.7, 7.3.

The file is chosen by the first unit of each (`searchBcqByCacheEnable`, on by default, caches these units); in
the file one of two binary searches is used, each with quirks of its own.
"""

from __future__ import annotations

from typing import Literal

from rocketfsck.query.serving.files import BrokerThrowsError, ServedFile, ServedQueue
from rocketfsck.reader.units import Unit

Boundary = Literal["lower", "upper"]


def first_unit(queue: ServedQueue, file: ServedFile) -> Unit | None:
    """The first unit of a file, None for an empty one."""
    return queue.unit(file, 0) if file.wrote_pos >= queue.unit_size else None


def last_pos(queue: ServedQueue, file: ServedFile) -> int:
    """The position of the last unit of a file that is not empty."""
    return file.wrote_pos - queue.unit_size


def find_batch(queue: ServedQueue, queue_offset: int) -> tuple[ServedFile, int] | None:
    """`getBatchMsgIndexBuffer`: the file and position of the unit whose batch holds a queue offset.

    The unit in front of it where no batch does; None where the broker finds none. Raises BrokerThrowsError
    for a queue without files.
    """
    if queue_offset >= queue.max_offset:
        return None
    _need_files(queue)
    file = _file_of_offset(queue, queue_offset)
    if file is None:
        return None
    pos = _search(queue, file, queue_offset)
    return None if pos is None else (file, pos)


def _need_files(queue: ServedQueue) -> None:
    if not queue.files:
        raise BrokerThrowsError("java.lang.NullPointerException")


def _file_of_offset(queue: ServedQueue, queue_offset: int) -> ServedFile | None:
    last = first_unit(queue, queue.files[-1])
    if last is not None and last.queue_offset <= queue_offset:
        return queue.files[-1]
    cache = {unit.queue_offset: file for file in queue.files if (unit := first_unit(queue, file)) is not None}
    below = [base for base in cache if base <= queue_offset]
    return cache[max(below)] if below else None


def _search(queue: ServedQueue, file: ServedFile, queue_offset: int) -> int | None:
    """`binarySearch`: the last unit whose base is not above the offset, where bases rise."""
    size = queue.unit_size
    low, high = 0, last_pos(queue, file)
    most = high
    while low <= high:
        middle = (low + high) // 2 // size * size
        base = queue.unit(file, middle).queue_offset
        if base == queue_offset:
            return middle
        if base > queue_offset:
            high = middle - size
        elif middle == low:
            behind = middle + size
            return (
                behind if behind <= most and queue.unit(file, behind).queue_offset <= queue_offset else middle
            )
        else:
            low = middle
    return None


def batch_offset_of_time(queue: ServedQueue, timestamp: int, boundary: Boundary) -> int:
    """`getOffsetInQueueByTime`: the base of the unit that the broker finds for a time, -1 for none.

    Raises BrokerThrowsError for a queue without files.
    """
    _need_files(queue)
    file = _file_of_time(queue, timestamp)
    if first_unit(queue, file) is None:
        return -1
    high = last_pos(queue, file)
    last = queue.unit(file, high)
    if timestamp >= (last.store_timestamp or 0):
        return last.queue_offset
    pos = _search_time(queue, file, timestamp, boundary)
    return -1 if pos is None else queue.unit(file, pos).queue_offset


def _file_of_time(queue: ServedQueue, timestamp: int) -> ServedFile:
    last = first_unit(queue, queue.files[-1])
    if last is not None and (last.store_timestamp or 0) <= timestamp:
        return queue.files[-1]
    starts: dict[int, ServedFile] = {}
    for file in queue.files:
        unit = first_unit(queue, file)
        if unit is not None:
            starts[unit.store_timestamp or 0] = file
    below = [start for start in starts if start <= timestamp]
    return starts[max(below)] if below else queue.files[0]


def _search_time(queue: ServedQueue, file: ServedFile, timestamp: int, boundary: Boundary) -> int | None:
    """`binarySearchRight`: for "lower" the first unit of that time or later, where times rise."""
    size = queue.unit_size
    low, high = 0, last_pos(queue, file)
    while low <= high:
        middle = (low + high) // 2 // size * size
        stored = queue.unit(file, middle).store_timestamp or 0
        if middle == high:
            return middle if stored >= timestamp else None
        if middle == low:
            if stored >= timestamp:
                return middle
            low = middle + size
        elif boundary == "lower":
            low, high = (middle + size, high) if stored < timestamp else (low, middle)
        else:
            low, high = (middle, high) if stored <= timestamp else (low, middle - size)
    return None
