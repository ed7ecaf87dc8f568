"""The rebuilding job: keys across index files and commit log files, queues in buckets, attempts that die."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketfsck.engine import LocalEngine
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.record import InnerItem
from rocketfsck.pipeline.rebuild import segment
from rocketfsck.pipeline.rebuild.index import IndexTask, QueueTask, build_index_part
from rocketfsck.pipeline.rebuild.job import rebuild_on
from rocketfsck.pipeline.rebuild.places import SpillReader, SpillWriter
from rocketfsck.pipeline.rebuild.segment import SegmentTask, bucket_of, spill_path
from rocketfsck.repair.build.queuestates import WantedQueues
from rocketfsck.repair.build.run import RebuildOptions, rebuild_store
from rocketfsck.repair.compare.compare import compare_stores
from rocketfsck.store import open_store
from rocketfsck.store.model import Store
from rocketfsck.writer import Kind, OutgoingMessage

from tests.conftest import NIGHTLY, Directory
from tests.reported import reported
from tests.unit.pipeline.rebuilding import ALL, BOTH, TwiceEngine, assert_same, tree
from tests.unit.pipeline.viewing import hide
from tests.unit.repair.build.making import change_log, make_store, message, records, reopen

INDEX = RebuildOptions(index=True, sync=False)
FILE_ROOM = 11  # of the small geometry's index files


def _keyed(number: int, key_count: int, **more: Any) -> OutgoingMessage:
    keys = {"KEYS": " ".join(f"k{number}-{key}" for key in range(key_count))} if key_count else {}
    properties = {"TAGS": "A", **keys}
    return message(number, "AB"[number % 2], number % 3, properties=properties, **more)


def _store(folder: Path, count: int = 90, **more: Any) -> Store:
    return make_store(folder, [_keyed(number, 1) for number in range(count)], **more)


@pytest.fixture(params=[3, 10, 1 << 17] if NIGHTLY else [3, 1 << 17])
def chunk_count(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Chunks so small that ranges begin and end in all places of them."""
    count: int = request.param
    monkeypatch.setattr(segment, "CHUNK_COUNT", count)
    return count


@pytest.mark.parametrize("version", ["4.4.0", "4.9.8", "5.3.3"])
@pytest.mark.parametrize("seed", range(12 if NIGHTLY else 2))
def test_keys_across_files(tmp_path: Path, chunk_count: int, version: str, seed: int) -> None:
    chance = random.Random(seed)
    counts = [chance.choice((0, 0, 1, 2, 3, 30)) for _ in range(chance.randrange(20, 60))]
    sent = [_keyed(number, count) for number, count in enumerate(counts)]
    store = make_store(tmp_path, sent, version=version)
    done = assert_same(store, tmp_path)
    assert done.index is not None
    assert len(done.index.files) == -(-sum(counts) // FILE_ROOM) > 3
    assert chunk_count


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
@pytest.mark.parametrize(
    ("counts", "file_count"),
    [
        ([0, 0, 0], 1),  # a file that nothing is put into
        ([11], 1),
        ([11, 0], 2),  # made for the record behind
        ([11, 0, *[0] * 40], 2),  # and there are more of them, in further commit log files
        ([0, 11, 11, 0, 1], 3),
        ([22, 1], 3),
        ([5, 6, *[0] * 30, 1], 2),
        ([11, *[0] * 40, 11], 2),
    ],
)
def test_full_files(
    tmp_path: Path, chunk_count: int, version: str, counts: list[int], file_count: int
) -> None:
    sent = [_keyed(number, count) for number, count in enumerate(counts)]
    done = assert_same(make_store(tmp_path, sent, version=version), tmp_path)
    assert done.index is not None
    assert len(done.index.files) == file_count
    assert chunk_count


def test_index_files_keep_their_times(tmp_path: Path) -> None:
    store = _store(tmp_path)
    rebuild_store(store, tmp_path / "expected", BOTH)
    rebuild_on(LocalEngine(2), store, tmp_path / "built", BOTH)
    times = [
        {path.relative_to(root): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
        for root in (tmp_path / "expected", tmp_path / "built")
    ]
    assert times[0] == times[1]


def test_no_name_of_the_store_is_left(tmp_path: Path) -> None:
    store = _store(tmp_path)
    shutil.rmtree(store.root / "index")
    shanghai = RebuildOptions(index=True, time_zone="Asia/Shanghai", sync=False)
    assert_same(reopen(tmp_path), tmp_path, shanghai)


@pytest.mark.parametrize("number", [0, 1, 10, 11, 12, 21, 22, 60, 89])
def test_the_index_from_an_offset(tmp_path: Path, chunk_count: int, number: int) -> None:
    store = _store(tmp_path)
    offset = records(store)[number][0]
    done = assert_same(store, tmp_path, RebuildOptions(index=True, from_offset=offset, sync=False))
    assert done.index is not None
    assert done.index.record_count == 90 - number
    assert chunk_count


def test_the_index_from_behind_the_end(tmp_path: Path) -> None:
    done = assert_same(
        _store(tmp_path), tmp_path, RebuildOptions(index=True, from_offset=1 << 40, sync=False)
    )
    assert done.index is not None
    assert done.index.files == ()


@pytest.mark.parametrize("count", [1, 33, 37, 44, 90])
def test_only_the_missing_tail(tmp_path: Path, count: int) -> None:
    whole, part = _store(tmp_path / "whole"), _store(tmp_path / "part", count)
    for area in ("consumequeue", "index"):
        shutil.rmtree(whole.root / area)
        shutil.copytree(part.root / area, whole.root / area)
    tail = RebuildOptions(queues=True, index=True, checkpoint=True, only_missing=True, sync=False)
    done = assert_same(reopen(tmp_path / "whole"), tmp_path, tail)
    assert done.queues is not None
    assert done.queues.unit_count == 90 - count


def _batch(number: int) -> OutgoingMessage:
    items = (InnerItem(b"one"), InnerItem(b"two"))
    return message(number, "B", kind=Kind.INNER_BATCH, items=items, properties={"KEYS": "b"}, body=b"")


@pytest.mark.parametrize("areas", [(), ("config",), ("config", "consumequeue", "batchconsumequeue")])
def test_batch_queues(tmp_path: Path, chunk_count: int, areas: tuple[str, ...]) -> None:
    sent = [message(number, "BT"[number % 2]) for number in range(40)]
    batches = [_batch(number) for number in range(40, 60)]
    store = make_store(tmp_path, [*sent, *batches], batch_topics=frozenset({"B"}))
    for area in areas:
        shutil.rmtree(store.root / area, ignore_errors=True)
    done = assert_same(reopen(tmp_path), tmp_path)
    assert done.queues is not None
    assert {queue.topic: queue.kind for queue in done.queues.queues} == {"B": "batch", "T": "file"}
    assert chunk_count


def test_a_plain_queue_that_goes_on_with_batches(tmp_path: Path) -> None:
    sent = [message(number, "B") for number in range(5)]
    store = make_store(tmp_path / "a", [*sent, _batch(5), _batch(6)], batch_topics=frozenset({"B"}))
    plain = make_store(tmp_path / "b", sent)
    for area in ("consumequeue", "batchconsumequeue", "config"):
        shutil.rmtree(store.root / area, ignore_errors=True)
    shutil.copytree(plain.root / "consumequeue", store.root / "consumequeue")
    tail = RebuildOptions(queues=True, only_missing=True, sync=False)
    done = assert_same(reopen(tmp_path / "a"), tmp_path, tail)
    assert done.queues is not None
    assert [(queue.kind, queue.unit_count) for queue in done.queues.queues] == [("file", 2)]


def test_ext_units(tmp_path: Path, chunk_count: int) -> None:
    done = assert_same(_store(tmp_path, consumequeue_ext=True), tmp_path)
    assert done.queues is not None
    assert done.queues.without_bit_maps
    assert chunk_count


@pytest.mark.parametrize("kernels", ["plain", "compiled"])
def test_gaps_duplicates_and_refusals(
    tmp_path: Path, chunk_count: int, monkeypatch: pytest.MonkeyPatch, kernels: str
) -> None:
    monkeypatch.setenv("ROCKETFSCK_KERNELS", kernels)
    store = _store(tmp_path)
    places = records(store)
    change_log(store, places[7][0], b"\xff" * places[7][1])
    change_log(store, places[30][0], b"\x00" * places[30][1])
    change_log(store, places[18][0] + 20, (1).to_bytes(8, "big"))
    change_log(store, places[50][0] + 20, (1 << 40).to_bytes(8, "big"))
    for number in (9, 10, 60):
        change_log(store, places[number][0] + 149, b"/")
    done = assert_same(reopen(tmp_path), tmp_path)
    assert done.queues is not None
    queues = done.queues.queues
    assert sum(queue.gap_count for queue in queues) > 1
    assert sum(queue.duplicate_count for queue in queues) > 0
    assert sum(queue.misplaced_count for queue in queues) > 0
    assert done.queues.refused_count == 3
    assert len(done.damaged_files) == 2
    assert chunk_count


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """Two topics of different bytes that Java reads as the same one share a queue, whatever the bucket."""
    store = _store(tmp_path)
    for number, byte in ((4, b"\xff"), (6, b"\xfe"), (8, b"\x00"), (10, b"\xff")):
        change_log(store, records(store)[number][0] + 149, byte)
    assert_same(reopen(tmp_path), tmp_path)


@pytest.mark.parametrize("queue_ids", [None, frozenset({0, 2})])
def test_wanted_queues(tmp_path: Path, queue_ids: frozenset[int] | None) -> None:
    wanted = WantedQueues(frozenset({"A", "C"}), queue_ids)
    options = RebuildOptions(queues=True, wanted=wanted, sync=False)
    done = assert_same(_store(tmp_path), tmp_path, options)
    assert done.queues is not None
    assert {queue.topic for queue in done.queues.queues} == {"A"}


def test_many_queues(tmp_path: Path) -> None:
    sent = [message(number, f"T{number % 40}", number % 7) for number in range(200)]
    store = make_store(tmp_path, sent)
    engines = [LocalEngine(count) for count in (1, 16)]
    done = assert_same(store, tmp_path, engines=engines)
    assert done.queues is not None
    names = {(queue.topic, queue.queue_id) for queue in done.queues.queues}
    assert len({bucket_of(name) for name in names}) > 100


@pytest.mark.parametrize("options", [ALL, INDEX, RebuildOptions(queues=True, sync=False)])
def test_a_log_without_records(tmp_path: Path, options: RebuildOptions) -> None:
    store = _store(tmp_path, 3)
    (path,) = (file.path for file in store.commitlog.files)
    path.write_bytes(bytes(path.stat().st_size))
    assert_same(reopen(tmp_path), tmp_path, options)


def test_a_checkpoint_alone(tmp_path: Path) -> None:
    assert_same(_store(tmp_path), tmp_path, RebuildOptions(checkpoint=True, sync=False))


def test_tasks_are_small(tmp_path: Path) -> None:
    """Their number goes with the files, and what they are told does not grow with the records."""
    engine = TwiceEngine()
    store = _store(tmp_path, 300)
    assert_same(store, tmp_path, engines=[engine])
    assert len(engine.seen) <= len(store.commitlog.files) + -(-300 // FILE_ROOM) + 2 * 3


def _half(kernel: Callable[[Any], Any], task: Any) -> Any:
    """An attempt that dies when it gives something its name."""
    real = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if "rebuilding" in str(self) and "index/" not in str(target):
            raise KeyboardInterrupt
        return real(self, target)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "rename", refuse)
        patched.setattr(Path, "replace", refuse)
        with pytest.raises(KeyboardInterrupt):
            return kernel(task)


@pytest.mark.parametrize("first", [_half, lambda kernel, task: kernel(task)])
def test_attempts_do_not_meet(tmp_path: Path, first: Callable[[Any, Any], Any]) -> None:
    assert_same(_store(tmp_path), tmp_path, engines=[TwiceEngine(first)])


def _fail(kernel: Callable[[Any], Any], task: Any) -> Any:
    if isinstance(task, IndexTask) and task.number == 2:
        raise StoreError("disk full")
    return kernel(task)


@pytest.mark.parametrize("apart", [False, True])
def test_nothing_is_left_of_an_error(tmp_path: Path, apart: bool) -> None:
    store, scratch = _store(tmp_path), tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(StoreError, match="disk full"):
        rebuild_on(TwiceEngine(_fail), store, tmp_path / "built", ALL, scratch=scratch if apart else None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broker.conf", "scratch", "store"]
    assert list(scratch.iterdir()) == []


def _kill_at(kind: type) -> Callable[[Any, Any], Any]:
    def run(kernel: Callable[[Any], Any], task: Any) -> Any:
        if isinstance(task, kind):
            os._exit(9)
        return kernel(task)

    return run


@pytest.mark.parametrize("kind", [SegmentTask, IndexTask, QueueTask])
def test_what_a_killed_run_left_is_removed(tmp_path: Path, kind: type) -> None:
    store, scratch = _store(tmp_path), tmp_path / "scratch"
    scratch.mkdir()
    child = os.fork()
    if child == 0:
        rebuild_on(TwiceEngine(_kill_at(kind)), store, tmp_path / "built", ALL, scratch=scratch)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert (tmp_path / ".built.rebuilding").is_dir()
    assert len(list(scratch.iterdir())) == 1
    assert not (tmp_path / "built").exists()
    (tmp_path / ".built.rebuilding" / "parts" / "index-000000").write_bytes(b"half")
    rebuild_store(store, tmp_path / "expected", ALL)
    rebuild_on(LocalEngine(2), store, tmp_path / "built", ALL, scratch=scratch)
    assert tree(tmp_path / "built") == tree(tmp_path / "expected")
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / ".built.rebuilding").exists()


def test_two_runs_at_once(tmp_path: Path) -> None:
    store = _store(tmp_path, 5)
    building = tmp_path / ".built.rebuilding"
    building.mkdir()
    lock = os.open(building, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="another process is building here"):
            rebuild_on(LocalEngine(1), store, tmp_path / "built", ALL)
    finally:
        os.close(lock)


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    store = _store(tmp_path, 5)
    with pytest.raises(UsageError, match="choose one"):
        rebuild_on(
            LocalEngine(1),
            store,
            tmp_path / "built",
            RebuildOptions(index=True, only_missing=True, from_offset=5),
        )
    with pytest.raises(StoreError, match="cannot be made"):
        rebuild_on(LocalEngine(1), store, tmp_path / "built", ALL, scratch=tmp_path / "none")
    (tmp_path / "built").mkdir()
    with pytest.raises(UsageError, match="does not overwrite"):
        rebuild_on(LocalEngine(1), store, tmp_path / "built", ALL)
    assert not (tmp_path / ".built.rebuilding").exists()


def test_a_log_that_cannot_be_listed_is_not_rebuilt_from(
    store_copy: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queues and an index made without the messages of a file that is there would be wrong."""
    root = store_copy("4.9.8-multiseg")
    hide(root / "commitlog/00000000000000131072", monkeypatch, is_link=True)
    store, options = open_store(root), RebuildOptions(queues=True)
    with pytest.raises(StoreError, match="00000000000000131072: cannot be read"):
        rebuild_on(LocalEngine(1), store, tmp_path / "built", options)
    with pytest.raises(StoreError, match="00000000000000131072: cannot be read"):
        rebuild_store(store, tmp_path / "built", options)
    assert not (tmp_path / "built").exists()


def test_a_log_that_cannot_be_listed_is_not_compared(
    store_copy: Directory, store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = store_copy("4.9.8-multiseg")
    hide(root / "commitlog/00000000000000131072", monkeypatch, is_link=False)
    for stores in ((root, store_dir("4.9.8-multiseg")), (store_dir("4.9.8-multiseg"), root)):
        with pytest.raises(StoreError, match="00000000000000131072: cannot be read"):
            compare_stores(*map(open_store, stores))


def test_progress(tmp_path: Path) -> None:
    store, seen = _store(tmp_path), list[tuple[int, int]]()
    with reported("reading the commit log", seen):
        rebuild_on(LocalEngine(1), store, tmp_path / "built", BOTH)
    size = store.commitlog.size
    assert {(end, size) for end in range(4096, size + 1, 4096)} < set(seen)
    assert seen == sorted(seen) and seen[-1] == (size, size)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [5],
        [7, 7, 7],
        [0, 255],
        [-1, 255],
        [10**12, 10**12 + 65535],
        [0, 1 << 32],
        [-(1 << 63), (1 << 63) - 1, 0],
        [-(1 << 63), -(1 << 63) + 300],
    ],
)
def test_columns_come_back(tmp_path: Path, values: list[int]) -> None:
    column = np.array(values, np.int64)
    with SpillWriter(tmp_path / "file") as writer:
        writer.column(np.arange(1000))
        place = writer.column(column)
        writer.publish({"place": np.array(place, np.int64)})
    with SpillReader(tmp_path / "file") as reader:
        found = reader.column(reader.footer["place"], 0, len(values))
        assert found.tolist() == values
        assert (
            reader.column(reader.footer["place"], len(values) // 2, len(values)).tolist()
            == values[len(values) // 2 :]
        )


def test_half_a_scratch_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with SpillWriter(path) as writer:
        writer.column(np.arange(100))
    assert list(tmp_path.iterdir()) == []
    with SpillWriter(path) as writer:
        column = np.array(writer.column(np.arange(300)), np.int64)
        writer.publish({"column": column})
    data = path.read_bytes()
    for size in (0, 5, 30, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(StoreError, match="is not a whole scratch file"):
            SpillReader(path)
    path.write_bytes(data[:-30] + bytes(6) + data[-24:])
    with pytest.raises(StoreError, match="is not a whole scratch file"):
        SpillReader(path)
    path.write_bytes(data)
    with SpillReader(path) as reader, pytest.raises(StoreError, match="ends too early"):
        reader.read(len(data) - 5, 6)
    with pytest.raises(StoreError, match="cannot be read"):
        SpillReader(tmp_path / "none")
    with pytest.raises(StoreError, match="cannot be written"):
        SpillWriter(tmp_path / "none" / "file")


def test_scratch_files_that_are_gone_end_the_job(tmp_path: Path) -> None:
    def remove(kernel: Callable[[Any], Any], task: Any) -> Any:
        if isinstance(task, IndexTask) and task.number == 1:
            for part in task.segments:
                spill_path(task.building.scratch, "keys", part.number).unlink(missing_ok=True)
                spill_path(task.building.scratch, "units", part.number).unlink(missing_ok=True)
        return None if isinstance(task, IndexTask) else kernel(task)

    with pytest.raises(StoreError, match=r"keys-0+\d: cannot be read"):
        rebuild_on(TwiceEngine(remove), _store(tmp_path), tmp_path / "built", ALL)
    assert not (tmp_path / "built").exists()


def test_counts_that_are_wrong_end_the_job(tmp_path: Path) -> None:
    def overrun(kernel: Callable[[Any], Any], task: Any) -> Any:
        if isinstance(task, IndexTask):
            wrong = IndexTask(task.building, 1, 10**6, 10**6 + 1, task.segments)
            with pytest.raises(StoreError, match="does not hold as much as an earlier step counted"):
                build_index_part(wrong)
            wrong = IndexTask(task.building, 0, 0, 5, ())
            with pytest.raises(StoreError, match="does not hold as much as an earlier step counted"):
                build_index_part(wrong)
        return kernel(task)

    assert_same(_store(tmp_path, 20), tmp_path, engines=[TwiceEngine(overrun)])
