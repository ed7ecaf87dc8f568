"""The recorded answers of the real code to key, offset and time queries, reproduced exactly with order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.api import iter_messages
from rocketfsck.formats.magic import is_in_consume_queue, is_indexed
from rocketfsck.query import BrokerView, find_by_key, find_by_offset
from rocketfsck.query.serving.state import State
from rocketfsck.query.view import StoreView
from rocketfsck.store import open_store

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory, Document

ANSWERED = [name for name in STORE_NAMES if name != "4.9.8-lagkill-transient"]
"""That one was killed before it was asked anything."""

GHOSTS = "4.9.8-ghosttail"
"""The last start cut a unit off that the next one takes for a good one."""

Live = dict[str, Any]


@pytest.fixture(scope="module", params=ANSWERED)
def asked(
    request: pytest.FixtureRequest, store_dir: Directory, manifest: Document
) -> tuple[BrokerView, Live]:
    """The store with a broker of its last version on it, and what that broker answered before it stopped."""
    facts = manifest(request.param)
    version = facts["finalVersion"].split()[0]
    state: State | None = "running" if request.param == GHOSTS else None
    return BrokerView(open_store(store_dir(request.param)), version, state=state), facts["phases"][-1]["live"]


def mismatches(rows: list[Live], answer: Callable[[Live], Any], recorded: Callable[[Live], Any]) -> list[Any]:
    assert rows
    return [(row, found) for row in rows if (found := answer(row)) != recorded(row)]


def test_bounds(asked: tuple[BrokerView, Live]) -> None:
    broker, live = asked

    def bounds(row: Live) -> tuple[int, int]:
        queue = broker.queue(row["topic"], row["queueId"])
        return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)

    assert (broker.log.min_offset, broker.log.end_offset) == (
        live["commitlogMinOffset"],
        live["commitlogMaxOffset"],
    )
    assert not mismatches(live["queues"], bounds, lambda row: (row["minOffset"], row["maxOffset"]))


def test_index_query_offset(asked: tuple[BrokerView, Live]) -> None:
    broker, live = asked

    def answer(row: Live) -> Any:
        found = broker.index_query_offset(row["topic"], row["key"], row["maxNum"], row["begin"], row["end"])
        return list(found.offsets), found.index_last_update_timestamp, found.index_last_update_offset

    def recorded(row: Live) -> Any:
        return row["offsets"], row["indexLastUpdateTimestamp"], row["indexLastUpdatePhyoffset"]

    assert not mismatches(live["indexQueryOffset"], answer, recorded)


def test_query_message(asked: tuple[BrokerView, Live]) -> None:
    broker, live = asked

    def answer(row: Live) -> Any:
        return list(broker.query_message(row["topic"], row["key"], row["maxNum"], row["begin"], row["end"]))

    assert not mismatches(live["queryMessage"], answer, lambda row: row["offsets"])


def test_get_message(asked: tuple[BrokerView, Live]) -> None:
    broker, live = asked

    def answer(row: Live) -> Any:
        found = broker.get_message(row["topic"], row["queueId"], row["offset"], row["maxNum"])
        at = broker.commit_log_offset(row["topic"], row["queueId"], row["offset"])
        bounds = (found.min_offset, found.max_offset)
        return found.status, list(found.offsets), found.next_begin_offset, *bounds, at

    def recorded(row: Live) -> Any:
        names = ("status", "physicalOffsets", "nextBeginOffset", "minOffset", "maxOffset")
        return *(row[name] for name in names), row["commitLogOffsetInQueue"]

    assert not mismatches(live["getMessage"], answer, recorded)


def test_offset_in_queue_by_time(asked: tuple[BrokerView, Live]) -> None:
    broker, live = asked
    rows = live["offsetInQueueByTime"]
    for boundary, name in (("lower", "offset"), ("lower", "lower"), ("upper", "upper")):
        stated = [row for row in rows if name in row]
        assert stated or name != "offset"

        def answer(row: Live, boundary: Any = boundary) -> int:
            return broker.offset_in_queue_by_time(row["topic"], row["queueId"], row["timestamp"], boundary)

        assert not stated or not mismatches(stated, answer, lambda row, name=name: row[name])  # type: ignore[misc]


PHYSICAL_OFFSET_POS = 28
"""Of a record; what was recorded of a pull are these eight bytes of every record that was given."""


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_answers_after_a_start(name: str, restart_dir: Directory, oracle: Document, tmp_path: Path) -> None:
    """Damaged stores: what the real code answered after it had started on them, predicted before it does."""
    said = oracle(name)
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in said["geometry"].items()))
    store = open_store(restart_dir(name), broker_conf=conf)
    with BrokerView(store, said["brokerVersion"].split()[0]) as broker:
        assert broker.state == "started"

        def bounds(row: Live) -> tuple[int, int]:
            queue = broker.queue(row["topic"], row["queueId"])
            return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)

        def pulled(row: Live) -> Any:
            found = broker.get_message(row["topic"], row["queueId"], row["offset"], row["maxNum"])
            fields = [broker.log.read(offset + PHYSICAL_OFFSET_POS, 8) or b"" for offset in found.offsets]
            at = broker.commit_log_offset(row["topic"], row["queueId"], row["offset"])
            offsets = [int.from_bytes(field, "big", signed=True) for field in fields]
            return found.status, offsets, found.next_begin_offset, found.min_offset, found.max_offset, at

        def timed(row: Live, boundary: Any = "lower") -> int:
            return broker.offset_in_queue_by_time(row["topic"], row["queueId"], row["timestamp"], boundary)

        names = ("status", "physicalOffsets", "nextBeginOffset", "minOffset", "maxOffset")
        ends = said["afterStart"]["queues"]
        assert not ends or not mismatches(ends, bounds, lambda row: (row["minOffset"], row["maxOffset"]))
        for row in said["queries"]["getMessage"]:
            assert pulled(row) == (*(row[name] for name in names), row["commitLogOffsetInQueue"]), row
        for row in said["queries"]["offsetInQueueByTime"]:
            assert timed(row) == row.get("offset", row.get("lower")), row
            assert "upper" not in row or timed(row, "upper") == row["upper"], row


@pytest.mark.parametrize("name", [name for name in ANSWERED if name != GHOSTS])
def test_both_states_are_one_for_a_sound_store(name: str, store_dir: Directory, manifest: Document) -> None:
    facts = manifest(name)
    store, version = open_store(store_dir(name)), facts["finalVersion"].split()[0]
    with BrokerView(store, version) as started, BrokerView(store, version, state="running") as running:
        for row in facts["phases"][-1]["live"]["queues"]:
            one, other = (view.queue(row["topic"], row["queueId"]) for view in (started, running))
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                assert (one.min_offset, one.max_offset) == (other.min_offset, other.max_offset)


def test_a_start_takes_the_ghost_of_a_truncation_for_a_unit(store_dir: Directory) -> None:
    store = open_store(store_dir(GHOSTS))
    ends = []
    for state in ("running", "started"):
        with BrokerView(store, "4.9.8", state=state) as broker:
            queue = broker.queue("Gt0", 1)
            assert queue is not None
            ends.append(queue.max_offset)
    assert ends == [75, 76]


def test_versions_differ_where_the_code_does(store_dir: Directory, manifest: Document) -> None:
    """Another version's broker does not give these answers: what is told apart is not by chance the same."""
    facts = manifest("4.4.0-basic")
    rows = facts["phases"][-1]["live"]
    with BrokerView(open_store(store_dir("4.4.0-basic")), "5.3.3") as broker:
        pulls = [
            (row, broker.get_message(row["topic"], row["queueId"], row["offset"], row["maxNum"]))
            for row in rows["getMessage"]
        ]
        assert {
            row["status"] for row, found in pulls if found.next_begin_offset != row["nextBeginOffset"]
        } == {"OFFSET_OVERFLOW_BADLY"}
        assert any(
            broker.offset_in_queue_by_time(row["topic"], row["queueId"], row["timestamp"]) != row["offset"]
            for row in rows["offsetInQueueByTime"]
        )


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_damaged_stores_still_answer(restart_dir: Directory, name: str) -> None:
    """What the log holds is found by key and by queue offset, whatever is wrong with index and queues."""
    store = open_store(restart_dir(name))
    starts = {str(file.path): file.start_offset or 0 for file in store.commitlog.files}
    placed = [
        (starts[message.path] + message.pos, message) for message in iter_messages(store, live_only=True)
    ]
    keys: dict[tuple[str, str], list[int]] = {}
    for offset, message in placed:
        for key in dict.fromkeys([message.unique_key or "", *message.keys]):
            if is_indexed(message.sys_flag):
                keys.setdefault((message.topic, key), []).append(offset)
    with StoreView(store) as view:
        for topic, key in [name for name in keys if name[1]][::31]:
            answer = find_by_key(store, topic, key, view=view)
            assert [found.offset for found in answer.found] == keys[topic, key]
        for offset, message in placed[::61]:
            if is_in_consume_queue(message.sys_flag):
                place = (message.topic, message.queue_id, message.queue_offset)
                answer = find_by_offset(store, *place, view=view)
                assert offset in [found.offset for found in answer.found]
