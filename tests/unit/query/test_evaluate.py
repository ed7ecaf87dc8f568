"""Expressions on messages and on columns agree, and leave nothing out."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from rocketfsck.query import find_by_expression
from rocketfsck.query.content.evaluate import Expression, content_of, scan_log
from rocketfsck.query.view import StoreView
from rocketfsck.scan.views.messages import Message
from rocketfsck.store import Store, open_store
from rocketfsck.writer import Kind

from tests.conftest import Directory
from tests.reported import reported
from tests.unit.query.maker import NOW, make, message, patch

EVERYTHING = (
    ("topic == 'Order'", 6),
    ("topic != 'Order'", 4),
    ("topic > 'P'", 4),
    ("topic in ('Pay', 'Nothing')", 1),
    ("topic contains 'rde'", 6),
    ("topic ~ /^p/i", 1),
    ("topic !~ /^p/i", 9),
    ("topic", 10),
    ("not topic", 0),
    ("queue_id == 1", 1),
    ("queue_id in (1, 2)", 1),
    ("queue_id", 1),
    ("queue_offset >= 1", 5),
    ("offset == 0", 1),
    ("offset", 9),
    ("physical_offset < 1", 1),
    ("tags == 'T1'", 2),
    ("tags != 'T1'", 8),
    ("tags in ('T1', 'T2')", 5),
    ("tags contains '1'", 2),
    ("tags ~ '[12]'", 5),
    ("tags", 9),
    ("keys == 'k3'", 1),
    ("keys contains 'k3'", 1),
    ("keys != 'k3'", 9),
    ("keys in ('k3', 'k4', 'k33')", 2),
    ("keys ~ /^k[34]$/", 2),
    ("keys !~ /^k[34]$/", 8),
    ("unique_key == 'U0003'", 1),
    ("unique_key in ('U0003', 'U0004')", 2),
    ("unique_key contains '000'", 9),
    ("unique_key < 'U0003'", 3),
    ("not unique_key", 1),
    ("properties.COLOR == 'red'", 1),
    ("properties['COLOR'] != 'red'", 9),
    ("properties.COLOR", 1),
    ("transaction == 'commit'", 1),
    ("transaction != 'none'", 3),
    ("transaction ~ /prep|roll/", 2),
    ("transaction", 10),
    ("faults", 0),
    ("faults contains 'body-crc'", 0),
    ("body contains 'body 3'", 1),
    ("body contains x'00ff'", 1),
    ("body ~ /BODY [34]/i", 2),
    ("body == 'body 3'", 1),
    ("body", 9),
    ("content contains 'packed'", 1),
    ("body contains 'packed'", 0),
    ("born_host == '127.0.0.1:50000'", 10),
    ("store_host ~ '10911$'", 10),
    (f"store_timestamp >= {NOW + 3000} and store_timestamp < {NOW + 5000}", 2),
    ("store_timestamp in ('2023-11-14T22:13:23', '2023-11-14T22:13:24')", 2),
    ("sys_flag == 1 or queue_id == 1", 2),
    ("reconsume_times == 2 or (topic == 'Pay' and not (tags = 'T0'))", 1),
    ("body_size <= 0", 1),
    ("magic_code == -626843481", 10),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    packed = zlib.compress(b"packed " * 20)
    return make(
        tmp_path_factory.mktemp("evaluate"),
        [
            *(message(number) for number in range(5)),
            message(5, "Pay", queue_id=1, properties={"TAGS": "T2", "UNIQ_KEY": "U0005", "COLOR": "red"}),
            message(6, "Zip", body=packed, sys_flag=1),
            message(7, "Raw", body=b"\x00\xff", properties={}, kind=Kind.PREPARED),
            message(8, "Raw", body=b"", kind=Kind.ROLLBACK),
            message(9, kind=Kind.COMMIT, reconsume_times=1),
        ],
    )


@pytest.mark.parametrize(("text", "count"), EVERYTHING)
def test_counts(store: Store, text: str, count: int) -> None:
    found = list(find_by_expression(store, text))
    assert len(found) == count
    assert all(item.live and item.via == ("scan",) and item.message.body is not None for item in found)


@pytest.mark.parametrize("text", [text for text, _ in EVERYTHING])
def test_columns_rule_out_nothing_that_matches(store: Store, text: str) -> None:
    """By every message of the log, without the columns."""
    wanted = Expression(text)
    with StoreView(store) as view:
        every = scan_log(view.log, Expression("offset >= 0"), with_bodies=True)
        expected = [offset for offset, item in every if wanted.matches(item, offset)]
    assert [item.offset for item in find_by_expression(store, text)] == expected


def test_max_count_and_range(store: Store) -> None:
    assert len(list(find_by_expression(store, "topic", max_count=3))) == 3
    assert list(find_by_expression(store, "topic", max_count=0)) == []
    offsets = [item.offset for item in find_by_expression(store, "topic")]
    some = find_by_expression(store, "topic", start_offset=offsets[2], end_offset=offsets[5])
    assert [item.offset for item in some] == offsets[2:5]


def test_progress_ends_at_the_end(store: Store) -> None:
    stated: list[tuple[int, int]] = []
    with reported("scanning the commit log", stated):
        list(find_by_expression(store, "topic"))
    assert stated[-1] == (store.commitlog.size, store.commitlog.size)
    assert [done for done, _ in stated] == sorted(done for done, _ in stated)


def test_content_of_bytes_that_only_say_they_are_packed(tmp_path: Path) -> None:
    odd = make(tmp_path, [message(0, body=b"not packed", sys_flag=1), message(1, body=b"x", sys_flag=0x101)])
    assert len(list(find_by_expression(odd, "content == 'not packed'"))) == 1
    assert len(list(find_by_expression(odd, "content == 'x'"))) == 1


def test_content_is_bounded(tmp_path: Path) -> None:
    store = make(tmp_path, [message(0, body=zlib.compress(bytes(100_000)), sys_flag=1)])
    with StoreView(store) as view:
        found = view.log.message_at(0)
    assert isinstance(found, Message)
    assert len(content_of(found, 1000) or b"") == 1000


def test_all_expressions_on_a_broker_written_store(store_dir: Directory) -> None:
    """On real records, odd properties and all, columns and messages agree."""
    real = open_store(store_dir("4.4.0-legacybatch-propedge"))
    with StoreView(real) as view:
        for text, _ in EVERYTHING:
            wanted = Expression(text)
            every = Expression("offset >= 0")
            expected = [at for at, item in scan_log(view.log, every) if wanted.matches(item, at)]
            assert [item.offset for item in find_by_expression(real, wanted, view=view)] == expected


def test_a_body_whose_checksum_is_wrong(tmp_path: Path) -> None:
    store = make(tmp_path, [message(number) for number in range(5)])
    path = store.commitlog.files[0].path
    patch(path, path.read_bytes().index(b"body 3"), b"B")
    (found,) = find_by_expression(store, "faults contains 'body-crc'")
    assert found.message.keys == ["k3", "all"]
    (same,) = find_by_expression(store, "keys contains 'k3'")
    assert same.message.faults == found.message.faults


def test_queries_between_two_messages_of_a_scan(tmp_path: Path) -> None:
    """Whoever takes a message may ask for others, however many files that opens and closes."""
    store = make(tmp_path, [message(number) for number in range(400)])
    assert len(store.commitlog.files) > 12
    with StoreView(store) as view:
        offsets = [item.offset for item in find_by_expression(store, "topic")]
        count = 0
        for item in find_by_expression(store, "queue_offset < 40", view=view):
            count += 1
            assert all(isinstance(view.log.message_at(offset), Message) for offset in offsets[::25])
            assert item.offset == offsets[count - 1]
    assert count == 40
