"""Where a queue of a store ends, as a broker's recovery finds it. Reference 3.5.

The recovery takes units up to the first that is not valid, in the last three files; what points beyond the
end of the log is cut off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rocketfsck.formats.consumequeue import PRE_BLANK_SIZE
from rocketfsck.formats.dtypes import unit_dtype
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.store.reading import FileReader

FILES_LOOKED_AT = 3


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """`following` is the number of the next unit in the stream, `queue_offset` that of the next message.

    `record_offset` and `record_end` are those of the last unit's record, in the log; `last_file` is the path
    of the file that it is in.
    """

    following: int
    queue_offset: int
    record_offset: int
    record_end: int
    last_file: str


def queue_end(queue: ConsumeQueue, log_end_offset: int) -> QueueEnd | None:
    """The end of a queue, None where it has no unit that points into the log. Raises StoreError."""
    is_batch = queue.kind == "batch"
    layout = unit_dtype(queue.kind)
    found = None
    for file in queue.files[-FILES_LOOKED_AT:]:
        with FileReader(file.location) as reader:
            count = reader.size // layout.itemsize
            units = np.frombuffer(reader.read(0, count * layout.itemsize), layout)
        valid = (units["offset"] >= 0) & (units["size"] > 0) & (units["offset"] < log_end_offset)
        if is_batch:
            valid &= (units["msgBaseOffset"] >= 0) & (units["batchSize"] > 0)
        ends = np.flatnonzero(~valid)
        last = (int(ends[0]) if len(ends) else count) - 1
        if last >= 0 and not _is_pre_blank(units[last]):
            unit = units[last]
            following = (file.start_offset or 0) // layout.itemsize + last + 1
            offset, size = int(unit["offset"]), int(unit["size"])
            after = int(unit["msgBaseOffset"]) + int(unit["batchSize"]) if is_batch else following
            found = QueueEnd(following, after, offset, offset + size, file.location)
        if len(ends):
            break
    return found


def _is_pre_blank(unit: np.void) -> bool:
    return int(unit["offset"]) == 0 and int(unit["size"]) == PRE_BLANK_SIZE
