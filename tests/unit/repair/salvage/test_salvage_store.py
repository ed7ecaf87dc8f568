"""Writing the salvaged store: what is copied and rewritten, what the ledger says, what failures leave."""

from __future__ import annotations

import errno
import json
import os
import shutil
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketfsck.cli.commands.compare import salvage_lines
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.properties import PROPERTY_CRC_SIZE, property_crc, property_crc_trailer
from rocketfsck.formats.record import Blank, Host, decode_record, encode_blank, encode_record, make_record
from rocketfsck.repair.carve.carve import Carver, SourceFile
from rocketfsck.repair.carve.confidence import Level
from rocketfsck.repair.salvage import build as salvage_write
from rocketfsck.repair.salvage.ledger import RecordGap, Salvage, SalvageOptions, find_gaps, prove_tiling
from rocketfsck.repair.salvage.salvage import default_ledger, find_records, write_store
from rocketfsck.store.reading import FileReader

from tests.conftest import Directory
from tests.reported import reported

HOST = Host(bytes([10, 0, 0, 1]), 10911)
V6 = Host(bytes(range(1, 17)), 10911)
FILE_SIZE = 4096


def record(offset: int, queue_offset: int = 0, *, with_crc: bool = False, **more: object) -> bytes:
    fields: dict[str, Any] = {
        "topic": b"Topic",
        "queue_id": 0,
        "queue_offset": queue_offset,
        "physical_offset": offset,
        "born_timestamp": 1_700_000_000_000,
        "born_host": HOST,
        "store_timestamp": 1_700_000_000_000 + queue_offset,
        "store_host": HOST,
        "body": b"body",
        "properties": b"KEYS\x01k\x02" + bytes(PROPERTY_CRC_SIZE if with_crc else 0),
    }
    encoded = encode_record(make_record(**(fields | more)))
    if with_crc:
        encoded = encoded[:-PROPERTY_CRC_SIZE] + property_crc_trailer(property_crc(encoded))
    return encoded


def options(**more: Any) -> SalvageOptions:
    given: dict[str, Any] = {"file_size": FILE_SIZE, "sync": False, "version": "5.3.3"}
    return SalvageOptions(**(given | more))


def ledger(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def salvaged(tmp_path: Path, data: bytes, **more: Any) -> tuple[Salvage, Path]:
    source = tmp_path / "source"
    source.write_bytes(data)
    found = find_records([source], options(**more))
    return found, write_store(found, tmp_path / "new").path


def test_commits_follow_their_half_messages(tmp_path: Path) -> None:
    """A packed commit names its half message where that is now; one whose half message is gone is left."""
    hosts: dict[str, Any] = {"born_host": V6, "store_host": V6}
    data = b"".join(
        (
            record(10_000, 0),
            record(20_000, 1, sys_flag=8, prepared_transaction_offset=10_000),
            record(30_000, 2, sys_flag=8, prepared_transaction_offset=123),
            record(40_000, 3, sys_flag=8, prepared_transaction_offset=20_000, with_crc=True, **hosts),
        )
    )
    found, into = salvaged(tmp_path, data, layout="pack")
    offsets = found.story.placement.offsets.tolist()
    log = (into / "commitlog" / f"{FILE_SIZE:020d}").read_bytes()
    records = [decode_record(log, offset - FILE_SIZE) for offset in offsets]
    assert [item.physical_offset for item in records] == offsets
    assert [item.prepared_transaction_offset for item in records] == [0, offsets[0], 123, offsets[1]]
    last = encode_record(records[-1])
    assert last[-PROPERTY_CRC_SIZE:] == property_crc_trailer(property_crc(last))


def test_a_property_crc_elsewhere_than_at_the_end_is_left(tmp_path: Path) -> None:
    properties = b"__CRC32#\x011234567890\x02TAGS\x01some-tag-that-is-longer\x02"
    found, into = salvaged(tmp_path, record(5000, properties=properties), layout="pack", level=Level.LOW)
    log = (into / "commitlog" / f"{FILE_SIZE:020d}").read_bytes()
    assert decode_record(log).properties == properties
    assert found.counts == {"taken": 1}


def test_what_no_file_can_hold_is_told(tmp_path: Path) -> None:
    found, into = salvaged(tmp_path, record(0) + record(50_000, 1, body=bytes(5000)))
    assert found.counts == {"taken": 1, "too-large": 1}
    assert found.story.placement.name == "pack"
    assert "does not fit into one file" in found.layout_note
    rows = ledger(default_ledger(into))
    assert [row["fate"] for row in rows if "fate" in row] == ["taken", "too-large"]


def test_the_records_of_a_dledger_log_are_packed(tmp_path: Path) -> None:
    """Before each stand the 48 bytes of its entry, too few for a fence (reference 2.14)."""
    size, data = len(record(0)), b""
    for number in range(5):
        data += (
            bytes([0, 0, 0, 1]) + (48 + size).to_bytes(4, "big") + bytes(40) + record(len(data) + 48, number)
        )
    found, into = salvaged(tmp_path, data)
    assert found.story.placement.name == "pack"
    assert "48 bytes" in found.layout_note
    assert found.counts == {"taken": 5}
    log = (into / "commitlog" / f"{FILE_SIZE:020d}").read_bytes()
    assert [decode_record(log, size * n).queue_offset for n in range(5)] == list(range(5))


def test_gaps_say_what_they_are(tmp_path: Path) -> None:
    data = (
        bytes(500) + record(0) + encode_blank(Blank(300)) + b"x" * 292 + record(900, 1) + b"junk" + bytes(5)
    )
    path = tmp_path / "source"
    path.write_bytes(data)
    source = SourceFile(path, len(data), None)
    carver = Carver()
    with FileReader(path) as reader:
        carver.carve(reader, 0)
    found, size = carver.found, len(record(0))
    gaps = find_gaps(source, found, np.arange(2))
    assert gaps == [
        RecordGap(0, 500, "zero"),
        RecordGap(500 + size, 800 + size, "blank"),
        RecordGap(800 + 2 * size, len(data), "bytes"),
    ]
    prove_tiling(source, found, np.arange(2), gaps)
    for wrong in (gaps[1:], gaps[:-1], [gaps[0], gaps[2]]):
        with pytest.raises(StoreError, match="not accounted for"):
            prove_tiling(source, found, np.arange(2), wrong)


def test_names_that_are_no_utf8_are_base64(tmp_path: Path) -> None:
    place = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    Path(place).mkdir()
    (Path(place) / "file").write_bytes(record(0, topic=b"T\xff", queue_id=3) + b"\0" + record(4000, 5))
    found = find_records([Path(place)], options(level=Level.LOW))
    into = write_store(found, tmp_path / "new").path
    rows = ledger(default_ledger(into))
    source = next(row for row in rows if row["kind"].endswith(".source"))
    assert b64decode(source["path_b64"]).endswith(b"/\xff/file")
    topics = [row for row in rows if row["kind"].endswith(".queue")]
    assert {b64decode(row["topic_b64"]) for row in topics if "topic_b64" in row} == {b"T\xff"}


def test_many_sources_do_not_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(salvage_write, "OPEN_FILES", 2)
    (tmp_path / "pieces").mkdir()
    size = len(record(0))
    for number in range(9):
        (tmp_path / "pieces" / f"p{number * 5 % 9}").write_bytes(
            record(size * (number * 5 % 9), number * 5 % 9)
        )
    found = find_records([tmp_path / "pieces"], options())
    into = write_store(found, tmp_path / "new").path
    expected = b"".join(record(size * n, n) for n in range(9))
    assert (into / "commitlog" / f"{0:020d}").read_bytes()[: 9 * size] == expected
    assert found.story.placement.fences == ()


def test_large_and_many_records_are_copied_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(salvage_write, "COPY_SIZE", 300)
    size = len(record(0))
    data = b"".join(record(size * n, n) for n in range(20))
    large = record(len(data), 20, body=bytes(900))
    carved, written = list[tuple[int, int]](), list[tuple[int, int]]()
    (tmp_path / "source").write_bytes(data + large)
    with reported("carving records", carved), reported("writing the commit log", written):
        found = find_records([tmp_path / "source"], options())
        into = write_store(found, tmp_path / "new").path
    assert (into / "commitlog" / f"{0:020d}").read_bytes().startswith(data + large)
    assert carved[-1] == written[-1] == (len(data + large), len(data + large))
    assert len(set(written)) > 3


def test_the_size_of_files_is_found_out(tmp_path: Path, store_dir: Directory) -> None:
    log = store_dir("4.9.8-multiseg") / "commitlog"
    assert find_records([log], SalvageOptions()).story.placement.file_size == 131072
    one = tmp_path / "image"
    one.write_bytes(record(0))
    assert find_records([one], SalvageOptions()).story.placement.file_size == 1 << 30
    shutil.copytree(log, tmp_path / "cut")
    for path in (tmp_path / "cut").iterdir():
        os.truncate(path, 100_003)  # no step between names is a multiple of it
    assert find_records([tmp_path / "cut"], SalvageOptions()).story.placement.file_size == 1 << 30


def test_a_broker_conf_gives_the_sizes(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "mappedFileSizeCommitLog=4096\nmappedFileSizeConsumeQueue=400\nmaxHashSlotNum=10\nmaxIndexNum=40\n"
    )
    _, into = salvaged(tmp_path, record(0), broker_conf=conf)
    files = [path for path in into.rglob("*") if path.is_file() and path.name.isdigit()]
    sizes = {path.parent.name: path.stat().st_size for path in files}
    assert sizes == {"commitlog": 4096, "0": 400, "index": 40 + 4 * 10 + 20 * 40}


def test_a_store_that_cannot_be_opened_gives_no_settings(
    tmp_path: Path, store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rocketfsck.repair.salvage import salvage

    def fail(*_: object, **__: object) -> None:
        raise StoreError("cannot be read")

    monkeypatch.setattr(salvage, "open_store", fail)
    found = find_records([store_dir("4.9.8-basic")], SalvageOptions())
    assert found.origin is None
    assert tmp_path.exists()


class TestFailures:
    """Whatever goes wrong, nothing is left of it."""

    def attempt(self, tmp_path: Path) -> Salvage:
        (tmp_path / "source").write_bytes(record(0))
        return find_records([tmp_path / "source"], options())

    def assert_clean(self, tmp_path: Path, *more: str) -> None:
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["source", *more])

    def test_a_full_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        found = self.attempt(tmp_path)

        def full(*_: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(StoreError, match="No space left"):
            write_store(found, tmp_path / "new")
        self.assert_clean(tmp_path)

    def test_a_ledger_that_cannot_be_written(self, tmp_path: Path) -> None:
        found = self.attempt(tmp_path)
        with pytest.raises(StoreError, match="No such file"):
            write_store(found, tmp_path / "new", ledger_path=tmp_path / "nowhere" / "ledger")
        self.assert_clean(tmp_path)

    def test_a_store_that_cannot_be_published(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its ledger goes, too."""
        from rocketfsck.writer.disk import publish

        def fail(*_: object, **__: object) -> None:
            raise OSError(errno.EIO, "Input/output error", "new")

        found = self.attempt(tmp_path)
        monkeypatch.setattr(publish, "_publish", fail)
        with pytest.raises(StoreError, match="Input/output error"):
            write_store(found, tmp_path / "new")
        self.assert_clean(tmp_path)

    def test_nothing_is_written_over(self, tmp_path: Path) -> None:
        found = self.attempt(tmp_path)
        (tmp_path / "new.ledger.jsonl").write_text("mine")
        with pytest.raises(StoreError, match="exists"):
            write_store(found, tmp_path / "new")
        assert (tmp_path / "new.ledger.jsonl").read_text() == "mine"
        self.assert_clean(tmp_path, "new.ledger.jsonl")

    def test_no_records(self, tmp_path: Path) -> None:
        (tmp_path / "source").write_bytes(b"nothing")
        found = find_records([tmp_path / "source"], options())
        assert found.head().end_offset == 0
        with pytest.raises(UsageError, match="no usable record"):
            write_store(found, tmp_path / "new")
        self.assert_clean(tmp_path)


def test_long_lists_are_cut_for_people(tmp_path: Path) -> None:
    data = b"".join(
        record(1000 * n, 2 * (n // 30), queue_id=n % 30, store_timestamp=5 + n) for n in range(240)
    )
    (tmp_path / "source").write_bytes(data)
    found = find_records([tmp_path / "source"], options())
    lines = list(salvage_lines(found, None))
    assert "Queues: 30, of which 30 miss records" in lines
    assert "  and 10 more (the ledger has them all)" in lines
    assert "  Topic/0: 8 records, missing 7: 1, 3, 5, 7, 9 …" in lines
