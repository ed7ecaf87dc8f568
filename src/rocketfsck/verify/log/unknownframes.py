"""Records with a magic code that no known broker writes: framed like records, but damage to every scan.

    damaged range := frame* rest        frame := totalSize:i32 magic:i32 …        one magic in the whole log

Reference 2.1; ADR 0011.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

from rocketfsck.errors import StoreError
from rocketfsck.formats.magic import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.log.regions import DAMAGED
from rocketfsck.verify.tasks.task import TaskResult
from rocketfsck.verify.watched import LEAST_COUNT, SHARE

FRAME_LIMIT = 200_000
"""Frames that are gone through: what follows them is taken to be like them."""
_HEAD = 8
_LEAST_SIZE = 48
_KNOWN = frozenset({MAGIC_V1, MAGIC_V2, MAGIC_BLANK, 0})
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class UnknownFrames:
    """The records of one unknown `magic`: `spans` are their physical offsets, half-open and in order; `file`
    has the first."""

    magic: int
    file: str
    record_count: int
    byte_count: int
    spans: tuple[Span, ...]

    def holds(self, physical_offset: int | None) -> bool:
        """Whether a place of the log is among them; None is in no place."""
        if physical_offset is None:
            return False
        number = bisect_right(self.spans, physical_offset, key=itemgetter(0)) - 1
        return number >= 0 and physical_offset < self.spans[number][1]


def unknown_frames(store: Store, logs: Sequence[TaskResult | None]) -> UnknownFrames | None:
    """The records of the one unknown magic that the damaged ranges of a log consist of, if they do."""
    magics: dict[int, list[tuple[int, Span, str]]] = {}
    bad_count = walked = 0
    for file, log in zip(store.commitlog.files, logs, strict=True):
        if log is None or file.start_offset is None:
            continue
        for start, end in _damaged(log):
            if walked >= FRAME_LIMIT:
                break
            magic, count, stop = _walk(file, start, end, FRAME_LIMIT - walked)
            walked += count
            bad_count += end - start
            if count and magic is not None:
                base = file.start_offset
                magics.setdefault(magic, []).append((count, (base + start, base + stop), file.relative))
    if not magics:
        return None
    magic, found = max(magics.items(), key=lambda item: sum(row[0] for row in item[1]))
    record_count = sum(row[0] for row in found)
    byte_count = sum(high - low for _, (low, high), _ in found)
    if record_count < LEAST_COUNT or byte_count < SHARE * bad_count:
        return None
    return UnknownFrames(magic, found[0][2], record_count, byte_count, tuple(sorted(row[1] for row in found)))


def _damaged(log: TaskResult) -> Iterator[Span]:
    """The damaged ranges of a file, by position."""
    bad = log.summary.bad
    for start, end, code in zip(bad.start.tolist(), bad.end.tolist(), bad.code.tolist(), strict=True):
        if code == DAMAGED:
            yield start, end


def _walk(file: MappedFile, start: int, end: int, limit: int) -> tuple[int | None, int, int]:
    """The magic of the frames that follow each other from `start`, their number, and where they end."""
    known: int | None = None
    pos, count = start, 0
    try:
        with FileReader(file.location) as reader:
            while count < limit and pos + _HEAD <= end:
                head = reader.read(pos, _HEAD)
                size, magic = (int.from_bytes(head[at : at + 4], "big", signed=True) for at in (0, 4))
                if magic in _KNOWN or (known is not None and magic != known) or size < _LEAST_SIZE:
                    break
                if pos + size > end:
                    break
                known, pos, count = magic, pos + size, count + 1
    except StoreError:
        return None, 0, start
    return known, count, pos
