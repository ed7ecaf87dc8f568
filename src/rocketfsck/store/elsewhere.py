"""What is kept where this check does not look: consume queues in RocksDB, a log of DLedger's that is not
this store's for sure (`store.logpaths`), and all but the log where somebody copied only that.

What is not found in the files must then not be called lost. Reference 2.14, 3.9.

Signs that a newer broker than the store is read as has worked on the index: for those who write one, or
predict it.

    rocksdbstore/        made by every broker from 5.4.0 on: it indexes the tags of a message, too
    entries of records   whose hash is that of none of the record's keys, nor of its tags

A sample of the newest entries is looked at, never all. Reference 4.5; ADR 0011.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.javatext import index_hash, java_decode, tag_index_hash
from rocketfsck.formats.properties import parse_properties, split_keys
from rocketfsck.formats.record import Record
from rocketfsck.store.dialect.sampling import newest_entries, records_at
from rocketfsck.store.model import IndexFile, Other, OtherKind, Store, StrayReason

SAMPLE_COUNT = 256
LEAST_SHARE = 20
"""One of so many entries must be odd before they are called a feature: single ones are damage."""
TAG_STORE = "rocksdbstore"
"""The directory that brokers from 5.4.0 on make, whatever is in it."""


def writes_more_entries(store: Store) -> bool:
    """Whether a broker has run that indexes more than the version that the store is read as."""
    return not store.dialect.tag_entries and any(other.relative == TAG_STORE for other in store.others)


def index_note(store: Store) -> str | None:
    """What somebody must know who makes index files for this store; None: they are whole as far as is known.

    Files that cannot be read tell nothing.
    """
    strange, looked = 0, 0
    for file in reversed(store.indexes[-2:]):
        strange, looked = _count_strange(store, file)
        if looked:
            break
    if LEAST_SHARE * strange >= looked > 0:
        return (
            f"{strange:,} of the {looked:,} newest index entries match no key of their records: "
            "rocketfsck does not know this feature and does not write such entries"
        )
    if writes_more_entries(store):
        return (
            f"{TAG_STORE}/ comes from a broker of 5.4.0 or later, which also indexes tags: read as "
            f"{store.dialect.version}, the store gets no such entries"
        )
    return None


def has_tag_entries(store: Store) -> bool:
    """Whether newest index entries are those of their records' tags (brokers from 5.4.0 on). Files that
    cannot be read have none."""
    for file in reversed(store.indexes[-2:]):
        if any(key_hash in own for key_hash, own in _hashed(store, file, _tag_hashes)):
            return True
    return False


def _count_strange(store: Store, file: IndexFile) -> tuple[int, int]:
    """Counts of a file's newest entries: of records, but of none of their keys; of records at all."""
    known = _hashed(store, file, _hashes)
    return sum(key_hash not in own for key_hash, own in known), len(known)


def _hashed(
    store: Store, file: IndexFile, hashes_of: Callable[[Record, Store], set[int]]
) -> list[tuple[int, set[int]]]:
    """The keyHashes of a file's newest entries that point to records, each with the hashes of its record."""
    entries = newest_entries(file, store.geometry.slot_count, SAMPLE_COUNT)
    records = records_at(store.commitlog.files, sorted({offset for _, offset, *_ in entries}))
    hashes = {record.physical_offset: hashes_of(record, store) for record in records}
    return [(key_hash, hashes[offset]) for key_hash, offset, *_ in entries if offset in hashes]


def _hashes(record: Record, store: Store) -> set[int]:
    """The hashes that entries of a record have."""
    properties = parse_properties(record.properties, store.dialect.property_parser) or {}
    topic = java_decode(record.topic)
    keys = split_keys(properties.get("KEYS", ""))
    if "UNIQ_KEY" in properties:
        keys.append(properties["UNIQ_KEY"])
    own = _tag_hashes(record, store) if store.dialect.tag_entries else set()
    return own | {index_hash(topic, key) for key in keys}


def _tag_hashes(record: Record, store: Store) -> set[int]:
    """The hash that an entry of a record's tags has; none without tags."""
    properties = parse_properties(record.properties, store.dialect.property_parser) or {}
    tags = properties.get("TAGS")
    return {tag_index_hash(java_decode(record.topic), tags)} if tags else set()


QUEUE_TREES = frozenset({"consumequeue", "batchconsumequeue"})
QUEUE_DATABASES = frozenset({"consumequeue", "consumequeue_rocksdb"})
_FIRST_FORM = ("topics", "consumerOffsets", "subscriptionGroups", "metadata")
FIRST_FORM = frozenset(f"config/{name}" for name in _FIRST_FORM)
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
    unreadable = (stray for stray in store.strays if stray.reason is StrayReason.UNREADABLE)
    unread = any(stray.relative.split("/")[0] in QUEUE_TREES for stray in unreadable)
    lost = lost_queue_database(store) is not None
    return store.log_only or unread or lost or any(True for _ in databases(store))


def opened_wrongly(store: Store, dialect: Dialect) -> list[tuple[str, bool]]:
    """Places below the root at which a broker of a dialect opens a file, or makes one, and cannot: path, and
    whether a directory has the name; else a file has that of its directory. Each keeps the broker from
    starting."""
    files, timers = _opened_files(store, dialect)
    found = []
    for stray in store.strays:
        if timers and stray.relative == "config" and stray.reason is StrayReason.FILE:
            found.append(("config", False))
        elif stray.relative in files and (
            stray.reason is StrayReason.DIRECTORY
            or (stray.reason is StrayReason.UNKNOWN and stray.path.is_dir())
        ):
            found.append((stray.relative, True))
    return found


def _opened_files(store: Store, dialect: Dialect) -> tuple[set[str], bool]:
    """The files that a broker opens or makes on its start, or gives up; whether it has timers."""
    timers = dialect.timer_wheel and store.settings.flag("timerWheelEnable", True)
    files = {"lock", "checkpoint"}
    files |= {"abort"} if dialect.abort_has_pid else set()
    return (files | {"timerwheel", "config/timercheck"} if timers else files), timers


def dead_links(store: Store, dialect: Dialect) -> Iterator[tuple[str, str]]:
    """Links without a target in place of a file that a broker opens, or of its directory: path below the
    root, and what the system says. Each keeps the broker from starting; it makes a file that is missing."""
    files, timers = _opened_files(store, dialect)
    for stray in store.strays:
        if stray.reason is not StrayReason.DANGLING:
            continue
        target = Path(os.path.realpath(stray.path))
        is_made = stray.relative in files and not target.is_symlink() and target.parent.is_dir()
        if not is_made and (stray.relative in files or (timers and stray.relative == "config")):
            yield stray.relative, os.strerror(errno.ELOOP if target.is_symlink() else errno.ENOENT)


def has_log_elsewhere(store: Store) -> bool:
    """Whether there are data files of DLedger's that are not read as this store's commit log."""
    data = (other.files for other in store.others if other.kind is OtherKind.DLEDGER_DATA)
    return not store.has_entries and any(data)
