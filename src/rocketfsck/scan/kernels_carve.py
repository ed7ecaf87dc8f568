"""Carving, compiled: `find_candidate` as in `scan.carve_plain`, at the speed of reading.

Two loads of 64 bytes, one byte apart, are compared with the first two bytes of the magic codes; only where
both fit is a header looked at. Runs of one byte, however chosen, cost no more than other bytes (reference
2.2; fault catalogue, C2).
"""

# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.magic import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE
from rocketfsck.scan.carve_plain import HEADER_SIZE, NOT_FOUND
from rocketfsck.scan.intrinsics import load_i32, load_i64, lowest_bit, mask_magic
from rocketfsck.scan.jit import entry, helper


@helper
def is_candidate(
    record: int,
    end: int,
    pos: int,
    base_offset: int,
    other_base: int,
    file_size: int,
    other_size: int,
) -> bool:
    """Whether the log may go on at address `record`, file position `pos`; 8 bytes are there at least."""
    total_size = load_i32(record)
    magic_code = load_i32(record + 4)
    if magic_code == MAGIC_BLANK:
        return total_size == file_size - pos or total_size == other_size - pos
    if magic_code != MAGIC_V1 and magic_code != MAGIC_V2:
        return False
    if record + HEADER_SIZE > end or total_size < MIN_RECORD_SIZE or total_size > file_size - pos:
        return False
    physical_offset = load_i64(record + 28)
    return physical_offset == base_offset + pos or physical_offset == other_base + pos


@entry
def _find(
    buffer: int,
    start: int,
    end: int,
    file_pos: int,
    base_offset: int,
    other_base: int,
    file_size: int,
    other_size: int,
) -> int:
    limit = buffer + end
    at = buffer + start + 4  # where a magic code may stand
    while at + 65 <= limit:
        mask = mask_magic(at)
        while mask != 0:
            record = at + lowest_bit(mask) - 4
            mask &= mask - np.uint64(1)
            pos = file_pos + record - buffer
            if record + 8 <= limit and is_candidate(
                record, limit, pos, base_offset, other_base, file_size, other_size
            ):
                return record - buffer
        at += 64
    while at + 4 <= limit:
        record = at - 4
        pos = file_pos + record - buffer
        if is_candidate(record, limit, pos, base_offset, other_base, file_size, other_size):
            return record - buffer
        at += 1
    return NOT_FOUND


def find_candidate(
    buffer: NDArray[np.uint8],
    start: int,
    end: int,
    file_pos: int,
    base_offset: int,
    other_base: int,
    file_size: int,
    other_size: int,
) -> int:
    """The index of the first candidate in `buffer[start:end]`, or NOT_FOUND; see `carve_plain`.

    Raises ValueError for a range outside the buffer.
    """
    if not 0 <= start <= end <= buffer.size or not buffer.flags.c_contiguous:
        raise ValueError(f"bytes {start}:{end} of a buffer of {buffer.size}")
    address = buffer.ctypes.data
    return int(_find(address, start, end, file_pos, base_offset, other_base, file_size, other_size))
