"""Timer wheel, timer log and messages: stores of a 5.5.0 broker, sound and with one thing changed in them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketfsck.formats.dtypes import TIMER_SLOT_DTYPE, TIMER_UNIT_DTYPE
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.formats.timer import (
    DEFAULT_PRECISION_MS,
    TIMER_CHECK,
    TIMER_LOG_UNIT,
    TIMER_LOG_UNIT_SIZE,
    TIMER_TOPIC,
    TIMER_WHEEL_SIZE,
    TIMER_WHEEL_SLOT,
    timer_log_filler,
    timer_slot_of,
)
from rocketfsck.store import open_store
from rocketfsck.verify import timers as timer_checks
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.rules.catalog import describe
from rocketfsck.verify.tasks.task import Context
from rocketfsck.verify.timers import check_timers

from tests.conftest import Directory

WHEEL, LOG = "timerwheel", "timerlog/" + offset_to_filename(0)
NOW = 1_900_000_000_000


class Timers:
    """A store with timers that may be altered."""

    def __init__(self, root: Path) -> None:
        self.root = root
        data = (root / LOG).read_bytes()
        rows = np.frombuffer(data, TIMER_UNIT_DTYPE, len(data) // TIMER_LOG_UNIT_SIZE)
        self.units = rows[: int(np.count_nonzero(rows["size"]))]

    @property
    def slot(self) -> int:
        """The number of the slot with the most units."""
        slots = np.fromfile(self.root / WHEEL, TIMER_SLOT_DTYPE)
        return int(slots["num"].argmax())

    def unit_of(self, slot: int) -> int:
        """The number of the newest unit of a slot."""
        due = self.units["currWriteTime"] + self.units["delayedTime"]
        return max(row for row, at in enumerate(due.tolist()) if timer_slot_of(at) == slot)

    def write(self, file: str, pos: int, data: bytes) -> None:
        with (self.root / file).open("r+b") as stream:
            stream.seek(pos)
            stream.write(data)

    def set_slot(self, number: int, **values: int) -> None:
        self._set(WHEEL, TIMER_WHEEL_SLOT, number * TIMER_WHEEL_SLOT.size, values)

    def set_unit(self, number: int, **values: int) -> None:
        self._set(LOG, TIMER_LOG_UNIT, number * TIMER_LOG_UNIT.size, values)

    def set_check(self, **values: int) -> None:
        self._set("config/timercheck", TIMER_CHECK, 0, values)

    def _set(self, file: str, layout: Any, pos: int, values: dict[str, int]) -> None:
        with (self.root / file).open("rb") as stream:
            stream.seek(pos)
            old = layout.parse(stream.read(layout.size))
        self.write(file, pos, layout.build({**old, **values}))

    def items(self, level: Any = "full", **options: Any) -> list[Finding | NotChecked]:
        context = Context(open_store(self.root, **options), level, NOW)
        return list(check_timers(context, None))

    def found(self, level: Any = "full", **options: Any) -> list[Finding]:
        items = [item for item in self.items(level, **options) if isinstance(item, Finding)]
        assert all("?" not in describe(item) for item in items)
        return items

    def rules(self, level: Any = "full", **options: Any) -> set[str]:
        return {finding.rule for finding in self.found(level, **options)}


@pytest.fixture
def timers(real_copy: Directory) -> Timers:
    return Timers(real_copy("5.5.0-timer"))


@pytest.fixture
def snapshots(real_copy: Directory) -> Timers:
    return Timers(real_copy("5.5.0-snapshot"))


@pytest.mark.parametrize("name", ["5.5.0-timer", "5.5.0-snapshot"])
@pytest.mark.parametrize("level", ["quick", "cross", "full"])
def test_a_sound_store_has_nothing(name: str, level: str, real_copy: Directory) -> None:
    assert Timers(real_copy(name)).items(level) == []


def test_a_wheel_of_another_length(timers: Timers) -> None:
    with (timers.root / WHEEL).open("r+b") as stream:
        stream.truncate(TIMER_WHEEL_SIZE - 32)
    assert timers.rules("quick") == {"TM001"}
    with (timers.root / WHEEL).open("r+b") as stream:
        stream.truncate(0)
    assert timers.rules("quick") == set()


CASES: dict[str, tuple[Callable[[Timers], None], set[str]]] = {
    "slotTime of another slot": (
        lambda timers: timers.set_slot(timers.slot, slotTime=5),
        {"TM002"},
    ),
    "lastPos behind the log": (lambda timers: timers.set_slot(timers.slot, lastPos=10**9), {"TM003"}),
    "lastPos of an older unit": (
        lambda timers: timers.set_slot(
            timers.slot, lastPos=int(timers.units["prevPos"][timers.unit_of(timers.slot)])
        ),
        {"TM003"},
    ),
    "lastPos of another slot's unit": (lambda timers: timers.set_slot(timers.slot, lastPos=0), {"TM003"}),
    "firstPos": (lambda timers: timers.set_slot(timers.slot, firstPos=-1), {"TM003"}),
    "more messages than units": (lambda timers: timers.set_slot(timers.slot, num=99), {"TM004"}),
    "fewer messages than units": (lambda timers: timers.set_slot(timers.slot, num=0), {"TM005"}),
    "an empty slot": (
        lambda timers: timers.write(WHEEL, timers.slot * 32, bytes(32)),
        {"TM006"},
    ),
    "a unit of another size": (
        lambda timers: timers.set_unit(len(timers.units) // 2, size=51),
        {"TM010"},
    ),
    "a unit of zeros": (
        lambda timers: timers.write(LOG, 52 * (len(timers.units) // 2), bytes(52)),
        {"TM010"},
    ),
    "prevPos": (lambda timers: timers.set_unit(timers.unit_of(timers.slot), prevPos=-1), {"TM011"}),
    "prevPos of a slot's first unit": (lambda timers: timers.set_unit(0, prevPos=52), {"TM011"}),
    "offsetPy behind the log": (
        lambda timers: timers.set_unit(len(timers.units) - 1, offsetPy=1 << 40),
        {"TM012"},
    ),
    "sizePy": (lambda timers: timers.set_unit(len(timers.units) - 1, sizePy=1), {"TM012"}),
    "magic of a unit that deletes": (
        lambda timers: timers.set_unit(len(timers.units) - 1, magic=5),
        {"TM013"},
    ),
    "hash of another topic": (
        lambda timers: timers.set_unit(len(timers.units) - 1, hashCodeOfRealTopic=7),
        {"TM013"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_thing_changed(name: str, timers: Timers) -> None:
    change, rules = CASES[name]
    change(timers)
    assert rules <= timers.rules()
    assert not any(isinstance(item, NotChecked) for item in timers.items())
    if not name.startswith("a unit"):
        extra = {"TM014"} if "TM012" in rules else {"TM004", "TM005"} if "deletes" in name else set()
        assert timers.rules() <= rules | extra


def test_the_place_of_a_slot_and_of_a_unit(timers: Timers) -> None:
    timers.set_slot(timers.slot, firstPos=-1)
    (finding,) = timers.found()
    assert (finding.where.file, finding.where.start) == (WHEEL, timers.slot * 32)
    timers.set_slot(timers.slot, firstPos=int(finding.expected["value"] or 0))
    timers.set_unit(3, prevPos=7)
    (finding,) = timers.found()
    assert (finding.where.file, finding.where.start, finding.where.end) == (LOG, 156, 208)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"offsetPy": 1 << 40}, "the commit log ends at "),
        ({"sizePy": 1}, "no record of 1 bytes starts there"),
    ],
)
def test_tm012_says_what_is_at_the_place(timers: Timers, values: dict[str, int], reason: str) -> None:
    timers.set_unit(len(timers.units) - 1, **values)
    (finding,) = [finding for finding in timers.found() if finding.rule == "TM012"]
    end = open_store(timers.root).commitlog.end_offset if "offsetPy" in values else ""
    assert finding.found["reason"] == f"{reason}{end}"


def test_a_message_that_is_not_scheduled(timers: Timers) -> None:
    """Its unit is gone from the end of the log, the progress still says that the message was read."""
    last = len(timers.units) - 1
    timers.write(LOG, 52 * last, bytes(52))
    timers.set_check(lastReadTimeMs=0)
    found = timers.found()
    assert {"TM014"} <= {finding.rule for finding in found}
    (lost,) = [finding for finding in found if finding.rule == "TM014"]
    assert lost.where.topic == TIMER_TOPIC
    assert lost.where.physical_offset == int(timers.units["offsetPy"][last])
    timers.set_check(lastTimerQueueOffset=last)
    assert "TM014" not in timers.rules()


def test_messages_without_a_unit_are_looked_at_up_to_a_limit(
    timers: Timers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timer_checks, "LOOKED_AT", 1)
    for row in (-1, -2, -3):
        timers.write(LOG, 52 * (len(timers.units) + row), bytes(52))
    assert any(isinstance(item, NotChecked) for item in timers.items())


def test_after_a_crash_the_wheel_may_be_older_than_the_log(timers: Timers) -> None:
    """A start puts the slots right from the last files of the log."""
    slot = timers.slot
    timers.set_slot(slot, lastPos=int(timers.units["prevPos"][timers.unit_of(slot)]), num=1)
    assert timers.rules() == {"TM003", "TM005"}
    (timers.root / "abort").write_bytes(b"")
    assert timers.rules() == set()
    timers.set_slot(slot, lastPos=52 * 1000)
    assert timers.rules() == {"TM003"}


def test_a_wheel_is_not_judged_where_snapshots_are(snapshots: Timers) -> None:
    (snapshots.root / WHEEL).write_bytes(bytes(TIMER_WHEEL_SIZE))
    assert snapshots.items() == []


@pytest.mark.parametrize(
    ("values", "rule"), [({"lastPos": 1}, "TM003"), ({"num": 50}, "TM004"), ({"slotTime": 3}, "TM002")]
)
def test_a_snapshot_is_judged_by_its_position(snapshots: Timers, values: dict[str, int], rule: str) -> None:
    name = f"{WHEEL}.832"
    slots = np.fromfile(snapshots.root / name, TIMER_SLOT_DTYPE)
    number = int(slots["num"].argmax())
    old = TIMER_WHEEL_SLOT.parse(slots[number].tobytes())
    snapshots.write(name, number * 32, TIMER_WHEEL_SLOT.build({**old, **values}))
    found = snapshots.found()
    assert {finding.rule for finding in found} == {rule}
    assert {finding.where.file for finding in found} == {name}


def test_units_of_a_full_file_end_at_its_mark(timers: Timers) -> None:
    """The next file goes on; without the mark the first file has a gap."""
    count = len(timers.units)
    size = 52 * count + 16 + 20
    data = (timers.root / LOG).read_bytes()[: 52 * count]
    (timers.root / LOG).write_bytes((data + timer_log_filler(36)).ljust(size, b"\0"))
    second = timers.root / "timerlog" / offset_to_filename(size)
    second.write_bytes(bytes(size))
    assert timers.rules() == set()
    (timers.root / LOG).write_bytes(data.ljust(size, b"\0"))
    assert timers.rules() == {"TM010"}


def test_a_tebibyte_of_holes_in_front_of_units(timers: Timers) -> None:
    """Holes are not read, and a gap that nobody can pass is one finding."""
    end = (1 << 40) // 52 * 52
    timers.write(LOG, end, timers.units[-1:].tobytes())
    (gap,) = (finding for finding in timers.found() if finding.rule == "TM010")
    assert (gap.where.start, gap.where.end) == (52 * len(timers.units), end)


def test_another_precision(timers: Timers, tmp_path: Path) -> None:
    """The wheel is made anew with slots of 500 ms: found from the bytes, or as set."""
    replayed: dict[int, tuple[int, int, int, int]] = {}
    for row, unit in enumerate(timers.units):
        time = int(unit["currWriteTime"] + unit["delayedTime"]) // 500
        first, _, num, _ = replayed.get(time, (52 * row, -1, 0, -1))
        previous = replayed[time][1] if time in replayed else -1
        timers.set_unit(row, prevPos=previous)
        replayed[time] = (first, 52 * row, num + 1, row)
    wheel = bytearray(TIMER_WHEEL_SIZE)
    for time, (first, last, num, _) in replayed.items():
        values = {"slotTime": time, "firstPos": first, "lastPos": last, "num": num, "magic": 0}
        at = timer_slot_of(time * 500, 500) * 32
        wheel[at : at + 32] = TIMER_WHEEL_SLOT.build(values)
    (timers.root / WHEEL).write_bytes(wheel)
    assert timers.rules() == set()
    conf = tmp_path / "broker.conf"
    conf.write_text("timerPrecisionMs=500\n")
    assert timers.rules(broker_conf=conf) == set()
    conf.write_text(f"timerPrecisionMs={DEFAULT_PRECISION_MS}\n")
    assert "TM003" in timers.rules(broker_conf=conf)


def test_a_store_without_a_timer_log_or_progress(timers: Timers) -> None:
    (timers.root / "config/timercheck").unlink()
    assert [(found.rule, found.where.file) for found in timers.found()] == [("TM007", "config/timercheck")]
    shutil.rmtree(timers.root / "timerlog")
    assert timers.items() == []


def test_units_without_a_commit_log(timers: Timers) -> None:
    shutil.rmtree(timers.root / "commitlog")
    (timers.root / "commitlog").mkdir()
    assert timers.items() == []


def test_messages_that_expired(timers: Timers) -> None:
    """Units that wait for a record that retention deleted are counted; those that were delivered are not."""
    log = timers.root / "commitlog" / offset_to_filename(0)
    size = log.stat().st_size
    shutil.rmtree(timers.root / "consumequeue" / TIMER_TOPIC)
    log.rename(log.with_name(offset_to_filename(size)))
    (timers.root / "abort").write_bytes(b"")
    assert timers.rules("cross") == {"TM015"}
    (found,) = timers.items("cross")
    assert isinstance(found, Finding)
    assert (found.found["unit_count"], found.found["log_start_offset"]) == (13, size)
    assert found.where.start == 104  # the first that waits
    timers.set_check(lastReadTimeMs=NOW)
    assert timers.rules("cross") == set()


def remove(*names: str) -> Callable[[Timers], None]:
    def run(timers: Timers) -> None:
        for name in names:
            path = timers.root / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return run


MISSING: dict[str, tuple[Callable[[Timers], None], str]] = {
    "the timer log": (remove("timerlog"), "timerlog"),
    "its only file": (remove(LOG), "timerlog"),
    "the wheel": (remove(WHEEL), WHEEL),
    "timercheck": (remove("config/timercheck"), "config/timercheck"),
}


@pytest.mark.parametrize("level", ["quick", "full"])
@pytest.mark.parametrize("name", MISSING)
def test_tm007_a_file_is_missing(name: str, level: str, timers: Timers) -> None:
    change, file = MISSING[name]
    change(timers)
    (finding,) = timers.found(level)
    assert (finding.rule, finding.where.file) == ("TM007", file)
    assert finding.found["outcome"]
    assert (finding.found["outcome"] == timer_checks.ANEW_OUTCOME) == (name == "the wheel")


def test_tm007_a_start_reads_two_files_of_the_timer_log(timers: Timers) -> None:
    remove(WHEEL)(timers)
    size = (timers.root / LOG).stat().st_size
    for number in (1, 2):
        shutil.copy(timers.root / LOG, timers.root / f"timerlog/{offset_to_filename(number * size)}")
        (finding,) = [found for found in timers.found("quick") if found.where.file == WHEEL]
        assert (finding.found["outcome"] == timer_checks.ANEW_OUTCOME) == (number == 1)


def test_tm007_a_file_of_the_log_between_two_others(timers: Timers) -> None:
    size = (timers.root / LOG).stat().st_size
    shutil.copy(timers.root / LOG, timers.root / f"timerlog/{offset_to_filename(2 * size)}")
    found = [finding for finding in timers.found("quick") if finding.rule == "TM007"]
    assert [finding.where.file for finding in found] == [f"timerlog/{offset_to_filename(size)}"]


def test_tm007_nothing_is_missing_where_no_timer_was_ever_set(timers: Timers) -> None:
    remove("timerlog")(timers)
    timers.set_check(lastTimerLogFlushPos=0)
    assert timers.found() == []
    (timers.root / "timerlog").mkdir()
    with (timers.root / LOG).open("wb") as file:
        file.truncate(65536)
    remove(WHEEL, "config/timercheck")(timers)
    assert timers.found("quick") == []


def test_tm007_a_snapshot_stands_for_the_wheel(snapshots: Timers) -> None:
    (snapshots.root / WHEEL).unlink(missing_ok=True)
    assert snapshots.found("quick") == []
