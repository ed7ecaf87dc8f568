"""The first stage, a task a commit log file: what its live records are dispatched to, into scratch files.

    keys-NNNNNN     records and their keys in the order of the log, in chunks
    units-NNNNNN    dispatches in the order of the log, in chunks, each by bucket; and the queues' names

What is live is judged in a file alone (`scan.log.live`), as everywhere, so that no task needs to know of
another. Of records without keys only those are kept that an index file can be made for: the first, and each
behind one with keys. A queue belongs to one bucket in all files.

Memory: that of a walk on two threads, and some 64 MiB.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Container
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from rocketfsck.common.budget import within
from rocketfsck.formats.dtypes import Longs
from rocketfsck.pipeline.rebuild.places import COLUMN_SIZE, SpillWriter
from rocketfsck.progress import part
from rocketfsck.repair.build.queuestates import Name, QueueStates, RawNames
from rocketfsck.repair.build.run import RebuildOptions
from rocketfsck.repair.build.walk import LogWalked, walk_log
from rocketfsck.scan.units import BASE, FLAGS, INDEX, INNER, QUEUE, REFUSED_NAME, ROW_SIZE, KeyRows, rows_from
from rocketfsck.store.model import MappedFile, Store

BUCKET_COUNT = 256
CHUNK_COUNT = 1 << 17
"""Records, keys or dispatches in a chunk, or a few more."""

SCAN_THREADS = 2
"""Of a task. More than one, since a walk in pieces costs a third less than one alone
(`scan.threads.pieces`)."""

KEY_COLUMNS = 4
"""offset and time of a record; hash of a key, and the row of its record in the chunk."""

NO_COUNTS = np.zeros(BUCKET_COUNT, np.int64)


@dataclass(frozen=True, slots=True)
class Building:
    """What all tasks share: the store, what is built of it, and two directories that all workers see.

    In `scratch` are scratch files, in `parts` parts of the result. No keys of records before `first_offset`.
    """

    store: Store
    options: RebuildOptions
    scratch: str
    parts: str
    first_offset: int | None = None


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """One commit log file, by its number."""

    building: Building
    number: int
    file: MappedFile


@dataclass(frozen=True, slots=True)
class SegmentRead:
    """What a commit log file holds.

    Of the index: `record_count` records from the offset asked for on, `key_count` keys; `row_count` records
    were put by, `ends_keyed` says whether the last one has keys. Of queues: dispatches and queues by bucket,
    dispatches to names that no directory can have, topics of inner batches.
    """

    number: int
    walked: LogWalked
    record_count: int = 0
    key_count: int = 0
    row_count: int = 0
    ends_keyed: bool = False
    unit_counts: Longs = field(default_factory=lambda: NO_COUNTS)
    queue_counts: Longs = field(default_factory=lambda: NO_COUNTS)
    refused_count: int = 0
    inner_topics: frozenset[str] = frozenset()


def spill_path(scratch: str, what: Literal["keys", "units"], number: int) -> Path:
    """Where the keys, or the dispatches, of a commit log file are."""
    return Path(scratch) / f"{what}-{number:06d}"


def bucket_of(name: Name) -> int:
    """The bucket of a queue."""
    topic, queue_id = name
    return zlib.crc32(f"{topic}/{queue_id}".encode("utf-8", "surrogatepass")) % BUCKET_COUNT


def read_segment(task: SegmentTask) -> SegmentRead:
    """The kernel. Raises StoreError where the file cannot be read or a scratch file cannot be written."""
    building, number = task.building, task.number
    options, scratch = building.options, building.scratch
    store = replace(building.store, commitlog=replace(building.store.commitlog, files=(task.file,)))
    with ExitStack() as stack:
        units = keys = None
        if options.queues:
            units = stack.enter_context(UnitSpill(spill_path(scratch, "units", number), options.wanted))
        if options.index:
            keys = stack.enter_context(KeySpill(spill_path(scratch, "keys", number), building.first_offset))
        with part(task.file.size), within(jobs=SCAN_THREADS):
            walked = walk_log(store, units=units, keys=keys)
        found = SegmentRead(number, walked)
        if keys is not None:
            keys.finish()
            found = replace(
                found,
                record_count=keys.record_count,
                key_count=keys.key_count,
                row_count=keys.row_count,
                ends_keyed=keys.ends_keyed,
            )
        if units is not None:
            units.finish()
            found = replace(
                found,
                unit_counts=units.counts,
                queue_counts=units.queue_counts,
                refused_count=units.refused_count,
                inner_topics=frozenset(units.inner_topics),
            )
        return found


class KeySpill(SpillWriter):
    """Takes keys and puts them by."""

    def __init__(self, path: Path, from_offset: int | None) -> None:
        super().__init__(path)
        self.record_count = self.key_count = self.row_count = 0
        self.ends_keyed = True  # of the file before: unknown, and then the first record is kept
        self._from_offset = from_offset
        self._rows: list[KeyRows] = []
        self._waiting = [0, 0]  # records and keys in `_rows`
        self._chunks: list[tuple[int, int]] = []
        self._columns: list[tuple[int, int, int]] = []

    def take_keys(self, rows: KeyRows) -> None:
        """Take the records of a batch and their keys."""
        if self._from_offset is not None and len(rows) and rows.offset[0] < self._from_offset:
            rows = rows_from(rows, self._from_offset)
        if not len(rows):
            return
        self.record_count += len(rows)
        kept = np.zeros(len(rows) + 1, np.bool_)
        kept[rows.key_record] = True
        ends_keyed = bool(kept[len(rows) - 1])
        kept[1:] |= kept[:-1]
        kept[0] |= self.ends_keyed
        self.ends_keyed = ends_keyed
        kept = kept[:-1]
        if not kept.all():
            places = np.cumsum(kept, dtype=np.int32) - np.int32(1)
            rows = KeyRows(rows.offset[kept], rows.time[kept], rows.key_hash, places[rows.key_record])
        if not len(rows):
            return
        self._rows.append(rows)
        self._waiting[0] += len(rows)
        self._waiting[1] += len(rows.key_hash)
        if max(self._waiting) >= CHUNK_COUNT:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        rows, (row_count, key_count) = self._rows, self._waiting
        starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        columns = (
            [one.offset for one in rows],
            [one.time for one in rows],
            [one.key_hash.astype(np.int64) for one in rows],
            [one.key_record + start for one, start in zip(rows, starts[:-1], strict=True)],
        )
        self._columns += [self.column(np.concatenate(column)) for column in columns]
        self._chunks.append((row_count, key_count))
        self.row_count += row_count
        self.key_count += key_count
        self._rows, self._waiting = [], [0, 0]

    def finish(self) -> None:
        """Write what is left; the file is there then."""
        self._flush()
        self.publish({
            "chunks": np.array(self._chunks, np.int64).reshape(-1, 2),
            "columns": np.array(self._columns, np.int64).reshape(-1, KEY_COLUMNS, COLUMN_SIZE),
        })  # fmt: skip


class UnitSpill(SpillWriter):
    """Takes dispatches and puts them by, apart by bucket. `counts` are those of the buckets; `queue_counts`,
    how many queues each has, is there when the file is."""

    def __init__(self, path: Path, wanted: Container[Name] | None) -> None:
        super().__init__(path)
        self.counts = np.zeros(BUCKET_COUNT, np.int64)
        self.queue_counts = NO_COUNTS
        self.refused_count = 0
        self.inner_topics: set[str] = set()
        self._states = QueueStates(wanted, frozenset())
        self._buckets = np.zeros(0, np.uint8)
        self._rows: list[Longs] = []
        self._waiting = 0
        self._starts: list[Longs] = []
        self._columns: list[tuple[int, int, int]] = []

    def take_units(self, rows: Longs, table: int, raw_names: RawNames, name_count: int) -> None:
        """Take the dispatches of a batch."""
        known = self._states.numbers_of(table, raw_names, name_count)
        numbers = known[rows[:, QUEUE]]
        self.refused_count += int(np.count_nonzero(numbers == REFUSED_NAME))
        kept = numbers >= 0
        if not kept.all():
            rows, numbers = rows[kept], numbers[kept]
        if not len(rows):
            return
        inner = (rows[:, FLAGS] & INNER) != 0
        if inner.any():
            topics = np.unique(numbers[inner]).tolist()
            self.inner_topics |= {self._states.names[number][0] for number in topics}
        rows[:, QUEUE] = numbers
        rows[:, BASE] -= rows[:, INDEX]  # mostly the same
        self._rows.append(rows)
        self._waiting += len(rows)
        if self._waiting >= CHUNK_COUNT:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        names = self._states.names
        if len(self._buckets) < len(names):
            new = [bucket_of(name) for name in names[len(self._buckets) :]]
            self._buckets = np.concatenate((self._buckets, np.array(new, np.uint8)))
        rows = np.concatenate(self._rows)
        buckets = self._buckets[rows[:, QUEUE]]
        rows = rows[np.argsort(buckets, kind="stable")]
        counts = np.bincount(buckets, minlength=BUCKET_COUNT)
        self.counts += counts
        self._starts.append(np.concatenate(([0], np.cumsum(counts))))
        self._columns += [self.column(rows[:, column]) for column in range(ROW_SIZE)]
        self._rows, self._waiting = [], 0

    def finish(self) -> None:
        """Write what is left, and the names by bucket; the file is there then."""
        self._flush()
        ordered = sorted(
            enumerate(self._states.names[: len(self._buckets)]), key=lambda one: self._buckets[one[0]]
        )
        starts = np.searchsorted(np.sort(self._buckets), np.arange(BUCKET_COUNT + 1))
        self.queue_counts = np.diff(starts)
        places = []
        for bucket in range(BUCKET_COUNT):
            names = [(number, *name) for number, name in ordered[starts[bucket] : starts[bucket + 1]]]
            text = json.dumps(names).encode("ascii") if names else b""
            places.append((self.write(text), len(text)))
        self.publish({
            "starts": np.array(self._starts, np.int64).reshape(-1, BUCKET_COUNT + 1),
            "columns": np.array(self._columns, np.int64).reshape(-1, ROW_SIZE, COLUMN_SIZE),
            "names": np.array(places, np.int64),
        })  # fmt: skip
