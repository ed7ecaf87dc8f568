"""The state of a store that a broker's answers are given for.

    started   what a broker of the version serves after it has started on the store: with the units that its
              recovery finds, without those that it cuts, with those that it dispatches
              (`query.start.simulate`)
    running   what a broker serves that is running on these files, as far as they tell: units count up to
              the last one that leads to a record of its queue; what follows may be left by a truncation

Both are the same where a broker was stopped in order and nothing is wrong with its files. The two differ
where a truncation left units after the end of a queue: a running broker does not see them, the next start
treats those that look valid as good ones.

The index files of a broker: those on disk, less what its start deletes, and what its start puts.

A start after a kill dispatches records again whose entries it has kept: the last one always, and all that the
log has behind the newest file's endPhyOffset. A query by key then gives them once more. Reference 4.5 to 4.8.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats import indexfile, javatext, magic
from rocketfsck.formats.dialect import Dialect
from rocketfsck.query.serving import files as serving_files
from rocketfsck.query.serving.files import AppendedUnits, ServedFile, ServedLog, ServedQueue
from rocketfsck.query.start.databases import keeps_light_rows
from rocketfsck.query.start.dispatch import QueueName
from rocketfsck.query.start.index import IndexModel, OpenIndex, PutEntries
from rocketfsck.query.start.load import LoadedFile, LoadedQueue, queue_file_sizes
from rocketfsck.query.start.queues import AppendedColumns, QueueModel
from rocketfsck.query.start.settings import NotCoveredError, refuse_unanswered, refuse_unknown
from rocketfsck.query.start.simulate import start_files
from rocketfsck.query.view import LogView, QueueView, queues_by_name
from rocketfsck.reader.index import read_header
from rocketfsck.scan.views.messages import Message
from rocketfsck.store.model import IndexFile, Store
from rocketfsck.store.openfiles import Readers


@dataclass(frozen=True, slots=True)
class ServedIndex:
    """An index file in a broker's memory: `file` on disk (None: a start creates it), its header, and which of
    the entries that the start puts are in it."""

    file: IndexFile | None
    header: indexfile.IndexHeader
    first: int = 0
    end: int = 0

    def put_entries(self, entries: PutEntries | None, key_hash: int) -> Iterator[tuple[int, int]]:
        """Physical offset and time (ms, as the entry has it) of those with this hash, the last put first."""
        if entries is None or self.first == self.end:
            return
        hashes, offsets, times = (column[self.first : self.end] for column in entries.columns)
        begin = self.header.begin_timestamp
        for row in np.flatnonzero(hashes == key_hash)[::-1].tolist():
            seconds = min(max(int(times[row]) - begin, 0) // 1000, javatext.INT32_MAX) if begin > 0 else 0
            yield int(offsets[row]), begin + 1000 * seconds


def files_on_disk(files: Sequence[IndexFile]) -> list[ServedIndex]:
    """The files as they are."""
    return [ServedIndex(file, _header(file)) for file in files]


def files_after_start(
    files: Sequence[IndexFile], model: IndexModel, entries: PutEntries
) -> list[ServedIndex]:
    """The files as a start leaves them."""
    known = {file.relative: file for file in files}
    made: list[ServedIndex] = []
    first = 0
    for opened in model.files:
        end = first + opened.added_count
        file = None if opened.is_new else known.get(opened.file)
        made.append(ServedIndex(file, _put(opened, file, entries, first, end), first, end))
        first = end
    return made


def _put(
    opened: OpenIndex, file: IndexFile | None, entries: PutEntries, first: int, end: int
) -> indexfile.IndexHeader:
    header = indexfile.IndexHeader() if file is None else _header(file)
    if first == end:
        return header
    _, offsets, times = entries.columns
    if header.index_count <= 1:
        header = replace(header, begin_timestamp=int(times[first]), begin_physical_offset=int(offsets[first]))
    return replace(
        header,
        end_timestamp=int(times[end - 1]),
        end_physical_offset=int(offsets[end - 1]),
        index_count=opened.index_count,
    )


def _header(file: IndexFile) -> indexfile.IndexHeader:
    """That of the file; zeros for a short one, which a broker makes longer."""
    return read_header(file.location) or indexfile.IndexHeader()


State = Literal["started", "running"]

APPENDED_LIMIT = 1 << 22
"""More units than these, appended by a start, are not kept in memory."""


@dataclass(eq=False)
class Serving:
    """The commit log, the index and the queues in one state. Queues are made when they are asked for.

    `entries` are those that a start puts into the index.
    """

    log: ServedLog
    view: LogView
    dialect: Dialect
    indexes: list[ServedIndex]
    entries: PutEntries | None = None
    _made: dict[QueueName, ServedQueue | None] = field(default_factory=dict)

    def queue(self, topic: str, queue_id: int) -> ServedQueue | None:
        """A queue; None where the broker has none."""
        name = (topic, queue_id)
        if name not in self._made:
            made = self._make(name)
            if made is not None and made.kind == "file" and self.view.store.lifted.areas:
                made = replace(made, in_database=True)
            self._made[name] = made
        return self._made[name]

    def _make(self, name: QueueName) -> ServedQueue | None:
        raise NotImplementedError


def usual_state(store: Store, dialect: Dialect) -> State:
    """The state that a store is asked about in if nobody says which."""
    if store.live.locked:
        return "running"
    try:
        refuse_unknown(store, store.settings, dialect)
    except NotCoveredError:
        return "running"
    # a predicted start has the queues that are in files, and adds nothing to light ones in RocksDB
    return "running" if keeps_light_rows(store, store.settings, dialect) else "started"


def serve(store: Store, view: LogView, dialect: Dialect, state: State, readers: Readers) -> Serving:
    """The store in a state. Raises StoreError where it cannot be read, or the broker does not start on it."""
    return (_Started if state == "started" else _Running)(store, view, dialect, readers)


class _Started(Serving):
    def __init__(self, store: Store, view: LogView, dialect: Dialect, readers: Readers) -> None:
        version = str(dialect.version)
        self.runs: dict[QueueName, list[tuple[int, AppendedColumns]]] = {}
        self.count = 0
        entries = PutEntries(APPENDED_LIMIT)
        started = start_files(store, version, watch=self._watch, entries=entries)
        self.models = started.queues
        if started.refusals:
            why = started.refusals[0]
            raise StoreError(f"a {version} broker does not start on this store: {why.reason}", path=why.file)
        log = _log(store, started.log_files, dialect, readers)
        indexes = files_after_start(store.indexes, started.index, entries)
        super().__init__(log, view, dialect, indexes, entries)
        self.readers = readers
        self.mtimes = {
            str(file.path): file.mtime_ns // 1_000_000 for queue in store.queues for file in queue.files
        }
        self.now = time.time_ns() // 1_000_000

    def _watch(self, model: QueueModel, place: int, units: AppendedColumns) -> None:
        self.count += len(units.offset)
        if self.count > APPENDED_LIMIT:
            raise StoreError(
                f"a start appends more than {APPENDED_LIMIT:,} units to the queues: rebuild the queues "
                "first, or ask for the state of a running broker"
            )
        self.runs.setdefault((model.loaded.topic, model.loaded.queue_id), []).append((place, units))

    def _make(self, name: QueueName) -> ServedQueue | None:
        model = self.models.get(name)
        if model is None:
            return None
        appended = self._appended(model, self.runs.get(name, []))
        size = model.unit_size

        def served(file: LoadedFile) -> ServedFile:
            places = appended.place * size
            written = bool(np.any((places >= file.start_offset) & (places < file.end_offset)))
            mtime = self.now if written or file.is_new else self.mtimes.get(file.path, 0)
            return _served(file, mtime)

        return _queue(model, tuple(map(served, model.files)), self.log, self.readers, appended)

    def _appended(self, model: QueueModel, runs: list[tuple[int, AppendedColumns]]) -> AppendedUnits:
        """The units that a start appends and that stay; a later one in place of an earlier one."""
        if not runs:
            return serving_files.NO_UNITS
        place = np.concatenate([first + np.arange(len(units.offset)) for first, units in runs])
        latest, number = np.unique(place[::-1], return_index=True)
        number = len(place) - 1 - number
        kept = latest * model.unit_size < model.end_pos
        latest, number = latest[kept], number[kept]
        columns = [
            np.concatenate([getattr(units, column) for _, units in runs])[number].astype(np.int64)
            for column in ("offset", "size", "tags")
        ]
        batches = np.zeros((len(latest), 3), np.int64)
        if model.loaded.kind == "batch":
            for row, offset in enumerate(columns[0].tolist()):
                batches[row] = self._batch(offset)
        return AppendedUnits(latest, *columns, *batches.T)

    def _batch(self, offset: int) -> tuple[int, int, int]:
        """The base, the number of messages and the time of a record, for its batch unit."""
        message = self.view.record_at(offset)
        if not isinstance(message, Message):
            raise StoreError("a record that the start dispatches cannot be read", offset=offset)
        properties = message.properties or {}
        base, count = message.queue_offset, 1
        if message.sys_flag & magic.INNER_BATCH:
            found = javatext.parse_int64(properties.get("INNER_BASE", ""))
            base = base if found is None else found
            count = javatext.parse_int64(properties.get("INNER_NUM", "")) or 1
        return base, count, message.store_timestamp


class _Running(Serving):
    def __init__(self, store: Store, view: LogView, dialect: Dialect, readers: Readers) -> None:
        refuse_unanswered(store, dialect, queues=True)
        files = map(LoadedFile.of, view.files)
        log = _log(store, _cut(files, view.end_offset), dialect, readers)
        super().__init__(log, view, dialect, files_on_disk(store.indexes))
        self.readers = readers
        self.sizes = queue_file_sizes(store.geometry)
        self.queues = queues_by_name(store)

    def _make(self, name: QueueName) -> ServedQueue | None:
        queue = self.queues.get(name)
        if queue is None:
            return None
        size = queue.unit_size
        with QueueView(queue, self.view) as view:
            end_pos = view.end_index * size
            found = list(map(LoadedFile.of, view.files))
        files = list(_cut(found, end_pos))
        loaded = LoadedQueue(*name, queue.kind, "", self.sizes[queue.kind], files)
        model = QueueModel(loaded, self.dialect)
        model.disk_end = end_pos
        model.revise()
        model.correct_min(self.log.min_offset)
        mtimes = {file.location: file.mtime_ns // 1_000_000 for file in queue.files}
        served = tuple(_served(file, mtimes[file.path]) for file in files)
        return _queue(model, served, self.log, self.readers, serving_files.NO_UNITS)


def _cut(files: Iterable[LoadedFile], end: int) -> Iterator[LoadedFile]:
    """Those files that begin at `end` or before, with contents up to there."""
    for file in files:
        if file.start_offset <= end:
            file.wrote_pos = min(file.size, end - file.start_offset)
            yield file


def _served(file: LoadedFile, mtime: int = 0) -> ServedFile:
    return ServedFile(file.path, file.start_offset, file.size, file.wrote_pos, mtime)


def _log(store: Store, files: Iterable[LoadedFile], dialect: Dialect, readers: Readers) -> ServedLog:
    return ServedLog(
        tuple(map(_served, files)),
        max(store.geometry.commitlog_file_size, 1),
        dialect.v2_allowed,
        dialect.ipv6_hosts,
        readers,
    )


def _queue(
    model: QueueModel,
    files: tuple[ServedFile, ...],
    log: ServedLog,
    readers: Readers,
    appended: AppendedUnits,
) -> ServedQueue:
    loaded = model.loaded
    name, sizes = (loaded.topic, loaded.queue_id), (model.unit_size, loaded.file_size)
    bounds = model.min_pos, model.min_offset, model.max_offset
    queue = ServedQueue(*name, loaded.kind, *sizes, files, *bounds, readers, appended)
    if queue.kind == "file":
        return queue
    return replace(queue, min_offset=_batch_min(queue, log.min_offset), max_offset=_batch_max(queue))


def _batch_min(queue: ServedQueue, min_physical_offset: int) -> int:
    """The first queue offset of a batch queue, -1 for none: correctMinOffset.

    Behind the units at the beginning of its first file whose records are gone, be they all of that file.
    """
    if not queue.files or serving_files.first_unit(queue, queue.files[0]) is None:
        return -1
    file = queue.files[0]
    least = queue.unit(file, 0).queue_offset
    for pos in range(0, file.wrote_pos, queue.unit_size):
        unit = queue.unit(file, pos)
        if unit.physical_offset >= min_physical_offset:
            break
        least = unit.queue_offset + unit.count
    return least


def _batch_max(queue: ServedQueue) -> int:
    """The next queue offset of a batch queue: after the last unit of its last file, or of the one before."""
    for file in queue.files[:-3:-1]:
        if file.wrote_pos >= queue.unit_size:
            last = queue.unit(file, serving_files.last_pos(queue, file))
            return last.queue_offset + last.count
    return 0
