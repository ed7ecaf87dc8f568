"""One record as a broker reads it: the exact order of its checks. Reference 2.15.

For the few positions where the bulk scan and a broker may differ, and for where the scan stops. The broker
reads field after field from a buffer that ends at `limit`; a read past that end, or past the scratch array of
totalSize bytes, is an exception that it treats as an invalid record.

A commit log file as a broker walks it: batches of records that it accepts, then why it stopped.

The compiled scan does the bulk; a row that a broker may judge otherwise, and the place where the scan stops,
is judged by `read`. So is an entry of DLedger's without a record, which the scan passes over and no broker
does. Reference 2.14, 2.15, 6.2.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import FormatError
from rocketfsck.formats import columns, dledger, javatext, magic, timer
from rocketfsck.formats import properties as props
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.dledger import MAGIC_BLANK as ENTRY_BLANK
from rocketfsck.scan.columns import Fault, RecordBatch, Trait, batch_for
from rocketfsck.scan.log.large import crc_of
from rocketfsck.scan.log.tiling import fill_batch, record_scanner
from rocketfsck.scan.options import ScanOptions, Stop
from rocketfsck.scan.plain import records as plain
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.threads.readahead import ReadAhead
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
        if magic_code == magic.MAGIC_BLANK:
            return Judged(Verdict.BLANK)
        if magic_code != magic.MAGIC_V1 and not (magic_code == magic.MAGIC_V2 and reading.dialect.v2_allowed):
            return INVALID
        huge = total_size >= HUGE_SIZE
        if total_size < 0:
            return INVALID
        return _judge_fields(cursor, pos, total_size, magic_code == magic.MAGIC_V2, reading, huge)
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
    if second in (magic.MAGIC_BLANK, magic.MAGIC_V1) or (
        second == magic.MAGIC_V2 and reading.dialect.v2_allowed
    ):
        return judge_record(reader, pos, limit, reading)
    if first == ENTRY_BLANK:
        return Judged(Verdict.BLANK)
    if limit - pos < dledger.ENTRY_HEADER_SIZE:
        return INVALID
    judged = judge_record(reader, pos + dledger.ENTRY_HEADER_SIZE, limit, reading)
    if judged.verdict is Verdict.BLANK:
        # the broker takes the 48 bytes for a message without a topic
        raise FormatError("a DLedger entry holds a BLANK: the start cannot be predicted", offset=pos)
    if not judged.size:
        return judged
    lead = dledger.ENTRY_HEADER_SIZE
    return replace(judged, size=judged.size + lead, read_size=judged.read_size + lead, lead=lead)


def _judge_fields(
    cursor: _Cursor, pos: int, total_size: int, v2: bool, reading: BrokerReading, huge: bool
) -> Judged:
    reader = cursor.reader
    body_crc = cursor.number(_INT)
    cursor.skip(4 + 4 + 8 + 8)
    sys_flag = cursor.number(_INT)
    cursor.skip(8)
    for flag in (magic.BORN_HOST_V6, magic.STORE_HOST_V6):
        wide = reading.dialect.ipv6_hosts and sys_flag & flag
        cursor.skip(16 if wide else 4, total_size)
        cursor.skip(4)
        if flag == magic.BORN_HOST_V6:
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
        properties = props.parse_properties(data, reading.dialect.property_parser)
        topic = javatext.java_decode(reader.read(topic_pos, topic_size))
        delay = (properties or {}).get(props.DELAY)
        if topic == timer.SCHEDULE_TOPIC and delay is not None and javatext.parse_int32(delay) is None:
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
    text = (properties or {}).get(props.CRC32)
    if text is None or total_size <= props.PROPERTY_CRC_SIZE or pos + total_size > reader.size:
        return False
    value = props.property_crc_value(text)
    if value < 0 or (value == 0 and not dialect.property_crc_zero_valid):
        return False
    return crc_of(reader, pos, pos + total_size - props.PROPERTY_CRC_SIZE) == value


def _inner_batch_parses(properties: dict[str, str]) -> bool:
    if props.INNER_NUM not in properties or props.INNER_BASE not in properties:
        return True
    return (
        javatext.parse_int64(properties[props.INNER_BASE]) is not None
        and javatext.parse_int16(properties[props.INNER_NUM]) is not None
    )


IPV6_HOSTS = magic.BORN_HOST_V6 | magic.STORE_HOST_V6


@dataclass(frozen=True, slots=True)
class Ending:
    """Where a walk of a file stopped (file position) and what is there; None: the end of the bytes."""

    pos: int
    judged: Judged | None


class LogWalker:
    """Walks files one after the other with one batch and one table of queues."""

    def __init__(self, reading: BrokerReading, table: QueueTable) -> None:
        self.reading = reading
        self.table = table
        self.scanner = record_scanner()
        self.batch = batch_for(0)
        self._room = 0
        self.options = ScanOptions(
            read_bodies=reading.check_crc,
            property_parser=reading.dialect.property_parser,
            index_tags=reading.dialect.tag_entries,
            in_entries=reading.in_entries,
        )

    def walk(
        self, reader: FileReader, pos: int, limit: int, base_offset: int
    ) -> Generator[RecordBatch, None, Ending]:
        """Yield the accepted records from file position `pos` on; the batch is the same object all the time.

        `limit` is where the broker's view of the file ends, `base_offset` the physical offset of the file's
        first byte. Raises StoreError when bytes cannot be read.
        """
        if reader.size > self._room:
            self.batch, self._room = batch_for(reader.size), reader.size
        batch = self.batch
        with ReadAhead(reader) as window:
            while pos < limit:
                batch.begin(0)
                window.move_to(pos)
                stop = fill_batch(
                    reader, window, self.scanner, base_offset, reader.size, self.options, batch, self.table
                )
                end = window.file_pos + window.start
                begins = self._begins(pos)
                passed = self._passed_over(begins, end)
                if passed is not None:
                    end = int(begins[passed])
                    batch.cut(passed)
                    stop = Stop.MAGIC
                refused = self._refused_row(reader, begins, limit)
                if refused is not None:
                    row, judged = refused
                    end = int(begins[row])
                    batch.cut(row)
                    if batch.record_count:
                        yield batch
                    return Ending(end, judged if end < limit else None)
                if batch.record_count:
                    yield batch
                pos = end
                if stop in (Stop.BATCH_FULL, Stop.LIMIT) or pos >= limit:
                    continue
                judged = judge_place(reader, pos, limit, self.reading)
                if judged.verdict is not Verdict.OK:
                    return Ending(pos, judged)
                self._read_otherwise(reader, pos + judged.lead, judged.size - judged.lead, base_offset)
                yield batch
                pos += judged.size
        return Ending(pos, None)

    def _begins(self, pos: int) -> NDArray[np.int64]:
        """Where each row of the batch begins, the entry around its record included, and the next one does.

        `pos` is where the run began.
        """
        ends = self.batch["pos"] + self.batch["total_size"]
        if self.reading.in_entries:
            return np.append(pos, ends)
        return np.append(self.batch["pos"], ends[-1:] if len(ends) else pos)

    def _passed_over(self, begins: NDArray[np.int64], end: int) -> int | None:
        """The row in front of which the scan went over an entry without a record, which no broker does.

        `end` is where the run ended.
        """
        if not self.reading.in_entries:
            return None
        lead = np.append(self.batch["pos"], end) - begins
        odd = lead != 0
        odd[:-1] &= lead[:-1] != dledger.ENTRY_HEADER_SIZE
        return int(np.argmax(odd)) if odd.any() else None

    def _refused_row(
        self, reader: FileReader, begins: NDArray[np.int64], limit: int
    ) -> tuple[int, Judged] | None:
        """The first record of the batch that the broker does not accept."""
        for row in np.flatnonzero(self._doubtful(limit)).tolist():
            judged = judge_place(reader, int(begins[row]), limit, self.reading)
            if judged.verdict is not Verdict.OK:
                return row, judged
        return None

    def _doubtful(self, limit: int) -> NDArray[np.bool_]:
        batch, reading = self.batch, self.reading
        dialect = reading.dialect
        faults = batch["faults"]
        bits = Fault.DELAY
        if reading.check_crc:
            bits |= Fault.BODY_CRC
        if dialect.inner_batch_checked:
            bits |= Fault.INNER_BATCH
        doubtful = (faults & bits) != 0
        doubtful |= batch["pos"] + batch["total_size"] > limit
        if not dialect.v2_allowed:
            doubtful |= batch["magic_code"] == magic.MAGIC_V2
        if not dialect.ipv6_hosts:
            doubtful |= (batch["sys_flag"] & IPV6_HOSTS) != 0
        if reading.check_crc and reading.force_property_crc:
            doubtful |= (faults & Fault.PROPERTY_CRC) != 0
            doubtful |= (batch["traits"] & Trait.PROPERTY_CRC) == 0
        return np.asarray(doubtful, np.bool_)

    def _read_otherwise(self, reader: FileReader, pos: int, size: int, base_offset: int) -> None:
        """Put the one record into the batch that only this broker treats as one: it does not know the flags
        of IPv6 hosts (before 4.6.0)."""
        record = bytearray(reader.read(pos, size))
        sys_flag = _INT.unpack_from(record, columns.SYS_FLAG_AT)[0]
        _INT.pack_into(record, columns.SYS_FLAG_AT, sys_flag & ~IPV6_HOSTS)
        self.batch.begin(0)
        data = np.frombuffer(bytes(record), np.uint8)
        plain.scan_records(data, 0, size, pos, base_offset, reader.size, self.options, self.batch, self.table)
