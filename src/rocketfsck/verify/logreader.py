"""Reads single records of the commit log by physical offset: for the few that are looked at alone.

Reference 2.1. What is read is tested: a record's magic and its own physicalOffset must say that it starts
there.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from rocketfsck.errors import StoreError
from rocketfsck.formats.magic import FENCE_TOPIC, MAGIC_V2, TRANSACTION_ROLLBACK, transaction_type
from rocketfsck.scan.columns import Stop
from rocketfsck.scan.large import read_large_record
from rocketfsck.store.openfiles import OpenFiles

_FIXED = struct.Struct(">iiiiiqqiq")
_LONG = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class RecordHead:
    """What is read of one record; `topic` are the bytes on disk."""

    total_size: int
    queue_id: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    store_timestamp: int
    topic: bytes


def is_fence(head: RecordHead) -> bool:
    """Whether a record is filler that a repair put in the place of a lost one: no queue has it as its own."""
    filler = head.topic != b"" and FENCE_TOPIC.startswith(head.topic)
    return filler and transaction_type(head.sys_flag) == TRANSACTION_ROLLBACK


class LogReader(OpenFiles):
    """Records of the commit log by physical offset. A context manager; holds a few files open."""

    __slots__ = ()

    def head(self, offset: int) -> RecordHead | None:
        """The record that starts at `offset`; None if none does, or its file cannot be read."""
        number = self.file_at(offset)
        if number is None:
            return None
        try:
            reader = self.reader(number)
            found = read_large_record(reader, offset - self.starts[number], reader.size)
        except StoreError:
            return None  # the task of that file says so
        if isinstance(found, Stop):
            return None
        compact, at = found.compact, found.body_at
        (_, magic, _, queue_id, _, queue_offset, physical_offset, sys_flag, _) = _FIXED.unpack_from(compact)
        if physical_offset != offset:
            return None
        wide = magic == MAGIC_V2
        start = at + max(int.from_bytes(compact[at - 4 : at], "big", signed=True), 0)
        topic_size = int.from_bytes(compact[start : start + 1 + wide], "big")
        topic = compact[start + 1 + wide : start + 1 + wide + topic_size]
        store_timestamp = _LONG.unpack_from(compact, 68 if sys_flag & 0x10 else 56)[0]
        return RecordHead(
            found.total_size, queue_id, queue_offset, physical_offset, sys_flag, store_timestamp, topic
        )
