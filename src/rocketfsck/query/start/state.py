"""The state of a simulated start: the store, what decides, and what each step has left so far.

For `simulate`, which does what a broker does, and `result`, which reads what is left. Reference 6.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from dataclasses import InitVar, dataclass, field

import numpy as np

from rocketfsck.common.documents import printable
from rocketfsck.errors import StoreError
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.timer import parse_delay_levels
from rocketfsck.query.start import model, recover
from rocketfsck.query.start import settings as start_settings
from rocketfsck.query.start.databases import kind_of_queues, open_failure, queues_of
from rocketfsck.query.start.dispatch import Dispatcher, DispatchRules, Watcher
from rocketfsck.query.start.index import IndexModel
from rocketfsck.query.start.load import Areas, Disk, LoadedFile, Loading, queue_file_sizes
from rocketfsck.query.start.losses import Census
from rocketfsck.query.start.node import NodeStart
from rocketfsck.query.start.read import BrokerReading, LogWalker
from rocketfsck.query.start.startqueues import StartQueues
from rocketfsck.query.start.timers import TimerOutcome
from rocketfsck.reader.configs import loaded_topics, read_checkpoint
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.elsewhere import index_note
from rocketfsck.store.logpaths import without_entries
from rocketfsck.store.model import Other, QueueKind, Store, Stray, StrayReason
from rocketfsck.store.others import SEGMENT_KINDS
from rocketfsck.store.rocks.families import CONFIG_V2, CURRENT, Content, content_of, databases_of
from rocketfsck.store.rocks.reading import RocksError, read_rows

# What configs in RocksDB decide of a start: one that cannot be read keeps the broker from starting.
#
#     configManagerVersion=v2        config/rdb            ConfigStorage opens it
#     storeType=defaultRocksDB       config/topics/ and two others, or config/metadata/: RocksDBConfigManager
#                                    opens them and reads every row
#
# `BrokerController#initializeMetadata` does so before it loads a single file of messages. Without CURRENT
# RocksDB makes a new database; a WAL is read as far as it is whole. Reference 11.4, 11.5.

SEPARATE = ("config/topics", "config/consumerOffsets", "config/subscriptionGroups")
TOGETHER = "config/metadata"


NAMELESS_REASON = "java.lang.NullPointerException: the topic {topic} has no topicName"
_NAME = b'"topicName"'


def config_refusals(store: Store, settings: Settings, dialect: Dialect) -> tuple[model.Refusal, ...]:
    """The first config database that the broker cannot read, if there is one."""
    if dialect.dispatch_restart != "recovery":  # the brokers before are not described
        return ()
    there = {other.relative: other for other in databases_of(store)}
    for path, all_rows in _used(store, settings, dialect, there.keys()):
        other = there.get(path)
        reason = None if other is None else _failure(other, dialect, all_rows=all_rows)
        if reason is not None:
            return (model.Refusal(path, reason),)
    return ()


def _used(store: Store, settings: Settings, dialect: Dialect, there: Set[str]) -> Iterator[tuple[str, bool]]:
    """The databases that the broker opens, in that order, and whether it reads all rows while it starts."""
    version = settings.get("configManagerVersion")
    if version == "v2" or (version is None and CONFIG_V2 in there):
        yield CONFIG_V2, False
    elif kind_of_queues(store, settings, dialect) == "rows":
        only_together = TOGETHER in there and there.isdisjoint(SEPARATE)
        together = settings.flag("useSingleRocksDBForAllConfigs", only_together)
        for path in (TOGETHER,) if together else SEPARATE:
            yield path, True


def topic_refusals(store: Store, settings: Settings, dialect: Dialect) -> Iterator[model.Refusal]:
    """A topic without its name, over which a broker fails that has started all else and registers. One in a
    DLedger group registers later, and does not end over it."""
    is_json = not any(_used(store, settings, dialect, {other.relative for other in databases_of(store)}))
    if not dialect.topics_need_names or not is_json or start_settings.uses_entries(store, settings, dialect):
        return
    for topic, config in sorted((loaded_topics(store) or {}).items()):
        if config.topic_name is None:
            yield model.Refusal("config/topics.json", NAMELESS_REASON.format(topic=topic))
            return


def _failure(other: Other, dialect: Dialect, *, all_rows: bool) -> str | None:
    """What RocksDB says when the broker cannot open the database, or not read it; the same of a topic that
    has no name."""
    reason = open_failure(other)
    if reason is not None or not all_rows or all(file.name != CURRENT for file in other.files):
        return reason
    try:
        for rows in read_rows(other):
            if dialect.topics_need_names and content_of(other.relative, rows.family) is Content.TOPICS:
                for key, value in rows.pairs():
                    if _NAME not in value:
                        return NAMELESS_REASON.format(topic=printable(os.fsdecode(key)))
    except RocksError as error:
        return f"org.rocksdb.RocksDBException: {error.message}" if error.from_rocksdb else None
    except StoreError:
        return None
    return None


_NO_DIRECTORY = (StrayReason.FILE, StrayReason.SPECIAL, StrayReason.DANGLING)


def _is_in_the_way(stray: Stray) -> bool:
    """Whether something is where the directory of the consume queues belongs, so that none can be made."""
    return stray.relative == "consumequeue" and stray.reason in _NO_DIRECTORY


@dataclass(eq=False)
class StartState:
    """A start on its way: what is given, what follows from settings and files, and what the steps set.

    `cut_offset`, `scan`, `reput` and `node` are None until the step that sets them, or where it has no part.
    `handed_from` is the number of the file and the physicalOffset above which recovery dispatches records.
    Times are ms. Raises StoreError for a file that cannot be read.
    """

    store: Store
    dialect: Dialect
    settings: Settings
    losses: bool
    watch: InitVar[Watcher | None]
    areas: Areas
    table: QueueTable
    sound_end: int | None = None
    disk: Disk = field(default_factory=Disk)

    def __post_init__(self, watch: Watcher | None) -> None:
        dialect, settings = self.dialect, self.settings
        self.has_entries = start_settings.uses_entries(self.store, settings, dialect)
        if not self.has_entries:
            self.store = without_entries(self.store)
        store = self.store
        self.held = queues_of(store, settings, dialect)
        self.role = start_settings.role_of(store, settings, dialect)
        self.clean = store.abort is None
        self.census = Census(self.table)
        self.queues = StartQueues(dialect, self.disk)
        self.index = IndexModel(store.geometry, dialect, enabled=self.role.index_enabled)
        self.checkpoint = read_checkpoint(store)
        self.topic_kinds, self.kinds_known = start_settings.topic_kinds(store)
        self.notes = start_settings.notes_of(settings, self.role)
        if self.role.index_enabled:
            if self.has_entries not in self.disk.index_notes:
                self.disk.index_notes[self.has_entries] = index_note(store)
            newer = self.disk.index_notes[self.has_entries]
            if newer is not None:
                self.notes.append(f"{newer}, so the prediction does not count all new entries")
        if any(other.kind in SEGMENT_KINDS for other in store.others):
            self.notes.append(start_settings.TIERED_NOTE)
        if store.live.locked:
            self.notes.append(
                "a broker is running on this store: files change, and `abort` exists until the broker stops"
            )
        rules = DispatchRules(
            dialect,
            parse_delay_levels(settings.get("messageDelayLevel") or store.delay_levels),
            self.role.multi_dispatch and dialect.multi_dispatch,
            frozenset(queue.topic for queue in store.queues if queue.kind == "batch")
            | {topic for topic, kind in self.topic_kinds.items() if kind == "batch"},
            queue_file_sizes(store.geometry),
            self.kinds_known,
            self.held.database if self.held.kind == "rows" else None,
            "consumequeue" not in self.areas and any(map(_is_in_the_way, store.strays)),
        )
        self.dispatcher = Dispatcher(self.queues, self.index, self.table, rules, self.census, watch)
        kinds = [{queue.topic for queue in store.queues if queue.kind == kind} for kind in ("file", "batch")]
        self.twice = kinds[0] & kinds[1]
        self.refusals = list(config_refusals(store, settings, dialect))
        self.loading = Loading()
        self.log_files: list[LoadedFile] = []
        self.all_files: tuple[LoadedFile, ...] = ()
        self.scan: model.LogScan | None = None
        self.cut_offset: int | None = None
        self.destroyed = False
        self.reput: recover.Reput | None = None
        self.reput_start = 0
        self.recovery_count = 0
        self.handed_from: tuple[int, int] | None = None
        self.kept_timestamp: int | None = None
        self.timers = TimerOutcome()
        self.node: NodeStart | None = None

    def kind_of(self, topic: str) -> QueueKind | None:
        """What topics.json says. Without it a topic that has both kinds is refused all the same."""
        if self.kinds_known or topic in self.twice:
            return self.topic_kinds.get(topic, "file")
        return None

    def walker(self, *, check_crc: bool) -> LogWalker:
        """What judges records as this broker does; `check_crc` says whether it looks at bodies."""
        property_crc = self.role.force_property_crc and self.dialect.property_crc
        reading = BrokerReading(self.dialect, check_crc, property_crc, self.has_entries)
        return LogWalker(reading, self.table)

    def hand_on(self, batch: RecordBatch, file: LoadedFile) -> None:
        """Dispatch every record of the batch."""
        everything = np.ones(batch.record_count, np.bool_)
        self.dispatcher.dispatch(batch, file.start_offset, everything)

    def correct_minima(self) -> None:
        """Raise the first offset of every queue to what the log still has."""
        self.queues.correct_min(self.min_offset)

    @property
    def max_queue_offset(self) -> int:
        """The highest physicalOffset that a unit leads to; -1 without units."""
        return self.queues.max_physic_offset

    @property
    def min_offset(self) -> int:
        """Where the commit log begins; -1 without files."""
        return self.log_files[0].start_offset if self.log_files else -1

    @property
    def max_offset(self) -> int:
        """Where the commit log ends; 0 without files."""
        return self.log_files[-1].start_offset + self.log_files[-1].wrote_pos if self.log_files else 0

    @property
    def complete(self) -> bool:
        """Whether messages that come out of reach are looked for."""
        return self.losses and not self.refusals

    @property
    def options(self) -> ScanOptions:
        """How the log is looked over."""
        return ScanOptions(False, self.dialect.property_parser, index_tags=self.dialect.tag_entries)
