"""Reads single records of the commit log by physical offset: for the few that are looked at alone.

Reference 2.1. What is read is tested: a record's magic and its own physicalOffset must say that it starts
there.

The head of one record: what its first 76 bytes say, up to storeTimestamp. Reference 2.1.

A few bytes are read, never a scan. Nothing but a magic code tells that a record begins there;
`whole_head_at` also wants a totalSize that fits into the file.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rocketfsck.errors import StoreError
from rocketfsck.formats.columns import store_timestamp_place
from rocketfsck.formats.javatext import java_decode
from rocketfsck.formats.layout import Buffer
from rocketfsck.formats.magic import (
    BLANK_HEADER_SIZE,
    BORN_HOST_V6,
    FENCE_TOPIC,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    TRANSACTION_ROLLBACK,
    transaction_type,
)
from rocketfsck.formats.properties import KEYS, UNIQ_KEY, Parser, parse_properties, split_keys
from rocketfsck.formats.record import RECORD_HEADER, read_frame
from rocketfsck.scan.log.large import LargeRecord, read_large_record
from rocketfsck.scan.options import Stop
from rocketfsck.scan.plain.entries import record_pos
from rocketfsck.store.model import MappedFile, MappedFileQueue
from rocketfsck.store.openfiles import OpenFiles
from rocketfsck.store.reading import FileReader

HEAD_SIZE = store_timestamp_place(BORN_HOST_V6) + 8

_FIXED = RECORD_HEADER.packer(last="sysFlag")
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


def decode_head(data: Buffer, *, knows_ipv6: bool = True) -> RecordHead:
    """The head of the record that begins with these bytes; struct.error where they end too early.

    Without `knows_ipv6` the host has 4 bytes whatever sysFlag says, as brokers before 4.6.0 read it.
    """
    total_size, magic_code, body_crc, queue_id, _, queue_offset, physical_offset, sys_flag = (
        _FIXED.unpack_from(data)
    )
    (store_timestamp,) = _LONG.unpack_from(data, store_timestamp_place(sys_flag if knows_ipv6 else 0))
    return RecordHead(
        total_size, magic_code, body_crc, queue_id, queue_offset, physical_offset, sys_flag, store_timestamp
    )


def head_at(reader: FileReader, pos: int) -> RecordHead | None:
    """The head at a file position; None without a message's magic code. Raises StoreError."""
    data = reader.read_upto(pos, HEAD_SIZE)
    head = decode_head(data) if len(data) == HEAD_SIZE else None
    return head if head is not None and head.magic_code in (MAGIC_V1, MAGIC_V2) else None


def whole_head_at(reader: FileReader, pos: int) -> RecordHead | None:
    """As `head_at`, where the file also has room for the record."""
    head = head_at(reader, pos)
    fits = head is not None and MIN_RECORD_SIZE <= head.total_size <= reader.size - pos
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
        frame = reader.read_upto(pos, BLANK_HEADER_SIZE)
    return len(frame) == BLANK_HEADER_SIZE and read_frame(frame)[1] == MAGIC_BLANK


def is_fence(head: RecordHead) -> bool:
    """Whether a record is filler that a repair put in place of a lost one: no queue has it as its own."""
    return is_fence_topic(head.topic) and transaction_type(head.sys_flag) == TRANSACTION_ROLLBACK


def is_fence_topic(topic: bytes) -> bool:
    """Whether filler has this topic: the name of it, or its first letters where the record is short."""
    return topic != b"" and FENCE_TOPIC.startswith(topic)


class LogReader(OpenFiles):
    """Records of the commit log by physical offset. A context manager; holds a few files open."""

    __slots__ = ()

    def head(self, offset: int) -> RecordHead | None:
        """The record that starts at `offset`; None if none does, or its file cannot be read."""
        found = self._record(offset)
        if found is None:
            return None
        head = decode_head(found.compact)
        if head.physical_offset != offset:
            return None
        return replace(head, total_size=found.total_size, topic=_topic_and_rest(found)[0])

    def index_keys(self, offset: int, parser: Parser) -> tuple[str, list[str]] | None:
        """Topic and index keys (UNIQ_KEY, then KEYS) of the record at `offset`; None if none starts there."""
        read = self.properties(offset, parser)
        if read is None:
            return None
        topic, properties = read
        unique = [properties[UNIQ_KEY]] if UNIQ_KEY in properties else []
        return topic, [*unique, *split_keys(properties.get(KEYS, ""))]

    def properties(self, offset: int, parser: Parser) -> tuple[str, Mapping[str, str]] | None:
        """Topic and properties of the record at `offset`; None if none starts there."""
        found = self._record(offset)
        if found is None:
            return None
        topic, rest = _topic_and_rest(found)
        size = max(int.from_bytes(rest[:2], "big", signed=True), 0)
        return java_decode(topic), parse_properties(rest[2 : 2 + size], parser) or {}

    def _record(self, offset: int) -> LargeRecord | None:
        """The record at `offset` without its body; None if none starts there, or its file cannot be read."""
        try:
            place = self.at(offset)
            found = None if place is None else read_large_record(*place, place[0].size)
        except StoreError:
            return None  # the task of that file says so
        return None if isinstance(found, Stop) else found


def _topic_and_rest(found: LargeRecord) -> tuple[bytes, bytes]:
    """The bytes of a record's topic, and those after it: the properties with their length."""
    compact, at = found.compact, found.body_at
    wide = int.from_bytes(compact[4:8], "big", signed=True) == MAGIC_V2
    start = at + max(int.from_bytes(compact[at - 4 : at], "big", signed=True), 0)
    topic_size = int.from_bytes(compact[start : start + 1 + wide], "big")
    end = start + 1 + wide + topic_size
    return compact[start + 1 + wide : end], compact[end:]
