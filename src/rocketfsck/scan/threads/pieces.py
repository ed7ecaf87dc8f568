"""Records of sound commit log files by several threads, each file in pieces, given back in log order.

A piece begins with the first record in it that knows its own place, and ends after the last one that begins
in it. Pieces that fit together are the file: if every piece begins where the one before it ended, the walk
has met every record, as one from the file's beginning would. Where they do not, or a piece stops for anything
but the file's end, or its times fall, whoever asked walks the file himself (`scan.log.live`): damage and
earlier lives of the log are judged in one place only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from rocketfsck.common.budget import job_count
from rocketfsck.formats.places import HEADER_SIZE
from rocketfsck.scan.columns import RecordBatch, new_batch
from rocketfsck.scan.log.headers import find_candidate
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.stops import Stop
from rocketfsck.scan.threads.inorder import in_order
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.reading import FileReader

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
            found = find_candidate(
                window.buffer, window.start, window.end, window.file_pos, base, base, file_size, reader.size
            )
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
            window.start, stop = self.scan(
                window.buffer,
                window.start,
                low,
                window.file_pos,
                piece.task.base_offset,
                file_size,
                self.options,
                batch,
                self.table,
            )
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
