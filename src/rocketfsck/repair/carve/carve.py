"""Carving: every record that a file holds, wherever it is and whatever is around it.

A header is a message's magic after a possible totalSize; where its frame is sound there is a record, and the
scan continues from its end. Where a body does not have its CRC the frame itself is in doubt, so what is
inside it is searched, too: such finds overlap. Nothing is judged here but frames and checksums. Reference 2.1
to 2.7; fault catalogue, C2.

Memory: the read buffers and 80 bytes a record found (some 300 while records are judged and placed).

What is carved: files as they are named, and the files below directories.

In a directory that holds a commit log, what the broker derives from it (consume queues, index, config …) is
left out: no records are in there. Symbolic links inside directories are not followed.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.dtypes import Bytes, Longs
from rocketfsck.formats.smallfiles import filename_to_offset
from rocketfsck.progress import moved_to
from rocketfsck.reader.heads import head_at
from rocketfsck.scan.columns import Fault, RecordBatch, new_batch
from rocketfsck.scan.log.large import append_large_record, read_large_record
from rocketfsck.scan.log.resync import NOT_FOUND, find_header
from rocketfsck.scan.log.tiling import record_scanner
from rocketfsck.scan.options import ScanOptions, Stop
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.areas import list_directory
from rocketfsck.store.places.entries import EntryKind
from rocketfsck.store.places.locations import path_of
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import FileReader, os_error_text

LOG_DIRECTORY = "commitlog"

DERIVED_NAMES = frozenset({
    "abort", "abort.bak", "batchconsumequeue", "checkpoint", "config", "consumequeue", "consumequeue_ext",
    "index", "lock", "timerlog", "timerwheel",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to be carved. `base_offset` is the physical offset that its name says, None if it says none."""

    path: Path
    size: int
    base_offset: int | None


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is not carved, and why."""

    path: Path
    reason: str


def list_sources(paths: Iterable[Path]) -> tuple[list[SourceFile], list[SkippedFile]]:
    """The files to carve, in order, and those below the paths that are not.

    A file that is named twice (or by two hard links) is carved once. Raises UsageError without paths and
    StoreError for a path that is neither a regular file nor a directory or cannot be listed.
    """
    files: list[SourceFile] = []
    skipped: list[SkippedFile] = []
    seen: set[tuple[int, int]] = set()
    given = list(paths)
    if not given:
        raise UsageError("name files or directories to carve")
    for path in given:
        if is_remote(path):
            files += _remote_sources(path, skipped)
            continue
        try:
            mode = path.stat().st_mode
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot be opened: {os_error_text(error)}", path=str(path)) from error
        entries = _below(path, skipped) if stat.S_ISDIR(mode) else [path]
        for entry in entries:
            status = entry.stat()
            if not stat.S_ISREG(status.st_mode):
                if entry == path:
                    raise StoreError("is neither a regular file nor a directory", path=str(path))
                skipped.append(SkippedFile(entry, "not a regular file"))
                continue
            identity = (status.st_dev, status.st_ino)
            if identity in seen:
                skipped.append(SkippedFile(entry, "the same file as another"))
                continue
            seen.add(identity)
            files.append(SourceFile(entry, status.st_size, filename_to_offset(entry.name)))
    return files, skipped


def _remote_sources(path: Path, skipped: list[SkippedFile]) -> Iterator[SourceFile]:
    """A remote file, or those below a remote directory in the order of a directory of this machine."""
    if path.is_file():
        yield SourceFile(path, path.stat().st_size, filename_to_offset(path.name))
        return
    waiting = [os.fspath(path)]
    while waiting:
        entries = list_directory(waiting.pop())
        inner = [entry for entry in entries if entry.kind is EntryKind.DIRECTORY]
        is_store = any(entry.name == LOG_DIRECTORY for entry in inner)
        for entry in [entry for entry in entries if entry.kind is not EntryKind.DIRECTORY] + inner:
            if is_store and entry.name in DERIVED_NAMES:
                skipped.append(SkippedFile(path_of(entry.path), "derived from the commit log"))
            elif entry.kind is EntryKind.FILE:
                yield SourceFile(path_of(entry.path), entry.size, filename_to_offset(entry.name))
            elif entry.kind is not EntryKind.DIRECTORY:
                skipped.append(SkippedFile(path_of(entry.path), "not a regular file"))
        waiting += [entry.path for entry in reversed(inner) if not (is_store and entry.name in DERIVED_NAMES)]


def _below(directory: Path, skipped: list[SkippedFile]) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise StoreError(f"cannot be listed: {os_error_text(error)}", path=os.fspath(error.filename))

    for folder, directories, names in os.walk(directory, onerror=fail):
        is_store = LOG_DIRECTORY in directories
        directories.sort()
        for name in sorted(names) + directories:
            path = Path(folder, name)
            if is_store and name in DERIVED_NAMES:
                skipped.append(SkippedFile(path, "derived from the commit log"))
            elif path.is_symlink():
                skipped.append(SkippedFile(path, "a symbolic link"))
            elif name in names:
                yield path
        if is_store:
            directories[:] = [name for name in directories if name not in DERIVED_NAMES]


COLUMNS: dict[str, str] = {
    "source": "i4",  # number of the file
    "pos": "i8",  # position in that file
    "total_size": "i4",
    "physical_offset": "i8",  # as the record states it
    "crc": "u4",  # CRC-32 of the whole record
    "faults": "i4",
    "traits": "i4",
    "sys_flag": "i4",
    "queue_index": "i4",  # row of the QueueTable
    "queue_offset": "i8",
    "batch_size": "i4",
    "body_size": "i4",
    "store_timestamp": "i8",
    "prepared_transaction_offset": "i8",
}

PENDING_COUNT = 4096
"""Pieces of columns that wait to be put together."""

_LAST_HEADER = 7  # bytes that may begin a header which continues after a window
_BEHIND = 8  # room for a BLANK that a file need not have: carved files may end anywhere
_CHUNK_SIZE = 1 << 20
_DOUBT_LIMIT = 64 << 20
"""Bytes of doubtful records that are searched once more, beyond 16 times the length of the file: hostile
bytes can nest frames without end."""


@dataclass(frozen=True, slots=True)
class CarvedRecords:
    """The records of many files as columns (`COLUMNS`), in the order in which they were met."""

    columns: dict[str, NDArray[Any]]
    table: QueueTable

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.columns["pos"])

    @property
    def end(self) -> Longs:
        """The position behind each record in its file."""
        ends: Longs = self["pos"] + self["total_size"]
        return ends

    def take(self, rows: NDArray[Any]) -> CarvedRecords:
        """Some of the rows."""
        return CarvedRecords({name: column[rows] for name, column in self.columns.items()}, self.table)

    def topic(self, row: int) -> bytes:
        """The topic of a row; empty where the table had no room for it."""
        number = int(self["queue_index"][row])
        return self.table.names[number][0] if number >= 0 else b""


class Carver:
    """Carves file after file; `found` gives all that was found."""

    def __init__(self) -> None:
        self.table = QueueTable()
        self._batch = new_batch()
        self._chunks: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMNS}
        self._pending: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMNS}

    @property
    def found(self) -> CarvedRecords:
        """What was found so far."""
        self._settle()
        return CarvedRecords(
            {
                name: np.concatenate([*chunks, np.empty(0, COLUMNS[name])]).astype(COLUMNS[name], copy=False)
                for name, chunks in self._chunks.items()
            },
            self.table,
        )

    def carve(self, reader: FileReader, source: int) -> int:
        """Take every record of a file; `source` is its number. Returns how many there are.

        Raises StoreError when bytes cannot be read.
        """
        total = 0
        for rows, reached in carved_rows(reader, self._batch, self.table):
            count = len(rows["pos"])
            total += count
            for name, parts in self._pending.items():
                parts.append(np.full(count, source, np.int32) if name == "source" else rows[name].copy())
            if len(self._pending["pos"]) >= PENDING_COUNT:
                self._settle()
            moved_to(reached)
        return total

    def _settle(self) -> None:
        """Put small pieces together: where every record is alone, each would take more than its data."""
        for name, parts in self._pending.items():
            if parts:
                self._chunks[name].append(np.concatenate(parts))
                parts.clear()


def carved_rows(
    reader: FileReader, batch: RecordBatch, table: QueueTable
) -> Iterator[tuple[dict[str, NDArray[Any]], int]]:
    """The records of a file, batch by batch: their columns but for `source`, and the position reached.

    The columns are views into `batch`, good until the next are asked for. Raises StoreError when bytes cannot
    be read.
    """
    walk = _Walk(reader, batch, table)
    for crcs in walk.batches():
        rows = {name: batch[name][: len(crcs)] for name in COLUMNS if name not in ("source", "crc")}
        yield {**rows, "crc": crcs}, walk.pos


class _Walk:
    """One file, from header to header. `pos` is how far it is."""

    def __init__(self, reader: FileReader, batch: RecordBatch, table: QueueTable) -> None:
        self.reader = reader
        self.batch = batch
        self.table = table
        self.pos = 0
        self.doubt_left = 16 * reader.size + _DOUBT_LIMIT
        self.options = ScanOptions(read_bodies=True)
        self.file_size = reader.size + _BEHIND
        self.scan = record_scanner(reader.allocated_size)

    def batches(self) -> Iterator[NDArray[np.uint32]]:
        """Yield the CRCs of each batch's records; the first so many rows of the batch are good."""
        with ReadAhead(self.reader) as window:
            while (start := self._next_header(window)) is not None:
                self.pos = start
                base = self._stated_offset(start) - start
                count = 0
                for crcs in self._run(window, base):
                    count += len(crcs)
                    yield crcs
                if not count:
                    self.pos = start + 1

    def _next_header(self, window: ReadAhead) -> int | None:
        """The next position from `pos` on where there is a header with room for the least record."""
        window.move_to(self.pos)
        while True:
            most = self.reader.size - window.file_pos
            index = find_header(window.buffer, window.start, window.end, most)
            if index != NOT_FOUND:
                return window.file_pos + index
            window.start = max(window.start, window.end - _LAST_HEADER)
            self.pos = window.file_pos + window.start
            data = next(self.reader.data_extents(window.window_end), None)
            if data is None:
                return None
            if data[0] - _LAST_HEADER > window.window_end:
                window.move_to(data[0] - _LAST_HEADER)
            if not window.extend():
                return None

    def _stated_offset(self, pos: int) -> int:
        head = head_at(self.reader, pos)
        return 0 if head is None else head.physical_offset

    def _run(self, window: ReadAhead, base: int) -> Iterator[NDArray[np.uint32]]:
        """Records from `pos` on, one after the other; `pos` is then where the search continues."""
        window.move_to(self.pos)
        while True:
            self.batch.begin(0)
            window.start, stop = self.scan(
                window.buffer,
                window.start,
                window.end,
                window.file_pos,
                base,
                self.file_size,
                self.options,
                self.batch,
                self.table,
            )
            if self.batch.record_count:
                starts = self.batch["pos"] - window.file_pos
                crcs = crcs_of(window.buffer, starts, self.batch["total_size"].astype(np.int64))
                doubtful = self._doubtful_row()
                if doubtful is not None:
                    self._search_inside(doubtful)
                    yield crcs[: doubtful + 1]
                    return
                self.pos = window.file_pos + window.start
                yield crcs
            if stop == Stop.BATCH_FULL:
                continue
            if stop not in (Stop.LIMIT, Stop.NEED_BYTES):
                return
            if window.extend():
                continue
            if stop == Stop.LIMIT or window.window_end >= self.reader.size or not self._large(base):
                return
            yield np.array([_crc_of(self.reader, self.pos, self._large_size)], np.uint32)
            if self._doubtful_row() is not None:
                self._search_inside(0)
                return
            self.pos += self._large_size
            window.move_to(self.pos)

    @property
    def _large_size(self) -> int:
        return int(self.batch["total_size"][0])

    def _large(self, base: int) -> bool:
        """Whether a record that fits no window is at `pos`; it is then the batch's only one."""
        record = read_large_record(self.reader, self.pos, self.file_size)
        if isinstance(record, Stop):
            return False
        self.batch.begin(0)
        return append_large_record(
            self.reader, record, base, self.file_size, self.options, self.batch, self.table
        )

    def _search_inside(self, row: int) -> None:
        """Continue after the first byte of a record; after its last if that was done too often."""
        size = int(self.batch["total_size"][row])
        self.doubt_left -= size
        self.pos = int(self.batch["pos"][row]) + (1 if self.doubt_left > 0 else size)

    def _doubtful_row(self) -> int | None:
        wrong = np.flatnonzero(self.batch["faults"] & int(Fault.BODY_CRC | Fault.BODY_CRC_NEGATIVE))
        return int(wrong[0]) if len(wrong) else None


def crcs_of(buffer: Bytes, starts: Longs, sizes: Longs) -> NDArray[np.uint32]:
    """The CRC-32 of every range `buffer[start:start + size]`, which lie in the buffer."""
    view = buffer.data
    ranges = zip(starts.tolist(), sizes.tolist(), strict=True)
    return np.fromiter((zlib.crc32(view[at : at + size]) for at, size in ranges), np.uint32, len(starts))


def _crc_of(reader: FileReader, start: int, size: int) -> int:
    value = 0
    for pos in range(start, start + size, _CHUNK_SIZE):
        value = zlib.crc32(reader.read(pos, min(_CHUNK_SIZE, start + size - pos)), value)
    return value
