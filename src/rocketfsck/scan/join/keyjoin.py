"""The merge join of a log file's index keys with the index entries that point into it.

In log order, batch by batch, in bounded memory: entries pass through a window that their feed fills. What
does not agree comes back as columns, with exact counts; what it means is for others to say. The loop is in
`keymerge` and runs plain or compiled. Reference 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.formats.magic import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketfsck.scan.columns import KEY_TAGS, RecordBatch
from rocketfsck.scan.join import keymerge
from rocketfsck.scan.machine.jit import compiled_wanted, in_form

__all__ = ["EntryCode", "EntryFeed", "EntryJoin", "Mismatches", "has_tag_key", "put_rows"]

ENTRY_WINDOW = 1 << 14
"""Entries merged at a time, 40 bytes each: they stay in the processor's cache."""
LAST_OFFSET = (1 << 63) - 1


MISMATCH_LIMIT = 8192
"""Mismatches that one call gives back; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class Mismatches:
    """Columns of mismatches, views that are good until the next call.

    `code` is a member of the join's enum, `queue` a row of the QueueTable, `row` the (first) record's row
    in the batch or -1, `offset` its physical offset and `end` the end of the last one's, `number:number_end`
    the units, entries, queue offsets or rows concerned, `found` and `expected` the values of the first,
    `count` how many neighbours this row stands for.
    """

    rows: Longs

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def code(self) -> Longs:
        return self.rows[:, keymerge.CODE]

    @property
    def queue(self) -> Longs:
        return self.rows[:, keymerge.QUEUE]

    @property
    def row(self) -> Longs:
        return self.rows[:, keymerge.ROW]

    @property
    def offset(self) -> Longs:
        return self.rows[:, keymerge.OFFSET]

    @property
    def end(self) -> Longs:
        return self.rows[:, keymerge.END]

    @property
    def number(self) -> Longs:
        return self.rows[:, keymerge.NUMBER]

    @property
    def number_end(self) -> Longs:
        return self.rows[:, keymerge.NUMBER_END]

    @property
    def found(self) -> Longs:
        return self.rows[:, keymerge.FOUND]

    @property
    def expected(self) -> Longs:
        return self.rows[:, keymerge.EXPECTED]

    @property
    def count(self) -> Longs:
        return self.rows[:, keymerge.COUNT]


class Output:
    """Where a kernel writes mismatches, and the counts over all calls."""

    def __init__(self, code_count: int, limit: int) -> None:
        self.out = np.zeros((limit, keymerge.MISMATCH_WIDTH), np.int64)
        self.state = np.zeros(1 + code_count, np.int64)
        self.open_rows = np.full(code_count, -1, np.int32)

    def begin(self) -> None:
        self.state[0] = 0

    def taken(self) -> Mismatches:
        return Mismatches(self.out[: int(self.state[0])])

    def count(self, code: int) -> int:
        return int(self.state[1 + code])


def int64_columns(compiled: bool, *columns: NDArray[Any]) -> list[Any]:
    """As int64 arrays for compiled code, as lists (quicker to index, exact numbers) for plain."""
    if compiled:
        return [np.ascontiguousarray(column, np.int64) for column in columns]
    return [column.tolist() for column in columns]


class EntryCode(IntEnum):
    """What a record's keys and the index entries disagree in."""

    ENTRY_MISSING = keymerge.ENTRY_MISSING  # number: rows of the batch; count: keys
    RECORD_MISSING = keymerge.ENTRY_WITHOUT_RECORD
    HASH = keymerge.HASH
    TIME_DIFF = keymerge.TIME_DIFF
    DUPLICATE = keymerge.DUPLICATE  # the record's entries once more, as after a restart
    EXTRA = keymerge.EXTRA  # of the record, but none of its keys
    ORDER = keymerge.ENTRY_ORDER


class EntryFeed(Protocol):
    """The index entries that point into the log file, in the order in which they were put."""

    def read(self, count: int) -> Longs:
        """Up to `count` further entries, an array of 5 columns: number, physical offset, keyHash, timeDiff,
        the beginTimestamp that the file had when the entry was put. No rows: the end."""
        ...


def put_rows(
    entries: NDArray[Any],
    number: int,
    begin_timestamp: int,
    start: int,
    end: int,
    room: Longs,
    *,
    compiled: bool,
) -> Longs:
    """The entries of a block that point into `start:end` of the log, as an `EntryFeed` gives them.

    `entries` are as on disk, `number` is the first one's. The rows are written to the front of `room`, which
    is as long as the block. Entries of zeros, which were never put, are left out.
    """
    if compiled:
        from rocketfsck.scan.compiled import index as kernels

        count = kernels.entry_rows(
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


def has_tag_key(batch: RecordBatch) -> Flags:
    """Which records have their tags as their last key (`ScanOptions.index_tags`)."""
    count = batch["key_count"]
    if not batch.key_count:
        return np.zeros(len(count), np.bool_)
    last = np.maximum(batch["key_start"] + count - 1, 0)
    flags: Flags = (count > 0) & (batch["key_kind"][last] == KEY_TAGS)
    return flags


class EntryJoin:
    """`join_entries`: the records' keys against the index entries. `add` every batch in order, `finish`."""

    def __init__(self, feed: EntryFeed, *, limit: int = MISMATCH_LIMIT) -> None:
        self._feed = feed
        self._compiled = compiled_wanted()
        self._entries: Longs = np.zeros((ENTRY_WINDOW, 5), np.int64)
        self._progress = np.zeros(8, np.int64)
        self._progress[5] = 1
        self._output = Output(keymerge.ENTRY_CODES, limit)
        self.tagged: Flags = np.zeros(0, np.bool_)
        self.untagged: Flags = self.tagged

    def add(self, batch: RecordBatch, base_offset: int) -> Mismatches:
        """Merge one batch's keys; rolled back records count as having none (EntryCode).

        `tagged` and `untagged` then say which records have tags as a key, and of which of them no entry is
        for the tags.
        """
        rolled_back = (batch["sys_flag"] & TRANSACTION_MASK) == TRANSACTION_ROLLBACK
        self.tagged = has_tag_key(batch) & ~rolled_back
        self._merge(
            batch["pos"] + base_offset,
            batch["store_timestamp"],
            batch["queue_index"],
            batch["key_start"],
            np.where(rolled_back, 0, batch["key_count"]),
            batch["key_hash"],
            self.tagged,
        )
        return self._output.taken()

    def finish(self) -> Mismatches:
        """Entries that are left: they point beyond the last record."""
        one = np.zeros(1, np.int64)
        self._merge(one + LAST_OFFSET, one, one - 1, one, one, np.zeros(0, np.int32), one)
        return self._output.taken()

    def _merge(self, *columns: NDArray[Any]) -> None:
        """Run the loop over these columns of records, as often as entries run out."""
        kernel = in_form(keymerge.join_entry_rows, self._compiled)
        progress, output = self._progress, self._output
        given = int64_columns(self._compiled, *columns)
        untagged = np.zeros(len(columns[0]), np.int64)
        output.begin()
        progress[:3] = 0
        progress[7] = -1
        while not kernel(
            progress, *given, untagged, self._entries, output.out, output.state, output.open_rows
        ):
            self._refill()
        self.untagged = untagged.astype(np.bool_)

    def _refill(self) -> None:
        low, high = int(self._progress[3]), int(self._progress[4])
        kept = self._entries[low:high].copy()
        fresh = self._feed.read(len(self._entries) - len(kept))
        self._entries[: len(kept)] = kept
        self._entries[len(kept) : len(kept) + len(fresh)] = fresh
        self._progress[3:5] = (0, len(kept) + len(fresh))
        if not len(fresh):
            self._progress[5] = 0

    def count(self, code: EntryCode) -> int:
        """How many mismatches of a kind there were in all calls."""
        return self._output.count(code)
