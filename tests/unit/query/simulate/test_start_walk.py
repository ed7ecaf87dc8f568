"""The walk of a file as a broker of a version does it, and what it hands to queues that are out of order."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketfsck.formats.dialect import dialect_for
from rocketfsck.formats.record import Host, encode_record, make_record
from rocketfsck.query.start.dispatch import Dispatcher, DispatchRules
from rocketfsck.query.start.index import IndexModel
from rocketfsck.query.start.load import LoadedQueue
from rocketfsck.query.start.losses import Census, Ranges
from rocketfsck.query.start.model import LostRange
from rocketfsck.query.start.queues import AppendedColumns, QueueModel
from rocketfsck.query.start.read import BrokerReading, Ending, LogWalker, Verdict
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store import open_store
from rocketfsck.store.model import QueueKind
from rocketfsck.store.reading import FileReader

from tests.conftest import Directory, Document
from tests.unit.query.maker import GEOMETRY, make, message, reopen

IPV4 = Host(bytes([10, 0, 0, 1]), 10911)


def records(*properties: bytes, sys_flag: int = 0, topic: bytes = b"T") -> bytes:
    data = b""
    for number, text in enumerate(properties):
        data += encode_record(
            make_record(
                topic=topic,
                queue_id=0,
                queue_offset=number,
                physical_offset=len(data),
                born_timestamp=1,
                born_host=IPV4,
                store_timestamp=2,
                store_host=IPV4,
                body=b"body",
                properties=text,
                sys_flag=sys_flag,
            )
        )
    return data


def walk(
    path: Path, data: bytes, reading: BrokerReading, limit: int | None = None
) -> tuple[list[int], Ending]:
    """The queue offsets of the records that are accepted, and the ending."""
    path.write_bytes(data)
    walker = LogWalker(reading, QueueTable())
    offsets: list[int] = []
    with FileReader(path) as reader:
        steps = walker.walk(reader, 0, len(data) if limit is None else limit, 0)
        while True:
            try:
                batch = next(steps)
            except StopIteration as stop:
                return offsets, stop.value
            offsets += batch["queue_offset"].tolist()


def test_a_walk_to_the_end(tmp_path: Path) -> None:
    data = records(b"a\x01b\x02", b"", b"")
    assert walk(tmp_path / "log", data, BrokerReading(dialect_for("5.3.3"), True)) == (
        [0, 1, 2],
        Ending(len(data), None),
    )


def test_a_record_that_goes_over_the_limit_is_none(tmp_path: Path) -> None:
    data = records(b"", b"", b"")
    offsets, ending = walk(tmp_path / "log", data, BrokerReading(dialect_for("4.9.8"), False), len(data) - 3)
    assert offsets == [0, 1]
    assert ending.judged is not None
    assert ending.judged.verdict is Verdict.INVALID


def test_a_doubtful_record_may_be_sound(tmp_path: Path) -> None:
    data = records(b"INNER_NUM\x012\x02INNER_BASE\x0177\x02", b"INNER_NUM\x01x\x02INNER_BASE\x010\x02", b"")
    offsets, ending = walk(tmp_path / "log", data, BrokerReading(dialect_for("5.1.4"), True))
    assert (offsets, ending.judged is None) == ([0], False)
    assert walk(tmp_path / "log", data, BrokerReading(dialect_for("4.9.8"), True))[0] == [0, 1, 2]


def test_the_first_record_may_be_the_one_refused(tmp_path: Path) -> None:
    data = records(b"DELAY\x01x\x02", b"", topic=b"SCHEDULE_TOPIC_XXXX")
    offsets, ending = walk(tmp_path / "log", data, BrokerReading(dialect_for("4.9.8"), False))
    assert (offsets, ending.pos) == ([], 0)


def test_the_forced_property_crc(tmp_path: Path) -> None:
    data = records(b"", b"")
    reading = BrokerReading(dialect_for("5.3.3"), True, force_property_crc=True)
    assert walk(tmp_path / "log", data, reading)[0] == []


def test_flags_of_wide_hosts_that_an_old_broker_does_not_know(tmp_path: Path) -> None:
    data = bytearray(records(b"a\x01b\x02", b"", b""))
    struct.pack_into(">i", data, 36, 0x30)
    for version, expected in (("4.5.2", [0, 1, 2]), ("4.6.0", [])):
        offsets, ending = walk(tmp_path / "log", bytes(data), BrokerReading(dialect_for(version), True))
        assert offsets == expected
        assert (ending.judged is None) is bool(expected)


def dispatcher(version: str = "5.3.3", batch_topics: frozenset[str] = frozenset()) -> Dispatcher:
    dialect = dialect_for(version)
    sizes: dict[QueueKind, int] = {"file": 100, "batch": 460}
    table = QueueTable()
    rules = DispatchRules(dialect, {}, False, batch_topics, sizes)
    return Dispatcher({}, IndexModel(GEOMETRY, dialect, enabled=True), table, rules, Census(table))


def queue_of(version: str = "5.3.3", kind: QueueKind = "file") -> QueueModel:
    return QueueModel(LoadedQueue("T", 0, kind, "q", 100 if kind == "file" else 92, []), dialect_for(version))


def units(*pairs: tuple[int, int]) -> AppendedColumns:
    """(queueOffset, physical offset) pairs of records of ten bytes."""
    index, offset = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    return AppendedColumns(index, offset, np.full(len(pairs), 10, np.int64), np.zeros(len(pairs), np.int64))


@pytest.mark.parametrize(
    ("held", "given", "appended", "skipped"),
    [
        ([], [(0, 0), (1, 10)], 2, []),
        ([(0, 0), (1, 10)], [(0, 0), (1, 10), (2, 20)], 1, []),
        ([(0, 0), (1, 10)], [(0, 20), (1, 30), (2, 40)], 1, [1, 2]),  # a queueOffset of 0 is never checked
        ([(0, 0), (1, 10)], [(1, 20), (2, 30)], 1, [0]),
        ([(0, 0)], [(3, 20), (5, 30)], 2, []),
        ([(0, 0)], [(2, 30), (1, 20), (0, 5)], 1, []),  # not in order: one by one
        ([(0, 0), (1, 10), (2, 20)], [(2, 30), (1, 40), (3, 50)], 1, [0, 1]),
    ],
)
def test_what_a_queue_takes(
    held: list[tuple[int, int]],
    given: list[tuple[int, int]],
    appended: int,
    skipped: list[int],
) -> None:
    model, acting = queue_of(), dispatcher()
    if held:
        model.append(units(*held))
    before = model.added_count
    assert acting._to_queue(model, units(*given)).tolist() == skipped
    assert model.added_count - before == appended


def test_before_4_2_a_queue_took_everything_that_is_new() -> None:
    model, acting = queue_of("4.1.0"), dispatcher("4.1.0")
    model.append(units((0, 0), (1, 10)))
    assert acting._to_queue(model, units((1, 20), (2, 30))).tolist() == []
    assert model.max_offset == 4


def test_a_batch_queue_takes_what_rises() -> None:
    model, acting = queue_of(kind="batch"), dispatcher()
    acting._to_batch_queue(model, units((0, 0), (3, 10), (6, 10)), np.array([3, 6, 9]))
    assert (model.added_count, model.min_offset, model.max_offset) == (2, 0, 6)
    acting._to_batch_queue(model, units((3, 10)), np.array([6]))
    assert model.added_count == 2
    acting._to_batch_queue(model, units((6, 20)), np.array([9]))
    assert (model.added_count, model.min_offset, model.max_offset) == (3, 0, 9)


def test_batch_queues_are_built_anew_as_such(store_copy: Directory, manifest: Document) -> None:
    root = store_copy("5.0.0-innerbatch")
    (root / "config").mkdir()
    topics: dict[str, dict[str, Any]] = {"topicConfigTable": {"Other": {}}}
    for path in (root / "batchconsumequeue").rglob("0*"):
        if path.is_file():
            topics["topicConfigTable"][path.parent.parent.name] = {"attributes": {"queue.type": "BatchCQ"}}
            path.unlink()
    (root / "config/topics.json").write_text(json.dumps(topics))
    for path in (root / "consumequeue").rglob("0*"):
        if path.is_file():
            path.unlink()
    start = simulate_start(open_store(root), "5.3.3")
    found = {(queue.topic, queue.queue_id): (queue.min_offset, queue.max_offset) for queue in start.queues}
    assert found == {
        (queue["topic"], queue["queueId"]): (queue["minOffset"], queue["maxOffset"])
        for queue in manifest("5.0.0-innerbatch")["phases"][-1]["live"]["queues"]
    }
    assert {queue.kind for queue in start.queues} == {"file", "batch"}
    created = {item.file.split("/")[0] for item in start.files if item.change == "created"}
    assert created >= {"batchconsumequeue", "consumequeue"}


def test_topics_json_says_which_new_queues_are_batch_queues() -> None:
    acting = dispatcher(batch_topics=frozenset({"B"}))
    assert [acting._new_queue(topic, 0).loaded.kind for topic in ("A", "B")] == ["file", "batch"]
    assert acting._new_queue("B", 3).loaded.directory == "batchconsumequeue/B/3"
    assert dispatcher("4.9.8", frozenset({"B"}))._new_queue("B", 0).loaded.kind == "file"


def test_ranges_join_over_batches_and_have_a_limit() -> None:
    found = Ranges()
    offset, size = np.arange(0, 40, 10), np.full(4, 10)
    found.add(offset, size, np.array([True, False, True, True]))
    found.add(offset + 40, size, np.array([True, False, False, True]))
    found.add(offset + 80, size, np.array([False, True, False, False]))
    assert found.result() == (
        LostRange(0, 10, 1),
        LostRange(20, 50, 3),
        LostRange(70, 80, 1),
        LostRange(90, 100, 1),
    )
    many = np.arange(2000)
    found.add(many, np.ones(2000, np.int64), many % 2 == 0)
    assert found.record_count == 1006
    assert len(found.result()) == 256


def test_many_queues(tmp_path: Path) -> None:
    make(tmp_path, [message(number, f"Topic{number}", body=b"") for number in range(400)])
    for path in (tmp_path / "store/consumequeue").rglob("0*"):
        if path.is_file():
            path.unlink()
    start = simulate_start(reopen(tmp_path), "5.1.4")
    assert (len(start.queues), start.losses.by_queue_count) == (400, 400)
    assert {queue.reissued_count for queue in start.queues} == {1}
