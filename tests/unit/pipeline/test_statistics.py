"""What several stores hold, counted on an engine, against the messages counted one by one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

from rocketfsck.api import iter_messages
from rocketfsck.cli.app import run
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import StoreError
from rocketfsck.pipeline import statistics
from rocketfsck.pipeline.fleet.counting import count_stores
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.statistics import (
    ClusterStatistics,
    Distinct,
    Frequent,
    KeyCount,
    KeyCounts,
)
from rocketfsck.query.counts import count_log
from rocketfsck.scan.views.messages import Message
from rocketfsck.store import open_store
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store

from tests.conftest import Directory
from tests.unit.pipeline.viewing import hide

SEVERAL = ("5.1.3-collisions", "4.9.8-multiseg", "5.3.3-basic", "4.9.8-ipv6")
START = 1_700_000_000_000


def _count(roots: Sequence[Path], **options: Any) -> ClusterStatistics:
    return count_stores(find_sources(roots), **options)


def _messages(roots: Sequence[Path]) -> list[Message]:
    return [message for root in roots for message in iter_messages(open_store(root), live_only=True)]


def _words(messages: Sequence[Message]) -> list[KeyCount]:
    counts = Counter((message.topic, key) for message in messages for key in message.keys)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0][0].encode(), item[0][1].encode()))
    return [KeyCount(topic, key, count) for (topic, key), count in ordered]


def test_counts_of_several_stores_together(store_dir: Directory) -> None:
    roots = [store_dir(name) for name in SEVERAL]
    found, messages = _count(roots), _messages(roots)
    assert found.total is not None
    assert found.total.message_count == len(messages)
    assert found.total.byte_count == sum(message.total_size for message in messages)
    assert dict(found.brokers) == {root.parent.name: count_log(open_store(root)) for root in roots}
    by_topic = Counter(message.topic for message in messages)
    assert {item.topic: item.tally.message_count for item in found.topics} == by_topic
    sizes = [item.tally.byte_count for item in found.topics]
    assert sizes == sorted(sizes, reverse=True)
    days = {(topic, day): tally.message_count for topic, day, tally in found.topic_days}
    assert sum(days.values()) == len(messages)
    assert {topic for topic, _ in days} == set(by_topic)
    assert sum(tally.message_count for _, tally in found.days) == len(messages)
    assert found.keys is None


def test_a_log_that_cannot_be_listed_is_not_counted(
    store_copy: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = store_copy("4.9.8-multiseg")
    hide(root / "commitlog/00000000000000131072", monkeypatch, is_link=False)
    with pytest.raises(StoreError, match="00000000000000131072: cannot be read: Stale file handle"):
        count_stores(find_sources([root]))


def test_a_topic_of_several_brokers_is_one(store_dir: Directory, tmp_path: Path) -> None:
    root = store_dir("4.9.8-multiseg")
    (tmp_path / "twin").symlink_to(root)
    once, twice = _count([root]), count_stores(find_sources([root, tmp_path / "twin"], brokers=["a", "b"]))
    assert {item.topic: item.broker_count for item in twice.topics} == {"Seg0": 2, "Seg1": 2}
    for one, both in zip(once.topics, twice.topics, strict=True):
        assert both.tally.message_count == 2 * one.tally.message_count
        assert both.tally.first_timestamp == one.tally.first_timestamp
    assert [broker for broker, _ in twice.brokers] == ["a", "b"]


@pytest.mark.parametrize("jobs", [1, 3])
def test_keys_are_counted_exactly(store_dir: Directory, jobs: int) -> None:
    roots = [store_dir(name) for name in SEVERAL]
    keys = _count(roots, key_count=10_000, engine=LocalEngine(jobs)).keys
    messages = _messages(roots)
    assert keys is not None
    words = _words(messages)
    assert len(words) > 500
    assert list(keys.top) == words
    assert keys.word_count == sum(word.count for word in words)
    assert (keys.missed, keys.is_complete) == (0, True)
    unique = len({(message.topic, message.unique_key) for message in messages if message.unique_key})
    assert abs(keys.distinct_words - len(words)) < 0.05 * len(words)
    assert abs(keys.distinct_unique - unique) < 0.05 * unique


def test_a_small_sketch_says_what_it_may_have_missed(
    store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is more frequent than the sketch's error is there, with its exact count."""
    roots = [store_dir("5.1.3-collisions"), store_dir("4.9.8-multiseg")]
    made = Frequent.__init__
    monkeypatch.setattr(made, "__defaults__", (40, *(made.__defaults__ or ())[1:]))  # the capacity
    keys = _count(roots, key_count=5).keys
    words = _words(_messages(roots))
    assert keys is not None
    assert keys.missed > 0
    assert set(keys.top) <= set(words)
    assert keys.top[0] == words[0] == KeyCount("Coll513", "hot", 90)
    must = [word for word in words if word.count > keys.missed]
    assert list(keys.top)[: len(must)] == must[: len(keys.top)]
    assert keys.is_complete == (keys.missed <= keys.top[-1].count)


def test_keys_of_one_hash_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Aa` and `BB` have one hash in Java, so have all words made of them."""
    words = ["Aa", "BB"]
    for _ in range(3):
        words = [one + other for one in words for other in ("Aa", "BB")]
    messages = [
        OutgoingMessage("T", b"x", START, properties={"KEYS": word})
        for count, word in enumerate(words, 1)
        for _ in range(count)
    ]
    write_store(tmp_path / "store", messages, WriteOptions(sync=False))
    keys = _count([tmp_path / "store"], key_count=20).keys
    assert keys is not None
    assert [(key.key, key.count) for key in keys.top] == [(word, n) for n, word in enumerate(words, 1)][::-1]
    monkeypatch.setattr(statistics, "MAX_KEYS", 4)
    bounded = _count([tmp_path / "store"], key_count=20).keys
    assert bounded is not None
    assert len(bounded.top) <= 4
    assert bounded.missed > 0


@given(st.lists(st.lists(st.integers(0, 30), max_size=60), max_size=6), st.integers(1, 8), st.booleans())
def test_a_sketch_keeps_its_promise(parts: list[list[int]], capacity: int, merging: bool) -> None:
    """Counters are at most `error` too low and never too high, added or merged in whatever pieces."""
    whole = Frequent(capacity=capacity)
    for part in parts:
        hashes = np.array(part, np.int32)
        if merging:
            other = Frequent(capacity=capacity)
            other.add(hashes)
            whole.merge(other)
        else:
            whole.add(hashes)
    truth = Counter(value for part in parts for value in part)
    kept = dict(zip(whole.hashes.tolist(), whole.counts.tolist(), strict=True))
    assert whole.total == truth.total()
    assert len(kept) <= capacity
    for value, count in truth.items():
        assert kept.get(value, 0) <= count <= kept.get(value, 0) + whole.error
    assert whole.error * (capacity + 1) <= whole.total


@pytest.mark.parametrize("count", [0, 1, 100, 20_000, 400_000])
def test_distinct_hashes_are_estimated(count: int) -> None:
    hashes = np.random.default_rng(5).permutation(1 << 22)[:count].astype(np.int32)
    whole, parts = Distinct(), [Distinct(), Distinct()]
    whole.add(np.concatenate([hashes, hashes]))
    for part, half in zip(parts, np.array_split(hashes, 2), strict=True):
        part.add(half)
    parts[0].merge(parts[1])
    assert (parts[0].registers == whole.registers).all()
    assert abs(whole.estimate() - count) <= 0.03 * count


def test_counts_that_are_let_go_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MAX_KEYS", 6)
    one, other = KeyCounts(), KeyCounts()
    for number in range(6):
        one.counts[b"t", b"%d" % number] = number + 1
        other.counts[b"t", b"x%d" % number] = number + 1
    one.merge(other)
    assert len(one.counts) <= 6
    assert one.dropped >= 3


def test_empty_stores(tmp_path: Path) -> None:
    write_store(tmp_path / "store", [], WriteOptions(sync=False))
    (tmp_path / "store" / "commitlog").mkdir(exist_ok=True)
    found = _count([tmp_path / "store"], key_count=3)
    assert (found.total, found.topics, found.days, found.topic_days) == (None, (), (), ())
    assert found.keys is not None
    assert (found.keys.top, found.keys.distinct_words, found.keys.is_complete) == ((), 0, True)


def _report(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run(["count", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_text(store_dir: Directory, capsys: pytest.CaptureFixture[str]) -> None:
    stores = [store_dir("5.1.3-collisions"), store_dir("4.9.8-multiseg")]
    text = _report(capsys, *stores, "--keys", 3)
    assert text.startswith("Messages of 2 stores: 1,446 records, 622.5 KiB")
    for title in ("by broker", "by topic", "by queue", "by day (UTC)", "by topic and day (UTC)", "by key"):
        assert f"\n  {title}" in text
    assert "    Coll513  hot          90\n" in text
    assert "other words may have" not in text
    only = _report(capsys, *stores, "--by", "topic")
    assert "by queue" not in only
    assert "Messages of" not in only
    short = _report(capsys, store_dir("5.3.3-basic"), "--by", "queue")
    assert "more (-v shows all)" in short
    assert "more (-v shows all)" not in _report(capsys, store_dir("5.3.3-basic"), "--by", "queue", "-v")


def test_the_forms_hold_the_same(
    store_dir: Directory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_dir("5.1.3-collisions")
    document = json.loads(_report(capsys, store, "--keys", 2, "--format", "json"))
    assert document["kind"] == "rocketfsck.count"
    assert document["keys"]["is_complete"]
    assert {row["by"] for row in document["rows"]} == {
        "total", "broker", "topic", "queue", "day", "topic-day", "key",
    }  # fmt: skip
    lines = [
        json.loads(line) for line in _report(capsys, store, "--keys", 2, "--format", "jsonl").splitlines()
    ]
    assert [{**row, "schema_version": 1} for row in document["rows"]] == lines
    _report(capsys, store, "--keys", 2, "--format", "parquet", "-o", tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [(row["by"], row["topic"], row["message_count"]) for row in table] == [
        (row["by"], row["topic"], row["message_count"]) for row in document["rows"]
    ]
    csv = _report(capsys, store, "--by", "topic", "--format", "csv").splitlines()
    assert len(csv) == 2
    assert csv[1].startswith("topic,,,Coll513,")


def test_names_are_shown_printable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages = [OutgoingMessage("T", b"x", START, properties={"KEYS": "\x1b[31mred"})]
    write_store(tmp_path / "store", messages, WriteOptions(sync=False))
    text = _report(capsys, tmp_path / "store", "--keys", 1)
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text


def test_nothing_is_written_into_a_store(store_dir: Directory, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_dir("4.4.0-basic")
    assert run(["count", str(store), "--format", "json", "-o", str(store / "x")]) == 16
    assert run(["count", str(store / "commitlog" / "none")]) & 24
    assert capsys.readouterr().out == ""
