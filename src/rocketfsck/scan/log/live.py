"""The live records of a commit log file: those of this life of the log, without a stale tail.

    file := live records and gaps, BLANK and filler | zeros | torn record | stale tail

Records behind damage are live; a run of records of an earlier life, and all that follows it, is a stale tail
(fault catalogue C3). Reference 6.6.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.queuetrack import RECENT_COUNT, QueueTracker, find_stale_row
from rocketfsck.scan.log.regions import Region, RegionKind
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.reading import FileReader


class LiveScan:
    """One walk over a log file that yields its live records; `end_pos` grows with it.

    `end_pos` is the file position after the last live record or BLANK met so far; `stale_pos` is where a
    stale tail begins, if one does; `damaged` says whether bytes that are not a record lie before live ones.
    """

    __slots__ = ("_gap_pos", "_newest", "_recent", "_tracker", "damaged", "end_pos", "stale_pos")

    def __init__(self) -> None:
        self.end_pos = 0
        self.stale_pos: int | None = None
        self.damaged = False
        self._gap_pos: int | None = None
        self._tracker = QueueTracker()
        self._newest: int | None = None
        self._recent: list[int] = []

    def copy(self) -> LiveScan:
        """The same state, for a walk that continues from the end of the last batch."""
        other = LiveScan()
        other.end_pos, other.stale_pos, other.damaged = self.end_pos, self.stale_pos, self.damaged
        other._gap_pos, other._newest, other._recent = self._gap_pos, self._newest, self._recent
        other._tracker = self._tracker.copy()
        return other

    def batches(
        self,
        reader: FileReader,
        base_offset: int,
        options: ScanOptions,
        table: QueueTable,
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
        newest = int(times.max())
        self._newest = newest if self._newest is None else max(self._newest, newest)
        self._recent = [*self._recent, *times[-RECENT_COUNT:].tolist()][-RECENT_COUNT:]
        if after_gap:
            self.damaged, self._gap_pos = True, None
        self.end_pos = int(batch["pos"][-1]) + int(batch["total_size"][-1])
        return True
