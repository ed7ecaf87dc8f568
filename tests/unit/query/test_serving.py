"""Queues as a running broker has them: batch queues, pre-blank units, emptied files, units that shifted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.record import InnerItem
from rocketfsck.query import BrokerView
from rocketfsck.query.offsets import queue_offsets
from rocketfsck.query.serving import state as serving_state
from rocketfsck.query.serving.files import BrokerThrowsError, java_int
from rocketfsck.query.serving.pulls import PullAnswer
from rocketfsck.store import Store, open_store
from rocketfsck.store.rocks.lifting import lifted
from rocketfsck.writer import EndState, OutgoingMessage
from rocketfsck.writer.message.messages import Kind

from tests.conftest import Directory
from tests.unit.query.maker import NOW, make, message, reopen

BATCHES = 25
"""Of two messages each, a second apart but for every fifth pair, which has one time; 10 units a file."""


@pytest.fixture
def batches(tmp_path: Path) -> Store:
    items = (InnerItem(body=b"one"), InnerItem(body=b"two"))
    return make(
        tmp_path,
        [
            OutgoingMessage(
                "B", store_timestamp=NOW + 1000 * (n - n % 5 // 4), items=items, kind=Kind.INNER_BATCH
            )
            for n in range(BATCHES)
        ],
        batch_topics=frozenset({"B"}),
    )


def test_times_of_batches(batches: Store) -> None:
    """Units 3 and 4 have one time; a search stays in the file that it chose by the times of first units."""
    with BrokerView(batches) as broker:
        asked = [(NOW - 1, 0), (NOW, 0), (NOW + 1, 2), (NOW + 3000, 6), (NOW + 90_000, 48)]
        for stamp, offset in asked:
            assert broker.offset_in_queue_by_time("B", 0, stamp) == offset
        assert broker.offset_in_queue_by_time("B", 0, NOW + 3000, "upper") != 6
        # after the end unit of the first file, before the start of the second: the last one of the first
        assert broker.offset_in_queue_by_time("B", 0, NOW + 9_999) == 18
    with BrokerView(batches, "5.1.3") as broker, pytest.raises(UsageError, match="no upper boundary"):
        broker.offset_in_queue_by_time("B", 0, NOW, "upper")


def test_pulls_of_batches(batches: Store) -> None:
    with BrokerView(batches) as broker:
        queue = broker.queue("B", 0)
        assert queue is not None
        assert (queue.min_offset, queue.max_offset) == (0, 2 * BATCHES)
        inside = broker.get_message("B", 0, 21, 5)
        assert (inside.status, len(inside.offsets), inside.next_begin_offset) == ("FOUND", 2, 24)
        assert broker.get_message("B", 0, 0, 100).next_begin_offset == 20  # the file's end
        assert broker.commit_log_offset("B", 0, -1) == 0
        assert broker.commit_log_offset("B", 0, 50) == 0


def test_a_batch_queue_without_files_throws(batches: Store, tmp_path: Path) -> None:
    for file in batches.queues[0].files:
        file.path.unlink()
    with BrokerView(reopen(tmp_path), state="running") as broker:
        assert broker.get_message("B", 0, 0).status == "NO_MESSAGE_IN_QUEUE"
        with pytest.raises(BrokerThrowsError, match="NullPointerException"):
            broker.offset_in_queue_by_time("B", 0, NOW)
    with BrokerView(reopen(tmp_path)) as broker:  # the start dispatches the records once more
        assert broker.get_message("B", 0, 20).next_begin_offset == 50
        assert broker.offset_in_queue_by_time("B", 0, NOW + 12_000) == 24


def test_a_start_appends_what_recovery_dispatches(tmp_path: Path) -> None:
    store = make(tmp_path, [message(number) for number in range(30)], end_state=EndState.KILLED)
    for file in store.queues[0].files:
        file.path.unlink()
    store.queues[0].files[0].path.parent.rmdir()
    for version, offset in (("4.9.8", 9), ("5.3.3", 17)):  # the old one asks a file that was just modified
        with BrokerView(reopen(tmp_path), version) as broker:
            pulled = broker.get_message("Order", 0, 12, 3)
            assert (pulled.status, pulled.next_begin_offset, pulled.max_offset) == ("FOUND", 15, 30)
            assert broker.offset_in_queue_by_time("Order", 0, NOW + 17_000) == offset
        with BrokerView(reopen(tmp_path), version, state="running") as broker:
            assert broker.get_message("Order", 0, 12, 3).status == "NO_MESSAGE_IN_QUEUE"


def test_pre_blank_units_are_units(tmp_path: Path) -> None:
    """A queue that begins at 13 in a file of units from 10 on: after a start the blank ones can be asked."""
    store = make(
        tmp_path,
        [message(number) for number in range(60)],
        version="4.9.8",
        queue_start_offsets={("Order", 0): 13},
    )
    for version, least in (
        ("4.9.8", 10),
        ("5.3.3", 12),
    ):  # a binary search stops at any unit that points at 0
        with BrokerView(store, version) as broker:
            blank = broker.get_message("Order", 0, 12, 32)
            # 2 GiB from offset 0 on are not there, and up to the log's next file nothing else is tried
            assert blank == PullAnswer("MESSAGE_WAS_REMOVING", (), 20, least, 73)
            assert broker.get_message("Order", 0, 13, 1).status == "FOUND"


def test_a_start_fills_what_is_in_front_of_the_first_unit(tmp_path: Path) -> None:
    """The queue is made anew from records whose first is number 13: units 10 to 12 are pre-blank."""
    store = make(
        tmp_path,
        [message(number) for number in range(5)],
        version="4.9.8",
        queue_start_offsets={("Order", 0): 13},
        end_state=EndState.KILLED,
    )
    (file,) = store.queues[0].files
    file.path.unlink()
    file.path.parent.rmdir()
    with BrokerView(reopen(tmp_path, version="4.9.8"), "4.9.8") as broker:
        assert broker.get_message("Order", 0, 11, 1) == PullAnswer("MESSAGE_WAS_REMOVING", (), 18, 10, 18)
        assert broker.get_message("Order", 0, 13, 1).offsets == (0,)


def test_an_emptied_last_file_answers_times_with_0(tmp_path: Path) -> None:
    """Before the times of records decided, the last file was asked where none was modified late enough."""
    store = make(tmp_path, [message(number) for number in range(20)], version="4.4.0")
    last = store.queues[0].files[-1]
    last.path.with_name(f"{20 * 20:020d}").write_bytes(bytes(last.size))
    with BrokerView(reopen(tmp_path, version="4.4.0"), "4.4.0") as broker:
        queue = broker.queue("Order", 0)
        assert queue is not None
        assert queue.max_offset == 20
        assert broker.offset_in_queue_by_time("Order", 0, 1 << 50) == 0


def test_units_that_shifted_count(tmp_path: Path) -> None:
    """Units whose record has another queueOffset lead to records of the queue: a broker counts them."""
    store = make(tmp_path, [message(number) for number in range(10)])
    path = store.queues[0].files[0].path
    data = path.read_bytes()
    path.write_bytes(data[20:] + bytes(20))
    (row,) = queue_offsets(reopen(tmp_path))
    assert (row.max_offset, row.stale_count) == (9, 0)
    for state in ("running", "started"):
        with BrokerView(reopen(tmp_path), "4.9.8", state=state) as broker:
            queue = broker.queue("Order", 0)
            assert queue is not None
            assert queue.max_offset == 9


def test_a_store_that_the_broker_refuses(tmp_path: Path) -> None:
    store = make(tmp_path, [message(number) for number in range(5)])
    path = store.queues[0].files[0].path
    path.write_bytes(path.read_bytes()[:-20])
    with BrokerView(reopen(tmp_path), "4.9.8") as broker:
        with pytest.raises(StoreError, match="does not start on this store: 180 length not matched"):
            broker.get_message("Order", 0, 0)
        with pytest.raises(StoreError, match="does not start on this store"):
            broker.query_message("Order", "all")
    with BrokerView(reopen(tmp_path), "4.9.8", state="running") as broker:
        assert broker.get_message("Order", 0, 0).status == "FOUND"
        assert broker.query_message("Order", "all")


def test_entries_that_a_start_puts_are_given_again(tmp_path: Path) -> None:
    store = make(tmp_path, [message(number) for number in range(5)])
    with BrokerView(reopen(tmp_path), "4.9.8") as broker:
        whole = broker.query_message("Order", "all")
        assert len(whole) == 5
    shutil.rmtree(store.root / "consumequeue")  # so that all is dispatched again
    with BrokerView(reopen(tmp_path), "4.9.8") as broker:
        found = broker.index_query_offset("Order", "all").offsets
        assert found == (whole[-1], *reversed(whole))  # the last record is dispatched again
        assert broker.query_message("Order", "all") == (*whole, whole[-1])
        assert broker.index_query_offset("Order", "all", max_num=1).offsets == (whole[-1],)
    with BrokerView(reopen(tmp_path), "4.9.8", state="running") as broker:
        assert broker.query_message("Order", "all") == whole
    store.indexes[0].path.unlink()
    with BrokerView(reopen(tmp_path), "4.9.8") as broker:
        assert broker.query_message("Order", "all") == whole
    with BrokerView(reopen(tmp_path), "4.9.8", state="running") as broker:
        assert broker.query_message("Order", "all") == ()


def test_more_entries_than_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make(tmp_path, [message(number) for number in range(5)])
    store.indexes[0].path.unlink()
    shutil.rmtree(store.root / "consumequeue")
    monkeypatch.setattr(serving_state, "APPENDED_LIMIT", 5)
    with (
        BrokerView(reopen(tmp_path), "4.9.8") as broker,
        pytest.raises(StoreError, match="puts more than 5 entries into the index"),
    ):
        broker.query_message("Order", "all")


def test_sums_wrap_as_ints_do() -> None:
    assert [java_int(value) for value in (5, (1 << 31) - 1, 1 << 31, -(1 << 31) - 1)] == [
        5,
        (1 << 31) - 1,
        -(1 << 31),
        (1 << 31) - 1,
    ]


def test_light_queues_in_a_database_alone(real_copy: Directory) -> None:
    """combineCQUseRocksdbForLmq, said by no conf: ordinary queues are in files, light ones in RocksDB."""
    root = real_copy("5.5.0-lite-rocksdb")
    with lifted(open_store(root)) as lifting:
        for queue in lifting.store.queues:
            if not queue.topic.startswith("%LMQ%"):
                into = root / "consumequeue" / queue.topic / str(queue.queue_id)
                shutil.copytree(queue.files[0].path.parent, into)
    with lifted(open_store(root)) as lifting, BrokerView(lifting.store, "5.5.0") as broker:
        assert broker.state == "running"  # a predicted start has no light queues of RocksDB
        pulled = broker.get_message("%LMQ%$LiLite$room_1", 0, 3, 1)
        assert (pulled.status, pulled.max_offset) == ("FOUND", 14)
        assert broker.get_message("LiLite", 0, 3, 1).status == "FOUND"


def test_a_pull_of_a_queue_in_a_database_ends_at_no_file(real_copy: Directory) -> None:
    """Rows have no files: a pull ends with the count that was asked for, or the queue."""
    root = real_copy("5.5.0-rocksdb-cq")
    conf = root.with_suffix(".conf")
    conf.write_text("mappedFileSizeConsumeQueue=60\n")  # three units a file, as lifting makes them
    asked = 0
    with (
        lifted(open_store(root, version="5.5.0", broker_conf=conf)) as lifting,
        BrokerView(lifting.store, "5.5.0", state="started") as broker,
    ):
        for stored in lifting.store.queues:
            queue = broker.queue(stored.topic, stored.queue_id)
            assert queue is not None
            for offset in range(queue.min_offset, queue.max_offset if queue.kind == "file" else 0):
                for count in (1, 4, 32):
                    pulled = broker.get_message(stored.topic, stored.queue_id, offset, count)
                    following = min(offset + count, queue.max_offset)
                    assert (pulled.status, pulled.next_begin_offset) == ("FOUND", following)
                    assert len(pulled.offsets) == following - offset
                    asked += count > 3 and following - offset > 3
    assert asked > 100
