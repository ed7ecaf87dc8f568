"""How far one commit log file is complete while a broker, or a copy of its bytes, still writes to it.

    file := (complete record | damage)* then a record in doubt | BLANK | zeros

A broker puts one record after the other, each in one go, and never goes back but by a restart. So a record is
done when something newer comes after it; only the last one needs a look of its own. A record is complete when
its frame is sound, its physicalOffset is its place, its CRCs are right and its topic and properties hold no
NUL. What is not complete is in doubt and waits; it is damage, to be passed, once a complete record comes
after it, and that is said only after a second look, since the first may have come between two puts.

Where bytes of another life of the log come after the last record, its topic and properties may belong to that
life, too, so it waits until something comes after it, or nobody wrote to the file for a while.

Records that went back in time are in doubt as well: they are what a truncation left beyond the log's new end
(reference 6.6), until a newer one comes after them. Reference 2.1, 2.6, 2.8, 2.15.
"""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.columns import BODY_AT
from rocketfsck.formats.magic import BLANK_HEADER_SIZE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE
from rocketfsck.formats.record import read_frame
from rocketfsck.scan.columns import Fault, RecordBatch, Trait, new_batch
from rocketfsck.scan.log.large import append_large_record, read_large_record
from rocketfsck.scan.log.resync import Ground
from rocketfsck.scan.log.tiling import fill_batch, record_scanner
from rocketfsck.scan.options import ScanOptions, Stop
from rocketfsck.scan.plain.records import scan_records
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.reading import FileReader

SETTLED_TIME = 120
"""Seconds without a write after which a file's last record is done, whatever comes after it. A file that is
mapped has its time set only when a page of it turns dirty: every half minute at the latest."""

WHOLE_SIZE = 1 << 16
"""Bytes of a record up to which it is read in one piece: a longer one is long by its body."""

WITNESS_SIZE = BODY_AT
"""Bytes of a record by which it is known again: all of its header."""

UNFINISHED = (
    Fault.BODY_CRC | Fault.PROPERTY_CRC | Fault.PHYSICAL_OFFSET | Fault.PROPERTY_NUL | Fault.TOPIC_EMPTY
    | Fault.TOPIC_CHARSET | Fault.BODY_CRC_NEGATIVE | Fault.BODY_SIZE | Fault.PROPERTIES_SIZE
)  # fmt: skip
"""What the last record must not have: half of a record may look like this."""

_MAGICS = tuple(magic.to_bytes(4, "big", signed=True) for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))


@dataclass(frozen=True, slots=True)
class FileWalk:
    """One file to be walked: `settled` where a later file holds records, so that nothing in it can change.

    `clock_step` is how many milliseconds a storeTimestamp may go back without being in doubt.
    """

    reader: FileReader
    base_offset: int
    options: ScanOptions
    settled: bool
    clock_step: int

    @property
    def file_size(self) -> int:
        return max(self.options.file_size, self.reader.size)


def complete_timestamp(walk: FileWalk, pos: int) -> int | None:
    """The storeTimestamp of the record at `pos` if a complete one is there."""
    batch = read_record(walk, pos)
    return None if batch is None else int(batch["store_timestamp"][0])


def read_record(walk: FileWalk, pos: int) -> RecordBatch | None:
    """The complete record at `pos`, alone in a batch."""
    record = read_large_record(walk.reader, pos, walk.file_size)
    if isinstance(record, Stop):
        return None
    batch = new_batch(1, 1 << 15, 1 << 15)
    options = replace(walk.options, read_bodies=True)
    reader, base, file_size, table = walk.reader, walk.base_offset, walk.file_size, QueueTable()
    if record.total_size > WHOLE_SIZE:
        append_large_record(reader, record, base, file_size, options, batch, table)
    else:
        data = np.frombuffer(reader.read(pos, record.total_size), np.uint8)
        scan_records(data, 0, len(data), pos, base, file_size, options, batch, table)
    if not batch.record_count or int(batch["faults"][0]) & UNFINISHED:
        return None
    return batch


def is_left_alone(reader: FileReader) -> bool:
    """Whether nobody wrote to the file for so long that whatever was begun is done."""
    return time.time() - reader.mtime_ns / 1e9 > SETTLED_TIME


def may_begin_record(head: bytes) -> bool:
    """Whether these 8 bytes are zeros, or as much of a header as is written yet."""
    written = head[4:].rstrip(b"\0")
    return any(magic.startswith(written) for magic in _MAGICS)


def blank_end(walk: FileWalk, pos: int) -> int:
    """The file position that a BLANK at `pos` fills the file up to; -1 without one that does."""
    head = walk.reader.read_upto(pos, BLANK_HEADER_SIZE)
    total_size, magic_code = read_frame(head) if len(head) == BLANK_HEADER_SIZE else (0, 0)
    return pos + total_size if magic_code == MAGIC_BLANK and pos + total_size >= walk.reader.size else -1


def witness_of(reader: FileReader, pos: int) -> int:
    """A checksum of the record at `pos` by which it is known again (of its header: its CRC is in there)."""
    return zlib.crc32(reader.read_upto(pos, WITNESS_SIZE))


LOOK_AHEAD_SIZE = 8 << 20
"""Bytes behind a doubt that are searched for a newer record: more than the longest record by default."""

MAX_CANDIDATES = 64
"""Records of a search that may turn out to be none that says anything."""

MAX_ROW_COUNT = 4096
"""Rows of a batch."""

FUTURE_SIZE = 24 * 3600 * 1000
"""Milliseconds ahead of this machine's clock from which on a storeTimestamp is not believed."""

NO_END = 1 << 62
"""What is beyond every bound."""

THREADED_FROM = 64 << 20
"""Bytes of a settled file from which on reading ahead is worth a thread."""


@dataclass(frozen=True, slots=True)
class WalkBounds:
    """Where a walk must end: an offset never to be passed, and how many bytes and rows may be taken.

    At least one record is taken, however long it is, so that a stream gets on; `until_offset` has no such
    exception.
    """

    until_offset: int | None = None
    max_size: int | None = None
    max_count: int | None = None

    def less(self, size: int, count: int) -> WalkBounds:
        """What is left after these were taken."""
        return WalkBounds(
            self.until_offset,
            None if self.max_size is None else self.max_size - size,
            None if self.max_count is None else self.max_count - count,
        )


@dataclass(frozen=True, slots=True)
class Reached:
    """A position behind complete records: the last one's position and time (-1: none), how many they are.

    `newest_timestamp` is the newest storeTimestamp so far.
    """

    end_pos: int
    last_pos: int = -1
    newest_timestamp: int = -1
    count: int = 0


@dataclass(frozen=True, slots=True)
class WalkedTail:
    """How far a file is complete, whether a bound ended the walk, and where the file's BLANK leads (-1)."""

    reached: Reached
    bounded: bool
    blank_end: int = -1


def walk_file(walk: FileWalk, start: Reached, bounds: WalkBounds) -> WalkedTail:
    """How far the file is complete from `start` on. Raises StoreError when bytes cannot be read.

    In a settled file damage is passed, up to its very end; in one that is being written, only where a
    complete and newer record comes after it within LOOK_AHEAD_SIZE.
    """
    return _TailWalk(walk, start, bounds).run()


class _TailWalk:
    """All rows up to `sure` are complete, `before` is one row less, `last` is after the last row seen; `cut`
    is where a bound ends the walk, once it is sure."""

    def __init__(self, walk: FileWalk, start: Reached, bounds: WalkBounds) -> None:
        self.walk, self.start = walk, start
        size = NO_END if bounds.max_size is None else max(bounds.max_size, 0)
        self.size_end = start.end_pos + size
        self.most_count = NO_END if bounds.max_count is None else bounds.max_count
        self.until_pos = NO_END if bounds.until_offset is None else bounds.until_offset - walk.base_offset
        # no larger than what the bounds allow, and one row more
        rows = min(MAX_ROW_COUNT, max(self.most_count, 1) + 1, size // MIN_RECORD_SIZE + 2)
        self.batch, self.table = new_batch(record_capacity=rows), QueueTable()
        self.begin(start)

    def begin(self, at: Reached) -> None:
        """Go on from a place that is sure."""
        self.sure = self.before = self.last = at
        self.cut: Reached | None = None

    @property
    def is_cut(self) -> bool:
        return self.cut is not None and self.sure.end_pos >= self.cut.end_pos

    @property
    def is_at_start(self) -> bool:
        """Whether nothing was taken yet."""
        return self.last.end_pos == self.start.end_pos

    def run(self) -> WalkedTail:
        walk, start = self.walk, self.start
        doubted = -1
        threaded = walk.settled and walk.reader.size - start.end_pos > THREADED_FROM
        with ReadAhead(walk.reader, start=start.end_pos, threaded=threaded) as window:
            while self.last.end_pos < walk.reader.size:
                stop = self.scan(window)
                if self.is_cut:
                    break
                pos = self.last.end_pos
                found = _newer_behind(walk, pos, stop, self.sure.newest_timestamp)
                if found is None:
                    self.cut = None
                    break
                if not walk.settled and doubted != pos:
                    doubted = pos
                    self.begin(self.sure)
                    continue
                if self.cut is None and not self.may_pass(found):
                    self.cut = self.last
                if self.cut is not None:
                    return WalkedTail(self.cut, True)
                self.begin(replace(self.last, end_pos=found))
        reached = self.sure if self.cut is None else self.cut
        if not walk.settled and reached.end_pos == self.sure.end_pos:
            reached = self.finished()
        return WalkedTail(reached, self.cut is not None, blank_end(walk, reached.end_pos))

    def scan(self, window: ReadAhead) -> Stop:
        """Take records until a run of them ends or enough of them are sure."""
        walk, batch, table = self.walk, self.batch, self.table
        scan = record_scanner(walk.reader.allocated_size)
        options = replace(walk.options, read_bodies=False)
        window.move_to(self.last.end_pos)
        stop = Stop.BATCH_FULL
        while stop == Stop.BATCH_FULL and not self.is_cut:
            batch.begin(0)
            stop = fill_batch(
                walk.reader, window, scan, walk.base_offset, walk.file_size, options, batch, table
            )
            if batch.record_count:
                self.take()
            elif stop == Stop.BATCH_FULL:
                raise ValueError("the batch has no room for one record with its keys and queues")
        return stop

    def take(self) -> None:
        """Take the records of the batch."""
        batch, last = self.batch, self.last
        ends = batch["pos"] + batch["total_size"]
        times = batch["store_timestamp"]
        believed = np.where(times > int(time.time() * 1000) + FUTURE_SIZE, -1, times)
        newest = np.maximum.accumulate(np.concatenate(([last.newest_timestamp], believed)))

        def at(row: int) -> Reached:
            return Reached(int(ends[row]), int(batch["pos"][row]), int(newest[row + 1]), last.count + row + 1)

        count = len(ends)
        if self.cut is None:
            allowed = self.allowed(ends)
            if allowed < count:
                self.cut = at(allowed - 1) if allowed else last
        is_sure = times >= newest[:-1] - self.walk.clock_step
        sure = [count - 1] if self.walk.settled else np.flatnonzero(is_sure)
        if len(sure):
            row = int(sure[-1])
            self.before = at(row - 1) if row else last
            self.sure = at(row)
        self.last = at(count - 1)

    def allowed(self, ends: NDArray[np.int64]) -> int:
        """How many of the rows that end at these positions the bounds allow."""
        most = max(self.most_count - self.last.count, 0)
        allowed = min(int(np.searchsorted(ends, self.size_end, "right")), most)
        if self.is_at_start:
            allowed = max(allowed, 1)
        return min(allowed, int(np.searchsorted(ends, self.until_pos, "right")))

    def may_pass(self, found: int) -> bool:
        """Whether the bounds allow the damage up to `found` to be taken."""
        return found <= self.until_pos and (self.is_at_start or found <= self.size_end)

    def finished(self) -> Reached:
        """The end, without the last record if that may not be all there yet."""
        pos, reader = self.sure.last_pos, self.walk.reader
        if pos < self.start.end_pos:
            return self.sure
        batch = read_record(self.walk, pos)
        if batch is None:
            return self.before
        end = pos + int(batch["total_size"][0])
        is_own = self.last.end_pos == end and may_begin_record(reader.read_upto(end, BLANK_HEADER_SIZE))
        has_crc = int(batch["traits"][0]) & Trait.PROPERTY_CRC
        return self.sure if is_own or has_crc or is_left_alone(reader) else self.before


def _newer_behind(walk: FileWalk, pos: int, stop: Stop, newest_timestamp: int) -> int | None:
    """Where the log continues after `pos`, at which there is no record; None if it is not known to."""
    if stop == Stop.LIMIT:
        return None
    begin = pos + (stop != Stop.ZERO)
    if stop == Stop.BLANK:
        if not walk.settled or blank_end(walk, pos) >= 0:
            return None
        begin = pos + BLANK_HEADER_SIZE
    end = walk.reader.size if walk.settled else begin + LOOK_AHEAD_SIZE
    with ReadAhead(walk.reader, start=begin, end=end, threaded=False) as window:
        ground = Ground(walk.reader, window, walk.base_offset, walk.file_size)
        for _ in range(MAX_CANDIDATES):
            found = ground.carve(begin, walk.base_offset)
            if found is None or walk.settled:
                return found
            timestamp = complete_timestamp(walk, found)
            if timestamp is not None and timestamp >= newest_timestamp - walk.clock_step:
                return found
            begin = found + 1
    return None
