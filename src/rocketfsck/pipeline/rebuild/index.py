"""Index files as ranges of the log's keys: numbered by prefix sums, each made by a task of its own.

    file 0       keys 0 … R of the log, R what the first file has room for
    file n       the P keys that follow, P what a whole file has room for; the last one less
    last file    without a key, where a record follows the last key of a full one

All that a file needs of the one before is the last key's record: the file's header begins with it, and its
first entry's timeDiff counts from there. A file is made when the next record comes, with keys or without: its
time is the file's own, which its name may depend on. `IndexBuilder` does the rest. Reference 4.2 to 4.6.

Memory: 4 bytes a slot, 1 MiB of entries, and some 20 MiB for a chunk.

Consume queues by buckets: each task makes all queues of some buckets, from the dispatches put by.

A queue's units depend on its own dispatches alone, in the order of the log; they are all in one bucket.
`QueueBuilder` does the work; what it writes is put together by renaming directories of queues.

Memory: 64 MiB of units, some 40 MiB for a chunk, and 200 bytes a queue.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats.dtypes import Longs
from rocketfsck.formats.indexfile import IndexHeader
from rocketfsck.pipeline.rebuild.places import SpillReader, Take, attempt_directory, publish
from rocketfsck.pipeline.rebuild.segment import BUCKET_COUNT, Building, SegmentRead, bucket_of, spill_path
from rocketfsck.repair.build.files import BuiltIndexFile, BuiltQueue, make_directory
from rocketfsck.repair.build.index import IndexBuilder
from rocketfsck.repair.build.queues import QueueBuilder, batch_topics_of
from rocketfsck.repair.build.queuestates import QueueStates
from rocketfsck.repair.log import read_log_end
from rocketfsck.scan.units import BASE, INDEX, REFUSED_NAME, ROW_SIZE, KeyRows
from rocketfsck.store.model import ConsumeQueue, Store

GROUPS_A_JOB = 3
"""Tasks for each that runs at once: the longest is not long, and a lost one is soon done again."""


@dataclass(frozen=True, slots=True)
class QueueTask:
    """The queues of the buckets `start:end`: `unit_count` units at most, of at least `queue_count` queues.

    `segments` are the numbers of the commit log files that have dispatches. Of queues that go on behind what
    the store has of them, `queues` are those of these buckets; `log_end_offset` is for them.
    """

    building: Building
    segments: tuple[int, ...]
    batch_topics: frozenset[str]
    start: int
    end: int
    queues: tuple[ConsumeQueue, ...]
    log_end_offset: int
    unit_count: int
    queue_count: int


@dataclass(frozen=True, slots=True)
class QueuePart:
    """Queues that were made, below the directory `path`; `newest_offset` as `QueueBuilder` has it."""

    queues: tuple[BuiltQueue, ...]
    record_count: int
    refused_count: int
    path: str
    newest_offset: int


def plan_queues(
    building: Building, store: Store, segments: Sequence[SegmentRead], job_count: int
) -> list[QueueTask]:
    """Buckets in groups of about the same number of dispatches. `store` is all of it."""
    going_on = store.queues if building.options.only_missing else ()
    log_end = read_log_end(store) if going_on else None
    log_end_offset = 0 if log_end is None else log_end.end_offset
    numbers = tuple(segment.number for segment in segments if segment.unit_counts.any())
    batch_topics = batch_topics_of(store).union(*(segment.inner_topics for segment in segments))
    counts, queue_counts = np.zeros((2, BUCKET_COUNT), np.int64)
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
        queues = tuple(one for one in going_on if start <= bucket_of((one.topic, one.queue_id)) < end)
        sizes = int(counts[start:end].sum()), int(queue_counts[start:end].sum())
        tasks.append(QueueTask(building, numbers, batch_topics, start, end, queues, log_end_offset, *sizes))
    return tasks


def build_queue_part(task: QueueTask) -> QueuePart:
    """The kernel. Raises StoreError."""
    shared, name = task.building, f"queues-{task.start:03d}"
    with attempt_directory(shared.parts, name) as directory:
        root = directory / name
        make_directory(root)
        builder = QueueBuilder(shared.store, root, shared.options.wanted, task.batch_topics)
        builder.go_on_behind_queues(task.queues, task.log_end_offset)
        for number in task.segments:
            for rows, numbers in _queue_rows(task, number, builder.states):
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


def _queue_rows(task: QueueTask, segment: int, states: QueueStates) -> Iterator[tuple[Longs, Longs]]:
    """The dispatches of a commit log file, in chunks, and the numbers that their queues have here."""
    with SpillReader(spill_path(task.building.scratch, "units", segment)) as reader:
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


@dataclass(frozen=True, slots=True)
class SegmentKeys:
    """Keys of one commit log file: its number, how many keys are before it in the log."""

    number: int
    key_start: int


@dataclass(frozen=True, slots=True)
class IndexTask:
    """One index file: its number, its keys `start:end` of the whole log, and where they are.

    The first of `segments` holds key `start` - 1, if there is one.
    """

    building: Building
    number: int
    start: int
    end: int
    segments: tuple[SegmentKeys, ...]


@dataclass(frozen=True, slots=True)
class IndexPart:
    """An index file without its name. `created_timestamp` is that of the record it was made for."""

    number: int
    file: BuiltIndexFile
    created_timestamp: int
    path: str


def plan_index(building: Building, builder: IndexBuilder, segments: Sequence[SegmentRead]) -> list[IndexTask]:
    """The index files there will be, as the builder begins. `segments` are in the order of the log."""
    filled = [segment for segment in segments if segment.row_count]
    if not filled:
        return []
    starts = [0, *accumulate(segment.key_count for segment in filled)]
    total = starts.pop()
    room_before, file_room = builder.room_before, builder.file_room
    if not total and room_before is not None:
        return []
    first_room = file_room if room_before is None else room_before
    bounds = [0, *range(first_room, total, file_room), total] if total else [0, 0]
    is_full = total >= first_room and (total - first_room) % file_room == 0
    if is_full and not filled[-1].ends_keyed:
        bounds.append(total)
    tasks = []
    for number, (start, end) in enumerate(pairwise(bounds)):
        low = bisect_right(starts, start - 1) - 1 if start else 0
        high = bisect_right(starts, end - 1) if end > start else len(filled)
        parts = zip(filled[low:high], starts[low:high], strict=True)
        keys = tuple(SegmentKeys(segment.number, key_start) for segment, key_start in parts)
        tasks.append(IndexTask(building, number, start, end, keys))
    return tasks


def build_index_part(task: IndexTask) -> IndexPart:
    """The kernel. Raises StoreError."""
    shared, name = task.building, f"index-{task.number:06d}"
    options = shared.options
    first: dict[str, Any] = {"from_offset": options.from_offset, "only_missing": options.only_missing}
    if task.number:
        first = {"state": _state_behind(_header_before(task))}
    with attempt_directory(shared.parts, name) as directory:
        builder = IndexBuilder(shared.store, directory, names=[name], **first)
        created = None
        for rows in _rows(task):
            created = int(rows.time[0]) if created is None else created
            builder.take_keys(rows)
        builder.finish()
        if len(builder.files) != 1 or created is None:
            raise _too_little(task)
        file = builder.files[0]
        path = publish(directory / file.name, Path(shared.parts) / name)
    return IndexPart(task.number, file, created, str(path))


def take_index(builder: IndexBuilder, parts: Sequence[IndexPart], take: Take) -> list[BuiltIndexFile]:
    """Give the files their names, in the builder's directory. Raises StoreError."""
    continues = builder.room_before is not None
    files = []
    for part in sorted(parts, key=lambda part: part.number):
        file, number = part.file, part.number
        if number or not continues:
            name = builder.names.name(number, file.begin_physical_offset, part.created_timestamp)
            file = replace(file, name=name)
        builder.names.last = file.name
        make_directory(builder.directory)
        take(Path(part.path), builder.directory / file.name)
        files.append(file)
    return files


def _state_behind(before: IndexHeader) -> dict[str, Any]:
    """The state (`IndexBuilder.save`) of a builder behind a full file."""
    return {
        "files": [],
        "records": 0,
        "entries": 0,
        "last_name": None,
        "end": asdict(before),
        "is_before": False,
        "current": None,
    }


def _header_before(task: IndexTask) -> IndexHeader:
    """What the end of the file before says of its last key."""
    for start, rows in _chunks(task):
        row = int(rows.key_record[task.start - 1 - start])
        return IndexHeader(end_timestamp=int(rows.time[row]), end_physical_offset=int(rows.offset[row]))
    raise _too_little(task)


def _too_little(task: IndexTask) -> StoreError:
    scratch = Path(task.building.scratch)
    return StoreError("does not hold as much as an earlier step counted", path=str(scratch))


def _rows(task: IndexTask) -> Iterator[KeyRows]:
    """The records and keys of the file: from the record behind the key before to that of the last key."""
    for start, rows in _chunks(task):
        row, key = 0, 0
        if start < task.start:
            key = task.start - start
            row = int(rows.key_record[key - 1])
            if key == len(rows.key_hash) or rows.key_record[key] != row:
                row += 1
        last_row, last_key = len(rows), len(rows.key_hash)
        is_last = task.start < task.end <= start + last_key
        if is_last:
            last_key = task.end - start
            last_row = int(rows.key_record[last_key - 1]) + 1
        if row < last_row:
            if task.start == task.end:
                last_row, is_last = row + 1, True
            records = rows.key_record[key:last_key] - np.int32(row)
            yield KeyRows(
                rows.offset[row:last_row], rows.time[row:last_row], rows.key_hash[key:last_key], records
            )
        if is_last:
            return


def _chunks(task: IndexTask) -> Iterator[tuple[int, KeyRows]]:
    """The chunks from that of the key before the file's first on, each with the number of its first key."""
    for segment in task.segments:
        start = segment.key_start
        with SpillReader(spill_path(task.building.scratch, "keys", segment.number)) as reader:
            sizes, columns = reader.footer["chunks"].tolist(), reader.footer["columns"]
            for (row_count, key_count), (offset, time, hashes, records) in zip(sizes, columns, strict=True):
                if start + key_count >= task.start:
                    rows = reader.column(offset, 0, row_count), reader.column(time, 0, row_count)
                    keys = (reader.column(one, 0, key_count).astype(np.int32) for one in (hashes, records))
                    yield start, KeyRows(*rows, *keys)
                start += key_count
