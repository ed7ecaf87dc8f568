"""What a simulated start leaves, put together: files that come and go, queues with their bounds, losses.

Everything is read from the `StartState` that `simulate` has brought to its end. Reference 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rocketfsck.formats.javatext import java_decode
from rocketfsck.formats.smallfiles import java_parse_long
from rocketfsck.query.start.dispatch import QueueName, RowsModel
from rocketfsck.query.start.load import LoadedFile, Loading
from rocketfsck.query.start.losses import (
    MAX_OFFSET,
    Astray,
    Census,
    Handed,
    Look,
    Ranges,
    Remains,
    count_astray,
    count_cut,
)
from rocketfsck.query.start.model import (
    DispatchStart,
    FileChange,
    Losses,
    QueueStart,
    Start,
)
from rocketfsck.query.start.queues import QueueModel
from rocketfsck.query.start.settings import deleted_queues, topic_kinds
from rocketfsck.query.start.startqueues import StartQueues, find_unreadable
from rocketfsck.query.start.state import StartState
from rocketfsck.query.start.unread import unread_notes, unread_parts
from rocketfsck.reader.units import light_offsets

Cuts = dict[tuple[object, ...], tuple[Ranges, int]]
"""What is cut off, by where and of which files."""


def file_changes(
    loading: Loading,
    log_files: Sequence[LoadedFile],
    kept_files: Sequence[LoadedFile],
    cut_offset: int | None,
    queues: Iterable[QueueModel],
    *,
    destroyed: bool,
) -> list[FileChange]:
    """Files of log and queues that the start deletes, creates or resizes.

    `log_files` are those that were loaded, `kept_files` those that the cut leaves. `destroyed` says that the
    queues go because the log has no files.
    """
    changes = list(loading.deleted) if not loading.refusals else []
    kept = {file.relative for file in kept_files}
    why = f"the file begins at or after the cut at {cut_offset}"
    changes += [
        FileChange(file.relative, "deleted", file.size, why)
        for file in log_files
        if file.relative not in kept
    ]
    why = "all its units come after the last valid unit, or belong to records after the cut"
    if destroyed:
        why = "the commit log has no files"
    hidden = {ignored.file for ignored in loading.ignored}
    for queue in queues:
        if isinstance(queue, RowsModel):
            continue
        size = queue.loaded.file_size
        now = [file.relative for file in queue.files]
        gone = [name for name in queue.original_files if name not in set(now)]
        fresh = [name for name in now if name not in set(queue.original_files)]
        changes += [FileChange(name, "deleted", size, why) for name in gone]
        changes += [
            FileChange(name, "resized" if name in hidden else "created", size, "the broker appends units")
            for name in fresh
        ]
    return changes


def queue_starts(
    queues: StartQueues, census: Census, deleted_before: Callable[[str, int], int]
) -> list[QueueStart]:
    """Every queue that the broker has, and those that records name and it has not, by topic and queueId.

    A queue that was deleted on purpose begins again with 0. One whose first unit led behind all records that
    name it had begun again before the start: what they used was given out then.
    """
    counted = census.queues().items()
    last = {(java_decode(topic), number): at for (topic, number), at in census.last_records().items()}
    seen = {(java_decode(topic), queue_id): counts for (topic, queue_id), counts in counted}
    for name, (next_offset, missed) in seen.items():
        if next_offset and last.get(name, -1) < queues.began_at(name):
            seen[name] = (0, missed)
    starts = [_with_records(start, seen) for start in queues.plain_starts()]
    stated = {(start.topic, start.queue_id) for start in starts}
    models = {(queue.loaded.topic, queue.loaded.queue_id): queue for queue in queues.models()}
    made_again = {java_decode(topic): offset for topic, offset in census.made_again().items()}
    for name in {*models, *(name for name, counts in seen.items() if any(counts))} - stated:
        next_offset, missed = seen.get(name, (0, 0))
        queue = models.get(name)
        if queue is None:
            if last.get(name, -1) < max(deleted_before(*name), made_again.get(name[0], -1)):
                next_offset = 0
            starts.append(QueueStart(*name, "file", 0, 0, 0, 0, 0, 0, 0, max(next_offset, 0), missed))
            continue
        if not queue.original_files and last.get(name, -1) < deleted_before(*name):
            next_offset = 0
        starts.append(
            QueueStart(
                *name,
                queue.loaded.kind,
                queue.min_offset,
                queue.max_offset,
                queue.found_count,
                queue.cut_count,
                queue.hidden_count,
                queue.added_count,
                queue.shifted_count,
                max(next_offset - queue.max_offset, 0),
                missed,
                queue.phantom_count if queue.files else 0,
            )
        )
    return sorted(starts, key=lambda start: (start.topic, start.queue_id))


def _with_records(start: QueueStart, seen: Mapping[QueueName, tuple[int, int]]) -> QueueStart:
    """The start of a queue that it leaves alone, with what the records that name the queue say."""
    next_offset, missed = seen.get((start.topic, start.queue_id), (0, 0))
    reissued = max(next_offset - start.max_offset, 0)
    if not reissued and not missed:
        return start
    return replace(start, reissued_count=reissued, unreachable_count=missed)


def look_of(state: StartState) -> Look:
    """What is to be looked over in the log, once it is known what was handed on."""
    first, above = state.handed_from or (len(state.all_files), 0)
    skipped = () if state.reput is None else state.reput.skipped
    handed = Handed(first, above, state.reput_start, skipped)
    return Look(state.log_files, handed, state.max_offset, Remains(state.queues, state.index, state.census))


def start_of(state: StartState, cuts: Cuts) -> Start:
    """The start as values."""
    complete, loading = state.complete, state.loading
    cut, stale_count = (Ranges(), 0) if state.refusals else _cut(state, cuts)
    unreadable = find_unreadable(state.log_files, state.max_offset, state.queues) if complete else []
    reput = state.reput
    return Start(
        version=str(state.dialect.version),
        loads=not state.refusals,
        refusals=tuple(state.refusals),
        recovery="normal" if state.clean else "abnormal",
        scan=state.scan,
        cut_offset=state.cut_offset,
        min_offset=state.min_offset,
        max_offset=state.max_offset,
        files=tuple(
            file_changes(
                loading,
                state.all_files,
                state.log_files,
                state.cut_offset,
                state.queues.models(),
                destroyed=state.destroyed,
            )
            + state.index.changes
            + state.timers.changes
            + ([] if state.node is None else state.node.changes())
        ),
        ignored=tuple(loading.ignored),
        queues_destroyed=state.destroyed,
        dispatch=None
        if reput is None
        else DispatchStart(
            state.reput_start,
            reput.end_offset,
            state.recovery_count,
            state.dispatcher.record_count - state.recovery_count,
            reput.skipped,
        ),
        queues=tuple(queue_starts(state.queues, state.census, _deleted_queues(state))),
        index=state.index.summary(state.max_offset),
        losses=Losses(
            cut.result(),
            cut.record_count,
            stale_count,
            state.census.by_queue.record_count if complete else None,
            state.census.new_by_queue_count if complete else None,
            state.census.by_queue.result() if complete else (),
            state.census.by_key.record_count if complete else None,
            state.census.new_by_key_count if complete else None,
            state.census.by_key.result() if complete else (),
            state.census.reached_count if complete else None,
            sum(item.record_count for item in unreadable) if complete else None,
            tuple(unreadable),
            count_astray(_astray(state), _reached(state), state.options),
            _deleted_count(state) if complete else 0,
        ),
        notes=(*state.notes, *(() if state.refusals else unread_notes(state))),
        timers=state.timers.timers,
        unread_parts=() if state.refusals else tuple(unread_parts(state)),
    )


def _deleted_queues(state: StartState) -> Callable[[str, int], int]:
    """Before which physical offset records of queues that the store has not were removed on purpose."""
    last = state.census.last_records().items()
    return deleted_queues(
        state.store, {(java_decode(topic), queue_id): offset for (topic, queue_id), offset in last}
    )


def _deleted_count(state: StartState) -> int:
    """The records without a unit whose queue topics.json does not list any more, or lists again: those before
    the first record of a topic that was made again."""
    if not topic_kinds(state.store)[1]:
        return 0
    deleted_before, made_again = _deleted_queues(state), state.census.made_again()
    missed = state.census.last_missed()
    return sum(
        count
        for (topic, queue_id), (_, count) in state.census.queues().items()
        if count
        and missed[topic, queue_id]
        < max(deleted_before(java_decode(topic), queue_id), made_again.get(topic, -1))
    )


def _reached(state: StartState) -> list[LoadedFile]:
    """The files of the log that the start keeps, but for those beyond its end: where names do not sort as
    their numbers do, the last one by name is not the last of the log."""
    return [file for file in state.log_files if file.start_offset < max(state.max_offset, 1)]


def _astray(state: StartState) -> Iterator[Astray]:
    """The files of the commit log directories that the start deletes, or that the broker does not see."""
    if state.refusals:
        return
    until = MAX_OFFSET if state.cut_offset is None else state.cut_offset
    reached = {file.path for file in _reached(state)}
    for file in state.log_files:
        if file.path not in reached and not file.is_new:
            yield Astray(file.path, file.start_offset, is_hidden=True, until=until)
    kept = {file.path for file in state.log_files}
    for file in state.all_files:
        if file.path not in kept and not file.in_entries:
            yield Astray(file.path, file.start_offset, is_hidden=False)
    directories = set(state.store.commitlog.directories)
    for ignored in state.loading.ignored:
        path = state.store.root / ignored.file
        if path.parent in directories and path.is_file():
            yield Astray(str(path), java_parse_long(path.name) or 0, is_hidden=True)


def _cut(state: StartState, cuts: Cuts) -> tuple[Ranges, int]:
    """What is cut off; `cuts` keeps it for other versions, which mostly cut at the same place."""
    if state.cut_offset is None or state.cut_offset == state.sound_end:
        return Ranges(), 0
    key = (
        state.cut_offset,
        state.kept_timestamp,
        state.options,
        tuple(file.path for file in state.all_files),
    )
    if key not in cuts:
        deleted_before, cut_offset = _deleted_queues(state), state.cut_offset
        cuts[key] = count_cut(
            state.all_files,
            state.cut_offset,
            state.kept_timestamp,
            state.options,
            lambda name: state.queues.began_at(name) if name in state.queues else deleted_before(*name),
            lambda: light_offsets(state.store, cut_offset),
        )
    return cuts[key]
