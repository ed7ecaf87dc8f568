"""What a conversion made, as its answer says it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rocketfsck.common.documents import LEFT_OUT
from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS
from rocketfsck.query.start.verdict import StartVerdict
from rocketfsck.repair.salvage.ledger import QueueAccount

SCHEMA_VERSION = 1

ConversionName = Literal["plain", "geometry", "files", "controller"]


@dataclass(frozen=True, slots=True)
class PartLeftOut:
    """A part of the old store that the new one has not, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConvertedStore:
    """The store that was written.

    `record_count` records of `queue_count` queues, `record_byte_count` bytes, at the physical offsets
    `start_offset` to `end_offset`; `timer_unit_count` units of the timer log lead to them. The `former_count`
    records of deleted topics were left out. `empty_queue_count` queues have no record, and go on
    with the queue offset of before. The last `unagreed_count` entries are not known to be on more nodes than
    this one.
    """

    into: Path
    version: str
    record_count: int
    record_byte_count: int
    former_count: int
    queue_count: int
    empty_queue_count: int
    start_offset: int
    end_offset: int
    commitlog_file_size: int
    consumequeue_file_size: int
    timer_unit_count: int
    unagreed_count: int
    parts_left_out: tuple[PartLeftOut, ...]
    starts: tuple[StartVerdict, ...]


@dataclass(frozen=True, slots=True)
class QueueLeftOut:
    """A queue of the old store without messages in the new one, and the queue offset that it is at."""

    topic: str
    queue_id: int
    next_queue_offset: int


@dataclass(frozen=True, slots=True)
class ExtractDocument:
    """The store that was cut out of another.

    `record_count` records, `record_byte_count` bytes, at the physical offsets `start_offset` to `end_offset`;
    `outside_count` of them were stored outside the times that were asked for, and `light_queue_count` light
    queues list them, too. `moved_count` committed offsets were moved into their queues.
    """

    schema_version: int
    kind: Literal["rocketfsck.extract"]
    into: Path
    version: str
    record_count: int
    record_byte_count: int
    outside_count: int
    start_offset: int
    end_offset: int
    commitlog_file_size: int
    moved_count: int
    queues: tuple[QueueAccount, ...]
    light_queue_count: int
    queues_left_out: tuple[QueueLeftOut, ...]
    parts_left_out: tuple[PartLeftOut, ...]
    starts: tuple[StartVerdict, ...]

    @property
    def exit_code(self) -> int:
        """4: a start that was predicted fails or loses something."""
        return _exit_code(self.starts)


@dataclass(frozen=True, slots=True)
class JoiningStore:
    """A store, where its log ends, the records that it lacks of the first, and the epoch file for it."""

    path: Path
    end_offset: int
    lacking_count: int
    epoch_file: Path
    epoch_count: int


@dataclass(frozen=True, slots=True)
class ControllerFiles:
    """The files that were written; the store that is to start first comes before the others."""

    into: Path
    epoch: int
    start_offset: int
    stores: tuple[JoiningStore, ...]


@dataclass(frozen=True, slots=True)
class ConvertDocument:
    """What came of it: a new store, or the files that join stores to a controller."""

    schema_version: int
    kind: Literal["rocketfsck.convert"]
    what: ConversionName
    converted: ConvertedStore | None = field(default=None, metadata=LEFT_OUT)
    controller: ControllerFiles | None = field(default=None, metadata=LEFT_OUT)

    @property
    def exit_code(self) -> int:
        """4: a start that was predicted fails or loses something."""
        return _exit_code(self.converted.starts if self.converted is not None else ())


def _exit_code(starts: Iterable[StartVerdict]) -> int:
    return EXIT_PROBLEMS if any(start.covered and not start.harmless for start in starts) else EXIT_CLEAN
