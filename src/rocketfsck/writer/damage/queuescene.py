"""Consume queues as they were before the damage: units by index, and where each stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.consumequeue import PRE_BLANK_SIZE
from rocketfsck.formats.dtypes import unit_dtype
from rocketfsck.store.model import ConsumeQueue, MappedFile
from rocketfsck.store.reading import FileReader
from rocketfsck.writer.damage.model import DamageError, PromisedPlace

MAX_QUEUE_SIZE = 128 << 20
"""Bytes of a queue that can be looked at: it is held in memory."""
TREES = {"file": "consumequeue", "batch": "batchconsumequeue"}


@dataclass(frozen=True, slots=True)
class SceneUnit:
    """One unit: `index` is its place in the queue's stream, `base` its first message's queue offset."""

    queue: ConsumeQueue
    index: int
    file: MappedFile
    start: int
    offset: int
    size: int
    tags_code: int
    base: int

    @property
    def end(self) -> int:
        return self.start + self.queue.unit_size


class QueueScene:
    """The units of one queue. `first_index` is the first on disk, `end_index` comes after the last in use.

    Raises DamageError for a queue of more than MAX_QUEUE_SIZE.
    """

    def __init__(self, queue: ConsumeQueue) -> None:
        self.queue = queue
        dtype = unit_dtype(queue.kind)
        self.files = [file for file in queue.files if file.start_offset is not None]
        if sum(file.size for file in self.files) > MAX_QUEUE_SIZE:
            raise DamageError(
                f"{queue_directory(queue)} has more than {MAX_QUEUE_SIZE >> 20} MiB: the limit for damage"
            )
        parts = []
        for file in self.files:
            with FileReader(file.path) as reader:
                data = reader.read(0, reader.size // queue.unit_size * queue.unit_size)
            parts.append(np.frombuffer(data, dtype))
        self.units: NDArray[Any] = np.concatenate(parts) if parts else np.zeros(0, dtype)
        self.first_index = (self.files[0].start_offset or 0) // queue.unit_size if self.files else 0
        used = np.flatnonzero(self.units["size"] != 0)
        self.end_index = self.first_index + (int(used[-1]) + 1 if len(used) else 0)
        starts = [file.start_offset or 0 for file in self.files]
        sizes = [file.size for file in self.files]
        self.whole = all(
            start + size == following
            for start, size, following in zip(starts, sizes, starts[1:], strict=False)
        ) and not any(size % queue.unit_size for size in sizes)

    @property
    def file_end_index(self) -> int:
        """The index after the last unit that the files have room for."""
        return self.first_index + len(self.units)

    @property
    def start_index(self) -> int:
        """The index of the first unit that is not a pre-blank one."""
        blank = (self.units["size"] == PRE_BLANK_SIZE) & (self.units["offset"] == 0)
        real = np.flatnonzero(~blank)
        return self.first_index + (int(real[0]) if len(real) else len(self.units))

    def offsets(self) -> NDArray[np.int64]:
        """Commit log offsets of the units `start_index:end_index`."""
        low, high = self.start_index - self.first_index, self.end_index - self.first_index
        offsets: NDArray[np.int64] = self.units["offset"][low:high].astype(np.int64)
        return offsets

    def unit(self, index: int) -> SceneUnit:
        """The unit at an index that the files have."""
        row = self.units[index - self.first_index]
        pos = index * self.queue.unit_size
        file = next(file for file in reversed(self.files) if (file.start_offset or 0) <= pos)
        base = int(row["msgBaseOffset"]) if self.queue.kind == "batch" else index
        return SceneUnit(
            self.queue,
            index,
            file,
            pos - (file.start_offset or 0),
            int(row["offset"]),
            int(row["size"]),
            int(row["tagsCode"]),
            base,
        )

    def find(self, offset: int) -> SceneUnit | None:
        """The unit that points to this commit log offset."""
        offsets = self.offsets()
        at = int(np.searchsorted(offsets, offset))
        if at < len(offsets) and int(offsets[at]) == offset:
            return self.unit(self.start_index + at)
        return None


def unit_place(unit: SceneUnit, count: int = 1, physical_offset: int | None = None) -> PromisedPlace:
    """Where a finding on `count` units from this one on is: in the file that holds the first of them."""
    end = min(unit.start + count * unit.queue.unit_size, unit.file.size)
    return PromisedPlace(
        file=unit.file.relative,
        start=unit.start,
        end=end,
        physical_offset=physical_offset,
        topic=unit.queue.topic,
        queue_id=unit.queue.queue_id,
        queue_offset=unit.index,
    )


def queue_directory(queue: ConsumeQueue) -> str:
    """The directory of a queue, relative to the store's root."""
    return f"{TREES[queue.kind]}/{queue.topic}/{queue.queue_id}"
