"""Whole starts of small stores: what a version, a setting or a fault makes of them."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.checkpoint import Checkpoint, encode_checkpoint
from rocketfsck.query.start.model import Start
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry, LiveState, LockState, Settings
from rocketfsck.store.model import Store

from tests.unit.query.maker import GEOMETRY, make, message, patch, reopen

LOG_SIZE = GEOMETRY.commitlog_file_size


def grown(root: Path, count: int = 60, version: str = "5.3.3", **more: Any) -> Store:
    return make(root, [message(number, **more) for number in range(count)], version=version)


def again(root: Path, version: str, geometry: Geometry = GEOMETRY, **settings: Any) -> Start:
    return simulate_start(reopen(root, geometry, version), version, conf=Settings(None, settings))


def log_files(root: Path) -> list[Path]:
    return sorted((root / "store/commitlog").iterdir())


def last_record(store: Store) -> int:
    """The physical offset of the last unit of the only queue."""
    return max(offset for offset in _offsets(store))


def _offsets(store: Store) -> list[int]:
    return [
        struct.unpack_from(">q", data, pos)[0]
        for file in store.queues[0].files
        for data in [file.path.read_bytes()]
        for pos in range(0, len(data), 20)
        if struct.unpack_from(">i", data, pos + 8)[0]
    ]


@pytest.mark.parametrize(
    "version",
    [
        "4.3.0",
        "4.4.0",
        "4.9.8",
        "5.0.0",
        "5.1.4",
        "5.2.0",
        "5.3.2",
        "5.3.3",
        "5.3.4",
        "5.4.0",
        "5.5.0",
        "5.5.1",
    ],
)
def test_a_sound_store_starts_in_every_version(version: str, tmp_path: Path) -> None:
    grown(tmp_path, version=version)
    start = again(tmp_path, version)
    assert start.loads
    assert not start.harmful
    assert start.files == ()
    assert start.losses.by_queue_count == start.losses.by_key_count == 0
    queue = start.queues[0]
    assert (queue.min_offset, queue.max_offset, queue.found_count) == (0, 60, 60)
    assert json.loads(json.dumps(start.document()))["version"] == version


@pytest.mark.parametrize(
    ("version", "files"), [("4.4.0", 3), ("5.3.1", 3), ("5.3.2", 1), ("5.3.3", 1), ("5.3.4", 1), ("5.5.1", 1)]
)
def test_how_many_files_a_clean_start_scans(version: str, files: int, tmp_path: Path) -> None:
    grown(tmp_path, 120, version=version)
    assert len(log_files(tmp_path)) > 3
    scan = again(tmp_path, version).scan
    assert scan is not None
    assert scan.file_count == files


@pytest.mark.parametrize(
    ("version", "loses"),
    [("4.4.0", True), ("4.9.8", True), ("5.1.4", True), ("5.3.3", False), ("5.3.4", False), ("5.5.1", False)],
)
def test_a_flipped_bit_in_the_last_but_one_file(version: str, loses: bool, tmp_path: Path) -> None:
    store = grown(tmp_path, 80, version=version)
    path = log_files(tmp_path)[-2]
    patch(path, 90, b"!")  # the body of its first record
    start = again(tmp_path, version)
    assert start.harmful is loses
    assert (start.cut_offset == int(path.name)) is loses
    assert bool(start.losses.cut_record_count) is loses
    deleted = {item.file for item in start.files if item.change == "deleted"}
    assert (f"commitlog/{log_files(tmp_path)[-1].name}" in deleted) is loses
    if loses:
        cut_count = sum(offset >= int(path.name) for offset in _offsets(store))
        assert start.losses.cut_record_count == cut_count == start.queues[0].cut_count
        assert start.index.blocked_until_offset is not None
    assert again(tmp_path, version, checkCRCOnRecover="false").cut_offset == start.max_offset or loses


def test_the_crc_need_not_be_checked(tmp_path: Path) -> None:
    grown(tmp_path, 80, version="4.9.8")
    patch(log_files(tmp_path)[-2], 90, b"!")
    assert not again(tmp_path, "4.9.8", checkCRCOnRecover="false").harmful


@pytest.mark.parametrize(
    ("version", "destroys"),
    [("4.3.0", False), ("4.4.0", False), ("4.5.1", True), ("4.9.8", True), ("5.3.3", True)],
)
@pytest.mark.parametrize("abort", [False, True])
def test_without_a_commit_log(version: str, destroys: bool, abort: bool, tmp_path: Path) -> None:
    grown(tmp_path, version=version)
    for path in log_files(tmp_path):
        path.unlink()
    if abort:
        (tmp_path / "store/abort").touch()
    start = again(tmp_path, version)
    assert start.queues_destroyed is (destroys or abort)
    deleted = [item for item in start.files if item.file.startswith("consumequeue")]
    assert bool(deleted) is (destroys or abort)
    assert (start.scan, start.cut_offset, start.min_offset, start.max_offset) == (None, None, -1, 0)
    assert start.queues[0].max_offset == (0 if destroys or abort else 60)


@pytest.mark.parametrize(
    ("version", "rebuilt"), [("4.4.0", False), ("4.9.8", True), ("5.1.4", False), ("5.3.3", True)]
)
def test_a_store_without_queues(version: str, rebuilt: bool, tmp_path: Path) -> None:
    store = grown(tmp_path, version=version)
    for file in store.queues[0].files:
        file.path.unlink()
    start = again(tmp_path, version)
    queue = start.queues[0]
    assert (queue.max_offset, queue.added_count) == ((60, 60) if rebuilt else (0, 0))
    assert (queue.reissued_count, queue.unreachable_count) == ((0, 0) if rebuilt else (60, 60))
    assert start.losses.by_queue_count == (0 if rebuilt else 60)
    assert start.losses.new_by_queue_count == 0
    assert start.dispatch is not None
    handed = start.dispatch.recovery_record_count, start.dispatch.record_count
    assert handed == {"4.9.8": (0, 60), "5.3.3": (60, 0)}.get(version, (0, 0))
    same = again(tmp_path, version, recheckReputOffsetFromCq="true")
    assert same.queues[0].max_offset == (0 if version == "4.4.0" else 60)


@pytest.mark.parametrize("version", ["5.3.2", "5.3.3"])
def test_the_first_record_that_was_not_dispatched_is_left_out(version: str, tmp_path: Path) -> None:
    store = grown(tmp_path, version=version)
    file = store.queues[0].files[-1]
    patch(file.path, 140, bytes(60))  # the last three of its ten
    start = again(tmp_path, version)
    queue = start.queues[0]
    assert (queue.added_count, queue.shifted_count, queue.max_offset) == (2, 2, 59)
    assert (queue.reissued_count, start.losses.by_queue_count) == (1, 1)


def test_a_kill_costs_the_newest_index_file(tmp_path: Path) -> None:
    geometry = replace(GEOMETRY, entry_count=121)
    store = make(tmp_path, [message(number) for number in range(70)], geometry=geometry)
    (store.root / "abort").touch()
    last = store.indexes[-1]
    checkpoint = Checkpoint(physic_msg_timestamp=1 << 50, logics_msg_timestamp=1 << 50)
    full = struct.unpack_from(">q", store.indexes[-2].path.read_bytes(), 8)[0]
    (store.root / "checkpoint").write_bytes(encode_checkpoint(replace(checkpoint, index_msg_timestamp=full)))
    start = again(tmp_path, "5.3.3", geometry)
    assert start.recovery == "abnormal"
    assert [item.file for item in start.files if item.change == "deleted"] == [last.relative]
    assert start.scan is not None
    assert start.scan.file_count == 1  # a checkpoint of the future: the last file only
    assert start.losses.new_by_key_count == start.losses.by_key_count
    assert start.losses.by_key_count
    assert start.index.deleted_entry_count > start.index.added_entry_count > 0
    assert start.index.files[-1].fate == "created"
    safe = again(tmp_path, "5.3.3", geometry, messageIndexSafe="true")
    assert safe.scan is not None
    assert safe.scan.file_count > 1
    off = again(tmp_path, "5.3.3", geometry, messageIndexEnable="false")
    assert off.index.added_entry_count == 0
    assert off.losses.by_key_count == off.losses.new_by_key_count
    assert (off.losses.by_key_count or 0) > start.losses.by_key_count


def test_534_begins_where_the_queues_and_the_index_allow_it(tmp_path: Path) -> None:
    store = grown(tmp_path, 80, version="5.3.4")
    first_of_last = log_files(tmp_path)[-1]
    patch(first_of_last, 90, b"!")  # no sound first record: the file before it
    start = again(tmp_path, "5.3.4")
    assert start.scan is not None
    assert start.scan.file_count == 2
    assert start.cut_offset == int(first_of_last.name)
    patch(first_of_last, 56, bytes(8))  # and one without a time is none either
    assert again(tmp_path, "5.3.4").scan is not None
    (store.root / "abort").touch()
    assert again(tmp_path, "5.3.4", messageIndexSafe="true").recovery == "abnormal"


def test_534_and_a_first_record_without_a_time(tmp_path: Path) -> None:
    grown(tmp_path, 80, version="5.3.4")
    patch(log_files(tmp_path)[-1], 56, bytes(8))
    scan = again(tmp_path, "5.3.4").scan
    assert scan is not None
    assert scan.file_count == 2


def test_534_truncates_by_what_it_has_dispatched(tmp_path: Path) -> None:
    store = grown(tmp_path, version="5.3.4")
    patch(store.queues[0].files[-1].path, 180, struct.pack(">qiq", 1 << 40, 100, 0))
    start = again(tmp_path, "5.3.4")
    assert start.queues[0].cut_count


@pytest.mark.parametrize(("version", "cut"), [("4.3.0", 0), ("4.3.2", 1), ("4.9.8", 1)])
def test_a_clean_start_of_old_versions_leaves_dangling_units(version: str, cut: int, tmp_path: Path) -> None:
    store = grown(tmp_path, 55, version=version)
    patch(store.queues[0].files[-1].path, 100, struct.pack(">qiq", 1 << 30, 100, 0))
    start = again(tmp_path, version)
    assert (start.queues[0].max_offset, start.queues[0].cut_count) == (56 - cut, cut)


def test_a_half_record(tmp_path: Path) -> None:
    store = grown(tmp_path, version="4.3.0")
    (store.root / "abort").touch()
    record = last_record(store)
    path = log_files(tmp_path)[-1] if record >= int(log_files(tmp_path)[-1].name) else log_files(tmp_path)[-2]
    size = struct.unpack_from(">i", path.read_bytes(), record - int(path.name))[0]
    patch(path, record - int(path.name), struct.pack(">i", size + 8))
    taken, cut = again(tmp_path, "4.3.1"), again(tmp_path, "4.4.0")
    assert (taken.cut_offset, cut.cut_offset) == (record + size + 8, record)
    assert cut.scan is not None
    assert cut.scan.stop == "half"


def test_a_record_of_more_than_a_broker_can_hold(tmp_path: Path) -> None:
    store = grown(tmp_path, version="4.9.8")
    record = last_record(store)
    path = next(item for item in reversed(log_files(tmp_path)) if int(item.name) <= record)
    patch(path, record - int(path.name), struct.pack(">i", 1 << 30))
    start = again(tmp_path, "4.9.8")
    assert any("more than 1 GiB" in note for note in start.notes)


def test_a_gap_in_the_log_stops_a_start_that_waits(tmp_path: Path) -> None:
    store = grown(tmp_path, 80, version="4.9.8")
    for file in store.queues[0].files:
        file.path.unlink()
    log_files(tmp_path)[1].unlink()
    start = again(tmp_path, "4.9.8")
    assert not start.loads
    assert "the start waits forever for the dispatcher" in start.refusals[0].reason
    assert start.dispatch is not None
    assert start.dispatch.skipped[0].start_offset == LOG_SIZE
    assert start.dispatch.skipped[0].stuck


@pytest.mark.parametrize("role", ["0", "1"])
def test_bytes_that_are_no_record_on_the_dispatchers_way(role: str, tmp_path: Path) -> None:
    store = grown(tmp_path, 140, version="4.9.8")
    for file in store.queues[0].files:
        file.path.unlink()
    second = _offsets_of_log(tmp_path)[1]
    size = struct.unpack_from(">i", log_files(tmp_path)[0].read_bytes(), second)[0]
    patch(log_files(tmp_path)[0], second + 4, b"\0\0\0\0")
    start = again(tmp_path, "4.9.8", brokerId=role)
    assert start.dispatch is not None
    skipped = start.dispatch.skipped[0]
    assert (skipped.start_offset, skipped.stuck) == (second, role != "0")
    assert start.loads is (role == "0")
    assert start.harmful
    if role == "0":
        assert skipped.end_offset == LOG_SIZE
        assert start.queues[0].shifted_count > 0
        behind = len(_offsets_of_log(tmp_path, second + size)) if role == "0" else 0
        assert start.losses.by_queue_count == behind


def _offsets_of_log(root: Path, pos: int = 0) -> list[int]:
    data = log_files(root)[0].read_bytes()
    offsets = []
    while struct.unpack_from(">i", data, pos + 4)[0] == -626843481:
        offsets.append(pos)
        pos += struct.unpack_from(">i", data, pos)[0]
    return offsets


def test_the_dispatcher_loses_count_behind_a_half_record(tmp_path: Path) -> None:
    store = grown(tmp_path, 140, version="4.9.8")
    for file in store.queues[0].files:
        file.path.unlink()
    second = _offsets_of_log(tmp_path)[1]
    size = struct.unpack_from(">i", log_files(tmp_path)[0].read_bytes(), second)[0]
    patch(log_files(tmp_path)[0], second, struct.pack(">i", size + 1))
    start = again(tmp_path, "4.9.8")
    assert start.dispatch is not None
    assert start.queues[0].added_count == 139  # the BLANK brings its count back to the file's end
    assert start.dispatch.skipped == ()


def test_a_half_record_in_a_file_without_a_blank(tmp_path: Path) -> None:
    store = grown(tmp_path, 140, version="4.9.8")
    for file in store.queues[0].files:
        file.path.unlink()
    offsets = _offsets_of_log(tmp_path)
    size = struct.unpack_from(">i", log_files(tmp_path)[0].read_bytes(), offsets[1])[0]
    patch(log_files(tmp_path)[0], offsets[1], struct.pack(">i", size + 1))
    end = offsets[-1] + struct.unpack_from(">i", log_files(tmp_path)[0].read_bytes(), offsets[-1])[0]
    patch(log_files(tmp_path)[0], end + 4, b"\0\0\0\0")
    start = again(tmp_path, "4.9.8")
    assert start.dispatch is not None
    first, second = start.dispatch.skipped[:2]
    assert (first.start_offset, first.end_offset) == (end, LOG_SIZE)
    assert (second.start_offset, second.end_offset) == (LOG_SIZE, LOG_SIZE + size + 1)
    assert "further" in second.why


def test_an_index_that_cannot_be_loaded(tmp_path: Path) -> None:
    store = grown(tmp_path)
    (store.root / "index/99991231235959999").mkdir()
    (store.root / "index/notes").mkdir()
    for version, loads in (("5.0.0", True), ("5.1.0", False), ("5.3.3", False)):
        start = again(tmp_path, version)
        assert start.loads is loads
    assert "Is a directory" in start.refusals[0].reason


def test_an_index_file_that_was_cut_is_mapped_at_its_length(tmp_path: Path) -> None:
    store = grown(tmp_path, 80)
    first = store.indexes[0]
    with first.path.open("r+b") as stream:
        stream.truncate(300)
    start = again(tmp_path, "5.3.3")
    assert [(item.file, item.change) for item in start.files] == [(first.relative, "resized")]
    assert start.index.files[0].fate == "extended"
    assert start.losses.by_key_count


def test_an_empty_queue_file_is_the_end_of_a_start(tmp_path: Path) -> None:
    prepared = message(40, sys_flag=4)  # the log's last record has no unit: nothing is truncated
    store = make(tmp_path, [*(message(number) for number in range(40)), prepared])
    last = store.queues[0].files[-1]
    (last.path.parent / f"{(last.start_offset or 0) + last.size:020d}").write_bytes(bytes(last.size))
    assert again(tmp_path, "4.9.8").loads
    start = again(tmp_path, "5.3.3")
    assert [item.reason for item in start.refusals] == [
        "java.lang.IllegalArgumentException: newPosition < 0: (-20 < 0)"
    ]
    assert start.scan is not None


def test_an_empty_queue_file_gets_a_unit_of_zeros(tmp_path: Path) -> None:
    store = grown(tmp_path, 40)
    last = store.queues[0].files[-1]
    (last.path.parent / f"{(last.start_offset or 0) + last.size:020d}").write_bytes(bytes(last.size))
    start = again(tmp_path, "5.3.3")
    assert start.loads
    assert (start.queues[0].max_offset, start.queues[0].phantom_count) == (41, 1)
    assert start.harmful


def test_messages_of_two_versions_in_an_older_one(tmp_path: Path) -> None:
    make(tmp_path, [message(0), message(1, topic="%RETRY%" + "g" * 140), message(2)], version="5.3.3")
    start = again(tmp_path, "4.9.8")
    assert start.losses.cut_record_count == 2
    assert start.queues[0].cut_count + start.queues[1].cut_count == 2


def test_losses_are_only_looked_for_if_wanted(tmp_path: Path) -> None:
    store = grown(tmp_path)
    for file in store.queues[0].files:
        file.path.unlink()
    start = simulate_start(store, "5.1.4", losses=False)
    assert (start.losses.by_queue_count, start.losses.by_key_count) == (None, None)


@pytest.mark.parametrize(
    ("settings", "version", "refused"),
    [
        ({"enableDLegerCommitLog": "true"}, "4.9.8", True),
        ({"enableDLegerCommitLog": "true"}, "4.4.0", False),
        ({"storeType": "defaultRocksDB"}, "5.3.1", True),
        ({"storeType": "defaultRocksDB"}, "5.3.3", False),
        ({"storeType": "default"}, "5.3.3", False),
    ],
)
def test_stores_of_another_kind_are_refused(
    settings: dict[str, Any], version: str, refused: bool, tmp_path: Path
) -> None:
    grown(tmp_path, 3)
    if refused:
        with pytest.raises(StoreError, match="cannot be predicted"):
            again(tmp_path, version, **settings)
    else:
        assert again(tmp_path, version, **settings).loads


def test_an_unknown_version(tmp_path: Path) -> None:
    store = grown(tmp_path, 3)
    with pytest.raises(UsageError):
        simulate_start(store, "tomorrow")


def test_notes_tell_what_is_left_out(tmp_path: Path) -> None:
    grown(tmp_path, 3)
    start = again(tmp_path, "5.3.3", duplicationEnable="true", enableLmq="true", enableConsumeQueueExt="true")
    for word in ("duplicationEnable", "multi-dispatch", "enableConsumeQueueExt"):
        assert any(word in note for note in start.notes)


def test_a_running_broker_is_noted(tmp_path: Path) -> None:
    store = grown(tmp_path, 3)
    running = replace(store, live=LiveState(LockState.HELD, "a test", 1))
    assert any("a broker is running" in note for note in simulate_start(running, "5.3.3").notes)
    assert not any("a broker is running" in note for note in simulate_start(store, "5.3.3").notes)


def test_a_commit_log_alone(tmp_path: Path) -> None:
    store = grown(tmp_path)
    alone = open_store(store.root / "commitlog", version="5.3.3")
    start = simulate_start(alone, "5.3.3")
    assert start.loads
    assert start.dispatch is not None
    assert start.dispatch.recovery_record_count == 60


def test_a_damaged_topics_json_says_nothing(tmp_path: Path) -> None:
    store = grown(tmp_path, 3)
    (store.root / "config").mkdir(exist_ok=True)
    (store.root / "config/topics.json").write_text("{")
    assert again(tmp_path, "5.3.3").loads
    (store.root / "checkpoint").unlink()
    (store.root / "abort").touch()
    assert again(tmp_path, "5.3.3").recovery == "abnormal"


@pytest.mark.parametrize(("version", "files"), [("5.3.4", None), ("5.4.0", 10), ("5.5.1", 10)])
def test_how_many_files_a_recovery_looks_at(tmp_path: Path, version: str, files: int | None) -> None:
    """A zeroed checkpoint matches no file: all are scanned, from 5.4.0 on the last ten."""
    store = grown(tmp_path, 420, version=version)
    count = len(log_files(tmp_path))
    assert count > 12
    (store.root / "checkpoint").write_bytes(bytes(4096))
    (store.root / "abort").touch()
    scan = again(tmp_path, version).scan
    assert scan is not None
    assert scan.file_count == (files or count)
    fewer = again(tmp_path, version, commitLogRecoverMaxNum="3").scan
    assert fewer is not None
    assert fewer.file_count == (3 if files else count)
    none = again(tmp_path, version, commitLogRecoverMaxNum="-1").scan
    assert none is not None
    assert none.file_count == (files or count)


def test_an_accelerated_recovery_begins_at_the_record_that_the_checkpoint_names(tmp_path: Path) -> None:
    store = grown(tmp_path, 80, version="5.5.0")
    (store.root / "abort").touch()
    offset = last_record(store)

    def start(value: int, version: str = "5.5.0", physic: int = 1, **settings: Any) -> Start:
        checkpoint = Checkpoint(physic, 0, 0, 0, 0, value)
        (store.root / "checkpoint").write_bytes(encode_checkpoint(checkpoint))
        return again(tmp_path, version, enableAcceleratedRecovery="true", **settings)

    sound = start(offset)
    assert sound.scan is not None
    assert (sound.scan.start_offset, sound.scan.file_count) == (offset, 1)
    assert sound.max_offset == again(tmp_path, "5.5.0").max_offset  # as without it
    inside = start(offset + 1)
    assert (inside.cut_offset, inside.max_offset) == (offset + 1, offset + 1)
    assert not start(0).loads
    assert "logicsPhysicalOffset is invalid" in start(-7).refusals[0].reason
    assert start(0, physic=0).loads
    assert start(0, version="5.4.0").loads
    assert not start(1 << 40).loads  # behind the end of the file that it begins with
