"""The verdict on one record, check by check, version by version."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.formats.dialect import dialect_for
from rocketfsck.formats.magic import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from rocketfsck.formats.properties import property_crc, property_crc_digits
from rocketfsck.formats.record import Host, encode_record, make_record
from rocketfsck.query.start.read import HUGE_SIZE, BrokerReading, Verdict, judge_record
from rocketfsck.store.reading import FileReader

HOST = Host(bytes([10, 0, 0, 1]), 10911)


def record(topic: bytes = b"T", properties: bytes = b"", magic: int = MAGIC_V1) -> bytes:
    made = make_record(
        topic=topic,
        queue_id=0,
        queue_offset=0,
        physical_offset=0,
        born_timestamp=1,
        born_host=HOST,
        store_timestamp=2,
        store_host=HOST,
        body=b"hello",
        properties=properties,
        magic_code=magic,
    )
    return encode_record(made)


def patched(data: bytes, pos: int, form: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, pos, value)
    return bytes(changed)


BODY = 84
TOPIC = BODY + 4 + len(b"hello")
PLAIN = record()
TAIL = bytes(64)


@pytest.mark.parametrize(
    ("data", "version", "verdict"),
    [
        (PLAIN, "5.3.3", Verdict.OK),
        (PLAIN + TAIL, "4.3.0", Verdict.OK),
        (record(magic=MAGIC_V2, topic=b"T" * 200), "5.1.0", Verdict.OK),
        (record(magic=MAGIC_V2, topic=b"T" * 200), "4.9.8", Verdict.INVALID),
        (struct.pack(">ii", 64, MAGIC_BLANK) + TAIL, "4.9.8", Verdict.BLANK),
        (TAIL, "4.9.8", Verdict.INVALID),
        (b"\0\0\0\0", "5.3.3", Verdict.INVALID),
        (b"\0\0", "4.9.8", Verdict.INVALID),
        (PLAIN[:40], "4.9.8", Verdict.INVALID),
        (PLAIN[:40], "5.3.3", Verdict.INVALID),
        (patched(PLAIN, 0, ">i", len(PLAIN) + 1) + TAIL, "4.9.8", Verdict.HALF),
        (patched(PLAIN, 0, ">i", len(PLAIN) + 1) + TAIL, "5.3.3", Verdict.HALF),
        (patched(PLAIN, 0, ">i", len(PLAIN) + 500) + TAIL, "5.3.1", Verdict.HALF),
        (patched(PLAIN, 0, ">i", len(PLAIN) + 500) + TAIL, "5.3.2", Verdict.INVALID),
        (patched(PLAIN, 0, ">i", -5), "4.9.8", Verdict.INVALID),
        (patched(PLAIN, 0, ">i", 3) + TAIL, "4.9.8", Verdict.INVALID),
        (patched(PLAIN, BODY, ">i", 1 << 20) + TAIL, "4.9.8", Verdict.INVALID),
        (patched(PLAIN, BODY, ">i", -7) + TAIL, "4.9.8", Verdict.INVALID),
        (patched(PLAIN, TOPIC, ">b", -1) + TAIL, "4.9.8", Verdict.INVALID),
        (patched(PLAIN, TOPIC, ">b", 0) + TAIL, "4.9.8", Verdict.INVALID),
        (patched(PLAIN, 8, ">i", 1), "4.9.8", Verdict.INVALID),
        (record(b"SCHEDULE_TOPIC_XXXX", b"DELAY\x01three\x02"), "4.9.8", Verdict.INVALID),
        (record(b"SCHEDULE_TOPIC_XXXX", b"DELAY\x013\x02"), "4.9.8", Verdict.OK),
        (record(b"Other", b"DELAY\x01three\x02"), "4.9.8", Verdict.OK),
        (record(properties=b"INNER_NUM\x01many\x02INNER_BASE\x010\x02"), "5.1.4", Verdict.INVALID),
        (record(properties=b"INNER_NUM\x012\x02INNER_BASE\x01x\x02"), "5.1.4", Verdict.INVALID),
        (record(properties=b"INNER_NUM\x01many\x02INNER_BASE\x010\x02"), "4.9.8", Verdict.OK),
        (record(properties=b"INNER_NUM\x012\x02INNER_BASE\x019\x02"), "5.1.4", Verdict.OK),
    ],
)
def test_verdicts(data: bytes, version: str, verdict: Verdict, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    with FileReader(path) as reader:
        judged = judge_record(reader, 0, len(data), BrokerReading(dialect_for(version), check_crc=True))
    assert judged.verdict is verdict
    if verdict is Verdict.OK:
        assert judged.size == judged.read_size > 0
    elif verdict is Verdict.HALF:
        assert judged.size != judged.read_size


def judge(path: Path, data: bytes, reading: BrokerReading, limit: int | None = None) -> Verdict:
    path.write_bytes(data)
    with FileReader(path) as reader:
        return judge_record(reader, 0, len(data) if limit is None else limit, reading).verdict


def test_the_crc_counts_only_where_it_is_checked(tmp_path: Path) -> None:
    data = patched(PLAIN, BODY + 4, ">b", 0)
    checking = BrokerReading(dialect_for("5.1.4"), check_crc=True)
    assert judge(tmp_path / "log", data, checking) is Verdict.INVALID
    assert judge(tmp_path / "log", data, replace(checking, check_crc=False)) is Verdict.OK


def test_nothing_is_read_behind_the_limit(tmp_path: Path) -> None:
    reading = BrokerReading(dialect_for("4.9.8"), check_crc=False)
    assert judge(tmp_path / "log", PLAIN, reading, len(PLAIN) - 1) is Verdict.INVALID


def test_hosts_are_wide_only_for_those_who_know_the_flags(tmp_path: Path) -> None:
    wide = Host(bytes(range(16)), 10911)
    data = encode_record(
        make_record(
            topic=b"T",
            queue_id=0,
            queue_offset=0,
            physical_offset=0,
            born_timestamp=1,
            born_host=wide,
            store_timestamp=2,
            store_host=wide,
        )
    )
    assert judge(tmp_path / "log", data, BrokerReading(dialect_for("4.6.0"), check_crc=True)) is Verdict.OK
    assert (
        judge(tmp_path / "log", data, BrokerReading(dialect_for("4.5.2"), check_crc=True)) is not Verdict.OK
    )


@pytest.mark.parametrize("version", ["4.9.8", "5.1.4"])
def test_a_huge_size_is_told(version: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(patched(PLAIN, 0, ">i", HUGE_SIZE) + TAIL)
    with FileReader(path) as reader:
        judged = judge_record(reader, 0, reader.size, BrokerReading(dialect_for(version), check_crc=True))
    assert (judged.verdict, judged.huge) == (Verdict.HALF, True)
    path.write_bytes(patched(PLAIN[:60], 0, ">i", HUGE_SIZE))
    with FileReader(path) as reader:
        judged = judge_record(reader, 0, reader.size, BrokerReading(dialect_for(version), check_crc=True))
    assert (judged.verdict, judged.huge) == (Verdict.INVALID, True)


def with_property_crc(value: int | None = None) -> bytes:
    data = record(properties=b"a\x01b\x02__CRC32#\x01" + b"0" * 10 + b"\x02")
    digits = property_crc_digits(property_crc(data) if value is None else value)
    return data[:-11] + digits + b"\x02"


@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        (with_property_crc(), Verdict.OK),
        (with_property_crc(7), Verdict.INVALID),
        (with_property_crc(0), Verdict.INVALID),
        (PLAIN, Verdict.INVALID),
        (record(properties=b"__CRC32#\x01x\x02"), Verdict.INVALID),
    ],
)
def test_the_forced_property_crc_takes_the_place_of_the_bodys(
    data: bytes, verdict: Verdict, tmp_path: Path
) -> None:
    reading = BrokerReading(dialect_for("5.3.1"), check_crc=True, force_property_crc=True)
    assert judge(tmp_path / "log", data, reading) is verdict
    assert judge(tmp_path / "log", data, replace(reading, check_crc=False)) is Verdict.OK
