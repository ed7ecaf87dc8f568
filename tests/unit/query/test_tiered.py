"""Messages that only tiered storage has: every one that the broker answered with is found there."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.formats.tiered import TIERED_COMPACTED_SLOT, TIERED_INDEX_HEADER, segment_name
from rocketfsck.query.answers import Outcome
from rocketfsck.query.keys import find_by_key
from rocketfsck.query.places import find_by_offset, with_tiered_key, with_tiered_offset
from rocketfsck.store import open_store

from tests.conftest import Directory, Document

NAME = "5.5.0-tiered"
INDEX = "tiered/d5771ffb_RealCluster/broker-a/rmq_sys_INDEX/0/INDEX"


@pytest.fixture
def tiered_only(real_dir: Directory, tmp_path: Path) -> Path:
    """The store without what it has itself of its messages."""
    root = tmp_path / "store"
    root.mkdir()
    shutil.copytree(real_dir(NAME) / "tiered", root / "tiered")
    shutil.copytree(real_dir(NAME) / "config", root / "config")
    (root / "commitlog").mkdir()
    return root


def messages(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """What the broker answered, offset by offset."""
    return [
        found["decoded"]
        for queue in manifest["live"]["queues"]
        for pull in queue["getMessage"]
        for found in pull["messages"]
    ]


def test_every_queue_offset(tiered_only: Path, real_manifest: Document) -> None:
    store = open_store(tiered_only)
    wanted = messages(real_manifest(NAME))
    assert len(wanted) == 253
    for message in wanted:
        place = (message["topic"], message["queueId"], message["queueOffset"])
        nothing = find_by_offset(store, *place)
        assert nothing.outcome is not Outcome.FOUND
        (found,) = with_tiered_offset(store, nothing, *place).found
        assert found.via == ("tiered",)
        assert found.message.faults == 0
        assert (found.message.store_timestamp, found.message.body_crc) == (
            message["storeTimestamp"],
            message["bodyCRC"],
        )
        if not message["sysFlag"]:
            assert found.message.body is None or (
                hashlib.sha256(found.message.body).hexdigest() == message["bodySha256"]
            )


def test_every_key(tiered_only: Path, real_manifest: Document) -> None:
    store = open_store(tiered_only)
    manifest = real_manifest(NAME)
    by_offset = {
        message["physicalOffset"]: (message["queueId"], message["queueOffset"])
        for message in messages(manifest)
    }
    for query in manifest["live"]["queryMessage"]:
        nothing = find_by_key(store, query["topic"], query["key"])
        answer = with_tiered_key(store, nothing, query["topic"], query["key"])
        assert {(item.message.queue_id, item.message.queue_offset) for item in answer.found} == {
            by_offset[offset] for offset in query["offsets"]
        }, query


def test_counts_and_times(tiered_only: Path) -> None:
    store = open_store(tiered_only)
    nothing = find_by_key(store, "TierOrder", "shared-key")
    every = with_tiered_key(store, nothing, "TierOrder", "shared-key").found
    assert len(every) > 2
    times = [item.message.store_timestamp for item in every]
    assert times == sorted(times)
    two = with_tiered_key(store, nothing, "TierOrder", "shared-key", max_count=2).found
    assert two == every[-2:]
    assert with_tiered_key(store, nothing, "TierOrder", "shared-key", max_count=0).found == ()
    late = with_tiered_key(store, nothing, "TierOrder", "shared-key", begin_timestamp=times[-1]).found
    assert [item.message.store_timestamp for item in late] == [times[-1]]


def test_index_segments_that_are_damaged(tiered_only: Path) -> None:
    """A slot that leads out of the file leads nowhere."""
    for path in (tiered_only / INDEX).iterdir():
        data = bytearray(path.read_bytes())
        count = (len(data) - TIERED_INDEX_HEADER.size) // TIERED_COMPACTED_SLOT.size
        slot = TIERED_COMPACTED_SLOT.build({"position": 1 << 30, "length": 56})
        data[28 : 28 + 101 * 8] = slot * min(count, 101)
        path.write_bytes(data)
    store = open_store(tiered_only)
    nothing = find_by_key(store, "TierOrder", "shared-key")
    assert with_tiered_key(store, nothing, "TierOrder", "shared-key") == nothing
    (tiered_only / INDEX / segment_name(0)).write_bytes(b"x")
    assert with_tiered_key(open_store(tiered_only), nothing, "TierOrder", "shared-key") == nothing
