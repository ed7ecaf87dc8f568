"""A check that continues from the state that an earlier one left, and the state that it leaves itself.

    prove the state -> queues and index files: what is new -> which log files rest on what is as it was?
                    -> those that are sealed: kept; the one that grows: what is new; others: as a whole
                    -> the same results, and so the same report, as a check that reads everything

Every result is that of a whole check, as far as old bytes are what they were. Where a task cannot tell that
from what is new alone, it goes through its file as a whole. Damage of old bytes between the samples is found
when the file is read again (`CheckOptions.scrub`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rocketfsck._version import __version__
from rocketfsck.common.rulenames import RuleName
from rocketfsck.engine import Engine
from rocketfsck.engine.passes import Passes
from rocketfsck.errors import StoreError
from rocketfsck.formats.indexfile import entry_pos
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.verify.index.chains import NO_OFFSET
from rocketfsck.verify.index.file import IndexResult, check_index_file
from rocketfsck.verify.log.result import LogResult, is_settled
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.queues.file import QueuesResult, check_queues
from rocketfsck.verify.report import Coverage, SinceFacts
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.since import state as since_state
from rocketfsck.verify.since.proving import Begun, Due, Proven, add_notes, begin, parts_due, queue_files
from rocketfsck.verify.stopping import WantedFindings
from rocketfsck.verify.tasks import task as tasks_task
from rocketfsck.verify.tasks.execute import Executed, PlannedTask, execute, known_size
from rocketfsck.verify.tasks.resume import identity_of, to_json

_OWN_RULES = frozenset(
    name for name, rule in RULES.items() if rule.family == "CL" and name != RuleName.PREPARED_RECORD_MISSING
)
"""Rules about the bytes of one commit log file alone."""


@dataclass(frozen=True, slots=True)
class SinceRun:
    """What came of a check since an earlier one; `state` is to be written once the check has ended."""

    executed: Executed
    facts: SinceFacts
    path: Path
    state: since_state.SinceState

    def save(self) -> None:
        """Write the state file. Raises StoreError."""
        since_state.write_state(self.path, self.state)


def execute_since(
    context: tasks_task.Context,
    options: CheckOptions,
    units: Sequence[PlannedTask],
    engine: Engine,
    wanted: WantedFindings,
    *,
    passes: Passes | None = None,
    begun: Begun | None = None,
) -> SinceRun:
    """Run the tasks as far as the state in `options.since` does not know what comes of them.

    `begun` is what the check begins with, where that was found out before. Raises as `begin` does.
    """
    found, proven, _ = begin(context.store, options, begun)
    state = found if isinstance(found, since_state.SinceState) else None
    due, due_byte_count = Due(), 0
    if state is not None and options.scrub is not None:
        due, due_byte_count = parts_due(state, context.now_timestamp, options.scrub)
    others = [
        _with_known(unit, proven, due) for unit in units if not isinstance(unit.task, tasks_task.LogFileTask)
    ]
    ran = execute(context, options, others, engine, wanted=wanted, passes=passes)
    results: dict[str, tasks_task.TaskResult | None] = _by_key(ran)
    _look_at_others(proven, ran)
    kept: dict[str, LogResult] = {}
    left: list[PlannedTask] = []
    for unit in units:
        if not isinstance(unit.task, tasks_task.LogFileTask):
            continue
        place = unit.task.index
        usable = place in proven.logs and proven.logs[place].proof.file not in due.logs
        known = proven.log_of(place) if usable else None
        if known is not None and proven.logs[place].proof.is_sealed:
            kept[unit.key] = known
        else:
            left.append(replace(unit, task=replace(unit.task, known=known)))
    logs = execute(context, options, left, engine, wanted=wanted, passes=passes)
    results |= _by_key(logs) | kept
    add_notes(context, units, results, proven, due)
    went_on = {unit.key: unit for unit in left}
    begun_with = went_on | {unit.key: unit for unit in others}
    executed = Executed(
        tuple(went_on.get(unit.key, unit) for unit in units),
        tuple(results[unit.key] for unit in units),
        ran.not_checked + logs.not_checked,
        _coverage([begun_with.get(unit.key, unit) for unit in units], results, kept.keys()),
    )
    identity = identity_of(context.store, context.level, context.detail_limit)
    latest = _looked_at_later(executed) if context.store.live.locked else executed
    new = replace(_state_of(context, identity, latest, proven, due), due_byte_count=due_byte_count)
    facts = _facts(context, found, [unit for unit in units if unit.key in kept], new)
    assert options.since is not None
    return SinceRun(executed, facts, options.since, new)


def _looked_at_later(ran: Executed) -> Executed:
    """What ran, with what a running broker has put into queues and index files by now.

    The records of the log have met units and entries that were not there when these files were read. A state
    that knew the former without the latter would not hold.
    """
    results: list[tasks_task.TaskResult | None] = []
    for unit, result in zip(ran.units, ran.results, strict=True):
        later: tasks_task.TaskResult | None = None
        with suppress(StoreError):
            if isinstance(result, QueuesResult) and isinstance(unit.task, tasks_task.QueuesTask):
                later = check_queues(replace(unit.task, known=result.known))
            elif (
                isinstance(result, IndexResult)
                and isinstance(unit.task, tasks_task.IndexFileTask)
                and result.known
            ):
                again = check_index_file(replace(unit.task, known=replace(result.known, is_unchanged=True)))
                later = again if again.known is not None and again.summary != result.summary else None
        is_alike = later is not None and result is not None and later.findings == result.findings
        results.append(later if is_alike else result)
    return replace(ran, results=tuple(results))


def _with_known(unit: PlannedTask, proven: Proven, due: Due) -> PlannedTask:
    """The unit, whose task need not read again what is known."""
    task = unit.task
    if isinstance(task, tasks_task.QueuesTask):
        known = tuple(
            None if state is None or _name(state) in due.queues else state.known
            for state in map(proven.queues.get, range(task.start, task.end))
        )
        return replace(unit, task=replace(task, known=known))
    assert isinstance(task, tasks_task.IndexFileTask)
    state = proven.indexes.get(task.index)
    if state is None or state.known is None or state.proof.file in due.indexes:
        return unit
    file = task.context.store.indexes[task.index]
    entries = replace(
        state.known, is_unchanged=state.proof.is_sealed or state.proof.mtime_ns == file.mtime_ns
    )
    return replace(unit, task=replace(task, known=entries))


def _name(state: since_state.KnownQueue) -> tuple[str, int, str]:
    return state.topic, state.queue_id, state.queue_kind


def _by_key(ran: Executed) -> dict[str, tasks_task.TaskResult | None]:
    return {unit.key: result for unit, result in zip(ran.units, ran.results, strict=True)}


def _look_at_others(proven: Proven, ran: Executed) -> None:
    """Leave out queues that turned out not to be what they were; find the first new index entry."""
    for unit, result in zip(ran.units, ran.results, strict=True):
        if isinstance(unit.task, tasks_task.QueuesTask):
            for number in range(unit.task.start, unit.task.end):
                state = proven.queues.get(number)
                if state is None or state.known is None:
                    continue
                now = result.known[number - unit.task.start] if isinstance(result, QueuesResult) else None
                if now is None or now.end < state.known.end:
                    proven.numbers = [-1 if known == number else known for known in proven.numbers]
        elif isinstance(unit.task, tasks_task.IndexFileTask):
            least = _least_offset(proven.indexes.get(unit.task.index), result)
            proven.first_offset = min(proven.first_offset, least)


def _least_offset(state: since_state.IndexState | None, result: tasks_task.TaskResult | None) -> int:
    """The least offset that an entry of an index file may point to, if the entry was put since the state."""
    if not isinstance(result, IndexResult) or result.summary is None:
        return 0
    if state is not None and state.known is None:
        return NO_OFFSET  # with findings, and the same file as it was
    if result.known is None:
        return 0
    if result.least_new_offset >= 0:
        return result.least_new_offset
    return result.summary.first_offset if state is None else state.known.last_offset  # type: ignore[union-attr]


def _coverage(
    units: Sequence[PlannedTask], results: Mapping[str, tasks_task.TaskResult | None], kept: Collection[str]
) -> Coverage:
    """`units` with what their tasks began with; those of `kept` were not run."""
    done = [unit for unit in units if results[unit.key] is not None]
    total, done_total = (sum(unit.byte_count for unit in part) for part in (units, done))
    taken = sum(
        unit.byte_count if unit.key in kept else min(_taken_over(unit, results[unit.key]), unit.byte_count)
        for unit in done
    )
    return Coverage(len(units), len(done), total, done_total, taken_over_byte_count=taken)


def _taken_over(unit: PlannedTask, result: tasks_task.TaskResult | None) -> int:
    """Bytes that a task took over. One that could not tell from what is new alone went through all."""
    whole = (
        bool(result.findings)
        if isinstance(result, LogResult)
        else isinstance(result, IndexResult) and (result.known is None or result.least_new_offset < 0)
    )
    return 0 if whole else known_size(unit.task)


def _state_of(
    context: tasks_task.Context, identity: str, ran: Executed, proven: Proven, due: Due
) -> since_state.SinceState:
    """What a later check continues from: results that hold as long as the bytes are the same.

    A file that cannot be read any more is left out.
    """
    logs: list[since_state.LogState] = []
    queues: list[since_state.KnownQueue] = []
    indexes: list[since_state.IndexState] = []
    live = [n for n in range(len(context.store.commitlog.files)) if _has_records(ran.results[n])]
    last = live[-1] if live else 0
    for unit, result in zip(ran.units, ran.results, strict=True):
        task = unit.task
        if isinstance(task, tasks_task.QueuesTask):
            for number in range(task.start, task.end):
                known = result.known[number - task.start] if isinstance(result, QueuesResult) else None
                queues.append(_queue_state(context, number, known, proven.queues.get(number), due))
            continue
        with suppress(StoreError):
            if isinstance(task, tasks_task.LogFileTask) and isinstance(result, LogResult):
                sealed = task.index < last or result.facts[0].ends_with_blank
                if _is_kept(result):
                    logs.append(_log_state(context, task.index, result, sealed, proven, due))
                elif task.known is not None and not result.findings:  # new records lack units or entries
                    logs.append(_log_state(context, task.index, task.known, False, proven, due))
            elif isinstance(task, tasks_task.IndexFileTask) and isinstance(result, IndexResult):
                indexes.append(_index_state(context, task.index, result, proven.indexes.get(task.index)))
    return since_state.SinceState(
        since_state.KIND, 1, __version__, identity, context.now_timestamp, logs, queues, indexes
    )


def _log_state(
    context: tasks_task.Context,
    place: int,
    result: tasks_task.TaskResult,
    sealed: bool,
    proven: Proven,
    due: Due,
) -> since_state.LogState:
    file, before = context.store.commitlog.files[place], proven.logs.get(place)
    assert result.summary is not None
    end = file.size if sealed else result.summary.live_end
    again = before is None or file.relative in due.logs
    time = context.now_timestamp if before is None or again else before.read_timestamp
    proof = since_state.renewed(None if before is None else before.proof, file, 0, end, is_sealed=sealed)
    return since_state.LogState(proof, time, to_json(result))


def _index_state(
    context: tasks_task.Context, place: int, result: IndexResult, before: since_state.IndexState | None
) -> since_state.IndexState:
    """Of a file that is not full, only the entries are the proof: slots and header change with every put."""
    store, known = context.store, result.known
    file = store.indexes[place]
    went_on = before is not None and result.least_new_offset >= 0
    time = before.read_timestamp if before is not None and went_on else context.now_timestamp
    proof = None if before is None else before.proof
    if known is None or (result.facts[0].full and place + 1 < len(store.indexes)):
        whole = since_state.renewed(proof, file, 0, file.size, is_sealed=True)
        return since_state.IndexState(whole, time, known, result.summary)
    start, end = (entry_pos(entry, store.geometry.slot_count) for entry in (1, known.used + 1))
    return since_state.IndexState(
        since_state.renewed(proof, file, start, end, is_sealed=False), time, known, result.summary
    )


def _queue_state(
    context: tasks_task.Context,
    number: int,
    known: tasks_task.QueueKnown | None,
    before: since_state.KnownQueue | None,
    due: Due,
) -> since_state.KnownQueue:
    queue = context.store.queues[number]
    went_on = before is not None and before.known is not None and _name(before) not in due.queues
    time = before.read_timestamp if before is not None and went_on else context.now_timestamp
    try:
        proven_before = {} if before is None else {proof.file: proof for proof in before.proofs}
        proofs = tuple(_unit_proofs(queue, known, proven_before))
    except StoreError:
        known, proofs = None, ()
    return since_state.KnownQueue(queue.topic, queue.queue_id, queue.kind, time, known, proofs)


def _unit_proofs(
    queue: ConsumeQueue, known: tasks_task.QueueKnown | None, before: Mapping[str, since_state.FileProof]
) -> Iterator[since_state.FileProof]:
    """Proofs of the files of a queue as far as it is known, or of all of them as they are.

    `before` has those of the state, which hold, by file.
    """
    if known is None:
        for file in queue_files(queue):
            yield since_state.renewed(before.get(file.relative), file, 0, file.size, is_sealed=True)
        return
    for file in queue.files:
        end = min(known.end * queue.unit_size - (file.start_offset or 0), file.size)
        if end > 0:
            yield since_state.renewed(before.get(file.relative), file, 0, end, is_sealed=end == file.size)


def _has_records(result: tasks_task.TaskResult | None) -> bool:
    return isinstance(result, LogResult) and bool(result.facts) and result.facts[0].record_count > 0


def _is_kept(result: LogResult) -> bool:
    """Whether what was found of a commit log file holds while its bytes, its units and its entries do."""
    own = all(
        finding.rule in _OWN_RULES and not tasks_task.is_aggregate(finding) for finding in result.findings
    )
    return own and result.summary is not None and result.summary.live_end > 0 and is_settled(result.summary)


def _facts(
    context: tasks_task.Context,
    found: since_state.SinceState | str,
    kept: Iterable[PlannedTask],
    state: since_state.SinceState,
) -> SinceFacts:
    """What the report says; `kept` are the commit log files that were not read again."""
    parts: list[since_state.LogState | since_state.KnownQueue | since_state.IndexState] = [
        *state.logs,
        *state.queues,
        *state.indexes,
    ]
    times = [part.read_timestamp for part in parts]
    files = list(kept)
    return SinceFacts(
        previous_timestamp=found.written_timestamp if isinstance(found, since_state.SinceState) else None,
        oldest_read_timestamp=min(times, default=context.now_timestamp),
        kept_file_count=len(files),
        kept_byte_count=sum(unit.byte_count for unit in files),
        reason=found if isinstance(found, str) else "",
    )
