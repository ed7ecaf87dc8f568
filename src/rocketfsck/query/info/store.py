"""What `info` says of a store: everything that needs no scan."""

from __future__ import annotations

from rocketfsck.errors import StoreError
from rocketfsck.formats.checkpoint import CHECKPOINT, decode_checkpoint
from rocketfsck.formats.markers import decode_abort, decode_broker_identity
from rocketfsck.query.info.files import files_info, index_info, log_info, queue_info
from rocketfsck.query.info.model import (
    AbortInfo,
    CheckpointFieldsInfo,
    ConfigInfo,
    ExtQueueInfo,
    FamiliesInfo,
    GroupNode,
    IdentityInfo,
    LiveInfo,
    LogInfo,
    NodeInfo,
    OtherInfo,
    QueueInfo,
    SizeInfo,
    StoreInfo,
    StrayInfo,
    WrittenByInfo,
)
from rocketfsck.store import Store
from rocketfsck.store.circumstances import GEOMETRY_DEFAULTS
from rocketfsck.store.model import Other, OtherKind, StoreFile
from rocketfsck.store.reading import FileReader, read_whole

COUNTED_SIZE = 64 << 20
"""The rows of a larger database are estimated, not counted."""
_IDENTITY_SIZE = 1 << 16


def store_info(store: Store) -> StoreInfo:
    """Everything about an open store. A file that cannot be read has an `error`."""
    queues = tuple(map(queue_info, store.queues))
    return StoreInfo(
        root=str(store.root),
        written_by=_written_by(store),
        notes=store.notes,
        geometry=_geometry(store),
        live=LiveInfo(
            str(store.live.state), store.live.how, store.live.holder_pid, store.live.holder_command
        ),
        abort=_abort(store.abort),
        checkpoint=None if store.checkpoint is None else _checkpoint(store.checkpoint),
        identity=_identity(store),
        dledger=_node(store),
        commitlog=_log(store, queues),
        queues=queues,
        ext_queues=tuple(
            ExtQueueInfo(ext.topic, ext.queue_id, ext.orphan, files_info(ext.files))
            for ext in store.ext_queues
        ),
        indexes=tuple(map(index_info, store.indexes)),
        configs=tuple(ConfigInfo(file.relative, file.size) for file in store.configs),
        others=tuple(map(_other, store.others)),
        strays=tuple(
            StrayInfo(stray.relative, str(stray.reason), stray.size, stray.detail) for stray in store.strays
        ),
    )


def _written_by(store: Store) -> WrittenByInfo:
    found = store.dialect_evidence
    versions = tuple(map(str, found.versions))
    return WrittenByInfo(str(found.dialect.version), versions, found.given, found.conflict, found.known_from)


def _geometry(store: Store) -> dict[str, SizeInfo]:
    geometry = store.geometry
    return {
        name: SizeInfo(getattr(geometry, name), geometry.source(name), geometry.notes.get(name))
        for name in GEOMETRY_DEFAULTS
    }


def _abort(file: StoreFile | None) -> AbortInfo:
    if file is None:
        return AbortInfo(present=False)
    try:
        with FileReader(file.path) as reader:
            return AbortInfo(present=True, pid=decode_abort(reader.read_upto(0, 64)))
    except StoreError as error:
        return AbortInfo(present=True, error=str(error))


def _checkpoint(file: StoreFile) -> CheckpointFieldsInfo:
    try:
        with FileReader(file.path) as reader:
            return CheckpointFieldsInfo(decode_checkpoint(reader.read_upto(0, CHECKPOINT.size)))
    except StoreError as error:
        return CheckpointFieldsInfo(error=str(error))


def _identity(store: Store) -> IdentityInfo | None:
    """The identity of a broker in controller mode, from the file that it would take; None: there is none."""
    files = [
        file
        for other in store.others
        if other.kind is OtherKind.BROKER_IDENTITY
        for file in other.files
        if not file.name.endswith(".bak")
    ]
    failed: IdentityInfo | None = None
    for file in sorted(files, key=lambda file: file.name):
        try:
            data = read_whole(file.path, _IDENTITY_SIZE)
            found = decode_broker_identity(data, is_temp=file.name.endswith("-temp"))
        except StoreError as error:
            failed = failed or IdentityInfo(file.relative, error=str(error))
            continue
        return IdentityInfo(file.relative, found.cluster, found.broker_name, found.broker_id)
    return failed


def _node(store: Store) -> NodeInfo | None:
    """The DLedger node whose log the store has; None where the log is plain.

    The group's name is in no file of a store: it is the one in broker.conf, if that is given.
    """
    from rocketfsck.query.nodes import node_state  # loads NumPy

    try:
        found = node_state(store)
    except StoreError as error:
        return NodeInfo(error=str(error))
    if found is None:
        return None
    name = found.directory.partition("-")[2]
    group = (store.settings.get("dLegerGroup") or "").strip() or None
    return NodeInfo(GroupNode(name, group, found.current_term, found.voted_for, found.committed_index))


def _log(store: Store, queues: tuple[QueueInfo, ...]) -> LogInfo:
    log = store.commitlog
    return LogInfo(
        directories=tuple(map(str, log.directories)),
        file_size=log.file_size,
        start_offset=log.start_offset,
        end_offset=log.end_offset,
        dispatched_end_offset=max((queue.physical_end_offset or 0 for queue in queues), default=None),
        files=tuple(map(log_info, log.files)),
    )


def _other(other: Other) -> OtherInfo:
    rows, error = None, None
    if other.kind is OtherKind.ROCKSDB and other.files:
        rows, error = _families(other)
    files = files_info(other.files)
    return OtherInfo(str(other.kind), other.relative, other.topic, other.queue_id, files, rows, error)


def _families(other: Other) -> tuple[FamiliesInfo, str | None]:
    """The rows of a database, and why they could not be counted."""
    from rocketfsck.store.rocks.reading import count_rows, estimate_rows

    estimated = sum(file.size for file in other.files) > COUNTED_SIZE
    try:
        return FamiliesInfo(estimate_rows(other) if estimated else count_rows(other), estimated), None
    except StoreError as error:
        return FamiliesInfo(None), str(error)
