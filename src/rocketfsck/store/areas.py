"""The directories that every store has: commitlog, consume queues, index, config. Lists them as facts.

    commitlog/<20 digits>
    consumequeue/<topic>/<queueId>/<20 digits>      also batchconsumequeue/ and consumequeue_ext/
    index/<number>
    config/*.json, *.json.bak, transactionMetrics, timermetrics

Reference 1.1, 1.3, 1.4, 1.6.

Lists directories of a store: entries with their kinds and sizes, sorted by name. Facts, no judgement.

Symbolic links are followed, as the broker's JVM does; nothing here descends, so that links in a circle cannot
lead astray. A directory that cannot be read is one entry of kind UNREADABLE to its caller.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rocketfsck.errors import StoreError
from rocketfsck.formats.javatext import INT64_MAX, parse_int32
from rocketfsck.formats.smallfiles import filename_to_offset, index_filename_time, java_parse_long
from rocketfsck.store import model
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind, list_local
from rocketfsck.store.places.locations import path_of
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import FileReader, named_errors, os_error_text

if TYPE_CHECKING:
    from rocketfsck.store.places.remote import RemoteTree


MAX_STRAYS_PER_AREA = 10_000
"""More strays in one area are counted, not listed: a directory full of foreign files costs no memory."""

_File = TypeVar("_File", bound=model.StoreFile)


_STRAY_REASONS = {
    EntryKind.SPECIAL: model.StrayReason.SPECIAL,
    EntryKind.DANGLING: model.StrayReason.DANGLING,
    EntryKind.UNREADABLE: model.StrayReason.UNREADABLE,
    EntryKind.DIRECTORY: model.StrayReason.DIRECTORY,
}


def list_directory(path: str | os.PathLike[str]) -> list[DirectoryEntry]:
    """All entries, sorted by name; raises StoreError if `path` is not a directory that can be read."""
    if "://" in os.fspath(path) and is_remote(path):
        from rocketfsck.store.places.remote import list_remote

        return list_remote(os.fspath(path))
    return list_local(path)


def glob_remote(pattern: str) -> list[str]:
    """The directories whose URLs fit a pattern (`*`, `?`, `[`), by name, hidden ones as in a
    shell. Raises StoreError."""
    from fnmatch import fnmatchcase

    scheme, _, rest = pattern.partition("://")
    authority, *names = rest.rstrip("/").split("/")
    found = [f"{scheme}://{authority}"]
    for name in names:
        if not set("*?[") & set(name):
            found = [f"{url}/{name}" for url in found]
            continue
        found = [
            f"{url}/{entry.name}"
            for url in found
            if path_of(url).is_dir()
            for entry in list_directory(url)
            if entry.kind is EntryKind.DIRECTORY and fnmatchcase(entry.name, name)
            if name.startswith(".") or not entry.name.startswith(".")
        ]
    return [url for url in found if path_of(url).is_dir()]


@dataclass(slots=True)
class Lister:
    """Lists the directories below one root and collects the strays that it meets on the way.

    `tree` has the listings of a root that is not on this machine.
    """

    root: str
    tree: RemoteTree | None = None
    strays: list[model.Stray] = field(default_factory=list)
    _stray_counts: dict[str, int] = field(default_factory=dict)

    def relative(self, path: str) -> str:
        """`path` below the root with `/`, "" for the root itself; as it is where it lies elsewhere."""
        if path == self.root:
            return ""
        prefix = self.root.rstrip(os.sep) + os.sep
        return path[len(prefix) :] if path.startswith(prefix) else path

    def entries(self, path: str | os.PathLike[str], area: str) -> list[DirectoryEntry]:
        """Entries of a directory; one that cannot be read gives none and becomes a stray."""
        try:
            return list_directory(path) if self.tree is None else self.tree.entries(os.fspath(path))
        except StoreError as error:
            name = os.fspath(path)
            detail = str(error.__cause__ and os_error_text(_cause(error)))
            self.stray(DirectoryEntry(Path(name).name, name, EntryKind.UNREADABLE, detail=detail), area)
            return []

    def stray(
        self, entry: DirectoryEntry, area: str, reason: model.StrayReason | None = None, detail: str = ""
    ) -> None:
        """Record an entry that is not part of the store; kind and name give the reason, if none is given."""
        count = self._stray_counts.get(area, 0) + 1
        self._stray_counts[area] = count
        if count > MAX_STRAYS_PER_AREA:
            return
        found = reason or _STRAY_REASONS.get(entry.kind) or file_stray_reason(entry.name)
        path, relative = path_of(entry.path), self.relative(entry.path)
        self.strays.append(model.Stray(path, relative, found, area, entry.size, detail or entry.detail))

    def finished_strays(self) -> tuple[model.Stray, ...]:
        """The strays by path; areas with more than are listed say how many more there are."""
        for area, count in sorted(self._stray_counts.items()):
            if count > MAX_STRAYS_PER_AREA:
                more = f"{count - MAX_STRAYS_PER_AREA:,} more in {area}, not listed"
                self.strays.append(model.Stray(path_of(self.root), "", model.StrayReason.MORE, area, 0, more))
        return tuple(sorted(self.strays, key=lambda stray: stray.relative))

    def file(self, entry: DirectoryEntry) -> model.StoreFile:
        return model.StoreFile(entry.path, self.relative(entry.path), *entry.facts)

    def plain_files(self, path: str, area: str) -> Iterator[model.StoreFile]:
        """The files of a directory, whatever their names; what else is there becomes a stray."""
        for entry in self.entries(path, area):
            if entry.kind is EntryKind.FILE:
                yield self.file(entry)
            else:
                self.stray(entry, area)

    def directories(self, path: str | os.PathLike[str], area: str) -> Iterator[DirectoryEntry]:
        """The directories in a directory that holds nothing else; what else is there becomes a stray."""
        for entry in self.entries(path, area):
            if entry.kind is EntryKind.DIRECTORY:
                yield entry
            else:
                self.stray(entry, area, model.StrayReason.FILE if entry.kind is EntryKind.FILE else None)

    def queue_id(self, directory: DirectoryEntry, area: str) -> int | None:
        """The queueId that a directory is named after; one of another name becomes a stray."""
        # A broker reads the directory that the number would have, not the one that was parsed.
        queue_id = parse_int32(directory.name)
        if queue_id is not None and str(queue_id) == directory.name:
            return queue_id
        self.stray(directory, area, model.StrayReason.QUEUE_ID)
        return None

    def mapped_files(self, directory: str | os.PathLike[str], area: str) -> list[model.MappedFile]:
        """The files with mapped-file names of one directory, by name; everything else becomes a stray."""
        files = []
        prefix = self.relative(os.fspath(directory))
        prefix = prefix and prefix + "/"
        for entry in self.entries(directory, area):
            file = self.mapped_file(entry, prefix)
            if file is None:
                self.stray(entry, area)
            else:
                files.append(file)
        return files

    def mapped_file(self, entry: DirectoryEntry, prefix: str) -> model.MappedFile | None:
        """The entry as a file of a mapped file queue; None if it is not a file with such a name, or would end
        after the last offset that there is (2**63-1).

        `prefix` is the directory's relative path, followed by a `/`.
        """
        offset = filename_to_offset(entry.name) if entry.kind is EntryKind.FILE else None
        if offset is None or entry.size > INT64_MAX - offset:
            return None
        return model.MappedFile(entry.path, prefix + entry.name, *entry.facts, start_offset=offset)


def mapped_queue(
    locations: Iterable[str], file_size: int, files: Sequence[model.MappedFile]
) -> model.MappedFileQueue:
    """A queue of the files of all directories, merged by name as MultiPathMappedFileQueue does."""
    places = tuple(locations)
    if len(places) > 1:
        files = sorted(files, key=lambda file: (file.start_offset or 0, file.relative))
    return model.MappedFileQueue(places, file_size, tuple(files))


def file_stray_reason(name: str) -> model.StrayReason:
    """Why a regular file with this name is a stray where files have names of another form."""
    if name.endswith(".tmp"):
        return model.StrayReason.TEMPORARY
    if name.endswith(".delete"):
        return model.StrayReason.DELETED
    return model.StrayReason.NAME


def unknown_reason(name: str) -> model.StrayReason:
    """Why a regular file with this name is a stray where there are files of known names only."""
    return model.StrayReason.TEMPORARY if name.endswith(".tmp") else model.StrayReason.UNKNOWN


def _cause(error: StoreError) -> OSError | ValueError:
    cause = error.__cause__
    return cause if isinstance(cause, OSError | ValueError) else OSError(str(error))


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
    "timercheck": model.OtherKind.TIMER_CHECK,
    "timercheck.bak": model.OtherKind.TIMER_CHECK,
    "broker.properties": model.OtherKind.SETTINGS,
    "broker.conf": model.OtherKind.SETTINGS,
}

QUEUE_AREAS = frozenset({"consumequeue", "batchconsumequeue", "consumequeue_ext"})

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
    files: Sequence[model.MappedFile]


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


def list_commitlog(lister: Lister, directories: Sequence[Path]) -> list[model.MappedFile]:
    """The files of all commitlog directories; one that is missing has none."""
    there = filter(is_directory, directories)
    return [file for directory in there for file in lister.mapped_files(directory, "commitlog")]


def short_named(lister: Lister, directories: Iterable[Path | str]) -> list[model.MappedFile]:
    """The files of commitlog directories whose names are numbers, but not of 20 digits: a broker loads them
    like any other, in the order of their names."""
    places = {os.fspath(place) for place in directories}
    odd = {str(stray.path): stray for stray in lister.strays if _has_short_name(stray, places)}
    entries = [entry for place in sorted(places) if odd for entry in list_directory(place)]
    named = ((entry, odd[entry.path].relative) for entry in entries if entry.path in odd)
    return [
        model.MappedFile(entry.path, relative, *entry.facts, start_offset=java_parse_long(entry.name))
        for entry, relative in named
    ]


def with_short_names(
    log: model.MappedFileQueue, found: Sequence[model.MappedFile], lister: Lister
) -> model.MappedFileQueue:
    """The log with those of the files `found` whose numbers fit between its own files. Such files are not
    strays then."""
    files = list(log.files)
    size = log.file_size
    for file in sorted(found, key=lambda file: file.start_offset or 0):
        start = file.start_offset or 0
        base = (files[0].start_offset or 0) % size if files else 0
        is_free = all(abs((other.start_offset or 0) - start) >= size for other in files)
        if file.size == size and start % size == base and is_free:
            files.append(file)
    taken = {file.location for file in files[len(log.files) :]}
    if not taken:
        return log
    lister.strays[:] = [stray for stray in lister.strays if str(stray.path) not in taken]
    return replace(log, files=tuple(sorted(files, key=lambda file: (file.start_offset or 0, file.relative))))


def _has_short_name(stray: model.Stray, places: Collection[str]) -> bool:
    if stray.reason is not model.StrayReason.NAME or str(stray.path.parent) not in places:
        return False
    number = java_parse_long(stray.path.name)
    return number is not None and 0 <= number <= INT64_MAX - stray.size


def list_queues(lister: Lister, area: str) -> tuple[list[QueueFiles], tuple[model.Other, ...]]:
    """The queues below `<root>/<area>/`, by topic and queueId, and a RocksDB that lives next to them."""
    directory = os.path.join(lister.root, area)  # noqa: PTH118 - text, for speed
    queues = []
    database: list[model.StoreFile] = []
    for topic in lister.entries(directory, area):
        if topic.kind is EntryKind.DIRECTORY:
            queues += _list_topic(lister, topic, area)
        elif topic.kind is EntryKind.FILE and area == "consumequeue" and is_rocksdb_name(topic.name):
            database.append(lister.file(topic))
        else:
            lister.stray(topic, area, model.StrayReason.FILE if topic.kind is EntryKind.FILE else None)
    queues.sort(key=lambda queue: (queue.topic, queue.queue_id))
    if not database:
        return queues, ()
    return queues, (model.Other(model.OtherKind.ROCKSDB, path_of(directory), area, tuple(database)),)


def _list_topic(lister: Lister, topic: DirectoryEntry, area: str) -> list[QueueFiles]:
    return [
        QueueFiles(topic.name, queue_id, entry.path, lister.mapped_files(entry.path, area))
        for entry in lister.directories(topic.path, area)
        if (queue_id := lister.queue_id(entry, area)) is not None
    ]


def list_indexes(lister: Lister) -> tuple[model.IndexFile, ...]:
    """The files in `index/` whose names a broker reads as numbers, in its load order (by name)."""
    directory = os.path.join(lister.root, "index")  # noqa: PTH118
    indexes = []
    for entry in lister.entries(directory, "index"):
        if entry.kind is not EntryKind.FILE or java_parse_long(entry.name) is None:
            lister.stray(entry, "index")
            continue
        relative, created = lister.relative(entry.path), index_filename_time(entry.name)
        indexes.append(model.IndexFile(entry.path, relative, *entry.facts, created))
    return tuple(indexes)


def list_configs(lister: Lister) -> tuple[tuple[model.StoreFile, ...], list[model.Other]]:
    """The text files in `config/`, and the databases and binary files next to them."""
    directory = os.path.join(lister.root, "config")  # noqa: PTH118
    configs = []
    others = []
    for entry in lister.entries(directory, "config"):
        name = entry.name
        if entry.kind is EntryKind.DIRECTORY and name in CONFIG_DATABASES:
            others.append(flat_directory(lister, entry, model.OtherKind.ROCKSDB, "config"))
        elif entry.kind is not EntryKind.FILE:
            lister.stray(entry, "config")
        elif name in CONFIG_OTHERS:
            others.append(single_file(lister, entry, CONFIG_OTHERS[name]))
        elif name.removesuffix(".bak") in CONFIG_NAMES:
            configs.append(lister.file(entry))
        else:
            lister.stray(entry, "config", unknown_reason(name))
    return tuple(configs), others


def single_file(lister: Lister, entry: DirectoryEntry, kind: model.OtherKind) -> model.Other:
    """A part of a store that is one file."""
    file = lister.file(entry)
    return model.Other(kind, file.path, file.relative, (file,))


def flat_directory(lister: Lister, entry: DirectoryEntry, kind: model.OtherKind, area: str) -> model.Other:
    """A part of a store that is a directory of files; directories in it are strays."""
    files = tuple(lister.plain_files(entry.path, area))
    return model.Other(kind, path_of(entry.path), lister.relative(entry.path), files)


def unlisted(store: model.Store, areas: Collection[str]) -> tuple[model.Stray, ...]:
    """What hides files of these areas ("commitlog", "consumequeue", "index" …): directories and files that
    the system did not let us look at, and links without a target under a name that the area has use for.

    A store that has any is not known in full: what reads all of an area must not go on as if it were.
    """
    return tuple(stray for stray in store.strays if _hides(stray, areas))


def demand_listed(store: model.Store, areas: Collection[str]) -> None:
    """Raise StoreError if something in these areas could not be listed: files may be missing unseen."""
    for stray in unlisted(store, areas):
        raise StoreError(f"cannot be read: {stray.detail or stray.reason}", path=str(stray.path))


def _hides(stray: model.Stray, areas: Collection[str]) -> bool:
    name = stray.path.name
    if stray.reason not in (model.StrayReason.UNREADABLE, model.StrayReason.DANGLING):
        return False
    if stray.area not in areas:
        return stray.area == "root" and name in areas
    if stray.reason is model.StrayReason.UNREADABLE or name.isdecimal():
        return True
    return stray.area in QUEUE_AREAS and stray.relative.count("/") == 1  # a topic
