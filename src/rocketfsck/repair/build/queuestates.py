"""The queues in the making: which rows of the scan's tables they are, where their next unit goes."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

import numpy as np

from rocketfsck.formats import consumequeue, dtypes, javatext, smallfiles
from rocketfsck.reader.units import BLOCK_COUNT
from rocketfsck.scan.units import IS_BATCH, LEFT_OUT, NEW_STATE, REFUSED_NAME, STATE_SIZE
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.store.reading import FileReader

# Where a queue of a store ends, as a broker's recovery finds it. Reference 3.5.
#
# The recovery takes units up to the first that is not valid, in the last three files; what points beyond the
# end of the log is cut off.

FILES_LOOKED_AT = 3


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """`following` is the number of the next unit in the stream, `queue_offset` that of the next message.

    `record_offset` and `record_end` are those of the last unit's record, in the log; `last_file` is the path
    of the file that it is in.
    """

    following: int
    queue_offset: int
    record_offset: int
    record_end: int
    last_file: str


def queue_end(queue: ConsumeQueue, log_end_offset: int) -> StreamEnd | None:
    """The end of a queue, None where it has no unit that points into the log. Raises StoreError."""
    is_batch = queue.kind == "batch"
    layout = dtypes.unit_dtype(queue.kind)
    found = None
    for file in queue.files[-FILES_LOOKED_AT:]:
        with FileReader(file.location) as reader:
            count, unit = _valid_units(reader, layout, log_end_offset)
        if unit is not None and not _is_pre_blank(unit):
            following = (file.start_offset or 0) // layout.itemsize + count
            offset, size = int(unit["offset"]), int(unit["size"])
            after = int(unit["msgBaseOffset"]) + int(unit["batchSize"]) if is_batch else following
            found = StreamEnd(following, after, offset, offset + size, file.location)
        if count < reader.size // layout.itemsize:
            break
    return found


def _valid_units(reader: FileReader, layout: dtypes.Dtype, log_end_offset: int) -> tuple[int, np.void | None]:
    """How many units are in front of a file's first that is not valid, and the last of them.

    What follows is not read: a file may have any length.
    """
    size = layout.itemsize
    count, last = 0, None
    for low, high in reader.data_units(size, reader.size // size * size):
        for first in range(low, high, BLOCK_COUNT):
            if first > count:
                return count, last
            units = np.frombuffer(reader.read(first * size, min(BLOCK_COUNT, high - first) * size), layout)
            valid = (units["offset"] >= 0) & (units["size"] > 0) & (units["offset"] < log_end_offset)
            if "batchSize" in (layout.names or ()):
                valid &= (units["msgBaseOffset"] >= 0) & (units["batchSize"] > 0)
            ends = np.flatnonzero(~valid)
            good = int(ends[0]) if len(ends) else len(units)
            count += good
            last = units[good - 1] if good else last
            if len(ends):
                return count, last
    return count, last


def _is_pre_blank(unit: np.void) -> bool:
    return int(unit["offset"]) == 0 and int(unit["size"]) == consumequeue.PRE_BLANK_SIZE


Name = tuple[str, int]
RawNames = Sequence[tuple[bytes, int]]


@dataclass(frozen=True, slots=True)
class WantedQueues:
    """The queues of some topics, all or those with some queueIds, whether they exist or not."""

    topics: frozenset[str]
    queue_ids: frozenset[int] | None = None

    def __contains__(self, name: object) -> bool:
        topic, queue_id = name if isinstance(name, tuple) else (None, None)
        return topic in self.topics and (self.queue_ids is None or queue_id in self.queue_ids)


@dataclass(slots=True)
class QueueStates:
    """`names[number]` is a queue, `values[number]` its row of `units` state.

    `wanted` are the queues to build (None: all), `batch_topics` those whose queues are batch queues.
    """

    wanted: Container[Name] | None
    batch_topics: frozenset[str]
    names: list[Name] = field(default_factory=list)
    values: dtypes.Longs = field(default_factory=lambda: np.empty((64, STATE_SIZE), np.int64))
    _numbers: dict[Name, int] = field(default_factory=dict)
    _of_tables: dict[int, dtypes.Longs] = field(default_factory=dict)

    def numbers_of(self, table: int, raw_names: RawNames, count: int) -> dtypes.Longs:
        """The numbers of the first `count` rows of a table that is known as `table`, and one for row -1.

        LEFT_OUT where a queue is not wanted, REFUSED_NAME for names that no directory can have.
        """
        known = self._of_tables.get(table)
        if known is None or len(known) - 1 < count:
            kept = np.empty(0, np.int64) if known is None else known[:-1]
            found = [
                self.number(javatext.java_decode(topic), queue_id)
                for topic, queue_id in raw_names[len(kept) : count]
            ]
            known = np.concatenate((kept, np.array([*found, REFUSED_NAME], np.int64)))
            self._of_tables[table] = known
        return known

    def number(self, topic: str, queue_id: int) -> int:
        """The number of a queue, a new one if it is not known yet; see `numbers_of`."""
        name = topic, queue_id
        if self.wanted is not None and name not in self.wanted:
            return LEFT_OUT
        if not smallfiles.is_directory_name(topic):
            return REFUSED_NAME
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
            if number >= len(self.values):
                self.values = np.concatenate((self.values, np.empty_like(self.values)))
            self.values[number] = NEW_STATE
            self.values[number, IS_BATCH] = topic in self.batch_topics
        return number
