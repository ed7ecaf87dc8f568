"""The compacted logs of a store: each topic's queue as its log, its units and the position compacted up to.

    compaction/compactionLog/<topic>/<queueId>/<20 digits>    records; physicalOffset is the place in this log
    compaction/compactionCq/<topic>/<queueId>/<20 digits>     46-byte units of the log file of the same name
    compaction/position-checkpoint                            {"queueOffsetMap": {"topic_queueId": offset}}

A log file has a unit file of its own, of the same name. Names may leave gaps: several files become fewer when
they are compacted. Reference 1.9, 3.7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import FormatError
from rocketfsck.formats import config, consumequeue, dtypes, javatext
from rocketfsck.reader.units import BLOCK_COUNT
from rocketfsck.store.model import MappedFile, MappedFileQueue, OtherKind, Store, StoreFile
from rocketfsck.store.reading import FileReader, read_whole

CHECKPOINT = "compaction/position-checkpoint"
MAX_CHECKPOINT_SIZE = 16 << 20
MAX_UNIT_FILE_SIZE = 256 << 20
"""Bytes of a unit file that are looked at: the broker's default is 10 MiB."""

_NO_FILES = MappedFileQueue((), 0, ())
Units = NDArray[Any]


@dataclass(frozen=True, slots=True)
class CompactedQueue:
    """The files of one queue of a compaction topic; `leftovers` are those of work that was broken off."""

    topic: str
    queue_id: int
    log: MappedFileQueue
    units: MappedFileQueue
    leftovers: tuple[StoreFile, ...] = ()

    def unit_file(self, name: str) -> MappedFile | None:
        """The unit file of a log file's name."""
        return next((file for file in self.units.files if file.name == name), None)


def compacted_queues(store: Store) -> tuple[CompactedQueue, ...]:
    """The queues in `compaction/`, by topic and queueId; file sizes are those that most files have."""
    found: dict[tuple[str, int], dict[OtherKind, MappedFileQueue]] = {}
    leftovers: dict[tuple[str, int], list[StoreFile]] = {}
    sizes = {kind: _common_size(store, kind) for kind in (OtherKind.COMPACTION_LOG, OtherKind.COMPACTION_CQ)}
    for other in store.others:
        if other.kind not in sizes or other.mapped_files is None:
            continue
        queue = replace(other.mapped_files, file_size=sizes[other.kind])
        name = (other.topic or "", other.queue_id or 0)
        found.setdefault(name, {})[other.kind] = queue
        leftovers.setdefault(name, []).extend(file for file in other.files if file not in queue.files)

    def queue_of(name: tuple[str, int]) -> CompactedQueue:
        log, units = (found[name].get(kind, _NO_FILES) for kind in sizes)
        return CompactedQueue(*name, log, units, tuple(leftovers[name]))

    return tuple(map(queue_of, sorted(found)))


def _common_size(store: Store, kind: OtherKind) -> int:
    """The length that most files of this kind have: a broker has one for all queues."""
    queues = (other.mapped_files for other in store.others if other.kind is kind)
    files = [file for queue in queues if queue is not None for file in queue.files]
    counts = Counter(file.size for file in files)
    return max(counts, key=lambda size: (counts[size], size), default=0)


def decode_positions(data: bytes) -> dict[str, int]:
    """What `position-checkpoint` says: the queue offset that each `topic_queueId` was compacted up to.

    Raises FormatError for what a broker does not load.
    """
    value = config.decode_config(data)
    table = value.get("queueOffsetMap") if isinstance(value, Mapping) else None
    if not isinstance(table, Mapping):
        raise FormatError("position-checkpoint: queueOffsetMap is not an object", offset=0)
    for name, offset in table.items():
        if type(offset) is not int or not javatext.INT64_MIN <= offset <= javatext.INT64_MAX:
            raise FormatError(f"position-checkpoint: {str(name)[:80]}: {offset!r} is not an offset", offset=0)
    return {str(name): offset for name, offset in table.items()}


def read_positions(file: StoreFile) -> dict[str, int]:
    """The positions in a file, as `decode_positions`. Raises StoreError where it cannot be read."""
    return decode_positions(read_whole(file.path, MAX_CHECKPOINT_SIZE))


def position_name(topic: str, queue_id: int) -> str:
    """What a queue is called in `position-checkpoint`."""
    return f"{topic}_{queue_id}"


def used_rows(units: Units) -> NDArray[np.bool_]:
    """Which units a broker treats as units: those that point somewhere (`validateCqUnit`)."""
    used: NDArray[np.bool_] = (units["offset"] >= 0) & (units["size"] > 0)
    return used & (units["msgBaseOffset"] >= 0) & (units["batchSize"] > 0)


@dataclass(frozen=True, slots=True)
class FileUnits:
    """The units in use of a unit file, `rows`, and the number of each in the file.

    `count` of them are in front of the first that is not in use; `end` is that one's bytes, b"" where the
    file has none.
    """

    rows: Units
    numbers: dtypes.Longs
    count: int
    end: bytes

    @property
    def leading(self) -> Units:
        """The units in front of the first that is not in use."""
        return self.rows[: self.count]


def read_units(file: StoreFile) -> FileUnits:
    """The units in use of a unit file; holes are not read, and MAX_UNIT_FILE_SIZE bytes of data at most.

    Raises StoreError where it cannot be read.
    """
    size = consumequeue.BATCH_UNIT_SIZE
    found, numbers = [np.zeros(0, dtypes.BATCH_UNIT_DTYPE)], [np.zeros(0, np.int64)]
    left = MAX_UNIT_FILE_SIZE // size
    with FileReader(file.location) as reader:
        end = reader.size // size
        for low, high in reader.data_units(size, end * size):
            stop = min(high, low + left)
            for first in range(low, stop, BLOCK_COUNT):
                count = min(BLOCK_COUNT, stop - first)
                units = np.frombuffer(reader.read(first * size, count * size), dtypes.BATCH_UNIT_DTYPE)
                rows = np.flatnonzero(used_rows(units))
                found.append(units[rows])
                numbers.append(rows + first)
            left -= stop - low
            if stop < high:
                end = stop
                break
        places = np.concatenate(numbers)
        gaps = np.flatnonzero(places != np.arange(len(places)))
        count = int(gaps[0]) if len(gaps) else len(places)
        last = reader.read(count * size, size) if count < end else b""
    return FileUnits(np.concatenate(found), places, count, last)
