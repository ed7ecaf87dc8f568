"""A commit log file as a broker walks it: batches of records that it accepts, then why it stopped.

The compiled scan does the bulk; a row that a broker may judge otherwise, and the place where the scan stops,
is judged by `read`. So is an entry of DLedger's without a record, which the scan passes over and no broker
does. Reference 2.14, 2.15, 6.2.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dledger import ENTRY_HEADER_SIZE
from rocketfsck.formats.magic import BORN_HOST_V6, MAGIC_V2, STORE_HOST_V6
from rocketfsck.formats.places import SYS_FLAG_AT
from rocketfsck.query.start.read import BrokerReading, Judged, Verdict, judge_place
from rocketfsck.scan.columns import Fault, RecordBatch, Trait, new_batch
from rocketfsck.scan.log.tiling import fill_batch, record_scanner
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.plain import records as plain
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.stops import Stop
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.reading import FileReader

IPV6_HOSTS = BORN_HOST_V6 | STORE_HOST_V6
_INT = struct.Struct(">i")


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
        self.batch = new_batch()
        self.options = ScanOptions(
            read_bodies=reading.check_crc,
            property_parser=reading.dialect.property_parser,
            index_tags=reading.dialect.tag_entries,
            in_entries=reading.in_entries,
        )

    def walk(
        self, reader: FileReader, pos: int, limit: int, base_offset: int
    ) -> Generator[RecordBatch, None, Ending]:
        """Yield the accepted records from file position `pos` on; the batch is always the same object.

        `limit` is where the broker's view of the file ends, `base_offset` the physical offset of the file's
        first byte. Raises StoreError when bytes cannot be read.
        """
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
        odd[:-1] &= lead[:-1] != ENTRY_HEADER_SIZE
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
            doubtful |= batch["magic_code"] == MAGIC_V2
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
        sys_flag = _INT.unpack_from(record, SYS_FLAG_AT)[0]
        _INT.pack_into(record, SYS_FLAG_AT, sys_flag & ~IPV6_HOSTS)
        self.batch.begin(0)
        data = np.frombuffer(bytes(record), np.uint8)
        plain.scan_records(data, 0, size, pos, base_offset, reader.size, self.options, self.batch, self.table)
