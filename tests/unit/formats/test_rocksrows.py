"""Keys of databases that brokers do not write are refused, each with the place of what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rocketfsck.errors import FormatError
from rocketfsck.formats import rocks
from rocketfsck.formats.rocks import ConfigKey, OffsetKey, Table, encode_config_key

OFFSET = encode_config_key(OffsetKey(Table.PULL_OFFSET, b"group", b"topic", 3))
UNIT = rocks.encode_unit_key(rocks.UnitKey(b"topic", 3, 9))
BOUND = rocks.encode_bound_key(rocks.BoundKey(b"topic", 3, True))
POP = rocks.encode_pop_key(rocks.PopKey(1, b"group", b"topic", 2, 3))


@pytest.mark.parametrize(
    ("decode", "key", "offset"),
    [
        (rocks.decode_config_key, b"", 0),
        (rocks.decode_config_key, b"\x02\x00\x01\x02", 0),
        (rocks.decode_config_key, b"\x01\x00\x09\x02", 0),
        (rocks.decode_config_key, b"\x01\x00\x03\x03\x00\x00", 3),
        (rocks.decode_config_key, b"\x01\x00\x03\x01other", 3),
        (rocks.decode_config_key, b"\x01\x00\x03\x02", 4),
        (rocks.decode_config_key, b"\x01\x00\x03\x02\x00\x05ab", 4),
        (rocks.decode_config_key, b"\x01\x00\x03\x02\xff\xffab", 4),
        (rocks.decode_config_key, b"\x01\x00\x03\x02\x00\x01ab", 4),
        (rocks.decode_config_key, OFFSET[:-1], 20),
        (rocks.decode_config_key, OFFSET + b"x", 20),
        (rocks.decode_config_key, OFFSET.replace(b"group\x01", b"group\x02"), 11),
        (rocks.decode_config_key, OFFSET.replace(b"topic\x01", b"topic\x02"), 19),
        (rocks.decode_config_key, OFFSET.replace(b"\x00\x05group", b"\x7f\xffgroup"), 4),
        (rocks.decode_config_key, OFFSET.replace(b"\x00\x05group", b"\xff\xffgroup"), 4),
        (rocks.json_of, b"", 0),
        (rocks.json_of, b"\x02{}", 0),
        (rocks.decode_unit_key, UNIT.replace(b"topic\x01", b"topic\x02"), 10),
        (rocks.decode_unit_key, UNIT[:15] + b"\x02" + UNIT[16:], 15),
        (rocks.decode_bound_key, BOUND.replace(b"max\x01", b"max\x02"), 14),
        (rocks.decode_index_key, bytes(30), 0),
        (rocks.decode_index_key, bytes(8) + b"@topic@X@key@uniq@" + bytes(8), 15),
        (rocks.decode_index_key, bytes(8) + b"@topic@K@uniq@" + bytes(8), 15),
        (rocks.decode_timer_key, bytes(7), 0),
        (rocks.decode_trans_key, bytes(8), 8),
        (rocks.decode_trans_key, bytes(8) + b"@topic", 8),
        (rocks.decode_trans_key, bytes(8) + b"x@topic@uniq", 8),
        (rocks.decode_pop_key, POP[:-1], 0),
        (rocks.decode_pop_key, POP.replace(b"group@topic", b"groupXtopic"), 8),
    ],
)
def test_what_is_no_key_is_refused(decode: Callable[[bytes], Any], key: bytes, offset: int) -> None:
    with pytest.raises(FormatError) as caught:
        decode(key)
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    "key",
    [
        ConfigKey(Table.TOPIC, None),
        ConfigKey(Table.TOPIC, b""),
        ConfigKey(Table.SUBSCRIPTION_GROUP, b"group"),
        OffsetKey(Table.CONSUMER_OFFSET, b"", b"topic", 0),
        OffsetKey(Table.PULL_OFFSET, b"group", b"topic", 3),
    ],
)
def test_keys_of_the_second_form_come_back(key: ConfigKey | OffsetKey) -> None:
    assert rocks.decode_config_key(encode_config_key(key)) == key


@pytest.mark.parametrize(
    "key",
    [
        rocks.PopKey(1, b"group", b"topic", 2, 3),
        rocks.PopKey(-1, b"", b"", 0, 0),
        rocks.PopKey(1, b"g", b"a@b", 2, 3),
    ],
)
def test_keys_of_messages_in_flight_come_back(key: rocks.PopKey) -> None:
    assert rocks.decode_pop_key(rocks.encode_pop_key(key)) == key


def test_the_json_of_a_value() -> None:
    assert rocks.json_of(b"\x01{}") == b"{}"


def test_numbers_of_another_length_are_refused() -> None:
    assert rocks.decode_i64(rocks.encode_i64(-5), "value") == -5
    with pytest.raises(FormatError, match="lastOffsetPy: 7 bytes"):
        rocks.decode_i64(bytes(7), "lastOffsetPy")


def test_texts_with_separators_in_them() -> None:
    key = rocks.IndexKey(3_600_000, b"T", b"K", b"a@b@c", b"UNIQ", 7)
    assert rocks.decode_index_key(rocks.encode_index_key(key)) == key
