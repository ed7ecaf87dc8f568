"""Cuts a check into tasks: a commitlog file, a group of consume queues, an index file.

Queues are grouped, so that 200,000 small ones are some hundred tasks: a group ends at 64 MiB on disk (most of
a queue's last file is a hole) or 1024 queues.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rocketfsck.engine.passes import Passes
from rocketfsck.formats.indexfile import ENTRY_SIZE
from rocketfsck.store.model import ConsumeQueue, Store, StoreFile
from rocketfsck.verify.tasks.resume import stamp_of
from rocketfsck.verify.tasks.task import (
    TASK_MINIMUM,
    TOTAL_LIMIT,
    Context,
    IndexFileTask,
    LogFileTask,
    QueuesTask,
)

Task = LogFileTask | QueuesTask | IndexFileTask

GROUP_SIZE = 64 << 20
GROUP_COUNT = 1024


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task with its name, the bytes it goes through and the stamp of everything that it reads."""

    key: str
    task: Task
    byte_count: int
    stamp: str
    files: tuple[str, ...]


def plan_units(context: Context) -> tuple[PlannedTask, ...]:
    """All tasks of a check in store order: commitlog files, groups of queues, index files.

    A commitlog file is compared with queues and index files, and they with it: the stamp covers both sides.
    """
    store = context.store
    groups = tuple(group_queues(store))
    count = len(store.commitlog.files) + len(groups) + len(store.indexes)
    context = replace(context, total_limit=max(TASK_MINIMUM, TOTAL_LIMIT // max(count, 1)))
    log_stamp = stamp_of(store.commitlog.files)
    queue_stamp = stamp_of(file for queue in store.queues for file in _queue_files(queue))
    other_stamp = stamp_of(store.indexes, queue_stamp)
    units = [
        _unit(f"commitlog:{file.relative}", LogFileTask(context, index), (file,), other_stamp)
        for index, file in enumerate(store.commitlog.files)
    ]
    for start, end in groups:
        files = tuple(file for queue in store.queues[start:end] for file in _queue_files(queue))
        first, last = store.queues[start], store.queues[end - 1]
        key = f"queues:{first.kind}:{first.topic}/{first.queue_id}:{last.kind}:{last.topic}/{last.queue_id}"
        units.append(_unit(key, QueuesTask(context, start, end), files, log_stamp))
    units += [
        _unit(f"index:{file.relative}", IndexFileTask(context, index), (file,), log_stamp)
        for index, file in enumerate(store.indexes)
    ]
    return tuple(units)


def group_queues(store: Store) -> Iterator[tuple[int, int]]:
    """Half-open ranges of `store.queues` that are one task each."""
    start = size = 0
    for index, queue in enumerate(store.queues):
        amount = sum(file.data_size for file in _queue_files(queue))
        if index > start and (size + amount > GROUP_SIZE or index - start >= GROUP_COUNT):
            yield start, index
            start, size = index, 0
        size += amount
    if start < len(store.queues):
        yield start, len(store.queues)


def _queue_files(queue: ConsumeQueue) -> tuple[StoreFile, ...]:
    return queue.files + (queue.ext.files if queue.ext is not None else ())


def _unit(key: str, task: Task, files: tuple[StoreFile, ...], other_stamp: str) -> PlannedTask:
    names = tuple(file.relative for file in files[:3])
    return PlannedTask(key, task, sum(file.size for file in files), stamp_of(files, other_stamp), names)


def unit_files(task: Task) -> tuple[StoreFile, ...]:
    """The files that a task goes through, without those that it compares them with."""
    store = task.context.store
    if isinstance(task, LogFileTask):
        return (store.commitlog.files[task.index],)
    if isinstance(task, IndexFileTask):
        return (store.indexes[task.index],)
    return tuple(file for queue in store.queues[task.start : task.end] for file in _queue_files(queue))


def known_size(task: Task) -> int:
    """How many bytes of its files a task need not read again, as an earlier check knows what is in them."""
    if isinstance(task, LogFileTask):
        return 0 if task.known is None else task.known.summary.live_end
    if isinstance(task, IndexFileTask):
        return 0 if task.known is None else task.known.used * ENTRY_SIZE
    queues = task.context.store.queues[task.start : task.end]
    return sum(
        (known.end - known.start) * queue.unit_size
        for queue, known in zip(queues, task.known, strict=False)
        if known is not None
    )


# The times of a check's tasks, by the files that they go through.

_NAMES = {LogFileTask: "commit log files", QueuesTask: "consume queues", IndexFileTask: "index files"}


class TaskTimes:
    """Adds up what the tasks take; `finish` makes a pass of each kind of task."""

    def __init__(self, units: Sequence[PlannedTask], passes: Passes | None) -> None:
        self._units = units
        self._passes = passes
        self._seconds: dict[int, float] = {}

    def add(self, index: int, seconds: float) -> None:
        """The task of `units[index]` took this long."""
        self._seconds[index] = seconds

    def finish(self) -> None:
        """A pass for each kind of task that was run, each followed by its tasks where these are wanted."""
        if self._passes is None:
            return
        for kind, name in _NAMES.items():
            ran = [index for index in sorted(self._seconds) if isinstance(self._units[index].task, kind)]
            if not ran:
                continue
            size = sum(self._units[index].byte_count for index in ran)
            total = sum(self._seconds[index] for index in ran)
            self._passes.add(name, total, size, task_count=len(ran))
            for index in ran if self._passes.each_task else ():
                unit = self._units[index]
                self._passes.add(unit.key, self._seconds[index], unit.byte_count, detail=True)
