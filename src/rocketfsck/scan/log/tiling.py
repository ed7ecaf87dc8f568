"""A commit log file as record batches and regions: the walk that never ends silently.

    file := run* ; run := RECORDS? then one of
            BLANK FILLER? | ZERO | MALFORMED | DAMAGED | TORN

In a file of DLedger's, the headers of entries belong to the records after them (`scan.plain.entries`).

Every byte is in exactly one region. A run of records continues as long as frames are sound; where one is not:

- A totalSize that leads to something sound (the next record or the BLANK) frames it: MALFORMED; not so if
  it leads over sound records on the way there.
- Else the file is carved from there for a sound record that knows its own place, or a BLANK that fits; what
  is skipped is DAMAGED and a new run begins (fault catalogue, C2).
- Else nothing sound follows. If a record started here and only zeros follow it, it is TORN (C1);
  otherwise its bytes up to the last that is not zero are DAMAGED. The rest is ZERO.

A BLANK whose totalSize is not what is left of the file says so (Reason.BLANK_SIZE); records after it are
still looked for. Reference 2.8, 2.15, 6.2.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from rocketfsck.common.budget import current
from rocketfsck.formats.dtypes import Bytes
from rocketfsck.formats.magic import MIN_RECORD_SIZE
from rocketfsck.progress import moved_to
from rocketfsck.scan.columns import RecordBatch, batch_for
from rocketfsck.scan.log.large import append_large_record, read_large_record
from rocketfsck.scan.log.resync import REASON_OF_STOP, Ground, Region, RegionKind
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.options import ScanOptions, Stop
from rocketfsck.scan.plain import records as plain
from rocketfsck.scan.plain.entries import after_entry, record_pos
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.threads.pieces import piece_end, shared_records
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.reading import FileReader

NO_END = 1 << 62
SIZE_SIZE = 4
"""The totalSize in front of a record."""


RecordScanner = Callable[
    [Bytes, int, int, int, int, int, ScanOptions, RecordBatch, QueueTable], tuple[int, Stop]
]
"""What `plain.scan_records` and the compiled kernel of the same name are."""


def scan_log_file(
    reader: FileReader,
    base_offset: int,
    options: ScanOptions,
    table: QueueTable,
    *,
    batch: RecordBatch | None = None,
    source: ReadAhead | None = None,
    start: int = 0,
    start_base: int | None = None,
) -> Generator[RecordBatch | Region, None, None]:
    """Yield the batches of every run of records, and after each run its region and those up to the next.

    `base_offset` is the physical offset of the file's first byte. Regions come in file order and tile the
    file exactly. **The batch is reused**: its rows are good only until the next step of the iteration;
    `batch.run` is the `run` of the region that they belong to. `batch` and `source` let a caller that scans
    many files reuse the memory or choose its size. Regions tile the file from the position `start` on, where
    a record begins or the log ends; `start_base` is what the records in front of it counted their
    physicalOffset from, if not the file's own. By kernels (`jit.compiled_wanted`) a large file's first run is
    scanned on as many threads as the budget has for a file (`scan.threads.pieces`): then the batch is not
    always the same object. Batches end where they are full, and at the ends of pieces, however many threads
    there are. Raises StoreError when bytes cannot be read.
    """
    scanner, threads = record_scanner(reader.allocated_size), current().file_threads
    rows = batch_for(reader.size) if batch is None else batch
    file_size = max(options.file_size, reader.size)
    with source or ReadAhead(reader) as window:
        ground = Ground(reader, window, base_offset, file_size, in_entries=options.in_entries)
        run_number, other_base, pos = 0, base_offset if start_base is None else start_base, start
        while pos < reader.size:
            count, stop, start = 0, Stop.BATCH_FULL, pos
            if threads > 1 and scanner is not plain.scan_records and pos == 0 and not options.in_entries:
                for found in shared_records(reader, base_offset, options, table, threads):
                    start, other_base = _behind(found)
                    count += found.record_count
                    moved_to(start)
                    yield found
            rows.begin(run_number)
            window.move_to(start)
            while stop == Stop.BATCH_FULL:
                until = NO_END if options.in_entries else piece_end(window.file_pos + window.start)
                stop = fill_batch(
                    reader, window, scanner, base_offset, file_size, options, rows, table, until=until
                )
                if rows.record_count:
                    _, other_base = _behind(rows)
                    count += rows.record_count
                    moved_to(window.file_pos + window.start)
                    yield rows
                    rows.begin(run_number)
                elif stop == Stop.BATCH_FULL:
                    raise ValueError("the batch has no room for one record with all its keys and queues")
            end = window.file_pos + window.start
            if count:
                yield Region(pos, end, RegionKind.RECORDS, REASON_OF_STOP[stop], count, run_number)
                run_number += 1
            pos = end
            if stop != Stop.LIMIT:
                for region in ground.between(pos, stop, other_base):
                    moved_to(region.end)
                    yield region
                    pos = region.end


def fill_batch(
    reader: FileReader,
    window: ReadAhead,
    scanner: RecordScanner,
    base_offset: int,
    file_size: int,
    options: ScanOptions,
    batch: RecordBatch,
    table: QueueTable,
    *,
    until: int = NO_END,
) -> Stop:
    """Scan from the window's start until the batch is full or the run ends; the window's start is where.

    No record is taken that begins at the file position `until`, which is behind the window's start, or later:
    the batch counts as full there. Also for those who walk a file by other rules than `scan_log_file`, e.g. a
    broker's.
    """
    limit = until  # file position that the scanner may read up to
    while True:
        end = min(window.end, max(limit - window.file_pos, window.start))
        place = (window.start, end, window.file_pos, base_offset, file_size)
        asked = options.at(window.file_pos + window.start, window.window_end)
        window.start, stop = scanner(window.buffer, *place, asked, batch, table)
        if stop not in (Stop.LIMIT, Stop.NEED_BYTES):
            return stop
        if window.file_pos + window.start >= until:
            return Stop.BATCH_FULL
        if end < window.end and window.end - window.start >= SIZE_SIZE:
            record_end = _record_end(window)
            limit = record_end if record_end > limit else NO_END
            continue
        if window.extend():
            continue
        if stop == Stop.LIMIT or window.window_end >= reader.size:
            return stop
        pos = window.file_pos + window.start
        if options.in_entries:
            behind = after_entry(reader, pos)
            if behind > pos:
                window.move_to(behind)
                continue
            pos = record_pos(reader, pos)
        record = read_large_record(reader, pos, file_size)
        if isinstance(record, Stop):
            return record
        asked = options.at(pos, pos + record.total_size)
        if not append_large_record(reader, record, base_offset, file_size, asked, batch, table):
            return Stop.BATCH_FULL
        window.move_to(pos + record.total_size)


def _behind(batch: RecordBatch) -> tuple[int, int]:
    """Where a batch's last record ends in the file, and what it counts its physicalOffset from."""
    names = ("pos", "total_size", "physical_offset")
    pos, size, physical_offset = (int(batch[name][-1]) for name in names)
    return pos + size, physical_offset - pos


def _record_end(window: ReadAhead) -> int:
    """The file position behind the record at the window's start; NO_END for what can be none."""
    size = int.from_bytes(window.buffer[window.start : window.start + SIZE_SIZE].tobytes(), "big")
    return window.file_pos + window.start + size if size >= MIN_RECORD_SIZE else NO_END


def record_scanner(total_bytes: int = 0) -> RecordScanner:
    """The scanner of records, compiled or plain, whichever is wanted for so many bytes."""
    if not compiled_wanted(total_bytes):
        return plain.scan_records
    from rocketfsck.scan.compiled import records as kernels

    return kernels.scan_records
