"""What `info` says of a store, as plain data: everything that needs no scan.

Of a queue the end is found by bisection in its last file, on the broker's own test of a unit; that the valid
units are a prefix of the file is taken for granted here and verified by `check`. Sizes in bytes, times in ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rocketfsck.cli.groupfacts import identity_facts, node_facts
from rocketfsck.errors import StoreError
from rocketfsck.formats.checkpoint import CHECKPOINT
from rocketfsck.formats.consumequeue import BATCH_UNIT, BATCH_UNIT_SIZE, UNIT, UNIT_SIZE, is_valid_unit
from rocketfsck.formats.indexfile import HEADER, decode_header
from rocketfsck.formats.markers import decode_abort
from rocketfsck.formats.names import shown_values
from rocketfsck.formats.timer import TIMER_CHECK
from rocketfsck.reader.heads import head_at
from rocketfsck.scan.plain.entries import record_pos
from rocketfsck.store import Store, identify_file
from rocketfsck.store.model import ConsumeQueue, IndexFile, MappedFile, Other, OtherKind, StoreFile
from rocketfsck.store.reading import FileReader

COUNTED_SIZE = 64 << 20
"""The rows of a larger database are estimated, not counted."""
_EMPTY_FILES = 4  # files at a queue's end that may hold nothing yet


def store_facts(store: Store) -> dict[str, Any]:
    """Everything about an open store. A file that cannot be read has an `error` instead of its facts."""
    evidence, geometry = store.dialect_evidence, store.geometry
    queues = [queue_facts(queue) for queue in store.queues]
    return {
        "root": str(store.root),
        "written_by": {
            "dialect": str(evidence.dialect.version),
            "versions": [str(version) for version in evidence.versions],
            "given": evidence.given,
            "conflict": evidence.conflict,
            "known_from": [{"what": item.what, "why": item.why} for item in evidence.known_from],
        },
        "notes": [{"what": item.what, "why": item.why} for item in store.notes],
        "geometry": {
            name: {
                "value": getattr(geometry, name),
                "source": geometry.source(name),
                "note": geometry.notes.get(name),
            }
            for name in type(geometry).__slots__
            if isinstance(getattr(geometry, name), int)
        },
        "live": {
            "state": str(store.live.state),
            "how": store.live.how,
            "pid": store.live.holder_pid,
            "command": store.live.holder_command,
        },
        "abort": _abort(store.abort),
        "checkpoint": _checkpoint(store.checkpoint),
        "identity": identity_facts(store),
        "dledger": node_facts(store),
        "commitlog": {
            "directories": [str(directory) for directory in store.commitlog.directories],
            "file_size": store.commitlog.file_size,
            "start_offset": store.commitlog.start_offset,
            "end_offset": store.commitlog.end_offset,
            "dispatched_end_offset": max(
                (queue["physical_end_offset"] or 0 for queue in queues), default=None
            ),
            "files": [log_facts(file) for file in store.commitlog.files],
        },
        "queues": queues,
        "ext_queues": [
            {
                "topic": ext.topic,
                "queue_id": ext.queue_id,
                "orphan": ext.orphan,
                "files": _sizes(ext.files),
            }
            for ext in store.ext_queues
        ],
        "indexes": [index_facts(file) for file in store.indexes],
        "configs": [{"file": file.relative, "size": file.size} for file in store.configs],
        "others": [
            {
                "kind": str(other.kind),
                "file": other.relative,
                "topic": other.topic,
                "queue_id": other.queue_id,
                **_sizes(other.files),
                **(database_facts(other) if other.kind is OtherKind.ROCKSDB and other.files else {}),
            }
            for other in store.others
        ],
        "strays": [
            {"file": stray.relative, "reason": str(stray.reason), "size": stray.size, "detail": stray.detail}
            for stray in store.strays
        ],
    }


def database_facts(other: Other) -> dict[str, Any]:
    """How many rows each family of a database has; of a large one that is estimated."""
    from rocketfsck.store.rocks.reading import count_rows, estimate_rows

    size = sum(file.size for file in other.files)
    try:
        if size <= COUNTED_SIZE:
            return {"families": count_rows(other), "estimated": False}
        return {"families": estimate_rows(other), "estimated": True}
    except StoreError as error:
        return {"families": None, "error": str(error)}


def _sizes(files: Sequence[StoreFile]) -> dict[str, int]:
    return {
        "file_count": len(files),
        "byte_count": sum(file.size for file in files),
        "allocated_byte_count": sum(file.allocated_size for file in files),
    }


def _abort(file: StoreFile | None) -> dict[str, Any]:
    """Presence is what counts; the process id is there from 5.0.0 on."""
    if file is None:
        return {"present": False, "pid": None}

    try:
        with FileReader(file.path) as reader:
            return {"present": True, "pid": decode_abort(reader.read_upto(0, 64))}
    except StoreError as error:
        return {"present": True, "pid": None, "error": str(error)}


def _checkpoint(file: StoreFile | None) -> dict[str, Any] | None:
    if file is None:
        return None

    try:
        with FileReader(file.path) as reader:
            return shown_values(CHECKPOINT.parse(reader.read_upto(0, CHECKPOINT.size)))
    except StoreError as error:
        return {"error": str(error)}


def log_facts(file: MappedFile) -> dict[str, Any]:
    """A commit log file: its place, and when its first record was stored."""
    facts: dict[str, Any] = {
        "file": file.relative,
        "start_offset": file.start_offset,
        "size": file.size,
        "allocated_size": file.allocated_size,
        "first_store_timestamp": None,
    }
    try:
        with FileReader(file.path) as reader:
            facts["first_store_timestamp"] = first_store_timestamp(
                reader, record_pos(reader, 0) if file.in_entries else 0
            )
    except StoreError as error:
        facts["error"] = str(error)
    return facts


def first_store_timestamp(reader: FileReader, pos: int = 0) -> int | None:
    """storeTimestamp of the record at `pos`; None if its magic code is not a message's."""
    head = head_at(reader, pos)
    return None if head is None else head.store_timestamp


def queue_facts(queue: ConsumeQueue) -> dict[str, Any]:
    """A consume queue: first queue offset on disk, the one after its last unit, and where that ends."""
    facts: dict[str, Any] = {
        "topic": queue.topic,
        "queue_id": queue.queue_id,
        "kind": queue.kind,
        **_sizes(queue.files),
        "min_offset": None,
        "max_offset": None,
        "physical_end_offset": None,
    }
    try:
        first, last = _bounds(queue)
    except StoreError as error:
        return facts | {"error": str(error)}
    if first is not None:
        facts["min_offset"] = first
    if last is not None:
        facts["max_offset"], facts["physical_end_offset"] = last
    elif first is not None:
        facts["max_offset"] = first
    return facts


def _bounds(queue: ConsumeQueue) -> tuple[int | None, tuple[int, int] | None]:
    if not queue.files:
        return None, None

    layout = UNIT if queue.kind == "file" else BATCH_UNIT
    size = layout.size
    start = queue.files[0].start_offset or 0
    first: int | None = start // size
    if queue.kind == "batch":
        with FileReader(queue.files[0].path) as reader:
            head = layout.parse(reader.read(0, size)) if reader.size >= size else None
            first = head["msgBaseOffset"] if head and head["size"] > 0 else None
    for file in queue.files[: -_EMPTY_FILES - 1 : -1]:
        with FileReader(file.path) as reader:
            count = unit_count(reader, size)
            if count:
                unit = layout.parse(reader.read((count - 1) * size, size))
                end = ((file.start_offset or 0) + count * size) // size
                if queue.kind == "batch":
                    end = unit["msgBaseOffset"] + unit["batchSize"]
                return first, (end, unit["offset"] + unit["size"])
    return first, None


def unit_count(reader: FileReader, unit_size: int) -> int:
    """How many units of the file are valid, if they are a prefix of it: offset >= 0 and size > 0."""
    place = UNIT.packer(last="size")
    low, high = 0, reader.size // unit_size
    while low < high:
        middle = (low + high) // 2
        if is_valid_unit(*place.unpack(reader.read(middle * unit_size, place.size))):
            low = middle + 1
        else:
            high = middle
    return low


def index_facts(file: IndexFile) -> dict[str, Any]:
    """An index file's header, by the format's own names."""
    facts: dict[str, Any] = {"file": file.relative, "size": file.size, "allocated_size": file.allocated_size}
    try:
        with FileReader(file.path) as reader:
            facts |= index_header(reader)
    except StoreError as error:
        facts["error"] = str(error)
    return facts


def index_header(reader: FileReader) -> dict[str, Any]:
    """The header's fields and the number of entries in use."""

    head = reader.read_upto(0, HEADER.size)
    return {**shown_values(HEADER.parse(head)), "used_entry_count": decode_header(head).entry_count}


def file_facts(path: Any) -> dict[str, Any]:
    """What a single file is, how that is known, and what its first bytes say."""

    found = identify_file(path)
    facts: dict[str, Any] = {
        "path": str(path),
        "file_kind": str(found.kind),
        "how": found.how,
        "size": found.size,
        **{
            name: getattr(found, name)
            for name in ("start_offset", "file_size", "topic", "queue_id", "slot_count", "entry_count")
            if getattr(found, name) is not None
        },
    }
    with FileReader(found.path) as reader:
        facts["allocated_size"] = reader.allocated_size
        try:
            facts |= dict(_inside(reader, str(found.kind), found.start_offset or 0))
        except StoreError as error:
            facts["error"] = str(error)
    return facts


def _inside(reader: FileReader, kind: str, start_offset: int) -> Iterator[tuple[str, Any]]:
    if kind in ("commitlog", "compaction-log"):
        yield "first_store_timestamp", first_store_timestamp(reader)
    elif kind == "consumequeue":
        count = unit_count(reader, UNIT_SIZE)
        yield "unit_count", count
        yield "min_offset", start_offset // UNIT_SIZE
        yield "max_offset", start_offset // UNIT_SIZE + count
    elif kind in ("batchconsumequeue", "compaction-cq"):
        yield "unit_count", unit_count(reader, BATCH_UNIT_SIZE)
    elif kind == "index":
        yield from index_header(reader).items()
    elif kind == "checkpoint":
        yield from shown_values(CHECKPOINT.parse(reader.read_upto(0, CHECKPOINT.size))).items()
    elif kind == "timercheck":
        yield from shown_values(TIMER_CHECK.parse(reader.read_upto(0, TIMER_CHECK.size))).items()
