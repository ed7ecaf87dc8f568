"""A broker's answers where its files are damaged, missing, or made to hold it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

import rocketfsck.query
from rocketfsck.errors import UsageError
from rocketfsck.formats.consumequeue import UNIT_SIZE
from rocketfsck.formats.indexfile import Entry, IndexHeader, encode_header, entry_pos, slot_of, slot_pos
from rocketfsck.formats.javatext import index_hash
from rocketfsck.query import BrokerView, Outcome
from rocketfsck.query.answers import Trace
from rocketfsck.query.ids import offset_id_of
from rocketfsck.query.serving.broker import broker_by_id, broker_by_key, broker_by_offset
from rocketfsck.query.serving.pulls import PullAnswer
from rocketfsck.reader.index import IndexReader
from rocketfsck.store import Store
from rocketfsck.writer import Expiry, OutgoingMessage

from tests.unit.query.maker import GEOMETRY, NOW, make, message, patch, reopen

SLOTS = GEOMETRY.slot_count


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make(tmp_path, [message(number) for number in range(60)])


def newest_entry(store: Store, key: str, file: int) -> tuple[Path, int]:
    path = store.indexes[file].path
    pos = slot_pos(slot_of(index_hash("Order", key), SLOTS))
    return path, struct.unpack_from(">i", path.read_bytes(), pos)[0]


def entry_of(store: Store, key: str, file: int) -> tuple[Path, int]:
    """The newest entry that was put for a key."""
    key_hash = index_hash("Order", key)
    with IndexReader(store.indexes[file], store.geometry) as index:
        entries = [item for item in index.chain(key_hash) if isinstance(item, Entry)]
    return store.indexes[file].path, next(item.number for item in entries if item.key_hash == key_hash)


def ends(trace: Trace) -> list[str | None]:
    return [step.ended or step.skipped for step in trace.index_steps]


def test_limits(store: Store) -> None:
    with BrokerView(store, "5.3.3") as broker:
        assert len(broker.index_query_offset("Order", "all", 1000).offsets) == 60
        assert len(broker.query_message("Order", "all", 7)) == 7
        newest = broker.query_message("Order", "all", 7)
        assert list(newest) == sorted(newest)
        assert len(broker_by_key(broker, "Order", "all", unique=True).found) == 32
        assert len(broker_by_key(broker, "Order", "all", max_count=5).found) == 5


def test_at_most_64(tmp_path: Path) -> None:
    with BrokerView(make(tmp_path, [message(number) for number in range(80)])) as broker:
        assert str(broker.version) == "5.3.3"
        trace = Trace()
        assert len(broker.index_query_offset("Order", "all", 1000, trace=trace).offsets) == 64
        assert ends(trace)[-1] == "the limit of matches is reached"


def test_windows(store: Store) -> None:
    with BrokerView(store) as broker:
        found = broker.query_message("Order", "all", 64, NOW + 10_000, NOW + 12_000)
        assert len(found) == 3
        assert broker_by_key(broker, "Order", "all", begin_timestamp=1, end_timestamp=2).outcome is (
            Outcome.NOT_FOUND
        )
        trace = Trace()
        broker.index_query_offset("Order", "all", 64, NOW + 58_000, NOW + 99_000, trace)
        assert "older than the window" in ends(trace)
        trace = Trace()
        broker.index_query_offset("Order", "all", 64, 0, NOW + 5_000, trace)
        assert ends(trace)[0] == "the file's times are outside the time window"


def test_a_circle_does_not_hold_it(store: Store, tmp_path: Path) -> None:
    """Two entries of other hashes that lead to each other: a broker would never come back."""
    path, newest = newest_entry(store, "all", 0)
    key = next(
        name
        for name in (f"x{number}" for number in range(1000))
        if slot_of(index_hash("Order", name), SLOTS) == slot_of(index_hash("Order", "all"), SLOTS)
    )
    patch(path, entry_pos(newest, SLOTS) + 16, struct.pack(">i", newest - 1))
    patch(path, entry_pos(newest - 1, SLOTS) + 16, struct.pack(">i", newest))
    with BrokerView(reopen(tmp_path)) as broker:
        trace = Trace()
        assert broker.index_query_offset("Order", key, trace=trace).offsets == ()
        assert ends(trace)[-1] == "the chain is a cycle: a broker would never end"
        assert len(broker.index_query_offset("Order", "all").offsets) == 64


def test_a_self_loop_ends_as_a_broker_ends_it(store: Store, tmp_path: Path) -> None:
    path, newest = newest_entry(store, "all", 0)
    patch(path, entry_pos(newest, SLOTS) + 16, struct.pack(">i", newest))
    with BrokerView(reopen(tmp_path)) as broker:
        trace = Trace()
        broker.index_query_offset("Order", "all", trace=trace)
        assert (ends(trace)[-1], len(trace.index_steps[-1].entries)) == ("the chain ends", 1)


def test_a_negative_time_ends_the_walk(store: Store, tmp_path: Path) -> None:
    path, newest = newest_entry(store, "all", 0)
    patch(path, entry_pos(newest, SLOTS) + 12, struct.pack(">i", -1))
    with BrokerView(reopen(tmp_path)) as broker:
        trace = Trace()
        broker.index_query_offset("Order", "all", trace=trace)
        assert ends(trace)[-1] == "a negative timeDiff ends the walk"


def test_short_index_files_are_zeros_to_a_broker(store: Store, tmp_path: Path) -> None:
    path, newest = newest_entry(store, "all", 0)
    os.truncate(path, entry_pos(newest, SLOTS) + 2)
    with BrokerView(reopen(tmp_path)) as broker:
        trace = Trace()
        broker.index_query_offset("Order", "all", trace=trace)
        assert ends(trace)[-1] == f"the file ends before entry {newest}"
    for size in (50, 12):
        os.truncate(path, size)
        with BrokerView(reopen(tmp_path)) as broker:
            trace = Trace()
            broker.index_query_offset("Order", "all", begin_timestamp=0, trace=trace)
            assert ends(trace)[-1] in ("the slot is empty", "the file's times are outside the time window")


def test_an_empty_newest_file(store: Store, tmp_path: Path) -> None:
    """As after a roll: no entries yet, times inherited."""
    path = store.indexes[-1].path
    header = IndexHeader(NOW, NOW + 60_000, 5, 5, 0, 0)
    patch(path, 0, encode_header(header))
    with BrokerView(reopen(tmp_path)) as broker:
        trace = Trace()
        found = broker.index_query_offset("Order", "all", trace=trace)
        assert ends(trace)[0] == "the slot is empty"
        assert (found.index_last_update_timestamp, found.index_last_update_offset) == (NOW + 60_000, 5)


def test_dangling_entries(store: Store, tmp_path: Path) -> None:
    """A smallest offset that leads nowhere is passed over; others come with the bytes that stand there."""
    path, newest = entry_of(store, "k3", 0)
    pos = entry_pos(newest, SLOTS) + 4
    for offset, count in ((1 << 40, 0), (-7, 0), (1, 0)):
        patch(path, pos, struct.pack(">q", offset))
        with BrokerView(reopen(tmp_path)) as broker:
            answer = broker_by_key(broker, "Order", "k3")
            assert len(answer.leads) == count
            assert answer.outcome is Outcome.NOT_FOUND
            assert answer.why == "a 5.3.3 broker finds nothing"
    path, newest = entry_of(store, "all", 1)
    pos = entry_pos(newest, SLOTS) + 4
    (offset,) = struct.unpack_from(">q", path.read_bytes(), pos)
    patch(path, pos, struct.pack(">q", offset + 2))
    with BrokerView(reopen(tmp_path)) as broker:
        answer = broker_by_key(broker, "Order", "all")
        assert len(answer.found) + len(answer.leads) in (59, 60)


def test_bytes_that_are_no_record_are_given(store: Store, tmp_path: Path) -> None:
    """The number at a dangling offset is taken for a size: where it fits, a broker sends what is there."""
    first = store.commitlog.files[0].path
    data = bytearray(first.read_bytes())
    target = data.index(b"body 9")
    patch(first, target, struct.pack(">i", 30))
    path, newest = entry_of(store, "all", 0)
    patch(path, entry_pos(newest, SLOTS) + 4, struct.pack(">q", target))
    with BrokerView(reopen(tmp_path)) as broker:
        answer = broker_by_key(broker, "Order", "all")
        assert [(lead.offset, lead.why) for lead in answer.leads] == [
            (target, "the bytes there are not a record")
        ]


def test_unknown_queues_are_empty_ones(store: Store) -> None:
    with BrokerView(store) as broker:
        assert broker.get_message("Nothing", 0, 5) == PullAnswer("NO_MESSAGE_IN_QUEUE", (), 0, 0, 0)
        assert broker.commit_log_offset("Nothing", 0, 5) == 0
        assert broker.offset_in_queue_by_time("Nothing", 0, 5) == 0
        assert broker.commit_log_offset("Order", 0, 500) == 0


def test_pulls(store: Store) -> None:
    with BrokerView(store) as broker:
        pulled = broker.get_message("Order", 0, 3, 100)
        # a file of the queue has 10 units, and a pull never goes on into the next
        assert (pulled.status, len(pulled.offsets), pulled.next_begin_offset) == ("FOUND", 7, 10)
        answer = broker_by_offset(broker, "Order", 0, 3)
        assert [found.message.keys[0] for found in answer.found] == ["k3"]
        assert answer.trace is not None
        assert answer.trace.notes == [
            "FOUND: minOffset 0, maxOffset 60, nextBeginOffset 4",
            "a broker gives this answer after a start on this store",
        ]
        assert answer.pull is not None
        assert (answer.pull.status, answer.pull.next_begin_offset) == ("FOUND", 4)
        beyond = broker_by_offset(broker, "Order", 0, 60)
        assert beyond.why.endswith("OFFSET_OVERFLOW_ONE: minOffset 0, maxOffset 60, nextBeginOffset 60")


def test_pulls_by_size(tmp_path: Path) -> None:
    """256 KiB in one answer, whatever number was asked for; the first message always comes."""
    geometry = type(GEOMETRY)(
        commitlog_file_size=1 << 21, consumequeue_file_size=2000, slot_count=8, entry_count=400
    )
    big = [message(number, body=bytes(100_000)) for number in range(6)]
    store = make(tmp_path, [*big, *(message(number) for number in range(6, 60))], geometry=geometry)
    with BrokerView(store) as broker:
        assert len(broker.get_message("Order", 0, 0, 32).offsets) == 2
        assert len(broker.get_message("Order", 0, 6, 100).offsets) == 32


def test_pulls_of_units_that_lead_nowhere(store: Store, tmp_path: Path) -> None:
    """What has gone with its file is passed over; up to the next file nothing else is tried."""
    queue = store.queues[0].files[0].path
    patch(queue, 3 * UNIT_SIZE, struct.pack(">q", 1 << 40))
    with BrokerView(reopen(tmp_path), state="running") as broker:
        gone = broker.get_message("Order", 0, 3, 1)
        assert gone.status == "MESSAGE_WAS_REMOVING"
        assert gone.offsets == ()
        assert broker.get_message("Order", 0, 2, 1).status == "FOUND"
        some = broker.get_message("Order", 0, 2, 32)
        assert (some.status, len(some.offsets)) == ("FOUND", 1)
    patch(queue, 3 * UNIT_SIZE, bytes(UNIT_SIZE))
    with BrokerView(reopen(tmp_path), state="running") as broker:
        pulled = broker.get_message("Order", 0, 3, 1)
        # No bytes from offset 0 are an answer to a broker, and do not count: it goes on to the next unit.
        assert (pulled.status, pulled.offsets[0], len(pulled.offsets)) == ("FOUND", 0, 2)
        assert pulled.next_begin_offset == 5


def test_pulls_look_at_no_more_units_than_fit(tmp_path: Path) -> None:
    """Units that lead nowhere count too: after 16,000 bytes of them a pull gives up."""
    geometry = type(GEOMETRY)(
        commitlog_file_size=1 << 20, consumequeue_file_size=20_000, slot_count=8, entry_count=4000
    )
    store = make(
        tmp_path,
        [message(number, properties={}, body=b"") for number in range(950)],
        geometry=geometry,
    )
    path = store.queues[0].files[0].path
    for index in range(940):
        patch(path, index * UNIT_SIZE, struct.pack(">q", 1 << 40))
    for version, following in (("4.9.8", 800), ("5.1.3", 801), ("5.3.2", 801), ("5.3.3", 800)):
        with BrokerView(reopen(tmp_path, geometry), version, state="running") as broker:
            answer = broker.get_message("Order", 0, 0, 32)
            assert (answer.status, answer.next_begin_offset) == ("MESSAGE_WAS_REMOVING", following)
    with BrokerView(reopen(tmp_path, geometry), "5.0.0", state="running") as broker:
        assert broker.get_message("Order", 0, 0, 32).next_begin_offset == 950  # it counts units, not bytes


def test_expired_queues(tmp_path: Path) -> None:
    store = make(tmp_path, [*(message(number) for number in range(80)), Expiry(1)])
    for version in ("4.9.8", "5.3.3"):
        with BrokerView(store, version) as broker:
            queue = broker.queue("Order", 0)
            assert queue is not None
            low = queue.min_offset
            assert broker.get_message("Order", 0, 0).status == "OFFSET_TOO_SMALL"
            assert broker.get_message("Order", 0, low).status == "FOUND"
            assert broker.commit_log_offset("Order", 0, low - 1) == 0
            assert broker.offset_in_queue_by_time("Order", 0, 0) >= low - 10


def test_brokers_look_for_the_minimum_in_the_first_file_only(tmp_path: Path) -> None:
    store = make(tmp_path, [message(number) for number in range(80)])
    (queue,) = store.queues
    for index in range(10):
        patch(queue.files[0].path, index * UNIT_SIZE, struct.pack(">q", -5 if index < 0 else 0))
    files = store.commitlog.files
    files[0].path.unlink()
    for version in ("4.9.8", "5.3.3"):
        with BrokerView(reopen(tmp_path), version, state="running") as broker:
            view = broker.queue("Order", 0)
            assert view is not None
            assert view.min_offset == 0


def test_times_by_version(store: Store) -> None:
    with BrokerView(store, "4.9.8") as old, BrokerView(store, "5.3.3") as new:
        assert [old.offset_in_queue_by_time("Order", 0, NOW + at) for at in (3400, 3600)] == [3, 4]
        assert [new.offset_in_queue_by_time("Order", 0, NOW + at) for at in (3400, 3600)] == [4, 4]
        assert new.offset_in_queue_by_time("Order", 0, NOW + 3400, "upper") == 3
        assert new.offset_in_queue_by_time("Order", 0, 0, "upper") == 0
        assert new.offset_in_queue_by_time("Order", 0, NOW * 2, "upper") == 59
        assert new.offset_in_queue_by_time("Order", 0, NOW + 25_000) == 25
        with pytest.raises(UsageError, match="no upper boundary"):
            old.offset_in_queue_by_time("Order", 0, NOW, "upper")


def test_times_of_units_without_records(store: Store, tmp_path: Path) -> None:
    for index in range(60):
        file, rest = divmod(index, 10)
        if index % 10 not in (0, 9):
            patch(store.queues[0].files[file].path, rest * UNIT_SIZE, struct.pack(">q", 1 << 40))
    for version in ("4.9.8", "5.3.3"):
        with BrokerView(reopen(tmp_path), version, state="running") as broker:
            assert broker.offset_in_queue_by_time("Order", 0, NOW + 5_500) == 0


def test_times_of_units_that_have_expired(store: Store, tmp_path: Path) -> None:
    """A broker that starts in the first file only finds no live unit there: one before its beginning."""
    store.commitlog.files[0].path.unlink()
    with BrokerView(reopen(tmp_path), "4.9.8", state="running") as broker:
        queue = broker.queue("Order", 0)
        assert queue is not None
        assert queue.min_offset == 0
        assert broker.offset_in_queue_by_time("Order", 0, NOW) == 0
    with BrokerView(reopen(tmp_path), "5.3.3", state="running") as broker:
        queue = broker.queue("Order", 0)
        assert queue is not None
        assert queue.min_offset == 0
        behind = broker.offset_in_queue_by_time("Order", 0, NOW + 30_000)
        assert behind == 30
        assert broker.offset_in_queue_by_time("Order", 0, NOW + 30_000, "upper") == 30


def test_times_where_the_clock_went_back(tmp_path: Path) -> None:
    """Expired units and late ones in one file: the search goes by what each probe says."""
    store = make(tmp_path, [message(number) for number in range(10)])
    path = store.queues[0].files[0].path
    for index in (3, 4):
        patch(path, index * UNIT_SIZE, struct.pack(">q", -1 << 40))
    with BrokerView(reopen(tmp_path), "4.9.8", state="running") as broker:
        assert broker.offset_in_queue_by_time("Order", 0, NOW + 6_000) == 6
        assert broker.offset_in_queue_by_time("Order", 0, NOW + 2_000) == 5
        assert broker.offset_in_queue_by_time("Order", 0, NOW + 90_000) == 9
    with BrokerView(reopen(tmp_path), "5.3.3", state="running") as broker:
        assert broker.offset_in_queue_by_time("Order", 0, NOW + 2_000) == 5
        assert broker.offset_in_queue_by_time("Order", 0, NOW + 2_000, "upper") == 4
        assert broker.offset_in_queue_by_time("Order", 0, NOW + 6_500, "upper") == 6


def test_times_of_an_empty_queue(store: Store, tmp_path: Path) -> None:
    for file in store.queues[0].files:
        file.path.write_bytes(bytes(file.size))
    for version in ("4.9.8", "5.3.3"):
        with BrokerView(reopen(tmp_path), version, state="running") as broker:
            assert broker.offset_in_queue_by_time("Order", 0, NOW) == 0
    for file in store.queues[0].files:
        file.path.unlink()
    with BrokerView(reopen(tmp_path), state="running") as broker:
        assert broker.offset_in_queue_by_time("Order", 0, NOW) == 0
        assert broker.get_message("Order", 0, 0).status == "NO_MESSAGE_IN_QUEUE"


def test_times_of_batches_that_are_not_there(tmp_path: Path) -> None:
    item = OutgoingMessage("B", b"x", NOW, properties={})
    store = make(tmp_path, [item], batch_topics=frozenset({"B"}))
    with BrokerView(store) as broker:
        assert broker.offset_in_queue_by_time("B", 0, NOW - 5) == 0
        assert broker.offset_in_queue_by_time("B", 0, NOW + 5) == 0
    (queue,) = store.queues
    queue.files[0].path.write_bytes(bytes(queue.files[0].size))
    with BrokerView(reopen(tmp_path), state="running") as broker:
        assert broker.offset_in_queue_by_time("B", 0, NOW) == -1
        queue_now = broker.queue("B", 0)
        assert queue_now is not None
        assert (queue_now.min_offset, queue_now.max_offset) == (-1, 0)


def test_ids(store: Store) -> None:
    with BrokerView(store, "4.4.0") as broker:
        (found,) = broker_by_key(broker, "Order", "k3").found
        text = offset_id_of(found.message, found.offset)
        assert [item.offset for item in broker_by_id(broker, text).found] == [found.offset]
        # the host is not compared
        assert broker_by_id(broker, "01020304" + text[8:]).found
        wrong = broker_by_id(broker, text[:16] + f"{found.offset + 1:016X}")
        assert wrong.why == (f"a 4.4.0 broker finds no message at physical offset {found.offset + 1}")
        assert not broker_by_id(broker, text[:16] + f"{1 << 40:016X}").found


def test_unknown_versions(store: Store) -> None:
    with pytest.raises(UsageError):
        BrokerView(store, "3.0")


def test_the_package_gives_its_names() -> None:
    assert rocketfsck.query.BrokerView is BrokerView
    for name in rocketfsck.query.__all__:
        assert getattr(rocketfsck.query, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rocketfsck.query.nothing  # noqa: B018
