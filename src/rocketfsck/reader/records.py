"""Reads single records of the commit log by physical offset: for the few that are looked at alone.

Reference 2.1. What is read is tested: a record's magic and its own physicalOffset must say that it starts
there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rocketfsck.errors import StoreError
from rocketfsck.formats.javatext import java_decode
from rocketfsck.formats.magic import FENCE_TOPIC, MAGIC_V2, TRANSACTION_ROLLBACK, transaction_type
from rocketfsck.formats.properties import KEYS, UNIQ_KEY, Parser, parse_properties, split_keys
from rocketfsck.reader.heads import RecordHead, decode_head
from rocketfsck.scan.log.large import LargeRecord, read_large_record
from rocketfsck.scan.options import Stop
from rocketfsck.store.openfiles import OpenFiles


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
