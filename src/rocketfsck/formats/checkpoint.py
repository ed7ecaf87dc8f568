"""The store's `checkpoint`: one page of longs. Reference 5.1.

    file := physicMsgTimestamp logicsMsgTimestamp indexMsgTimestamp
            masterFlushedOffset confirmPhyOffset logicsPhysicalOffset zero*

4096 bytes. masterFlushedOffset is written from 5.0.0 on, confirmPhyOffset from 5.1.1 on, logicsPhysicalOffset
from 5.5.0 on; older brokers leave what these fields hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rocketfsck.formats import javatext, versions
from rocketfsck.formats.layout import I64, Buffer, Layout, declare, field, fields_of, values_of

CHECKPOINT_SIZE = 4096
_MARGIN = 3000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The fields of the checkpoint: storeTimestamps in ms, commitlog offsets in bytes."""

    physic_msg_timestamp: Annotated[
        int,
        field("physicMsgTimestamp", I64, "ms", "storeTimestamp of the last record flushed to the commitlog"),
    ] = 0
    logics_msg_timestamp: Annotated[
        int,
        field("logicsMsgTimestamp", I64, "ms", "storeTimestamp of the last record put to a consume queue"),
    ] = 0
    index_msg_timestamp: Annotated[
        int, field("indexMsgTimestamp", I64, "ms", "endTimestamp of the last full index file, 0 until then")
    ] = 0
    master_flushed_offset: Annotated[
        int, field("masterFlushedOffset", I64, "bytes", "5.0.0+: commitlog offset flushed on the master")
    ] = 0
    confirm_physical_offset: Annotated[
        int,
        field(
            "confirmPhyOffset", I64, "bytes", "5.1.1+: commitlog offset of the start of the last valid record"
        ),
    ] = 0
    logics_physical_offset: Annotated[
        int,
        field(
            "logicsPhysicalOffset",
            I64,
            "bytes",
            "5.5.0+: commitlog offset of the last record in flushed queues",
        ),
    ] = 0

    def values(self) -> dict[str, int]:
        """The fields by RocketMQ's own names."""
        return values_of(self)

    @property
    def min_timestamp(self) -> int:
        """What was stored until then is in commitlog and consume queues: 3 s before the earlier time."""
        return max(javatext.int64(min(self.physic_msg_timestamp, self.logics_msg_timestamp) - _MARGIN), 0)

    @property
    def min_timestamp_index(self) -> int:
        """As `min_timestamp`, but not later than what the full index files hold."""
        return min(self.min_timestamp, self.index_msg_timestamp)

    def covers(
        self, physical_offset: int, store_timestamp: int, mark: versions.RecoveryMark, *, index_safe: bool
    ) -> bool:
        """Whether a recovery after an unclean stop may begin with the file whose first record this is.

        `mark` is the dialect's `recovery_mark`, `index_safe` the broker's messageIndexSafe with an index.
        Reference 6.4.
        """
        if index_safe and store_timestamp > self.index_msg_timestamp:
            return False
        if mark == "timestamp":
            return store_timestamp <= self.min_timestamp
        if self.logics_physical_offset > 0:
            return physical_offset <= self.logics_physical_offset
        return store_timestamp <= self.logics_msg_timestamp


CHECKPOINT: Layout = declare("checkpoint", "Store checkpoint", "5.1", *fields_of(Checkpoint))


def decode_checkpoint(data: Buffer) -> Checkpoint:
    """The fields at the start of a checkpoint file; FormatError if it has fewer than 48 bytes."""
    return Checkpoint(*CHECKPOINT.parse(data).values())


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The 4096 bytes of the file."""
    return CHECKPOINT.build(checkpoint.values()).ljust(CHECKPOINT_SIZE, b"\0")
