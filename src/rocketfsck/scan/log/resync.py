"""What lies between two runs of records: the rest of a commit log file in regions, up to the next record.

The judgements are those of the fault catalogue, C1 and C2; what is read is bounded by the window, and every
byte is looked at once by the walk and at most once here.

Record headers among arbitrary bytes: where may the log go on, where may a record begin?

    record := totalSize:i32 magic:i32 … physicalOffset:i64 …    the offset at byte 28 (reference 2.1)
    BLANK  := totalSize:i32 magic:i32                           (reference 2.2)

Records are not aligned (fault catalogue, C2), so every byte may be a header's first. NumPy compares bytes
block by block and reads a head only where two bytes of a magic code fit. Runs of such bytes, however chosen,
do not make it slow.

Regions: what every byte range of a commit log file is. Regions tile the file: no gap, no overlap.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import columns, dledger, dtypes, javatext
from rocketfsck.formats.magic import BLANK_HEADER_SIZE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE
from rocketfsck.scan.log.large import read_large_record
from rocketfsck.scan.options import Stop
from rocketfsck.scan.plain.entries import framed_size, is_entry_blank, record_pos
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.reading import FileReader


class RegionKind(StrEnum):
    """What a range of bytes is."""

    RECORDS = "records"  # records with sound frames, one after the other
    BLANK = "blank"  # the 8 bytes that end a completed file (reference 2.8)
    FILLER = "filler"  # what follows a BLANK: bytes without a meaning
    ZERO = "zero"
    MALFORMED = "malformed"  # framed by its totalSize (something sound follows it), wrong inside
    DAMAGED = "damaged"  # bytes that belong to nothing
    TORN = "torn"  # the start of a record, and nothing sound after it
    STALE = "stale"  # records of an earlier life of the log; never said by the scan, only by those who judge


class Reason(StrEnum):
    """Why a region is what it is; for RECORDS, why the run ended."""

    NONE = ""
    END = "end"  # the end of the file
    ZERO = "zero"
    BLANK = "blank"
    BLANK_SIZE = "blank-size"  # a BLANK whose totalSize is not what is left of the file
    MAGIC = "magic"
    SIZE = "size"
    LENGTHS = "lengths"
    BODY_LENGTH = "body-length"
    TOPIC_LENGTH = "topic-length"
    PROPERTIES_LENGTH = "properties-length"
    SHORT = "short"  # fewer bytes than a header takes
    CUT = "cut"  # the file ends before the record does
    GARBAGE = "garbage"  # bytes behind zeros that start no record


REASON_OF_STOP = {Stop.LIMIT: Reason.END, Stop.NEED_BYTES: Reason.CUT} | {
    stop: Reason[stop.name] for stop in Stop if stop.name in Reason.__members__
}
"""The others have the same names."""


@dataclass(frozen=True, slots=True)
class Region:
    """File positions `start:end`. `run` numbers the RECORDS regions of a file from 0 (-1 for other kinds)."""

    start: int
    end: int
    kind: RegionKind
    reason: Reason = Reason.NONE
    record_count: int = 0
    run: int = -1

    @property
    def size(self) -> int:
        return self.end - self.start


HEAD_SIZE = 8  # totalSize and magic
NOT_FOUND = -1

_FIRST_BLOCK, _LAST_BLOCK = 1 << 11, 1 << 16
_CODES = (MAGIC_V1, MAGIC_V2, MAGIC_BLANK)
_PAIRS = sorted({code.to_bytes(4, "big", signed=True)[:2] for code in _CODES})


def find_candidate(
    buffer: dtypes.Bytes,
    start: int,
    end: int,
    file_pos: int,
    base_offset: int,
    other_base: int,
    file_size: int,
    other_size: int,
) -> int:
    """The index in `buffer[start:end]` at which the log may continue, the first one, or NOT_FOUND.

    The log may continue at a record header whose totalSize fits the file and whose physicalOffset is its own
    place (a copy of a record inside a body has the original's), or a BLANK whose totalSize is exactly what is
    left.

    `file_pos` is the file position of `buffer[0]`. A physicalOffset counts from `base_offset` or
    `other_base` (what the records before counted from, where they disagree with the file's name). A BLANK
    ends at `file_size` or at `other_size`. A record header counts only if its 36 bytes are all inside
    `start:end`, a BLANK if its 8 are: to go on behind `end`, start again 35 bytes before it. Raises
    ValueError for a range outside the buffer.
    """
    bases = [javatext.int64(base + file_pos) for base in (base_offset, other_base)]
    for index, size, code in _heads(buffer, start, end):
        pos = index + file_pos
        good = (code == MAGIC_BLANK) & ((size == file_size - pos) | (size == other_size - pos))
        fits = (code != MAGIC_BLANK) & (size >= MIN_RECORD_SIZE) & (size <= file_size - pos)
        framed = np.flatnonzero(fits & (index + columns.HEADER_SIZE <= end))
        counted = _field(buffer, index[framed], columns.PHYSICAL_OFFSET_AT, ">i8") - index[framed]
        good[framed] = (counted == bases[0]) | (counted == bases[1])
        if good.any():
            return int(index[np.argmax(good)])
    return NOT_FOUND


def find_header(buffer: dtypes.Bytes, start: int, end: int, most: int) -> int:
    """The index of the first record header in `buffer[start:end]`, or NOT_FOUND.

    For bytes of which nothing is known: whether a record follows is for the scan of records to say. `most` is
    the largest totalSize of a record that would begin at index 0: one at index i may have i less. A header
    counts only if its 8 bytes are all inside `start:end`: to go on behind `end`, start again 7 bytes before
    it. Raises ValueError for a range outside the buffer.
    """
    for index, size, code in _heads(buffer, start, end):
        good: dtypes.Flags = (code != MAGIC_BLANK) & (size >= MIN_RECORD_SIZE) & (size <= most - index)
        if good.any():
            return int(index[np.argmax(good)])
    return NOT_FOUND


def _heads(
    buffer: dtypes.Bytes, start: int, end: int
) -> Iterator[tuple[dtypes.Longs, dtypes.Longs, dtypes.Longs]]:
    """The heads (totalSize and magic) in a range, block by block: their indexes, totalSizes and magics."""
    if not 0 <= start <= end <= buffer.size or buffer.ndim != 1:
        raise ValueError(f"bytes {start}:{end} of a buffer of {buffer.size}")
    low, block = start + 4, _FIRST_BLOCK
    while low + 4 <= end:
        part = buffer[low : min(low + block + 3, end)]
        first, second = part[:-3], part[1:-2]
        fits = np.zeros(len(first), np.bool_)
        for one, two in _PAIRS:
            fits |= (first == one) & (second == two)
        index = np.flatnonzero(fits) + (low - 4)
        if len(index):
            code = _field(buffer, index, 4, ">i4")
            is_code = (code == MAGIC_V1) | (code == MAGIC_V2) | (code == MAGIC_BLANK)
            index, code = index[is_code], code[is_code]
            yield index, _field(buffer, index, 0, ">i4"), code
        low += block
        block = min(4 * block, _LAST_BLOCK)


def _field(buffer: dtypes.Bytes, index: dtypes.Longs, pos: int, dtype: str) -> dtypes.Longs:
    """The numbers that are `pos` bytes after each index."""
    size = np.dtype(dtype).itemsize
    taken: NDArray[Any] = buffer[index[:, None] + np.arange(pos, pos + size)]
    return np.ascontiguousarray(taken).view(dtype)[:, 0].astype(np.int64)


_HEAD = struct.Struct(">ii")
_LONG = struct.Struct(">q")
_ZERO_BLOCK = 1 << 18
_MAGIC_BYTES = tuple(_HEAD.pack(0, magic)[4:] for magic in _CODES)


class Ground:
    """The bytes of a file that are not records. All positions are file positions."""

    def __init__(
        self,
        reader: FileReader,
        window: ReadAhead,
        base_offset: int,
        file_size: int,
        *,
        in_entries: bool = False,
    ) -> None:
        self.in_entries = in_entries
        self.reader = reader
        self.window = window
        self.base_offset = base_offset
        self.file_size = file_size
        self.size = reader.size

    def between(self, pos: int, stop: Stop, other_base: int) -> Iterator[Region]:
        """The regions from `pos`, where a run ended for `stop`, to the next record or the end of the file.

        `other_base` is what the records so far counted their physicalOffset from.
        """
        if stop == Stop.ZERO:
            return self._after_zero(pos, other_base)
        if stop == Stop.BLANK:
            return self._after_blank(pos, other_base)
        return self._after_damage(pos, REASON_OF_STOP[stop], other_base)

    def _after_zero(self, pos: int, other_base: int) -> Iterator[Region]:
        end = self.first_nonzero(pos)
        if end >= self.size:
            yield Region(pos, self.size, RegionKind.ZERO)
            return
        # a header starts with the zero bytes of its totalSize
        found = self.carve(max(pos, end - 3), other_base)
        end = min(self._header_at(pos, end), self.size if found is None else found)
        yield Region(pos, end, RegionKind.ZERO)
        if found is None:
            yield from self._to_the_end(end, self._last_nonzero(end), RegionKind.DAMAGED, Reason.GARBAGE)
        elif found > end:
            yield Region(end, found, RegionKind.DAMAGED, Reason.GARBAGE)

    def _header_at(self, pos: int, end: int) -> int:
        """Where a record's or BLANK's header begins whose first bytes are the last zeros before `end`, not in
        front of `pos`; `end` where the magic of none follows."""
        for start in range(max(pos, end - 3), end):
            if self.reader.read_upto(start + 4, 4) in _MAGIC_BYTES:
                return start
        return end

    def _after_blank(self, pos: int, other_base: int) -> Iterator[Region]:
        total_size, magic = _HEAD.unpack(self.reader.read(pos, BLANK_HEADER_SIZE))
        if self.in_entries and magic != MAGIC_BLANK:
            total_size = magic  # the words of DLedger's blank come the other way round
        fits = total_size in (self.size - pos, self.file_size - pos)
        filler = pos + BLANK_HEADER_SIZE
        found = None if fits else self.carve(filler, other_base)
        reason = Reason.NONE if fits else Reason.BLANK_SIZE
        end = self.size if found is None else found
        yield Region(pos, filler, RegionKind.BLANK, reason)
        if end > filler:
            yield Region(filler, end, RegionKind.FILLER, reason)

    def _after_damage(self, pos: int, reason: Reason, other_base: int) -> Iterator[Region]:
        entry = framed_size(self.reader, pos, self.base_offset, self.file_size) if self.in_entries else None
        if entry is not None and self._continues(pos + entry, other_base):
            yield Region(pos, pos + entry, RegionKind.MALFORMED, reason)
            return
        at = pos if entry is None else pos + dledger.ENTRY_HEADER_SIZE
        head = self.reader.read_upto(at, BLANK_HEADER_SIZE)
        if len(head) < BLANK_HEADER_SIZE and not any(head) and entry is None:
            # A short file may end anywhere in its zeros.
            yield Region(pos, self.size, RegionKind.ZERO)
            return
        total_size, magic_code = _HEAD.unpack(head) if len(head) == BLANK_HEADER_SIZE else (0, 0)
        framed_end = at + total_size if MIN_RECORD_SIZE <= total_size <= self.file_size - at else None
        found = self.carve(pos + 1, other_base)
        if found is not None:
            framed = framed_end is not None and self._continues(framed_end, other_base)
            if framed and framed_end is not None and not self._leads_to(found, framed_end):
                yield Region(pos, framed_end, RegionKind.MALFORMED, reason)
            else:
                yield Region(pos, found, RegionKind.DAMAGED, reason)
            return
        last = self._last_nonzero(pos)
        kind = RegionKind.DAMAGED
        if magic_code in (MAGIC_V1, MAGIC_V2):
            if framed_end is None or last <= framed_end:
                kind = RegionKind.TORN
                last = min(framed_end or last, self.size)
        elif last <= pos + BLANK_HEADER_SIZE and _starts_header(head):
            kind = RegionKind.TORN
        yield from self._to_the_end(pos, last, kind, reason)

    def _to_the_end(self, pos: int, last: int, kind: RegionKind, reason: Reason) -> Iterator[Region]:
        yield Region(pos, last, kind, reason)
        if last < self.size:
            yield Region(last, self.size, RegionKind.ZERO)

    def first_nonzero(self, pos: int) -> int:
        """The first byte from `pos` on that is not zero, else the file's size. Holes are not read."""
        window = self.window
        window.move_to(pos)
        while True:
            index = nonzero_index(window.buffer, window.start, window.end)
            window.start = index
            if index < window.end:
                return window.file_pos + index
            if not self._skip_hole() or not window.extend():
                return self.size

    def carve(self, pos: int, other_base: int) -> int | None:
        """The first position from `pos` on where the log continues."""
        window = self.window
        window.move_to(pos)
        while True:
            given = window.start, window.end, window.file_pos
            index = find_candidate(
                window.buffer, *given, self.base_offset, other_base, self.file_size, self.size
            )
            if index >= 0:
                window.start = index
                if self._continues(window.file_pos + index, other_base):
                    found = window.file_pos + index
                    entry = found - dledger.ENTRY_HEADER_SIZE
                    is_framed = self.in_entries and entry >= pos and self._continues(entry, other_base)
                    return entry if is_framed else found
                window.start = index + 1
                continue
            is_zero = nonzero_index(window.buffer, window.start, window.end) == window.end
            window.start = max(window.start, window.end - columns.HEADER_SIZE + 1)
            if (is_zero and not self._skip_hole()) or not window.extend():
                return None

    def _skip_hole(self) -> bool:
        """Move the window over a hole after its end; False if only a hole is left."""
        pos = self.window.window_end
        data = next(self.reader.data_extents(pos), None)
        if data is None:
            return False
        if data[0] > pos:
            self.window.move_to(data[0] - min(columns.HEADER_SIZE, data[0] - pos))
        return True

    def _continues(self, pos: int, other_base: int) -> bool:
        """Whether a sound record that knows its own place, or a BLANK that fits, is at `pos`."""
        if self.in_entries:
            if is_entry_blank(self.reader, pos, self.size, self.file_size):
                return True
            size = framed_size(self.reader, pos, self.base_offset, self.file_size)
            record = record_pos(self.reader, pos)
            if size is not None and record == pos:
                return True  # an entry without a record
            pos = record
        head = self.reader.read_upto(pos, columns.HEADER_SIZE)
        if len(head) < BLANK_HEADER_SIZE:
            return False
        total_size, magic_code = _HEAD.unpack_from(head)
        if magic_code == MAGIC_BLANK:
            return total_size in (self.size - pos, self.file_size - pos)
        places = (self.base_offset + pos, other_base + pos)
        if len(head) < columns.HEADER_SIZE:
            return False
        if _LONG.unpack_from(head, columns.PHYSICAL_OFFSET_AT)[0] not in places:
            return False
        return not isinstance(read_large_record(self.reader, pos, self.file_size), Stop)

    def _leads_to(self, pos: int, end: int) -> bool:
        """Whether the records from `pos` on end exactly at `end`: then a totalSize that leads there is the
        one that is wrong, and they are not part of its record's body."""
        while pos < end:
            record = read_large_record(self.reader, pos, self.file_size)
            if isinstance(record, Stop):
                return False
            pos += record.total_size
            if pos == end:
                return True
        return False

    def _last_nonzero(self, pos: int) -> int:
        """The position after the last byte that is not zero in the file from `pos` on (`pos` if none)."""
        last = pos
        chunk = np.empty(_ZERO_BLOCK, np.uint8)
        for start, end in reversed(list(self.reader.data_extents(pos))):
            while end > start:
                low = max(start, end - _ZERO_BLOCK)
                part = chunk[: end - low]
                self.reader.read_into(part.data, low)
                found = np.flatnonzero(part)
                if len(found):
                    return low + int(found[-1]) + 1
                end = low
        return last


def nonzero_index(buffer: NDArray[np.uint8], start: int, end: int) -> int:
    """The index of the first byte in `buffer[start:end]` that is not zero, else `end`."""
    block = 64
    while start < end:
        part = buffer[start : min(start + block, end)]
        if part.max():
            return start + int((part != 0).argmax())
        start += len(part)
        block = min(2 * block, _ZERO_BLOCK)  # few zeros are found quickly, many at full speed
    return end


def _starts_header(head: bytes) -> bool:
    """Whether these up to 8 bytes, zeros at their end cut off, are the start of a record's or BLANK's."""
    written = head.rstrip(b"\0")
    return any(magic.startswith(written[4:]) for magic in _MAGIC_BYTES)
