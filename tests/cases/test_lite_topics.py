"""Lite topics of a real 5.5.0 broker: light queues named %LMQ%$PARENT$LITE, in files and in RocksDB.

Each message goes into a queue of its parent topic and into the light queue of its lite topic. What the broker
answered is compared in `test_recorded_answers`. Subscriptions to lite topics are in memory only.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketfsck.query import find_by_key
from rocketfsck.query.offsets import queue_offsets
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.repair.build.run import RebuildOptions, rebuild_store
from rocketfsck.store import open_store
from rocketfsck.store.rocks.lifting import lifted
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.catalog import find_rule

from tests.conftest import Directory, Document

FILES, ROWS = "5.5.0-lite", "5.5.0-lite-rocksdb"
LITE = "%LMQ%$LiLite$"
NOW = 1_900_000_000_000


def sent(manifest: dict[str, object]) -> dict[str, int]:
    """How many messages went to each lite topic."""
    counts: dict[str, int] = {}
    messages = manifest["messages"]
    assert isinstance(messages, list)
    for message in messages:
        name = message.get("properties", {}).get("__LITE_TOPIC")
        if name is not None:
            counts[LITE + name] = counts.get(LITE + name, 0) + 1
    return counts


@pytest.mark.parametrize("name", [FILES, ROWS])
def test_nothing_is_wrong(name: str, real_dir: Directory) -> None:
    report = check_store(open_store(real_dir(name)), CheckOptions(now_timestamp=NOW))
    severities = {find_rule(finding.rule).severity for finding in report.findings}
    assert severities <= {Severity.INFO}


@pytest.mark.parametrize("name", [FILES, ROWS])
def test_each_lite_topic_has_its_queue(name: str, real_dir: Directory, real_manifest: Document) -> None:
    with lifted(open_store(real_dir(name))) as lifting:
        found = {
            (row.topic, row.queue_id): (row.min_offset, row.max_offset)
            for row in queue_offsets(lifting.store)
            if row.topic.startswith(LITE)
        }
    assert found == {(topic, 0): (0, count) for topic, count in sent(real_manifest(name)).items()}
    assert len(found) == 12


def test_the_files_are_rebuilt(real_dir: Directory, tmp_path: Path) -> None:
    root = real_dir(FILES)
    rebuild_store(open_store(root), tmp_path / "built", RebuildOptions(queues=True, index=True, sync=False))
    for part in ("consumequeue", "index"):
        names = sorted(path.relative_to(root) for path in (root / part).rglob("*") if path.is_file())
        built = sorted(
            path.relative_to(tmp_path / "built")
            for path in (tmp_path / "built" / part).rglob("*")
            if path.is_file()
        )
        assert built == names
        for path in names:
            assert (tmp_path / "built" / path).read_bytes() == (root / path).read_bytes()


@pytest.mark.parametrize("name", [FILES, ROWS])
def test_a_start_keeps_the_light_queues(name: str, real_dir: Directory, real_manifest: Document) -> None:
    start = simulate_start(open_store(real_dir(name)), "5.5.0")
    assert start.loads
    assert not start.harmful
    found = {queue.topic: queue.max_offset for queue in start.queues if queue.topic.startswith(LITE)}
    assert found == sent(real_manifest(name))


@pytest.mark.parametrize("name", [FILES, ROWS])
def test_keys_are_those_of_the_parent_topic(name: str, real_dir: Directory) -> None:
    store = open_store(real_dir(name))
    (found,) = find_by_key(store, "LiLite", "line-52").found
    assert (found.message.topic, found.message.queue_id) == ("LiLite", 1)
    assert (found.message.properties or {})["__LITE_TOPIC"] == "room_5"
    assert find_by_key(store, f"{LITE}room_5", "line-52").found == ()


def test_the_parent_topic_says_that_it_is_lite(real_dir: Directory) -> None:
    topics = json.loads((real_dir(FILES) / "config/topics.json").read_text())["topicConfigTable"]
    assert topics["LiLite"]["attributes"] == {"message.type": "LITE"}
