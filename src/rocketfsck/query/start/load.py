"""What a broker loads: the mapped files of the commit log and of every consume queue, or why it refuses.

A directory's entries are taken in the broker's order; what is wrong with one of them is fatal, or hides it
and all behind it, or nothing, as the version has it. Reference 1.2, 3.5, 6.1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from rocketfsck.errors import StoreError
from rocketfsck.formats.consumequeue import BATCH_UNIT_SIZE, UNIT_SIZE, rounded_file_size
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.filename import java_parse_long
from rocketfsck.formats.javatext import parse_int32
from rocketfsck.query.start.model import FileChange, Ignored, Refusal
from rocketfsck.store.listing import Entry, EntryKind, list_directory
from rocketfsck.store.model import QueueKind, Store

LENGTH_REASON = "{size} length not matched message store config value, please check it manually"
KIND_REASON = "java.lang.RuntimeException: The queue type of topic: {topic} should be {found}, but is {told}"
KIND_NAMES: dict[QueueKind, str] = {"file": "SimpleCQ", "batch": "BatchCQ"}
Areas = Mapping[str, Path]
"""Directories by the name of the one below the store's root in whose place they stand."""

NO_AREAS: Areas = MappingProxyType({})

NUMBER_REASON = 'java.lang.NumberFormatException: For input string: "{name}"'


@dataclass(slots=True)
class OpenFile:
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
    files: list[OpenFile]


@dataclass(slots=True)
class Loading:
    """What loading came to. With refusals the broker gives up before it recovers anything."""

    log_files: list[OpenFile] = field(default_factory=list)
    queues: list[LoadedQueue] = field(default_factory=list)
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
) -> Loading:
    """The commit log, then the consume queues; a commit log that is refused ends it.

    `kind_of` gives the kind of queue that a topic's settings say, None where they are not known. `areas` are
    directories that are read in the place of the store's own of that name. Without `with_queues` the queues
    are left out: they are in a database.
    """
    loading = Loading()
    loader = _Loader(store.root, dialect, loading)
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
    for area, kind, size in kinds:
        above = areas.get(area, store.root / area)
        for topic, queue_id in _queue_directories(above):
            directory = f"{area}/{topic}/{queue_id}"
            told = kind_of(topic)
            if dialect.batch_queues and told is not None and told != kind:
                names = {"found": KIND_NAMES[kind], "told": KIND_NAMES[told]}
                loading.refusals.append(Refusal(directory, KIND_REASON.format(topic=topic, **names)))
            files = loader.mapped_files([above / topic / str(queue_id)], size, directory)
            loading.queues.append(LoadedQueue(topic, queue_id, kind, directory, size, files))
            if with_ext and kind == "file":
                ext = store.root / "consumequeue_ext" / topic / str(queue_id)
                loader.mapped_files([ext], store.geometry.ext_file_size)
    return loading


def load_directory(store: Store, dialect: Dialect, directory: str, file_size: int) -> Loading:
    """The mapped files of one directory below the store's root, as `log_files`."""
    loading = Loading()
    loader = _Loader(store.root, dialect, loading)
    loading.log_files = loader.mapped_files([store.root / directory], file_size)
    return loading


def entries_of(directory: Path | str) -> list[Entry]:
    """The entries of a directory; none where there is no directory, as the broker sees it."""
    try:
        return list_directory(directory)
    except StoreError:
        return []


def _queue_directories(area: Path) -> Iterable[tuple[str, int]]:
    for topic in entries_of(area):
        if topic.kind is not EntryKind.DIRECTORY:
            continue
        for entry in entries_of(topic.path):
            queue_id = parse_int32(entry.name)
            if queue_id is not None:
                yield topic.name, queue_id


class _Loader:
    def __init__(self, root: Path, dialect: Dialect, loading: Loading) -> None:
        self.root = os.fspath(root)
        self.dialect = dialect
        self.loading = loading

    def mapped_files(
        self, directories: Iterable[Path | str], file_size: int, named: str | None = None
    ) -> list[OpenFile]:
        """The files of one mapped file queue, in the broker's order.

        `named` is the directory's place below the root where it is not where the files are.
        """
        entries = [entry for directory in directories for entry in entries_of(directory)]
        by_name = self.dialect.load_order == "name"
        entries.sort(key=lambda entry: entry.name if by_name else entry.path)
        files: list[OpenFile] = []
        for number, entry in enumerate(entries):
            is_directory = entry.kind is EntryKind.DIRECTORY
            if is_directory and self.dialect.directories_skipped:
                continue
            last = number == len(entries) - 1
            if entry.size == 0 and last and not is_directory and self.dialect.empty_last_file_deleted:
                relative = self._relative(entry, named)
                self.loading.deleted.append(FileChange(relative, "deleted", 0, "it is empty"))
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
            files.append(OpenFile(entry.path, relative, start_offset, file_size, file_size))
        return files

    def _wrong_size(self, entry: Entry, hidden: list[Entry], named: str | None) -> None:
        relative = self._relative(entry, named)
        if self.dialect.wrong_size_fatal:
            self.loading.refusals.append(Refusal(relative, LENGTH_REASON.format(size=entry.size)))
            return
        for other in hidden:
            why = "its length is not the configured one" if other is entry else f"it comes after {relative}"
            self.loading.ignored.append(Ignored(self._relative(other, named), why))

    def _relative(self, entry: Entry, named: str | None) -> str:
        if named is not None:
            return f"{named}/{entry.name}"
        path, prefix = entry.path, self.root.rstrip("/") + "/"
        return path[len(prefix) :] if path.startswith(prefix) else path
