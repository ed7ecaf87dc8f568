"""Headers found anywhere and CRCs of ranges: plain and compiled agree, and both are right."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.formats.magic import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from rocketfsck.scan import frames, kernels_frames
from rocketfsck.scan.carve_plain import NOT_FOUND

MODULES = [frames, kernels_frames]


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
    )
    return b"".join(draw(st.lists(pieces, max_size=12)))


def expected(data: bytes, start: int, end: int, most: int) -> int:
    for index in range(start, end - 7):
        size = int.from_bytes(data[index : index + 4], "big", signed=True)
        magic = int.from_bytes(data[index + 4 : index + 8], "big", signed=True)
        if magic in (MAGIC_V1, MAGIC_V2) and 91 <= size <= most - index:
            return index
    return NOT_FOUND


@given(haystacks(), st.data())
def test_headers_are_found_where_they_are(data: bytes, draw: st.DataObject) -> None:
    start = draw.draw(st.integers(0, len(data)))
    end = draw.draw(st.integers(start, len(data)))
    most = draw.draw(st.integers(0, 3000))
    buffer = np.frombuffer(data, np.uint8)
    for module in MODULES:
        assert module.find_header(buffer, start, end, most) == expected(data, start, end, most)


@given(st.binary(max_size=3000), st.data())
def test_crcs_are_zlibs(data: bytes, draw: st.DataObject) -> None:
    starts = draw.draw(st.lists(st.integers(0, len(data)), max_size=8))
    sizes = [draw.draw(st.integers(0, len(data) - start)) for start in starts]
    wanted = [zlib.crc32(data[at : at + size]) for at, size in zip(starts, sizes, strict=True)]
    buffer = np.frombuffer(data, np.uint8)
    for module in MODULES:
        found = module.crcs_of(buffer, np.array(starts, np.int64), np.array(sizes, np.int64))
        assert found.tolist() == wanted


def test_ranges_outside_are_refused() -> None:
    buffer = np.zeros(100, np.uint8)
    with pytest.raises(ValueError, match="buffer of 100"):
        kernels_frames.find_header(buffer, 0, 101, 1000)
    for start, size in ((-1, 5), (99, 2), (5, -1)):
        with pytest.raises(ValueError, match="buffer of 100"):
            kernels_frames.crcs_of(buffer, np.array([start]), np.array([size]))
