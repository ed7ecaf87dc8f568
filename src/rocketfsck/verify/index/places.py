"""Where the slots and entries of an index file are, for findings, and where its entries point."""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketfsck.formats.indexfile import ENTRY_SIZE, HEADER, SLOT_SIZE, entry_pos, slot_pos
from rocketfsck.verify.finding import Finding, Where


@dataclass(frozen=True, slots=True)
class IndexExtent:
    """What of an index file concerns the log: `entry_count` entries in use, by where they point.

    `expired_count` point below the log's start, `missing_count` into commitlog files that are not there and
    `beyond_count` beyond the last file; each with the first such entry. Entry numbers count from 1.
    `slot_count` slots have entries, 0 where not all were seen or hashSlotCount cannot be right. `first_time`
    is entry 1's timeDiff, -1 where it was not looked at. `notes`: what `spread` found, if that is known.
    """

    entry_count: int
    first_offset: int
    last_offset: int
    expired_count: int = 0
    missing_count: int = 0
    missing_entry: int = 0
    beyond_count: int = 0
    beyond_entry: int = 0
    beyond_offset: int = 0
    slot_count: int = 0
    first_time: int = -1
    notes: tuple[Finding, ...] | None = field(default=None, compare=False)


def header_place(file: str, name: str) -> Where:
    """One field of an index file's header."""
    start = HEADER.offset(name)
    return Where(file=file, start=start, end=start + (HEADER.field(name).size or 0))


def entry_place(
    file: str, slot_count: int, entry: int, count: int = 1, physical_offset: int | None = None
) -> Where:
    """The entries `entry:entry + count` of an index file with so many hash slots."""
    start = entry_pos(entry, slot_count)
    return Where(
        file=file, start=start, end=start + ENTRY_SIZE * count, physical_offset=physical_offset, entry=entry
    )


def slot_place(file: str, slot: int) -> Where:
    """One hash slot of an index file."""
    start = slot_pos(slot)
    return Where(file=file, start=start, end=start + SLOT_SIZE, slot=slot)
