"""What the writer says of a store that it wrote: the truth that readers and checks are held against."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rocketfsck.formats.indexfile import IndexHeader
from rocketfsck.formats.messageid import OffsetMessageId, encode_offset_id
from rocketfsck.formats.record import Record
from rocketfsck.formats.smallfiles import Checkpoint
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer.dispatch import ExtraUnit


@dataclass(frozen=True, slots=True)
class PutRecord:
    """One record as it is in the log. `number` is its message's place among those given, from 0.

    `in_queue` says whether its own queue got a unit; `extra_units` are those in other queues.
    """

    number: int
    record: Record
    message_count: int
    in_queue: bool
    extra_units: tuple[ExtraUnit, ...] = ()

    @property
    def physical_offset(self) -> int:
        return self.record.physical_offset

    @property
    def queue_offset(self) -> int:
        return self.record.queue_offset

    @property
    def offset_msg_id(self) -> str:
        """The offsetMsgId that the producer would be given."""
        host = self.record.store_host
        return encode_offset_id(OffsetMessageId(host.address, host.port, self.record.physical_offset))


@dataclass(frozen=True, slots=True)
class WrittenQueue:
    """One consume queue: file positions as queue offsets, for a batch queue the counter and positions.

    `next_offset` is the queue offset that the next message gets; `position` the append position in bytes of
    the queue's stream, `first_start` the start of its first file (None without one).
    """

    topic: str
    queue_id: int
    is_batch: bool
    first_start: int | None
    position: int
    next_offset: int
    max_physic_offset: int


@dataclass(frozen=True, slots=True)
class WrittenStore:
    """A store that was written: `min_offset` .. `max_offset` of its log, its queues and index files.

    `files` are all files, relative to `path`, with their sizes in bytes, sorted.
    """

    path: Path
    version: str
    geometry: Geometry
    min_offset: int
    max_offset: int
    message_count: int
    record_count: int
    queues: tuple[WrittenQueue, ...]
    index_files: tuple[tuple[str, IndexHeader], ...]
    checkpoint: Checkpoint
    files: tuple[tuple[str, int], ...]
