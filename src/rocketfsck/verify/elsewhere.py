"""What is kept where this check does not look: consume queues in RocksDB, a commit log of DLedger's, and all
but the log where somebody copied only that.

What is not found in the files must then not be called lost. Reference 2.14, 3.9.
"""

from __future__ import annotations

from rocketfsck.store.model import OtherKind, Store


def has_queues_elsewhere(store: Store) -> bool:
    """Whether consume queues stand in a RocksDB, whatever queues of files stand beside it, or elsewhere."""
    return store.log_only or any(
        other.kind is OtherKind.ROCKSDB and other.relative == "consumequeue" for other in store.others
    )


def has_log_elsewhere(store: Store) -> bool:
    """Whether the commit log goes on in DLedger's data files, behind the plain files if there are any."""
    return any(other.kind is OtherKind.DLEDGER_DATA for other in store.others)
