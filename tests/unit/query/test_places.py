"""Queries by queue offset and by time."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest

from rocketfsck.formats.consumequeue import PRE_BLANK_UNIT, UNIT_SIZE
from rocketfsck.query import BrokerView, Outcome, find_by_offset, find_by_time, places
from rocketfsck.query.answers import UnitState
from rocketfsck.query.view import StoreView
from rocketfsck.store import Store, open_store
from rocketfsck.writer import Expiry, Kind

from tests.conftest import STORE_NAMES, Directory, Document
from tests.unit.query.maker import GEOMETRY, NOW, make, message, patch, reopen


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make(tmp_path, [message(number, queue_id=number % 2) for number in range(60)])


def queue_file(store: Store, queue_id: int, number: int = 0) -> Path:
    (queue,) = [queue for queue in store.queues if queue.queue_id == queue_id]
    return queue.files[number].path


def test_every_offset_leads_to_its_message(store: Store) -> None:
    for number in range(60):
        (found,) = find_by_offset(store, "Order", number % 2, number // 2).found
        assert found.message.keys[0] == f"k{number}"
        assert found.via == ("unit",)
        assert [place.state for place in found.queues] == [UnitState.AGREES]


@pytest.mark.parametrize("name", [name for name in STORE_NAMES if "lagkill" not in name])
def test_units_of_broker_written_stores(store_dir: Directory, manifest: Document, name: str) -> None:
    with StoreView(open_store(store_dir(name))) as view:
        for queue in manifest(name)["phases"][-1]["live"]["queues"]:
            for unit in [unit for unit in queue["units"] if unit[0] >= queue["minOffset"]][::17]:
                answer = find_by_offset(view.store, queue["topic"], queue["queueId"], unit[0], view=view)
                assert [found.offset for found in answer.found] == [unit[1]]


def test_a_scan_finds_the_same(store: Store) -> None:
    for via in ("scan", "both"):
        answer = find_by_offset(store, "Order", 1, 7, via=via)
        assert [found.message.keys[0] for found in answer.found] == ["k15"]
        assert not answer.hidden


def test_what_is_not_there(store: Store) -> None:
    beyond = find_by_offset(store, "Order", 1, 30)
    assert (beyond.outcome, beyond.why) == (
        Outcome.NOT_FOUND,
        "queue 1 of topic Order has no message at queue offset 30; the queue has offsets 0 to 30, half-open",
    )
    assert find_by_offset(store, "Order", 1, -1).outcome is Outcome.NOT_FOUND
    no_queue = find_by_offset(store, "Order", 9, 0)
    assert no_queue.why == "queue 9 of topic Order has no message at queue offset 0"
    assert no_queue.trace is not None
    assert no_queue.trace.notes == ["the store has no consume queue 9 of topic Order"]
    assert find_by_offset(store, "order", 0, 0).outcome is Outcome.UNKNOWN_TOPIC


def test_a_lost_queue_is_made_good_by_the_log(store: Store, tmp_path: Path) -> None:
    shutil.rmtree(queue_file(store, 1).parent)
    answer = find_by_offset(reopen(tmp_path), "Order", 1, 7)
    (found,) = answer.found
    assert (found.message.keys[0], found.via) == ("k15", ("scan",))
    assert answer.hidden == (found.offset,)
    assert [place.state for place in found.queues] == [UnitState.NO_QUEUE]
    assert find_by_offset(reopen(tmp_path), "Order", 1, 7, via="index").outcome is Outcome.NOT_FOUND


@pytest.mark.parametrize(
    ("offset", "why"),
    [
        (1 << 40, "no record begins there"),
        (3, "no record begins there"),
        (0, "the record there belongs to Order/0/0"),
    ],
)
def test_a_unit_that_points_elsewhere(store: Store, tmp_path: Path, offset: int, why: str) -> None:
    patch(queue_file(store, 1), 7 * UNIT_SIZE, struct.pack(">q", offset))
    answer = find_by_offset(reopen(tmp_path), "Order", 1, 7)
    assert [lead.why for lead in answer.leads] == [why]
    assert answer.leads[0].source.endswith("at byte 140")
    (found,) = answer.found
    assert (found.message.keys[0], found.queues[0].state) == ("k15", UnitState.DIFFERS)


def test_a_hole_in_a_queue(store: Store, tmp_path: Path) -> None:
    patch(queue_file(store, 1), 7 * UNIT_SIZE, bytes(UNIT_SIZE))
    answer = find_by_offset(reopen(tmp_path), "Order", 1, 7)
    assert answer.found[0].queues[0].state is UnitState.MISSING
    assert answer.trace is not None
    assert answer.trace.notes == ["the consume queue has no unit for it"]


def test_expired_offsets(tmp_path: Path) -> None:
    store = make(tmp_path, [*(message(number) for number in range(80)), Expiry(1)])
    answer = find_by_offset(store, "Order", 0, 0)
    assert answer.outcome is Outcome.NOT_FOUND
    with StoreView(store) as view:
        queue = view.queue("Order", 0)
        assert queue is not None
        low = queue.min_offset
        assert low > queue.first_index
        assert find_by_offset(store, "Order", 0, low, view=view).found
        gone = find_by_offset(store, "Order", 0, low - 1, view=view)
        assert [lead.why for lead in gone.leads] == ["the record has expired"]
        assert not gone.trace.scan_steps if gone.trace else None


def test_stale_units_are_no_answer(store_dir: Directory) -> None:
    with StoreView(open_store(store_dir("4.9.8-ghosttail"))) as view:
        queue = view.queue("Gt0", 0)
        assert queue is not None
        assert queue.used_end_index > queue.end_index
        answer = find_by_offset(view.store, "Gt0", 0, queue.end_index, view=view)
        assert answer.outcome is Outcome.NOT_FOUND
        assert [lead.why for lead in answer.leads] == [
            "the record is stale: after the end of the log, left by a truncation"
        ]


def test_messages_of_batches(store_dir: Directory) -> None:
    store = open_store(store_dir("5.0.0-innerbatch"))
    with StoreView(store) as view:
        for queue_offset, physical in ((0, 0), (2, 0), (3, 1576), (50, 13849), (55, 13849)):
            for via in ("index", "scan"):
                answer = find_by_offset(store, "Ib", 0, queue_offset, view=view, via=via)
                assert [found.offset for found in answer.found] == [physical]
        assert find_by_offset(store, "Ib", 0, 105, view=view).outcome is Outcome.NOT_FOUND
        assert find_by_offset(store, "Ib", 0, -1, view=view).outcome is Outcome.NOT_FOUND


def test_messages_of_further_queues(store_dir: Directory, manifest: Document) -> None:
    """Records that stand in %LMQ% queues beside their own: through the unit and by a scan."""
    store = open_store(store_dir("4.9.8-lmq"))
    (queue,) = [
        queue
        for queue in manifest("4.9.8-lmq")["phases"][-1]["live"]["queues"]
        if queue["topic"] == "%LMQ%dev1"
    ]
    for unit in queue["units"][::5]:
        for via in ("index", "scan"):
            answer = find_by_offset(store, "%LMQ%dev1", 0, unit[0], via=via)
            assert [found.offset for found in answer.found] == [unit[1]]
            assert {place.state for place in answer.found[0].queues} == {UnitState.AGREES}


def test_prepared_records_are_in_no_queue(tmp_path: Path) -> None:
    store = make(tmp_path, [message(0, kind=Kind.PREPARED), message(1)], version="4.2.0")
    answer = find_by_offset(store, "Order", 0, 0, via="both")
    assert [found.message.keys[0] for found in answer.found] == ["k1"]


def test_times(store: Store) -> None:
    answer = find_by_time(store, "Order", 0, NOW + 10_000)
    assert (answer.lower, answer.upper) == (5, 5)
    assert (answer.lower_timestamp, answer.upper_timestamp) == (NOW + 10_000, NOW + 10_000)
    between = find_by_time(store, "Order", 0, NOW + 10_500)
    assert (between.lower, between.upper) == (6, 5)
    early = find_by_time(store, "Order", 0, 5)
    assert (early.lower, early.upper, early.upper_timestamp) == (0, None, None)
    late = find_by_time(store, "Order", 0, NOW * 2)
    assert (late.lower, late.upper, late.lower_timestamp) == (30, 29, None)
    assert (late.min_offset, late.max_offset, late.gone_count) == (0, 30, 0)


def test_equal_times(tmp_path: Path) -> None:
    store = make(tmp_path, [message(number, store_timestamp=NOW + number // 5) for number in range(20)])
    answer = find_by_time(store, "Order", 0, NOW + 1)
    assert (answer.lower, answer.upper) == (5, 9)


def test_times_of_queues_that_are_not_there(store: Store) -> None:
    assert find_by_time(store, "order", 0, 0).outcome is Outcome.UNKNOWN_TOPIC
    answer = find_by_time(store, "Order", 9, 0)
    assert (answer.outcome, answer.why) == (
        Outcome.NOT_FOUND,
        "the store has no consume queue 9 of topic Order",
    )


def test_units_without_records_are_passed_over(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(3, 9):
        patch(queue_file(store, 0), index * UNIT_SIZE, struct.pack(">q", 1 << 40))
    answer = find_by_time(reopen(tmp_path), "Order", 0, NOW + 2 * 10_000)
    assert (answer.lower, answer.upper) == (10, 10)
    assert answer.gone_count > 0
    monkeypatch.setattr(places, "PROBE_LIMIT", 2)
    assert find_by_time(reopen(tmp_path), "Order", 0, NOW + 4000).upper == 2


def test_times_of_batches(store_dir: Directory) -> None:
    answer = find_by_time(open_store(store_dir("5.0.0-innerbatch")), "Ib", 0, 1_700_000_002_479)
    assert (answer.lower, answer.upper, answer.max_offset) == (3, 3, 105)


def test_pre_blank_units_are_none(tmp_path: Path) -> None:
    store = make(tmp_path, [message(0), message(1)], queue_start_offsets={("Order", 0): 3}, start_offset=4096)
    assert [found.message.keys[0] for found in find_by_offset(store, "Order", 0, 3).found] == ["k0"]
    assert find_by_offset(store, "Order", 0, 1, via="index").outcome is Outcome.NOT_FOUND
    with StoreView(store) as view:
        queue = view.queue("Order", 0)
        assert queue is not None
        assert (queue.min_offset, queue.max_offset) == (3, 5)


def test_units_of_a_light_queue_that_began_again(store_copy: Directory) -> None:
    """The queue was deleted and begun again: its units are not where the records say, and are served."""
    root = store_copy("4.9.8-lmq")
    (file,) = next(queue for queue in open_store(root).queues if queue.topic == "%LMQ%dev1").files
    data = file.path.read_bytes()
    file.path.write_bytes((PRE_BLANK_UNIT * 4 + data)[: len(data)])
    store = open_store(root)
    with BrokerView(store, "4.9.8") as broker:
        served = [broker.get_message("%LMQ%dev1", 0, number, 1).offsets for number in range(4, 29)]
    stated = [find_by_offset(store, "%LMQ%dev1", 0, number, via="index").found for number in range(4, 29)]
    assert [tuple(found.offset for found in one) for one in stated] == served
    assert all(stated)
    own = stated[0][0].message.topic  # the queue of the record itself begins nowhere else: its number counts
    unit_file = next(queue for queue in store.queues if queue.topic == own).files[0]
    units = unit_file.path.read_bytes()
    unit_file.path.write_bytes((PRE_BLANK_UNIT * 4 + units)[: len(units)])
    queue_id = int(unit_file.path.parent.name)
    assert find_by_offset(open_store(root), own, queue_id, 4, via="index").outcome is Outcome.NOT_FOUND


def test_a_queue_file_of_an_odd_length(store: Store, tmp_path: Path) -> None:
    path = queue_file(store, 0, 2)
    os.truncate(path, 3 * UNIT_SIZE + 7)
    with StoreView(reopen(tmp_path)) as view:
        queue = view.queue("Order", 0)
        assert queue is not None
        assert queue.max_offset == 2 * GEOMETRY.consumequeue_file_size // UNIT_SIZE + 3
        assert queue.unit(queue.max_offset) is None
        assert queue.unit(-1) is None


def test_empty_queues(store: Store, tmp_path: Path) -> None:
    directory = queue_file(store, 0).parent
    shutil.rmtree(directory)
    directory.mkdir()
    with StoreView(reopen(tmp_path)) as view:
        queue = view.queue("Order", 0)
        assert queue is not None
        assert (queue.min_offset, queue.max_offset, queue.file_end_index(0)) == (0, 0, 0)
    answer = find_by_time(reopen(tmp_path), "Order", 0, NOW)
    assert (answer.lower, answer.upper) == (0, None)
