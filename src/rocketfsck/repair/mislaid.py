"""Files of the commit log that lie where no broker looks for them, and files there that are something else.

    name of 20 digits, a record or a BLANK first    a commit log file, wherever it is
    signature of gzip, Zstandard …                  a compressed file
    letters and line ends only                      a text: an error page, a pointer, another program's log

Looked for where messages are lost, in what the listing of the store cannot place. Reference 1.1, 2.8.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.formats.filename import filename_to_offset
from rocketfsck.formats.magic import BLANK_HEADER_SIZE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from rocketfsck.formats.record import read_frame
from rocketfsck.store.areas import list_directory
from rocketfsck.store.model import Store, StrayReason
from rocketfsck.store.places.locations import path_of
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.account.model import MessageAccount

PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh", b"\x04\x22\x4d\x18", b"PK\x03\x04")
"""What files of gzip, Zstandard, xz, bzip2, LZ4 and ZIP begin with."""
_TEXT = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A, 0x0D}
_TEXT_SIZE = 32
_LOOKED_AT = 64
"""Directories, names in one, and files that are looked at."""


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


def files_of_lost(store: Store, account: MessageAccount) -> list[tuple[str, Path]]:
    """Path below the root, and path, of the commit log files in which lost messages were, in order."""
    places = sorted(
        run.first_physical_offset for run in account.lost if run.first_physical_offset is not None
    )
    found = []
    for file in store.commitlog.files:
        start = file.start_offset or 0
        if any(start <= place < start + store.geometry.commitlog_file_size for place in places):
            found.append((file.relative, file.path))
    return found[:_LOOKED_AT]


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
