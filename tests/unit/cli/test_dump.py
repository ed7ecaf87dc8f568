"""dump against what the brokers said, and every byte of every file accounted for."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketfsck.formats.layout import shown_name

from tests.unit.cli.conftest import Cli

Store = Callable[[str], Path]
Document = Callable[[str], dict[str, Any]]

SOME_STORES = ("4.4.0-basic", "4.9.8-cqext", "4.9.8-ipv6", "5.0.0-innerbatch", "5.1.3-basic", "5.3.3-propcrc")
SOME_DAMAGED = ("4.9.8-basic--torn-tail", "5.3.3-multiseg--flip-older-file", "4.9.8-killed--index-truncated")


def _sent(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The plain messages of a manifest (batches are rows of their own)."""
    return [
        message
        for phase in manifest["phases"]
        for message in phase["messages"]
        if message.get("kind") != "legacyBatch" and message["status"] in ("PUT_OK", "FLUSH_DISK_TIMEOUT")
    ]


@pytest.mark.parametrize("name", SOME_STORES)
def test_records_are_what_was_sent(cli: Cli, store_dir: Store, manifest: Document, name: str) -> None:
    rows = cli("dump", store_dir(name), "--format", "jsonl", "--body", "base64").rows()
    by_offset = {row["physical_offset"]: row for row in rows if row["kind"] == "record"}
    sent = _sent(manifest(name))
    assert sent
    for message in sent:
        row = by_offset[message["physicalOffset"]]
        assert row["schema_version"] == 1
        assert row["topic"] == message["topic"]
        assert (row["queue_id"], row["queue_offset"]) == (message["queueId"], message["queueOffset"])
        assert row["size"] == message["size"]
        assert len(base64.b64decode(row["body_b64"])) == message["bodyLen"]
        assert row["store_timestamp"] == message["storeTimestamp"]
        if message.get("tags"):
            assert row["tags"] == message["tags"]
        if message.get("uniqKey"):
            assert row["unique_key"] == message["uniqKey"]


def _every_file(store: Path) -> list[Path]:
    return sorted(path for path in store.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", SOME_STORES)
def test_items_tile_every_file(cli: Cli, store_dir: Store, name: str) -> None:
    for path in _every_file(store_dir(name)):
        ended = cli("dump", path, "--format", "jsonl")
        assert ended.code == 0, ended.err
        pos = 0
        for row in ended.rows():
            assert row["start"] == pos, path
            pos = row["end"]
        assert pos == path.stat().st_size, path


@pytest.mark.parametrize("name", SOME_DAMAGED)
def test_items_tile_damaged_files(cli: Cli, restart_dir: Store, name: str) -> None:
    for path in _every_file(restart_dir(name)):
        rows = cli("dump", path, "--format", "jsonl").rows()
        assert [row["start"] for row in rows] == [0, *(row["end"] for row in rows[:-1])]
        assert rows[-1]["end"] == path.stat().st_size


def _shown_bytes(text: str) -> bytes:
    """The bytes that a hex view shows, folded lines unfolded."""
    data = bytearray()
    line_bytes = b""
    for line in text.splitlines():
        if "|" not in line or not line.startswith("  "):
            continue
        folded = re.search(r"\(([\d,]+) more lines like this\)", line)
        if folded:
            data += line_bytes * int(folded[1].replace(",", ""))
            continue
        line_bytes = bytes.fromhex(line.split("|")[0].split(maxsplit=1)[1])
        data += line_bytes
    return bytes(data)


@pytest.mark.parametrize("name", ["5.1.3-basic", "4.9.8-cqext", "5.0.0-innerbatch"])
def test_hex_view_shows_every_byte(cli: Cli, store_dir: Store, name: str) -> None:
    for path in _every_file(store_dir(name)):
        ended = cli("dump", path, "--hex", "--body", "hex")
        assert _shown_bytes(ended.out) == path.read_bytes(), path


def test_hex_view_of_a_torn_record_shows_its_fields(cli: Cli, restart_dir: Store, oracle: Document) -> None:
    store = restart_dir("4.9.8-basic--torn-tail")
    rows = cli("dump", store, "--format", "jsonl").rows()
    (torn,) = [row for row in rows if row["kind"] == "torn"]
    assert torn["start"] == oracle("4.9.8-basic--torn-tail")["afterStart"]["commitlogMaxOffset"]
    shown = cli("dump", store, "--hex", "--pos", torn["start"]).out
    assert "torn  bytes 49078 to" in shown
    assert "size = 256" in shown
    assert "(unknown)" in shown or "properties" in shown


def test_bodies_are_shown_only_when_asked_for(cli: Cli, store_dir: Store) -> None:
    path = store_dir("5.3.3-basic") / "commitlog" / "0".zfill(20)
    hidden, shown = cli("dump", path, "--hex").out, cli("dump", path, "--hex", "--body", "hex").out
    assert "bytes not shown) " in hidden
    assert "bytes not shown) " not in shown
    assert "body" not in cli("dump", path, "--limit", 1, "--format", "jsonl").rows()[0]
    row = cli("dump", path, "--queue-offset", 4, "--topic", "GammaOrder", "--queue", 1, "--body", "text")
    assert "body: spaces" in row.out
    row = cli("dump", path, "--key", "double", "--body", "hex", "--format", "jsonl")
    assert row.rows()[0]["body_hex"] == b"spaces".hex()


FILTERS: list[tuple[list[str], Callable[[dict[str, Any]], bool]]] = [
    (["--topic", "GammaOrder"], lambda row: row["topic"] == "GammaOrder"),
    (["--queue", "1"], lambda row: row["queue_id"] == 1),
    (["--tag", "TagA"], lambda row: row["tags"] == "TagA"),
    (["--topic", "GammaOrder", "--key", "O3"], lambda row: "O3" in row["keys"]),
    (["--key", "订单号"], lambda row: "订单号" in row["keys"]),
    (["--begin", "2023-11-14T22:13:23"], lambda row: row["store_timestamp"] >= 1700000003000),
    (["--end", "1700000003000"], lambda row: row["store_timestamp"] < 1700000003000),
    (["--end", "2023-11-15T06:13:23+08:00"], lambda row: row["store_timestamp"] < 1700000003000),
    (["--queue-offset", "2:4"], lambda row: 2 <= row["queue_offset"] < 4),
    (["--queue-offset", "3"], lambda row: row["queue_offset"] == 3),
    (["--physical-offset", "161:846"], lambda row: 161 <= row["start"] < 846),
]


@pytest.mark.parametrize(("options", "matches"), FILTERS)
def test_filters(
    cli: Cli, store_dir: Store, options: list[str], matches: Callable[[dict[str, Any]], bool]
) -> None:
    store = store_dir("5.3.3-basic")
    every = [row for row in cli("dump", store, "--format", "jsonl").rows() if row["kind"] == "record"]
    expected = [row for row in every if matches(row)]
    assert 0 < len(expected) < len(every)
    assert cli("dump", store, "--format", "jsonl", *options).rows() == expected


def test_queue_units_are_what_the_broker_answered(cli: Cli, store_dir: Store, manifest: Document) -> None:
    store = store_dir("4.9.8-multiseg")
    live = manifest("4.9.8-multiseg")["phases"][-1]["live"]
    compared = 0
    for queue in live["queues"]:
        directory = store / "consumequeue" / queue["topic"] / str(queue["queueId"])
        rows = cli("dump", directory, "--format", "jsonl").rows()
        units = [
            [row["queue_offset"], row["physical_offset"], row["size"], row["tags_code"]]
            for row in rows
            if row["kind"] == "unit"
        ]
        assert units == queue["units"]
        compared += len(units)
    assert compared == 1300


def test_queue_filters(cli: Cli, store_dir: Store) -> None:
    store = store_dir("5.3.3-basic")
    one = cli(
        "dump", store, "--kind", "consumequeue", "--topic", "GammaOrder", "--queue", 0, "--format", "jsonl"
    )
    assert {(row["topic"], row["queue_id"]) for row in one.rows()} == {("GammaOrder", 0)}
    tagged = cli("dump", store / "consumequeue", "--tag", "TagA", "--format", "jsonl").rows()
    assert {row["tags_code"] for row in tagged} == {2598919}
    placed = cli("dump", store / "consumequeue", "--queue-offset", "1:3", "--format", "jsonl").rows()
    assert {row["queue_offset"] for row in placed} == {1, 2}


def test_batch_and_extension_units(cli: Cli, store_dir: Store, manifest: Document) -> None:
    rows = cli("dump", store_dir("5.0.0-innerbatch") / "batchconsumequeue", "--format", "jsonl").rows()
    units = [row for row in rows if row["kind"] == "unit"]
    live = manifest("5.0.0-innerbatch")["phases"][-1]["live"]
    expected = sorted(
        unit
        for queue in live["queues"]
        if queue["topic"] == "Ib"
        for unit in ([queue["queueId"], *(unit if len(unit) == 5 else [*unit, 1])] for unit in queue["units"])
    )
    found = sorted(
        [
            row["queue_id"],
            row["msg_base_offset"],
            row["physical_offset"],
            row["size"],
            row["tags_code"],
            row["batch_count"],
        ]
        for row in units
    )
    assert found == expected
    store = store_dir("4.9.8-cqext")
    ext = cli("dump", store / "consumequeue_ext", "--format", "jsonl").rows()
    addresses = {(row["topic"], row["queue_id"], row["ext_offset"]) for row in ext if row["kind"] == "unit"}
    queues = cli("dump", store / "consumequeue", "--format", "jsonl").rows()
    pointed = {
        (row["topic"], row["queue_id"], row["ext_offset"])
        for row in queues
        if row.get("ext_offset") is not None
    }
    assert pointed
    assert pointed <= addresses


def test_index_entries_and_chains(cli: Cli, store_dir: Store, manifest: Document) -> None:
    store = store_dir("4.4.0-collisions")
    headers = {header["name"]: header for header in manifest("4.4.0-collisions")["indexHeadersOnDisk"]}
    for path in sorted((store / "index").iterdir()):
        rows = cli("dump", path, "--format", "jsonl").rows()
        header = rows[0]
        for name in ("beginTimestamp", "endTimestamp", "hashSlotCount", "indexCount"):
            assert header[shown_name(name)] == headers[path.name][name]
        entries = {row["entry"]: row for row in rows if row["kind"] == "entry"}
        assert sorted(entries) == list(range(1, header["index_count"]))
        for row in rows:
            if row["kind"] != "slot":
                continue
            chain = cli("dump", path, "--slot", row["slot"], "--format", "jsonl").rows()
            numbers = [link["entry"] for link in chain if link["kind"] == "entry"]
            assert numbers == sorted(
                (number for number, entry in entries.items() if entry["slot"] == row["slot"]), reverse=True
            )
            assert chain[-1]["chain_end"].endswith("is 0")


def test_index_by_key(cli: Cli, store_dir: Store) -> None:
    store = store_dir("5.3.3-basic")
    found = cli("dump", store / "index", "--topic", "GammaOrder", "--key", "O3", "--format", "jsonl").rows()
    (message,) = cli("dump", store, "--topic", "GammaOrder", "--key", "O3", "--format", "jsonl").rows()
    assert [row["physical_offset"] for row in found] == [message["physical_offset"]]


def test_a_cycle_in_a_chain_is_told(cli: Cli, store_copy: Store) -> None:
    store = store_copy("5.3.3-basic")
    path = sorted((store / "index").iterdir())[0]
    data = bytearray(path.read_bytes())
    at = 40 + 4 * 53 + 20 * 46 + 16
    data[at : at + 4] = (214).to_bytes(4, "big")
    path.write_bytes(data)
    ended = cli("dump", path, "--slot", 3)
    assert ended.code == 0
    assert (
        "the chain ends: prevIndex of entry 46 is 214, which the chain already passed: a cycle" in ended.out
    )


def test_small_files(cli: Cli, store_dir: Store, manifest: Document) -> None:
    store = store_dir("5.3.3-basic")
    (checkpoint, rest) = cli("dump", store / "checkpoint", "--format", "jsonl").rows()
    said = manifest("5.3.3-basic")["checkpointOnDisk"]
    assert checkpoint["physic_msg_timestamp"] == said["physicMsgTimestamp"]
    assert rest["kind"] == "zero"
    (config,) = cli("dump", store / "config" / "topics.json", "--format", "jsonl").rows()
    assert config["content"]["topicConfigTable"]["GammaOrder"]["topicName"] == "GammaOrder"
    offsets = cli("dump", store / "config" / "consumerOffset.json", "--format", "jsonl").rows()[0]["content"]
    assert all(queue.isdigit() for table in offsets["offsetTable"].values() for queue in table)
    assert cli("dump", store / "lock", "--format", "jsonl").rows()[0]["content"] == "lock"
    assert cli("dump", store / "abort.bak").code == 0


def test_config_with_garbage(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    path.write_bytes(b'{"offsetTable":{"T@G":{0:12}}}\x00\x00{')
    good, bad = cli("dump", path, "--format", "jsonl").rows()
    assert good["content"] == {"offsetTable": {"T@G": {"0": 12}}}
    assert (bad["kind"], bad["start"], bad["end"]) == ("garbage", 30, 33)
    path.write_bytes(b'{"a":1e999,"b":[-1e999],"c":"\\ud800",3:"\xff"}')
    (odd,) = cli("dump", path, "--format", "jsonl").rows()
    assert odd["content"] == {"a": "inf", "b": ["-inf"], "c_utf16": "2AA=", "3_b64": "/w=="}
    assert '"3": "\\xff"' in cli("dump", path).out
    path.write_bytes(b'{"offsetTable":{"T@')
    (broken,) = cli("dump", path, "--format", "jsonl").rows()
    assert broken["kind"] == "unreadable"


def test_a_directory_of_several_kinds(cli: Cli, store_dir: Store, tmp_path: Path) -> None:
    store = store_dir("5.3.3-basic")
    every = cli("dump", store, "--kind", "all", "--format", "jsonl").rows()
    assert {row["file"].split("/")[0] for row in every} >= {
        "commitlog",
        "consumequeue",
        "index",
        "checkpoint",
    }
    refused = cli("dump", store, "--kind", "all", "--format", "csv")
    assert refused.code == 16
    assert "--kind" in refused.err
    assert cli("dump", store, "--format", "arrow", "-o", tmp_path / "log.arrow").code == 0
    table = pa.ipc.open_stream(tmp_path / "log.arrow").read_all()
    assert table.num_rows == len([row for row in every if row["file"].startswith("commitlog")])
    assert cli("dump", store, "--format", "jsonl", "-o", store / "log").code == 16


def test_files_out_of_their_store(cli: Cli, store_dir: Store, tmp_path: Path) -> None:
    store = store_dir("4.9.8-multiseg")
    names = sorted((store / "commitlog").iterdir())
    copy = tmp_path / "a-segment"
    copy.write_bytes(names[1].read_bytes())
    stated = cli("dump", copy, "--format", "jsonl").rows()
    there = cli("dump", names[1], "--format", "jsonl").rows()
    assert [row.get("physical_offset") for row in stated] == [row.get("physical_offset") for row in there]
    assert not any("physical-offset" in row.get("faults", ()) for row in stated)
    unit = store / "consumequeue" / "Seg0" / "0" / "0".zfill(20)
    lone = tmp_path / "units"
    lone.write_bytes(unit.read_bytes())
    rows = cli("dump", lone, "--kind", "consumequeue", "--start-offset", 1200, "--format", "jsonl").rows()
    assert rows[0]["queue_offset"] == 60


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("checkpoint", "--topic", "x"), "--topic has no meaning for a checkpoint"),
        (("index", "--topic", "x"), "give --key, too"),
        (("index", "--key", "x"), "give --topic, too"),
        (("commitlog", "--slot", "1"), "--slot has no meaning for a commit log file"),
        (("index", "--slot", "53"), "the file has the slots 0 to 52"),
        (("commitlog", "--hex", "--format", "json"), "--hex needs --format text"),
        (("commitlog", "--queue-offset", "a:b"), "neither N nor FROM:TO"),
        (("commitlog", "--begin", "noon"), "neither milliseconds nor a date"),
        (("checkpoint", "--kind", "all"), "--kind all is for a store"),
    ],
)
def test_usage_errors(cli: Cli, store_dir: Store, arguments: tuple[str, ...], said: str) -> None:
    first, *others = arguments
    ended = cli("dump", store_dir("5.3.3-basic") / first, *others)
    assert ended.code == 16
    assert said in ended.err


def test_json_document(cli: Cli, store_dir: Store) -> None:
    document = json.loads(cli("dump", store_dir("5.3.3-basic") / "checkpoint", "--format", "json").out)
    assert document["schema_version"] == 1
    assert document["kind"] == "rocketfsck.dump"
    assert [row["kind"] for row in document["rows"]] == ["checkpoint", "zero"]


def test_limit_and_nothing(cli: Cli, store_dir: Store) -> None:
    store = store_dir("5.3.3-basic")
    assert len(cli("dump", store, "--limit", 3, "--format", "jsonl").rows()) == 3
    assert cli("dump", store, "--limit", 0).out == ""
    nothing = cli("dump", store, "--topic", "NoSuchTopic")
    assert (nothing.code, nothing.out) == (0, "nothing matches\n")


def test_stale_records_are_marked(cli: Cli, store_dir: Store) -> None:
    """Behind the end of the log (77760), in a dump of the store and of the file alone; `query id` agrees."""
    store = store_dir("4.9.8-ghosttail")
    for path in (store, store / "commitlog" / "00000000000000065536"):
        rows = cli("dump", path, "--format", "jsonl").rows()
        stale = [row for row in rows if row.get("reason") == "stale"]
        records = [row for row in rows if row["kind"] == "record"]
        assert stale == [row for row in records if row["physical_offset"] >= 77760]
        assert len(stale) > 3
        text = cli("dump", path).out.splitlines()
        note = "stale: after the end of the log, left by a truncation"
        assert len([line for line in text if note in line]) == len(stale)
    key = stale[0]["unique_key"]
    (only,) = cli("dump", store, "--key", key, "--format", "jsonl").rows()
    assert only["reason"] == "stale"
    ended = cli("query", "id", store, key)
    assert ended.code == 4
    assert "leads to a stale record" in ended.out
    assert "stale" not in cli("dump", store_dir("4.9.8-basic")).out
