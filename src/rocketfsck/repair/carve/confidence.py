"""How sure it is that a record found is a record as it was written: reasons with points, and their sum.

The table is all there is to it. Bytes without a body have no checksum of their own: for them the frame, the
place and the neighbours speak.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.formats.javatext import INT64_MAX
from rocketfsck.repair.carve.carve import CarvedRecords
from rocketfsck.scan.columns import Fault, Trait


class Level(IntEnum):
    """Confidence in words."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2


LEVEL_POINTS = {Level.MEDIUM: 40, Level.HIGH: 80}
"""The least points of a level."""


class Reason(IntFlag):
    """What speaks for or against a record."""

    FRAME = 1 << 0
    PLAUSIBLE = 1 << 1
    IMPLAUSIBLE = 1 << 2
    BODY_CRC = 1 << 3
    BODY_CRC_WRONG = 1 << 4
    PROPERTY_CRC = 1 << 5
    PROPERTY_CRC_WRONG = 1 << 6
    IN_PLACE = 1 << 7
    OUT_OF_PLACE = 1 << 8
    ADJOINS = 1 << 9
    AGAINST_NEIGHBOURS = 1 << 10
    COPIES = 1 << 11


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """A row of the table: the points that a reason gives or takes, its name in a ledger and its meaning."""

    reason: Reason
    points: int
    name: str
    text: str


REASONS: tuple[ReasonRow, ...] = (
    ReasonRow(Reason.FRAME, 30, "frame", "the lengths inside add up to totalSize"),
    ReasonRow(Reason.PLAUSIBLE, 10, "plausible", "brokers can write the value of every field"),
    ReasonRow(Reason.IMPLAUSIBLE, -80, "implausible", "a field has a value that brokers never write"),
    ReasonRow(Reason.BODY_CRC, 30, "body-crc", "the body matches the record's bodyCRC"),
    ReasonRow(Reason.BODY_CRC_WRONG, -70, "body-crc-wrong", "the body does not match the record's bodyCRC"),
    ReasonRow(Reason.PROPERTY_CRC, 20, "property-crc", "the record matches the CRC in its properties"),
    ReasonRow(
        Reason.PROPERTY_CRC_WRONG,
        -80,
        "property-crc-wrong",
        "the record does not match the CRC in its properties",
    ),
    ReasonRow(Reason.IN_PLACE, 20, "in-place", "the file's name and the physicalOffset confirm its place"),
    ReasonRow(Reason.OUT_OF_PLACE, -5, "out-of-place", "the physicalOffset names another place"),
    ReasonRow(Reason.ADJOINS, 10, "adjoins", "the record before or after agrees with its physicalOffset"),
    ReasonRow(
        Reason.AGAINST_NEIGHBOURS,
        -80,
        "against-neighbours",
        "the records on both sides agree with each other and not with its physicalOffset",
    ),
    ReasonRow(Reason.COPIES, 10, "copies", "the same bytes exist elsewhere"),
)

_IMPLAUSIBLE = int(
    Fault.SYS_FLAG
    | Fault.COMPRESSION_TYPE
    | Fault.PORT
    | Fault.QUEUE_ID
    | Fault.QUEUE_OFFSET
    | Fault.PREPARED_OFFSET
    | Fault.BODY_SIZE
    | Fault.PROPERTIES_SIZE
    | Fault.TOPIC_EMPTY
    | Fault.TOPIC_CHARSET
    | Fault.TOPIC_SIZE
    | Fault.TOPIC_UTF8
    | Fault.PROPERTY_NUL
    | Fault.DELAY
    | Fault.INNER_BATCH
)
_BODY_WRONG = int(Fault.BODY_CRC | Fault.BODY_CRC_NEGATIVE)


@dataclass(frozen=True, slots=True)
class Confidence:
    """For each row: the reasons (`Reason` bits) and the points, 0 to 100.

    `first_copy` is the row that stands for all that have the same bytes: the surest of them.
    """

    reasons: NDArray[np.int32]
    points: NDArray[np.int32]
    first_copy: Longs

    def at_least(self, level: Level) -> Flags:
        """The rows of this level and above."""
        flags: Flags = self.points >= LEVEL_POINTS.get(level, 0)
        return flags


def level_of(points: int) -> Level:
    """The level of so many points."""
    return max((level for level, least in LEVEL_POINTS.items() if points >= least), default=Level.LOW)


def names_of(reasons: int) -> list[str]:
    """The names of reasons, in the order of the table."""
    return [row.name for row in REASONS if reasons & row.reason]


def judge(found: CarvedRecords, base_offsets: Longs) -> Confidence:
    """Judge all records; `base_offsets` has every source's, -1 where its name says none."""
    count = len(found)
    reasons = np.full(count, int(Reason.FRAME), np.int32)
    faults, traits = found["faults"], found["traits"]
    physical, pos = found["physical_offset"], found["pos"]
    implausible = (faults & _IMPLAUSIBLE) != 0
    implausible |= (physical < 0) | (physical > INT64_MAX - (1 << 32))
    _set(reasons, implausible, Reason.IMPLAUSIBLE)
    _set(reasons, ~implausible, Reason.PLAUSIBLE)
    wrong = (faults & _BODY_WRONG) != 0
    _set(reasons, wrong, Reason.BODY_CRC_WRONG)
    _set(reasons, ~wrong & (found["body_size"] > 0), Reason.BODY_CRC)
    has_crc = (traits & int(Trait.PROPERTY_CRC)) != 0
    wrong = (faults & int(Fault.PROPERTY_CRC)) != 0
    _set(reasons, wrong, Reason.PROPERTY_CRC_WRONG)
    _set(reasons, has_crc & ~wrong, Reason.PROPERTY_CRC)
    base = base_offsets[found["source"]]
    in_place = (base >= 0) & (physical - pos == base)
    _set(reasons, in_place, Reason.IN_PLACE)
    _set(reasons, (base >= 0) & ~in_place, Reason.OUT_OF_PLACE)
    _judge_neighbours(found, reasons)
    first_copy, copied = _copies(found, _points(reasons))
    _set(reasons, copied, Reason.COPIES)
    return Confidence(reasons, np.clip(_points(reasons), 0, 100).astype(np.int32), first_copy)


def _set(reasons: NDArray[np.int32], flags: Flags, reason: Reason) -> None:
    reasons[flags] |= int(reason)


def _points(reasons: NDArray[np.int32]) -> Longs:
    points = np.zeros(len(reasons), np.int64)
    for row in REASONS:
        points[(reasons & int(row.reason)) != 0] += row.points
    return points


def _judge_neighbours(found: CarvedRecords, reasons: NDArray[np.int32]) -> None:
    base = found["physical_offset"] - found["pos"]
    touches = (found["source"][1:] == found["source"][:-1]) & (found.end[:-1] == found["pos"][1:])
    agrees = touches & (base[1:] == base[:-1])
    adjoins = np.zeros(len(reasons), np.bool_)
    adjoins[1:] |= agrees
    adjoins[:-1] |= agrees
    _set(reasons, adjoins, Reason.ADJOINS)
    against = np.zeros(len(reasons), np.bool_)
    around = touches[1:] & touches[:-1] & (base[2:] == base[:-2]) & (base[1:-1] != base[:-2])
    against[1:-1] = around
    _set(reasons, against, Reason.AGAINST_NEIGHBOURS)


def _copies(found: CarvedRecords, points: Longs) -> tuple[Longs, Flags]:
    """The first and surest row with the same bytes as each row, and which rows have copies."""
    order = np.lexsort((-points, found["crc"], found["total_size"], found["physical_offset"]))
    keys: list[NDArray[Any]] = [found[name][order] for name in ("physical_offset", "total_size", "crc")]
    new = np.ones(len(order), np.bool_)
    new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    group = np.cumsum(new) - 1
    first = np.empty(len(order), np.int64)
    copied = np.empty(len(order), np.bool_)
    sizes = np.bincount(group, minlength=1) if len(order) else np.zeros(0, np.int64)
    first[order] = order[np.flatnonzero(new)[group]] if len(order) else order
    copied[order] = sizes[group] > 1 if len(order) else False
    return first, copied
