"""A timer wheel against the slots that its log makes. Reference 1.8.1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.arrays import Flags, Longs
from rocketfsck.formats.timer import TIMER_WHEEL_SIZE, TIMER_WHEEL_SLOT_SIZE
from rocketfsck.reader.timerwheel import Slots, belongs, used_slots
from rocketfsck.reader.units import StreamReader
from rocketfsck.scan.timerwheel import SLOT_COUNT, WheelReplay
from rocketfsck.store.model import StoreFile
from rocketfsck.verify.finding import Facts, Finding, Where
from rocketfsck.verify.tasks.shared import Shared


@dataclass(frozen=True, slots=True)
class WheelByLog:
    """What the timer log says of a wheel.

    `floor` is the state that the wheel must have reached, `whole` that after the last unit; `is_exact`: they
    are the same, the broker was stopped cleanly. `precision_ms` is the length of a slot,
    `read_timestamp` (ms) the time up to which slots were delivered. `is_live`: the log may have grown.
    """

    log: StreamReader
    floor: WheelReplay
    whole: WheelReplay
    is_exact: bool
    precision_ms: int
    read_timestamp: int
    is_live: bool = False


def check_length(file: StoreFile) -> Iterator[Finding]:
    """A wheel of another length than brokers make; an empty one they make again."""
    if file.size not in (0, TIMER_WHEEL_SIZE):
        where = Where(file=file.relative, start=0, end=file.size)
        yield Finding(RuleName.TIMER_WHEEL_LENGTH, where, {"size": file.size}, {"size": TIMER_WHEEL_SIZE})


def check_slots(file: StoreFile, slots: Slots, made: WheelByLog, shared: Shared) -> Iterator[Finding]:
    """Every slot that is used, or that the log says must be."""
    number = used_slots(slots)
    rows = slots[number]
    time = rows["slotTime"].astype(np.int64)
    placed = time % SLOT_COUNT == number
    shared.ask(RuleName.TIMER_SLOT_NUMBER, len(number))
    for row in np.flatnonzero(~placed).tolist():
        found: Facts = {"slot_time": int(time[row])}
        expected: Facts = {"slot": int(time[row]) % SLOT_COUNT}
        yield Finding(RuleName.TIMER_SLOT_NUMBER, _slot(file, int(number[row])), found, expected)
    yield from _positions(file, number[placed], rows[placed], made)
    yield from _counts(file, number[placed], rows[placed], made)
    yield from _missing(file, slots, number[~placed], made)


def _positions(file: StoreFile, number: Longs, rows: Slots, made: WheelByLog) -> Iterator[Finding]:
    time, last, first = (rows[name].astype(np.int64) for name in ("slotTime", "lastPos", "firstPos"))
    must = made.floor.has(number, time)
    expired = (last < made.log.start) & (last >= 0) & ~must
    wrong = ~expired & ~belongs(made.log, last, time, made.precision_ms)
    wrong |= must & (last < made.floor.last[number])
    if made.is_live:
        wrong &= last < made.log.end
    yield from _wrong(file, "lastPos", number, last, made.whole.last[number], wrong)
    known = made.whole.has(number, time) & made.whole.whole[number]
    yield from _wrong(
        file, "firstPos", number, first, made.whole.first[number], known & (first != made.whole.first[number])
    )


def _wrong(
    file: StoreFile, name: str, number: Longs, value: Longs, expected: Longs, wrong: Flags
) -> Iterator[Finding]:
    for row in np.flatnonzero(wrong).tolist():
        found: Facts = {"field": name, "value": int(value[row])}
        yield Finding(
            RuleName.TIMER_SLOT_POSITION,
            _slot(file, int(number[row])),
            found,
            {"value": int(expected[row])},
        )


def _counts(file: StoreFile, number: Longs, rows: Slots, made: WheelByLog) -> Iterator[Finding]:
    """A number of messages that the log does not have. One too low is what a crash leaves."""
    known = made.whole.has(number, rows["slotTime"].astype(np.int64)) & made.whole.whole[number]
    count, expected = rows["num"].astype(np.int64), made.whole.count[number]
    for rule, wrong in (
        (RuleName.TIMER_SLOT_COUNT, count > expected),
        (RuleName.TIMER_SLOT_COUNT_LOW, (count < expected) & made.is_exact),
    ):
        for row in np.flatnonzero(known & wrong).tolist():
            found: Facts = {"count": int(count[row])}
            where = _slot(file, int(number[row]))
            yield Finding(rule, where, found, {"count": int(expected[row])})


def _missing(file: StoreFile, slots: Slots, misplaced: Longs, made: WheelByLog) -> Iterator[Finding]:
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
    start = number * TIMER_WHEEL_SLOT_SIZE
    return Where(file=file.relative, start=start, end=start + TIMER_WHEEL_SLOT_SIZE, slot=number)
