"""The records of two logs against each other, group of files by group: what a kernel of a comparison does.

    file -> carve -> records in bytes that are not the same -> match by physical offset and bytes

Records in bytes that are the same on both sides are dropped as they are met, so memory is some 300 bytes for
each record that differs in the files under way.

The bytes of two logs against each other: blocks of the common range that are not the same.

    group := files of both sides whose ranges overlap, however the files of each are cut
    chunk := a part of a range that is in one file on both sides; what a kernel compares

Equal blocks are skipped at the speed of reading; who looks at records looks only where blocks differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import UsageError
from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.formats.javatext import INT64_MAX
from rocketfsck.progress import moved_to, part
from rocketfsck.repair.carve.carve import COLUMNS, CarvedRecords, carved_rows
from rocketfsck.repair.salvage.choose import takes_queue_offset
from rocketfsck.scan.columns import Fault, new_batch
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.spans import distinct
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.openfiles import Readers
from rocketfsck.store.reading import FileReader

BLOCK_SIZE = 1 << 20
CHUNK_SIZE = 128 * BLOCK_SIZE
NOWHERE = INT64_MAX

Part = tuple[int, int]
"""Physical offsets, half-open."""

Files = tuple[MappedFile, ...]


def files_of(store: Store) -> Files:
    """The commit log files of a store that have a place and bytes."""
    return tuple(file for file in store.commitlog.files if file.start_offset is not None and file.size)


def range_of(file: MappedFile) -> Part:
    """The physical offsets of a file."""
    start = file.start_offset or 0
    return start, start + file.size


def group_files(a: Sequence[MappedFile], b: Sequence[MappedFile]) -> list[tuple[Files, Files]]:
    """The groups, in the order of their offsets. No record is in two of them, and none has half of a file."""
    listed = sorted(
        ((file, side) for side, files in enumerate((a, b)) for file in files),
        key=lambda item: (item[0].start_offset or 0, item[1]),
    )
    groups: list[tuple[list[MappedFile], list[MappedFile]]] = []
    reached = -1
    for file, side in listed:
        start, end = range_of(file)
        if not groups or start >= reached:
            groups.append(([], []))
        groups[-1][side].append(file)
        reached = max(reached, end)
    return [(tuple(first), tuple(second)) for first, second in groups]


class LogBytes(Readers):
    """The bytes of a commit log by physical offset. A context manager; one file is open at a time."""

    __slots__ = ("files",)

    def __init__(self, files: Sequence[MappedFile]) -> None:
        super().__init__(1)
        self.files = files

    def ranges(self) -> list[Part]:
        """The physical offsets of the files, half-open."""
        return [range_of(file) for file in self.files]

    def reader_at(self, offset: int) -> tuple[FileReader, int]:
        """The file that holds an offset (which it must), and where it begins."""
        for file in self.files:
            start, end = range_of(file)
            if start <= offset < end:
                return self.opened(file.location), start
        raise UsageError(f"the commit log has no file with the offset {offset}")

    def read_into(self, view: memoryview, offset: int) -> None:
        """Fill `view` with the bytes from an offset on, all of one file."""
        reader, start = self.reader_at(offset)
        reader.read_into(view, offset - start)


def shared_parts(a: Sequence[MappedFile], b: Sequence[MappedFile], low: int, high: int) -> list[Part]:
    """The parts of `low:high` that lie in one file on both sides each."""
    parts = []
    for mine in a:
        for other in b:
            start = max(mine.start_offset or 0, other.start_offset or 0, low)
            end = min(range_of(mine)[1], range_of(other)[1], high)
            if start < end:
                parts.append((start, end))
    return sorted(parts)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Physical offsets `start:end` that files of both sides hold; `group` is the number of their group."""

    a: Files
    b: Files
    start: int
    end: int
    group: int


@dataclass(frozen=True, slots=True)
class Unlike:
    """The offsets of the blocks of a chunk that are not the same, and how many bytes differ."""

    starts: Longs
    size: int


def chunks_of(a: Files, b: Files, shared: Iterable[Part], group: int) -> list[Chunk]:
    """The shared parts of a group in chunks; a block of a part is never in two of them."""
    return [
        Chunk(a, b, offset, min(offset + CHUNK_SIZE, end), group)
        for start, end in shared
        for offset in range(start, end, CHUNK_SIZE)
    ]


def find_unlike_blocks(chunk: Chunk) -> Unlike:
    """Compare the bytes of a chunk, block by block. Raises StoreError."""
    starts: list[int] = []
    unlike_byte_count = 0
    buffers = [np.empty(BLOCK_SIZE, np.uint8) for _ in (chunk.a, chunk.b)]
    with (
        part(chunk.end - chunk.start, start=chunk.start),
        LogBytes(chunk.a) as log_a,
        LogBytes(chunk.b) as log_b,
    ):
        for offset in range(chunk.start, chunk.end, BLOCK_SIZE):
            moved_to(offset)
            size = min(BLOCK_SIZE, chunk.end - offset)
            views = [buffer[:size] for buffer in buffers]
            log_a.read_into(views[0].data, offset)
            log_b.read_into(views[1].data, offset)
            if not np.array_equal(views[0], views[1]):
                starts.append(offset)
                unlike_byte_count += int(np.count_nonzero(views[0] != views[1]))
    return Unlike(np.array(starts, np.int64), unlike_byte_count)


def is_covered(start: int, end: int, covered: Iterable[Part]) -> bool:
    """Whether these parts, in order, cover the whole range."""
    for low, high in covered:
        if low <= start < high:
            start = high
    return start >= end


def any_in(unlike: Longs, start: int, end: int) -> bool:
    """Whether a block that is not the same reaches into the range."""
    at = int(np.searchsorted(unlike, start - BLOCK_SIZE, side="right"))
    return at < len(unlike) and int(unlike[at]) < end


def are_proven(start: Longs, end: Longs, shared: Sequence[Part], unlike: Longs) -> Flags:
    """Which ranges lie in bytes that are the same on both sides."""
    parts = np.array([*shared, (NOWHERE, NOWHERE)], np.int64)
    at = np.maximum(np.searchsorted(parts[:, 0], start, side="right") - 1, 0)
    inside: Flags = (parts[at, 0] <= start) & (end <= parts[at, 1])
    near = np.searchsorted(unlike, start - BLOCK_SIZE, side="right")
    proven: Flags = inside & (np.append(unlike, NOWHERE)[near] >= end)
    return proven


def left_in_file(log: LogBytes, offset: int) -> int:
    """How many bytes the file that holds an offset has from there on."""
    return next((end - offset for start, end in log.ranges() if start <= offset < end), 0)


SIDES = ("A", "B")
BAD = int(Fault.BODY_CRC | Fault.BODY_CRC_NEGATIVE | Fault.PROPERTY_CRC)
"""What checksums say against a record."""

Keep = Callable[[dict[str, NDArray[Any]], int], Flags]
"""Which of the rows of a file that begins at a physical offset are wanted."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A record as one side has it. `valid`: its checksums fit."""

    size: int
    topic: bytes
    queue_id: int
    queue_offset: int
    store_timestamp: int
    valid: bool


@dataclass(frozen=True, slots=True)
class Different:
    """A place where a record begins on at least one side and the sides do not have the same one.

    `first_byte` and `end_byte` bound the bytes that differ, counted from `physical_offset` (None where only
    one side has a record here). A copy is None where no record begins here on that side.
    """

    physical_offset: int
    a: Copy | None
    b: Copy | None
    first_byte: int | None
    end_byte: int | None


@dataclass(frozen=True, slots=True)
class Lack:
    """Records of a queue that one side has and the other lacks: how many, and the queue offsets they span.

    `side` has them. `queue_id` is -1 for records that take no queue offset.
    """

    side: str
    topic: bytes
    queue_id: int
    record_count: int
    first_queue_offset: int
    last_queue_offset: int


@dataclass(frozen=True, slots=True)
class Group:
    """Files of both sides whose ranges overlap, and what is known of their bytes.

    `shared` are the parts that are in one file on both sides, `unlike` the offsets of the blocks of them that
    are not the same. `ends` are where the live records of the sides end, `common` is the range that both
    sides have. `limit` bounds the places that are listed one by one.
    """

    files: tuple[Files, Files]
    shared: tuple[Part, ...]
    unlike: Longs
    ends: tuple[int, int]
    common: Part
    limit: int = 0

    def differs(self, side: int) -> bool:
        """Whether any file of a side has bytes that are not proven to be the same."""
        return any(self.is_open(side, range_of(file)) for file in self.files[side])

    def is_open(self, side: int, span: Part) -> bool:
        """Whether live bytes of a file are not proven to be the same."""
        start, end = span[0], min(span[1], self.ends[side])
        return start < end and not (
            is_covered(start, end, self.shared) and not any_in(self.unlike, start, end)
        )

    def proven(self, start: Longs, size: NDArray[Any]) -> Flags:
        """Which records lie in bytes that are the same on both sides."""
        return are_proven(start, start + size, self.shared, self.unlike)


@dataclass(frozen=True, slots=True)
class GroupResult:
    """How the records of a group differ: the first places, all counted, and what each side lacks."""

    different: tuple[Different, ...]
    place_count: int
    first_place: int | None
    lacks: tuple[Lack, ...]


def carve_files(files: Iterable[tuple[str, int]], keep: Keep) -> CarvedRecords:
    """The wanted records of files, each given by its path and the physical offset where it begins, in the
    order of their own physical offsets. `source` is the number of the file. Raises StoreError."""
    table, batch = QueueTable(), new_batch()
    columns: dict[str, list[NDArray[Any]]] = {name: [np.empty(0, kind)] for name, kind in COLUMNS.items()}
    for number, (path, base) in enumerate(files):
        with FileReader(path) as reader:
            for rows, _ in carved_rows(reader, batch, table):
                kept = np.flatnonzero(keep(rows, base))
                if not len(kept):
                    continue
                for name, parts in columns.items():
                    parts.append(
                        np.full(len(kept), number, np.int32)
                        if name == "source"
                        else rows[name][kept].astype(COLUMNS[name], copy=False)
                    )
                    if len(parts) > 1024:
                        parts[:] = [np.concatenate(parts)]
    found = CarvedRecords({name: np.concatenate(parts) for name, parts in columns.items()}, table)
    return found.take(np.argsort(found["physical_offset"], kind="stable"))


def compare_group(group: Group) -> GroupResult:
    """Match the records of a group. Raises StoreError."""
    found = [_unproven(group, side) for side in range(2)]
    missing = [~is_in(found[0], found[1]), ~is_in(found[1], found[0])]
    low, high = group.common
    offsets = []
    for rows, flags in zip(found, missing, strict=True):
        places = rows["physical_offset"][flags]
        offsets.append(places[(places >= low) & (places < high)])
    every = distinct(np.concatenate(offsets))
    with LogBytes(group.files[0]) as log_a, LogBytes(group.files[1]) as log_b:
        different = tuple(_different(place, found, (log_a, log_b)) for place in every[: group.limit].tolist())
    return GroupResult(
        different,
        len(every),
        int(every[0]) if len(every) else None,
        tuple(
            lack
            for name, rows, flags in zip(SIDES, found, missing, strict=True)
            for lack in _lacks(name, rows, np.flatnonzero(flags))
        ),
    )


def _unproven(group: Group, side: int) -> CarvedRecords:
    """The live records of a side that are not in bytes proven to be the same."""
    files = [
        (file.location, file.start_offset or 0)
        for file in group.files[side]
        if group.is_open(side, range_of(file))
    ]

    def keep(rows: dict[str, NDArray[Any]], base: int) -> Flags:
        place = rows["pos"] + base
        # a record elsewhere than its physicalOffset says does not belong to this log (C3)
        live: Flags = (place == rows["physical_offset"]) & (place < group.ends[side])
        return live & ~group.proven(place, rows["total_size"])

    return carve_files(files, keep)


def is_in(found: CarvedRecords, other: CarvedRecords) -> Flags:
    """Which records of `found` the other side has, byte for byte. Both are in the order of their offsets."""
    at = np.searchsorted(other["physical_offset"], found["physical_offset"])
    flags = np.zeros(len(found), np.bool_)
    inside = at < len(other)
    at = at[inside]
    same = np.ones(len(at), np.bool_)
    for name in ("physical_offset", "total_size", "crc"):
        same &= other[name][at] == found[name][inside]
    flags[inside] = same
    return flags


def _different(place: int, found: Sequence[CarvedRecords], logs: tuple[LogBytes, LogBytes]) -> Different:
    copies = [_copy_at(side, place) for side in found]
    size = min(copy.size for copy in copies if copy is not None)
    first: int | None = None
    last: int | None = None
    left = min(left_in_file(log, place) for log in logs)
    for pos in range(0, min(size, left), BLOCK_SIZE):
        count = min(BLOCK_SIZE, size - pos, left - pos)
        data = []
        for log in logs:
            buffer = np.empty(count, np.uint8)
            log.read_into(buffer.data, place + pos)
            data.append(buffer)
        at = np.flatnonzero(data[0] != data[1])
        if len(at):
            first = pos + int(at[0]) if first is None else first
            last = pos + int(at[-1]) + 1
    return Different(place, copies[0], copies[1], first, last)


def _copy_at(found: CarvedRecords, place: int) -> Copy | None:
    """The record that begins at an offset, None if none does."""
    row = int(np.searchsorted(found["physical_offset"], place))
    if row == len(found) or int(found["physical_offset"][row]) != place:
        return None
    number = int(found["queue_index"][row])
    topic, queue_id = found.table.names[number] if number >= 0 else (b"", -1)
    return Copy(
        int(found["total_size"][row]),
        topic,
        queue_id,
        int(found["queue_offset"][row]),
        int(found["store_timestamp"][row]),
        not int(found["faults"][row]) & BAD,
    )


def by_queue(found: CarvedRecords, rows: Longs) -> list[tuple[bytes, int, Longs]]:
    """Rows by topic and queue, in the order of the table; ("", -1) for those that take no queue offset."""
    queue = np.where(takes_queue_offset(found)[rows], found["queue_index"][rows], -1)
    parts = []
    for number in distinct(queue).tolist():
        topic, queue_id = found.table.names[number] if number >= 0 else (b"", -1)
        parts.append((topic, queue_id, rows[queue == number]))
    return parts


def _lacks(side: str, found: CarvedRecords, rows: Longs) -> list[Lack]:
    lacks = []
    for topic, queue_id, theirs in by_queue(found, rows):
        offsets = found["queue_offset"][theirs]
        lacks.append(Lack(side, topic, queue_id, len(theirs), int(offsets.min()), int(offsets.max())))
    return lacks
