"""The head of one record: what its first 76 bytes say, up to storeTimestamp. Reference 2.1.

A few bytes are read, never a scan. Nothing but a magic code tells that a record begins there;
`whole_head_at` also wants a totalSize that fits into the file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from rocketfsck.formats import columns, layout, magic, record
from rocketfsck.scan.plain.entries import record_pos
from rocketfsck.store.model import MappedFile, MappedFileQueue
from rocketfsck.store.openfiles import OpenFiles
from rocketfsck.store.reading import FileReader

HEAD_SIZE = columns.store_timestamp_place(magic.BORN_HOST_V6) + 8

_FIXED = record.RECORD_HEADER.packer(last="sysFlag")
_LONG = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class RecordHead:
    """The numbers at a record's beginning. `topic` is as on disk, empty where only the head was read."""

    total_size: int
    magic_code: int
    body_crc: int
    queue_id: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    store_timestamp: int
    topic: bytes = b""


def decode_head(data: layout.Buffer, *, knows_ipv6: bool = True) -> RecordHead:
    """The head of the record that begins with these bytes; struct.error where they end too early.

    Without `knows_ipv6` the host has 4 bytes whatever sysFlag says, as brokers before 4.6.0 read it.
    """
    total_size, magic_code, body_crc, queue_id, _, queue_offset, physical_offset, sys_flag = (
        _FIXED.unpack_from(data)
    )
    (store_timestamp,) = _LONG.unpack_from(data, columns.store_timestamp_place(sys_flag if knows_ipv6 else 0))
    return RecordHead(
        total_size, magic_code, body_crc, queue_id, queue_offset, physical_offset, sys_flag, store_timestamp
    )


def head_at(reader: FileReader, pos: int) -> RecordHead | None:
    """The head at a file position; None without a message's magic code. Raises StoreError."""
    data = reader.read_upto(pos, HEAD_SIZE)
    head = decode_head(data) if len(data) == HEAD_SIZE else None
    return head if head is not None and head.magic_code in (magic.MAGIC_V1, magic.MAGIC_V2) else None


def whole_head_at(reader: FileReader, pos: int) -> RecordHead | None:
    """As `head_at`, where the file also has room for the record."""
    head = head_at(reader, pos)
    fits = head is not None and magic.MIN_RECORD_SIZE <= head.total_size <= reader.size - pos
    return head if fits else None


def first_head(file: MappedFile) -> RecordHead | None:
    """The head of the record that a file begins with, as `whole_head_at`."""
    with FileReader(file.location) as reader:
        return whole_head_at(reader, record_pos(reader, 0) if file.in_entries else 0)


def head_of(queue: MappedFileQueue, physical_offset: int) -> RecordHead | None:
    """The head of the record at an offset of the log, which must say so itself. Raises StoreError."""
    with OpenFiles(queue) as files:
        place = files.at(physical_offset)
        head = None if place is None else head_at(*place)
    return head if head is not None and head.physical_offset == physical_offset else None


def begins_record(queue: MappedFileQueue, physical_offset: int) -> bool:
    """Whether a record or a BLANK begins at an offset of the log. Raises StoreError."""
    with OpenFiles(queue) as files:
        place = files.at(physical_offset)
        if place is None:
            return False
        head = whole_head_at(*place)
        if head is not None:
            return head.physical_offset == physical_offset
        reader, pos = place
        frame = reader.read_upto(pos, magic.BLANK_HEADER_SIZE)
    return len(frame) == magic.BLANK_HEADER_SIZE and record.read_frame(frame)[1] == magic.MAGIC_BLANK
