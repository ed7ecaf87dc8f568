"""Reading databases: by links in a scratch directory, in a process of its own, whatever is in their files."""

from __future__ import annotations

import io
import os
import random
import shutil
from pathlib import Path

import pytest

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.store import open_store
from rocketfsck.store.model import Other, OtherKind
from rocketfsck.store.rocks import child, reading
from rocketfsck.store.rocks.families import (
    Content,
    Fault,
    content_of,
    contents_of,
    databases_of,
    decode_row,
    file_faults,
    is_known,
)
from rocketfsck.store.rocks.reading import RocksError, count_rows, estimate_rows, read_rows

from tests.conftest import Directory

COUNTS = {
    ("5.5.0-rocksdb-cq", "consumequeue"): {"default": 227, "offset": 1115},
    ("5.5.0-rocksdb-cq", "config/topics"): {"default": 24, "kvDataVersion": 1},
    ("5.5.0-rocksdb-cq", "config/consumerOffsets"): {"default": 2},
    ("5.5.0-rocksdb-cq", "config/subscriptionGroups"): {"default": 8},
    ("5.5.0-rocksdb-cq", "rocksdbstore"): {"default": 0, "timer": 0, "trans": 0},
    ("5.5.0-rocksdb-all", "rocksdbstore"): {"default": 502, "timer": 29, "trans": 0},
    ("5.5.0-combine", "consumequeue"): {"default": 168, "offset": 14},
    ("5.5.0-rocksdb-config-v2", "config/rdb"): {"default": 13},
    ("5.5.0-rocksdb-config-v2", "consumequeue_rocksdb"): {"default": 0, "offset": 0},
    ("5.5.0-pop-kv-killed", "kvStore"): {"default": 0, "popState": 0},
}


def database(root: Path, relative: str) -> Other:
    (found,) = (other for other in databases_of(open_store(root)) if other.relative == relative)
    return found


@pytest.fixture
def copied(real_dir: Directory, tmp_path: Path) -> Path:
    """A store whose queues are a database, to be changed: its directories that matter."""
    root = tmp_path / "store"
    shutil.copytree(real_dir("5.5.0-rocksdb-cq"), root, ignore=shutil.ignore_patterns("timerwheel"))
    return root


@pytest.mark.parametrize(("store", "relative"), COUNTS)
def test_rows_are_counted(real_dir: Directory, store: str, relative: str) -> None:
    other = database(real_dir(store), relative)
    before = sorted(path.name for path in other.path.iterdir())
    assert count_rows(other) == COUNTS[store, relative]
    assert set(estimate_rows(other)) == set(COUNTS[store, relative])
    assert sorted(path.name for path in other.path.iterdir()) == before
    assert not list(file_faults(other))


def test_every_row_is_what_its_family_says(real_dir: Directory) -> None:
    seen = set()
    for store, relative in COUNTS:
        for rows in read_rows(database(real_dir(store), relative)):
            for key, value in rows.pairs():
                content = content_of(relative, rows.family)
                seen.add((content, decode_row(content, key, value)[0]))
    assert {kind for _, kind in seen} >= {
        *("unit", "bound", "mark", "entry", "timer", "topic", "subscription-group", "consumer-offset"),
        *("version", "pull-offset"),
    }


def test_only_the_families_asked_for(real_dir: Directory) -> None:
    other = database(real_dir("5.5.0-rocksdb-cq"), "consumequeue")
    assert {rows.family for rows in read_rows(other, ["offset"])} == {"offset"}


@pytest.mark.parametrize("mode", ["strict", "tolerant", "estimate"])
def test_what_the_child_writes(real_dir: Directory, tmp_path: Path, mode: str) -> None:
    """The same code in this process, where its steps can be seen."""
    directory = tmp_path / "database"
    shutil.copytree(real_dir("5.5.0-rocksdb-cq") / "consumequeue", directory)
    out = io.BytesIO()
    child.main(str(directory), mode, ["offset"], out)
    kinds = []
    out.seek(0)
    while head := out.read(child.HEAD.size):
        kind, count, key_size, value_size = child.HEAD.unpack(head)
        kinds.append(kind)
        if kind == child.ROWS:
            assert count == 1115
            out.seek(8 * count + key_size + value_size, io.SEEK_CUR)
        else:
            out.seek(key_size, io.SEEK_CUR)
    rows = [] if mode == "estimate" else [child.ROWS]
    assert kinds == [child.FAMILY, child.FAMILY, *rows, child.END]
    (directory / "CURRENT").unlink()
    out = io.BytesIO()
    child.main(str(directory), mode, [], out)
    assert child.HEAD.unpack(out.getvalue()[: child.HEAD.size])[0] == child.ERROR


def test_nothing_is_left_behind(real_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    other = database(real_dir("5.5.0-rocksdb-cq"), "consumequeue")
    rows = read_rows(other)
    next(rows)
    assert list(tmp_path.iterdir())
    rows.close()
    assert not list(tmp_path.iterdir())


def test_without_rocksdict(real_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "find_spec", lambda _name: None)
    other = database(real_dir("5.5.0-rocksdb-cq"), "consumequeue")
    for read in (count_rows, estimate_rows):
        with pytest.raises(RocksError, match="pip install rocksdict"):
            read(other)


def test_no_place_for_a_scratch_directory(real_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/nowhere")
    with pytest.raises(StoreError, match="no scratch directory"):
        count_rows(database(real_dir("5.5.0-rocksdb-cq"), "consumequeue"))


def faults_of(root: Path, relative: str = "consumequeue") -> list[tuple[str, str]]:
    return [(fault.fault, fault.name) for fault in file_faults(database(root, relative))]


def test_missing_and_short_files_are_named(copied: Path) -> None:
    directory = copied / "consumequeue"
    os.truncate(directory / "000010.sst", 1000)
    (directory / "000011.sst").unlink()
    (directory / "000004.log").unlink()
    assert faults_of(copied) == [
        (Fault.LENGTH, "000010.sst"),
        (Fault.MISSING, "000011.sst"),
        (Fault.NO_WAL, "000004.log"),
    ]
    with pytest.raises(RocksError) as caught:
        count_rows(database(copied, "consumequeue"))
    assert caught.value.file in ("000010.sst", "000011.sst")
    assert "rocketfsck-" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"MANIFEST-000005", b"x\n"])
def test_a_torn_current_is_named(copied: Path, data: bytes) -> None:
    (copied / "consumequeue" / "CURRENT").write_bytes(data)
    assert faults_of(copied) == [(Fault.TORN, "CURRENT")]
    with pytest.raises(RocksError):
        count_rows(database(copied, "consumequeue"))


def test_a_missing_current_or_manifest_is_named(copied: Path) -> None:
    (copied / "consumequeue" / "MANIFEST-000005").unlink()
    assert faults_of(copied) == [(Fault.MISSING, "MANIFEST-000005")]
    (copied / "consumequeue" / "CURRENT").unlink()
    assert faults_of(copied) == [(Fault.MISSING, "CURRENT")]


def test_a_torn_manifest_is_named_with_its_place(copied: Path) -> None:
    path = copied / "consumequeue" / "MANIFEST-000005"
    data = bytearray(path.read_bytes())
    data[100] ^= 4
    path.write_bytes(data)
    (fault,) = file_faults(database(copied, "consumequeue"))
    assert (fault.fault, fault.name) == (Fault.TORN, "MANIFEST-000005")
    assert fault.pos is not None
    assert fault.pos <= 100


@pytest.mark.parametrize(("at", "at_end"), [(-40, False), (None, True)])
def test_a_torn_wal_is_named(real_dir: Directory, tmp_path: Path, at: int | None, at_end: bool) -> None:
    root = tmp_path / "store"
    shutil.copytree(real_dir("5.5.0-pop-kv-killed"), root, ignore=shutil.ignore_patterns("timerwheel"))
    path = root / "kvStore" / "000004.log"
    data = bytearray(path.read_bytes())
    if at is None:
        del data[-20:]
    else:
        data[at] ^= 1
    path.write_bytes(data)
    other = database(root, "kvStore")
    (fault,) = file_faults(other)
    assert (fault.fault, fault.name, fault.at_end) == (Fault.TORN, "000004.log", at_end)
    with pytest.raises(RocksError):
        list(read_rows(other, mode="strict"))
    # Here the last record deletes; a broker goes on without it.
    assert count_rows(other)["popState"] > 0


def test_a_damaged_block_is_named(copied: Path) -> None:
    path = copied / "consumequeue" / "000010.sst"
    data = bytearray(path.read_bytes())
    data[2000] ^= 1
    path.write_bytes(data)
    with pytest.raises(RocksError, match="checksum") as caught:
        count_rows(database(copied, "consumequeue"))
    assert caught.value.file == "000010.sst"


def test_a_child_that_does_not_come_back(
    real_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(reading, "_CHILD", slow)
    with pytest.raises(RocksError, match=r"did not answer within 0\.3 s"):
        list(read_rows(database(real_dir("5.5.0-rocksdb-cq"), "consumequeue"), patience=0.3))


def test_a_child_that_dies(real_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = tmp_path / "dying.py"
    dying.write_text("import os\nos.abort()\n")
    monkeypatch.setattr(reading, "_CHILD", dying)
    other = database(real_dir("5.5.0-rocksdb-cq"), "consumequeue")
    for read in (count_rows, estimate_rows):
        with pytest.raises(RocksError, match="status -6"):
            read(other)


def test_a_row_too_long_to_be_one(
    real_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lying = tmp_path / "lying.py"
    head = child.HEAD.pack(child.ROWS, 1, 1 << 40, 0)
    lying.write_text(f"import sys\nsys.stdout.buffer.write({head!r})\n")
    monkeypatch.setattr(reading, "_CHILD", lying)
    with pytest.raises(RocksError, match="more than"):
        list(read_rows(database(real_dir("5.5.0-rocksdb-cq"), "consumequeue")))


@pytest.mark.parametrize("seed", range(12))
def test_damaged_databases_end_in_rows_or_an_error(copied: Path, seed: int) -> None:
    choose = random.Random(seed)
    other = database(copied, choose.choice(["consumequeue", "config/topics", "rocksdbstore"]))
    path = choose.choice([file.path for file in other.files if file.size])
    data = bytearray(path.read_bytes())
    for _ in range(choose.choice([1, 5, 40])):
        data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    path.write_bytes(data[: choose.choice([len(data), choose.randrange(len(data))])])
    other = database(copied, other.relative)
    list(file_faults(other))
    try:
        count_rows(other, patience=10)
    except RocksError as error:
        assert "rocketfsck-" not in str(error)


def test_what_families_hold() -> None:
    assert content_of("consumequeue_rocksdb", "offset") is Content.BOUNDS
    assert content_of("config/metadata", "topicVersion") is Content.VERSION
    assert content_of("config/metadata", "topic") is Content.TOPICS
    assert content_of("foreign", "default") is Content.UNKNOWN
    assert contents_of("foreign") == {Content.UNKNOWN}
    assert is_known("kvStore")
    assert not is_known("foreign")


@pytest.mark.parametrize("content", [content for content in Content if content is not Content.UNKNOWN])
def test_rows_of_other_shapes_are_refused(content: Content) -> None:
    for key in (b"", b"\x01", bytes(40)):
        with pytest.raises(FormatError):
            decode_row(content, key, b"\xff")


def test_a_row_of_no_known_family() -> None:
    assert decode_row(Content.UNKNOWN, b"k", b"v") == ("row", {"key": b"k", "value": b"v"})


def test_a_directory_without_files_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "kvStore").mkdir()
    store = open_store(tmp_path)
    assert [other.kind for other in store.others] == [OtherKind.ROCKSDB]
    assert not list(databases_of(store))
