"""The parts of a store besides log, queues and index: recognised by name and listed, not read.

timerwheel, timerwheel.<n>, timerlog/<20 digits>             reference 1.8
compaction/{compactionLog,compactionCq}/<topic>/<queueId>/   reference 1.9; compacting/, replicating/ inside
epochFileCheckpoint, brokerIdentity[-temp], each with .bak   reference 1.7
dledger-<selfId>/{data,index}/<20 digits>                    reference 2.14
tiered_index_file/, kvStore/ (RocksDB), transaction/         reference 1.10, 1.1
the segments of tiered storage, whatever their directory's name (`store.others`)
consumequeue_rocksdb/, rocksdbstore/ (RocksDB), 5.4.0+       reference 3.9; and any RocksDB of another name

The segments of tiered storage on a file system (posix provider). Reference 1.10.

    <base>/<hash>_<cluster>/<broker>/<topic>/<queueId>/COMMIT_LOG/<hash><20 digits>       TIERED_LOG
    <base>/<hash>_<cluster>/<broker>/<topic>/<queueId>/CONSUME_QUEUE/<hash><20 digits>    TIERED_QUEUE
    <base>/<hash>_<cluster>/<broker>/rmq_sys_INDEX/0/INDEX/<hash><20 digits>              TIERED_SEGMENT_INDEX

`base` is `tieredStoreFilePath`. The value is known from broker.conf, and inside the store's root by the names
in it: a cluster's directory begins with the hash of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.formats import javatext, tiered
from rocketfsck.store import areas
from rocketfsck.store.circumstances import Settings, setting_path
from rocketfsck.store.geometry import PART_SIZES, file_size_of
from rocketfsck.store.logpaths import in_root
from rocketfsck.store.model import MappedFile, Other, OtherKind, StoreFile
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind
from rocketfsck.store.places.locations import path_of
from rocketfsck.store.places.urls import is_remote

PATH_SETTING = "tieredStoreFilePath"
AREA = "tiered"
TYPE_KINDS = {
    "COMMIT_LOG": OtherKind.TIERED_LOG,
    "CONSUME_QUEUE": OtherKind.TIERED_QUEUE,
    "INDEX": OtherKind.TIERED_SEGMENT_INDEX,
}
SEGMENT_KINDS = frozenset(TYPE_KINDS.values())


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """Where the segments of one queue and type are: the path that the metadata has for them, and the type."""

    path: str
    broker: str
    type_name: str


def segment_place(other: Other) -> SegmentPlace:
    """The place of a part of one of the `SEGMENT_KINDS`."""
    parts = other.relative.split("/")
    return SegmentPlace("/".join(parts[-4:-1]), parts[-4], parts[-1])


def named_base(root: Path, settings: Settings) -> Path | None:
    """The directory that `tieredStoreFilePath` names, if it is here: in the root, or where it says."""
    value = settings.values.get(PATH_SETTING, "").strip()
    if not value:
        return None
    path = setting_path(value)
    here = in_root(path, settings.values.get("storePathRootDir", ""), root)
    if here is not None:
        return here
    return path if path.is_absolute() and not is_remote(root) and areas.is_directory(path) else None


def is_base(lister: areas.Lister, entry: DirectoryEntry) -> bool:
    """Whether a directory in the root holds the directories of clusters."""
    try:
        inside = areas.list_directory(entry.path) if lister.tree is None else lister.tree.entries(entry.path)
    except StoreError:
        return False
    return any(item.kind is EntryKind.DIRECTORY and tiered.is_cluster_directory(item.name) for item in inside)


def list_base(lister: areas.Lister, base: str) -> list[Other]:
    """All segments below the directory that `tieredStoreFilePath` names."""
    return [
        other
        for cluster in _directories(lister, base)
        if _is_cluster(lister, cluster)
        for other in list_cluster(lister, cluster)
    ]


def _is_cluster(lister: areas.Lister, entry: DirectoryEntry) -> bool:
    is_cluster = tiered.is_cluster_directory(entry.name)
    if not is_cluster:
        lister.stray(entry, AREA)
    return is_cluster


def list_cluster(lister: areas.Lister, cluster: DirectoryEntry) -> list[Other]:
    """All segments of a cluster's brokers."""
    found = []
    for broker in _directories(lister, cluster.path):
        for topic in _directories(lister, broker.path):
            for queue in _directories(lister, topic.path):
                if (queue_id := lister.queue_id(queue, AREA)) is None:
                    continue
                for part in _directories(lister, queue.path):
                    if part.name in TYPE_KINDS:
                        found.append(_segments(lister, part, topic.name, queue_id))
                    else:
                        lister.stray(part, AREA)
    return found


def _directories(lister: areas.Lister, path: str) -> Sequence[DirectoryEntry]:
    return list(lister.directories(path, AREA))


def _segments(lister: areas.Lister, part: DirectoryEntry, topic: str, queue_id: int) -> Other:
    files = []
    for entry in lister.entries(part.path, AREA):
        offset = tiered.segment_offset(entry.name) if entry.kind is EntryKind.FILE else None
        if offset is None or entry.size > javatext.INT64_MAX - offset:
            lister.stray(entry, AREA)
            continue
        relative = lister.relative(entry.path)
        files.append(MappedFile(entry.path, relative, *entry.facts, start_offset=offset))
    files.sort(key=lambda file: file.start_offset or 0)
    queue = areas.mapped_queue([part.path], max((file.size for file in files), default=0), files)
    kind, relative = TYPE_KINDS[part.name], lister.relative(part.path)
    return Other(kind, path_of(part.path), relative, queue.files, queue, topic, queue_id)


FILE_KINDS: Mapping[str, OtherKind] = {
    "abort.bak": OtherKind.ABORT_BACKUP,
    "timerwheel": OtherKind.TIMER_WHEEL,
    "epochFileCheckpoint": OtherKind.EPOCH,
    "epochFileCheckpoint.bak": OtherKind.EPOCH,
    "brokerIdentity": OtherKind.BROKER_IDENTITY,
    "brokerIdentity.bak": OtherKind.BROKER_IDENTITY,
    "brokerIdentity-temp": OtherKind.BROKER_IDENTITY,
    "brokerIdentity-temp.bak": OtherKind.BROKER_IDENTITY,
}
DIRECTORY_KINDS: Mapping[str, OtherKind] = {
    "consumequeue_rocksdb": OtherKind.ROCKSDB,
    "kvStore": OtherKind.ROCKSDB,
    "rocksdbstore": OtherKind.ROCKSDB,
    "transaction": OtherKind.LEGACY,
}
COMPACTION_KINDS: Mapping[str, OtherKind] = {
    "compactionLog": OtherKind.COMPACTION_LOG,
    "compactionCq": OtherKind.COMPACTION_CQ,
}
KNOWN_DIRECTORIES = frozenset({*DIRECTORY_KINDS, "timerlog", "compaction", "tiered_index_file"})
"""Names of directories at the root that hold other things than a commit log."""

COMPACTION_WORK = frozenset({"compacting", "replicating"})
"""Work directories inside a compaction queue: left behind by a crash."""

DLEDGER_KINDS: Mapping[str, OtherKind] = {"data": OtherKind.DLEDGER_DATA, "index": OtherKind.DLEDGER_INDEX}


def list_other(lister: areas.Lister, entry: DirectoryEntry) -> list[Other] | None:
    """What an entry at the root holds, if it is one of the parts above; None if it is not."""
    name = entry.name
    if entry.kind is EntryKind.FILE:
        kind = FILE_KINDS.get(name)
        if kind is None and name.startswith("timerwheel."):
            kind = OtherKind.TIMER_WHEEL
        return None if kind is None else [areas.single_file(lister, entry, kind)]
    if entry.kind is not EntryKind.DIRECTORY:
        return None
    if name in DIRECTORY_KINDS:
        return [areas.flat_directory(lister, entry, DIRECTORY_KINDS[name], name)]
    if name.startswith("dledger-"):
        return _list_parts(lister, entry, _list_dledger_part)
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(lister, entry)
    if areas.is_database(entry.path):
        return [areas.flat_directory(lister, entry, OtherKind.ROCKSDB, name)]
    if tiered.is_cluster_directory(name):
        return list_cluster(lister, entry)
    return list_base(lister, entry.path) if is_base(lister, entry) else None


def _list_tiered_index(lister: areas.Lister, entry: DirectoryEntry) -> list[Other]:
    """The files, and what a start deletes: those of a compaction that was broken off."""
    files: list[StoreFile] = []
    for inner in lister.entries(entry.path, entry.name):
        if inner.kind is EntryKind.FILE:
            files.append(lister.file(inner))
        elif inner.kind is EntryKind.DIRECTORY and inner.name == "compacting":
            files += lister.plain_files(inner.path, entry.name)
        else:
            lister.stray(inner, entry.name)
    return [Other(OtherKind.TIERED_INDEX, path_of(entry.path), entry.name, tuple(files))]


def _list_parts(
    lister: areas.Lister,
    parent: DirectoryEntry,
    list_part: Callable[[areas.Lister, DirectoryEntry], list[Other]],
) -> list[Other]:
    return [other for entry in lister.entries(parent.path, parent.name) for other in list_part(lister, entry)]


def _list_dledger_part(lister: areas.Lister, entry: DirectoryEntry) -> list[Other]:
    if entry.kind is EntryKind.DIRECTORY and entry.name in DLEDGER_KINDS:
        return [_mapped(lister, entry, DLEDGER_KINDS[entry.name], "dledger")]
    if entry.kind is EntryKind.FILE:  # currterm, quorum state, checkpoint: text files of DLedger's own
        return [areas.single_file(lister, entry, OtherKind.DLEDGER)]
    lister.stray(entry, "dledger")
    return []


def _list_compaction(lister: areas.Lister, parent: DirectoryEntry) -> list[Other]:
    found = []
    for entry in lister.entries(parent.path, "compaction"):
        if entry.kind is EntryKind.DIRECTORY and entry.name in COMPACTION_KINDS:
            kind = COMPACTION_KINDS[entry.name]
            for topic in lister.directories(entry.path, "compaction"):
                found += _list_compaction_topic(lister, topic, kind)
        elif entry.kind is EntryKind.FILE and entry.name.removesuffix(".bak") == "position-checkpoint":
            found.append(areas.single_file(lister, entry, OtherKind.COMPACTION_CHECKPOINT))
        else:
            lister.stray(entry, "compaction")
    return found


def _list_compaction_topic(lister: areas.Lister, topic: DirectoryEntry, kind: OtherKind) -> list[Other]:
    return [
        _mapped(lister, entry, kind, "compaction", topic.name, queue_id)
        for entry in lister.directories(topic.path, "compaction")
        if (queue_id := lister.queue_id(entry, "compaction")) is not None
    ]


_HANDLERS: Mapping[str, Callable[[areas.Lister, DirectoryEntry], list[Other]]] = {
    "timerlog": lambda lister, entry: [_mapped(lister, entry, OtherKind.TIMER_LOG, "timerlog")],
    "compaction": _list_compaction,
    "tiered_index_file": _list_tiered_index,
}


def _mapped(
    lister: areas.Lister,
    directory: DirectoryEntry,
    kind: OtherKind,
    area: str,
    topic: str | None = None,
    queue_id: int | None = None,
) -> Other:
    """A mapped file queue; work directories of a compaction are listed as its further files."""
    files: list[MappedFile] = []
    extra: list[StoreFile] = []
    prefix = lister.relative(directory.path) + "/"
    for entry in lister.entries(directory.path, area):
        if entry.kind is EntryKind.DIRECTORY and topic is not None and entry.name in COMPACTION_WORK:
            extra += lister.mapped_files(entry.path, area)
        elif (file := lister.mapped_file(entry, prefix)) is not None:
            files.append(file)
        else:
            lister.stray(entry, area)
    queue = areas.mapped_queue([directory.path], file_size_of(files, *PART_SIZES[kind]), files)
    place = path_of(directory.path), lister.relative(directory.path)
    return Other(kind, *place, (*files, *extra), queue, topic, queue_id)
