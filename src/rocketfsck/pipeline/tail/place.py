"""A place in a live commit log, which a checkpoint can hold, and the log's files as they are now.

    {"offset": 73014444032, "witness_offset": 73014443811, "witness_crc": 912559, ...}

A physical offset alone does not tell whether the log is still the one that was read: a broker that lost its
last records writes others in their place (reference 6.6). So a place remembers a record, its witness.

The options that a stream has in addition to those of the view `messages` (`pipeline.columns`).

Names are case-insensitive.

startingOffset        earliest (default), latest, a physical offset, or JSON: {"broker-a": 1048576}
startingTimestamp     the first record stored at this time (ms, or a date) or later
maxBytesPerTrigger    bytes of log in a batch, or maxRowsPerTrigger: rows
failOnDataLoss        true (default): what is lost ends the query; false: the query continues after it
maxClockStep          how far a broker's clock may step back (ms), 1000 by default
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.smallfiles import filename_to_offset
from rocketfsck.pipeline.columns import read_integer, read_size, read_time, read_truth
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


EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a log is followed. `starting` is `earliest`, `latest`, an offset, or one of these by broker."""

    starting: str | int | dict[str, str | int] = EARLIEST
    starting_timestamp: int | None = None
    max_size: int | None = None
    max_count: int | None = None
    fail_on_data_loss: bool = True
    clock_step: int = CLOCK_STEP


def _starting(name: str, text: str) -> str | int | dict[str, str | int]:
    if not text.lstrip().startswith("{"):
        return _one_starting(name, text)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{name} is not JSON: {error}") from None
    return {broker: _one_starting(name, str(value)) for broker, value in found.items()}


def _one_starting(name: str, text: str) -> str | int:
    word = text.strip().lower()
    if word in (EARLIEST, LATEST):
        return word
    if not word.isascii() or not word.isdigit():
        raise UsageError(f"{name} is earliest, latest or a physical offset, not {text!r}")
    return read_integer(name, word)


_OPTIONS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "startingOffset": ("starting", _starting),
    "startingTimestamp": ("starting_timestamp", read_time),
    "maxBytesPerTrigger": ("max_size", read_size),
    "maxRowsPerTrigger": ("max_count", read_integer),
    "failOnDataLoss": ("fail_on_data_loss", read_truth),
    "maxClockStep": ("clock_step", read_integer),
}
STREAM_OPTIONS = tuple(_OPTIONS)
"""Options that a stream has in addition to those of the view."""


def parse_stream_options(options: Mapping[str, str]) -> StreamOptions:
    """The options of a stream among all that were given; raises UsageError for values that make no sense."""
    given = {name.lower(): text for name, text in options.items()}
    values = {
        field: parse(name, given[name.lower()])
        for name, (field, parse) in _OPTIONS.items()
        if name.lower() in given
    }
    found = StreamOptions(**values)
    if found.starting_timestamp is not None and "starting" in values:
        raise UsageError("choose one: startingOffset or startingTimestamp")
    if found.max_size is not None and found.max_count is not None:
        raise UsageError("choose one: maxBytesPerTrigger or maxRowsPerTrigger")
    for name, value in (("maxBytesPerTrigger", found.max_size), ("maxRowsPerTrigger", found.max_count)):
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1, not {value}")
    if found.clock_step < 0:
        raise UsageError(f"maxClockStep must be a number of milliseconds, not {found.clock_step}")
    return found
