"""What a store holds, counted in columns, against the messages counted one by one."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rocketfsck.api import iter_messages, read_entries
from rocketfsck.common.budget import within
from rocketfsck.errors import StoreError
from rocketfsck.query import counts
from rocketfsck.query.counts import DAY_MS, LogStatistics, count_log, plan_runs
from rocketfsck.query.info import statistics
from rocketfsck.query.info.statistics import measure_skew
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.views.messages import Message
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Settings
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store

from tests.conftest import STORE_NAMES, Directory

START = 1_700_000_000_000


def _by_hand(messages: list[Message]) -> dict[object, list[Message]]:
    groups: dict[object, list[Message]] = defaultdict(list)
    for message in messages:
        day = datetime.fromtimestamp(message.store_timestamp / 1000, UTC).date().isoformat()
        groups[message.topic, message.queue_id].append(message)
        groups[day].append(message)
        groups[message.topic].append(message)
    return groups


@pytest.mark.parametrize("name", STORE_NAMES)
def test_the_counts_of_broker_stores(name: str, store_dir: Directory) -> None:
    store = open_store(store_dir(name))
    messages = list(iter_messages(store, live_only=True))
    groups = _by_hand(messages)
    counted = count_log(store)
    tallies = {(queue.topic, queue.queue_id): queue.tally for queue in counted.queues}
    tallies |= counted.topics | dict(counted.days)  # type: ignore[arg-type]
    assert set(tallies) == set(groups)
    for key, group in groups.items():
        tally = tallies[key]  # type: ignore[index]
        assert tally.message_count == len(group)
        assert tally.byte_count == sum(message.total_size for message in group)
        times = [message.store_timestamp for message in group]
        assert (tally.first_timestamp, tally.last_timestamp) == (min(times), max(times))
    for queue in counted.queues:
        offsets = [message.queue_offset for message in groups[queue.topic, queue.queue_id]]
        assert (queue.min_offset, queue.max_offset) == (min(offsets), max(offsets) + 1)
    assert counted.total is not None
    assert counted.total.message_count == len(messages)
    assert counted.uncounted_queues == 0
    days: dict[tuple[str, str], list[Message]] = defaultdict(list)
    for message in messages:
        day = datetime.fromtimestamp(message.store_timestamp / 1000, UTC).date().isoformat()
        days[message.topic, day].append(message)
    found = {(topic, day): tally for topic, day, tally in counted.topic_days}
    assert {key: (tally.message_count, tally.byte_count) for key, tally in found.items()} == {
        key: (len(group), sum(message.total_size for message in group)) for key, group in days.items()
    }
    assert counted.uncounted_days == 0


def test_the_largest_topic_comes_first(store_dir: Directory) -> None:
    sizes = [tally.byte_count for tally in count_log(open_store(store_dir("5.3.3-basic"))).topics.values()]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) > 5


def test_any_number_of_threads_counts_the_same(store_dir: Directory) -> None:
    store = open_store(store_dir("4.9.8-multiseg"))
    with within(jobs=1):
        alone = count_log(store)
    with within(jobs=3):
        assert count_log(store) == alone


def test_an_account_is_of_a_run_of_files(store_dir: Directory) -> None:
    """What comes back is one account a task: their number goes with the cores, not with the files."""
    store = open_store(store_dir("4.9.8-multiseg"))
    assert len(store.commitlog.files) > 4
    runs = plan_runs(store, 1)
    assert len(runs) <= 4
    assert [run.first for run in runs] == sorted({run.first for run in runs})
    assert sum(len(run.items) for run in runs) == len(store.commitlog.files)


def test_what_is_told_apart_is_bounded(store_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(store_dir("5.3.3-basic"))
    whole = count_log(store)
    monkeypatch.setattr(counts, "MAX_TALLIES", 3)
    counted = count_log(store)
    assert (len(counted.queues), len(counted.topic_days)) == (3, 3)
    assert counted.total == whole.total
    assert whole.total is not None
    stated = sum(queue.tally.message_count for queue in counted.queues)
    assert stated + counted.uncounted_queues == whole.total.message_count
    stated = sum(tally.message_count for _, _, tally in counted.topic_days)
    assert stated + counted.uncounted_days == whole.total.message_count


def test_an_empty_store(tmp_path: Path) -> None:
    write_store(tmp_path / "store", [], WriteOptions(sync=False))
    (tmp_path / "store" / "commitlog").mkdir(exist_ok=True)
    counted = count_log(open_store(tmp_path / "store"))
    assert counted == LogStatistics(None, (), (), (), 0, 72, False)
    assert counted.topics == {}
    assert counted.expired_files(START) == ()


def _written(place: Path, *times: int, topic: str = "T") -> Path:
    messages = [OutgoingMessage(f"{topic}{number}", b"x", time) for number, time in enumerate(times)]
    geometry = replace(WriteOptions().geometry, commitlog_file_size=4096)
    write_store(place, messages, WriteOptions(sync=False, geometry=geometry))
    return place


def test_times_of_no_date_are_counted_apart(tmp_path: Path) -> None:
    store = open_store(_written(tmp_path / "store", START, START + DAY_MS, 1 << 60))
    days = dict(count_log(store).days)
    assert [(day, tally.message_count) for day, tally in days.items()] == [
        ("", 1),
        ("2023-11-14", 1),
        ("2023-11-15", 1),
    ]


def test_queues_beyond_the_table_are_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(_written(tmp_path / "store", *range(START, START + 5)))
    monkeypatch.setattr(counts, "QueueTable", lambda: QueueTable(max_queues=2))
    counted = count_log(store)
    assert len(counted.queues) == 2
    assert counted.uncounted_queues == 3
    assert counted.total is not None
    assert counted.total.message_count == 5


def test_retention_goes_by_the_setting(store_dir: Directory) -> None:
    store = open_store(store_dir("4.9.8-multiseg"))
    counted = count_log(store)
    assert (counted.reserved_hours, counted.reserved_known) == (72, False)
    newest = [file.last_timestamp for file in counted.files]
    assert all(time is not None for time in newest)
    after = 72 * 3_600_000
    assert counted.expired_files((newest[0] or 0) + after - 1) == ()
    assert counted.expired_files((newest[0] or 0) + after) == counted.files[:1]
    assert counted.expired_files((newest[-1] or 0) + after) == counted.files[:-1]
    given = replace(store, settings=Settings(None, {"fileReservedTime": "1"}))
    assert (count_log(given).reserved_hours, count_log(given).reserved_known) == (1, True)
    wrong = replace(store, settings=Settings(None, {"fileReservedTime": "soon"}))
    assert (count_log(wrong).reserved_hours, count_log(wrong).reserved_known) == (72, False)


@pytest.mark.parametrize("name", STORE_NAMES)
def test_the_chains_of_broker_stores(name: str, store_dir: Directory) -> None:
    store = open_store(store_dir(name))
    for number, file in enumerate(store.indexes):
        hashes = [value for batch in read_entries(store, number) for value in batch["key_hash"].to_pylist()]
        found = measure_skew(store, file)
        assert found.entry_count == len(hashes)
        lengths = list(Counter(value % store.geometry.slot_count for value in hashes).values())
        assert found.used_slot_count == len(lengths)
        assert found.longest_chain == max(lengths, default=0)
        assert sum(chains.slot_count for chains in found.chain_lengths) == len(lengths)
        for chains in found.chain_lengths:
            low, high, count = chains.from_, chains.to, chains.slot_count
            assert count == sum(low <= length <= high for length in lengths)
        assert (found.hot_key is None) == (not hashes)


def test_the_hottest_key_has_its_name(store_dir: Directory) -> None:
    store = open_store(store_dir("5.1.3-collisions"))
    hot = measure_skew(store, store.indexes[0]).hot_key
    assert hot is not None
    assert (hot.topic, hot.entry_count) == ("Coll513", 93)
    named = [message for message in iter_messages(store, key=hot.key) if message.topic == hot.topic]
    assert named


def test_a_key_whose_record_is_gone_has_no_name(store_dir: Directory, tmp_path: Path) -> None:
    shutil.copytree(store_dir("5.1.3-collisions"), tmp_path / "store")
    log = next((tmp_path / "store" / "commitlog").iterdir())
    log.write_bytes(bytes(log.stat().st_size))
    store = open_store(tmp_path / "store")
    hot = measure_skew(store, store.indexes[0]).hot_key
    assert hot is not None
    assert (hot.topic, hot.key, hot.entry_count) == (None, None, 93)
    log.unlink()
    store = open_store(tmp_path / "store")
    gone = measure_skew(store, store.indexes[0]).hot_key
    assert gone is not None
    assert gone.key is None


def test_a_damaged_record_does_not_name_a_key(store_dir: Directory, tmp_path: Path) -> None:
    shutil.copytree(store_dir("5.1.3-collisions"), tmp_path / "store")
    log = next((tmp_path / "store" / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    size = len(data)
    for pos in range(23000):
        if data[pos + 4 : pos + 8] == b"\xda\xa3\x20\xa7":
            data[pos + 84 : pos + 88] = (1 << 30).to_bytes(4, "big")  # bodyLength
    log.write_bytes(data[:size])
    store = open_store(tmp_path / "store")
    hot = measure_skew(store, store.indexes[0]).hot_key
    assert hot is not None
    assert hot.key is None


def test_hostile_headers_and_hashes(store_dir: Directory, tmp_path: Path) -> None:
    shutil.copytree(store_dir("5.1.3-collisions"), tmp_path / "store")
    path = next((tmp_path / "store" / "index").iterdir())
    sound = path.read_bytes()
    store = open_store(tmp_path / "store")
    data = bytearray(sound)
    data[36:40] = (1 << 30).to_bytes(4, "big")
    entries = 40 + 4 * store.geometry.slot_count
    data[entries + 20 : entries + 24] = b"\xff\xff\xff\xff"  # a negative hash
    path.write_bytes(data)
    found = measure_skew(store, store.indexes[0])
    assert found.entry_count == store.geometry.entry_count - 1
    assert sum(chains.from_ * chains.slot_count for chains in found.chain_lengths) <= found.entry_count
    path.write_bytes(sound[:30])
    with pytest.raises(StoreError, match="too short"):
        measure_skew(store, store.indexes[0])
    path.write_bytes(sound[:100])
    assert measure_skew(store, store.indexes[0]).entry_count == 0


def test_blocks_of_any_size_give_the_same(store_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(store_dir("5.1.3-collisions"))
    whole = measure_skew(store, store.indexes[0])
    monkeypatch.setattr(statistics, "_BLOCK_COUNT", 7)
    assert measure_skew(store, store.indexes[0]) == whole
