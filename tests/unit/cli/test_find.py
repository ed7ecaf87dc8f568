"""`find`: all that a text is in a store, with what to run next."""

from __future__ import annotations

import json
import shlex
import shutil
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.formats.record import Host
from rocketfsck.query import evidence
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

STORE = "4.9.8-multiseg"
UNIQUE, KEY, HOST, STORE_MS, OFFSET = (
    "0A1600072F2618B4AAC247B77F1E03EB",
    "K627",
    "10.9.8.7",
    1700000007966,
    1593,
)
"""What the record at a physical offset of the store has."""


def readings(cli: Cli, store: Path, text: str, *options: str) -> dict[str, dict[str, Any]]:
    ended = cli("find", store, text, "--format", "json", *options)
    document = json.loads(ended.out)
    assert (ended.code, document["outcome"]) == ((0, "found") if document["rows"] else (4, "not-found"))
    return {row["reading"]: row for row in document["rows"] if row["kind"] == "evidence"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (UNIQUE, {"unique-key": 1}),
        (KEY, {"key": 3}),
        ("支付", {"tags": 144}),
        (f"{HOST}:43361", {"host": 1}),
        ("10.9.8", {}),
        (str(STORE_MS), {"time": 3}),
        ("2023-11-14T22:13:27.966Z", {"time": 3}),
        (str(OFFSET), {"physical-offset": 1, "text": 1}),
        (hex(OFFSET), {"physical-offset": 1}),
        ("Seg0", {"topic": 655}),
        ("Seg0/2/0", {"queue-offset": 1}),
        ("/broker/store/commitlog/00000000000000131072", {"file": 0}),
        ("no such thing", {}),
    ],
)
def test_a_text_is_all_that_it_may_be(
    cli: Cli, store_dir: Directory, text: str, expected: dict[str, int]
) -> None:
    found = readings(cli, store_dir(STORE), text)
    assert {reading: row["count"] for reading, row in found.items()} == expected


def test_an_offset_id_and_a_group_are_found(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    store = shutil.copytree(store_dir("5.3.3-basic"), tmp_path / "store")
    [row] = json.loads(cli("query", "scan", store, "offset >= 0", "--limit", "1", "--format", "json").out)[
        "rows"
    ]
    assert readings(cli, store, row["offset_message_id"])["offset-id"]["count"] == 1
    config = store / "config" / "consumerOffset.json"
    config.parent.mkdir(exist_ok=True)
    config.write_text(json.dumps({"offsetTable": {f"{row['topic']}@someone": {"0": 1}}}))
    says = readings(cli, store, "someone")["group"]["says"]
    assert says.startswith("a consumer group of 1 topic and 1 queue, ")
    config.write_text("{")
    assert readings(cli, store, "someone") == {}


@pytest.mark.parametrize("text", [UNIQUE, KEY, HOST, str(STORE_MS), str(OFFSET), "Seg0", "Seg0/2/0", 'a"\\b'])
def test_what_is_said_next_can_be_run(cli: Cli, store_dir: Directory, text: str) -> None:
    for row in readings(cli, store_dir(STORE), text).values():
        assert cli(*shlex.split(row["command"])[1:]).code == 0, row["command"]


def test_text_names_what_it_is_and_limits_messages(cli: Cli, store_dir: Directory) -> None:
    store = store_dir(STORE)
    ended = cli("find", store, KEY, "--limit", "1")
    assert ended.out.startswith("K627 is a key of 3 messages\n")
    assert ended.out.count("2023-11-14T") == 1
    ended = cli("find", store, "no\x1bthing")
    assert ended.code == 4
    assert "nothing in this store is no\\x1bthing" in ended.out
    assert cli("find", store, "").code == 16


def test_a_scan_that_ends_early_says_so(
    cli: Cli, store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "HIT_LIMIT", 2)
    found = readings(cli, store_dir(STORE), KEY)["key"]
    assert (found["count"], found["is_counted"]) == (2, False)
    assert found["says"] == "a key of at least 2 messages"


def _host(address: str, port: int) -> Host:
    return Host(ip_address(address).packed, port)


def test_addresses_of_both_kinds(cli: Cli, tmp_path: Path) -> None:
    messages = [
        OutgoingMessage(topic="T", body=b"x", born_host=_host("2001:db8::5", 7000)),
        OutgoingMessage(topic="T", body=b"x", born_host=_host("10.0.0.10", 7000)),
    ]
    options = WriteOptions(geometry=Geometry(commitlog_file_size=1 << 16))
    write_store(tmp_path / "store", messages, options)
    for text, count in (
        ("2001:DB8::5", 1),
        ("[2001:db8::5]:7000", 1),
        ("10.0.0.1", 0),
        ("10.0.0.10:7000", 1),
    ):
        found = readings(cli, tmp_path / "store", text)
        assert found.get("host", {"count": 0})["count"] == count, text


def test_masks_hold(cli: Cli, store_dir: Directory) -> None:
    ended = cli("find", store_dir(STORE), KEY, "--mask")
    assert ended.code == 0
    assert KEY not in ended.out
