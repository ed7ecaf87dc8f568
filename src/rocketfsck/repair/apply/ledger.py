"""The loss ledger: what a repair did to every unit of every queue and to every valid record.

    before == kept + corrected + moved + lost          after == kept + corrected + moved + gained

A unit is kept where the same bytes are at the same queue offset; moved where a unit for the same record is at
another one; corrected where its queue offset has another unit; lost where its queue offset has none. A record
is valid if its frame is sound and its checksums fit. Valid records, and units whose record is still in the
log, may only be lost where the plan says so. Only files that differ are looked at.

Pairs the rows of two tables: what stayed in its place, what moved, what is only on one side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import consumequeue, dtypes, magic
from rocketfsck.reader.records import is_fence_topic
from rocketfsck.reader.units import UnitReader
from rocketfsck.repair.plan.model import Loss, Notice
from rocketfsck.scan.columns import Fault, RecordBatch
from rocketfsck.scan.log.resync import Region
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import ConsumeQueue, MappedFile, MappedFileQueue, Store, StoreFile
from rocketfsck.store.openfiles import OpenFiles
from rocketfsck.store.reading import FileReader

RANGE_LIMIT = 1000

Columns = tuple[dtypes.Longs, dtypes.Longs, dtypes.Longs]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A run of queue offsets or physical offsets, half-open, with how many units or records are in it."""

    start: int
    end: int
    count: int


class Rows:
    """Units or records that differ: numbers in three columns, collected in blocks."""

    def __init__(self) -> None:
        self._blocks: list[Columns] = []
        self.count = 0

    def add(self, index: dtypes.Longs, offset: dtypes.Longs, size: dtypes.Longs) -> None:
        """Put more rows at the end."""
        if len(index):
            self._blocks.append((index, offset, size))
            self.count += len(index)

    def columns(self) -> Columns:
        """All rows."""
        if not self._blocks:
            empty = np.zeros(0, np.int64)
            return empty, empty, empty
        one, two, three = (np.concatenate(parts) for parts in zip(*self._blocks, strict=True))
        return one, two, three


@dataclass(frozen=True, slots=True)
class Matched:
    """Rows of the left side that are lost, and how many of the others are what."""

    lost: NDArray[np.intp]
    corrected: int
    moved: int
    gained: int


def match_rows(left: Columns, right: Columns) -> Matched:
    """Pair the rows that differ: by place and record, then by record (moved), then by place (corrected)."""
    mine, other = np.arange(len(left[0])), np.arange(len(right[0]))
    mine, other, first = pair_rows((left[0], left[1]), (right[0], right[1]), mine, other)
    mine, other, moved = pair_rows((left[1], left[2]), (right[1], right[2]), mine, other)
    mine, other, second = pair_rows((left[0],), (right[0],), mine, other)
    return Matched(mine, first + second, moved, len(other))


def pair_rows(
    left: tuple[dtypes.Longs, ...],
    right: tuple[dtypes.Longs, ...],
    mine: NDArray[np.intp],
    other: NDArray[np.intp],
) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """The rows of either side that have no partner with equal columns on the other; each has at most one."""
    if not len(mine) or not len(other):
        return mine, other, 0
    columns = [np.concatenate([one[mine], two[other]]) for one, two in zip(left, right, strict=True)]
    order = np.lexsort(columns)
    changes = np.zeros(len(order), np.bool_)
    for column in columns:
        ordered = column[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(changes)
    ours, theirs = _numbered(group[: len(mine)]), _numbered(group[len(mine) :])
    width = 1 + max(int(ours[1].max()), int(theirs[1].max()))
    keys, others = ours[0] * width + ours[1], theirs[0] * width + theirs[1]
    paired, partner = np.isin(keys, others), np.isin(others, keys)
    return mine[~paired], other[~partner], int(paired.sum())


def _numbered(group: dtypes.Longs) -> tuple[dtypes.Longs, dtypes.Longs]:
    """Each row's group, and its number among the rows of its group."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    lengths = np.diff(np.concatenate([starts, [len(ordered)]]))
    number = np.empty(len(group), np.int64)
    number[order] = np.arange(len(ordered)) - np.repeat(starts, lengths)
    return group, number


def runs_of(index: dtypes.Longs) -> tuple[OffsetRange, ...]:
    """Runs of neighbours."""
    if not len(index):
        return ()
    ordered = np.sort(index)
    ends = np.flatnonzero(np.concatenate([ordered[1:] != ordered[:-1] + 1, [True]]))
    starts = np.concatenate([[0], ends[:-1] + 1])
    return tuple(
        OffsetRange(int(ordered[low]), int(ordered[high]) + 1, int(high - low) + 1)
        for low, high in zip(starts[:RANGE_LIMIT], ends[:RANGE_LIMIT], strict=True)
    )


BLOCK_COUNT = 1 << 16
ROW_LIMIT = 1 << 24
"""Differing units of one queue, or valid records of one file, that are matched one by one."""
_HEADER = dtypes.RECORD_HEAD_DTYPE
_WINDOW_SIZE = 1 << 20
_BAD = Fault.BODY_CRC | Fault.PROPERTY_CRC

SameFile = Callable[[StoreFile, StoreFile], bool]


@dataclass(frozen=True, slots=True)
class LedgerAccount:
    """What became of the units of one queue, or of the records of the log (topic "", kind "log").

    `lost_ranges` are the offsets lost (at most `RANGE_LIMIT` runs, `count` is always exact). `unplanned`
    counts lost records that are valid, or lost units whose records are still in the log, that no loss of the
    plan names.
    """

    kind: str
    topic: str
    queue_id: int
    before: int
    after: int
    kept: int
    corrected: int
    moved: int
    lost: int
    gained: int
    lost_ranges: tuple[OffsetRange, ...] = ()
    unplanned: int = 0

    @property
    def balanced(self) -> bool:
        """Whether nothing is unaccounted for."""
        same = self.kept + self.corrected + self.moved
        return self.before == same + self.lost and self.after == same + self.gained and not self.unplanned


@dataclass(frozen=True, slots=True)
class Ledger:
    """One account a changed queue, and one for the changed files of the log, if any.

    `unchanged_queue_count` and `unchanged_log_file_count` are those that nothing was done to. Changed
    files have `filler_count` filler records more than before: fillers are not messages, and are in no
    account. `notices` are what the broker and its consumers will notice.
    """

    queues: tuple[LedgerAccount, ...] = ()
    records: LedgerAccount | None = None
    unchanged_queue_count: int = 0
    unchanged_log_file_count: int = 0
    notices: tuple[Notice, ...] = ()
    filler_count: int = 0

    @property
    def balanced(self) -> bool:
        """Whether every account is."""
        return all(account.balanced for account in self.accounts)

    @property
    def accounts(self) -> tuple[LedgerAccount, ...]:
        """All accounts, the log's first."""
        return (() if self.records is None else (self.records,)) + self.queues


def make_ledger(before: Store, after: Store, losses: Sequence[Loss], same: SameFile) -> Ledger:
    """Compare two states of a store.

    `losses` are what the plan says will be lost; `same` tells whether two files are one. Raises StoreError if
    something cannot be read.
    """
    then, now = _queues(before), _queues(after)
    accounts = []
    unchanged = 0
    for name in sorted({*then, *now}):
        old, new = then.get(name), now.get(name)
        if old is not None and new is not None and _same_files(old.files, new.files, same):
            unchanged += 1
            continue
        accounts.append(_queue_account(name, old, new, losses, after.commitlog))
    records, untouched, filler_count = _record_account(before, after, losses, same)
    return Ledger(tuple(accounts), records, unchanged, untouched, filler_count=filler_count)


def _queues(store: Store) -> dict[tuple[str, str, int], ConsumeQueue]:
    return {(queue.kind, queue.topic, queue.queue_id): queue for queue in store.queues}


def _same_files(old: Sequence[MappedFile], new: Sequence[MappedFile], same: SameFile) -> bool:
    return len(old) == len(new) and all(map(same, old, new))


def _queue_account(
    name: tuple[str, str, int],
    old: ConsumeQueue | None,
    new: ConsumeQueue | None,
    losses: Sequence[Loss],
    log: MappedFileQueue,
) -> LedgerAccount:
    kind, topic, queue_id = name
    totals = np.zeros(3, np.int64)  # before, after, kept
    left, right = Rows(), Rows()
    plain = np.zeros(3, np.int64)  # beyond the limit: corrected, lost, gained by place alone
    for index, ours, theirs in _blocks(old, new):
        mine, other = _is_unit(ours), _is_unit(theirs)
        equal = mine & other & (ours == theirs)
        totals += (int(mine.sum()), int(other.sum()), int(equal.sum()))
        mine, other = mine & ~equal, other & ~equal
        if max(left.count, right.count) > ROW_LIMIT:
            plain += (int((mine & other).sum()), int((mine & ~other).sum()), int((other & ~mine).sum()))
            continue
        left.add(index[mine], _long(ours["offset"][mine]), _long(ours["size"][mine]))
        right.add(index[other], _long(theirs["offset"][other]), _long(theirs["size"][other]))
    matched = match_rows(left.columns(), right.columns())
    index, offset, size = (column[matched.lost] for column in left.columns())
    valuable = _framed(log, index, offset, size, kind, topic, queue_id)
    unplanned = int((valuable & ~_planned_units(index, offset, topic, queue_id, losses)).sum())
    return LedgerAccount(
        kind,
        topic,
        queue_id,
        before=int(totals[0]),
        after=int(totals[1]),
        kept=int(totals[2]),
        corrected=matched.corrected + int(plain[0]),
        moved=matched.moved,
        lost=len(index) + int(plain[1]),
        gained=matched.gained + int(plain[2]),
        lost_ranges=runs_of(index),
        unplanned=unplanned,
    )


def _blocks(
    old: ConsumeQueue | None, new: ConsumeQueue | None
) -> Iterator[tuple[dtypes.Longs, NDArray[Any], NDArray[Any]]]:
    """Both sides' units, block by block, wherever either side has data; zeros where one has none.

    Holes are not units, and are not read: a file may have a terabyte of them.
    """
    sides = [None if queue is None else UnitReader(queue) for queue in (old, new)]
    readers = [side for side in sides if side is not None]
    try:
        ranges = sorted(
            span for reader in readers for span in reader.with_data(reader.first_index, reader.end_index)
        )
        done = -1
        for start, end in ranges:
            for index in range(max(start, done), end, BLOCK_COUNT):
                count = min(BLOCK_COUNT, end - index)
                ours, theirs = (
                    np.zeros(count, readers[0].dtype) if side is None else side.units(index, count)
                    for side in sides
                )
                yield np.arange(index, index + count, dtype=np.int64), ours, theirs
            done = max(done, end)
    finally:
        for reader in readers:
            reader.close()


def _is_unit(units: NDArray[Any]) -> NDArray[np.bool_]:
    filler = (units["offset"] == 0) & (units["size"] == consumequeue.PRE_BLANK_SIZE)
    found: NDArray[np.bool_] = (units["size"] > 0) & ~filler
    return found


def _long(column: NDArray[Any]) -> dtypes.Longs:
    return column.astype(np.int64)


def _framed(
    log: MappedFileQueue,
    index: dtypes.Longs,
    offset: dtypes.Longs,
    size: dtypes.Longs,
    kind: str,
    topic: str,
    queue_id: int,
) -> NDArray[np.bool_]:
    """Which units lead to a record of the log that says it is theirs."""
    found = np.zeros(len(index), np.bool_)
    name = topic.encode("utf-8", "surrogateescape")
    with OpenFiles(log) as files:
        for number, start in enumerate(files.starts):
            end = start + files.files[number].size
            rows = np.flatnonzero((offset >= start) & (offset < end - _HEADER.itemsize))
            rows = rows[np.argsort(offset[rows])]
            reader = files.reader(number)
            while len(rows):
                low = int(offset[rows[0]])
                here = rows[: int(np.searchsorted(offset[rows], low + _WINDOW_SIZE))]
                rows = rows[len(here) :]
                data = np.frombuffer(reader.read_upto(low - start, _WINDOW_SIZE + _HEADER.itemsize), np.uint8)
                places = (offset[here] - low)[:, None] + np.arange(_HEADER.itemsize)
                heads = data[places].view(_HEADER).reshape(-1)
                good = np.isin(heads["magicCode"], (magic.MAGIC_V1, magic.MAGIC_V2)) & (
                    heads["totalSize"] == size[here]
                )
                good &= (heads["queueId"] == queue_id) & (heads["physicalOffset"] == offset[here])
                if kind == "file":
                    good &= heads["queueOffset"] == index[here]
                for row in here[good]:
                    found[row] = _has_topic(reader, int(offset[row]) - start, int(size[row]), name)
    return found


def _has_topic(reader: FileReader, pos: int, size: int, topic: bytes) -> bool:
    """Whether the record's topic, or the queues that its properties list, may be this one."""
    return topic in reader.read_upto(pos, min(size, _WINDOW_SIZE * 8))


def _planned_units(
    index: dtypes.Longs, offset: dtypes.Longs, topic: str, queue_id: int, losses: Iterable[Loss]
) -> NDArray[np.bool_]:
    planned = _planned_records(offset, losses)
    for loss in losses:
        if loss.what == "unit" and loss.topic == topic and loss.queue_id in (queue_id, None):
            if loss.first_queue_offset is None or loss.last_queue_offset is None:
                planned[:] = True
            else:
                planned |= (index >= loss.first_queue_offset) & (index <= loss.last_queue_offset)
    return planned


def _record_account(
    before: Store, after: Store, losses: Sequence[Loss], same: SameFile
) -> tuple[LedgerAccount | None, int, int]:
    old = {file.name: file for file in before.commitlog.files}
    new = {file.name: file for file in after.commitlog.files}
    both = [name for name in sorted({*old} & {*new}) if not same(old[name], new[name])]
    gone, made = sorted({*old} - {*new}), sorted({*new} - {*old})
    untouched = len({*old} & {*new}) - len(both)
    groups = [([old[name]], [new[name]]) for name in both]
    if gone or made:
        groups.append(([old[name] for name in gone], [new[name] for name in made]))
    if not groups:
        return None, untouched, 0
    fillers = 0
    counts = np.zeros(3, np.int64)  # before, after, kept
    only_old, only_new = Rows(), Rows()
    for mine, other in groups:
        (left, filled), (right, refilled) = _valid_records(before, mine), _valid_records(after, other)
        fillers += refilled - filled
        rows, others, kept = _pair_records(left, right)
        counts += (left.count, right.count, kept)
        only_old.add(*(column[rows] for column in left.columns()))
        only_new.add(*(column[others] for column in right.columns()))
    rows, others, kept = _pair_records(only_old, only_new)  # those of files that changed names
    places = np.sort(only_old.columns()[0][rows])
    account = LedgerAccount(
        "log",
        "",
        0,
        before=int(counts[0]),
        after=int(counts[1]),
        kept=int(counts[2]) + kept,
        corrected=0,
        moved=0,
        lost=len(rows),
        gained=len(others),
        lost_ranges=tuple(
            OffsetRange(place, place + 1, 1) for place in sorted(places.tolist())[:RANGE_LIMIT]
        ),
        unplanned=int((~_planned_records(places, losses)).sum()),
    )
    return account, untouched, fillers


def _pair_records(left: Rows, right: Rows) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """Records without a partner: one at the same place, or one that says that its offset is the same."""
    place, offset, mark = left.columns()
    other_place, other_offset, other_mark = right.columns()
    mine, other = np.arange(left.count), np.arange(right.count)
    mine, other, first = pair_rows((place, mark), (other_place, other_mark), mine, other)
    mine, other, second = pair_rows((offset, mark), (other_offset, other_mark), mine, other)
    return mine, other, first + second


def _valid_records(store: Store, files: Iterable[MappedFile]) -> tuple[Rows, int]:
    """Where the valid records of messages are, and what tells one from another; and how many are fillers."""
    rows, fillers = Rows(), 0
    for file in files:
        base = file.start_offset or 0
        with FileReader(file.location) as reader:
            options = log_options(store, file, read_bodies=True)
            table = QueueTable()
            for found in scan_log_file(reader, base, options, table):
                if isinstance(found, Region):
                    continue
                filler = _is_filler(found, table)
                fillers += int(filler.sum())
                good = ((found["faults"] & int(_BAD)) == 0) & ~filler
                mark = _long(found["body_crc"]) * 1_000_003 + _long(found["total_size"])
                mark = mark * 1_000_003 + _long(found["queue_offset"]) + _long(found["queue_id"])
                rows.add(_long(found["pos"][good]) + base, _long(found["physical_offset"][good]), mark[good])
    return rows, fillers


def _is_filler(found: RecordBatch, table: QueueTable) -> NDArray[np.bool_]:
    """Which records are filler that a repair made."""
    fences = [row for row, (topic, _) in enumerate(table.names) if is_fence_topic(topic)]
    flags: NDArray[np.bool_] = np.isin(found["queue_index"], fences)
    flags &= (found["sys_flag"] & magic.TRANSACTION_MASK) == magic.TRANSACTION_ROLLBACK
    return flags


def _planned_records(places: dtypes.Longs, losses: Iterable[Loss]) -> NDArray[np.bool_]:
    planned = np.zeros(len(places), np.bool_)
    for loss in losses:
        if loss.what in ("record", "byte") and loss.start_offset is not None and loss.end_offset is not None:
            planned |= (places >= loss.start_offset) & (places < loss.end_offset)
    return planned
