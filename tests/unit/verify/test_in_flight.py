"""What a broker wrote while a check ran is no damage; what was there before is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.engine import LocalEngine
from rocketfsck.formats.timer import TIMER_TOPIC
from rocketfsck.reader.index import IndexReader
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry, LiveState, LockState
from rocketfsck.store.model import Store
from rocketfsck.verify import check_store
from rocketfsck.verify.finding import Facts, Finding, Severity, Where
from rocketfsck.verify.regular import AHEAD_MS, LAG_MS, InFlight
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.tasks.task import LogFacts, aggregate
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store

HELD = LiveState(LockState.HELD, "process 7 holds a record lock on byte 0 of `lock`", 7)
OPTIONS = WriteOptions(sync=False, geometry=Geometry(8_192, 20 * 10, slot_count=31, entry_count=40))
OLD = 10 * LAG_MS


def messages(start: int, end: int, age: int, topic: str = "T") -> Iterator[OutgoingMessage]:
    now = int(time.time() * 1000) - age
    for number in range(start, end):
        yield OutgoingMessage(topic, b"body" * 20, now + number // 10, properties={"KEYS": f"key{number}"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with messages of a minute ago and older."""
    write_store(tmp_path / "store", messages(0, 25, OLD), OPTIONS)
    return tmp_path / "store"


def opened(path: Path, live: LiveState | None = HELD) -> Store:
    store = open_store(path)
    return store if live is None else replace(store, live=live)


def bad_rules(store: Store) -> set[str]:
    """The rules above info that a check finds broken."""
    findings = check_store(store, engine=LocalEngine(1)).findings
    return {finding.rule for finding in findings if RULES[finding.rule].severity > Severity.INFO}


def go_on(path: Path, age: int) -> None:
    """More messages: into new files of a queue, a new queue, new index files and new files of the log."""
    write_store(path, messages(25, 90, age), OPTIONS, append=True)
    write_store(path, messages(90, 120, age, "New"), OPTIONS, append=True)


def test_what_a_running_broker_writes_meanwhile(path: Path) -> None:
    assert bad_rules(opened(path)) == set()
    store, alone = opened(path), opened(path, None)
    go_on(path, 0)
    assert bad_rules(store) == set()
    assert {RuleName.RECORD_WITHOUT_UNIT, RuleName.RECORD_UNINDEXED} <= bad_rules(alone)  # nobody runs
    assert bad_rules(opened(path)) == set()


def test_what_it_wrote_before_is_judged(path: Path) -> None:
    """Files that the list lacks, though their records are a minute old: they came from elsewhere."""
    store = opened(path)
    go_on(path, OLD - 5_000)
    assert {RuleName.RECORD_WITHOUT_UNIT, RuleName.RECORD_UNINDEXED} <= bad_rules(store)


def test_a_record_of_the_future_is_judged(path: Path) -> None:
    """Its time is wrong: no later check would find it old."""
    store = opened(path)
    go_on(path, -2 * AHEAD_MS)
    assert {RuleName.RECORD_WITHOUT_UNIT, RuleName.RECORD_UNINDEXED} <= bad_rules(store)


def test_old_damage_of_a_queue_that_grows(path: Path) -> None:
    """The records without a unit begin with an old one, however young the last is."""
    go_on(path, 0)
    last = max((path / "consumequeue" / "T" / "0").iterdir())
    for file in (path / "consumequeue" / "T" / "0").iterdir():
        if file != last:
            file.unlink()
    assert RuleName.RECORD_WITHOUT_UNIT in bad_rules(opened(path))


def last_end(store: Store) -> int:
    """The physical offset behind the last record."""
    facts: list[Any] = []
    check_store(store, engine=LocalEngine(1), seen=facts.extend)
    return max(fact.end_offset for fact in facts if isinstance(fact, LogFacts) and fact.record_count)


def lasts(store: Store, finding: Finding) -> bool:
    return list(InFlight(store).lasting([finding])) == [finding]


def test_units_beyond_the_log_that_the_list_has(path: Path) -> None:
    """A unit that leads into a log file of after the list; and one that leads nowhere."""
    store = opened(path)
    end = store.commitlog.end_offset or 0
    go_on(path, 0)
    assert (open_store(path).commitlog.end_offset or 0) > end
    place = Where(file="consumequeue/T/0/0", physical_offset=end)
    assert not lasts(store, Finding(RuleName.UNIT_BEYOND_LOG, place))
    assert lasts(store, Finding(RuleName.UNIT_BEYOND_LOG, replace(place, physical_offset=1 << 40)))


def test_entries_that_the_header_counts_by_now(path: Path) -> None:
    store = opened(path)
    (file,) = store.indexes
    with IndexReader(file, store.geometry) as reader:
        count = reader.index_count
    place = Where(file=file.relative, entry=count - 1)
    assert not lasts(store, Finding(RuleName.INDEX_ENTRY_BEHIND_COUNT, place, {"entry_count": 1}))
    assert lasts(store, Finding(RuleName.INDEX_ENTRY_BEHIND_COUNT, replace(place, entry=count)))
    assert lasts(store, Finding(RuleName.INDEX_ENTRY_BEHIND_COUNT, replace(place, file="index/0")))
    Path(file.location).unlink()
    assert lasts(store, Finding(RuleName.INDEX_ENTRY_BEHIND_COUNT, place))  # nobody can tell


@pytest.mark.parametrize(("age", "stays"), [(0, False), (OLD, True), (-2 * AHEAD_MS, True)])
def test_times_of_the_checkpoint(path: Path, age: int, stays: bool) -> None:
    store = opened(path)
    found: Facts = {"field": "indexMsgTimestamp", "value": store.opened_timestamp - age}
    assert lasts(store, Finding(RuleName.CHECKPOINT_AHEAD, Where(file="checkpoint"), found)) == stays


@pytest.mark.parametrize(("age", "stays"), [(0, False), (OLD, True)])
def test_an_index_without_its_first_file(tmp_path: Path, age: int, stays: bool) -> None:
    write_store(tmp_path / "young", messages(0, 5, age), OPTIONS)
    store = opened(tmp_path / "young")
    assert lasts(store, Finding(RuleName.INDEX_GONE, Where(file="index"), {"record_count": 5})) == stays
    assert lasts(store, Finding(RuleName.CHECKPOINT_ZERO, Where(file="checkpoint"))) == stays


@pytest.mark.parametrize(("age", "stays"), [(0, False), (OLD - 5_000, True)])
def test_ends_that_the_log_has_by_now(path: Path, age: int, stays: bool) -> None:
    store = opened(path)
    end = last_end(store)
    go_on(path, age)
    place, expected = Where(file="checkpoint", start=40), {"end_offset": end}
    for value, beyond in ((end + 200, stays), (1 << 40, True)):
        finding = Finding(RuleName.CONFIRM_OFFSET_AHEAD, place, {"value": value}, expected)
        assert lasts(store, finding) == beyond
        found = {"end_offset": value, "log_end_offset": end}
        assert lasts(store, Finding(RuleName.INDEX_AHEAD_OF_LOG, Where(file="index/1"), found)) == beyond


def test_timers_that_were_read_meanwhile(path: Path) -> None:
    store = opened(path)
    write_store(path, messages(25, 28, 0, TIMER_TOPIC), OPTIONS, append=True)
    place = Where(file="config/timercheck")
    for value, stays in ((3, False), (4, True)):
        found: Facts = {"field": "lastTimerQueueOffset", "value": value}
        assert lasts(store, Finding(RuleName.TIMER_CHECK_RANGE, place, found)) == stays


def test_further_ones_go_where_the_others_went(path: Path) -> None:
    """Counts without places: they stay with a finding that stays."""
    store = opened(path)
    go_on(path, 0)
    young, old = ((store.commitlog.end_offset or 0) - offset for offset in (0, 8_192))
    for offsets, stays in (((young,), False), ((old, young), True), ((), True)):
        items = [
            Finding(RuleName.RECORD_UNINDEXED, Where(file="commitlog/0", physical_offset=offset))
            for offset in offsets
        ]
        further = aggregate(RuleName.RECORD_UNINDEXED, "commitlog/0", 7)
        assert (further in list(InFlight(store).lasting([*items, further]))) == stays


def test_notes_and_other_files_stay(path: Path) -> None:
    store = opened(path)
    go_on(path, 0)
    assert lasts(store, Finding(RuleName.ABORT_OF_RUNNING_BROKER, Where(file="abort")))
    assert lasts(store, Finding(RuleName.CONFIG_LOST, Where(file="config/topics.json")))
