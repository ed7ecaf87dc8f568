"""Records and BLANKs: what decodes, and where the errors point."""

from __future__ import annotations

import dataclasses

import pytest

from rocketfsck.errors import FormatError
from rocketfsck.formats.magic import (
    MAGIC_V1,
    MAGIC_V2,
    compression_type,
    is_in_consume_queue,
    is_indexed,
    transaction_type,
)
from rocketfsck.formats.record import (
    BLANK,
    RECORD,
    RECORD_HEADER,
    Blank,
    Host,
    Record,
    body_crc,
    decode_blank,
    decode_host,
    decode_record,
    encode_host,
    encode_record,
    make_record,
    read_frame,
)

HOST = Host(bytes([10, 0, 0, 1]), 10911)


def _record(**changes: object) -> Record:
    values: dict[str, object] = {
        "topic": b"Topic",
        "queue_id": 1,
        "queue_offset": 2,
        "physical_offset": 3,
        "born_timestamp": 4,
        "born_host": HOST,
        "store_timestamp": 5,
        "store_host": HOST,
        "body": b"body",
        "properties": b"K\x01V",
    }
    return make_record(**(values | changes))  # type: ignore[arg-type]


GOOD = encode_record(_record())
BODY_LENGTH_POS = 84
TOPIC_LENGTH_POS = 88 + 4
PROPERTIES_LENGTH_POS = TOPIC_LENGTH_POS + 1 + 5


def _patched(pos: int, data: bytes) -> bytes:
    return GOOD[:pos] + data + GOOD[pos + len(data) :]


@pytest.mark.parametrize(
    ("data", "offset", "field"),
    [
        (b"", 0, "totalSize"),
        (GOOD[:7], 0, "totalSize"),
        (GOOD[:-1], 0, "totalSize"),
        (_patched(0, b"\x7f\xff\xff\xff"), 0, "totalSize"),
        (_patched(0, b"\xff\xff\xff\xff"), 0, "totalSize"),
        (_patched(0, b"\0\0\0\x5a"), 0, "totalSize"),
        (_patched(0, b"\0\0\0\x5b"), 88, "body"),
        (_patched(4, b"\xcb\xd4\x31\x94"), 4, "magicCode"),
        (_patched(4, b"\xda\xa3\x20\xab"), TOPIC_LENGTH_POS + 2, "topic"),
        (_patched(BODY_LENGTH_POS, b"\x7f\xff\xff\xff"), 88, "body"),
        (_patched(BODY_LENGTH_POS, b"\0\0\0\x03"), 88 + 3 + 1, "topic"),
        (_patched(TOPIC_LENGTH_POS, b"\xff"), TOPIC_LENGTH_POS, "topicLength"),
        (_patched(TOPIC_LENGTH_POS, b"\x04"), PROPERTIES_LENGTH_POS + 1, "properties"),
        (_patched(PROPERTIES_LENGTH_POS, b"\x7f\xff"), PROPERTIES_LENGTH_POS + 2, "properties"),
        (_patched(PROPERTIES_LENGTH_POS, b"\0\x02"), 0, "totalSize"),
        (_patched(PROPERTIES_LENGTH_POS, b"\xff\xff"), 0, "totalSize"),
    ],
)
@pytest.mark.parametrize("before", [0, 11])
def test_errors_point_at_the_field(data: bytes, offset: int, field: str, before: int) -> None:
    with pytest.raises(FormatError, match=f"^{field}: ") as caught:
        decode_record(b"\xff" * before + data, before)
    assert caught.value.offset == before + offset


def test_negative_positions_are_refused() -> None:
    with pytest.raises(FormatError):
        decode_record(GOOD, -len(GOOD))


@pytest.mark.parametrize("convert", [bytes, bytearray, memoryview])
def test_any_buffer_and_position(convert: type) -> None:
    data = convert(b"junk" + GOOD + b"more")
    assert decode_record(data, 4) == _record()


def test_negative_lengths_are_read_as_nothing() -> None:
    record = dataclasses.replace(
        _record(body=b"", properties=b""), body_length=-1, properties_length=-32768, body_crc=7
    )
    data = encode_record(record)
    assert len(data) == record.total_size == 91 + 5
    assert decode_record(data) == record


def test_smallest_record() -> None:
    record = _record(topic=b"", body=b"", properties=b"")
    assert record.total_size == 91
    assert decode_record(encode_record(record)) == record


def test_longest_topics() -> None:
    assert decode_record(encode_record(_record(topic=b"t" * 127))).topic == b"t" * 127
    with pytest.raises(FormatError, match="topicLength"):
        encode_record(_record(topic=b"t" * 128))
    long = _record(topic=b"t" * 255, magic_code=MAGIC_V2)
    assert decode_record(encode_record(long)) == long


@pytest.mark.parametrize(
    "changes",
    [
        {"queue_id": 1 << 31},
        {"queue_offset": -(1 << 63) - 1},
        {"body_length": 5},
        {"properties_length": 0},
        {"born_host": Host(b"abc", 1)},
        {"store_host": Host(b"abcd", 1 << 31)},
        {"sys_flag": 0x10},
        {"body": None},
    ],
)
def test_values_that_do_not_fit_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(FormatError):
        encode_record(dataclasses.replace(_record(), **changes))  # type: ignore[arg-type]


def test_total_size_is_written_as_given() -> None:
    record = dataclasses.replace(_record(), total_size=5)
    assert encode_record(record) == _patched(0, b"\0\0\0\x05")


def test_hosts() -> None:
    assert decode_host(encode_host(HOST)) == HOST
    assert Host(bytes(4), -1).text == "0.0.0.0:-1"
    assert Host(bytes(15) + b"\x01", 80).text == "[::1]:80"
    with pytest.raises(FormatError):
        decode_host(bytes(9))


def test_blank() -> None:
    assert decode_blank(b"x" + BLANK.build({"totalSize": 8, "magicCode": -875286124}), 1) == Blank(8)
    with pytest.raises(FormatError) as caught:
        decode_blank(b"x" + GOOD, 1)
    assert caught.value.offset == 5
    with pytest.raises(FormatError) as caught:
        decode_blank(b"\0\0\0\x08\xcb")
    assert caught.value.offset == 4


def test_frame() -> None:
    assert read_frame(GOOD) == (len(GOOD), MAGIC_V1)
    assert read_frame(memoryview(b"!" + GOOD), 1) == (len(GOOD), MAGIC_V1)


def test_body_crc() -> None:
    assert body_crc(b"") == 0
    assert body_crc(b"Hello RocketMQ") == 0x69C865ED


def test_header_layout_is_the_beginning_of_the_record() -> None:
    assert RECORD_HEADER.size == 88
    names = [field.name for field in RECORD_HEADER.fields]
    assert names == [field.name for field in RECORD.fields][: len(names)]
    for field in RECORD.fields:
        if field.offset is not None:
            assert RECORD_HEADER.offset(field.name) == field.offset
    header = RECORD_HEADER.parse(GOOD)
    assert header["storeHost"] == encode_host(HOST)
    assert header["bodyLength"] == 4


@pytest.mark.parametrize(
    ("sys_flag", "transaction", "queued", "indexed"),
    [(0x0, 0x0, True, True), (0x7, 0x4, False, True), (0x8, 0x8, True, True), (0xF1C, 0xC, False, False)],
)
def test_sys_flag(sys_flag: int, transaction: int, queued: bool, indexed: bool) -> None:
    assert transaction_type(sys_flag) == transaction
    assert is_in_consume_queue(sys_flag) is queued
    assert is_indexed(sys_flag) is indexed
    assert compression_type(0x2FF) == 2
