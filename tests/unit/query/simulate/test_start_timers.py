"""What a start makes of timers: stores of a 5.5.0 broker, damaged, and what that broker's code answered.

`queue` is `currQueueOffset` and `end` the timer log's length behind `TimerMessageStore.load` of 5.5.0 and
5.3.3, run over the same copies; how often each message came was counted in the topics it was delivered to.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dialect import ALL_VERSIONS
from rocketfsck.formats.dtypes import TIMER_SLOT_DTYPE, TIMER_UNIT_DTYPE
from rocketfsck.formats.rocks import MARKS
from rocketfsck.query.start import timerlog as timerrows_module
from rocketfsck.query.start import timers as timers_module
from rocketfsck.query.start.model import Start, TimerStart
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.query.start.verdict import predict_starts, start_classes, worse
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store

from tests.conftest import Directory
from tests.databases import database_of, rows_of, write_database

WHEEL, LOG, CHECK = "timerwheel", f"timerlog/{0:020d}", "config/timercheck"
UNIT, SLOT = TIMER_UNIT_DTYPE.itemsize, TIMER_SLOT_DTYPE.itemsize
WAITING, SENT = 13, 30
READ_TIMESTAMP = 1795333990000


def write(path: Path, pos: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(pos)
        file.write(data)


def waiting_slot(root: Path) -> int:
    """The first slot of the wheel that is still to come."""
    slots = np.fromfile(root / WHEEL, TIMER_SLOT_DTYPE)
    return int(np.flatnonzero(slots["slotTime"] > READ_TIMESTAMP // 1000)[0])


def set_long(file: str, pos: int, value: int) -> Callable[[Path], None]:
    return lambda root: write(root / file, pos, struct.pack(">q", value))


def each(*steps: Callable[[Path], None]) -> Callable[[Path], None]:
    def run(root: Path) -> None:
        for step in steps:
            step(root)

    return run


def cut_links(root: Path) -> None:
    for number in range(SENT):
        write(root / LOG, UNIT * number + 4, struct.pack(">q", -1))


def no_timerlog(root: Path) -> None:
    shutil.rmtree(root / "timerlog")


def no_timercheck(root: Path) -> None:
    (root / CHECK).unlink()


def no_queue(root: Path) -> None:
    shutil.rmtree(root / "consumequeue/rmq_sys_wheel_timer")


def slot_zero(root: Path) -> None:
    write(root / WHEEL, waiting_slot(root) * SLOT, bytes(SLOT))


def slot_behind(root: Path) -> None:
    write(root / WHEEL, waiting_slot(root) * SLOT + 16, struct.pack(">q", 10**6))


def start_of(root: Path, version: str = "5.5.0") -> Start:
    return simulate_start(open_store(root), version)


def timers_of(root: Path, version: str = "5.5.0") -> TimerStart:
    start = start_of(root, version)
    assert start.loads
    assert start.timers is not None
    return start.timers


@dataclass(frozen=True, slots=True)
class Told:
    """What the broker's code answered (`queue`, `end`), and what follows for the messages."""

    queue: int
    end: int
    waiting: int = WAITING
    lost: int = 0
    repeated: int = 0
    changed: int = 0


END = SENT * UNIT
CASES: dict[str, tuple[Callable[[Path], object], Told]] = {
    "as it is": (lambda _root: None, Told(30, END)),
    "no timercheck": (no_timercheck, Told(0, END, repeated=30)),
    "no timer log": (no_timerlog, Told(30, 0, waiting=0, lost=13)),
    "neither timer log nor timercheck": (each(no_timerlog, no_timercheck), Told(0, 0, repeated=17)),
    "a unit that leads nowhere": (set_long(LOG, END - UNIT + 28, 1 << 40), Told(30, END, waiting=12, lost=1)),
    "no wheel": (lambda root: (root / WHEEL).unlink(), Told(30, END, changed=16)),
    "the master was less far": (set_long(CHECK, 24, 10), Told(10, END, repeated=20)),
    "a unit of another size": (
        lambda root: write(root / LOG, UNIT * 15, struct.pack(">i", 51)),
        Told(15, 15 * UNIT, repeated=7, changed=3),
    ),
    "the last units are zeros": (
        lambda root: write(root / LOG, END - 5 * UNIT, bytes(5 * UNIT)),
        Told(25, 25 * UNIT, repeated=1, changed=1),
    ),
    "a slot leads behind the log": (slot_behind, Told(30, END, changed=1)),
    "a slot of zeros": (slot_zero, Told(30, END, changed=1)),
    "flushed beyond the log": (set_long(CHECK, 8, 10**7), Told(30, END)),
}


OLDER = ("no timercheck", "no timer log", "the last units are zeros")


@pytest.mark.parametrize(
    ("name", "version"), [*((name, "5.5.0") for name in CASES), *((name, "5.3.3") for name in OLDER)]
)
def test_a_start_goes_on_where_the_broker_did(name: str, version: str, real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    damage, stated = CASES[name]
    damage(root)
    timers = timers_of(root, version)
    assert (timers.queue_offset, timers.end_pos) == (stated.queue, stated.end)
    assert (timers.waiting_count, timers.lost_count, timers.repeated_count, timers.changed_slot_count) == (
        stated.waiting, stated.lost, stated.repeated, stated.changed,
    )  # fmt: skip
    assert len(timers.lost) == stated.lost
    assert timers.harmful == bool(stated.lost or stated.repeated)
    assert start_of(root, version).harmful == timers.harmful


def test_links_that_are_cut_leave_the_newest_of_each_slot(real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    cut_links(root)
    timers = timers_of(root)
    slots = np.fromfile(root / WHEEL, TIMER_SLOT_DTYPE)
    ahead = slots[slots["slotTime"] * 1000 >= READ_TIMESTAMP]
    assert timers.waiting_count == len(ahead)
    assert timers.lost_count == WAITING - len(ahead) == int((ahead["num"] - 1).sum()) > 0


def test_a_chain_that_leads_into_itself_never_ends(real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    slots = np.fromfile(root / WHEEL, TIMER_SLOT_DTYPE)
    last = int(slots["lastPos"][waiting_slot(root)])
    set_long(LOG, last + 4, last)(root)
    assert timers_of(root).endless_slot_count == 1
    assert start_of(root).harmful


def test_a_link_to_no_unit_ends_the_chain(real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    for number in range(SENT):
        set_long(LOG, UNIT * number + 4, UNIT * number + 1)(root)
    assert timers_of(root).lost_count > 0
    for number in range(SENT):
        set_long(LOG, UNIT * number + 4, 10**9)(root)
    assert timers_of(root).lost_count > 0


@pytest.mark.parametrize(
    ("file", "size", "reason"),
    [
        (WHEEL, 1000, "java.lang.RuntimeException: Timer wheel length:1000 != expected:38707200"),
        (LOG, 60000, "60000 length not matched message store config value, please check it manually"),
    ],
)
def test_a_file_of_another_length_is_refused(file: str, size: int, reason: str, real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    if file == LOG:  # a second file tells the length that the first one should have
        shutil.copy(root / LOG, root / f"timerlog/{65536:020d}")
    with (root / file).open("r+b") as stream:
        stream.truncate(size)
    start = start_of(root)
    assert [(item.file, item.reason) for item in start.refusals] == [(file, reason)]
    assert start.timers is None


def test_an_empty_wheel_is_filled_from_the_log(real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    with (root / WHEEL).open("r+b") as stream:
        stream.truncate(0)
    assert timers_of(root).waiting_count == WAITING
    (root / WHEEL).unlink()
    assert [item.change for item in start_of(root).files if item.file == WHEEL] == ["created"]


def test_snapshots_are_for_brokers_that_know_them(real_copy: Directory) -> None:
    root = real_copy("5.5.0-snapshot")
    assert timers_of(root).wheel == "timerwheel.1560"
    assert timers_of(root, "5.3.3").wheel in ("", WHEEL)
    conf = root.parent / "broker.conf"
    conf.write_text("timerWheelSnapshotFlush=false\nmappedFileSizeTimerLog=65536\n")
    start = simulate_start(open_store(root, broker_conf=conf), "5.5.0")
    assert start.timers is not None
    assert start.timers.wheel in ("", WHEEL)


def test_a_place_outside_the_queue(real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    each(no_timerlog, set_long(CHECK, 16, 100), set_long(CHECK, 24, 100))(root)
    assert (timers_of(root).queue_offset, timers_of(root).skipped_count) == (30, 0)
    old = timers_of(root, "5.3.1")
    assert (old.queue_offset, old.skipped_count) == (100, 70)
    assert old.harmful


def test_a_queue_that_is_gone(real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    no_queue(root)
    assert timers_of(root).queue_offset == 30
    assert any("queue of the timer topic is missing" in note for note in start_of(root).notes)


def test_brokers_and_stores_without_timers(real_copy: Directory, store_dir: Directory) -> None:
    root = real_copy("5.5.0-timer")
    assert start_of(root, "4.9.8").timers is None
    conf = root.parent / "broker.conf"
    conf.write_text("timerWheelEnable=false\n")
    assert simulate_start(open_store(root, broker_conf=conf), "5.5.0").timers is None
    assert start_of(store_dir("5.3.3-basic"), "5.5.0").timers is None


ROCKS = "5.5.0-rocksdb-all"
"""Of 30 messages of its timer topic 17 were delivered; without the database a real 5.5.0 delivers all 30."""


def without_rows(root: Path, unwanted: Callable[[bytes], bool]) -> None:
    families = rows_of(database_of(root, "rocksdbstore"))
    families["timer"] = {key: value for key, value in families["timer"].items() if not unwanted(key)}
    write_database(root / "rocksdbstore", families)


def test_timers_in_rocksdb(real_copy: Directory) -> None:
    start = start_of(real_copy(ROCKS))
    timers = start.timers
    assert timers is not None
    assert (timers.in_database, timers.queue_offset, timers.reread_count) == (True, 30, 0)
    assert (timers.waiting_count, timers.lost_count, timers.repeated_count) == (13, 0, 0)
    assert not start.harmful


def test_timers_whose_database_is_gone(real_copy: Directory) -> None:
    root = real_copy(ROCKS)
    shutil.rmtree(root / "rocksdbstore")
    timers = timers_of(root)
    assert (timers.queue_offset, timers.reread_count, timers.waiting_count) == (0, 30, 13)
    assert (timers.lost_count, timers.repeated_count) == (0, 17)
    report = check_store(open_store(root), CheckOptions(level="quick"))
    found = [finding for finding in report.findings if finding.rule == RuleName.TIMER_FILE_MISSING]
    assert [finding.where.file for finding in found] == ["rocksdbstore"]


def test_timers_whose_rows_are_gone(real_copy: Directory) -> None:
    """The marks stay, as after the loss of a table: nothing leads to the messages that wait."""
    root = real_copy(ROCKS)
    without_rows(root, lambda key: key not in MARKS["timer"])
    timers = timers_of(root)
    assert (timers.queue_offset, timers.waiting_count, timers.lost_count) == (30, 0, 13)
    assert len(timers.lost) == 13
    assert list(timers.lost) == sorted(timers.lost)


def test_timers_without_marks(real_copy: Directory) -> None:
    root = real_copy(ROCKS)
    without_rows(root, lambda key: key in MARKS["timer"])
    timers = timers_of(root)
    assert (timers.queue_offset, timers.reread_count, timers.lost_count) == (0, 30, 0)


def test_bounds_of_messages_without_rows(real_copy: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    root = real_copy(ROCKS)
    shutil.rmtree(root / "rocksdbstore")
    monkeypatch.setattr(timerrows_module, "LOOKED_AT", 3)
    monkeypatch.setattr(timerrows_module, "BLOCK_COUNT", 2)
    timers = timers_of(root)
    assert timers.waiting_count + timers.repeated_count == 3
    assert any("covers the first 3 messages without a timer row" in note for note in start_of(root).notes)


def test_timers_in_a_database_that_cannot_be_read(real_copy: Directory) -> None:
    root = real_copy(ROCKS)
    (root / "rocksdbstore" / "CURRENT").write_bytes(b"MANIFEST-999999\n")
    start = start_of(root)
    assert start.timers is None
    assert any("leaves out timers in RocksDB: rocksdbstore cannot be read" in note for note in start.notes)


def test_settings_say_where_timers_are(real_copy: Directory) -> None:
    root = real_copy(ROCKS)
    conf = root.parent / "broker.conf"
    conf.write_text("timerRocksDBEnable=false\n")
    timers = simulate_start(open_store(root, broker_conf=conf), "5.5.0").timers
    assert timers is not None
    assert not timers.in_database


def test_timers_in_both(real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    conf = root.parent / "broker.conf"
    conf.write_text("timerRocksDBEnable=true\n")
    start = simulate_start(open_store(root, broker_conf=conf), "5.5.0")
    assert any("in RocksDB and on a timer wheel" in note for note in start.notes)


def test_a_timer_topic_that_is_gone(real_copy: Directory) -> None:
    root = real_copy(ROCKS)
    no_queue(root)
    conf = root.parent / "broker.conf"
    conf.write_text("timerRocksDBEnable=true\n")
    start = simulate_start(open_store(root, broker_conf=conf), "5.5.0")
    assert any("queue of the timer topic is missing" in note for note in start.notes)


def test_the_last_start_in_time(real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    timers = timers_of(root)
    slots = np.fromfile(root / WHEEL, TIMER_SLOT_DTYPE)
    first = int(slots["slotTime"][slots["slotTime"] * 1000 >= timers.read_timestamp].min())
    assert timers.latest_start_timestamp == (first + 604_800 - 60) * 1000


def test_bounds_of_what_is_looked_at(real_copy: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    root = real_copy("5.5.0-timer")
    no_timerlog(root)
    monkeypatch.setattr(timers_module, "LOOKED_AT", 3)
    assert any("covers the first 3 messages" in note for note in start_of(root).notes)
    shutil.rmtree(root)
    again = real_copy("5.5.0-timer")
    monkeypatch.setattr(timers_module, "MAX_LOG_SIZE", 100)
    start = start_of(again)
    assert start.timers is None
    assert any("too long" in note for note in start.notes)


def test_a_worse_start_is_named(real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    classes = [group for group in start_classes(ALL_VERSIONS) if "5.5.0" in map(str, group)]
    (before,) = predict_starts(open_store(root), classes)
    no_timerlog(root)
    (after,) = predict_starts(open_store(root), classes)
    assert worse(before, after) == ("never delivers 13 timer messages (0 before)",)
