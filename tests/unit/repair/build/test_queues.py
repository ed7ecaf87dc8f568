"""Consume queues from the log: what is left out, filled up, and told."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError
from rocketfsck.formats.record import InnerItem
from rocketfsck.formats.smallfiles import is_directory_name
from rocketfsck.reader.configs import CONFIG_LIMIT
from rocketfsck.repair.build.files import QueueGap
from rocketfsck.repair.build.queues import batch_topics_of, build_queues
from rocketfsck.writer import Kind, OutgoingMessage

from tests.unit.repair.build.making import (
    START,
    change_log,
    files,
    make_store,
    message,
    records,
    reopen,
    units,
)

PRE_BLANK = (0, 0x7FFFFFFF, 0)


def test_every_queue_is_the_writers(tmp_path: Path) -> None:
    store = make_store(tmp_path, [message(number, queue_id=number % 3) for number in range(60)])
    built = build_queues(store, tmp_path / "built")
    assert files(tmp_path / "built", ["consumequeue"]) == files(store.root, ["consumequeue"])
    assert [queue.end_queue_offset for queue in built.queues] == [20, 20, 20]
    assert [queue.file_count for queue in built.queues] == [2, 2, 2]
    assert (built.record_count, built.unit_count, built.notes) == (60, 60, ())


def test_files_have_the_time_of_their_last_message(tmp_path: Path) -> None:
    store = make_store(tmp_path, [message(number) for number in range(15)])
    build_queues(store, tmp_path / "built")
    first, second = sorted((tmp_path / "built" / "consumequeue" / "T" / "0").iterdir())
    assert first.stat().st_mtime_ns == (START + 9000) * 1_000_000
    assert second.stat().st_mtime_ns == (START + 14_000) * 1_000_000
    assert second.stat().st_size == 200


def test_only_the_queues_asked_for(tmp_path: Path) -> None:
    store = make_store(tmp_path, [message(number, queue_id=number % 3) for number in range(9)])
    built = build_queues(store, tmp_path / "built", queues=[("T", 1), ("None", 4)])
    assert [(queue.topic, queue.queue_id) for queue in built.queues] == [("T", 1)]
    assert built.record_count == 3
    assert sorted(files(tmp_path / "built", ["consumequeue"])) == [f"consumequeue/T/1/{0:020d}"]


def test_lost_records_leave_pre_blank_units(tmp_path: Path) -> None:
    store = make_store(tmp_path, [message(number) for number in range(12)])
    places = records(store)
    change_log(store, places[3][0], b"\xff" * (places[3][1] + places[4][1] - 3))
    built = build_queues(reopen(tmp_path), tmp_path / "built")
    found = units(tmp_path / "built", "T")
    assert found[3:5] == [PRE_BLANK, PRE_BLANK]
    assert [unit[:2] for unit in found[:3] + found[5:]] == places[:3] + places[5:]
    (queue,) = built.queues
    assert queue.gaps == (QueueGap(3, 5),)
    assert (queue.gap_count, queue.unit_count, queue.end_queue_offset) == (1, 10, 12)
    assert built.notes == (f"commitlog/{0:020d} is damaged: records in its broken parts have no units",)


def test_a_queue_offset_that_cannot_be_is_not_believed(tmp_path: Path) -> None:
    """A record says queue offset 2**40; nothing in the log leaves room for so many."""
    store = make_store(tmp_path, [message(number) for number in range(6)])
    places = records(store)
    change_log(store, places[3][0] + 20, struct.pack(">q", 1 << 40))
    built = build_queues(reopen(tmp_path), tmp_path / "built")
    assert [unit[:2] for unit in units(tmp_path / "built", "T")] == places
    assert built.queues[0].misplaced_count == 1
    assert built.queues[0].gap_count == 0


def test_the_first_of_two_records_counts(tmp_path: Path) -> None:
    store = make_store(tmp_path, [message(number) for number in range(6)])
    places = records(store)
    change_log(store, places[4][0] + 20, struct.pack(">q", 2))
    built = build_queues(reopen(tmp_path), tmp_path / "built")
    # record 5 stands where it belongs: a hole of one is where record 4 was
    assert [unit[:2] for unit in units(tmp_path / "built", "T")] == [
        *places[:4],
        PRE_BLANK[:2],
        places[5],
    ]
    assert built.queues[0].duplicate_count == 1


def test_a_skipped_record_opens_the_next_file(tmp_path: Path) -> None:
    """As a broker does, which looks for the file before it looks at the offset."""
    store = make_store(tmp_path, [message(number) for number in range(11)])
    places = records(store)
    change_log(store, places[10][0] + 20, struct.pack(">q", 2))
    built = build_queues(reopen(tmp_path), tmp_path / "built")
    _, second = sorted((tmp_path / "built" / "consumequeue" / "T" / "0").iterdir())
    assert len(units(tmp_path / "built", "T")) == 10
    assert second.read_bytes() == bytes(200)
    assert built.queues[0].file_count == 2


def test_queues_that_no_file_can_have(tmp_path: Path) -> None:
    store = make_store(tmp_path, [message(number, topic="abc") for number in range(3)])
    places = records(store)
    topic = 88 + 60 + 1
    change_log(store, places[0][0] + topic, b"../")
    change_log(store, places[1][0] + 20, struct.pack(">q", (1 << 63) - 1))
    built = build_queues(reopen(tmp_path), tmp_path / "built")
    assert built.refused_count == 2
    assert [unit[:2] for unit in units(tmp_path / "built", "abc")] == [(0, 0x7FFFFFFF)] * 2 + [places[2]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broker.conf", "built", "store"]


@pytest.mark.parametrize(
    ("topic", "fits"),
    [
        *((name, True) for name in ("a", "...", "中" * 85)),
        *((name, False) for name in ("", ".", "..", "a/b", "a\0", "中" * 86)),
    ],
)
def test_names_of_directories(topic: str, fits: bool) -> None:
    assert is_directory_name(topic) is fits


def test_ext_units_over_several_files(tmp_path: Path) -> None:
    """Three units of 20 bytes fit in 70 (4 are kept for the mark), then 0xFFFF."""
    conf = "enableConsumeQueueExt=true\n"
    store = make_store(tmp_path, [message(number) for number in range(8)], conf=conf, consumequeue_ext=True)
    built = build_queues(store, tmp_path / "built")
    areas = ["consumequeue", "consumequeue_ext"]
    assert files(tmp_path / "built", areas) == files(store.root, areas)
    assert built.without_bit_maps
    assert built.queues[0].ext_unit_count == 8
    first = sorted((tmp_path / "built" / "consumequeue_ext" / "T" / "0").iterdir())[0]
    assert first.read_bytes()[60:62] == b"\xff\xff"
    assert first.stat().st_mtime_ns == (START + 2000) * 1_000_000


def test_no_ext_units_without_the_setting(tmp_path: Path) -> None:
    store = make_store(tmp_path, [message(1)], consumequeue_ext=True)
    without = reopen(tmp_path, conf="enableConsumeQueueExt=false\n")
    assert not build_queues(without, tmp_path / "built").without_bit_maps
    assert not (tmp_path / "built" / "consumequeue_ext").exists()
    assert build_queues(store, tmp_path / "other").without_bit_maps  # the store has some


def _batch(number: int) -> OutgoingMessage:
    items = (InnerItem(b"one"), InnerItem(b"two"))
    return message(number, topic="B", kind=Kind.INNER_BATCH, items=items, properties={}, body=b"")


def test_batch_queues_are_known_from_the_log(tmp_path: Path) -> None:
    """Plain messages of the topic come first: what they became is deleted and made again."""
    sent = [message(0), message(1, topic="B"), message(2, topic="B"), _batch(3), _batch(4), message(5)]
    sent += [_batch(number) for number in range(6, 11)]
    store = make_store(tmp_path, sent, batch_topics=frozenset({"B"}))
    before = files(store.root, ["consumequeue", "batchconsumequeue"])
    for area in ("consumequeue", "batchconsumequeue", "config"):
        shutil.rmtree(store.root / area)
    bare = reopen(tmp_path)
    assert batch_topics_of(bare) == frozenset()
    built = build_queues(bare, tmp_path / "built")
    assert files(tmp_path / "built", ["consumequeue", "batchconsumequeue"]) == before
    assert not (tmp_path / "built" / "consumequeue" / "B").exists()
    batch = built.queues[0]
    assert (batch.kind, batch.start_queue_offset, batch.end_queue_offset) == ("batch", 0, 2 + 2 * 7)
    assert (batch.unit_count, batch.file_count) == (9, 3)


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ('{"topicConfigTable": {"B": {"attributes": {"queue.type": "BatchCQ"}}, "C": {}}}', {"B"}),
        ('{"topicConfigTable": {"B": {"attributes": {"queue.type": "SimpleCQ"}}}}', set()),
        ('{"topicConfigTable": [1]}', set()),
        ('{"topicConfigTable": {"B": 1, "C": {"attributes": 2}}}', set()),
        ("[" * 100_000, set()),
        ("{not json", set()),
        ("[]", set()),
    ],
)
def test_batch_topics_in_the_config(tmp_path: Path, text: str, topics: set[str]) -> None:
    store = make_store(tmp_path, [message(0)])
    (store.root / "config" / "topics.json").write_text(text, "utf-8")
    assert batch_topics_of(reopen(tmp_path)) == topics


def test_a_config_out_of_all_bounds_is_not_read(tmp_path: Path) -> None:
    store = make_store(tmp_path, [message(0)])
    path = store.root / "config" / "topics.json"
    path.write_text(
        json.dumps({"topicConfigTable": {"B": {"attributes": {"queue.type": "BatchCQ"}}}}), "utf-8"
    )
    with path.open("ab") as file:
        file.truncate(CONFIG_LIMIT + 1)
    assert batch_topics_of(reopen(tmp_path)) == frozenset()


def test_what_cannot_be_written_is_an_error_with_its_name(tmp_path: Path) -> None:
    store = make_store(tmp_path, [message(0)])
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "consumequeue").write_bytes(b"")
    with pytest.raises(StoreError, match="built/consumequeue/T: cannot be made"):
        build_queues(store, tmp_path / "built")
    other = tmp_path / "other" / "consumequeue" / "T" / "0" / f"{0:020d}"
    other.mkdir(parents=True)
    with pytest.raises(StoreError, match=f"{0:020d}: cannot be written"):
        build_queues(store, tmp_path / "other")


def test_more_topics_than_directories_that_are_kept_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketfsck.repair.build.queues.MAX_OPEN", 2)
    monkeypatch.setattr("rocketfsck.repair.build.queues.MAX_UNITS", 8)  # so that a topic is come back to
    store = make_store(tmp_path, [message(number, f"T{number % 5}", number % 2) for number in range(80)])
    before = len(list(Path("/proc/self/fd").iterdir()))
    built = build_queues(store, tmp_path / "built")
    assert files(tmp_path / "built", ["consumequeue"]) == files(store.root, ["consumequeue"])
    assert len(built.queues) == 10
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2


def test_a_topic_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    store = make_store(tmp_path, [message(0), message(1, "U")])
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "built" / "consumequeue").mkdir(parents=True)
    (tmp_path / "built" / "consumequeue" / "U").symlink_to(outside)
    with pytest.raises(StoreError, match="consumequeue/U: cannot be made"):
        build_queues(store, tmp_path / "built")
    assert not list(outside.iterdir())


def test_many_gaps_are_counted_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketfsck.repair.build.queues.MAX_GAPS", 1)
    monkeypatch.setattr("rocketfsck.repair.build.queues.MAX_UNITS", 4)
    store = make_store(tmp_path, [message(number) for number in range(12)])
    places = records(store)
    for number in (3, 6):
        change_log(store, places[number][0], b"\xff" * places[number][1])
    (queue,) = build_queues(reopen(tmp_path), tmp_path / "built").queues
    assert (queue.gap_count, len(queue.gaps)) == (2, 1)
    assert units(tmp_path / "built", "T")[6] == PRE_BLANK
