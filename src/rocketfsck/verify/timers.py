"""Checks the arbitrary-delay timers: the log's chains, the wheel and its snapshots, the messages. Ref. 1.8.

    timer log --put again--> slots == wheel          TM001 to TM006
    unit --prevPos--> unit of the same slot          TM010, TM011
    unit --offsetPy--> record of the timer topic     TM012, TM013, TM015
    timer topic --lastTimerQueueOffset--> unit       TM014

What a wheel must hold is known from the log up to a position, its floor. The wheel of a broker that was
stopped cleanly has all of the log, a snapshot what its name says, a wheel after a crash what the next
start does not go through again.

A timer wheel against the slots that its log makes. Reference 1.8.1.

Units of the timer log against the messages that they wait for. Reference 1.8, 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats import dtypes, javatext, smallfiles, timer
from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2
from rocketfsck.formats.properties import REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS
from rocketfsck.reader import timers
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.units import StreamReader, UnitReader
from rocketfsck.store.model import ConsumeQueue, MappedFileQueue, OtherKind, Store, StoreFile
from rocketfsck.store.rocks.families import MESSAGE_DATABASE, database_at
from rocketfsck.verify.finding import Facts, Finding, Findings, Where, unit_place
from rocketfsck.verify.report import Items, NotChecked
from rocketfsck.verify.tasks.task import Context, Shared, capped

BEHIND = "the commit log ends at {bound}"
NO_RECORD = "no record of {size} bytes starts there"
LOOKED_AT = 100_000
"""Messages without a unit that are looked at one by one."""
_GRACE_MS = 60_000
"""Later than the newest time known: a message due before may have been delivered without the wheel."""
_BLOCK_COUNT = 1 << 15


@dataclass(slots=True)
class Messages:
    """The messages of the timer topic as units lead to them. A context manager."""

    store: Store
    log: StreamReader
    read_timestamp: int
    content: bool
    scheduled: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    newest_timestamp: int = 0
    first_offset: int | None = None
    expired_count: int = 0
    content_count: int = 0
    _expired_where: Where = field(default_factory=Where)
    heads: StreamReader = field(init=False)
    records: LogReader = field(init=False)

    def __post_init__(self) -> None:
        self.heads = StreamReader(self.store.commitlog)
        self.records = LogReader(self.store.commitlog)

    def __enter__(self) -> Messages:
        return self

    def __exit__(self, *_error: object) -> None:
        self.heads.close()
        self.records.close()

    def take(self, block: timers.TimerBlock) -> Findings:
        """Judge a block of units. Raises StoreError for a log that fails."""
        if not self.heads.files or not len(block.pos):
            return
        offset, size = block.physical_offset, block.units["sizePy"].astype(np.int64)
        head = self.heads.gather(offset, dtypes.RECORD_HEAD_DTYPE)
        sound = (head["magicCode"] == MAGIC_V1) | (head["magicCode"] == MAGIC_V2)
        sound &= (head["physicalOffset"] == offset) & (head["totalSize"] == size)
        pending = block.deliver_timestamp >= self.read_timestamp
        if self.first_offset is None:
            self.first_offset = int(offset[0])
        self.newest_timestamp = max(self.newest_timestamp, int(block.units["currWriteTime"].max()))
        self._schedule(head["queueOffset"][sound].astype(np.int64))
        expired = pending & (offset < self.heads.start)
        if self.expired_count == 0 and expired.any():
            row = int(np.argmax(expired))
            self._expired_where = unit_where(self.log, int(block.pos[row]), int(offset[row]))
        self.expired_count += int(np.count_nonzero(expired))
        for row in np.flatnonzero(~sound & (offset >= self.heads.start)).tolist():
            yield self._no_record(block, row)
        if self.content:
            yield from self._contents(block, sound & pending)

    def _schedule(self, queue_offset: NDArray[np.int64]) -> None:
        known = queue_offset[(queue_offset >= 0) & (queue_offset < self._queue_end())]
        if len(known) and int(known.max()) >= len(self.scheduled):
            wider = np.zeros(int(known.max()) * 2 + 1, np.bool_)
            wider[: len(self.scheduled)] = self.scheduled
            self.scheduled = wider
        self.scheduled[known] = True

    def _queue_end(self) -> int:
        queue = _timer_queue(self.store)
        return 0 if queue is None else (queue.mapped_files.end_offset or 0) // queue.unit_size

    def _no_record(self, block: timers.TimerBlock, row: int) -> Finding:
        offset, size = int(block.physical_offset[row]), int(block.units["sizePy"][row])
        reason, bound = NO_RECORD, 0
        if offset >= self.heads.end:
            reason, bound = BEHIND, self.heads.end
        found: Facts = {
            "unit_pos": int(block.pos[row]),
            "reason": reason.format(bound=bound, size=size),
            "deliver_timestamp": int(block.deliver_timestamp[row]),
        }
        return Finding(RuleName.TIMER_UNIT_RECORD, unit_where(self.log, int(block.pos[row]), offset), found)

    def expired(self) -> Findings:
        """One finding where units still wait for messages that are no longer in the commit log."""
        if self.expired_count:
            facts: Facts = {"unit_count": self.expired_count, "log_start_offset": self.heads.start}
            yield Finding(RuleName.TIMER_MESSAGE_EXPIRED, self._expired_where, facts)

    def _contents(self, block: timers.TimerBlock, chosen: dtypes.Flags) -> Findings:
        for row in np.flatnonzero(chosen).tolist():
            offset = int(block.physical_offset[row])
            read = self.records.properties(offset, self.store.dialect.property_parser)
            if read is None:
                continue  # its head is sound: the check of the log says what is wrong after it
            self.content_count += 1
            for name, value, expected in _differences(block, row, *read):
                where = unit_where(self.log, int(block.pos[row]), offset)
                found: Facts = {"unit_pos": int(block.pos[row]), "field": name, "value": value}
                yield Finding(RuleName.TIMER_UNIT_CONTENT, where, found, {"value": expected})

    def not_scheduled(self, queue_offset: int, newest: int | None) -> Items:
        """Messages in front of a queue offset of the timer topic that are due later, and have no unit.

        `newest` is the newest storeTimestamp of the log (ms), if known.
        """
        queue = _timer_queue(self.store)
        if queue is None or self.first_offset is None:
            return
        horizon = max(self.read_timestamp, self.newest_timestamp, newest or 0) + _GRACE_MS
        least = 0 if self.log.start == 0 else self.first_offset
        looked = 0
        with UnitReader(queue) as reader:
            stop = min(queue_offset, reader.end_index)
            for start in range(reader.first_index, stop, _BLOCK_COUNT):
                units = reader.units(start, min(_BLOCK_COUNT, stop - start))
                index = np.arange(start, start + len(units))
                without = (units["size"] > 0) & (units["offset"] >= max(least, self.heads.start))
                inside = index < len(self.scheduled)
                without[inside] &= ~self.scheduled[index[inside]]
                for row in np.flatnonzero(without).tolist():
                    looked += 1
                    if looked > LOOKED_AT:
                        yield NotChecked(
                            "timerlog", f"only the first {LOOKED_AT:,} messages without a unit are checked"
                        )
                        return
                    offset = int(units["offset"][row])
                    read = self.records.properties(offset, self.store.dialect.property_parser)
                    due = None if read is None else javatext.parse_int64(read[1].get(TIMER_OUT_MS, ""))
                    if due is not None and due > horizon:
                        where = unit_place(queue, int(index[row]), physical_offset=offset)
                        yield Finding(RuleName.TIMER_NOT_SCHEDULED, where, {"deliver_timestamp": due})


def unit_where(log: StreamReader, pos: int, physical_offset: int | None = None) -> Where:
    """The place of the unit at a position of the timer log."""
    number = max(log.last_from(pos), 0)
    start = pos - log.starts[number]
    return Where(
        log.files[number].relative, start, start + timer.TIMER_LOG_UNIT_SIZE, physical_offset=physical_offset
    )


def _timer_queue(store: Store) -> ConsumeQueue | None:
    return next(
        (queue for queue in store.queues if (queue.topic, queue.queue_id) == (timer.TIMER_TOPIC, 0)), None
    )


def _differences(
    block: timers.TimerBlock, row: int, topic: str, properties: Mapping[str, str]
) -> Iterator[tuple[str, int | str, int | str]]:
    """What a unit says otherwise than its message: the name of it, the value, the one expected."""
    if topic != timer.TIMER_TOPIC:
        yield "topic", topic, timer.TIMER_TOPIC
        return
    unit = block.units[row]
    magic, due = int(unit["magic"]), int(block.deliver_timestamp[row])
    out = javatext.parse_int64(properties.get(TIMER_OUT_MS, ""))
    expected = timer.MAGIC_DEFAULT | (timer.MAGIC_DELETE if TIMER_DEL_UNIQKEY in properties else 0)
    if magic & ~timer.MAGIC_ROLL != expected:
        yield "magic", magic, expected | magic & timer.MAGIC_ROLL
    if out is not None and (due >= out if magic & timer.MAGIC_ROLL else due != out):
        yield "delivery time", due, out
    real_topic = properties.get(REAL_TOPIC)
    if real_topic is not None and int(unit["hashCodeOfRealTopic"]) not in (0, javatext.java_hash(real_topic)):
        yield "hashCodeOfRealTopic", int(unit["hashCodeOfRealTopic"]), javatext.java_hash(real_topic)


@dataclass(frozen=True, slots=True)
class WheelByLog:
    """What the timer log says of a wheel.

    `floor` is the state that the wheel must have reached, `whole` that after the last unit; `is_exact`: they
    are the same, the broker was stopped cleanly. `precision_ms` is the length of a slot,
    `read_timestamp` (ms) the time up to which slots were delivered. `is_live`: the log may have grown.
    """

    log: StreamReader
    floor: timers.WheelReplay
    whole: timers.WheelReplay
    is_exact: bool
    precision_ms: int
    read_timestamp: int
    is_live: bool = False


def check_length(file: StoreFile) -> Findings:
    """A wheel of another length than brokers make; an empty one they make again."""
    if file.size not in (0, timer.TIMER_WHEEL_SIZE):
        where = Where(file.relative, 0, file.size)
        yield Finding(
            RuleName.TIMER_WHEEL_LENGTH, where, {"size": file.size}, {"size": timer.TIMER_WHEEL_SIZE}
        )


def check_slots(file: StoreFile, slots: timers.Slots, made: WheelByLog, shared: Shared) -> Findings:
    """Every slot that is used, or that the log says must be."""
    number = timers.used_slots(slots)
    rows = slots[number]
    time = rows["slotTime"].astype(np.int64)
    placed = time % timers.SLOT_COUNT == number
    shared.ask(RuleName.TIMER_SLOT_NUMBER, len(number))
    for row in np.flatnonzero(~placed).tolist():
        found: Facts = {"slot_time": int(time[row])}
        expected: Facts = {"slot": int(time[row]) % timers.SLOT_COUNT}
        yield Finding(RuleName.TIMER_SLOT_NUMBER, _slot(file, int(number[row])), found, expected)
    yield from _positions(file, number[placed], rows[placed], made)
    yield from _counts(file, number[placed], rows[placed], made)
    yield from _missing_slots(file, slots, number[~placed], made)


def _positions(file: StoreFile, number: dtypes.Longs, rows: timers.Slots, made: WheelByLog) -> Findings:
    time, last, first = (rows[name].astype(np.int64) for name in ("slotTime", "lastPos", "firstPos"))
    must = made.floor.has(number, time)
    expired = (last < made.log.start) & (last >= 0) & ~must
    wrong = ~expired & ~timers.belongs(made.log, last, time, made.precision_ms)
    wrong |= must & (last < made.floor.last[number])
    if made.is_live:
        wrong &= last < made.log.end
    yield from _wrong(file, "lastPos", number, last, made.whole.last[number], wrong)
    known = made.whole.has(number, time) & made.whole.whole[number]
    yield from _wrong(
        file, "firstPos", number, first, made.whole.first[number], known & (first != made.whole.first[number])
    )


def _wrong(
    file: StoreFile,
    name: str,
    number: dtypes.Longs,
    value: dtypes.Longs,
    expected: dtypes.Longs,
    wrong: dtypes.Flags,
) -> Findings:
    for row in np.flatnonzero(wrong).tolist():
        found: Facts = {"field": name, "value": int(value[row])}
        where, wanted = _slot(file, int(number[row])), {"value": int(expected[row])}
        yield Finding(RuleName.TIMER_SLOT_POSITION, where, found, wanted)


def _counts(file: StoreFile, number: dtypes.Longs, rows: timers.Slots, made: WheelByLog) -> Findings:
    """A number of messages that the log does not have. One too low is what a crash leaves."""
    known = made.whole.has(number, rows["slotTime"].astype(np.int64)) & made.whole.whole[number]
    count, expected = rows["num"].astype(np.int64), made.whole.count[number]
    for rule, wrong in (
        (RuleName.TIMER_SLOT_COUNT, count > expected),
        (RuleName.TIMER_SLOT_COUNT_LOW, (count < expected) & made.is_exact),
    ):
        for row in np.flatnonzero(known & wrong).tolist():
            found: Facts = {"count": int(count[row])}
            yield Finding(rule, _slot(file, int(number[row])), found, {"count": int(expected[row])})


def _missing_slots(
    file: StoreFile, slots: timers.Slots, misplaced: dtypes.Longs, made: WheelByLog
) -> Findings:
    """Times that are still to come, and whose slot the wheel does not have."""
    state = made.floor
    due = state.time >= -(-made.read_timestamp // made.precision_ms)
    lost = np.flatnonzero(due & (state.time != slots["slotTime"]))
    for number in np.setdiff1d(lost, misplaced).tolist():
        found: Facts = {
            "slot_time": int(state.time[number]),
            "count": int(state.count[number]),
            "deliver_timestamp": int(state.time[number]) * made.precision_ms,
        }
        yield Finding(RuleName.TIMER_SLOT_MISSING, _slot(file, number), found)


def _slot(file: StoreFile, number: int) -> Where:
    start = number * timer.TIMER_WHEEL_SLOT_SIZE
    return Where(file.relative, start, start + timer.TIMER_WHEEL_SLOT_SIZE, slot=number)


# Whether the files of the timers are all there. Reference 1.8.
#
# config/timercheck: flushed up to p > 0   -> timerlog/ has files
# timerlog/ has units                      -> a wheel, or a snapshot of it; config/timercheck
# neither has ever had one (5.4.0+)         -> rocksdbstore/, where the timer topic has messages
# timerlog/: file of n bytes at p          -> the next one is at p + n

TIMER_LOG = "timerlog"
TIMER_CHECK = "config/timercheck"
LOG_OUTCOME = "a broker never delivers the messages that wait in the timer wheel"
GAP_OUTCOME = "a broker never delivers the messages whose units were in the file"
WHEEL_OUTCOME = "a start fills an empty wheel from the last two files of the timer log only"
ANEW_OUTCOME = "a start makes it again from the timer log"
FILES_READ = 2
"""Files of the timer log that a start with an empty wheel reads: from the one before the last on."""
AGAIN_OUTCOME = "a start reads the whole timer topic again and delivers its messages a second time"


def check_presence(store: Store) -> Findings:
    """Files that must be there and are not."""
    log, progress = timers.timer_log(store), timers.read_progress(store)
    if log is None or not log.files:
        if progress is not None and progress.flush_pos > 0:
            yield _missing(TIMER_LOG, LOG_OUTCOME)
        elif progress is not None and not progress.queue_offset and _lacks_database(store):
            yield _missing(MESSAGE_DATABASE, AGAIN_OUTCOME)
        return
    for file, after in pairwise(log.files):
        expected = (file.start_offset or 0) + file.size
        if (after.start_offset or 0) > expected:
            yield _missing(f"{TIMER_LOG}/{smallfiles.offset_to_filename(expected)}", GAP_OUTCOME)
    if _has_units(log):
        if not timers.wheel_files(store):
            yield _missing(timers.WHEEL, WHEEL_OUTCOME if len(log.files) > FILES_READ else ANEW_OUTCOME)
        if timers.progress_file(store) is None:
            yield _missing(TIMER_CHECK, AGAIN_OUTCOME)


def _lacks_database(store: Store) -> bool:
    """Whether a broker that has a database had timers, and it is gone."""
    queue = timers.timer_queue(store)
    return (
        store.dialect.message_database
        and queue is not None
        and any(file.data_size for file in queue.files)
        and database_at(store, MESSAGE_DATABASE) is None
    )


def _missing(file: str, outcome: str) -> Finding:
    return Finding(RuleName.TIMER_FILE_MISSING, Where(file), {"outcome": outcome})


def _has_units(log: MappedFileQueue) -> bool:
    """Whether one of the files begins with a unit."""
    starts = [file.start_offset or 0 for file in log.files if file.size >= timer.TIMER_LOG_UNIT_SIZE]
    try:
        with StreamReader(log) as stream:
            return bool(timers.is_unit(timers.unit_at(stream, np.array(starts, np.int64))).any())
    except StoreError:
        return False  # the check of the log says so


ROCKSDB_SETTING = "timerRocksDBEnable"


def check_timers(context: Context, newest_timestamp: int | None) -> Items:
    """All timer files; at the level quick only whether they are there, and the lengths of the wheels.

    `newest_timestamp` is the newest storeTimestamp of the commit log (ms), if known.
    """
    wheels = timers.wheel_files(context.store)
    for file in wheels:
        yield from check_length(file)
    yield from check_presence(context.store)
    log = timers.timer_log(context.store)
    if context.level == "quick" or log is None:
        return
    try:
        with StreamReader(log) as stream:
            yield from capped_timers(context, stream, wheels, newest_timestamp)
    except StoreError as error:
        yield NotChecked(error.path or "timerlog", str(error), operational=True)


def capped_timers(
    context: Context, log: StreamReader, wheels: Sequence[StoreFile], newest: int | None
) -> Items:
    """The findings of the log, then those of the wheels, a bounded number of each rule."""
    store, shared = context.store, context.shared
    progress = timers.read_progress(store)
    whole_wheels = (file for file in timers.newest_first(wheels) if file.size == timer.TIMER_WHEEL_SIZE)
    slots = {file: timers.read_wheel(file) for file in whole_wheels}
    precision = timers.precision_of(store, log, next(iter(slots.values()), None))
    read_timestamp = context.now_timestamp if progress is None else progress.read_timestamp
    floors = {file: _floor(store, file, log, progress) for file in slots}
    whole, states = timers.WheelReplay(), {}
    left_out: list[NotChecked] = []

    def findings() -> Findings:
        for item in timers.timer_units(log):
            if isinstance(item, timers.TimerGap):
                yield _gap(log, item)
                continue
            for block in _split(item, sorted({*floors.values()})):
                for file, floor in floors.items():
                    if file not in states and floor <= int(block.pos[0]):
                        states[file] = whole.copy()
                shared.ask(RuleName.TIMER_UNIT_LINK, len(block.pos))
                yield from _put(whole, log, block, precision)
                yield from messages.take(block)
        yield from messages.expired()
        if progress is not None and not store.settings.flag(ROCKSDB_SETTING, default=False):
            for item_or_gap in messages.not_scheduled(progress.queue_offset, newest):
                if isinstance(item_or_gap, NotChecked):
                    left_out.append(item_or_gap)
                else:
                    yield item_or_gap
        for file, rows in slots.items():
            state = states.get(file, whole)
            made = WheelByLog(
                log, state, whole, state is whole, precision, read_timestamp, store.live.locked is True
            )
            yield from check_slots(file, rows, made, shared)

    with Messages(store, log, read_timestamp, context.level == "full") as messages:
        yield from capped(findings(), context.detail_limit)
        shared.ask(RuleName.TIMER_UNIT_CONTENT, messages.content_count)
    yield from left_out


def _floor(store: Store, file: StoreFile, log: StreamReader, progress: timers.TimerProgress | None) -> int:
    """The position of the log up to which a wheel must have everything."""
    pos = timers.snapshot_pos(file)
    if pos is not None:
        return pos
    if any(
        other.relative.startswith(timers.SNAPSHOT)
        for other in store.others
        if other.kind is OtherKind.TIMER_WHEEL
    ):
        return log.start  # with snapshots, nobody writes the wheel itself
    if store.abort is None:
        return log.end
    if progress is None or not log.files:
        return log.start
    back = max(progress.flush_pos - log.files[-1].size, 0)
    return log.starts[max(log.last_from(back), 0)]


def _split(block: timers.TimerBlock, floors: Sequence[int]) -> Iterator[timers.TimerBlock]:
    """The block in parts that have no floor inside."""
    cuts: dtypes.Longs = np.unique(np.searchsorted(block.pos, floors))
    bounds = [0, *(cut for cut in cuts.tolist() if 0 < cut < len(block.pos)), len(block.pos)]
    for first, last in pairwise(bounds):
        yield timers.TimerBlock(block.pos[first:last], block.units[first:last])


def _put(whole: timers.WheelReplay, log: StreamReader, block: timers.TimerBlock, precision: int) -> Findings:
    rows, expected = timers.put_block(whole, log, block, precision)
    slot_time, prev = block.deliver_timestamp // precision, block.units["prevPos"]
    for row, right in zip(rows.tolist(), expected.tolist(), strict=True):
        pos = int(block.pos[row])
        facts: Facts = {"unit_pos": pos, "prev_pos": int(prev[row]), "slot_time": int(slot_time[row])}
        yield Finding(RuleName.TIMER_UNIT_LINK, unit_where(log, pos), facts, {"prev_pos": right})


def _gap(log: StreamReader, gap: timers.TimerGap) -> Finding:
    number = max(log.last_from(gap.start), 0)
    base = log.starts[number]
    where = Where(log.files[number].relative, gap.start - base, gap.end - base)
    what = "zeros" if gap.zero else "no units"
    return Finding(RuleName.TIMER_LOG_GAP, where, {"byte_count": gap.end - gap.start, "what": what})
