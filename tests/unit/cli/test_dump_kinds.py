"""Kinds of files that no broker-written store here holds: made from their layouts, shown field by field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketfsck.formats.consumequeue import BATCH_UNIT, PRE_BLANK_UNIT, SPARSE_END_UNIT, UNIT
from rocketfsck.formats.dledger import DLEDGER_BLANK, DLEDGER_ENTRY, DLEDGER_INDEX
from rocketfsck.formats.layout import shown_name
from rocketfsck.formats.smallfiles import EpochEntry, encode_epochs
from rocketfsck.formats.timer import TIMER_CHECK, TIMER_LOG_UNIT, TIMER_WHEEL_SLOT, timer_log_filler

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

NAME = "0".zfill(20)


def _file(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _timer_unit(prev: int, magic: int, delay: int) -> bytes:
    return TIMER_LOG_UNIT.build({
        "size": 52,
        "prevPos": prev,
        "magic": magic,
        "currWriteTime": 1700000000000,
        "delayedTime": delay,
        "offsetPy": 4096,
        "sizePy": 200,
        "hashCodeOfRealTopic": 7,
        "reservedValue": 0,
    })  # fmt: skip


def test_timer_log(cli: Cli, tmp_path: Path) -> None:
    units = _timer_unit(-1, 1, 5000) + _timer_unit(0, 4, 90000)
    path = _file(tmp_path / "timerlog" / NAME, units + timer_log_filler(96) + bytes(80))
    first, second, filler, rest = cli("dump", path, "--format", "jsonl").rows()
    assert (first["timer_log_offset"], first["deliver_timestamp"]) == (0, 1700000005000)
    assert (second["prev_pos"], second["magic"], second["physical_offset"]) == (0, 4, 4096)
    assert (filler["kind"], filler["size"], filler["end"]) == ("filler", 96, 120)
    assert (rest["kind"], rest["end"]) == ("zero", 200)
    (late,) = cli("dump", path, "--begin", "2023-11-14T22:14:00", "--format", "jsonl").rows()
    assert late["start"] == 52
    text = cli("dump", path).out
    assert "2023-11-14T22:13:25.000Z" in text
    assert "delete" in text
    bytes_shown = cli("dump", path, "--hex").out
    assert "magic = default" in bytes_shown
    assert "| delayed_time = 5000\n" in bytes_shown  # a duration, not a time


def test_timer_log_with_damage(cli: Cli, tmp_path: Path) -> None:
    path = _file(tmp_path / "timerlog" / NAME, _timer_unit(-1, 1, 0) + b"\x07" * 70)
    unit, rest = cli("dump", path, "--format", "jsonl").rows()
    assert (unit["end"], rest["kind"], rest["end"]) == (52, "unknown", 122)


def test_timer_wheel(cli: Cli, tmp_path: Path) -> None:
    slot = TIMER_WHEEL_SLOT.build(
        {"slotTime": 1700000005, "firstPos": 0, "lastPos": 52, "num": 2, "magic": 1}
    )
    path = _file(tmp_path / "timerwheel", bytes(32 * 5) + slot + bytes(32 * 1000))
    before, used, after = cli("dump", path, "--format", "jsonl").rows()
    assert (before["count"], used["slot"], used["last_pos"], after["count"]) == (5, 5, 52, 1000)
    (one,) = cli("dump", path, "--slot", 5, "--format", "jsonl").rows()
    assert one["message_count"] == 2
    assert cli("dump", path, "--slot", 6).out == "nothing matches\n"


def test_timer_check(cli: Cli, tmp_path: Path) -> None:
    values = {field.name: 1700000000000 + at for at, field in enumerate(TIMER_CHECK.fields)}
    path = _file(tmp_path / "config" / "timercheck", TIMER_CHECK.build(values).ljust(4096, b"\0"))
    found, _ = cli("dump", path, "--format", "jsonl").rows()
    assert {name: found[shown_name(name)] for name in values} == values
    assert cli("info", path).code == 0


def test_dledger(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    log = (store_dir("4.9.8-basic") / "commitlog" / NAME).read_bytes()
    record = log[: int.from_bytes(log[:4], "big")]
    entry = DLEDGER_ENTRY.build({
        "magic": 1,
        "size": 48 + len(record),
        "index": 0,
        "term": 3,
        "pos": 0,
        "channel": 0,
        "chainCrc": 0,
        "bodyCrc": 0,
        "bodyLen": len(record),
    })  # fmt: skip
    end = len(entry) + len(record)
    data = entry + record + DLEDGER_BLANK.build({"magic": -1, "size": 1000}) + bytes(992)
    path = _file(tmp_path / "dledger-n0" / "data" / NAME, data)
    found, blank, rest = cli("dump", path, "--format", "jsonl").rows()
    assert (found["kind"], found["term"], found["end"]) == ("entry", 3, end)
    assert found["topic"].startswith("Shop")
    assert (blank["kind"], blank["size"], rest["end"]) == ("blank", 1000, len(data))
    text = cli("dump", path, "--hex").out
    assert "body_size = " in text
    assert "store_host = " in text
    units = DLEDGER_INDEX.build({"magic": 1, "pos": 0, "size": end, "index": 0, "term": 3})
    units += DLEDGER_INDEX.build({"magic": 1, "pos": end, "size": 9, "index": 7, "term": 3}) + bytes(64)
    path = _file(tmp_path / "dledger-n0" / "index" / NAME, units)
    first, second, zeros = cli("dump", path, "--format", "jsonl").rows()
    assert (first["size"], second["index"], zeros["count"]) == (end, 7, 2)
    assert "at the place of entry 1" in cli("dump", path).out


@pytest.mark.parametrize(("name", "plain"), [("5.5.0-dledger", False), ("4.9.7-dledger-mixed", True)])
def test_the_messages_of_a_log_in_entries(cli: Cli, real_dir: Directory, name: str, plain: bool) -> None:
    """DLedger's files are the commit log, or its second part: their records are shown as all others are."""
    root = real_dir(name)
    rows = cli("dump", root, "--format", "jsonl").rows()
    records = [row for row in rows if row["kind"] == "record"]
    entries = cli("dump", root, "--kind", "dledger-data", "--format", "jsonl").rows()
    offsets = [row["physical_offset"] for row in entries if row.get("physical_offset") is not None]
    inside = [row for row in records if row["file"].startswith("dledger-")]
    assert [row["physical_offset"] for row in inside] == offsets != []
    assert ({row["file"].split("/")[0] for row in records} >= {"commitlog"}) is plain
    assert not {row["kind"] for row in rows} & {"damaged", "torn", "unknown", "garbage"}
    topic = inside[-1]["topic"]
    asked = cli("dump", root, "--topic", topic, "--format", "jsonl").rows()
    assert asked == [row for row in records if row["topic"] == topic]


def test_dledger_garbage(cli: Cli, tmp_path: Path) -> None:
    path = _file(tmp_path / "dledger-n0" / "data" / NAME, b"\x01\x02\x03\x04" * 30)
    (row,) = cli("dump", path, "--format", "jsonl").rows()
    assert (row["kind"], row["end"]) == ("unknown", 120)


def test_epochs(cli: Cli, tmp_path: Path) -> None:
    data = encode_epochs([EpochEntry(1, 0), EpochEntry(4, 9000)])
    path = _file(tmp_path / "epochFileCheckpoint", data)
    rows = cli("dump", path, "--format", "jsonl").rows()
    assert [(row.get("epoch"), row.get("start_offset"), row.get("end_offset")) for row in rows[2:]] == [
        (1, 0, 9000),
        (4, 9000, None),
    ]
    assert rows[-1]["end"] == len(data)
    path.write_bytes(data.replace(b"9000", b"9001"))
    (broken,) = cli("dump", path, "--format", "jsonl").rows()
    assert "crc" in broken["error"]


def test_pre_blank_units(cli: Cli, tmp_path: Path) -> None:
    unit = UNIT.build({"offset": 500, "size": 100, "tagsCode": 1700000000000})
    queue = tmp_path / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "2" / "40".zfill(20)
    path = _file(queue, PRE_BLANK_UNIT * 2 + unit + bytes(20))
    rows = cli("dump", path, "--format", "jsonl").rows()
    assert [row["kind"] for row in rows] == ["pre-blank", "pre-blank", "unit", "zero"]
    assert [row.get("queue_offset") for row in rows] == [2, 3, 4, None]
    assert "deliver at 2023-11-14T22:13:20.000Z" in cli("dump", path).out
    assert [
        row["kind"] for row in cli("dump", path, "--physical-offset", "0:", "--format", "jsonl").rows()
    ] == ["unit"]


def test_compaction_queue(cli: Cli, tmp_path: Path) -> None:
    unit = BATCH_UNIT.build({
        "offset": 0,
        "size": 100,
        "tagsCode": 5,
        "storeTime": 1700000000000,
        "msgBaseOffset": 10,
        "batchSize": 3,
        "compactedOffset": -1,
        "reserved": 0,
    })  # fmt: skip
    path = _file(tmp_path / "compaction" / "compactionCq" / "T" / "0" / NAME, unit + SPARSE_END_UNIT + b"x")
    found, end, partial = cli("dump", path, "--format", "jsonl").rows()
    assert (found["topic"], found["msg_base_offset"], end["kind"], partial["kind"]) == (
        "T",
        10,
        "end",
        "partial",
    )
    for wanted, count in (("12", 1), ("13", 0), ("9:11", 1), (":10", 0)):
        rows = cli("dump", path, "--queue-offset", wanted, "--format", "jsonl").rows()
        assert len(rows) == count


def test_raw_and_identity(cli: Cli, tmp_path: Path) -> None:
    path = _file(tmp_path / "whatever", b"\0" * 100 + b"\x01\x02\x03" + b"\0" * 50)
    rows = cli("dump", path, "--format", "jsonl").rows()
    assert [(row["kind"], row["start"], row["end"]) for row in rows] == [
        ("zero", 0, 100),
        ("unknown", 100, 103),
        ("zero", 103, 153),
    ]
    identity = _file(tmp_path / "brokerIdentity", b"c#b#1")
    assert cli("dump", identity, "--format", "jsonl").rows()[0]["content"] == "c#b#1"
    assert "c#b#1" in cli("dump", identity).out


def test_loose_directory(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    source = store_dir("4.9.8-multiseg") / "commitlog"
    loose = tmp_path / "segments"
    for segment in source.iterdir():
        _file(loose / segment.name, segment.read_bytes())
    found = cli("dump", loose, "--format", "jsonl").rows()
    expected = cli("dump", source, "--format", "jsonl").rows()
    assert [(row["start"], row.get("physical_offset")) for row in found] == [
        (row["start"], row.get("physical_offset")) for row in expected
    ]
    (tmp_path / "empty").mkdir()
    nothing = cli("dump", tmp_path / "empty")
    assert (nothing.code, "has no files" in nothing.err) == (8, True)


def test_index_without_geometry(cli: Cli, tmp_path: Path) -> None:
    path = _file(tmp_path / "index" / "20240101000000000", b"\x01" * 77)
    header, rest = cli("dump", path, "--format", "jsonl").rows()
    assert (header["kind"], rest["kind"], rest["end"]) == ("header", "unknown", 77)
    asked = cli("dump", path, "--slots", 3, "--entries", 1, "--format", "jsonl").rows()
    assert asked[-1]["end"] == 77
    assert cli("dump", path, "--slot", 0).code == 16


def test_index_files_far_from_their_place(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    source = sorted((store_dir("4.9.8-multiseg") / "index").iterdir())[-1]
    copy = _file(tmp_path / "copy", source.read_bytes())
    there, here = (cli("dump", path, "--format", "jsonl").rows() for path in (source, copy))
    assert [row["kind"] for row in here] == [row["kind"] for row in there]
    assert here[0]["kind"] == "header"
    damaged = _file(tmp_path / "damaged", bytes(40) + source.read_bytes()[40:])
    assert {row["kind"] for row in cli("dump", damaged, "--format", "jsonl").rows()} != {"header"}
    stated = cli("dump", damaged, "--slots", "128", "--entries", "500", "--format", "jsonl").rows()
    assert [row["kind"] for row in stated].count("slot") == [row["kind"] for row in there].count("slot")
    conf = _file(tmp_path / "broker.conf", b"maxHashSlotNum=128\nmaxIndexNum=500\n")
    words = ("--kind", "index", "--broker-conf", conf, "--format", "jsonl")
    assert cli("dump", damaged, *words).rows() == stated
    sized = _file(tmp_path / "sizes.conf", b"mappedFileSizeCommitLog=4096\n")
    assert cli("dump", copy, "--broker-conf", sized, "--format", "jsonl").rows() == here


@pytest.mark.parametrize("form", ["text", "json", "csv"])
def test_a_kind_that_the_store_has_not(cli: Cli, store_dir: Directory, form: str) -> None:
    store = store_dir("4.9.8-basic")
    ended = cli("dump", store, "--kind", "timerwheel", "--format", form)
    assert ended.code == 0
    assert ended.err == f"Note: {store} has no timer wheel\n"
    rows = {"text": "", "csv": ended.out.splitlines(keepends=True)[0] if ended.out else None}
    assert json.loads(ended.out)["rows"] == [] if form == "json" else ended.out == rows[form]
    assert cli("dump", store, "--kind", "rocksdb").err == f"Note: {store} has no RocksDB\n"
