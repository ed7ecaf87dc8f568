"""What a broker would refuse is refused, with the message's number, and nothing is left of the store."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.record import Host, InnerItem
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import (
    EndState,
    Event,
    Expiry,
    Kind,
    MessageError,
    OutgoingMessage,
    Restart,
    WriteOptions,
    op_message,
    write_store,
)

NOW = 1_700_000_000_000
SMALL = Geometry(4096, 200, 92, 100, 4, 10)
GOOD = OutgoingMessage("T", b"body", NOW, properties={"KEYS": "a b", "TAGS": "t"})
ITEMS = (InnerItem(b"one"), InnerItem(b"two"))


def _options(**changed: Any) -> WriteOptions:
    return WriteOptions(**{"version": "5.3.3", "geometry": SMALL, "sync": False, **changed})


BAD_MESSAGES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"topic": ""}, {}, "directory"),
    ({"topic": "a/b"}, {}, "directory"),
    ({"topic": ".."}, {}, "directory"),
    ({"topic": "t" * 128}, {}, "limit is 127"),
    ({"topic": "主" * 100}, {}, "limit is 255"),
    ({"topic": "主" * 60}, {}, "negative"),
    ({"topic": "%RETRY%" + "g" * 130}, {"version": "5.0.0"}, "limit is 127"),
    ({"topic": "%RETRY%" + "g" * 130, "kind": Kind.LEGACY_BATCH, "items": ITEMS, "body": b""}, {}, "127"),
    ({"topic": "a\ud800"}, {}, "UTF-8"),
    ({"queue_id": -1}, {}, "queue_id"),
    ({"queue_id": True}, {}, "queue_id"),
    ({"flag": 1 << 31}, {}, "flag"),
    ({"store_timestamp": 1 << 63}, {}, "store_timestamp"),
    ({"born_timestamp": 1 << 63}, {}, "born_timestamp"),
    ({"sys_flag": 0x800}, {}, "sys_flag"),
    ({"sys_flag": 0xC0}, {}, "inner batch"),
    ({"sys_flag": 0x100}, {}, "without the compressed bit"),
    ({"sys_flag": 0x701}, {}, "undefined"),
    ({"sys_flag": 0x8, "kind": Kind.PREPARED}, {}, "not fit a prepared"),
    ({"born_host": Host(b"abc", 1)}, {}, "born_host"),
    ({"store_host": Host(bytes(4), 70000)}, {}, "store_host"),
    ({"born_host": Host(bytes(16), 1)}, {"version": "4.5.2"}, "IPv6"),
    ({"properties": {"a\x01": "b"}}, {}, "separator"),
    ({"properties": {"a": "b\x02"}}, {}, "separator"),
    ({"properties": {"": "b"}}, {}, "without a name"),
    ({"properties": {"a": "b" * 32768}}, {}, "32,767"),
    ({"properties": b"x" * 32768}, {}, "32,767"),
    ({"properties": b"x" * 32760}, {"append_property_crc": True}, "with their CRC"),
    ({"properties": {"DELAY": "soon"}}, {}, "not a number"),
    ({"delay_level": 3}, {"delay_levels": {}}, "no delay levels"),
    ({"items": ITEMS}, {}, "items in a normal"),
    ({"kind": Kind.HALF}, {"version": "4.2.0"}, "half topic"),
    ({"kind": Kind.HALF, "delay_level": 2}, {}, "cannot be delayed"),
    ({"kind": Kind.HALF, "multi_dispatch": ("%LMQ%a",)}, {"multi_dispatch": True}, "only normal"),
    ({"kind": Kind.LEGACY_BATCH, "items": ITEMS}, {}, "not a body"),
    ({"kind": Kind.LEGACY_BATCH, "body": b""}, {}, "without items"),
    ({"kind": Kind.LEGACY_BATCH, "body": b"", "items": ITEMS, "delay_level": 1}, {}, "delayed"),
    ({"kind": Kind.LEGACY_BATCH, "body": b"", "items": ITEMS}, {"version": "4.0.0"}, "no batches"),
    (
        {"kind": Kind.LEGACY_BATCH, "body": b"", "items": ITEMS},
        {"batch_topics": frozenset("T")},
        "legacy batch in the batch topic",
    ),
    ({"kind": Kind.INNER_BATCH, "body": b"", "items": ITEMS}, {}, "batch topics"),
    (
        {"kind": Kind.INNER_BATCH, "body": b"", "items": ITEMS[:1] * 40000},
        {"batch_topics": frozenset("T")},
        "limit is 32,767",
    ),
    ({"properties": {"INNER_NUM": "1", "INNER_BASE": "0"}}, {}, "outside an inner batch"),
    ({"multi_dispatch": ("%LMQ%a",)}, {}, "exclude"),
    ({"multi_dispatch": ("a",)}, {"multi_dispatch": True}, "dispatches to"),
    ({"multi_dispatch": ("a/b",)}, {"multi_dispatch": True}, "directory"),
    ({"multi_dispatch": ("T",)}, {"multi_dispatch": True, "version": "5.2.0"}, "own"),
    ({"multi_dispatch": ("%LMQ%a", "%LMQ%a")}, {"multi_dispatch": True}, "twice"),
    (
        {"multi_dispatch": ("B",)},
        {"multi_dispatch": True, "version": "5.2.0", "batch_topics": frozenset("B")},
        "batch topic",
    ),
    ({"multi_dispatch": ("%LMQ%a",), "delay_level": 1}, {"multi_dispatch": True}, "delayed"),
    ({"body": bytes(4000)}, {}, "do not fit"),
    ({"body": bytes(1001)}, {"max_message_size": 1000}, "maxMessageSize"),
    ({"body": bytes(950)}, {"max_message_size": 1000, "version": "4.4.0"}, "limit is 1,000"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "options", "words"), BAD_MESSAGES)
def test_message_is_refused(
    message: dict[str, Any], options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(MessageError, match=words) as caught:
        write_store(tmp_path / "store", [GOOD, replace(GOOD, **message)], _options(**options))
    assert caught.value.number == 1
    assert str(caught.value).startswith("message 1: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"geometry": replace(SMALL, commitlog_file_size=99)}, "commitlog_file_size"),
        ({"geometry": replace(SMALL, consumequeue_file_size=30)}, "multiple of 20"),
        ({"geometry": replace(SMALL, entry_count=1)}, "entry_count"),
        ({"geometry": replace(SMALL, slot_count=1 << 29)}, "2 GiB"),
        ({"start_offset": 1}, "multiple"),
        ({"start_offset": -4096}, "not a commit log offset"),
        ({"queue_start_offsets": {("T", 0): -1}}, "cannot begin"),
        ({"version": "4.4.0", "append_property_crc": True}, "property CRC"),
        ({"version": "4.4.0", "multi_dispatch": True}, "multi-dispatch"),
        ({"version": "4.4.0", "batch_topics": frozenset("T")}, "batch queues"),
        ({"version": "4.0.0", "consumequeue_ext": True}, "consumequeue_ext"),
        ({"time_zone": "Nowhere/Town"}, "time zone"),
        ({"version": "3.2.6"}, "version"),
        ({"config": {"a/b": {}}}, "cannot be a file"),
        ({"config": {"x.json": object()}}, "not a JSON value"),
    ],
)
def test_options_are_refused(changed: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        write_store(tmp_path / "store", [GOOD], _options(**changed))
    assert list(tmp_path.iterdir()) == []


def test_existing_path_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "store"
    target.mkdir()
    (target / "precious").write_text("x")
    with pytest.raises(UsageError, match="exists"):
        write_store(target, [GOOD], _options())
    with pytest.raises(MessageError):
        write_store(target, [replace(GOOD, topic="")], _options(), overwrite=True)
    assert (target / "precious").read_text() == "x"
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_overwrite_and_append_must_be_asked_for_by_name(tmp_path: Path) -> None:
    target = tmp_path / "store"
    write_store(target, [GOOD], _options())
    (target / "config" / "extra.json").write_text("{}")
    written = write_store(target, [GOOD, GOOD], _options(), overwrite=True)
    assert "config/extra.json" not in dict(written.files)
    assert written.record_count == 2
    appended = write_store(target, [GOOD], _options(), append=True)
    assert appended.queues[0].next_offset == 3
    with pytest.raises(UsageError, match="choose one"):
        write_store(target, [GOOD], _options(), append=True, overwrite=True)
    with pytest.raises(StoreError):
        write_store(tmp_path / "none", [GOOD], _options(), append=True)


def test_overwrite_takes_directories_only(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("x")
    (tmp_path / "real").mkdir()
    link.symlink_to(tmp_path / "real")
    for target in (file, link):
        with pytest.raises(UsageError, match="not a directory"):
            write_store(target, [GOOD], _options(), overwrite=True)


@pytest.mark.parametrize("after", [0, 1, 4, 9])
def test_full_disk_leaves_nothing(after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.pwrite, iter(range(1000))

    def full(descriptor: int, data: memoryview, pos: int) -> int:
        if next(calls) >= after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # A disk that fills up writes a part first.
        return real(descriptor, data[: max(len(data) // 2, 1)], pos)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StoreError, match="No space left"):
        write_store(tmp_path / "store", [GOOD] * 60, _options())
    assert list(tmp_path.iterdir()) == []


def test_missing_parent_and_interrupt(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file"):
        write_store(tmp_path / "a" / "store", [GOOD], _options())

    def interrupted() -> Any:
        yield GOOD
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_store(tmp_path / "store", interrupted(), _options())
    assert list(tmp_path.iterdir()) == []


def test_op_messages() -> None:
    assert op_message([7], NOW).body == b"7"
    assert op_message([7, 8], NOW, several=True).body == b"7,8,"
    for offsets in ([], [7, 8]):
        with pytest.raises(MessageError):
            op_message(offsets, NOW)


def _spoil(root: Path, what: str) -> None:
    log = sorted((root / "commitlog").iterdir())
    queue = sorted((root / "consumequeue" / "T" / "0").iterdir())
    if what == "stray":
        (root / "commitlog" / "x.tmp").write_text("")
    elif what == "size":
        os.truncate(log[-1], 10)
    elif what == "gap":
        log[0].unlink()
        log[1].rename(log[0])
    elif what == "body":
        with log[-1].open("r+b") as file:
            file.seek(90)
            file.write(b"\xff")
    elif what == "frame":
        with log[-1].open("r+b") as file:
            file.write((1 << 20).to_bytes(4, "big"))
    elif what == "lengths":
        with log[-1].open("r+b") as file:
            file.seek(84)
            file.write((1).to_bytes(4, "big"))
    elif what == "blank":
        with log[0].open("r+b") as file:
            file.write(bytes(8))
    elif what == "unit":
        queue[-1].write_bytes(bytes(queue[-1].stat().st_size))
    elif what == "index":
        os.truncate(sorted((root / "index").iterdir())[-1], 100)
    elif what == "topics":
        (root / "config" / "topics.json").write_text("{")


@pytest.mark.parametrize(
    "what",
    ["stray", "size", "gap", "body", "frame", "lengths", "blank", "unit", "index", "topics"],
)
def test_damaged_store_is_not_appended_to(what: str, tmp_path: Path) -> None:
    target = tmp_path / "store"
    write_store(target, [GOOD] * 60, _options())
    _spoil(target, what)
    before = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    with pytest.raises(UsageError):
        write_store(target, [GOOD], _options(), append=True)
    assert {path: path.read_bytes() for path in target.rglob("*") if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_store_of_a_killed_broker_is_not_appended_to(tmp_path: Path) -> None:
    options = _options(end_state=EndState.KILLED)
    write_store(tmp_path / "store", [GOOD], options)
    with pytest.raises(UsageError, match="killed"):
        write_store(tmp_path / "store", [GOOD], options, append=True)


def test_append_with_other_batch_topics(tmp_path: Path) -> None:
    write_store(tmp_path / "store", [GOOD], _options())
    with pytest.raises(UsageError, match="batch topic"):
        write_store(tmp_path / "store", [GOOD], _options(batch_topics=frozenset("T")), append=True)


def test_restart_at_no_file(tmp_path: Path) -> None:
    events: list[Event] = [GOOD, Restart(killed=True, scan_from=5), Expiry(1)]
    with pytest.raises(MessageError, match="not the start of a file"):
        write_store(tmp_path / "store", events, _options())
