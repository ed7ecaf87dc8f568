"""The first run of records of a large file by several threads, batch after batch in the order of the file.

The file is cut into pieces (`scan.threads.pieces`). Batches are given on as long as every piece begins where
the one before it ended: then they hold every record of the run, as one walk would find them. Where a piece
does not fit, holds damage, a record of many MiB or more than it may keep in memory, or cannot be read, there
are no further batches, and whoever asked continues alone from there.

Memory: a window of 1.5 MiB for each thread, and for each piece under way, one a thread and two more, at most
BATCHES_A_PIECE batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import StoreError
from rocketfsck.scan.columns import RecordBatch, new_batch
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import NO_ROW, QueueTable
from rocketfsck.scan.stops import Stop
from rocketfsck.scan.threads.inorder import in_order
from rocketfsck.scan.threads.pieces import PIECE_SIZE, Piece, Worker, pieces_of
from rocketfsck.store.reading import FileReader

BUFFER_SIZE = 3 << 19
SHARED_FROM = 2 * PIECE_SIZE
"""A run that cannot be longer is not worth the threads."""
BATCHES_A_PIECE = 12
MAX_THREADS = 8
SPARE_BATCHES = 12

_spare: deque[RecordBatch] = deque(maxlen=SPARE_BATCHES)
"""Batches of scans that are over, for the next one: to touch fresh memory costs as much as to fill it."""


@dataclass(frozen=True, slots=True)
class _Lent:
    """A full batch; the worker's table had `name_count` rows then."""

    batch: RecordBatch
    table: QueueTable
    name_count: int


class _Lender(Worker[_Lent]):
    """A worker that gives its batches away and fills those that come back."""

    def __init__(
        self, number: int, options: ScanOptions, reader: FileReader, idle: deque[RecordBatch]
    ) -> None:
        self.idle = idle
        super().__init__(number, options, self._lend, given=reader, buffer_size=BUFFER_SIZE)

    def _lend(self, batch: RecordBatch, base_offset: int) -> _Lent:  # noqa: ARG002
        return _Lent(batch, self.table, len(self.table))

    def new_batch(self) -> RecordBatch:
        for batches in (self.idle, _spare):
            try:
                return batches.pop()  # the last one used: it is the nearest to the processor
            except IndexError:
                continue
        return new_batch()

    def begin_batch(self) -> None:
        self.batch = self.new_batch()
        self.batch.begin(0)

    def close(self) -> None:
        super().close()
        self.idle.append(self.batch)

    def is_full(self, piece: Piece[_Lent]) -> bool:
        return len(piece.rows) >= BATCHES_A_PIECE


class _Rows:
    """The rows that one table's queues have in another, in the order in which they are met."""

    def __init__(self) -> None:
        self.rows: NDArray[np.int32] = np.full(1, NO_ROW, np.int32)  # the last is that of no queue, -1
        self.same = True

    def translate(self, lent: _Lent, names: list[tuple[bytes, int]], table: QueueTable) -> bool:
        """Number the batch's queues as `table` does; `names` begin with those met so far.

        False if the table has no room for them.
        """
        known, count = len(self.rows) - 1, lent.name_count
        if not len(table) and table.limits == lent.table.limits:
            table.begin_as(lent.table, names[:count])
        if count > known:
            turned_away = table.counts[3]
            more = [table.intern(topic, queue_id) for topic, queue_id in names[known:count]]
            if NO_ROW in more:
                table.counts[3] = turned_away  # whoever meets the records counts them
                return False
            self.rows = np.array([*self.rows[:-1].tolist(), *more, NO_ROW], np.int32)
            self.same = bool((self.rows[:-1] == np.arange(count)).all())
        if not self.same:
            for name in ("queue_index", "dispatch_queue"):
                column = lent.batch[name]
                column[:] = self.rows[column]
        return True


def piece_end(pos: int) -> int:
    """Where the piece ends that a file position is in."""
    return (pos // PIECE_SIZE + 1) * PIECE_SIZE


def shared_records(
    reader: FileReader, base_offset: int, options: ScanOptions, table: QueueTable, threads: int
) -> Iterator[RecordBatch]:
    """Yield the batches of the file's records from its first byte on, as long as the pieces fit together.

    A batch is good until the next step of the iteration. Raises nothing of its own: what cannot be read ends
    the batches, too.
    """
    if reader.size < SHARED_FROM or options.body_range is not None:
        return
    idle: deque[RecordBatch] = deque()
    tasks = list(pieces_of(0, reader.path, base_offset, reader.size, PIECE_SIZE))
    jobs = min(threads, MAX_THREADS)
    pieces = in_order(tasks, lambda number: _Lender(number, options, reader, idle), jobs=jobs)
    known: dict[int, _Rows] = {}
    last: RecordBatch | None = None  # it may still be looked at when this is over
    pos = 0
    with closing(pieces):
        for piece in _readable(pieces):
            if pos >= piece.task.end:
                continue  # of a record that covers the whole piece
            if piece.start != pos or piece.turned_away_count:
                return
            rows = known.setdefault(piece.table, _Rows())
            if piece.stop == Stop.NEED_BYTES:
                piece.rows[-1:] = []  # the run continues after it, and so may the batch
            for lent in piece.rows:
                if not rows.translate(lent, piece.names, table):
                    return
                last = lent.batch
                yield last
                idle.append(lent.batch)
            pos = piece.end
            if piece.stop != Stop.LIMIT:
                break
    _spare.extend(batch for batch in idle if batch is not last)


def _readable(pieces: Generator[Piece[_Lent], None, None]) -> Iterator[Piece[_Lent]]:
    """The pieces up to one that cannot be read: whoever continues alone says where, and why."""
    try:
        yield from pieces
    except StoreError:
        return
