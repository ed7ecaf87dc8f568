"""What a broker loads: the mapped files of the commit log and of every consume queue, or why it refuses.

A directory's entries are taken in the broker's order; what is wrong with one of them is fatal, or hides it
and all after it, or nothing, as the version has it. Reference 1.2, 3.5, 6.1.

The plain queues of a store: those that every version recovers alike, and mostly leaves as they are.

    plain := one file of the right size, a short and sound one (`reader.shortqueues`)

What starts of several versions find in them is found once, for all of them in one pass. Reference 3.3, 6.6.

What starts of several versions read of one store: directories and short files of units, each read once.

A store of 10,000 queues has as many directories, and files that hold some units and a hole. The versions look
at them in their own ways, but find the same there. Memory: KEPT_SIZE bytes of units, and the listings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats import consumequeue, dtypes, javatext, smallfiles
from rocketfsck.formats.dialect import Dialect
from rocketfsck.query.start.model import FileChange, Ignored, QueueStart, Refusal
from rocketfsck.reader.shortqueues import ShortQueues, read_short_queues
from rocketfsck.store.areas import list_directory
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.model import MappedFile, QueueKind, Store
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind
from rocketfsck.store.reading import FileReader

HEAD_SIZE = 64 << 10
"""Data of a file that is kept."""
KEPT_SIZE = 64 << 20


class Data(Protocol):
    """Bytes of a file, as `FileReader` gives them."""

    def read(self, pos: int, size: int) -> bytes:
        """Exactly `size` bytes from position `pos`."""

    def data_extents(self, start: int = 0) -> Iterator[tuple[int, int]]:
        """The ranges from `start` on that are not holes."""


@dataclass(frozen=True, slots=True)
class _Head:
    """A file of `size` bytes that is `data` and then a hole."""

    path: str
    size: int
    data: bytes

    def read(self, pos: int, size: int) -> bytes:
        if pos + size > self.size:
            with FileReader(self.path) as reader:
                return reader.read(pos, size)
        return self.data[pos : pos + size].ljust(size, b"\0")

    def data_extents(self, start: int = 0) -> Iterator[tuple[int, int]]:
        if start < len(self.data):
            yield start, len(self.data)


@dataclass(frozen=True, slots=True)
class RecoveredQueue:
    """What recovery makes of a queue's files: what it counts, and which files it keeps.

    `kept` has the number of each of these, and where its units end. `last` are the physical offset and size
    in the last valid unit, None without one.
    """

    kept: tuple[tuple[int, int], ...]
    found_count: int
    hidden_count: int
    covered_offset: int
    last: tuple[int, int] | None


@dataclass(slots=True, eq=False)
class Disk:
    """A store's directories and files of units, for as long as starts are predicted on it.

    `is_sound`: a check has found nothing wrong, so that units are valid up to the first zeros.
    """

    is_sound: bool = False
    recovered: dict[tuple[str, ...], RecoveredQueue] = field(default_factory=dict)
    """By the paths of a queue's files."""
    index_notes: dict[bool, str | None] = field(default_factory=dict)
    """What `index_note` says, by whether files of DLedger's log count."""
    tag_entries: dict[bool, bool] = field(default_factory=dict)
    """The same of `has_tag_entries`."""
    kept: dict[tuple[str, int], Any] = field(default_factory=dict)
    """What is found once in an area, by its directory and the size of its files."""
    _entries: dict[str, list[DirectoryEntry]] = field(default_factory=dict)
    _heads: dict[str, _Head] = field(default_factory=dict)
    _left: int = KEPT_SIZE

    def entries_of(self, directory: Path | str) -> list[DirectoryEntry]:
        """The entries of a directory; none where there is no directory, as the broker sees it."""
        found = self._entries.get(str(directory))
        if found is None:
            found = self._entries[str(directory)] = entries_of(directory)
        return found

    def opened(self, path: str) -> AbstractContextManager[Data]:
        """A file, open or kept. Raises StoreError."""
        head = self._heads.get(path)
        if head is not None:
            return nullcontext(head)
        reader = FileReader(path)
        try:
            extents = [extent for extent, _ in zip(reader.data_extents(), range(2), strict=False)]
            end = extents[0][1] if extents else 0
            if len(extents) < 2 and end <= min(HEAD_SIZE, self._left) and (not extents or not extents[0][0]):
                self._left -= end
                head = self._heads[path] = _Head(path, reader.size, reader.read(0, end))
        except BaseException:
            reader.close()
            raise
        if head is None:
            return reader
        reader.close()
        return nullcontext(head)


def entries_of(directory: Path | str) -> list[DirectoryEntry]:
    """The entries of a directory; none where there is no directory, as the broker sees it."""
    try:
        return list_directory(directory)
    except StoreError:
        return []


QueueName = tuple[str, int]
QueueDirectory = tuple[int, str, int]
"""Number in the order of loading, topic, queueId."""
MAX_START = 1 << 62


@dataclass(frozen=True, slots=True)
class PlainQueues:
    """The plain queues among the directories of an area; arrays have an element for each.

    `order` is its number among the directories, `start` the stream position of its file, which is `entries`'.
    `others` are the directories of other queues. `rows` has a queue's element by its name.
    """

    names: tuple[QueueName, ...]
    order: dtypes.Longs
    start: dtypes.Longs
    entries: tuple[DirectoryEntry, ...]
    units: ShortQueues
    others: tuple[QueueDirectory, ...]
    rows: dict[QueueName, int]
    topics: frozenset[str]
    _minima: dict[tuple[bool, int], dtypes.Longs] = field(default_factory=dict)
    _starts: dict[bytes, tuple[QueueStart, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def end(self) -> dtypes.Longs:
        """The stream position behind each queue's last unit."""
        return self.start + self.units.count * consumequeue.UNIT_SIZE

    def minima(self, by_search: bool, min_physical_offset: int) -> dtypes.Longs:
        """What `QueueModel.correct_min` raises `min_pos` to in a log that begins at an offset; -1: it stays.

        Offsets rise, so that the broker's search finds what is there.
        """
        known = self._minima.get((by_search, min_physical_offset))
        if known is None:
            number = self.units.first_from(min_physical_offset)
            found = self.start + number * consumequeue.UNIT_SIZE
            if by_search:
                known = np.where((number == 0) & (self.start == 0), 0, found)
            else:
                known = np.where(number < self.units.count, found, -1)
            self._minima[by_search, min_physical_offset] = known
        return known

    def starts(self, min_pos: dtypes.Longs) -> tuple[QueueStart, ...]:
        """Each queue after a start that has changed only its minimum."""
        key = min_pos.tobytes()
        known = self._starts.get(key)
        if known is None:
            columns = (
                min_pos // consumequeue.UNIT_SIZE,
                self.end // consumequeue.UNIT_SIZE,
                self.units.count,
            )
            rows = zip(self.names, *(column.tolist() for column in columns), strict=True)
            known = self._starts[key] = tuple(
                QueueStart(topic, queue_id, "file", low, end, count, 0, 0, 0, 0, 0, 0)
                for (topic, queue_id), low, end, count in rows
            )
        return known


def plain_queues(disk: Disk, area: Path | str, file_size: int) -> PlainQueues:
    """The plain queues in the directories of an area whose files have this size."""
    key = (os.fspath(area), file_size)
    found = disk.kept.get(key)
    if found is None:
        found = disk.kept[key] = _found(disk, key[0], file_size)
    assert isinstance(found, PlainQueues)
    return found


def _found(disk: Disk, above: str, file_size: int) -> PlainQueues:
    names: list[QueueName] = []
    orders: list[int] = []
    starts: list[int] = []
    entries: list[DirectoryEntry] = []
    others: list[QueueDirectory] = []
    seen: set[QueueName] = set()
    topics = set()
    fits = file_size > consumequeue.UNIT_SIZE
    for directory in queue_directories(above, disk):
        order, topic, queue_id = directory
        topics.add(topic)
        found = disk.entries_of(f"{above}/{topic}/{queue_id}")
        if not fits or len(found) != 1 or (topic, queue_id) in seen:
            others.append(directory)
            continue
        entry = found[0]
        start = smallfiles.java_parse_long(entry.name)
        if entry.size != file_size or entry.kind is not EntryKind.FILE or not _is_start(start):
            others.append(directory)
            continue
        seen.add((topic, queue_id))
        names.append((topic, queue_id))
        orders.append(order)
        starts.append(start or 0)
        entries.append(entry)
    units = read_short_queues([entry.path for entry in entries], [file_size] * len(entries))
    place = units.place.tolist()
    left = sorted(set(range(len(names))).difference(place))
    others += [(orders[number], *names[number]) for number in left]
    names = [names[number] for number in place]
    return PlainQueues(
        tuple(names),
        np.array(orders, np.int64)[units.place],
        np.array(starts, np.int64)[units.place],
        tuple(entries[number] for number in place),
        units,
        tuple(sorted(others)),
        {name: row for row, name in enumerate(names)},
        frozenset(topics),
    )


def queue_directories(area: Path | str, disk: Disk) -> Iterable[QueueDirectory]:
    """The directories of an area that a broker treats as those of queues, in the order of loading."""
    order = 0
    for topic in disk.entries_of(area):
        if topic.kind is not EntryKind.DIRECTORY:
            continue
        for entry in disk.entries_of(topic.path):
            queue_id = javatext.parse_int32(entry.name)
            if queue_id is not None:
                yield order, topic.name, queue_id
                order += 1


def _is_start(start: int | None) -> bool:
    return start is not None and 0 <= start < MAX_START and start % consumequeue.UNIT_SIZE == 0


LENGTH_REASON = "{size} length not matched message store config value, please check it manually"
KIND_REASON = (
    "java.lang.RuntimeException: The queue type of topic: {topic} should be {found}, but is {stated}"
)
KIND_NAMES: dict[QueueKind, str] = {"file": "SimpleCQ", "batch": "BatchCQ"}
QUEUE_AREAS: dict[QueueKind, str] = {"file": "consumequeue", "batch": "batchconsumequeue"}
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

    @classmethod
    def of(cls, file: MappedFile) -> LoadedFile:
        """A file as the store has it, full."""
        return cls(file.location, file.relative, file.start_offset or 0, file.size, file.size)

    @property
    def end_offset(self) -> int:
        return self.start_offset + self.size

    def used_end(self) -> int:
        """Where the bytes on disk end that are not zeros. Raises StoreError."""
        with FileReader(self.path) as reader:
            return reader.used_end()


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


def queue_file_sizes(geometry: Geometry) -> dict[QueueKind, int]:
    """The size in bytes of the files of each kind of consume queue."""
    sizes = geometry.consumequeue_file_size, geometry.batch_file_size
    return {
        "file": consumequeue.rounded_file_size(sizes[0], consumequeue.UNIT_SIZE),
        "batch": consumequeue.rounded_file_size(sizes[1], consumequeue.BATCH_UNIT_SIZE),
    }


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
    sizes = queue_file_sizes(store.geometry)
    for base, (kind, area) in zip((0, BATCH_ORDER), QUEUE_AREAS.items(), strict=True):
        if kind == "batch" and not dialect.batch_queues:
            break
        size = sizes[kind]
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
            start_offset = smallfiles.java_parse_long(entries[0].name)  # as of most queues: no version minds
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
            start_offset = smallfiles.java_parse_long(entry.name)
            relative = self._relative(entry, named)
            if start_offset is None:
                self.loading.refusals.append(Refusal(relative, NUMBER_REASON.format(name=entry.name)))
                break
            files.append(LoadedFile(entry.path, relative, start_offset, file_size, file_size))
        return files

    def _wrong_size(self, entry: DirectoryEntry, hidden: list[DirectoryEntry], named: str | None) -> None:
        relative = self._relative(entry, named)
        if self.dialect.wrong_size_fatal:
            self.loading.refusals.append(Refusal(relative, LENGTH_REASON.format(size=entry.size)))
            return
        for other in hidden:
            why = f"the file comes after {relative}"
            if other is entry:
                why = "the file does not have the configured length"
            self.loading.ignored.append(Ignored(self._relative(other, named), why))

    def _relative(self, entry: DirectoryEntry, named: str | None) -> str:
        if named is not None:
            return f"{named}/{entry.name}"
        path, prefix = entry.path, self.root.rstrip("/") + "/"
        return path[len(prefix) :] if path.startswith(prefix) else path
