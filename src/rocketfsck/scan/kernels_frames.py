"""Record headers anywhere, and CRCs of whole records, compiled: as in `scan.frames`."""

# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE
from rocketfsck.scan import crc, frames
from rocketfsck.scan.carve_plain import NOT_FOUND
from rocketfsck.scan.crc import crc32
from rocketfsck.scan.intrinsics import load_i32, lowest_bit, mask_magic, native_i64, store_i64
from rocketfsck.scan.jit import entry, helper


@helper
def is_header(record: int, most: int) -> bool:
    """Whether 8 bytes at an address are a message's totalSize, at most `most`, and magic."""
    magic_code = load_i32(record + 4)
    if magic_code != MAGIC_V1 and magic_code != MAGIC_V2:
        return False
    total_size = load_i32(record)
    return total_size >= MIN_RECORD_SIZE and total_size <= most


@entry
def _find_header(buffer: int, start: int, end: int, most: int) -> int:
    limit = buffer + end
    at = buffer + start + 4  # where a magic code may stand
    while at + 65 <= limit:
        mask = mask_magic(at)
        while mask != 0:
            record = at + lowest_bit(mask) - 4
            mask &= mask - np.uint64(1)
            if record + 8 <= limit and is_header(record, most - (record - buffer)):
                return record - buffer
        at += 64
    while at + 4 <= limit:
        record = at - 4
        if is_header(record, most - (record - buffer)):
            return record - buffer
        at += 1
    return NOT_FOUND


@entry
def _crcs(buffer: int, starts: int, sizes: int, count: int, low: int, external: int, out: int) -> None:
    for row in range(count):
        value = crc32(buffer + native_i64(starts + 8 * row), native_i64(sizes + 8 * row), low, external)
        store_i64(out + 8 * row, value)


def find_header(buffer: NDArray[np.uint8], start: int, end: int, most: int) -> int:
    """The index of the first record header in `buffer[start:end]`, or NOT_FOUND; see `scan.frames`.

    Raises ValueError for a range outside the buffer.
    """
    if not 0 <= start <= end <= buffer.size or not buffer.flags.c_contiguous:
        raise ValueError(f"bytes {start}:{end} of a buffer of {buffer.size}")
    return int(_find_header(buffer.ctypes.data, start, end, most))


def crcs_of(buffer: NDArray[np.uint8], starts: Longs, sizes: Longs) -> NDArray[np.uint32]:
    """The CRC-32 of every range `buffer[start:start + size]`. Raises ValueError for one outside of it."""
    external = crc.chosen()
    if external is None:
        return frames.crcs_of(buffer, starts, sizes)
    starts, sizes = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(sizes, np.int64)
    if len(starts) and (starts.min() < 0 or sizes.min() < 0 or (starts + sizes).max() > buffer.size):
        raise ValueError(f"ranges outside a buffer of {buffer.size} bytes")
    out = np.empty(len(starts), np.int64)
    address = buffer.ctypes.data
    _crcs(address, starts.ctypes.data, sizes.ctypes.data, len(starts), address, external, out.ctypes.data)
    return out.astype(np.uint32)
