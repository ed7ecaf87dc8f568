"""The contract between the driver (`verify.run`) and the checks of data files.

    check_log_file(task: LogFileTask)     -> LogResult       verify/log/file.py    facts: one LogFacts
    check_queues(task: QueuesTask)        -> QueuesResult    verify/queues/file.py facts: a QueueFacts a queue
    check_index_file(task: IndexFileTask) -> IndexResult     verify/index/file.py  facts: one IndexFacts

are top-level functions of a small task; they read, judge and return findings, bounded by a `Collector`.
What needs several files is judged afterwards, in the driver, from the results (in store order):

    merge_log_files(context, logs)            -> Findings
    merge_queues(context, queues, logs)       -> Findings
    merge_index_files(context, indexes, logs) -> Findings

where `logs`, `queues` and `indexes` are `Results`, one for each task in store order: None
where the task was not run (subset, time limit, unreadable file), so "complete" is `None not in logs`.
A result is a `TaskResult`, its `summary` the check's own: a dataclass of int, float, str, bool, bytes, None,
NumPy arrays, and tuples and dicts (keys: str) of those. The types of the summary say which, so that it can be
written to a resume file and read again (`verify.tasks.resume`).

What the tasks of one check have in common in a process: made once, by the task that asks first.

A value costs a step for each queue of the store, say, which no task may take again. Values never travel: on
another machine, or in another process, the tasks that run there make their own.

What the checks of data files hand to the checks that compare files with each other.

Small, exact and free of judgement. A kernel puts them into its `TaskResult.facts`; the checkpoint and config
checks read them. All fields are int, str, bool, None or tuples of such dataclasses, so that an interrupted
check can be written down and resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rocketfsck.store import Store
from rocketfsck.verify.finding import DETAIL_LIMIT, Facts, Finding, Findings, Level, Where
from rocketfsck.verify.rules.catalog import FURTHER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RegionTotal:
    """How much of a commitlog file has one kind (a `RegionKind` name in lower case)."""

    kind: str
    region_count: int
    byte_count: int
    record_count: int


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """The highest queueOffset + 1 that a commitlog file's records carry for one queue."""

    topic: str
    queue_id: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class LogFacts:
    """One commitlog file. `end_offset` is the physical offset after its last sound record (its
    `start_offset` where it has none); timestamps are storeTimestamps in ms of records whose time a
    clock can show, None without any. `queue_ends` has the queues of which units are missing: the others'
    units tell as much."""

    file: str
    start_offset: int
    end_offset: int
    record_count: int
    last_record_offset: int | None
    first_store_timestamp: int | None
    last_store_timestamp: int | None
    min_store_timestamp: int | None
    max_store_timestamp: int | None
    all_zero: bool
    ends_with_blank: bool
    damaged: bool
    regions: tuple[RegionTotal, ...] = ()
    queue_ends: tuple[QueueEnd, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """One consume queue, in units of queue offsets.

    `min_offset` is the queue offset of the first unit on disk, `max_offset` the one after the last valid
    unit; `min_live_offset` that of the first unit whose record is not expired (None: no such unit; without
    commitlog files nothing tells, and it is that of the first unit).
    `max_physical_end` is the last unit's physical offset + size, -1 without units. `damaged` says that
    the queue's files show that units were lost (a hole, a cut, a file missing).
    """

    topic: str
    queue_id: int
    kind: str
    min_offset: int
    max_offset: int
    min_live_offset: int | None
    max_physical_end: int
    unit_count: int
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """One index file's header. `full`: no further put fits in (indexCount has reached the entry number)."""

    file: str
    begin_timestamp: int
    end_timestamp: int
    begin_physical_offset: int
    end_physical_offset: int
    hash_slot_count: int
    index_count: int
    full: bool


Fact = LogFacts | QueueFacts | IndexFacts
"""What the check of a file or a queue hands on."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the data files once their tasks are done.

    `logs` has an element for each commitlog file in store order, None where it is not known. `queues` has
    the queues that were checked, by (topic, queueId). `queue_ends` is the highest queueOffset + 1 of each
    queue's records in the commitlog. `complete`: every commitlog file and queue was gone through.
    `log_elsewhere`: the commitlog continues in files that are not read here; `queues_elsewhere`: there may be
    more queues than those.
    """

    logs: tuple[LogFacts | None, ...] = ()
    queues: Mapping[tuple[str, int], QueueFacts] = field(default_factory=dict)
    queue_ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    complete: bool = False
    log_elsewhere: bool = False
    queues_elsewhere: bool = False

    @property
    def max_store_timestamp(self) -> int | None:
        """The newest storeTimestamp (ms) of the whole commitlog; None unless all of it is known."""
        return max(self._of_logs(lambda log: log.max_store_timestamp), default=None)

    @property
    def last_store_timestamp(self) -> int | None:
        """The storeTimestamp (ms) of the last record; None unless the whole commitlog is known."""
        return next(reversed(self._of_logs(lambda log: log.last_store_timestamp)), None)

    @property
    def min_store_timestamp(self) -> int | None:
        """The oldest storeTimestamp (ms) of the whole commitlog; None unless all of it is known."""
        return min(self._of_logs(lambda log: log.min_store_timestamp, to_end=False), default=None)

    @property
    def end_offset(self) -> int | None:
        """Physical offset after the last sound record; None unless the whole commitlog is known."""
        ends = self._of_logs(lambda log: log.end_offset if log.record_count else None)
        return max(ends, default=None)

    def _of_logs(self, value: Callable[[LogFacts], int | None], *, to_end: bool = True) -> list[int]:
        """The values of the commitlog files that have one, in order; none unless all files are known, and
        with `to_end` those that may be elsewhere."""
        if None in self.logs or (to_end and self.log_elsewhere):
            return []
        values = (value(log) for log in self.logs if log is not None)
        return [found for found in values if found is not None]

    def lost_units(self, topic: str, queue_id: int) -> bool:
        """Whether there is evidence that a queue had units that it has no more."""
        queue, end = self.queues.get((topic, queue_id)), self.queue_ends.get((topic, queue_id), 0)
        if queue is None:
            return self.complete and end > 0
        return queue.damaged or end > queue.max_offset


def gather(
    facts: Iterable[Fact],
    files: Sequence[str],
    complete: bool,
    *,
    log_elsewhere: bool = False,
    queues_elsewhere: bool = False,
) -> Known:
    """Put the facts of all tasks together; `files` are the commitlog files' names in store order."""
    logs: dict[str, LogFacts] = {}
    queues: dict[tuple[str, int], QueueFacts] = {}
    ends: dict[tuple[str, int], int] = {}
    for fact in facts:
        if isinstance(fact, LogFacts):
            logs[fact.file] = fact
            for end in fact.queue_ends:
                name = (end.topic, end.queue_id)
                ends[name] = max(ends.get(name, 0), end.max_offset)
        elif isinstance(fact, QueueFacts):
            queues[fact.topic, fact.queue_id] = fact
    in_order = tuple(logs.get(file) for file in files)
    return Known(in_order, queues, ends, complete, log_elsewhere, queues_elsewhere)


Made = TypeVar("Made")


class Shared:
    """Values by what makes them, and of which store. Safe to use by several threads."""

    __slots__ = ("_lock", "_made", "asked")

    def __init__(self) -> None:
        self._lock = Lock()
        self.asked: dict[str, int] = {}
        self._made: dict[tuple[Callable[[Store], Any], int], tuple[Store, Any]] = {}

    def __reduce__(self) -> tuple[type[Shared], tuple[()]]:
        return Shared, ()

    def made(self, maker: Callable[[Store], Made], store: Store) -> Made:
        """What `maker(store)` gave the first time that it was asked for."""
        key = maker, id(store)  # the store is kept with the value, so that no other one gets its id
        with self._lock:
            if key not in self._made:
                self._made[key] = store, maker(store)
            return cast(Made, self._made[key][1])

    def ask(self, rule: str, count: int) -> None:
        """Count places of which a check of the driver asked a rule; tasks have their `Collector.ask`."""
        with self._lock:
            self.asked[rule] = self.asked.get(rule, 0) + count


# What a check knows of files that go on growing, so that a later one need only read what is new.
#
# Each value is about a part that was found sound, without a finding: `verify.since` keeps them.


@dataclass(frozen=True, slots=True)
class QueueKnown:
    """The units of a sound queue: pre-blanks from the index `start` on, then units as far as `end`.

    `first_offset` is the physical offset of the first unit behind the pre-blanks, `last_offset` that of the
    last one and `last_end` where its record ends.
    """

    start: int
    pre_blank_count: int
    end: int
    first_offset: int
    last_offset: int
    last_end: int


@dataclass(frozen=True, slots=True)
class IndexKnown:
    """The entries 1 to `used` of a sound index file, whose last points to `last_offset`.

    `slot_count` slots have entries; `slots_digest` covers all slots as those entries leave them.
    `is_unchanged`: the file's times are the same. A broker may have changed pages that were in memory, but it
    changes the header with each put: with the same number of entries, the slots are not looked at again.
    """

    used: int
    last_offset: int
    slot_count: int
    slots_digest: str
    is_unchanged: bool = False


TOTAL_LIMIT = 50_000
"""Findings kept in all: what a store of any size and any damage may cost in memory."""

TASK_MINIMUM = 200
"""Findings that a task may keep, however many tasks there are."""


@dataclass(frozen=True, slots=True)
class Context:
    """What all tasks of one check share. `now_timestamp` is the check's start (ms).

    `data_size` is how many bytes of segments and index files there are on disk, holes left out: whether the
    compiled kernels are worth their start-up is a matter of the whole check.
    `total_limit` are the findings that one task may keep: the rest need not travel, nor wait for room.
    `shared` has what tasks of one process make once. `keeps`: a later check continues from the results, which
    say what it needs for that (`verify.since`). `only`: the rules whose findings are taken; None for all.
    """

    store: Store
    level: Level
    now_timestamp: int
    detail_limit: int = DETAIL_LIMIT
    data_size: int = 0
    total_limit: int = TOTAL_LIMIT
    keeps: bool = False
    only: frozenset[str] | None = None
    shared: Shared = field(default_factory=Shared, compare=False, repr=False)

    def collector(self) -> Collector:
        """What a task puts its findings into."""
        return Collector(self.detail_limit, self.total_limit, self.only)


@dataclass(frozen=True, slots=True)
class LogFileTask:
    """`context.store.commitlog.files[index]`, and what refers to it.

    `known` is what an earlier check found, of which only what comes after its last record is new.
    """

    context: Context
    index: int
    known: TaskResult | None = None


@dataclass(frozen=True, slots=True)
class QueuesTask:
    """`context.store.queues[start:end]`. `known`: what an earlier check found of each; empty for nothing."""

    context: Context
    start: int
    end: int
    known: tuple[QueueKnown | None, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexFileTask:
    """`context.store.indexes[index]`, and what an earlier check found of it."""

    context: Context
    index: int
    known: IndexKnown | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """How much was looked at. `byte_count` is what was read, each byte of a file once."""

    file_count: int = 0
    byte_count: int = 0
    record_count: int = 0
    unit_count: int = 0
    entry_count: int = 0

    def __add__(self, other: Checked) -> Checked:
        return Checked(*(getattr(self, name) + getattr(other, name) for name in Checked.__slots__))


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one task found. `counts` is exact for every rule, whatever `findings` leaves out; `asked` has, by
    rule, of how many places it was asked, where these are not all records, units or entries."""

    findings: tuple[Finding, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    checked: Checked = Checked()
    facts: tuple[LogFacts | QueueFacts | IndexFacts, ...] = ()
    summary: Any = None
    asked: Mapping[str, int] = field(default_factory=dict, kw_only=True)


Results = Sequence[TaskResult | None]
"""Results of all tasks of a family in store order; None for those that were not run."""


class Collector:
    """Takes findings; keeps the first `limit` of each rule and file and `total` in all; counts every one.

    Those of other rules than `only`, if given, are neither kept nor counted.
    """

    def __init__(
        self, limit: int = DETAIL_LIMIT, total: int = TOTAL_LIMIT, only: frozenset[str] | None = None
    ) -> None:
        self.limit = limit
        self._total = total
        self._only = only
        self._kept: list[Finding] = []
        self._seen: dict[tuple[str, str], int] = {}
        self._further: dict[tuple[str, str], int] = {}
        self._counts: dict[str, int] = {}
        self.asked: dict[str, int] = {}

    def ask(self, rule: str, count: int) -> None:
        """Count places of which a rule was asked, where it is not asked of all."""
        self.asked[rule] = self.asked.get(rule, 0) + count

    def room(self, rule: str, file: str) -> int:
        """How many further findings of a rule in a file would be kept."""
        if self._only is not None and rule not in self._only:
            return 0
        return max(min(self.limit - self._seen.get((rule, file), 0), self._total - len(self._kept)), 0)

    def take_out(self, chosen: Callable[[Finding], bool]) -> None:
        """Forget the findings that are `chosen`, and those that are counted with them."""
        left = [finding for finding in self.findings if not chosen(finding)]
        self._kept, self._seen, self._further, self._counts = [], {}, {}, {}
        for finding in left:
            key = (finding.rule, finding.where.file)
            self._counts[finding.rule] = self._counts.get(finding.rule, 0) + finding.count
            if is_aggregate(finding):
                self._further[key] = finding.count
            else:
                self._seen[key] = self._seen.get(key, 0) + 1
                self._kept.append(finding)

    def add(self, finding: Finding) -> None:
        """Keep or only count one finding. Aggregates of other collectors are added up, never kept twice."""
        if self._only is not None and finding.rule not in self._only:
            return
        key = (finding.rule, finding.where.file)
        self._counts[finding.rule] = self._counts.get(finding.rule, 0) + finding.count
        seen = self._seen.get(key, 0)
        if is_aggregate(finding) or seen >= self.limit or len(self._kept) >= self._total:
            self._further[key] = self._further.get(key, 0) + finding.count
            return
        self._seen[key] = seen + 1
        self._kept.append(finding)

    def find(
        self,
        rule: str,
        where: Where,
        found: Facts | None = None,
        expected: Facts | None = None,
        *,
        count: int = 1,
    ) -> None:
        """`add` a finding of these."""
        self.add(Finding(rule, where, found or {}, expected or {}, count=count))

    def extend(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.add(finding)

    @property
    def counts(self) -> dict[str, int]:
        """Exact number of findings by rule id (a finding of a run counts as its length)."""
        return dict(sorted(self._counts.items()))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings kept, in the order in which they came, then one aggregate a rule and file."""
        return (*self._kept, *_aggregates(self._further))


def aggregate(rule: str, file: str, count: int) -> Finding:
    """The finding that stands for `count` further ones of a rule in a file."""
    return Finding(rule, Where(file), {FURTHER: count}, count=count)


def is_aggregate(finding: Finding) -> bool:
    """Whether a finding only counts others."""
    return set(finding.found) == {FURTHER}


ROW_LIMIT = 1000
"""Rows, or runs of rows, of one rule and block that become findings of their own, or as many as the collector
keeps; the rest is counted."""


Columns = Mapping[str, Any]
"""Facts of many rows: by name a column with a value for each row, or one value for all of them."""


def facts_at(columns: Columns, row: int) -> Facts:
    """The facts of one row."""
    values = {
        name: column if isinstance(column, int | str) else column[row] for name, column in columns.items()
    }
    return {name: value if isinstance(value, str) else int(value) for name, value in values.items()}


def add_rows(
    collector: Collector,
    rule: str,
    file: str,
    rows: NDArray[np.integer[Any]],
    place: Callable[[int], Where],
    found: Columns,
    expected: Columns,
) -> None:
    """Add a finding for each of the first rows, with the values of the columns there, and the count of the
    others."""
    limit = max(ROW_LIMIT, collector.limit)
    for row in rows[:limit].tolist():
        collector.find(rule, place(row), facts_at(found, row), facts_at(expected, row))
    if len(rows) > limit:
        collector.add(aggregate(rule, file, len(rows) - limit))


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


def complete(results: Results) -> bool:
    """Whether every task of a family has a result."""
    return None not in results


def _aggregates(further: Mapping[tuple[str, str], int]) -> Findings:
    for (rule, file), count in sorted(further.items()):
        yield aggregate(rule, file, count)
