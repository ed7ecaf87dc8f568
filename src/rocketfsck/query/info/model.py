"""What `info` says, as values: JSON, JSON Schema and text are made of them.

Sizes in bytes, times in ms. A thing that cannot be read has an `error` in place of what is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rocketfsck.common.documents import FLAT, LEFT_OUT
from rocketfsck.formats.checkpoint import Checkpoint
from rocketfsck.formats.indexfile import IndexHeader
from rocketfsck.store.circumstances import Evidence, Source


@dataclass(frozen=True, slots=True)
class WrittenByInfo:
    """Which broker versions may have written the store, and the signs of that: `DialectEvidence`."""

    dialect: str
    versions: tuple[str, ...]
    given: bool
    conflict: bool
    known_from: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class SizeInfo:
    """A size that shapes files, and where the value is from."""

    value: int
    source: Source
    note: str | None


@dataclass(frozen=True, slots=True)
class LiveInfo:
    """Whether a broker is running in the store, and how that is known (a sentence)."""

    state: str
    how: str
    pid: int | None
    command: str | None


@dataclass(frozen=True, slots=True)
class AbortInfo:
    """The abort file: its presence is what counts; the process id is there from 5.0.0 on."""

    present: bool
    pid: int | None = None
    error: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True)
class CheckpointFieldsInfo:
    """The checkpoint."""

    fields: Checkpoint | None = field(default=None, metadata=FLAT)
    error: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True)
class IdentityInfo:
    """The identity of a broker in controller mode, and the file that says it."""

    file: str
    cluster: str | None = field(default=None, metadata=LEFT_OUT)
    broker_name: str | None = field(default=None, metadata=LEFT_OUT)
    broker_id: int | None = field(default=None, metadata=LEFT_OUT)
    error: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True)
class GroupNode:
    """A node of DLedger's and what it last knew of its group. None: nothing there says it."""

    node: str
    group: str | None
    current_term: int | None
    voted_for: str | None
    committed_index: int | None


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """The node whose log the store has."""

    state: GroupNode | None = field(default=None, metadata=FLAT)
    error: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True)
class LogFileInfo:
    """A commit log file: its place, and when its first record was stored."""

    file: str
    start_offset: int | None
    size: int
    allocated_size: int
    first_store_timestamp: int | None = None
    error: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True)
class LogInfo:
    """The commit log. Consume queues cover it up to the physical offset `dispatched_end_offset`."""

    directories: tuple[str, ...]
    file_size: int
    start_offset: int | None
    end_offset: int | None
    dispatched_end_offset: int | None
    files: tuple[LogFileInfo, ...]


@dataclass(frozen=True, slots=True)
class FilesInfo:
    """Files together."""

    file_count: int
    byte_count: int
    allocated_byte_count: int


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A consume queue: the first queue offset on disk, the one after its last unit, and where that ends."""

    topic: str
    queue_id: int
    kind: str
    files: FilesInfo = field(metadata=FLAT)
    min_offset: int | None = None
    max_offset: int | None = None
    physical_end_offset: int | None = None
    error: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True)
class ExtQueueInfo:
    """A queue of extension units."""

    topic: str
    queue_id: int
    orphan: bool
    files: FilesInfo


@dataclass(frozen=True, slots=True)
class IndexFileInfo:
    """An index file: the header, and the number of entries in use."""

    file: str
    size: int
    allocated_size: int
    header: IndexHeader | None = field(default=None, metadata=FLAT)
    used_entry_count: int | None = field(default=None, metadata=LEFT_OUT)
    error: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    """A config file."""

    file: str
    size: int


@dataclass(frozen=True, slots=True)
class FamiliesInfo:
    """How many rows each family of a database has; `estimated` of a large one. None where that failed."""

    families: Mapping[str, int] | None
    estimated: bool | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True)
class OtherInfo:
    """Another part of the store; `rows` of a database with files."""

    kind: str
    file: str
    topic: str | None
    queue_id: int | None
    files: FilesInfo = field(metadata=FLAT)
    rows: FamiliesInfo | None = field(default=None, metadata=FLAT)
    error: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True)
class StrayInfo:
    """Something that no broker reads at its place."""

    file: str
    reason: str
    size: int
    detail: str


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What `info` says of a store."""

    root: str
    written_by: WrittenByInfo
    notes: tuple[Evidence, ...]
    geometry: Mapping[str, SizeInfo]
    live: LiveInfo
    abort: AbortInfo
    checkpoint: CheckpointFieldsInfo | None
    identity: IdentityInfo | None
    dledger: NodeInfo | None
    commitlog: LogInfo
    queues: tuple[QueueInfo, ...]
    ext_queues: tuple[ExtQueueInfo, ...]
    indexes: tuple[IndexFileInfo, ...]
    configs: tuple[ConfigInfo, ...]
    others: tuple[OtherInfo, ...]
    strays: tuple[StrayInfo, ...]


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What `info` says of a single file: what it is, how that is known, and what its first bytes say.

    `inside` has the names of the file's kind.
    """

    path: str
    file_kind: str
    how: str
    size: int
    start_offset: int | None = field(default=None, metadata=LEFT_OUT)
    file_size: int | None = field(default=None, metadata=LEFT_OUT)
    topic: str | None = field(default=None, metadata=LEFT_OUT)
    queue_id: int | None = field(default=None, metadata=LEFT_OUT)
    slot_count: int | None = field(default=None, metadata=LEFT_OUT)
    entry_count: int | None = field(default=None, metadata=LEFT_OUT)
    allocated_size: int = 0
    inside: Mapping[str, int | None] | None = field(default=None, metadata=FLAT)
    error: str | None = field(default=None, metadata=LEFT_OUT)
