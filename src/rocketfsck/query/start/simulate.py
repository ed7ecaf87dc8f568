"""What a broker of a given version will do when it starts on a store, without starting it. Reference 6.

    load -> index -> queues recover -> commit log recovers (dispatching) -> truncation -> dispatcher

Where the log is DLedger's, DLedger's own recovery (`node`) comes in place of the commit log's.
Every step is the broker's own with its own quirks, on positions instead of mapped bytes. Only files are read;
nothing is written.

The steps of a broker's start on a `StartState`: load, recover, cut, dispatch. Reference 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rocketfsck.common.budget import within
from rocketfsck.formats.dialect import Dialect, dialect_for
from rocketfsck.progress import phase
from rocketfsck.query.start import recover
from rocketfsck.query.start.compacted import start_compaction
from rocketfsck.query.start.databases import row_queues, with_queues
from rocketfsck.query.start.dispatch import QueueName, Watcher
from rocketfsck.query.start.index import DIRECTORY_REASON, IndexModel, PutEntries
from rocketfsck.query.start.load import NO_AREAS, Areas, Disk, LoadedFile, load_files
from rocketfsck.query.start.losses import Census, Look, look_over
from rocketfsck.query.start.model import Refusal, Start
from rocketfsck.query.start.node import dispatch_entries, load_node, recover_node
from rocketfsck.query.start.queues import QueueModel, StartFailedError
from rocketfsck.query.start.result import Cuts, look_of, start_of
from rocketfsck.query.start.settings import NotCoveredError, kinds_note, refuse_unknown
from rocketfsck.query.start.state import StartState, topic_refusals
from rocketfsck.query.start.timers import start_timers
from rocketfsck.reader.records import LogReader
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.elsewhere import dead_links, opened_wrongly
from rocketfsck.store.model import Store

ACCELERATED_REASON = (
    "java.lang.RuntimeException: Accelerated recovery is enabled but checkpoint's logicsPhysicalOffset is "
    "invalid"
)
NO_DIRECTORY_REASON = "java.io.FileNotFoundException: {name} (Not a directory)"
PUT_AND_CUT_REASON = "DLedger's recovery adds units to the queues, then cuts the queues before their ends"
WAITS_REASON = "the start waits forever for the dispatcher, which stops at offset {offset}: {why}"


def run_start(state: StartState) -> None:
    """Load, recover and dispatch, unless the configs keep the broker from that."""
    if state.refusals:
        return
    loading = load_files(
        state.store,
        state.dialect,
        state.kind_of,
        with_ext=state.role.with_ext,
        areas=state.areas,
        with_queues=state.held.kind != "rows",
        disk=state.disk,
    )
    if not loading.refusals:
        compacted = start_compaction(state.store, state.dialect, state.settings)
        loading.deleted += compacted.changes
        loading.ignored += compacted.ignored
        state.refusals += compacted.refusals
    state.refusals += _opened_wrongly(state.store, state.dialect)
    state.loading = loading
    state.all_files = tuple(loading.log_files)
    state.log_files = list(loading.log_files)
    state.queues.load(loading)
    if state.held.kind == "rows":
        for rows in row_queues(state.store, state.held, state.dialect):
            state.queues[rows.loaded.topic, rows.loaded.queue_id] = rows
    state.refusals += [*loading.refusals, *state.held.refusals]
    if not state.refusals:
        try:
            _recover(state)
        except StartFailedError as failure:
            state.refusals.append(Refusal(failure.file, failure.reason))
    if not state.refusals:
        state.refusals += topic_refusals(state.store, state.settings, state.dialect)
    batch_topics = {queue.loaded.topic for queue in state.queues.models() if queue.loaded.kind == "batch"}
    if batch_topics and not state.kinds_known:
        state.notes.append(kinds_note(batch_topics))


def _opened_wrongly(store: Store, dialect: Dialect) -> Iterator[Refusal]:
    """Directories and dead links in place of files that a broker opens, or a file in place of a directory."""
    for relative, is_directory in opened_wrongly(store, dialect):
        if is_directory:
            yield Refusal(relative, DIRECTORY_REASON.format(name=store.root / relative))
        else:
            yield Refusal(relative, NO_DIRECTORY_REASON.format(name=store.root / relative / "timercheck"))
    for relative, error in dead_links(store, dialect):
        yield Refusal(relative, f"java.io.FileNotFoundException: {store.root / relative} ({error})")


def _recover(state: StartState) -> None:
    state.index.load(
        state.areas.get("index", state.store.root / "index"),
        clean=state.clean,
        index_msg_timestamp=state.checkpoint.index_msg_timestamp,
    )
    state.queues.recover()
    marked_offset = _marked_offset(state)
    if state.has_entries:
        _recover_node(state)
    elif state.log_files:
        _recover_log(state, marked_offset)
    elif state.dialect.empty_log_destroys_queues == "always" or not state.clean:
        state.destroyed = state.queues.has_files
        state.queues.destroy()
    state.correct_minima()
    stop_timestamp = state.checkpoint.physic_msg_timestamp
    state.timers = start_timers(state.store, state.dialect, state.settings, state.queues, stop_timestamp)
    state.refusals += state.timers.refusals
    state.notes += state.timers.notes
    if state.index.refusal is not None and state.dialect.index_load_fatal:
        state.refusals.append(state.index.refusal)
        return
    _dispatch(state)


def _marked_offset(state: StartState) -> int | None:
    """Where an accelerated recovery begins; None: with its first file. Raises StartFailedError."""
    if state.clean or not state.role.accelerated:
        return None
    marks = state.held.marks
    if marks.queues is not None:
        return marks.dispatch_from(marks.queues)
    if state.checkpoint.physic_msg_timestamp > 0 and state.checkpoint.logics_physical_offset <= 0:
        raise StartFailedError("checkpoint", ACCELERATED_REASON)
    return marks.dispatch_from(state.checkpoint.logics_physical_offset)


def _recover_log(state: StartState, marked_offset: int | None) -> None:
    max_queue_offset = state.max_queue_offset
    first = recover.choose_start(
        state.log_files,
        state.dialect,
        clean=state.clean,
        max_queue_offset=max_queue_offset,
        checkpoint=state.checkpoint,
        index_safe=state.role.index_safe,
        file_limit=state.role.file_limit,
        marks=state.held.marks,
    )
    start_pos = max((marked_offset or 0) - state.log_files[first].start_offset, 0)
    if start_pos > state.log_files[first].size:
        raise StartFailedError(state.log_files[first].relative, "java.lang.IllegalArgumentException")
    dispatches = not state.clean or state.dialect.dispatch_restart == "recovery"
    above = state.held.marks.dispatch_from(max_queue_offset) if state.clean else -(1 << 63)
    if start_pos and marked_offset is not None:
        above = marked_offset - 1
    if dispatches:
        state.handed_from = (first, above)

    def handle(batch: RecordBatch, file: LoadedFile) -> None:
        state.kept_timestamp = int(batch["store_timestamp"][-1])
        if dispatches:
            state.dispatcher.dispatch(batch, file.start_offset, batch["physical_offset"] > above)

    if state.sound_end is not None and (not dispatches or _has_all_units(state, above)):
        recovered = recover.recover_sound_log(state.log_files, first, start_pos, state.sound_end)
    else:
        recovered = recover.recover_log(
            state.log_files,
            first,
            state.walker(check_crc=state.role.check_crc),
            handle,
            takes_half=not state.clean and state.dialect.half_record_recovered,
            start_pos=start_pos,
        )
    state.scan, state.cut_offset = recovered.scan, recovered.cut_offset
    state.notes += recovered.notes
    state.recovery_count = state.dispatcher.record_count
    _truncate(state, max_queue_offset, recovered.cut_offset)
    state.log_files = recover.truncate_files(state.log_files, recovered.cut_offset)


def _has_all_units(state: StartState, above: int) -> bool:
    """Whether recovery of a sound log finds no record to dispatch: none begins above this physical offset."""
    end = state.sound_end
    if end is None or not state.clean or above < 0:
        return False
    if above >= end:
        return True
    with LogReader(state.store.commitlog) as log:
        head = log.head(above)
    return head is not None and above + head.total_size == end


def _recover_node(state: StartState) -> None:
    """DLedgerCommitLog.recover: the plain files stay as they are, DLedger's own are cut."""
    max_queue_offset = state.max_queue_offset
    node = load_node(state.store)
    plain = state.log_files
    state.all_files = (*plain, *node.data)
    state.node = started = recover_node(state.store, node)
    state.scan, state.cut_offset = started.scan, started.scan.stop_offset
    state.kept_timestamp = started.last_timestamp
    state.log_files = [*plain, *started.data]
    state.notes += started.notes()
    limit = started.scan.stop_offset
    if not state.clean and state.dialect.dledger_dispatches:
        if state.dialect.recovery_mark == "offset":
            max_queue_offset = state.checkpoint.logics_physical_offset
        limit = _dispatch_entries(state, started.data, len(plain), max_queue_offset)
    if max_queue_offset >= limit:
        if any(queue.added_count for queue in state.queues.models()):
            raise NotCoveredError((PUT_AND_CUT_REASON,), path=str(state.store.root))
        state.queues.truncate(limit)


def _dispatch_entries(state: StartState, files: Sequence[LoadedFile], number: int, cut_from: int) -> int:
    """Dispatch DLedger's files, the first of which is number `number` of the log; where they end.

    An end that is not above `cut_from` cuts the queues: then what they have is counted again.
    """
    first = recover.choose_data_file(files, state.dialect, state.checkpoint, index_safe=state.role.index_safe)
    end = dispatch_entries(files, first, state.walker(check_crc=state.role.check_crc), state.hand_on)
    state.recovery_count = state.dispatcher.record_count
    if cut_from < end:
        state.handed_from = (number + first, -(1 << 63))
    else:
        state.census = state.dispatcher.census = Census(state.table)
    return end


def _truncate(state: StartState, max_queue_offset: int, cut_offset: int) -> None:
    mark = state.held.marks.queues
    if mark is not None:
        wanted = (mark if state.dispatcher.mark is None else state.dispatcher.mark) > cut_offset
        state.correct_minima()
    elif state.dialect.queue_truncation == "abnormal":
        wanted = not state.clean
    else:
        latest = state.dialect.queue_truncation == "after dispatch"
        wanted = (state.max_queue_offset if latest else max_queue_offset) >= cut_offset
    if wanted:
        state.queues.truncate(cut_offset)


def _dispatch(state: StartState) -> None:
    from_queues = state.dialect.dispatch_restart == "consumequeue end" or (
        state.dialect.batch_queues and state.role.recheck_from_queues
    )
    confirmed = state.max_offset if state.node is None else state.node.confirm_offset
    start = max(state.max_queue_offset, 0) if from_queues else confirmed
    state.reput_start = max(start, state.min_offset)

    walker = state.walker(check_crc=False)
    skips = state.role.master or state.node is not None
    state.reput = recover.Reput(state.reput_start, ())
    # DLedger's first up to what the group agreed on, then, once it has a leader, to the end
    for end in sorted({confirmed, state.max_offset}):
        at = state.reput.end_offset
        part = recover.dispatch_log(state.log_files, at, walker, state.hand_on, skips=skips, end_offset=end)
        state.reput = recover.Reput(part.end_offset, state.reput.skipped + part.skipped)
    if state.dialect.dispatch_restart == "consumequeue end":
        for still in state.reput.skipped:
            if still.stuck:
                reason = WAITS_REASON.format(offset=still.start_offset, why=still.why)
                state.refusals.append(Refusal("commitlog", reason))
        state.correct_minima()


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
    reads the whole commit log once. `watch` gets every run of units that the start appends.

    Raises UsageError for an unknown version, NotCoveredError for a store whose start is not described
    here (RocksDB queues, some of DLedger's), StoreError where a file cannot be read.
    """
    return simulate_starts(store, [version], conf=conf, losses=losses, watch=watch)[0]


@phase("predicting the broker's start")
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
    properties in two ways). `areas` are directories that are read in place of those of that name below the
    store's root: what was rebuilt elsewhere. `sound_end` is the physical offset up to which a check has found
    every record sound, and none after it: then recovery after an orderly stop need not be walked.
    """
    settings = store.settings if conf is None else conf
    dialects = [dialect_for(version) for version in versions]
    with with_queues(store) as store, within(compiled=compiled_wanted(store.commitlog.size)):
        for dialect in dialects:
            refuse_unknown(store, settings, dialect)
        table, disk = QueueTable(), Disk(is_sound=sound_end is not None)
        starts = [
            StartState(store, dialect, settings, losses, watch, areas, table, sound_end, disk)
            for dialect in dialects
        ]
        for start in starts:
            run_start(start)
        looks: dict[ScanOptions, list[Look]] = {}
        for start in starts:
            if start.complete:
                looks.setdefault(start.options, []).append(look_of(start))
        for options, wanted in looks.items():
            look_over(wanted, table, options)
        cuts: Cuts = {}
        return [start_of(start, cuts) for start in starts]


@dataclass(frozen=True, slots=True)
class StartedFiles:
    """The mapped files as a start leaves them: of the log, of every queue, of the index. With refusals the
    broker does not start."""

    refusals: tuple[Refusal, ...]
    log_files: list[LoadedFile]
    queues: Mapping[QueueName, QueueModel]
    index: IndexModel


def start_files(
    store: Store, version: str, *, watch: Watcher | None = None, entries: PutEntries | None = None
) -> StartedFiles:
    """The files after a start of a broker of `version`.

    `entries` takes what is put into the index; `watch` and errors as `simulate_start`.
    """
    dialect = dialect_for(version)
    refuse_unknown(store, store.settings, dialect)
    with within(compiled=compiled_wanted(store.commitlog.size)):
        simulation = StartState(store, dialect, store.settings, False, watch, NO_AREAS, QueueTable())
        simulation.index.entries = entries
        run_start(simulation)
    return StartedFiles(tuple(simulation.refusals), simulation.log_files, simulation.queues, simulation.index)
