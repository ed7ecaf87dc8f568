"""Regions: what every byte range of a commit log file is. Regions tile the file: no gap, no overlap."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rocketfsck.scan.options import Stop


class RegionKind(StrEnum):
    """What a range of bytes is."""

    RECORDS = "records"  # records with sound frames, one after the other
    BLANK = "blank"  # the 8 bytes that end a completed file (reference 2.8)
    FILLER = "filler"  # what follows a BLANK: bytes without a meaning
    ZERO = "zero"
    MALFORMED = "malformed"  # framed by its totalSize (something sound follows it), wrong inside
    DAMAGED = "damaged"  # bytes that belong to nothing
    TORN = "torn"  # the start of a record, and nothing sound after it
    STALE = "stale"  # records of an earlier life of the log; never said by the scan, only by those who judge


class Reason(StrEnum):
    """Why a region is what it is; for RECORDS, why the run ended."""

    NONE = ""
    END = "end"  # the end of the file
    ZERO = "zero"
    BLANK = "blank"
    BLANK_SIZE = "blank-size"  # a BLANK whose totalSize is not what is left of the file
    MAGIC = "magic"
    SIZE = "size"
    LENGTHS = "lengths"
    BODY_LENGTH = "body-length"
    TOPIC_LENGTH = "topic-length"
    PROPERTIES_LENGTH = "properties-length"
    SHORT = "short"  # fewer bytes than a header takes
    CUT = "cut"  # the file ends before the record does
    GARBAGE = "garbage"  # bytes behind zeros that start no record


REASON_OF_STOP = {
    Stop.LIMIT: Reason.END,
    Stop.NEED_BYTES: Reason.CUT,
    Stop.BLANK: Reason.BLANK,
    Stop.ZERO: Reason.ZERO,
    Stop.MAGIC: Reason.MAGIC,
    Stop.SIZE: Reason.SIZE,
    Stop.LENGTHS: Reason.LENGTHS,
    Stop.BODY_LENGTH: Reason.BODY_LENGTH,
    Stop.TOPIC_LENGTH: Reason.TOPIC_LENGTH,
    Stop.PROPERTIES_LENGTH: Reason.PROPERTIES_LENGTH,
    Stop.SHORT: Reason.SHORT,
}


@dataclass(frozen=True, slots=True)
class Region:
    """File positions `start:end`. `run` numbers the RECORDS regions of a file from 0 (-1 for other kinds)."""

    start: int
    end: int
    kind: RegionKind
    reason: Reason = Reason.NONE
    record_count: int = 0
    run: int = -1

    @property
    def size(self) -> int:
        return self.end - self.start
