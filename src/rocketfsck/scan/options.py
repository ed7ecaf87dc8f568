"""What a scan of a log file is to read and how.

Why a scan of records stops.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal

from rocketfsck.store.model import MappedFile, Store


class Stop(IntEnum):
    """Why a run of records ended; positive ones are structural damage at the position returned."""

    LIMIT = 0  # the end of the bytes given was reached exactly
    BATCH_FULL = -1
    NEED_BYTES = -2  # the record at this position continues beyond the bytes given (but inside the file)
    BLANK = -3  # a BLANK header is at this position
    ZERO = -4  # totalSize and magic are both 0
    MAGIC = 1  # not a message magic
    SIZE = 2  # totalSize below 91 or past the end of the file
    LENGTHS = 3  # the lengths do not add up to totalSize
    BODY_LENGTH = 4  # the body runs past the record
    TOPIC_LENGTH = 5  # the topic length is negative or runs past the record
    PROPERTIES_LENGTH = 6  # the properties run past the record
    SHORT = 7  # fewer bytes left in the file than a header takes, and they are not all zero


PropertyParser = Literal["split", "scan"]


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How records are read.

    `read_bodies` turns the two checks on that touch every byte (BODY_CRC, PROPERTY_CRC); the level `cross`
    leaves them out. `property_parser` is the broker's own (reference 2.5, dialect D4). `file_size` is the
    configured length of a commit log file in bytes, 0 where a file's own length is the truth: it bounds the
    records, and says what a BLANK's totalSize must be. `body_range` are file positions, half-open: what lies
    outside of them, but for a buffer's length, is walked without its bodies. `in_entries`: records are the
    bodies of DLedger's entries (`scan.plain.entries`). `index_tags` gives a record's tags a row among its
    keys, as brokers from 5.4.0 on index them (dialect D21).
    """

    read_bodies: bool = True
    property_parser: PropertyParser = "scan"
    file_size: int = 0
    body_range: tuple[int, int] | None = None
    in_entries: bool = False
    index_tags: bool = False

    def at(self, start: int, end: int) -> ScanOptions:
        """The options for the file positions `start:end`."""
        if self.body_range is None or (start < self.body_range[1] and end > self.body_range[0]):
            return self
        return replace(self, read_bodies=False, body_range=None)


@dataclass(frozen=True, slots=True)
class LogItem:
    """What a task must know of a log file to read it: where it is, and how its records are read.

    Small and picklable. `base_offset` is the physical offset of its first byte, `file_size` the configured
    length of a commit log file in bytes. `in_entries` is the file's (`store.model.MappedFile`).
    """

    location: str
    base_offset: int
    file_size: int
    parser: PropertyParser
    in_entries: bool = False

    def options(
        self, size: int, *, read_bodies: bool = False, body_range: tuple[int, int] | None = None
    ) -> ScanOptions:
        """How the file, which has `size` bytes now, is scanned."""
        return ScanOptions(read_bodies, self.parser, max(self.file_size, size), body_range, self.in_entries)


def log_item(store: Store, file: MappedFile) -> LogItem:
    """A commit log file of a store."""
    size, parser = max(store.commitlog.file_size, file.size), store.dialect.property_parser
    return LogItem(file.location, file.start_offset or 0, size, parser, file.in_entries)


def log_options(
    store: Store, file: MappedFile, *, read_bodies: bool, index_tags: bool = False
) -> ScanOptions:
    """How a commit log file of a store is scanned; with `index_tags` for all that is indexed."""
    options = log_item(store, file).options(file.size, read_bodies=read_bodies)
    return replace(options, index_tags=index_tags and store.dialect.tag_entries)
