"""The result of the check of a commit log file, and one that continues what an earlier check found of it.

    known: records, then zeros          new: the walk that begins after the last of those records

Only what is plainly sound is continued: nothing found in either part, every known record with its unit and
its index entries, queue offsets and times that follow each other over the seam. New records may lack units
and entries: a running broker has not put them yet. Of anything else there is no result, and the file is
checked as a whole. Reference 2.8, 2.13.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rocketfsck.formats.dtypes import Longs
from rocketfsck.scan.log.live import UNKNOWN
from rocketfsck.verify.index.entryjoin import COUNT, LAST, MET, WIDTH, EntryRanges
from rocketfsck.verify.log.regions import BadRanges
from rocketfsck.verify.queues.unitranges import UnitRanges, joined
from rocketfsck.verify.tasks.task import LogFacts, RegionTotal, TaskResult


@dataclass(frozen=True, slots=True)
class QueueSpan:
    """The records of each queue in one file: by row of `units`.

    `first` is the first record's queueOffset (-1 for a queue without any) and `physical` where it is,
    `following` the queueOffset after the last one's.
    """

    first: Longs
    following: Longs
    physical: Longs


@dataclass(frozen=True, slots=True)
class LogSummary:
    """What the merging checks need of one commit log file; positions are in the file.

    `fence_offset` is the physical offset of the first filler record that a repair put into it, None without.
    `skipped` counts, by light queue, the records that took a number of it and have no unit.
    """

    start_offset: int
    size: int
    live_end: int
    bad: BadRanges
    queues: QueueSpan
    units: UnitRanges
    entries: EntryRanges
    fence_offset: int | None = None
    skipped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogResult(TaskResult):
    """What the check of one commit log file found; at the level `quick` there is no summary."""

    facts: tuple[LogFacts, ...] = ()
    summary: LogSummary | None = None


RECORDS, ZERO, BLANK, FILLER = "records", "zero", "blank", "filler"


def is_settled(summary: LogSummary) -> bool:
    """Whether each record of a file has met its units and entries, and nothing else points to the file.

    Then units and entries that come later do not change what was found (`LogSummary`).
    """
    return not (len(summary.units.missed) or len(summary.entries.unindexed)) and _is_regular(summary)


def _is_regular(summary: LogSummary) -> bool:
    """Whether units and entries are at their places, as far as they are there."""
    units, entries = summary.units, summary.entries
    strange = entries.strange
    return not (
        len(units.shifted)
        or units.not_kept_count
        or len(entries.loose)
        or entries.not_kept_count
        or len(strange.rows)
        or strange.further_count
        or strange.unseen_count
        or strange.odd_count
        or summary.skipped
        or summary.fence_offset is not None
    )


def extended(known: TaskResult, new: LogResult) -> LogResult | None:
    """The result of the whole file; None where the parts do not tell it.

    `new` is that of a walk from `known.summary.live_end` on.
    """
    before, after = known.facts[0], new.facts[0]
    old, own = known.summary, new.summary
    assert isinstance(before, LogFacts)
    assert own is not None
    if known.findings or new.findings or before.damaged or after.damaged or before.ends_with_blank:
        return None
    if not before.record_count or not (is_settled(old) and _is_regular(own)):
        return None
    regions = _regions(before.regions, after.regions)
    spans = _spans(old, own)
    if regions is None or spans is None or not _in_time(before, after):
        return None
    queues, units = spans
    summary = replace(
        own,
        live_end=max(old.live_end, own.live_end),
        queues=queues,
        units=units,
        entries=_entries(old.entries, own.entries),
    )
    checked = replace(new.checked, record_count=known.checked.record_count + new.checked.record_count)
    rules = {**known.asked, **new.asked}
    asked = {rule: known.asked.get(rule, 0) + new.asked.get(rule, 0) for rule in rules}
    return replace(
        new, checked=checked, asked=asked, facts=(_facts(before, after, regions),), summary=summary
    )


def _in_time(before: LogFacts, after: LogFacts) -> bool:
    """Whether no record behind the seam is older than one in front of it."""
    newest, oldest = before.max_store_timestamp, after.min_store_timestamp
    return newest is not None and (oldest is None or oldest >= newest)


def _regions(before: Iterable[RegionTotal], after: Iterable[RegionTotal]) -> tuple[RegionTotal, ...] | None:
    """One run of records, and what follows it; None where there is more."""
    old, own = {total.kind: total for total in before}, {total.kind: total for total in after}
    if old.keys() - {RECORDS, ZERO} or own.keys() - {RECORDS, ZERO, BLANK, FILLER}:
        return None
    records, further = old[RECORDS], own.get(RECORDS, RegionTotal(RECORDS, 0, 0, 0))
    if records.region_count != 1 or further.region_count > 1:
        return None
    if ZERO in old and old[ZERO].region_count != 1:
        return None
    own[RECORDS] = RegionTotal(
        RECORDS, 1, records.byte_count + further.byte_count, records.record_count + further.record_count
    )
    return tuple(own[kind] for kind in sorted(own))


def _facts(before: LogFacts, after: LogFacts, regions: tuple[RegionTotal, ...]) -> LogFacts:
    if not after.record_count:
        return replace(before, ends_with_blank=after.ends_with_blank, regions=regions)
    return replace(
        after,
        record_count=before.record_count + after.record_count,
        first_store_timestamp=before.first_store_timestamp,
        min_store_timestamp=before.min_store_timestamp,
        all_zero=False,
        regions=regions,
    )


def _spans(old: Any, own: Any) -> tuple[Any, UnitRanges] | None:
    """What both parts say of queues: a row for each of them. None where queue offsets do not follow."""
    rows: dict[Any, int] = {}
    first, second = (_rows(part.units, rows) for part in (old, own))
    columns = [np.full(len(rows), UNKNOWN, np.int64) for _ in range(3)]
    span = old.queues
    for column, source in zip(columns, (span.first, span.following, span.physical), strict=True):
        column[first] = source
    begins, following, physical = columns
    span = own.queues
    has = span.first != UNKNOWN
    expected = following[second[has]]
    if ((expected != UNKNOWN) & (expected != span.first[has])).any():
        return None
    fresh = second[has][expected == UNKNOWN]
    begins[fresh] = span.first[has][expected == UNKNOWN]
    physical[fresh] = span.physical[has][expected == UNKNOWN]
    following[second[has]] = span.following[has]
    units = UnitRanges(
        np.array([key if isinstance(key, int) else -1 for key in rows], np.int32),
        tuple(key for key in rows if not isinstance(key, int)),
        joined(np.concatenate([_moved(old.units.matched, first), _moved(own.units.matched, second)])),
        _moved(own.units.missed, second),
        _delays(old.units.delays, own.units.delays),
        own.units.shifted,
    )
    return replace(span, first=begins, following=following, physical=physical), units


def _rows(units: UnitRanges, rows: dict[Any, int]) -> Longs:
    """The row in `rows` of each row of `units`; a queue is its number, or its name."""
    names = iter(units.unknown_names)
    keys = [number if number >= 0 else next(names) for number in units.numbers.tolist()]
    return np.array([rows.setdefault(key, len(rows)) for key in keys], np.int64)


def _moved(ranges: Longs, rows: Longs) -> Longs:
    moved = ranges.copy()
    moved[:, 0] = rows[ranges[:, 0]]
    return moved


def _delays(old: Longs, own: Longs) -> Longs:
    """Units by level and delay: how many, and the first of them."""
    found: dict[tuple[int, int], list[int]] = {}
    for level, delay, count, *first in [*old.tolist(), *own.tolist()]:
        kept = found.setdefault((level, delay), [0, *first])
        kept[0] += count
    return np.array([(*key, *values) for key, values in sorted(found.items())], np.int64).reshape(-1, 6)


def _entries(old: Any, own: Any) -> Any:
    tags = old.tags.tolist()
    for row in own.tags.tolist():
        if tags and tags[-1][MET] == row[MET]:
            tags[-1][LAST], tags[-1][COUNT] = row[LAST], tags[-1][COUNT] + row[COUNT]
        else:
            tags.append(row)
    return replace(
        own,
        first_keyed=old.first_keyed if old.first_keyed >= 0 else own.first_keyed,
        last_keyed=max(old.last_keyed, own.last_keyed),
        keyed_count=old.keyed_count + own.keyed_count,
        tags=np.array(tags, np.int64).reshape(-1, WIDTH),
    )
