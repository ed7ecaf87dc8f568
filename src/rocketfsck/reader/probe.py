"""Looks at single places of the commit log: the record at an offset, the first record of a file.

A few bytes are read, never a scan. A record is trusted as far as its first 68 bytes (reference 2.1) go: the
magic, a totalSize that fits into the file, and a physicalOffset that names the place it stands at.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from rocketfsck.formats.magic import (
    BORN_HOST_V6,
    IPV4_HOST_SIZE,
    IPV6_HOST_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
)
from rocketfsck.store.model import MappedFile, MappedFileQueue
from rocketfsck.store.reading import FileReader

HEADER_SIZE = 68
"""Up to the end of storeTimestamp with an IPv6 bornHost."""

_SYS_FLAG_POS = 36
_BORN_HOST_POS = 48


@dataclass(frozen=True, slots=True)
class Header:
    """The fields of a record's beginning that tell where and when it was stored."""

    total_size: int
    physical_offset: int
    store_timestamp: int


def file_of(queue: MappedFileQueue, physical_offset: int) -> MappedFile | None:
    """The file whose bytes hold an offset; None in gaps and outside."""
    starts = [file.start_offset or 0 for file in queue.files]
    index = bisect_right(starts, physical_offset) - 1
    if index < 0 or physical_offset >= starts[index] + queue.files[index].size:
        return None
    return queue.files[index]


def read_header(file: MappedFile, pos: int = 0) -> Header | None:
    """The beginning of the record at a position; None where none begins. Raises StoreError."""
    with FileReader(file.path) as reader:
        data = reader.read_upto(pos, HEADER_SIZE)
        file_size = reader.size
    if len(data) < HEADER_SIZE or _int(data, 4, 4) not in (MAGIC_V1, MAGIC_V2):
        return None
    total_size, physical_offset = _int(data, 0, 4), _int(data, 28, 8)
    born_size = IPV6_HOST_SIZE if _int(data, _SYS_FLAG_POS, 4) & BORN_HOST_V6 else IPV4_HOST_SIZE
    if not MIN_RECORD_SIZE <= total_size <= file_size - pos:
        return None
    return Header(total_size, physical_offset, _int(data, _BORN_HOST_POS + born_size, 8))


def begins_record(queue: MappedFileQueue, physical_offset: int) -> bool:
    """Whether a record or a BLANK begins at an offset. Raises StoreError."""
    file = file_of(queue, physical_offset)
    if file is None or file.start_offset is None:
        return False
    pos = physical_offset - file.start_offset
    header = read_header(file, pos)
    if header is not None:
        return header.physical_offset == physical_offset
    with FileReader(file.path) as reader:
        frame = reader.read_upto(pos, 8)
    return len(frame) == 8 and _int(frame, 4, 4) == MAGIC_BLANK


def _int(data: bytes, pos: int, size: int) -> int:
    return int.from_bytes(data[pos : pos + size], "big", signed=True)
