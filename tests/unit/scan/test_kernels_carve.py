"""The compiled carver finds what the plain one finds, in noise and where headers are cut."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from rocketfsck.scan import carve_plain, kernels_carve

MAGICS = (0xDAA320A7, 0xDAA320AB, 0xCBD43194, 0xDAA320A8)


@pytest.mark.parametrize("seed", range(8))
def test_equals_plain(seed: int) -> None:
    rng = random.Random(seed)
    found = 0
    for _ in range(250):
        size = rng.randrange(400)
        data = np.frombuffer(bytearray(rng.randbytes(size)), np.uint8)
        for _ in range(rng.randrange(6) if size > 50 else 0):
            pos = rng.randrange(size - 9)
            total_size = rng.choice((size + 10 - pos, size - pos, 91, 90, size + 11 - pos, 1 << 31))
            place = struct.pack(">q", rng.choice((100 + pos, 500 + pos, pos)))
            header = struct.pack(">II", total_size, rng.choice(MAGICS)) + bytes(20) + place
            data[pos : pos + 36] = np.frombuffer(header, np.uint8)[: size - pos]
        start = rng.randrange(size + 1)
        end = rng.randrange(start, size + 1)
        expected = carve_plain.find_candidate(data, start, end, 0, 100, 500, size + 10, size)
        assert kernels_carve.find_candidate(data, start, end, 0, 100, 500, size + 10, size) == expected
        found += expected >= 0
    assert found > 3


def test_finds_every_record_of_a_buffer() -> None:
    data = np.zeros(4096, np.uint8)
    places = [0, 91, 300, 4096 - 91]
    for pos in places:
        header = struct.pack(">II", 91, MAGICS[0]) + bytes(20) + struct.pack(">q", 1 << 33 | pos)
        data[pos : pos + 36] = np.frombuffer(header, np.uint8)
    found, at = [], 0
    while (at := kernels_carve.find_candidate(data, at, 4096, 0, 1 << 33, 0, 4096, 4096)) >= 0:
        found.append(at)
        at += 1
    assert found == places


def test_range_outside_the_buffer_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes 0:9 of a buffer of 8"):
        kernels_carve.find_candidate(np.zeros(8, np.uint8), 0, 9, 0, 0, 0, 9, 9)
