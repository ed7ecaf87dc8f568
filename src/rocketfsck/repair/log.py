"""Edits of the commit log: fences over ranges that hold no record, BLANKs, what is cut kept, the log's end.

A fence has one filler record for every unit that points into the range, of that unit's own length, so that
a reader who follows the unit finds a record there; what lies between is filled with the fewest records.
Reference 2.8, 2.15, 6.2.

The valid records in a part of the commit log that is to go, queue by queue, with units or without.

A record is valid if its frame is sound and its checksums fit, as in the ledger. Reference 2.1, 2.6, 6.6.

Fences: valid records that fill a range of the commit log which holds none, so that readers walk over it.

    fence := record+    sysFlag 0x00C (rollback), queueOffset 0, body of zeros, at their own physicalOffset

Every version's `checkMessageAndReturnSize` takes them (reference 2.15): frame, lengths and body CRC are
right, and so is the property CRC where the version has one. No dispatcher puts a rollback into a consume
queue or the index (reference 8), so brokers serve only what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from rocketfsck.common.wording import count_of
from rocketfsck.errors import UsageError
from rocketfsck.formats import magic
from rocketfsck.formats.dialect import dialect_for, versions_with
from rocketfsck.formats.dtypes import Longs
from rocketfsck.formats.javatext import java_decode
from rocketfsck.formats.properties import CRC32, PROPERTY_CRC_SIZE, property_crc, property_crc_trailer
from rocketfsck.formats.record import Host, encode_record, make_record
from rocketfsck.reader.units import OffsetSearch, UnitReader, Units
from rocketfsck.repair.area.worktree import WorkTree
from rocketfsck.repair.plan.model import Loss
from rocketfsck.scan.columns import Fault, RecordBatch
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.spans import distinct
from rocketfsck.store.model import ConsumeQueue, MappedFile, Store
from rocketfsck.store.reading import FileReader

RECORD_SIZE_LIMIT = 128 << 10
"""Bytes of the largest filler record: below every maxMessageSize in use (4 MiB is the default, 2.9)."""

NO_HOST = Host(bytes(4), 0)


def min_filler_size(*, property_crc: bool = False) -> int:
    """The smallest range in bytes that can be filled: a record with a topic of one letter.

    `property_crc`: its property CRC, 20 bytes more, must be there.
    """
    return magic.MIN_RECORD_SIZE + 1 + (PROPERTY_CRC_SIZE if property_crc else 0)


def filler_records(
    start_offset: int,
    size: int,
    *,
    version: str,
    store_timestamp: int,
    store_host: Host = NO_HOST,
    property_crc: bool | None = None,
    record_size_limit: int = RECORD_SIZE_LIMIT,
) -> Iterator[bytes]:
    """The records, one by one, that fill exactly `size` bytes from the physical offset `start_offset` on.

    `store_timestamp` (ms) should be that of the record before: recovery chooses its first file by that of
    the file's first record, so it must not be 0. `property_crc`: True writes it in every record, False in
    none; None writes it where the version knows it (5.2.0+) and the range has room for it, as a broker with
    forceVerifyPropCRC demands. `record_size_limit` is in bytes. A size of 0 gives no records. Raises
    UsageError, before the first record, for a size that cannot be filled, a negative offset, a
    storeTimestamp that is not positive and a property CRC that the version does not have. Reference 2.15,
    6.4, 8.
    """
    dialect = dialect_for(version)
    if property_crc and not dialect.property_crc:
        first = versions_with(property_crc=True)[0]
        raise UsageError(f"{version} has no property CRC: it came with {first}")
    if start_offset < 0 or store_timestamp <= 0:
        raise UsageError(f"a fence at offset {start_offset} with storeTimestamp {store_timestamp}")
    least = min_filler_size(property_crc=bool(property_crc))
    if size < 0 or 0 < size < least:
        raise UsageError(
            f"{count_of(size, 'byte')} cannot hold a filler record: the smallest needs {least:,}"
        )
    if record_size_limit < 2 * least:
        raise UsageError(
            f"filler records of at most {count_of(record_size_limit, 'byte')}: the minimum is {2 * least:,}"
        )
    if property_crc is None:
        property_crc = dialect.property_crc and size >= min_filler_size(property_crc=True)
    return _records(start_offset, size, store_timestamp, store_host, property_crc, record_size_limit)


def _records(
    offset: int, size: int, store_timestamp: int, store_host: Host, with_crc: bool, limit: int
) -> Iterator[bytes]:
    count = -(-size // limit)
    for number in range(count):
        # parts as equal as they can be: none of them is smaller than half the limit, so each can be filled
        part_size = size // count + (number < size % count)
        yield _record(offset, part_size, store_timestamp, store_host, with_crc)
        offset += part_size


def _record(offset: int, size: int, store_timestamp: int, store_host: Host, with_crc: bool) -> bytes:
    room = size - magic.MIN_RECORD_SIZE - (PROPERTY_CRC_SIZE if with_crc else 0)
    if len(store_host.address) == 16 and room <= 12:
        store_host = NO_HOST
    room -= len(store_host.address) - 4
    topic = magic.FENCE_TOPIC[:room]
    body = bytes(room - len(topic))
    flag = 0
    while True:
        record = encode_record(
            make_record(
                topic=topic,
                queue_id=0,
                queue_offset=0,
                physical_offset=offset,
                born_timestamp=store_timestamp,
                born_host=NO_HOST,
                store_timestamp=store_timestamp,
                store_host=store_host,
                body=body,
                properties=bytes(PROPERTY_CRC_SIZE) if with_crc else b"",
                flag=flag,
                sys_flag=magic.TRANSACTION_ROLLBACK,
            )
        )
        if not with_crc:
            return record
        crc = property_crc(record)
        if crc:
            return record[:-PROPERTY_CRC_SIZE] + property_crc_trailer(crc)
        flag += 1  # 5.2.0 to 5.3.1 refuse a CRC of 0 (2.7); nobody reads this field


COPY_SIZE = 1 << 20
TOGETHER = 1 << 18
"""Units of a queue that are read together."""
KNOWN_FILLERS = 4096
LARGEST_FRAME = (4 << 20) + (128 << 10)
"""Bytes of the longest record that a unit is believed to lead to: the default limits (reference 2.9)."""
PHYSICAL_OFFSET_POS = 28
"""Where the field is in a record (reference 2.1)."""
_KNOWN_SIZE = 1 << 16
_EDGE_SIZE = 256
"""More than a filler record has before and after its body of zeros."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The last live record: where it starts, where it ends (physical offsets), its storeTimestamp (ms)."""

    record_offset: int
    end_offset: int
    store_timestamp: int


@dataclass(frozen=True, slots=True)
class QueueFrames:
    """The units of one queue that point into a range: their indexes (queue offsets, but for a batch queue),
    offsets and sizes."""

    queue: ConsumeQueue
    index: Longs
    offset: Longs
    size: Longs


def live_rows(store: Store, file: MappedFile, table: QueueTable | None = None) -> Iterator[RecordBatch]:
    """The batches of a commit log file's live records; `table` takes their queues. Raises StoreError."""
    options = log_options(store, file, read_bodies=False)
    with FileReader(file.path) as reader:
        queues = QueueTable() if table is None else table
        yield from LiveScan().batches(reader, file.start_offset or 0, options, queues)


def read_log_end(store: Store) -> LogEnd | None:
    """The end of the live log; None for a log without records. Raises StoreError."""
    return last_records_before(store, [np.iinfo(np.int64).max])[0]


def last_records_before(store: Store, offsets: Sequence[int]) -> list[LogEnd | None]:
    """The last live record that starts before each of several rising physical offsets. Raises StoreError."""
    limits, found = np.array(offsets, np.int64), np.full((len(offsets), 3), -1, np.int64)
    for file in reversed(store.commitlog.files):
        base = file.start_offset
        if base is None:
            continue
        wanted = np.flatnonzero((found[:, 0] < 0) & (limits > base))
        if not len(wanted):
            continue
        for batch in live_rows(store, file):
            starts = batch["pos"] + base
            counts = np.searchsorted(starts, limits[wanted])
            row = counts[counts > 0] - 1
            ends = starts[row] + batch["total_size"][row]
            found[wanted[counts > 0]] = np.column_stack((starts[row], ends, batch["store_timestamp"][row]))
            if counts[-1] < len(starts):
                break
    return [LogEnd(*row) if row[0] >= 0 else None for row in found.tolist()]


def first_record_of(store: Store, file: MappedFile) -> LogEnd | None:
    """The first live record of a commit log file; None for none. Raises StoreError."""
    for batch in live_rows(store, file):
        start = int(batch["pos"][0]) + (file.start_offset or 0)
        return LogEnd(start, start + int(batch["total_size"][0]), int(batch["store_timestamp"][0]))
    return None


def first_record(store: Store) -> LogEnd | None:
    """The first live record of the log; None for a log without any. Raises StoreError."""
    found = (first_record_of(store, file) for file in store.commitlog.files)
    return next((record for record in found if record is not None), None)


def times_at(store: Store, offsets: Sequence[int]) -> list[int]:
    """The storeTimestamp (ms) that a fence at each of several rising offsets should have: that of the record
    before it, else of the log's first; 1 in a log without records. Raises StoreError."""
    before = last_records_before(store, offsets)
    near = first_record(store) if None in before else None
    return [max(record.store_timestamp, 1) if record else 1 for record in (item or near for item in before)]


def frames_in(store: Store, start: int, end: int) -> list[QueueFrames]:
    """The units that point into physical offsets `start:end`, queue by queue. Trusts that offsets rise.

    Raises StoreError.
    """
    return frames_in_each(store, [(start, end)])[0]


def frames_in_each(store: Store, spans: Sequence[tuple[int, int]]) -> list[list[QueueFrames]]:
    """`frames_in` of each of several ranges: every queue is opened once."""
    found: list[list[QueueFrames]] = [[] for _ in spans]
    if not spans:
        return found
    starts, ends = np.array(spans, np.int64).T
    for queue in store.queues:
        if not queue.files:
            continue
        with UnitReader(queue) as reader:
            search = OffsetSearch(reader)
            first, behind = search.find(int(starts.min())), search.find(int(ends.max()))
            parts: dict[int, list[tuple[Longs, Longs, Longs]]] = {}
            for index, span, units in _units_in(reader, search, first, behind, starts, ends):
                low, high = spans[span]
                offset, size = units["offset"].astype(np.int64), units["size"].astype(np.int64)
                rows = np.flatnonzero((offset >= low) & (offset < high) & (size > 0))
                if len(rows):
                    parts.setdefault(span, []).append((rows + index, offset[rows], size[rows]))
            for span, columns in parts.items():
                found[span].append(QueueFrames(queue, *map(np.concatenate, zip(*columns, strict=True))))
    return found


def _units_in(
    reader: UnitReader, search: OffsetSearch, first: int, behind: int, starts: Longs, ends: Longs
) -> Iterator[tuple[int, int, Units]]:
    """The units `first:behind` that may point into each range: index of the first, number of the range,
    units. Few are read together, of many only those that a search finds, at most `TOGETHER` at once."""
    if behind - first > TOGETHER:
        bounds = [(search.find(low), search.find(high)) for low, high in zip(starts, ends, strict=True)]
        for span, (low, high) in enumerate(bounds):
            for index, count in _blocks(reader, low, high):
                yield index, span, reader.units(index, count)
        return
    if first >= behind:
        return
    units = reader.units(first, behind - first)
    offsets = np.where(units["size"] > 0, units["offset"], np.iinfo(np.int64).max).astype(np.int64)
    lows, highs = np.searchsorted(offsets, starts), np.searchsorted(offsets, ends)
    for span in np.flatnonzero(lows < highs).tolist():
        low, high = int(lows[span]), int(highs[span])
        yield first + low, span, units[low:high]


def _blocks(reader: UnitReader, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Index and count of units in `low:high`, without those in holes, which point to no record."""
    for start, end in reader.with_data(low, high):
        low = max(start, low)  # a unit in which one extent ends and the next begins comes once
        while low < end:
            count = min(TOGETHER, end - low)
            yield low, count
            low += count


def losses_of(frames: Iterable[QueueFrames], kept_in: str = "") -> list[Loss]:
    """The records that units say were in a range, by queue."""
    return [
        Loss(
            "record",
            len(item.offset),
            item.queue.topic,
            item.queue.queue_id,
            int(item.index[0]),
            int(item.index[-1]),
            int(item.offset.min()),
            int((item.offset + item.size).max()),
            kept_in,
        )
        for item in frames
    ]


def fence_parts(frames: Iterable[QueueFrames], start: int, end: int, least: int) -> list[tuple[int, int]]:
    """How `start:end` is divided into filler records' places: none is smaller than `least`.

    The ranges of the units' records are kept whole where they fit and do not overlap.
    """
    bounds = {start, end}
    reached = start
    ranges = sorted(
        {
            (int(offset), int(offset) + int(size))
            for item in frames
            for offset, size in zip(item.offset.tolist(), item.size.tolist(), strict=True)
        }
    )
    for low, high in ranges:
        room_before = low - reached
        if low < reached or high > end or high - low < least or 0 < room_before < least:
            continue
        if 0 < end - high < least:
            continue
        bounds |= {low, high}
        reached = high
    return list(pairwise(sorted(bounds)))


def is_fenceable(size: int) -> bool:
    """Whether a range of this many bytes can hold a filler record."""
    return size >= min_filler_size()


def write_fence(
    tree: WorkTree,
    frames: Iterable[QueueFrames],
    file: MappedFile,
    start: int,
    end: int,
    *,
    version: str,
    timestamp: int,
) -> None:
    """Fill the physical offsets `start:end` of a commit log file with filler records.

    `frames` are those of the tree's store in its present state. Raises StoreError, and UsageError for a range
    that is too small.
    """
    base = file.start_offset or 0
    parts = fence_parts(frames, start, end, min_filler_size())
    tree.zero(file.relative, start - base, end - base)
    pending, pending_pos = bytearray(), start - base
    fillers = Fillers(version, timestamp)
    for low, high in parts:
        for record in fillers.fill(low, high - low):
            pending += record
            if len(pending) >= 2 * _EDGE_SIZE:
                _write_around_zeros(tree.write, file.relative, pending_pos, bytes(pending))
                pending_pos += len(pending)
                pending.clear()
    if pending:
        tree.write(file.relative, pending_pos, bytes(pending))


class Fillers:
    """Filler records. Those of one size differ in their place alone, which is written into a known one."""

    def __init__(self, version: str, timestamp: int) -> None:
        self.version = version
        self.timestamp = timestamp
        self._known: dict[int, bytes] = {}

    def fill(self, offset: int, size: int) -> Iterator[bytes]:
        """The records that fill `size` bytes from a physical offset on: one, unless it would be too long."""
        if size > LARGEST_FRAME:
            yield from self._built(offset, size, RECORD_SIZE_LIMIT)
            return
        known = self._known.get(size)
        if known is None:
            [known] = self._built(offset, size, max(RECORD_SIZE_LIMIT, size))
            if len(self._known) < KNOWN_FILLERS and size <= _KNOWN_SIZE:
                self._known[size] = known
        record = known[:PHYSICAL_OFFSET_POS] + offset.to_bytes(8, "big") + known[PHYSICAL_OFFSET_POS + 8 :]
        if record != known and known[-PROPERTY_CRC_SIZE:].startswith(CRC32.encode()):
            crc = property_crc(record)
            if not crc:  # some versions refuse a CRC of 0
                [record] = self._built(offset, size, max(RECORD_SIZE_LIMIT, size))
            else:
                record = record[:-PROPERTY_CRC_SIZE] + property_crc_trailer(crc)
        yield record

    def _built(self, offset: int, size: int, limit: int) -> Iterator[bytes]:
        return filler_records(
            offset, size, version=self.version, store_timestamp=self.timestamp, record_size_limit=limit
        )


def _write_around_zeros(write: Callable[[str, int, bytes], None], file: str, pos: int, data: bytes) -> None:
    """Write what begins and ends a stretch; a long run of zeros in it stays the hole that it is."""
    head, tail = data[:-_EDGE_SIZE], data[-_EDGE_SIZE:]
    kept = len(head.rstrip(b"\0"))
    if len(head) - kept < COPY_SIZE >> 6:
        write(file, pos, data)
        return
    write(file, pos, head[:kept])
    write(file, pos + len(head), tail)


def blank_bytes(left: int) -> bytes:
    """The BLANK that says `left` bytes of its file, itself included, hold nothing."""
    return left.to_bytes(4, "big", signed=True) + magic.MAGIC_BLANK.to_bytes(4, "big", signed=True)


def write_blank(tree: WorkTree, file: str, pos: int) -> None:
    """End a commit log file with a BLANK at a position that leaves room for it. Raises StoreError."""
    tree.write(file, pos, blank_bytes(tree.size(file) - pos))


def blank_pos_of(size: int) -> int:
    """The last position in a file of this size at which a BLANK can stand."""
    return size - magic.BLANK_HEADER_SIZE


def keep_bytes(tree: WorkTree, file: str, *spans: tuple[int, int]) -> str:
    """Set a copy of ranges of a file aside, before they are overwritten; "" if they are all zeros.

    The copy has the bytes at their own positions less that of the first; zeros are holes. Returns its name
    there.
    """
    first, last = spans[0][0], spans[-1][1]
    name = f"{file}.bytes-{first}-{last}"
    made = False
    with FileReader(tree.place(file)) as reader:
        for start, end in spans:
            for pos, data in reader.data_chunks(start, min(end, reader.size)):
                if any(data):
                    if not made:
                        tree.create(name, last - first)
                        made = True
                    tree.write(name, pos - first, data)
    return tree.set_aside(name) if made else ""


_BAD = int(Fault.BODY_CRC | Fault.PROPERTY_CRC)


@dataclass(frozen=True, slots=True)
class LostRecords:
    """The records of one queue that go: the loss to be named, and where they start (physical offsets)."""

    loss: Loss
    offsets: Longs


def lost_records(store: Store, file: MappedFile, start: int, kept_in: str) -> list[LostRecords]:
    """The valid records of a commit log file from position `start` on, by queue. Raises StoreError."""
    base, table = file.start_offset or 0, QueueTable()
    parts: dict[int, list[tuple[Longs, Longs, Longs]]] = {}
    options = log_options(store, file, read_bodies=True)
    with FileReader(file.path) as reader:
        for batch in scan_log_file(reader, base, options, table):
            if not isinstance(batch, RecordBatch):
                continue
            good = (batch["pos"] >= start) & ((batch["faults"] & _BAD) == 0)
            for number in distinct(batch["queue_index"][good]).tolist():
                rows = np.flatnonzero(good & (batch["queue_index"] == number))
                offset = batch["pos"][rows].astype(np.int64) + base
                size = batch["total_size"][rows].astype(np.int64)
                index = batch["queue_offset"][rows].astype(np.int64)
                parts.setdefault(number, []).append((offset, offset + size, index))
    return [_lost(table, number, found, kept_in) for number, found in sorted(parts.items())]


def _lost(
    table: QueueTable, number: int, parts: Sequence[tuple[Longs, Longs, Longs]], kept_in: str
) -> LostRecords:
    offset, end, index = (np.concatenate(column) for column in zip(*parts, strict=True))
    raw, queue_id = table.names[number] if number >= 0 else (None, None)
    loss = Loss(
        "record",
        len(offset),
        None if raw is None else java_decode(raw),
        queue_id,
        None if raw is None else int(index.min()),
        None if raw is None else int(index.max()),
        int(offset.min()),
        int(end.max()),
        kept_in,
    )
    return LostRecords(loss, offset)


def without_records(frames: Iterable[QueueFrames], records: Sequence[LostRecords]) -> list[QueueFrames]:
    """What units say was there, less the records that are named already."""
    known = np.concatenate([np.empty(0, np.int64), *(item.offsets for item in records)])
    left = []
    for item in frames:
        rows = np.flatnonzero(~np.isin(item.offset, known))
        if len(rows):
            left.append(replace(item, index=item.index[rows], offset=item.offset[rows], size=item.size[rows]))
    return left
