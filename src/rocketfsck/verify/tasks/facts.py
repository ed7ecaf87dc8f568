"""What the checks of data files hand to the checks that compare files with each other.

Small, exact and free of judgement. A kernel puts them into its `TaskResult.facts`; the checkpoint and config
checks read them. All fields are int, str, bool, None or tuples of such dataclasses, so that an interrupted
check can be written down and resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


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
        if self.log_elsewhere or None in self.logs:
            return None
        times = [log.max_store_timestamp for log in self.logs if log is not None]
        return max((time for time in times if time is not None), default=None)

    @property
    def last_store_timestamp(self) -> int | None:
        """The storeTimestamp (ms) of the last record; None unless the whole commitlog is known."""
        if self.log_elsewhere or None in self.logs:
            return None
        times = [log.last_store_timestamp for log in self.logs if log is not None]
        return next((time for time in reversed(times) if time is not None), None)

    @property
    def min_store_timestamp(self) -> int | None:
        """The oldest storeTimestamp (ms) of the whole commitlog; None unless all of it is known."""
        if None in self.logs:
            return None
        times = [log.min_store_timestamp for log in self.logs if log is not None]
        return min((time for time in times if time is not None), default=None)

    @property
    def end_offset(self) -> int | None:
        """Physical offset after the last sound record; None unless the whole commitlog is known."""
        if self.log_elsewhere or None in self.logs:
            return None
        return max(
            (log.end_offset for log in self.logs if log is not None and log.record_count), default=None
        )

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
