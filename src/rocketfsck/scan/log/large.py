"""One record at a file position, whatever its size, in bounded memory.

For records that fit no buffer, and to test what a position is before the log is believed to go on there.
Only the header and what follows the body are read, at most 128 KiB; put together, with a bodyLength
of 0, they make a compact record that `plain` reads like any other. The bodies' bytes pass in chunks for the
CRCs (reference 2.1, 2.6, 2.7).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace

import numpy as np

from rocketfsck.formats.columns import MAX_BODY_AT, SYS_FLAG_AT, body_place
from rocketfsck.formats.magic import BLANK_HEADER_SIZE, MAGIC_V2
from rocketfsck.formats.properties import PROPERTY_CRC_SIZE, property_crc_digits
from rocketfsck.formats.record import BLANK
from rocketfsck.scan.columns import Fault, RecordBatch, Trait
from rocketfsck.scan.options import ScanOptions, Stop
from rocketfsck.scan.plain import records as plain
from rocketfsck.scan.plain.records import find_properties
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.reading import FileReader

CHUNK_SIZE = 1 << 20
MAX_REST_SIZE = 1 << 17  # more than topic and properties can take with their lengths: 65,538 bytes

_HEAD = BLANK.packer()
_INT = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class LargeRecord:
    """A record at `pos` without its body: `compact` is the record with a body of no bytes.

    `body_at` is where the body starts in the record, `body_size` how many bytes were left out of `compact`.
    """

    pos: int
    total_size: int
    compact: bytes
    body_at: int
    body_size: int


def read_large_record(reader: FileReader, pos: int, file_size: int) -> LargeRecord | Stop:
    """Test the frame of the record at `pos`, with the answers of `plain.scan_records`.

    NEED_BYTES means that the file itself ends before the record does (`file_size` may be more than the
    file has).
    """
    head = reader.read_upto(pos, MAX_BODY_AT)
    found = plain.read_frame(memoryview(head), 0, len(head), pos, file_size)
    if not isinstance(found, Stop):
        return LargeRecord(pos, found[0], head[: found[0]], found[2], 0)
    if found != Stop.NEED_BYTES or len(head) < BLANK_HEADER_SIZE:
        return found
    total_size, magic_code = _HEAD.unpack_from(head)
    if pos + total_size > reader.size:
        return Stop.NEED_BYTES
    body = body_place(_INT.unpack_from(head, SYS_FLAG_AT)[0])
    least_rest = (2 if magic_code == MAGIC_V2 else 1) + 2
    if body + least_rest > total_size:
        return Stop.LENGTHS
    body_size = max(_INT.unpack_from(head, body - _INT.size)[0], 0)
    rest_size = total_size - body - body_size
    if rest_size < least_rest:
        return Stop.BODY_LENGTH
    rest = reader.read(pos + body + body_size, min(rest_size, MAX_REST_SIZE))
    compact = bytearray(head[:body] + rest)
    _INT.pack_into(compact, 0, len(compact))
    if body_size:
        _INT.pack_into(compact, body - _INT.size, 0)
    frame = plain.read_frame(memoryview(compact), 0, len(compact), pos, file_size)
    if isinstance(frame, Stop):
        return frame
    return LargeRecord(pos, total_size, bytes(compact), body, body_size)


def append_large_record(
    reader: FileReader,
    record: LargeRecord,
    base_offset: int,
    file_size: int,
    options: ScanOptions,
    batch: RecordBatch,
    table: QueueTable,
) -> bool:
    """Append the record to `batch` as `plain.scan_records` would; False if the batch has no room for it."""
    row, first_key = int(batch.counts[0]), int(batch.counts[1])
    compact = np.frombuffer(record.compact, np.uint8)
    # a record as short as a head is whole in `compact`, with its body
    asked = replace(options, read_bodies=options.read_bodies and not record.body_size, in_entries=False)
    place = (0, len(compact), record.pos, base_offset, file_size)
    plain.scan_records(compact, *place, asked, batch, table)
    if int(batch.counts[0]) == row:
        return False
    columns = batch.records
    columns["total_size"][row] = record.total_size
    if record.body_size:
        columns["body_size"][row] = record.body_size
    columns["topic_pos"][row] += record.body_size
    columns["properties_pos"][row] += record.body_size
    batch.keys["key_pos"][first_key : int(batch.counts[1])] += record.body_size
    faults = int(columns["faults"][row]) & ~Fault.END_OF_FILE
    if record.pos + record.total_size > file_size - BLANK_HEADER_SIZE:
        faults |= Fault.END_OF_FILE
    if options.read_bodies:
        has_crc = bool(int(columns["traits"][row]) & Trait.PROPERTY_CRC)
        faults |= _crc_faults(reader, record, int(columns["body_crc"][row]), has_crc, options)
    columns["faults"][row] = faults
    return True


def _crc_faults(
    reader: FileReader, record: LargeRecord, body_crc: int, has_property_crc: bool, options: ScanOptions
) -> int:
    faults = 0
    body_pos = record.pos + record.body_at
    if record.body_size and crc_of(reader, body_pos, body_pos + record.body_size) != body_crc:
        faults |= Fault.BODY_CRC
    if has_property_crc:
        frame = plain.read_frame(memoryview(record.compact), 0, len(record.compact), 0, len(record.compact))
        assert not isinstance(frame, Stop)
        properties = record.compact[frame[5] : frame[6]]
        low, high = find_properties(properties, options.property_parser)[0][b"__CRC32#"]
        found = crc_of(reader, record.pos, record.pos + record.total_size - PROPERTY_CRC_SIZE)
        if properties[low:high] != property_crc_digits(found):
            faults |= Fault.PROPERTY_CRC
    return faults


def crc_of(reader: FileReader, start: int, end: int) -> int:
    """CRC-32 without its top bit of the file's bytes `start:end`, read in chunks."""
    chunk = memoryview(bytearray(min(CHUNK_SIZE, end - start)))
    value = 0
    while start < end:
        view = chunk[: min(CHUNK_SIZE, end - start)]
        reader.read_into(view, start)
        value = zlib.crc32(view, value)
        start += len(view)
    return value & 0x7FFFFFFF
