"""Shapes that the broker-written stores do not have: default sizes, late starts, ext files, appends …"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import UsageError
from rocketfsck.formats.checkpoint import Checkpoint, decode_checkpoint
from rocketfsck.formats.config import decode_config, topic_configs
from rocketfsck.formats.consumequeue import PRE_BLANK_UNIT, UNIT
from rocketfsck.formats.indexfile import decode_header, index_file_size
from rocketfsck.formats.record import InnerItem
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import (
    EndState,
    Event,
    Expiry,
    Kind,
    OutgoingMessage,
    PutRecord,
    Restart,
    WriteOptions,
    write_store,
)
from rocketfsck.writer.indexfile import wall_clock_name

NOW = 1_700_000_000_000
SMALL = Geometry(4096, 200, 92, 100, 4, 10)


def _options(**changed: Any) -> WriteOptions:
    return WriteOptions(**{"geometry": SMALL, "sync": False, **changed})


def _message(number: int = 0, **changed: Any) -> OutgoingMessage:
    given = {"properties": {"KEYS": f"k{number}"}, "store_timestamp": NOW + number, **changed}
    return OutgoingMessage("T", b"body", **given)


def _allocated(path: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())


def test_default_sizes_are_sparse(tmp_path: Path) -> None:
    written = write_store(tmp_path / "store", map(_message, range(50)))
    sizes = dict(written.files)
    assert sizes["commitlog/00000000000000000000"] == 1 << 30
    assert sizes["consumequeue/T/0/00000000000000000000"] == 6_000_000
    assert sizes[f"index/{written.index_files[0][0]}"] == 420_000_040
    assert _allocated(tmp_path / "store") < 4 << 20


def test_killed_with_default_sizes_keeps_the_next_file_ready(tmp_path: Path) -> None:
    written = write_store(tmp_path / "store", [_message()], WriteOptions(end_state=EndState.KILLED))
    assert dict(written.files)["commitlog/00000000001073741824"] == 1 << 30
    assert (tmp_path / "store" / "abort").read_bytes() == b"4242"


def test_queue_that_begins_late_is_filled_with_pre_blank_units(tmp_path: Path) -> None:
    geometry = Geometry(4096, 6_000_000, 92, 100, 4, 10)
    start = 300_000 + 1000
    options = _options(geometry=geometry, queue_start_offsets={("T", 0): start}, start_offset=8192)
    written = write_store(tmp_path / "store", [_message()], options)
    [queue] = written.queues
    assert (queue.first_start, queue.position) == (6_000_000, (start + 1) * 20)
    data = (tmp_path / "store/consumequeue/T/0/00000000000006000000").read_bytes()
    assert data[:20000] == PRE_BLANK_UNIT * 1000
    assert UNIT.parse(data, 20000)["offset"] == 8192
    assert not any(data[20020:])


def test_index_names_follow_the_clock_and_rise(tmp_path: Path) -> None:
    ticks = itertools.count(NOW, -5)
    options = _options(
        clock=lambda _: next(ticks), time_zone="Asia/Shanghai", index_names=("20200101000000000",)
    )
    written = write_store(tmp_path / "store", map(_message, range(40)), options)
    names = [name for name, _ in written.index_files]
    assert names[:3] == ["20200101000000000", "20231115061320000", "20231115061320001"]
    assert names == sorted(set(names))


@pytest.mark.parametrize("timestamp", [-(1 << 63), (1 << 63) - 1])
def test_index_names_of_impossible_times(timestamp: int) -> None:
    for zone in ("UTC", "Asia/Shanghai", "America/New_York"):
        assert len(wall_clock_name(timestamp, zone, None)) == 17


def test_many_keys_are_written_in_chunks(tmp_path: Path) -> None:
    geometry = Geometry(1 << 22, 6_000_000, 92, 100, 40_000, 20_000)
    keys = " ".join(f"k{number}" for number in range(4000))
    events = [_message(number, properties={"KEYS": keys}) for number in range(3)]
    written = write_store(tmp_path / "store", events, _options(geometry=geometry))
    [(name, header)] = written.index_files
    data = (tmp_path / "store" / "index" / name).read_bytes()
    assert header.index_count == 12_001
    assert decode_header(data) == header
    assert len(data) == index_file_size(40_000, 20_000)


def test_ext_unit_that_fits_nowhere_leaves_the_hash(tmp_path: Path) -> None:
    options = _options(version="4.9.8", consumequeue_ext=True)
    big = _message(1, properties={"TAGS": "t"}, filter_bit_map=bytes(90))
    write_store(tmp_path / "store", [_message(0), big], options)
    data = (tmp_path / "store/consumequeue/T/0/00000000000000000000").read_bytes()
    assert UNIT.parse(data, 0)["tagsCode"] == -(1 << 63)
    assert UNIT.parse(data, 20)["tagsCode"] == ord("t")


def test_checkpoint_and_config_as_given(tmp_path: Path) -> None:
    checkpoint = Checkpoint(1, 2, 3, 4, 5)
    options = _options(
        checkpoint=checkpoint,
        config={"consumerOffset.json": {"offsetTable": {"T@g": {0: 1}}}},
        topics_file=False,
    )
    written = write_store(tmp_path / "store", [_message()], options)
    assert written.checkpoint == checkpoint
    assert decode_checkpoint((tmp_path / "store" / "checkpoint").read_bytes()) == checkpoint
    data = (tmp_path / "store/config/consumerOffset.json").read_bytes()
    assert data == b'{\n\t"offsetTable":{\n\t\t"T@g":{0:1\n\t\t}\n\t}\n}'
    assert not (tmp_path / "store/config/topics.json").exists()


def test_topics_file_grows_with_appends(tmp_path: Path) -> None:
    options = _options(batch_topics=frozenset({"B"}))
    write_store(tmp_path / "store", [_message(queue_id=3)], options)
    more = OutgoingMessage("B", b"", NOW)
    write_store(tmp_path / "store", [more], options, append=True)
    value = decode_config((tmp_path / "store/config/topics.json").read_bytes())
    topics = topic_configs(value)
    assert {name: topic.read_queue_nums for name, topic in topics.items()} == {"T": 4, "B": 1}
    assert topics["B"].attributes == {"queue.type": "BatchCQ"}


def test_appending_copies_what_changes_and_links_the_rest(tmp_path: Path) -> None:
    target = tmp_path / "store"
    write_store(target, map(_message, range(200)), _options())
    before = {path.name: path.stat().st_ino for path in (target / "commitlog").iterdir()}
    write_store(target, [_message(200)], _options(), append=True)
    after = {path.name: path.stat().st_ino for path in (target / "commitlog").iterdir()}
    kept = [name for name in before if before[name] == after[name]]
    assert kept == sorted(before)[:-1] or set(kept) == set(sorted(before)[:-1])


def test_appending_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr("os.link", no_links)
    target = tmp_path / "store"
    events = [_message(number) for number in range(120)]
    whole = write_store(tmp_path / "whole", [*events[:100], Restart(), *events[100:]], _options())
    write_store(target, events[:100], _options())
    parts = write_store(target, events[100:], _options(), append=True)
    assert parts.files == whole.files
    for name, _ in parts.files:
        if name != "config/topics.json":
            assert (target / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize("version", ["4.0.0", "5.3.3"])
def test_appending_finishes_an_index_file_that_is_just_full(tmp_path: Path, version: str) -> None:
    first, later = [_message(number) for number in range(9)], _message(9)
    options = _options(version=version)
    write_store(tmp_path / "whole", [*first, Restart(), later], options)
    write_store(tmp_path / "store", first, options)
    before = decode_checkpoint((tmp_path / "store" / "checkpoint").read_bytes())
    assert before.index_msg_timestamp == 0
    write_store(tmp_path / "store", [later], options, append=True)
    assert (tmp_path / "store" / "checkpoint").read_bytes() == (
        tmp_path / "whole" / "checkpoint"
    ).read_bytes()
    after = decode_checkpoint((tmp_path / "store" / "checkpoint").read_bytes())
    assert after.index_msg_timestamp == NOW + 8


def test_appending_to_an_empty_store(tmp_path: Path) -> None:
    write_store(tmp_path / "store", [], _options())
    written = write_store(tmp_path / "store", [_message()], _options(), append=True)
    assert (written.min_offset, written.record_count) == (0, 1)


def test_appending_to_damaged_ext_units_is_refused(tmp_path: Path) -> None:
    options = _options(version="4.9.8", consumequeue_ext=True)
    write_store(tmp_path / "store", [_message()], options)
    path = tmp_path / "store/consumequeue_ext/T/0/00000000000000000000"
    path.write_bytes(b"\x00\x05" + bytes(98))
    with pytest.raises(UsageError, match="size"):
        write_store(tmp_path / "store", [_message()], options, append=True)


def test_killed_restart_loses_index_entries_and_keeps_the_rest(tmp_path: Path) -> None:
    geometry = Geometry(4096, 200, 92, 100, 4, 1000)
    before = [_message(number, store_timestamp=NOW + 5000 * number) for number in range(60)]
    put: list[PutRecord] = []
    events: list[Event] = [*before, Restart(killed=True), _message(60, store_timestamp=NOW + 500_000)]
    written = write_store(tmp_path / "store", events, _options(geometry=geometry), on_put=put.append)
    assert (tmp_path / "store" / "abort.bak").read_bytes() == b"4242"
    [(_, header)] = written.index_files
    assert header.begin_physical_offset == 4096
    assert header.entry_count == sum(item.physical_offset >= 4096 for item in put)
    assert written.checkpoint.confirm_physical_offset == put[59].physical_offset
    assert written.queues[0].next_offset == 61


def test_killed_restart_of_an_empty_store(tmp_path: Path) -> None:
    written = write_store(tmp_path / "store", [Restart(killed=True), _message()], _options())
    assert written.record_count == 1


def test_expiry_removes_queues_and_numbers_them_anew(tmp_path: Path) -> None:
    other = [OutgoingMessage("Old", bytes(500), NOW, queue_id=1) for _ in range(30)]
    events: list[Event] = [*other, *map(_message, range(60)), Expiry(99, whole_queues=True), other[0]]
    put: list[PutRecord] = []
    options = _options(queue_start_offsets={("Old", 1): 7}, consumequeue_ext=True)
    written = write_store(tmp_path / "store", events, options, on_put=put.append)
    assert (put[0].queue_offset, put[-1].queue_offset) == (7, 0)
    assert written.min_offset > 4096
    assert [queue.topic for queue in written.queues] == ["T", "Old"]


def test_offset_ids_and_places(tmp_path: Path) -> None:
    put: list[PutRecord] = []
    write_store(tmp_path / "store", [_message(), _message(1)], _options(), on_put=put.append)
    assert put[1].offset_msg_id == f"7F00000100002A9F{put[1].physical_offset:016X}"
    assert [item.queue_offset for item in put] == [0, 1]


def test_physic_time_passes_over_messages_that_nobody_waits_for(tmp_path: Path) -> None:
    events = [
        _message(1),
        _message(2, properties={"WAIT": "false"}),
        _message(3, properties={"DELAY": "1"}, kind=Kind.DELIVERED),
    ]
    for sync_flush, expected in ((True, NOW + 1), (False, NOW + 3)):
        options = _options(sync_flush=sync_flush)
        written = write_store(tmp_path / f"store-{sync_flush}", events, options)
        assert written.checkpoint.physic_msg_timestamp == expected
        assert written.checkpoint.logics_msg_timestamp == NOW + 3


def test_the_crc_property_of_a_batch_follows_a_separator(tmp_path: Path) -> None:
    """A broker adds the batch's properties as a map: raw bytes without a last separator get one."""
    batch = OutgoingMessage(
        "T",
        store_timestamp=NOW,
        properties=b"KEYS\x01k",
        kind=Kind.LEGACY_BATCH,
        items=(InnerItem(b"body"),),
    )
    put: list[PutRecord] = []
    options = _options(version="5.2.0", append_property_crc=True)
    write_store(tmp_path / "store", [batch], options, on_put=put.append)
    [record] = [item.record for item in put]
    assert record.properties.startswith(b"KEYS\x01k\x02__CRC32#\x01")
