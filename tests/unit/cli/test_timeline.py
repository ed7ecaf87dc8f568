"""timeline: every kind of event, in the order of time, as readers of timelines take it."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import struct
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.commands.simulate import TEXT_LIMIT, _row
from rocketfsck.query.timeline import GAP_LIMIT, LogMarks, TimelineEvent, log_events
from rocketfsck.query.timers import timed_messages
from rocketfsck.store.opening import open_store

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli
from tests.unit.cli.test_hostile import HOSTILE, _record


def _events(cli: Cli, root: Path, *options: object) -> list[dict[str, Any]]:
    ended = cli("timeline", root, "--format", "jsonl", *options)
    assert (ended.code, ended.err) == (0, "")
    return ended.rows()


def _said(events: list[dict[str, Any]], desc: str) -> list[str]:
    return [event["message"] for event in events if event["timestamp_desc"] == desc]


def test_as_timesketch_imports_it(cli: Cli, store_dir: Directory) -> None:
    events = _events(cli, store_dir("4.9.8-killed"))
    assert events
    for event in events:
        assert event["message"]
        assert event["timestamp_desc"]
        moment = datetime.fromisoformat(event["datetime"])
        assert moment.tzinfo is not None
        assert round(moment.timestamp() * 1e6) == event["timestamp"]
    assert events == sorted(events, key=lambda event: int(event["timestamp"]))
    table = csv.DictReader(io.StringIO(cli("timeline", store_dir("4.9.8-killed"), "--format", "csv").out))
    assert [row["message"] for row in table] == [event["message"] for event in events]


def test_files_brokers_and_topics(cli: Cli, store_dir: Directory) -> None:
    root = store_dir("4.9.8-killed")
    events = _events(cli, root, "--no-check")
    [start] = [event for event in events if event["timestamp_desc"] == "Broker Start"]
    assert start["timestamp"] // 1_000_000 == int((root / "abort").stat().st_mtime)
    assert {event["kind"] for event in events} >= {"file", "broker", "topic"}
    first = _said(events, "First Message Stored")
    last = _said(events, "Last Message Stored")
    assert "first message in commitlog/00000000000000000000" in first
    assert len([text for text in first if text.startswith("first message of ")]) == len(
        [text for text in last if text.startswith("last message of ")]
    )
    assert any(desc.startswith("Checkpoint ") for desc in (event["timestamp_desc"] for event in events))
    assert not _said(events, "Finding")
    with_configs = _events(cli, store_dir("4.9.8-delay"), "--no-check")
    assert any("topics.json" in text for text in _said(with_configs, "Table Changed"))


def test_findings_are_at_the_time_of_their_record(cli: Cli, restart_dir: Directory) -> None:
    events = _events(cli, restart_dir("5.1.3-basic--flip-last-file"))
    [finding] = [event for event in events if event["rule"] == "CL004"]
    assert (finding["severity"], finding["physical_offset"]) == ("error", 26305)
    assert finding["datetime"].startswith("2023-11-14T22:1")
    assert finding["fingerprint"]


def test_deletions(cli: Cli, store_dir: Directory) -> None:
    events = _events(cli, store_dir("4.9.8-expired"), "--no-check")
    [begin] = _said(events, "Begin Of Log")
    assert "earlier messages were deleted" in begin
    assert any("fileReservedTime of 72 h, the default" in text for text in _said(events, "Expiration Time"))


def test_messages_that_wait(cli: Cli, store_dir: Directory) -> None:
    root = store_dir("4.9.8-delay")
    due = [event for event in _events(cli, root, "--no-check") if event["kind"] == "due"]
    text = (root / "config" / "delayOffset.json").read_text()
    offsets = {int(level): int(offset) for level, offset in re.findall(r"(\d+):(\d+)", text)}
    waiting = 0
    for directory in (root / "consumequeue" / "SCHEDULE_TOPIC_XXXX").iterdir():
        [file] = directory.iterdir()
        units = [file.read_bytes()[at : at + 20] for at in range(0, file.stat().st_size, 20)]
        count = sum(unit != bytes(20) for unit in units)
        waiting += count - offsets.get(int(directory.name) + 1, 0)
    assert len(due) == waiting > 0


def test_gaps(cli: Cli, tmp_path: Path) -> None:
    log = tmp_path / "store" / "commitlog" / "0".zfill(20)
    log.parent.mkdir(parents=True)
    data = b""
    for number in range(3):
        raw = bytearray(_record(b"T", len(data), b""))
        at = 1_700_000_000_000 + (0, 60_000, 7_260_000)[number]
        raw[56:64] = at.to_bytes(8, "big")
        data += raw
    log.write_bytes(data.ljust(65536, b"\0"))
    events = _events(cli, tmp_path / "store", "--no-check")
    assert _said(events, "End Of Gap") == ["no message was stored for 2 h, up to this one"]
    assert len(_said(_events(cli, tmp_path / "store", "--no-check", "--gap", "1m"), "End Of Gap")) == 2
    marks = LogMarks((), 1)
    for number in range(GAP_LIMIT + 50):
        marks._keep((number, number, number))
    assert sorted(length for length, _, _ in marks.gaps) == list(range(50, GAP_LIMIT + 50))


def test_times_of_offsets(store_dir: Directory) -> None:
    """The time of an offset inside a record is the record's; there is none before the first."""
    store = open_store(store_dir("4.9.8-multiseg"))
    first = store.commitlog.files[0].start_offset or 0
    second = store.commitlog.files[1].start_offset or 0
    _, times = log_events(store, offsets=[first, first + 1, second, second + 5])
    assert times[first] == times[first + 1] <= times[second] == times[second + 5]


def test_hostile_names_are_printable(cli: Cli, tmp_path: Path) -> None:
    log = tmp_path / "store" / "commitlog" / "0".zfill(20)
    log.parent.mkdir(parents=True)
    data = b""
    for name in HOSTILE:
        data += _record(name, len(data), b"KEYS\x01" + name + b"\x02")
    log.write_bytes(data.ljust(65536, b"\0"))
    for form in ("text", "json", "jsonl", "csv"):
        ended = cli("timeline", tmp_path / "store", "--no-check", "--format", form)
        assert ended.code == 0
        assert all(line.isprintable() for line in ended.out.removesuffix("\n").split("\n"))
    events = _events(cli, tmp_path / "store", "--no-check")
    topics = {event["topic"] for event in events if event["timestamp_desc"] == "First Message Stored"}
    assert "\\x1b[2J\\x1b[31mred" in topics


def test_long_texts_are_cut_and_odd_times_left_out() -> None:
    row = _row(TimelineEvent(1, "x", "ü" * 40_000, "topic", topic="t" * 40_000))
    assert row is not None
    assert len(row["message"].encode()) <= TEXT_LIMIT
    assert row["message"].endswith("ü…")
    assert len(row["topic"].encode()) <= TEXT_LIMIT
    assert _row(TimelineEvent(0, "x", "y", "topic")) is None
    assert _row(TimelineEvent(1 << 62, "x", "y", "topic")) is None


def test_a_file_that_cannot_be_read_tells_its_times(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(store_dir("4.9.8-killed"), tmp_path / "store"))
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text("{")
    (root / "config" / "delayOffset.json").write_text("[]")
    os.truncate(next((root / "index").iterdir()), 8)
    os.truncate(root / "checkpoint", 3)
    events = _events(cli, root, "--no-check")
    assert not [event for event in events if event["timestamp_desc"].startswith("Checkpoint ")]
    assert any("checkpoint was last written" in text for text in _said(events, "Content Modification Time"))


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_tables(cli: Cli, store_dir: Directory, tmp_path: Path, form: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = tmp_path / "rows"
    assert cli("timeline", store_dir("4.9.8-killed"), "--format", form, "-o", target).code == 0
    table = pq.read_table(target) if form == "parquet" else pa.ipc.open_stream(target).read_all()
    assert table.column("message").to_pylist() == [
        event["message"] for event in _events(cli, store_dir("4.9.8-killed"))
    ]


def test_timers_that_wait(cli: Cli, real_dir: Directory) -> None:
    root = real_dir("5.5.0-timer")
    due = [event for event in _events(cli, root, "--no-check") if event["kind"] == "due"]
    timed = list(timed_messages(open_store(root)))
    assert [event["physical_offset"] for event in due] == [
        item.physical_offset for item in sorted(timed, key=lambda item: item.deliver_timestamp or 0)
    ]
    assert timed
    for item in timed:
        text = f"a message of {item.topic} waits on the timer wheel ({item.action.value})"
        assert text in [event["message"] for event in due if event["physical_offset"] == item.physical_offset]


def test_a_delay_queue_without_room(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    """The blanks at a queue's front are passed over; a queue whose units fill its file ends with the file."""
    root = Path(shutil.copytree(store_dir("4.9.8-delay"), tmp_path / "store"))
    [file] = (root / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "2").iterdir()
    (root / "config" / "delayOffset.json").unlink()
    level = "a message of delay level 3 waits"
    before = _said(_events(cli, root, "--no-check"), "Scheduled Delivery").count(level)
    data = file.read_bytes()
    blank = struct.pack(">qiq", 0, 0x7FFFFFFF, 0)
    units = [data[at : at + 20] for at in range(0, len(data), 20)]
    sound = [unit for unit in units if unit != bytes(20)]
    assert before == len(sound) > 1
    file.write_bytes((blank * len(units) + b"".join(sound[1:]))[-len(units) * 20 :])
    assert _said(_events(cli, root, "--no-check"), "Scheduled Delivery").count(level) == before - 1
