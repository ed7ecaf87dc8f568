"""Properties taken apart, compiled: as `scan.views.arrow` says; texts hashed and looked through."""

from __future__ import annotations

import secrets
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import Bytes, Flags, Longs, Words
from rocketfsck.scan.columns import PropertyPairs
from rocketfsck.scan.machine.jit import entry
from rocketfsck.scan.options import PropertyParser

SLOT_COUNT = 1 << 15
"""More than twice the pairs that 32,767 bytes of properties can hold; a longer text gets a larger table."""

_SEED = secrets.randbits(31) | 1  # so that nobody can choose names that all fall into one slot


@entry
def put_together(buffer: Bytes, starts: Longs, offsets: Words, out: Bytes) -> None:
    """The ranges of the buffer that begin at `starts` one after the other, as `scan.views.arrow.gather`."""
    for row in range(len(starts)):
        start, low = starts[row], offsets[row]
        for at in range(offsets[row + 1] - low):
            out[low + at] = buffer[start + at]


@entry
def _split(
    data: Bytes,
    offsets: Words,
    is_split: bool,
    seed: int,
    slots: Words,
    stamps: Words,
    pairs: Annotated[Words, 2],
    starts: Words,
) -> int:
    count = 0
    mask = np.uint32(len(slots) - 1)
    for row in range(len(offsets) - 1):
        end = offsets[row + 1]
        piece = offsets[row]
        first = count
        while piece < end:
            stop = piece
            mark = -1
            marks = 0
            while stop < end and data[stop] != 2:
                if data[stop] == 1:
                    if mark < 0:
                        mark = stop
                    marks += 1
                stop += 1
            value_end = stop
            taken = mark >= 0
            if taken and is_split:
                while value_end > piece and data[value_end - 1] == 1:
                    value_end -= 1
                    marks -= 1
                taken = marks == 1
            elif taken:
                taken = mark > piece and mark + 1 < stop
            if taken:
                value = np.uint32(seed)
                for at in range(piece, mark):
                    value = (value ^ np.uint32(data[at])) * np.uint32(0x01000193)
                value ^= value >> np.uint32(15)
                slot = value & mask
                size = mark - piece
                place = -1
                while stamps[slot] == row + 1:
                    other = slots[slot]
                    if pairs[1, other] == size:
                        step = 0
                        start = pairs[0, other]
                        while step < size and data[start + step] == data[piece + step]:
                            step += 1
                        if step == size:
                            place = other
                            break
                    slot = (slot + np.uint32(1)) & mask
                if place < 0:
                    place = count
                    count += 1
                    stamps[slot] = row + 1
                    slots[slot] = place
                    pairs[0, place] = piece
                    pairs[1, place] = size
                pairs[2, place] = mark + 1
                pairs[3, place] = value_end - mark - 1
            piece = stop + 1
        starts[row] = first
    starts[len(offsets) - 1] = count
    return count


def split_pairs(data: Bytes, offsets: Words, parser: PropertyParser) -> PropertyPairs:
    """As `scan.views.arrow.split_pairs`. Raises ValueError for offsets that are not ranges of the data."""
    sizes = np.diff(offsets)
    if len(sizes) and (offsets[0] < 0 or sizes.min() < 0 or offsets[-1] > len(data)):
        raise ValueError(f"ranges outside a buffer of {len(data)} bytes")
    most = int(sizes.max()) if len(sizes) else 0
    slot_count = max(SLOT_COUNT, 1 << most.bit_length())
    capacity = int(np.count_nonzero(data == 1))
    pairs = np.empty((4, capacity), np.int32)
    starts = np.zeros(len(offsets), np.int32)
    slots, stamps = np.empty(slot_count, np.int32), np.zeros(slot_count, np.int32)
    count = _split(data, offsets, parser == "split", _SEED, slots, stamps, pairs, starts)
    return PropertyPairs(starts, *(np.ascontiguousarray(pairs[row, :count]) for row in range(4)))


_TEXT_SEED = np.uint64(secrets.randbits(64))
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@entry
def _hash_texts(
    data: Bytes, starts: Longs, seed: np.uint64, multiplier: np.uint64, out: NDArray[np.uint64]
) -> None:
    for row in range(len(starts) - 1):
        at, end = starts[row], starts[row + 1]
        value = seed ^ np.uint64(end - at)
        while at + 8 <= end:
            word = np.uint64(0)
            for step in range(8):
                word |= np.uint64(data[at + step]) << np.uint64(8 * step)
            value = (value ^ word) * multiplier
            value ^= value >> np.uint64(32)
            at += 8
        word = np.uint64(0)
        shift = np.uint64(0)
        while at < end:
            word |= np.uint64(data[at]) << shift
            shift += np.uint64(8)
            at += 1
        value = (value ^ word) * multiplier
        value ^= value >> np.uint64(29)
        value *= multiplier
        out[row] = value ^ (value >> np.uint64(32))


def hash_texts(data: Bytes, starts: Longs) -> Longs:
    """A hash of 64 bits of each text `data[starts[i]:starts[i + 1]]`, by a secret of this process.

    Raises ValueError for bounds that are not of the data.
    """
    if len(starts) and (starts[0] < 0 or starts[-1] > len(data) or (np.diff(starts) < 0).any()):
        raise ValueError(f"texts outside a buffer of {len(data)} bytes")
    out = np.empty(max(len(starts) - 1, 0), np.uint64)
    _hash_texts(data, starts, _TEXT_SEED, _MULTIPLIER, out)
    return out.view(np.int64)


@entry
def _find_beyond_ascii(data: Bytes, starts: Longs, sizes: Longs, out: Flags) -> None:
    for row in range(len(starts)):
        bits = np.uint8(0)
        for at in range(starts[row], starts[row] + sizes[row]):
            bits |= data[at]
        out[row] = bits >= 0x80


def beyond_ascii(data: Bytes, starts: Longs, sizes: Longs) -> Flags:
    """Whether each range `data[start:start + size]` has a byte from 0x80 on.

    Raises ValueError for a range that is not of the data.
    """
    if len(starts) and (starts.min() < 0 or sizes.min() < 0 or (starts + sizes).max() > len(data)):
        raise ValueError(f"ranges outside a buffer of {len(data)} bytes")
    out = np.zeros(len(starts), np.bool_)
    _find_beyond_ascii(data, starts, sizes, out)
    return out
