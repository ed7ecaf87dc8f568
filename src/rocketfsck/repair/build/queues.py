"""Consume queues from the commit log alone, as the broker's dispatcher would write them.

A unit is at its record's own queueOffset; where the log has lost records, pre-blank units keep their places
(a broker treats an empty unit as the queue's end). Of records with one queue offset the first counts, as at
dispatch. What the log does not tell: the filter bit maps of consumequeue_ext, and units of records that have
expired. Reference 2.13, 3, 8.

Memory: that of the walk, 64 MiB of units, and some 200 bytes a queue.

Units on their way into files: collected, put together by queue, written in as few pieces as possible.

    consumequeue/<topic>/<queueId>/         offset size tagsCode
    batchconsumequeue/<topic>/<queueId>/    offset size tagsCode storeTime msgBaseOffset batchSize -1 0
    consumequeue_ext/<topic>/<queueId>/     20 tagsCode storeTime 0

The directories of the last MAX_OPEN topics are kept open, so that a file is reached from its topic on and not
from the root. Memory: MAX_UNITS units. Reference 3.1, 3.6, 3.7.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rocketfsck.common.wording import count_of
from rocketfsck.formats import consumequeue, dtypes, smallfiles
from rocketfsck.progress import phase
from rocketfsck.reader.configs import loaded_topics
from rocketfsck.repair.build import files
from rocketfsck.repair.build.queuestates import Name, QueueStates, RawNames, queue_end
from rocketfsck.repair.build.walk import LogWalked, log_is_large, walk_log
from rocketfsck.repair.log import read_log_end
from rocketfsck.scan import units
from rocketfsck.scan.units import P_OFFSET, PENDING_SIZE, QUEUE, UNIT_SIZES, pack_units
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.store.reading import FileReader, named_errors
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, Root, enter_root, place_at

MAX_UNITS = 1 << 19
MAX_OPEN = 64


@dataclass(frozen=True, slots=True)
class QueueArea:
    """One kind of queue files: its directory, units in a file, the file's length in bytes."""

    kind: int
    directory: str
    file_units: int
    file_size: int

    @property
    def unit_size(self) -> int:
        return UNIT_SIZES[self.kind]


@dataclass(slots=True)
class UnitWriter:
    """Collects units of one area: whoever makes them puts their rows (`scan.units.P_…`) into
    `pending`. `newest_offset` is the highest physical offset of a unit that was written, -1 before the first.
    """

    root: Path
    area: QueueArea
    names: list[Name]
    pending: dtypes.Longs = field(default_factory=lambda: np.empty((MAX_UNITS, PENDING_SIZE), np.int64))
    newest_offset: int = -1
    _topics: dict[str, Root] = field(default_factory=dict)
    _made: set[int] = field(default_factory=set)
    _begun: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)

    def go_on(self, queue: int, following: int, path: str) -> None:
        """A queue continues with unit `following`: what the existing file `path` holds before it is copied
        when the file is made."""
        number, place = divmod(following, self.area.file_units)
        if place:
            self._begun[queue, number] = path, place * self.area.unit_size

    def flush(self, count: int) -> None:
        """Write the first `count` units of `pending`. Raises StoreError if a file cannot be written."""
        if not count:
            return
        area, size = self.area, self.area.unit_size
        units, runs = pack_units(self.pending[:count], area.kind, area.file_units)
        self.newest_offset = max(self.newest_offset, int(self.pending[:count, P_OFFSET].max()))
        data = units.view(np.uint8).data
        for queue, place, start, end, time in runs.tolist():
            self.write(queue, place, data[size * start : size * end], time)

    def fill(self, queue: int, start: int, end: int, unit: bytes, timestamp: int | None) -> None:
        """Write the same unit at the places `start:end`."""
        per_file = self.area.file_units
        while start < end:
            stop = min(end, (start // per_file + 1) * per_file)
            self.write(queue, start, unit * (stop - start), timestamp)
            start = stop

    def write(self, queue: int, first: int, data: memoryview | bytes, timestamp: int | None) -> None:
        """Write units that follow one another in one file."""
        number, place = divmod(first, self.area.file_units)
        file = self.place_of(queue, number)
        before = self._begun.pop((queue, number), None)
        if before is not None:
            with FileReader(before[0]) as reader:
                files.write_part(file, reader.read(0, before[1]), 0, self.area.file_size, timestamp)
        files.write_part(file, data, place * self.area.unit_size, self.area.file_size, timestamp)

    def place_of(self, queue: int, number: int) -> ConfinedPlace:
        """The file of a queue by its number in the stream; its directory is made."""
        topic, queue_id = self.names[queue]
        root = self._topics.get(topic) or self._enter(topic)
        if queue not in self._made:
            files.make_new_directory(root / str(queue_id))
            self._made.add(queue)
        return root / f"{queue_id}/{smallfiles.offset_to_filename(number * self.area.file_size)}"

    def _enter(self, topic: str) -> Root:
        """A topic's directory, made if need be and opened. Raises StoreError."""
        place = place_at(self.root) / self.area.directory / topic
        files.make_new_directory(place)
        if len(self._topics) >= MAX_OPEN:
            self._topics.pop(next(iter(self._topics))).close()
        with named_errors(place, "cannot be opened"):
            root = self._topics[topic] = enter_root(place)
        return root


EXT_UNIT_SIZE = units.UNIT_SIZES[units.EXT]
FLUSH_COUNT = 1 << 16
UNITS_A_WRITE = 64
MAX_GAPS = 1000
"""Gaps of a queue that are listed one by one."""
EXT_END_SIZE = 4


class QueueBuilder:
    """Takes the dispatches of the log and writes the queues' files below `root`."""

    def __init__(
        self,
        store: Store,
        root: Path,
        wanted: Container[Name] | None,
        batch_topics: frozenset[str],
    ) -> None:
        geometry, dialect = store.geometry, store.dialect
        self.root = root
        self.states = QueueStates(wanted, batch_topics)
        self._compiled = log_is_large(store)
        names = self.states.names
        plain_size, batch_size = geometry.consumequeue_file_size, geometry.batch_file_size
        ext_units = max(geometry.ext_file_size - EXT_END_SIZE, 0) // EXT_UNIT_SIZE
        self.has_ext = writes_ext(store) and ext_units > 0
        areas = (
            QueueArea(units.PLAIN, "consumequeue", plain_size // consumequeue.UNIT_SIZE, plain_size),
            QueueArea(
                units.BATCH, "batchconsumequeue", batch_size // consumequeue.BATCH_UNIT_SIZE, batch_size
            ),
            QueueArea(units.EXT, "consumequeue_ext", ext_units, geometry.ext_file_size),
        )
        self.plain, self.batch, self.ext = (UnitWriter(root, area, names) for area in areas)
        self._pending = (self.plain.pending, self.batch.pending, self.ext.pending)
        self._counts = np.zeros(3, np.int64)
        self._how = np.array(
            [
                dialect.skips_units_below_current,
                dialect.max_physic_offset_is_end,
                self.plain.area.file_units,
                ext_units if self.has_ext else 0,
                geometry.ext_file_size,
            ],
            np.int64,
        )
        self.refused_count = 0
        self.gaps: dict[int, list[files.QueueGap]] = {}
        self.gap_counts: dict[int, int] = {}
        self._begins: dict[int, int] = {}

    def take_units(self, rows: dtypes.Longs, table: int, raw_names: RawNames, name_count: int) -> None:
        """Place the units of a batch of records. Raises StoreError if files cannot be written."""
        self.take_rows(rows, self.states.numbers_of(table, raw_names, name_count))

    def take_rows(self, rows: dtypes.Longs, numbers: dtypes.Longs) -> None:
        """The same where the numbers of the queues are known already (`units.place_units`)."""
        for start in range(0, len(rows), MAX_UNITS):
            self._take(rows[start : start + MAX_UNITS], numbers)

    def _take(self, rows: dtypes.Longs, numbers: dtypes.Longs) -> None:
        waiting = int(self._counts.max())
        if waiting + len(rows) > MAX_UNITS or waiting >= self._flush_count():
            self.flush()
        if (numbers == units.REFUSED_NAME).sum() > 1 or (rows[:, QUEUE] < 0).any():
            refused = numbers[rows[:, QUEUE]] == units.REFUSED_NAME
            self.refused_count += int(np.count_nonzero(refused))
        gaps = np.empty((len(rows), units.GAP_SIZE), np.int64)
        count = units.place_units(
            rows,
            numbers,
            self.states.values,
            self._how,
            self._pending,
            self._counts,
            gaps,
            compiled=self._compiled,
        )
        for number, start, end, time, kind in gaps[:count].tolist():
            self.plain.fill(number, start, end, consumequeue.PRE_BLANK_UNIT, time)
            if kind == units.HOLE:
                self.gap_counts[number] = self.gap_counts.get(number, 0) + 1
                stated = self.gaps.setdefault(number, [])
                if len(stated) < MAX_GAPS:
                    stated.append(files.QueueGap(start, end))

    def _flush_count(self) -> int:
        """Units to collect before they are written: so few that they are still near the processor, and that
        the scan need not wait for their writing; more where many queues share them."""
        return min(max(FLUSH_COUNT, UNITS_A_WRITE * len(self.states.names)), MAX_UNITS)

    def go_on_behind(self, store: Store) -> None:
        """Begin where the store's own queues end: what they have is not put again. Raises StoreError."""
        end = read_log_end(store)
        self.go_on_behind_queues(store.queues, 0 if end is None else end.end_offset)

    def go_on_behind_queues(self, queues: Iterable[ConsumeQueue], log_end_offset: int) -> None:
        """Begin where these queues end, of a log that ends at an offset. Raises StoreError."""
        for queue in queues:
            number = self.states.number(queue.topic, queue.queue_id)
            found = queue_end(queue, log_end_offset)
            if number < 0 or found is None:
                continue
            values = self.states.values[number]
            is_batch = queue.kind == "batch"
            values[units.IS_BATCH] = is_batch
            values[units.FOLLOWING] = found.following
            reach_is_end = self._how[units.REACH_IS_END] and not is_batch
            values[units.REACHED] = found.record_end if reach_is_end else found.record_offset
            values[units.LAST_END] = found.record_end
            values[units.FIRST] = values[units.TAIL] = found.queue_offset
            self._begins[number] = found.following
            (self.batch if is_batch else self.plain).go_on(number, found.following, found.last_file)

    def save(self) -> dict[str, Any]:
        """Write all units; the state as JSON values, for `load`."""
        self.flush()
        count = len(self.states.names)
        return {
            "names": list(self.states.names),
            "values": self.states.values[:count].tolist(),
            "refused": self.refused_count,
            "gaps": [(number, gap.start, gap.end) for number, stated in self.gaps.items() for gap in stated],
            "gap_counts": list(self.gap_counts.items()),
            "begins": list(self._begins.items()),
            "newest": [self.plain.newest_offset, self.batch.newest_offset],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; the files are as they were when it was saved, or further."""
        for (topic, queue_id), values in zip(state["names"], state["values"], strict=True):
            self.states.values[self.states.number(topic, queue_id)] = values
        self.refused_count = state["refused"]
        for number, start, end in state["gaps"]:
            self.gaps.setdefault(number, []).append(files.QueueGap(start, end))
        self.gap_counts = dict(state["gap_counts"])
        self._begins = dict(state["begins"])
        self.plain.newest_offset, self.batch.newest_offset = state["newest"]

    def flush(self) -> None:
        """Write all units that are collected."""
        for writer in (self.plain, self.batch, self.ext):
            writer.flush(int(self._counts[writer.area.kind]))
        self._counts[:] = 0

    @property
    def record_count(self) -> int:
        """Records that were dispatched to queues that are built."""
        return int(self.states.values[: len(self.states.names), units.RECORDS].sum())

    @property
    def newest_offset(self) -> int:
        """The physical offset of the newest record with a unit that was written; -1 for none."""
        return max(self.plain.newest_offset, self.batch.newest_offset)

    @property
    def found_batch_topics(self) -> frozenset[str]:
        """Topics of inner batches that were not known to have batch queues."""
        saw = self.states.values[: len(self.states.names), units.SAW_INNER]
        return frozenset(self.states.names[number][0] for number in np.flatnonzero(saw).tolist())

    def finish(self) -> tuple[files.BuiltQueue, ...]:
        """Write what is left; what every queue became, by topic and queueId."""
        self.flush()
        found = [self._finished(number) for number in range(len(self.states.names))]
        return tuple(sorted(filter(None, found), key=lambda queue: (queue.topic, queue.queue_id, queue.kind)))

    def _finished(self, number: int) -> files.BuiltQueue | None:
        values = self.states.values[number]
        topic, queue_id = self.states.names[number]
        following = int(values[units.FOLLOWING])
        self.refused_count += int(values[units.REFUSED])
        is_batch = bool(values[units.IS_BATCH])
        ext_count = int(values[units.EXT_UNITS])
        self._end_ext_files(number, ext_count)
        begin = self._begins.get(number)
        if following < 0 or begin == following:
            return None
        writer = self.batch if is_batch else self.plain
        per_file = writer.area.file_units
        first = int(values[units.FIRST])
        first_file = begin // per_file if begin is not None else 0 if is_batch else first // per_file
        end_file = -(-following // per_file)
        if int(values[units.OPENED]) == following and following % per_file == 0:
            # A put that was skipped had found the last file full, and made the next one.
            writer.fill(number, following, following + 1, bytes(writer.area.unit_size), None)
            end_file += 1
        return files.BuiltQueue(
            topic,
            queue_id,
            "batch" if is_batch else "file",
            first,
            int(values[units.TAIL]),
            int(values[units.UNITS]),
            end_file - first_file,
            duplicate_count=int(values[units.DUPLICATES]),
            misplaced_count=int(values[units.MISPLACED]),
            gap_count=self.gap_counts.get(number, 0),
            gaps=tuple(self.gaps.get(number, ())),
            ext_unit_count=ext_count,
        )

    def _end_ext_files(self, number: int, count: int) -> None:
        """Mark the ends of the full ext files in front of the last one."""
        area = self.ext.area
        used = area.file_units * EXT_UNIT_SIZE
        mark = consumequeue.EXT_END_MARK[: area.file_size - used]
        for file in range((count - 1) // area.file_units if count else 0):
            place = self.ext.place_of(number, file)
            stamp = fileops.status_of(place).st_mtime_ns // 1_000_000
            files.write_part(place, mark, used, area.file_size, stamp)

    def forget(self) -> None:
        """Delete the files of a pass that took queues for another kind than they are."""
        for writer in (self.plain, self.batch, self.ext):
            for topic, queue_id in self.states.names:
                directory = self.root / writer.area.directory / topic / str(queue_id)
                fileops.remove_tree(place_at(directory))
                with suppress(OSError):  # the topic has other queues, or none
                    fileops.remove_directory(place_at(directory.parent))


def writes_ext(store: Store) -> bool:
    """Whether the broker writes consumequeue_ext: its setting, or else that the store has it."""
    return store.settings.flag("enableConsumeQueueExt", bool(store.ext_queues))


def batch_topics_of(store: Store) -> frozenset[str]:
    """Topics that are known to have batch queues before the log is read: by their queues or by topics.json.

    A topics.json that a broker does not load tells nothing.
    """
    found = {queue.topic for queue in store.queues if queue.kind == "batch"}
    topics = loaded_topics(store) or {}
    found |= {name for name, topic in topics.items() if topic.attributes.get("queue.type") == "BatchCQ"}
    return frozenset(found)


def build_queues(
    store: Store,
    into: Path,
    *,
    queues: Collection[tuple[str, int]] | None = None,
) -> files.QueueBuild:
    """Write consumequeue/, batchconsumequeue/ and consumequeue_ext/ of the store below `into`.

    `queues` are the queues to build (topic, queueId), None for all. Nothing but files of queues is written,
    none outside `into`, which may exist and holds none of them yet. Raises StoreError where the log cannot be
    read or a file cannot be written.
    """
    wanted = None if queues is None else frozenset(queues)
    batch_topics = batch_topics_of(store)
    with phase("building the consume queues"), files.opened(into) as above:
        root = Path(above) / into.name
        files.make_directory(root)
        while True:
            builder = QueueBuilder(store, root, wanted, batch_topics)
            walked = walk_log(store, units=builder)
            found = builder.found_batch_topics
            if not found:
                return queue_build(builder, walked)
            # The log shows inner batches where none were expected: their topics' queues have the other kind.
            batch_topics |= found
            builder.forget()


def queue_build(builder: QueueBuilder, walked: LogWalked) -> files.QueueBuild:
    """Write what is left, and say what was built."""
    with phase("writing the consume queues"):
        built = builder.finish()
    return queues_built(built, builder.record_count, builder.refused_count, builder.has_ext, walked)


def queues_built(
    built: Sequence[files.BuiltQueue], record_count: int, refused_count: int, has_ext: bool, walked: LogWalked
) -> files.QueueBuild:
    """What is to be said of these queues."""
    notes = [f"{file} is damaged: records in its broken parts have no units" for file in walked.damaged_files]
    if walked.unfollowed_count:
        notes.append(f"{count_of(walked.unfollowed_count, 'record')} beyond the limit of queues left out")
    return files.QueueBuild(
        tuple(built),
        record_count,
        sum(queue.unit_count for queue in built),
        refused_count,
        has_ext,
        tuple(notes),
    )
