"""The result of the check of a commit log file, and one that continues what an earlier check found of it.

    known: records, then zeros          new: the walk that begins after the last of those records

Only what is plainly sound is continued: nothing found in either part, every known record with its unit and
its index entries, queue offsets and times that follow each other over the seam. New records may lack units
and entries: a running broker has not put them yet. Of anything else there is no result, and the file is
checked as a whole. Reference 2.8, 2.13.

What only several commit log files tell: BLANKs that are missing, queue offsets and times across files.

Reference 2.8, 2.13, 6.2, 9.2 M7, M11, M13.

What every byte of the commit log is, over all files, for offsets that queues and indexes hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dtypes import Longs
from rocketfsck.scan.log.live import UNKNOWN
from rocketfsck.scan.spans import distinct, find_span
from rocketfsck.store.elsewhere import has_log_elsewhere, has_queue_database
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Finding, Findings, Where
from rocketfsck.verify.index.entryjoin import COUNT, LAST, MET, WIDTH, EntryRanges
from rocketfsck.verify.log.regions import DAMAGED, STALE, BadRanges
from rocketfsck.verify.queues.unitranges import KnownQueues, UnitRanges, joined
from rocketfsck.verify.store.misnamed import Misnamed
from rocketfsck.verify.tasks.task import Context, LogFacts, RegionTotal, Results, TaskResult, capped


class Ground(IntEnum):
    """What is at a physical offset."""

    LIVE = 0  # between live records, or at one
    EXPIRED = 1  # below the first file
    MISSING = 2  # between two files: a segment that is not there
    BEYOND = 3  # beyond the log's end
    DAMAGE = 4
    UNKNOWN = 5  # a file that was not checked, or is not read by this version
    FENCE = 6  # filler in place of a lost record; said of single units, once their place was read
    MISNAMED = 7  # in a file that has a wrong name


class LogMap:
    """Looks up physical offsets. `log_end` is where the live log ends, None if that is not known."""

    def __init__(self, store: Store, logs: Results, misnamed: Sequence[Misnamed] = ()) -> None:
        self._misnamed_starts: Longs = np.array([file.start for file in misnamed], np.int64)
        self._misnamed_ends: Longs = np.array([file.end for file in misnamed], np.int64)
        files = [
            (file.start_offset, file.size, log)
            for file, log in zip(store.commitlog.files, logs, strict=True)
            if file.start_offset is not None
        ]
        files.sort(key=lambda item: item[0])
        self._starts: Longs = np.array([start for start, _, _ in files], np.int64)
        self._ends: Longs = self._starts + np.array([size for _, size, _ in files], np.int64)
        self._logs = [log for _, _, log in files]
        self.log_end: int | None = None
        last = len(files) - 1
        while last >= 0 and self._logs[last] is not None and not self._is_live(last):
            last -= 1
        if last >= 0 and self._logs[last] is not None:
            self.log_end = int(self._starts[last]) + int(self._logs[last].summary.live_end)  # type: ignore[union-attr]
        elif last < 0 and files:
            self.log_end = int(self._starts[0])
        self._last = last
        self._continues = has_log_elsewhere(store)

    @property
    def is_misnamed_in_front(self) -> bool:
        """Whether a file with a wrong name belongs in front of the first file: what it has did not expire."""
        return len(self._starts) > 0 and bool((self._misnamed_starts < self._starts[0]).any())

    def _is_live(self, number: int) -> bool:
        log = self._logs[number]
        return log is not None and bool(log.summary.live_end)

    def lost_size_before(self, offset: int) -> int:
        """How many bytes before a physical offset, from the first file on, belong to no record that is there:
        missing files, damage, and files that were never written to."""
        size = 0
        before = self._starts[0] if len(self._starts) else 0
        for start, end, log in zip(self._starts.tolist(), self._ends.tolist(), self._logs, strict=True):
            if start >= offset:
                break
            size += max(start - before, 0)
            before = max(before, end)
            if log is not None:
                bad, live_end = log.summary.bad, log.summary.live_end
                low, high = bad.start[bad.code == DAMAGED], bad.end[bad.code == DAMAGED]
                high = np.minimum(high, min(offset - start, live_end))
                size += int(np.maximum(high - low, 0).sum())
                size += max(min(end, offset) - start - live_end, 0)
        return size + max(offset - before, 0)

    def grounds(self, offsets: Longs) -> Longs:
        """The `Ground` of every offset."""
        found = np.full(len(offsets), Ground.LIVE, np.int64)
        if not len(self._starts):
            found[:] = Ground.UNKNOWN
            return found
        file = find_span(offsets, self._starts, self._ends)
        found[(file < 0) & (offsets < self._starts[0])] = Ground.EXPIRED
        found[(file < 0) & (offsets >= self._starts[0])] = Ground.MISSING
        if self.log_end is not None:
            found[offsets >= self.log_end] = Ground.BEYOND
        else:
            found[(file < 0) & (offsets >= self._ends[-1])] = Ground.BEYOND
        if self._continues:
            found[(file < 0) & (offsets >= self._ends[-1])] = Ground.UNKNOWN
        for number in distinct(file[file >= 0]).tolist():
            rows = np.flatnonzero((file == number) & (found != Ground.BEYOND))
            log = self._logs[number]
            if log is None:
                found[rows] = Ground.UNKNOWN
                continue
            summary = log.summary
            pos = offsets[rows] - self._starts[number]
            found[rows[pos >= summary.live_end]] = Ground.DAMAGE
            span = find_span(pos, summary.bad.start, summary.bad.end)
            held = span >= 0
            code = summary.bad.code[span[held]]
            found[rows[held][code == DAMAGED]] = Ground.DAMAGE
            found[rows[held][code == STALE]] = Ground.BEYOND
        # Torn and damaged bytes after the last live record are damage, zeros there are not.
        beyond = np.flatnonzero((found == Ground.BEYOND) & (file >= 0))
        for number in distinct(file[beyond]).tolist():
            log = self._logs[number]
            if log is not None:
                rows = beyond[file[beyond] == number]
                bad = log.summary.bad
                span = find_span(offsets[rows] - self._starts[number], bad.start, bad.end)
                held = span >= 0
                found[rows[held][bad.code[span[held]] == DAMAGED]] = Ground.DAMAGE
        found[find_span(offsets, self._misnamed_starts, self._misnamed_ends) >= 0] = Ground.MISNAMED
        return found


def merge_log_files(context: Context, logs: Results) -> Findings:
    """Findings that need more than one commit log file; `logs` in store order, None for files not checked."""
    if context.level != "quick":
        yield from capped(_merge(context, logs), context.detail_limit)


def _merge(context: Context, logs: Results) -> Findings:
    queues = {(queue.topic, queue.queue_id) for queue in context.store.queues}
    known = None if has_queue_database(context.store) else queues
    following = _Following(context)
    before: TaskResult | None = None
    fence: int | None = None
    for number, log in enumerate(logs):
        if log is None:
            following, before = _Following(context), None
            continue
        facts = _file_facts(log)
        later = next((item for item in logs[number + 1 :] if item is not None and _live(item)), None)
        if later is not None and not facts.ends_with_blank:
            yield _blank_missing(log, _file_facts(later).file)
        if not _live(log) or not _has_queues(log):  # filler in place of a file does not continue the log
            continue
        end = None if before is None else before.summary.start_offset + before.summary.size
        adjacent = end == facts.start_offset
        if fence is None:
            fence = log.summary.fence_offset
        yield from _queue_offsets(context, log, following, adjacent, known, fence)
        if before is not None:
            yield from _times(_file_facts(before), facts, log)
        before = log


def _file_facts(log: TaskResult) -> LogFacts:
    facts = log.facts[0]
    assert isinstance(facts, LogFacts)
    return facts


def _live(log: TaskResult) -> bool:
    return _file_facts(log).record_count > 0


def _has_queues(log: TaskResult) -> bool:
    return bool((log.summary.queues.first >= 0).any())


def _blank_missing(log: TaskResult, next_file: str) -> Finding:
    summary, facts = log.summary, _file_facts(log)
    end = summary.live_end
    where = Where(facts.file, end, summary.size, summary.start_offset + end)
    return Finding(RuleName.BLANK_MISSING, where, {"next_file": next_file})


class _Following:
    """The queueOffset that follows the last record of every queue, over the log files in order.

    Only queues that have no files of their own in the store take a step each.
    """

    def __init__(self, context: Context) -> None:
        self._rows: Longs = context.shared.made(KnownQueues, context.store).rows
        self._others: dict[tuple[str, int], int] = {}
        self._expected: Longs = np.full(len(self._rows), UNKNOWN, np.int64)

    def take(self, context: Context, units: UnitRanges, rows: Longs, following: Longs) -> Longs:
        """What the queues of these rows should begin with, UNKNOWN for new ones; go on with `following`."""
        numbers = units.numbers[rows].astype(np.int64)
        numbers[numbers >= 0] = self._rows[numbers[numbers >= 0]]
        other = numbers < 0
        numbers[other] = [
            self._others.setdefault(name, len(self._rows) + len(self._others))
            for name in units.names(context.store, rows[other].tolist())
        ]
        missing_count = len(self._rows) + len(self._others) - len(self._expected)
        if missing_count:
            self._expected = np.append(self._expected, np.full(missing_count, UNKNOWN, np.int64))
        expected = self._expected[numbers]
        self._expected[numbers] = following
        return expected


def _queue_offsets(
    context: Context,
    log: TaskResult,
    following: _Following,
    adjacent: bool,
    known: set[tuple[str, int]] | None,
    fence: int | None,
) -> Findings:
    """Compare each queue's first record with the last one in the files before.

    Where a commit log file is missing in between, or filler from `fence` on stands for lost records, the
    units of the queue say what is lost (XR011, XR015), as do rows of a database (`known` is None then); only
    a queue without units is reported here.
    """
    span, units = log.summary.queues, log.summary.units
    facts = _file_facts(log)
    rows = np.flatnonzero(span.first >= 0)
    wanted = following.take(context, units, rows, span.following[rows])
    wrong = np.flatnonzero((wanted != UNKNOWN) & (span.first[rows] != wanted))
    wrong = wrong[np.argsort(span.physical[rows[wrong]], kind="stable")]
    names = units.names(context.store, rows[wrong].tolist())
    for row, expected, name in zip(rows[wrong].tolist(), wanted[wrong].tolist(), names, strict=True):
        first = int(span.first[row])
        rule = RuleName.QUEUE_OFFSET_REPEATED if first < expected else RuleName.QUEUE_OFFSET_GAP
        rule = RuleName.QUEUE_BEGINS_AGAIN if first == 0 < expected else rule
        physical = int(span.physical[row])
        explained = not adjacent or (fence is not None and fence < physical)
        if rule == RuleName.QUEUE_OFFSET_GAP and explained and (known is None or name in known):
            continue
        where = Where(facts.file, physical - facts.start_offset, None, physical, name[0], name[1], first)
        yield Finding(rule, where, {"queue_offset": first}, {"queue_offset": expected})


def _times(before: LogFacts, facts: LogFacts, log: TaskResult) -> Findings:
    if before.last_store_timestamp is None or facts.first_store_timestamp is None:
        return
    step = before.last_store_timestamp - facts.first_store_timestamp
    if step > 0:
        where = Where(facts.file, 0, physical_offset=log.summary.start_offset)
        yield Finding(RuleName.STORE_TIMESTAMP_BACK, where, {"largest_step_ms": step, "step_count": 1})


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
    odd_rows = len(units.shifted) + len(entries.loose) + len(strange.rows)
    odd_counts = strange.further_count + strange.unseen_count + strange.odd_count
    not_kept = units.not_kept_count + entries.not_kept_count
    return not (odd_rows or odd_counts or not_kept or summary.skipped) and summary.fence_offset is None


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
    live_end, entries = max(old.live_end, own.live_end), _entries(old.entries, own.entries)
    summary = replace(own, live_end=live_end, queues=queues, units=units, entries=entries)
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
