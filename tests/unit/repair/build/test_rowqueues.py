"""Databases of consume queues made from the log: the rows that a real broker put."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.rocks import decode_bound_key, decode_unit_key
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.repair.apply.judging import predict_rebuilt
from rocketfsck.repair.build.databases import QUEUE_FAMILIES, RowBuilder, row_writer
from rocketfsck.repair.build.run import RebuildOptions, rebuild_store
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.store.rocks import reading, rowchild
from rocketfsck.store.rocks.reading import RowPipe
from rocketfsck.verify import CheckOptions, check_store

from tests.conftest import Directory
from tests.databases import Families, copied_store, database_of, rows_of

QUEUES = RebuildOptions(queues=True, sync=False)


def rebuilt(root: Path, target: Path) -> Path:
    """The store with the queues that were rebuilt in the place of its own."""
    store = open_store(root)
    done = rebuild_store(store, target, QUEUES)
    assert done.queues is not None
    database = done.queues.database
    assert database is not None
    for path in (root / database).iterdir():
        path.unlink()
    for path in (target / database).iterdir():
        path.rename(root / database / path.name)
    return root / database


def with_messages(families: Families) -> Families:
    """The bounds of queues with units, the mark, and the units."""
    keys = [decode_unit_key(key) for key in families["default"]]
    named = {(key.topic, key.queue_id) for key in keys} | {(b"CHECKPOINT_TOPIC", 0)}
    bounds = {}
    for key, value in families["offset"].items():
        found = decode_bound_key(key)
        if (found.topic, found.queue_id) in named:
            bounds[key] = value
    return {"default": families["default"], "offset": bounds}


def test_the_rows_are_those_of_the_broker(real_dir: Directory, tmp_path: Path) -> None:
    root = copied_store(real_dir("5.5.0-rocksdb-cq"), tmp_path / "store")
    before = with_messages(rows_of(database_of(root, "consumequeue")))
    directory = rebuilt(root, tmp_path / "built")
    assert not (directory / "LOG").exists()
    after = rows_of(database_of(root, "consumequeue"))
    assert after["default"] == before["default"]
    assert len(after["default"]) == 227
    greatest = {key: value for key, value in before["offset"].items() if b"\x01max\x01" in key}
    assert {key: value for key, value in after["offset"].items() if key in greatest} == greatest
    assert {key: value for key, value in before["offset"].items() if key not in after["offset"]} == {}
    start = simulate_start(open_store(root), "5.5.0")
    assert start.loads
    assert not start.harmful


def test_light_queues_are_rebuilt_without_a_setting(real_dir: Directory, tmp_path: Path) -> None:
    root = copied_store(real_dir("5.5.0-lite-rocksdb"), tmp_path / "store")
    before = rows_of(database_of(root, "consumequeue"))
    rebuilt(root, tmp_path / "built")
    after = rows_of(database_of(root, "consumequeue"))
    assert after["default"] == before["default"]
    assert len(after["default"]) == 157
    assert sum(b"%LMQ%$LiLite$" in key for key in after["default"]) == 60


def test_what_a_kill_lost_is_there_again(real_dir: Directory, tmp_path: Path) -> None:
    root = copied_store(real_dir("5.5.0-rocksdb-config-v2"), tmp_path / "store")
    assert rows_of(database_of(root, "consumequeue_rocksdb")).get("default", {}) == {}
    rebuilt(root, tmp_path / "built")
    start = simulate_start(open_store(root), "5.5.0")
    assert sum(queue.found_count for queue in start.queues) == 123
    assert sum(queue.added_count for queue in start.queues) == 0


def test_a_store_whose_database_is_gone(real_dir: Directory, tmp_path: Path) -> None:
    root = copied_store(real_dir("5.5.0-rocksdb-cq"), tmp_path / "store")
    for path in (root / "consumequeue").iterdir():
        path.unlink()
    conf = tmp_path / "broker.conf"
    conf.write_text("storeType=defaultRocksDB\nmappedFileSizeCommitLog=65536\n")
    store = open_store(root, broker_conf=conf, version="5.5.0")
    rebuild_store(store, tmp_path / "built", QUEUES)
    (judged,) = predict_rebuilt(store, tmp_path / "built", RebuildOptions(queues=True))
    assert judged.harmless


def test_a_broker_that_writes_both(real_dir: Directory, tmp_path: Path) -> None:
    """Files and rows, as the store has them; nobody has to say so."""
    root = copied_store(real_dir("5.5.0-combine"), tmp_path / "store")
    built = rebuild_store(open_store(root), tmp_path / "built", QUEUES).queues
    assert built is not None
    assert (built.database, len(built.queues), built.unit_count) == ("consumequeue", 13, 168)
    assert sum(queue.file_count for queue in built.queues) == 13
    for file in (root / "consumequeue").glob("*/*/*"):
        assert (tmp_path / "built" / file.relative_to(root)).read_bytes() == file.read_bytes()
    before = rows_of(database_of(root, "consumequeue"))["default"]
    shutil.rmtree(root / "consumequeue")
    shutil.move(tmp_path / "built" / "consumequeue", root)
    assert rows_of(database_of(root, "consumequeue"))["default"] == before


def test_what_cannot_be(real_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(real_dir("5.5.0-rocksdb-cq"))
    with pytest.raises(UsageError, match="as a whole"):
        rebuild_store(store, tmp_path / "built", RebuildOptions(queues=True, only_missing=True))
    monkeypatch.setattr(reading, "find_spec", lambda _: None)
    with pytest.raises(StoreError, match="needs rocksdict"):
        rebuild_store(store, tmp_path / "built", QUEUES)
    assert not (tmp_path / "built").exists()


def test_a_writer_that_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with (
        pytest.raises(StoreError, match="RocksDB cannot write"),
        row_writer(tmp_path / "file" / "database", light=False) as builder,
    ):
        builder.finish()
    with (
        pytest.raises(StoreError, match="the rows ended in the middle of a row"),
        row_writer(tmp_path / "database", light=False) as builder,
    ):
        builder.pipe.pipe.close()
    pipe = io.BytesIO()
    pipe.close = lambda: (_ for _ in ()).throw(BrokenPipeError())  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="the process that writes the database ended"):
        RowBuilder(RowPipe(pipe, "x", QUEUE_FAMILIES), light=False).finish()


def test_the_child_by_itself(tmp_path: Path) -> None:
    head = rowchild.HEAD.pack(0, 1, 1, 2, 2)
    source = io.BytesIO(head + b"k" + b"1ab" + b"2cd" + rowchild.HEAD.pack(rowchild.END, 0, 0, 0, 0))
    root = tmp_path / "store"
    (root / "commitlog").mkdir(parents=True)
    rowchild.main(str(root / "consumequeue"), ("default", "offset"), source)
    assert rows_of(database_of(root, "consumequeue")) == {
        "default": {b"k1": b"ab", b"k2": b"cd"},
        "offset": {},
    }


def test_a_plan_says_what_makes_a_database_anew(real_dir: Directory, tmp_path: Path) -> None:
    root = copied_store(real_dir("5.5.0-rocksdb-cq"), tmp_path / "store")
    (root / "consumequeue/000010.sst").unlink()
    store = open_store(root)
    plan = make_plan(store, check_store(store, CheckOptions(jobs=1)))
    assert [action.name for action in plan.actions] == ["rebuild-queue-database"]
    rebuilt(root, tmp_path / "built")
    report = check_store(open_store(root), CheckOptions(jobs=1))
    assert {item.rule for item in report.findings if item.rule.startswith("RK")} <= {"RK017"}
