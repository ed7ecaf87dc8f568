"""Messages that several queues list: one message, lost once, also where only light queues still list it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.query.start.verdict import predict_starts, start_classes, versions_of
from rocketfsck.store import Store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.verify.finding import MessageAccount
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.queues import unitranges
from rocketfsck.verify.queues.unitranges import CountedOnce
from rocketfsck.verify.run import check_store
from rocketfsck.writer import Event

from tests.unit.query.maker import make, message, reopen

GEOMETRY = Geometry(
    commitlog_file_size=2048, consumequeue_file_size=2000, batch_file_size=460, slot_count=8, entry_count=200
)
COUNT = 30


def written(root: Path) -> None:
    """Every second message is in two light queues, those of the deleted topic Gone in them alone."""
    topics = ("Kept", "Kept", "Gone")
    light = ("%LMQ%a", "%LMQ%b")
    messages: list[Event] = [
        message(number, topics[number % 3], multi_dispatch=light if number % 2 else ())
        for number in range(COUNT)
    ]
    make(root, messages, geometry=GEOMETRY, version="4.9.8", multi_dispatch=True)
    shutil.rmtree(root / "store" / "consumequeue" / "Gone")
    path = root / "store" / "config" / "topics.json"
    table = {"topicConfigTable": {"Kept": {"topicName": "Kept", "readQueueNums": 1, "writeQueueNums": 1}}}
    path.write_text(json.dumps(table))


def account_of(store: Store) -> MessageAccount:
    account = check_store(store, CheckOptions(jobs=1)).account
    assert account is not None
    return account


def seen_in(file: Path) -> tuple[int, int]:
    """Messages that a consumer could get of a file of the log: all, and those of light queues alone."""
    text = file.read_bytes()
    found = [number for number in range(COUNT) if f"U{number:04d}".encode() in text]
    kept = [number for number in found if number % 3 != 2]
    alone = [number for number in found if number % 3 == 2 and number % 2]
    return len(kept) + len(alone), len(alone)


def test_a_message_that_one_of_its_queues_lacks_is_counted_once(tmp_path: Path) -> None:
    messages: list[Event] = [message(number, multi_dispatch=("%LMQ%a",)) for number in range(COUNT)]
    store = make(tmp_path, messages, geometry=GEOMETRY, version="4.9.8", multi_dispatch=True)
    assert account_of(store).fates.served_count == COUNT
    (queue,) = (tmp_path / "store" / "consumequeue" / "%LMQ%a").rglob("0" * 20)
    content = queue.read_bytes()
    queue.write_bytes(content[:200].ljust(len(content), b"\0"))
    account = account_of(reopen(tmp_path, GEOMETRY, "4.9.8"))
    assert (account.fates.served_count, account.fates.unreached_count) == (10, COUNT - 10)


def test_a_message_of_several_queues_is_lost_once(tmp_path: Path) -> None:
    written(tmp_path)
    files = sorted((tmp_path / "store" / "commitlog").iterdir())
    lost, alone = seen_in(files[1])
    assert alone > 0
    files[1].unlink()
    account = account_of(reopen(tmp_path, GEOMETRY, "4.9.8"))
    assert account.lost_count == lost == sum(run.message_count for run in account.lost)
    light = [run for run in account.lost if run.topic.startswith("%LMQ%")]
    assert sum(run.message_count for run in light) == alone


def test_without_a_log_each_message_is_lost_once(tmp_path: Path) -> None:
    written(tmp_path)
    files = sorted((tmp_path / "store" / "commitlog").iterdir())
    lost = sum(seen_in(file)[0] for file in files)
    for file in files:
        file.unlink()
    account = account_of(reopen(tmp_path, GEOMETRY, "4.9.8"))
    assert account.lost_count == lost == 25


def test_a_start_takes_what_only_light_queues_list(tmp_path: Path) -> None:
    """The log is cut in front of the last file; records of a deleted topic are missed in light queues."""
    written(tmp_path)
    files = sorted((tmp_path / "store" / "commitlog").iterdir())
    used = [file for file in files if file.read_bytes().strip(b"\0")]
    taken = sum(seen_in(file)[0] for file in used[2:])
    alone = sum(seen_in(file)[1] for file in used[2:])
    assert alone > 0
    used[1].write_bytes(bytes(2048))
    store = reopen(tmp_path, GEOMETRY, "4.9.8")
    (start,) = predict_starts(store, start_classes(versions_of(store)))
    assert start.loads and start.cut_count == taken


def test_units_of_light_queues_are_copies_where_too_many_offsets_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fresh(limit: int) -> list[bool]:
        monkeypatch.setattr(unitranges, "OFFSET_LIMIT", limit)
        once = CountedOnce()
        once.own(np.array([30, 10, 20], np.int64))
        flags = once.fresh(np.array([5, 10, 30, 40], np.int64)).tolist()
        return [*flags, *once.fresh(np.array([5, 50], np.int64)).tolist()]

    assert fresh(100) == [True, False, False, True, False, True]
    assert fresh(2) == [False] * 6
