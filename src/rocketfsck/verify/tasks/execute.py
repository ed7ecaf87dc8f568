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
from rocketfsck.progress import part, phase
from rocketfsck.store.model import Store, StoreFile
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import forget_cached
from rocketfsck.verify.finding import Finding, Severity, Where
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import Coverage, NotChecked
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.stopping import StopPoint, WantedFindings
from rocketfsck.verify.tasks.planning import PlannedTask, Task, TaskTimes
from rocketfsck.verify.tasks.resume import ResumeState, from_json, identity_of
from rocketfsck.verify.tasks.task import (
    Context,
    IndexFileTask,
    LogFileTask,
    QueuesTask,
    TaskResult,
    is_aggregate,
)

Result = TypeVar("Result", bound=TaskResult)

PLACE_LIMIT = 64
"""Places of one file that are read from the disk again."""
DOUBTED_FAMILIES = frozenset({"CL", "CQ", "IX", "XR"})
"""The rules about the bytes of one place in a file of the log, a queue or an index."""
_Key = tuple[object, ...]


def settle(context: Context, first: Result, again: Callable[[], Result]) -> Result:
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


def _differing(context: Context, first: TaskResult, second: Result, differing: Mapping[_Key, int]) -> Result:
    """The second result with the findings of both, and a finding for each place of which they differ."""
    collector = context.collector()
    rules: dict[tuple[str, int, int], set[str]] = {}
    wheres: dict[tuple[str, int, int], Where] = {}
    for finding in chain(first.findings, second.findings):
        if _key(finding) not in differing:
            continue
        where = finding.where
        place = (
            where.file,
            -1 if where.start is None else where.start,
            -1 if where.end is None else where.end,
        )
        rules.setdefault(place, set()).add(finding.rule)
        wheres.setdefault(place, where)
    collector.extend(finding for finding in second.findings if _key(finding) not in differing)
    for place, names in sorted(rules.items()):
        found = {"rules": " ".join(sorted(names))}
        collector.find(RuleName.READS_DIFFER, wheres[place], found)
    return replace(second, findings=collector.findings, counts=collector.counts)


def _key(finding: Finding) -> _Key:
    """What is the same in equal findings; of a count of further ones only what it counts."""
    facts = () if is_aggregate(finding) else tuple(sorted(finding.found.items()))
    return (finding.rule, finding.where, facts, tuple(sorted(finding.expected.items())), finding.count)


_PARTS = {
    LogFileTask.__name__: "checking the commit log",
    QueuesTask.__name__: "checking the consume queues",
    IndexFileTask.__name__: "checking the index",
}


@dataclass(frozen=True, slots=True)
class Executed:
    """The units of a check with a result for each, None where there is none, and why.

    `stopped`: the last of the findings wanted is in the last result, and what comes later was not run.
    """

    units: tuple[PlannedTask, ...]
    results: tuple[TaskResult | None, ...]
    not_checked: tuple[NotChecked, ...]
    coverage: Coverage
    stopped: bool = False


def run_unit(unit: PlannedTask) -> TaskResult | StoreError:
    """The kernel: one task, whatever its kind. What keeps it from reading is returned, not raised."""
    try:
        check = _check_of(unit.task)[0]
        with part(unit.byte_count, _PARTS[type(unit.task).__name__]):
            return settle(unit.task.context, check(unit.task), lambda: check(unit.task))
    except StoreError as error:
        return error


def _check_of(task: Task) -> tuple[Callable[[Any], TaskResult], type[TaskResult]]:
    """What checks a task, and what its result is."""
    if isinstance(task, LogFileTask):
        from rocketfsck.verify.log.file import check_log_file
        from rocketfsck.verify.log.result import LogResult

        return check_log_file, LogResult
    if isinstance(task, IndexFileTask):
        from rocketfsck.verify.index.file import IndexResult, check_index_file

        return check_index_file, IndexResult
    from rocketfsck.verify.queues.file import QueuesResult, check_queues

    return check_queues, QueuesResult


def execute(
    context: Context,
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
    results: list[TaskResult | None] = [None] * len(units)
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


def _resume_state(context: Context, options: CheckOptions) -> ResumeState:
    root = context.store.root.resolve()
    if options.resume is not None and options.resume.resolve().is_relative_to(root):
        raise UsageError(f"{options.resume}: is inside the store, where a check must not write")
    return ResumeState(options.resume, identity_of(context.store, context.level, context.detail_limit))


def _what(unit: PlannedTask) -> str:
    if len(unit.files) == 1:
        return unit.files[0]
    return f"{len(unit.files):,} files from {unit.files[0]} on" if unit.files else unit.key
