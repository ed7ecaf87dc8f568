"""info against what the brokers said of their stores."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import STORE_NAMES, Directory, Document
from tests.unit.cli.conftest import Cli

LIVE_STORES = [name for name in STORE_NAMES if "kill" not in name and name != "4.9.8-ghosttail"]
"""Those whose last process said what it held. Behind the ends of ghosttail's queues old units look valid:
only a check can tell."""


def _info(cli: Cli, path: Path, *options: str) -> dict[str, Any]:
    ended = cli("info", path, "--format", "json", *options)
    assert ended.code == 0, ended.err
    document: dict[str, Any] = json.loads(ended.out)
    assert document["schema_version"] == 1
    return document


@pytest.mark.parametrize("name", LIVE_STORES)
def test_queue_ends_are_the_brokers(cli: Cli, store_dir: Directory, manifest: Document, name: str) -> None:
    facts = _info(cli, store_dir(name))
    found = {(queue["topic"], queue["queue_id"]): queue for queue in facts["queues"]}
    live = manifest(name)["phases"][-1]["live"]["queues"]
    assert live
    for queue in live:
        if not queue["units"]:
            continue
        stated = found[queue["topic"], queue["queueId"]]
        last = queue["units"][-1]
        count = last[4] if len(last) > 4 else 1
        assert stated["max_offset"] == last[0] + count
        assert stated["physical_end_offset"] == last[1] + last[2]
        assert stated["min_offset"] <= queue["units"][0][0]


@pytest.mark.parametrize("name", STORE_NAMES)
def test_headers_and_sizes(cli: Cli, store_dir: Directory, manifest: Document, name: str) -> None:
    facts, said = _info(cli, store_dir(name)), manifest(name)
    assert facts["kind"] == "rocketfsck.info.store"
    assert facts["abort"]["present"] is bool(said["abortPresent"])
    if facts["checkpoint"] is not None:
        stated = said["checkpointOnDisk"]
        assert {field: facts["checkpoint"][field] for field in stated if field in facts["checkpoint"]} == {
            field: value for field, value in stated.items() if field in facts["checkpoint"]
        }
    headers = {header["name"]: header for header in said["indexHeadersOnDisk"]}
    assert {Path(index["file"]).name for index in facts["indexes"]} == set(headers)
    for index in facts["indexes"]:
        header = headers[Path(index["file"]).name]
        assert all(index[field] == header[field] for field in header if field in index)
    assert said["finalVersion"].split()[0] in facts["written_by"]["versions"]
    sizes = {file["path"]: file["size"] for file in said["files"]}
    for log in facts["commitlog"]["files"]:
        assert sizes[log["file"]] == log["size"]


def test_text(cli: Cli, store_dir: Directory) -> None:
    out = cli("info", store_dir("5.3.3-basic")).out
    for line in (
        "abort: absent, the last stop was clean",
        "Commit log: 1 file, 64.0 KiB, physical offsets 0 to 65536",
        "Consume queues: 24 queues of 16 topics",
        "… 13 more (-v shows all)",
        "Index: 2 files, 10.5 KiB, each with 53 slots and 256 entries",
    ):
        assert line in out
    everything = cli("info", "-v", store_dir("5.3.3-basic")).out
    assert "more (-v shows all)" not in everything
    assert len(everything.splitlines()) > len(out.splitlines())


def test_a_live_broker_is_told(cli: Cli, store_copy: Directory) -> None:
    store = store_copy("5.3.3-basic")
    code = (
        "import fcntl, os, sys\n"
        f"descriptor = os.open({os.fspath(store / 'lock')!r}, os.O_RDWR)\n"
        "fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == b"held\n"
        facts = _info(cli, store)
        text = cli("info", store).out
    assert facts["live"]["state"] == "held"
    assert facts["live"]["pid"] == broker.pid
    assert f"broker: held (process {broker.pid} holds a record lock" in text


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("checkpoint", {"file_kind": "checkpoint", "physic_msg_timestamp": 1700000159163}),
        (
            "consumequeue/GammaOrder/0/00000000000000000000",
            {"file_kind": "consumequeue", "topic": "GammaOrder", "queue_id": 0, "min_offset": 0},
        ),
        (
            "commitlog/00000000000000000000",
            {"file_kind": "commitlog", "first_store_timestamp": 1700000000000},
        ),
        ("index/20261120140457906", {"file_kind": "index", "slot_count": 53, "index_count": 256}),
        ("config/topics.json", {"file_kind": "config"}),
    ],
)
def test_single_files(cli: Cli, store_dir: Directory, place: str, expected: dict[str, Any]) -> None:
    path = store_dir("5.3.3-basic") / place
    facts = _info(cli, path)
    assert facts["kind"] == "rocketfsck.info.file"
    assert {name: facts[name] for name in expected} == expected
    assert facts["size"] == path.stat().st_size
    assert cli("info", path).code == 0


def test_hints(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("maxHashSlotNum=64\nmaxIndexNum=254\n")
    facts = _info(cli, store_dir("5.3.3-basic"), "--broker-conf", str(conf), "--broker-version", "5.2.0")
    assert facts["written_by"]["given"] is True
    assert facts["written_by"]["dialect"] == "5.2.0"
    assert facts["geometry"]["slot_count"] == {
        "value": 64,
        "source": "given",
        "note": facts["geometry"]["slot_count"]["note"],
    }
    assert cli("info", store_dir("5.3.3-basic"), "--broker-version", "nonsense").code == 16


def test_unreadable_parts_are_told(cli: Cli, store_copy: Directory) -> None:
    store = store_copy("5.3.3-basic")
    (store / "checkpoint").write_bytes(b"\0" * 10)
    (store / "abort").write_bytes(b"\x1b[31m")
    (store / "stray\n").write_bytes(b"x")
    facts = _info(cli, store)
    assert "needs more bytes" in facts["checkpoint"]["error"]
    assert facts["abort"]["present"] is True
    assert [stray["file"] for stray in facts["strays"]] == ["stray\n"]
    out = cli("info", store).out
    assert "stray\\n" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("name", "data", "broker", "number"),
    [
        ("brokerIdentity", b"East#broker-b#3", "broker-b", 3),
        ("brokerIdentity-temp", b"East#broker-c#4#code", "broker-c", 4),
    ],
)
def test_the_identity(
    cli: Cli, store_dir: Directory, tmp_path: Path, name: str, data: bytes, broker: str, number: int
) -> None:
    """The first file that a broker can take counts."""
    root = Path(shutil.copytree(store_dir("5.3.3-basic"), tmp_path / "store"))
    assert _info(cli, root)["identity"] is None
    assert "  identity: " not in cli("info", root).out
    (root / "brokerIdentity").write_bytes(b"no identity")
    (root / "brokerIdentity-temp").write_bytes(b"East#broker-d#5#code")
    (root / "brokerIdentity.bak").write_bytes(b"East#broker-e#6")
    (root / name).write_bytes(data)
    facts = {"file": name, "cluster": "East", "broker_name": broker, "broker_id": number}
    assert _info(cli, root)["identity"] == facts
    line = f"  identity: broker {broker}, id {number}, cluster East ({name})"
    assert line in cli("info", root).out.splitlines()


def test_an_identity_that_no_broker_takes(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(store_dir("5.3.3-basic"), tmp_path / "store"))
    (root / "brokerIdentity").write_bytes(b"East#broker-b")
    found = _info(cli, root)["identity"]
    assert found["file"] == "brokerIdentity"
    assert "not cluster#brokerName#brokerId" in found["error"]
    assert "  identity: brokerIdentity: not cluster#brokerName#brokerId" in cli("info", root).out


def test_the_node_of_dledger(cli: Cli, real_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(real_dir("4.9.7-dledger-mixed"), tmp_path / "store"))
    facts = {"node": "n0", "group": None, "current_term": 0, "voted_for": "n0", "committed_index": 144}
    assert _info(cli, root)["dledger"] == facts
    wide = ("--broker-conf", tmp_path / "broker.conf")
    (tmp_path / "broker.conf").write_text("dLegerGroup=group-a\n")
    assert _info(cli, root, *map(str, wide))["dledger"] == {**facts, "group": "group-a"}
    said = cli("info", root, *wide).out
    assert "  dledger: node n0 of group-a; term 0, voted for n0; group agreement up to entry 144\n" in said
    (root / "dledger-n0/currterm").write_text("currTerm=x\n")
    (root / "dledger-n0/checkpoint").unlink()
    said = " ".join(cli("info", root).out.split())
    assert (
        "dledger: node n0 of a group that only broker.conf names; term unknown, voted for nobody; no "
        "recorded group agreement"
    ) in said
    (root / "dledger-n0/currterm").write_bytes(bytes(1 << 17))
    assert "error" in _info(cli, root)["dledger"]
    assert "\n  dledger:" in cli("info", root).out
    assert _info(cli, real_dir("5.5.0-long"))["dledger"] is None
