"""dump and info of stores with RocksDB databases."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import rocketfsck
from rocketfsck.errors import StoreError
from rocketfsck.store.rocks import reading

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli


def test_units_of_a_queue(cli: Cli, real_dir: Directory) -> None:
    store = real_dir("5.5.0-rocksdb-cq")
    stated = ("--kind", "rocksdb-units", "--topic", "RockTx", "--queue", 1, "--format", "jsonl")
    rows = cli("dump", store, *stated).rows()
    assert [row["queue_offset"] for row in rows] == [0, 1]
    assert rows[0] == {
        "schema_version": 1,
        "kind": "unit",
        "file": "consumequeue",
        "start": 0,
        "end": 0,
        "family": "default",
        "topic": "RockTx",
        "queue_id": 1,
        "queue_offset": 0,
        "physical_offset": 27657,
        "size": 363,
        "tags_code": 88,
        "store_timestamp": 1795333973444,
    }
    (row,) = cli("dump", store, *stated, "--queue-offset", "1").rows()
    assert row["physical_offset"] == 30070
    assert [row] == cli("dump", store, *stated, "--physical-offset", "30000:").rows()
    assert [row] == cli("dump", store, *stated, "--begin", 1795333973445).rows()


def test_index_by_key_and_tag(cli: Cli, real_dir: Directory) -> None:
    store = real_dir("5.5.0-rocksdb-all")
    stated = ("--kind", "rocksdb-index", "--format", "jsonl")
    every = cli("dump", store, *stated).rows()
    assert len(every) == 502
    assert [row["name"] for row in every if row["kind"] == "mark"] == ["lastOffsetPy", "lastStoreTimeStamp"]
    keyed = cli("dump", store, *stated, "--key", "tx-0").rows()
    assert {row["text"] for row in keyed} == {"tx-0"}
    tags = {row["text"] for row in every if row.get("type") == "T"}
    tag = min(tags)
    tagged = cli("dump", store, *stated, "--tag", tag).rows()
    assert tagged == [row for row in every if row.get("type") == "T" and row["text"] == tag]


def test_all_databases_of_a_directory(cli: Cli, real_dir: Directory) -> None:
    config = real_dir("5.5.0-rocksdb-cq") / "config"
    rows = cli("dump", config, "--kind", "rocksdb", "--format", "jsonl").rows()
    assert {row["file"] for row in rows} == {
        f"config/{name}" for name in ("topics", "subscriptionGroups", "consumerOffsets")
    }
    content = {row["name"]: row["content"] for row in rows}
    assert content["RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS"] == {"offsetTable": {"0": 20}}
    part = real_dir("5.5.0-rocksdb-all") / "rocksdbstore"
    assert {row["kind"] for row in cli("dump", part, "--kind", "rocksdb", "--format", "jsonl").rows()} == {
        *("entry", "mark", "timer")
    }


def test_text_has_a_head_for_each_kind(cli: Cli, real_dir: Directory) -> None:
    ended = cli("dump", real_dir("5.5.0-rocksdb-cq"), "--kind", "rocksdb")
    assert "consumequeue: RocksDB with queue units, 67872 bytes" in ended.out
    assert "consumequeue: RocksDB with queue bounds, 67872 bytes" in ended.out


def test_a_database_of_no_known_kind(cli: Cli, real_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(real_dir("5.5.0-rocksdb-config-v2"), root, ignore=shutil.ignore_patterns("timerwheel"))
    shutil.copytree(root / "config" / "rdb", root / "myown")
    rows = cli("dump", root, "--kind", "rocksdb-rows", "--format", "jsonl").rows()
    assert len(rows) == 13
    assert all(row["kind"] == "row" for row in rows)


def test_a_row_that_cannot_be_read(cli: Cli, real_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(real_dir("5.5.0-rocksdb-config-v2"), root, ignore=shutil.ignore_patterns("timerwheel"))
    shutil.rmtree(root / "kvStore", ignore_errors=True)
    shutil.rmtree(root / "rocksdbstore")
    shutil.copytree(root / "config" / "rdb", root / "rocksdbstore")
    rows = cli("dump", root, "--kind", "rocksdb-index", "--format", "jsonl").rows()
    assert {row["kind"] for row in rows} == {"unreadable"}
    assert all(row["error"] and row["key_b64"] for row in rows)
    assert not cli("dump", root, "--kind", "rocksdb-index", "--topic", "x", "--format", "jsonl").rows()


def test_what_does_not_go_together(cli: Cli, real_dir: Directory) -> None:
    store = real_dir("5.5.0-rocksdb-cq")
    assert cli("dump", store, "--kind", "rocksdb", "--hex").code == 16
    assert cli("dump", store / "consumequeue" / "CURRENT", "--kind", "rocksdb").code == 16
    none = cli("dump", store, "--kind", "rocksdb-pop")  # nothing to show is no error
    assert (none.code, none.out, none.err) == (0, "", f"Note: {store} has no RocksDB with POP records\n")
    assert cli("dump", real_dir("5.5.0-long"), "--kind", "rocksdb-units").code == 0
    assert cli("dump", store, "--kind", "rocksdb-timer", "--topic", "x").code == 16


def test_a_damaged_database_is_an_error(cli: Cli, real_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(real_dir("5.5.0-rocksdb-cq"), root, ignore=shutil.ignore_patterns("timerwheel"))
    (root / "consumequeue" / "000010.sst").unlink()
    ended = cli("dump", root, "--kind", "rocksdb-units")
    assert ended.code == 8
    assert "000010.sst" in ended.err
    said = cli("info", root)
    assert said.code == 0
    assert "000010.sst" in said.out


def test_info_counts_rows(cli: Cli, real_dir: Directory) -> None:
    store = real_dir("5.5.0-rocksdb-cq")
    ended = cli("info", store)
    assert "consumequeue               default 227, offset 1,115" in ended.out
    document = json.loads(cli("info", store, "--format", "json").out)
    (queues,) = (other for other in document["others"] if other["file"] == "consumequeue")
    assert queues["families"] == {"default": 227, "offset": 1115}
    assert queues["estimated"] is False


def test_info_estimates_large_databases(
    cli: Cli, real_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketfsck.query.info.store.COUNTED_SIZE", 0)
    ended = cli("info", real_dir("5.5.0-rocksdb-cq"))
    assert "default about 227" in ended.out


def test_info_without_rocksdict(cli: Cli, real_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "find_spec", lambda _name: None)
    ended = cli("info", real_dir("5.5.0-rocksdb-cq"))
    assert ended.code == 0
    assert "pip install rocksdict" in ended.out


def test_a_broken_database_of_queues_is_built_by_the_next_command(cli: Cli, real_copy: Directory) -> None:
    root = real_copy("5.5.0-rocksdb-cq")
    table = max((root / "consumequeue").glob("*.sst"), key=lambda path: path.stat().st_size)
    os.truncate(table, 20_000)
    found = json.loads(cli("check", root, "--format", "json").out)
    command = found["verdict"]["next_command"]
    assert command == f"rocketfsck fix {root}"
    assumed = [word for name in found["verdict"]["prospect"]["assumed"] for word in ("--assume", name)]
    assert cli(*command.split()[1:], "--yes", *assumed).code in (0, 1)
    assert cli("check", root).code == 0


def test_a_query_says_which_database_it_could_not_read(cli: Cli, real_copy: Directory) -> None:
    store = real_copy("5.5.0-rocksdb-cq")
    asked = ("query", "offset", store, "RockOrder", 1, 2)
    whole = cli(*asked)
    assert whole.code == 0
    assert "odd" not in whole.out + whole.err
    path = max((store / "consumequeue").glob("*.sst"), key=lambda path: path.stat().st_size)
    path.write_bytes(b"\0" * 100 + path.read_bytes()[100:])
    with rocketfsck.open(store) as opened, pytest.raises(StoreError, match="block checksum"):
        opened.lag()
    found = cli(*asked)
    assert found.code == 8
    assert "odd: queue 1 of RockOrder cannot be read" in found.out
    assert "Note: consumequeue cannot be read: " in found.err
    (_, *groups) = cli("query", "offsets", store, "--format", "jsonl").rows()
    assert {group["standing"] for group in groups if "standing" in group} == {"unreadable"}
    scanned = cli("query", "scan", store, "queue_offset == 2", "--limit", 1)
    assert scanned.code == 8
    assert "the answer is not complete" in scanned.err
