"""What a store holds, counted: messages and bytes by topic, queue and day, and the ages of its files.

One pass over the live records of the commit log, without their bodies, in columns, on any engine. Days are
days of the storeTimestamp in UTC. Memory is bounded by the number of queues, of days and of pairs of the two,
which are bounded themselves: what a hostile log names beyond that is counted together. Reference 2.1, 3.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketfsck.common.documents import FLAT
from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.formats.javatext import java_decode
from rocketfsck.query.counts.counting import FileRun, StoreCounts, Tally, count_files, date_of, merged
from rocketfsck.scan.options import log_item
from rocketfsck.store.model import Store

DEFAULT_RESERVED_HOURS = 72
"""fileReservedTime (Appendix B)."""

TASKS_A_JOB = 4
"""Tasks for each that runs at once: what comes back is one account a task, not one a file."""


@dataclass(frozen=True, slots=True)
class QueueTally:
    """One queue's messages in the commit log. Offsets are queue offsets, half-open."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    tally: Tally = field(metadata=FLAT)


@dataclass(frozen=True, slots=True)
class FileAge:
    """A commit log file and the newest storeTimestamp (ms) in it, None without records."""

    file: str
    size: int
    last_timestamp: int | None


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """The live records of the commit log.

    `total` is None without records. `days` are (date, tally), ascending; "" stands for times that have no
    date. `uncounted_queues` counts messages of queues beyond those that a table holds; they are in `total`
    and in `days`. `reserved_hours` is the setting fileReservedTime, `reserved_known` whether it was read.
    `topic_days` are (topic, date, tally) by topic and date; the messages of further ones are counted in
    `uncounted_days`.
    """

    total: Tally | None
    queues: tuple[QueueTally, ...]
    days: tuple[tuple[str, Tally], ...]
    files: tuple[FileAge, ...]
    uncounted_queues: int
    reserved_hours: int
    reserved_known: bool
    topic_days: tuple[tuple[str, str, Tally], ...] = ()
    uncounted_days: int = 0

    @property
    def topics(self) -> dict[str, Tally]:
        """The messages of each topic's queues together, the largest topic first."""
        found: dict[str, list[Tally]] = {}
        for queue in self.queues:
            found.setdefault(queue.topic, []).append(queue.tally)
        tallies = {topic: merged(items) for topic, items in found.items()}
        return dict(sorted(tallies.items(), key=lambda item: (-item[1].byte_count, item[0])))

    def expired_files(self, now_timestamp: int) -> tuple[FileAge, ...]:
        """Files that a broker would delete at `now_timestamp` (ms) when it next cleans up.

        By their newest record: a broker goes by the time of modification, which in a copy may be another.
        A broker never deletes the last file.
        """
        limit = now_timestamp - self.reserved_hours * 3_600_000
        found = []
        for file in self.files[:-1]:
            if file.last_timestamp is None or file.last_timestamp > limit:
                break
            found.append(file)
        return tuple(found)


def count_log(store: Store, *, engine: Engine | None = None) -> LogStatistics:
    """Count the live records of a store's commit log, on threads of this process or an engine.

    Raises StoreError when a file cannot be read.
    """
    engine = LocalEngine() if engine is None else engine
    account = StoreCounts()
    for outcome in engine.run(count_files, plan_runs(store, engine.job_count)):
        if outcome.result is not None:
            account.add(outcome.result)
    return statistics_of(store, account)


def plan_runs(store: Store, job_count: int) -> list[FileRun]:
    """The log's files in runs of like length, some for each task that runs at once."""
    items = [log_item(store, file) for file in store.commitlog.files]
    length = max(-(-len(items) // (TASKS_A_JOB * job_count)), 1)
    return [FileRun(at, tuple(items[at : at + length])) for at in range(0, len(items), length)]


def statistics_of(store: Store, account: StoreCounts) -> LogStatistics:
    """An account of all files of a store, in order and with names as text."""
    hours = _setting(store.settings.values.get("fileReservedTime"))
    return LogStatistics(
        total=merged(account.days.values()) if account.days else None,
        queues=tuple(
            QueueTally(java_decode(topic), queue_id, low, high, tally)
            for (topic, queue_id), (tally, low, high) in sorted(account.queues.items())
        ),
        days=tuple((date_of(day), account.days[day]) for day in sorted(account.days)),
        files=tuple(
            FileAge(file.relative, file.size, account.newest.get(number))
            for number, file in enumerate(store.commitlog.files)
        ),
        uncounted_queues=account.uncounted_queues,
        reserved_hours=DEFAULT_RESERVED_HOURS if hours is None else hours,
        reserved_known=hours is not None,
        topic_days=tuple(
            (java_decode(name[0]), date_of(name[1]), account.topic_days[name])
            for name in sorted(account.topic_days)
        ),
        uncounted_days=account.uncounted_days,
    )


def _setting(text: str | None) -> int | None:
    try:
        return None if text is None else max(int(text), 0)
    except ValueError:
        return None
