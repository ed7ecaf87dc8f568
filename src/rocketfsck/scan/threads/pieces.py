"""Records of sound commit log files by several threads, each file in pieces, given back in log order.

A piece begins with the first record in it that knows its own place, and ends after the last one that begins
in it. Pieces that fit together are the file: if every piece begins where the one before it ended, the walk
has met every record, as one from the file's beginning would. Where they do not, or a piece stops for anything
but the file's end, or its times fall, whoever asked walks the file himself (`scan.log.live`): damage and
earlier lives of the log are judged in one place only.

Tasks done by several threads, whose results come in the order of the tasks.

The first run of records of a large file by several threads, batch after batch in the order of the file.

The file is cut into such pieces. Batches are given on as long as every piece begins where
the one before it ended: then they hold every record of the run, as one walk would find them. Where a piece
does not fit, holds damage, a record of many MiB or more than it may keep in memory, or cannot be read, there
are no further batches, and whoever asked continues alone from there.

Memory: a window of 1.5 MiB for each thread, and for each piece under way, one a thread and two more, at most
BATCHES_A_PIECE batches.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.budget import current, job_count, using
from rocketfsck.errors import StoreError
from rocketfsck.formats.columns import HEADER_SIZE
from rocketfsck.progress import asked_here, stoppable
from rocketfsck.scan.columns import RecordBatch, new_batch
from rocketfsck.scan.log.resync import find_candidate
from rocketfsck.scan.options import ScanOptions, Stop
from rocketfsck.scan.queues import NO_ROW, QueueTable
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.reading import FileReader

AHEAD = 2
"""Results that may wait to be taken, besides one for each thread."""

Task = TypeVar("Task")
Asked = TypeVar("Asked", contravariant=True)
Done = TypeVar("Done")
Given = TypeVar("Given", covariant=True)


class TaskWorker(Protocol[Asked, Given]):
    """What one thread works with, from task to task."""

    def run(self, task: Asked) -> Given: ...

    def close(self) -> None: ...


def in_order(
    tasks: Sequence[Task], new_worker: Callable[[int], TaskWorker[Task, Done]], *, jobs: int
) -> Generator[Done, None, None]:
    """Do all tasks on `jobs` threads and yield their results in order; one job takes no thread.

    At most `jobs` + AHEAD results are in memory. Workers are numbered from 1 on, and each does its tasks in
    order. An error of a task is raised here, when it is the task's turn. No task starts after that, nor after
    the iteration was left.
    """
    workers: list[TaskWorker[Task, Done]] = []
    # a thread takes tasks in order; a worker that threads hand on may not get them so
    own = threading.local()
    numbers = count(1)
    ask, budget = asked_here(), current()

    def work(task: Task) -> Done:
        worker: TaskWorker[Task, Done] | None = getattr(own, "worker", None)
        if worker is None:
            worker = own.worker = new_worker(next(numbers))
            workers.append(worker)
        with stoppable(ask), using(budget):
            return worker.run(task)

    try:
        if jobs <= 1:
            yield from map(work, tasks)
        elif tasks:
            yield from _on_threads(tasks, work, jobs)
    finally:
        for worker in workers:
            worker.close()


def _on_threads(
    tasks: Sequence[Task], work: Callable[[Task], Done], jobs: int
) -> Generator[Done, None, None]:
    with ThreadPoolExecutor(min(jobs, len(tasks)), "rocketfsck-scan") as pool:
        pending: deque[Future[Done]] = deque()
        waiting = iter(tasks)
        try:
            while True:
                room = jobs + AHEAD - len(pending)
                pending.extend(pool.submit(work, task) for task in islice(waiting, room))
                if not pending:
                    return
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


PIECE_SIZE = 16 << 20
BUFFER_SIZE = 512 << 10
"""So small that what was read is still near the processor when its bodies are stepped over."""
BEHIND_SIZE = 32 << 10
"""Read behind a piece before it is known where its last record ends."""
NOWHERE = -1

Rows = TypeVar("Rows")
Taker = Callable[[RecordBatch, int], Rows]
"""Makes of a batch, which is reused, and the base offset of its file what is kept of it."""


@dataclass(frozen=True, slots=True)
class PieceTask:
    """File positions `start:end` of the file `path`, whose first byte is at `base_offset` in the log."""

    file: int
    path: str
    base_offset: int
    start: int
    end: int


@dataclass(slots=True)
class Piece(Generic[Rows]):
    """The records that begin in a task's range. `start` is NOWHERE if none does.

    `end` is where the walk stopped and `stop` why (LIMIT: at the end of the piece). `falls`: a time is less
    than one before it in the piece. Queue rows are those of the table `table`, of which `names` gives the
    first `name_count`; `turned_away_count` records name queues for which it has no room.
    """

    task: PieceTask
    start: int = NOWHERE
    end: int = NOWHERE
    stop: Stop = Stop.LIMIT
    rows: list[Rows] = field(default_factory=list)
    record_count: int = 0
    falls: bool = False
    least_time: int = (1 << 63) - 1
    newest_time: int = -(1 << 63)
    last_pos: int = NOWHERE
    last_time: int = 0
    table: int = 0
    names: list[tuple[bytes, int]] = field(default_factory=list)
    name_count: int = 0
    turned_away_count: int = 0


class Worker(Generic[Rows]):
    """What a thread keeps from piece to piece: its buffers, its table, the file it has open.

    Where a `given` reader is shared by all, it belongs to whoever gave it.
    """

    def __init__(
        self,
        number: int,
        options: ScanOptions,
        take: Taker[Rows],
        *,
        given: FileReader | None = None,
        buffer_size: int = BUFFER_SIZE,
    ) -> None:
        from rocketfsck.scan.compiled import records as kernels

        self.number = number
        self.options = options
        self.take = take
        self.given = given
        self.buffer_size = buffer_size
        self.scan = kernels.scan_records
        self.batch = self.new_batch()
        self.table = QueueTable()
        self.reader: FileReader | None = None
        self.window: ReadAhead | None = None

    def close(self) -> None:
        """End the work; nobody can use the worker afterwards."""
        self._leave_file()

    def _leave_file(self) -> None:
        if self.window is not None:
            self.window.close()
        if self.reader is not None and self.given is None:
            self.reader.close()
        self.reader = self.window = None

    def run(self, task: PieceTask) -> Piece[Rows]:
        reader, window = self._open(task.path)
        if window.front_size:  # else a single read takes the whole file
            window.size = min(task.end + BEHIND_SIZE, reader.size)
        piece: Piece[Rows] = Piece(task)
        file_size = max(self.options.file_size, reader.size)
        pos = 0 if task.start == 0 else self._first(reader, window, task, file_size)
        turned_away = self.table.turned_away_count
        if pos != NOWHERE:
            piece.start = pos
            self._walk(reader, window, piece, file_size)
        piece.table, piece.names, piece.name_count = self.number, self.table.names, len(self.table)
        piece.turned_away_count = self.table.turned_away_count - turned_away
        return piece

    def _open(self, path: str) -> tuple[FileReader, ReadAhead]:
        if self.reader is None or self.window is None or self.reader.path != path:
            self._leave_file()
            self.reader = self.given or FileReader(path)
            self.window = ReadAhead(self.reader, buffer_size=self.buffer_size, threaded=False)
        return self.reader, self.window

    def _first(self, reader: FileReader, window: ReadAhead, task: PieceTask, file_size: int) -> int:
        """Where the first record, or the BLANK, of the piece begins."""
        has_holes = reader.allocated_size < reader.size
        if has_holes and next(reader.data_extents(task.start, task.end), None) is None:
            return NOWHERE
        base = task.base_offset
        window.move_to(task.start)
        while window.file_pos + window.start < task.end:
            given = window.start, window.end, window.file_pos
            found = find_candidate(window.buffer, *given, base, base, file_size, reader.size)
            if found >= 0:
                return window.file_pos + found if window.file_pos + found < task.end else NOWHERE
            window.start = max(window.start, window.end - HEADER_SIZE + 1)
            if not window.extend():
                break
        return NOWHERE

    def _walk(self, reader: FileReader, window: ReadAhead, piece: Piece[Rows], file_size: int) -> None:
        batch, end = self.batch, piece.task.end
        window.move_to(piece.start)
        batch.begin(0)
        limit = end  # file position that the kernel may read up to
        while True:
            low = min(window.end, max(limit - window.file_pos, window.start))
            place = (window.start, low, window.file_pos, piece.task.base_offset, file_size)
            window.start, stop = self.scan(window.buffer, *place, self.options, batch, self.table)
            pos = window.file_pos + window.start
            if stop == Stop.BATCH_FULL and batch.record_count:
                self._drain(piece)
                if self.is_full(piece):
                    break
                batch = self.batch
                continue
            if stop not in (Stop.LIMIT, Stop.NEED_BYTES) or pos >= end:
                break
            if window.end - window.start >= 8 and low < window.end:
                # a record that begins in the piece and ends after it
                size = int.from_bytes(window.buffer[window.start : window.start + 4].tobytes(), "big")
                limit = pos + max(size, 8)
                window.size = min(max(window.size, limit), reader.size)
                if limit <= window.file_pos + window.end:
                    continue
            if not window.extend():
                stop = Stop.NEED_BYTES if pos < reader.size else Stop.LIMIT
                break
        self._drain(piece)
        piece.end, piece.stop = pos, Stop.LIMIT if pos >= end else stop

    def _drain(self, piece: Piece[Rows]) -> None:
        batch = self.batch
        if batch.record_count:
            times = batch["store_timestamp"]
            least, newest = int(times.min()), int(times.max())
            falls = bool((times[1:] < times[:-1]).any()) or int(times[0]) < piece.newest_time
            piece.falls = piece.falls or falls
            piece.least_time = min(piece.least_time, least)
            piece.newest_time = max(piece.newest_time, newest)
            piece.last_pos, piece.last_time = int(batch["pos"][-1]), int(times[-1])
            piece.record_count += batch.record_count
            piece.rows.append(self.take(batch, piece.task.base_offset))
            self.begin_batch()

    def new_batch(self) -> RecordBatch:
        """An empty batch to begin with."""
        return new_batch()

    def begin_batch(self) -> None:
        """Make room for further records, after those in the batch have been taken."""
        self.batch.begin(0)

    def is_full(self, piece: Piece[Rows]) -> bool:  # noqa: ARG002
        """Whether the piece must end here, although there are further records."""
        return False


def scan_pieces(
    tasks: Sequence[PieceTask], options: ScanOptions, take: Taker[Rows]
) -> Generator[Piece[Rows], None, None]:
    """Scan all pieces on all threads and yield them in order; as many, and two, are in memory at most.

    Raises StoreError where a file cannot be read.
    """
    yield from in_order(tasks, lambda number: Worker(number, options, take), jobs=job_count())


def pieces_of(file: int, path: str, base_offset: int, size: int, piece_size: int = 0) -> Iterator[PieceTask]:
    """The tasks for one file, in order; a `piece_size` of 0 stands for PIECE_SIZE."""
    step = piece_size or PIECE_SIZE
    for start in range(0, size, step):
        yield PieceTask(file, path, base_offset, start, min(start + step, size))


def times_fall(piece: Piece[Rows], newest_before: int | None) -> bool:
    """Whether any time of the piece is before the newest one of the records in front of it."""
    return piece.falls or (newest_before is not None and piece.least_time < newest_before)


SHARED_BUFFER_SIZE = 3 << 19
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
        super().__init__(number, options, self._lend, given=reader, buffer_size=SHARED_BUFFER_SIZE)

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
