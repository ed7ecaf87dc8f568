"""Names and bytes made to deceive: nothing of them acts on a terminal, a path or a document."""

from __future__ import annotations

import csv
import io
import json
import os
import random
from base64 import b64decode
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketfsck.cli.dump.item import DATABASE, KINDS
from rocketfsck.formats.consumequeue import UNIT
from rocketfsck.formats.record import Host, Record, body_crc, encode_record

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

HOSTILE = [
    b"\x1b[2J\x1b[31mred",
    b"%n%s%x",
    b"../../../etc/passwd",
    b"two\nlines\r\n",
    b"\xe2\x80\xaetxt.exe",
    b"\xff\xfe\x00",
    b"\x9b31m\x07",
    b"=cmd|' /C calc'!A0",
    b"\xed\xa0\x80",
]
HOST = Host(b"\x0a\x00\x00\x01", 10911)


def _record(topic: bytes, offset: int, properties: bytes, body: bytes = b"\x1b]0;owned\x07") -> bytes:
    record = Record(
        total_size=91 + len(body) + len(topic) + len(properties),
        magic_code=-626843481,
        body_crc=body_crc(body),
        queue_id=0,
        flag=0,
        queue_offset=0,
        physical_offset=offset,
        sys_flag=0,
        born_timestamp=1,
        born_host=HOST,
        store_timestamp=1700000000000,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body_length=len(body),
        body=body,
        topic=topic,
        properties_length=len(properties),
        properties=properties,
    )
    return encode_record(record)


@pytest.fixture
def hostile_log(tmp_path: Path) -> Path:
    data = b""
    for name in HOSTILE:
        data += _record(name, len(data), b"KEYS\x01" + name + b"\x02TAGS\x01" + name + b"\x02")
    path = tmp_path / "commitlog" / "0".zfill(20)
    path.parent.mkdir()
    path.write_bytes(data.ljust(65536, b"\0"))
    return path


def _is_safe(text: str) -> bool:
    return all(line.isprintable() for line in text.removesuffix("\n").split("\n"))


@pytest.mark.parametrize(
    "options",
    [(), ("-v",), ("--hex",), ("--body", "text"), ("--body", "text", "-v"), ("--hex", "--body", "text")],
)
def test_text_is_safe(cli: Cli, hostile_log: Path, options: tuple[str, ...]) -> None:
    ended = cli("dump", hostile_log, *options)
    assert ended.code == 0
    assert _is_safe(ended.out)
    assert "\\x1b[2J" in ended.out
    assert "%n%s%x" in ended.out


@pytest.mark.parametrize("output_format", ["json", "jsonl"])
def test_json_is_safe_and_whole(cli: Cli, hostile_log: Path, output_format: str) -> None:
    out = cli("dump", hostile_log, "--format", output_format, "--body", "text").out
    assert _is_safe(out)
    assert out.isascii()
    rows = (
        [json.loads(line) for line in out.splitlines()]
        if output_format == "jsonl"
        else json.loads(out)["rows"]
    )
    topics = [
        row["topic"].encode() if "topic" in row else b64decode(row["topic_b64"])
        for row in rows
        if row["kind"] == "record"
    ]
    assert topics == HOSTILE


def test_csv_shows_every_name(cli: Cli, hostile_log: Path) -> None:
    """What is no text is in Base64; control characters are escapes, and what looks like a formula is none."""
    out = cli("dump", hostile_log, "--format", "csv").out
    rows = [row for row in csv.DictReader(io.StringIO(out, newline="")) if row["kind"] == "record"]
    assert [b64decode(row["topic_b64"]) or row["topic"] for row in rows] == [
        "\\x1b[2J\\x1b[31mred",
        "%n%s%x",
        "../../../etc/passwd",
        "two\\nlines\\r\\n",
        "\u202etxt.exe",
        b"\xff\xfe\x00",
        b"\x9b31m\x07",
        "'=cmd|' /C calc'!A0",
        b"\xed\xa0\x80",
    ]


def test_hostile_directory_names(cli: Cli, tmp_path: Path) -> None:
    names = [name for name in HOSTILE if b"/" not in name and b"\0" not in name]
    for number, name in enumerate(names):
        queue = tmp_path / "store" / "consumequeue" / os.fsdecode(name) / "0"
        queue.mkdir(parents=True)
        unit = UNIT.build({"offset": number, "size": 100, "tagsCode": 0})
        (queue / "0".zfill(20)).write_bytes(unit.ljust(200, b"\0"))
    store = tmp_path / "store"
    for arguments in (
        ["info", store],
        ["info", store, "-v"],
        ["dump", store / "consumequeue"],
        ["info", store / "consumequeue" / os.fsdecode(names[0]) / "0" / "0".zfill(20)],
    ):
        ended = cli(*arguments)
        assert ended.code == 0
        assert _is_safe(ended.out)
    document = json.loads(cli("info", store, "--format", "json").out)
    topics = [q["topic"].encode() if "topic" in q else b64decode(q["topic_b64"]) for q in document["queues"]]
    assert sorted(topics) == sorted(names)


def test_hostile_arguments(cli: Cli, tmp_path: Path) -> None:
    for arguments in (
        ["info", tmp_path / "\x1b[31m\n"],
        ["explain", "\x1b[31m"],
        ["\x1b[31m"],
        ["dump", tmp_path, "--kind", "\x1b[31m"],
        ["dump", "\udcff"],
    ):
        ended = cli(*arguments)
        assert ended.code in (8, 16)
        assert _is_safe(ended.err)
        assert "Traceback" not in ended.err


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith(DATABASE)])
def test_a_file_is_no_database(cli: Cli, tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_bytes(b"rows")
    ended = cli("dump", tmp_path / "file", "--kind", kind)
    assert ended.code == 16 and "is for a store or a directory in one" in ended.err


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith(DATABASE)])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.binary(max_size=300))
def test_any_bytes_as_any_kind(cli: Cli, tmp_path: Path, kind: str, data: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    ended = cli("dump", path, "--kind", kind, "--format", "jsonl")
    assert ended.code == 0, ended.err
    rows = ended.rows()
    assert [row["start"] for row in rows] == [0, *(row["end"] for row in rows[:-1])]
    assert rows[-1]["end"] == len(data)
    for options in (["--hex"], ["-v"]):
        ended = cli("dump", path, "--kind", kind, *options)
        assert ended.code == 0, ended.err
        assert _is_safe(ended.out)


@pytest.mark.parametrize("seed", range(12))
def test_mutated_files(cli: Cli, store_dir: Directory, tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    store = store_dir(source.choice(["4.9.8-cqext", "5.0.0-innerbatch", "5.1.3-basic"]))
    for path in sorted(file for file in store.rglob("*") if file.is_file()):
        data = bytearray(path.read_bytes())
        for _ in range(source.randint(1, 8) if data else 0):
            at = source.randrange(len(data))
            data[at : at + source.randint(0, 8)] = source.randbytes(source.randint(0, 8))
        copy = tmp_path / path.relative_to(store)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)
        ended = cli("dump", copy, "--format", "jsonl")
        assert ended.code == 0, ended.err
        rows = ended.rows()
        assert [row["start"] for row in rows] == [0, *(row["end"] for row in rows[:-1])]
        assert rows[-1]["end"] == len(data)
        assert cli("dump", copy, "--hex").code == 0
        assert cli("info", copy).code == 0
    assert cli("info", tmp_path).code == 0
