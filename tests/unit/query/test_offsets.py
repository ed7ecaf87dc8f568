"""Bounds of queues and positions of groups, from the files alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import FormatError
from rocketfsck.formats.timer import DELIVERY
from rocketfsck.query import group_offsets, queue_offsets
from rocketfsck.query.offsets import Standing
from rocketfsck.store import Store, open_store
from rocketfsck.writer import Expiry

from tests.conftest import STORE_NAMES, Directory, Document
from tests.unit.query.maker import NOW, make, message, reopen

CONFIG: dict[str, Any] = {
    "consumerOffset.json": {
        "offsetTable": {
            "Order@one": {0: 40, 1: 5},
            "Order@two": {0: 3},
            "Order@far": {0: 1000},
            "Nothing@one": {4: 7},
            "odd": {0: 1},
        }
    },
    "lmqConsumerOffset.json": {"lmqOffsetTable": {"%LMQ%a@one": 3}, "offsetTable": {"Order@light": {0: 39}}},
    "delayOffset.json": {"offsetTable": {1: 0}},
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make(
        tmp_path,
        [
            *(message(number) for number in range(80)),
            message(80, queue_id=1),
            message(81, "Late", delay_level=1),
            Expiry(1),
        ],
        config=CONFIG,
    )


@pytest.mark.parametrize("name", [name for name in STORE_NAMES if "lagkill" not in name])
def test_bounds_and_times_of_broker_written_stores(
    store_dir: Directory, manifest: Document, name: str
) -> None:
    live = manifest(name)["phases"][-1]["live"]
    stored = {row["o"]: row["ts"] for row in live["walk"]}
    said = {(queue["topic"], queue["queueId"]): queue for queue in live["queues"]}
    found = list(queue_offsets(open_store(store_dir(name))))
    for queue in found:
        truth = said.pop((queue.topic, queue.queue_id))
        assert (queue.min_offset, queue.max_offset) == (truth["minOffset"], truth["maxOffset"])
        units = [unit for unit in truth["units"] if unit[0] >= truth["minOffset"]]
        assert queue.first_timestamp == stored[units[0][1]]
        assert queue.last_timestamp == stored[units[-1][1]]
        assert queue.count == truth["maxOffset"] - truth["minOffset"]
    assert all(queue["maxOffset"] == 0 for queue in said.values())


def test_stale_units_do_not_count(store_dir: Directory) -> None:
    store = open_store(store_dir("4.9.8-ghosttail"))
    found = {(row.topic, row.queue_id): row.stale_count for row in queue_offsets(store)}
    assert found["Gt0", 0] == 2
    assert found["Gt1", 0] == 0


def test_one_topic(store: Store) -> None:
    assert {row.topic for row in queue_offsets(store)} == {"Order", "SCHEDULE_TOPIC_XXXX"}
    assert [row.queue_id for row in queue_offsets(store, topic="Order")] == [0, 1]
    assert list(queue_offsets(store, topic="order")) == []


def test_groups(store: Store) -> None:
    (queue, _) = queue_offsets(store, topic="Order")
    low = queue.min_offset
    assert low > 3
    found = {(row.group, row.topic, row.queue_id): row for row in group_offsets(store)}
    assert list(found) == sorted(found)
    one = found["one", "Order", 0]
    assert (one.standing, one.lag, one.lost_count) == (Standing.INSIDE, 40, 0)
    two = found["two", "Order", 0]
    assert (two.standing, two.lag, two.lost_count) == (Standing.EXPIRED, 80 - low, low - 3)
    far = found["far", "Order", 0]
    assert (far.standing, far.lag, far.lost_count) == (Standing.AHEAD, 0, 0)
    assert found["one", "Nothing", 4].standing is Standing.NO_QUEUE
    assert found["one", "%LMQ%a", 0].offset == 3
    assert found["", "odd", 0].standing is Standing.NO_QUEUE
    assert found[DELIVERY, "SCHEDULE_TOPIC_XXXX", 0].lag == 1


def test_groups_by_name(store: Store) -> None:
    assert {row.topic for row in group_offsets(store, group="one")} == {"Order", "Nothing", "%LMQ%a"}
    assert {row.group for row in group_offsets(store, topic="Order")} == {"one", "two", "far", "light"}


def test_a_broken_config_is_replaced_by_its_backup(store: Store, tmp_path: Path) -> None:
    path = store.root / "config" / "consumerOffset.json"
    shutil.copy(path, f"{path}.bak")
    path.write_text("{")
    assert group_offsets(reopen(tmp_path), group="two")
    Path(f"{path}.bak").write_text("")
    assert not group_offsets(reopen(tmp_path), group="two")


def test_a_config_of_another_shape(store: Store, tmp_path: Path) -> None:
    (store.root / "config" / "consumerOffset.json").write_text('{"offsetTable": 3}')
    with pytest.raises(FormatError, match="offsetTable"):
        group_offsets(reopen(tmp_path))


def test_without_config(tmp_path: Path) -> None:
    store = make(tmp_path, [message(0)], config={"topics.json": None})
    assert group_offsets(store) == []
    (row,) = queue_offsets(store)
    assert (row.first_timestamp, row.last_timestamp, row.kind) == (NOW, NOW, "file")


def test_a_queue_whose_record_is_gone(store: Store, tmp_path: Path) -> None:
    shutil.rmtree(store.root / "commitlog")
    rows = list(queue_offsets(reopen(tmp_path)))
    assert [row.first_timestamp for row in rows] == [None] * len(rows)
