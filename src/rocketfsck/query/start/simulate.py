"""What a broker of a given version will do when it starts on a store, without starting it. Reference 6.

    load -> index -> queues recover -> commit log recovers (dispatching) -> truncation -> dispatcher

Where the log is DLedger's, DLedger's own recovery (`node`) comes in the place of the commit log's.
Every step is the broker's own with its own quirks, on positions instead of mapped bytes. Only files are read;
nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rocketfsck.formats.consumequeue import BATCH_UNIT_SIZE, UNIT_SIZE, rounded_file_size
from rocketfsck.formats.delay import parse_delay_levels
from rocketfsck.formats.dialect import Dialect, dialect_for
from rocketfsck.query.start.compacted import start_compaction
from rocketfsck.query.start.configdatabases import config_refusals
from rocketfsck.query.start.databases import queues_of, row_queues, with_queues
from rocketfsck.query.start.dispatch import Dispatcher, DispatchRules, QueueName, Watcher
from rocketfsck.query.start.index import IndexModel
from rocketfsck.query.start.load import NO_AREAS, Areas, Loading, OpenFile, load_files
from rocketfsck.query.start.losses import Census, Ranges, count_cut
from rocketfsck.query.start.model import (
    DispatchStart,
    LogScan,
    Losses,
    Refusal,
    Start,
)
from rocketfsck.query.start.node import NodeStart, dispatch_entries, load_node, recover_node
from rocketfsck.query.start.queues import QueueModel, StartFailedError
from rocketfsck.query.start.read import Reading
from rocketfsck.query.start.recover import (
    Reput,
    choose_data_file,
    choose_start,
    dispatch_log,
    recover_log,
    recover_sound_log,
    truncate_files,
)
from rocketfsck.query.start.remains import Handed, Look, Remains, look_over
from rocketfsck.query.start.result import file_changes, queue_starts
from rocketfsck.query.start.settings import (
    TIERED_NOTE,
    NotCoveredError,
    kinds_note,
    notes_of,
    read_start_checkpoint,
    refuse_unknown,
    role_of,
    topic_kinds,
    uses_entries,
)
from rocketfsck.query.start.timers import TimerOutcome, start_timers
from rocketfsck.query.start.units import find_unreadable
from rocketfsck.query.start.walk import LogWalker
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.dledger import without_entries
from rocketfsck.store.model import QueueKind, Settings, Store
from rocketfsck.store.newer import index_note
from rocketfsck.store.tiered import SEGMENT_KINDS

Cuts = dict[tuple[object, ...], tuple[Ranges, int]]
"""What is cut off, by where and of which files."""

ACCELERATED_REASON = (
    "java.lang.RuntimeException: Accelerated recovery is enabled but checkpoint's logicsPhysicalOffset is "
    "invalid"
)
PUT_AND_CUT_REASON = (
    "DLedger's recovery puts units into the queues and cuts them at an offset before their ends"
)
WAITS_REASON = "the start waits for the dispatcher, which stands still at offset {offset}: {why}"


def simulate_start(
    store: Store,
    version: str,
    *,
    conf: Settings | None = None,
    losses: bool = True,
    watch: Watcher | None = None,
) -> Start:
    """Predict the start of a broker of `version` on `store`.

    `conf` are the broker's settings (default: those the store was opened with; the sizes of files are the
    store's geometry in any case). `losses` says whether to look for messages that come out of reach, which
    reads the whole commit log once. `watch` is told of every run of units that the start appends.

    Raises UsageError for a version that is none, NotCoveredError for a store whose start is not described
    here (RocksDB queues, some of DLedger's), StoreError where a file cannot be read.
    """
    return simulate_starts(store, [version], conf=conf, losses=losses, watch=watch)[0]


def simulate_starts(
    store: Store,
    versions: Sequence[str],
    *,
    conf: Settings | None = None,
    losses: bool = True,
    watch: Watcher | None = None,
    areas: Areas = NO_AREAS,
    sound_end: int | None = None,
) -> list[Start]:
    """Predict the starts of several versions on the same files, as `simulate_start` does each.

    Messages out of reach are looked for in one pass over the commit log (in two where the versions read
    properties in two ways). `areas` are directories that stand in the place of those of that name below the
    store's root: what was rebuilt elsewhere. `sound_end` is the physical offset up to which a check has found
    every record sound, and none behind it: then recovery after an orderly stop need not be walked.
    """
    settings = store.settings if conf is None else conf
    dialects = [dialect_for(version) for version in versions]
    with with_queues(store) as store:
        for dialect in dialects:
            refuse_unknown(store, settings, dialect)
        return _simulated(store, dialects, settings, losses, watch, areas, sound_end)


def _simulated(
    store: Store,
    dialects: Sequence[Dialect],
    settings: Settings,
    losses: bool,
    watch: Watcher | None,
    areas: Areas,
    sound_end: int | None,
) -> list[Start]:
    table = QueueTable()
    starts = [
        _Simulation(store, dialect, settings, losses, watch, areas, table, sound_end) for dialect in dialects
    ]
    for start in starts:
        start.run()
    looks: dict[ScanOptions, list[Look]] = {}
    for start in starts:
        if start.complete:
            looks.setdefault(start.options, []).append(start.look())
    for options, wanted in looks.items():
        look_over(wanted, table, options, compiled=compiled_wanted(store.commitlog.size))
    cuts: Cuts = {}
    return [start.result(cuts) for start in starts]


class _Simulation:
    def __init__(
        self,
        store: Store,
        dialect: Dialect,
        settings: Settings,
        losses: bool,
        watch: Watcher | None,
        areas: Areas = NO_AREAS,
        table: QueueTable | None = None,
        sound_end: int | None = None,
    ) -> None:
        self.sound_end = sound_end
        self.has_entries = uses_entries(store, settings, dialect)
        store = store if self.has_entries else without_entries(store)
        self.store = store
        self.areas = areas
        self.held = queues_of(store, settings, dialect)
        self.dialect = dialect
        self.settings = settings
        self.role = role_of(store, settings, dialect)
        self.losses = losses
        self.clean = store.abort is None
        self.compiled = compiled_wanted(store.commitlog.size)
        self.table = QueueTable() if table is None else table
        self.census = Census(self.table)
        self.queues: dict[QueueName, QueueModel] = {}
        self.index = IndexModel(store.geometry, dialect, enabled=self.role.index_enabled)
        self.checkpoint = read_start_checkpoint(store)
        self.topic_kinds, self.kinds_known = topic_kinds(store)
        self.notes = notes_of(settings, self.role)
        newer = index_note(store) if self.role.index_enabled else None
        if newer is not None:
            self.notes.append(f"{newer}, so entries to be put are not all counted")
        if any(other.kind in SEGMENT_KINDS for other in store.others):
            self.notes.append(TIERED_NOTE)
        if store.live.locked:
            self.notes.append("a broker is at work here: its files change, and abort is there while it runs")
        sizes = store.geometry
        rules = DispatchRules(
            dialect,
            parse_delay_levels(settings.get("messageDelayLevel") or store.delay_levels),
            self.role.multi_dispatch and dialect.multi_dispatch,
            frozenset(queue.topic for queue in store.queues if queue.kind == "batch")
            | {topic for topic, kind in self.topic_kinds.items() if kind == "batch"},
            {
                "file": rounded_file_size(sizes.consumequeue_file_size, UNIT_SIZE),
                "batch": rounded_file_size(sizes.batch_file_size, BATCH_UNIT_SIZE),
            },
            self.kinds_known,
            self.held.database if self.held.kind == "rows" else None,
        )
        self.dispatcher = Dispatcher(self.queues, self.index, self.table, rules, self.census, watch)
        kinds = [{queue.topic for queue in store.queues if queue.kind == kind} for kind in ("file", "batch")]
        self.twice = kinds[0] & kinds[1]
        self.refusals = list(config_refusals(store, settings, dialect))
        self.loading = Loading()
        self.log_files: list[OpenFile] = []
        self.all_files: tuple[OpenFile, ...] = ()
        self.scan: LogScan | None = None
        self.cut_offset: int | None = None
        self.destroyed = False
        self.reput: Reput | None = None
        self.reput_start = 0
        self.recovery_count = 0
        self.handed_from: tuple[int, int] | None = None  # file number, physicalOffset above which
        self.kept_timestamp: int | None = None
        self.timers = TimerOutcome()
        self.node: NodeStart | None = None

    def run(self) -> None:
        """Load, recover and dispatch, unless the configs keep the broker from that."""
        if self.refusals:
            return
        loading = load_files(
            self.store,
            self.dialect,
            self._kind_of,
            with_ext=self.role.with_ext,
            areas=self.areas,
            with_queues=self.held.kind != "rows",
        )
        if not loading.refusals:
            compacted = start_compaction(self.store, self.dialect, self.settings)
            loading.deleted += compacted.changes
            loading.ignored += compacted.ignored
            self.refusals += compacted.refusals
        self.loading = loading
        self.all_files = tuple(loading.log_files)
        self.log_files = list(loading.log_files)
        self.queues.update(
            ((queue.topic, queue.queue_id), QueueModel(queue, self.dialect)) for queue in loading.queues
        )
        if self.held.kind == "rows":
            for rows in row_queues(self.store, self.held, self.dialect):
                self.queues[rows.loaded.topic, rows.loaded.queue_id] = rows
        self.refusals += [*loading.refusals, *self.held.refusals]
        if not self.refusals:
            try:
                self._recover()
            except StartFailedError as failure:
                self.refusals.append(Refusal(failure.file, failure.reason))
        batch_topics = {queue.loaded.topic for queue in self.queues.values() if queue.loaded.kind == "batch"}
        if batch_topics and not self.kinds_known:
            self.notes.append(kinds_note(batch_topics))

    def _kind_of(self, topic: str) -> QueueKind | None:
        """What topics.json says. Without it a topic that has both kinds is refused all the same."""
        if self.kinds_known or topic in self.twice:
            return self.topic_kinds.get(topic, "file")
        return None

    def _recover(self) -> None:
        self.index.load(
            self.areas.get("index", self.store.root / "index"),
            clean=self.clean,
            index_msg_timestamp=self.checkpoint.index_msg_timestamp,
        )
        for queue in self.queues.values():
            queue.recover()
        marked_offset = self._marked_offset()
        if self.has_entries:
            self._recover_node()
        elif self.log_files:
            self._recover_log(marked_offset)
        elif self.dialect.empty_log_destroys_queues == "always" or not self.clean:
            self.destroyed = any(queue.files for queue in self.queues.values())
            for queue in self.queues.values():
                queue.destroy()
        self._correct_minima()
        stop_timestamp = self.checkpoint.physic_msg_timestamp
        self.timers = start_timers(self.store, self.dialect, self.settings, self.queues, stop_timestamp)
        self.refusals += self.timers.refusals
        self.notes += self.timers.notes
        if self.index.refusal is not None and self.dialect.index_load_fatal:
            self.refusals.append(self.index.refusal)
            return
        self._dispatch()

    def _max_queue_offset(self) -> int:
        return max((queue.max_physic_offset for queue in self.queues.values()), default=-1)

    def _marked_offset(self) -> int | None:
        """Where an accelerated recovery begins; None: with its first file. Raises StartFailedError."""
        if self.clean or not self.role.accelerated:
            return None
        marks = self.held.marks
        if marks.queues is not None:
            return marks.dispatch_from(marks.queues)
        if self.checkpoint.physic_msg_timestamp > 0 and self.checkpoint.logics_physical_offset <= 0:
            raise StartFailedError("checkpoint", ACCELERATED_REASON)
        return marks.dispatch_from(self.checkpoint.logics_physical_offset)

    def _recover_log(self, marked_offset: int | None) -> None:
        max_queue_offset = self._max_queue_offset()
        first = choose_start(
            self.log_files,
            self.dialect,
            clean=self.clean,
            max_queue_offset=max_queue_offset,
            checkpoint=self.checkpoint,
            index_safe=self.role.index_safe,
            file_limit=self.role.file_limit,
            marks=self.held.marks,
        )
        start_pos = max((marked_offset or 0) - self.log_files[first].start_offset, 0)
        if start_pos > self.log_files[first].size:
            raise StartFailedError(self.log_files[first].relative, "java.lang.IllegalArgumentException")
        dispatches = not self.clean or self.dialect.dispatch_restart == "recovery"
        above = self.held.marks.dispatch_from(max_queue_offset) if self.clean else -(1 << 63)
        if start_pos and marked_offset is not None:
            above = marked_offset - 1
        if dispatches:
            self.handed_from = (first, above)

        def handle(batch: RecordBatch, file: OpenFile) -> None:
            self.kept_timestamp = int(batch["store_timestamp"][-1])
            if dispatches:
                self.dispatcher.dispatch(batch, file.start_offset, batch["physical_offset"] > above)

        if self.sound_end is not None and not dispatches:
            recovered = recover_sound_log(self.log_files, first, start_pos, self.sound_end)
        else:
            recovered = recover_log(
                self.log_files,
                first,
                self._walker(check_crc=self.role.check_crc),
                handle,
                takes_half=not self.clean and self.dialect.half_record_recovered,
                start_pos=start_pos,
            )
        self.scan, self.cut_offset = recovered.scan, recovered.cut_offset
        self.notes += recovered.notes
        self.recovery_count = self.dispatcher.record_count
        self._truncate(max_queue_offset, recovered.cut_offset)
        self.log_files = truncate_files(self.log_files, recovered.cut_offset)

    def _recover_node(self) -> None:
        """DLedgerCommitLog.recover: the plain files stay as they are, DLedger's own are cut."""
        max_queue_offset = self._max_queue_offset()
        node = load_node(self.store)
        plain = self.log_files
        self.all_files = (*plain, *node.data)
        self.node = started = recover_node(self.store, node)
        self.scan, self.cut_offset = started.scan, started.scan.stop_offset
        self.kept_timestamp = started.last_timestamp
        self.log_files = [*plain, *started.data]
        self.notes += started.notes()
        limit = started.scan.stop_offset
        if not self.clean and self.dialect.dledger_dispatches:
            if self.dialect.recovery_mark == "offset":
                max_queue_offset = self.checkpoint.logics_physical_offset
            limit = self._dispatch_entries(started.data, len(plain), max_queue_offset)
        if max_queue_offset >= limit:
            if any(queue.added_count for queue in self.queues.values()):
                raise NotCoveredError((PUT_AND_CUT_REASON,), path=str(self.store.root))
            for queue in self.queues.values():
                queue.truncate(limit)

    def _dispatch_entries(self, files: Sequence[OpenFile], number: int, cut_from: int) -> int:
        """Dispatch DLedger's files, the first of which is number `number` of the log; where they end.

        An end that is not above `cut_from` cuts the queues: then what they have is counted anew.
        """
        first = choose_data_file(files, self.dialect, self.checkpoint, index_safe=self.role.index_safe)
        end = dispatch_entries(files, first, self._walker(check_crc=self.role.check_crc), self._hand_on)
        self.recovery_count = self.dispatcher.record_count
        if cut_from < end:
            self.handed_from = (number + first, -(1 << 63))
        else:
            self.census = self.dispatcher.census = Census(self.table)
        return end

    def _hand_on(self, batch: RecordBatch, file: OpenFile) -> None:
        everything = np.ones(batch.record_count, np.bool_)
        self.dispatcher.dispatch(batch, file.start_offset, everything)

    def _walker(self, *, check_crc: bool) -> LogWalker:
        property_crc = self.role.force_property_crc and self.dialect.property_crc
        reading = Reading(self.dialect, check_crc, property_crc, self.has_entries)
        return LogWalker(reading, self.table, compiled=self.compiled)

    def _truncate(self, max_queue_offset: int, cut_offset: int) -> None:
        mark = self.held.marks.queues
        if mark is not None:
            wanted = (mark if self.dispatcher.mark is None else self.dispatcher.mark) > cut_offset
            self._correct_minima()
        elif self.dialect.queue_truncation == "abnormal":
            wanted = not self.clean
        else:
            latest = self.dialect.queue_truncation == "after dispatch"
            wanted = (self._max_queue_offset() if latest else max_queue_offset) >= cut_offset
        if wanted:
            for queue in self.queues.values():
                queue.truncate(cut_offset)

    def _correct_minima(self) -> None:
        for queue in self.queues.values():
            queue.correct_min(self.min_offset)

    @property
    def min_offset(self) -> int:
        return self.log_files[0].start_offset if self.log_files else -1

    @property
    def max_offset(self) -> int:
        return self.log_files[-1].start_offset + self.log_files[-1].wrote_pos if self.log_files else 0

    def _dispatch(self) -> None:
        from_queues = self.dialect.dispatch_restart == "consumequeue end" or (
            self.dialect.batch_queues and self.role.recheck_from_queues
        )
        confirmed = self.max_offset if self.node is None else self.node.confirm_offset
        start = max(self._max_queue_offset(), 0) if from_queues else confirmed
        self.reput_start = max(start, self.min_offset)

        walker = self._walker(check_crc=False)
        skips = self.role.master or self.node is not None
        self.reput = Reput(self.reput_start, ())
        # DLedger's first up to what the group agreed on, then, once it has a leader, to the end
        for end in sorted({confirmed, self.max_offset}):
            at = self.reput.end_offset
            part = dispatch_log(self.log_files, at, walker, self._hand_on, skips=skips, end_offset=end)
            self.reput = Reput(part.end_offset, self.reput.skipped + part.skipped)
        if self.dialect.dispatch_restart == "consumequeue end":
            for still in self.reput.skipped:
                if still.stuck:
                    reason = WAITS_REASON.format(offset=still.start_offset, why=still.why)
                    self.refusals.append(Refusal("commitlog", reason))
            self._correct_minima()

    @property
    def complete(self) -> bool:
        """Whether messages that come out of reach are looked for."""
        return self.losses and not self.refusals

    @property
    def options(self) -> ScanOptions:
        """How the log is looked over."""
        return ScanOptions(False, self.dialect.property_parser, index_tags=self.dialect.tag_entries)

    def look(self) -> Look:
        """What is to be looked over in the log, once it is known what was handed on."""
        first, above = self.handed_from or (len(self.all_files), 0)
        skipped = () if self.reput is None else self.reput.skipped
        handed = Handed(first, above, self.reput_start, skipped)
        return Look(self.log_files, handed, self.max_offset, Remains(self.queues, self.index, self.census))

    def _cut(self, cuts: Cuts) -> tuple[Ranges, int]:
        """What is cut off; `cuts` keeps it for other versions, which mostly cut at the same place."""
        if self.cut_offset is None or self.cut_offset == self.sound_end:
            return Ranges(), 0
        key = (
            self.cut_offset,
            self.kept_timestamp,
            self.options,
            tuple(file.path for file in self.all_files),
        )
        if key not in cuts:
            cuts[key] = count_cut(
                self.all_files, self.cut_offset, self.kept_timestamp, self.options, self.compiled
            )
        return cuts[key]

    def result(self, cuts: Cuts) -> Start:
        """The start as values."""
        complete, loading = self.complete, self.loading
        cut, stale_count = (Ranges(), 0) if self.refusals else self._cut(cuts)
        unreadable = (
            find_unreadable(self.log_files, self.max_offset, self.queues.values()) if complete else []
        )
        reput = self.reput
        return Start(
            version=str(self.dialect.version),
            loads=not self.refusals,
            refusals=tuple(self.refusals),
            recovery="normal" if self.clean else "abnormal",
            scan=self.scan,
            cut_offset=self.cut_offset,
            min_offset=self.min_offset,
            max_offset=self.max_offset,
            files=tuple(
                file_changes(
                    loading,
                    self.all_files,
                    self.log_files,
                    self.cut_offset,
                    self.queues,
                    destroyed=self.destroyed,
                )
                + self.index.changes
                + self.timers.changes
                + ([] if self.node is None else self.node.changes())
            ),
            ignored=tuple(loading.ignored),
            queues_destroyed=self.destroyed,
            dispatch=None
            if reput is None
            else DispatchStart(
                self.reput_start,
                reput.end_offset,
                self.recovery_count,
                self.dispatcher.record_count - self.recovery_count,
                reput.skipped,
            ),
            queues=tuple(queue_starts(self.queues, self.census)),
            index=self.index.summary(self.max_offset),
            losses=Losses(
                cut.result(),
                cut.record_count,
                stale_count,
                self.census.by_queue.record_count if complete else None,
                self.census.new_by_queue_count if complete else None,
                self.census.by_queue.result() if complete else (),
                self.census.by_key.record_count if complete else None,
                self.census.new_by_key_count if complete else None,
                self.census.by_key.result() if complete else (),
                self.census.reached_count if complete else None,
                sum(item.record_count for item in unreadable) if complete else None,
                tuple(unreadable),
            ),
            notes=tuple(self.notes),
            timers=self.timers.timers,
        )


def start_files(
    store: Store, version: str, *, watch: Watcher | None = None
) -> tuple[tuple[Refusal, ...], list[OpenFile], dict[QueueName, QueueModel]]:
    """The mapped files as a start of a broker of `version` leaves them: of the log, and of every queue.

    With refusals, the first of the three, the broker does not start. `watch` and errors as `simulate_start`.
    """
    dialect = dialect_for(version)
    refuse_unknown(store, store.settings, dialect)
    simulation = _Simulation(store, dialect, store.settings, False, watch, NO_AREAS, QueueTable())
    simulation.run()
    return tuple(simulation.refusals), simulation.log_files, simulation.queues
