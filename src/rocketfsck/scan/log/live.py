"""The live records of a commit log file: those of this life of the log, without a stale tail.

    file := live records and gaps, BLANK and filler | zeros | torn record | stale tail

Records behind damage are live; a run of records of an earlier life, and all that follows it, is a stale tail
(fault catalogue C3). Reference 6.6.

Follows every queue's queueOffset through a commit log file, a batch of records at a time.

State is a few numbers a queue in NumPy arrays; per record only vector operations. A batch is first looked at
(`look`) and then taken (`take`), because its rows may turn out to be stale. Reference 2.13, 6.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.formats.magic import TRANSACTION_COMMIT, TRANSACTION_MASK
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.resync import Region, RegionKind
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.reading import FileReader

UNKNOWN = -1
RECENT_COUNT = 9
"""As many last records' times are looked at for `recent`."""
LATEST_CLOCK_MS = (2**63 - 1) // 1_000_000
"""The last millisecond (of the year 2262) that an operating system's clock of 64 bits shows: such clocks
count nanoseconds."""


@dataclass(frozen=True, slots=True)
class QueueRows:
    """Rows of a batch that take a place in their queue, ordered by queue and then as in the log.

    `expected` is the queueOffset that the record before them in the queue leads to, UNKNOWN for the first.
    """

    row: Longs
    queue: Longs
    offset: Longs
    following: Longs
    expected: Longs

    @property
    def repeated(self) -> Flags:
        flags: Flags = (self.expected != UNKNOWN) & (self.offset < self.expected)
        return flags

    @property
    def skipping(self) -> Flags:
        flags: Flags = (self.expected != UNKNOWN) & (self.offset > self.expected)
        return flags


_NONE: Longs = np.zeros(0, np.int64)


@dataclass(slots=True, eq=False)
class QueueTracker:
    """For each row of a QueueTable: first and next queueOffset, where the first is, how many records."""

    first: Longs = field(default_factory=lambda: _NONE)
    following: Longs = field(default_factory=lambda: _NONE)
    count: Longs = field(default_factory=lambda: _NONE)
    first_physical: Longs = field(default_factory=lambda: _NONE)

    def copy(self) -> QueueTracker:
        """The same state, which changes no more with this one."""
        return QueueTracker(*(getattr(self, name).copy() for name in self.__slots__))

    def look_at(self, batch: RecordBatch, queue_count: int) -> QueueRows:
        """`look` at the records of a batch that go into a queue: normal and committed ones."""
        kind = batch["sys_flag"] & TRANSACTION_MASK
        taking = np.flatnonzero(((kind == 0) | (kind == TRANSACTION_COMMIT)) & (batch["queue_index"] >= 0))
        size = np.clip(batch["batch_size"][taking], 1, 1 << 15).astype(np.int64)
        offset = np.clip(batch["queue_offset"][taking], -1, 1 << 62)
        return self.look(taking, batch["queue_index"][taking], offset, size, queue_count)

    def look(self, rows: Longs, queue: Longs, offset: Longs, size: Longs, queue_count: int) -> QueueRows:
        """Order rows by queue and say what was expected of each; `size` is a record's number of places."""
        self._grow(queue_count)
        order = np.argsort(queue, kind="stable")
        queue, offset = queue[order], offset[order]
        following = offset + size[order]
        expected = np.empty(len(order), np.int64)
        if len(order):
            expected[1:] = following[:-1]
            first = np.ones(len(order), np.bool_)
            first[1:] = queue[1:] != queue[:-1]
            expected[first] = self.following[queue[first]]
        return QueueRows(rows[order], queue, offset, following, expected)

    def take(self, found: QueueRows, physical: Longs) -> None:
        """Move on by the first rows of the batch, whose physical offsets are given."""
        kept = found.row < len(physical)
        queue, offset, following = found.queue[kept], found.offset[kept], found.following[kept]
        if not len(queue):
            return
        change = np.flatnonzero(queue[1:] != queue[:-1])
        last = np.concatenate((change, [len(queue) - 1]))
        first = np.concatenate(([0], change + 1))
        heads = queue[first]
        new = self.following[heads] == UNKNOWN
        self.first[heads[new]] = offset[first[new]]
        self.first_physical[heads[new]] = physical[found.row[kept][first[new]]]
        self.following[queue[last]] = following[last]
        self.count[heads] += last - first + 1

    def _grow(self, queue_count: int) -> None:
        known = len(self.first)
        if queue_count > known:
            size = max(queue_count, 2 * known, 64)
            for name in self.__slots__:
                wider = np.full(size, 0 if name == "count" else UNKNOWN, np.int64)
                wider[:known] = getattr(self, name)
                setattr(self, name, wider)


def believable(timestamps: Longs) -> Longs:
    """The times (ms) that a clock can show: the others are damage, and date nothing."""
    shown: Longs = timestamps[(timestamps >= 0) & (timestamps <= LATEST_CLOCK_MS)]
    return shown


def find_seam(found: QueueRows, store_timestamp: Longs, newest_before: int | None) -> int | None:
    """The row where an earlier life of the log begins: time goes back and queueOffsets repeat.

    `newest_before` is the newest storeTimestamp before the batch. A clock step alone does not repeat
    queueOffsets, and a broker that gives numbers out again does so at later times: only both together tell.
    Rows before a repeating one belong to the seam as far back as their time is behind.
    """
    shown = np.where(store_timestamp > LATEST_CLOCK_MS, UNKNOWN, store_timestamp)
    newest = np.maximum.accumulate(shown)
    before = np.empty(len(newest), np.int64)
    before[1:] = newest[:-1]
    if len(before):
        before[0] = shown[0] if newest_before is None else newest_before
        before = np.maximum(before, before[0])
    back = store_timestamp < before
    telling = found.row[found.repeated]
    telling = telling[back[telling]]
    if not len(telling):
        return None
    row = int(telling.min())
    ahead = np.flatnonzero(~back[: row + 1])
    return int(ahead[-1]) + 1 if len(ahead) else 0


def is_older_life(store_timestamp: Longs, recent: int | None) -> bool:
    """Whether records after a gap are all older than those in front of it, `recent` being their time.

    Damage in the middle of a log leaves later records after it; a gap in front of older ones is where a
    shorter, newer log ends. `recent` is a median, so that one damaged timestamp does not decide.
    """
    return recent is not None and len(store_timestamp) > 0 and int(store_timestamp.max()) < recent


def find_stale_row(
    found: QueueRows, store_timestamp: Longs, newest: int | None, recent: int | None, *, after_gap: bool
) -> int | None:
    """The first row of an earlier life of the log, None where all are live.

    `newest` and `recent` tell of the live records before the batch, `after_gap` whether bytes that are not
    a record lie right in front of it.
    """
    row = find_seam(found, store_timestamp, newest)
    if row is None and after_gap and is_older_life(store_timestamp, recent):
        return 0
    return row


@dataclass(slots=True, eq=False)
class LiveScan:
    """One walk over a log file that yields its live records; `end_pos` grows with it.

    `end_pos` is the file position after the last live record or BLANK met so far; `stale_pos` is where a
    stale tail begins, if one does; `damaged` says whether bytes that are not a record lie before live ones.
    """

    end_pos: int = 0
    stale_pos: int | None = None
    damaged: bool = False
    _gap_pos: int | None = None
    _tracker: QueueTracker = field(default_factory=QueueTracker)
    _newest: int | None = None
    _recent: list[int] = field(default_factory=list)

    def copy(self) -> LiveScan:
        """The same state, for a walk that continues from the end of the last batch."""
        return replace(self, _tracker=self._tracker.copy())

    def batches(
        self, reader: FileReader, base_offset: int, options: ScanOptions, table: QueueTable
    ) -> Iterator[RecordBatch]:
        """Yield the batches of the file (`scan.log.tiling.scan_log_file`), cut where a stale tail begins.

        The walk ends there. Raises StoreError when bytes cannot be read.
        """
        for found in self.walk(reader, base_offset, options, table):
            if isinstance(found, RecordBatch) and found.record_count:
                yield found

    def walk(
        self,
        reader: FileReader,
        base_offset: int,
        options: ScanOptions,
        table: QueueTable,
        *,
        past_end: bool = False,
        start: int = 0,
        start_base: int | None = None,
    ) -> Iterator[RecordBatch | Region]:
        """Yield the batches as `batches` does, and every region when it is known what it is.

        With `past_end` the walk continues after the live records, and the batches are whole: what is at
        `stale_pos` or after it is not live. A walk continues at `start`, where the last batch ended of the
        walk that this state belongs to; `start_base` is what its records counted their physicalOffset from.
        """
        run_count = 1 if start else 0
        for found in scan_log_file(reader, base_offset, options, table, start=start, start_base=start_base):
            if isinstance(found, Region):
                run_count = 0
                if self.stale_pos is None:
                    self._region(found)
            elif self.stale_pos is None:
                counts = found.counts.copy()
                if not self._take(found, base_offset, len(table), begins_run=not run_count) and not past_end:
                    return
                run_count += found.record_count
                if past_end:
                    found.counts[:] = counts
            yield found
            if self.stale_pos is not None and not past_end:
                return

    def _region(self, region: Region) -> None:
        if region.kind == RegionKind.BLANK:
            self.damaged = self.damaged or self._gap_pos is not None
            self._gap_pos = None
            self.end_pos = region.end
        elif region.kind in (RegionKind.ZERO, RegionKind.DAMAGED, RegionKind.TORN):
            self._gap_pos = region.start if self._gap_pos is None else self._gap_pos

    def _take(self, batch: RecordBatch, base_offset: int, queue_count: int, *, begins_run: bool) -> bool:
        """Cut the batch where it turns stale; False if nothing of it is live."""
        times = batch["store_timestamp"]
        found = self._tracker.look_at(batch, queue_count)
        after_gap = begins_run and self._gap_pos is not None
        recent = sorted(self._recent)[len(self._recent) // 2] if self._recent else None
        row = find_stale_row(found, times, self._newest, recent, after_gap=after_gap)
        if row is not None:
            at_gap = row == 0 and after_gap
            self.stale_pos = self._gap_pos if at_gap else int(batch["pos"][row])
            batch.cut(row)
            if not row:
                return False
            times = batch["store_timestamp"]
        self._tracker.take(found, batch["pos"] + base_offset)
        shown = believable(times)
        if len(shown):
            newest = int(shown.max())
            self._newest = newest if self._newest is None else max(self._newest, newest)
        self._recent = [*self._recent, *times[-RECENT_COUNT:].tolist()][-RECENT_COUNT:]
        if after_gap:
            self.damaged, self._gap_pos = True, None
        self.end_pos = int(batch["pos"][-1]) + int(batch["total_size"][-1])
        return True
