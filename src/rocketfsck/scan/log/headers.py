"""Record headers among arbitrary bytes: where may the log go on, where may a record begin?

    record := totalSize:i32 magic:i32 … physicalOffset:i64 …    the offset at byte 28 (reference 2.1)
    BLANK  := totalSize:i32 magic:i32                           (reference 2.2)

Records are not aligned (fault catalogue, C2), so every byte may be a header's first. NumPy compares bytes
block by block and reads a head only where two bytes of a magic code fit. Runs of such bytes, however chosen,
do not make it slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Bytes, Flags, Longs
from rocketfsck.formats.javatext import int64
from rocketfsck.formats.magic import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE
from rocketfsck.formats.places import HEADER_SIZE, PHYSICAL_OFFSET_AT

HEAD_SIZE = 8  # totalSize and magic
NOT_FOUND = -1

_FIRST_BLOCK, _LAST_BLOCK = 1 << 11, 1 << 16
_CODES = (MAGIC_V1, MAGIC_V2, MAGIC_BLANK)
_PAIRS = sorted({code.to_bytes(4, "big", signed=True)[:2] for code in _CODES})


def find_candidate(
    buffer: Bytes,
    start: int,
    end: int,
    file_pos: int,
    base_offset: int,
    other_base: int,
    file_size: int,
    other_size: int,
) -> int:
    """The index in `buffer[start:end]` at which the log may continue, the first one, or NOT_FOUND.

    The log may continue at a record header whose totalSize fits the file and whose physicalOffset is its own
    place (a copy of a record inside a body has the original's), or a BLANK whose totalSize is exactly what is
    left.

    `file_pos` is the file position of `buffer[0]`. A physicalOffset counts from `base_offset` or
    `other_base` (what the records before counted from, where they disagree with the file's name). A BLANK
    ends at `file_size` or at `other_size`. A record header counts only if its 36 bytes are all inside
    `start:end`, a BLANK if its 8 are: to go on behind `end`, start again 35 bytes before it. Raises
    ValueError for a range outside the buffer.
    """
    bases = [int64(base + file_pos) for base in (base_offset, other_base)]
    for index, size, code in _heads(buffer, start, end):
        pos = index + file_pos
        good = (code == MAGIC_BLANK) & ((size == file_size - pos) | (size == other_size - pos))
        fits = (code != MAGIC_BLANK) & (size >= MIN_RECORD_SIZE) & (size <= file_size - pos)
        framed = np.flatnonzero(fits & (index + HEADER_SIZE <= end))
        counted = _field(buffer, index[framed], PHYSICAL_OFFSET_AT, ">i8") - index[framed]
        good[framed] = (counted == bases[0]) | (counted == bases[1])
        if good.any():
            return int(index[np.argmax(good)])
    return NOT_FOUND


def find_header(buffer: Bytes, start: int, end: int, most: int) -> int:
    """The index of the first record header in `buffer[start:end]`, or NOT_FOUND.

    For bytes of which nothing is known: whether a record follows is for the scan of records to say. `most` is
    the largest totalSize of a record that would begin at index 0: one at index i may have i less. A header
    counts only if its 8 bytes are all inside `start:end`: to go on behind `end`, start again 7 bytes before
    it. Raises ValueError for a range outside the buffer.
    """
    for index, size, code in _heads(buffer, start, end):
        good: Flags = (code != MAGIC_BLANK) & (size >= MIN_RECORD_SIZE) & (size <= most - index)
        if good.any():
            return int(index[np.argmax(good)])
    return NOT_FOUND


def _heads(buffer: Bytes, start: int, end: int) -> Iterator[tuple[Longs, Longs, Longs]]:
    """The heads (totalSize and magic) in a range, block by block: their indexes, totalSizes and magics."""
    if not 0 <= start <= end <= buffer.size or buffer.ndim != 1:
        raise ValueError(f"bytes {start}:{end} of a buffer of {buffer.size}")
    low, block = start + 4, _FIRST_BLOCK
    while low + 4 <= end:
        part = buffer[low : min(low + block + 3, end)]
        first, second = part[:-3], part[1:-2]
        fits = np.zeros(len(first), np.bool_)
        for one, two in _PAIRS:
            fits |= (first == one) & (second == two)
        index = np.flatnonzero(fits) + (low - 4)
        if len(index):
            code = _field(buffer, index, 4, ">i4")
            is_code = (code == MAGIC_V1) | (code == MAGIC_V2) | (code == MAGIC_BLANK)
            index, code = index[is_code], code[is_code]
            yield index, _field(buffer, index, 0, ">i4"), code
        low += block
        block = min(4 * block, _LAST_BLOCK)


def _field(buffer: Bytes, index: Longs, pos: int, dtype: str) -> Longs:
    """The numbers that are `pos` bytes after each index."""
    size = np.dtype(dtype).itemsize
    taken: NDArray[Any] = buffer[index[:, None] + np.arange(pos, pos + size)]
    return np.ascontiguousarray(taken).view(dtype)[:, 0].astype(np.int64)
