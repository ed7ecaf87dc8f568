"""A single file: what it is, by its place and by its bytes, and the geometry around it."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck import store as store_package
from rocketfsck.errors import StoreError
from rocketfsck.store.identify import FileKind, identify_file
from rocketfsck.store.opening import open_store

from tests.conftest import STORE_NAMES

Directory = Callable[[str], Path]
FIRST = "0" * 20


@pytest.mark.parametrize("name", STORE_NAMES)
def test_every_file_of_a_real_store(store_dir: Directory, name: str) -> None:
    store = open_store(store_dir(name))
    geometry = store.geometry
    for file in store.commitlog.files:
        found = identify_file(file.path)
        assert (found.kind, found.start_offset, found.file_size, found.store_root) == (
            FileKind.COMMITLOG,
            file.start_offset,
            geometry.commitlog_file_size,
            store.root,
        )
    for queue in store.queues:
        kind = FileKind.CONSUMEQUEUE if queue.kind == "file" else FileKind.BATCH_CONSUMEQUEUE
        for file in queue.files:
            found = identify_file(file.path)
            assert (found.kind, found.topic, found.queue_id, found.start_offset) == (
                kind,
                queue.topic,
                queue.queue_id,
                file.start_offset,
            )
            assert (found.file_size, found.store_root) == (queue.mapped_files.file_size, store.root)
    for index in store.indexes:
        found = identify_file(index.path)
        assert (found.kind, found.slot_count, found.entry_count) == (
            FileKind.INDEX,
            geometry.slot_count,
            geometry.entry_count,
        )
    for config in store.configs:
        assert identify_file(config.path).kind is FileKind.CONFIG
    assert store.checkpoint is not None
    assert identify_file(store.checkpoint.path).kind is FileKind.CHECKPOINT


@pytest.mark.parametrize(
    ("store", "place", "kind"),
    [
        ("4.9.8-multiseg", f"commitlog/{131072:020d}", FileKind.COMMITLOG),
        ("4.9.8-multiseg", f"consumequeue/Seg0/0/{FIRST}", FileKind.CONSUMEQUEUE),
        ("5.0.0-innerbatch", f"batchconsumequeue/Ib/0/{FIRST}", FileKind.BATCH_CONSUMEQUEUE),
        ("4.9.8-multiseg", "checkpoint", FileKind.CHECKPOINT),
        ("4.9.8-basic", "config/topics.json", FileKind.CONFIG),
    ],
)
def test_a_file_far_from_its_place(
    store_dir: Directory, tmp_path: Path, store: str, place: str, kind: FileKind
) -> None:
    copy = Path(shutil.copy(store_dir(store) / place, tmp_path / "copy"))
    found = identify_file(copy)
    assert found.kind is kind
    assert found.store_root is None
    if kind is FileKind.COMMITLOG:
        assert (found.start_offset, found.file_size) == (131072, 131072)
        assert "the record's own physicalOffset" in found.how
        named = Path(shutil.copy(copy, tmp_path / f"{131072:020d}"))
        assert (identify_file(named).start_offset, identify_file(named).file_size) == (131072, 131072)


def test_an_index_file_far_from_its_place(store_dir: Directory, tmp_path: Path) -> None:
    source = open_store(store_dir("4.9.8-multiseg")).indexes[-1].path
    copy = Path(shutil.copy(source, tmp_path / source.name))
    (tmp_path / "123").write_bytes(bytes(64))
    found = identify_file(copy)
    assert (found.kind, found.slot_count, found.entry_count) == (FileKind.INDEX, 128, 500)
    renamed = identify_file(shutil.copy(source, tmp_path / "copy"))
    assert (renamed.kind, renamed.slot_count, renamed.entry_count) == (FileKind.INDEX, 128, 500)
    assert "chains are those of an index file" in renamed.how
    data = bytearray(source.read_bytes())
    rng = random.Random(7)
    data[40:] = rng.randbytes(len(data) - 40)  # a header alone does not make an index file
    (tmp_path / "noise").write_bytes(data)
    assert identify_file(tmp_path / "noise").kind is FileKind.UNKNOWN
    data = bytearray(source.read_bytes())
    data[0:8] = bytes(8)  # and without one nothing does
    (tmp_path / "headless").write_bytes(data)
    assert identify_file(tmp_path / "headless").kind is FileKind.UNKNOWN


@pytest.mark.parametrize("name", STORE_NAMES)
def test_no_other_file_is_taken_for_an_index_file(store_dir: Directory, tmp_path: Path, name: str) -> None:
    store = open_store(store_dir(name))
    indexes = {file.path for file in store.indexes}
    for number, file in enumerate(store.all_files()):
        copy = shutil.copy(file.path, tmp_path / f"copy{number}")
        # one without an entry is zeros like a preallocated segment
        known = file.path in indexes and any(file.path.read_bytes()[16:40])
        assert (identify_file(copy).kind is FileKind.INDEX) == known, file.relative


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        (f"timerlog/{FIRST}", FileKind.TIMER_LOG),
        (f"dledger-n0/data/{FIRST}", FileKind.DLEDGER_DATA),
        (f"dledger-n0/index/{FIRST}", FileKind.DLEDGER_INDEX),
        (f"compaction/compactionLog/T/3/{FIRST}", FileKind.COMPACTION_LOG),
        (f"compaction/compactionCq/T/3/{FIRST}", FileKind.COMPACTION_CQ),
        (f"consumequeue_ext/T/3/{FIRST}", FileKind.CONSUMEQUEUE_EXT),
        ("compaction/position-checkpoint", FileKind.COMPACTION_CHECKPOINT),
        ("config/timercheck", FileKind.TIMER_CHECK),
        ("config/timermetrics", FileKind.CONFIG),
        ("epochFileCheckpoint.bak", FileKind.EPOCH),
        ("brokerIdentity", FileKind.BROKER_IDENTITY),
        ("timerwheel", FileKind.TIMER_WHEEL),
        ("lock", FileKind.LOCK),
        ("abort", FileKind.ABORT),
        (f"consumequeue/T/x/{FIRST}", FileKind.UNKNOWN),
        ("commitlog/x", FileKind.UNKNOWN),
        ("index/x", FileKind.UNKNOWN),
    ],
)
def test_places(tmp_path: Path, place: str, kind: FileKind) -> None:
    path = tmp_path / "store" / place
    path.parent.mkdir(parents=True)
    path.touch()
    found = identify_file(path)
    assert (found.kind, found.size) == (kind, 0)
    if found.store_root is not None:
        assert found.store_root == tmp_path / "store"
    if found.queue_id is not None:
        assert (found.topic, found.queue_id) == ("T", 3)


def dledger_entry() -> bytes:
    record = struct.pack(">ii", 100, -626843481) + bytes(92)
    return struct.pack(">iiqqqiiii", 1, 148, 0, 1, 0, 0, 0, 0, 100) + record


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", FileKind.UNKNOWN),
        (b"x" * 5000, FileKind.UNKNOWN),
        (bytes(4096), FileKind.UNKNOWN),
        (b" \n{}", FileKind.CONFIG),
        (dledger_entry(), FileKind.DLEDGER_DATA),
        ((b"\0\0\0\x34" + bytes(48)) * 3, FileKind.TIMER_LOG),
        (struct.pack(">3q", 1, 2, 3).ljust(4096, b"\0"), FileKind.CHECKPOINT),
        (struct.pack(">3q", 1, -2, 3).ljust(4096, b"\0"), FileKind.UNKNOWN),
        (struct.pack(">qiqqiq", 500, 100, 7, 600, 91, 8), FileKind.CONSUMEQUEUE),
        (struct.pack(">qiq", 500, 100, 7) + struct.pack(">qiq", 400, 100, 7), FileKind.UNKNOWN),
        (struct.pack(">qiq", 500, -1, 7), FileKind.UNKNOWN),
        (struct.pack(">qiq", 0, 0x7FFFFFFF, 0) * 2 + struct.pack(">qiq", 9, 100, 7), FileKind.CONSUMEQUEUE),
        (struct.pack(">qiq", 9, 100, 7) + struct.pack(">qiq", 0, 0x7FFFFFFF, 0), FileKind.UNKNOWN),
        (struct.pack(">qiq", 9, 100, 7) + bytes(40), FileKind.CONSUMEQUEUE),
        (struct.pack(">qiqqqhii", 5, 100, 7, 9, 0, 1, -1, 0), FileKind.BATCH_CONSUMEQUEUE),
        (struct.pack(">ii", 4096, -875286124).ljust(4096, b"\xff"), FileKind.COMMITLOG),
        (struct.pack(">ii", 100, -626843481) + b"\xff" * 92, FileKind.COMMITLOG),
    ],
)
def test_bytes(tmp_path: Path, data: bytes, kind: FileKind) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    found = identify_file(path)
    assert found.kind is kind
    assert found.start_offset is None


def test_a_timer_wheel_by_its_length(tmp_path: Path) -> None:
    path = tmp_path / "copy"
    with path.open("wb") as stream:
        stream.truncate(38_707_200)
    assert identify_file(path).kind is FileKind.TIMER_WHEEL


@pytest.mark.parametrize("start", [-1, -(1 << 63)])
def test_a_record_that_lies_about_its_place(tmp_path: Path, store_dir: Directory, start: int) -> None:
    data = bytearray((store_dir("4.9.8-multiseg") / "commitlog" / FIRST).read_bytes())
    struct.pack_into(">q", data, 28, start)
    path = tmp_path / "copy"
    path.write_bytes(data)
    assert identify_file(path).start_offset is None


@given(
    st.binary(max_size=200), st.sampled_from([FIRST, "20200101000000000", "x", "checkpoint", "topics.json"])
)
def test_any_bytes_get_an_answer(tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    assert identify_file(path).size == len(data)


def test_what_is_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a directory"):
        identify_file(tmp_path)
    with pytest.raises(StoreError, match="No such file"):
        store_package.identify_file(str(tmp_path / "none"))


def test_an_index_directory_that_cannot_be_listed(
    store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rocketfsck.store import identify

    def refuse(path: Path) -> list[object]:
        raise StoreError("cannot be listed", path=str(path))

    monkeypatch.setattr(identify, "list_directory", refuse)
    found = identify_file(open_store(store_dir("4.9.8-multiseg")).indexes[-1].path)
    assert (found.slot_count, found.entry_count) == (128, 500)
