"""Answers of released brokers, recorded just before they stopped: pulls one by one, bounds, records by place.

The stores are those of tests/data/real with file queues; `test_simulate_real` has the bounds after a start.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.query import BrokerView, find_by_expression
from rocketfsck.query.offsets import queue_offsets
from rocketfsck.query.serving.broker import broker_by_offset
from rocketfsck.query.serving.state import State
from rocketfsck.query.start.settings import NotCoveredError
from rocketfsck.store import Store, open_store
from rocketfsck.store.rocks.lifting import lifted

from tests.conftest import Directory, Document

COMPACTED = {"5.5.0-compaction": {"KeptCompact"}}
"""Topics that a broker answers pulls of from its compacted log: offsets and places are those of that log."""

BORN_LATER = {
    "5.5.0-dledger": {("TRANS_CHECK_MAX_TIME_TOPIC", 0)},
    "5.5.0-rocksdb-cq": {("TRANS_CHECK_MAX_TIME_TOPIC", 0)},
}
"""Queues that got their first messages after the broker was asked."""

ASKED: tuple[tuple[str, State], ...] = (
    ("4.9.7-dledger-mixed", "running"),
    ("4.9.7-dledger-mixed", "started"),
    ("5.5.0-dledger", "running"),
    ("5.5.0-dledger", "started"),
    ("5.5.0-batchcq", "running"),
    ("5.5.0-batchcq", "started"),
    ("5.5.0-combine", "running"),
    ("5.5.0-combine", "started"),
    ("5.5.0-compaction", "running"),
    ("5.5.0-compaction", "started"),
    ("5.5.0-full-killed", "running"),
    ("5.5.0-full-killed", "started"),
    ("5.5.0-lite", "running"),
    ("5.5.0-lite", "started"),
    ("5.5.0-lite-rocksdb", "running"),
    ("5.5.0-lite-rocksdb", "started"),
    ("5.5.0-long", "running"),
    ("5.5.0-long", "started"),
    ("5.5.0-multipath", "running"),
    ("5.5.0-multipath", "started"),
    ("5.5.0-pop-kv-killed", "running"),
    ("5.5.0-pop-kv-killed", "started"),
    ("5.5.0-rocksdb-all", "running"),
    ("5.5.0-rocksdb-all", "started"),
    ("5.5.0-rocksdb-config-v2", "started"),  # killed: the database has nothing yet, the log has all
    ("5.5.0-rocksdb-cq", "running"),
    ("5.5.0-rocksdb-cq", "started"),
    ("5.5.0-timer", "running"),
    ("5.5.0-timer", "started"),
)


@pytest.mark.parametrize(("name", "state"), ASKED)
def test_recorded_answers(name: str, state: State, real_dir: Directory, real_manifest: Document) -> None:
    manifest = real_manifest(name)
    version, live = manifest["brokerVersion"], manifest["live"]
    with lifted(open_store(real_dir(name), version=version)) as lifting:
        assert not lifting.failed
        _ask(lifting.store, name, version, state, live)


PREFERRED = "rocksdbCQDoubleWriteEnable=true\ncombineCQPreferCQType=defaultRocksDB\n"


def test_answers_from_the_preferred_form(
    real_dir: Directory, real_manifest: Document, tmp_path: Path
) -> None:
    """What a broker wrote in both forms at once it answers alike from both."""
    name = "5.5.0-combine"
    conf = tmp_path / "broker.conf"
    conf.write_text(PREFERRED)
    manifest = real_manifest(name)
    version = manifest["brokerVersion"]
    with lifted(open_store(real_dir(name), version=version, broker_conf=conf)) as lifting:
        assert lifting.store.lifted.areas
        _ask(lifting.store, name, version, "running", manifest["live"])


def _ask(store: Store, name: str, version: str, state: State, live: dict[str, Any]) -> None:
    # Until it stopped the broker went on writing: what is due, what is checked, what is revived.
    later = Counter(
        (found.message.topic, found.message.queue_id)
        for found in find_by_expression(store, "offset >= 0", start_offset=live["maxPhyOffset"])
    )
    count = 0
    wrong: list[tuple[object, ...]] = []
    with BrokerView(store, version, state=state) as broker:
        for stated in live["queues"]:
            topic, queue_id = name_of_queue = stated["topic"], stated["queueId"]
            queue = broker.queue(topic, queue_id)
            assert queue is not None
            bounds = (queue.min_offset, queue.max_offset - later.pop(name_of_queue, 0))
            if bounds != (stated["minOffset"], stated["maxOffset"]):
                wrong.append((topic, queue_id, stated["minOffset"], stated["maxOffset"], bounds))
            compacted = topic in COMPACTED.get(name, ())
            for pull in stated["getMessage"]:
                found = broker.get_message(topic, queue_id, pull["offset"], 1)
                records = [(item["startOffset"], item["size"]) for item in pull.get("messages", ())]
                said = (found.status, found.next_begin_offset, list(found.offsets))
                if said != (pull["status"], pull["nextBeginOffset"], [offset for offset, _ in records]):
                    wrong.append((topic, queue_id, pull["offset"], said))
                count += 1
                if compacted:
                    answer = broker_by_offset(broker, topic, queue_id, pull["offset"])
                    assert [hit.message.total_size for hit in answer.found] == [size for _, size in records]
                    assert [hit.message.queue_offset + 1 for hit in answer.found] == [found.next_begin_offset]
                    continue
                at = broker.commit_log_offset(topic, queue_id, pull["offset"])
                assert [at] * len(records) == [offset for offset, _ in records]
                read = [getattr(broker.log.record_at(offset), "total_size", None) for offset, _ in records]
                assert read == [size for _, size in records]
        looked = live["lookMessageByOffset"]
        assert [broker.holds_record(stated["offset"]) for stated in looked] == [
            stated["found"] for stated in looked
        ]
        if state == "running":
            end = live["maxPhyOffset"]
            for stated in live["queryMessage"]:
                offsets = broker.query_message(stated["topic"], stated["key"], stated["maxNum"])
                assert [offset for offset in offsets if offset < end] == stated["offsets"]
    assert wrong == []
    assert set(later) == BORN_LATER.get(name, set())
    assert count > 20


@pytest.mark.parametrize("name", ["5.5.0-rocksdb-cq"])
def test_what_cannot_be_read_is_not_answered(name: str, real_dir: Directory, real_manifest: Document) -> None:
    manifest = real_manifest(name)
    stated = next(queue for queue in manifest["live"]["queues"] if queue["maxOffset"])
    place = (stated["topic"], stated["queueId"])
    store = open_store(real_dir(name), version=manifest["brokerVersion"])
    states: tuple[State | None, ...] = (None, "running")
    for state in states:
        with BrokerView(store, manifest["brokerVersion"], state=state) as broker:
            with pytest.raises(NotCoveredError, match="a broker's answers cannot be predicted"):
                broker.get_message(*place, 0)
            looked = manifest["live"]["lookMessageByOffset"][-1]
            assert broker.holds_record(looked["offset"])


def test_units_that_point_into_a_dledger_log_are_not_stale(
    real_dir: Directory, real_manifest: Document
) -> None:
    live = real_manifest("4.9.7-dledger-mixed")["live"]["queues"]
    found = {
        (row.topic, row.queue_id): (row.min_offset, row.max_offset, row.stale_count)
        for row in queue_offsets(open_store(real_dir("4.9.7-dledger-mixed")))
    }
    assert found == {
        (stated["topic"], stated["queueId"]): (stated["minOffset"], stated["maxOffset"], 0) for stated in live
    }
