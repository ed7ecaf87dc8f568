"""Starts of stores of released brokers: as their second process found them, or said not to be covered."""

from __future__ import annotations

import pytest

from rocketfsck.query.start.settings import BOTH_REASON, NotCoveredError
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Settings

from tests.conftest import Directory, Document

DELIVERED = {"5.5.0-full-killed": {"MallDelay"}}
"""Topics to which the second process itself delivered messages before it was asked."""

RESTARTED = (
    "5.5.0-combine",
    "5.5.0-compaction",
    "5.5.0-dledger",
    "5.5.0-full-killed",
    "5.5.0-pop-kv-killed",
    "5.5.0-rocksdb-config-v2",
    "5.5.0-rocksdb-cq",
    "5.5.0-timer",
)
FORGOTTEN = {"5.5.0-rocksdb-config-v2"}
"""Killed before the settings of topics were written: the broker was asked about those that it still knew."""


@pytest.mark.parametrize("name", RESTARTED)
def test_a_restart_is_as_predicted(name: str, real_dir: Directory, real_manifest: Document) -> None:
    stated = real_manifest(name)["restart"]
    start = simulate_start(open_store(real_dir(name)), "5.5.0")
    assert start.loads
    assert not start.harmful
    queues = {
        (queue.topic, queue.queue_id): (queue.min_offset, queue.max_offset)
        for queue in start.queues
        if queue.max_offset
    }
    delivered = DELIVERED.get(name, set())
    for topic, queue_id, *bounds in stated["queues"]:
        found = queues.pop((topic, queue_id))
        assert found[0] == bounds[0]
        assert found[1] < bounds[1] if topic in delivered else found[1] == bounds[1]
    assert queues == {} or name in FORGOTTEN
    assert start.min_offset == stated["minPhyOffset"]
    assert start.max_offset <= stated["maxPhyOffset"]
    assert delivered or start.max_offset == stated["maxPhyOffset"]
    kept = [item.file.removeprefix("index/") for item in start.index.files if item.fate == "kept"]
    assert kept == [row[0] for row in stated["indexHeadersAfter"]][: len(kept)]
    assert len(start.index.files) == len(stated["indexHeadersAfter"])


def test_both_of_the_other_forms_at_once_are_not_covered(real_dir: Directory) -> None:
    store = open_store(real_dir("5.5.0-dledger"))
    with pytest.raises(NotCoveredError) as caught:
        simulate_start(store, "5.5.0", conf=Settings(None, {"storeType": "defaultRocksDB"}))
    assert BOTH_REASON in caught.value.reasons
    assert caught.value.exit_code == 8


def test_a_version_that_knows_no_such_form_does_not_see_it(real_dir: Directory) -> None:
    assert simulate_start(open_store(real_dir("5.5.0-combine")), "5.1.4").loads
    assert simulate_start(open_store(real_dir("5.5.0-dledger")), "4.4.0").loads
