"""The bytes of two logs against each other: blocks of the common range that are not the same.

    group := files of both sides whose ranges overlap, however the files of each are cut
    chunk := a part of a range that is in one file on both sides; what a kernel compares

Equal blocks are skipped at the speed of reading; who looks at records looks only where blocks differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rocketfsck.errors import UsageError
from rocketfsck.formats.arrays import Flags, Longs
from rocketfsck.formats.javatext import INT64_MAX
from rocketfsck.progress import moved_to, part
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
