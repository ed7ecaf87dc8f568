"""Headers found among arbitrary bytes: those, and the first of those, that a look at every byte finds."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketfsck.formats.magic import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from rocketfsck.repair.carve.carve import crcs_of
from rocketfsck.scan.log.resync import NOT_FOUND, find_candidate, find_header

MAGICS = (0xDAA320A7, 0xDAA320AB, 0xCBD43194, 0xDAA320A8)


def first_of(data: bytes, start: int, end: int, is_wanted: Callable[[int, int, int], bool]) -> int:
    """The first index whose totalSize and magic, inside the range, are what is wanted."""
    for index in range(start, end - 7):
        size, magic = struct.unpack_from(">ii", data, index)
        if is_wanted(index, size, magic):
            return index
    return NOT_FOUND


def candidate(data: bytes, start: int, end: int, bases: tuple[int, int], sizes: tuple[int, int]) -> int:
    """Where the log may go on in bytes that begin a file: `sizes` are the file's, and the other end."""

    def continues(index: int, size: int, magic: int) -> bool:
        if magic == MAGIC_BLANK:
            return size in (sizes[0] - index, sizes[1] - index)
        if magic not in (MAGIC_V1, MAGIC_V2) or index + 36 > end or not 91 <= size <= sizes[0] - index:
            return False
        offset = struct.unpack_from(">q", data, index + 28)[0]
        return offset in (bases[0] + index, bases[1] + index)

    return first_of(data, start, end, continues)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("file_pos", [0, 4096])
def test_candidates_are_found_where_they_are(seed: int, file_pos: int) -> None:
    rng = random.Random(seed)
    found = 0
    for _ in range(250):
        size = rng.randrange(400)
        data = bytearray(rng.randbytes(size))
        for _ in range(rng.randrange(6) if size > 50 else 0):
            pos = rng.randrange(size - 9)
            total_size = rng.choice((size + 10 - pos, size - pos, 91, 90, size + 11 - pos, 1 << 31))
            place = struct.pack(">q", rng.choice((100 + pos, 500 + pos, pos)))
            header = struct.pack(">II", total_size, rng.choice(MAGICS)) + bytes(20) + place
            data[pos : pos + 36] = header[: size - pos]
        start = rng.randrange(size + 1)
        end = rng.randrange(start, size + 1)
        expected = candidate(bytes(data), start, end, (100, 500), (size + 10, size))
        buffer = np.frombuffer(data, np.uint8)
        sizes = (file_pos + size + 10, file_pos + size)
        bases = (100 - file_pos, 500 - file_pos)
        assert find_candidate(buffer, start, end, file_pos, *bases, *sizes) == expected
        found += expected >= 0
    assert found > 3


@pytest.mark.parametrize("size", [4096, 300_000])
def test_finds_every_record_of_a_buffer(size: int) -> None:
    """Also at the seams of the blocks that are looked at."""
    data = np.zeros(size, np.uint8)
    seams = [4 + (1 << 11), 4 + (1 << 11) + (1 << 13), 4 + (1 << 11) + (1 << 13) + (1 << 15)]
    places = [0, 91, 300, *(seam - 91 * step - 6 for seam in seams for step in (1, 0)), size - 91]
    places = sorted(place for place in set(places) if 0 <= place <= size - 91)
    for pos in places:
        header = struct.pack(">II", 91, MAGICS[0]) + bytes(20) + struct.pack(">q", 1 << 33 | pos)
        data[pos : pos + 36] = np.frombuffer(header, np.uint8)
    found, at = [], 0
    while (at := find_candidate(data, at, size, 0, 1 << 33, 0, size, size)) >= 0:
        found.append(at)
        at += 1
    assert found == places


def test_offsets_at_the_end_of_the_range_of_a_long() -> None:
    base = (1 << 63) - 4096
    header = struct.pack(">II", 91, MAGICS[1]) + bytes(20) + struct.pack(">q", base + 10)
    data = np.frombuffer(bytes(10) + header.ljust(91, b"\0"), np.uint8)
    assert find_candidate(data, 0, len(data), 0, base, 0, 4096, 4096) == 10
    assert find_candidate(data, 0, len(data), 0, base + 1, 0, 4096, 4096) == NOT_FOUND


def header(size: int, magic: int = MAGIC_V1) -> bytes:
    return size.to_bytes(4, "big", signed=True) + magic.to_bytes(4, "big", signed=True)


@st.composite
def haystacks(draw: st.DrawFn) -> bytes:
    """Bytes with headers, parts of headers and impossible headers in them."""
    pieces = st.one_of(
        st.binary(max_size=80),
        st.integers(-200, 2000).map(header),
        st.integers(0, 2000).map(lambda size: header(size, MAGIC_V2)),
        st.integers(0, 2000).map(lambda size: header(size, MAGIC_BLANK)),
        st.just(header(100)[:7]),
        st.just(b"\xda" * 70),
        st.just(bytes(2050)),
    )
    return b"".join(draw(st.lists(pieces, max_size=12)))


@given(haystacks(), st.data())
@settings(max_examples=200)
def test_headers_are_found_where_they_are(data: bytes, draw: st.DataObject) -> None:
    start = draw.draw(st.integers(0, len(data)))
    end = draw.draw(st.integers(start, len(data)))
    most = draw.draw(st.integers(0, 3000))

    def is_wanted(index: int, size: int, magic: int) -> bool:
        return magic in (MAGIC_V1, MAGIC_V2) and 91 <= size <= most - index

    buffer = np.frombuffer(data, np.uint8)
    assert find_header(buffer, start, end, most) == first_of(data, start, end, is_wanted)


def test_ranges_outside_are_refused() -> None:
    with pytest.raises(ValueError, match="bytes 0:9 of a buffer of 8"):
        find_candidate(np.zeros(8, np.uint8), 0, 9, 0, 0, 0, 9, 9)
    with pytest.raises(ValueError, match="buffer of 100"):
        find_header(np.zeros(100, np.uint8), 5, 4, 1000)


@given(st.binary(max_size=3000), st.data())
def test_crcs_are_zlibs(data: bytes, draw: st.DataObject) -> None:
    starts = draw.draw(st.lists(st.integers(0, len(data)), max_size=8))
    sizes = [draw.draw(st.integers(0, len(data) - start)) for start in starts]
    wanted = [zlib.crc32(data[at : at + size]) for at, size in zip(starts, sizes, strict=True)]
    found = crcs_of(np.frombuffer(data, np.uint8), np.array(starts, np.int64), np.array(sizes, np.int64))
    assert found.tolist() == wanted
