"""Reads a timer log: its units in blocks, and what is not a unit. Reference 1.8.2.

    timerlog file := unit[52]* (end mark)? zeros

A file's units end at its end mark, or at the zeros that reach to its end. What is neither unit, end mark nor
such zeros is a `TimerGap`; the units continue after it at the next multiple of 52. Bounded: a block at a
time.

The files of the arbitrary-delay timers, and what their progress file says. Reference 1.8.

The timer wheel and its snapshots as arrays of slots, and how long a slot is. Reference 1.8.1.

The timer wheel as its log makes it: units put into slots in the order of the log. Reference 1.8.

    slot number := slotTime % slot count        slotTime := delivery time / precision

Whole blocks of units are put at a time; memory is that of the wheel, however long the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import StoreError
from rocketfsck.formats import timer
from rocketfsck.formats.dtypes import TIMER_SLOT_DTYPE, TIMER_UNIT_DTYPE, Flags, Longs
from rocketfsck.formats.javatext import parse_int64
from rocketfsck.formats.magic import MAGIC_BLANK
from rocketfsck.reader.units import StreamReader
from rocketfsck.scan.spans import group_bounds
from rocketfsck.store.model import ConsumeQueue, MappedFileQueue, OtherKind, Store, StoreFile
from rocketfsck.store.reading import FileReader, read_at

SLOT_COUNT = 2 * timer.SLOTS_TOTAL
NO_POS = -1
_NO_TIME = np.iinfo(np.int64).min


def _filled(value: int) -> Longs:
    return np.full(SLOT_COUNT, value, np.int64)


@dataclass(slots=True)
class WheelReplay:
    """What the slots hold after the units that were put; by slot number.

    `time` is the slotTime (`has` says whether there is one), `first` and `last` the positions of its oldest
    and newest unit, `count` its messages: units that delete one count as -1. `whole`: its oldest unit has no
    predecessor, so that all units of the slot were put.
    """

    time: Longs = field(default_factory=lambda: _filled(_NO_TIME))
    first: Longs = field(default_factory=lambda: _filled(NO_POS))
    last: Longs = field(default_factory=lambda: _filled(NO_POS))
    count: Longs = field(default_factory=lambda: np.zeros(SLOT_COUNT, np.int64))
    whole: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(SLOT_COUNT, np.bool_))

    def has(self, number: Longs, slot_time: Longs) -> Flags:
        """Whether these slots hold these times."""
        return np.asarray(self.time[number] == slot_time, np.bool_)

    def copy(self) -> WheelReplay:
        """The state as it is now."""
        return WheelReplay(*(getattr(self, name).copy() for name in self.__slots__))

    def put(
        self, pos: Longs, slot_time: Longs, prev_pos: Longs, deletes: Flags, log_start: int
    ) -> tuple[Longs, Longs]:
        """Put units, in the order of the log. Gives the rows whose prevPos is not the position of the unit of
        the slot before them, and that position (-1 for none) for each.

        What a slot had before `log_start` is not known: a unit that is the first of its slot in the log may
        have any predecessor there.
        """
        order = np.argsort(slot_time, kind="stable")
        bounds = group_bounds(slot_time[order])
        heads, tails = order[bounds[:-1]], order[bounds[1:] - 1]
        expected = np.empty(len(pos), np.int64)
        expected[order[1:]] = pos[order[:-1]]
        number = slot_time[heads] % SLOT_COUNT
        known = self.has(number, slot_time[heads])
        expected[heads] = np.where(known, self.last[number], NO_POS)
        wrong = prev_pos != expected
        unseen = heads[~known]
        wrong[unseen] &= (prev_pos[unseen] < 0) | (prev_pos[unseen] >= log_start)
        steps = np.where(deletes, -1, 1)[order]
        added = np.add.reduceat(steps, bounds[:-1]) if len(steps) else steps
        # two times of one slot are 14 days apart: the later one in the log has it
        for rows in _rounds(number, tails):
            self._take(number[rows], slot_time[heads[rows]], pos[heads[rows]], pos[tails[rows]], added[rows])
            begins = prev_pos[heads[rows]] == NO_POS
            self.whole[number[rows]] = np.where(known[rows], self.whole[number[rows]], begins)
        rows = np.flatnonzero(wrong)
        return rows, expected[rows]

    def _take(self, number: Longs, time: Longs, first: Longs, last: Longs, added: Longs) -> None:
        same = self.has(number, time)
        self.first[number] = np.where(same, self.first[number], first)
        self.count[number] = np.where(same, self.count[number], 0) + added
        self.last[number] = last
        self.time[number] = time


def _rounds(number: Longs, tails: Longs) -> Sequence[Longs]:
    """The groups in rounds in which no slot comes twice, each slot's groups in the order of the log."""
    order = np.lexsort((tails, number))
    bounds = group_bounds(number[order])
    rank = np.arange(len(order)) - np.repeat(bounds[:-1], np.diff(bounds))
    return [order[rank == turn] for turn in range(int(rank.max()) + 1 if len(rank) else 0)]


WHEEL = "timerwheel"
SNAPSHOT = "timerwheel."


@dataclass(frozen=True, slots=True)
class TimerProgress:
    """What `config/timercheck` says: delivered up to `read_timestamp` (ms), log flushed up to `flush_pos`,
    the timer topic read up to `queue_offset`, by the master up to `master_queue_offset`."""

    read_timestamp: int
    flush_pos: int
    queue_offset: int
    master_queue_offset: int


def wheel_files(store: Store) -> list[StoreFile]:
    """The timer wheel and its snapshots."""
    return [file for other in store.others for file in other.files if is_wheel(file)]


def is_wheel(file: StoreFile) -> bool:
    """Whether a file is the timer wheel, or a snapshot of it."""
    name = file.relative
    return name == WHEEL or (name.startswith(SNAPSHOT) and snapshot_pos(file) is not None)


def snapshot_pos(file: StoreFile) -> int | None:
    """The position of the timer log that a snapshot of the wheel is named after; None for another name."""
    return parse_int64(file.relative.removeprefix(SNAPSHOT))


def timer_log(store: Store) -> MappedFileQueue | None:
    """The files of `timerlog/`; None where there are none."""
    logs = (other for other in store.others if other.kind is OtherKind.TIMER_LOG and other.files)
    return next((other.mapped_files for other in logs), None)


def timer_queue(store: Store) -> ConsumeQueue | None:
    """The queue of the timer topic."""
    return next(
        (queue for queue in store.queues if (queue.topic, queue.queue_id) == (timer.TIMER_TOPIC, 0)), None
    )


def read_progress(store: Store) -> TimerProgress | None:
    """The fields of `config/timercheck`; None where it cannot be read."""
    file = progress_file(store)
    if file is None or file.size < timer.TIMER_CHECK.size:
        return None
    try:
        return _progress(read_at(file.path, 0, timer.TIMER_CHECK.size))
    except StoreError:
        return None  # the check of the config directory says so


def mapped_progress(store: Store) -> TimerProgress:
    """The fields as a start maps them: zeros for what a short or missing file lacks. Raises StoreError."""
    file = progress_file(store)
    if file is None:
        return _progress(bytes(timer.TIMER_CHECK.size))
    data = read_at(file.path, 0, min(file.size, timer.TIMER_CHECK.size))
    return _progress(data.ljust(timer.TIMER_CHECK.size, b"\0"))


def progress_file(store: Store) -> StoreFile | None:
    """`config/timercheck`; None where there is none."""
    files = (file for other in store.others if other.kind is OtherKind.TIMER_CHECK for file in other.files)
    return next((file for file in files if not file.name.endswith(".bak")), None)


def _progress(data: bytes) -> TimerProgress:
    values = timer.TIMER_CHECK.parse(data)
    names = ("lastReadTimeMs", "lastTimerLogFlushPos", "lastTimerQueueOffset", "masterTimerQueueOffset")
    return TimerProgress(*(values[name] for name in names))


BLOCK_COUNT = 1 << 14
_ZERO, _UNIT, _MARK, _OTHER = range(4)
_MAGIC_BITS = 0xF

TimerUnits = NDArray[Any]
"""Units as `TIMER_UNIT_DTYPE` has them."""


@dataclass(frozen=True, slots=True)
class TimerBlock:
    """Units in the order of the log, and their positions in it (bytes)."""

    pos: Longs
    units: TimerUnits

    @property
    def deliver_timestamp(self) -> Longs:
        """When each unit is due, in ms: when it was written and its delay."""
        due: Longs = self.units["currWriteTime"].astype(np.int64) + self.units["delayedTime"]
        return due

    @property
    def physical_offset(self) -> Longs:
        """The commit log offset of each unit's record."""
        offset: Longs = self.units["offsetPy"].astype(np.int64)
        return offset


@dataclass(frozen=True, slots=True)
class TimerGap:
    """Bytes `start:end` of the log, positions in its stream, that hold no units although units follow,
    or although the next file says that this one is full. `zero`: they are all zero."""

    start: int
    end: int
    zero: bool


def timer_units(log: StreamReader) -> Iterator[TimerBlock | TimerGap]:
    """All units of the log, file by file, and the gaps among them. Raises StoreError if a file fails."""
    for number, base in enumerate(log.starts):
        yield from _file_units(log, number, base)


def unit_at(log: StreamReader, places: Longs) -> TimerUnits:
    """The units at these positions of the log, zeros where none is. Raises StoreError."""
    return log.gather(places, TIMER_UNIT_DTYPE)


def is_unit(units: TimerUnits) -> NDArray[np.bool_]:
    """A broker's own test of a unit: its length and its magic (`TimerMessageStore.isMagicOK`)."""
    size, magic = units["size"], units["magic"]
    return np.asarray((size == timer.TIMER_LOG_UNIT_SIZE) & (magic >= 0) & (magic <= _MAGIC_BITS), np.bool_)


def put_block(
    replay: WheelReplay, log: StreamReader, block: TimerBlock, precision_ms: int
) -> tuple[Longs, Longs]:
    """Put a block's units into the slots of a wheel: the rows whose prevPos is wrong, and the right one."""
    deletes = (block.units["magic"] & timer.MAGIC_DELETE) != 0
    prev_pos = block.units["prevPos"].astype(np.int64)
    return replay.put(block.pos, block.deliver_timestamp // precision_ms, prev_pos, deletes, log.start)


def _file_units(log: StreamReader, number: int, base: int) -> Iterator[TimerBlock | TimerGap]:
    reader = log.reader(number)
    end = reader.used_end()
    zeros_from: int | None = None  # zeros of which nobody knows yet whether units follow
    following = 0
    for start, size in _blocks(reader, end):
        if start > following and zeros_from is None:
            zeros_from = following
        following = start + size
        count = -(-size // timer.TIMER_LOG_UNIT_SIZE)
        data = reader.read(start, size).ljust(count * timer.TIMER_LOG_UNIT_SIZE, b"\0")
        units = np.frombuffer(data, TIMER_UNIT_DTYPE)
        kinds = _kinds(units)
        bounds = group_bounds(kinds).tolist()
        for first, last in pairwise(bounds):
            low, high = start + first * timer.TIMER_LOG_UNIT_SIZE, start + last * timer.TIMER_LOG_UNIT_SIZE
            kind = int(kinds[first])
            if kind == _ZERO:
                zeros_from = low if zeros_from is None else zeros_from
                continue
            if zeros_from is not None:
                yield TimerGap(base + zeros_from, base + low, zero=True)
                zeros_from = None
            if kind == _MARK:
                return  # readers leave the file here
            if kind == _UNIT:
                pos = base + np.arange(low, high, timer.TIMER_LOG_UNIT_SIZE, dtype=np.int64)
                yield TimerBlock(pos, units[first:last])
            else:
                yield TimerGap(base + low, base + min(high, reader.size), zero=False)
    if number + 1 < len(log.starts) and reader.size > end:
        yield TimerGap(base + end, base + reader.size, zero=True)


def _blocks(reader: FileReader, end: int) -> Iterator[tuple[int, int]]:
    """Position and size of pieces of units in front of `end`, without those in holes."""
    step = BLOCK_COUNT * timer.TIMER_LOG_UNIT_SIZE
    for low, high in reader.data_units(timer.TIMER_LOG_UNIT_SIZE, end):
        stop = min(high * timer.TIMER_LOG_UNIT_SIZE, end)
        for start in range(low * timer.TIMER_LOG_UNIT_SIZE, stop, step):
            yield start, min(step, stop - start)


def _kinds(units: TimerUnits) -> NDArray[np.int8]:
    kinds = np.full(len(units), _OTHER, np.int8)
    kinds[is_unit(units)] = _UNIT
    kinds[units["magic"] == np.int32(MAGIC_BLANK)] = _MARK
    flat = units.view(np.uint8).reshape(len(units), timer.TIMER_LOG_UNIT_SIZE)
    kinds[~flat.any(axis=1)] = _ZERO
    return kinds


Slots = NDArray[Any]
"""All slots of a wheel as `TIMER_SLOT_DTYPE` has them."""

PRECISION_SETTING = "timerPrecisionMs"
PROBED = 4096
"""Slots from which the length of a slot is found."""


def read_wheel(file: StoreFile) -> Slots:
    """All slots; holes are not read. Raises StoreError where the file fails or has another length."""
    data = np.zeros(timer.TIMER_WHEEL_SIZE, np.uint8)  # what is a hole takes no memory
    with FileReader(file.path) as reader:
        if reader.size != timer.TIMER_WHEEL_SIZE:
            raise StoreError(f"has {reader.size:,} bytes, not {timer.TIMER_WHEEL_SIZE:,}", path=file.location)
        for pos, chunk in reader.data_chunks():
            data[pos : pos + len(chunk)] = np.frombuffer(chunk, np.uint8)
    return data.view(TIMER_SLOT_DTYPE)


def used_slots(slots: Slots) -> Longs:
    """The numbers of the slots that are not all zero."""
    flat = slots.view(np.uint64).reshape(SLOT_COUNT, timer.TIMER_WHEEL_SLOT_SIZE // 8)
    return np.flatnonzero(flat[:, 0] | flat[:, 1] | flat[:, 2] | flat[:, 3])


def belongs(log: StreamReader, places: Longs, slot_time: Longs, precision_ms: int) -> Flags:
    """Whether a unit of this slotTime is at each of these positions of the log."""
    units = unit_at(log, places)
    due = TimerBlock(places, units).deliver_timestamp
    inside = (places >= log.start) & (places < log.end)
    return np.asarray(inside & is_unit(units) & (due // precision_ms == slot_time), np.bool_)


def newest_first(wheels: Sequence[StoreFile]) -> list[StoreFile]:
    """The wheel that a start takes first: the newest snapshot, else the wheel itself."""

    def age(file: StoreFile) -> int:
        return -1 if file.relative == WHEEL else snapshot_pos(file) or 0

    return sorted(wheels, key=age, reverse=True)


def precision_of(store: Store, log: StreamReader, slots: Slots | None) -> int:
    """The length of a slot in ms: as set, else the one by which most slots and units agree."""
    stated = parse_int64(store.settings.get(PRECISION_SETTING) or "")
    if stated is not None and stated in timer.PRECISIONS_MS:
        return stated
    return (None if slots is None else _precision_in(log, slots)) or timer.DEFAULT_PRECISION_MS


def known_precision(store: Store) -> int | None:
    """The length of a slot in ms as the wheel shows it; None where it shows none. Raises StoreError."""
    log = timer_log(store)
    wheels = [file for file in wheel_files(store) if file.size == timer.TIMER_WHEEL_SIZE]
    if log is None or not wheels:
        return None
    with StreamReader(log) as stream:
        return _precision_in(stream, read_wheel(newest_first(wheels)[0]))


def _precision_in(log: StreamReader, slots: Slots) -> int | None:
    rows = slots[used_slots(slots)[:PROBED]]
    last, time = rows["lastPos"].astype(np.int64), rows["slotTime"].astype(np.int64)
    agree = {length: np.count_nonzero(belongs(log, last, time, length)) for length in timer.PRECISIONS_MS}
    best = max((timer.DEFAULT_PRECISION_MS, *timer.PRECISIONS_MS), key=agree.__getitem__)
    return best if agree[best] else None
