"""A second look before damage is declared: a disk, a cable or memory may give wrong bytes once.

    findings of a task -> places of files with wrong bytes -> their pages leave the page cache
      -> the same check again -> the same findings: damage
                              -> other findings: the two reads differ, which is a finding of its own

The second check is one check of the same files, however many places are wrong; of each file the first places
are read from the disk again, past the page cache (`POSIX_FADV_DONTNEED`), the rest may come from the cache.
What only one of the two found is never reported as damage, since nobody knows what the bytes are. A file that
a broker writes to meanwhile has a reason to differ: then the first check counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from rocketfsck.common.rulenames import RuleName
from rocketfsck.store.model import Store, StoreFile
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import forget_cached
from rocketfsck.verify.finding import Finding, Severity, Where
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.tasks.task import Context, TaskResult, is_aggregate

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
