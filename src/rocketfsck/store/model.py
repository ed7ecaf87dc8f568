"""What a store directory holds, as values: files, queues, index files, geometry, dialect, strays.

    <root>/commitlog/<20 digits>                         Store.commitlog
    <root>/dledger-<selfId>/data/<20 digits>             Store.commitlog, in_entries; Store.others, too
    <root>/consumequeue/<topic>/<queueId>/<20 digits>    Store.queues, kind "file"
    <root>/batchconsumequeue/<topic>/<queueId>/…         Store.queues, kind "batch"
    <root>/consumequeue_ext/<topic>/<queueId>/…          ConsumeQueue.ext, Store.ext_queues
    <root>/index/<17 digits>                             Store.indexes
    <root>/checkpoint, abort, lock, config/*             Store.checkpoint, .abort, .lock, .configs
    everything else that RocketMQ knows                  Store.others
    everything else                                      Store.strays

Reference 1.1 and 1.2. Facts without judgement: a file of a wrong length is in its queue with that length.

What a store has from its databases: queues and configs that became files. `store.rocks.lifting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rocketfsck.errors import StoreError
from rocketfsck.formats.consumequeue import BATCH_UNIT_SIZE, UNIT_SIZE
from rocketfsck.store import circumstances
from rocketfsck.store.places.locations import path_of
from rocketfsck.store.places.urls import NO_OPTIONS, StorageOptions

if TYPE_CHECKING:
    from rocketfsck.formats.dialect import Dialect


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """What a database says of one of its queues. `least` and `greatest` are a queue offset and the physical
    offset of its record, None without such a row; `row_count` units are within them."""

    least: tuple[int, int] | None
    greatest: tuple[int, int] | None
    row_count: int


@dataclass(frozen=True, slots=True)
class DatabaseQueues:
    """The queues of a database, by topic and queueId. `dispatched`: the physical offset up to which records
    have units, None where it is not written down."""

    dispatched: int | None
    bounds: Mapping[tuple[str, int], QueueBounds]


@dataclass(frozen=True, slots=True)
class Lifted:
    """Databases (by their path below the root) whose content the store's queues and configs have, and the
    directories with files of it, by the name of the one below the root in whose place they are.

    `files` is where the queues of databases are as files, None without any; `queues` what the databases say
    of them; `failed` why a database cannot be read; `beside_files` whether the store has queues in
    files, too. `fetch` gives a queue with its files, where those of databases come late: None for one that
    cannot be read, which `failed` then says."""

    databases: frozenset[str] = frozenset()
    areas: Mapping[str, Path] = field(default_factory=dict)
    files: Path | None = None
    queues: Mapping[str, DatabaseQueues] = field(default_factory=dict)
    failed: Mapping[str, StoreError] = field(default_factory=dict)
    beside_files: bool = False
    fetch: Callable[[ConsumeQueue], ConsumeQueue | None] | None = None


NOTHING_LIFTED = Lifted()


@dataclass(frozen=True, slots=True)
class StoreFile:
    """A regular file. `location` is its path as text, `path` the same as a Path (made when it is asked for).

    Both are the URL of a file that is not on this machine (`store.places.locations`).

    `relative` is the path below the store's root with `/` between the parts (a file of a commitlog path
    outside the root keeps its own full path). Bytes of a name that are not UTF-8 are surrogates, as
    `os.fsdecode` gives them. `size` and `allocated_size` (blocks on disk) are in bytes.
    """

    location: str
    relative: str
    size: int
    mtime_ns: int
    allocated_size: int

    @property
    def path(self) -> Path:
        return path_of(self.location)

    @property
    def data_size(self) -> int:
        """Bytes that are on the disk: holes count as nothing, and blocks only as far as the file goes."""
        return min(self.size, self.allocated_size)

    @property
    def name(self) -> str:
        return self.location.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class MappedFile(StoreFile):
    """A file of a mapped file queue; `start_offset` is its name as a number, None where it has none.

    `in_entries`: a file of DLedger's log, where every record is the body of an entry (reference 2.14).
    """

    start_offset: int | None = None
    in_entries: bool = False


@dataclass(frozen=True, slots=True)
class MappedFileQueue:
    """Files of one logical stream, sorted by name (files of several directories merged, as a broker does).

    `locations` are the directories' paths as text, `directories` the same as Paths. `file_size` is the length
    every file should have, in bytes. `files` are the regular files whose names are 20 ASCII digits, of any
    length; whatever else is in the directories is in `Store.strays`.
    """

    locations: tuple[str, ...]
    file_size: int
    files: tuple[MappedFile, ...]

    @property
    def directories(self) -> tuple[Path, ...]:
        return tuple(map(path_of, self.locations))

    @property
    def start_offset(self) -> int | None:
        """Stream offset of the first byte of the first file; None without files."""
        return self.files[0].start_offset if self.files else None

    @property
    def end_offset(self) -> int | None:
        """Stream offset after the last byte of the last file; None without files."""
        if not self.files or self.files[-1].start_offset is None:
            return None
        return self.files[-1].start_offset + self.files[-1].size

    @property
    def size(self) -> int:
        """Sum of the files' lengths in bytes."""
        return sum(file.size for file in self.files)


def files_at(files: Iterable[MappedFile], offset: int) -> list[MappedFile]:
    """The files of a stream that hold the byte at an offset: one, none, or several where names are wrong."""
    starts = ((file.start_offset, file) for file in files)
    return [file for start, file in starts if start is not None and start <= offset < start + file.size]


QueueKind = Literal["file", "batch"]


@dataclass(frozen=True, slots=True)
class ConsumeQueue:
    """One topic's queue: 20-byte units (kind "file") or 46-byte units (kind "batch").

    `topic` is the directory's name. `ext` is the queue in `consumequeue_ext/` of the same topic and queueId.
    """

    topic: str
    queue_id: int
    kind: QueueKind
    mapped_files: MappedFileQueue
    ext: MappedFileQueue | None = None

    @property
    def files(self) -> tuple[MappedFile, ...]:
        return self.mapped_files.files

    @property
    def unit_size(self) -> int:
        return UNIT_SIZE if self.kind == "file" else BATCH_UNIT_SIZE


@dataclass(frozen=True, slots=True)
class ExtQueue:
    """A queue in `consumequeue_ext/`; `orphan` if no consume queue of that topic and queueId exists."""

    topic: str
    queue_id: int
    mapped_files: MappedFileQueue
    orphan: bool

    @property
    def files(self) -> tuple[MappedFile, ...]:
        return self.mapped_files.files


@dataclass(frozen=True, slots=True)
class IndexFile(StoreFile):
    """A file in `index/` whose name a broker reads as a number; `created` is the name as a naive local time.

    `created` is None where the name is not 17 digits that make a date and time.
    """

    created: datetime | None = None


class StrayReason(StrEnum):
    """Why something in a store directory is not part of the store."""

    NAME = "name"  # a regular file whose name is not of the form used in its directory
    DIRECTORY = "directory"  # a directory where only files belong
    TEMPORARY = "temporary"  # *.tmp: an unfinished write
    DELETED = "deleted"  # *.delete: renamed for deletion (compaction)
    QUEUE_ID = "queue-id"  # a queue directory whose name is not a decimal integer as Java writes it
    FILE = "file"  # a regular file where only directories belong
    SPECIAL = "special"  # a FIFO, socket or device
    DANGLING = "dangling"  # a symbolic link without a target, or in a circle
    UNREADABLE = "unreadable"  # an entry that the operating system does not let us look at
    MORE = "more"  # stands for strays that are not listed one by one; `detail` counts them
    UNKNOWN = "unknown"  # an entry at the root (or in config/) that no known version makes


@dataclass(frozen=True, slots=True)
class Stray:
    """Something that no known broker reads at this place; `detail` is what the operating system said of it.

    `area` names the directory kind it was found in: "root", "commitlog", "consumequeue", "index" …
    """

    path: Path
    relative: str
    reason: StrayReason
    area: str
    size: int = 0
    detail: str = ""


class OtherKind(StrEnum):
    """Parts of a store that are recognised and listed, besides the log, the queues and the index."""

    TIMER_WHEEL = "timerwheel"
    TIMER_LOG = "timerlog"
    TIMER_CHECK = "timercheck"
    EPOCH = "epoch"
    BROKER_IDENTITY = "broker-identity"
    DLEDGER_DATA = "dledger-data"
    DLEDGER_INDEX = "dledger-index"
    DLEDGER = "dledger"
    COMPACTION_LOG = "compaction-log"
    COMPACTION_CQ = "compaction-cq"
    COMPACTION_CHECKPOINT = "compaction-checkpoint"
    ROCKSDB = "rocksdb"
    TIERED_INDEX = "tiered-index"
    TIERED_LOG = "tiered-log"
    TIERED_QUEUE = "tiered-queue"
    TIERED_SEGMENT_INDEX = "tiered-index-segment"
    ABORT_BACKUP = "abort-backup"
    SETTINGS = "settings"
    LEGACY = "legacy"


@dataclass(frozen=True, slots=True)
class Other:
    """One part of a store that is neither log, queue nor index; `topic`/`queue_id` if it belongs to a queue.

    `mapped_files` is there for the parts that are mapped file queues; `files` are all its regular files.
    """

    kind: OtherKind
    path: Path
    relative: str
    files: tuple[StoreFile, ...]
    mapped_files: MappedFileQueue | None = None
    topic: str | None = None
    queue_id: int | None = None


@dataclass(frozen=True, slots=True)
class StatedOptions:
    """What was said of a store when it was opened, and must be again; `settings` go over `broker_conf`'s."""

    broker_conf: Path | None = None
    version: str | None = None
    commitlog_paths: tuple[Path, ...] = ()
    delay_levels: str | None = None
    storage_options: StorageOptions = NO_OPTIONS
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Store:
    """A store directory as it was found; nothing in it was opened for writing.

    `delay_levels` is the text of `messageDelayLevel`. `notes` say what was decided at the opening, `stated`
    what the caller said. `directories` are the areas that are there, with files or without. `lifted` is set
    by `store.rocks.lifting` only. `opened_timestamp` (ms) is when the first file was looked for.
    """

    root: Path
    geometry: circumstances.Geometry
    dialect_evidence: circumstances.DialectEvidence
    commitlog: MappedFileQueue
    queues: tuple[ConsumeQueue, ...]
    ext_queues: tuple[ExtQueue, ...]
    indexes: tuple[IndexFile, ...]
    checkpoint: StoreFile | None
    abort: StoreFile | None
    lock: StoreFile | None
    configs: tuple[StoreFile, ...]
    others: tuple[Other, ...]
    strays: tuple[Stray, ...]
    live: circumstances.LiveState
    settings: circumstances.Settings
    delay_levels: str
    delay_levels_source: circumstances.Source
    notes: tuple[circumstances.Evidence, ...] = ()
    stated: StatedOptions = StatedOptions()
    log_places: circumstances.LogPlaces = circumstances.OWN_LOG
    directories: frozenset[str] = frozenset()
    lifted: Lifted = NOTHING_LIFTED
    repair: circumstances.UnfinishedRepair | None = None
    opened_timestamp: int = field(default=0, compare=False)

    @property
    def dialect(self) -> Dialect:
        return self.dialect_evidence.dialect

    @property
    def has_entries(self) -> bool:
        """Whether the commit log is DLedger's, or continues in its files after the plain ones."""
        return any(file.in_entries for file in self.commitlog.files)

    @property
    def data_directories(self) -> tuple[Path, ...]:
        """The root and the commitlog directories, of which a broker.conf may name some outside of it."""
        return (self.root, *self.commitlog.directories)

    @property
    def log_only(self) -> bool:
        """Whether the root is a directory of commitlog files alone, copied away from its store."""
        return self.commitlog.directories == (self.root,)

    def all_files(self) -> Iterator[StoreFile]:
        """Every regular file that belongs to the store, strays not among them."""
        yield from (file for file in self.commitlog.files if not file.in_entries)  # `others` have those
        for queue in self.queues:
            yield from queue.files
        for ext in self.ext_queues:
            yield from ext.files
        yield from self.indexes
        yield from filter(None, (self.checkpoint, self.abort, self.lock))
        yield from self.configs
        for other in self.others:
            yield from other.files
