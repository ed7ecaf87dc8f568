"""Points in time in one commit log file: the first record stored at a time or later, by binary search.

Between two positions the search looks for the next record that knows its place (`logwalk`), so that a step
reads some bytes, whatever the length of the file. Trusts that storeTimestamps rise, as all searches for a
time do; where a broker's clock went back the answer is one of several.
"""

from __future__ import annotations

from rocketfsck.cli.browse.model.files import FileRow, Shelf
from rocketfsck.cli.browse.model.logwalk import Head, LogWalk
from rocketfsck.progress import go_on
from rocketfsck.reader.heads import head_at
from rocketfsck.store.reading import FileReader

CLOSE_SIZE = 1 << 16
"""So close, the records are walked one by one."""


def first_time(row: FileRow) -> int | None:
    """The storeTimestamp (ms) of the record that a file begins with; None where none does. StoreError."""
    with FileReader(row.target.path) as reader:
        head = head_at(reader, 0)
    return None if head is None else head.store_timestamp


def first_in_file(shelf: Shelf, row: FileRow, timestamp: int) -> int | None:
    """Where the first record of a file begins that was stored at a time (ms) or later; None for none.

    Raises StoreError when bytes cannot be read, CancelledError where the search was stopped.
    """
    file = shelf.open(row)
    try:
        walk = LogWalk(file.source)
        low, high = 0, _data_end(file.source.reader)
        while high - low > CLOSE_SIZE:
            go_on()
            middle = (low + high) // 2
            start = walk.next_start(middle, high)
            time = None if start is None else _time_of(walk, start)
            if start is None or time is None or time >= timestamp:
                high = middle
            else:
                low = start
        for head in walk.heads(low):
            time = _stored(walk, head)
            if time is not None and time >= timestamp:
                return head.start
        return None
    finally:
        file.close()


def _data_end(reader: FileReader) -> int:
    """Behind the last byte that may not be zero: a hole at the end is not searched."""
    return max((end for _, end in reader.data_extents()), default=0)


def _time_of(walk: LogWalk, pos: int) -> int | None:
    head = head_at(walk.source.reader, pos)
    return None if head is None else head.store_timestamp


def _stored(walk: LogWalk, head: Head) -> int | None:
    return None if head.record is None else _time_of(walk, head.start)
