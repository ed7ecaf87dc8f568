"""The checkpoint as it follows the writing, and what of it is on disk when the process dies. Reference 5.1,
1.5.

An orderly stop flushes everything. A killed process leaves what was flushed last: at the roll of an index
file, and every 60 s (from 5.0.0 on every second). From 5.5.0 on the fields of the consume queues advance only
with a thorough flush of the queues, every 60 s: an orderly stop makes none. The messages' own times stand for
the clock here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketfsck.formats.checkpoint import Checkpoint
from rocketfsck.formats.dialect import Dialect

_THOROUGH_FLUSH = 60_000
_SCHEDULED_FLUSH = 1_000


@dataclass(slots=True)
class CheckpointState:
    """The checkpoint's fields in memory, the checkpoint as flushed last, and when (ms; None: not yet).

    `waiting` are time (ms) and offset of the last unit, which wait for a thorough flush.
    """

    dialect: Dialect
    master_flushed_offset: int = 0
    confirm_physical_offset: int = 0
    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    logics_physical_offset: int = 0
    waiting: tuple[int, int] = (0, 0)
    flushed: Checkpoint = field(default_factory=Checkpoint)
    flushed_timestamp: int | None = None
    thorough_timestamp: int = 0

    @property
    def in_memory(self) -> Checkpoint:
        """What a flush writes now; fields that this version does not know are 0."""
        known = self.dialect.checkpoint_fields
        return Checkpoint(
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset if "masterFlushedOffset" in known else 0,
            self.confirm_physical_offset if "confirmPhyOffset" in known else 0,
            self.logics_physical_offset if "logicsPhysicalOffset" in known else 0,
        )

    @property
    def cadence(self) -> int:
        """Milliseconds between two flushes."""
        return _SCHEDULED_FLUSH if self.dialect.abort_has_pid else _THOROUGH_FLUSH

    def reload(self, stored: Checkpoint) -> None:
        """Take over the fields from disk, as a start does."""
        self.physic_msg_timestamp = stored.physic_msg_timestamp
        self.logics_msg_timestamp = stored.logics_msg_timestamp
        self.index_msg_timestamp = stored.index_msg_timestamp
        self.master_flushed_offset = stored.master_flushed_offset
        self.confirm_physical_offset = stored.confirm_physical_offset
        self.logics_physical_offset = stored.logics_physical_offset
        self.waiting = (0, 0)
        self.flushed = self.in_memory
        self.flushed_timestamp = None

    def put_unit(self, store_timestamp: int, physical_offset: int) -> None:
        """A record got its unit in a consume queue."""
        if self.dialect.logics_timestamp_at_flush:
            self.waiting = store_timestamp, physical_offset
        else:
            self.logics_msg_timestamp = store_timestamp

    def dispatched(
        self,
        store_timestamp: int,
        physical_offset: int,
        *,
        in_queue: bool,
        full_index_timestamp: int | None,
    ) -> None:
        """A record was dispatched; `full_index_timestamp` ends the index file that it found full."""
        if in_queue:
            self.put_unit(store_timestamp, physical_offset)
        if full_index_timestamp is not None:
            self.index_msg_timestamp = full_index_timestamp
        if self.flushed_timestamp is None:
            self.flushed_timestamp = self.thorough_timestamp = store_timestamp
        if full_index_timestamp is not None or store_timestamp - self.flushed_timestamp >= self.cadence:
            if store_timestamp - self.thorough_timestamp >= _THOROUGH_FLUSH:
                self._flush_thoroughly(store_timestamp)
            self.flushed = self.in_memory
            self.flushed_timestamp = store_timestamp

    def _flush_thoroughly(self, store_timestamp: int) -> None:
        self.thorough_timestamp = store_timestamp
        timestamp, offset = self.waiting
        if timestamp > 0:
            self.logics_msg_timestamp = timestamp
        if offset > 0:
            self.logics_physical_offset = offset
