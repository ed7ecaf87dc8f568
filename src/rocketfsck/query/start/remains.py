"""The records that a start hands to nobody: whether queues and index lead to them afterwards, and did before.

Whatever the log holds is looked at, after damage too, not only what the broker would read. Queues and index
files count as whole between the first and the furthest record that they lead to. Reference 3.3 and
6.5 to 6.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.javatext import java_decode
from rocketfsck.formats.magic import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketfsck.query.start.index import IndexModel
from rocketfsck.query.start.load import LoadedFile
from rocketfsck.query.start.losses import Census, is_dispatched
from rocketfsck.query.start.model import Skipped
from rocketfsck.query.start.queues import FAR
from rocketfsck.query.start.startqueues import StartQueues
from rocketfsck.scan.columns import Fault, RecordBatch
from rocketfsck.scan.log.regions import Region
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.reading import FileReader


@dataclass(frozen=True, slots=True)
class Handed:
    """What was dispatched: by the recovery from file number `first_file` on, records above `above_offset`; by
    the dispatcher from `from_offset` on, but for the ranges that it skipped."""

    first_file: int
    above_offset: int
    from_offset: int
    skipped: tuple[Skipped, ...]


class Remains:
    """What one start's queues and index lead to, for records that nothing was handed on of."""

    def __init__(self, queues: StartQueues, index: IndexModel, census: Census) -> None:
        self.queues = queues
        self.index = index
        self.census = census
        # by row of the table: up to where units are, and were, and from where on they are and were; the last
        # row is for queues that it did not take
        self._covered = np.array([(FAR, FAR, 0)], np.int64)

    def judge(self, batch: RecordBatch, base_offset: int, wanted: NDArray[np.bool_]) -> None:
        """Tell the census of those records of a batch, of the file that begins at `base_offset`."""
        limits = self._limits()[batch["queue_index"]]
        offset = batch["physical_offset"]
        keyed = batch["key_count"] > 0
        keyed &= (batch["sys_flag"] & TRANSACTION_MASK) != TRANSACTION_ROLLBACK
        in_front = offset < limits[:, 2]
        self.census.see(
            batch,
            base_offset,
            wanted,
            is_dispatched(batch) & ((offset > limits[:, 0]) | in_front),
            keyed & self.index.lacks(offset),
            (offset <= limits[:, 1]) & ~in_front,
            self.index.covered_before(offset),
        )

    def _limits(self) -> NDArray[np.int64]:
        known = len(self._covered) - 1
        fresh = self.census.table.names[known:]
        if fresh:
            rows = []
            for topic, queue_id in fresh:
                rows.append(self.queues.covered((java_decode(topic), queue_id)) or (-1, -1, 0))
            self._covered = np.concatenate([self._covered[:-1], rows, self._covered[-1:]])
        return self._covered


@dataclass(frozen=True, slots=True)
class Look:
    """A start whose log is to be looked over: its files after the start, what it handed on, where it ends."""

    files: Sequence[LoadedFile]
    handed: Handed
    max_offset: int
    remains: Remains

    def passed(self, file: LoadedFile) -> list[tuple[int, int]]:
        return [
            (item.start_offset, item.end_offset)
            for item in self.handed.skipped
            if item.start_offset < file.end_offset and item.end_offset > file.start_offset
        ]

    def wants(self, file: LoadedFile) -> bool:
        """Whether the file may have records that were not handed on."""
        return file.start_offset < self.handed.from_offset or bool(self.passed(file))

    def take(self, batch: RecordBatch, number: int, file: LoadedFile) -> None:
        """Judge the records of a batch of file `number` that were not handed on."""
        handed = self.handed
        offset = batch["pos"] + file.start_offset
        wanted = offset < handed.from_offset
        if number >= handed.first_file:
            wanted &= batch["physical_offset"] <= handed.above_offset
        for low, high in self.passed(file):
            wanted |= (offset >= low) & (offset < high)
        wanted &= (offset < self.max_offset) & ((batch["faults"] & Fault.PHYSICAL_OFFSET) == 0)
        self.remains.judge(batch, file.start_offset, wanted)


def look_over(looks: Sequence[Look], table: QueueTable, options: ScanOptions) -> None:
    """Read the log once for several starts, which share a table of queues.

    Raises StoreError for what cannot be read.
    """
    wanted: dict[str, tuple[LoadedFile, list[tuple[Look, int]]]] = {}
    for look in looks:
        for number, file in enumerate(look.files):
            if look.wants(file):
                wanted.setdefault(file.path, (file, []))[1].append((look, number))
    for file, takers in wanted.values():
        read = replace(options, in_entries=file.in_entries)
        with FileReader(file.path) as reader:
            for batch in scan_log_file(reader, file.start_offset, read, table):
                if isinstance(batch, Region):
                    continue
                for look, number in takers:
                    look.take(batch, number, file)
