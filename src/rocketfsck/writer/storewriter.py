"""Writing a store: every message goes through the append lock and is dispatched at once.

`write_store` builds the directory under a temporary name and publishes it whole. Memory holds what is not
written of each file yet and the state of each queue, nothing else that grows with the store. The small files:

    checkpoint, config/
    abort      there when the broker was killed: empty, from 5.0.0 on its PID
    abort.bak  from 5.0.0 on always, empty
    lock       from 4.2.0 on, `lock`

Reference 1.1, 1.6, 5.

The checkpoint as it follows the writing, and what of it is on disk when the process dies. Reference 5.1,
1.5.

An orderly stop flushes everything. A killed process leaves what was flushed last: at the roll of an index
file, and every 60 s (from 5.0.0 on every second). From 5.5.0 on the fields of the consume queues advance only
with a thorough flush of the queues, every 60 s: an orderly stop makes none. The messages' own times stand for
the clock here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rocketfsck.errors import FormatError, UsageError
from rocketfsck.formats import properties as props
from rocketfsck.formats.checkpoint import Checkpoint, encode_checkpoint
from rocketfsck.formats.config import PERM_READ, PERM_WRITE, decode_config, encode_config, topic_configs
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.record import Record
from rocketfsck.formats.smallfiles import ABORT_NAME, LOCK_CONTENT, LOCK_NAME, encode_abort
from rocketfsck.writer import commitlog
from rocketfsck.writer.consumequeue import (
    DispatchOutcome,
    QueueTable,
    dispatch_record,
    expire_files,
    is_expired,
)
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import place_at
from rocketfsck.writer.indexfile import IndexService, close_file, expire_index_files
from rocketfsck.writer.manifest import PutRecord
from rocketfsck.writer.message import messages
from rocketfsck.writer.message.compose import Draft, compose, multi_dispatch_names, multi_dispatch_queue_id
from rocketfsck.writer.message.messages import Kind, MessageError
from rocketfsck.writer.options import EndState, WriteOptions, check_options

_THOROUGH_FLUSH = 60_000
_SCHEDULED_FLUSH = 1_000


@dataclass(slots=True)
class CheckpointState:
    """The checkpoint's fields in memory, the checkpoint as flushed last, and when (ms; None: not yet).

    `waiting` are time (ms) and offset of the last unit, which wait for a thorough flush.
    """

    dialect: Dialect
    master_flushed_offset: int = 0
    confirm_physical_offset: int = 0
    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    logics_physical_offset: int = 0
    waiting: tuple[int, int] = (0, 0)
    flushed: Checkpoint = field(default_factory=Checkpoint)
    flushed_timestamp: int | None = None
    thorough_timestamp: int = 0

    @property
    def in_memory(self) -> Checkpoint:
        """What a flush writes now; fields that this version does not know are 0."""
        known = self.dialect.checkpoint_fields
        return Checkpoint(
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset if "masterFlushedOffset" in known else 0,
            self.confirm_physical_offset if "confirmPhyOffset" in known else 0,
            self.logics_physical_offset if "logicsPhysicalOffset" in known else 0,
        )

    @property
    def cadence(self) -> int:
        """Milliseconds between two flushes."""
        return _SCHEDULED_FLUSH if self.dialect.abort_has_pid else _THOROUGH_FLUSH

    def reload(self, stored: Checkpoint) -> None:
        """Take over the fields from disk, as a start does."""
        for item in fields(stored):
            setattr(self, item.name, getattr(stored, item.name))
        self.waiting = (0, 0)
        self.flushed = self.in_memory
        self.flushed_timestamp = None

    def put_unit(self, store_timestamp: int, physical_offset: int) -> None:
        """A record got its unit in a consume queue."""
        if self.dialect.logics_timestamp_at_flush:
            self.waiting = store_timestamp, physical_offset
        else:
            self.logics_msg_timestamp = store_timestamp

    def dispatched(
        self, store_timestamp: int, physical_offset: int, *, in_queue: bool, full: int | None
    ) -> None:
        """A record was dispatched; `full` (ms) ends the index file that it found full."""
        if in_queue:
            self.put_unit(store_timestamp, physical_offset)
        if full is not None:
            self.index_msg_timestamp = full
        if self.flushed_timestamp is None:
            self.flushed_timestamp = self.thorough_timestamp = store_timestamp
        if full is not None or store_timestamp - self.flushed_timestamp >= self.cadence:
            if store_timestamp - self.thorough_timestamp >= _THOROUGH_FLUSH:
                self._flush_thoroughly(store_timestamp)
            self.flushed = self.in_memory
            self.flushed_timestamp = store_timestamp

    def follow(self, record: Record, done: DispatchOutcome) -> None:
        """`dispatched`, of what a dispatch did."""
        full, in_queue = done.full_index_timestamp, done.in_queue
        at = (record.store_timestamp, record.physical_offset)
        self.dispatched(*at, in_queue=in_queue, full=full)

    def _flush_thoroughly(self, store_timestamp: int) -> None:
        self.thorough_timestamp = store_timestamp
        timestamp, offset = self.waiting
        if timestamp > 0:
            self.logics_msg_timestamp = timestamp
        if offset > 0:
            self.logics_physical_offset = offset


_SYSTEM_TOPICS = ("SCHEDULE_TOPIC_XXXX",)


@dataclass(slots=True)
class StoreWriter:
    """The state of a store in the making below `root`: one field a family of files."""

    root: Path
    options: WriteOptions
    log: commitlog.CommitLog
    queues: QueueTable
    index: IndexService
    checkpoint: CheckpointState
    message_count: int = 0
    last_timestamp: int = 0
    abort_backup: bytes = b""


def new_writer(root: Path, options: WriteOptions) -> StoreWriter:
    """A writer of an empty store in an existing directory; UsageError for impossible options."""
    check_options(options)
    for name in ("commitlog", "consumequeue"):
        fileops.make_directories(place_at(root / name))
    return StoreWriter(
        root,
        options,
        commitlog.new_commitlog(root, options),
        QueueTable(root, options),
        IndexService(root / "index", options),
        CheckpointState(
            options.dialect,
            master_flushed_offset=options.master_flushed_offset,
            confirm_physical_offset=options.confirm_physical_offset,
        ),
    )


def put(writer: StoreWriter, message: messages.OutgoingMessage) -> list[PutRecord]:
    """Append a message and dispatch it; the records that it became.

    MessageError, with the message's number, if a broker would refuse it: then nothing was written.
    """
    number = writer.message_count
    try:
        drafts = compose(message, writer.options)
        records = [_settled(writer, draft) for draft in drafts]
        commitlog.check_sizes(records, writer.options)
    except MessageError as error:
        raise MessageError(error.reason, number) from None
    single = message.kind is not Kind.LEGACY_BATCH
    commitlog.make_room(writer.log, sum(record.total_size for record in records), single=single)
    pairs = zip(drafts, records, strict=True)
    done = [_put_record(writer, *pair, number, single=single) for pair in pairs]
    writer.message_count += 1
    writer.last_timestamp = message.store_timestamp
    return done


def _settled(writer: StoreWriter, draft: Draft) -> Record:
    """The record with what the append lock adds to its properties."""
    options, dialect = writer.options, writer.options.dialect
    properties = draft.properties
    if draft.message.kind is Kind.INNER_BATCH:
        base = writer.queues.next_offset(draft.topic, draft.queue_id)
        properties = messages.with_properties(properties, {props.INNER_BASE: str(base)}, dialect)
    names = multi_dispatch_names(draft, options)
    if names:
        queues = ((name, multi_dispatch_queue_id(name, draft.queue_id)) for name in names)
        offsets = [str(writer.queues.next_offset(*queue)) for queue in queues]
        added = {props.INNER_MULTI_QUEUE_OFFSET: props.MULTI_DISPATCH_SEPARATOR.join(offsets)}
        properties = messages.with_properties(properties, added, dialect)
        properties = messages.without_property(properties, props.WAIT, dialect)
    encoded = messages.property_bytes(properties, dialect, options.property_map_capacity)
    if draft.with_crc:
        encoded = commitlog.room_for_crc(draft, encoded)
    return commitlog.draft_record(draft, encoded)


def _put_record(writer: StoreWriter, draft: Draft, record: Record, number: int, *, single: bool) -> PutRecord:
    options = writer.options
    queue = writer.queues.state(draft.topic, draft.queue_id)
    queue_offset = queue.next_offset if draft.message_count else 0
    placed = commitlog.append_record(writer.log, record, queue_offset, with_crc=draft.with_crc, single=single)
    queue.next_offset += draft.message_count
    for name in multi_dispatch_names(draft, options):
        other = writer.queues.state(name, multi_dispatch_queue_id(name, draft.queue_id))
        other.next_offset += 1
    done = dispatch_record(placed, writer.queues, writer.index, draft.message.filter_bit_map)
    if not options.sync_flush or _is_waited_for(draft, options):
        writer.checkpoint.physic_msg_timestamp = record.store_timestamp
    writer.checkpoint.follow(placed, done)
    return PutRecord(number, placed, draft.message_count, done.in_queue, done.extra_units)


def _is_waited_for(draft: Draft, options: WriteOptions) -> bool:
    """Whether the put returns only when the message is flushed; only then the checkpoint hears of it."""
    if draft.message.kind is Kind.DELIVERED:
        return False
    wait = messages.as_map(draft.properties, options.dialect).get(props.WAIT)
    return wait is None or wait.lower() == "true"


def expire(writer: StoreWriter, expiry: messages.Expiry) -> None:
    """Delete the oldest files as the broker's cleaning does."""
    stream = writer.log.stream
    for _ in range(expiry.file_count):
        if stream.first_start == stream.last_start:
            break
        stream.delete_first()
    minimum = writer.log.min_offset
    for queue in writer.queues.states.values():
        expire_files(queue, minimum)
    expire_index_files(writer.index, minimum)
    if expiry.whole_queues:
        _remove_expired_queues(writer, minimum)


def _remove_expired_queues(writer: StoreWriter, minimum: int) -> None:
    for key, queue in list(writer.queues.states.items()):
        if queue.topic in _SYSTEM_TOPICS or not is_expired(queue, minimum):
            continue
        for stream in (queue.stream, queue.ext):
            if stream is not None and stream.last_start is not None:
                while stream.first_start != stream.last_start:
                    stream.delete_first()
                fileops.unlink(place_at(stream.path_of(stream.last_start)))
                fileops.remove_directory(place_at(stream.directory))
                if not any(stream.directory.parent.iterdir()):
                    fileops.remove_directory(place_at(stream.directory.parent))
        writer.queues.remove(key)


def finish(writer: StoreWriter) -> None:
    """End the broker's life: write out everything, then the checkpoint, the markers and `config/`."""
    options, dialect = writer.options, writer.options.dialect
    clean = options.end_state is EndState.CLEAN
    writer.log.stream.flush()
    for queue in writer.queues.states.values():
        queue.stream.flush()
        if queue.ext is not None:
            queue.ext.flush()
    # 4.x does not flush the index at its end; what a flush changes is the count of an empty file.
    close_file(writer.index, flushed=clean and dialect.abort_has_pid)
    if not clean and options.preallocate:
        commitlog.preallocate_next(writer.log)
    checkpoint = encode_checkpoint(final_checkpoint(writer))
    fileops.write_new(place_at(writer.root / CHECKPOINT_NAME), checkpoint)
    write_markers(writer.root, options, writer.abort_backup)
    files = dict(options.config)
    if options.topics_file and TOPICS_NAME not in files and writer.queues.states:
        stored = stored_topics(writer.root)
        files[TOPICS_NAME] = topics_document(writer.queues.states, options, writer.last_timestamp, stored)
    write_config(writer.root, files)


def final_checkpoint(writer: StoreWriter) -> Checkpoint:
    """The checkpoint that is on disk when the broker has ended."""
    if writer.options.checkpoint is not None:
        return writer.options.checkpoint
    if writer.options.end_state is EndState.CLEAN:
        return writer.checkpoint.in_memory
    return writer.checkpoint.flushed


CHECKPOINT_NAME = "checkpoint"
TOPICS_NAME = "topics.json"
CONFIG_FOLDER = "config"
BATCH_QUEUE_ATTRIBUTES = {"queue.type": "BatchCQ"}

_TOPIC_TABLE_CAPACITY = 1024
"""Buckets of the broker's table of topics, whose order topics.json has."""


def write_markers(root: Path, options: WriteOptions, abort_backup: bytes = b"") -> None:
    """Write abort, abort.bak (`abort_backup`) and lock as this end state of this version leaves them."""
    dialect = options.dialect
    abort, backup = root / ABORT_NAME, root / f"{ABORT_NAME}.bak"
    if fileops.exists(place_at(abort)):
        fileops.unlink(place_at(abort))
    if options.end_state is EndState.KILLED:
        fileops.write_new(place_at(abort), encode_abort(options.pid if dialect.abort_has_pid else None))
    if dialect.abort_has_pid:
        fileops.write_new(place_at(backup), abort_backup)
    if dialect.lock_file:
        fileops.write_new(place_at(root / LOCK_NAME), LOCK_CONTENT)


def write_config(root: Path, files: Mapping[str, Any]) -> None:
    """Write these files of `config/` as a broker's JSON; UsageError for a value that JSON cannot hold."""
    folder = root / CONFIG_FOLDER
    for name, value in files.items():
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise UsageError(f"{name!r} cannot be a file in {CONFIG_FOLDER}/")
        try:
            data = encode_config(value)
        except TypeError as error:
            raise UsageError(f"{CONFIG_FOLDER}/{name}: {error}") from None
        fileops.make_directories(place_at(folder))
        fileops.write_new(place_at(folder / name), data)


def stored_topics(root: Path) -> dict[str, Any]:
    """The value of an existing topics.json, empty without one; UsageError if it cannot be read."""
    path = root / CONFIG_FOLDER / TOPICS_NAME
    if not path.exists():
        return {}
    try:
        value = decode_config(path.read_bytes())
        topic_configs(value)
    except FormatError as error:
        raise UsageError(f"{CONFIG_FOLDER}/{TOPICS_NAME}: {error}") from None
    found: dict[str, Any] = value
    return found


def topics_document(
    queues: Iterable[tuple[str, int]], options: WriteOptions, timestamp: int, stored: Mapping[str, Any]
) -> dict[str, Any]:
    """The value of topics.json for queues (topic, queueId): each topic has as many as its highest needs.

    Topics that `stored`, the value before, has are kept as they are.
    """
    counts: dict[str, int] = {}
    for topic, queue_id in queues:
        counts[topic] = max(counts.get(topic, 0), queue_id + 1)
    known = dict(stored.get("topicConfigTable") or {})
    table = {topic: _topic_entry(topic, count, options) for topic, count in counts.items()} | known
    version: dict[str, int] = {"counter": len(table)}
    if options.dialect.config_has_state_version:
        version["stateVersion"] = 0
    version["timestamp"] = timestamp
    ordered = {topic: table[topic] for topic in props.java_hash_map_order(table, _TOPIC_TABLE_CAPACITY)}
    return {"dataVersion": version, "topicConfigTable": ordered}


def _topic_entry(topic: str, queue_count: int, options: WriteOptions) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if options.dialect.config_has_state_version:
        entry["attributes"] = dict(BATCH_QUEUE_ATTRIBUTES) if topic in options.batch_topics else {}
    return entry | {
        "order": False,
        "perm": PERM_READ | PERM_WRITE,
        "readQueueNums": queue_count,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": 0,
        "writeQueueNums": queue_count,
    }
