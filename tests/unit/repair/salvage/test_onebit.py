"""The flipped bit is found from the CRC alone, wherever it is, and nothing is found where there is none."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.formats.record import body_crc
from rocketfsck.repair.repairs.flipbit import (
    ORDER,
    FlippedBit,
    explain_crc,
    find_flipped_bit,
    find_flipped_bit_in_file,
)
from rocketfsck.store.reading import FileReader

BODIES = st.binary(min_size=1, max_size=3000)


def flipped(data: bytes, byte: int, mask: int) -> bytes:
    changed = bytearray(data)
    changed[byte] ^= mask
    return bytes(changed)


def is_explained(found: FlippedBit, body: bytes, stored: int) -> bool:
    """Whether what was found makes the two agree."""
    if found.in_body:
        return body_crc(flipped(body, found.byte, found.mask)) == stored
    field = flipped((stored & 0xFFFFFFFF).to_bytes(4, "big"), found.byte, found.mask)
    return int.from_bytes(field, "big") == body_crc(body)


@given(BODIES, st.data())
def test_a_flipped_bit_of_the_body_is_found(body: bytes, data: st.DataObject) -> None:
    byte = data.draw(st.integers(0, len(body) - 1))
    mask = 1 << data.draw(st.integers(0, 7))
    found = find_flipped_bit(flipped(body, byte, mask), body_crc(body))
    assert found is not None
    assert (found.in_body, found.byte, found.mask) == (True, byte, mask)
    assert found.odds == (8 * len(body) + 32) / 2**31


@given(BODIES, st.integers(0, 31))
def test_a_flipped_bit_of_the_field_is_found(body: bytes, bit: int) -> None:
    stored = body_crc(body) ^ 1 << bit
    signed = stored - (stored >> 31 << 32)
    for value in (stored, signed):
        found = find_flipped_bit(body, value)
        assert found is not None
        assert (found.in_body, found.byte, found.mask) == (False, 3 - bit // 8, 1 << bit % 8)


@given(BODIES)
def test_a_sound_body_has_no_flipped_bit(body: bytes) -> None:
    assert find_flipped_bit(body, body_crc(body)) is None


@given(BODIES, st.integers(0, 2**32 - 1))
def test_whatever_is_found_explains_the_error(body: bytes, stored: int) -> None:
    found = find_flipped_bit(body, stored)
    assert found is None or is_explained(found, body, stored)


def test_the_odds_are_the_share_of_random_crcs_that_are_explained() -> None:
    """For 32 MiB one in eight: so many of random 31-bit numbers are explained, no more and no fewer."""
    draw = random.Random(5)
    found = [explain_crc(0, 1 << 25, draw.getrandbits(31)) for _ in range(100)]
    explained = [item for item in found if item is not None]
    assert 4 <= len(explained) <= 20
    assert {round(item.odds, 6) for item in explained} == {0.125}


@given(st.binary(min_size=2, max_size=2000), st.data())
def test_two_flipped_bits_are_not_taken_for_the_two(body: bytes, data: st.DataObject) -> None:
    """CRC-32 tells two wrong bits from one: at worst a third bit explains both, and only by its odds."""
    first = data.draw(st.integers(0, 8 * len(body) - 1))
    second = data.draw(st.integers(0, 8 * len(body) - 1).filter(lambda bit: bit != first))
    damaged = flipped(flipped(body, first // 8, 1 << first % 8), second // 8, 1 << second % 8)
    found = find_flipped_bit(damaged, body_crc(body))
    assert found is None or is_explained(found, damaged, body_crc(body))


def test_an_empty_body_is_not_explained() -> None:
    assert find_flipped_bit(b"", 4) is None


def test_a_field_with_the_top_bit_and_more_is_not_explained() -> None:
    body = b"top bit"
    assert find_flipped_bit(body, body_crc(body) ^ 0x80000001) is None


def test_a_body_so_large_that_two_bits_give_one_crc_is_not_explained() -> None:
    """x repeats after 2**32 - 1 steps: from 512 MiB on there is more than one answer."""
    last_bit = 0xEDB88320 & 0x7FFFFFFF  # x**32 mod P
    found = explain_crc(0, 1000, last_bit)
    assert found is not None
    assert (found.byte, found.mask) == (999, 0x80)
    assert explain_crc(0, ORDER // 8 + 2, last_bit) is None


@pytest.mark.parametrize("size", [1, 5, 1 << 20, (1 << 20) + 1, 5_000_000])
def test_a_body_in_a_file_is_read_in_chunks(size: int, tmp_path: Path) -> None:
    body = random.Random(size).randbytes(size)
    path = tmp_path / "file"
    for byte, mask in ((0, 1), (size // 2, 16), (size - 1, 128)):
        path.write_bytes(b"before" + flipped(body, byte, mask) + b"after")
        with FileReader(path) as reader:
            found = find_flipped_bit_in_file(reader, 6, 6 + size, body_crc(body))
        assert found is not None
        assert (found.in_body, found.byte, found.mask) == (True, byte, mask)
