"""A part of a store as a small store: some topics, one queue, a time window, with their queue offsets.

    commitlog of the store     all records, in order
      ->  commitlog            those that are wanted, one after the other, in the same order
          consumequeue, index  built from them; a queue that does not begin at 0 has pre-blank units before
          config               what concerns the topics, and the groups that consume them
          checkpoint

The new log does not begin at physical offset 0: so a broker passes over pre-blank units, which name that
offset, and the queue begins with its first message. The new store is proved before it appears: its records
are the wanted ones, byte for byte but for the fields that name physical offsets, and a check finds nothing.
Reference 1.6, 2.13, 3.3, 3.5.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rocketfsck.common.wording import visible
from rocketfsck.errors import UsageError
from rocketfsck.formats.properties import LMQ_PREFIX
from rocketfsck.formats.timer import TIMER_TOPIC
from rocketfsck.query.view import StoreView
from rocketfsck.repair.carve.carve import CarvedRecords, SourceFile
from rocketfsck.repair.convert import chosen, model
from rocketfsck.repair.convert import whole as convert_whole
from rocketfsck.repair.salvage.build import NewStore
from rocketfsck.repair.salvage.choose import takes_queue_offset
from rocketfsck.repair.salvage.ledger import account_queues
from rocketfsck.store.model import OtherKind, Store
from rocketfsck.store.rocks.families import MESSAGE_DATABASE
from rocketfsck.store.rocks.lifting import lifted
from rocketfsck.verify.finding import TREES, Finding
from rocketfsck.writer.disk.publish import demand_free

_READ_RULES = ("CL", "CF")
"""Families of rules about what is read: the commit log, and config/. Index and checkpoint are made again."""

_COMPACTED = (
    "what it keeps of compacted topics: a broker serves them from the log with enableCompaction=false"
)
_WAITING = f"messages that wait for a timer are in {TIMER_TOPIC}"
_TIERED = "tiered storage is not read"
NOT_TAKEN: Mapping[OtherKind, tuple[str, str]] = {
    OtherKind.TIMER_WHEEL: ("timerwheel", _WAITING),
    OtherKind.TIMER_LOG: ("timerlog", _WAITING),
    OtherKind.COMPACTION_LOG: ("compaction", _COMPACTED),
    OtherKind.EPOCH: ("epochFileCheckpoint", "epochs count another log"),
    OtherKind.BROKER_IDENTITY: ("brokerIdentity", "a controller gives it again"),
    OtherKind.DLEDGER_DATA: ("", "the new commit log is plain: start without enableDLegerCommitLog"),
    OtherKind.TIERED_LOG: ("", _TIERED),
}
"""Parts that are not taken along: the name of all of a kind, or "" for that of each, and why."""


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """What is wanted, and what the user said of the store. `file_size` (bytes) is that of a commit log file,
    None: as before. `sync` makes the store durable before it appears."""

    wanted: chosen.Wanted
    version: str | None = None
    broker_conf: Path | None = None
    delay_levels: str | None = None
    file_size: int | None = None
    sync: bool = True


def extract_store(store: Store, into: Path, options: ExtractOptions) -> model.ExtractDocument:
    """Write the wanted messages of a store to a new store with their queue offsets, and prove it.

    Raises UsageError for a topic that the store lacks, where no message is wanted, and for a record too long
    for a file; StoreError for a store that is damaged where it is read or in use, for what cannot be read or
    written, and if the proof fails: nothing is left then of the new store.
    """
    model.refuse_running(store)
    demand_free(into)
    with lifted(store) as lifting:
        for error in lifting.failed.values():
            raise error
        model.refuse_damaged(store, lambda finding: _matters(finding, options.wanted))
        return _extracted(store, lifting.store, into, options)


def _extracted(store: Store, whole: Store, into: Path, options: ExtractOptions) -> model.ExtractDocument:
    """`whole` is the store with the queues and configs of its databases."""
    wanted = options.wanted
    sources, found, outside_count = _wanted_records(whole, wanted)
    placement = convert_whole.placed(found, options.file_size or store.geometry.commitlog_file_size)
    queues = account_queues(found, placement.rows)
    bounds = chosen.queue_bounds(queues)
    light = chosen.light_bounds(whole, found)
    all_bounds = bounds | light
    configs = chosen.cut_configs(
        whole, lambda topic: wanted.has_topic(topic) or (topic, 0) in light, all_bounds
    )
    version = str(store.dialect.version)
    made = NewStore(
        sources, found, placement, version, whole, options.version, options.broker_conf, options.delay_levels,
        configs=configs.contents, forgets_halves=True,
    )  # fmt: skip
    left_out = tuple(chosen.queues_left_out(whole, wanted.has_queue, all_bounds))

    starts = convert_whole.write_proved(
        into, made, all_bounds, lambda building: convert_whole.put_groups(building, made), sync=options.sync
    )
    return model.ExtractDocument(
        schema_version=model.SCHEMA_VERSION,
        kind="rocketfsck.extract",
        into=into,
        version=version,
        record_count=len(found),
        record_byte_count=int(found["total_size"].sum()),
        outside_count=outside_count,
        start_offset=placement.start_offset,
        end_offset=placement.end_offset(found),
        commitlog_file_size=placement.file_size,
        moved_count=configs.moved_count,
        queues=tuple(queues),
        light_queue_count=len(light),
        queues_left_out=left_out,
        parts_left_out=(*_left_out(store, wanted), *configs.parts_left_out),
        starts=starts,
    )


def _matters(finding: Finding, wanted: chosen.Wanted) -> bool:
    """Whether a finding above info is about what is read: the log, config/, or a wanted queue."""
    where = finding.where
    topic = where.topic if where.topic is not None else finding.found.get("topic")
    is_read = finding.rule.startswith(_READ_RULES)
    if isinstance(topic, str):
        is_of_queue = is_read or where.file.startswith(tuple(TREES.values()))
        return model.is_problem(finding.rule) and is_of_queue and wanted.has_topic(topic)
    return model.is_problem(finding.rule) and is_read


def _wanted_records(store: Store, wanted: chosen.Wanted) -> tuple[Sequence[SourceFile], CarvedRecords, int]:
    """The files of the log, the records to take, and how many are outside the time window.

    Raises UsageError where there is none, and for a topic of which the store knows nothing.
    """
    sources, found = convert_whole.log_records(store, wanted.has_queue)
    _refuse_unknown(store, wanted, {os.fsdecode(topic) for topic, _ in found.table.names})
    found = found.take(np.flatnonzero(chosen.served_rows(store, found)))
    flags, outside_count = chosen.rows_between(found, wanted)
    found = found.take(np.flatnonzero(flags))
    if not takes_queue_offset(found).any():
        raise UsageError(f"{visible(str(store.root))}: consumers get no such message")
    return sources, found, outside_count


def _refuse_unknown(store: Store, wanted: chosen.Wanted, seen: set[str]) -> None:
    """`seen` are the topics of the records of the log."""
    with StoreView(store) as view:
        for topic in sorted(wanted.topics):
            reason = None if topic in seen else view.why_no_topic(topic)
            if reason is None and topic.startswith(LMQ_PREFIX):
                reason = f"{topic} is a light queue: take the topics whose messages it lists"
            if reason is not None:
                raise UsageError(f"{visible(str(store.root))}: {visible(reason)}")


def _left_out(store: Store, wanted: chosen.Wanted) -> Iterator[model.PartLeftOut]:
    parts = {}
    for other in store.others:
        if other.kind is OtherKind.ROCKSDB:
            parts[other.relative] = _reason_of(other.relative)
        elif other.kind in NOT_TAKEN and (other.topic is None or wanted.has_topic(other.topic)):
            name, reason = NOT_TAKEN[other.kind]
            parts[name or other.relative] = reason
    yield from (model.PartLeftOut(path, reason) for path, reason in parts.items())


def _reason_of(database: str) -> str:
    if database in ("config/users", "config/acls"):
        return "users and what they may do stay behind"
    if database == MESSAGE_DATABASE:
        return f"{convert_whole.database_reason(database)}; rows of timers and prepared messages stay behind"
    return convert_whole.database_reason(database)
