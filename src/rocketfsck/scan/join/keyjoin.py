"""The merge join of a log file's index keys with the index entries that point into it.

In log order, batch by batch, in bounded memory: entries pass through a window that their feed fills. What
does not agree comes back as columns, with exact counts; what it means is for others to say. The loop is in
`keymerge` and runs plain or compiled. Reference 4.5.

The loop of `keyjoin` that says where keys and index entries do not agree.

The loop is written in the part of Python that Numba compiles too, and runs as it is or compiled.

The loop calls no other function, so that one compilation is all; that is why there is a single place where a
mismatch is written. Numbers from disk meet `+` only where they cannot overflow.

A mismatch is a row of `out` (int64): code, queue, row of the batch, physical offset, end of the last one's
record, number, end of numbers (half-open), found, expected, count. Equal neighbours with numbers that
continue are one row. `state[0]` counts the rows used, `state[1 + code]` all mismatches, those for which `out`
has no room included. `open_rows[code]` is where the last row of a code went.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import Flags, Longs, Words
from rocketfsck.formats.magic import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketfsck.scan.columns import KEY_TAGS, RecordBatch
from rocketfsck.scan.machine.jit import compiled_wanted, in_form

ENTRY_MISSING, ENTRY_WITHOUT_RECORD, HASH, TIME_DIFF, DUPLICATE, EXTRA, ENTRY_ORDER = range(7)
ENTRY_CODES = 7

FAR = 1 << 62
LOOK_AHEAD = 64
MAX_TIME_DIFF = 0x7FFFFFFF


def join_entry_rows(
    progress: Longs,
    offset: Longs,
    time: Longs,
    queue: Longs,
    key_start: Longs,
    key_count: Longs,
    key_hash: Longs,
    tagged: Longs,
    untagged: Longs,
    entries: Annotated[Longs, 2],
    out: Annotated[Longs, 2],
    state: Longs,
    open_rows: Words,
) -> bool:
    """Merge a batch's records and their keys with index entries in order; True if a batch is done with.

    `entries` has a row for each index entry: number, physical offset, keyHash, timeDiff, the begin
    timestamp it was put with. `progress`: 0 record, 1 its next key, 2 the key that a repetition would have
    next, 3 next entry, 4 end of entries, 5 whether more entries exist, 6 offset of the entry before,
    7 the row at which a run of records without entries continues. The last key of a record that is `tagged`
    is its tags: a broker that indexes no tags is not damage, so `untagged` says where their entry is missing,
    and no mismatch does. False means that the entries ran out: the caller puts further ones behind those from
    `progress[3]` on.
    """
    r = progress[0]
    k = progress[1]
    j = progress[2]
    e = progress[3]
    limit = progress[4]
    done = True
    while r < len(offset):
        if limit - e <= 1 and progress[5] != 0:
            done = False
            break
        at = offset[r]
        keys = key_count[r]
        start = key_start[r]
        if k == 0 and keys > 0 and limit - e > keys + 1:
            # the quick way: all keys have their entries, and what follows is in order and of a later record
            begin = entries[e, 4]
            wanted = 0
            if 0 < begin < time[r] < FAR:
                wanted = min((time[r] - begin) // 1000, MAX_TIME_DIFF)
            same = 0
            while (
                same < keys
                and entries[e + same, 1] == at
                and entries[e + same, 2] == key_hash[start + same]
                and entries[e + same, 3] == wanted
                and entries[e + same, 4] == begin
            ):
                same += 1
            following = entries[e + keys, 1]
            if same == keys and at < following <= entries[e + keys + 1, 1]:
                progress[6] = max(progress[6], at)
                e += keys
                r += 1
                j = 0
                continue
        code = -1
        place = at
        row = r
        number = -1
        number_end = -1
        found = -1
        expected = -1
        times = 1
        next_entry = False
        if e < limit and entries[e, 1] == at:
            number = entries[e, 0]
            number_end = number + 1
            found = entries[e, 2]
            if k < keys:
                expected = key_hash[start + k]
                # a key that the record has twice, within a repetition, which continues with that
                again = 0 < j < k and key_hash[start + j] == found
                if found == expected and not again:
                    begin = entries[e, 4]
                    lasted = time[r] - begin if -FAR < begin < FAR and -FAR < time[r] < FAR else 0
                    wanted = 0
                    if begin > 0 and lasted > 0:
                        wanted = min(lasted // 1000, MAX_TIME_DIFF)
                    if entries[e, 3] != wanted:
                        code = TIME_DIFF
                        found = entries[e, 3]
                        expected = wanted
                    next_entry = True
                    k += 1
                    j = 0
                elif j < k and key_hash[start + j] == found:
                    # a restart begins again with a record whose first entries filled the file before
                    code = DUPLICATE
                    j += 1
                    next_entry = True
                elif tagged[r] and k == keys - 1:
                    code = EXTRA  # in no key's place
                    next_entry = True
                else:
                    code = HASH
                    for later in range(k + 1, min(keys, k + LOOK_AHEAD)):
                        if key_hash[start + later] == found:
                            code = ENTRY_MISSING
                            break
                    if code == ENTRY_MISSING:
                        number = r
                        number_end = r + 1
                        found = -1
                    else:
                        next_entry = True
                    k += 1
            else:
                code = EXTRA
                if keys > 0 and key_hash[start + j] == found:
                    code = DUPLICATE
                    j += 1
                    if j == keys:
                        j = 0
                next_entry = True
        elif e < limit and (
            entries[e, 1] < at
            or (
                e + 1 < limit
                and entries[e + 1, 1] < entries[e, 1]
                and (entries[e + 1, 1] > at or (entries[e + 1, 1] == at and k < keys))
            )
        ):
            code = ENTRY_ORDER if entries[e, 1] < progress[6] or entries[e, 1] > at else ENTRY_WITHOUT_RECORD
            row = -1
            place = entries[e, 1]
            number = entries[e, 0]
            number_end = number + 1
            found = entries[e, 2]
            expected = progress[6]
            next_entry = True
        else:
            times = keys - k
            if times > 0 and tagged[r]:
                untagged[r] = 1
                times -= 1
            if times > 0:
                code = ENTRY_MISSING
                expected = key_hash[start + k]
                number = r
                number_end = r + 1
            elif keys - tagged[r] == 0 and progress[7] == r:
                progress[7] = r + 1  # nothing to miss: no end of a run of missing ones
            r += 1
            k = 0
            j = 0
        if code >= 0:
            state[1 + code] += times
            o = open_rows[code]
            merges = 0 <= o < state[0] and out[o, 0] == code
            if code == ENTRY_MISSING:
                merges = merges and (progress[7] == number or progress[7] == number_end)
                progress[7] = number_end
            elif code == TIME_DIFF:
                difference = int(found) - int(expected)
                merges = merges and out[o, 6] == number and int(out[o, 7]) - int(out[o, 8]) == difference
            else:
                merges = merges and code != HASH and out[o, 6] == number
            if merges:
                out[o, 4] = place
                out[o, 9] += times
                out[o, 6] = number_end
            elif state[0] < len(out):
                o = state[0]
                state[0] += 1
                open_rows[code] = o
                out[o, 0] = code
                out[o, 1] = -1 if row < 0 else queue[row]
                out[o, 2] = row
                out[o, 3] = place
                out[o, 4] = place
                out[o, 5] = number
                out[o, 6] = number_end
                out[o, 7] = found
                out[o, 8] = expected
                out[o, 9] = times
        if next_entry:
            if entries[e, 1] <= at:
                progress[6] = max(progress[6], entries[e, 1])
            e += 1
    progress[0] = r
    progress[1] = k
    progress[2] = j
    progress[3] = e
    return done


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

    code: Longs
    queue: Longs
    row: Longs
    offset: Longs
    end: Longs
    number: Longs
    number_end: Longs
    found: Longs
    expected: Longs
    count: Longs

    def __len__(self) -> int:
        return len(self.code)


class EntryCode(IntEnum):
    """What a record's keys and the index entries disagree in."""

    ENTRY_MISSING = ENTRY_MISSING  # number: rows of the batch; count: keys
    RECORD_MISSING = ENTRY_WITHOUT_RECORD
    HASH = HASH
    TIME_DIFF = TIME_DIFF
    DUPLICATE = DUPLICATE  # the record's entries once more, as after a restart
    EXTRA = EXTRA  # of the record, but none of its keys
    ORDER = ENTRY_ORDER


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
    for place, column in enumerate((offset, key_hash, time_diff), 1):
        rows[:, place] = column[chosen]
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
        # where the loop writes mismatches, and the counts over all calls
        self._out = np.zeros((limit, len(fields(Mismatches))), np.int64)
        self._state = np.zeros(1 + ENTRY_CODES, np.int64)
        self._open_rows = np.full(ENTRY_CODES, -1, np.int32)
        self.tagged: Flags = np.zeros(0, np.bool_)
        self.untagged: Flags = self.tagged

    def add(self, batch: RecordBatch, base_offset: int) -> Mismatches:
        """Merge one batch's keys; rolled back records count as having none (EntryCode).

        `tagged` and `untagged` then say which records have tags as a key, and of which of them no entry is
        for the tags.
        """
        rolled_back = (batch["sys_flag"] & TRANSACTION_MASK) == TRANSACTION_ROLLBACK
        self.tagged = has_tag_key(batch) & ~rolled_back
        counts = np.where(rolled_back, 0, batch["key_count"])
        columns = (batch[name] for name in ("store_timestamp", "queue_index", "key_start"))
        return self._merge(batch["pos"] + base_offset, *columns, counts, batch["key_hash"], self.tagged)

    def finish(self) -> Mismatches:
        """Entries that are left: they point beyond the last record."""
        one = np.zeros(1, np.int64)
        return self._merge(one + LAST_OFFSET, one, one - 1, one, one, np.zeros(0, np.int32), one)

    def _merge(self, *columns: NDArray[Any]) -> Mismatches:
        """Run the loop over these columns of records, as often as entries run out."""
        kernel, progress = in_form(join_entry_rows, self._compiled), self._progress
        given: list[Any] = [np.ascontiguousarray(column, np.int64) for column in columns]
        if not self._compiled:
            given = [column.tolist() for column in given]  # quicker to index, and exact
        untagged = np.zeros(len(columns[0]), np.int64)
        output = self._out, self._state, self._open_rows
        progress[:3] = 0
        progress[7] = -1
        self._state[0] = 0
        while not kernel(progress, *given, untagged, self._entries, *output):
            self._refill()
        self.untagged = untagged.astype(np.bool_)
        return Mismatches(*self._out[: int(self._state[0])].T)

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
        return int(self._state[1 + code])
