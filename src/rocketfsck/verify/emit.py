"""Helpers that turn flagged rows into findings, a bounded number of them a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import Flags
from rocketfsck.scan.spans import true_spans
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.verify.finding import Facts, Finding, Where
from rocketfsck.verify.log.rows import LogRows
from rocketfsck.verify.tasks.task import Collector, aggregate

ROW_LIMIT = 1000
"""Rows, or runs of rows, of one rule and block that become findings of their own, or as many as the collector
keeps; the rest is counted."""


def add_rows(
    collector: Collector,
    rule: str,
    file: str,
    rows: NDArray[np.integer[Any]],
    make: Callable[[int], tuple[Where, Facts, Facts]],
    limit: int = ROW_LIMIT,
) -> None:
    """Add a finding of the place and facts that `make` gives for each of the first `limit` rows, and the
    count of the others."""
    limit = max(limit, collector.limit) if limit == ROW_LIMIT else limit
    for row in rows[:limit].tolist():
        collector.find(rule, *make(row))
    if len(rows) > limit:
        collector.add(aggregate(rule, file, len(rows) - limit))


def no_facts(row: int) -> Facts:
    """Nothing to say of a row."""
    del row
    return {}


def add_runs(
    collector: Collector,
    rule: str,
    rows: LogRows,
    flags: Flags,
    found: Callable[[int], Facts] = no_facts,
    expected: Callable[[int], Facts] = no_facts,
) -> None:
    """One finding for every run of flagged rows, with the facts of its first row; many runs are counted."""
    starts, ends = true_spans(flags)
    limit = collector.room(rule, rows.relative)
    for start, end in zip(starts[:limit].tolist(), ends[:limit].tolist(), strict=True):
        where = rows.place(start, end - 1)
        collector.find(rule, where, found(start), expected(start), count=end - start)
    rest = int((ends[limit:] - starts[limit:]).sum())
    if rest:
        collector.add(aggregate(rule, rows.relative, rest))


def capped(findings: Iterable[Finding], limit: int) -> Iterable[Finding]:
    """The first `limit` findings of each rule, then one a rule that counts the others."""
    seen: dict[str, int] = {}
    further: dict[str, int] = {}
    for finding in findings:
        seen[finding.rule] = seen.get(finding.rule, 0) + 1
        if seen[finding.rule] <= limit:
            yield finding
        else:
            further[finding.rule] = further.get(finding.rule, 0) + finding.count
    for rule, count in sorted(further.items()):
        yield aggregate(rule, "", count)


TREES = {"file": "consumequeue", "batch": "batchconsumequeue"}


def queue_directory(topic: str, queue_id: int, kind: str = "file") -> str:
    """The directory of a queue, relative to the store's root."""
    return f"{TREES[kind]}/{topic}/{queue_id}"


def queue_place(topic: str, queue_id: int, kind: str = "file") -> Where:
    """Where a finding on a whole queue is."""
    return Where(file=queue_directory(topic, queue_id, kind), topic=topic, queue_id=queue_id)


def unit_place(queue: ConsumeQueue, index: int, count: int = 1, physical_offset: int | None = None) -> Where:
    """Where units `index:index + count` of a queue are: in the file that holds the first of them."""
    size = queue.unit_size
    pos = index * size
    for file in reversed(queue.files):
        start = file.start_offset
        if start is not None and start <= pos:
            return Where(
                file=file.relative,
                start=pos - start,
                end=min(pos - start + count * size, max(file.size, pos - start)),
                physical_offset=physical_offset,
                topic=queue.topic,
                queue_id=queue.queue_id,
                queue_offset=index,
            )
    whole = queue_place(queue.topic, queue.queue_id, queue.kind)
    return replace(whole, physical_offset=physical_offset, queue_offset=index)
