"""What a start puts out of reach: records behind the cut, records without a unit or an index entry.

Counts are exact, ranges are kept up to a limit. Reference 6.3 to 6.7, fault catalogue section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.magic import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NOT
from rocketfsck.query.start.load import OpenFile
from rocketfsck.query.start.model import LostRange
from rocketfsck.scan.columns import Fault, RecordBatch
from rocketfsck.scan.log.regions import Region
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.reading import FileReader

RANGE_LIMIT = 256


class Ranges:
    """Counts records and keeps the first ranges of neighbours among them."""

    def __init__(self) -> None:
        self.record_count = 0
        self._ranges: list[LostRange] = []
        self._open = False

    def add(self, offset: NDArray[np.int64], size: NDArray[np.int64], chosen: NDArray[np.bool_]) -> None:
        """Records by where they stand, in order; those that are `chosen` count."""
        rows = np.flatnonzero(chosen)
        if len(rows):
            starts = np.flatnonzero(np.append(True, np.diff(rows) > 1))
            for first, last in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
                low, high = int(rows[first]), int(rows[last - 1])
                self._take(int(offset[low]), int(offset[high] + size[high]), last - first, low == 0)
                if len(self._ranges) >= RANGE_LIMIT:
                    break
            self.record_count += len(rows)
        self._open = bool(len(chosen)) and bool(chosen[-1])

    def _take(self, start: int, end: int, count: int, is_first: bool) -> None:
        if is_first and self._open and self._ranges:
            last = self._ranges.pop()
            start, count = last.start_offset, last.record_count + count
        self._ranges.append(LostRange(start, end, count))

    def result(self) -> tuple[LostRange, ...]:
        return tuple(self._ranges)


class Census:
    """What is known of the records of the final log: queue offsets in use, and which are out of reach."""

    def __init__(self, table: QueueTable) -> None:
        self.table = table
        self.by_queue = Ranges()
        self.by_key = Ranges()
        self.new_by_queue_count = 0
        self.new_by_key_count = 0
        self.reached_count = 0
        self._next_offset: NDArray[np.int64] = np.zeros(256, np.int64)
        self._missed: NDArray[np.int64] = np.zeros(256, np.int64)

    def see(
        self,
        batch: RecordBatch,
        base_offset: int,
        wanted: NDArray[np.bool_],
        without_unit: NDArray[np.bool_],
        without_entry: NDArray[np.bool_],
        had_unit: NDArray[np.bool_],
        had_entry: NDArray[np.bool_],
    ) -> None:
        """Take in the `wanted` records of a batch: what they lack after the start, what they had before."""
        rows = np.flatnonzero(wanted)
        self.new_by_queue_count += int(np.count_nonzero((without_unit & had_unit)[rows]))
        self.new_by_key_count += int(np.count_nonzero((without_entry & had_entry)[rows]))
        offset, size = batch["pos"][rows] + base_offset, batch["total_size"][rows].astype(np.int64)
        self.by_queue.add(offset, size, without_unit[rows])
        self.by_key.add(offset, size, without_entry[rows])
        queue = batch["queue_index"].astype(np.int64)
        dispatched = is_dispatched(batch)[rows]
        self.reached_count += int(np.count_nonzero(dispatched & ~without_unit[rows]))
        used = rows[dispatched & (queue[rows] >= 0)]
        self._make_room()
        following = batch["inner_base"][used] + np.maximum(batch["batch_size"][used], 1)
        np.maximum.at(self._next_offset, queue[used], following)
        missed = rows[without_unit[rows] & (queue[rows] >= 0)]
        np.add.at(self._missed, queue[missed], 1)

    def _make_room(self) -> None:
        count = len(self.table)
        if count > len(self._missed):
            for name in ("_next_offset", "_missed"):
                wider = np.zeros(2 * count, np.int64)
                old = getattr(self, name)
                wider[: len(old)] = old
                setattr(self, name, wider)

    def queues(self) -> dict[tuple[bytes, int], tuple[int, int]]:
        """By queue that a record names: the queueOffset behind the last, and records without a unit."""
        return {
            name: (int(self._next_offset[row]), int(self._missed[row]))
            for row, name in enumerate(self.table.names)
            if row < len(self._missed)
        }


def is_dispatched(batch: RecordBatch) -> NDArray[np.bool_]:
    """Which records belong into a consume queue."""
    transaction = batch["sys_flag"] & TRANSACTION_MASK
    return np.asarray((transaction == TRANSACTION_NOT) | (transaction == TRANSACTION_COMMIT), np.bool_)


def count_cut(
    files: Sequence[OpenFile],
    cut_offset: int,
    kept_timestamp: int | None,
    options: ScanOptions,
    compiled: bool,
) -> tuple[Ranges, int]:
    """The records at and behind the cut, and how many further ones there are remains of an earlier log.

    `kept_timestamp` is the storeTimestamp of the last record in front of the cut: what is older than that and
    stands behind it was cut off before.
    """
    lost, stale_count = Ranges(), 0
    for file in files:
        if file.end_offset <= cut_offset:
            continue
        wanted = replace(options, in_entries=file.in_entries)
        with FileReader(file.path) as reader:
            for found in scan_log_file(reader, file.start_offset, wanted, QueueTable(), compiled=compiled):
                if isinstance(found, Region):
                    continue
                offset = found["pos"] + file.start_offset
                behind = (offset >= cut_offset) & ((found["faults"] & Fault.PHYSICAL_OFFSET) == 0)
                fresh = behind
                if kept_timestamp is not None:
                    fresh = behind & (found["store_timestamp"] >= kept_timestamp)
                stale_count += int(np.count_nonzero(behind & ~fresh))
                lost.add(offset, found["total_size"].astype(np.int64), fresh)
    return lost, stale_count
