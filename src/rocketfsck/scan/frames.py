"""Record headers anywhere, and CRCs of whole records, in plain Python.

For bytes of which nothing is known: a header is where a message's magic stands behind a totalSize that can
be; whether a record follows is for the scan of records to say. Reference 2.1, 2.2.
"""

from __future__ import annotations

import re
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.magic import MIN_RECORD_SIZE
from rocketfsck.scan.carve_plain import NOT_FOUND

HEAD_SIZE = 8  # totalSize and magic

_MAGIC = re.compile(rb"\xda\xa3\x20[\xa7\xab]")
_SIZE = struct.Struct(">i")


def find_header(buffer: NDArray[np.uint8], start: int, end: int, most: int) -> int:
    """The index of the first record header in `buffer[start:end]`, or NOT_FOUND.

    `most` is the largest totalSize of a record that would begin at index 0: one at index i may have i less.
    A header counts only if its 8 bytes are all inside `start:end`: to go on behind `end`, start again 7
    bytes before it.
    """
    view = buffer.data
    for match in _MAGIC.finditer(view, start + 4, end):
        index = match.start() - 4
        if MIN_RECORD_SIZE <= _SIZE.unpack_from(view, index)[0] <= most - index:
            return index
    return NOT_FOUND


def crcs_of(buffer: NDArray[np.uint8], starts: Longs, sizes: Longs) -> NDArray[np.uint32]:
    """The CRC-32 of every range `buffer[start:start + size]`."""
    view = buffer.data
    ranges = zip(starts.tolist(), sizes.tolist(), strict=True)
    return np.fromiter((zlib.crc32(view[at : at + size]) for at, size in ranges), np.uint32, len(starts))
