"""The timer wheel written again from the timer log. Fault catalogue H5; reference 1.8.

Only a log without gaps, whose links and messages are right, says what the wheel holds. Slots that the log
does not lead to stay as they are, but for those that hold a time of another slot: these become empty, as a
broker takes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.dtypes import TIMER_SLOT_DTYPE, Flags, Longs
from rocketfsck.formats.timer import TIMER_WHEEL_SIZE, TIMER_WHEEL_SLOT_SIZE
from rocketfsck.reader import timers
from rocketfsck.reader.units import StreamReader
from rocketfsck.repair.plan.arguments import WheelPrecision
from rocketfsck.repair.plan.model import Action
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs.answers import answer, by_file, notice, one_by_one, rules_in, whole_file
from rocketfsck.scan.spans import group_bounds
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Finding

_LOG_RULES = frozenset(
    {
        RuleName.TIMER_LOG_GAP,
        RuleName.TIMER_UNIT_LINK,
        RuleName.TIMER_UNIT_RECORD,
        RuleName.TIMER_UNIT_CONTENT,
        RuleName.TIMER_NOT_SCHEDULED,
    }
)


def plan_wheel(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """The wheel itself, where its log is sound and nobody writes snapshots instead of it."""
    store, log = scene.store, timers.timer_log(scene.store)
    has_snapshots = any(file.relative != timers.WHEEL for file in timers.wheel_files(store))
    if log is None or store.abort is not None or has_snapshots or rules_in(scene) & _LOG_RULES:
        return
    logs = [file.relative for file in log.files]
    for name, found in by_file(one_by_one(findings)).items():
        if name != timers.WHEEL:
            continue
        with StreamReader(log) as stream:
            slots = _slots_of(store)
            precision = timers.precision_of(store, stream, slots)
            wanted = expected_slots(store, stream, slots, precision)
        changed = np.count_nonzero(changed_slots(slots, wanted))
        missing = sum(finding.rule == RuleName.TIMER_SLOT_MISSING for finding in found)
        yield answer(
            "rebuild-timer-wheel",
            timers.WHEEL,
            "correct the slots of the timer wheel by the timer log",
            found,
            arguments=WheelPrecision(precision),
            preconditions=[extent for file in (name, *logs) for extent in whole_file(scene, file)],
            write_byte_count=int(changed) * TIMER_WHEEL_SLOT_SIZE,
            notices=[notice("timed-again", missing)],
        )


def act_wheel(scene: ActScene, action: Action, arguments: WheelPrecision) -> None:
    """Write the slots that differ; a wheel of another length gets its own first."""
    store = scene.reopen()
    log = timers.timer_log(store)
    if log is None:
        raise StoreError("the timer log is missing", path=action.target)
    with StreamReader(log) as stream:
        slots = _slots_of(store)
        wanted = expected_slots(store, stream, slots, arguments.precision_ms)
    if scene.tree.size(action.target) != TIMER_WHEEL_SIZE:
        scene.tree.resize(action.target, TIMER_WHEEL_SIZE)
    changed = changed_slots(slots, wanted)
    bounds = group_bounds(changed).tolist()
    for first, last in pairwise(bounds):
        if changed[first]:
            scene.tree.write(action.target, first * TIMER_WHEEL_SLOT_SIZE, wanted[first:last].tobytes())


def expected_slots(store: Store, log: StreamReader, slots: timers.Slots, precision_ms: int) -> timers.Slots:
    """The slots as the log makes them. Raises StoreError for a log with a gap, or a wrong link."""
    made = timers.WheelReplay()
    for item in timers.timer_units(log):
        if isinstance(item, timers.TimerGap):
            raise StoreError(f"the timer log has a gap at {item.start}", path=timers.WHEEL)
        wrong, _ = timers.put_block(made, log, item, precision_ms)
        if len(wrong):
            raise StoreError(
                f"the timer unit at {int(item.pos[wrong[0]])} has a wrong prevPos", path=timers.WHEEL
            )
    wanted = slots.copy()
    used = timers.used_slots(slots)
    time = wanted["slotTime"].astype(np.int64)
    misplaced = used[time[used] % timers.SLOT_COUNT != used]
    wanted[misplaced] = np.zeros(1, TIMER_SLOT_DTYPE)
    _fill(wanted, made, _to_be_filled(store, made, used, precision_ms))
    return wanted


def _to_be_filled(store: Store, made: timers.WheelReplay, used: Longs, precision_ms: int) -> Longs:
    """The slots that the log leads to: those in use, and those whose time is still to come."""
    progress = timers.read_progress(store)
    due = np.iinfo(np.int64).min + 1 if progress is None else -(-progress.read_timestamp // precision_ms)
    pending = np.flatnonzero(made.time >= due)
    return np.union1d(pending, used[made.last[used] >= 0])


def _fill(wanted: timers.Slots, made: timers.WheelReplay, number: Longs) -> None:
    """A slot's oldest unit and its count are known only if all its units are in the log."""
    same = wanted["slotTime"][number] == made.time[number]
    known = made.whole[number] | ~same
    wanted["magic"][number[~same]] = 0
    wanted["slotTime"][number] = made.time[number]
    wanted["lastPos"][number] = made.last[number]
    wanted["firstPos"][number[known]] = made.first[number[known]]
    wanted["num"][number[known]] = made.count[number[known]]


def changed_slots(slots: timers.Slots, wanted: timers.Slots) -> Flags:
    """Which slots differ, by number."""
    pairs = (rows.view(np.uint64).reshape(timers.SLOT_COUNT, -1) for rows in (slots, wanted))
    before, after = pairs
    return np.asarray((before != after).any(axis=1), np.bool_)


def _slots_of(store: Store) -> timers.Slots:
    """The slots of the wheel; none in use where it has another length."""
    for file in timers.wheel_files(store):
        if file.relative == timers.WHEEL and file.size == TIMER_WHEEL_SIZE:
            return timers.read_wheel(file)
    return np.zeros(timers.SLOT_COUNT, TIMER_SLOT_DTYPE)


ROWS: tuple[Row, ...] = (
    Repair(
        "rebuild-timer-wheel",
        505,
        "rebuild the timer wheel from the timer log",
        plan_wheel,
        act_wheel,
        WheelPrecision,
        areas=("timerwheel", "timerlog"),
        writes_by=("timer_precision_ms",),
    ),
)
