"""Message ids, and the times that a unique id can mean."""

from __future__ import annotations

import pytest

from rocketfsck.errors import FormatError, UsageError
from rocketfsck.formats.messageid import (
    OffsetMessageId,
    UniqueIdTime,
    UniqueMessageId,
    decode_offset_id,
    decode_unique_id,
    encode_offset_id,
    encode_unique_id,
    unique_id_times,
)

DAY = 86_400_000
ID = UniqueMessageId(bytes([10, 0, 0, 1]), 1, 0x18B4AAC2, 2 * DAY + 5, 0)
MARCH_2024 = 1_709_251_200_000


def test_ids_of_both_widths() -> None:
    for address in (bytes([1, 2, 3, 4]), bytes(range(16))):
        where = OffsetMessageId(address, 10911, 1 << 40)
        assert decode_offset_id(encode_offset_id(where)) == where
        who = UniqueMessageId(address, 65535, 1, (1 << 32) - 1, 65535)
        assert decode_unique_id(encode_unique_id(who)) == who
        assert len(encode_unique_id(who)) == len(encode_offset_id(where)) == (32 if len(address) == 4 else 56)
    assert decode_unique_id(encode_unique_id(ID).lower()) == ID
    assert OffsetMessageId(bytes(15) + b"\1", 0, 0).host_text == "::1"


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("", 0),
        ("0" * 31, 0),
        ("0" * 40, 0),
        ("0" * 31 + "x", 31),
        ("٣" * 32, 0),
        (" " + "0" * 31, 0),
        ("0" * 31 + "\n", 31),
    ],
)
def test_ids_that_are_none(text: str, offset: int) -> None:
    for decode in (decode_offset_id, decode_unique_id):
        with pytest.raises(FormatError) as caught:
            decode(text)
        assert caught.value.offset == offset


def test_parts_that_do_not_fit() -> None:
    with pytest.raises(FormatError):
        encode_offset_id(OffsetMessageId(b"abc", 1, 1))
    with pytest.raises(FormatError):
        encode_offset_id(OffsetMessageId(b"abcd", 1, 1 << 63))
    with pytest.raises(FormatError):
        encode_unique_id(UniqueMessageId(b"abcd", 65536, 0, 0, 0))


def test_times_in_several_zones() -> None:
    near = range(MARCH_2024, MARCH_2024 + 4 * DAY)
    times = unique_id_times(ID, near, ["UTC", "Asia/Shanghai", "America/New_York", "UTC"])
    assert [(time.zone, time.timestamp - MARCH_2024 - ID.span) for time in times] == [
        ("Asia/Shanghai", -8 * 3_600_000),
        ("UTC", 0),
        ("America/New_York", 5 * 3_600_000),
    ]
    assert unique_id_times(encode_unique_id(ID), near) == [UniqueIdTime(MARCH_2024 + ID.span, "UTC", 2024, 3)]


def test_times_in_several_months() -> None:
    near = range(MARCH_2024, MARCH_2024 + 100 * DAY)
    assert [(time.year, time.month) for time in unique_id_times(ID, near)] == [
        (2024, 3),
        (2024, 4),
        (2024, 5),
        (2024, 6),
    ]
    december = unique_id_times(ID, range(1_701_388_800_000, 1_704_067_200_000 + 3 * DAY))
    assert [(time.year, time.month) for time in december] == [(2023, 12), (2024, 1)]


def test_a_span_longer_than_the_month_is_not_of_that_month() -> None:
    day_31 = UniqueMessageId(ID.address, 1, 1, 30 * DAY, 0)
    near = range(MARCH_2024, MARCH_2024 + 100 * DAY)
    assert [time.month for time in unique_id_times(day_31, near)] == [3, 5]
    assert unique_id_times(UniqueMessageId(ID.address, 1, 1, (1 << 32) - 1, 0), near) == []


def test_midnights_that_stand_twice_or_never() -> None:
    # Cuba put its clocks back at 1:00 on 1 November 2020: midnight stood twice, and Java takes the later one.
    near = range(1_604_000_000_000, 1_605_000_000_000)
    (cuba,) = unique_id_times(UniqueMessageId(ID.address, 1, 1, 0, 0), near, ["America/Havana"])
    assert cuba.timestamp == 1_604_206_800_000
    # Cuba put its clocks on at 0:00 on 1 April 2012: midnight was one o'clock.
    near = range(1_333_000_000_000, 1_334_000_000_000)
    (skipped,) = unique_id_times(UniqueMessageId(ID.address, 1, 1, 0, 0), near, ["America/Havana"])
    assert skipped.timestamp == 1_333_256_400_000


@pytest.mark.parametrize("zone", ["Nowhere/Land", "", "../etc/passwd", "/etc/passwd", "UTC\0"])
def test_unknown_zones(zone: str) -> None:
    with pytest.raises(UsageError):
        unique_id_times(ID, range(MARCH_2024, MARCH_2024 + 4 * DAY), [zone])


@pytest.mark.parametrize(
    "near", [range(-(1 << 63), -(1 << 63) + 5), range((1 << 63) - 9, 1 << 63), range(0), range(-5, 5)]
)
def test_hostile_times_give_nothing(near: range) -> None:
    assert unique_id_times(ID, near) == []
