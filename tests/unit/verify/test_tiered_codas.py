"""Tiered storage of a real 5.2.0 broker, with several segments a queue: full ones end with a coda."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from rocketfsck.formats.tiered import TIERED_CODA, compacted_shape, segment_name
from rocketfsck.query.places import find_by_offset, queue_store, with_tiered_offset
from rocketfsck.reader.tiered import tiered_queues
from rocketfsck.store import open_store
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.tasks.task import Context
from rocketfsck.verify.tiered.check import check_tiered

PACKED = Path(__file__).parents[2] / "data" / "tiered" / "5.2.0-codas.tar.xz"
TOPIC, ROLLED = "TrOrder", 2466


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with tarfile.open(PACKED) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


def items(root: Path) -> list[object]:
    return list(check_tiered(Context(open_store(root), "full", 0)).items)


def test_nothing_is_wrong(root: Path) -> None:
    assert items(root) == []
    checked = check_tiered(Context(open_store(root), "full", 0)).checked
    assert (checked.record_count, checked.unit_count) == (93, 93)


def test_full_segments_end_with_a_coda(root: Path) -> None:
    store = open_store(root)
    (queue,) = (queue for queue in tiered_queues(store) if (queue.topic, queue.queue_id) == (TOPIC, 0))
    full, last = queue.log.files
    assert (full.size, last.start_offset, last.name) == (ROLLED, ROLLED, segment_name(ROLLED))
    coda = TIERED_CODA.parse(full.path.read_bytes()[-TIERED_CODA.size :])
    assert (coda["size"], coda["magicCode"]) == (16, -875286124)
    (found,) = find_by_offset(queue_store(store, queue), TOPIC, 0, 8).found
    assert found.offset == ROLLED
    bytes_of = full.path.read_bytes()
    full.path.write_bytes(bytes_of[:-1] + bytes([bytes_of[-1] ^ 1]))
    (finding,) = items(root)
    assert isinstance(finding, Finding)
    assert (finding.rule, finding.where.file, finding.where.start) == ("TS015", full.relative, ROLLED - 16)


def test_messages_of_both_segments_are_found(root: Path) -> None:
    for directory in ("commitlog", "consumequeue"):
        for file in (root / directory).rglob("*"):
            if file.is_file():
                file.unlink()
    store = open_store(root)
    for queue_offset in range(9):
        answer = with_tiered_offset(
            store, find_by_offset(store, TOPIC, 0, queue_offset), TOPIC, 0, queue_offset
        )
        assert [item.message.queue_offset for item in answer.found] == [queue_offset]


def test_shapes_of_index_segments() -> None:
    """Those of 5.1.x have a magic code behind their items, and all their slots in the header."""
    old = compacted_shape(28 + 8 * 10 + 28 * 3 + 4, 10, 3)
    assert old is not None
    assert (old.slot_count, old.items_start, old.end, old.old) == (10, 108, 192, True)
    new = compacted_shape(28 + 8 * 10 + 28 * 3, 2, 3)
    assert new is not None
    assert (new.slot_count, new.old) == (10, False)
    assert compacted_shape(192, 2, -1) is None
    assert compacted_shape(193, 2, 3) is None
    assert compacted_shape(192, 11, 3) is None


def test_what_no_broker_makes_in_the_tree_is_a_stray(root: Path) -> None:
    cluster = root / "tiered" / "d5771ffb_RealCluster"
    (root / "tiered" / "other").mkdir()
    (root / "tiered" / "file").touch()
    (cluster / "broker-a" / TOPIC / "x").mkdir()
    (cluster / "broker-a" / TOPIC / "0" / "ODD").mkdir()
    found = {stray.relative.rpartition("/")[2] for stray in open_store(root).strays}
    assert found == {"other", "file", "x", "ODD"}
    cluster.rename(root / cluster.name)  # tieredStoreFilePath may be the root itself
    assert len(tiered_queues(open_store(root))) == 14
