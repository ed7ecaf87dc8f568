"""The directories that every store has: commitlog, consume queues, index, config. Lists them as facts.

    commitlog/<20 digits>
    consumequeue/<topic>/<queueId>/<20 digits>      also batchconsumequeue/ and consumequeue_ext/
    index/<number>
    config/*.json, *.json.bak, transactionMetrics, timermetrics

Reference 1.1, 1.3, 1.4, 1.6.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.formats.filename import index_filename_time, java_parse_long
from rocketfsck.formats.javatext import parse_int32
from rocketfsck.store.listing import Lister, list_directory
from rocketfsck.store.model import (
    IndexFile,
    MappedFile,
    MappedFileQueue,
    Other,
    OtherKind,
    Store,
    StoreFile,
    Stray,
    StrayReason,
)
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind
from rocketfsck.store.places.locations import path_of
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import FileReader, named_errors

CONFIG_DATABASES = frozenset({"topics", "subscriptionGroups", "consumerOffsets", "rdb", "users", "acls"})
CONFIG_NAMES = frozenset(
    {
        "consumerFilter.json",
        "consumerOffset.json",
        "consumerOrderInfo.json",
        "delayOffset.json",
        "lmqConsumerOffset.json",
        "messageRequestMode.json",
        "subscriptionGroup.json",
        "tieredStoreMetadata.json",
        "timermetrics",
        "topicQueueMapping.json",
        "topics.json",
        "transactionMetrics",
    }
)
"""The files of `config/` that brokers write as JSON, by name; each may have a copy with `.bak` (1.6)."""

CONFIG_OTHERS = {
    "timercheck": OtherKind.TIMER_CHECK,
    "timercheck.bak": OtherKind.TIMER_CHECK,
    "broker.properties": OtherKind.SETTINGS,
    "broker.conf": OtherKind.SETTINGS,
}

_QUEUE_AREAS = frozenset({"consumequeue", "batchconsumequeue", "consumequeue_ext"})

_ROCKSDB_NAME = re.compile(
    r"CURRENT|IDENTITY|LOCK|LOG(\.old\.\d+)?|(MANIFEST|OPTIONS)-\d+(\.dbtmp)?|\d+\.(sst|log|blob|dbtmp)"
)

_MANIFEST = b"MANIFEST-"


@dataclass(frozen=True, slots=True)
class QueueFiles:
    """The files of one queue directory, sorted by name."""

    topic: str
    queue_id: int
    location: str
    files: Sequence[MappedFile]


def is_directory(path: Path) -> bool:
    """Whether a directory is there; False as well for a path that the system does not accept."""
    if is_remote(path):
        return path.is_dir()
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises for names that are too long


def absolute_path(path: Path) -> Path:
    """The path from the file system's root on; StoreError if there is no working directory any more."""
    with named_errors(path, "is relative to a directory that no longer exists"):
        return path.absolute()


def is_rocksdb_name(name: str) -> bool:
    """Whether RocksDB gives its files such a name."""
    return _ROCKSDB_NAME.fullmatch(name) is not None


def is_database(directory: str) -> bool:
    """Whether a directory holds a RocksDB: its file CURRENT names a manifest."""
    try:
        with FileReader(f"{directory}/CURRENT") as reader:
            return reader.read_upto(0, len(_MANIFEST)) == _MANIFEST
    except StoreError:
        return False


def list_commitlog(lister: Lister, directories: Sequence[Path]) -> list[MappedFile]:
    """The files of all commitlog directories; one that is missing has none."""
    files: list[MappedFile] = []
    for directory in directories:
        if is_directory(directory):
            files += lister.mapped_files(directory, "commitlog")
    return files


def with_short_names(log: MappedFileQueue, lister: Lister) -> MappedFileQueue:
    """The log with the files after its last one whose names state the offset that follows, without the zeros
    in front: a broker loads them like any other. Such files are not strays then."""
    odd = {str(stray.path): stray for stray in lister.strays if _is_short_name(stray, log)}
    entries = [entry for place in log.locations if odd for entry in list_directory(place)]
    files = list(log.files)
    for entry in sorted(entries, key=lambda entry: entry.name):
        end = (
            files[-1].start_offset + files[-1].size if files and files[-1].start_offset is not None else None
        )
        if entry.path not in odd or java_parse_long(entry.name) != end or entry.name < files[-1].name:
            continue
        stray = odd[entry.path]
        lister.strays.remove(stray)
        files.append(
            MappedFile(
                entry.path, stray.relative, entry.size, entry.mtime_ns, entry.allocated_size, start_offset=end
            )
        )
    return log if len(files) == len(log.files) else replace(log, files=tuple(files))


def _is_short_name(stray: Stray, log: MappedFileQueue) -> bool:
    return (
        stray.reason is StrayReason.NAME
        and stray.size == log.file_size
        and str(stray.path.parent) in log.locations
        and java_parse_long(stray.path.name) is not None
    )


def list_queues(lister: Lister, area: str) -> tuple[list[QueueFiles], tuple[Other, ...]]:
    """The queues below `<root>/<area>/`, by topic and queueId, and a RocksDB that lives next to them."""
    directory = os.path.join(lister.root, area)  # noqa: PTH118 - text, for speed
    queues = []
    database: list[StoreFile] = []
    for topic in lister.entries(directory, area):
        if topic.kind is EntryKind.DIRECTORY:
            queues += _list_topic(lister, topic, area)
        elif topic.kind is EntryKind.FILE and area == "consumequeue" and is_rocksdb_name(topic.name):
            database.append(lister.file(topic))
        else:
            lister.stray(topic, area, StrayReason.FILE if topic.kind is EntryKind.FILE else None)
    queues.sort(key=lambda queue: (queue.topic, queue.queue_id))
    if not database:
        return queues, ()
    return queues, (Other(OtherKind.ROCKSDB, path_of(directory), area, tuple(database)),)


def _list_topic(lister: Lister, topic: DirectoryEntry, area: str) -> list[QueueFiles]:
    queues = []
    for entry in lister.entries(topic.path, area):
        if entry.kind is not EntryKind.DIRECTORY:
            lister.stray(entry, area, StrayReason.FILE if entry.kind is EntryKind.FILE else None)
            continue
        # A broker reads the directory that the number would have, not the one that was parsed.
        queue_id = parse_int32(entry.name)
        if queue_id is None or str(queue_id) != entry.name:
            lister.stray(entry, area, StrayReason.QUEUE_ID)
            continue
        files = lister.mapped_files(entry.path, area)
        queues.append(QueueFiles(topic.name, queue_id, entry.path, files))
    return queues


def list_indexes(lister: Lister) -> tuple[IndexFile, ...]:
    """The files in `index/` whose names a broker reads as numbers, in its load order (by name)."""
    directory = os.path.join(lister.root, "index")  # noqa: PTH118
    indexes = []
    for entry in lister.entries(directory, "index"):
        if entry.kind is not EntryKind.FILE or java_parse_long(entry.name) is None:
            lister.stray(entry, "index")
            continue
        file = lister.file(entry)
        created = index_filename_time(entry.name)
        indexes.append(
            IndexFile(file.location, file.relative, file.size, file.mtime_ns, file.allocated_size, created)
        )
    return tuple(indexes)


def list_configs(lister: Lister) -> tuple[tuple[StoreFile, ...], list[Other]]:
    """The text files in `config/`, and the databases and binary files next to them."""
    directory = os.path.join(lister.root, "config")  # noqa: PTH118
    configs = []
    others = []
    for entry in lister.entries(directory, "config"):
        name = entry.name
        if entry.kind is EntryKind.DIRECTORY and name in CONFIG_DATABASES:
            others.append(flat_directory(lister, entry, OtherKind.ROCKSDB, "config"))
        elif entry.kind is not EntryKind.FILE:
            lister.stray(entry, "config")
        elif name in CONFIG_OTHERS:
            others.append(single_file(lister, entry, CONFIG_OTHERS[name]))
        elif name.removesuffix(".bak") in CONFIG_NAMES:
            configs.append(lister.file(entry))
        else:
            lister.stray(
                entry, "config", StrayReason.TEMPORARY if name.endswith(".tmp") else StrayReason.UNKNOWN
            )
    return tuple(configs), others


def single_file(lister: Lister, entry: DirectoryEntry, kind: OtherKind) -> Other:
    """A part of a store that is one file."""
    file = lister.file(entry)
    return Other(kind, file.path, file.relative, (file,))


def flat_directory(lister: Lister, entry: DirectoryEntry, kind: OtherKind, area: str) -> Other:
    """A part of a store that is a directory of files; directories in it are strays."""
    files = []
    for inner in lister.entries(entry.path, area):
        if inner.kind is EntryKind.FILE:
            files.append(lister.file(inner))
        else:
            lister.stray(inner, area)
    return Other(kind, path_of(entry.path), lister.relative(entry.path), tuple(files))


def unlisted(store: Store, areas: Collection[str]) -> tuple[Stray, ...]:
    """What hides files of these areas ("commitlog", "consumequeue", "index" …): directories and files that
    the system did not let us look at, and links without a target under a name that the area has use for.

    A store that has any is not known in full: what reads all of an area must not go on as if it were.
    """
    return tuple(stray for stray in store.strays if _hides(stray, areas))


def demand_listed(store: Store, areas: Collection[str]) -> None:
    """Raise StoreError if something in these areas could not be listed: files may be missing unseen."""
    for stray in unlisted(store, areas):
        raise StoreError(f"cannot be read: {stray.detail or stray.reason}", path=str(stray.path))


def _hides(stray: Stray, areas: Collection[str]) -> bool:
    name = stray.path.name
    if stray.reason not in (StrayReason.UNREADABLE, StrayReason.DANGLING):
        return False
    if stray.area not in areas:
        return stray.area == "root" and name in areas
    if stray.reason is StrayReason.UNREADABLE or name.isdecimal():
        return True
    return stray.area in _QUEUE_AREAS and stray.relative.count("/") == 1  # a topic
