"""Which parts of a store are what a state says, and which are due to be read again.

A part is a commit log file, a consume queue or an index file. A queue may have lost files in front: they
expire. What a log file's check found rests on units and index entries, too: see `Proven.log_of`.

What a check since an earlier one begins with: the state, and which files are what the state says.

A job over many stores runs the check of a large store again from its beginning after each stage, on any
machine (`pipeline.fleet.stages`). All runs must begin with the same, even if a broker continues to write, or
somebody replaces the state: `Begun` travels with the opened store. The state stays in its file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rocketfsck.common.documents import printable
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store.model import ConsumeQueue, Store, StoreFile
from rocketfsck.verify.index.chains import NO_OFFSET
from rocketfsck.verify.index.entryfeed import IndexExtent
from rocketfsck.verify.index.file import IndexResult
from rocketfsck.verify.index.spread import spread_notes
from rocketfsck.verify.log.result import LogResult
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.since import state as since_state
from rocketfsck.verify.tasks.execute import PlannedTask
from rocketfsck.verify.tasks.resume import from_json, identity_of
from rocketfsck.verify.tasks.task import Context, IndexFileTask, TaskResult

NOWHERE = -1

Look = Callable[[since_state.FileProof, StoreFile], bool]
"""Whether a file is what its proof says."""


@dataclass(frozen=True, slots=True)
class Due:
    """The parts that are read as a whole whatever a state proves, by what they are: file or queue."""

    logs: frozenset[str] = frozenset()
    queues: frozenset[tuple[str, int, str]] = frozenset()
    indexes: frozenset[str] = frozenset()


@dataclass(slots=True)
class Proven:
    """What holds of a store, by places in its lists of files and queues.

    `numbers` has, for each queue of the state, its place in `Store.queues` if its units are what they were,
    else NOWHERE. `first_offset`: no index entry that points to a lower offset of the log is new. `changed`
    are files that are not what the state says.
    """

    store: Store
    logs: dict[int, since_state.LogState] = field(default_factory=dict)
    queues: dict[int, since_state.KnownQueue] = field(default_factory=dict)
    indexes: dict[int, since_state.IndexState] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    first_offset: int = NO_OFFSET
    changed: set[str] = field(default_factory=set)

    def log_of(self, place: int) -> LogResult | None:
        """What is known of a commit log file; None where something that the result rests on may be another.

        The result rests on each unit that its records met, and on each entry that points into the part known.
        """
        state, file = self.logs[place], self.store.commitlog.files[place]
        if (file.start_offset or 0) + state.proof.end > self.first_offset:
            return None
        result = from_json(LogResult, state.result)
        summary = result.summary
        if summary is None:
            return None
        units = summary.units
        numbers = np.array(
            [self.numbers[number] if number >= 0 else NOWHERE for number in units.numbers.tolist()], np.int32
        )
        known = units.numbers >= 0
        queues = self.store.queues
        unknown = set(units.unknown_names)
        if (numbers[known] < 0).any() or any((queue.topic, queue.queue_id) in unknown for queue in queues):
            return None
        for row, start, end in units.matched.tolist():
            if not self._has_units(int(numbers[row]), start, end):
                return None
        delays = units.delays.copy()
        delays[:, 3] = [self.numbers[number] for number in delays[:, 3].tolist()]
        units = replace(units, numbers=numbers, delays=delays)
        return replace(result, summary=replace(summary, units=units))

    def _has_units(self, number: int, start: int, end: int) -> bool:
        """Whether the units `start:end` of a queue are on disk, and known."""
        queue, state = self.store.queues[number], self.queues.get(number)
        known = None if state is None else state.known
        if known is None:
            return True  # the files of the queue are the same as a whole
        first = (queue.files[0].start_offset or 0) // queue.unit_size
        return first <= start and end <= known.end


def prove(store: Store, state: since_state.SinceState, changed: Collection[str] | None = None) -> Proven:
    """Look at every file that a state has proofs of.

    With `changed` no file is looked at: these are the ones that an earlier look found to be other files.
    """
    proven = Proven(store)

    def look(proof: since_state.FileProof, file: StoreFile) -> bool:
        same = since_state.holds(proof, file) if changed is None else file.relative not in changed
        if not same:
            proven.changed.add(file.relative)
        return same

    logs = {log.proof.file: log for log in state.logs}
    for place, file in enumerate(store.commitlog.files):
        log = logs.get(file.relative)
        if log is not None and look(log.proof, file):
            proven.logs[place] = log
    _prove_queues(proven, state.queues, look)
    _prove_indexes(proven, state.indexes, look)
    return proven


def _prove_queues(proven: Proven, states: Sequence[since_state.KnownQueue], look: Look) -> None:
    """A queue that has a namesake of another kind now has another meaning to records: it is left out."""
    now = {_name(queue): number for number, queue in enumerate(proven.store.queues)}
    kinds: dict[tuple[str, int], set[str]] = {}
    for state in states:
        kinds.setdefault((state.topic, state.queue_id), set()).add(state.queue_kind)
    changed = {
        (queue.topic, queue.queue_id)
        for queue in proven.store.queues
        if queue.kind not in kinds.get((queue.topic, queue.queue_id), {queue.kind})
    }
    for state in states:
        number = now.get((state.topic, state.queue_id, state.queue_kind), NOWHERE)
        name = (state.topic, state.queue_id)
        if number >= 0 and name not in changed and _queue_holds(proven.store.queues[number], state, look):
            proven.queues[number] = state
        else:
            number = NOWHERE
        proven.numbers.append(number)


def _queue_holds(queue: ConsumeQueue, state: since_state.KnownQueue, look: Look) -> bool:
    files = {file.relative: file for file in queue_files(queue)}
    proofs = state.proofs
    if state.known is not None:  # files in front may have expired
        while len(proofs) > 1 and proofs[0].file not in files:
            proofs = proofs[1:]
        same = [proof.file for proof in proofs] == list(files)[: len(proofs)]
    else:
        same = [proof.file for proof in proofs] == list(files)
    return bool(proofs) and same and all(look(proof, files[proof.file]) for proof in proofs)


def _prove_indexes(proven: Proven, states: Sequence[since_state.IndexState], look: Look) -> None:
    """An index file that is gone, or not what it was, may have had entries of any record."""
    store = proven.store
    known = {state.proof.file: state for state in states}
    start = store.commitlog.start_offset or 0
    for place, file in enumerate(store.indexes):
        state = known.pop(file.relative, None)
        if state is not None and look(state.proof, file):
            proven.indexes[place] = state
        elif state is not None:
            proven.first_offset = 0
    for state in known.values():
        if state.known is None or state.known.last_offset >= start:
            proven.first_offset = 0


def queue_files(queue: ConsumeQueue) -> tuple[StoreFile, ...]:
    """The files of a queue and of its extension."""
    return queue.files + (queue.ext.files if queue.ext is not None else ())


def parts_due(state: since_state.SinceState, now_timestamp: int, period: float) -> tuple[Due, int]:
    """What has to be read again so that each part is read once in a period, in seconds.

    Everything that was last read that long ago; and besides, the oldest first, the share of all bytes that
    the time since the last check has in the period, so that the work is spread over the checks. The number is
    how many bytes are due after that: less than 0 where a part is larger than what was due of it.
    """
    parts = sorted(_parts(state))
    total = sum(size for _, size, _, _ in parts)
    elapsed = max(now_timestamp - state.written_timestamp, 0) / 1000
    left = total if period <= 0 else state.due_byte_count + round(total * min(elapsed / period, 1))
    due: set[tuple[str, Any]] = set()
    for read_timestamp, size, kind, name in parts:
        late = now_timestamp - read_timestamp >= period * 1000 or read_timestamp > now_timestamp
        if not late and left <= 0:
            break
        due.add((kind, name))
        left -= size
    logs, queues, indexes = (
        frozenset(name for kind, name in due if kind == wanted) for wanted in ("log", "queue", "index")
    )
    return Due(logs, queues, indexes), min(left, total)


def _parts(state: since_state.SinceState) -> Iterator[tuple[int, int, str, Any]]:
    """When each part was read, its bytes, its kind and its name."""
    for log in state.logs:
        yield log.read_timestamp, _size([log.proof]), "log", log.proof.file
    for queue in state.queues:
        name = (queue.topic, queue.queue_id, queue.queue_kind)
        yield queue.read_timestamp, _size(queue.proofs), "queue", name
    for index in state.indexes:
        yield index.read_timestamp, _size([index.proof]), "index", index.proof.file


def _size(proofs: Sequence[since_state.FileProof]) -> int:
    return sum(proof.end - proof.start for proof in proofs)


def _name(queue: ConsumeQueue) -> tuple[str, int, str]:
    return queue.topic, queue.queue_id, queue.kind


# Notes on how the keys of an index file spread (`verify.index.spread`): kept while nothing changes them.
#
# A note rests on a sample of the file's entries and on the records that some of them lead to. So it holds
# while the file has the same entries in use, and the commit log is what it was from the first of them to the
# last.


def add_notes(
    context: Context,
    units: Iterable[PlannedTask],
    results: dict[str, TaskResult | None],
    proven: Proven,
    due: Due,
) -> None:
    """Put the notes on each index file into the extent that was found of it: those of the state, or new ones.

    A file that cannot be read has none; who wants its notes tries again.
    """
    for unit in units:
        result = results[unit.key]
        if not isinstance(unit.task, IndexFileTask) or not isinstance(result, IndexResult):
            continue
        if result.summary is None:
            continue
        file, state = context.store.indexes[unit.task.index], proven.indexes.get(unit.task.index)
        extent = result.summary
        if state is not None and state.extent == extent and _holds(proven, due, file.relative, extent):
            notes = state.extent.notes
        else:
            try:
                notes = spread_notes(context, file, extent)
            except StoreError:
                notes = None
        results[unit.key] = replace(result, summary=replace(extent, notes=notes))


def _holds(proven: Proven, due: Due, name: str, extent: IndexExtent) -> bool:
    """Whether an index file and the records that its entries lead to are what they were."""
    if name in due.indexes:
        return False
    for place, file in enumerate(proven.store.commitlog.files):
        start = file.start_offset or 0
        if start > extent.last_offset or start + file.size <= extent.first_offset:
            continue
        state = proven.logs.get(place)
        if state is None or state.proof.file in due.logs:
            return False
        if start + state.proof.end <= min(extent.last_offset, start + file.size - 1):
            return False
    return True


class StateChangedError(StoreError):
    """The state is not the one that the check began with."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What a state was worth when a check began.

    `digest` is that of the state, "" where none helps, and `reason` why (`read_state`). `changed` are the
    files, by their names below the store, that are not what the state says.
    """

    digest: str
    reason: str = ""
    changed: frozenset[str] = frozenset()


def begin(
    store: Store, options: CheckOptions, begun: Begun | None = None
) -> tuple[since_state.SinceState | str, Proven, Begun]:
    """The state in `options.since`, or why there is none; what it proves of the store; how to begin again.

    With `begun` no file is looked at again. Raises UsageError for a file that is not a state; StoreError for
    a state that cannot be read; StateChangedError if it is not the one of `begun`.
    """
    path = _path_of(store, options)
    if begun is not None and not begun.digest:
        return begun.reason, Proven(store, first_offset=0), begun
    found = since_state.read_state(path, identity_of(store, options.level, options.detail_limit))
    digest = found.digest if isinstance(found, since_state.SinceState) else ""
    if begun is not None and digest != begun.digest:
        raise StateChangedError("the state has changed while the check ran", path=printable(str(path)))
    if isinstance(found, str):
        return found, Proven(store, first_offset=0), Begun("", found)
    proven = prove(store, found, None if begun is None else begun.changed)
    return found, proven, begun or Begun(digest, "", frozenset(proven.changed))


def _path_of(store: Store, options: CheckOptions) -> Path:
    path = options.since
    assert path is not None
    if path.resolve().is_relative_to(store.root.resolve()):
        raise UsageError(f"{path}: is inside the store, where a check must not write")
    return path
