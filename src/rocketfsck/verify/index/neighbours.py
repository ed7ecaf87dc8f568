"""What only its neighbours tell of an index file: the timeDiff of its first entry, and its hashSlotCount.

    timeDiff of entry 1    0 in a file that nothing was indexed before; else counted from the end of the
                           full file in front, whatever that is                           IX023, IX031
    hashSlotCount          entries up to 4.7.0, used slots from 4.7.1 on. Brokers are upgraded once: files
                           that count entries, one at most that was begun so and continued by the other
                           kind, then files that count slots                              IX029, IX030

Both are proven only where nothing else is amiss: the files are whole, and every record in between is indexed.
Reference 4.2, 4.4, 4.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.indexfile import time_diff
from rocketfsck.store.elsewhere import has_log_elsewhere
from rocketfsck.verify.finding import Facts, Finding
from rocketfsck.verify.index.places import IndexExtent, entry_place, header_place
from rocketfsck.verify.tasks.facts import IndexFacts
from rocketfsck.verify.tasks.task import Context, TaskResult


class Count(Enum):
    """What a hashSlotCount counts, by the entries and slots of its file."""

    ENTRIES = "entries"
    BOTH = "first entries, then slots"
    SLOTS = "slots"
    EITHER = "entries or slots: no two entries share a slot"


def check_neighbours(
    context: Context, indexes: Sequence[TaskResult | None], logs: Sequence[TaskResult | None]
) -> Iterator[Finding]:
    """Findings from the results of all index and commit log tasks, both in store order."""
    yield from _first_times(context, indexes, logs)
    yield from _slot_counts(indexes)


def _first_times(
    context: Context, indexes: Sequence[TaskResult | None], logs: Sequence[TaskResult | None]
) -> Iterator[Finding]:
    for number, result in enumerate(indexes):
        if result is None or not result.summary.entry_count or result.summary.first_time < 0:
            continue
        facts, extent = _facts(result), result.summary
        found = extent.first_time
        if number == 0:
            if found and not _has_wrong_range(result) and _is_first_of_all(context, extent, logs):
                yield _wrong_time(context, facts, found, 0, "no earlier entry exists")
            continue
        before = indexes[number - 1]
        if before is None or not _facts(before).full:
            continue
        expected = time_diff(facts.begin_timestamp, _facts(before).end_timestamp)
        if found == expected:
            continue
        sound = not _has_wrong_range(before) and not _has_wrong_range(result)
        start, end = before.summary.last_offset, extent.first_offset
        if sound and _is_all_indexed(start, end, logs) and not _is_another_between(start, end, indexes):
            yield _wrong_time(
                context, facts, found, expected, "the difference counts from the end of the previous file"
            )
        elif found:
            where = entry_place(facts.file, context.store.geometry.slot_count, 1)
            yield Finding(RuleName.INDEX_FIRST_TIME, where, {"value": found}, {"value": expected})


def _wrong_time(context: Context, facts: IndexFacts, found: int, expected: int, reason: str) -> Finding:
    where = entry_place(facts.file, context.store.geometry.slot_count, 1)
    values: Facts = {"value": found, "reason": reason}
    return Finding(RuleName.INDEX_FIRST_TIME_WRONG, where, values, {"value": expected})


def _has_wrong_range(result: TaskResult) -> bool:
    return any(finding.rule == RuleName.INDEX_HEADER_RANGE for finding in result.findings)


def _is_first_of_all(context: Context, extent: IndexExtent, logs: Sequence[TaskResult | None]) -> bool:
    """Whether an index file begins with the first record that was ever put into an index."""
    if has_log_elsewhere(context.store) or not logs or logs[0] is None or logs[0].summary.start_offset:
        return False
    keyed = [log.summary.entries.first_keyed if log is not None else 0 for log in logs]
    return min((offset for offset in keyed if offset >= 0), default=-1) == extent.first_offset


def _is_all_indexed(start: int, end: int, logs: Sequence[TaskResult | None]) -> bool:
    """Whether every record of the log from one offset to another is there, and has its entries."""
    if not logs or logs[0] is None or not logs[0].summary.start_offset <= start <= end:
        return False
    for log in logs:
        if log is None:
            return False
        runs = log.summary.entries.unindexed
        if len(runs) and bool(np.any((runs[:, 0] < end) & (runs[:, 1] > start))):
            return False
    return True


def _is_another_between(start: int, end: int, indexes: Sequence[TaskResult | None]) -> bool:
    """Whether some index file may have entries of records from one offset to another."""
    return any(
        result is None or (result.summary.first_offset < end and result.summary.last_offset > start)
        for result in indexes
        if result is None or result.summary.entry_count
    )


def _facts(result: TaskResult) -> IndexFacts:
    facts = result.facts[0]
    assert isinstance(facts, IndexFacts)
    return facts


def _slot_counts(indexes: Sequence[TaskResult | None]) -> Iterator[Finding]:
    whole = [result for result in indexes if result is not None and result.summary.slot_count > 0]
    counts = [_kind(_facts(result).hash_slot_count, result.summary) for result in whole]
    change = _upgrade(counts)
    for number, (result, count) in enumerate(zip(whole, counts, strict=True)):
        if _fits(count, number, change) and count is not Count.BOTH:
            continue
        rule = RuleName.INDEX_SLOT_COUNT_KIND
        if _fits(count, number, change):
            rule = RuleName.INDEX_SLOT_COUNT_MIXED
        extent = result.summary
        found = {
            "hash_slot_count": _facts(result).hash_slot_count,
            "slot_count": extent.slot_count,
            "entry_count": extent.entry_count,
        }
        yield Finding(rule, header_place(_facts(result).file, "hashSlotCount"), found)


def _kind(value: int, extent: IndexExtent) -> Count:
    if extent.slot_count == extent.entry_count:
        return Count.EITHER
    return {extent.slot_count: Count.SLOTS, extent.entry_count: Count.ENTRIES}.get(value, Count.BOTH)


def _fits(count: Count, number: int, change: int) -> bool:
    """Whether a file counts as those of its place do if brokers were upgraded before file `change`."""
    if count is Count.BOTH:
        return number == change - 1
    return count is Count.EITHER or (count is Count.SLOTS) == (number >= change)


def _upgrade(counts: Sequence[Count]) -> int:
    """The first file of brokers that count slots: so that most files fit; the least number of several."""
    total = len(counts)
    wrong = sum(count in (Count.ENTRIES, Count.BOTH) for count in counts)
    best = (wrong, 0)
    for change in range(1, total + 1):
        last, before = counts[change - 1], counts[change - 2] if change > 1 else Count.EITHER
        wrong += (last is Count.SLOTS) - (last is Count.ENTRIES) - (last is Count.BOTH)
        wrong += before is Count.BOTH  # it is not the last one any more
        best = min(best, (wrong, change))
    return best[1]
