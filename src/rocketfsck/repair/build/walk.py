"""One pass over the commit log that feeds whoever builds from it: queues, index, or both.

Files come in the order of their names, records in the order of the log, stale tails left out (fault
catalogue, C3); after damage the walk continues at the next sound record (C2). Sound files are read by all
threads, in pieces (`scan.threads.pieces`); one that is not is walked once more, alone. Keys are taken on a
thread of their own. Memory: some 64 MiB a thread for the pieces under way, and what the takers say of theirs.

Keys taken on a thread of their own, in order, with few batches in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from rocketfsck.common.budget import job_count, within
from rocketfsck.formats import dtypes, magic, properties, record, timer
from rocketfsck.progress import Phase, moved_to, phase
from rocketfsck.repair.build.queuestates import RawNames
from rocketfsck.scan.columns import Fault, RecordBatch
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.log.resync import Ground
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.options import ScanOptions, Stop, log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.threads.pieces import NOWHERE, Piece, pieces_of, scan_pieces, times_fall
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.scan.units import OFFSET, ROW_SIZE, SKIPPED, KeyRows, key_rows, rows_from, unit_rows
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.reading import FileReader

WAITING_COUNT = 4
"""Batches that may wait to be taken."""


class KeyTaker(Protocol):
    """Whoever wants the records and their keys."""

    def take_keys(self, rows: KeyRows) -> None:
        """Take records and their keys."""


class KeyThread:
    """A context manager around a taker; `threaded` says whether it works on its own thread.

    What the taker raises, `take`, `wait` or the end of the block raises.
    """

    __slots__ = ("_pool", "_taker", "_waiting")

    def __init__(self, taker: KeyTaker | None, *, threaded: bool) -> None:
        self._taker = taker
        self._pool = ThreadPoolExecutor(1, "rocketfsck-keys") if taker is not None and threaded else None
        self._waiting: deque[Future[None]] = deque()

    @property
    def wanted(self) -> bool:
        """Whether there is anybody who wants keys."""
        return self._taker is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.wait()
        finally:
            if self._pool is not None:
                self._pool.shutdown(cancel_futures=True)

    def take(self, rows: KeyRows) -> None:
        """Hand rows over."""
        if self._taker is None:
            return
        if self._pool is None:
            self._taker.take_keys(rows)
            return
        while len(self._waiting) > WAITING_COUNT:
            self._take_oldest()
        self._waiting.append(self._pool.submit(self._taker.take_keys, rows))

    def wait(self) -> None:
        """Until everything is taken."""
        while self._waiting:
            self._take_oldest()

    def _take_oldest(self) -> None:
        """Wait for the oldest batch; where it failed, those that wait are not taken any more."""
        try:
            self._waiting.popleft().result()
        except BaseException:
            for future in self._waiting:
                future.cancel()
            self._waiting.clear()
            raise


SKIPPED_TABLE = 1 << 40
"""Number of the walk's own table of names, besides those of the scans."""


class UnitTaker(Protocol):
    """Whoever wants the dispatches of the log."""

    def take_units(self, rows: dtypes.Longs, table: int, raw_names: RawNames, name_count: int) -> None:
        """Take rows (`buildrows.unit_rows`) whose queues are rows of a table of names, known as `table`."""


@dataclass(slots=True)
class LogWalked:
    """What has been read: live records, where the log ends, files with damage.

    `unfollowed_count` records name queues for which the table of names had no room. `file_count` files are
    done. `last_offset` is where the last record stands, `last_timestamp` its storeTimestamp (ms).
    """

    file_count: int = 0
    record_count: int = 0
    end_offset: int = 0
    last_offset: int = 0
    last_timestamp: int = 0
    damaged_files: list[str] = field(default_factory=list)
    unfollowed_count: int = 0


@dataclass(frozen=True, slots=True)
class _BatchRows:
    """What is kept of a batch: its dispatches and its keys, where they are wanted."""

    units: dtypes.Longs | None
    keys: KeyRows | None
    skipped: tuple[tuple[str, int], ...] = ()  # light queues without a unit for a record, and where that is


def log_is_large(store: Store) -> bool:
    """Whether compiled kernels are worth their start for this log."""
    return compiled_wanted(sum(file.allocated_size for file in store.commitlog.files))


def walk_log(
    store: Store,
    *,
    units: UnitTaker | None = None,
    keys: KeyTaker | None = None,
    walked: LogWalked | None = None,
    after_file: Callable[[LogWalked], None] | None = None,
) -> LogWalked:
    """Feed every live record to the takers, from file number `walked.file_count` on.

    `after_file` is called when everything of a file has been taken. Raises StoreError where the log cannot be
    read, and what the takers raise.
    """
    done, compiled = LogWalked() if walked is None else walked, log_is_large(store)
    with (
        within(compiled=compiled),
        phase("reading the commit log", store.commitlog.size, done=_size_of(store, done.file_count)) as at,
        KeyThread(keys, threaded=compiled) as key_thread,
    ):
        walk = _Walk(store, units, key_thread, at, done)
        for _ in walk.files():
            done.file_count += 1
            if after_file is not None:
                key_thread.wait()
                after_file(done)
    return done


def _size_of(store: Store, file_count: int) -> int:
    """The bytes of the first files of the log."""
    return sum(file.size for file in store.commitlog.files[:file_count])


class _Walk:
    """One pass: what it reads with, and how far it is."""

    def __init__(
        self,
        store: Store,
        units: UnitTaker | None,
        keys: KeyThread,
        at: Phase,
        done: LogWalked,
    ) -> None:
        self.store = store
        self.units = units
        self.keys = keys
        self.at = at
        self.done = done
        self.options = ScanOptions(
            False,
            store.dialect.property_parser,
            store.geometry.commitlog_file_size,
            index_tags=store.dialect.tag_entries,
        )
        self.levels = timer.parse_delay_levels(store.delay_levels)
        self.table = QueueTable()
        self.before = _size_of(store, done.file_count)
        self.light_names: list[tuple[bytes, int]] = []
        self.light_numbers: dict[str, int] = {}

    def files(self) -> Iterator[None]:
        """Walk file after file, and stop behind each."""
        left = self.store.commitlog.files[self.done.file_count :]
        if job_count() == 1 or self.store.has_entries or not compiled_wanted():
            for file in left:
                self.walk_alone(file, 0)
                self._end(file)
                yield
            return
        tasks = [
            task
            for number, file in enumerate(left)
            for task in pieces_of(number, file.location, file.start_offset or 0, file.size)
        ]
        pieces = scan_pieces(tasks, self.options, self._take)
        try:
            found = next(pieces, None)
            for number, file in enumerate(left):
                join = _Join(self, file)
                while found is not None and found.task.file == number:
                    join.add(found)
                    found = next(pieces, None)
                self._end(file)
                yield
        finally:
            pieces.close()

    def _end(self, file: MappedFile) -> None:
        self.before += file.size
        self.tell(0)

    def tell(self, pos: int) -> None:
        """Report how far the walk is in the file."""
        self.at.at(self.before + pos)
        moved_to(self.before + pos)  # where the walk is a piece of other work

    def _take(self, batch: RecordBatch, base_offset: int) -> _BatchRows:
        return _BatchRows(
            None if self.units is None else unit_rows(batch, base_offset, self.levels),
            key_rows(batch, base_offset) if self.keys.wanted else None,
            () if self.units is None else self._skipped(batch, base_offset),
        )

    def _skipped(self, batch: RecordBatch, base_offset: int) -> tuple[tuple[str, int], ...]:
        """The light queues that records have a number in, but no unit (`formats.properties`)."""
        rows = np.flatnonzero((batch["faults"] & int(Fault.MULTI_DISPATCH)) != 0)
        file = next((file for file in self.store.commitlog.files if file.start_offset == base_offset), None)
        if not len(rows) or file is None:
            return ()
        with FileReader(file.location) as reader:
            found = [
                (name, base_offset + int(batch["pos"][row]))
                for row in rows.tolist()
                for name in properties.skipped_by(
                    reader.read(int(batch["properties_pos"][row]), max(int(batch["properties_size"][row]), 0))
                )
                or ()
            ]
        return tuple(found)

    def give(self, rows: _BatchRows, table: int, names: RawNames, name_count: int) -> None:
        """Hand rows to the takers."""
        if self.units is not None and rows.skipped:
            self.units.take_units(
                self._skipped_rows(rows.skipped), SKIPPED_TABLE, self.light_names, len(self.light_names)
            )
        if self.units is not None and rows.units is not None:
            self.units.take_units(rows.units, table, names, name_count)
        if rows.keys is not None:
            self.keys.take(rows.keys)

    def _skipped_rows(self, skipped: Iterable[tuple[str, int]]) -> dtypes.Longs:
        made = []
        for name, offset in skipped:
            number = self.light_numbers.setdefault(name, len(self.light_numbers))
            if number == len(self.light_names):
                self.light_names.append((name.encode("utf-8", "surrogatepass"), 0))
            made.append((number, 0, 0, 0, offset, 0, 0, 0, SKIPPED))
        return np.array(made, np.int64).reshape(-1, ROW_SIZE)

    def walk_alone(self, file: MappedFile, start: int) -> None:
        """Walk a whole file on this thread and take the records from position `start` on."""
        base, live = file.start_offset or 0, LiveScan()
        turned_away = self.table.turned_away_count
        with FileReader(file.location) as reader:
            options = log_options(self.store, file, read_bodies=False, index_tags=True)
            for batch in live.batches(reader, base, options, self.table):
                count = int(np.count_nonzero(batch["pos"] >= start))
                if not count:
                    continue
                self.done.last_offset = base + int(batch["pos"][-1])
                self.done.last_timestamp = int(batch["store_timestamp"][-1])
                rows = self._take(batch, base)
                if count < batch.record_count:
                    rows = _rows_from(rows, base + start)
                self.done.record_count += count
                self.give(rows, 0, self.table.names, len(self.table))
                self.tell(live.end_pos)
        if live.damaged:
            self.done.damaged_files.append(file.relative)
        if live.end_pos:
            self.done.end_offset = base + live.end_pos
        self.done.unfollowed_count += self.table.turned_away_count - turned_away


class _Join:
    """The pieces of one file, as long as they fit together."""

    def __init__(self, walk: _Walk, file: MappedFile) -> None:
        self.walk = walk
        self.file = file
        self.pos = 0  # everything before this is taken
        self.finished = False
        self.newest: int | None = None

    def add(self, piece: Piece[_BatchRows]) -> None:
        """Take the next piece, or walk the file alone from where the pieces do not fit."""
        if self.finished or self.pos >= piece.task.end:
            return  # a record covers the whole piece, or it is not log any more
        if piece.start == NOWHERE and self._is_zero_from(self.pos):
            self.finished = True
            return
        if piece.start != self.pos or times_fall(piece, self.newest):
            self._give_up()
            return
        if piece.stop not in (Stop.LIMIT, Stop.BLANK, Stop.ZERO) or not self._continues(piece):
            self._give_up()
            return
        for rows in piece.rows:
            self.walk.give(rows, piece.table, piece.names, piece.name_count)
        self.pos = piece.end
        self.walk.done.unfollowed_count += piece.turned_away_count
        if piece.record_count:
            self.newest = piece.newest_time
            self.walk.done.last_offset = piece.task.base_offset + piece.last_pos
            self.walk.done.last_timestamp = piece.last_time
            self.walk.done.record_count += piece.record_count
        end = self.pos + (magic.BLANK_HEADER_SIZE if piece.stop == Stop.BLANK else 0)
        if piece.record_count or piece.stop == Stop.BLANK:
            self.walk.done.end_offset = piece.task.base_offset + end
        self.finished = piece.stop != Stop.LIMIT
        self.walk.tell(self.pos)

    def _continues(self, piece: Piece[_BatchRows]) -> bool:
        """Whether what follows the piece is as it should be: a piece, a BLANK that fits, or zeros."""
        if piece.stop == Stop.LIMIT:
            return True
        if piece.stop == Stop.ZERO:
            return self._is_zero_from(piece.end)
        with FileReader(self.file.location) as reader:
            total_size, _ = record.read_frame(reader.read(piece.end, magic.BLANK_HEADER_SIZE))
            return total_size in (reader.size - piece.end, self._file_size(reader) - piece.end)

    def _is_zero_from(self, pos: int) -> bool:
        with FileReader(self.file.location) as reader, ReadAhead(reader, threaded=False) as window:
            base, size = self.file.start_offset or 0, self._file_size(reader)
            ground = Ground(reader, window, base, size)
            return ground.first_nonzero(pos) >= reader.size

    def _file_size(self, reader: FileReader) -> int:
        return max(self.walk.options.file_size, reader.size)

    def _give_up(self) -> None:
        self.walk.walk_alone(self.file, self.pos)
        self.finished = True


def _rows_from(rows: _BatchRows, offset: int) -> _BatchRows:
    units = rows.units
    return _BatchRows(
        None if units is None else units[units[:, OFFSET] >= offset],
        None if rows.keys is None else rows_from(rows.keys, offset),
        tuple(item for item in rows.skipped if item[1] >= offset),
    )
