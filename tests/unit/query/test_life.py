"""The life of one message, from made-up stores in which everything happens and from broker-written ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.formats.indexfile import entry_pos
from rocketfsck.query import Outcome, message_life
from rocketfsck.query.ids import offset_id_of
from rocketfsck.query.life import Life
from rocketfsck.store import Store, open_store
from rocketfsck.writer import Kind, OutgoingMessage, op_message

from tests.conftest import Directory, Document
from tests.unit.query.maker import GEOMETRY, NOW, make, message, patch, reopen

REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"


def kinds(life: Life) -> list[str]:
    return [event.kind for event in life.events]


def texts(life: Life, kind: str) -> list[str]:
    return [event.text for event in life.events if event.kind == kind]


def same(number: int, key: str, topic: str, **more: Any) -> OutgoingMessage:
    """A further record of the message with this unique key."""
    properties = {"UNIQ_KEY": key, "KEYS": "all", **more.pop("properties", {})}
    return message(number, topic, properties=properties, **more)


def test_a_plain_message(tmp_path: Path) -> None:
    offsets = {
        "offsetTable": {"Order@past": {0: 5}, "Order@before": {0: 1}, "Other@x": {0: 9}, "odd": {0: 1}}
    }
    store = make(tmp_path, [message(number) for number in range(4)], config={"consumerOffset.json": offsets})
    life = message_life(store, "U0002")
    assert (life.outcome, life.unique_key, len(life.records)) == (Outcome.FOUND, "U0002", 1)
    assert kinds(life) == ["born", "stored", "consumed", "not-consumed"]
    assert texts(life, "stored") == ["stored in topic Order queue 0 at queue offset 2"]
    assert texts(life, "consumed") == ["group past has passed it, at queue offset 5"]
    assert texts(life, "not-consumed") == ["group before has not reached it, at queue offset 1"]
    (places,) = life.index.values()
    assert [place.key for place in places] == ["U0002", "k2", "all"]


def test_by_offset_id_and_what_is_not_there(tmp_path: Path) -> None:
    store = make(tmp_path, [message(0), message(1, properties={})])
    by_key = message_life(store, "U0000")
    (found,) = by_key.records
    text = offset_id_of(found.message, found.offset)
    (same_found,) = message_life(store, text).records
    assert same_found.offset == found.offset
    keyless = message_life(store, f"{text[:16]}{found.message.total_size:016X}")
    assert (keyless.unique_key, len(keyless.records)) == (None, 1)
    assert keyless.index == {keyless.records[0].offset: ()}
    missing = message_life(store, "nothing")
    assert (missing.outcome, missing.why) == (Outcome.NOT_FOUND, "no message has the unique key nothing")
    assert message_life(store, "0" * 32).outcome is Outcome.NOT_FOUND


@pytest.mark.parametrize("several", [True, False])
def test_a_transaction_that_was_committed(tmp_path: Path, several: bool) -> None:
    half = message(1, kind=Kind.HALF)
    store = make(
        tmp_path,
        [
            message(0, kind=Kind.HALF),
            half,
            op_message([0], NOW + 1500, several=several),
            message(2, properties=half.properties, kind=Kind.COMMIT, prepared_transaction_offset=211),
            op_message([1], NOW + 2500, several=several),
        ],
    )
    life = message_life(store, "U0001")
    assert kinds(life) == ["born", "half", "committed", "op"]
    assert [event.timestamp for event in life.events][-1] == NOW + 2500
    assert "its half message is at 211" in texts(life, "committed")[0]
    assert texts(life, "half") == ["stored as a half message for topic Order queue 0, at queue offset 1"]


def test_a_transaction_without_an_end(tmp_path: Path) -> None:
    store = make(tmp_path, [message(0, kind=Kind.HALF), message(1)])
    life = message_life(store, "U0000")
    assert kinds(life) == ["born", "half", "pending"]
    assert life.events[-1].timestamp is None


def test_a_prepared_message_of_old(tmp_path: Path) -> None:
    store = make(tmp_path, [message(0, kind=Kind.PREPARED), message(1, kind=Kind.ROLLBACK)], version="4.2.0")
    assert texts(message_life(store, "U0000"), "prepared") == ["stored in topic Order, prepared: in no queue"]
    life = message_life(store, "U0001")
    assert texts(life, "rollback") == ["stored in topic Order, rollback: in no queue"]
    assert list(life.index.values()) == [()]


def test_a_delayed_message(tmp_path: Path) -> None:
    first = message(0, delay_level=3)
    store = make(tmp_path, [first, message(10, properties=first.properties, kind=Kind.DELIVERED)])
    life = message_life(store, "U0000")
    assert [event for event in kinds(life) if event != "born"] == ["delayed", "due", "delivered"]
    assert texts(life, "delayed") == ["delayed with level 3 for topic Order queue 0"]
    (due,) = [event for event in life.events if event.kind == "due"]
    assert due.timestamp == NOW + 10_000


def test_a_delay_that_only_the_levels_tell(tmp_path: Path) -> None:
    store = make(tmp_path, [message(0, delay_level=3)])
    (queue,) = store.queues
    patch(queue.files[0].path, 0, bytes(20))
    life = message_life(reopen(tmp_path), "U0000")
    (due,) = [event for event in life.events if event.kind == "due"]
    assert (due.timestamp, due.text) == (NOW + 10_000, "due for delivery by its delay level")


def test_a_schedule_without_a_level(tmp_path: Path) -> None:
    store = make(tmp_path, [same(0, "X", "SCHEDULE_TOPIC_XXXX")])
    (queue,) = store.queues
    patch(queue.files[0].path, 0, bytes(20))
    life = message_life(reopen(tmp_path), "X")
    assert kinds(life) == ["born", "delayed"]


def test_the_timer_wheel(tmp_path: Path) -> None:
    waiting = {"REAL_TOPIC": "Order", "REAL_QID": "0", "TIMER_OUT_MS": str(NOW + 5000)}
    odd = {**waiting, "TIMER_OUT_MS": "soon"}
    store = make(
        tmp_path,
        [
            same(0, "X", "rmq_sys_wheel_timer", properties=waiting),
            same(5, "X", "Order"),
            same(6, "Y", "rmq_sys_wheel_timer", properties=odd),
        ],
    )
    life = message_life(store, "X")
    assert [event.kind for event in life.events] == ["born", "timer", "due", "delivered"]
    assert "due" not in kinds(message_life(store, "Y"))


def test_retries_and_dead_letter(tmp_path: Path) -> None:
    store = make(
        tmp_path,
        [
            message(0),
            same(1, "U0000", "%RETRY%group", reconsume_times=1),
            same(2, "U0000", "%RETRY%group", reconsume_times=2),
            same(3, "U0000", "%DLQ%group"),
            same(4, "U0000", "TRANS_CHECK_MAX_TIME_TOPIC"),
        ],
    )
    life = message_life(store, "U0000")
    assert kinds(life) == ["born", "stored", "retry", "retry", "dead", "given-up"]
    assert texts(life, "retry")[1] == "to be consumed again by group group, retry 2"
    assert texts(life, "dead") == ["dead letter of group group"]


def pop(number: int, tag: str, body: Any) -> OutgoingMessage:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return OutgoingMessage(REVIVE, data, NOW + 1000 * number, queue_id=0, properties={"TAGS": tag})


def test_pops_and_acknowledgements(tmp_path: Path) -> None:
    place = {"t": "Order", "q": 0, "c": "group"}
    store = make(
        tmp_path,
        [
            *(message(number) for number in range(4)),
            pop(5, "ck", {**place, "so": 1, "n": 2, "it": 60000}),
            pop(6, "ck", {**place, "so": 0, "n": 4, "d": [0, 1, 3], "it": 1}),
            pop(7, "ck", {**place, "so": "x"}),
            pop(8, "ck", {**place, "t": "Other", "so": 2}),
            pop(9, "ack", {**place, "ao": 2}),
            pop(10, "bAck", {**place, "aol": [0, 2]}),
            pop(11, "ack", {**place, "ao": 1}),
            pop(12, "ck", b"not json"),
            pop(13, "ck", b"[]"),
            pop(14, "other", {**place, "so": 2}),
        ],
    )
    life = message_life(store, "U0002")
    assert kinds(life) == ["born", "stored", "popped", "acked", "acked"]
    assert texts(life, "popped") == ["popped by group group, invisible for 60000 ms"]
    assert [event.timestamp for event in life.events[2:]] == [NOW + 5000, NOW + 9000, NOW + 10_000]
    assert kinds(message_life(store, "U0003")) == ["born", "stored", "popped"]


def test_units_of_other_queues_that_lead_nowhere(tmp_path: Path) -> None:
    store = make(tmp_path, [message(0), pop(5, "ck", {"t": "Order", "q": 0, "so": 0, "n": 1})])
    (queue,) = [queue for queue in store.queues if queue.topic == REVIVE]
    patch(queue.files[0].path, 0, (1 << 40).to_bytes(8, "big"))
    assert kinds(message_life(reopen(tmp_path), "U0000")) == ["born", "stored"]


def test_broken_config_and_index_do_not_stop_it(tmp_path: Path) -> None:
    store = make(tmp_path, [message(0)], config={"consumerOffset.json": {"offsetTable": 3}})
    path = store.indexes[0].path
    path.unlink()
    path.mkdir()
    life = message_life(store, "U0000")
    assert kinds(life) == ["born", "stored"]
    assert list(life.index.values()) == [()]


def test_a_chain_in_a_circle_does_not_hold_it(tmp_path: Path) -> None:
    store = make(tmp_path, [message(number) for number in range(9)])
    path = store.indexes[0].path
    for number in range(1, 20):
        patch(path, entry_pos(number, GEOMETRY.slot_count) + 16, number.to_bytes(4, "big"))
    assert message_life(reopen(tmp_path), "U0003").records


def test_delayed_messages_of_a_broker(store_dir: Directory, manifest: Document) -> None:
    store = open_store(store_dir("4.9.8-delay"))
    walk = manifest("4.9.8-delay")["phases"][-1]["live"]["walk"]
    waiting = [row for row in walk if row["t"] == "SCHEDULE_TOPIC_XXXX"]
    delivered = {row["u"]: row for row in walk if row["t"] == "Dly"}
    assert len(delivered) > 5
    for row in waiting:
        life = message_life(store, row["u"])
        (due,) = [event.timestamp for event in life.events if event.kind == "due"]
        assert due == row["tc"]
        offsets = [row["o"], *([delivered[row["u"]]["o"]] if row["u"] in delivered else [])]
        assert [found.offset for found in life.records] == offsets
        assert ("delivered" in kinds(life)) == (row["u"] in delivered)


def test_transactions_of_a_broker(store_dir: Directory, manifest: Document) -> None:
    store: Store = open_store(store_dir("5.3.3-trans"))
    walk = manifest("5.3.3-trans")["phases"][-1]["live"]["walk"]
    halves = [row for row in walk if row["t"] == "RMQ_SYS_TRANS_HALF_TOPIC"]
    committed = {row.get("p", 0): row for row in walk if row["f"] & 12 == 8}
    assert halves
    ends = set()
    for row in halves:
        life = message_life(store, row["u"])
        assert ("committed" in kinds(life)) == (row["o"] in committed)
        ends.add(tuple(kind for kind in ("committed", "op", "pending") if kind in kinds(life)))
    assert ends == {("committed", "op"), ("op",), ("pending",)}
