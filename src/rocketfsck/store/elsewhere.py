"""What is kept where this check does not look: consume queues in RocksDB, a log of DLedger's that is not
this store's for sure (`store.logpaths`), and all but the log where somebody copied only that.

What is not found in the files must then not be called lost. Reference 2.14, 3.9.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rocketfsck.formats.dialect import Dialect
from rocketfsck.store.model import Other, OtherKind, Store, StrayReason

QUEUE_TREES = frozenset({"consumequeue", "batchconsumequeue"})
QUEUE_DATABASES = frozenset({"consumequeue", "consumequeue_rocksdb"})
FIRST_FORM = frozenset(
    {"config/topics", "config/consumerOffsets", "config/subscriptionGroups", "config/metadata"}
)
"""Databases of configs that only a broker with its queues in RocksDB makes."""
OTHER_DATABASES = frozenset({"kvStore", "rocksdbstore"})
"""Databases at the root that hold no consume queues."""


def databases(store: Store) -> Iterator[tuple[Other, bool]]:
    """The RocksDB at the root that hold consume queues, or may hold them; and whether the name is known."""
    for other in store.others:
        at_root = other.kind is OtherKind.ROCKSDB and "/" not in other.relative
        if other.relative in store.lifted.databases:
            continue
        if at_root and other.files and other.relative not in OTHER_DATABASES:
            yield other, other.relative in QUEUE_DATABASES


def has_queue_database(store: Store) -> bool:
    """Whether consume queues are in a database whose rows are not among the store's queues."""
    return any(is_known for _, is_known in databases(store))


def lost_queue_database(store: Store) -> Other | None:
    """The database of queues that a store must have, without files, where neither it nor a queue in files is
    there: only brokers with storeType=defaultRocksDB keep configs in RocksDB in their first form."""
    others = {other.relative for other in store.others if other.kind is OtherKind.ROCKSDB and other.files}
    store_type = store.settings.get("storeType")
    keeps = others & FIRST_FORM if store_type is None else store_type.startswith("defaultRocksDB")
    there = others & QUEUE_DATABASES or store.lifted.databases & QUEUE_DATABASES
    if not keeps or there or not store.commitlog.files:
        return None
    if any(queue.kind == "file" and queue.files for queue in store.queues):
        return None
    separate = store.settings.flag("useSeparateStorePathForRocksdbCQ", False)
    path = "consumequeue_rocksdb" if separate else "consumequeue"
    return Other(OtherKind.ROCKSDB, Path(f"{store.root}/{path}"), path, ())


def has_queues_elsewhere(store: Store) -> bool:
    """Whether consume queues may be in a RocksDB, whatever queues of files are next to it, in a directory
    that cannot be read, or elsewhere."""
    unread = any(
        stray.reason is StrayReason.UNREADABLE and stray.relative.split("/")[0] in QUEUE_TREES
        for stray in store.strays
    )
    lost = lost_queue_database(store) is not None
    return store.log_only or unread or lost or any(True for _ in databases(store))


def opened_wrongly(store: Store, dialect: Dialect) -> list[tuple[str, bool]]:
    """Places below the root at which a broker of a dialect opens a file, or makes one, and cannot: path, and
    whether a directory has the name; else a file has that of its directory. Each keeps the broker from
    starting."""
    timers = dialect.timer_wheel and store.settings.flag("timerWheelEnable", True)
    files = {
        "lock": True,
        "checkpoint": True,
        "abort": dialect.abort_has_pid,
        "timerwheel": timers,
        "config/timercheck": timers,
    }
    found = []
    for stray in store.strays:
        if timers and stray.relative == "config" and stray.reason is StrayReason.FILE:
            found.append(("config", False))
        elif files.get(stray.relative) and (
            stray.reason is StrayReason.DIRECTORY
            or (stray.reason is StrayReason.UNKNOWN and stray.path.is_dir())
        ):
            found.append((stray.relative, True))
    return found


def has_log_elsewhere(store: Store) -> bool:
    """Whether there are data files of DLedger's that are not read as this store's commit log."""
    return not store.has_entries and any(
        other.kind is OtherKind.DLEDGER_DATA and other.files for other in store.others
    )
