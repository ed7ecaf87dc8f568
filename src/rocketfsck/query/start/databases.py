"""What the databases of a store decide of a start: which queues the broker reads, and where it begins.

    storeType=defaultRocksDB       the queues are rows; records are dispatched from the database's mark
    rocksdbCQDoubleWriteEnable     files and rows; read from the files, dispatched from what both have
    index-, transRocksDBEnable     (5.4.0+) the recovery begins with a file that these have had, too

A database that cannot be opened keeps the broker from starting, but for rocksdbstore/, which it then does
without. Reference 3.9, 6.3, 6.4, 11.3, 11.4.

One consume queue in RocksDB while a broker starts: its two bounds and its rows. Reference 3.9, 6.3, 6.4.

    least, greatest := queue offset, physical offset of its record

A put writes the row of its own queue offset, whatever is there, and the greatest becomes what was put last.
A truncation moves the greatest alone; the least is corrected when somebody asks for it. The units on disk are
files made of the rows (`store.rocks.lifting`); those that the start puts are kept here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats import dtypes, javatext, properties, rocks
from rocketfsck.formats.dialect import Dialect, versions_with
from rocketfsck.query.start.load import LoadedFile, LoadedQueue, entries_of, queue_file_sizes
from rocketfsck.query.start.model import Refusal
from rocketfsck.query.start.queues import AppendedColumns, QueueModel
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.elsewhere import QUEUE_DATABASES, lost_queue_database
from rocketfsck.store.model import DatabaseQueues, Other, OtherKind, QueueBounds, Store, StrayReason
from rocketfsck.store.rocks.families import CURRENT, DEFAULT
from rocketfsck.store.rocks.lifting import lifted
from rocketfsck.store.rocks.reading import RocksError, estimate_rows, read_rows, why_not_readable

Bound = tuple[int, int]


class RowsModel(QueueModel):
    """A consume queue in a database. `end` is the queue offset behind the greatest."""

    __slots__ = ("greatest", "least", "put_offsets", "put_places")

    def __init__(self, loaded: LoadedQueue, dialect: Dialect, bounds: QueueBounds | None = None) -> None:
        super().__init__(loaded, dialect)
        self.counts_ends = False
        self.least: Bound | None = None if bounds is None else bounds.least
        self.greatest: Bound | None = None if bounds is None else bounds.greatest
        self.found_count = 0 if bounds is None else bounds.row_count
        self.put_places: dtypes.Longs = np.zeros(0, np.int64)
        self.put_offsets: dtypes.Longs = np.zeros(0, np.int64)

    @property
    def end(self) -> int:
        """The queue offset behind the greatest; 0 for a queue without any."""
        return 0 if self.greatest is None else self.greatest[0] + 1

    @property
    def end_pos(self) -> int:
        return self.end * self.unit_size

    def recover(self) -> None:
        """Take the bounds as they are: RocksDB's own recovery has been."""
        if self.greatest is not None:
            self.covered_offset = self.covered_before = self.greatest[1]
            self.max_physic_offset = self.greatest[1]
        self.disk_end = self.end_pos
        self._fit_files()

    def offset_at(self, queue_offset: int) -> int | None:
        """The physical offset in the row of a queue offset; None without a row."""
        found = np.flatnonzero(self.put_places == queue_offset)
        if len(found):
            return int(self.put_offsets[found[-1]])
        if queue_offset * self.unit_size >= self.disk_end:
            return None
        pos = queue_offset * self.unit_size
        for file in self.loaded.files:
            if not file.is_new and file.start_offset <= pos < file.end_offset:
                unit = self._unit_at(file, pos - file.start_offset)
                used = int(unit["size"]) > 0 and (self.least is None or queue_offset >= self.least[0])
                return int(unit["offset"]) if used else None
        return None

    def put(self, units: AppendedColumns) -> None:
        """Put rows in the order of the log; `added_count` counts those that are new or other than before."""
        for place, offset in zip(units.index.tolist(), units.offset.tolist(), strict=True):
            self.added_count += self.offset_at(place) != offset
        self.put_places = np.concatenate([self.put_places, units.index])
        self.put_offsets = np.concatenate([self.put_offsets, units.offset])
        self.greatest = (int(units.index[-1]), int(units.offset[-1]))
        self.max_physic_offset = self.appended_offset = self.greatest[1]
        self._fit_files()

    def truncate(self, cut_offset: int) -> None:
        """Move the greatest in front of the cut, as `truncateDirtyOffset` does."""
        greatest, least = self.greatest, self.least
        if greatest is None or greatest[1] < cut_offset:
            return
        if least is None or least[1] > cut_offset:
            return  # "correctMaxCqOffset error": the broker throws, catches it, and leaves the queue
        found = self._search(greatest[0], least[0], cut_offset, least=False)
        if found is not None:
            self.greatest = found
        elif greatest[0] != least[0]:
            self.greatest = (least[0], least[1])
        self.cut_count += max(greatest[0] - self.greatest[0], 0) if self.greatest else 0
        self.covered_offset = min(self.covered_offset, self.greatest[1]) if self.greatest else -1
        self.disk_end = min(self.disk_end, self.end_pos)
        self._fit_files()

    def correct_min(self, min_physical_offset: int) -> None:
        """`getMinCqOffset`, for a log that begins at this physical offset."""
        if self.least is None or self.least[1] < min_physical_offset:
            low = 0 if self.least is None else self.least[0]
            greatest = self.greatest
            if greatest is None:
                self.least = (0, min_physical_offset)
            elif greatest[1] < min_physical_offset:
                self.least = (greatest[0] + 1, min_physical_offset)
            else:
                found = self._search(greatest[0], low, min_physical_offset, least=True)
                if found is not None:
                    self.least = found
                elif greatest[0] != low:
                    self.least = greatest
        self.min_pos = max(self.least[0] if self.least else 0, 0) * self.unit_size

    def _search(self, high: int, low: int, wanted: int, *, least: bool) -> Bound | None:
        """`binarySearchInCQ`: the first row from `wanted` on, or the last before it. The latter search ends
        where it meets `wanted` itself, and may then miss rows that are nearer."""
        found: Bound | None = None
        while high >= low:
            middle = low + (high - low) // 2
            offset = self.offset_at(middle)
            if offset is None:
                low = middle + 1
            elif offset == wanted:
                return (middle, offset) if least else found
            elif offset > wanted:
                high = middle - 1
                found = (middle, offset) if least else found
            else:
                low = middle + 1
                found = found if least else (middle, offset)
        return found

    def destroy(self) -> None:
        """Forget all: the directory of the database is deleted."""
        super().destroy()
        self.least = self.greatest = None
        self.put_places = self.put_offsets = np.zeros(0, np.int64)
        self.disk_end = 0

    def _fit_files(self) -> None:
        """Have files up to the end: readers of units go by them."""
        files = self.loaded.files
        if not files and self.end:
            least = self.least[0] if self.least else int(self.put_places.min(initial=self.end - 1))
            first = least * self.unit_size
            self._create(first - first % self.loaded.file_size)
        while files and files[-1].end_offset < self.end_pos:
            self._create(files[-1].end_offset)
        for file in files:
            file.wrote_pos = min(max(self.end_pos - file.start_offset, 0), file.size)


AREA, SEPARATE = "consumequeue", "consumequeue_rocksdb"
MESSAGES = "rocksdbstore"
ROCKSDB = "defaultRocksDB"
EXTRA_FILES = 3

Kind = Literal["files", "rows", "both"]
EMPTY = DatabaseQueues(None, {})

UNREAD_REASON = "the consume queues are in RocksDB, and {reason}"
VERSION_REASON = "predictions of a start on consume queues in RocksDB begin with version {first}"
BOTH_VERSION_REASON = (
    "predictions of a start on consume queues in both files and RocksDB begin with version {first}"
)
PREFER_REASON = "{name} prefers the consume queues in RocksDB, but the store also has them in files"
LIGHT_REASON = "combineCQUseRocksdbForLmq: light queues are in RocksDB, all others in files"
RECHECK_REASON = "recheckReputOffsetFromCq is on, and the consume queues are in RocksDB"
FILE_REASON = "org.rocksdb.RocksDBException: `{path}' exists but is not a directory"
OTHER_PATH_REASON = (
    "java.lang.IllegalStateException: find RocksDBConsumeQueue in original/separate path, maybe incompatible "
    "config."
)
OLD_LOG_REASON = (
    "org.rocksdb.RocksDBException: While creating a new Db, wal_dir contains existing log file: {name}"
)


@dataclass(frozen=True, slots=True)
class Marks:
    """Up to where databases have records: physical offsets.

    `queues`: of the queues that are read, in place of the checkpoint; `double_written`: of those next to
    files, for which `extra_files` more files are looked at, and `waits` says whether a mark of 0 counts;
    `messages`: those of rocksdbstore/, None where it cannot be read, `in_dispatch` whether they say where to
    dispatch from, too.
    """

    queues: int | None = None
    double_written: int | None = None
    extra_files: int = EXTRA_FILES
    waits: bool = False
    messages: tuple[int | None, ...] = ()
    in_dispatch: bool = False

    def dispatch_from(self, offset: int) -> int:
        """The physical offset that a recovery dispatches from, `offset` by the queues in files."""
        if self.queues is not None:
            offset = self.queues
        elif self.double_written is not None:
            offset = min(offset, self.double_written)
        stated = [mark for mark in self.messages if mark is not None and mark > 0] if self.in_dispatch else []
        return min([offset, *stated])


@dataclass(slots=True)
class Matcher:
    """`isMappedFileMatchedRecover` beyond the queues in files: whether a file may be the first, asked from
    the last file on. `left` counts down the files that it was asked of."""

    marks: Marks
    left: int

    def allows(self, physical_offset: int) -> bool:
        """Whether the databases have what is before this file's first record."""
        marks = self.marks
        written = marks.double_written
        if written is not None and (written > 0 or marks.waits) and physical_offset > written:
            self.left -= 1
            if self.left >= 0:
                return False
        return all(mark is not None and physical_offset <= mark for mark in marks.messages)


NO_MARKS = Marks()


@contextmanager
def with_queues(store: Store) -> Iterator[Store]:
    """The store with the queues of its databases as long as the context lasts; as it is if it has them."""
    if store.lifted.databases or store.lifted.failed:
        yield store
        return
    with lifted(store) as lifting:
        yield lifting.store


def kind_of_queues(store: Store, settings: Settings, dialect: Dialect) -> Kind:
    """Where the broker has its consume queues: what the settings say, else what is there."""
    if not dialect.rocksdb_consumequeue:
        return "files"
    store_type = settings.get("storeType")
    if store_type is not None and store_type.startswith(ROCKSDB):
        return "rows"
    if settings.flag("rocksdbCQDoubleWriteEnable", False):
        return "both"
    names = {other.relative for other in store.others if other.kind is OtherKind.ROCKSDB}
    if store_type is None and lost_queue_database(store) is not None:
        return "rows"
    if store_type is not None or names.isdisjoint(QUEUE_DATABASES):
        return "files"
    return "both" if _in_files(store) else "rows"


def _in_files(store: Store) -> bool:
    if store.lifted.databases:
        return store.lifted.beside_files
    return any(queue.kind == "file" and queue.files for queue in store.queues)


def unread_databases(store: Store) -> bool:
    """Whether the store has a database of queues of which it is not known what is in it, or why not."""
    known = store.lifted.databases | store.lifted.failed.keys()
    return any(other.relative not in known for other in _databases(store))


def _databases(store: Store) -> Iterator[Other]:
    """The databases that may hold queues; an empty directory is not one."""
    return (
        other
        for other in store.others
        if other.kind is OtherKind.ROCKSDB and other.relative in QUEUE_DATABASES and other.files
    )


@dataclass(frozen=True, slots=True)
class StartingQueues:
    """The consume queues of a start. `database` is the path of their database below the root, `found` what it
    says of them. `marks` are those of all databases, `refusals` what keeps the broker from starting."""

    kind: Kind = "files"
    database: str = AREA
    found: DatabaseQueues = EMPTY
    marks: Marks = NO_MARKS
    refusals: tuple[Refusal, ...] = ()


def not_described(store: Store, settings: Settings, dialect: Dialect) -> tuple[str, ...]:
    """Why the start of a broker with queues in RocksDB cannot be predicted here, each a clause."""
    kind = kind_of_queues(store, settings, dialect)
    if kind == "files":
        return ()
    reasons = []
    if dialect.dispatch_restart != "recovery":
        reasons.append(VERSION_REASON.format(first=versions_with(dispatch_restart="recovery")[0]))
    elif kind == "both" and dialect.clean_scan_start != "first record":
        first = versions_with(clean_scan_start="first record")[0]
        reasons.append(BOTH_VERSION_REASON.format(first=first))
    if kind == "both":
        names = ("combineCQPreferCQType", "combineAssignOffsetCQType")
        reasons += [
            PREFER_REASON.format(name=name)
            for name in names
            if (settings.get(name) or "").startswith(ROCKSDB)
        ]
        if store.abort is not None and keeps_light_rows(store, settings, dialect):
            reasons.append(LIGHT_REASON)  # after an orderly stop a start adds no row to these queues
    elif settings.flag("recheckReputOffsetFromCq", False):
        reasons.append(RECHECK_REASON)
    other = _database(store, database_path(store, settings, dialect))
    if other is not None and not reasons:
        reasons += _unread(store, other)
    return tuple(reasons)


def _unread(store: Store, other: Other) -> Iterator[str]:
    """Why the rows are not known though a broker may open the database."""
    if (reason := why_not_readable(other)) is not None:
        yield UNREAD_REASON.format(reason=reason)
    elif other.relative in store.lifted.failed and open_failure(other) is None:
        yield UNREAD_REASON.format(reason=store.lifted.failed[other.relative])


def has_light_rows(store: Store) -> bool:
    """Whether databases of the store hold light queues."""
    return any(
        topic.startswith(properties.LMQ_PREFIX)
        for queues in store.lifted.queues.values()
        for topic, _ in queues.bounds
    )


def keeps_light_rows(store: Store, settings: Settings, dialect: Dialect) -> bool:
    """Whether a broker has light queues in RocksDB and all others in files (combineCQUseRocksdbForLmq)."""
    light = settings.flag("combineCQUseRocksdbForLmq", _has_light_rows_alone(store))
    return light and has_light_rows(store) and kind_of_queues(store, settings, dialect) == "both"


def _has_light_rows_alone(store: Store) -> bool:
    """Whether a light queue of a database has no files: a broker that wrote both would have made some."""
    directory = store.lifted.files
    return directory is not None and any(
        queue.topic.startswith(properties.LMQ_PREFIX) and file.path.is_relative_to(directory)
        for queue in store.queues
        for file in queue.files[:1]
    )


def database_path(store: Store, settings: Settings, dialect: Dialect) -> str:
    """The path below the root where the broker has its database of queues."""
    if not dialect.separate_queue_database:
        return AREA
    there = {other.relative for other in _databases(store)}
    separate = settings.flag("useSeparateStorePathForRocksdbCQ", SEPARATE in there and AREA not in there)
    return SEPARATE if separate else AREA


def _database(store: Store, path: str) -> Other | None:
    return next((other for other in _databases(store) if other.relative == path), None)


def open_failure(other: Other) -> str | None:
    """What RocksDB says when it cannot open a database; None where it can, or makes a new one."""
    names = sorted(file.name for file in other.files)
    if CURRENT not in names:
        logs = [name for name in names if name.endswith(".log")]
        return OLD_LOG_REASON.format(name=logs[0]) if logs else None
    try:
        estimate_rows(other)
    except RocksError as error:
        return f"org.rocksdb.RocksDBException: {error.message}" if error.from_rocksdb else None
    except StoreError:
        return None
    return None


def queues_of(store: Store, settings: Settings, dialect: Dialect) -> StartingQueues:
    """Where the queues of a start are and what the databases say; for a store that `not_described` lets pass.

    Raises StoreError where rocksdbstore/ cannot be copied for reading.
    """
    kind = kind_of_queues(store, settings, dialect)
    messages = tuple(_message_marks(store, settings, dialect))
    in_dispatch = dialect.separate_queue_database
    if kind == "files":
        return StartingQueues(marks=Marks(messages=messages, in_dispatch=in_dispatch))
    path = database_path(store, settings, dialect)
    refusals = []
    other = _database(store, path)
    elsewhere = _database(store, SEPARATE if path == AREA else AREA)
    if dialect.separate_queue_database and elsewhere is not None and CURRENT in _names(elsewhere):
        refusals.append(Refusal(elsewhere.relative, OTHER_PATH_REASON))
    elif other is not None and (reason := open_failure(other)) is not None:
        refusals.append(Refusal(path, reason))
    elif any(stray.relative == path and stray.reason is StrayReason.FILE for stray in store.strays):
        refusals.append(Refusal(path, FILE_REASON.format(path=store.root / path)))
    found = store.lifted.queues.get(path, EMPTY)
    mark = found.dispatched or 0
    extra = javatext.parse_int32((settings.get("combineCQMaxExtraSearchCommitLogFiles") or "").strip())
    marks = Marks(
        queues=mark if kind == "rows" else None,
        double_written=mark if kind == "both" else None,
        extra_files=EXTRA_FILES if extra is None else extra,
        waits=not dialect.separate_queue_database,
        messages=messages,
        in_dispatch=in_dispatch,
    )
    return StartingQueues(kind, path, found, marks, tuple(refusals))


def _names(other: Other) -> frozenset[str]:
    return frozenset(file.name for file in other.files)


def _message_marks(store: Store, settings: Settings, dialect: Dialect) -> Iterator[int | None]:
    """The marks of rocksdbstore/ that a recovery asks for: of index and transactions, if enabled."""
    if not dialect.message_database:
        return
    families = [
        family
        for family, name in ((DEFAULT, "indexRocksDBEnable"), ("trans", "transRocksDBEnable"))
        if settings.flag(name, False)
    ]
    if not families:
        return
    other = next((other for other in store.others if other.relative == MESSAGES and other.files), None)
    marks: dict[str, int | None] = dict.fromkeys(families, 0)
    if other is not None:
        try:
            for rows in read_rows(other, mode="mark"):
                for _, value in rows.pairs():
                    marks[rows.family] = rocks.decode_i64(value, rows.family)
        except RocksError:
            marks = dict.fromkeys(families, None)
    for family in families:
        yield marks[family]


def row_queues(store: Store, queues: StartingQueues, dialect: Dialect) -> Iterator[RowsModel]:
    """The queues of the database that the broker has: those with a greatest queue offset."""
    size = queue_file_sizes(store.geometry)["file"]
    for (topic, queue_id), bounds in sorted(queues.found.bounds.items()):
        if bounds.greatest is None:
            continue
        place = f"{queues.database}/{topic}/{queue_id}"
        files = []
        if store.lifted.files is not None:
            directory = store.lifted.files / topic / str(queue_id)
            files = [
                LoadedFile(entry.path, f"{place}/{entry.name}", int(entry.name), size, size)
                for entry in sorted(entries_of(directory), key=lambda entry: entry.name)
            ]
        yield RowsModel(LoadedQueue(topic, queue_id, "file", place, size, files), dialect, bounds)
