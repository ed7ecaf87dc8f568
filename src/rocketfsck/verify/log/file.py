"""Checks of one commit log file: the scan's records and regions, and all that refers to them.

    scan -> batch of records -> live or stale? -> rules on records, queue offsets, times, transactions
                                               -> units of the same records, index entries of the same keys
         -> region           -> what lies between and behind live records
    -> LogSummary           -> crossfiles, crossqueues, crossindex: what only several files tell

Reference 2, 6.6, 9.2.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.budget import within
from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats import dtypes, magic, properties
from rocketfsck.reader.records import LogReader, is_fence_topic
from rocketfsck.scan.columns import Fault, RecordBatch, Trait
from rocketfsck.scan.log.live import UNKNOWN, QueueRows, QueueTracker, find_stale_row
from rocketfsck.scan.log.resync import Region, RegionKind
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.options import log_options
from rocketfsck.scan.spans import distinct
from rocketfsck.scan.units import Dispatches, dispatches_of
from rocketfsck.store.elsewhere import has_queue_database
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Facts, Where
from rocketfsck.verify.index.entryfeed import LogEntryFeed
from rocketfsck.verify.index.entryjoin import KeyJoin
from rocketfsck.verify.log.bodies import BodyCheck, Clocks
from rocketfsck.verify.log.recordrules import check_faults, check_version
from rocketfsck.verify.log.regions import LiveRows, RegionJudge
from rocketfsck.verify.log.result import LogResult, LogSummary, QueueSpan, extended
from rocketfsck.verify.queues.unitjoin import UnitJoin, delay_levels_of
from rocketfsck.verify.queues.unitranges import MAX_NAMES, KnownQueues, UnitRanges
from rocketfsck.verify.tasks.task import Checked, Collector, LogFacts, LogFileTask, QueueEnd, add_rows

PREPARED_LIMIT = 2000
"""Half messages outside the batch that are looked up one by one in a file."""


def check_log_file(task: LogFileTask) -> LogResult:
    """Check `store.commitlog.files[index]`, or what is new in it. Facts: one LogFacts.

    At the level `quick` nothing of the content is looked at. Raises StoreError where it cannot be read.
    """
    if task.context.level == "quick":
        return LogResult(checked=Checked(1, 0))
    file = task.context.store.commitlog.files[task.index]
    known = task.known
    with (
        FileReader(file.path) as reader,
        within(compiled=compiled_wanted(max(task.context.data_size, reader.allocated_size))),
    ):
        if known is not None:
            new = _LogWalk(task, reader, task.context.collector(), known.summary.live_end).run()
            if (longer := extended(known, new)) is not None:
                return longer
        return _LogWalk(task, reader, task.context.collector()).run()


class _LogWalk:
    """One pass over one file, from the position `start` on."""

    def __init__(self, task: LogFileTask, reader: FileReader, collector: Collector, start: int = 0) -> None:
        self.start = start
        context = task.context
        store = context.store
        self.context = context
        self.reader = reader
        self.collector = collector
        self.file = store.commitlog.files[task.index]
        self.table = context.shared.made(KnownQueues, store).new_table()
        self.full = context.level == "full"
        self.parser = store.dialect.property_parser
        file, self.base = self.file, self.file.start_offset or 0
        self.judge = RegionJudge(file.relative, self.base, reader, collector, file.in_entries)
        self.clocks = Clocks()
        self.tracker = QueueTracker()
        self.bodies = BodyCheck(reader, collector)
        self.units = UnitJoin(context, self.table, collector)
        self.levels = delay_levels_of(store)
        self.prepared: list[tuple[int, Where]] = []
        self.prepared_count = 0
        self.once: dict[str, tuple[Where, int]] = {}
        self.unfollowed_count = 0
        self.run_count = 0  # live records of the run under way
        self.run_end = 0
        self.last_offset: int | None = None
        self.max_offsets: dtypes.Longs = np.zeros(0, np.int64)
        self.fence_offset: int | None = None
        self.known_queues: set[tuple[str, int]] | None = None
        self.in_database = False
        self.skipped: dict[str, int] = {}

    def run(self) -> LogResult:
        store = self.context.store
        options = log_options(store, self.file, read_bodies=self.full, index_tags=True)
        end = self.base + self.reader.size
        with LogEntryFeed(store, self.base + self.start, end) as feed:
            self.keys = KeyJoin(store, feed, self.collector, relative=self.file.relative)
            for item in scan_log_file(self.reader, self.base, options, self.table, start=self.start):
                if isinstance(item, RecordBatch):
                    self._batch(item)
                else:
                    self._region(item)
            return self._finish()

    def _region(self, region: Region) -> None:
        if region.kind == RegionKind.RECORDS:
            end = self.run_end if self.run_count else region.start
            if self.judge.stale_start is None:
                end = region.end
            self.judge.live_records(region, self.run_count, end)
            self.run_count = 0
        else:
            self.judge.other(region)

    def _batch(self, batch: RecordBatch) -> None:
        if self.judge.stale_start is not None:
            return
        found = self._look(batch)
        times = batch["store_timestamp"]
        after_gap = not self.run_count and self.judge.after_gap
        seam = find_stale_row(found, times, self.clocks.newest, self.clocks.recent, after_gap=after_gap)
        if seam is not None:
            pos = int(batch["pos"][seam])
            if seam == 0 and not self.run_count:
                self.judge.begin_stale(pos)
                return
            self.judge.stale_start = pos
            batch.cut(seam)
            if not seam:
                return
        rows = LiveRows(batch, self.table, self.file.relative, self.base)
        self.tracker.take(found, rows.physical)
        self._rows(batch, rows, found)

    def _look(self, batch: RecordBatch) -> QueueRows:
        self.unfollowed_count += int(np.count_nonzero(batch["queue_index"] < 0))
        return self.tracker.look_at(batch, len(self.table))

    def _rows(self, batch: RecordBatch, rows: LiveRows, found: QueueRows) -> None:
        """Everything that is checked of live records."""
        self.run_count += rows.count
        last = rows.count - 1
        self.run_end = int(rows["pos"][last]) + int(rows["total_size"][last])
        self.last_offset = self.base + int(rows["pos"][last])
        check_faults(rows, self.reader, self.collector, self.once)
        check_version(rows, self.context.store, self.once)
        self.clocks.take(rows, self.reader)
        self._queue_offsets(rows, found)
        self._prepared(rows)
        if self.full:
            self.bodies.take(rows)
        dispatches = dispatches_of(batch, self.base, delay_levels=self.levels)
        self._multi_dispatch(rows)
        self.units.add(dispatches, self._delay_levels(batch, dispatches))
        self.keys.add(batch, rows)

    def _delay_levels(self, batch: RecordBatch, dispatches: Dispatches) -> dtypes.Longs:
        wanted = int(Trait.SCHEDULE_TOPIC | Trait.DELAY)
        traits = batch["traits"][dispatches.row]
        levels = batch["delay_level"][dispatches.row]
        return np.where(((traits & wanted) == wanted) & (levels > 0), levels, 0).astype(np.int64)

    def _queue_offsets(self, rows: LiveRows, found: QueueRows) -> None:
        kept = found.row < rows.count
        skipping = found.skipping & kept
        if skipping.any() or self.fence_offset is None:
            self._find_fence(rows)
            skipping &= ~self._is_fenced(rows, found, skipping)
        begins = found.offset == 0
        for rule, flags in (
            (RuleName.QUEUE_OFFSET_REPEATED, found.repeated & ~begins),
            (RuleName.QUEUE_BEGINS_AGAIN, found.repeated & begins),
            (RuleName.QUEUE_OFFSET_GAP, skipping),
        ):
            chosen = np.flatnonzero(flags & kept)
            chosen = chosen[np.argsort(found.row[chosen], kind="stable")]
            add_rows(
                self.collector,
                rule,
                self.file.relative,
                chosen,
                lambda at: rows.place(int(found.row[at])),
                {"queue_offset": found.offset},
                {"queue_offset": found.expected},
            )
        if len(self.max_offsets) < len(self.table):
            wider = np.full(len(self.table), UNKNOWN, np.int64)
            wider[: len(self.max_offsets)] = self.max_offsets
            self.max_offsets = wider
        np.maximum.at(self.max_offsets, found.queue[kept], found.following[kept])

    def _find_fence(self, rows: LiveRows) -> None:
        """Find the first filler record of the file, which a repair put in place of lost ones."""
        if self.fence_offset is not None:
            return
        rolled_back = (rows["sys_flag"] & magic.TRANSACTION_MASK) == magic.TRANSACTION_ROLLBACK
        queues = rows["queue_index"]
        for number in distinct(queues[rolled_back]).tolist():
            if number >= 0 and is_fence_topic(self.table.names[number][0]):
                self.fence_offset = int(rows.physical[np.argmax(rolled_back & (queues == number))])
                return

    def _is_fenced(self, rows: LiveRows, found: QueueRows, skipping: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether queue offsets are skipped behind filler, in a queue whose units tell the loss (XR015), or
        which has rows of a database."""
        fenced = np.zeros(len(skipping), np.bool_)
        if self.fence_offset is None:
            return fenced
        if self.known_queues is None:
            self.known_queues = {(queue.topic, queue.queue_id) for queue in self.context.store.queues}
            self.in_database = has_queue_database(self.context.store)
        for at in np.flatnonzero(skipping).tolist():
            topic, queue_id = self.table.names[int(found.queue[at])]
            behind = int(rows.physical[int(found.row[at])]) > self.fence_offset
            is_known = self.in_database or (os.fsdecode(topic), queue_id) in self.known_queues
            fenced[at] = behind and is_known
        return fenced

    def _prepared(self, rows: LiveRows) -> None:
        """Committed messages whose half message is not in the batch wait for a look at the file."""
        committed = np.flatnonzero((rows["sys_flag"] & magic.TRANSACTION_MASK) == magic.TRANSACTION_COMMIT)
        if not len(committed):
            return
        physical = rows.physical
        wanted = rows["prepared_transaction_offset"][committed]
        at = np.minimum(np.searchsorted(physical, wanted), rows.count - 1)
        start = self.context.store.commitlog.start_offset or 0
        loose = committed[(physical[at] != wanted) & (wanted >= start)]
        self.prepared_count += len(loose)
        for row in loose[: max(PREPARED_LIMIT - len(self.prepared), 0)].tolist():
            self.prepared.append((int(rows["prepared_transaction_offset"][row]), rows.place(row)))

    def _judge_prepared(self) -> None:
        with LogReader(self.context.store.commitlog) as log:
            for offset, where in self.prepared:
                reason = None
                if where.physical_offset is not None and offset >= where.physical_offset:
                    reason = "that offset comes later"
                elif log.file_at(offset) is not None and log.head(offset) is None:
                    reason = "no record starts there"
                if reason is not None:
                    found: Facts = {"prepared_transaction_offset": offset, "reason": reason}
                    self.collector.find(RuleName.PREPARED_RECORD_MISSING, where, found)

    def _multi_dispatch(self, rows: LiveRows) -> None:
        """Lists of further queues that a broker cannot use, although some brokers write them."""
        for row in np.flatnonzero((rows["faults"] & int(Fault.MULTI_DISPATCH)) != 0).tolist():
            size = max(int(rows["properties_size"][row]), 0)
            names, offsets = properties.lists_in(self.reader.read(int(rows["properties_pos"][row]), size))
            light = properties.skipped_names(names, offsets)
            if light is not None:
                where, count = self.once.get(RuleName.LIGHT_LISTS_UNUSED, (rows.place(row), 0))
                self.once[RuleName.LIGHT_LISTS_UNUSED] = where, count + 1
                for name in light:
                    if name in self.skipped or len(self.skipped) < MAX_NAMES:
                        self.skipped[name] = self.skipped.get(name, 0) + 1
            elif _count(names) != _count(offsets):
                facts = {"queue_count": _count(names), "offset_count": _count(offsets)}
                self.collector.find(RuleName.MULTI_DISPATCH_LISTS, rows.place(row), facts)

    def _finish(self) -> LogResult:
        self.judge.finish()
        self.clocks.finish(self.collector)
        self.bodies.finish()
        self._judge_prepared()
        for rule, (where, count) in self.once.items():
            self.collector.find(rule, where, {"record_count": count})
        if self.unfollowed_count:
            where, found = Where(self.file.relative), {"record_count": self.unfollowed_count}
            self.collector.find(RuleName.QUEUES_NOT_FOLLOWED, where, found)
        units, rows = self.units.finish(np.flatnonzero(self.tracker.first != UNKNOWN))
        judge, size = self.judge, self.reader.size
        live_end = judge.live_end
        bad = judge.bad_ranges()
        entries = self.keys.finish(bad, self.base, live_end)
        spans = self._spans(rows)
        summary = LogSummary(
            self.base, size, live_end, bad, spans, units, entries, self.fence_offset, self.skipped
        )
        checked = Checked(1, size, judge.live_count, entry_count=0)
        facts, taken = (self._facts(units, rows),), self.collector
        return LogResult(taken.findings, taken.counts, checked, facts, summary, asked=taken.asked)

    def _spans(self, rows: dtypes.Longs) -> QueueSpan:
        columns = [np.full(len(rows), UNKNOWN, np.int64) for _ in range(3)]
        tracker = self.tracker
        known = rows < len(tracker.first)
        sources = (tracker.first, tracker.following, tracker.first_physical)
        for column, source in zip(columns, sources, strict=True):
            column[known] = source[rows[known]]
        return QueueSpan(*columns)

    def _facts(self, units: UnitRanges, rows: dtypes.Longs) -> LogFacts:
        judge, clocks = self.judge, self.clocks
        totals = judge.totals()
        # A queue whose units were all met ends no earlier than the log says.
        missed = distinct(units.missed[:, 0])
        missed = missed[rows[missed] < len(self.max_offsets)]
        names = units.names(self.context.store, missed.tolist())
        ends = self.max_offsets[rows[missed]].tolist()
        queue_ends = (QueueEnd(*name, end) for name, end in zip(names, ends, strict=True) if end >= 0)
        return LogFacts(
            file=self.file.relative,
            start_offset=self.base,
            end_offset=self.base + self.run_end,
            record_count=judge.live_count,
            last_record_offset=self.last_offset,
            first_store_timestamp=clocks.first,
            last_store_timestamp=clocks.last,
            min_store_timestamp=clocks.oldest,
            max_store_timestamp=clocks.newest,
            all_zero={total.kind for total in totals} <= {"zero"},
            ends_with_blank=judge.ends_with_blank,
            damaged=judge.damaged,
            regions=totals,
            queue_ends=tuple(queue_ends),
        )


def _count(listed: bytes) -> int:
    return len(listed.split(b",")) if listed else 0
