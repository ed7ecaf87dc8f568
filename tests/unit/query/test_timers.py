"""Messages that wait for a timer: those that the broker counted, in the order in which they are due."""

from __future__ import annotations

import pytest

from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.formats.timer import MAGIC_DEFAULT, MAGIC_DELETE, TIMER_LOG_UNIT
from rocketfsck.query import timed_messages
from rocketfsck.query.timers import TimerAction
from rocketfsck.store import open_store

from tests.conftest import Directory, Document

LOG = "timerlog/" + offset_to_filename(0)


@pytest.mark.parametrize("name", ["5.5.0-timer", "5.5.0-snapshot"])
def test_all_that_the_broker_counts(name: str, real_dir: Directory, real_manifest: Document) -> None:
    found = list(timed_messages(open_store(real_dir(name))))
    assert len(found) == real_manifest(name)["live"]["timer"]["getAllCongestNum"]
    assert [item.due_timestamp for item in found] == sorted(item.due_timestamp for item in found)
    sent = {message.get("msgId") for message in real_manifest(name)["messages"]}
    assert {item.unique_key for item in found} <= sent
    for item in found:
        assert item.topic is not None and item.deliver_timestamp is not None
        later = item.deliver_timestamp > item.due_timestamp
        assert (item.action is TimerAction.ROLL) == later


def test_a_window_and_a_limit(real_dir: Directory) -> None:
    store = open_store(real_dir("5.5.0-timer"))
    every = list(timed_messages(store))
    middle = every[len(every) // 2].due_timestamp
    assert list(timed_messages(store, begin=middle)) == [i for i in every if i.due_timestamp >= middle]
    assert list(timed_messages(store, end=middle)) == [i for i in every if i.due_timestamp < middle]
    assert list(timed_messages(store, max_count=3)) == every[:3]


def test_without_progress_every_unit_counts(real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    waiting = len(list(timed_messages(open_store(root))))
    (root / "config/timercheck").unlink()
    assert len(list(timed_messages(open_store(root)))) > waiting


def test_a_recall_and_a_record_that_is_gone(real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    first = next(timed_messages(open_store(root)))
    unit = TIMER_LOG_UNIT.parse((root / LOG).read_bytes()[first.unit_pos : first.unit_pos + 52])
    changed = {**unit, "magic": MAGIC_DEFAULT | MAGIC_DELETE, "offsetPy": 1 << 40}
    with (root / LOG).open("r+b") as stream:
        stream.seek(first.unit_pos)
        stream.write(TIMER_LOG_UNIT.build(changed))
    found = next(item for item in timed_messages(open_store(root)) if item.unit_pos == first.unit_pos)
    assert found.action is TimerAction.RECALL
    assert (found.topic, found.unique_key, found.physical_offset) == (None, None, 1 << 40)
