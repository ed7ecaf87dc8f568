"""Runs the tasks of a check on an engine: a part if asked, until a deadline, continuing where one stopped.

A task that cannot read what it needs becomes an operational entry under "not checked"; the rest continues.

A second look before damage is declared: a disk, a cable or memory may give wrong bytes once.

    findings of a task -> places of files with wrong bytes -> their pages leave the page cache
      -> the same check again -> the same findings: damage
                              -> other findings: the two reads differ, which is a finding of its own

The second check is one check of the same files, however many places are wrong; of each file the first places
are read from the disk again, past the page cache (`POSIX_FADV_DONTNEED`), the rest may come from the cache.
What only one of the two found is never reported as damage, since nobody knows what the bytes are. A file that
a broker writes to meanwhile has a reason to differ: then the first check counts.

Cuts a check into tasks: a commitlog file, a group of consume queues, an index file.

Queues are grouped, so that 200,000 small ones are some hundred tasks: a group ends at 64 MiB on disk (most of
a queue's last file is a hole) or 1024 queues.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.engine import Engine
from rocketfsck.engine.passes import Passes
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.indexfile import ENTRY_SIZE
from rocketfsck.progress import part, phase
from rocketfsck.store.model import ConsumeQueue, Store, StoreFile
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import forget_cached
from rocketfsck.verify.finding import Finding, Severity, Where
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import Coverage, NotChecked
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.stopping import StopPoint, WantedFindings
from rocketfsck.verify.tasks import task as tasks_task
from rocketfsck.verify.tasks.resume import ResumeState, from_json, identity_of, stamp_of

Task = tasks_task.LogFileTask | tasks_task.QueuesTask | tasks_task.IndexFileTask

GROUP_SIZE = 64 << 20
GROUP_COUNT = 1024


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task with its name, the bytes it goes through and the stamp of everything that it reads."""

    key: str
    task: Task
    byte_count: int
    stamp: str
    files: tuple[str, ...]


def plan_units(context: tasks_task.Context) -> tuple[PlannedTask, ...]:
    """All tasks of a check in store order: commitlog files, groups of queues, index files.

    A commitlog file is compared with queues and index files, and they with it: the stamp covers both sides.
    """
    store = context.store
    groups = tuple(group_queues(store))
    count = len(store.commitlog.files) + len(groups) + len(store.indexes)
    context = replace(
        context, total_limit=max(tasks_task.TASK_MINIMUM, tasks_task.TOTAL_LIMIT // max(count, 1))
    )
    log_stamp = stamp_of(store.commitlog.files)
    queue_stamp = stamp_of(file for queue in store.queues for file in _queue_files(queue))
    other_stamp = stamp_of(store.indexes, queue_stamp)
    units = [
        _unit(f"commitlog:{file.relative}", tasks_task.LogFileTask(context, index), (file,), other_stamp)
        for index, file in enumerate(store.commitlog.files)
    ]
    for start, end in groups:
        files = tuple(file for queue in store.queues[start:end] for file in _queue_files(queue))
        first, last = store.queues[start], store.queues[end - 1]
        key = f"queues:{first.kind}:{first.topic}/{first.queue_id}:{last.kind}:{last.topic}/{last.queue_id}"
        units.append(_unit(key, tasks_task.QueuesTask(context, start, end), files, log_stamp))
    units += [
        _unit(f"index:{file.relative}", tasks_task.IndexFileTask(context, index), (file,), log_stamp)
        for index, file in enumerate(store.indexes)
    ]
    return tuple(units)


def group_queues(store: Store) -> Iterator[tuple[int, int]]:
    """Half-open ranges of `store.queues` that are one task each."""
    start = size = 0
    for index, queue in enumerate(store.queues):
        amount = sum(file.data_size for file in _queue_files(queue))
        if index > start and (size + amount > GROUP_SIZE or index - start >= GROUP_COUNT):
            yield start, index
            start, size = index, 0
        size += amount
    if start < len(store.queues):
        yield start, len(store.queues)


def _queue_files(queue: ConsumeQueue) -> tuple[StoreFile, ...]:
    return queue.files + (queue.ext.files if queue.ext is not None else ())


def _unit(key: str, task: Task, files: tuple[StoreFile, ...], other_stamp: str) -> PlannedTask:
    names = tuple(file.relative for file in files[:3])
    return PlannedTask(key, task, sum(file.size for file in files), stamp_of(files, other_stamp), names)


def unit_files(task: Task) -> tuple[StoreFile, ...]:
    """The files that a task goes through, without those that it compares them with."""
    store = task.context.store
    if isinstance(task, tasks_task.LogFileTask):
        return (store.commitlog.files[task.index],)
    if isinstance(task, tasks_task.IndexFileTask):
        return (store.indexes[task.index],)
    return tuple(file for queue in store.queues[task.start : task.end] for file in _queue_files(queue))


def known_size(task: Task) -> int:
    """How many bytes of its files a task need not read again, as an earlier check knows what is in them."""
    if isinstance(task, tasks_task.LogFileTask):
        return 0 if task.known is None else task.known.summary.live_end
    if isinstance(task, tasks_task.IndexFileTask):
        return 0 if task.known is None else task.known.used * ENTRY_SIZE
    queues = task.context.store.queues[task.start : task.end]
    return sum(
        (known.end - known.start) * queue.unit_size
        for queue, known in zip(queues, task.known, strict=False)
        if known is not None
    )


# The times of a check's tasks, by the files that they go through.

_NAMES = {
    tasks_task.LogFileTask: "commit log files",
    tasks_task.QueuesTask: "consume queues",
    tasks_task.IndexFileTask: "index files",
}


class TaskTimes:
    """Adds up what the tasks take; `finish` makes a pass of each kind of task."""

    def __init__(self, units: Sequence[PlannedTask], passes: Passes | None) -> None:
        self._units = units
        self._passes = passes
        self._seconds: dict[int, float] = {}

    def add(self, index: int, seconds: float) -> None:
        """The task of `units[index]` took this long."""
        self._seconds[index] = seconds

    def finish(self) -> None:
        """A pass for each kind of task that was run, each followed by its tasks where these are wanted."""
        if self._passes is None:
            return
        for kind, name in _NAMES.items():
            ran = [index for index in sorted(self._seconds) if isinstance(self._units[index].task, kind)]
            if not ran:
                continue
            size = sum(self._units[index].byte_count for index in ran)
            total = sum(self._seconds[index] for index in ran)
            self._passes.add(name, total, size, task_count=len(ran))
            for index in ran if self._passes.each_task else ():
                unit = self._units[index]
                self._passes.add(unit.key, self._seconds[index], unit.byte_count, detail=True)


Result = TypeVar("Result", bound=tasks_task.TaskResult)

PLACE_LIMIT = 64
"""Places of one file that are read from the disk again."""
DOUBTED_FAMILIES = frozenset({"CL", "CQ", "IX", "XR"})
"""The rules about the bytes of one place in a file of the log, a queue or an index."""
_Key = tuple[object, ...]


def settle(context: tasks_task.Context, first: Result, again: Callable[[], Result]) -> Result:
    """The result of a task, checked `again` where bytes are wrong. Raises StoreError as `again` does."""
    if context.store.live.locked:
        return first
    places = _places(first.findings)
    if not places:
        return first
    files = {file.relative: file for file in _files(context.store) if file.relative in places}
    if not files or _changed(files.values()):
        return first
    for name, file in files.items():
        if not is_remote(file.location):
            forget_cached(file.location, places[name])
    second = again()
    if _changed(files.values()):
        return first
    once, twice = (Counter(map(_key, result.findings)) for result in (first, second))
    return second if once == twice else _differing(context, first, second, (once - twice) + (twice - once))


def _places(findings: Iterable[Finding]) -> dict[str, list[tuple[int, int]]]:
    """The places with wrong bytes by file, the first few of each."""
    found: dict[str, list[tuple[int, int]]] = {}
    for finding in findings:
        rule, where = RULES[finding.rule], finding.where
        if rule.severity <= Severity.INFO or rule.family not in DOUBTED_FAMILIES:
            continue
        if where.start is None or not where.file:
            continue
        places = found.setdefault(where.file, [])
        if len(places) < PLACE_LIMIT:
            places.append((where.start, where.start + 1 if where.end is None else where.end))
    return found


def _files(store: Store) -> Iterator[StoreFile]:
    yield from store.commitlog.files
    for queue in store.queues:
        yield from queue.files
    for ext in store.ext_queues:
        yield from ext.files
    yield from store.indexes


def _changed(files: Iterable[StoreFile]) -> bool:
    """Whether somebody has written to one of the files since the store was opened."""
    for file in files:
        if is_remote(file.location):
            continue
        try:
            status = file.path.stat()
        except OSError:
            return True
        if (status.st_size, status.st_mtime_ns) != (file.size, file.mtime_ns):
            return True
    return False


def _differing(
    context: tasks_task.Context, first: tasks_task.TaskResult, second: Result, differing: Mapping[_Key, int]
) -> Result:
    """The second result with the findings of both, and a finding for each place of which they differ."""
    collector = context.collector()
    rules: dict[tuple[str, int, int], set[str]] = {}
    wheres: dict[tuple[str, int, int], Where] = {}
    for finding in chain(first.findings, second.findings):
        if _key(finding) not in differing:
            continue
        where = finding.where
        start, end = (-1 if pos is None else pos for pos in (where.start, where.end))
        place = (where.file, start, end)
        rules.setdefault(place, set()).add(finding.rule)
        wheres.setdefault(place, where)
    collector.extend(finding for finding in second.findings if _key(finding) not in differing)
    for place, names in sorted(rules.items()):
        collector.find(RuleName.READS_DIFFER, wheres[place], {"rules": " ".join(sorted(names))})
    return replace(second, findings=collector.findings, counts=collector.counts)


def _key(finding: Finding) -> _Key:
    """What is the same in equal findings; of a count of further ones only what it counts."""
    facts = () if tasks_task.is_aggregate(finding) else tuple(sorted(finding.found.items()))
    return (finding.rule, finding.where, facts, tuple(sorted(finding.expected.items())), finding.count)


_PARTS = {
    tasks_task.LogFileTask.__name__: "checking the commit log",
    tasks_task.QueuesTask.__name__: "checking the consume queues",
    tasks_task.IndexFileTask.__name__: "checking the index",
}


@dataclass(frozen=True, slots=True)
class Executed:
    """The units of a check with a result for each, None where there is none, and why.

    `stopped`: the last of the findings wanted is in the last result, and what comes later was not run.
    """

    units: tuple[PlannedTask, ...]
    results: tuple[tasks_task.TaskResult | None, ...]
    not_checked: tuple[NotChecked, ...]
    coverage: Coverage
    stopped: bool = False


def run_unit(unit: PlannedTask) -> tasks_task.TaskResult | StoreError:
    """The kernel: one task, whatever its kind. What keeps it from reading is returned, not raised."""
    try:
        check = _check_of(unit.task)[0]
        with part(unit.byte_count, _PARTS[type(unit.task).__name__]):
            return settle(unit.task.context, check(unit.task), lambda: check(unit.task))
    except StoreError as error:
        return error


def _check_of(task: Task) -> tuple[Callable[[Any], tasks_task.TaskResult], type[tasks_task.TaskResult]]:
    """What checks a task, and what its result is."""
    if isinstance(task, tasks_task.LogFileTask):
        from rocketfsck.verify.log.file import check_log_file
        from rocketfsck.verify.log.result import LogResult

        return check_log_file, LogResult
    if isinstance(task, tasks_task.IndexFileTask):
        from rocketfsck.verify.index.file import IndexResult, check_index_file

        return check_index_file, IndexResult
    from rocketfsck.verify.queues.file import QueuesResult, check_queues

    return check_queues, QueuesResult


def execute(
    context: tasks_task.Context,
    options: CheckOptions,
    units: Sequence[PlannedTask],
    engine: Engine,
    *,
    wanted: WantedFindings | None = None,
    passes: Passes | None = None,
) -> Executed:
    """Run the units that the options ask for, until as many findings are there as are `wanted`.

    `passes` takes the times of the tasks. Raises UsageError or StoreError for the resume file only.
    """
    wanted = wanted or WantedFindings(frozenset())
    state = _resume_state(context, options)
    sizes = [unit.byte_count for unit in units]
    chosen = list(range(len(units)))
    if options.subset is not None:
        chosen = options.subset.choose([unit.key for unit in units], sizes)
    results: list[tasks_task.TaskResult | None] = [None] * len(units)
    reasons = dict.fromkeys(range(len(units)), f"not in the subset {options.subset}")
    failed: set[int] = set()
    total, done = sum(sizes[index] for index in chosen), 0
    waiting: list[int] = []
    for index, unit in enumerate(units):  # what earlier parts found counts, too: the last makes it whole
        if (kept := state.result(unit.key, unit.stamp)) is not None:
            results[index] = from_json(_check_of(unit.task)[1], kept)
    for index in chosen:
        if results[index] is None:
            waiting.append(index)
        else:
            done += sizes[index]
    times, point = TaskTimes(units, passes), StopPoint(wanted)
    passed = [index not in waiting for index in range(len(units))]
    stop = point.reached(results, passed)
    if stop is not None:
        waiting.clear()
    deadline = None if options.max_duration is None else time.monotonic() + options.max_duration
    try:
        with phase("checking the files", total, done=done) as at:
            for outcome in engine.run(run_unit, [units[index] for index in waiting], deadline=deadline):
                index = waiting[outcome.index]
                passed[index] = True
                if outcome.result is None:
                    reasons[index] = "the time limit ended the check first"
                    continue
                done += sizes[index]
                if isinstance(outcome.result, StoreError):
                    reasons[index] = str(outcome.result)
                    failed.add(index)
                else:
                    results[index] = outcome.result
                    state.add(units[index].key, units[index].stamp, outcome.result)
                    times.add(index, outcome.seconds)
                at.at(done)
                stop = point.reached(results, passed)
                if stop is not None:
                    break
    finally:
        state.save()
    times.finish()
    if stop is not None and wanted.stop_after is not None:
        for index in range(
            stop + 1, len(units)
        ):  # some may have ended first; the report must not depend on that
            results[index] = None
            failed.discard(index)
            if index in chosen:
                reasons[index] = after_stop(wanted.stop_after)
    left_out = tuple(
        NotChecked(_what(units[index]), reasons[index], index in failed)
        for index, result in enumerate(results)
        if result is None
    )
    finished = [index for index, result in enumerate(results) if result is not None]
    coverage = Coverage(len(units), len(finished), sum(sizes), sum(sizes[index] for index in finished))
    return Executed(tuple(units), tuple(results), left_out, coverage, stop is not None)


def after_stop(count: int) -> str:
    """Why something was left out, by a check that stops after `count` findings."""
    return f"the check stopped after {count_of(count, 'finding')}"


def _resume_state(context: tasks_task.Context, options: CheckOptions) -> ResumeState:
    root = context.store.root.resolve()
    if options.resume is not None and options.resume.resolve().is_relative_to(root):
        raise UsageError(f"{options.resume}: is inside the store, where a check must not write")
    return ResumeState(options.resume, identity_of(context.store, context.level, context.detail_limit))


def _what(unit: PlannedTask) -> str:
    if len(unit.files) == 1:
        return unit.files[0]
    return f"{len(unit.files):,} files from {unit.files[0]} on" if unit.files else unit.key
