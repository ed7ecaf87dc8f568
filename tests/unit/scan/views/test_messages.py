"""Messages and their filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketfsck.formats.record import Host
from rocketfsck.scan.log.resync import Region, RegionKind
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.views.messages import Message, MessageFilter, read_messages, walk_messages
from rocketfsck.store.reading import FileReader

from tests.unit.scan.logmaker import BASE, STORE_TIMESTAMP, record

MESSAGES: list[dict[str, Any]] = [
    {"topic": b"A", "queue_id": 0, "properties": b"KEYS\x01x y\x02TAGS\x01T1\x02"},
    {"topic": b"B", "queue_id": 0, "properties": b"UNIQ_KEY\x01x\x02"},
    {"topic": b"A", "queue_id": 1, "properties": b"", "body": b""},
    {"topic": b"A", "queue_id": 1, "properties": b"TAGS\x01T1\x02KEYS\x01xx\x02"},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    data = b""
    for number, values in enumerate(MESSAGES):
        data += record(
            BASE + len(data), queue_offset=number, store_timestamp=STORE_TIMESTAMP + number, **values
        )
    found = tmp_path / "log"
    found.write_bytes(data + bytes(100))
    return found


def _numbers(path: Path, **conditions: Any) -> list[int]:
    with FileReader(path) as reader:
        wanted = MessageFilter(**conditions)
        return [message.queue_offset for message in read_messages(reader, BASE, ScanOptions(), wanted)]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"topic": "A"}, [0, 2, 3]),
        ({"topic": "C"}, []),
        ({"queue_id": 1}, [2, 3]),
        ({"topic": "B", "queue_id": 1}, []),
        ({"tag": "T1"}, [0, 3]),
        ({"tag": ""}, [1, 2]),
        ({"key": "x"}, [0, 1]),
        ({"key": "x", "topic": "B"}, [1]),
        ({"key": "xx"}, [3]),
        ({"begin_timestamp": STORE_TIMESTAMP + 1}, [1, 2, 3]),
        ({"begin_timestamp": STORE_TIMESTAMP + 1, "end_timestamp": STORE_TIMESTAMP + 3}, [1, 2]),
        ({"end_offset": BASE + 1}, [0]),
        ({"begin_offset": BASE + 1}, [1, 2, 3]),
    ],
)
def test_filters(path: Path, conditions: dict[str, Any], expected: list[int]) -> None:
    assert _numbers(path, **conditions) == expected


def test_regions_come_with_the_messages(path: Path) -> None:
    with FileReader(path) as reader:
        found = list(walk_messages(reader, BASE, ScanOptions(), MessageFilter(topic="B")))
    assert [type(item) for item in found] == [Message, Region, Region]
    assert isinstance(found[1], Region) and found[1].kind == RegionKind.RECORDS
    assert found[1].record_count == 4


def test_bodies_are_left_out_where_they_are_too_long(path: Path) -> None:
    with FileReader(path) as reader:
        for limit, expected in (
            (4, [None, None, b"", None]),
            (5, [b"hello", b"hello", b"", b"hello"]),
            (0, [None] * 4),
        ):
            bodies = [
                message.body for message in read_messages(reader, BASE, ScanOptions(), max_body_size=limit)
            ]
            assert bodies == expected


def test_ipv6_hosts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    host = Host(bytes(15) + b"\x01", 80)
    path.write_bytes(record(0, born_host=host) + record(len(record(0, born_host=host)), store_host=host))
    with FileReader(path) as reader:
        found = [
            (message.born_host, message.store_host) for message in read_messages(reader, 0, ScanOptions())
        ]
    assert found == [("[::1]:80", "10.20.30.40:10911"), ("10.1.2.3:54321", "[::1]:80")]


def test_the_least_record_may_end_the_file(tmp_path: Path) -> None:
    """Two IPv6 hosts would take 48 bytes; behind those of a small record there are fewer."""
    data = record(BASE, topic=b"A", body=b"", properties=b"")
    assert len(data) < 96
    (tmp_path / "log").write_bytes(data)
    with FileReader(tmp_path / "log") as reader:
        (message,) = read_messages(reader, BASE, ScanOptions())
    assert (message.born_host, message.store_host) == ("10.1.2.3:54321", "10.20.30.40:10911")
