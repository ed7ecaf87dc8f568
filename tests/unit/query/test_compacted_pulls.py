"""Pulls from compaction topics at the corners of `CompactionLog.getMessage`, beside the recorded answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rocketfsck.query import BrokerView
from rocketfsck.query.serving.broker import broker_by_offset
from rocketfsck.query.serving.pulls import PullAnswer
from rocketfsck.store import open_store

from tests.conftest import Directory

TOPIC = "KeptCompact"
LOG, UNITS = (f"compaction/{kind}/{TOPIC}/0" for kind in ("compactionLog", "compactionCq"))
FIRST, SECOND = "0" * 20, f"{55200:020d}"
UNIT = 46


@pytest.fixture
def root(real_copy: Directory) -> Path:
    return real_copy("5.5.0-compaction")


def pull(root: Path, offset: int, max_num: int = 32, version: str = "5.3.3", queue_id: int = 0) -> PullAnswer:
    with BrokerView(open_store(root), version, state="running") as broker:
        return broker.get_message(TOPIC, queue_id, offset, max_num)


def write(path: Path, pos: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(pos)
        file.write(data)


def test_a_pull_goes_to_the_end_of_a_file(root: Path) -> None:
    found = pull(root, 0, 100)
    assert (found.status, len(found.offsets), found.next_begin_offset) == ("FOUND", 25, 167)
    assert (found.min_offset, found.max_offset) == (27, 210)
    rest = pull(root, found.next_begin_offset, 100)
    assert (len(rest.offsets), rest.offsets[0], rest.next_begin_offset) == (32, 55200, 199)
    assert pull(root, 0, 3).next_begin_offset == 105


def test_the_ends_of_a_queue(root: Path) -> None:
    assert pull(root, 210) == PullAnswer("OFFSET_OVERFLOW_ONE", (), 210, 27, 210)
    assert pull(root, 999) == PullAnswer("OFFSET_OVERFLOW_BADLY", (), 210, 27, 210)
    assert pull(root, 0, queue_id=7) == PullAnswer("NO_MATCHED_LOGIC_QUEUE", (), 0, 0, 0)


def test_a_queue_that_begins_at_0_sends_back_to_it(root: Path) -> None:
    write(root / UNITS / FIRST, 28, bytes(8))
    assert pull(root, 999).next_begin_offset == 0


def test_a_queue_without_units(root: Path) -> None:
    for name in (FIRST, SECOND):
        write(root / UNITS / name, 0, bytes(4600))
    assert pull(root, 0) == PullAnswer("NO_MESSAGE_IN_QUEUE", (), 0, 0, 0)


def test_a_last_file_that_ends_before_the_others(root: Path) -> None:
    """The end of the queue is that of its last file; no file reaches an offset that only it could have."""
    write(root / UNITS / SECOND, UNIT, bytes(4600 - UNIT))
    assert pull(root, 167, 100).next_begin_offset == 168
    assert pull(root, 168).status == "OFFSET_OVERFLOW_ONE"


def test_messages_whose_file_is_gone(root: Path) -> None:
    (root / LOG / FIRST).unlink()
    found = pull(root, 0, 100)
    assert (found.status, found.offsets, found.next_begin_offset) == ("MESSAGE_WAS_REMOVING", (), 167)
    assert pull(root, 167).status == "FOUND"
    with BrokerView(open_store(root), "5.3.3", state="running") as broker:
        answer = broker_by_offset(broker, TOPIC, 0, 167)
    assert [hit.message.queue_offset for hit in answer.found] == [167]
    assert answer.found[0].message.physical_offset == 55200


def test_a_unit_that_leads_to_no_bytes_between_others(root: Path) -> None:
    write(root / UNITS / FIRST, UNIT, (10**9).to_bytes(8, "big"))
    found = pull(root, 0, 3)
    assert (found.status, len(found.offsets), found.next_begin_offset) == ("FOUND", 1, 167)


@pytest.mark.parametrize("how", ["version", "setting", "policy", "damaged", "missing"])
def test_topics_that_are_answered_from_their_consume_queue(root: Path, tmp_path: Path, how: str) -> None:
    config = root / "config" / "topics.json"
    conf = tmp_path / "broker.conf"
    conf.write_text("enableCompaction=false\n" if how == "setting" else "")
    document = json.loads(config.read_text())
    document["topicConfigTable"][TOPIC]["attributes"] = {}
    texts = {"policy": json.dumps(document), "damaged": '{"topicConfigTable": 7}'}
    if how in texts:
        config.write_text(texts[how])
    if how == "missing":
        config.unlink()
        (root / "config" / "topics.json.bak").unlink()
    version = "5.0.0" if how == "version" else "5.3.3"
    store = open_store(root, broker_conf=conf if how == "setting" else None)
    with BrokerView(store, version, state="running") as broker:
        assert broker.compaction_topics == frozenset()
        assert broker.get_message(TOPIC, 0, 0, 1).next_begin_offset == 1
        assert broker.message_store(TOPIC, 0) is broker.store


def test_a_queue_whose_log_is_gone(root: Path) -> None:
    shutil.rmtree(root / "compaction")
    with BrokerView(open_store(root), "5.3.3", state="running") as broker:
        answer = broker_by_offset(broker, TOPIC, 0, 0)
    assert answer.pull is not None
    assert answer.pull.status == "NO_MATCHED_LOGIC_QUEUE"
