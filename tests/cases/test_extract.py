"""Parts of stores as small stores: what is in them, where, what is not; and what is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketfsck.api import iter_messages
from rocketfsck.cli.app import run
from rocketfsck.commands.convert import ExtractCommand, extract
from rocketfsck.commands.shared import WantedTimes
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.config import decode_config
from rocketfsck.repair.convert.chosen import (
    NOT_TAKEN,
    TABLES,
    Wanted,
    cut_configs,
    prove_bounds,
    rows_between,
    served_rows,
)
from rocketfsck.repair.convert.extract import ExtractOptions, extract_store
from rocketfsck.repair.convert.model import ExtractDocument
from rocketfsck.repair.convert.whole import log_records
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store import open_store
from rocketfsck.store.areas import CONFIG_NAMES
from rocketfsck.store.circumstances import LiveState, LockState

from tests.conftest import Directory
from tests.converted import Bounds, answers_of, bounds, content, contents, keys_of, problems

BASIC, MULTI, EXPIRED = "5.3.3-basic", "4.9.8-multiseg", "5.1.3-expired"
LIGHT, SHARED_LIGHT = "4.9.8-lmq", "5.1.4-lmq-lists"
DELAY, COMPACTED = "4.9.8-delay", "5.5.0-compaction"


def cut(
    store: Path, into: Path, *topics: str, begin: int | None = None, end: int | None = None, **more: Any
) -> ExtractDocument:
    """A part of a store, which a check finds nothing in."""
    times = WantedTimes(begin, end)
    made = extract(ExtractCommand(path=store, into=into, topics=topics, times=times, no_sync=True, **more))
    assert problems(open_store(into)) == []
    return made


def bounds_said(made: ExtractDocument) -> Bounds:
    return {(q.topic, q.queue_id): (q.first_queue_offset, q.end_queue_offset) for q in made.queues}


def config(root: Path, name: str) -> Any:
    return decode_config((root / "config" / name).read_bytes())


WHOLE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("4.4.0-multiseg", ("Seg0", "Seg2")),
    (MULTI, ("Seg1",)),
    (EXPIRED, ("Exp0",)),
    ("4.9.8-cqext", ("Ext0",)),
    ("4.9.8-ipv6", ("Six",)),
    ("4.9.8-killed", ("Kill1",)),
    ("5.0.0-innerbatch", ("Ib",)),
    ("5.3.3-propcrc", ("CrcB", "CrcOrder")),
    ("5.5.0-batchcq", ("ManyBCQ", "ManyOrder")),
    ("5.5.0-combine", ("BothBulk1",)),
    ("5.5.0-multipath", ("PathBulk0",)),
    ("5.5.0-rocksdb-cq", ("RockBulk0", "RockBatch")),
    ("5.5.0-dledger", ("RaftOrder",)),
    ("4.9.7-dledger-mixed", ("MixOrder",)),
)
"""Stores with plain, batch, extended and database queues, and some of the topics of each."""


@pytest.mark.parametrize(("name", "topics"), WHOLE, ids=[name for name, _ in WHOLE])
def test_topics_keep_their_queue_offsets(
    any_dir: Directory, tmp_path: Path, name: str, topics: tuple[str, ...]
) -> None:
    before = open_store(any_dir(name))
    made = cut(before.root, tmp_path / "new", *topics)
    after = open_store(tmp_path / "new")
    expected = contents(before, *topics)
    assert contents(after) == expected
    assert {message[0] for message in expected} == set(topics)
    assert bounds(after.root) == bounds(before.root, *topics) == bounds_said(made)
    assert made.record_count == len(expected)
    assert made.start_offset == made.commitlog_file_size == after.commitlog.start_offset
    assert (made.exit_code, made.outside_count, made.moved_count, made.queues_left_out) == (0, 0, 0, ())


@pytest.mark.parametrize(("name", "step"), [(BASIC, 9), (MULTI, 61)])
def test_queries_answer_the_same(store_dir: Directory, tmp_path: Path, name: str, step: int) -> None:
    root = store_dir(name)
    topic = "GammaBulk0" if name == BASIC else "Seg0"
    cut(root, tmp_path / "new", topic)
    messages = [m for m in iter_messages(open_store(root)) if m.topic == topic][::step]
    count = 0
    for message in messages:
        keys = keys_of(message)
        before, after = (answers_of(place, message, keys) for place in (root, tmp_path / "new"))
        assert before == after
        assert after[0] == [content(message)]
        count += sum(content(message) in answer for answer in after[1:])
    assert count > len(messages)


def test_a_queue_and_a_time_window(store_dir: Directory, tmp_path: Path) -> None:
    before = open_store(store_dir(MULTI))
    times = sorted(m.store_timestamp for m in iter_messages(before))
    begin, end = times[400], times[800]
    made = cut(before.root, tmp_path / "new", "Seg1", queue_id=2, begin=begin, end=end)
    expected = [m for m in contents(before, "Seg1") if m[1] == 2 and begin <= m[3] < end]
    assert contents(open_store(tmp_path / "new")) == expected
    first, last = expected[0][2], expected[-1][2]
    assert first > 0
    assert bounds(tmp_path / "new") == bounds_said(made) == {("Seg1", 2): (first, last + 1)}
    assert len(expected) == last + 1 - first


def test_times_alone_leave_out_what_is_not_named(any_dir: Directory, tmp_path: Path) -> None:
    root = any_dir("5.5.0-full-killed")
    cut(root, tmp_path / "new", begin=0)
    topics = {topic for topic, _ in bounds(root)}
    kept = {topic for topic, _ in bounds(tmp_path / "new")}
    assert {"%RETRY%cg-retry", "SCHEDULE_TOPIC_XXXX"} <= topics - kept
    assert {
        topic for topic in topics - kept if not topic.startswith(("%RETRY%", "SCHEDULE", "RMQ_", "rmq_"))
    } == set()
    assert "MallOrder" in kept


def test_queues_without_a_message_in_the_window_are_named(store_dir: Directory, tmp_path: Path) -> None:
    root = store_dir(BASIC)
    last = max(m.store_timestamp for m in iter_messages(open_store(root)))
    made = cut(root, tmp_path / "new", "GammaBulk0", "GammaBulk1", begin=last)
    assert bounds_said(made) == {("GammaBulk0", 1): (23, 24)}
    left = [(queue.topic, queue.queue_id, queue.next_queue_offset) for queue in made.queues_left_out]
    assert left == [("GammaBulk0", 0, 17), ("GammaBulk1", 0, 15), ("GammaBulk1", 1, 24)]


def test_records_between_others_come_along() -> None:
    class Found(dict[str, Any]):
        class table:  # noqa: N801
            names = ((b"T", 0), (b"T", 1))

        def __len__(self) -> int:
            return len(self["sys_flag"])

    found: Any = Found(
        sys_flag=np.array([0, 0, 0, 0, 4, 0], np.int32),
        queue_index=np.array([0, 0, 0, 0, 0, 1], np.int32),
        queue_offset=np.array([0, 1, 2, 3, 0, 7]),
        store_timestamp=np.array([10, 20, 5, 21, 20, 99]),
    )
    flags, outside = rows_between(found, Wanted(begin=20, end=30))
    assert flags.tolist() == [False, True, True, True, True, False]
    assert outside == 1
    flags, outside = rows_between(found, Wanted())
    assert flags.all()
    assert outside == 0


@pytest.mark.parametrize("name", ["5.5.0-deleted", "4.9.7-deleted"])
def test_former_lives_of_a_topic_stay_behind(any_dir: Directory, tmp_path: Path, name: str) -> None:
    before = open_store(any_dir(name))
    cut(before.root, tmp_path / "new", "TryBack")
    now = contents(open_store(tmp_path / "new"))
    assert bounds(tmp_path / "new") == bounds(before.root, "TryBack")
    former = contents(before, "TryBack")
    assert len(now) < len(former)
    assert all(message in former for message in now)


def test_what_a_start_dispatches_comes_along(any_dir: Directory, tmp_path: Path) -> None:
    """The broker was killed before it wrote any unit to the disk."""
    before = open_store(any_dir("5.5.0-rocksdb-config-v2"))
    cut(before.root, tmp_path / "new", "CfgOrder")
    assert contents(open_store(tmp_path / "new")) == contents(before, "CfgOrder") != []
    groups = config(tmp_path / "new", "subscriptionGroup.json")["subscriptionGroupTable"]
    assert set(groups) == {"cg-basic", "cg-retry"}


def test_topics_groups_and_offsets(any_dir: Directory, tmp_path: Path) -> None:
    root = any_dir("5.5.0-full-killed")
    cut(root, tmp_path / "new", "MallOrder")
    assert set(config(tmp_path / "new", "topics.json")["topicConfigTable"]) == {"MallOrder"}
    before = config(root, "consumerOffset.json")
    after = config(tmp_path / "new", "consumerOffset.json")
    expected = {key: value for key, value in before["offsetTable"].items() if key.startswith("MallOrder@")}
    assert after["offsetTable"] == expected != {}
    assert after["dataVersion"] == before["dataVersion"]
    groups = {key.partition("@")[2] for key in expected}
    assert set(config(tmp_path / "new", "subscriptionGroup.json")["subscriptionGroupTable"]) == groups
    assert not list((tmp_path / "new/config").glob("*.bak"))


@pytest.fixture
def grouped(store_dir: Directory, tmp_path: Path) -> Path:
    """A store whose configs have all kinds of tables."""
    root = shutil.copytree(store_dir(MULTI), tmp_path / "grouped")
    files: dict[str, Any] = {
        "topics.json": {"topicConfigTable": {n: {"topicName": n} for n in ("Seg0", "Seg1", "%RETRY%late")}},
        "consumerOffset.json": {
            "offsetTable": {
                "Seg0@one": {"0": 1, "1": 200, "2": 10}, "Seg1@two": {"0": 5}, "Seg0": {"0": 1},
                "Seg9@one": {"0": 1},
            },
            "groupTopicMap": {"one": ["Seg0", "Seg9"], "two": ["Seg1"]},
        },
        "subscriptionGroup.json": {
            "subscriptionGroupTable": {n: {"groupName": n} for n in ("one", "two", "three")},
            "forbiddenTable": {"one": {"Seg0": 1, "Seg1": 2}, "two": {}},
        },
        "consumerFilter.json": {"filterDataByTopic": {"Seg0": {"topic": "Seg0"}, "Seg1": {"topic": "Seg1"}}},
        "consumerOrderInfo.json": {"table": {"Seg0@one": {}, "Seg1@two": {}}},
        "transactionMetrics": {"what": 1},
    }  # fmt: skip
    (root / "config").mkdir(exist_ok=True)
    for name, value in files.items():
        (root / "config" / name).write_text(json.dumps(value))
    return Path(root)


def test_what_concerns_other_topics_stays_behind(grouped: Path, tmp_path: Path) -> None:
    begin = sorted(m.store_timestamp for m in iter_messages(open_store(grouped)))[900]
    made = cut(grouped, tmp_path / "new", "Seg0", begin=begin)
    said = bounds_said(made)
    offsets = config(tmp_path / "new", "consumerOffset.json")
    moved = {
        queue: min(max(offset, said["Seg0", queue][0]), said["Seg0", queue][1])
        for queue, offset in ((0, 1), (1, 200), (2, 10))
    }
    assert offsets == {"offsetTable": {"Seg0@one": moved}, "groupTopicMap": {"one": ["Seg0"]}}
    assert (
        made.moved_count == sum(moved[queue] != offset for queue, offset in ((0, 1), (1, 200), (2, 10))) > 0
    )
    assert config(tmp_path / "new", "subscriptionGroup.json") == {
        "subscriptionGroupTable": {"one": {"groupName": "one"}},
        "forbiddenTable": {"one": {"Seg0": 1}},
    }
    assert config(tmp_path / "new", "consumerFilter.json") == {
        "filterDataByTopic": {"Seg0": {"topic": "Seg0"}}
    }
    assert config(tmp_path / "new", "consumerOrderInfo.json") == {"table": {"Seg0@one": {}}}
    assert [part.path for part in made.parts_left_out] == ["config/transactionMetrics"]
    cut(grouped, tmp_path / "retried", "Seg1", "%RETRY%late")
    groups = config(tmp_path / "retried", "subscriptionGroup.json")["subscriptionGroupTable"]
    assert set(groups) == {"two"}


def test_every_config_file_has_tables_or_a_reason() -> None:
    assert TABLES.keys() | NOT_TAKEN.keys() == CONFIG_NAMES
    assert not TABLES.keys() & NOT_TAKEN.keys()


def test_databases_have_reasons(any_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(any_dir("5.5.0-rocksdb-cq"), tmp_path / "store"))
    shutil.copytree(root / "config/topics", root / "config/acls")
    begin = min(m.store_timestamp for m in iter_messages(open_store(root)))
    reasons = {part.path: part.reason for part in cut(root, tmp_path / "new", begin=begin).parts_left_out}
    assert reasons["config/topics"] == "topics, groups and offsets of the new store are in files of config/"
    assert reasons["config/acls"] == "users and what they may do stay behind"
    assert reasons["rocksdbstore"].startswith("the index of the new store is in files")
    assert [name for name in reasons if "storeType=default" in reasons[name]] == ["consumequeue"]
    assert "subscriptionGroup.json" in {path.name for path in (tmp_path / "new/config").iterdir()}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("consumerOrderInfo.json", "{", "cannot be|ends inside|is damaged"),
        ("subscriptionGroup.json", {"forbiddenTable": {"one": 7}}, "one is not an object"),
    ],
)  # fmt: skip
def test_configs_of_another_form_are_refused(
    grouped: Path, tmp_path: Path, name: str, value: Any, reason: str
) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    (grouped / "config" / name).write_text(text)
    with pytest.raises(StoreError, match=reason):
        cut(grouped, tmp_path / "new", "Seg0")
    assert not (tmp_path / "new").exists()


def test_a_config_that_no_broker_loads_is_an_error(grouped: Path) -> None:
    (grouped / "config/consumerOrderInfo.json").write_text("{")
    with pytest.raises(StoreError, match="ends inside"):
        cut_configs(open_store(grouped), lambda _: True, {})


def test_light_queues_of_other_messages_stay_behind(any_dir: Directory, tmp_path: Path) -> None:
    made = cut(any_dir("5.5.0-lite"), tmp_path / "new", "LiBulka")
    assert (made.light_queue_count, bounds(tmp_path / "new")) == (0, bounds_said(made))


def test_delay_levels_come_only_if_named(store_dir: Directory, tmp_path: Path) -> None:
    root = store_dir(DELAY)
    cut(root, tmp_path / "without", "Dly")
    assert config(tmp_path / "without", "delayOffset.json")["offsetTable"] == {}
    made = cut(root, tmp_path / "with", "Dly", "SCHEDULE_TOPIC_XXXX")
    before = config(root, "delayOffset.json")["offsetTable"]
    levels = {queue.queue_id + 1 for queue in made.queues if queue.topic == "SCHEDULE_TOPIC_XXXX"}
    after = config(tmp_path / "with", "delayOffset.json")["offsetTable"]
    assert after == {level: offset for level, offset in before.items() if level in levels} != {}


@pytest.mark.parametrize("name", ["4.4.0-trans", "5.3.3-trans"])
def test_a_commit_names_its_half_message_or_none(store_dir: Directory, tmp_path: Path, name: str) -> None:
    root = store_dir(name)
    halves = "RMQ_SYS_TRANS_HALF_TOPIC"
    cut(root, tmp_path / "alone", "Tx")
    cut(root, tmp_path / "both", "Tx", halves)
    for place, topics in ((tmp_path / "alone", {"Tx"}), (tmp_path / "both", {"Tx", halves})):
        messages = list(iter_messages(open_store(place)))
        at = {m.physical_offset: m.topic for m in messages}
        named = [m.prepared_transaction_offset for m in messages if m.prepared_transaction_offset != 0]
        assert {at[offset] for offset in named} == topics


def test_light_queues_come_along(store_dir: Directory, tmp_path: Path) -> None:
    root = store_dir(LIGHT)
    made = cut(root, tmp_path / "whole", "Iot")
    assert bounds(tmp_path / "whole") == bounds(root)
    assert (made.light_queue_count, len(made.queues)) == (4, 2)
    times = sorted(m.store_timestamp for m in iter_messages(open_store(root)))
    late = cut(root, tmp_path / "late", "Iot", begin=times[20], end=times[40])
    light = {name: found for name, found in bounds(tmp_path / "late").items() if name[0].startswith("%LMQ%")}
    assert len(light) == late.light_queue_count == 4
    assert all(0 < low < high < bounds(root)[name][1] + 1 for name, (low, high) in light.items())


def test_offsets_of_light_queues(store_dir: Directory, tmp_path: Path) -> None:
    root = shutil.copytree(store_dir(LIGHT), tmp_path / "store")
    (root / "config").mkdir(exist_ok=True)
    table = {"lmqOffsetTable": {"%LMQ%dev1@g": 7, "%LMQ%dev9@g": 3}, "offsetTable": {"Iot@g": {"0": 2}}}
    (root / "config/lmqConsumerOffset.json").write_text(json.dumps(table))
    cut(root, tmp_path / "new", "Iot")
    found = config(tmp_path / "new", "lmqConsumerOffset.json")
    assert found == {"offsetTable": {"Iot@g": {0: 2}}, "lmqOffsetTable": {"%LMQ%dev1@g": 7}}


def test_light_queues_that_would_have_holes_are_refused(any_dir: Directory, tmp_path: Path) -> None:
    root = any_dir(SHARED_LIGHT)
    with pytest.raises(UsageError, match="light queue %LMQ%a lists other messages between those wanted"):
        cut(root, tmp_path / "new", "Iot0")
    with pytest.raises(UsageError, match="%LMQ%a is a light queue: take the topics"):
        cut(root, tmp_path / "new", "%LMQ%a")
    times = sorted(m.store_timestamp for m in iter_messages(open_store(root)))
    with pytest.raises(StoreError, match=r"queue 0 of %LMQ%a cannot have the queue offsets 7 to 14"):
        cut(root, tmp_path / "new", begin=times[20], end=times[40])
    assert not (tmp_path / "new").exists()


def test_a_compacted_topic_has_its_messages_in_the_log(
    any_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "new"
    code = run(
        ["extract", str(any_dir(COMPACTED)), "--topic", "KeptCompact", "--into", str(into), "--no-sync"]
    )
    out = capfd.readouterr().out
    assert code == 4
    assert "without compaction: what it keeps of compacted topics" in out
    assert "does not see 2 files" in out
    assert len(contents(open_store(into))) == 420
    code = run(["extract", str(any_dir(COMPACTED)), "--topic", "Warm", "--into", str(tmp_path / "warm")])
    assert (code, "compaction" in capfd.readouterr().out) == (0, False)


def test_timers_would_be_delivered_again(
    any_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--topic", "rmq_sys_wheel_timer", "--into", str(tmp_path / "new"), "--no-sync"]
    code = run(["extract", str(any_dir("5.5.0-timer")), *words])
    out = capfd.readouterr().out
    assert code == 4
    assert "without timerlog: messages that wait for a timer are in rmq_sys_wheel_timer" in out
    assert "a broker delivers 5 timer messages again" in out


def test_the_answer_names_queues_and_parts(
    store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketfsck.cli.commands.convert.SHOWN", 1)
    words = ["--begin", "2023-11-14T22:15:43", "--into", str(tmp_path / "new"), "--no-sync"]
    assert run(["extract", str(store_dir(BASIC)), *words]) == 0
    out = capfd.readouterr().out
    assert "and 3 more queues (--format json has them all)" in out
    assert (
        "without queue 0 of %DLQ%Gamma-group, which has none of the messages: new messages get queue" in out
    )
    assert "more queues (--format json has them all)" in out.partition("without queue")[2]
    assert run(["extract", str(store_dir(LIGHT)), "--topic", "Iot", "--into", str(tmp_path / "light")]) == 0
    assert "4 light queues with them, queue offsets as before" in capfd.readouterr().out


def test_the_answer_counts_what_is_between_and_moved(
    grouped: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rocketfsck.cli.commands import convert as shown

    made = replace(cut(grouped, tmp_path / "new", "Seg0"), outside_count=2, moved_count=3)
    monkeypatch.setattr(shown, "extract", lambda _: made)
    assert run(["extract", str(grouped), "--topic", "Seg0", "--into", str(tmp_path / "again")]) == 0
    out = capfd.readouterr().out
    assert "2 records between others of a queue, with another storeTimestamp than asked for" in out
    assert "3 committed offsets moved into the queues" in out


def test_another_file_size(store_dir: Directory, tmp_path: Path) -> None:
    made = cut(store_dir(MULTI), tmp_path / "new", "Seg0", commitlog_file_size=1 << 20)
    assert [file.size for file in open_store(made.into).commitlog.files] == [1 << 20]
    with pytest.raises(UsageError, match="too long for commit log files of 512 bytes"):
        cut(store_dir(MULTI), tmp_path / "small", "Seg0", commitlog_file_size=512)
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize(
    ("topics", "more", "reason"),
    [
        ((), {}, "say what to cut out"),
        (("Seg0", "Seg1"), {"queue_id": 0}, "--queue needs one --topic"),
        (("Seg7",), {}, "has no topic Seg7; similar: Seg"),
        (("Seg0",), {"queue_id": 9}, "consumers get no such message"),
        (("Seg0",), {"end": 5}, "consumers get no such message"),
    ],
)
def test_what_cannot_be_cut(
    store_dir: Directory, tmp_path: Path, topics: tuple[str, ...], more: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        cut(store_dir(MULTI), tmp_path / "new", *topics, **more)
    assert not (tmp_path / "new").exists()


def test_what_is_refused(store_dir: Directory, tmp_path: Path) -> None:
    root = shutil.copytree(store_dir(MULTI), tmp_path / "store")
    with pytest.raises(UsageError, match="is inside the store that is read"):
        cut(root, root / "new", "Seg0")
    with pytest.raises(StoreError, match="does not overwrite"):
        cut(root, tmp_path, "Seg0")
    log = min((root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[data.index(b"\xda\xa3\x20\xa7", 500)] ^= 1
    log.write_bytes(data)
    with pytest.raises(StoreError, match=r"is damaged \(CL.*repair it first"):
        cut(root, tmp_path / "new", "Seg0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


def test_damage_elsewhere_does_not_matter(store_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(store_dir(MULTI), tmp_path / "store"))
    shutil.rmtree(root / "consumequeue/Seg1")
    for index in (root / "index").iterdir():
        index.write_bytes(b"\xff" * index.stat().st_size)
    cut(root, tmp_path / "new", "Seg0")
    assert contents(open_store(tmp_path / "new")) == contents(open_store(root), "Seg0")
    with pytest.raises(StoreError, match="is damaged"):
        cut(root, tmp_path / "other", "Seg1")


def test_a_unit_of_another_place_is_refused(store_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(store_dir(MULTI), tmp_path / "store"))
    file = root / "consumequeue/Seg0/0/00000000000000000000"
    data = bytearray(file.read_bytes())
    data[:20], data[20:40] = data[20:40], data[:20]
    file.write_bytes(data)
    store = open_store(root)
    _, found = log_records(store, Wanted(frozenset({"Seg0"})).has_queue)
    with pytest.raises(StoreError, match="has a unit at queue offset 0 of a record with another place"):
        served_rows(store, found)


def test_the_proof_sees_other_queue_offsets(store_dir: Directory) -> None:
    store = open_store(store_dir(MULTI))
    prove_bounds(store, {("Seg0", 0): (0, 238)})
    for wrong in ({("Seg0", 0): (1, 238)}, {("Seg0", 0): (0, 239)}, {("Seg0", 9): (0, 1)}):
        with pytest.raises(StoreError, match="cannot have the queue offsets"):
            prove_bounds(store, wrong)


def test_too_many_queues_to_tell_apart(
    store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketfsck.repair.convert.whole.QueueTable", partial(QueueTable, max_queues=1))
    with pytest.raises(StoreError, match="names too many queues"):
        cut(store_dir(MULTI), tmp_path / "new", "Seg0")


def test_a_running_broker_is_refused(store_dir: Directory, tmp_path: Path) -> None:
    store = open_store(store_dir(MULTI))
    running = replace(store, live=LiveState(LockState.HELD, "a test says so"))
    with pytest.raises(StoreError, match="a broker is running in it"):
        extract_store(running, tmp_path / "new", ExtractOptions(Wanted()))


def test_a_database_that_cannot_be_read_is_refused(any_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(any_dir("5.5.0-rocksdb-cq"), tmp_path / "store"))
    for file in (root / "consumequeue").glob("MANIFEST-*"):
        file.write_bytes(b"")
    with pytest.raises(StoreError, match="consumequeue"):
        cut(root, tmp_path / "new", "RockBulk0")
    assert not (tmp_path / "new").exists()
