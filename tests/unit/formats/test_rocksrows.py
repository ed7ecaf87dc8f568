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
    ("decode", "key"),
    [
        (rocks.decode_config_key, b""),
        (rocks.decode_config_key, b"\x02\x00\x01\x02"),
        (rocks.decode_config_key, b"\x01\x00\x09\x02"),
        (rocks.decode_config_key, b"\x01\x00\x03\x03\x00\x00"),
        (rocks.decode_config_key, b"\x01\x00\x03\x01other"),
        (rocks.decode_config_key, b"\x01\x00\x03\x02"),
        (rocks.decode_config_key, b"\x01\x00\x03\x02\x00\x05ab"),
        (rocks.decode_config_key, b"\x01\x00\x03\x02\xff\xffab"),
        (rocks.decode_config_key, b"\x01\x00\x03\x02\x00\x01ab"),
        (rocks.decode_config_key, OFFSET[:-1]),
        (rocks.decode_config_key, OFFSET + b"x"),
        (rocks.decode_config_key, OFFSET.replace(b"group\x01", b"group\x02")),
        (rocks.decode_config_key, OFFSET.replace(b"topic\x01", b"topic\x02")),
        (rocks.json_of, b""),
        (rocks.json_of, b"\x02{}"),
        (rocks.decode_unit_key, UNIT.replace(b"topic\x01", b"topic\x02")),
        (rocks.decode_unit_key, UNIT[:15] + b"\x02" + UNIT[16:]),
        (rocks.decode_bound_key, BOUND.replace(b"max\x01", b"max\x02")),
        (rocks.decode_index_key, bytes(30)),
        (rocks.decode_index_key, bytes(8) + b"@topic@X@key@uniq@" + bytes(8)),
        (rocks.decode_index_key, bytes(8) + b"@topic@K@uniq@" + bytes(8)),
        (rocks.decode_timer_key, bytes(7)),
        (rocks.decode_trans_key, bytes(8)),
        (rocks.decode_trans_key, bytes(8) + b"@topic"),
        (rocks.decode_trans_key, bytes(8) + b"x@topic@uniq"),
        (rocks.decode_pop_key, POP[:-1]),
        (rocks.decode_pop_key, POP.replace(b"group@topic", b"groupXtopic")),
    ],
)
def test_what_is_no_key_is_refused(decode: Callable[[bytes], Any], key: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        decode(key)
    assert caught.value.offset is not None
    assert 0 <= caught.value.offset <= len(key)


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


def test_numbers_of_another_length_are_refused() -> None:
    assert rocks.decode_i64(rocks.encode_i64(-5), "value") == -5
    with pytest.raises(FormatError, match="lastOffsetPy: 7 bytes"):
        rocks.decode_i64(bytes(7), "lastOffsetPy")


def test_texts_with_separators_in_them() -> None:
    key = rocks.IndexKey(3_600_000, b"T", b"K", b"a@b@c", b"UNIQ", 7)
    assert rocks.decode_index_key(rocks.encode_index_key(key)) == key
