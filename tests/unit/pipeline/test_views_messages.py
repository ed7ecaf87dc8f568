"""The view `messages` gives what `iter_messages` gives, in however many parts, of every store we have."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.api import iter_messages
from rocketfsck.errors import UsageError
from rocketfsck.formats.properties import split_keys
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views.model import WantedRows
from rocketfsck.pipeline.views.table import plan_parts, schema_of
from rocketfsck.scan.columns import Fault
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.views.messages import Message
from rocketfsck.store import open_store

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory, Document
from tests.unit.pipeline.viewing import Row, messages, read

SAME = (
    "topic",
    "queue_id",
    "queue_offset",
    "physical_offset",
    "pos",
    "magic_code",
    "body_crc",
    "flag",
    "sys_flag",
    "born_timestamp",
    "born_host",
    "store_timestamp",
    "store_host",
    "reconsume_times",
    "prepared_transaction_offset",
    "body_size",
    "properties_size",
    "tags_code",
    "tags",
    "keys",
    "unique_key",
    "body",
)
TOLD = {
    "topic": "topic",
    "queue_id": "queueId",
    "queue_offset": "queueOffset",
    "size": "size",
    "unique_key": "uniqKey",
    "store_timestamp": "storeTimestamp",
    "born_timestamp": "bornTimestamp",
    "born_host": "bornHost",
    "store_host": "storeHost",
    "sys_flag": "sysFlag",
    "flag": "flag",
}
"""Columns, and what a manifest calls them."""

FILTERED = "5.3.3-multiseg"


def _same(row: Row, message: Message) -> None:
    found = {name: row[name] for name in SAME}
    assert found == {name: getattr(message, name) for name in SAME}
    properties = row["properties"]
    assert (None if properties is None else dict(properties)) == message.properties
    assert row["size"] == message.total_size
    assert message.path.endswith(row["file"])
    assert row["offset"] == int(Path(message.path).name) + message.pos
    assert row["body_crc_ok"] == (Fault.BODY_CRC not in message.faults)
    assert len(row["faults"]) == message.faults.bit_count()
    assert ((row["_corrupt_record"] or "").find("crc") >= 0) == (not row["body_crc_ok"])


def _compare(root: Path) -> None:
    every = read("messages", root, live_only=False, fixed=True)
    live = read("messages", root, fixed=True)
    store = open_store(root)
    for rows, live_only in ((every, False), (live, True)):
        expected = list(iter_messages(store, live_only=live_only))
        found = messages(rows)
        assert len(found) == len(expected) > 0
        for row, message in zip(found, expected, strict=True):
            _same(row, message)
    assert [row for row in every if row["live"]] == live
    assert read("messages", root, live_only=False, split_size=50_000, fixed=True) == every


@pytest.mark.parametrize("name", STORE_NAMES)
def test_broker_stores(store_dir: Directory, name: str) -> None:
    _compare(store_dir(name))


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_damaged_stores(restart_dir: Directory, name: str) -> None:
    _compare(restart_dir(name))


def test_compiled_kernels_give_the_same(store_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = [store_dir(name) for name in ("4.9.8-lmq", "5.0.0-innerbatch", "4.4.0-legacybatch-propedge")]
    plain = read("messages", *stores)
    monkeypatch.setenv("ROCKETFSCK_KERNELS", "compiled")
    assert read("messages", *stores) == plain


def test_what_went_in_comes_out(store_dir: Directory, manifest: Document) -> None:
    sent = manifest("5.3.3-basic")["phases"][0]["messages"]
    rows = {row["offset"]: row for row in read("messages", store_dir("5.3.3-basic"))}
    assert len(sent) > 100
    for one in sent:
        row = rows[one["physicalOffset"]]
        for name, stated in TOLD.items():
            assert row[name] == one[stated], (name, one)
        assert hashlib.sha256(row["body"]).hexdigest() == one["bodySha256"]
        assert row["keys"] == split_keys(one["keys"] or "")
        assert (row["tags"] or "") == (one["tags"] or "")
        assert one.get("properties", {}).items() <= dict(row["properties"] or {}).items()


@pytest.mark.parametrize(
    "asked",
    [
        {"topic": "Seg0"},
        {"topic": "nothing"},
        {"queue_id": 1},
        {"queue_id": 1 << 40},
        {"begin_timestamp": 1_700_000_100_000, "end_timestamp": 1_700_000_300_000},
        {"begin_offset": 70_000, "end_offset": 200_001},
        {"begin_offset": 1 << 62},
        {"end_offset": 0},
        {"topic": "Seg1", "queue_id": 0, "begin_offset": 131_072},
    ],
)
def test_filters(store_dir: Directory, asked: dict[str, Any]) -> None:
    root = store_dir(FILTERED)
    expected = [message.physical_offset for message in iter_messages(open_store(root), **asked)]
    for split in (0, 30_000):
        assert [row["offset"] for row in read("messages", root, split_size=split, **asked)] == expected


def test_filters_by_words(store_dir: Directory) -> None:
    root = store_dir("5.3.3-basic")
    rows = messages(read("messages", root))
    tags = {row["tags"] or "" for row in rows}
    keys = [row["keys"][-1] for row in rows if row["keys"]][:3]
    unique = [row["unique_key"] for row in rows if row["unique_key"]][:2]
    assert len(tags) > 1
    for tag in (*tags, "no such tag"):
        expected = [row for row in rows if (row["tags"] or "") == tag]
        assert read("messages", root, tag=tag) == expected
    for key in (*keys, *unique, "no such key"):
        expected = [row for row in rows if key in row["keys"] or row["unique_key"] == key]
        assert read("messages", root, key=key) == expected
        assert bool(expected) == (key != "no such key")


def test_columns_alone(store_dir: Directory) -> None:
    root = store_dir("5.3.3-trans")
    whole = read("messages", root)
    for names in (("offset",), ("body",), ("keys", "topic"), ("born_host", "properties")):
        found = read("messages", root, columns=names)
        assert found == [{name: row[name] for name in names} for row in whole]
    raw = read("messages", root, columns=("properties_bytes", "properties_size"))
    assert all(len(row["properties_bytes"]) == row["properties_size"] for row in raw)
    assert "properties_bytes" not in whole[0]


def test_bodies_are_checked_when_they_are_read_or_when_asked(restart_dir: Directory) -> None:
    root = restart_dir("5.1.3-basic--flip-last-file")
    asked: list[tuple[dict[str, Any], set[bool | None]]] = [
        ({"columns": ("body_crc_ok",)}, {True, False}),
        ({"columns": ("body", "body_crc_ok"), "level": "cross"}, {None}),
        ({"columns": ("faults", "body_crc_ok"), "level": "full"}, {True, False}),
    ]
    for wanted, expected in asked:
        assert {row["body_crc_ok"] for row in read("messages", root, **wanted)} == expected
    unread = read("messages", root, columns=("faults",))
    assert not any("body-crc" in row["faults"] for row in unread)
    checked = read("messages", root, columns=("faults",), level="full")
    assert sum("body-crc" in row["faults"] for row in checked) == 1


def test_long_bodies_are_left_out(store_dir: Directory) -> None:
    root = store_dir("5.3.3-basic")
    whole = messages(read("messages", root))
    cut = messages(read("messages", root, max_body_size=100))
    assert {row["body"] is None for row in cut} == {True, False}
    for row, short in zip(whole, cut, strict=True):
        assert short["body"] == (row["body"] if row["body_size"] <= 100 else None)
        assert {**short, "body": None} == {**row, "body": None}


def test_records_longer_than_a_chunk(store_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    root = store_dir("5.3.3-basic")
    whole = read("messages", root)
    monkeypatch.setattr("rocketfsck.pipeline.views.walking.CHUNK_SIZE", 300)
    assert read("messages", root) == whole
    cut = messages(read("messages", root, max_body_size=100))
    for row, short in zip(messages(whole), cut, strict=True):
        assert {**short, "body": None} == {**row, "body": None}


def test_parts_are_pruned_by_offset(store_dir: Directory) -> None:
    sources = find_sources([store_dir(FILTERED)])
    every = plan_parts("messages", sources)
    assert len(every) == 6
    some = plan_parts("messages", sources, WantedRows(begin_offset=131_072, end_offset=262_145))
    assert [(part.file[-6:], part.start, part.end) for part in some] == [
        ("131072", 0, None),
        ("262144", 0, 1),
    ]
    split = plan_parts("messages", sources, WantedRows(split_size=1 << 16, end_offset=131_072))
    assert [(part.start, part.end) for part in split] == [(0, 65_536), (65_536, None)]


def test_a_long_file_has_few_parts_however_small_they_are_to_be(tmp_path: Path) -> None:
    """Every part walks the frames in front of it: the more parts, the more walks."""
    (tmp_path / "commitlog").mkdir()
    size = 1 << 30
    with (tmp_path / "commitlog" / f"{0:020}").open("wb") as file:
        file.truncate(size)
    for split_size, count in ((4096, 8), (32 << 20, 8), (256 << 20, 4)):
        for view in ("messages", "damage"):
            parts = plan_parts(view, find_sources([tmp_path]), WantedRows(split_size=split_size))
            assert len(parts) == count
            assert [part.start for part in parts] == list(range(0, size, size // count))


def test_parts_are_whole_pieces_of_a_walk(tmp_path: Path) -> None:
    """Two parts in one piece would both read all of it."""
    (tmp_path / "commitlog").mkdir()
    for number, (size, starts) in enumerate(((40, [0, 16, 32]), (16, [0, 8]))):
        file = tmp_path / "commitlog" / f"{number * (40 << 20):020}"
        file.touch()
        os.truncate(file, size << 20)
        parts = plan_parts("messages", find_sources([tmp_path]), WantedRows(split_size=8 << 20))
        assert [part.start >> 20 for part in parts if part.file.endswith(file.name)] == starts


def test_several_stores_have_brokers(store_dir: Directory) -> None:
    first, second = store_dir("5.3.3-trans"), store_dir("4.9.8-delay")
    rows = read("messages", first, second)
    assert {row["broker"] for row in rows} == {"5.3.3-trans", "4.9.8-delay"}
    for root, broker in ((first, "5.3.3-trans"), (second, "4.9.8-delay")):
        assert [row for row in rows if row["broker"] == broker] == read("messages", root)


def test_the_topic_of_a_record_that_the_table_has_no_room_for(
    store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = store_dir("5.3.3-basic")
    whole = read("messages", root)
    topics = {row["topic"] for row in whole}
    assert len(topics) > 2
    monkeypatch.setattr(
        "rocketfsck.pipeline.views.walking.QueueTable",
        lambda: QueueTable(max_queues=2, max_name_size=1 << 10),
    )
    assert read("messages", root) == whole
    assert read("messages", root, columns=("topic",)) == [{"topic": row["topic"]} for row in whole]
    for topic in topics:
        assert read("messages", root, topic=topic) == [row for row in whole if row["topic"] == topic]


def test_no_such_column_or_view() -> None:
    with pytest.raises(UsageError, match="has no column bodies, tagz; the columns are broker, file,"):
        schema_of("messages", WantedRows(columns=("bodies", "topic", "tagz")))
    with pytest.raises(
        UsageError, match="no view has the name 'x'; the views are messages, damage, consumequeue, index"
    ):
        schema_of("x")
    with pytest.raises(UsageError, match="'topic' has another meaning"):
        schema_of("messages", WantedRows(corrupt_column="topic"))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"mode": "STRICT"}, "the mode 'STRICT' is not one of PERMISSIVE"),
        ({"level": "deep"}, "the level 'deep' is not one of quick"),
        ({"split_size": 10}, "at least 4,096 bytes"),
        ({"columns": ()}, "name at least one column"),
        ({"columns": ("a", "a")}, "appears twice: a, a"),
        ({"max_body_size": -1}, "at least 0"),
    ],
)
def test_wishes_without_sense(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        WantedRows(**asked)
