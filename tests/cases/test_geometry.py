"""Stores made into stores with files of other sizes: what is the same, what follows, what is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.api import iter_messages
from rocketfsck.cli.app import run
from rocketfsck.commands.convert import ConvertCommand, convert
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.consumequeue import PRE_BLANK_UNIT
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.repair.convert.model import ConvertedStore, QueueLeftOut
from rocketfsck.repair.convert.whole import COPIED, ConvertOptions, convert_store
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import LiveState, LockState
from rocketfsck.store.model import Store

from tests.conftest import Directory
from tests.converted import agreeing_count, bounds, content, contents, problems

BASIC, EXPIRED, DELETED = "5.3.3-basic", "5.1.3-expired", "4.9.7-deleted"
LOG_SIZE, QUEUE_SIZE = 160 << 10, 400


def resized(store: Path, into: Path, **more: Any) -> ConvertedStore:
    sizes = {"commitlog_file_size": LOG_SIZE, "consumequeue_file_size": QUEUE_SIZE}
    made = convert(ConvertCommand(what="geometry", paths=(store,), into=into, no_sync=True, **sizes | more))
    assert made.exit_code == 0
    assert made.converted is not None
    assert problems(open_store(into)) == []
    return made.converted


def small_configs(store: Store) -> dict[str, bytes]:
    return {file.relative: Path(file.location).read_bytes() for file in store.configs}


SAME = (
    "4.4.0-multiseg", "4.4.0-trans", "4.9.8-cqext", "4.9.8-delay", "4.9.8-expired", "4.9.8-ipv6",
    "4.9.8-killed", "4.9.8-lmq", "4.9.8-multiseg", "5.0.0-innerbatch", EXPIRED, "5.3.3-propcrc",
    "5.3.3-trans", "5.1.4-lmq-lists", "5.5.0-batchcq", "5.5.0-compaction", "5.5.0-lite", "5.5.0-multipath",
    "5.5.0-timer", "5.5.0-pop-kv-killed",
)  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_the_same_in_files_of_other_sizes(any_dir: Directory, tmp_path: Path, name: str) -> None:
    before = open_store(any_dir(name))
    made = resized(before.root, tmp_path / "new")
    after = open_store(tmp_path / "new")
    assert contents(after) == contents(before)
    assert bounds(after.root) == bounds(before.root)
    assert small_configs(before).items() <= small_configs(after).items()
    assert {file.size for file in after.commitlog.files} == {LOG_SIZE}
    files = [file for queue in after.queues if queue.kind == "file" for file in queue.files]
    assert {file.size for file in files} <= {QUEUE_SIZE}
    assert (made.start_offset, made.commitlog_file_size, made.former_count) == (LOG_SIZE, LOG_SIZE, 0)
    assert (made.record_count, made.queue_count) == (len(contents(before)), len(bounds(before.root)))
    kinds = {other.relative for other in before.others if other.kind in COPIED or other.relative == "kvStore"}
    assert kinds <= {other.relative for other in after.others}


@pytest.mark.parametrize(("name", "step"), [(BASIC, 11), ("4.9.8-multiseg", 97), ("5.5.0-batchcq", 11)])
def test_queries_answer_the_same(any_dir: Directory, tmp_path: Path, name: str, step: int) -> None:
    root = any_dir(name)
    resized(root, tmp_path / "new")
    assert agreeing_count(root, tmp_path / "new", step=step) > 20


@pytest.mark.parametrize("name", ["4.4.0-trans", "5.3.3-trans"])
def test_ends_of_transactions_follow(store_dir: Directory, tmp_path: Path, name: str) -> None:
    def halves(root: Path) -> list[tuple[Any, ...]]:
        found = list(iter_messages(open_store(root)))
        at = {m.physical_offset: content(m) for m in found}
        return [at[m.prepared_transaction_offset] for m in found if m.prepared_transaction_offset > 0]

    resized(store_dir(name), tmp_path / "new")
    assert halves(tmp_path / "new") == halves(store_dir(name)) != []


def test_timers_follow(real_dir: Directory, tmp_path: Path) -> None:
    assert resized(real_dir("5.5.0-timer"), tmp_path / "new").timer_unit_count == 30


def test_tiered_storage_is_named(real_dir: Directory, tmp_path: Path) -> None:
    made = resized(real_dir("5.5.0-tiered"), tmp_path / "new")
    reasons = {part.path: part.reason for part in made.parts_left_out}
    assert reasons["tiered"] == "tiered storage is not copied"


def test_queues_alone_get_another_size(store_dir: Directory, tmp_path: Path) -> None:
    before = open_store(store_dir(BASIC))
    made = resized(before.root, tmp_path / "new", commitlog_file_size=None)
    after = open_store(tmp_path / "new")
    assert made.commitlog_file_size == after.geometry.commitlog_file_size == 1 << 16
    assert after.geometry.consumequeue_file_size == made.consumequeue_file_size == QUEUE_SIZE


def test_records_of_deleted_topics_stay_behind(
    any_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root, into = any_dir(DELETED), tmp_path / "new"
    assert (
        run(["convert", "geometry", str(root), "--into", str(into), "--commitlog-file-size", "160KiB"]) == 0
    )
    assert "  without 36 records of deleted topics" in capfd.readouterr().out.splitlines()
    assert bounds(into) == bounds(root)
    before = contents(open_store(root))
    after = contents(open_store(into))
    assert [message for message in before if message in after] == after
    assert len(before) - len(after) == 36


def test_a_queue_whose_records_have_expired_goes_on(
    store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = shutil.copytree(store_dir(EXPIRED), tmp_path / "store")
    store = open_store(root)
    assert (store.commitlog.start_offset or 0) > 700
    size = store.geometry.consumequeue_file_size
    directory = root / "consumequeue/Gone/3"
    directory.mkdir(parents=True)
    units = b"".join((100 * at).to_bytes(8, "big") + (100).to_bytes(4, "big") + bytes(8) for at in range(7))
    count = size // 20 + 7  # the first file has been deleted
    (directory / offset_to_filename(size)).write_bytes(units + bytes(size - len(units)))
    into, queue_size = tmp_path / "new", 100
    line = ["convert", "geometry", str(root), "--into", str(into), "--commitlog-file-size", "160KiB"]
    assert run([*line, "--consumequeue-file-size", str(queue_size)]) == 0
    text = "  1 queue without a record: new messages get the queue offsets that they would have had"
    assert text in capfd.readouterr().out.splitlines()
    files = sorted((into / "consumequeue/Gone/3").iterdir())
    last = (count - 1) // 5
    assert [file.name for file in files] == [offset_to_filename(last * queue_size)]
    kept = count - 5 * last
    assert files[0].read_bytes() == PRE_BLANK_UNIT * kept + bytes(queue_size - 20 * kept)
    assert bounds(into)["Gone", 3] == (count, count)
    assert bounds(root)["Gone", 3][1] == count
    assert problems(open_store(into)) == []


def test_a_batch_queue_whose_records_have_expired_is_named(
    real_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(real_dir("5.5.0-batchcq"))
    topic = next(queue.topic for queue in store.queues if queue.kind == "batch")

    def left(*_: Any) -> list[QueueLeftOut]:
        return [QueueLeftOut(topic, 9, 42), QueueLeftOut("Plain", 0, 7)]

    monkeypatch.setattr("rocketfsck.repair.convert.chosen.queues_left_out", left)
    made = resized(store.root, tmp_path / "new")
    reasons = {part.path: part.reason for part in made.parts_left_out}
    assert reasons[f"batchconsumequeue/{topic}/9"].endswith("from 0, not 42")
    assert made.empty_queue_count == 1


def test_a_broker_conf_names_the_old_log_and_sizes(real_dir: Directory, tmp_path: Path) -> None:
    root = shutil.copytree(real_dir("5.5.0-multipath"), tmp_path / "store")
    paths = ",".join(map(str, open_store(root).commitlog.directories))
    conf = tmp_path / "broker.conf"
    conf.write_text(f"mappedFileSizeCommitLog=65536\nstorePathCommitLog={paths}\n")
    command = ConvertCommand(
        what="geometry", paths=(root,), into=tmp_path / "new", commitlog_file_size=LOG_SIZE, no_sync=True
    )
    convert(replace(command, stated=replace(command.stated, broker_conf=conf)))
    after = open_store(tmp_path / "new")
    assert {file.path.parent for file in after.commitlog.files} == {tmp_path / "new/commitlog"}
    assert contents(after) == contents(open_store(root))


SIZES = (
    ({"commitlog_file_size": 100}, "too long for commit log files of 100 bytes"),
    ({"commitlog_file_size": 1 << 31}, "mappedFileSizeCommitLog is at most 2,147,483,647 bytes"),
    ({"consumequeue_file_size": 1 << 31}, "mappedFileSizeConsumeQueue is at most"),
    ({"consumequeue_file_size": 50}, "hold whole units of 20 bytes"),
    ({"commitlog_file_size": None, "consumequeue_file_size": None}, "say the new size"),
)


@pytest.mark.parametrize(("sizes", "reason"), SIZES)
def test_sizes_that_no_broker_has(
    store_dir: Directory, tmp_path: Path, sizes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        resized(store_dir(BASIC), tmp_path / "new", **sizes)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("5.5.0-dledger", "is DLedger's: `rocketfsck convert plain` takes --commitlog-file-size, too"),
        ("5.5.0-rocksdb-cq", r"consumequeue is a RocksDB"),
    ],
)
def test_other_stores_are_refused(real_dir: Directory, tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        resized(real_dir(name), tmp_path / "new")
    assert not list(tmp_path.iterdir())


def test_what_is_refused(store_dir: Directory, tmp_path: Path) -> None:
    store = open_store(store_dir(BASIC))
    options = ConvertOptions("geometry", file_size=LOG_SIZE)
    running = replace(store, live=LiveState(LockState.HELD, "a test says so"))
    with pytest.raises(StoreError, match="stop it first"):
        convert_store(running, tmp_path / "new", options)
    with pytest.raises(UsageError, match="convert geometry takes one store"):
        convert(ConvertCommand(what="geometry", paths=(store.root, store.root), into=tmp_path / "new"))
    (tmp_path / "there").mkdir()
    with pytest.raises(StoreError, match="does not overwrite"):
        resized(store.root, tmp_path / "there")
    damaged = shutil.copytree(store.root, tmp_path / "damaged")
    log = min((damaged / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[data.index(b"\xda\xa3\x20\xa7")] ^= 1
    log.write_bytes(data)
    with pytest.raises(StoreError, match=r"is damaged .*repair it first"):
        resized(damaged, tmp_path / "new")
    shutil.rmtree(damaged / "commitlog")
    shutil.rmtree(damaged / "consumequeue")
    shutil.rmtree(damaged / "index")
    with pytest.raises((StoreError, UsageError)):
        resized(damaged, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_it_says(store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    line = ["convert", "geometry", str(store_dir(BASIC)), "--into", str(tmp_path / "new")]
    assert run([*line, "--commitlog-file-size", "160KiB", "--no-sync", "--format", "json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert (answer["what"], answer["converted"]["record_count"]) == ("geometry", 118)
    shutil.rmtree(tmp_path / "new")
    assert run([*line, "--commitlog-file-size", "160KiB", "--no-sync"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "Converted 118 records of 24 queues, 34.7 KiB, to files of other sizes"
    size = open_store(store_dir(BASIC)).geometry.consumequeue_file_size
    todo = f"set mappedFileSizeCommitLog={LOG_SIZE} and mappedFileSizeConsumeQueue={size} in broker.conf"
    assert lines[-1] == f"Next: {todo} and start with this store; slaves begin empty"
