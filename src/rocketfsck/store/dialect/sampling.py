"""Takes a few hundred records out of a commitlog, for what they tell of the dialect.

Bounded whatever the store holds: at most SAMPLE_COUNT records from the start of the last and of the first
commitlog file with data, MAX_SAMPLE_SIZE bytes of each, and the records that the newest index entries point
at: they are the last that were written, where a file's first may be years older. A walk ends at the first
thing that is not a record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import Any

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import columns, dledger, indexfile, javatext, properties
from rocketfsck.formats.dialect import Dialect, has_trait, when
from rocketfsck.formats.magic import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE, is_indexed
from rocketfsck.formats.record import Record, decode_record, read_frame
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.model import ConsumeQueue, ExtQueue, IndexFile, MappedFile, Other, Store, StoreFile
from rocketfsck.store.reading import FileReader

SAMPLE_COUNT = 200
LAST_COUNT = 64
MAX_SAMPLE_SIZE = 4 << 20

_MAX_RECORD_SIZE = 256 << 10
LONG_SIZE = 512
"""The body of a record of so many bytes is stepped over."""
_FIRST_SIZE, _BUFFER_SIZE = 256, 16 << 10
"""Bytes of a walk's first read, and of that behind bytes stepped over; each further read is twice as long."""
_MAX_EMPTY_FILES = 4  # pre-allocated files behind the one being written, and some more
_FILLER_SIZE = 4096


@dataclass(frozen=True, slots=True)
class LogSample:
    """Records: `last` those that the newest index entries point at; `newest` and `oldest` from those files.

    Of a commitlog with one file there is only `newest`. `filler` is the start of the bytes behind the BLANK
    headers met. `entries` are physical offset and keyHash of the newest index entries.
    """

    last: tuple[Record, ...]
    newest: tuple[Record, ...]
    oldest: tuple[Record, ...]
    filler: bytes
    entries: frozenset[tuple[int, int]] = frozenset()


def sample_commitlog(files: Sequence[MappedFile], indexes: Sequence[IndexFile], slot_count: int) -> LogSample:
    """Records of the first and the last file with data; files that cannot be read are passed over."""
    last = next((file for file in files[: -_MAX_EMPTY_FILES - 1 : -1] if _has_data(file)), None)
    newest = _sample_file(last) if last is not None else ((), b"")
    oldest = _sample_file(files[0]) if files and files[0] is not last else ((), b"")
    entries = _last_entries(indexes, slot_count)
    pointed = tuple(records_at(files, sorted({offset for offset, _ in entries})))
    return LogSample(pointed, newest[0], oldest[0], newest[1] + oldest[1], entries)


def _last_entries(indexes: Sequence[IndexFile], slot_count: int) -> frozenset[tuple[int, int]]:
    """Physical offset and keyHash of the last entries of the last index file."""
    entries = newest_entries(indexes[-1], slot_count, LAST_COUNT) if indexes else ()
    return frozenset((offset, key_hash) for key_hash, offset, *_ in entries)


def newest_entries(file: IndexFile, slot_count: int, count: int) -> list[tuple[int, ...]]:
    """The last entries of an index file, at most so many; none where it cannot be read."""
    return entry_ranges(file, slot_count, lambda index_count: [(max(1, index_count - count), index_count)])[0]


def entry_ranges(
    file: IndexFile, slot_count: int, chosen: Callable[[int], list[tuple[int, int]]]
) -> list[list[tuple[int, ...]]]:
    """The entries of half-open ranges, which are `chosen` by the indexCount, of an index file; none where it
    cannot be read."""
    size = indexfile.ENTRY_SIZE
    try:
        with FileReader(file.location) as reader:
            index_count = indexfile.decode_header(reader.read(0, indexfile.INDEX_HEADER_SIZE)).index_count
            parts = [
                reader.read_upto(indexfile.entry_pos(first, slot_count), size * max(0, end - first))
                for first, end in chosen(index_count)
            ]
    except StoreError:
        return [[]]
    unpack = indexfile.ENTRY.packer().iter_unpack
    return [list(unpack(data[: len(data) // size * size])) for data in parts]


def records_at(files: Sequence[MappedFile], offsets: Sequence[int]) -> Iterator[Record]:
    """The records at these physical offsets, as far as there are any; offsets ascend."""
    starts = [file.start_offset or 0 for file in files]
    for number, group in groupby(offsets, lambda offset: bisect_right(starts, offset) - 1):
        if number < 0:
            continue
        with suppress(StoreError), FileReader(files[number].location) as reader:
            for offset in group:
                record = _record_at(reader, offset - starts[number])
                if record is not None and record.physical_offset == offset:
                    yield record


def _record_at(reader: FileReader, pos: int) -> Record | None:
    """The record at a position, if one of a moderate size is there."""
    head = reader.read_upto(pos, 8)
    size = read_frame(head)[0] if len(head) == 8 else 0
    if not MIN_RECORD_SIZE <= size <= _MAX_RECORD_SIZE:
        return None
    try:
        return decode_record(_without_body(reader.read_upto, pos, size))
    except FormatError:
        return None


def _without_body(read: Callable[[int, int], bytes], pos: int, size: int) -> bytes:
    """The bytes of the record of `size` bytes at a position; zeros for a long body, which nobody here wants.

    Lengths that do not fit each other give what no record is.
    """
    if size < LONG_SIZE:
        return read(pos, size)
    head = read(pos, columns.MAX_BODY_AT)
    body_at = columns.body_place(int.from_bytes(head[columns.SYS_FLAG_AT : columns.SYS_FLAG_AT + 4], "big"))
    head = head[:body_at]
    body_length = max(int.from_bytes(head[-4:], "big", signed=True), 0)
    rest = read(pos + body_at + body_length, max(size - body_at - body_length, 0))
    return head + bytes(min(body_length, size)) + rest


def _has_data(file: MappedFile) -> bool:
    with suppress(StoreError), FileReader(file.location) as reader:
        return any(reader.read_upto(0, 8))
    return False


def _sample_file(file: MappedFile) -> tuple[tuple[Record, ...], bytes]:
    with suppress(StoreError), FileReader(file.location) as reader:
        walk = _Walk(reader, in_entries=file.in_entries)
        return tuple(walk.records()), walk.filler
    return (), b""


class _Walk:
    """One walk from the start of a file."""

    def __init__(self, reader: FileReader, *, in_entries: bool) -> None:
        self.reader = reader
        self.in_entries = in_entries
        self.filler = b""
        self._budget = MAX_SAMPLE_SIZE
        self._buffer = b""
        self._start = 0
        self._read_size = _FIRST_SIZE

    def records(self) -> Iterator[Record]:
        """Up to SAMPLE_COUNT records; large ones are stepped over. Raises StoreError like the reader."""
        pos = found = 0
        while found < SAMPLE_COUNT:
            head = self._bytes(pos, 8)
            if len(head) < 8:
                return
            size, magic = read_frame(head)
            if self.in_entries and size == dledger.MAGIC_NORMAL:
                pos += dledger.ENTRY_HEADER_SIZE
                head = self._bytes(pos, 8)
                if len(head) < 8:
                    return
                size, magic = read_frame(head)
            if magic == MAGIC_BLANK:
                self.filler = self._bytes(pos + 8, min(_FILLER_SIZE, max(0, size - 8)))
                return
            if magic not in (MAGIC_V1, MAGIC_V2) or size < MIN_RECORD_SIZE:
                return
            if size <= _MAX_RECORD_SIZE:
                try:
                    yield decode_record(_without_body(self._bytes, pos, size))
                except FormatError:
                    return
            found += 1
            pos += size

    def _bytes(self, pos: int, size: int) -> bytes:
        """`pos:pos + size` of the file, shorter at its end and when enough has been read."""
        offset = pos - self._start
        if offset + size > len(self._buffer):
            continues = offset <= len(self._buffer)
            self._read_size = min(2 * self._read_size, _BUFFER_SIZE) if continues else _FIRST_SIZE
            wanted = min(max(size, self._read_size), self._budget)
            self._buffer, self._start, offset = self.reader.read_upto(pos, wanted), pos, 0
            self._budget -= len(self._buffer)
        return self._buffer[offset : offset + size]


def count_tagged(
    records: Sequence[Record], entries: Iterable[tuple[int, int]], parser: properties.Parser
) -> tuple[int, int]:
    """How many of these records have tags to be indexed, and how many of those an entry for them.

    `entries` are physical offset and keyHash of index entries; those of the first and the last record may be
    cut off, so that these two records do not count.
    """
    known = set(entries)
    wanted = [
        (record.physical_offset, javatext.tag_index_hash(javatext.java_decode(record.topic), tags))
        for record in records[1:-1]
        if is_indexed(record.sys_flag)
        and (tags := (properties.parse_properties(record.properties, parser) or {}).get(properties.TAGS))
    ]
    return len(wanted), sum(pair in known for pair in wanted)


def lacks_tags(store: Store, file: IndexFile) -> bool:
    """Whether records at either end of an index file have tags and no entry for them.

    No more is looked at: brokers change with a restart, and seldom twice within a file.
    """

    def ends(index_count: int) -> list[tuple[int, int]]:
        firsts = {1, max(1, index_count - LAST_COUNT)}
        return [(first, min(first + LAST_COUNT, index_count)) for first in firsts]

    for rows in entry_ranges(file, store.geometry.slot_count, ends):
        entries = [(offset, key_hash) for key_hash, offset, *_ in rows]
        records = list(records_at(store.commitlog.files, sorted({offset for offset, _ in entries})))
        wanted, met = count_tagged(records, entries, store.dialect.property_parser)
        if met < wanted:
            return True
    return False


# What a clue to the dialect is, and what clues are looked for in.


class Weight(IntEnum):
    """How much a clue counts; smaller is more."""

    NEWEST = 0  # in the newest data
    PRESENT = 1  # somewhere in the store; a broker that was downgraded leaves it behind
    ABSENT = 2  # something that newer versions would have left is missing
    CLIENT = 3  # usual from some broker version on, but a client can send the same through an older one
    HINT = 4  # fits every version; worth saying


@dataclass(frozen=True, slots=True)
class Clue:
    """Something found (`what`), what follows (`why`), and the values of traits that it shows.

    A clue fits a dialect that has all these values; with `lacks`, one that does not have them all.
    """

    weight: Weight
    what: str
    why: str
    shows: tuple[tuple[str, Any], ...]
    lacks: bool = False

    def fits(self, dialect: Dialect) -> bool:
        return all(has_trait(dialect, *shown) for shown in self.shows) != self.lacks


def clue(weight: Weight, what: str, said: str, trait: str, value: Any = True, *, lacks: bool = False) -> Clue:
    """A clue to one trait: why is what is `said`, and when brokers have had this value."""
    return Clue(weight, what, f"{said} {when(trait, value)}", ((trait, value),), lacks)


@dataclass(frozen=True, slots=True)
class Samples:
    """The parts of a store that clues are looked for in."""

    sample: LogSample
    queues: Sequence[ConsumeQueue]
    ext_queues: Sequence[ExtQueue]
    indexes: Sequence[IndexFile]
    geometry: Geometry
    checkpoint: StoreFile | None
    abort: StoreFile | None
    lock: StoreFile | None
    configs: Sequence[StoreFile]
    others: Sequence[Other]
