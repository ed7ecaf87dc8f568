"""What a rebuilding says of its work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class QueueGap:
    """Queue offsets `start:end` of which the log has no record: pre-blank units are in their places."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class BuiltQueue:
    """One queue as it was rebuilt. Queue offsets are half-open; `unit_count` leaves filling units out.

    `duplicate_count` records had a queue offset that was taken: the dispatcher skips them. `misplaced_count`
    units are not at their record's queue offset: the dispatcher appends a record of queue offset 0 always,
    and one whose offset the log cannot explain where the queue ends.
    """

    topic: str
    queue_id: int
    kind: Literal["file", "batch"]
    start_queue_offset: int
    end_queue_offset: int
    unit_count: int
    file_count: int
    duplicate_count: int = 0
    misplaced_count: int = 0
    gap_count: int = 0
    gaps: tuple[QueueGap, ...] = ()
    ext_unit_count: int = 0


@dataclass(frozen=True, slots=True)
class QueueBuild:
    """All queues that were rebuilt, by topic and queueId.

    `refused_count` records could not get a unit: no file can have their topic as its name, or their queue
    offset in it. `without_bit_maps`: consumequeue_ext was rebuilt, but its filter bit maps cannot be, as they
    depend on what consumers had subscribed to then; a broker without them filters when it delivers.
    `database` is the RocksDB (its path below the root) whose rows the units are, None where they are files.
    """

    queues: tuple[BuiltQueue, ...]
    record_count: int
    unit_count: int
    refused_count: int = 0
    without_bit_maps: bool = False
    notes: tuple[str, ...] = ()
    database: str | None = None


@dataclass(frozen=True, slots=True)
class BuiltIndexFile:
    """One index file as it was rebuilt."""

    name: str
    entry_count: int
    begin_physical_offset: int
    end_physical_offset: int
    begin_timestamp: int
    end_timestamp: int


@dataclass(frozen=True, slots=True)
class IndexBuild:
    """All index files that were rebuilt, in order."""

    files: tuple[BuiltIndexFile, ...]
    record_count: int
    entry_count: int
    notes: tuple[str, ...] = ()
