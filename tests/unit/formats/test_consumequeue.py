"""Consume queue units of all kinds."""

from __future__ import annotations

import pytest

from rocketfsck.errors import FormatError
from rocketfsck.formats.consumequeue import (
    BATCH_UNIT,
    EXT_END_MARK,
    PRE_BLANK_UNIT,
    SPARSE_END_UNIT,
    UNIT,
    ExtUnit,
    decode_ext_unit,
    encode_ext_unit,
    ext_address,
    ext_offset,
    is_ext_address,
    is_valid_batch_unit,
    is_valid_unit,
    queue_offset_of,
    rounded_file_size,
)


def test_units_of_known_bytes() -> None:
    assert bytes.fromhex("0000000000000000 7fffffff 0000000000000000") == PRE_BLANK_UNIT
    assert UNIT.parse(PRE_BLANK_UNIT) == {"offset": 0, "size": 0x7FFFFFFF, "tagsCode": 0}
    negative = UNIT.build({"offset": 5, "size": 6, "tagsCode": -2})
    assert negative[12:] == b"\xff" * 7 + b"\xfe"
    assert list(BATCH_UNIT.parse(SPARSE_END_UNIT).values()) == [-1, 0, 0, 0, 0, 0, -1, 0]


def test_ext_unit_bytes() -> None:
    unit = ExtUnit(2598919, 1700000000000, b"\x05\x06")
    data = encode_ext_unit(unit)
    assert data == bytes.fromhex("0016 000000000027a807 0000018bcfe56800 0002 0506")
    assert decode_ext_unit(b"!" + data + b"more", 1) == unit
    assert unit.size == 22


def test_ext_end_mark() -> None:
    assert decode_ext_unit(EXT_END_MARK) is None
    assert decode_ext_unit(b"\0" + EXT_END_MARK + b"rest", 1) is None


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"", 0),
        (b"\0", 0),
        (b"\0\x14", 2),
        (b"\0\0" + bytes(30), 0),
        (b"\0\x13" + bytes(30), 0),
        (b"\xff\xfe" + bytes(30), 0),
        (b"\0\x14" + bytes(16) + b"\0\x01" + bytes(9), 18),
        (b"\0\x14" + bytes(16) + b"\xff\xff" + bytes(9), 18),
        (b"\x7f\xff" + bytes(16) + b"\x7f\xeb" + bytes(9), 20),
    ],
)
def test_ext_errors(data: bytes, offset: int) -> None:
    with pytest.raises(FormatError) as caught:
        decode_ext_unit(b"__" + data, 2)
    assert caught.value.offset == 2 + offset


def test_longest_bitmap() -> None:
    unit = ExtUnit(-1, 0, bytes(32747))
    assert decode_ext_unit(encode_ext_unit(unit)) == unit
    with pytest.raises(FormatError):
        encode_ext_unit(ExtUnit(-1, 0, bytes(32748)))


def test_ext_addresses() -> None:
    assert ext_address(0) == -(1 << 63)
    assert ext_offset(ext_address(123)) == 123
    assert is_ext_address(ext_address(0))
    assert is_ext_address(-2147483649)
    assert not is_ext_address(-2147483648)


def test_validity_as_the_broker_sees_it() -> None:
    assert is_valid_unit(0, 1)
    assert not is_valid_unit(0, 0)
    assert not is_valid_unit(-1, 1)
    assert is_valid_batch_unit(0, 1, 0, 1)
    assert not any([
        is_valid_batch_unit(-1, 1, 0, 1),
        is_valid_batch_unit(0, 0, 0, 1),
        is_valid_batch_unit(0, 1, -1, 1),
        is_valid_batch_unit(0, 1, 0, 0),
    ])  # fmt: skip


def test_positions() -> None:
    assert queue_offset_of(6_000_000) == 300_000
    assert rounded_file_size(6_000_000) == 6_000_000
    assert rounded_file_size(6_000_001) == 6_000_020
    assert rounded_file_size(0) == 0
    assert rounded_file_size(100, BATCH_UNIT.size) == 138
    with pytest.raises(FormatError):
        rounded_file_size(-1)
