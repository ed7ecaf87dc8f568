"""What of the commit log lies where no broker looks for it, and files there that are something else.

    name of 20 digits, a record or a BLANK first    a commit log file, wherever it is
    signature of gzip, Zstandard …                  a compressed file
    letters and line ends only                      a text: an error page, a pointer, another program's log

Looked for where messages are lost, in what the listing of the store cannot place. Reference 1.1, 2.8.

A sound record of a lost message that is in a file of the log, but not at its own physical offset, is
displaced: a tool put bytes in front of it or left some out, or pages of the file changed places.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats.dtypes import Longs
from rocketfsck.formats.magic import BLANK_HEADER_SIZE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from rocketfsck.formats.record import read_frame
from rocketfsck.formats.smallfiles import filename_to_offset
from rocketfsck.repair.carve.carve import carved_rows
from rocketfsck.scan.columns import Fault, new_batch
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.areas import list_directory
from rocketfsck.store.model import MappedFile, Store, StrayReason
from rocketfsck.store.places.locations import path_of
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.account.model import MessageAccount

PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh", b"\x04\x22\x4d\x18", b"PK\x03\x04")
"""What files of gzip, Zstandard, xz, bzip2, LZ4 and ZIP begin with."""
_TEXT = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A, 0x0D}
_TEXT_SIZE = 32
_LOOKED_AT = 64
"""Directories, names in one, and files that are looked at."""
_CARVED_SIZE = 4 << 30
"""Bytes of damaged commit log files that are searched for displaced records."""
_NONE = np.empty(0, np.int64)


def mislaid_files(store: Store) -> tuple[list[str], list[str]]:
    """Commit log files at other places that the log lacks, and directories that have some: paths below the
    root. What cannot be read is passed over."""
    known = {file.start_offset for file in store.commitlog.files}
    found = [file.relative for file in store.indexes if _is_missing_log(file.path, known)]
    directories = []
    for stray in store.strays[:_LOOKED_AT]:
        if stray.reason in (StrayReason.NAME, StrayReason.UNKNOWN) and _is_missing_log(stray.path, known):
            found.append(stray.relative)
        elif stray.reason in (StrayReason.DIRECTORY, StrayReason.UNKNOWN) and not stray.size:
            directories.append(stray)
    return found, [f"{item.relative}/" for item in directories if any(_missing_logs(item.path, known))]


def _missing_logs(directory: Path, known: set[int | None]) -> Iterator[bool]:
    try:
        entries = list_directory(directory)
    except StoreError:
        return
    named = (entry.path for entry in entries if filename_to_offset(entry.name) is not None)
    for path in islice(named, _LOOKED_AT):
        yield _is_missing_log(path_of(path), known)


def _is_missing_log(path: Path, known: set[int | None]) -> bool:
    offset = filename_to_offset(path.name)
    if offset is None or offset in known:
        return False
    head = _head(path, BLANK_HEADER_SIZE)
    return len(head) == BLANK_HEADER_SIZE and read_frame(head)[1] in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK)


def files_of_lost(store: Store, account: MessageAccount) -> list[MappedFile]:
    """The commit log files in which lost messages were, in order."""
    places = sorted(
        run.first_physical_offset for run in account.lost if run.first_physical_offset is not None
    )
    found = []
    for file in store.commitlog.files:
        start = file.start_offset or 0
        first = bisect_left(places, start)
        if first < len(places) and places[first] < start + store.geometry.commitlog_file_size:
            found.append(file)
    return found[:_LOOKED_AT]


def displaced_records(store: Store, account: MessageAccount) -> tuple[int, list[str]]:
    """How many lost messages have their record in a file of the log, but not at its own physical offset, and
    in which files. What cannot be read is passed over."""
    count, names, size_left = 0, [], _CARVED_SIZE
    starts, ends = _places_of_lost(account)
    for file in files_of_lost(store, account):
        size_left -= file.size
        if size_left < 0:
            break
        own = displaced_in(file)
        lost = own[own <= ends[np.searchsorted(starts, own, side="right")]]
        if len(lost):
            count += len(lost)
            names.append(file.relative)
    return count, names


def displaced_in(file: MappedFile) -> Longs:
    """The physical offsets of sound records that are in a file, but not there; without those of which the
    file has another at the right place. Of a file that cannot be read there are none."""
    away, at_place = [_NONE], [_NONE]
    try:
        with FileReader(file.location) as reader:
            for rows, _ in carved_rows(reader, new_batch(), QueueTable()):
                own = rows["physical_offset"]
                is_right = own == rows["pos"] + (file.start_offset or 0)
                is_sound = (rows["faults"] & int(Fault.BODY_CRC)) == 0
                away.append(own[is_sound & ~is_right])
                at_place.append(own[is_sound & is_right])
    except StoreError:
        return _NONE
    displaced: Longs = np.setdiff1d(np.concatenate(away), np.concatenate(at_place))
    return displaced


def _places_of_lost(account: MessageAccount) -> tuple[Longs, Longs]:
    """Where ranges of lost messages begin, rising; and the last place of the ranges before the first, before
    the second, and so on."""
    bounds = sorted(
        (run.first_physical_offset, run.last_physical_offset)
        for run in account.lost
        if run.first_physical_offset is not None and run.last_physical_offset is not None
    )
    starts, ends = np.array(bounds, np.int64).reshape(-1, 2).T
    return starts, np.concatenate(([-1], np.maximum.accumulate(ends)))


def is_packed(path: Path) -> bool:
    """Whether it is a compressed file."""
    return _head(path, max(map(len, PACKED))).startswith(PACKED)


def is_text(path: Path) -> bool:
    """Whether it begins like a text: a record begins with its size, and no size begins with a letter."""
    head = _head(path, _TEXT_SIZE)
    return len(head) == _TEXT_SIZE and _TEXT.issuperset(head)


def _head(path: Path, size: int) -> bytes:
    try:
        with FileReader(path) as reader:
            return reader.read_upto(0, size)
    except StoreError:
        return b""
