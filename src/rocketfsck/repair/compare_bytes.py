"""The bytes of two logs against each other: blocks of the common range that are not the same.

Equal blocks are skipped at the speed of reading; who looks at records looks only where blocks differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from rocketfsck.errors import UsageError
from rocketfsck.formats.javatext import INT64_MAX
from rocketfsck.repair.carve import Longs
from rocketfsck.repair.carve_confidence import Flags
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.reading import FileReader

BLOCK_SIZE = 1 << 20
NOWHERE = INT64_MAX

Part = tuple[int, int]
"""Physical offsets, half-open."""

Progress = Callable[[int, int], None]


class LogBytes:
    """The bytes of a commit log by physical offset. A context manager; one file is open at a time."""

    def __init__(self, store: Store) -> None:
        self.files = [file for file in store.commitlog.files if file.start_offset is not None and file.size]
        self._reader: FileReader | None = None
        self._open: MappedFile | None = None

    def __enter__(self) -> LogBytes:
        return self

    def __exit__(self, *_: object) -> None:
        if self._reader is not None:
            self._reader.close()

    def ranges(self) -> list[Part]:
        """The physical offsets of the files, half-open."""
        return [(start, start + file.size) for file in self.files if (start := file.start_offset) is not None]

    def reader_at(self, offset: int) -> tuple[FileReader, int]:
        """The file that holds an offset (which it must), and where it begins."""
        for file, (start, end) in zip(self.files, self.ranges(), strict=True):
            if start <= offset < end:
                if self._open is not file or self._reader is None:
                    if self._reader is not None:
                        self._reader.close()
                    self._reader, self._open = FileReader(file.path), file
                return self._reader, start
        raise UsageError(f"no file of the commit log holds the offset {offset}")

    def read_into(self, view: memoryview, offset: int) -> None:
        """Fill `view` with the bytes from an offset on, all of one file."""
        reader, start = self.reader_at(offset)
        reader.read_into(view, offset - start)


def shared_parts(a: LogBytes, b: LogBytes, low: int, high: int) -> list[Part]:
    """The parts of `low:high` that lie in one file on both sides each."""
    parts = []
    for start_a, end_a in a.ranges():
        for start_b, end_b in b.ranges():
            start, end = max(start_a, start_b, low), min(end_a, end_b, high)
            if start < end:
                parts.append((start, end))
    return sorted(parts)


def find_unlike_blocks(
    a: LogBytes, b: LogBytes, shared: Iterable[Part], progress: Progress | None
) -> tuple[Longs, int]:
    """The offsets of blocks that are not the same, and how many bytes differ."""
    parts = list(shared)
    total, done, unlike_size = sum(end - start for start, end in parts), 0, 0
    starts: list[int] = []
    buffers = [np.empty(BLOCK_SIZE, np.uint8) for _ in (a, b)]
    for start, end in parts:
        for offset in range(start, end, BLOCK_SIZE):
            size = min(BLOCK_SIZE, end - offset)
            views = [buffer[:size] for buffer in buffers]
            a.read_into(views[0].data, offset)
            b.read_into(views[1].data, offset)
            if views[0].data != views[1].data:
                starts.append(offset)
                unlike_size += int(np.count_nonzero(views[0] != views[1]))
            done += size
            if progress is not None:
                progress(done, total)
    return np.array(starts, np.int64), unlike_size


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
