"""The plain queues of a store: those that every version recovers alike, and mostly leaves as they are.

    plain := one file of the right size, a short and sound one (`reader.shortqueues`)

What starts of several versions find in them is found once, for all of them in one pass. Reference 3.3, 6.6.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.consumequeue import UNIT_SIZE
from rocketfsck.formats.filename import java_parse_long
from rocketfsck.formats.javatext import parse_int32
from rocketfsck.query.start.disk import Disk
from rocketfsck.query.start.model import QueueStart
from rocketfsck.reader.shortqueues import ShortQueues, read_short_queues
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind

QueueName = tuple[str, int]
QueueDirectory = tuple[int, str, int]
"""Number in the order of loading, topic, queueId."""
MAX_START = 1 << 62


@dataclass(frozen=True, slots=True)
class PlainQueues:
    """The plain queues among the directories of an area; arrays have an element for each.

    `order` is its number among the directories, `start` the stream position of its file, which is `entries`'.
    `others` are the directories of other queues. `rows` has a queue's element by its name.
    """

    names: tuple[QueueName, ...]
    order: Longs
    start: Longs
    entries: tuple[DirectoryEntry, ...]
    units: ShortQueues
    others: tuple[QueueDirectory, ...]
    rows: dict[QueueName, int]
    topics: frozenset[str]
    _minima: dict[tuple[bool, int], Longs] = field(default_factory=dict)
    _starts: dict[bytes, tuple[QueueStart, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def end(self) -> Longs:
        """The stream position behind each queue's last unit."""
        return self.start + self.units.count * UNIT_SIZE

    def minima(self, by_search: bool, min_physical_offset: int) -> Longs:
        """What `QueueModel.correct_min` raises `min_pos` to in a log that begins at an offset; -1: it stays.

        Offsets rise, so that the broker's search finds what is there.
        """
        known = self._minima.get((by_search, min_physical_offset))
        if known is None:
            number = self.units.first_from(min_physical_offset)
            found = self.start + number * UNIT_SIZE
            if by_search:
                known = np.where((number == 0) & (self.start == 0), 0, found)
            else:
                known = np.where(number < self.units.count, found, -1)
            self._minima[by_search, min_physical_offset] = known
        return known

    def starts(self, min_pos: Longs) -> tuple[QueueStart, ...]:
        """Each queue after a start that has changed only its minimum."""
        key = min_pos.tobytes()
        known = self._starts.get(key)
        if known is None:
            columns = (min_pos // UNIT_SIZE, self.end // UNIT_SIZE, self.units.count)
            rows = zip(self.names, *(column.tolist() for column in columns), strict=True)
            known = self._starts[key] = tuple(
                QueueStart(topic, queue_id, "file", low, end, count, 0, 0, 0, 0, 0, 0)
                for (topic, queue_id), low, end, count in rows
            )
        return known


def plain_queues(disk: Disk, area: Path | str, file_size: int) -> PlainQueues:
    """The plain queues in the directories of an area whose files have this size."""
    key = (os.fspath(area), file_size)
    found = disk.kept.get(key)
    if found is None:
        found = disk.kept[key] = _found(disk, key[0], file_size)
    assert isinstance(found, PlainQueues)
    return found


def _found(disk: Disk, above: str, file_size: int) -> PlainQueues:
    names: list[QueueName] = []
    orders: list[int] = []
    starts: list[int] = []
    entries: list[DirectoryEntry] = []
    others: list[QueueDirectory] = []
    seen: set[QueueName] = set()
    topics = set()
    fits = file_size > UNIT_SIZE
    for directory in queue_directories(above, disk):
        order, topic, queue_id = directory
        topics.add(topic)
        found = disk.entries_of(f"{above}/{topic}/{queue_id}")
        if not fits or len(found) != 1 or (topic, queue_id) in seen:
            others.append(directory)
            continue
        entry = found[0]
        start = java_parse_long(entry.name)
        if entry.size != file_size or entry.kind is not EntryKind.FILE or not _is_start(start):
            others.append(directory)
            continue
        seen.add((topic, queue_id))
        names.append((topic, queue_id))
        orders.append(order)
        starts.append(start or 0)
        entries.append(entry)
    units = read_short_queues([entry.path for entry in entries], [file_size] * len(entries))
    place = units.place.tolist()
    left = sorted(set(range(len(names))).difference(place))
    others += [(orders[number], *names[number]) for number in left]
    names = [names[number] for number in place]
    return PlainQueues(
        tuple(names),
        np.array(orders, np.int64)[units.place],
        np.array(starts, np.int64)[units.place],
        tuple(entries[number] for number in place),
        units,
        tuple(sorted(others)),
        {name: row for row, name in enumerate(names)},
        frozenset(topics),
    )


def queue_directories(area: Path | str, disk: Disk) -> Iterable[QueueDirectory]:
    """The directories of an area that a broker treats as those of queues, in the order of loading."""
    order = 0
    for topic in disk.entries_of(area):
        if topic.kind is not EntryKind.DIRECTORY:
            continue
        for entry in disk.entries_of(topic.path):
            queue_id = parse_int32(entry.name)
            if queue_id is not None:
                yield order, topic.name, queue_id
                order += 1


def _is_start(start: int | None) -> bool:
    return start is not None and 0 <= start < MAX_START and start % UNIT_SIZE == 0
