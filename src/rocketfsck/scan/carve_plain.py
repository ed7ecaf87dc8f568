"""Carving in plain Python: where among arbitrary bytes may the log go on?

A candidate is a record header whose totalSize fits the file and whose physicalOffset is its own place (a
copy of a record inside a body is not: its physicalOffset is that of the original), or a BLANK whose
totalSize is exactly what is left. Records are not aligned (fault catalogue, C2).
"""

from __future__ import annotations

import re
import struct

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.magic import MAGIC_BLANK, MIN_RECORD_SIZE

HEADER_SIZE = 36  # totalSize to physicalOffset
NOT_FOUND = -1

_MAGIC = re.compile(rb"\xda\xa3\x20[\xa7\xab]|\xcb\xd4\x31\x94")
_HEAD = struct.Struct(">ii")
_LONG = struct.Struct(">q")


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
    """The index of the first candidate in `buffer[start:end]`, or NOT_FOUND.

    `file_pos` is the file position of `buffer[0]`. A physicalOffset counts from `base_offset` or
    `other_base` (what the records before counted from, where they disagree with the file's name). A BLANK
    ends at `file_size` or at `other_size`. A record header counts only if its 36 bytes are all inside
    `start:end`, a BLANK if its 8 are: to go on behind `end`, start again 35 bytes before it.
    """
    view = buffer.data
    for match in _MAGIC.finditer(view, start + 4, end):
        index = match.start() - 4
        pos = file_pos + index
        total_size, magic_code = _HEAD.unpack_from(view, index)
        if magic_code == MAGIC_BLANK:
            if total_size in (file_size - pos, other_size - pos):
                return index
        elif index + HEADER_SIZE <= end and MIN_RECORD_SIZE <= total_size <= file_size - pos:
            physical_offset = _LONG.unpack_from(view, index + 28)[0]
            if physical_offset in (base_offset + pos, other_base + pos):
                return index
    return NOT_FOUND
