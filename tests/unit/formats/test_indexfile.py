"""Index file arithmetic, and finding a geometry that is nowhere written down."""

from __future__ import annotations

import pytest

from rocketfsck.errors import FormatError
from rocketfsck.formats.indexfile import (
    ENTRY,
    ENTRY_SIZE,
    SLOT,
    IndexHeader,
    decode_header,
    encode_header,
    entry_pos,
    fits_geometry,
    index_file_size,
    infer_geometry,
    slot_of,
    slot_pos,
    time_diff,
)


def put_all(hashes: list[int], slots: int, entries: int) -> bytes:
    """The file that these puts make, one record of 100 bytes a hash."""
    data = bytearray(index_file_size(slots, entries))
    for number, key_hash in enumerate(hashes, 1):
        at = slot_pos(slot_of(key_hash, slots))
        previous = SLOT.parse(data, at)["newestIndex"]
        entry = {"keyHash": key_hash, "phyOffset": number * 100, "timeDiff": number, "prevIndex": previous}
        data[entry_pos(number, slots) : entry_pos(number + 1, slots)] = ENTRY.build(entry)
        data[at : at + 4] = SLOT.build({"newestIndex": number})
    header = IndexHeader(1, 2, 100, len(hashes) * 100, len(set(hashes)), len(hashes) + 1)
    data[:40] = encode_header(header)
    return bytes(data)


def test_default_file() -> None:
    assert index_file_size() == 420_000_040
    assert infer_geometry(420_000_040) == [(5_000_000, 20_000_000)]
    assert entry_pos(0, 5_000_000) == 20_000_040


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_geometry_is_found_from_the_bytes(count: int) -> None:
    hashes = [number * 7919 for number in range(1, count + 1)]
    assert infer_geometry(index_file_size(7, 10), data=put_all(hashes, 7, 10)) == [(7, 10)]


def test_geometry_is_found_behind_a_long_empty_end() -> None:
    assert infer_geometry(index_file_size(7, 9000), data=put_all([5, 6, 7], 7, 9000)) == [(7, 9000)]


def test_geometry_of_a_full_file_is_found_from_its_header() -> None:
    header = IndexHeader(1, 2, 3, 4, 5, 10)
    assert infer_geometry(index_file_size(7, 10), header=header) == [(7, 10)]


def test_geometry_from_one_known_count() -> None:
    length = index_file_size(7, 10)
    assert infer_geometry(length, slot_count=7) == [(7, 10)]
    assert infer_geometry(length, entry_count=10) == [(7, 10)]
    assert infer_geometry(length, slot_count=7, entry_count=10) == [(7, 10)]
    assert infer_geometry(length, slot_count=7, entry_count=11) == []
    assert infer_geometry(length, slot_count=8) == []
    assert infer_geometry(length, slot_count=length) == []


@pytest.mark.parametrize("length", [0, 1, 39, 40, 64, 1 << 40])
def test_lengths_that_tell_nothing(length: int) -> None:
    assert infer_geometry(length) == []
    assert infer_geometry(length, data=b"") == []
    assert infer_geometry(length, data=bytes(64)) == []


def test_a_header_that_contradicts_empty_bytes_tells_nothing_new() -> None:
    header = IndexHeader(1, 2, 3, 4, 5, 3)
    assert infer_geometry(index_file_size(7, 10), header=header, data=bytes(40)) == [(42, 3)]


def test_damaged_bytes_give_no_candidate_rather_than_a_wrong_one() -> None:
    data = bytearray(put_all([11, 22, 33, 44], 7, 10))
    data[entry_pos(2, 7) : entry_pos(2, 7) + 4] = b"\xff\xff\xff\xff"  # a negative hash
    assert infer_geometry(len(data), data=data) == []


def test_fits_geometry_says_no() -> None:
    data = put_all([11, 22, 33, 44, 11], 7, 10)
    assert fits_geometry(data, 7, 10)
    assert fits_geometry(data[:39], 7, 10)  # nothing to compare
    assert fits_geometry(data[: entry_pos(3, 7)], 7, 10)
    assert not fits_geometry(data, 7, 5)  # more entries in use than there are
    assert not fits_geometry(data, 6, 10)
    used_zero = bytearray(data)
    used_zero[entry_pos(0, 7)] = 1
    assert not fits_geometry(used_zero, 7, 10)
    lost_slot = bytearray(data)
    lost_slot[slot_pos(slot_of(44, 7)) : slot_pos(slot_of(44, 7)) + 4] = bytes(4)
    assert not fits_geometry(lost_slot, 7, 10)


def test_empty_file_counts_as_one() -> None:
    for count in (0, 1, -5):
        assert IndexHeader(0, 0, 0, 0, 0, count).entry_count == 0
    assert IndexHeader(0, 0, 0, 0, 0, 3).entry_count == 2
    with pytest.raises(FormatError) as caught:
        decode_header(bytes(39))
    assert caught.value.offset == 36


@pytest.mark.parametrize(
    ("store_timestamp", "begin_timestamp", "seconds"),
    [
        (5000, 0, 0),
        (5000, -1, 0),
        (5999, 1000, 4),
        (500, 1000, 0),
        (1, 999_999, 0),
        ((1 << 31) * 1000 + 1, 1, (1 << 31) - 1),
        (-(1 << 63), 1, (1 << 31) - 1),  # the difference wraps to a huge number
    ],
)
def test_time_diff(store_timestamp: int, begin_timestamp: int, seconds: int) -> None:
    assert time_diff(store_timestamp, begin_timestamp) == seconds


def test_entry_size() -> None:
    assert ENTRY_SIZE == ENTRY.size == 20
