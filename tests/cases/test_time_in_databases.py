"""Searches by time over queues in RocksDB, against a plain reading of the broker's rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocketfsck import iter_messages
from rocketfsck.query import BrokerView
from rocketfsck.query.serving.files import Boundary
from rocketfsck.query.serving.pulls import offset_of_time
from rocketfsck.repair.log import filler_records
from rocketfsck.store import open_store
from rocketfsck.store.rocks.lifting import lifted

from tests.conftest import Directory


def wanted(times: list[int], timestamp: int, boundary: Boundary) -> int:
    """What the search comes to: the first of the time or later, or the last of it or earlier.

    Before all of them the upper answer is 0; behind all the lower one is where the next message goes.
    """
    if boundary == "lower":
        return next((place for place, time in enumerate(times) if time >= timestamp), len(times))
    return max((place for place, time in enumerate(times) if time <= timestamp), default=0)


@pytest.mark.parametrize("boundary", ["lower", "upper"])
@pytest.mark.parametrize("name", ["5.5.0-rocksdb-cq", "5.5.0-rocksdb-config-v2"])
def test_every_time_of_every_queue(real_dir: Directory, name: str, boundary: Boundary) -> None:
    store = open_store(real_dir(name), version="5.5.0")
    times: dict[tuple[str, int], list[int]] = {}
    for message in iter_messages(store, live_only=True):
        if message.sys_flag & 12 in (0, 8):
            times.setdefault((message.topic, message.queue_id), []).append(message.store_timestamp)
    asked = 0
    with lifted(store) as lifting, BrokerView(lifting.store, "5.5.0", state="started") as broker:
        for (topic, queue_id), stored in times.items():
            assert stored == sorted(stored)
            for timestamp in sorted({time + step for time in stored for step in (-1, 0, 1)}):
                said = broker.offset_in_queue_by_time(topic, queue_id, timestamp, boundary)
                assert said == wanted(stored, timestamp, boundary), (topic, queue_id, timestamp)
                asked += 1
        assert broker.offset_in_queue_by_time("NoTopic", 0, 1, boundary) <= 0
    assert asked > 100


def test_a_row_keeps_its_time(real_copy: Directory) -> None:
    """A broker goes by the times in the rows: filler in the place of a record has another one."""
    root = real_copy("5.5.0-rocksdb-cq")
    store = open_store(root, version="5.5.0")
    messages = [*iter_messages(store, topic="RockBulk0", queue_id=0)]
    times = [message.store_timestamp for message in messages]
    lost = messages[len(messages) // 2]
    (path,) = [
        file.path
        for file in store.commitlog.files
        if 0 <= lost.physical_offset - (file.start_offset or 0) < file.size
    ]
    data, pos = bytearray(path.read_bytes()), lost.physical_offset - int(path.name)
    data[pos : pos + lost.total_size] = b"".join(
        filler_records(lost.physical_offset, lost.total_size, version="5.5.0", store_timestamp=times[0])
    )
    path.write_bytes(data)
    with (
        lifted(open_store(root, version="5.5.0")) as lifting,
        BrokerView(lifting.store, "5.5.0", state="started") as broker,
    ):
        boundaries: tuple[Boundary, ...] = ("lower", "upper")
        for boundary in boundaries:
            for timestamp in sorted({time + step for time in times for step in (-1, 0, 1)}):
                said = broker.offset_in_queue_by_time("RockBulk0", 0, timestamp, boundary)
                assert said == wanted(times, timestamp, boundary)


def test_the_last_offset_before_all_times_is_0(real_dir: Directory) -> None:
    """Even in a queue that begins later; in files it would be the first that there is."""
    store = open_store(real_dir("5.5.0-rocksdb-cq"), version="5.5.0")
    with lifted(store) as lifting, BrokerView(lifting.store, "5.5.0", state="started") as broker:
        queue = broker.queue("RockBulk0", 0)
        assert queue is not None
        later = replace(queue, min_offset=2)
        assert offset_of_time(later, broker.serving.log, store.dialect, 1, "upper") == 0
        assert offset_of_time(later, broker.serving.log, store.dialect, 1, "lower") == 2
        in_files = replace(later, in_database=False)
        assert offset_of_time(in_files, broker.serving.log, store.dialect, 1, "upper") == 2
