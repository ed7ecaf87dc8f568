"""What a store held at a time in the past, against the messages that were stored until then."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.query.offsets import StoreThen, store_as_of
from rocketfsck.query.view import LogView, StoreView
from rocketfsck.scan.views.messages import Message
from rocketfsck.store import Store, open_store
from rocketfsck.writer import Event

from tests.conftest import Directory
from tests.unit.query.maker import NOW, make, message

COUNT = 80


def then(store: Store, timestamp: int, topic: str | None = None) -> StoreThen:
    with StoreView(store) as view:
        return store_as_of(view, timestamp, topic=topic)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A message a second, in two topics, over several files."""
    events: list[Event] = [
        message(number, ("Order", "Bill")[number % 2], store_timestamp=NOW + 1000 * number)
        for number in range(COUNT)
    ]
    return make(tmp_path, events)


@pytest.mark.parametrize("number", [0, 1, 2, 29, 30, 31, 55, COUNT - 2])
def test_messages_stored_until_then_count(store: Store, number: int) -> None:
    assert len(store.commitlog.files) > 2
    for timestamp in (NOW + 1000 * number, NOW + 1000 * number + 999):
        found = then(store, timestamp)
        assert sum(queue.count for queue in found.queues) == number + 1
        assert found.next_timestamp == NOW + 1000 * (number + 1)
        assert max(queue.last_timestamp or 0 for queue in found.queues) == NOW + 1000 * number
        assert {queue.min_offset for queue in found.queues} == {0}
        with LogView(store) as log:
            following = log.message_at(found.end_offset)
        assert not isinstance(following, Message) or following.store_timestamp == found.next_timestamp


def test_before_the_first_and_after_the_last_message(store: Store) -> None:
    found = then(store, NOW - 1)
    assert (found.end_offset, found.next_timestamp, found.queues) == (0, NOW, ())
    found = then(store, NOW + 1000 * COUNT)
    assert found.next_timestamp is None and sum(queue.count for queue in found.queues) == COUNT
    with LogView(store) as log:
        assert found.end_offset == log.end_offset
    assert {queue.topic for queue in then(store, NOW + 1000 * COUNT, "Bill").queues} == {"Bill"}


def test_without_a_log_nothing_was_there(tmp_path: Path) -> None:
    root = make(tmp_path, [message(0)]).root
    for file in (root / "commitlog").iterdir():
        file.unlink()
    found = then(open_store(root), NOW)
    assert (found.start_offset, found.end_offset, found.queues) == (0, 0, ())


def test_delayed_messages_wait_until_they_are_due(store_dir: Directory) -> None:
    """A real broker's: what it delivered has left the waiting ones."""
    store = open_store(store_dir("4.9.8-delay"))
    end = then(store, 1 << 60)
    assert sum(queue.waiting_count for queue in end.queues) == 0
    (first, *_), last = (
        sorted(queue.first_timestamp or 0 for queue in end.queues if queue.topic == "Dly"),
        max(queue.last_timestamp or 0 for queue in end.queues),
    )
    for timestamp in range(first - 1, last + 1, 97):
        queues = then(store, timestamp).queues
        delayed = [queue for queue in queues if queue.topic.startswith("SCHEDULE")]
        delivered = sum(queue.count for queue in queues if queue.topic == "Dly")
        waiting = sum(queue.waiting_count for queue in delayed)
        due = sum(queue.count for queue in delayed) - waiting
        assert due >= delivered - 1  # one message of the topic has no delay
