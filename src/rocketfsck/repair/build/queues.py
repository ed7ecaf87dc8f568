"""Consume queues from the commit log alone, as the broker's dispatcher would write them.

A unit stands at its record's own queueOffset; where the log has lost records, pre-blank units keep their
places (a broker takes an empty unit for the queue's end). Of records with one queue offset the first counts,
as at dispatch. What the log does not tell: the filter bit maps of consumequeue_ext, and units of records that
have expired. Reference 2.13, 3, 8.

Memory: that of the walk, 40 MiB of units, and some 100 bytes a queue.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats.consumequeue import EXT_END_MARK, PRE_BLANK_UNIT
from rocketfsck.formats.javatext import INT64_MIN
from rocketfsck.repair.build.files import make_directory
from rocketfsck.repair.build.model import BuiltQueue, QueueBuild, QueueGap
from rocketfsck.repair.build.queuestates import REFUSED, Longs, Name, QueueStates, wanted_queues
from rocketfsck.repair.build.unitwriter import BATCH, EXT, EXT_UNIT_SIZE, PLAIN, Area, UnitWriter
from rocketfsck.repair.build.walk import Progress, log_is_large, walk_log
from rocketfsck.scan import build_plain
from rocketfsck.scan.buildrows import UnitRows
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader

MAX_GAPS = 1000
"""Gaps that are told one by one, of a queue."""
EXT_END_SIZE = 4
MAX_CONFIG_SIZE = 64 << 20


class QueueBuilder:
    """Takes the dispatches of the log and writes the queues' files below `root`."""

    def __init__(
        self, store: Store, root: Path, wanted: frozenset[Name] | None, batch_topics: frozenset[str]
    ) -> None:
        geometry, self.dialect = store.geometry, store.dialect
        self.root = root
        self.compiled = log_is_large(store)
        self.states = QueueStates(wanted, batch_topics)
        names = self.states.names
        plain_size, batch_size = geometry.consumequeue_file_size, geometry.batch_file_size
        self.plain = UnitWriter(root, Area("consumequeue", PLAIN, plain_size // 20, plain_size), names)
        self.batch = UnitWriter(root, Area("batchconsumequeue", BATCH, batch_size // 46, batch_size), names)
        self.ext_file_size = geometry.ext_file_size
        ext_units = max(geometry.ext_file_size - EXT_END_SIZE, 0) // EXT_UNIT_SIZE
        self.ext: UnitWriter | None = None
        if writes_ext(store) and ext_units:
            area = Area("consumequeue_ext", EXT, ext_units, geometry.ext_file_size)
            self.ext = UnitWriter(root, area, names)
        self.found_batch_topics: set[str] = set()
        self.record_count = self.refused_count = 0
        self.gaps: dict[int, list[QueueGap]] = {}
        self.gap_counts: dict[int, int] = {}
        self._open_times: dict[int, int] = {}

    def take_units(self, rows: UnitRows, table: QueueTable) -> None:
        """Place the units of a batch of records. Raises StoreError if files cannot be written."""
        states = self.states
        queue = states.numbers_of(rows.queue, table)
        self.record_count += int(np.count_nonzero(rows.own & (queue >= 0)))
        self.refused_count += int(np.count_nonzero(queue == REFUSED))
        if rows.inner.any():
            self._notice_batch_topics(np.unique(queue[rows.inner & (queue >= 0)]))
        count = len(rows)
        place, ext_place = np.empty(count, np.int64), np.empty(count, np.int64)
        gaps = np.empty((count, 4), np.int64)
        gap_count = self._place(queue, rows, place, ext_place, gaps)
        tags = rows.tags
        if self.ext is not None:
            tags = self._put_ext(self.ext, queue, rows, ext_place)
        self._put_gaps(gaps[:gap_count], rows)
        is_batch = states.values[np.maximum(queue, 0), build_plain.IS_BATCH] != 0
        put = place >= 0
        kept = np.flatnonzero(put & ~is_batch)
        columns: dict[str, Longs | int] = {
            "offset": rows.offset[kept],
            "size": rows.size[kept],
            "tags": tags[kept],
        }
        self._pre_blank(queue[kept], place[kept])
        self.plain.add(queue[kept], place[kept], rows.time[kept], columns)
        kept = np.flatnonzero(put & is_batch)
        if len(kept):
            self.batch.add(
                queue[kept],
                place[kept],
                rows.time[kept],
                {
                    "offset": rows.offset[kept],
                    "size": rows.size[kept],
                    "tags": rows.tags[kept],
                    "time": rows.time[kept],
                    "base": rows.base[kept],
                    "count": rows.count[kept].astype(np.int16),
                    "compacted": -1,
                    "reserved": 0,
                },
            )

    def _place(self, queue: Longs, rows: UnitRows, place: Longs, ext_place: Longs, gaps: Longs) -> int:
        if self.compiled:
            from rocketfsck.scan import kernels_build

            place_units = kernels_build.place_units
        else:
            place_units = build_plain.place_units
        return place_units(
            queue,
            rows.index,
            rows.base,
            rows.count,
            rows.offset,
            rows.size,
            rows.own.astype(np.int64),
            self.states.values,
            skips_below=self.dialect.skips_units_below_current,
            reach_is_end=self.dialect.max_physic_offset_is_end,
            with_ext=self.ext is not None,
            place=place,
            ext_place=ext_place,
            gaps=gaps,
        )

    def _notice_batch_topics(self, numbers: Longs) -> None:
        for number in numbers.tolist():
            topic = self.states.names[number][0]
            if topic not in self.states.batch_topics:
                self.found_batch_topics.add(topic)

    def _put_ext(self, ext: UnitWriter, queue: Longs, rows: UnitRows, ext_place: Longs) -> Longs:
        """Put the ext units; the tagsCodes of the rows, addresses where there is an ext unit."""
        kept = np.flatnonzero(ext_place >= 0)
        columns: dict[str, Longs | int] = {
            "unit_size": EXT_UNIT_SIZE,
            "tags": rows.tags[kept],
            "time": rows.time[kept],
            "map_size": 0,
        }
        ext.add(queue[kept], ext_place[kept], rows.time[kept], columns)
        file, number = np.divmod(ext_place[kept], ext.area.file_units)
        tags = rows.tags.copy()
        tags[kept] = file * self.ext_file_size + number * EXT_UNIT_SIZE + INT64_MIN
        return tags

    def _put_gaps(self, gaps: Longs, rows: UnitRows) -> None:
        for number, start, end, row in gaps.tolist():
            self.plain.fill(number, start, end, PRE_BLANK_UNIT, int(rows.time[row]))
            self.gap_counts[number] = self.gap_counts.get(number, 0) + 1
            told = self.gaps.setdefault(number, [])
            if len(told) < MAX_GAPS:
                told.append(QueueGap(start, end))

    def _pre_blank(self, queue: Longs, place: Longs) -> None:
        """Fill the first files of queues that do not begin at their file's start."""
        firsts = self.states.values[queue, build_plain.FIRST]
        for row in np.flatnonzero((place == firsts) & (place % self.plain.area.file_units != 0)).tolist():
            at = int(place[row])
            start = at - at % self.plain.area.file_units
            self.plain.fill(int(queue[row]), start, at, PRE_BLANK_UNIT, None)

    def finish(self) -> tuple[BuiltQueue, ...]:
        """Write what is left; what every queue became, by topic and queueId."""
        self.plain.flush()
        self.batch.flush()
        if self.ext is not None:
            self.ext.flush()
        found = [self._finished(number) for number in range(len(self.states.names))]
        return tuple(sorted(filter(None, found), key=lambda queue: (queue.topic, queue.queue_id, queue.kind)))

    def _finished(self, number: int) -> BuiltQueue | None:
        values = self.states.values[number]
        topic, queue_id = self.states.names[number]
        following = int(values[build_plain.FOLLOWING])
        self.refused_count += int(values[build_plain.REFUSED])
        is_batch = bool(values[build_plain.IS_BATCH])
        ext_count = int(values[build_plain.EXT_UNITS])
        if self.ext is not None and ext_count:
            self._end_ext_files(self.ext, number, ext_count)
        if following < 0:
            return None
        area = (self.batch if is_batch else self.plain).area
        first = int(values[build_plain.FIRST])
        first_file = 0 if is_batch else first // area.file_units
        end_file = -(-following // area.file_units)
        if int(values[build_plain.OPENED]) == following and following % area.file_units == 0:
            # A put that was skipped had found the last file full, and made the next one.
            self.plain.fill(number, following, following + 1, bytes(area.layout.itemsize), None)
            end_file += 1
        return BuiltQueue(
            topic,
            queue_id,
            "batch" if is_batch else "file",
            first,
            int(values[build_plain.TAIL]),
            int(values[build_plain.UNITS]),
            end_file - first_file,
            duplicate_count=int(values[build_plain.DUPLICATES]),
            misplaced_count=int(values[build_plain.MISPLACED]),
            gap_count=self.gap_counts.get(number, 0),
            gaps=tuple(self.gaps.get(number, ())),
            ext_unit_count=ext_count,
        )

    def _end_ext_files(self, ext: UnitWriter, number: int, count: int) -> None:
        """Mark the ends of the full ext files in front of the last one."""
        from rocketfsck.formats.filename import offset_to_filename
        from rocketfsck.repair.build.files import write_part
        from rocketfsck.repair.build.queuestates import queue_directory

        area = ext.area
        used = area.file_units * EXT_UNIT_SIZE
        mark = EXT_END_MARK[: area.file_size - used]
        directory = queue_directory(self.root, area.directory, self.states.names[number])
        for file in range((count - 1) // area.file_units):
            path = directory / offset_to_filename(file * area.file_size)
            stamp = path.stat().st_mtime_ns // 1_000_000
            write_part(path, mark, used, area.file_size, stamp)


def writes_ext(store: Store) -> bool:
    """Whether the broker writes consumequeue_ext: its setting, or else that the store has it."""
    return store.settings.flag("enableConsumeQueueExt", bool(store.ext_queues))


def batch_topics_of(store: Store) -> frozenset[str]:
    """Topics that are known to have batch queues before the log is read: by their queues or by topics.json.

    A topics.json that cannot be read tells nothing.
    """
    found = {queue.topic for queue in store.queues if queue.kind == "batch"}
    for file in store.configs:
        if file.name == "topics.json" and file.size <= MAX_CONFIG_SIZE:
            found |= _batch_topics_in(file.location)
    return frozenset(found)


def _batch_topics_in(path: str) -> set[str]:
    try:
        with FileReader(path) as reader:
            document = json.loads(reader.read(0, reader.size))
    except (StoreError, ValueError, RecursionError):
        return set()
    table = document.get("topicConfigTable") if isinstance(document, dict) else None
    configs = table.items() if isinstance(table, dict) else ()
    return {topic for topic, config in configs if _is_batch(config)}


def _is_batch(config: object) -> bool:
    attributes = config.get("attributes") if isinstance(config, dict) else None
    return isinstance(attributes, dict) and attributes.get("queue.type") == "BatchCQ"


def build_queues(
    store: Store,
    into: Path,
    *,
    queues: Collection[tuple[str, int]] | None = None,
    progress: Progress | None = None,
) -> QueueBuild:
    """Write consumequeue/, batchconsumequeue/ and consumequeue_ext/ of the store below `into`.

    `queues` are the queues to build (topic, queueId), None for all. Nothing but files of queues is written,
    none outside `into`, which may exist and holds none of them yet. Raises StoreError where the log cannot be
    read or a file cannot be written.
    """
    wanted = wanted_queues(queues)
    batch_topics = batch_topics_of(store)
    while True:
        builder = QueueBuilder(store, into, wanted, batch_topics)
        make_directory(into)
        walked = walk_log(store, units=[builder], compiled=builder.compiled, progress=progress)
        if not builder.found_batch_topics:
            break
        # The log shows inner batches where none were expected: their topics' queues are of the other kind.
        batch_topics |= builder.found_batch_topics
        _forget(builder)
    built = builder.finish()
    notes = [f"{file} is damaged: records in its broken parts have no units" for file in walked.damaged_files]
    if walked.unfollowed_count:
        notes.append(f"{walked.unfollowed_count} records name more queues than can be told apart")
    return QueueBuild(
        built,
        builder.record_count,
        sum(queue.unit_count for queue in built),
        builder.refused_count + walked.unfollowed_count,
        builder.ext is not None,
        tuple(notes),
    )


def _forget(builder: QueueBuilder) -> None:
    """Delete the files of a pass whose kinds of queues were wrong."""
    import shutil

    for writer in (builder.plain, builder.batch, builder.ext):
        if writer is not None:
            for directory in writer.directories:
                shutil.rmtree(directory, ignore_errors=True)
