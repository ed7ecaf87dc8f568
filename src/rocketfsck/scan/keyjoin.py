"""The merge join of a log file's index keys with the index entries that point into it.

In log order, batch by batch, in bounded memory: entries pass through a window that their feed fills. What
does not agree comes back as columns, with exact counts; what it means is for others to say. The loop is in
`keymerge` and runs plain or compiled. Compiled, it is left to what the quick way (`keyagree`), which
takes entries as they lie on disk, does not pass. Reference 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.indexfile import ENTRY_SIZE
from rocketfsck.formats.magic import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketfsck.scan import keymerge
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.jit import in_form
from rocketfsck.scan.mismatches import MISMATCH_LIMIT, Mismatches, Output, int64_columns

__all__ = ["EntryCode", "EntryFeed", "EntryJoin", "Mismatches", "StoredEntries", "put_rows"]

ENTRY_WINDOW = 1 << 14
"""Entries merged at a time, 40 bytes each: they stay in the processor's cache."""
LEAST_WINDOW = 1 << 6
"""Entries merged before the quick way is tried once more: as many at first, more where it leads nowhere."""
LAST_OFFSET = (1 << 63) - 1
NEVER = 1 << 62


class EntryCode(IntEnum):
    """What a record's keys and the index entries disagree in."""

    ENTRY_MISSING = keymerge.ENTRY_MISSING  # number: rows of the batch; count: keys
    RECORD_MISSING = keymerge.ENTRY_WITHOUT_RECORD
    HASH = keymerge.HASH
    TIME_DIFF = keymerge.TIME_DIFF
    DUPLICATE = keymerge.DUPLICATE  # the record's entries once more, as after a restart
    EXTRA = keymerge.EXTRA  # of the record, but none of its keys
    ORDER = keymerge.ENTRY_ORDER


@dataclass(frozen=True, slots=True)
class StoredEntries:
    """Entries as on disk, those of zeros and those that point elsewhere included, all put with the same
    beginTimestamp. `end` is the physical offset at which the log file ends."""

    entries: NDArray[np.uint8]
    begin_timestamp: int
    end: int


@dataclass(frozen=True, slots=True)
class Agreed:
    """Of a batch that agrees with the entries as a whole: how many records have keys that are in the index,
    and the rows of the first and the last of them."""

    keyed_count: int
    first_row: int
    last_row: int


class EntryFeed(Protocol):
    """The index entries that point into the log file, in the order in which they were put."""

    def read(self, count: int) -> Longs:
        """Up to `count` further entries, an array of 5 columns: number, physical offset, keyHash, timeDiff,
        the beginTimestamp that the file had when the entry was put. No rows: the end."""
        ...

    def stored(self, number: int) -> StoredEntries | None:
        """What is next to be read, as on disk, good until the next call of anything; not always all of it.

        A `number` of 0 or more is that of an entry that was read, and that is to be read next once more with
        all behind it. None where this cannot be had: then nothing changes.
        """
        ...

    def skip(self, count: int) -> None:
        """Go on behind the first `count` entries that `stored` gave."""
        ...


def put_rows(
    entries: NDArray[Any],
    number: int,
    begin_timestamp: int,
    start: int,
    end: int,
    room: Longs,
    *,
    compiled: bool = False,
) -> Longs:
    """The entries of a block that point into `start:end` of the log, as an `EntryFeed` gives them.

    `entries` are as on disk, `number` is the first one's. The rows are written to the front of `room`, which
    is as long as the block. Entries of zeros, which were never put, are left out.
    """
    if compiled:
        from rocketfsck.scan import kernels_index

        count = kernels_index.entry_rows(
            entries.ctypes.data, len(entries), number, begin_timestamp, start, end, room.ctypes.data
        )
        return room[:count]
    offset, key_hash, time_diff = (entries[name] for name in ("phyOffset", "keyHash", "timeDiff"))
    inside = (offset >= start) & (offset < end) & ((offset != 0) | (key_hash != 0) | (time_diff != 0))
    chosen = np.flatnonzero(inside)
    rows = room[: len(chosen)]
    rows[:, 0] = chosen + number
    rows[:, 1] = offset[chosen]
    rows[:, 2] = key_hash[chosen]
    rows[:, 3] = time_diff[chosen]
    rows[:, 4] = begin_timestamp
    return rows


class EntryJoin:
    """`join_entries`: the records' keys against the index entries. `add` every batch in order, `finish`."""

    def __init__(self, feed: EntryFeed, *, compiled: bool = False, limit: int = MISMATCH_LIMIT) -> None:
        self._feed = feed
        self._compiled = compiled
        self._entries: Longs = np.zeros((ENTRY_WINDOW, 5), np.int64)
        self._wanted = ENTRY_WINDOW
        self._progress = np.zeros(12, np.int64)
        self._progress[5] = 1
        self.agreed: Agreed | None = None
        self._output = Output(keymerge.ENTRY_CODES, limit)

    def add(self, batch: RecordBatch, base_offset: int) -> Mismatches:
        """Merge one batch's keys; rolled back records count as having none (EntryCode).

        `agreed` says more of it until the next one, where it is known without a look at the columns.
        """
        self._begin()
        quick = self._compiled and self._quick(batch, base_offset)
        if quick and self._progress[0] >= batch.record_count:
            self.agreed = Agreed(*self._progress[9:12].tolist())
        else:
            rolled_back = (batch["sys_flag"] & TRANSACTION_MASK) == TRANSACTION_ROLLBACK
            given = int64_columns(
                self._compiled,
                batch["pos"] + base_offset,
                batch["store_timestamp"],
                batch["queue_index"],
                batch["key_start"],
                np.where(rolled_back, 0, batch["key_count"]),
                batch["key_hash"],
            )
            while not self._merge(given, quick=quick):
                quick = self._compiled and self._quick(batch, base_offset)
        return self._output.taken()

    def finish(self) -> Mismatches:
        """Entries that are left: they point behind the last record."""
        one = np.zeros(1, np.int64)
        given = int64_columns(
            self._compiled, one + LAST_OFFSET, one, one - 1, one, one, np.zeros(0, np.int32)
        )
        self._begin()
        while not self._merge(given, quick=False):
            pass
        return self._output.taken()

    def _begin(self) -> None:
        self._output.begin()
        self.agreed = None
        self._progress[:3] = 0
        self._progress[7:] = (-1, NEVER, 0, 0, 0)

    def _merge(self, columns: list[Any], *, quick: bool) -> bool:
        """Go on with the batch; False where it is not done with and the quick way might be tried."""
        kernel = in_form(keymerge.join_entry_rows, self._compiled)
        progress, output = self._progress, self._output
        progress[8] = NEVER
        while True:
            done: bool = kernel(progress, *columns, self._entries, output.out, output.state, output.open_rows)
            if done or progress[3] >= progress[8]:
                return done
            self._refill()
            if quick:
                progress[8] = progress[3] + self._wanted // 2

    def _quick(self, batch: RecordBatch, base_offset: int) -> bool:
        """Take what agrees as it lies on disk; whether the feed can give that."""
        from rocketfsck.scan import keyagree

        progress = self._progress
        if progress[1]:
            return True
        low, high = int(progress[3]), int(progress[4])
        number = int(self._entries[low, 0]) if low < high else -1
        first = int(progress[0])
        while (found := self._feed.stored(number)) is not None:
            progress[3:6] = (0, 0, 1)
            number = -1
            records = batch.records
            count = keyagree.join_agreeing(
                found.entries.ctypes.data,
                len(found.entries) // ENTRY_SIZE,
                found.begin_timestamp,
                found.end,
                base_offset,
                records["pos"],
                records["store_timestamp"],
                records["sys_flag"],
                records["key_start"],
                records["key_count"],
                batch.keys["key_hash"],
                batch.record_count,
                progress,
            )
            self._feed.skip(count)
            if not count or progress[0] >= batch.record_count:
                break
        else:
            self._wanted = ENTRY_WINDOW
            return False
        moved = int(progress[0]) - first
        self._wanted = LEAST_WINDOW if moved >= LEAST_WINDOW else min(2 * self._wanted, ENTRY_WINDOW)
        return True

    def _refill(self) -> None:
        low, high = int(self._progress[3]), int(self._progress[4])
        kept = self._entries[low:high].copy()
        fresh = self._feed.read(min(self._wanted, len(self._entries) - len(kept)))
        self._entries[: len(kept)] = kept
        self._entries[len(kept) : len(kept) + len(fresh)] = fresh
        self._progress[3:5] = (0, len(kept) + len(fresh))
        if not len(fresh):
            self._progress[5] = 0

    def count(self, code: EntryCode) -> int:
        """How many mismatches of a kind there were in all calls."""
        return self._output.count(code)
