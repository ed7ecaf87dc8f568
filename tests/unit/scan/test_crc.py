"""CRC-32 in kernels is zlib's, for every size, place and provider."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from rocketfsck.scan import crc

DATA = np.random.default_rng(7).integers(0, 256, 1 << 17, np.uint8)
TEXT = DATA.tobytes()


@pytest.mark.parametrize("first", [0, 1, 63, 64, 200])
def test_every_size(first: int) -> None:
    address = DATA.ctypes.data
    for size in (*range(700), 1024, 2047, 4096, 16384, 65536, 100_001):
        expected = zlib.crc32(TEXT[first : first + size])
        assert crc.crc32_of(address + first, size, address, 0) == expected, size
        assert crc.crc32_of(address + first, size, address + first, 0) == expected, size


@pytest.mark.parametrize("name", sorted(crc.EXTERNAL))
def test_external_symbols(name: str) -> None:
    external = crc.external_crc(name)
    if external == 0:
        pytest.skip(f"{name} is not installed")
    assert crc.is_right(external)


def test_the_choice_is_own_where_the_processor_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETFSCK_CRC", raising=False)
    crc.chosen.cache_clear()
    assert crc.chosen() is not None
    assert (crc.chosen() == 0) == bool(crc.LANES)
    crc.chosen.cache_clear()


def test_a_wrong_crc_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crc, "is_right", lambda external: external != 0)
    crc.chosen.cache_clear()
    try:
        assert crc.chosen() != 0
    finally:
        crc.chosen.cache_clear()
