"""One record, or BLANK, at a position of a commit log file that may be written just now: is it all there?

Complete is what has a sound frame and knows its place, whose CRCs are right, and which has no NUL in its
topic and properties: half of a record that is written into zeros lacks one of these. Reference 2.1, 2.6, 2.8.
"""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, replace

import numpy as np

from rocketfsck.formats.magic import BLANK_HEADER_SIZE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from rocketfsck.formats.places import BODY_AT
from rocketfsck.formats.record import read_frame
from rocketfsck.scan.columns import Fault, RecordBatch, new_batch
from rocketfsck.scan.log.large import append_large_record, read_large_record
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.plain.records import scan_records
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.stops import Stop
from rocketfsck.store.reading import FileReader

SETTLED_TIME = 120
"""Seconds without a write after which a file's last record is done, whatever comes after it. A file that is
mapped has its time set only when a page of it turns dirty: every half minute at the latest."""

WHOLE_SIZE = 1 << 16
"""Bytes of a record up to which it is read in one piece: a longer one is long by its body."""

WITNESS_SIZE = BODY_AT
"""Bytes of a record by which it is known again: all of its header."""

UNFINISHED = (
    Fault.BODY_CRC
    | Fault.PROPERTY_CRC
    | Fault.PHYSICAL_OFFSET
    | Fault.PROPERTY_NUL
    | Fault.TOPIC_EMPTY
    | Fault.TOPIC_CHARSET
    | Fault.BODY_CRC_NEGATIVE
    | Fault.BODY_SIZE
    | Fault.PROPERTIES_SIZE
)
"""What the last record must not have: half of a record may look like this."""

_MAGICS = tuple(magic.to_bytes(4, "big", signed=True) for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))


@dataclass(frozen=True, slots=True)
class FileWalk:
    """One file to be walked: `settled` where a later file holds records, so that nothing in it can change.

    `clock_step` is how many milliseconds a storeTimestamp may go back without being in doubt.
    """

    reader: FileReader
    base_offset: int
    options: ScanOptions
    settled: bool
    clock_step: int

    @property
    def file_size(self) -> int:
        return max(self.options.file_size, self.reader.size)


def complete_timestamp(walk: FileWalk, pos: int) -> int | None:
    """The storeTimestamp of the record at `pos` if a complete one is there."""
    batch = read_record(walk, pos)
    return None if batch is None else int(batch["store_timestamp"][0])


def read_record(walk: FileWalk, pos: int) -> RecordBatch | None:
    """The complete record at `pos`, alone in a batch."""
    record = read_large_record(walk.reader, pos, walk.file_size)
    if isinstance(record, Stop):
        return None
    batch = new_batch(1, 1 << 15, 1 << 15)
    options = replace(walk.options, read_bodies=True)
    reader, base, file_size, table = walk.reader, walk.base_offset, walk.file_size, QueueTable()
    if record.total_size > WHOLE_SIZE:
        append_large_record(reader, record, base, file_size, options, batch, table)
    else:
        data = np.frombuffer(reader.read(pos, record.total_size), np.uint8)
        scan_records(data, 0, len(data), pos, base, file_size, options, batch, table)
    if not batch.record_count or int(batch["faults"][0]) & UNFINISHED:
        return None
    return batch


def is_left_alone(reader: FileReader) -> bool:
    """Whether nobody wrote to the file for so long that whatever was begun is done."""
    return time.time() - reader.mtime_ns / 1e9 > SETTLED_TIME


def may_begin_record(head: bytes) -> bool:
    """Whether these 8 bytes are zeros, or as much of a header as is written yet."""
    written = head[4:].rstrip(b"\0")
    return any(magic.startswith(written) for magic in _MAGICS)


def blank_end(walk: FileWalk, pos: int) -> int:
    """The file position that a BLANK at `pos` fills the file up to; -1 without one that does."""
    head = walk.reader.read_upto(pos, BLANK_HEADER_SIZE)
    total_size, magic_code = read_frame(head) if len(head) == BLANK_HEADER_SIZE else (0, 0)
    return pos + total_size if magic_code == MAGIC_BLANK and pos + total_size >= walk.reader.size else -1


def witness_of(reader: FileReader, pos: int) -> int:
    """A checksum of the record at `pos` by which it is known again (of its header: its CRC is in there)."""
    return zlib.crc32(reader.read_upto(pos, WITNESS_SIZE))
