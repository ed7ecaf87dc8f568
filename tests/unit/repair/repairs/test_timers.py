"""The timer wheel written again: what a broker wrote comes back, byte for byte, or nothing is changed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rocketfsck.engine import LocalEngine
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.dtypes import TIMER_SLOT_DTYPE
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.formats.timer import TIMER_WHEEL_SIZE
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.undoing import undo
from rocketfsck.repair.plan.arguments import WheelPrecision
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store

from tests.conftest import Directory
from tests.unit.repair.repairs.conftest import NOW, Patient, bad, names

WHEEL, LOG = "timerwheel", "timerlog/" + offset_to_filename(0)


@pytest.fixture
def timers(real_copy: Directory, tmp_path: Path) -> Patient:
    return Patient(real_copy("5.5.0-timer"), tmp_path / "area")


def slots(patient: Patient) -> NDArray[Any]:
    return np.fromfile(patient.file(WHEEL), TIMER_SLOT_DTYPE)


def fullest(patient: Patient) -> int:
    return int(slots(patient)["num"].argmax())


def set_i64(patient: Patient, field: int, value: int) -> None:
    patient.put(WHEEL, fullest(patient) * 32 + field, struct.pack(">q", value))


DAMAGES: dict[str, Callable[[Patient], None]] = {
    "slotTime": lambda patient: set_i64(patient, 0, 4711),
    "firstPos": lambda patient: set_i64(patient, 8, 52),
    "lastPos": lambda patient: set_i64(patient, 16, 1 << 40),
    "an empty slot": lambda patient: patient.put(WHEEL, fullest(patient) * 32, bytes(32)),
    "num": lambda patient: patient.put(WHEEL, fullest(patient) * 32 + 24, struct.pack(">i", 1000)),
    "the last slots": lambda patient: patient.put(
        WHEEL, 32 * int(np.flatnonzero(slots(patient)["slotTime"])[-6]), bytes(32 * 5)
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_check_repair_check_undo(name: str, timers: Patient) -> None:
    sound, healthy = slots(timers), bad(timers.check())
    DAMAGES[name](timers)
    damaged = timers.file(WHEEL).read_bytes()
    assert bad(timers.check()) - healthy
    plan = timers.plan(only=["rebuild-timer-wheel"])
    (action,) = plan.actions
    assert action.preen and not action.losses
    apply_plan(plan, assume=[item.name for item in action.assumptions if item.how == "assumed"])
    assert bad(timers.check()) == healthy
    used = slots(timers)["slotTime"] != 0
    assert (slots(timers)[used] == sound[used]).all()
    undo(timers.root)
    assert timers.file(WHEEL).read_bytes() == damaged


def test_a_wheel_that_is_too_short(timers: Patient) -> None:
    """No slot is left to tell how long one is: that is assumed, and has to be confirmed."""
    with timers.file(WHEEL).open("r+b") as stream:
        stream.truncate(32)
    plan = timers.plan(only=["rebuild-timer-wheel"])
    (action,) = plan.actions
    assert [(item.name, item.how) for item in action.assumptions] == [("timer_precision_ms", "assumed")]
    assert not action.preen
    with pytest.raises(UsageError, match="timer_precision_ms"):
        apply_plan(plan)
    apply_plan(plan, assume=["timer_precision_ms"])
    assert not {rule for rule in bad(timers.check()) if rule.startswith("TM")}


def test_only_a_sound_log_tells(timers: Patient) -> None:
    set_i64(timers, 8, 52)
    for pos, data in ((52, bytes(52)), (56, struct.pack(">q", 99))):
        before = timers.file(LOG).read_bytes()
        timers.put(LOG, pos, data)
        plan = timers.plan()
        assert "rebuild-timer-wheel" not in names(plan)
        assert {item.rule for item in plan.unanswered} >= {"TM003"}
        timers.file(LOG).write_bytes(before)


def test_after_a_crash_the_start_does_it(timers: Patient) -> None:
    set_i64(timers, 8, 52)
    timers.file("abort").write_bytes(b"")
    assert "rebuild-timer-wheel" not in names(timers.plan())


def test_the_act_refuses_a_log_that_changed(timers: Patient) -> None:
    set_i64(timers, 8, 52)
    (action,) = timers.plan(only=["rebuild-timer-wheel"]).actions
    for pos, data in ((56, struct.pack(">q", 99)), (52, bytes(52))):
        before = timers.file(LOG).read_bytes()
        timers.put(LOG, pos, data)
        timers.tree = None
        timers.area = timers.area.with_name(f"area{pos}")
        with pytest.raises(StoreError, match=r"wrong prevPos|gap"):
            timers.act(action)
        timers.file(LOG).write_bytes(before)
    timers.tree = None
    timers.area = timers.area.with_name("area-without")
    timers.file(LOG).unlink()
    with pytest.raises(StoreError, match="timer log is missing"):
        timers.act(action)


def test_the_precision_of_a_broker_conf(timers: Patient, tmp_path: Path) -> None:
    set_i64(timers, 8, 52)
    (action,) = timers.plan(only=["rebuild-timer-wheel"]).actions
    assert action.arguments == WheelPrecision(1000)
    assert [(item.value, item.how) for item in action.assumptions] == [(1000, "bytes")]
    conf = tmp_path / "broker.conf"
    for text, evidence in (
        ("timerPrecisionMs=1000\n", "sets timerPrecisionMs"),
        ("brokerName=a\n", "does not set timerPrecisionMs"),
    ):
        conf.write_text(text)
        timers.put(WHEEL, 0, bytes(TIMER_WHEEL_SIZE))
        store = open_store(timers.root, broker_conf=conf)
        report = check_store(store, CheckOptions(now_timestamp=NOW), engine=LocalEngine(1))
        (action,) = make_plan(store, report, only=["rebuild-timer-wheel"]).actions
        assert [(item.how, item.evidence.partition("broker.conf ")[2]) for item in action.assumptions] == [
            ("given", evidence + (": the default" if "not" in evidence else ""))
        ]
