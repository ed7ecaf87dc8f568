"""Checks the arbitrary-delay timers: the log's chains, the wheel and its snapshots, the messages. Ref. 1.8.

    timer log --put anew--> slots  == wheel          TM001 to TM006
    unit --prevPos--> unit of the same slot          TM010, TM011
    unit --offsetPy--> record of the timer topic     TM012, TM013
    timer topic --lastTimerQueueOffset--> unit       TM014

What a wheel must hold is known from the log up to a position, its floor. The wheel of a broker that was
stopped in good order has all of the log, a snapshot what its name says, a wheel after a crash what the next
start does not go through again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.javatext import parse_int64
from rocketfsck.formats.timer import (
    DEFAULT_PRECISION_MS,
    MAGIC_DELETE,
    PRECISIONS_MS,
    TIMER_CHECK,
    TIMER_WHEEL_SIZE,
)
from rocketfsck.reader.timers import Gap, TimerBlock, timer_units
from rocketfsck.reader.units import StreamReader
from rocketfsck.rulenames import RuleName
from rocketfsck.scan.timerwheel import WheelReplay
from rocketfsck.store.model import MappedFileQueue, OtherKind, Store, StoreFile
from rocketfsck.store.reading import read_at
from rocketfsck.verify.emit import capped
from rocketfsck.verify.finding import Facts, Finding, Where
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.tasks.task import Context
from rocketfsck.verify.timers.messages import Messages, unit_where
from rocketfsck.verify.timers.wheel import (
    Made,
    Slots,
    belongs,
    check_length,
    check_slots,
    read_wheel,
    used_slots,
)

SNAPSHOT = "timerwheel."
PRECISION_SETTING = "timerPrecisionMs"
ROCKSDB_SETTING = "timerRocksDBEnable"
PROBED = 4096
"""Slots by which the length of a slot is told."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What `config/timercheck` says: delivered up to `read_timestamp` (ms), log flushed up to `flush_pos`,
    the timer topic read up to `queue_offset`."""

    read_timestamp: int
    flush_pos: int
    queue_offset: int


def check_timers(context: Context, newest_timestamp: int | None) -> Iterator[Finding | NotChecked]:
    """All timer files; at the level quick only the lengths of the wheels.

    `newest_timestamp` is the newest storeTimestamp of the commit log (ms), if known.
    """
    wheels = wheel_files(context.store)
    for file in wheels:
        yield from check_length(file)
    log = timer_log(context.store)
    if context.level == "quick" or log is None:
        return
    try:
        with StreamReader(log) as stream:
            yield from capped_timers(context, stream, wheels, newest_timestamp)
    except StoreError as error:
        yield NotChecked(error.path or "timerlog", str(error), operational=True)


def wheel_files(store: Store) -> list[StoreFile]:
    """The timer wheel and its snapshots."""
    return [file for other in store.others for file in other.files if is_wheel(file)]


def is_wheel(file: StoreFile) -> bool:
    """Whether a file is the timer wheel, or a snapshot of it."""
    name = file.relative
    return name == "timerwheel" or (name.startswith(SNAPSHOT) and snapshot_pos(file) is not None)


def snapshot_pos(file: StoreFile) -> int | None:
    """The position of the timer log that a snapshot of the wheel is named after; None for another name."""
    return parse_int64(file.relative.removeprefix(SNAPSHOT))


def timer_log(store: Store) -> MappedFileQueue | None:
    """The files of `timerlog/`; None where there are none."""
    return next(
        (other.mapped_files for other in store.others if other.kind is OtherKind.TIMER_LOG and other.files),
        None,
    )


def read_progress(store: Store) -> Progress | None:
    """The fields of `config/timercheck`; None where it cannot be read."""
    for other in store.others:
        for file in other.files if other.kind is OtherKind.TIMER_CHECK else ():
            if not file.name.endswith(".bak") and file.size >= TIMER_CHECK.size:
                try:
                    values = TIMER_CHECK.parse(read_at(file.path, 0, TIMER_CHECK.size))
                except StoreError:
                    return None  # the check of the config directory says so
                return Progress(
                    values["lastReadTimeMs"], values["lastTimerLogFlushPos"], values["lastTimerQueueOffset"]
                )
    return None


def capped_timers(
    context: Context, log: StreamReader, wheels: Sequence[StoreFile], newest: int | None
) -> Iterator[Finding | NotChecked]:
    """The findings of the log, then those of the wheels, a bounded number of each rule."""
    store = context.store
    progress = read_progress(store)
    slots = {file: read_wheel(file) for file in _newest_first(wheels) if file.size == TIMER_WHEEL_SIZE}
    precision = precision_of(store, log, next(iter(slots.values()), None))
    read_timestamp = context.now_timestamp if progress is None else progress.read_timestamp
    floors = {file: _floor(store, file, log, progress) for file in slots}
    whole, states = WheelReplay(), {}
    left_out: list[NotChecked] = []

    def findings() -> Iterator[Finding]:
        for item in timer_units(log):
            if isinstance(item, Gap):
                yield _gap(log, item)
                continue
            for block in _split(item, sorted({*floors.values()})):
                for file, floor in floors.items():
                    if file not in states and floor <= int(block.pos[0]):
                        states[file] = whole.copy()
                yield from _put(whole, log, block, precision)
                yield from messages.take(block)
        if progress is not None and not store.settings.flag(ROCKSDB_SETTING, default=False):
            for item_or_gap in messages.not_scheduled(progress.queue_offset, newest):
                if isinstance(item_or_gap, NotChecked):
                    left_out.append(item_or_gap)
                else:
                    yield item_or_gap
        for file, rows in slots.items():
            state = states.get(file, whole)
            made = Made(
                log, state, whole, state is whole, precision, read_timestamp, store.live.locked is True
            )
            yield from check_slots(file, rows, made)

    with Messages(store, log, read_timestamp, context.level == "full") as messages:
        yield from capped(findings(), context.detail_limit)
    yield from left_out


def _newest_first(wheels: Sequence[StoreFile]) -> list[StoreFile]:
    """The wheel that a start takes first: the newest snapshot, else the wheel itself."""
    return sorted(
        wheels,
        key=lambda file: -1 if file.relative == "timerwheel" else snapshot_pos(file) or 0,
        reverse=True,
    )


def _floor(store: Store, file: StoreFile, log: StreamReader, progress: Progress | None) -> int:
    """The position of the log up to which a wheel must have everything."""
    pos = snapshot_pos(file)
    if pos is not None:
        return pos
    if any(
        other.relative.startswith(SNAPSHOT) for other in store.others if other.kind is OtherKind.TIMER_WHEEL
    ):
        return log.start  # with snapshots, nobody writes the wheel itself
    if store.abort is None:
        return log.end
    if progress is None or not log.files:
        return log.start
    back = max(progress.flush_pos - log.files[-1].size, 0)
    return log.starts[max(log.last_from(back), 0)]


def precision_of(store: Store, log: StreamReader, slots: Slots | None) -> int:
    """The length of a slot in ms: as set, else the one by which most slots and units agree."""
    told = parse_int64(store.settings.get(PRECISION_SETTING) or "")
    if told is not None and told in PRECISIONS_MS:
        return told
    return (None if slots is None else _precision_in(log, slots)) or DEFAULT_PRECISION_MS


def known_precision(store: Store) -> int | None:
    """The length of a slot in ms as the wheel shows it; None where it shows none. Raises StoreError."""
    log = timer_log(store)
    wheels = [file for file in wheel_files(store) if file.size == TIMER_WHEEL_SIZE]
    if log is None or not wheels:
        return None
    with StreamReader(log) as stream:
        return _precision_in(stream, read_wheel(_newest_first(wheels)[0]))


def _precision_in(log: StreamReader, slots: Slots) -> int | None:
    rows = slots[used_slots(slots)[:PROBED]]
    last, time = rows["lastPos"].astype(np.int64), rows["slotTime"].astype(np.int64)
    agree = {
        precision: int(np.count_nonzero(belongs(log, last, time, precision))) for precision in PRECISIONS_MS
    }
    best = max((DEFAULT_PRECISION_MS, *PRECISIONS_MS), key=lambda precision: agree[precision])
    return best if agree[best] else None


def _split(block: TimerBlock, floors: Sequence[int]) -> Iterator[TimerBlock]:
    """The block in parts that have no floor inside."""
    cuts: Longs = np.unique(np.searchsorted(block.pos, floors))
    bounds = [0, *(cut for cut in cuts.tolist() if 0 < cut < len(block.pos)), len(block.pos)]
    for first, last in pairwise(bounds):
        yield TimerBlock(block.pos[first:last], block.units[first:last])


def _put(whole: WheelReplay, log: StreamReader, block: TimerBlock, precision: int) -> Iterator[Finding]:
    deletes = (block.units["magic"] & MAGIC_DELETE) != 0
    prev = block.units["prevPos"].astype(np.int64)
    slot_time = block.deliver_timestamp // precision
    rows, expected = whole.put(block.pos, slot_time, prev, deletes, log.start)
    for row, right in zip(rows.tolist(), expected.tolist(), strict=True):
        pos = int(block.pos[row])
        facts: Facts = {"unit_pos": pos, "prev_pos": int(prev[row]), "slot_time": int(slot_time[row])}
        yield Finding(RuleName.TIMER_UNIT_LINK, unit_where(log, pos), facts, {"prev_pos": right})


def _gap(log: StreamReader, gap: Gap) -> Finding:
    number = max(log.last_from(gap.start), 0)
    base = log.starts[number]
    where = Where(file=log.files[number].relative, start=gap.start - base, end=gap.end - base)
    what = "zeros" if gap.zero else "no units"
    return Finding(RuleName.TIMER_LOG_GAP, where, {"byte_count": gap.end - gap.start, "what": what})
