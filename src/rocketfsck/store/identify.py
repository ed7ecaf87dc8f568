"""What a single file of a store is: by its place, else by its bytes. For looking at one file.

The place says most: `…/commitlog/<20 digits>`, `…/consumequeue/<topic>/<queueId>/<20 digits>`, `…/index/<17
digits>`. A file that was copied away from its place is known by a magic code, by units, or by its length.
The neighbours of the file, where it has any, give the file size and the numbers of slots and entries.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import consumequeue, indexfile, javatext, record, smallfiles, tiered
from rocketfsck.formats.magic import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE
from rocketfsck.store.areas import CONFIG_NAMES, Lister, absolute_path, list_directory
from rocketfsck.store.circumstances import GEOMETRY_DEFAULTS
from rocketfsck.store.geometry import PART_SIZES, file_size_of
from rocketfsck.store.index_geometry import infer_index_geometry
from rocketfsck.store.model import IndexFile, MappedFile
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind
from rocketfsck.store.places.locations import locate
from rocketfsck.store.reading import FileReader


class FileKind(StrEnum):
    """The kinds of files that a store can hold."""

    COMMITLOG = "commitlog"
    CONSUMEQUEUE = "consumequeue"
    BATCH_CONSUMEQUEUE = "batchconsumequeue"
    CONSUMEQUEUE_EXT = "consumequeue_ext"
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    ABORT = "abort"
    LOCK = "lock"
    CONFIG = "config"
    TIMER_WHEEL = "timerwheel"
    TIMER_LOG = "timerlog"
    TIMER_CHECK = "timercheck"
    EPOCH = "epoch"
    BROKER_IDENTITY = "broker-identity"
    DLEDGER_DATA = "dledger-data"
    DLEDGER_INDEX = "dledger-index"
    COMPACTION_LOG = "compaction-log"
    COMPACTION_CQ = "compaction-cq"
    COMPACTION_CHECKPOINT = "compaction-checkpoint"
    TIERED_LOG = "tiered-log"
    TIERED_QUEUE = "tiered-queue"
    TIERED_INDEX = "tiered-index"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """What a file is and how that is known (`how`, a sentence).

    `start_offset` is the stream offset of its first byte, from its name or, of a commitlog file with another
    name, from its first record. `file_size` is the size that files of its queue have. `slot_count` and
    `entry_count` are those of an index file. None: nothing tells.
    """

    path: Path
    kind: FileKind
    how: str
    size: int
    start_offset: int | None = None
    file_size: int | None = None
    slot_count: int | None = None
    entry_count: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    store_root: Path | None = None


_AT_ROOT: Mapping[str, FileKind] = {
    "checkpoint": FileKind.CHECKPOINT,
    "abort": FileKind.ABORT,
    "lock": FileKind.LOCK,
    "timerwheel": FileKind.TIMER_WHEEL,
    "epochFileCheckpoint": FileKind.EPOCH,
    "epochFileCheckpoint.bak": FileKind.EPOCH,
    "brokerIdentity": FileKind.BROKER_IDENTITY,
    "brokerIdentity-temp": FileKind.BROKER_IDENTITY,
    "timercheck": FileKind.TIMER_CHECK,
    "position-checkpoint": FileKind.COMPACTION_CHECKPOINT,
    "position-checkpoint.bak": FileKind.COMPACTION_CHECKPOINT,
}
_IN_DIRECTORY: Mapping[str, FileKind] = {"commitlog": FileKind.COMMITLOG, "timerlog": FileKind.TIMER_LOG}
_IN_QUEUES: Mapping[str, FileKind] = {
    "consumequeue": FileKind.CONSUMEQUEUE,
    "batchconsumequeue": FileKind.BATCH_CONSUMEQUEUE,
    "consumequeue_ext": FileKind.CONSUMEQUEUE_EXT,
    "compactionLog": FileKind.COMPACTION_LOG,
    "compactionCq": FileKind.COMPACTION_CQ,
}
_IN_DLEDGER: Mapping[str, FileKind] = {"data": FileKind.DLEDGER_DATA, "index": FileKind.DLEDGER_INDEX}

_IN_TIERED: Mapping[str, FileKind] = {
    "COMMIT_LOG": FileKind.TIERED_LOG,
    "CONSUME_QUEUE": FileKind.TIERED_QUEUE,
    "INDEX": FileKind.TIERED_INDEX,
}

_SIZES: Mapping[FileKind, tuple[int, int]] = {
    FileKind.COMMITLOG: (GEOMETRY_DEFAULTS["commitlog_file_size"], 1),
    FileKind.CONSUMEQUEUE: (GEOMETRY_DEFAULTS["consumequeue_file_size"], consumequeue.UNIT_SIZE),
    FileKind.BATCH_CONSUMEQUEUE: (GEOMETRY_DEFAULTS["batch_file_size"], consumequeue.BATCH_UNIT_SIZE),
    FileKind.CONSUMEQUEUE_EXT: (GEOMETRY_DEFAULTS["ext_file_size"], 1),
    **{FileKind(kind): sizes for kind, sizes in PART_SIZES.items()},
}
"""Default file size and unit of the kinds that are mapped file queues."""

_HEAD_SIZE = 64 << 10
_TIMER_WHEEL_SIZE = 604_800 * 2 * 32
_MAX_SIBLINGS = 100_000
_CHECKPOINT_END = 104
"""Where a checkpoint is zero from: brokers have put one more long behind another so far."""


def identify_file(path: Path | str) -> FileIdentity:
    """What the file at `path` is. Raises StoreError if it is not a regular file that can be read."""
    place = absolute_path(locate(path))
    with FileReader(place) as reader:
        size = reader.size
        head = reader.read_upto(0, _HEAD_SIZE)
    found = _by_place(place, size) or _by_bytes(place, size, head)
    if found.kind is FileKind.INDEX:
        return _with_index_geometry(found)
    if found.kind in _SIZES:
        return _with_file_size(found, head)
    return found


def _by_place(path: Path, size: int) -> FileIdentity | None:
    name, directory = path.name, path.parent
    offset = smallfiles.filename_to_offset(name)
    if offset is not None:
        kind = _IN_DIRECTORY.get(directory.name)
        if directory.parent.name.startswith("dledger-"):
            kind = _IN_DLEDGER.get(directory.name, kind)
        if kind is not None:
            root = directory.parent.parent if kind in _IN_DLEDGER.values() else directory.parent
            how = f"the file is in {directory.name}/"
            return FileIdentity(path, kind, how, size, offset, store_root=root)
        area = directory.parent.parent
        kind = _IN_QUEUES.get(area.name)
        queue_id = javatext.parse_int32(directory.name)
        if kind is not None and queue_id is not None:
            root = area.parent.parent if area.parent.name == "compaction" else area.parent
            how = f"the file is in {area.name}/<topic>/<queueId>/"
            found = FileIdentity(path, kind, how, size, offset, store_root=root)
            return replace(found, topic=directory.parent.name, queue_id=queue_id)
    kind = _IN_TIERED.get(directory.name)
    offset = tiered.segment_offset(name)
    if kind is not None and offset is not None:
        how = f"the file is in <topic>/<queueId>/{directory.name}/ and has the name of a segment"
        queue, found = directory.parent, FileIdentity(path, kind, how, size, offset)
        return replace(found, topic=queue.parent.name, queue_id=javatext.parse_int32(queue.name))
    if directory.name == "tiered_index_file" and smallfiles.java_parse_long(name) is not None:
        how = f"the file is in {directory.name}/"
        return FileIdentity(path, FileKind.TIERED_INDEX, how, size, store_root=directory.parent)
    if directory.name == "index" and smallfiles.java_parse_long(name) is not None:
        return FileIdentity(path, FileKind.INDEX, "the file is in index/", size, store_root=directory.parent)
    kind = _AT_ROOT.get(name)
    if kind is not None:
        return FileIdentity(path, kind, f"the name is {name}", size)
    if name.endswith((".json", ".json.bak", ".json.tmp")) or name in CONFIG_NAMES:
        return FileIdentity(path, FileKind.CONFIG, f"the name is {name}", size)
    return None


def _by_bytes(path: Path, size: int, head: bytes) -> FileIdentity:
    offset = smallfiles.filename_to_offset(path.name)
    for kind, how, test in _TESTS:
        if test(path, size, head):
            return FileIdentity(path, kind, how, size, offset if kind in _SIZES else None)
    how = "neither the place nor the bytes of the file match a known kind"
    return FileIdentity(path, FileKind.UNKNOWN, how, size)


def _looks_like_commitlog(_path: Path, _size: int, head: bytes) -> bool:
    return len(head) >= 8 and struct.unpack_from(">i", head, 4)[0] in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK)


def _looks_like_dledger(_path: Path, _size: int, head: bytes) -> bool:
    if len(head) < 56:
        return False
    magic, size, body_size = struct.unpack(">ii36xi", head[:48])
    inner = struct.unpack_from(">i", head, 52)[0]
    return magic in (1, 2, 3) and size == 48 + body_size and inner in (MAGIC_V1, MAGIC_V2)


def _is_named_as_index(path: Path, size: int, _head: bytes) -> bool:
    return smallfiles.index_filename_time(path.name) is not None and size >= 64 and size % 4 == 0


def _looks_like_index(path: Path, size: int, head: bytes) -> bool:
    """A header whose values can be, and numbers of slots and entries that fit the chains."""
    if size < 64 or size % 4 or len(head) < indexfile.INDEX_HEADER_SIZE:
        return False
    header = indexfile.decode_header(head)
    times = (header.begin_timestamp, header.end_timestamp)
    offsets = (header.begin_physical_offset, header.end_physical_offset)
    if not all(1 << 39 < time < 1 << 43 for time in times) or min(offsets) < 0 or header.hash_slot_count < 1:
        return False
    file = IndexFile(os.fspath(path), path.name, size, 0, 0)
    return infer_index_geometry([file]).slot_count is not None


def _looks_like_checkpoint(_path: Path, size: int, head: bytes) -> bool:
    timestamps = struct.unpack(">3q", head[:24]) if size == 4096 else ()
    can_be = any(timestamps) and all(0 <= time < 1 << 43 for time in timestamps)
    return can_be and not any(head[_CHECKPOINT_END:])


def _looks_like_timer_log(_path: Path, _size: int, head: bytes) -> bool:
    return [head[pos : pos + 4] for pos in (0, 52)] == [b"\0\0\0\x34"] * 2


def _looks_like_units(unit_size: int) -> Callable[[Path, int, bytes], bool]:
    """Units with ascending offsets and sizes that a record can have, pre-blanks before them; at least one."""

    def test(_path: Path, size: int, head: bytes) -> bool:
        if size == 0 or size % unit_size:
            return False
        before, units = -1, 0
        for pos in range(0, len(head) - unit_size + 1, unit_size):
            offset, length = struct.unpack_from(">qi", head, pos)
            if (offset, length) == (0, 0):
                break
            units += 1
            if (offset, length) == (0, consumequeue.PRE_BLANK_SIZE) and before < 0:
                continue
            if length < MIN_RECORD_SIZE or offset <= before:
                return False
            before = offset
        return units > 0

    return test


def _looks_like_json(_path: Path, _size: int, head: bytes) -> bool:
    return head.lstrip()[:1] == b"{"


def _looks_like_timer_wheel(_path: Path, size: int, _head: bytes) -> bool:
    return size == _TIMER_WHEEL_SIZE


_BATCH = FileKind.BATCH_CONSUMEQUEUE
_TESTS: tuple[tuple[FileKind, str, Callable[[Path, int, bytes], bool]], ...] = (
    (FileKind.COMMITLOG, "the file begins with the magic code of a record", _looks_like_commitlog),
    (FileKind.DLEDGER_DATA, "the file begins with a DLedger entry that holds a record", _looks_like_dledger),
    (FileKind.INDEX, "the name is a time, and the length fits", _is_named_as_index),
    (FileKind.CHECKPOINT, "the file has 4,096 bytes and begins with timestamps", _looks_like_checkpoint),
    (FileKind.TIMER_WHEEL, "the file has the length of a timer wheel", _looks_like_timer_wheel),
    (FileKind.TIMER_LOG, "the file begins with timer log units", _looks_like_timer_log),
    (FileKind.INDEX, "header and chains are those of an index file", _looks_like_index),
    (FileKind.CONSUMEQUEUE, "the file begins with 20-byte units", _looks_like_units(consumequeue.UNIT_SIZE)),
    (_BATCH, "the file begins with 46-byte units", _looks_like_units(consumequeue.BATCH_UNIT_SIZE)),
    (FileKind.CONFIG, "the file begins like JSON", _looks_like_json),
)


def _siblings(identity: FileIdentity) -> list[MappedFile]:
    """The mapped files in the same directory; the file alone where it cannot be listed."""
    lister = Lister(os.fspath(identity.path.parent))
    return lister.mapped_files(identity.path.parent, identity.kind)[:_MAX_SIBLINGS]


def _with_file_size(identity: FileIdentity, head: bytes) -> FileIdentity:
    default, multiple = _SIZES[identity.kind]
    offset, how = identity.start_offset, identity.how
    if offset is None:
        size = identity.size
        if identity.kind is FileKind.COMMITLOG and (start := _start_from_record(head)) is not None:
            offset, how = start, f"{how}; the record's own physicalOffset gives the start"
    else:
        size = file_size_of(_siblings(identity), default, multiple)
    return replace(identity, how=how, start_offset=offset, file_size=size)


def _start_from_record(head: bytes) -> int | None:
    with suppress(FormatError):
        start = record.decode_record(head).physical_offset
        return start if start >= 0 else None
    return None


def _with_index_geometry(identity: FileIdentity) -> FileIdentity:
    files = [IndexFile(os.fspath(identity.path), identity.path.name, identity.size, 0, 0)]
    entries: list[DirectoryEntry] = []
    with suppress(StoreError):
        entries = list_directory(identity.path.parent)[:_MAX_SIBLINGS]
    files += [
        IndexFile(entry.path, entry.name, *entry.facts)
        for entry in entries
        if entry.kind is EntryKind.FILE
        and entry.name != identity.path.name
        and entry.size == identity.size
        and smallfiles.java_parse_long(entry.name) is not None
    ]
    files.sort(key=lambda file: file.name)
    guess = infer_index_geometry(files)
    how = f"{identity.how}; {guess.note}"
    return replace(identity, how=how, slot_count=guess.slot_count, entry_count=guess.entry_count)
