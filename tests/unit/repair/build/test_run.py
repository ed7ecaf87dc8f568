"""A rebuilding as a whole: published when it is done, resumed when it was killed, the tail alone."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.checkpoint import decode_checkpoint
from rocketfsck.formats.record import InnerItem
from rocketfsck.progress import State, watched
from rocketfsck.repair.build import files as building_files
from rocketfsck.repair.build import queuestates
from rocketfsck.repair.build.files import build_checkpoint
from rocketfsck.repair.build.index import IndexBuilder
from rocketfsck.repair.build.queuestates import WantedQueues, queue_end
from rocketfsck.repair.build.run import RebuildOptions, rebuild_store
from rocketfsck.store import open_store
from rocketfsck.store.model import Store
from rocketfsck.store.reading import read_at
from rocketfsck.writer import Kind, OutgoingMessage
from rocketfsck.writer.disk import fileops

from tests.reported import reported
from tests.unit.repair.build.making import START, change_log, files, make_store, message, records, reopen

AREAS = ("consumequeue", "batchconsumequeue", "consumequeue_ext", "index")
BOTH = RebuildOptions(queues=True, index=True, sync=False)
SAVING = RebuildOptions(queues=True, index=True, sync=False, save_seconds=0.0)


def _store(folder: Path, count: int = 90, **more: Any) -> Store:
    return make_store(folder, [message(number, queue_id=number % 2) for number in range(count)], **more)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_builds_belongs_to_the_owner_of_the_store(
    tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _store(tmp_path)
    os.chown(store.root, 12345, 23456)
    rebuild_store(store, built, BOTH)
    made = [built, *built.rglob("*")]
    assert len(made) > 6
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(12345, 23456)}
    shutil.rmtree(built)

    os.chown(store.root, os.geteuid(), os.getegid())
    asked: list[object] = []
    monkeypatch.setattr(fileops, "set_owner", lambda *given: asked.append(given))
    rebuild_store(store, built, BOTH)
    assert not asked  # all of it is root's as it is made
    shutil.rmtree(built)
    tmp_path.chmod(0o2755)  # what is made here gets the group of the directory
    rebuild_store(store, built, BOTH)
    assert len(asked) == len(made)


def _left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if "built" in path.name)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    return tmp_path / "built"


def test_all_parts_in_one_pass(tmp_path: Path, built: Path) -> None:
    store = _store(tmp_path)
    done = rebuild_store(store, built, RebuildOptions(queues=True, index=True, checkpoint=True))
    assert files(built, AREAS) == files(store.root, AREAS)
    checkpoint = decode_checkpoint((built / "checkpoint").read_bytes())
    assert checkpoint.physic_msg_timestamp == checkpoint.logics_msg_timestamp == START + 89_000
    assert checkpoint.index_msg_timestamp == store_index_end(done)
    assert (built / "checkpoint").stat().st_size == 4096
    assert (done.record_count, done.resumed, done.damaged_files) == (90, False, ())
    assert done.log_end_offset == sum(records(store)[-1])
    assert _left(tmp_path) == ["built"]


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("kind", ["file", "batch"])
def test_the_checkpoint_is_that_of_the_queues_as_they_are_on_disk(
    tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch, kind: str, killed: bool
) -> None:
    make = _batch if kind == "batch" else message
    messages = [make(number) for number in range(60)]
    messages += [message(number, kind=Kind.ROLLBACK) for number in range(60, 70)]  # records without a unit
    store = make_store(tmp_path, messages, batch_topics=frozenset({"B"} if kind == "batch" else ()))
    if killed:
        with monkeypatch.context() as patched:
            _fail_at(patched, records(store)[-1][0])
            with pytest.raises(StoreError, match="disk full"):
                rebuild_store(store, built, replace(SAVING, checkpoint=True))
    done = rebuild_store(store, built, replace(SAVING, checkpoint=True))
    assert done.resumed == killed
    assert {path.name for path in built.iterdir()} >= {
        "consumequeue" if kind == "file" else "batchconsumequeue"
    }
    on_disk = open_store(built, version="5.3.3")
    expected = build_checkpoint(replace(store, queues=on_disk.queues, indexes=on_disk.indexes))
    assert decode_checkpoint((built / "checkpoint").read_bytes()) == expected
    assert expected.logics_msg_timestamp == START + 59_000


def test_without_queues_the_checkpoint_names_no_unit(tmp_path: Path, built: Path) -> None:
    store = make_store(tmp_path, [message(number, kind=Kind.ROLLBACK) for number in range(5)])
    rebuild_store(store, built, replace(BOTH, checkpoint=True))
    checkpoint = decode_checkpoint((built / "checkpoint").read_bytes())
    assert (checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp) == (START + 4_000, 0)


def store_index_end(done: Any) -> int:
    assert done.index is not None
    end: int = done.index.files[-2].end_timestamp
    return end


def test_a_checkpoint_alone(tmp_path: Path, built: Path) -> None:
    store = _store(tmp_path)
    done = rebuild_store(store, built, RebuildOptions(checkpoint=True, sync=False))
    assert [path.name for path in built.iterdir()] == ["checkpoint"]
    assert (done.queues, done.index, done.checkpoint) == (None, None, True)


def test_wanted_queues(tmp_path: Path, built: Path) -> None:
    store = make_store(tmp_path, [message(number, "AB"[number % 2], number % 3) for number in range(12)])
    wanted = WantedQueues(frozenset({"A"}), frozenset({0, 1}))
    done = rebuild_store(store, built, RebuildOptions(queues=True, wanted=wanted, sync=False))
    assert done.queues is not None
    assert [(queue.topic, queue.queue_id) for queue in done.queues.queues] == [("A", 0), ("A", 1)]
    assert ("A", 2) not in wanted
    assert "A" not in wanted
    assert ("A", 7) in WantedQueues(frozenset({"A"}))


def test_nothing_is_written_over(tmp_path: Path, built: Path) -> None:
    store = _store(tmp_path, 5)
    built.mkdir()
    with pytest.raises(UsageError, match="exists, and rocketfsck does not overwrite it"):
        rebuild_store(store, built, BOTH)
    built.rmdir()
    built.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="exists"):
        rebuild_store(store, built, BOTH)


def test_a_place_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    store = _store(tmp_path, 5)
    with pytest.raises(StoreError, match="none/built: cannot be made: No such file"):
        rebuild_store(store, tmp_path / "none" / "built", BOTH)


def test_options_that_do_not_fit(tmp_path: Path, built: Path) -> None:
    store = _store(tmp_path, 5, consumequeue_ext=True)
    with pytest.raises(UsageError, match="consumequeue_ext"):
        rebuild_store(store, built, RebuildOptions(queues=True, only_missing=True))
    with pytest.raises(UsageError, match="choose one"):
        rebuild_store(store, built, RebuildOptions(index=True, only_missing=True, from_offset=5))
    assert _left(tmp_path) == []


def _fail_at(monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    """The index cannot take the record at an offset."""
    real = IndexBuilder.take_keys

    def failing(self: Any, rows: Any) -> None:
        if rows.offset[-1] >= offset:
            raise StoreError("disk full")
        real(self, rows)

    monkeypatch.setattr(IndexBuilder, "take_keys", failing)


def test_nothing_is_left_of_an_error_before_the_first_save(
    tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _store(tmp_path)
    _fail_at(monkeypatch, 3 * 4096)
    with pytest.raises(StoreError, match="disk full"):
        rebuild_store(store, built, BOTH)
    assert _left(tmp_path) == []


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("ext", [False, True])
def test_a_second_run_goes_on(
    tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch, number: int, ext: bool
) -> None:
    store = _store(tmp_path, consumequeue_ext=ext)
    with monkeypatch.context() as patched:
        _fail_at(patched, number * 4096)
        with pytest.raises(StoreError, match="disk full"):
            rebuild_store(store, built, SAVING)
    assert _left(tmp_path) == [".built.rebuilding"]
    seen: list[tuple[int, int]] = []
    with reported("reading the commit log", seen):
        done = rebuild_store(store, built, SAVING)
    assert done.resumed
    assert min(seen)[0] >= number * 4096
    assert files(built, AREAS) == files(store.root, AREAS)
    assert done.queues is not None
    assert done.index is not None
    assert (done.record_count, done.queues.unit_count, done.index.entry_count) == (90, 90, 90)
    assert _left(tmp_path) == ["built"]
    assert sorted(path.name for path in built.iterdir()) == sorted(
        {"consumequeue", "index"} | ({"consumequeue_ext"} if ext else set())
    )


def test_gaps_and_refusals_are_remembered(
    tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _store(tmp_path)
    places = records(store)
    change_log(store, places[4][0], b"\xff" * places[4][1])
    change_log(store, places[8][0] + 149, b"/")
    store = reopen(tmp_path)
    expected = rebuild_store(store, tmp_path / "whole", BOTH)
    with monkeypatch.context() as patched:
        _fail_at(patched, 2 * 4096)
        with pytest.raises(StoreError, match="disk full"):
            rebuild_store(store, built, SAVING)
    done = rebuild_store(store, built, SAVING)
    assert done.resumed
    assert done.queues == expected.queues
    assert done.queues is not None
    assert (done.queues.refused_count, done.queues.queues[0].gap_count) == (1, 2)


def _half_done(store: Store, built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with monkeypatch.context() as patched:
        _fail_at(patched, 2 * 4096)
        with pytest.raises(StoreError, match="disk full"):
            rebuild_store(store, built, SAVING)
    return built.with_name(".built.rebuilding")


def test_other_inputs_begin_anew(tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _store(tmp_path)
    work = _half_done(store, built, monkeypatch)
    (work / "stray").write_bytes(b"")
    done = rebuild_store(store, built, RebuildOptions(queues=True, sync=False))
    assert not done.resumed
    assert [path.name for path in built.iterdir()] == ["consumequeue"]


def test_a_restart_of_the_machine_begins_anew(
    tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _store(tmp_path)
    _half_done(store, built, monkeypatch)
    other = tmp_path / "boot"
    other.write_text("another\n", "ascii")
    with monkeypatch.context() as patched:
        patched.setattr(building_files, "BOOT_ID", other)
        assert not rebuild_store(store, built, SAVING).resumed
    assert files(built, AREAS) == files(store.root, AREAS)


def test_without_a_boot_id_nothing_is_believed(
    tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _store(tmp_path)
    monkeypatch.setattr(building_files, "BOOT_ID", tmp_path / "nowhere")
    _half_done(store, built, monkeypatch)
    assert not rebuild_store(store, built, SAVING).resumed


@pytest.mark.parametrize("text", ["{", "[]", '{"inputs": 1}'])
def test_a_state_that_makes_no_sense_begins_anew(
    tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    store = _store(tmp_path)
    work = _half_done(store, built, monkeypatch)
    (work / building_files.STATE_NAME).write_text(text, "ascii")
    assert not rebuild_store(store, built, SAVING).resumed


def test_two_at_once(tmp_path: Path, built: Path) -> None:
    store = _store(tmp_path, 5)
    work = tmp_path / ".built.rebuilding"
    work.mkdir()
    descriptor = os.open(work, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="another process is building here"):
            rebuild_store(store, built, BOTH)
    finally:
        os.close(descriptor)
    assert work.exists()


def test_a_directory_made_meanwhile_stays(tmp_path: Path, built: Path) -> None:
    store = _store(tmp_path, 5)

    def make(now: State | None) -> None:
        if now is not None and now.done:
            built.mkdir(exist_ok=True)

    with watched(make), pytest.raises(UsageError, match="was created by another program"):
        rebuild_store(store, built, BOTH)
    assert list(built.iterdir()) == []


def _batch(number: int) -> OutgoingMessage:
    items = (InnerItem(b"one"), InnerItem(b"two"))
    return message(number, "B", kind=Kind.INNER_BATCH, items=items, properties={"KEYS": "b"}, body=b"")


def test_batch_queues_that_only_the_log_shows(tmp_path: Path, built: Path) -> None:
    sent = [message(number, "B" if number < 30 else "T") for number in range(60)]
    store = make_store(tmp_path, [*sent, _batch(60), _batch(61)], batch_topics=frozenset({"B"}))
    before = files(store.root, AREAS)
    for area in (*AREAS, "config"):
        shutil.rmtree(store.root / area, ignore_errors=True)
    done = rebuild_store(reopen(tmp_path), built, SAVING)
    found = files(built, AREAS)
    assert {name: data for name, data in found.items() if "index" not in name} == {
        name: data for name, data in before.items() if "index" not in name
    }
    assert done.record_count == 62
    assert sorted(data for name, data in found.items() if "index" in name) == sorted(
        data for name, data in before.items() if "index" in name
    )


def test_a_plain_queue_that_is_there_stays_one(tmp_path: Path, built: Path) -> None:
    sent = [message(number, "B") for number in range(5)]
    store = make_store(tmp_path / "a", [*sent, _batch(5), _batch(6)], batch_topics=frozenset({"B"}))
    plain = make_store(tmp_path / "b", sent)
    for area in ("consumequeue", "batchconsumequeue", "config"):
        shutil.rmtree(store.root / area, ignore_errors=True)
    shutil.copytree(plain.root / "consumequeue", store.root / "consumequeue")
    tail = RebuildOptions(queues=True, only_missing=True, sync=False)
    done = rebuild_store(reopen(tmp_path / "a"), built, tail)
    assert done.queues is not None
    assert [(queue.kind, queue.unit_count) for queue in done.queues.queues] == [("file", 2)]


def _shortened(folder: Path, name: str, count: int) -> Store:
    """The whole store with the queues and the index of its first `count` messages."""
    whole = _store(folder / name, 90)
    part = _store(folder / f"{name}-part", count)
    for area in ("consumequeue", "index"):
        shutil.rmtree(whole.root / area)
        shutil.copytree(part.root / area, whole.root / area)
    return reopen(folder / name)


@pytest.mark.parametrize("count", [1, 37, 40, 44, 90])
def test_only_the_missing_tail(tmp_path: Path, built: Path, count: int) -> None:
    store = _shortened(tmp_path, "whole", count)
    full = _store(tmp_path / "full", 90)
    before = files(store.root, AREAS)
    tail = RebuildOptions(queues=True, index=True, checkpoint=True, only_missing=True, sync=False)
    done = rebuild_store(store, built, tail)
    made = files(built, AREAS)
    everything = replace(tail, only_missing=False)
    rebuild_store(full, built.with_name("all"), everything)
    assert (built / "checkpoint").read_bytes() == (built.with_name("all") / "checkpoint").read_bytes()
    # what was there and what is new make the whole; nothing is made that stays the same
    assert before | made == files(full.root, AREAS)
    assert all(before.get(name) != data for name, data in made.items())
    assert done.queues is not None
    assert done.queues.unit_count == 90 - count
    assert all(queue.duplicate_count == 0 for queue in done.queues.queues)
    starts = {queue.queue_id: queue.start_queue_offset for queue in done.queues.queues}
    assert starts == ({} if count == 90 else {0: (count + 1) // 2, 1: count // 2})


def test_the_missing_tail_of_batch_queues(tmp_path: Path, built: Path) -> None:
    sent = [_batch(number) for number in range(11)]
    topics = frozenset({"B"})
    full = make_store(tmp_path / "full", sent, batch_topics=topics)
    part = make_store(tmp_path / "part", sent[:6], batch_topics=topics)
    expected = files(full.root, AREAS)
    shutil.rmtree(full.root / "batchconsumequeue")
    shutil.copytree(part.root / "batchconsumequeue", full.root / "batchconsumequeue")
    store = reopen(tmp_path / "full")
    done = rebuild_store(store, built, RebuildOptions(queues=True, only_missing=True, sync=False))
    assert files(full.root, AREAS) | files(built, AREAS) == expected
    assert done.queues is not None
    (queue,) = done.queues.queues
    assert (queue.start_queue_offset, queue.end_queue_offset, queue.unit_count) == (12, 22, 5)


def test_where_a_queue_ends(tmp_path: Path) -> None:
    store = _store(tmp_path, 26)
    queue = store.queues[0]
    places = records(store)[::2]
    end = queue_end(queue, 1 << 40)
    assert end is not None
    assert (end.following, end.queue_offset) == (13, 13)
    assert (end.record_offset, end.record_end - end.record_offset) == places[12]
    # what points behind the log, and all that follows it, does not count
    cut = queue_end(queue, places[11][0])
    assert cut is not None
    assert (cut.following, cut.last_file) == (11, queue.files[1].location)
    assert queue_end(queue, 0) is None


def test_the_end_of_a_queue_of_a_tebibyte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units end at the first hole; what is behind it is not read."""
    store = _store(tmp_path, 2)
    end = queue_end(store.queues[0], 1 << 40)
    path = store.queues[0].files[0].path
    with path.open("r+b") as file:
        file.seek((1 << 40) - 4096)
        file.write(b"\1" * 4096)
    assert queue_end(reopen(tmp_path).queues[0], 1 << 40) == end
    path.write_bytes(read_at(path, 0, 20) * 1000)
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    monkeypatch.setattr(queuestates, "BLOCK_COUNT", 300)
    found = queue_end(reopen(tmp_path).queues[0], 1 << 40)
    assert found is not None
    assert found.following == 1000


def test_a_queue_of_pre_blank_units_has_no_end(tmp_path: Path) -> None:
    store = _store(tmp_path, 2)
    path = store.queues[0].files[0].path
    path.write_bytes(b"\0" * 8 + b"\x7f\xff\xff\xff" + bytes(8) + bytes(180))
    assert queue_end(reopen(tmp_path).queues[0], 1 << 40) is None


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Store]:
    yield make_store(tmp_path, [message(number, queue_id=number % 4) for number in range(1200)])


def test_killed_at_any_time(tmp_path: Path, built: Path, large: Store) -> None:
    """SIGKILL while it works, again and again, until a run gets through."""
    code = (
        "import sys; from pathlib import Path\n"
        "from rocketfsck.repair.build.run import RebuildOptions, rebuild_store\n"
        "from rocketfsck.store import open_store\n"
        "store = open_store(sys.argv[1], broker_conf=Path(sys.argv[2]), version='5.3.3')\n"
        "print('ready', flush=True)\n"
        "options = RebuildOptions(queues=True, index=True, save_seconds=0.0, sync=False)\n"
        "print('resumed', rebuild_store(store, Path(sys.argv[3]), options).resumed)\n"
    )
    command = [sys.executable, "-c", code, str(large.root), str(tmp_path / "broker.conf"), str(built)]
    delays = iter((0.02, 0.05, 0.1, 0.2))
    for delay in delays:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        if built.exists():
            break
        assert not built.exists()
    if not built.exists():
        subprocess.run(command, check=True, capture_output=True)
    assert files(built, AREAS) == files(large.root, AREAS)
    assert _left(tmp_path) == ["built"]


class Killed(BaseException):
    """As if the process had ended here: nothing catches it, nothing is tidied up."""


def _killed_run(store: Store, built: Path, at: int) -> bool:
    """Run until the system call number `at` that changes a file; whether it got through."""
    count = 0

    def dying(real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count >= at:
                raise Killed
            return real(*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patched:
        for name in ("pwrite", "ftruncate", "utime", "rename", "replace", "unlink", "mkdir", "rmdir"):
            patched.setattr(os, name, dying(getattr(os, name)))
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        try:
            rebuild_store(store, built, SAVING)
        except Killed:
            return False
    return True


@pytest.mark.parametrize("first", range(1, 60, 7))
def test_killed_at_any_change_and_again(tmp_path: Path, built: Path, first: int) -> None:
    """Each run is killed some changes later than the one before, until one gets through."""
    store = _store(tmp_path, 70)
    at = first
    while not _killed_run(store, built, at):
        assert not built.exists()
        assert _left(tmp_path) in ([], [".built.rebuilding"])
        at += 13
    assert files(built, AREAS) == files(store.root, AREAS)
    assert _left(tmp_path) == ["built"]
    assert sorted(path.name for path in built.iterdir()) == ["consumequeue", "index"]
