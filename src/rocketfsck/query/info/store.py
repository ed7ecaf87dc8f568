"""What `info` says of a store: everything that needs no scan.

What `info` says of one file, or of one queue.

Of a queue the end is found by bisection in its last file, on the broker's own test of a unit; that the valid
units are a prefix of the file is taken for granted here and verified by `check`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rocketfsck.common.documents import members
from rocketfsck.errors import StoreError
from rocketfsck.formats import checkpoint, consumequeue, indexfile, smallfiles, timer
from rocketfsck.formats.layout import Layout, shown_values
from rocketfsck.query.info import model
from rocketfsck.reader.heads import head_at
from rocketfsck.scan.plain.entries import record_pos
from rocketfsck.store import Store, identify_file
from rocketfsck.store.circumstances import GEOMETRY_DEFAULTS
from rocketfsck.store.model import ConsumeQueue, IndexFile, MappedFile, Other, OtherKind, StoreFile
from rocketfsck.store.reading import FileReader, read_whole

_EMPTY_FILES = 4  # files at a queue's end that may hold nothing yet


def files_info(files: Sequence[StoreFile]) -> model.FilesInfo:
    """Files together."""
    return model.FilesInfo(
        len(files), sum(file.size for file in files), sum(file.allocated_size for file in files)
    )


def log_info(file: MappedFile) -> model.LogFileInfo:
    """A commit log file."""
    info = model.LogFileInfo(file.relative, file.start_offset, file.size, file.allocated_size)
    try:
        with FileReader(file.path) as reader:
            pos = record_pos(reader, 0) if file.in_entries else 0
            return replace(info, first_store_timestamp=_first_store_timestamp(reader, pos))
    except StoreError as error:
        return replace(info, error=str(error))


def _first_store_timestamp(reader: FileReader, pos: int = 0) -> int | None:
    """storeTimestamp of the record at `pos`; None if its magic code is not a message's."""
    head = head_at(reader, pos)
    return None if head is None else head.store_timestamp


def queue_info(queue: ConsumeQueue) -> model.QueueInfo:
    """A consume queue."""
    info = model.QueueInfo(queue.topic, queue.queue_id, queue.kind, files_info(queue.files))
    try:
        first, last = _bounds(queue)
    except StoreError as error:
        return replace(info, error=str(error))
    end, physical_end = (first, None) if last is None else last
    return replace(info, min_offset=first, max_offset=end, physical_end_offset=physical_end)


def _bounds(queue: ConsumeQueue) -> tuple[int | None, tuple[int, int] | None]:
    if not queue.files:
        return None, None

    layout = consumequeue.UNIT if queue.kind == "file" else consumequeue.BATCH_UNIT
    size = layout.size
    start = queue.files[0].start_offset or 0
    first: int | None = start // size
    if queue.kind == "batch":
        with FileReader(queue.files[0].path) as reader:
            head = layout.parse(reader.read(0, size)) if reader.size >= size else None
            first = head["msgBaseOffset"] if head and head["size"] > 0 else None
    for file in queue.files[: -_EMPTY_FILES - 1 : -1]:
        with FileReader(file.path) as reader:
            count = _unit_count(reader, size)
            if count:
                unit = layout.parse(reader.read((count - 1) * size, size))
                end = ((file.start_offset or 0) + count * size) // size
                if queue.kind == "batch":
                    end = unit["msgBaseOffset"] + unit["batchSize"]
                return first, (end, unit["offset"] + unit["size"])
    return first, None


def _unit_count(reader: FileReader, unit_size: int) -> int:
    """How many units of the file are valid, if they are a prefix of it: offset >= 0 and size > 0."""
    place = consumequeue.UNIT.packer(last="size")

    def is_behind(number: int) -> bool:
        return not consumequeue.is_valid_unit(*place.unpack(reader.read(number * unit_size, place.size)))

    return bisect_left(range(reader.size // unit_size), True, key=is_behind)


def index_info(file: IndexFile) -> model.IndexFileInfo:
    """An index file."""
    info = model.IndexFileInfo(file.relative, file.size, file.allocated_size)
    try:
        with FileReader(file.path) as reader:
            header = _index_header(reader)
    except StoreError as error:
        return replace(info, error=str(error))
    return replace(info, header=header, used_entry_count=header.entry_count)


def _index_header(reader: FileReader) -> indexfile.IndexHeader:
    return indexfile.decode_header(reader.read_upto(0, indexfile.HEADER.size))


def file_info(path: Path) -> model.FileInfo:
    """A single file. Raises StoreError if it cannot be read."""
    found = identify_file(path)
    kind = str(found.kind)
    with FileReader(found.path) as reader:
        info = model.FileInfo(
            str(path),
            kind,
            found.how,
            found.size,
            found.start_offset,
            found.file_size,
            found.topic,
            found.queue_id,
            found.slot_count,
            found.entry_count,
            reader.allocated_size,
        )
        try:
            return replace(info, inside=dict(_inside(reader, kind, found.start_offset or 0)))
        except StoreError as error:
            return replace(info, error=str(error))


def _inside(reader: FileReader, kind: str, start_offset: int) -> Iterator[tuple[str, int | None]]:
    if kind in ("commitlog", "compaction-log"):
        yield "first_store_timestamp", _first_store_timestamp(reader)
    elif kind == "consumequeue":
        count = _unit_count(reader, consumequeue.UNIT_SIZE)
        yield "unit_count", count
        yield "min_offset", start_offset // consumequeue.UNIT_SIZE
        yield "max_offset", start_offset // consumequeue.UNIT_SIZE + count
    elif kind in ("batchconsumequeue", "compaction-cq"):
        yield "unit_count", _unit_count(reader, consumequeue.BATCH_UNIT_SIZE)
    elif kind == "index":
        header = _index_header(reader)
        yield from members(header)
        yield "used_entry_count", header.entry_count
    elif kind == "checkpoint":
        yield from _values(reader, checkpoint.CHECKPOINT).items()
    elif kind == "timercheck":
        yield from _values(reader, timer.TIMER_CHECK).items()


def _values(reader: FileReader, layout: Layout) -> Mapping[str, int]:
    return shown_values(layout.parse(reader.read_upto(0, layout.size)))


COUNTED_SIZE = 64 << 20
"""The rows of a larger database are estimated, not counted."""
_IDENTITY_SIZE = 1 << 16


def store_info(store: Store) -> model.StoreInfo:
    """Everything about an open store. A file that cannot be read has an `error`."""
    queues = tuple(map(queue_info, store.queues))
    return model.StoreInfo(
        root=str(store.root),
        written_by=_written_by(store),
        notes=store.notes,
        geometry=_geometry(store),
        live=model.LiveInfo(
            str(store.live.state), store.live.how, store.live.holder_pid, store.live.holder_command
        ),
        abort=_abort(store.abort),
        checkpoint=None if store.checkpoint is None else _checkpoint(store.checkpoint),
        identity=_identity(store),
        dledger=_node(store),
        commitlog=_log(store, queues),
        queues=queues,
        ext_queues=tuple(
            model.ExtQueueInfo(ext.topic, ext.queue_id, ext.orphan, files_info(ext.files))
            for ext in store.ext_queues
        ),
        indexes=tuple(map(index_info, store.indexes)),
        configs=tuple(model.ConfigInfo(file.relative, file.size) for file in store.configs),
        others=tuple(map(_other, store.others)),
        strays=tuple(
            model.StrayInfo(stray.relative, str(stray.reason), stray.size, stray.detail)
            for stray in store.strays
        ),
    )


def _written_by(store: Store) -> model.WrittenByInfo:
    found = store.dialect_evidence
    versions = tuple(map(str, found.versions))
    return model.WrittenByInfo(
        str(found.dialect.version), versions, found.given, found.conflict, found.known_from
    )


def _geometry(store: Store) -> dict[str, model.SizeInfo]:
    geometry = store.geometry
    return {
        name: model.SizeInfo(getattr(geometry, name), geometry.source(name), geometry.notes.get(name))
        for name in GEOMETRY_DEFAULTS
    }


def _abort(file: StoreFile | None) -> model.AbortInfo:
    if file is None:
        return model.AbortInfo(present=False)
    try:
        with FileReader(file.path) as reader:
            return model.AbortInfo(present=True, pid=smallfiles.decode_abort(reader.read_upto(0, 64)))
    except StoreError as error:
        return model.AbortInfo(present=True, error=str(error))


def _checkpoint(file: StoreFile) -> model.CheckpointFieldsInfo:
    try:
        with FileReader(file.path) as reader:
            return model.CheckpointFieldsInfo(
                checkpoint.decode_checkpoint(reader.read_upto(0, checkpoint.CHECKPOINT.size))
            )
    except StoreError as error:
        return model.CheckpointFieldsInfo(error=str(error))


def _identity(store: Store) -> model.IdentityInfo | None:
    """The identity of a broker in controller mode, from the file that it would take; None: there is none."""
    files = [
        file
        for other in store.others
        if other.kind is OtherKind.BROKER_IDENTITY
        for file in other.files
        if not file.name.endswith(".bak")
    ]
    failed: model.IdentityInfo | None = None
    for file in sorted(files, key=lambda file: file.name):
        try:
            data = read_whole(file.path, _IDENTITY_SIZE)
            found = smallfiles.decode_broker_identity(data, is_temp=file.name.endswith("-temp"))
        except StoreError as error:
            failed = failed or model.IdentityInfo(file.relative, error=str(error))
            continue
        return model.IdentityInfo(file.relative, found.cluster, found.broker_name, found.broker_id)
    return failed


def _node(store: Store) -> model.NodeInfo | None:
    """The DLedger node whose log the store has; None where the log is plain.

    The group's name is in no file of a store: it is the one in broker.conf, if that is given.
    """
    if not store.has_entries:
        return None
    from rocketfsck.query.nodes import node_state  # loads NumPy

    try:
        found = node_state(store)
    except StoreError as error:
        return model.NodeInfo(error=str(error))
    if found is None:
        return None
    name = found.directory.partition("-")[2]
    group = (store.settings.get("dLegerGroup") or "").strip() or None
    return model.NodeInfo(
        model.GroupNode(name, group, found.current_term, found.voted_for, found.committed_index)
    )


def _log(store: Store, queues: tuple[model.QueueInfo, ...]) -> model.LogInfo:
    log = store.commitlog
    return model.LogInfo(
        directories=tuple(map(str, log.directories)),
        file_size=log.file_size,
        start_offset=log.start_offset,
        end_offset=log.end_offset,
        dispatched_end_offset=max((queue.physical_end_offset or 0 for queue in queues), default=None),
        files=tuple(map(log_info, log.files)),
    )


def _other(other: Other) -> model.OtherInfo:
    rows, error = None, None
    if other.kind is OtherKind.ROCKSDB and other.files:
        rows, error = _families(other)
    files = files_info(other.files)
    return model.OtherInfo(str(other.kind), other.relative, other.topic, other.queue_id, files, rows, error)


def _families(other: Other) -> tuple[model.FamiliesInfo, str | None]:
    """The rows of a database, and why they could not be counted."""
    from rocketfsck.store.rocks.reading import count_rows, estimate_rows

    estimated = sum(file.size for file in other.files) > COUNTED_SIZE
    try:
        return model.FamiliesInfo(estimate_rows(other) if estimated else count_rows(other), estimated), None
    except StoreError as error:
        return model.FamiliesInfo(None), str(error)
