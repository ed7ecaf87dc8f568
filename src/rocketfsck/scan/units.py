"""Where units go, and their bytes: the dispatches of a log into the units of its queues.

Reference 3.4 step by step, with one difference: a unit after a hole of the queue is at its own
queueOffset, where a broker would append it. The placing believes in a hole if the log between the queue's
last record and this one has room for the records that are missing, and if the broker gave away fewer numbers
than are missing (reference 2.13); otherwise it appends the unit.

`_place` is written in the part of Python that Numba compiles too, and runs as it is or compiled; NumPy packs.

What the rebuilding of queues and index needs of a batch of records.

One row a dispatch (a unit that the broker would write), one a record for the index, one a key.
Reference 3.4, 4.5, 8.

Index entries put: their bytes, and what they leave in the slots (reference 4.4).

    entry := keyHash phyOffset timeDiff prevIndex      20 bytes, big-endian (reference 4.1)

Only the links go from entry to entry: `_link` is written in the part of Python that Numba compiles too, and
runs as it is or compiled; NumPy does the rest.

Which consume queue units the records of a batch should have: the broker's dispatch as columns.

Normal and committed records go to the queue that they name, prepared and rolled back ones to none; an inner
batch goes as one unit with its base; a multi-dispatch record has one more unit in each queue of its list
(reference 2.13, 3.2, 8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import consumequeue, dtypes, javatext, magic
from rocketfsck.scan.columns import RecordBatch, Trait
from rocketfsck.scan.join.keyjoin import FAR
from rocketfsck.scan.machine.jit import in_form

UNKNOWN_TAGS = -FAR
"""The tagsCode of a delayed record where the delay levels are not given: it is not compared."""

UNKNOWN_LEVEL_DELAY = 1000


@dataclass(frozen=True, slots=True)
class Dispatches:
    """One element a dispatch, in log order; `row` is the record's row in the batch.

    `queue` is the row of the queue in the QueueTable (-1: the full table did not take it), `index` the
    queueOffset (msgBaseOffset) and `count` the number of messages; `offset` and `size` place the record in
    the commit log (where it stands, not its physicalOffset); `tags` is the tagsCode of the unit.
    """

    row: NDArray[np.int64]
    queue: NDArray[np.int64]
    index: NDArray[np.int64]
    count: NDArray[np.int64]
    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    time: NDArray[np.int64]
    tags: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.row)


def dispatches_of(
    batch: RecordBatch, base_offset: int, *, delay_levels: Mapping[int, int] | None = None
) -> Dispatches:
    """The dispatches of a batch's records. `delay_levels` are the delays in ms by level, from 1."""
    transaction = batch["sys_flag"] & magic.TRANSACTION_MASK
    rows = np.flatnonzero((transaction == magic.TRANSACTION_NOT) | (transaction == magic.TRANSACTION_COMMIT))
    traits = batch["traits"][rows]
    columns = {
        "row": rows,
        "queue": batch["queue_index"][rows],
        "index": batch["inner_base"][rows],
        "count": batch["batch_size"][rows],
        "offset": batch["pos"][rows] + base_offset,
        "size": batch["total_size"][rows],
        "time": batch["store_timestamp"][rows],
        "tags": _unit_tags(batch, rows, traits, delay_levels),
    }
    if len(batch["dispatch_record"]):
        columns = _with_multi_dispatch(columns, batch)
    return Dispatches(**{name: _int64(column) for name, column in columns.items()})


def _int64(column: NDArray[Any]) -> NDArray[np.int64]:
    return np.ascontiguousarray(column, np.int64)


def _unit_tags(
    batch: RecordBatch, rows: NDArray[Any], traits: NDArray[Any], levels: Mapping[int, int] | None
) -> NDArray[np.int64]:
    tags = _int64(batch["tags_code"][rows])
    level = batch["delay_level"][rows]
    wanted = Trait.SCHEDULE_TOPIC | Trait.DELAY
    delayed = np.flatnonzero(((traits & wanted) == wanted) & (level > 0))
    if not len(delayed):
        return tags
    tags = tags.copy()
    if levels is None:
        tags[delayed] = UNKNOWN_TAGS
        return tags
    last = max(levels, default=0)
    delay = np.full(max(last, 0) + 1, UNKNOWN_LEVEL_DELAY, np.int64)
    for number, duration in levels.items():
        delay[number] = duration
    store_timestamp = batch["store_timestamp"][rows[delayed]].view(np.uint64)
    delays = delay[np.minimum(level[delayed], last)].view(np.uint64)
    tags[delayed] = (store_timestamp + delays).view(np.int64)  # unsigned: wraps like Java, without a warning
    return tags


def _with_multi_dispatch(columns: dict[str, NDArray[Any]], batch: RecordBatch) -> dict[str, NDArray[Any]]:
    """The columns with a row for every further queue after that of the record's own."""
    record, rows = batch["dispatch_record"], columns["row"]
    place = np.searchsorted(rows, record)
    taken = np.flatnonzero(np.append(rows, -1)[place] == record)  # not of records that are not dispatched
    merged = {name: np.concatenate([column, column[place[taken]]]) for name, column in columns.items()}
    first = len(rows)
    merged["queue"][first:] = batch["dispatch_queue"][taken]
    merged["index"][first:] = batch["dispatch_offset"][taken]
    merged["count"][first:] = 1
    order = np.argsort(merged["row"], kind="stable")  # a record's own queue comes before those of its list
    return {name: column[order] for name, column in merged.items()}


def link_entries(
    key_hash: dtypes.Words, number: int, slots: dtypes.Words, *, compiled: bool
) -> tuple[dtypes.Words, int]:
    """The prevIndex of the entries `number` and on, and how many of them found their slot empty.

    `key_hash` is not negative, `slots` is moved on. A slot that says what no slot can say counts as empty.
    """
    slot = key_hash % np.int32(len(slots))
    previous = np.empty(len(slot), np.int32)
    arrays: list[Any] = [slot, slots, previous]
    if not compiled:
        arrays = [array.data for array in arrays]  # quicker to index than arrays
    return previous, int(in_form(_link, compiled)(*arrays, number))


def _link(slot: dtypes.Words, slots: dtypes.Words, previous: dtypes.Words, number: int) -> int:
    empty = 0
    for row in range(len(slot)):
        newest = slots[slot[row]]
        if newest <= 0 or newest > number + row:
            newest = 0
            empty += 1
        previous[row] = newest
        slots[slot[row]] = number + row
    return empty


def put_entries(
    key_hash: dtypes.Words,
    key_record: dtypes.Words,
    offset: dtypes.Longs,
    time: dtypes.Longs,
    number: int,
    begin_timestamp: int,
    slots: dtypes.Words,
    *,
    compiled: bool,
) -> tuple[NDArray[np.void], int]:
    """Keys as the entries `number` and on of an index file; and how many found their slot empty.

    `key_record` are rows of `offset` and `time`; `slots` is moved on.
    """
    entries = np.empty(len(key_hash), dtypes.ENTRY_DTYPE)
    entries["keyHash"], entries["phyOffset"] = key_hash, offset[key_record]
    entries["timeDiff"] = time_diffs(time[key_record], begin_timestamp)
    entries["prevIndex"], empty = link_entries(key_hash, number, slots, compiled=compiled)
    return entries, empty


def time_diffs(store_timestamp: dtypes.Longs, begin_timestamp: int) -> dtypes.Longs:
    """`formats.indexfile.time_diff` of many: the difference wraps around like Java's."""
    if begin_timestamp <= 0:
        return np.zeros_like(store_timestamp)
    seconds: dtypes.Longs = (store_timestamp - np.int64(begin_timestamp)) // 1000
    return np.clip(seconds, 0, javatext.INT32_MAX)


# the columns of a dispatch
(
    QUEUE,  # row in the scan's QueueTable, -1: it took no more names
    INDEX,  # queueOffset
    BASE,  # msgBaseOffset, what a batch queue keeps
    COUNT,  # number of messages
    OFFSET,  # where the record is in the log
    SIZE,
    TAGS,
    TIME,
    FLAGS,
) = range(9)
ROW_SIZE = 9

OWN = 1
"""The record's own queue, not one that a multi-dispatch record lists."""
INNER = 2
"""An inner batch: its topic has batch queues."""
SKIPPED = 4
"""No dispatch: a broker gave the record a number in the queue, and writes no unit for it."""


@dataclass(frozen=True, slots=True)
class KeyRows:
    """Every record (`offset`, `time`), also those without keys, and the keys of those that are indexed.

    `key_hash[i]` is a key of the record in row `key_record[i]`; the keys are in the order of their puts.
    """

    offset: dtypes.Longs
    time: dtypes.Longs
    key_hash: dtypes.Words
    key_record: dtypes.Words

    def __len__(self) -> int:
        return len(self.offset)


def unit_rows(batch: RecordBatch, base_offset: int, delay_levels: Mapping[int, int]) -> dtypes.Longs:
    """The dispatches of a batch's records in log order, a row of ROW_SIZE each, copied out of it."""
    found = dispatches_of(batch, base_offset, delay_levels=delay_levels)
    own = np.ones(len(found), np.bool_)
    own[1:] = found.row[1:] != found.row[:-1]
    inner = own & ((batch["traits"][found.row] & int(Trait.INNER_BATCH)) != 0)
    inner &= (batch["sys_flag"][found.row] & magic.INNER_BATCH) != 0
    rows = np.empty((len(found), ROW_SIZE), np.int64)
    rows[:, QUEUE] = found.queue
    rows[:, INDEX] = np.where(own, batch["queue_offset"][found.row], found.index)
    rows[:, BASE] = found.index
    rows[:, COUNT] = found.count
    rows[:, OFFSET] = found.offset
    rows[:, SIZE] = found.size
    rows[:, TAGS] = found.tags
    rows[:, TIME] = found.time
    rows[:, FLAGS] = OWN * own + INNER * inner
    return rows


def key_rows(batch: RecordBatch, base_offset: int) -> KeyRows:
    """The records of a batch and the keys that the broker indexes, copied out of it."""
    hashes, records = batch["key_hash"].copy(), batch["key_record"].copy()
    rolled_back = (batch["sys_flag"] & magic.TRANSACTION_MASK) == magic.TRANSACTION_ROLLBACK
    if rolled_back.any():
        kept = ~rolled_back[records]
        hashes, records = hashes[kept], records[kept]
    return KeyRows(batch["pos"] + np.int64(base_offset), batch["store_timestamp"].copy(), hashes, records)


def rows_from(rows: KeyRows, offset: int) -> KeyRows:
    """The rows of records that do not lie before `offset`."""
    first = int(np.searchsorted(rows.offset, offset))
    keys = rows.key_record >= first
    return KeyRows(
        rows.offset[first:], rows.time[first:], rows.key_hash[keys], rows.key_record[keys] - np.int32(first)
    )


LEFT_OUT, REFUSED_NAME = -1, -2
"""Numbers of queues that are not built: not wanted, and of a name that no directory can have."""

PLAIN, BATCH, EXT = range(3)
"""Kinds of units, which are kept apart: consumequeue, batchconsumequeue, consumequeue_ext."""
UNIT_SIZES = (consumequeue.UNIT.size, consumequeue.BATCH_UNIT.size, consumequeue.EXT_UNIT_MIN_SIZE)

# what is kept of each queue, a row of int64
(
    FOLLOWING,  # number of the next unit; -1 before the first
    REACHED,  # maxPhysicOffset
    LAST_END,  # physical offset after the last record
    FIRST,  # queueOffset (msgBaseOffset) of the first unit
    TAIL,  # the queueOffset that follows the last unit's
    UNITS,
    RECORDS,
    DUPLICATES,  # records whose queueOffset was taken: no unit
    MISPLACED,  # units that are not at their record's queueOffset
    REFUSED,  # first records with a queueOffset that no file can have
    OPENED,  # unit number that a file was made for before its put was skipped
    EXT_UNITS,
    IS_BATCH,
    SAW_INNER,  # an inner batch was met though the queue does not hold batches
    GIVEN_AWAY,  # numbers that the broker gave to records without a unit
) = range(15)
STATE_SIZE = 15
NEW_STATE = (-1, -1, -1, -1, -1, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0)

# a unit on its way, a row of int64
P_QUEUE, P_PLACE, P_OFFSET, P_SIZE, P_TAGS, P_TIME, P_BASE, P_COUNT = range(8)
PENDING_SIZE = 8

# places to be filled with pre-blank units: queue, first place, place behind, time of the unit behind, kind
GAP_SIZE = 5
HOLE, PRE_BLANK = 0, 1

# what `place_units` is given
(
    SKIPS_BELOW,  # a queueOffset that was taken is skipped (dialect)
    REACH_IS_END,  # maxPhysicOffset is a record's end (dialect)
    FILE_UNITS,  # units in a consume queue file
    EXT_FILE_UNITS,  # units in an ext file; 0: no ext units
    EXT_FILE_SIZE,
) = range(5)

MAX_UNIT_NUMBER = javatext.INT64_MAX // UNIT_SIZES[PLAIN] - (1 << 31)


_LOW_HALF, _SIGN = 0xFFFFFFFF, 1 << 31
_UNITS = (dtypes.UNIT_DTYPE, dtypes.BATCH_UNIT_DTYPE, dtypes.EXT_HEAD_DTYPE)


def place_units(
    rows: dtypes.Longs,
    numbers: dtypes.Longs,
    state: dtypes.Longs,
    how: dtypes.Longs,
    pending: tuple[dtypes.Longs, dtypes.Longs, dtypes.Longs],
    pending_counts: dtypes.Longs,
    gaps: dtypes.Longs,
    *,
    compiled: bool,
) -> int:
    """Append the units of `rows` (`buildrows.unit_rows`) to `pending` by kind; the number of rows of `gaps`.

    `numbers[row of the scan's table]` is the queue's number, LEFT_OUT or REFUSED_NAME; its last element
    stands for -1. `state` has a row of STATE_SIZE a queue and is moved on, as are `pending_counts`. There
    must be room for as many units of each kind, and gaps, as there are rows. All arrays are contiguous.
    """
    given = (rows, numbers, state, how, *pending, pending_counts, gaps)
    arrays: list[Any] = [array.reshape(-1) for array in given]
    if not compiled:
        arrays = [array.data for array in arrays]  # quicker to index than arrays, and exact
    return int(in_form(_place, compiled)(*arrays))


def _place(
    rows: dtypes.Longs,
    numbers: dtypes.Longs,
    state: dtypes.Longs,
    how: dtypes.Longs,
    plain_units: dtypes.Longs,
    batch_units: dtypes.Longs,
    ext_units: dtypes.Longs,
    pending_counts: dtypes.Longs,
    gaps: dtypes.Longs,
) -> int:
    gap_count = 0
    for row in range(0, len(rows), ROW_SIZE):
        number = numbers[rows[row + QUEUE] if rows[row + QUEUE] >= 0 else len(numbers) - 1]
        if number < 0:
            continue
        queue = number * STATE_SIZE
        flags = rows[row + FLAGS]
        if flags & SKIPPED != 0:
            state[queue + GIVEN_AWAY] += 1
            continue
        is_batch = state[queue + IS_BATCH] != 0
        own = flags & OWN != 0
        if own:
            state[queue + RECORDS] += 1
        if flags & INNER != 0 and not is_batch:
            state[queue + SAW_INNER] = 1
        tags = rows[row + TAGS]
        time = rows[row + TIME]
        if how[EXT_FILE_UNITS] > 0 and own and not is_batch:
            place = state[queue + EXT_UNITS]
            state[queue + EXT_UNITS] = place + 1
            unit = pending_counts[EXT] * PENDING_SIZE
            pending_counts[EXT] += 1
            ext_units[unit + P_QUEUE] = number
            ext_units[unit + P_PLACE] = place
            ext_units[unit + P_OFFSET] = 0
            ext_units[unit + P_SIZE] = 0
            ext_units[unit + P_TAGS] = tags
            ext_units[unit + P_TIME] = time
            ext_units[unit + P_BASE] = 0
            ext_units[unit + P_COUNT] = 0
            file = place // how[EXT_FILE_UNITS]
            at = place % how[EXT_FILE_UNITS]
            tags = file * how[EXT_FILE_SIZE] + at * consumequeue.EXT_UNIT_MIN_SIZE + javatext.INT64_MIN
        start = rows[row + OFFSET]
        end = start + rows[row + SIZE]
        reach = end if how[REACH_IS_END] != 0 and not is_batch else start
        if reach <= state[queue + REACHED]:
            continue
        at = rows[row + INDEX]
        base = rows[row + BASE]
        count = rows[row + COUNT]
        following = state[queue + FOLLOWING]
        if is_batch:
            at = max(following, 0)
            if following < 0:
                state[queue + FIRST] = base
            # base + count, which wraps around like Java's, by halves: neither form of this code may overflow
            low = (base & _LOW_HALF) + count
            high = (((base >> 32) + (low >> 32) + _SIGN) & _LOW_HALF) - _SIGN
            state[queue + TAIL] = high << 32 | low & _LOW_HALF
        else:
            gap = -1
            if following < 0:
                if at < 0 or at > MAX_UNIT_NUMBER:
                    state[queue + REFUSED] += 1
                    continue
                state[queue + FIRST] = at
                following = at - at % how[FILE_UNITS]
                if following < at:
                    gap = PRE_BLANK
            elif at != following:
                state[queue + OPENED] = following
                if at < following and at != 0 and how[SKIPS_BELOW] != 0:
                    state[queue + DUPLICATES] += 1
                    continue
                room = (start - state[queue + LAST_END]) // magic.MIN_RECORD_SIZE
                if state[queue + GIVEN_AWAY] < at - following <= room and at <= MAX_UNIT_NUMBER:
                    gap = HOLE
                else:
                    state[queue + MISPLACED] += 1
                    at = following
            if gap >= 0:
                gaps[gap_count * GAP_SIZE] = number
                gaps[gap_count * GAP_SIZE + 1] = following
                gaps[gap_count * GAP_SIZE + 2] = at
                gaps[gap_count * GAP_SIZE + 3] = time
                gaps[gap_count * GAP_SIZE + 4] = gap
                gap_count += 1
            state[queue + TAIL] = at + 1
        state[queue + FOLLOWING] = at + 1
        state[queue + REACHED] = reach
        state[queue + LAST_END] = end
        state[queue + UNITS] += 1
        kind = BATCH if is_batch else PLAIN
        units = batch_units if is_batch else plain_units
        unit = pending_counts[kind] * PENDING_SIZE
        pending_counts[kind] += 1
        units[unit + P_QUEUE] = number
        units[unit + P_PLACE] = at
        units[unit + P_OFFSET] = start
        units[unit + P_SIZE] = rows[row + SIZE]
        units[unit + P_TAGS] = tags
        units[unit + P_TIME] = time
        units[unit + P_BASE] = base
        units[unit + P_COUNT] = count
    return gap_count


def pack_units(pending: dtypes.Longs, kind: int, file_units: int) -> tuple[NDArray[np.void], dtypes.Longs]:
    """The bytes of pending units, those of a queue side by side, in their order; and their runs.

    A row of the runs says which units follow one another in a file: queue, first place, first row, row
    behind, time of the last.
    """
    pending = pending[np.argsort(pending[:, P_QUEUE], kind="stable")]
    units = np.zeros(len(pending), _UNITS[kind])
    if kind == EXT:
        units["size"], units["tagsCode"] = consumequeue.EXT_UNIT_MIN_SIZE, pending[:, P_TAGS]
        units["msgStoreTime"] = pending[:, P_TIME]
    else:
        units["offset"], units["size"] = pending[:, P_OFFSET], pending[:, P_SIZE]
        units["tagsCode"] = pending[:, P_TAGS]
    if kind == BATCH:
        units["storeTime"], units["msgBaseOffset"] = pending[:, P_TIME], pending[:, P_BASE]
        units["batchSize"], units["compactedOffset"] = pending[:, P_COUNT].astype(np.int16), -1
    queue, place = pending[:, P_QUEUE], pending[:, P_PLACE]
    begins = np.ones(len(pending), np.bool_)
    begins[1:] = (queue[1:] != queue[:-1]) | (place[1:] != place[:-1] + 1)
    first = np.flatnonzero(begins | (place % file_units == 0))
    behind = np.append(first, len(pending))[1:]
    return units, np.stack([queue[first], place[first], first, behind, pending[behind - 1, P_TIME]], axis=1)
