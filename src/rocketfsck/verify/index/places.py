"""Where the slots and entries of an index file are, for findings."""

from __future__ import annotations

from rocketfsck.formats.indexfile import ENTRY_SIZE, HEADER, SLOT_SIZE, entry_pos, slot_pos
from rocketfsck.verify.finding import Where


def header_place(file: str, field: str) -> Where:
    """One field of an index file's header."""
    start = HEADER.offset(field)
    return Where(file=file, start=start, end=start + (HEADER.field(field).size or 0))


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
