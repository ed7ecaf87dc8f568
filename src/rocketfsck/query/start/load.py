"""What a broker loads: the mapped files of the commit log and of every consume queue, or why it refuses.

A directory's entries are taken in the broker's order; what is wrong with one of them is fatal, or hides it
and all after it, or nothing, as the version has it. Reference 1.2, 3.5, 6.1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from rocketfsck.formats.consumequeue import BATCH_UNIT_SIZE, UNIT_SIZE, rounded_file_size
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.filename import java_parse_long
from rocketfsck.query.start.disk import Disk
from rocketfsck.query.start.model import FileChange, Ignored, Refusal
from rocketfsck.query.start.plainqueues import PlainQueues, plain_queues, queue_directories
from rocketfsck.store.model import QueueKind, Store
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind

LENGTH_REASON = "{size} length not matched message store config value, please check it manually"
KIND_REASON = (
    "java.lang.RuntimeException: The queue type of topic: {topic} should be {found}, but is {stated}"
)
KIND_NAMES: dict[QueueKind, str] = {"file": "SimpleCQ", "batch": "BatchCQ"}
Areas = Mapping[str, Path]
"""Directories by the name of the one below the store's root in whose place they stand."""

NO_AREAS: Areas = MappingProxyType({})

BATCH_ORDER = 1 << 40
"""Batch queues are loaded behind all others."""

NUMBER_REASON = 'java.lang.NumberFormatException: For input string: "{name}"'


@dataclass(slots=True)
class LoadedFile:
    """A file of a mapped file queue in the broker's memory; `wrote_pos` is where its contents end for it.

    `is_new` for one that the start itself creates, `in_entries` for one of DLedger's log.
    """

    path: str
    relative: str
    start_offset: int
    size: int
    wrote_pos: int
    is_new: bool = False
    in_entries: bool = False

    @property
    def end_offset(self) -> int:
        return self.start_offset + self.size


@dataclass(slots=True)
class LoadedQueue:
    topic: str
    queue_id: int
    kind: QueueKind
    directory: str  # below the root
    file_size: int
    files: list[LoadedFile]


@dataclass(slots=True)
class Loading:
    """What loading came to. With refusals the broker gives up before it recovers anything.

    `queues` are those that are not `plain`, with their numbers in the order of loading; the files of plain
    ones have `plain_size` bytes.
    """

    log_files: list[LoadedFile] = field(default_factory=list)
    queues: list[tuple[int, LoadedQueue]] = field(default_factory=list)
    plain: PlainQueues | None = None
    plain_size: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    deleted: list[FileChange] = field(default_factory=list)


def load_files(
    store: Store,
    dialect: Dialect,
    kind_of: Callable[[str], QueueKind | None],
    *,
    with_ext: bool,
    areas: Areas = NO_AREAS,
    with_queues: bool = True,
    disk: Disk | None = None,
) -> Loading:
    """The commit log, then the consume queues; a commit log that is refused ends it.

    `kind_of` gives the kind of queue that a topic's settings say, None where they are not known. `areas` are
    directories that are read in place of the store's own of that name. Without `with_queues` the queues
    are left out: they are in a database. `disk` is what starts of several versions share.
    """
    loading = Loading()
    loader = _Loader(store.root, dialect, loading, disk or Disk())
    log_size = store.geometry.commitlog_file_size
    loading.log_files = loader.mapped_files(store.commitlog.locations, log_size)
    if loading.refusals or not with_queues:
        return loading
    kinds: list[tuple[str, QueueKind, int]] = [
        ("consumequeue", "file", rounded_file_size(store.geometry.consumequeue_file_size, UNIT_SIZE))
    ]
    if dialect.batch_queues:
        size = rounded_file_size(store.geometry.batch_file_size, BATCH_UNIT_SIZE)
        kinds.append(("batchconsumequeue", "batch", size))
    for base, (area, kind, size) in zip((0, BATCH_ORDER), kinds, strict=False):
        above = areas.get(area, store.root / area)
        directories = queue_directories(above, loader.disk)
        if kind == "file" and not with_ext:
            plain = plain_queues(loader.disk, above, size)
            if not dialect.batch_queues or all(kind_of(topic) in (None, kind) for topic in plain.topics):
                loading.plain, loading.plain_size, directories = plain, size, plain.others
        for order, topic, queue_id in directories:
            directory = f"{area}/{topic}/{queue_id}"
            stated = kind_of(topic)
            if dialect.batch_queues and stated is not None and stated != kind:
                names = {"found": KIND_NAMES[kind], "stated": KIND_NAMES[stated]}
                loading.refusals.append(Refusal(directory, KIND_REASON.format(topic=topic, **names)))
            files = loader.mapped_files([above / topic / str(queue_id)], size, directory)
            queue = LoadedQueue(topic, queue_id, kind, directory, size, files)
            loading.queues.append((base + order, queue))
            if with_ext and kind == "file":
                ext = store.root / "consumequeue_ext" / topic / str(queue_id)
                loader.mapped_files([ext], store.geometry.ext_file_size)
    return loading


def load_directory(store: Store, dialect: Dialect, directory: str, file_size: int) -> Loading:
    """The mapped files of one directory below the store's root, as `log_files`."""
    loading = Loading()
    loader = _Loader(store.root, dialect, loading, Disk())
    loading.log_files = loader.mapped_files([store.root / directory], file_size)
    return loading


class _Loader:
    def __init__(self, root: Path, dialect: Dialect, loading: Loading, disk: Disk) -> None:
        self.disk = disk
        self.root = os.fspath(root)
        self.dialect = dialect
        self.loading = loading

    def mapped_files(
        self, directories: Iterable[Path | str], file_size: int, named: str | None = None
    ) -> list[LoadedFile]:
        """The files of one mapped file queue, in the broker's order.

        `named` is the directory's place below the root where it is not where the files are.
        """
        entries = [entry for directory in directories for entry in self.disk.entries_of(directory)]
        if len(entries) == 1 and entries[0].size == file_size > 0 and entries[0].kind is EntryKind.FILE:
            start_offset = java_parse_long(entries[0].name)  # as of most queues: no version minds
            if start_offset is not None:
                relative = self._relative(entries[0], named)
                return [LoadedFile(entries[0].path, relative, start_offset, file_size, file_size)]
        by_name = self.dialect.load_order == "name"
        entries.sort(key=lambda entry: entry.name if by_name else entry.path)
        files: list[LoadedFile] = []
        for number, entry in enumerate(entries):
            is_directory = entry.kind is EntryKind.DIRECTORY
            if is_directory and self.dialect.directories_skipped:
                continue
            last = number == len(entries) - 1
            if entry.size == 0 and last and not is_directory and self.dialect.empty_last_file_deleted:
                relative = self._relative(entry, named)
                self.loading.deleted.append(FileChange(relative, "deleted", 0, "the file is empty"))
                continue
            if is_directory or entry.size != file_size:
                self._wrong_size(entry, entries[number:], named)
                break
            start_offset = java_parse_long(entry.name)
            if start_offset is None:
                reason = NUMBER_REASON.format(name=entry.name)
                self.loading.refusals.append(Refusal(self._relative(entry, named), reason))
                break
            relative = self._relative(entry, named)
            files.append(LoadedFile(entry.path, relative, start_offset, file_size, file_size))
        return files

    def _wrong_size(self, entry: DirectoryEntry, hidden: list[DirectoryEntry], named: str | None) -> None:
        relative = self._relative(entry, named)
        if self.dialect.wrong_size_fatal:
            self.loading.refusals.append(Refusal(relative, LENGTH_REASON.format(size=entry.size)))
            return
        for other in hidden:
            why = (
                "the file does not have the configured length"
                if other is entry
                else f"the file comes after {relative}"
            )
            self.loading.ignored.append(Ignored(self._relative(other, named), why))

    def _relative(self, entry: DirectoryEntry, named: str | None) -> str:
        if named is not None:
            return f"{named}/{entry.name}"
        path, prefix = entry.path, self.root.rstrip("/") + "/"
        return path[len(prefix) :] if path.startswith(prefix) else path
