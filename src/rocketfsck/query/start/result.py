"""What a simulated start leaves, put together: files that come and go, queues with their bounds, losses.

Everything is read from the `StartState` that `simulate` has brought to its end. Reference 6.

What is in a store that a broker of another version does not read: a downgrade leaves it where it is.

    part of the store  x  the versions that read it  ->  a clause on the broker, with a count if known

The broker starts, and what it does not read is out of reach for as long as it runs. Reference 0.4, 1.8, 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rocketfsck.common.wording import fill_numbers
from rocketfsck.errors import StoreError
from rocketfsck.formats.dialect import NEWEST_NAME, Dialect, dialect_for
from rocketfsck.formats.javatext import java_decode
from rocketfsck.formats.smallfiles import java_parse_long
from rocketfsck.query.start import losses, model
from rocketfsck.query.start.databases import MESSAGES, RowsModel, has_light_rows, kind_of_queues
from rocketfsck.query.start.dispatch import QueueName
from rocketfsck.query.start.load import LoadedFile, Loading
from rocketfsck.query.start.queues import QueueModel
from rocketfsck.query.start.settings import deleted_queues, topic_kinds
from rocketfsck.query.start.startqueues import StartQueues, find_unreadable
from rocketfsck.query.start.state import StartState
from rocketfsck.query.start.timers import start_timers
from rocketfsck.reader.units import is_light_queue, light_offsets
from rocketfsck.store.elsewhere import has_tag_entries
from rocketfsck.store.model import OtherKind
from rocketfsck.store.others import SEGMENT_KINDS
from rocketfsck.store.rocks.families import DEFAULT
from rocketfsck.store.rocks.reading import RocksError, count_rows


@dataclass(frozen=True, slots=True)
class UnreadPart:
    """A part that brokers read for which `reads` holds.

    `count` gives how much of it there is, None where that is not known, 0 for nothing; `text` is the clause
    with a count, `uncounted` the one without.
    """

    reads: Callable[[Dialect], bool]
    count: Callable[[StartState], int | None]
    text: str = ""
    uncounted: str = ""


def unread_parts(state: StartState) -> Iterator[model.Unread]:
    """What this broker does not read of the store. Raises StoreError for a file that cannot be read."""
    yield from _unread(state, PARTS)


def unread_notes(state: StartState) -> Iterator[str]:
    """The same of what holds no message, each as a sentence. Raises StoreError as `unread_parts` does."""
    for item in _unread(state, FEATURES):
        yield f"a {state.dialect.version} broker {item.what}; no message is lost by that"


def _unread(state: StartState, parts: Iterable[UnreadPart]) -> Iterator[model.Unread]:
    for part in parts:
        if part.reads(state.dialect):
            continue
        count = part.count(state)
        if count is None:
            yield model.Unread(part.uncounted)
        elif count:
            yield model.Unread(fill_numbers(part.text, count=count), count)


def _newest() -> Dialect:
    return dialect_for(NEWEST_NAME)


def _timers(state: StartState) -> int | None:
    """The messages that wait for a timer, as the newest broker finds them."""
    stop_timestamp = state.checkpoint.physic_msg_timestamp
    found = start_timers(state.store, _newest(), state.settings, state.queues, stop_timestamp)
    if found.timers is not None:
        return found.timers.waiting_count + found.timers.lost_count
    return (_rows(state, MESSAGES, "timer") or None) if found.refusals or found.notes else 0


def _timer_rows(state: StartState) -> int | None:
    return _rows(state, MESSAGES, "timer") if state.dialect.timer_wheel else 0


def _rows(state: StartState, database: str, family: str) -> int | None:
    """The rows of a family of a database; None where the database cannot be read."""
    other = next((other for other in state.store.others if other.relative == database and other.files), None)
    if other is None:
        return 0
    try:
        return count_rows(other, [family]).get(family, 0)
    except (RocksError, StoreError):
        return None


def _index_rows(state: StartState) -> int | None:
    """Index entries in RocksDB, where they are the only ones."""
    return 0 if state.store.indexes else _rows(state, MESSAGES, DEFAULT)


def _queue_rows(state: StartState) -> int | None:
    in_rows = kind_of_queues(state.store, state.settings, _newest()) == "rows"
    return None if in_rows or has_light_rows(state.store) else 0


def _config_rows(state: StartState) -> int | None:
    there = (
        other.kind is OtherKind.ROCKSDB and other.relative.startswith("config/") and other.files
        for other in state.store.others
    )
    return None if any(there) else 0


def _of_kind(*kinds: OtherKind) -> Callable[[StartState], int]:
    return lambda state: sum(other.kind in kinds and bool(other.files) for other in state.store.others)


def _batch_queues(state: StartState) -> int:
    return sum(queue.kind == "batch" and bool(queue.files) for queue in state.store.queues)


def _light_queues(state: StartState) -> int:
    return sum(is_light_queue(queue) and bool(queue.files) for queue in state.store.queues)


def _tag_entries(state: StartState) -> int | None:
    """Index entries of tags; a sample of them says that there are some."""
    known = state.disk.tag_entries
    if state.has_entries not in known:
        known[state.has_entries] = has_tag_entries(state.store)
    return None if known[state.has_entries] else 0


def _checkpoint_fields(state: StartState) -> int:
    """The fields of the checkpoint that have a value, and that this broker neither reads nor writes."""
    known = state.dialect.checkpoint_fields
    return sum(value != 0 for name, value in state.checkpoint.values().items() if name not in known)


def _blocked(state: StartState) -> int | None:
    return None if state.dispatcher.rules.blocked else 0


def _entries(state: StartState) -> int | None:
    return None if _of_kind(OtherKind.DLEDGER_DATA)(state) else 0


PARTS: tuple[UnreadPart, ...] = (
    UnreadPart(
        lambda _: False,
        _blocked,
        uncounted="delivers and takes no messages, because consumequeue is not a directory",
    ),
    UnreadPart(
        lambda dialect: dialect.timer_wheel,
        _timers,
        "never delivers {count:timer message} that {count?waits|wait}",
        "never delivers the timer messages that wait",
    ),
    UnreadPart(
        lambda dialect: dialect.message_database,
        _timer_rows,
        "never delivers {count:timer message} that {count?waits|wait} in RocksDB",
        "never delivers the timer messages that wait in RocksDB",
    ),
    UnreadPart(
        lambda dialect: dialect.message_database,
        _index_rows,
        "does not read {count:index entry} in RocksDB",
        "does not read the index in RocksDB",
    ),
    UnreadPart(
        lambda dialect: dialect.message_database,
        lambda state: _rows(state, MESSAGES, "trans"),
        "never asks for the outcome of {count:transaction} in RocksDB",
        "never asks for the outcome of transactions in RocksDB",
    ),
    UnreadPart(
        lambda dialect: dialect.dledger, _entries, uncounted="does not read the commit log of DLedger"
    ),
    UnreadPart(
        lambda dialect: dialect.rocksdb_consumequeue,
        _queue_rows,
        uncounted="does not read the consume queues in RocksDB",
    ),
    UnreadPart(
        lambda dialect: dialect.rocksdb_consumequeue,
        _config_rows,
        uncounted="does not read the topics, groups, and offsets in RocksDB",
    ),
    UnreadPart(lambda dialect: dialect.batch_queues, _batch_queues, "does not read {count:batch queue}"),
    UnreadPart(
        lambda dialect: dialect.multi_dispatch, _light_queues, "adds no messages to {count:light queue}"
    ),
    UnreadPart(
        lambda dialect: dialect.compaction,
        _of_kind(OtherKind.COMPACTION_CQ),
        "does not read {count:compacted queue}",
    ),
    UnreadPart(
        lambda dialect: dialect.tiered_store,
        _of_kind(*SEGMENT_KINDS),
        "does not read {count:queue} in tiered storage",
    ),
    UnreadPart(
        lambda dialect: dialect.pop_database,
        lambda state: _rows(state, "kvStore", "popState"),
        "does not deliver {count:message} in flight (POP) again",
        "does not deliver the messages in flight (POP) again",
    ),
)
"""What versions do not read of what later ones write, and what none can. What is read by other rules is
predicted by the steps of the start: records of more than 127 bytes of topic (before 5.1.0), sizes and names
of files."""

FEATURES: tuple[UnreadPart, ...] = (
    UnreadPart(
        lambda dialect: dialect.tag_entries,
        _tag_entries,
        uncounted="does not answer queries by tags from the index",
    ),
    UnreadPart(
        lambda dialect: dialect.checkpoint_fields == _newest().checkpoint_fields,
        _checkpoint_fields,
        "does not read {count:field} of the checkpoint",
    ),
)
"""What versions do not read either, and holds no message: a start is not worse for it."""


Cuts = dict[tuple[object, ...], tuple[losses.Ranges, int]]
"""What is cut off, by where and of which files."""


def file_changes(
    loading: Loading,
    log_files: Sequence[LoadedFile],
    kept_files: Sequence[LoadedFile],
    cut_offset: int | None,
    queues: Iterable[QueueModel],
    *,
    destroyed: bool,
) -> list[model.FileChange]:
    """Files of log and queues that the start deletes, creates or resizes.

    `log_files` are those that were loaded, `kept_files` those that the cut leaves. `destroyed` says that the
    queues go because the log has no files.
    """
    changes = list(loading.deleted) if not loading.refusals else []
    kept = {file.relative for file in kept_files}
    why = f"the file begins at or after the cut at {cut_offset}"
    changes += [
        model.FileChange(file.relative, "deleted", file.size, why)
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
        changes += [model.FileChange(name, "deleted", size, why) for name in gone]
        for name in fresh:
            change: model.Change = "resized" if name in hidden else "created"
            changes.append(model.FileChange(name, change, size, "the broker appends units"))
    return changes


def queue_starts(
    queues: StartQueues, census: losses.Census, deleted_before: Callable[[str, int], int], *, blocked: bool
) -> list[model.QueueStart]:
    """Every queue that the broker has, and those that records name and it has not, by topic and queueId.

    A queue that was deleted on purpose begins again with 0. One whose first unit led behind all records that
    name it had begun again before the start: what they used was given out then. Where queues are `blocked`,
    no message is taken, and no queue offset given out.
    """
    counted = census.queues().items()
    last = {(java_decode(topic), number): at for (topic, number), at in census.last_records().items()}
    seen = {(java_decode(topic), queue_id): counts for (topic, queue_id), counts in counted}
    for name, (next_offset, missed) in seen.items():
        if next_offset and (blocked or last.get(name, -1) < queues.began_at(name)):
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
            starts.append(model.QueueStart(*name, "file", 0, 0, 0, 0, 0, 0, 0, max(next_offset, 0), missed))
            continue
        if not queue.original_files and last.get(name, -1) < deleted_before(*name):
            next_offset = 0
        found = queue.found_count, queue.cut_count, queue.hidden_count
        counts = (
            *found,
            queue.added_count,
            queue.shifted_count,
            max(next_offset - queue.max_offset, 0),
            missed,
        )
        bounds, phantom = (queue.min_offset, queue.max_offset), queue.phantom_count if queue.files else 0
        starts.append(model.QueueStart(*name, queue.loaded.kind, *bounds, *counts, phantom))
    return sorted(starts, key=lambda start: (start.topic, start.queue_id))


def _with_records(start: model.QueueStart, seen: Mapping[QueueName, tuple[int, int]]) -> model.QueueStart:
    """The start of a queue that it leaves alone, with what the records that name the queue say."""
    next_offset, missed = seen.get((start.topic, start.queue_id), (0, 0))
    reissued = max(next_offset - start.max_offset, 0)
    if not reissued and not missed:
        return start
    return replace(start, reissued_count=reissued, unreachable_count=missed)


def look_of(state: StartState) -> losses.Look:
    """What is to be looked over in the log, once it is known what was handed on."""
    first, above = state.handed_from or (len(state.all_files), 0)
    skipped = () if state.reput is None else state.reput.skipped
    handed = losses.Handed(first, above, state.reput_start, skipped)
    return losses.Look(
        state.log_files, handed, state.max_offset, losses.Remains(state.queues, state.index, state.census)
    )


def start_of(state: StartState, cuts: Cuts) -> model.Start:
    """The start as values."""
    complete, loading, blocked = state.complete, state.loading, state.dispatcher.rules.blocked
    cut, stale_count = (losses.Ranges(), 0) if state.refusals else _cut(state, cuts)
    unreadable = find_unreadable(state.log_files, state.max_offset, state.queues) if complete else []
    reput = state.reput
    return model.Start(
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
        else model.DispatchStart(
            state.reput_start,
            reput.end_offset,
            state.recovery_count,
            state.dispatcher.record_count - state.recovery_count,
            reput.skipped,
        ),
        queues=tuple(queue_starts(state.queues, state.census, _deleted_queues(state), blocked=blocked)),
        index=state.index.summary(state.max_offset),
        losses=model.Losses(
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
            losses.count_astray(_astray(state), _reached(state), state.options),
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


def _astray(state: StartState) -> Iterator[losses.Astray]:
    """The files of the commit log directories that the start deletes, or that the broker does not see."""
    if state.refusals:
        return
    until = losses.MAX_OFFSET if state.cut_offset is None else state.cut_offset
    reached = {file.path for file in _reached(state)}
    for file in state.log_files:
        if file.path not in reached and not file.is_new:
            yield losses.Astray(file.path, file.start_offset, is_hidden=True, until=until)
    kept = {file.path for file in state.log_files}
    for file in state.all_files:
        if file.path not in kept and not file.in_entries:
            yield losses.Astray(file.path, file.start_offset, is_hidden=False)
    directories = set(state.store.commitlog.directories)
    for ignored in state.loading.ignored:
        path = state.store.root / ignored.file
        if path.parent in directories and path.is_file():
            yield losses.Astray(str(path), java_parse_long(path.name) or 0, is_hidden=True)


def _cut(state: StartState, cuts: Cuts) -> tuple[losses.Ranges, int]:
    """What is cut off; `cuts` keeps it for other versions, which mostly cut at the same place."""
    if state.cut_offset is None or state.cut_offset == state.sound_end:
        return losses.Ranges(), 0
    cut_offset, scanned = state.cut_offset, (state.cut_offset, state.kept_timestamp, state.options)
    key = (*scanned, *(file.path for file in state.all_files))
    if key not in cuts:
        deleted_before = _deleted_queues(state)
        cuts[key] = losses.count_cut(
            state.all_files,
            *scanned,
            lambda name: state.queues.began_at(name) if name in state.queues else deleted_before(*name),
            lambda: light_offsets(state.store, cut_offset),
        )
    return cuts[key]
