"""What a start makes of the arbitrary-delay timers (5.0.0+): wheel, log, and the place in the timer topic.

    wheel (or the newest snapshot) + timer log -> slots           `timerlog`
    last unit of the log, timercheck, queue bounds -> the place in the timer topic from which it is read again
    messages of the topic against what the slots lead to -> lost, or delivered twice

A message in front of that place that no slot leads to is never delivered; one after it that was delivered,
or is on the wheel, is delivered once more. Reference 1.8; `TimerMessageStore.recover` of 5.0.0 to 5.5.1.

What becomes of the messages of the timer topic: on the wheel, delivered twice, or never. Reference 1.8.

A message is delivered as often as slots lead to its units, and once more if the topic is read again from its
place or from one in front of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rocketfsck.formats import dtypes, javatext, properties, timer
from rocketfsck.formats.dialect import Dialect
from rocketfsck.query.start import timerlog
from rocketfsck.query.start.dispatch import QueueName
from rocketfsck.query.start.load import LoadedFile, load_directory
from rocketfsck.query.start.model import FileChange, Refusal, TimerStart
from rocketfsck.query.start.queues import QueueModel
from rocketfsck.reader import timers as reader_timers
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.units import StreamReader, UnitReader
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.model import ConsumeQueue, Store, StoreFile

LOOKED_AT = 100_000
"""Messages without a unit whose records are read one by one."""
SHOWN_LOST = 100
NO_TIME = np.iinfo(np.int64).min
BLOCK_COUNT = 1 << 15


@dataclass(frozen=True, slots=True)
class TimerQueue:
    """The timer topic's queue as the start has recovered it, before it dispatches: its bounds."""

    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class TimerUnits:
    """The units of a log by the messages that they are for: when each is due at the latest, and how often
    slots lead to one. The last row is for messages without a unit."""

    offset: dtypes.Longs
    due: dtypes.Longs
    count: dtypes.Longs
    recalls: dtypes.Flags

    @classmethod
    def of(cls, rows: timerlog.LogRows, chains: timerlog.SlotChains) -> TimerUnits:
        """The units of all rows."""
        real = np.flatnonzero(rows.units["size"] == timer.TIMER_LOG_UNIT_SIZE)
        offset, which = np.unique(rows.units["offsetPy"][real].astype(np.int64), return_inverse=True)
        due = np.full(len(offset) + 1, NO_TIME)
        np.maximum.at(due, which, rows.due[real])
        count = np.zeros(len(offset) + 1, np.int64)
        np.add.at(count, which, chains.counts[real])
        recalls = np.zeros(len(offset) + 1, np.bool_)
        recalls[which] = (rows.units["magic"][real] & timer.MAGIC_DELETE) != 0
        return cls(offset, due, count, recalls)

    def find(self, offset: dtypes.Longs) -> tuple[dtypes.Longs, dtypes.Flags]:
        """The row of each message, and whether it has one."""
        row = np.searchsorted(self.offset, offset).astype(np.int64)
        inside = row < len(self.offset)
        has = np.zeros(len(offset), np.bool_)
        has[inside] = self.offset[row[inside]] == offset[inside]
        return np.where(has, row, len(self.offset)), has


@dataclass(slots=True)
class Fate:
    """What becomes of the messages of the timer topic."""

    store: Store
    rows: timerlog.LogRows
    chains: timerlog.SlotChains
    progress: reader_timers.TimerProgress
    stop_timestamp: int
    queue_offset: int
    unknown: bool  # no timercheck: all that was due is taken to be delivered
    waiting_count: int = 0
    lost_count: int = 0
    repeated_count: int = 0
    lost: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    looked: int = 0

    def look(self, queue: ConsumeQueue | None, bounds: TimerQueue) -> None:
        """Every message whose unit is in the queue."""
        if queue is None:
            if bounds.max_offset or len(self.rows.pos):
                self.notes.append(
                    "the queue of the timer topic is missing: the prediction leaves out messages without a "
                    "timer unit"
                )
            return
        known = TimerUnits.of(self.rows, self.chains)
        with UnitReader(queue) as reader, LogReader(self.store.commitlog) as records:
            for number, offset in timerlog.used_units(reader, bounds.min_offset, bounds.max_offset):
                self._judge(offset, number, known, records)
        if self.looked > LOOKED_AT:
            self.notes.append(f"the prediction covers the first {LOOKED_AT:,} messages without a timer unit")

    def _judge(
        self, offset: dtypes.Longs, number: dtypes.Longs, known: TimerUnits, records: LogReader
    ) -> None:
        row, has_unit = known.find(offset)
        due = np.where(has_unit, known.due[row], self._dues(offset, has_unit, records))
        reached = np.where(has_unit, known.count[row], 0)
        recalls = has_unit & known.recalls[row]
        seen = has_unit | (number < self.progress.queue_offset) | self.unknown
        done = seen & (due < self.stop_timestamp)
        again = number >= self.queue_offset
        delivered = reached + again
        timed = due != NO_TIME
        lost = timed & ~done & (delivered == 0)
        repeated = timed & ~recalls & np.where(done, delivered > 0, delivered > 1)
        self.waiting_count += int(np.count_nonzero(timed & ~done & (delivered > 0)))
        self.lost_count += int(np.count_nonzero(lost))
        self.repeated_count += int(np.count_nonzero(repeated))
        self.lost += offset[lost][: SHOWN_LOST - len(self.lost)].tolist()

    def _dues(self, offset: dtypes.Longs, has_unit: dtypes.Flags, records: LogReader) -> dtypes.Longs:
        """When messages without a unit are due, by their records."""
        dues = np.full(len(offset), NO_TIME)
        for index in np.flatnonzero(~has_unit).tolist():
            self.looked += 1
            if self.looked > LOOKED_AT:
                break
            read = records.properties(int(offset[index]), self.store.dialect.property_parser)
            due = None if read is None else javatext.parse_int64(read[1].get(properties.TIMER_OUT_MS, ""))
            dues[index] = NO_TIME if due is None else due
        return dues


LENGTH_REASON = "java.lang.RuntimeException: Timer wheel length:{size} != expected:{expected}"
BLANK_SLOTS = 60
MAX_LOG_SIZE = 1 << 29
"""Bytes of a timer log that are held in memory; timers in a longer one are not predicted."""
_REVISED_BACK = 20_000
_CUT_WHY = "the file begins after the end of the timer log at {end}"


@dataclass(slots=True)
class TimerOutcome:
    """What came of the timers: refusals, changes of files and notes as those of the start."""

    timers: TimerStart | None = None
    refusals: list[Refusal] = field(default_factory=list)
    changes: list[FileChange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def start_timers(
    store: Store,
    dialect: Dialect,
    settings: Settings,
    queues: Mapping[QueueName, QueueModel],
    stop_timestamp: int,
) -> TimerOutcome:
    """The timers of a store as a broker of this dialect starts with them.

    `queues` are recovered, and nothing is dispatched to them yet. `stop_timestamp` (ms) is when the store was
    last written to: the start is taken to be soon after. Raises StoreError where a file cannot be read.
    """
    outcome = TimerOutcome()
    if not dialect.timer_wheel or not settings.flag("timerWheelEnable", True) or not _has_timers(store):
        return outcome
    wheel = _wheel_of(store, dialect, settings)
    if wheel is not None and wheel.size not in (0, timer.TIMER_WHEEL_SIZE):
        reason = LENGTH_REASON.format(size=wheel.size, expected=timer.TIMER_WHEEL_SIZE)
        outcome.refusals.append(Refusal(wheel.relative, reason))
        return outcome
    loading = load_directory(store, dialect, "timerlog", store.geometry.timerlog_file_size)
    outcome.changes += loading.deleted
    if loading.refusals:
        outcome.refusals += loading.refusals
        return outcome
    model = queues.get((timer.TIMER_TOPIC, 0))
    log_size = sum(file.used_end() for file in loading.log_files)
    if dialect.message_database and _may_be_in_database(store, settings, log_size, model):
        _start_rows(store, log_size, model, stop_timestamp, outcome)
        return outcome
    if log_size > MAX_LOG_SIZE:
        outcome.notes.append("the prediction leaves out timers: the timer log is too long")
        return outcome
    if wheel is None:
        outcome.changes.append(
            FileChange(reader_timers.WHEEL, "created", timer.TIMER_WHEEL_SIZE, "the timer wheel is missing")
        )
    queue = None if model is None else TimerQueue(model.min_offset, model.max_offset)
    run = _Run(store, dialect, wheel, loading.log_files, queue, stop_timestamp, outcome)
    outcome.timers = run.result()
    return outcome


def _may_be_in_database(store: Store, settings: Settings, log_size: int, queue: QueueModel | None) -> bool:
    """Whether timers are in RocksDB: as the settings say, else where the topic has messages, and neither log
    nor timercheck has ever had one."""
    used = settings.flag("timerRocksDBEnable", False)
    if settings.get("timerRocksDBEnable") is not None or queue is None or not queue.max_offset:
        return used
    progress = reader_timers.mapped_progress(store)
    idle = reader_timers.progress_file(store) is not None and progress.flush_pos == progress.queue_offset == 0
    return idle and not log_size


def _start_rows(
    store: Store, log_size: int, queue: QueueModel | None, stop_timestamp: int, outcome: TimerOutcome
) -> None:
    """The timers of a broker that has them in RocksDB. Raises StoreError where a file cannot be read."""
    rows = timerlog.read_timer_rows(store)
    if isinstance(rows, str):
        outcome.notes.append(f"the prediction leaves out timers in RocksDB: {rows}")
    elif log_size:
        outcome.notes.append("the prediction leaves out timers: they are in RocksDB and on a timer wheel")
    else:
        bounds = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
        outcome.timers, notes = timerlog.start_rows(store, rows, bounds, stop_timestamp)
        outcome.notes += notes


def _has_timers(store: Store) -> bool:
    return bool(
        reader_timers.timer_log(store)
        or reader_timers.wheel_files(store)
        or reader_timers.progress_file(store) is not None
        or reader_timers.timer_queue(store)
    )


def _wheel_of(store: Store, dialect: Dialect, settings: Settings) -> StoreFile | None:
    """The file that the slots are read from. Brokers that know snapshots read the newest one, if the settings
    say so, or if there is one and they say nothing."""
    wheels = reader_timers.wheel_files(store)
    snapshots = [
        file
        for file in wheels
        if (reader_timers.snapshot_pos(file) or -1) >= 0 and file.relative != reader_timers.WHEEL
    ]
    wanted = dialect.timer_snapshots and settings.flag("timerWheelSnapshotFlush", bool(snapshots))
    if wanted and snapshots:
        return max(snapshots, key=lambda file: reader_timers.snapshot_pos(file) or 0)
    return next((file for file in wheels if file.relative == reader_timers.WHEEL), None)


@dataclass
class _Run:
    """One start's timers."""

    store: Store
    dialect: Dialect
    wheel: StoreFile | None
    files: list[LoadedFile]
    queue: TimerQueue | None
    stop_timestamp: int
    outcome: TimerOutcome

    def __post_init__(self) -> None:
        self.progress = reader_timers.mapped_progress(self.store)
        self.stop_timestamp = max(self.stop_timestamp, self.progress.read_timestamp)
        self.slots = np.zeros(reader_timers.SLOT_COUNT, dtypes.TIMER_SLOT_DTYPE)
        if self.wheel is not None and self.wheel.size:
            self.slots = reader_timers.read_wheel(self.wheel)
        self.precision = self._precision()
        self.rows: timerlog.LogRows = timerlog.read_rows(self.files)

    def _precision(self) -> int:
        log = reader_timers.timer_log(self.store)
        if log is None:
            return 1000
        with StreamReader(log) as stream:
            return reader_timers.precision_of(self.store, stream, self.slots)

    def result(self) -> TimerStart:
        """Recover as a broker does, then see what became of the messages."""
        before = timerlog.replay_of(self.slots)
        scan = timerlog.Scan(self.rows, timerlog.replay_of(self.slots), self.precision)
        begin = self._flush_pos()
        if self.files:
            begin = max(begin - self.files[-1].size, 0)
        end = scan.run(begin, cuts=True)
        self._cut(end)
        queue_offset = self._queue_offset(end)
        read_timestamp = self._read_timestamp()
        slots = timerlog.waiting_slots(scan.replay, read_timestamp, self.precision)
        behind = timerlog.first_behind(scan.replay, slots, end)
        if behind is not None and behind < end:
            self.rows = self._kept(end)
            scan.rows = self.rows
            scan.run(behind, cuts=False)
            slots = timerlog.waiting_slots(scan.replay, read_timestamp, self.precision)
        chains = timerlog.follow(self.rows, scan.replay.last[slots].tolist(), end)
        if not chains.complete:
            self.outcome.notes.append(
                "many slots of the timer wheel lead to the same units: the prediction does not follow "
                "all of them"
            )
        unknown = reader_timers.progress_file(self.store) is None
        times = self.progress, self.stop_timestamp
        fate = Fate(self.store, self.rows, chains, *times, queue_offset, unknown)
        bounds = self.queue or TimerQueue(0, 0)
        fate.look(reader_timers.timer_queue(self.store), bounds)
        self.outcome.notes += fate.notes
        changed = timerlog.changed_slots(scan.replay, before)
        return TimerStart(
            wheel="" if self.wheel is None else self.wheel.relative,
            scan_pos=begin,
            end_pos=end,
            cut_count=self._cut_count(end),
            changed_slot_count=int(np.count_nonzero(changed)),
            queue_offset=queue_offset,
            reread_count=max(bounds.max_offset - max(queue_offset, bounds.min_offset), 0),
            read_timestamp=read_timestamp,
            waiting_count=fate.waiting_count,
            lost_count=fate.lost_count,
            lost=tuple(fate.lost),
            repeated_count=fate.repeated_count,
            endless_slot_count=chains.endless_slot_count,
            skipped_count=max(queue_offset - bounds.max_offset, 0) if self.queue is not None else 0,
            latest_start_timestamp=self._latest_start(scan.replay, slots),
        )

    def _flush_pos(self) -> int:
        """`lastTimerLogFlushPos`, for which a snapshot has its own."""
        is_snapshot = self.wheel is not None and self.wheel.relative != reader_timers.WHEEL
        pos = reader_timers.snapshot_pos(self.wheel) if self.wheel is not None and is_snapshot else None
        return pos if pos else self.progress.flush_pos

    def _cut(self, end: int) -> None:
        for file in self.files:
            if file.start_offset > end:
                why = _CUT_WHY.format(end=end)
                self.outcome.changes.append(FileChange(file.relative, "deleted", file.size, why))

    def _cut_count(self, end: int) -> int:
        """Units behind the log's end, which no one finds again."""
        whole = timerlog.read_rows(self.files)
        return int(np.count_nonzero((whole.pos >= end) & (whole.units["size"] == timer.TIMER_LOG_UNIT_SIZE)))

    def _kept(self, end: int) -> timerlog.LogRows:
        """The rows in front of the log's end."""
        files = [file for file in self.files if file.start_offset < end]
        rows = self.rows
        count = int(np.searchsorted(rows.pos, end))
        bounds = [min(bound, count) for bound in rows.bounds[: len(files) + 1]]
        return timerlog.LogRows(files, rows.pos[:count], rows.units[:count], bounds)

    def _queue_offset(self, end: int) -> int:
        """Where the timer topic is read from: behind the message of the log's last unit, not behind what
        timercheck says, and in the bounds of its queue."""
        revised = self._last_queue_offset(end)
        found = self.progress.queue_offset if revised is None else revised + 1
        found = min(found, self.progress.master_queue_offset)
        if self.queue is None:
            return found
        if self.dialect.timer_queue_bounded:
            return min(max(found, self.queue.min_offset), self.queue.max_offset)
        return max(found, self.queue.min_offset)  # when the topic is read

    def _last_queue_offset(self, end: int) -> int | None:
        """The queue offset of the message that the unit in front of the log's end leads to."""
        row = int(np.searchsorted(self.rows.pos, end - timer.TIMER_LOG_UNIT_SIZE))
        if row >= len(self.rows.pos) or self.rows.pos[row] != end - timer.TIMER_LOG_UNIT_SIZE:
            return None
        offset, size = (int(self.rows.units[name][row]) for name in ("offsetPy", "sizePy"))
        with LogReader(self.store.commitlog) as records:
            head = records.head(offset)
        if head is None or size < head.total_size:
            return None
        queue = reader_timers.timer_queue(self.store)
        stated = int(head.queue_offset)
        return stated if queue is None or head.queue_id != 0 else _offset_of(queue, stated, offset, size)

    def _read_timestamp(self) -> int:
        """From which time on slots are delivered: not from before the wheel's last turn."""
        back = (timer.SLOTS_TOTAL - BLANK_SLOTS) * self.precision
        least = self.stop_timestamp // self.precision * self.precision - back
        return max(self.progress.read_timestamp, least)

    def _latest_start(self, replay: reader_timers.WheelReplay, slots: dtypes.Longs) -> int | None:
        ahead = slots[replay.time[slots] * self.precision >= self.stop_timestamp]
        if not len(ahead):
            return None
        return (int(replay.time[ahead].min()) + timer.SLOTS_TOTAL - BLANK_SLOTS) * self.precision


def _offset_of(queue: ConsumeQueue, stated: int, offset: int, size: int) -> int:
    """The queue offset of the unit that leads to a record: `stated`, or one of those in front of it."""
    with UnitReader(queue) as reader:
        first = max(stated - _REVISED_BACK + 1, reader.first_index, 0)
        for low in range(max(stated + 1 - BLOCK_COUNT, first), first - BLOCK_COUNT, -BLOCK_COUNT):
            start = max(low, first)
            units = reader.units(start, min(BLOCK_COUNT, stated + 1 - start))
            same = np.flatnonzero((units["offset"] == offset) & (units["size"] == size))
            if len(same):
                return start + int(same[-1])
    return stated
