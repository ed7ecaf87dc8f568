"""Faults of timer wheel, timer log and their messages (fault catalogue H5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats import timer
from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.reader import timers
from rocketfsck.reader.units import StreamReader
from rocketfsck.store.model import StoreFile
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import PromisedPlace, rules

TIMERS = "timers"
_FAR = 1 << 40
_COUNTS = rules(RuleName.TIMER_SLOT_COUNT, RuleName.TIMER_SLOT_COUNT_LOW)
_UNITS_LOST = rules(
    _COUNTS, RuleName.TIMER_SLOT_POSITION, RuleName.TIMER_UNIT_LINK, RuleName.TIMER_NOT_SCHEDULED
)
"""Units are gone that slots and other units lead to."""


@dataclass(frozen=True, slots=True)
class _TimerScene:
    """The timers before the fault: the wheel that a start reads, its slots, the units of the log."""

    wheel: StoreFile
    slots: timers.Slots
    pos: Longs
    units: timers.TimerUnits
    waiting: Flags
    precision_ms: int
    read_timestamp: int


def _scene(job: Job) -> _TimerScene:
    log, progress = timers.timer_log(job.store), timers.read_progress(job.store)
    wheels = [file for file in timers.wheel_files(job.store) if file.size == timer.TIMER_WHEEL_SIZE]
    job.need(log is not None and log.files and wheels and progress is not None, TIMERS)
    assert log is not None and progress is not None
    wheel = timers.newest_first(wheels)[0]
    slots = timers.read_wheel(wheel)
    with StreamReader(log) as stream:
        blocks = [item for item in timers.timer_units(stream) if isinstance(item, timers.TimerBlock)]
        precision = timers.precision_of(job.store, stream, slots)
    job.need(blocks, "timer unit")
    pos = np.concatenate([block.pos for block in blocks])
    units = np.concatenate([block.units for block in blocks])
    waiting = timers.TimerBlock(pos, units).deliver_timestamp >= progress.read_timestamp
    return _TimerScene(wheel, slots, pos, units, waiting, precision, progress.read_timestamp)


def _slot(job: Job) -> tuple[_TimerScene, int]:
    """The timers, and a slot whose messages wait."""
    scene = _scene(job)
    used = timers.used_slots(scene.slots)
    least = -(-scene.read_timestamp // scene.precision_ms)
    waiting = [
        number
        for number in used[scene.slots["slotTime"][used] >= least].tolist()
        if job.is_free(scene.wheel.relative, *_slot_extent(number))
    ]
    return scene, job.choose(waiting, "timer slot whose messages wait")


def _slot_extent(number: int) -> tuple[int, int]:
    return number * timer.TIMER_WHEEL_SLOT_SIZE, (number + 1) * timer.TIMER_WHEEL_SLOT_SIZE


def _set_slot(job: Job, scene: _TimerScene, number: int, name: str, value: int) -> None:
    """Write a field of a slot; a check must find it at the slot."""
    file, start = scene.wheel.relative, number * timer.TIMER_WHEEL_SLOT_SIZE
    job.editor.set_number(file, start, timer.TIMER_WHEEL_SLOT, name, value)
    job.done(f"{name} of slot {number} of {file} is {value}", _slot_place(scene, number))


def _slot_place(scene: _TimerScene, number: int) -> PromisedPlace:
    return PromisedPlace(scene.wheel.relative, *_slot_extent(number), slot=number)


def _unit(job: Job, wanted: Callable[[_TimerScene, int], object]) -> tuple[_TimerScene, int]:
    """The timers, and the row of a unit that is wanted and free."""
    scene = _scene(job)
    rows = [
        row
        for row in range(len(scene.pos))
        if wanted(scene, row) and job.is_free(*_unit_extent(job, int(scene.pos[row])))
    ]
    return scene, job.choose(rows, "timer unit like this")


def _is_inside(scene: _TimerScene, row: int) -> bool:
    return 0 < row < len(scene.pos) - 1


def _is_waiting(scene: _TimerScene, row: int) -> bool:
    return bool(scene.waiting[row])


def _unit_extent(job: Job, pos: int) -> tuple[str, int, int]:
    """The file of a unit, and its bytes there."""
    log = timers.timer_log(job.store)
    assert log is not None
    file = max(
        (file for file in log.files if (file.start_offset or 0) <= pos),
        key=lambda file: file.start_offset or 0,
    )
    start = pos - (file.start_offset or 0)
    return file.relative, start, start + timer.TIMER_LOG_UNIT_SIZE


def _set_unit(job: Job, scene: _TimerScene, row: int, name: str, value: int) -> None:
    """Write a field of a unit; a check must find it at the unit."""
    file, start, end = _unit_extent(job, int(scene.pos[row]))
    job.editor.set_number(file, start, timer.TIMER_LOG_UNIT, name, value)
    job.done(f"{name} of the timer unit at {int(scene.pos[row])} is {value}", PromisedPlace(file, start, end))


@damage("H5", RuleName.TIMER_WHEEL_LENGTH, TIMERS)
def timer_wheel_short(job: Job) -> None:
    """The timer wheel lacks its last slots."""
    scene = _scene(job)
    size = timer.TIMER_WHEEL_SIZE - timer.TIMER_WHEEL_SLOT_SIZE * (1 + job.rng.randrange(1000))
    job.cut(scene.wheel.relative, size)


@damage("H5", RuleName.TIMER_SLOT_NUMBER, TIMERS, RuleName.TIMER_SLOT_MISSING)
def timer_slot_time(job: Job) -> None:
    """A timer slot holds the time of another slot."""
    scene, number = _slot(job)
    value = int(scene.slots["slotTime"][number]) + 1 + job.rng.randrange(1000)
    _set_slot(job, scene, number, "slotTime", value)


@damage("H5", RuleName.TIMER_SLOT_POSITION, TIMERS)
def timer_slot_position(job: Job) -> None:
    """A timer slot points beyond the timer log."""
    scene, number = _slot(job)
    _set_slot(job, scene, number, "lastPos", _FAR)


@damage("H5", RuleName.TIMER_SLOT_COUNT, TIMERS)
def timer_slot_count(job: Job) -> None:
    """A timer slot counts more messages than it has."""
    scene, number = _slot(job)
    value = int(scene.slots["num"][number]) + 1 + job.rng.randrange(100)
    _set_slot(job, scene, number, "num", value)


@damage("H5", RuleName.TIMER_SLOT_MISSING, TIMERS)
def timer_slot_zeros(job: Job) -> None:
    """A timer slot whose messages wait is all zeros."""
    scene, number = _slot(job)
    file, (start, end) = scene.wheel.relative, _slot_extent(number)
    job.editor.write(file, start, bytes(end - start))
    job.done(f"slot {number} of {file} is all zeros", _slot_place(scene, number))


@damage("H5", RuleName.TIMER_LOG_GAP, TIMERS, _UNITS_LOST)
def timer_unit_zeros(job: Job) -> None:
    """A timer unit in the middle of the log is all zeros."""
    scene, row = _unit(job, _is_inside)
    file, start, end = _unit_extent(job, int(scene.pos[row]))
    job.editor.write(file, start, bytes(timer.TIMER_LOG_UNIT_SIZE))
    job.done(f"the timer unit at {int(scene.pos[row])} is all zeros", PromisedPlace(file, start, end))


@damage("H5", RuleName.TIMER_LOG_GAP, TIMERS, _UNITS_LOST)
def timer_unit_size(job: Job) -> None:
    """A timer unit states another size.

    A start that reads it cuts the timer log there.
    """
    scene, row = _unit(job, _is_inside)
    value = timer.TIMER_LOG_UNIT_SIZE ^ (1 << job.rng.randrange(16))
    _set_unit(job, scene, row, "size", value)


@damage("H5", RuleName.TIMER_UNIT_LINK, TIMERS)
def timer_unit_link(job: Job) -> None:
    """A timer unit names itself as the previous one.

    A broker that reads the slot runs out of memory.
    """
    scene, row = _unit(job, _is_waiting)
    _set_unit(job, scene, row, "prevPos", int(scene.pos[row]))


@damage("H5", RuleName.TIMER_UNIT_RECORD, TIMERS, RuleName.TIMER_NOT_SCHEDULED)
def timer_unit_record(job: Job) -> None:
    """A timer unit points beyond the commit log."""
    scene, row = _unit(job, _is_waiting)
    _set_unit(job, scene, row, "offsetPy", _FAR)


@damage("H5", RuleName.TIMER_UNIT_CONTENT, TIMERS)
def timer_unit_topic(job: Job) -> None:
    """A timer unit has the hash of another topic."""
    scene, row = _unit(job, lambda scene, row: scene.waiting[row] and scene.units["hashCodeOfRealTopic"][row])
    value = int(scene.units["hashCodeOfRealTopic"][row]) ^ (1 << job.rng.randrange(31))
    _set_unit(job, scene, row, "hashCodeOfRealTopic", value or 1)


@damage("H5", RuleName.TIMER_NOT_SCHEDULED, TIMERS, _UNITS_LOST)
def timer_log_tail(job: Job) -> None:
    """The last units of the timer log are zeros."""
    scene = _scene(job)
    job.need(scene.waiting.any(), "timer unit that waits")
    first = int(np.flatnonzero(scene.waiting)[-1])
    for row in range(first, len(scene.pos)):
        file, start, _ = _unit_extent(job, int(scene.pos[row]))
        job.need(job.is_free(file, start), "free end of the timer log")
        job.editor.write(file, start, bytes(timer.TIMER_LOG_UNIT_SIZE))
    job.note = f"the timer log ends at {int(scene.pos[first])}"
    offset = int(scene.units["offsetPy"][first])
    job.promise(PromisedPlace(physical_offset=offset))


@damage(
    "H5", RuleName.TIMER_CHECK_RANGE, TIMERS, _UNITS_LOST, RuleName.TIMER_UNIT_RECORD, RuleName.TIMER_LOG_GAP
)
def timer_log_short(job: Job) -> None:
    """The file of the timer log is cut off in the middle of its units."""
    scene, row = _unit(job, _is_inside)
    file, start, _ = _unit_extent(job, int(scene.pos[row]))
    log = timers.timer_log(job.store)
    job.need(log is not None and file == log.files[-1].relative, "timer unit in the last file")
    job.cut(file, start, PromisedPlace("config/timercheck"))


def _gone(job: Job, file: str) -> None:
    job.done(f"{file} removed", PromisedPlace(file), RuleName.TIMER_FILE_MISSING)


@damage("H5", RuleName.TIMER_FILE_MISSING, TIMERS)
def timer_log_missing(job: Job) -> None:
    """The timer log is missing."""
    _scene(job)
    job.need(job.is_free("timerlog/"), "free timer log")
    job.editor.remove_tree("timerlog")
    _gone(job, "timerlog")


@damage("H5", RuleName.TIMER_FILE_MISSING, TIMERS)
def timer_wheel_missing(job: Job) -> None:
    """The timer wheel and its snapshots are missing."""
    _scene(job)
    for file in timers.wheel_files(job.store):
        job.need(job.is_free(file.relative), "free timer wheel")
        job.editor.remove(file.relative)
    _gone(job, "timerwheel")


@damage("H5", RuleName.TIMER_FILE_MISSING, TIMERS)
def timer_check_missing(job: Job) -> None:
    """The progress file of the timers is missing."""
    _scene(job)
    for file in ("config/timercheck", "config/timercheck.bak"):
        if job.editor.exists(file):
            job.need(job.is_free(file), "free timercheck")
            job.editor.remove(file)
    _gone(job, "config/timercheck")
