"""The segments of tiered storage on a file system (posix provider). Reference 1.10.

    <base>/<hash>_<cluster>/<broker>/<topic>/<queueId>/COMMIT_LOG/<hash><20 digits>       TIERED_LOG
    <base>/<hash>_<cluster>/<broker>/<topic>/<queueId>/CONSUME_QUEUE/<hash><20 digits>    TIERED_QUEUE
    <base>/<hash>_<cluster>/<broker>/rmq_sys_INDEX/0/INDEX/<hash><20 digits>              TIERED_SEGMENT_INDEX

`base` is `tieredStoreFilePath`. The value is known from broker.conf, and inside the store's root by the names
in it: a cluster's directory begins with the hash of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.formats.javatext import INT64_MAX, parse_int32
from rocketfsck.formats.tiered import is_cluster_directory, segment_offset
from rocketfsck.store.areas import Lister, is_directory, list_directory, mapped_queue
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.logpaths import in_root
from rocketfsck.store.model import MappedFile, Other, OtherKind, StrayReason
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind
from rocketfsck.store.places.locations import path_of
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.settings import setting_path

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
    return path if path.is_absolute() and not is_remote(root) and is_directory(path) else None


def is_base(lister: Lister, entry: DirectoryEntry) -> bool:
    """Whether a directory in the root holds the directories of clusters."""
    try:
        inside = list_directory(entry.path) if lister.tree is None else lister.tree.entries(entry.path)
    except StoreError:
        return False
    return any(item.kind is EntryKind.DIRECTORY and is_cluster_directory(item.name) for item in inside)


def list_base(lister: Lister, base: str) -> list[Other]:
    """All segments below the directory that `tieredStoreFilePath` names."""
    return [
        other
        for cluster in _directories(lister, base)
        if _is_cluster(lister, cluster)
        for other in list_cluster(lister, cluster)
    ]


def _is_cluster(lister: Lister, entry: DirectoryEntry) -> bool:
    if not is_cluster_directory(entry.name):
        lister.stray(entry, AREA)
        return False
    return True


def list_cluster(lister: Lister, cluster: DirectoryEntry) -> list[Other]:
    """All segments of a cluster's brokers."""
    found = []
    for broker in _directories(lister, cluster.path):
        for topic in _directories(lister, broker.path):
            for queue in _directories(lister, topic.path):
                queue_id = parse_int32(queue.name)
                if queue_id is None or str(queue_id) != queue.name:
                    lister.stray(queue, AREA, StrayReason.QUEUE_ID)
                    continue
                for part in _directories(lister, queue.path):
                    if part.name in TYPE_KINDS:
                        found.append(_segments(lister, part, topic.name, queue_id))
                    else:
                        lister.stray(part, AREA)
    return found


def _directories(lister: Lister, path: str) -> Sequence[DirectoryEntry]:
    found = []
    for entry in lister.entries(path, AREA):
        if entry.kind is EntryKind.DIRECTORY:
            found.append(entry)
        else:
            lister.stray(entry, AREA, StrayReason.FILE if entry.kind is EntryKind.FILE else None)
    return found


def _segments(lister: Lister, part: DirectoryEntry, topic: str, queue_id: int) -> Other:
    files = []
    for entry in lister.entries(part.path, AREA):
        offset = segment_offset(entry.name) if entry.kind is EntryKind.FILE else None
        if offset is None or entry.size > INT64_MAX - offset:
            lister.stray(entry, AREA)
            continue
        files.append(
            MappedFile(
                entry.path,
                lister.relative(entry.path),
                entry.size,
                entry.mtime_ns,
                entry.allocated_size,
                start_offset=offset,
            )
        )
    files.sort(key=lambda file: file.start_offset or 0)
    return Other(
        TYPE_KINDS[part.name],
        path_of(part.path),
        lister.relative(part.path),
        tuple(files),
        mapped_queue([part.path], max((file.size for file in files), default=0), files),
        topic,
        queue_id,
    )
