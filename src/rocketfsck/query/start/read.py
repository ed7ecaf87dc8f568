"""One record as a broker reads it: the exact order of its checks. Reference 2.15.

For the few positions where the bulk scan and a broker may differ, and for where the scan stops. The broker
reads field after field from a buffer that ends at `limit`; a read past that end, or past the scratch array of
totalSize bytes, is an exception that it treats as an invalid record.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import Enum, auto

from rocketfsck.errors import FormatError
from rocketfsck.formats.delay import SCHEDULE_TOPIC
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.dledger import ENTRY_HEADER_SIZE
from rocketfsck.formats.dledger import MAGIC_BLANK as ENTRY_BLANK
from rocketfsck.formats.javatext import java_decode, parse_int16, parse_int32, parse_int64
from rocketfsck.formats.magic import BORN_HOST_V6, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, STORE_HOST_V6
from rocketfsck.formats.properties import (
    CRC32,
    DELAY,
    INNER_BASE,
    INNER_NUM,
    PROPERTY_CRC_SIZE,
    parse_properties,
    property_crc_value,
)
from rocketfsck.scan.log.large import crc_of
from rocketfsck.store.reading import FileReader

HUGE_SIZE = 1 << 30
"""A totalSize from here on is more memory than many a broker has: it may die before it can refuse it."""

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_SHORT = struct.Struct(">h")
_BYTE = struct.Struct(">b")


class Verdict(Enum):
    OK = auto()
    BLANK = auto()
    INVALID = auto()
    HALF = auto()  # all of it can be read, but its lengths do not make its totalSize


@dataclass(frozen=True, slots=True)
class Judged:
    """`size` is the totalSize (of an OK or HALF record), `read_size` how far the broker's buffer moved on.

    Both with the `lead` bytes of the header of DLedger's entry in front of it, if there is one.
    """

    verdict: Verdict
    size: int = 0
    read_size: int = 0
    huge: bool = False
    lead: int = 0


@dataclass(frozen=True, slots=True)
class BrokerReading:
    """How a broker reads: its dialect, which checks are on, and whether its log is DLedger's."""

    dialect: Dialect
    check_crc: bool
    force_property_crc: bool = False
    in_entries: bool = False


INVALID = Judged(Verdict.INVALID)


class _EndError(Exception):
    """The broker's read throws."""


class _Cursor:
    """Relative reads that end at `limit`."""

    def __init__(self, reader: FileReader, pos: int, limit: int) -> None:
        self.reader = reader
        self.pos = pos
        self.limit = limit

    def number(self, kind: struct.Struct) -> int:
        pos = self.skip(kind.size)
        return int(kind.unpack(self.reader.read(pos, kind.size))[0])

    def skip(self, size: int, room: int | None = None) -> int:
        """Pass over bytes that go into an array of `room` bytes; where they start."""
        if size < 0 or self.pos + size > self.limit or (room is not None and size > room):
            raise _EndError
        pos = self.pos
        self.pos += size
        return pos


def judge_record(reader: FileReader, pos: int, limit: int, reading: BrokerReading) -> Judged:
    """What the broker says of the bytes at `pos`. `limit` is where its buffer ends (a file position)."""
    huge = False
    try:
        cursor = _Cursor(reader, pos, limit)
        bounded = reading.dialect.record_bounds_checked
        if bounded and limit - pos <= 4:
            return INVALID
        total_size = cursor.number(_INT)
        if bounded and limit - cursor.pos < total_size - 4:
            return INVALID
        magic_code = cursor.number(_INT)
        if magic_code == MAGIC_BLANK:
            return Judged(Verdict.BLANK)
        if magic_code != MAGIC_V1 and not (magic_code == MAGIC_V2 and reading.dialect.v2_allowed):
            return INVALID
        huge = total_size >= HUGE_SIZE
        if total_size < 0:
            return INVALID
        return _judge_fields(cursor, pos, total_size, magic_code == MAGIC_V2, reading, huge)
    except _EndError:
        return Judged(Verdict.INVALID, huge=huge)


def judge_place(reader: FileReader, pos: int, limit: int, reading: BrokerReading) -> Judged:
    """As `judge_record`, of whatever a broker expects at `pos`: a record, or an entry of DLedger's.

    DLedgerCommitLog.checkMessageAndReturnSize: the second word tells a bare record, the first one the end of
    a file; anything else is 48 bytes in front of a record.
    """
    if not reading.in_entries:
        return judge_record(reader, pos, limit, reading)
    head = reader.read_upto(pos, 2 * _INT.size) if limit - pos >= 2 * _INT.size else b""
    if len(head) < 2 * _INT.size:
        return INVALID
    first, second = (int(word) for (word,) in _INT.iter_unpack(head))
    if second in (MAGIC_BLANK, MAGIC_V1) or (second == MAGIC_V2 and reading.dialect.v2_allowed):
        return judge_record(reader, pos, limit, reading)
    if first == ENTRY_BLANK:
        return Judged(Verdict.BLANK)
    if limit - pos < ENTRY_HEADER_SIZE:
        return INVALID
    judged = judge_record(reader, pos + ENTRY_HEADER_SIZE, limit, reading)
    if judged.verdict is Verdict.BLANK:
        # the broker takes the 48 bytes for a message without a topic
        raise FormatError("a DLedger entry holds a BLANK: the start cannot be predicted", offset=pos)
    if not judged.size:
        return judged
    lead = ENTRY_HEADER_SIZE
    return replace(judged, size=judged.size + lead, read_size=judged.read_size + lead, lead=lead)


def _judge_fields(
    cursor: _Cursor, pos: int, total_size: int, v2: bool, reading: BrokerReading, huge: bool
) -> Judged:
    reader = cursor.reader
    body_crc = cursor.number(_INT)
    cursor.skip(4 + 4 + 8 + 8)
    sys_flag = cursor.number(_INT)
    cursor.skip(8)
    for flag in (BORN_HOST_V6, STORE_HOST_V6):
        wide = reading.dialect.ipv6_hosts and sys_flag & flag
        cursor.skip(16 if wide else 4, total_size)
        cursor.skip(4)
        if flag == BORN_HOST_V6:
            cursor.skip(8)
    cursor.skip(4 + 8)
    body_size = cursor.number(_INT)
    if body_size > 0:
        body_pos = cursor.skip(body_size, total_size)
        wanted = reading.check_crc and not reading.force_property_crc
        if wanted and crc_of(reader, body_pos, body_pos + body_size) != body_crc:
            return INVALID
    topic_size = cursor.number(_SHORT if v2 else _BYTE)
    topic_pos = cursor.skip(topic_size, total_size)
    properties_size = cursor.number(_SHORT)
    properties: dict[str, str] | None = None
    if properties_size > 0:
        properties_pos = cursor.skip(properties_size, total_size)
        data = reader.read(properties_pos, properties_size)
        properties = parse_properties(data, reading.dialect.property_parser)
        topic = java_decode(reader.read(topic_pos, topic_size))
        delay = (properties or {}).get(DELAY)
        if topic == SCHEDULE_TOPIC and delay is not None and parse_int32(delay) is None:
            return INVALID
    if (
        reading.check_crc
        and reading.force_property_crc
        and not _has_property_crc(reader, pos, total_size, properties, reading.dialect)
    ):
        return INVALID
    if cursor.pos - pos != total_size:
        return Judged(Verdict.HALF, total_size, cursor.pos - pos, huge)
    if reading.dialect.inner_batch_checked and not _inner_batch_parses(properties or {}):
        return INVALID
    return Judged(Verdict.OK, total_size, total_size)


def _has_property_crc(
    reader: FileReader, pos: int, total_size: int, properties: dict[str, str] | None, dialect: Dialect
) -> bool:
    text = (properties or {}).get(CRC32)
    if text is None or total_size <= PROPERTY_CRC_SIZE or pos + total_size > reader.size:
        return False
    value = property_crc_value(text)
    if value < 0 or (value == 0 and not dialect.property_crc_zero_valid):
        return False
    return crc_of(reader, pos, pos + total_size - PROPERTY_CRC_SIZE) == value


def _inner_batch_parses(properties: dict[str, str]) -> bool:
    if INNER_NUM not in properties or INNER_BASE not in properties:
        return True
    return parse_int64(properties[INNER_BASE]) is not None and parse_int16(properties[INNER_NUM]) is not None
