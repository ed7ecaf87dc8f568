"""The recorded answers of the real code to key, offset and time queries, reproduced exactly with order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rocketfsck.query.broker import BrokerView
from rocketfsck.store import open_store

from tests.conftest import STORE_NAMES, Directory, Document

ANSWERED = [name for name in STORE_NAMES if name != "4.9.8-lagkill-transient"]
"""That one was killed before it was asked anything."""

Live = dict[str, Any]


@pytest.fixture(scope="module", params=ANSWERED)
def asked(
    request: pytest.FixtureRequest, store_dir: Directory, manifest: Document
) -> tuple[BrokerView, Live]:
    """The store with a broker of its last version on it, and what that broker answered."""
    facts = manifest(request.param)
    version = facts["finalVersion"].split()[0]
    return BrokerView(open_store(store_dir(request.param)), version), facts["phases"][-1]["live"]


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
        told = [row for row in rows if name in row]
        assert told or name != "offset"

        def answer(row: Live, boundary: Any = boundary) -> int:
            return broker.offset_in_queue_by_time(row["topic"], row["queueId"], row["timestamp"], boundary)

        assert not told or not mismatches(told, answer, lambda row, name=name: row[name])  # type: ignore[misc]


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
