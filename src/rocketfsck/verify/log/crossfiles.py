"""What only several commit log files tell: BLANKs that are missing, queue offsets and times across files.

Reference 2.8, 2.13, 6.2, 9.2 M7, M11, M13.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dtypes import Longs
from rocketfsck.scan.log.live import UNKNOWN
from rocketfsck.store.elsewhere import has_queue_database
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.queues.unitranges import UnitRanges
from rocketfsck.verify.queues.unitrooms import KnownQueues
from rocketfsck.verify.tasks.facts import LogFacts
from rocketfsck.verify.tasks.task import Context, TaskResult, capped


def merge_log_files(context: Context, logs: Sequence[TaskResult | None]) -> Iterator[Finding]:
    """Findings that need more than one commit log file; `logs` in store order, None for files not checked."""
    if context.level != "quick":
        yield from capped(_merge(context, logs), context.detail_limit)


def _merge(context: Context, logs: Sequence[TaskResult | None]) -> Iterator[Finding]:
    queues = {(queue.topic, queue.queue_id) for queue in context.store.queues}
    known = None if has_queue_database(context.store) else queues
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
    known: set[tuple[str, int]] | None,
    fence: int | None,
) -> Iterator[Finding]:
    """Compare each queue's first record with the last one in the files before.

    Where a commit log file is missing in between, or filler from `fence` on stands for lost records, the
    units of the queue say what is lost (XR011, XR015), as do rows of a database (`known` is None then); only
    a queue without units is reported here.
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
        if rule == RuleName.QUEUE_OFFSET_GAP and explained and (known is None or name in known):
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
