"""What `dump` and `query` show of tiered storage."""

from __future__ import annotations

import shutil
from pathlib import Path

from rocketfsck.formats.tiered import (
    TIERED_INDEX_HEADER,
    TIERED_INDEX_ITEM,
    TIERED_INDEX_MAGIC_BEGIN,
    is_cluster_directory,
    segment_name,
    segment_offset,
)
from rocketfsck.store import identify_file

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli
from tests.unit.verify.test_tiered_old_indexes import old_file

BROKER = "tiered/d5771ffb_RealCluster/broker-a"
FIRST = segment_name(0)
STORE = "5.5.0-tiered"


def test_names() -> None:
    assert (FIRST, segment_name(4980)) == ("cfcd2084" + "0" * 20, "4ffbd5c8" + "4980".zfill(20))
    assert segment_offset(segment_name(2**63 - 1)) == 2**63 - 1
    for wrong in ("", "0" * 28, FIRST[:-1], FIRST + "0", FIRST[:8] + "\u0660" * 20, segment_name(2**63)):
        assert segment_offset(wrong) is None
    assert is_cluster_directory("d5771ffb_RealCluster")
    assert not any(map(is_cluster_directory, ("d5771ffb_Other", "d5771ffb", "tiered")))


def test_records_and_units(cli: Cli, real_dir: Directory) -> None:
    log = real_dir(STORE) / BROKER / "Warm/0/COMMIT_LOG" / FIRST
    for path in (log, real_dir(STORE) / BROKER / "Warm"):
        (record, *_) = cli("dump", path, "--kind", "commitlog", "--format", "jsonl").rows()
        assert (record["physical_offset"], record["size"], record["faults"]) == (0, 207, [])
    units = log.parent.parent / "CONSUME_QUEUE" / FIRST
    (unit,) = cli("dump", units, "--format", "jsonl").rows()
    assert (unit["topic"], unit["queue_offset"], unit["physical_offset"], unit["size"]) == ("Warm", 0, 0, 207)
    found = identify_file(units)
    assert (str(found.kind), found.topic, found.queue_id) == ("tiered-queue", "Warm", 0)


def test_an_index_segment(cli: Cli, real_dir: Directory) -> None:
    path = real_dir(STORE) / BROKER / "rmq_sys_INDEX/0/INDEX" / FIRST
    header, *rows = cli("dump", path, "--format", "jsonl").rows()
    assert (header["kind"], header["slot_count"], header["index_count"]) == ("header", 78, 148)
    assert [sum(row["kind"] == kind for row in rows) for kind in ("slot", "item")] == [78, 148]
    assert {row["end"] for row in rows} >= {path.stat().st_size}
    slot = next(row for row in rows if row["kind"] == "slot")
    (again, item) = cli("dump", path, "--slot", slot["slot"], "--format", "jsonl").rows()
    assert again == slot
    assert (item["start"], item["end"]) == (slot["items_pos"], slot["items_pos"] + slot["items_size"])
    some = cli("dump", path, "--physical-offset", ":1", "--queue", 0, "--format", "jsonl").rows()
    assert {row["offset"] for row in some} == {0}
    assert "store_timestamp" in cli("dump", path).out


def test_index_files_that_do_not_fit(cli: Cli, tmp_path: Path) -> None:
    header = TIERED_INDEX_HEADER.build(
        {
            "magicCode": TIERED_INDEX_MAGIC_BEGIN,
            "beginTimestamp": 7,
            "endTimestamp": 9,
            "slotCount": 1,
            "indexCount": 1,
        }
    )
    path = tmp_path / "tiered_index_file" / "7"
    path.parent.mkdir()
    path.write_bytes(header + bytes(3))
    first, rest = cli("dump", path, "--format", "jsonl").rows()
    assert (first["kind"], rest["kind"], rest["end"]) == ("header", "zero", 31)
    path.write_bytes(header[:9])
    (only,) = cli("dump", path, "--format", "jsonl").rows()
    assert (only["start"], only["end"]) == (0, 9)


def test_an_index_that_is_still_written(cli: Cli, real_dir: Directory, tmp_path: Path) -> None:
    """In its store: the segments say how many slots it has."""
    root = tmp_path / "store"
    shutil.copytree(real_dir(STORE) / "tiered", root / "tiered")
    (root / "commitlog").mkdir()
    item = {"hash": 5, "topicId": 1, "queueId": 0, "offset": 0, "size": 9, "timeDiff": -2, "prevItem": 0}
    data = TIERED_INDEX_HEADER.build(
        {
            "magicCode": TIERED_INDEX_MAGIC_BEGIN,
            "beginTimestamp": 7000,
            "endTimestamp": 9000,
            "slotCount": 1,
            "indexCount": 1,
        }
    )
    data += bytes(5 * 8) + b"\0\0\0\1\0\0\0\0" + bytes(95 * 8) + bytes(32)
    (root / "tiered_index_file/compacting").mkdir(parents=True)
    (root / "tiered_index_file/7000").write_bytes(data + TIERED_INDEX_ITEM.build(item) + bytes(32 * 8))
    rows = cli("dump", root / "tiered_index_file", "--format", "jsonl").rows()
    mine = [row for row in rows if row["file"].endswith("/7000")]
    used = [row for row in mine if row["kind"] in ("slot", "item")]
    assert [(row["kind"], row.get("newest_item"), row.get("store_timestamp")) for row in used] == [
        ("slot", 1, None),
        ("item", None, 5000),
    ]
    assert used[1]["item"] == 1


def test_queries_look_into_tiered_storage(cli: Cli, real_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(real_dir(STORE) / "tiered", root / "tiered")
    (root / "commitlog").mkdir()
    unique = "C00002025C294E0E2F2A6DE379420007"
    for found in (
        cli("query", "offset", root, "TierOrder", 0, 3),
        cli("query", "unique-key", root, "TierOrder", unique),
    ):
        assert (found.code, unique in found.out) == (0, True)
    for nothing in (
        cli("query", "offset", root, "TierOrder", 0, 24),
        cli("query", "unique-key", root, "TierOrder", "shared-key"),
    ):
        assert nothing.code != 0


def test_what_the_store_has_is_not_said_twice(cli: Cli, real_dir: Directory) -> None:
    rows = cli("query", "key", real_dir(STORE), "TierOrder", "shared-key", "--format", "json").out
    assert '"via": ["tiered"]' not in rows
    assert '"via": ["index"' in rows


def test_an_index_of_5_1_numbers_its_items_from_0(cli: Cli, real_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(real_dir(STORE) / "tiered", root / "tiered")
    (root / "commitlog").mkdir()
    (root / "tiered_index_file").mkdir()
    rows = [(7, 1, 0, 0, 9, 0), (7 + 101, 1, 0, 9, 9, 5), (8, 1, 0, 18, 9, 6)]
    (root / "tiered_index_file/0000").write_bytes(old_file(rows, 7000, 7006))
    found = cli("dump", root / "tiered_index_file", "--format", "jsonl").rows()
    items = [row for row in found if row["kind"] == "item"]
    assert [(row["item"], row["store_timestamp"], row["prev_item"]) for row in items] == [
        (0, 7000, -1),
        (1, 7005, 0),
        (2, 7006, -1),
    ]
    assert {row["slot"]: row["newest_item"] for row in found if row["kind"] == "slot"} == {7: 1, 8: 2}
