"""The worked examples of the reference, appendix A: bytes that real brokers produced."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rocketfsck.formats.checkpoint import Checkpoint, encode_checkpoint
from rocketfsck.formats.consumequeue import UNIT
from rocketfsck.formats.indexfile import (
    ENTRY,
    HEADER,
    SLOT,
    decode_header,
    entry_pos,
    slot_of,
    slot_pos,
    time_diff,
)
from rocketfsck.formats.javatext import index_hash, java_hash
from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2, record_size
from rocketfsck.formats.messageid import OffsetMessageId, decode_offset_id, decode_unique_id, encode_offset_id
from rocketfsck.formats.properties import (
    parse_properties,
    property_crc,
    property_crc_digits,
    property_crc_trailer,
    property_crc_value,
    serialize_properties,
    tags_code,
)
from rocketfsck.formats.record import (
    Blank,
    Host,
    Record,
    decode_blank,
    decode_record,
    encode_blank,
    encode_record,
    make_record,
)
from rocketfsck.formats.timer import deliver_timestamp
from rocketfsck.store.index_geometry import infer_index_geometry
from rocketfsck.store.model import IndexFile

A1 = bytes.fromhex(
    "000000bbdaa320a769c865ed00000003"
    "00000000000000000000000000000000"
    "00000000000000000000018bcfe56418"
    "0a0102030000d4310000018bcfe56800"
    "0a6c73d900002a9f0000000000000000"
    "000000000000000e48656c6c6f20526f"
    "636b65744d5109546f70696354657374"
    "00494b455953016f726465722d31206f"
    "726465722d3202554e49515f4b455901"
    "30413643373344393339423331384234"
    "41414332304342413544393230303030"
    "0254414753015461674102"
)
A2_TAIL = bytes.fromhex("02544147530154616741025f5f435243333223013837313530323434373002")
A3 = bytes.fromhex(
    "0000018bcfe568000000018bcfe56800"
    "00000000000000000000000000000000"
    "00000003000000040000000200000000"
    "00000001000000030000000000000000"
    "0000000000000000000000000934ef56"
    "00000000000000000000000000000000"
    "6d0746d0000000000000000000000000"
    "000000006d0746cf0000000000000000"
    "00000000000000000000000000000000"
)
A3 = A3.ljust(256, b"\0")
A5 = bytes.fromhex(
    "00000117daa320ab4ad0cf3100000000"
    "00000007000000000000000000000000"
    "00000000000000300000018bcfe56418"
    "20010db8000000000000000000000001"
    "000000500000018bcfe56800fe800000"
    "00000000000000000000000200002a9f"
    "00000002000000000000000000000001"
    "42008925524554525925616161616161"
    "61616161616161616161616161616161"
    "61616161616161616161616161616161"
    "61616161616161616161616161616161"
    "61616161616161616161616161616161"
    "61616161616161616161616161616161"
    "61616161616161616161616161616161"
    "61616161616161616161616161616161"
    "61616161616161616161616100194b45"
    "595301e4b8ade69687206b3202544147"
    "53015461674102"
)

UNIQUE_KEY = "0A6C73D939B318B4AAC20CBA5D920000"
PROPERTIES = {"KEYS": "order-1 order-2", "UNIQ_KEY": UNIQUE_KEY, "TAGS": "TagA"}
PRODUCER = Host(bytes([10, 1, 2, 3]), 54321)
BROKER = Host(bytes([10, 108, 115, 217]), 10911)


def _small_message(trailing_separator: bool) -> Record:
    return make_record(
        topic=b"TopicTest",
        queue_id=3,
        queue_offset=0,
        physical_offset=0,
        born_timestamp=1699999999000,
        born_host=PRODUCER,
        store_timestamp=1700000000000,
        store_host=BROKER,
        body=b"Hello RocketMQ",
        properties=serialize_properties(PROPERTIES, trailing_separator),
    )


def test_a1_small_message() -> None:
    record = decode_record(A1)
    assert record == _small_message(trailing_separator=True)
    assert encode_record(record) == A1
    assert record.body_crc == 0x69C865ED
    assert (record.total_size, record.properties_length) == (187, 73)
    assert parse_properties(record.properties, "split") == PROPERTIES
    assert parse_properties(record.properties, "scan") == PROPERTIES
    assert (record.born_host.text, record.store_host.text) == ("10.1.2.3:54321", "10.108.115.217:10911")
    assert record_size(14, 9, 73) == 187


def test_a1_without_the_last_separator() -> None:
    expected = bytearray(A1[:-1])
    expected[0:4] = bytes.fromhex("000000ba")
    expected[0x70:0x72] = bytes.fromhex("0048")
    assert encode_record(_small_message(trailing_separator=False)) == bytes(expected)


def test_a1_what_the_broker_derived() -> None:
    message_id = OffsetMessageId(BROKER.address, BROKER.port, 0)
    assert encode_offset_id(message_id) == "0A6C73D900002A9F0000000000000000"
    unit = UNIT.build({"offset": 0, "size": 187, "tagsCode": tags_code("TagA")})
    assert unit == bytes.fromhex("0000000000000000 000000bb 000000000027a807")
    checkpoint = encode_checkpoint(Checkpoint(1700000000000, 1700000000000))
    assert checkpoint == bytes.fromhex("0000018bcfe568000000018bcfe56800").ljust(4096, b"\0")


def test_a2_property_crc() -> None:
    record = bytearray(A1[:0xB0] + A2_TAIL)
    record[0:4] = bytes.fromhex("000000cf")
    record[0x70:0x72] = bytes.fromhex("005d")
    crc = property_crc(bytes(record))
    assert crc == 744205178
    assert property_crc_digits(crc) == b"8715024470"
    assert record.endswith(property_crc_trailer(crc))
    decoded = decode_record(record)
    assert decoded.total_size == 207
    properties = parse_properties(decoded.properties, "scan") or {}
    assert property_crc_value(properties["__CRC32#"]) == crc
    assert encode_record(decoded) == record


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("polygenelubricants", -2147483648),
        ("TopicTest#aentnpwi", -2147483648),
        ("\u4e2d\u6587", 646394),
        ("\U0001f600", 1772899),
        ("TagA", 2598919),
        ("TopicTest#0A6C73D939B318B4AAC20CBA5D920000", -154464086),
        ("TopicTest#order-1", -1829193424),
        ("TopicTest#order-2", -1829193423),
        ("", 0),
    ],
)
def test_java_hash_vectors(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_a3_index_file(tmp_path: Path) -> None:
    assert len(A3) == 256
    header = decode_header(A3)
    assert dataclasses.astuple(header) == (1700000000000, 1700000000000, 0, 0, 3, 4)
    assert header.entry_count == 3
    (tmp_path / "1").write_bytes(A3)
    guess = infer_index_geometry([IndexFile(str(tmp_path / "1"), "1", 256, 0, 256)])
    assert (guess.slot_count, guess.entry_count) == (4, 10)
    hashes = [index_hash("TopicTest", key) for key in (UNIQUE_KEY, "order-1", "order-2")]
    assert hashes == [0x0934EF56, 0x6D0746D0, 0x6D0746CF]
    assert [slot_of(key_hash, 4) for key_hash in hashes] == [2, 0, 3]
    assert [SLOT.parse(A3, slot_pos(slot))["newestIndex"] for slot in range(4)] == [2, 0, 1, 3]
    entries = [ENTRY.parse(A3, entry_pos(number, 4)) for number in range(4)]
    assert [entry["keyHash"] for entry in entries] == [0, *hashes]
    assert (entry_pos(0, 4), entry_pos(1, 4), entry_pos(3, 4)) == (0x38, 0x4C, 0x74)
    rebuilt = HEADER.build(HEADER.parse(A3)) + A3[40:56] + b"".join(map(ENTRY.build, entries))
    assert rebuilt == A3[: len(rebuilt)]


def test_a4_time_differences() -> None:
    assert time_diff(1700000015000, 1700000013500) == 1
    assert time_diff(1700000015000, 1700000015000) == 0


def test_a5_version_2_with_ipv6_hosts() -> None:
    record = decode_record(A5)
    assert encode_record(record) == A5
    assert record.magic_code == MAGIC_V2
    assert record.total_size == len(A5) == 279
    assert record.sys_flag == 0x30
    assert record.born_host.text == "[2001:db8::1]:80"
    assert record.store_host.text == "[fe80::2]:10911"
    assert record.topic == b"%RETRY%" + b"a" * 130
    assert (record.reconsume_times, record.flag, record.body) == (2, 7, b"B")
    assert parse_properties(record.properties, "scan") == {"KEYS": "\u4e2d\u6587 k2", "TAGS": "TagA"}
    again = make_record(
        topic=record.topic,
        queue_id=0,
        queue_offset=0,
        physical_offset=0,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_timestamp=record.store_timestamp,
        store_host=record.store_host,
        body=b"B",
        properties=record.properties,
        magic_code=MAGIC_V2,
        flag=7,
        reconsume_times=2,
    )
    assert again == record
    identity = decode_offset_id("FE80000000000000000000000000000200002A9F0000000000000000")
    assert identity == OffsetMessageId(record.store_host.address, 10911, 0)
    assert record_size(1, 137, 25, magic_code=MAGIC_V2, sys_flag=0x30) == 279
    assert record_size(1, 137, 25, magic_code=MAGIC_V1, sys_flag=0x10) == 266


def test_a6_delivery_time() -> None:
    assert deliver_timestamp(3, 1700000000000) == 1700000010000


def test_a7_blank() -> None:
    assert decode_blank(bytes.fromhex("00000041cbd43194524a8979")) == Blank(65)
    assert encode_blank(Blank(96)) == bytes.fromhex("00000060cbd43194")


def test_worked_unique_ids() -> None:
    first = decode_unique_id("0A6C73D939B318B4AAC20CBA5D920000")
    assert (first.host_text, first.pid, first.class_loader_hash) == ("10.108.115.217", 14771, 0x18B4AAC2)
    assert (first.span, first.counter) == (213_540_242, 0)
    second = decode_unique_id("0A6C73D93EC518B4AAC20CC4ACD90000")
    assert (second.pid, second.span) == (16069, 214_215_897)


def test_worked_offset_id() -> None:
    identity = decode_offset_id("0A6C73D900002A9F0000000000004010")
    assert (identity.host_text, identity.port, identity.physical_offset) == ("10.108.115.217", 10911, 16400)
