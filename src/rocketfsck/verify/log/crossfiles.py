"""What only several commit log files tell: BLANKs that are missing, queue offsets and times across files.

Reference 2.8, 2.13, 6.2, 9.2 M7, M11, M13.

What every byte of the commit log is, over all files, for offsets that queues and indexes hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dtypes import Longs
from rocketfsck.scan.log.live import UNKNOWN
from rocketfsck.scan.spans import distinct, find_span
from rocketfsck.store.elsewhere import has_log_elsewhere
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.log.regions import DAMAGED, STALE
from rocketfsck.verify.queues.unitranges import KnownQueues, UnitRanges
from rocketfsck.verify.store.misnamed import Misnamed
from rocketfsck.verify.tasks.task import Context, LogFacts, TaskResult, capped


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

    def __init__(
        self, store: Store, logs: Sequence[TaskResult | None], misnamed: Sequence[Misnamed] = ()
    ) -> None:
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


def merge_log_files(context: Context, logs: Sequence[TaskResult | None]) -> Iterator[Finding]:
    """Findings that need more than one commit log file; `logs` in store order, None for files not checked."""
    if context.level != "quick":
        yield from capped(_merge(context, logs), context.detail_limit)


def _merge(context: Context, logs: Sequence[TaskResult | None]) -> Iterator[Finding]:
    known = {(queue.topic, queue.queue_id) for queue in context.store.queues}
    following = _Following(context)
    before: TaskResult | None = None
    fence: int | None = None
    for number, log in enumerate(logs):
        if log is None:
            following, before = _Following(context), None
            continue
        facts = _facts(log)
        later = next((item for item in logs[number + 1 :] if item is not None and _live(item)), None)
        if later is not None and not facts.ends_with_blank:
            yield _blank_missing(log, _facts(later).file)
        if not _live(log) or not _has_queues(log):  # filler in place of a file does not continue the log
            continue
        adjacent = (
            before is not None and before.summary.start_offset + before.summary.size == facts.start_offset
        )
        if fence is None:
            fence = log.summary.fence_offset
        yield from _queue_offsets(context, log, following, adjacent, known, fence)
        if before is not None:
            yield from _times(_facts(before), facts, log)
        before = log


def _facts(log: TaskResult) -> LogFacts:
    facts = log.facts[0]
    assert isinstance(facts, LogFacts)
    return facts


def _live(log: TaskResult) -> bool:
    return _facts(log).record_count > 0


def _has_queues(log: TaskResult) -> bool:
    return bool((log.summary.queues.first >= 0).any())


def _blank_missing(log: TaskResult, next_file: str) -> Finding:
    summary, facts = log.summary, _facts(log)
    where = Where(
        file=facts.file,
        start=summary.live_end,
        end=summary.size,
        physical_offset=summary.start_offset + summary.live_end,
    )
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
    known: set[tuple[str, int]],
    fence: int | None,
) -> Iterator[Finding]:
    """Compare each queue's first record with the last one in the files before.

    Where a commit log file is missing in between, or filler from `fence` on stands for lost records, the
    units of the queue say what is lost (XR011, XR015); only a queue without units is reported here.
    """
    span, units = log.summary.queues, log.summary.units
    facts = _facts(log)
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
        if rule == RuleName.QUEUE_OFFSET_GAP and explained and name in known:
            continue
        where = Where(
            file=facts.file,
            start=physical - facts.start_offset,
            physical_offset=physical,
            topic=name[0],
            queue_id=name[1],
            queue_offset=first,
        )
        yield Finding(rule, where, {"queue_offset": first}, {"queue_offset": expected})


def _times(before: LogFacts, facts: LogFacts, log: TaskResult) -> Iterator[Finding]:
    if before.last_store_timestamp is None or facts.first_store_timestamp is None:
        return
    step = before.last_store_timestamp - facts.first_store_timestamp
    if step > 0:
        where = Where(file=facts.file, start=0, physical_offset=log.summary.start_offset)
        yield Finding(RuleName.STORE_TIMESTAMP_BACK, where, {"largest_step_ms": step, "step_count": 1})
