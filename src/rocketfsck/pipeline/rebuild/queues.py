"""Consume queues by buckets: each task makes all queues of some buckets, from the dispatches put by.

A queue's units depend on its own dispatches alone, in the order of the log; they are all in one bucket.
`QueueBuilder` does the work; what it writes is put together by renaming directories of queues.

Memory: 64 MiB of units, some 40 MiB for a chunk, and 200 bytes a queue.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats.dtypes import Longs
from rocketfsck.pipeline.rebuild.places import SpillReader, Take, attempt_directory, publish
from rocketfsck.pipeline.rebuild.segment import BUCKET_COUNT, SegmentRead, bucket_of, units_path
from rocketfsck.repair.build.files import make_directory
from rocketfsck.repair.build.model import BuiltQueue
from rocketfsck.repair.build.queues import QueueBuilder
from rocketfsck.repair.build.queuestates import Name, QueueStates
from rocketfsck.scan.build.units import BASE, INDEX, REFUSED_NAME, ROW_SIZE
from rocketfsck.store.model import ConsumeQueue, Store

GROUPS_A_JOB = 3
"""Tasks for each that runs at once: the longest is not long, and a lost one is soon done again."""


@dataclass(frozen=True, slots=True)
class Queueing:
    """What all tasks share. `segments` are the numbers of the commit log files that have dispatches.

    `log_end_offset` is for queues that go on behind what the store has of them.
    """

    store: Store
    scratch: str
    parts: str
    segments: tuple[int, ...]
    wanted: Container[Name] | None
    batch_topics: frozenset[str]
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class QueueTask:
    """The queues of the buckets `start:end`; `queues` are those of them that go on.

    `unit_count` units at most, of at least `queue_count` queues.
    """

    queueing: Queueing
    start: int
    end: int
    queues: tuple[ConsumeQueue, ...] = ()
    unit_count: int = 0
    queue_count: int = 0


@dataclass(frozen=True, slots=True)
class QueuePart:
    """Queues that were made, below the directory `path`; `newest_offset` as `QueueBuilder` has it."""

    queues: tuple[BuiltQueue, ...]
    record_count: int
    refused_count: int
    path: str
    newest_offset: int


def plan_queues(
    queueing: Queueing, segments: Sequence[SegmentRead], job_count: int, going_on: Sequence[ConsumeQueue]
) -> list[QueueTask]:
    """Buckets in groups of about the same number of dispatches."""
    counts, queue_counts = np.zeros(BUCKET_COUNT, np.int64), np.zeros(BUCKET_COUNT, np.int64)
    for segment in segments:
        counts += segment.unit_counts
        queue_counts = np.maximum(queue_counts, segment.queue_counts)
    total = int(counts.sum())
    if not total:
        return []
    group_count = min(GROUPS_A_JOB * job_count, BUCKET_COUNT)
    middles = np.cumsum(counts) - counts // 2
    groups = np.minimum(middles * group_count // total, group_count - 1)
    tasks = []
    for group in np.unique(groups[counts > 0]).tolist():
        buckets = np.flatnonzero((groups == group) & (counts > 0))
        start, end = int(buckets[0]), int(buckets[-1]) + 1
        queues = [queue for queue in going_on if start <= bucket_of((queue.topic, queue.queue_id)) < end]
        unit_count, queue_count = int(counts[start:end].sum()), int(queue_counts[start:end].sum())
        tasks.append(QueueTask(queueing, start, end, tuple(queues), unit_count, queue_count))
    return tasks


def build_queue_part(task: QueueTask) -> QueuePart:
    """The kernel. Raises StoreError."""
    shared, name = task.queueing, f"queues-{task.start:03d}"
    with attempt_directory(shared.parts, name) as directory:
        root = directory / name
        make_directory(root)
        builder = QueueBuilder(shared.store, root, shared.wanted, shared.batch_topics)
        builder.go_on_behind_queues(task.queues, shared.log_end_offset)
        for number in shared.segments:
            for rows, numbers in _rows(task, number, builder.states):
                builder.take_rows(rows, numbers)
        queues = builder.finish()
        path = publish(root, Path(shared.parts) / name)
    return QueuePart(queues, builder.record_count, builder.refused_count, str(path), builder.newest_offset)


def take_queues(parts: Sequence[QueuePart], root: Path, take: Take) -> list[BuiltQueue]:
    """Take the queues' directories below `root`; what they became, by topic, queueId and kind.

    Raises StoreError.
    """
    for part in parts:
        for directory in sorted(Path(part.path).glob("*/*/*")):
            target = root / directory.relative_to(part.path)
            make_directory(target.parent)
            take(directory, target)
    queues = [queue for part in parts for queue in part.queues]
    return sorted(queues, key=lambda queue: (queue.topic, queue.queue_id, queue.kind))


def _rows(task: QueueTask, segment: int, states: QueueStates) -> Iterator[tuple[Longs, Longs]]:
    """The dispatches of a commit log file, in chunks, and the numbers that their queues have here."""
    with SpillReader(units_path(task.queueing.scratch, segment)) as reader:
        numbers = _numbers(reader, task, states)
        for starts, columns in zip(reader.footer["starts"], reader.footer["columns"], strict=True):
            start, end = int(starts[task.start]), int(starts[task.end])
            if start < end:
                rows = np.empty((end - start, ROW_SIZE), np.int64)
                for column in range(ROW_SIZE):
                    rows[:, column] = reader.column(columns[column], start, end)
                rows[:, BASE] += rows[:, INDEX]
                yield rows, numbers


def _numbers(reader: SpillReader, task: QueueTask, states: QueueStates) -> Longs:
    """The number of each queue of a commit log file that is in these buckets, and one for row -1."""
    found: list[tuple[int, int]] = []
    for pos, size in reader.footer["names"][task.start : task.end].tolist():
        try:
            names = json.loads(reader.read(pos, size)) if size else []
            found += [(row, states.number(topic, queue_id)) for row, topic, queue_id in names]
        except (ValueError, TypeError) as error:
            raise StoreError("has no names of queues", path=str(reader.path), offset=pos) from error
    pairs = np.array(found, np.int64).reshape(-1, 2)
    numbers = np.full(int(pairs[:, 0].max(initial=-1)) + 2, REFUSED_NAME, np.int64)
    numbers[pairs[:, 0]] = pairs[:, 1]
    return numbers
