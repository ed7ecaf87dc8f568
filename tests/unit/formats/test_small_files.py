"""checkpoint, markers, the epoch file, timers, DLedger, RocksDB keys, batch items, names, delay levels."""

from __future__ import annotations

import zlib
from datetime import datetime
from typing import Any

import pytest

from rocketfsck.errors import FormatError, UsageError
from rocketfsck.formats import dledger, tiered, timer
from rocketfsck.formats.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from rocketfsck.formats.record import InnerItem, decode_items, encode_items
from rocketfsck.formats.rocks import (
    BoundKey,
    UnitKey,
    decode_bound_key,
    decode_unit_key,
    encode_bound_key,
    encode_unit_key,
)
from rocketfsck.formats.smallfiles import (
    BrokerIdentity,
    EpochEntry,
    decode_abort,
    decode_broker_identity,
    decode_epochs,
    encode_abort,
    encode_broker_identity,
    encode_epochs,
    epoch_crc,
    filename_to_offset,
    index_filename,
    index_filename_time,
    is_lock_content,
    java_parse_long,
    offset_to_filename,
)
from rocketfsck.formats.timer import (
    DEFAULT_DELAY_LEVELS,
    delay_level_of_queue,
    delay_queue_id,
    deliver_timestamp,
    parse_delay_levels,
)


def test_checkpoint_times() -> None:
    assert Checkpoint(10_000, 9_000, 4_000).min_timestamp == 6_000
    assert Checkpoint(10_000, 9_000, 4_000).min_timestamp_index == 4_000
    assert Checkpoint(10_000, 9_000, 7_000).min_timestamp_index == 6_000
    assert Checkpoint(10_000, 2_999).min_timestamp == 0
    assert Checkpoint(-(1 << 63), 0).min_timestamp == (1 << 63) - 3000  # as in Java, it wraps


@pytest.mark.parametrize(
    ("offset", "time", "mark", "safe", "covered"),
    [
        (500, 6_000, "timestamp", False, True),
        (500, 6_001, "timestamp", False, False),
        (500, 5_500, "timestamp", True, False),
        (500, 99_999, "offset", False, True),
        (501, 0, "offset", False, False),
        (500, 5_001, "offset", True, False),
    ],
)
def test_what_a_checkpoint_covers(offset: int, time: int, mark: Any, safe: bool, covered: bool) -> None:
    checkpoint = Checkpoint(10_000, 9_000, 5_000, 0, 0, 500)
    assert checkpoint.covers(offset, time, mark, index_safe=safe) is covered


@pytest.mark.parametrize("none", [0, -1])
def test_without_an_offset_the_time_of_the_queues_decides(none: int) -> None:
    checkpoint = Checkpoint(10_000, 9_000, 0, 0, 0, none)
    assert checkpoint.covers(1 << 40, 9_000, "offset", index_safe=False)
    assert not checkpoint.covers(0, 9_001, "offset", index_safe=False)


def test_checkpoint_bytes() -> None:
    checkpoint = Checkpoint(1, 2, 3, 4, 5, 6)
    data = encode_checkpoint(checkpoint)
    assert len(data) == 4096
    assert data[:48] == b"".join(number.to_bytes(8, "big") for number in range(1, 7))
    assert not any(data[48:])
    assert decode_checkpoint(data[:48]) == checkpoint
    with pytest.raises(FormatError) as caught:
        decode_checkpoint(data[:47])
    assert caught.value.offset == 40


@pytest.mark.parametrize(("data", "pid"), [(b"", None), (b"20959", 20959), (b"0", 0)])
def test_abort(data: bytes, pid: int | None) -> None:
    assert decode_abort(data) == pid
    assert encode_abort(pid) == data


@pytest.mark.parametrize("data", [b"x", b"-1", b" 1", b"1\n", b"9" * 21, "٣".encode()])
def test_abort_with_other_content(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        decode_abort(data)
    assert caught.value.offset == 0


def test_lock() -> None:
    assert is_lock_content(b"lock")
    assert is_lock_content(b"")
    assert not is_lock_content(b"lock\n")


def test_broker_identity() -> None:
    identity = BrokerIdentity("DefaultCluster", "broker-a", 2)
    assert encode_broker_identity(identity) == b"DefaultCluster#broker-a#2"
    assert decode_broker_identity(b"DefaultCluster#broker-a#2") == identity
    # Long.valueOf takes no line end, so a broker takes none
    for data in (b"", b"a#b", b"a#b#c", b"a#b#1#2", b"a#b#\xff", b"a#b#2\n", b"#b#1"):
        with pytest.raises(FormatError):
            decode_broker_identity(data)
    asked = BrokerIdentity("c", "b", 3, "127.0.0.1:10911;0f3")
    assert encode_broker_identity(asked) == b"c#b#3#127.0.0.1:10911;0f3"
    assert decode_broker_identity(encode_broker_identity(asked), is_temp=True) == asked
    with pytest.raises(
        FormatError, match="brokerIdentity-temp: not cluster#brokerName#brokerId#registerCheckCode"
    ):
        decode_broker_identity(b"c#b#3", is_temp=True)


EPOCHS = (EpochEntry(1, 0), EpochEntry(2, 4096), EpochEntry(7, 1 << 40))


def test_epoch_file() -> None:
    text = b"1-0\n2-4096\n7-1099511627776\n"
    crc = zlib.crc32(text) & 0x7FFFFFFF
    assert encode_epochs(EPOCHS) == b"3\n%d\n" % crc + text
    decoded = decode_epochs(encode_epochs(EPOCHS))
    assert (decoded.entries, decoded.crc) == (EPOCHS, crc)
    assert decode_epochs(b"3\n0\n" + text).entries == EPOCHS
    assert decode_epochs(encode_epochs(EPOCHS, line_separator="\r\n")).entries == EPOCHS
    assert decode_epochs(b"0\n0\n").entries == ()
    assert epoch_crc(b"") == 0
    with pytest.raises(FormatError):
        encode_epochs([])


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"", 0),
        (b"1\n", 2),
        (b"x\n0\n1-0\n", 0),
        (b"2\n0\n1-0\n", 0),
        (b"1\nx\n1-0\n", 2),
        (b"1\n\xff\n1-0\n", 2),
        (b"1\n5\n1-0\n", 2),
        (b"2\n0\n1-0\n1-\n", 8),
        (b"2\n0\n1-0\n1-2-3\n", 8),
        (b"2\n0\n1-0\nnothing\n", 8),
    ],
)
def test_epoch_file_errors(data: bytes, offset: int) -> None:
    with pytest.raises(FormatError) as caught:
        decode_epochs(data)
    assert caught.value.offset == offset


def test_timer_wheel() -> None:
    assert timer.TIMER_WHEEL_SIZE == 38_707_200
    assert timer.timer_slot_of(1_700_000_000_123) == 1_700_000_000 % 1_209_600
    assert timer.timer_slot_time(1_700_000_000_123, 500) == 3_400_000_000
    assert [timer.is_valid_timer_magic(magic) for magic in (0, 1, 7, 15, 16, -1)] == [True] * 4 + [False] * 2
    filler = timer.timer_log_filler(100)
    assert filler == bytes.fromhex("00000064 0000000000000000 cbd43194")


def test_default_file_sizes() -> None:
    assert dledger.DEFAULT_INDEX_FILE_SIZE == 167_772_160
    assert dledger.ENTRY_HEADER_SIZE == 48
    assert (tiered.TIERED_INDEX_MAGIC_BEGIN, tiered.TIERED_INDEX_MAGIC_END) == (-1127939447, -1127939451)


def test_unit_keys() -> None:
    key = UnitKey(b"To\x01pic", 3, 1 << 40)
    data = encode_unit_key(key)
    assert data == b"\0\0\0\x06\x01To\x01pic\x01\0\0\0\x03\x01\0\0\x01\0\0\0\0\0"
    assert decode_unit_key(data) == key


def test_bound_keys() -> None:
    for is_max in (True, False):
        key = BoundKey(b"Topic", -1, is_max)
        assert decode_bound_key(encode_bound_key(key)) == key
    assert encode_bound_key(BoundKey(b"T", 0, True)) == b"\0\0\0\x01\x01T\x01max\x01\0\0\0\0"


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"", 0),
        (b"\0\0\0\x01T", 0),
        (b"\xff\xff\xff\xff\x01" + bytes(13), 0),
        (b"\0\0\0\x01\x01T\x01", 0),
        (b"\0\0\0\x01\x01T!\0\0\0\x03\x01" + bytes(8), 6),
        (b"\0\0\0\x01\x01T\x01\0\0\0\x03!" + bytes(8), 11),
    ],
)
def test_unit_key_errors(data: bytes, offset: int) -> None:
    with pytest.raises(FormatError) as caught:
        decode_unit_key(data)
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("data", "offset"),
    [(b"\0\0\0\x01\x01T\x01mid\x01\0\0\0\0", 7), (b"\0\0\0\x01\x01T\x01max!\0\0\0\0", 10)],
)
def test_bound_key_errors(data: bytes, offset: int) -> None:
    with pytest.raises(FormatError) as caught:
        decode_bound_key(data)
    assert caught.value.offset == offset


def test_batch_items() -> None:
    items = [InnerItem(b"body", b"K\x01V", flag=5), InnerItem(b"")]
    data = encode_items(items)
    assert data[:20] == bytes.fromhex("0000001d 00000000 00000000 00000005 00000004")
    assert decode_items(data) == items
    assert decode_items(memoryview(data)) == items
    assert decode_items(b"") == []
    with pytest.raises(FormatError):
        encode_items([InnerItem(b"", bytes(32768))])


@pytest.mark.parametrize(
    ("pos", "patch", "offset"),
    [
        (0, b"\0\0\0\x15", 0),
        (0, b"\0\0\0\xff", 0),
        (0, b"\xff\xff\xff\xff", 0),
        (16, b"\x7f\xff\xff\xff", 20),
        (16, b"\xff\xff\xff\xff", 16),
        (16, b"\0\0\0\x03", 25),
        (24, b"\xff\xff", 24),
        (24, b"\0\x02", 0),
        (29, b"\xff\xff", 29),
    ],
)
def test_batch_item_errors(pos: int, patch: bytes, offset: int) -> None:
    data = bytearray(encode_items([InnerItem(b"body", b"K\x01V"), InnerItem(b"")]))
    data[pos : pos + len(patch)] = patch
    with pytest.raises(FormatError) as caught:
        decode_items(data)
    assert caught.value.offset == offset


def test_batch_items_cut_short() -> None:
    data = encode_items([InnerItem(b"body")])
    for size in range(1, len(data)):
        with pytest.raises(FormatError):
            decode_items(data[:size])


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("00000000000000000000", 0),
        ("00000000001073741824", 1 << 30),
        ("09223372036854775807", (1 << 63) - 1),
        ("09223372036854775808", None),
        ("0000000000000000000", None),
        ("000000000000000000000", None),
        ("-0000000000000000001", None),
        ("0000000000000000000٣", None),
        ("0000000000000000.tmp", None),
        ("", None),
    ],
)
def test_mapped_file_names(name: str, offset: int | None) -> None:
    assert filename_to_offset(name) == offset
    if offset is not None:
        assert offset_to_filename(offset) == name


def test_names_that_only_the_broker_takes() -> None:
    assert java_parse_long("+42") == 42
    assert java_parse_long("42") == 42
    assert java_parse_long("42.tmp") is None


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("20261120140457906", datetime(2026, 11, 20, 14, 4, 57, 906000)),
        ("00010101000000000", datetime(1, 1, 1)),
        ("20261320140457906", None),
        ("20230229000000000", None),
        ("20261120240000000", None),
        ("2026112014045790", None),
        ("2026112014045790x", None),
        ("2026112014045790٣", None),
    ],
)
def test_index_file_names(name: str, time: datetime | None) -> None:
    assert index_filename_time(name) == time
    if time is not None:
        assert index_filename(time) == name


def test_delay_levels() -> None:
    assert len(DEFAULT_DELAY_LEVELS) == 18
    assert DEFAULT_DELAY_LEVELS[1] == 1000
    assert DEFAULT_DELAY_LEVELS[18] == 7_200_000
    assert parse_delay_levels("1d 5s") == {1: 86_400_000, 2: 5000}
    for text in ("", "1x", "s", "1s  2s", "1.5s"):
        with pytest.raises(UsageError):
            parse_delay_levels(text)


def test_delivery_times() -> None:
    assert deliver_timestamp(1, 0) == 1000
    assert deliver_timestamp(99, 0) == 7_200_000
    assert deliver_timestamp(-4, 0) == 1000  # in no table
    assert deliver_timestamp(2, 0, {1: 7}) == 7
    assert deliver_timestamp(2, 0, {}) == 1000
    assert delay_queue_id(3) == 2
    assert delay_level_of_queue(2) == 3
