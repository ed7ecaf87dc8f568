"""A place in a live commit log, which a checkpoint can hold, and the log's files as they are now.

    {"offset": 73014444032, "witness_offset": 73014443811, "witness_crc": 912559, ...}

A physical offset alone does not tell whether the log is still the one that was read: a broker that lost its
last records writes others in their place (reference 6.6). So a place remembers a record, its witness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.smallfiles import filename_to_offset
from rocketfsck.scan.options import PropertyParser, ScanOptions
from rocketfsck.store.areas import Lister, list_directory, mapped_queue
from rocketfsck.store.elsewhere import has_log_elsewhere
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind

CLOCK_STEP = 1000
"""Milliseconds that a broker's clock may step back without its records being in doubt."""

NOWHERE = -1

_UNSEEN = (EntryKind.UNREADABLE, EntryKind.DANGLING)

LossKind = Literal["expired", "missing", "cut"]


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where a reader stands: all records below `offset` were read. -1: at the log's beginning, wherever.

    `witness_offset` is a record that was there when the place was made (-1: none), `witness_crc` what it
    looked like, `newest_timestamp` the newest storeTimestamp by then. Nothing but the end of a file lies
    between `offset` and `clear_offset`. `lost_size` bytes and `cut_count` ends of the log were passed over so
    far; `resumed_offset` is where reading began to get here, where that is not the place before (-1).
    """

    offset: int
    witness_offset: int = NOWHERE
    witness_crc: int = 0
    newest_timestamp: int = NOWHERE
    clear_offset: int = NOWHERE
    lost_size: int = 0
    cut_count: int = 0
    resumed_offset: int = NOWHERE

    def to_json(self) -> dict[str, int]:
        return asdict(self)


BEGINNING = LogPlace(NOWHERE)


def read_place(document: object) -> LogPlace:
    """The place that `LogPlace.to_json` gave, or a physical offset; UsageError for anything else."""
    if isinstance(document, int) and not isinstance(document, bool) and document >= 0:
        return LogPlace(document)
    known = set(BEGINNING.to_json())
    if (
        isinstance(document, Mapping)
        and "offset" in document
        and known.issuperset(document)
        and all(isinstance(value, int) for value in document.values())
    ):
        return LogPlace(**document)
    raise UsageError(f"{document!r} is not a place in a commit log")


class DataLossError(StoreError):
    """Bytes that were to be read next are gone, or bytes that were read are no longer what they were.

    `kind` is "expired" (files were deleted from the front), "missing" (from the middle) or "cut" (the log
    ends below the place, or was written again from there). `place` is where one who accepts the loss
    continues.
    """

    def __init__(self, kind: LossKind, message: str, *, path: str, place: LogPlace) -> None:
        super().__init__(message, path=path)
        self.kind = kind
        self.place = place


@dataclass(frozen=True, slots=True)
class Log:
    """A commit log to follow. Messages call it `name`; `file_size` is the configured length of a file."""

    name: str
    directories: tuple[Path, ...]
    file_size: int
    property_parser: PropertyParser = "scan"
    clock_step: int = CLOCK_STEP

    @property
    def options(self) -> ScanOptions:
        return ScanOptions(property_parser=self.property_parser, file_size=self.file_size)


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes `start_pos:end_pos` of one file, from a record's first byte on; all of them can be read."""

    file: MappedFile
    start_pos: int
    end_pos: int

    @property
    def base_offset(self) -> int:
        return self.file.start_offset or 0

    @property
    def size(self) -> int:
        return self.end_pos - self.start_pos


def log_of(store: Store, *, name: str = "", clock_step: int = CLOCK_STEP) -> Log:
    """The commit log of an opened store. Raises UsageError for one of DLedger's, which is not followed."""
    if store.has_entries or has_log_elsewhere(store):
        raise UsageError(
            f"{store.root}: the commit log belongs to DLedger: read it as a batch, not as a stream"
        )
    return Log(
        name or str(store.root),
        store.commitlog.directories,
        store.geometry.commitlog_file_size,
        store.dialect.property_parser,
        clock_step,
    )


def list_files(log: Log) -> tuple[MappedFile, ...]:
    """The log's files now, by their offsets, empty ones left out.

    Raises StoreError for a directory that cannot be listed and a file that cannot be looked at; a directory
    that is not there yet has no files.
    """
    files = []
    for directory in log.directories:
        lister = Lister(str(directory))
        for entry in _entries(directory):
            file = lister.mapped_file(entry, "commitlog/")
            if file is not None and file.size:
                files.append(file)
            elif entry.kind in _UNSEEN and filename_to_offset(entry.name) is not None:
                raise StoreError(f"cannot be read: {entry.detail}", path=entry.path)
    return mapped_queue(map(str, log.directories), log.file_size, sorted(files, key=start_of)).files


def _entries(directory: Path) -> list[DirectoryEntry]:
    try:
        return list_directory(directory)
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError) and not directory.is_symlink():
            return []
        raise


def start_of(file: MappedFile) -> int:
    """The physical offset of a file's first byte."""
    return file.start_offset or 0


def end_of(file: MappedFile) -> int:
    """The physical offset behind a file's last byte."""
    return start_of(file) + file.size
