"""Topics, queues and consumer groups of a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.javatext import java_decode
from rocketfsck.page.tables import Counts, Groups, Limits, QueueColumns, Topics, columns, shown
from rocketfsck.query.counts import StoreCounts, Tally, merged
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.tasks.task import QueueFacts

QueueName = tuple[str, int]
Position = tuple[str, str, int, int]
"""(group, topic, queueId, the queue offset that the group consumes next)"""

GAPS = frozenset(
    {
        RuleName.QUEUE_OFFSET_GAP,
        RuleName.UNIT_HOLE,
        RuleName.QUEUE_MISSING,
        RuleName.UNIT_IN_MISSING_SEGMENT,
    }
)
"""Findings of queue offsets that have no message, or no unit."""


@dataclass(frozen=True, slots=True)
class QueueFindings:
    """What is known of queues: names with their rows, what the check found and what the log has."""

    names: tuple[QueueName, ...]
    facts: Mapping[QueueName, QueueFacts]
    logs: Mapping[QueueName, tuple[Tally, int, int]]

    @property
    def rows(self) -> dict[QueueName, int]:
        return {name: row for row, name in enumerate(self.names)}


def queues_stated(
    store: Store | None,
    facts: Iterable[QueueFacts],
    account: StoreCounts,
    findings: Iterable[Finding],
    limits: Limits,
    others: Iterable[QueueName] = (),
) -> QueueFindings:
    """All queues that are anywhere, in order, at most `limits.queue_count` of them; `others` are some more
    names."""
    known = {(fact.topic, fact.queue_id): fact for fact in facts}
    logs = {(java_decode(topic), number): value for (topic, number), value in account.queues.items()}
    names = set(known) | names_of(store, account) | set(others)
    names |= {
        (finding.where.topic, finding.where.queue_id)
        for finding in findings
        if finding.where.topic is not None and finding.where.queue_id is not None
    }
    return QueueFindings(tuple(sorted(names)[: limits.queue_count]), known, logs)


def names_of(store: Store | None, account: StoreCounts) -> set[QueueName]:
    """The queues that have a directory in the store, or messages in its log."""
    names = {(java_decode(topic), number) for topic, number in account.queues}
    return names if store is None else names | {(queue.topic, queue.queue_id) for queue in store.queues}


def topics_of(stated: QueueFindings, limits: Limits) -> Topics:
    """The topics by name."""
    counts = Counter(topic for topic, _ in stated.names)
    tallies: dict[str, list[Tally]] = {}
    for name, (tally, _, _) in stated.logs.items():
        tallies.setdefault(name[0], []).append(tally)
    rows = []
    for topic in sorted(counts):
        found = merged(tallies[topic]) if topic in tallies else None
        numbers = (0, 0, None, None) if found is None else _numbers(found)
        rows.append((shown(topic, limits.text_size), counts[topic], *numbers))
    return columns(Topics, rows)


def _numbers(tally: Tally) -> tuple[int, int, int, int]:
    return tally.message_count, tally.byte_count, tally.first_timestamp, tally.last_timestamp


def queues_of(stated: QueueFindings, findings: Iterable[Finding], lags: Mapping[int, int]) -> QueueColumns:
    """The queues, in the order of `stated.names`; `lags` are the largest by row."""
    topics = {topic: row for row, topic in enumerate(sorted({topic for topic, _ in stated.names}))}
    found: Counter[tuple[str | None, int | None]] = Counter()
    gaps: Counter[tuple[str | None, int | None]] = Counter()
    for finding in findings:
        name = (finding.where.topic, finding.where.queue_id)
        found[name] += finding.count
        gaps[name] += finding.count if finding.rule in GAPS else 0
    rows = []
    for row, name in enumerate(stated.names):
        fact, log = stated.facts.get(name), stated.logs.get(name)
        units = (None, None) if fact is None else (fact.min_offset, fact.max_offset)
        logged = (None, None, None) if log is None else (log[1], log[2], log[0].message_count)
        rows.append((topics[name[0]], name[1], *units, *logged, gaps[name], found[name], lags.get(row)))
    return columns(QueueColumns, rows)


def groups_of(
    stated: QueueFindings, positions: Sequence[Position], limits: Limits
) -> tuple[tuple[str, ...], Groups, Counts, dict[int, int]]:
    """Names of groups, their positions (the largest lags), how many there are, the largest lag by queue."""
    rows = stated.rows
    names: dict[str, int] = {}
    lags: dict[int, int] = {}
    found = []
    for group, topic, queue_id, offset in positions:
        row = rows.get((topic, queue_id))
        if row is None:
            continue
        fact, log = stated.facts.get((topic, queue_id)), stated.logs.get((topic, queue_id))
        end = fact.max_offset if fact is not None else 0 if log is None else log[2]
        begin = fact.min_offset if fact is not None else 0 if log is None else log[1]
        lag = max(end - max(offset, begin), 0)
        lags[row] = max(lags.get(row, 0), lag)
        found.append((group, row, offset, lag))
    found.sort(key=lambda item: (-item[3], item[0], item[1]))
    kept = [
        (names.setdefault(group, len(names)), row, offset, lag)
        for group, row, offset, lag in found[: limits.position_count]
    ]
    texts = tuple(shown(name, limits.text_size) for name in names)
    return texts, columns(Groups, kept), Counts(len(found), len(kept)), lags
