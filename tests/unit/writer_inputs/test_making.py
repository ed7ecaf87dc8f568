"""Stores and manifests appear whole or not at all; the manifest says the truth."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store.circumstances import Geometry, Settings
from rocketfsck.writer import EndState, OutgoingMessage, WriteOptions, commitlog, writing
from rocketfsck.writer.disk.confined import open_root
from rocketfsck.writer.manifest import (
    FileSum,
    ManifestLevel,
    crc32_of_zeros,
    manifest_paths,
    options_document,
    sum_files,
)
from rocketfsck.writer.options import options_of_settings
from rocketfsck.writer.storewriter import StoreWriter, put
from rocketfsck.writer.writing import Fill, Sums, make_store

SMALL = Geometry(commitlog_file_size=4096, consumequeue_file_size=200, slot_count=10, entry_count=50)
OPTIONS = WriteOptions(geometry=SMALL, sync=False, batch_topics=frozenset({"Z", "A"}))


def _fill(count: int = 60, fail: BaseException | None = None) -> Fill:
    def fill(writer: StoreWriter, on_put: writing.OnPut | None) -> Sums:
        for number in range(count):
            body = b"x" * 100
            for record in put(writer, OutgoingMessage("T", body, number, properties={"KEYS": f"k{number}"})):
                if on_put is not None:
                    on_put(record)
        if fail is not None:
            raise fail
        return {}

    return fill


@pytest.mark.parametrize("level", ManifestLevel)
def test_the_manifest_says_the_truth(tmp_path: Path, level: ManifestLevel) -> None:
    options = WriteOptions(geometry=SMALL, queue_start_offsets={("T", 0): 7}, start_offset=8192)
    made = make_store(tmp_path / "store", _fill(), options, {"seed": 1}, manifest=level)
    names = {"none": {"store"}, "full": {"store", "store.manifest.json", "store.messages.jsonl"}}
    expected = names.get(level, {"store", "store.manifest.json"})
    assert {path.name for path in tmp_path.iterdir()} == expected
    assert (made.manifest is None) == (level is ManifestLevel.NONE)
    if made.manifest is None:
        return
    document = json.loads(made.manifest.read_text())
    assert document["source"] == {"seed": 1}
    assert document["options"]["queue_start_offsets"] == [["T", 0, 7]]
    assert document["topics"][0]["queues"][0]["next_offset"] == 67
    assert (document["min_offset"], document["message_count"]) == (8192, 60)
    assert len(document["files"]) == len(made.store.files)
    for said in document["files"]:
        data = (tmp_path / "store" / said["path"]).read_bytes()
        assert (said["size"], said["crc32"]) == (len(data), zlib.crc32(data))
        assert said.get("sha256") in (None, hashlib.sha256(data).hexdigest())
        assert ("sha256" in said) == (level in (ManifestLevel.HASHES, ManifestLevel.FULL))


def test_options_as_json() -> None:
    document = options_document(WriteOptions(end_state=EndState.KILLED, batch_topics=frozenset("ba")))
    assert document["end_state"] == "killed"
    assert document["batch_topics"] == ["a", "b"]
    assert "clock" not in document
    assert "sync" not in document
    json.dumps(document)


def test_places_that_are_taken(tmp_path: Path) -> None:
    for name in ("store", "store.manifest.json", "store.messages.jsonl"):
        taken = tmp_path / name
        taken.symlink_to("nowhere")
        with pytest.raises(UsageError, match=f"{name} exists"):
            make_store(tmp_path / "store", _fill(), OPTIONS, {}, manifest=ManifestLevel.FULL)
        taken.unlink()
    assert not list(tmp_path.iterdir())
    given = tmp_path / "own.json"
    assert manifest_paths(tmp_path / "store", given).messages == tmp_path / "own.messages.jsonl"


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), StoreError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (MemoryError(), MemoryError),
    ],
)
def test_nothing_is_left_after_a_failure(
    tmp_path: Path, failure: BaseException, raised: type[BaseException]
) -> None:
    with pytest.raises(raised):
        make_store(tmp_path / "store", _fill(fail=failure), OPTIONS, {}, manifest=ManifestLevel.FULL)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("left", [0, 1, 5])
def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    calls = 0
    real = os.pwrite

    def pwrite(descriptor: int, data: Any, pos: int) -> int:
        nonlocal calls
        calls += 1
        if calls > left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data, pos)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(StoreError, match="No space left") as caught:
        make_store(tmp_path / "store", _fill(), OPTIONS, {}, manifest=ManifestLevel.FULL)
    assert caught.value.exit_code == 8
    assert not list(tmp_path.iterdir())


def test_a_manifest_that_cannot_be_written_takes_the_store_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(stream: Any, _document: Any) -> None:
        stream.write("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("rocketfsck.writer.manifest.write_document", refuse)
    with pytest.raises(StoreError, match="No space left"):
        make_store(tmp_path / "store", _fill(), OPTIONS, {})
    assert not list(tmp_path.iterdir())


def test_a_manifest_on_a_full_device(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    with pytest.raises(StoreError, match="No such file"):
        make_store(folder / "store", _fill(), OPTIONS, {})
    with pytest.raises(UsageError, match="entry_count"):
        make_store(tmp_path / "store", _fill(), WriteOptions(geometry=Geometry(entry_count=0)), {})
    assert not list(tmp_path.iterdir())


def test_sums_of_sparse_files(tmp_path: Path) -> None:
    pieces = {"empty": (0, {}), "hole": (3 << 20, {}), "mixed": (9 << 20, {5 << 20: b"abc" * 40_000})}
    files = []
    with open_root(tmp_path):
        for name, (size, data) in pieces.items():
            commitlog.create_sparse(tmp_path / name, size)
            for pos, chunk in data.items():
                commitlog.write_at(tmp_path / name, chunk, pos)
            files.append((name, size))
    for item in sum_files(tmp_path, files, {}, with_sha256=True):
        whole = (tmp_path / item.path).read_bytes()
        assert item == FileSum(item.path, len(whole), zlib.crc32(whole), hashlib.sha256(whole).hexdigest())
    assert sum_files(tmp_path, files[1:2], {"hole": 7}, with_sha256=False) == [FileSum("hole", 3 << 20, 7)]


@pytest.mark.parametrize("count", [0, 1, 2, 255, 65_536, (1 << 33) + 5])
def test_crc_of_zeros(count: int) -> None:
    crc = zlib.crc32(b"before")
    expected = crc32_of_zeros(crc, count)
    if count < 1 << 20:
        assert expected == zlib.crc32(bytes(count), crc)
    half = count // 2
    assert crc32_of_zeros(crc32_of_zeros(crc, half), count - half) == expected


def test_options_of_a_broker_conf() -> None:
    values = {
        "mappedFileSizeCommitLog": "65536",
        "maxHashSlotNum": " 7 ",
        "enableConsumeQueueExt": "true",
        "enableLmq": "true",
        "enabledAppendPropCRC": "true",
        "messageIndexEnable": "false",
        "flushDiskType": "SYNC_FLUSH",
        "messageDelayLevel": "1s 2s",
        "maxMessageSize": "1000",
    }
    found = options_of_settings(Settings(None, values), "5.3.3")
    geometry = found.pop("geometry")
    assert (geometry.commitlog_file_size, geometry.slot_count) == (65536, 7)
    assert found == {
        "consumequeue_ext": True,
        "multi_dispatch": True,
        "append_property_crc": True,
        "message_index": False,
        "sync_flush": True,
        "delay_levels": {1: 1000, 2: 2000},
        "max_message_size": 1000,
    }
    assert not options_of_settings(Settings(None, values), "5.1.4")["multi_dispatch"]
    assert options_of_settings(Settings(None, values | {"enableMultiDispatch": "true"}), "5.1.4")[
        "multi_dispatch"
    ]


@pytest.mark.parametrize(
    "name", ["maxMessageSize", "mappedFileSizeCommitLog", "maxIndexNum", "messageDelayLevel"]
)
def test_settings_that_make_no_sense(name: str) -> None:
    with pytest.raises(UsageError):
        options_of_settings(Settings(Path("broker.conf"), {name: "-x"}), "5.3.3")
