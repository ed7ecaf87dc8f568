"""Windows of the items of one file: some from a position on, some before it. Never the whole file.

    window := items that follow each other without a gap

How a window is found depends on the kind: commit log files are entered where a record knows its own
place; arrays of equal structures are entered anywhere; other files are walked from the last known item,
and some places on the way are kept. Rows of a database have no place: they are numbered instead.

A commit log file from any position on, item by item, without a look at what is before it.

    file := item* ; item := record | region       `scan.log.tiling` has the same tiling, from the file's start

From the start of a record or region the tiling continues as it would in a walk over the whole file. Where
that is, the bytes themselves tell: a record knows its own physical offset. Whether a record is stale only a
walk over the file tells; here nobody says so. Reference 2.1, 2.8.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from rocketfsck.cli.dump.item import DumpFilter, DumpSource, Item, Kind, is_database, shown_item
from rocketfsck.cli.dump.records import record_item, region_item
from rocketfsck.formats.layout import shown_name
from rocketfsck.progress import go_on
from rocketfsck.query.view import KEY_ROOM
from rocketfsck.reader.heads import head_at
from rocketfsck.scan.columns import RecordBatch, new_batch
from rocketfsck.scan.log.large import LargeRecord, append_large_record, read_large_record
from rocketfsck.scan.log.resync import Ground, Region
from rocketfsck.scan.options import ScanOptions, Stop
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.scan.views.messages import read_message

WINDOW_SIZE = 1 << 18
FRONT_SIZE = 1 << 12
FIRST_STEP = 1 << 16
MOST_STEP = 1 << 26
MOST_OFFSET = 1 << 62
MOST_GAPS = 1 << 12
BODY_LIMIT = 1 << 20
"""The checksum of a longer body is not compared: a record is to be shown at once."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where something begins and ends: a record (`record`), or a region."""

    start: int
    end: int
    record: LargeRecord | None
    region: Region | None


class LogWalk:
    """One commit log file, whose own length is the truth, as for `dump`."""

    def __init__(self, source: DumpSource) -> None:
        self.source = source
        self.size = source.size
        self.options = ScanOptions(
            read_bodies=True, property_parser=source.property_parser, file_size=source.size
        )
        self._batch: RecordBatch = new_batch(1, KEY_ROOM, KEY_ROOM)
        self._gaps: dict[int, int] = {}
        first = head_at(source.reader, 0)
        stated = -1 if first is None else first.physical_offset
        self._own_base = stated if 0 <= stated < MOST_OFFSET else source.start_offset

    def heads(self, pos: int, end: int | None = None) -> Iterator[Head]:
        """What begins at `pos`, where something does, and all after it that begins before `end`.

        Raises StoreError when bytes cannot be read.
        """
        limit = self.size if end is None else end
        file_size = self.options.file_size
        other_base, first = self._own_base, pos
        pos = self._gaps.get(pos, pos)
        while pos < limit:
            go_on()
            record = read_large_record(self.source.reader, pos, file_size)
            if not isinstance(record, Stop):
                yield Head(pos, pos + record.total_size, record, None)
                pos += record.total_size
                continue
            with self._window(0, self.size) as window:
                ground = Ground(self.source.reader, window, self.source.start_offset, file_size)
                regions = list(ground.between(pos, record, other_base))
            for region in regions[1:]:
                self._remember(region.start, pos)
            for region in regions:
                pos = region.end
                if first <= region.start < limit:
                    yield Head(region.start, region.end, None, region)

    def _remember(self, pos: int, gap: int) -> None:
        """What begins at `pos` is what it is because of what is between it and `gap`."""
        if len(self._gaps) >= MOST_GAPS:
            self._gaps.clear()
        self._gaps[pos] = gap

    def item(self, head: Head, wanted: DumpFilter) -> Item:
        """The item of a head, with its fields by the names that are shown."""
        if head.record is None:
            assert head.region is not None
            return shown_item(region_item(self.source, wanted, head.region), shown_name)
        self._batch.begin(0)
        taken = append_large_record(
            self.source.reader,
            head.record,
            self.source.start_offset,
            self.options.file_size,
            replace(self.options, read_bodies=head.record.body_size <= BODY_LIMIT),
            self._batch,
            QueueTable(),
        )
        assert taken  # the batch has room for more keys than a record can hold
        message = read_message(self.source.reader, self._batch, 0, self.options.property_parser, 0)
        return shown_item(record_item(self.source, wanted, message, stale=False), shown_name)

    def start_before(self, pos: int, back: int) -> int:
        """A position at which a record or BLANK begins, about `back` bytes before `pos` or further; or 0.

        What knows its own place is believed: only a body made to deceive has a record that does.
        """
        step = max(back, FIRST_STEP)
        low = pos
        while low > 0:
            high, low = low, max(low - step, 0)
            step = min(4 * step, MOST_STEP)
            if low == 0:
                return 0
            found = self.next_start(low, high)
            if found is not None:
                return found
        return 0

    def next_start(self, low: int, high: int) -> int | None:
        """The first position in `low:high` at which a record that knows its place, or a BLANK, begins."""
        end = min(high + FRONT_SIZE, self.size)
        with self._window(low, end) as window:
            ground = Ground(self.source.reader, window, self.source.start_offset, self.options.file_size)
            found = ground.carve(low, self._own_base)
        return found if found is not None and found < high else None

    def _window(self, start: int, end: int) -> ReadAhead:
        sizes = {"buffer_size": WINDOW_SIZE, "front_size": FRONT_SIZE}
        return ReadAhead(self.source.reader, **sizes, threaded=False, start=start, end=end)


GRIDS = frozenset({"consumequeue", "batchconsumequeue", "index", "dledger-index", "timerwheel"})
"""Kinds whose items can be read from any unit on."""
WALKS = frozenset({"timerlog", "dledger-data", "consumequeue-ext", "raw"})
"""Kinds whose items can be read from any item on."""

WIDEST_UNIT = 64
ANCHOR_DISTANCE = 1 << 16
MOST_BACK = 1 << 24
"""A window is filled from further back than this only where it would be empty."""


class Pages(Protocol):
    """The items of a file, by position."""

    def forward(self, pos: int, count: int) -> list[Item]:
        """At most `count` items that follow each other, the first one that which ends behind `pos`.

        `pos` is where an item begins (or the file's end: no items). Raises StoreError.
        """
        ...

    def backward(self, pos: int, count: int) -> list[Item]:
        """At most `count` items that follow each other, the last one that which ends at `pos`; none at 0."""
        ...

    def locate(self, pos: int) -> int:
        """Where the item begins that has the byte at `pos` (0 to the file's length)."""
        ...


def open_pages(source: DumpSource, kind: Kind, wanted: DumpFilter) -> Pages:
    """The pages of an open file of some kind."""
    if kind.name == "commitlog":
        return LogPages(LogWalk(source), wanted)
    return WalkPages(source, kind, wanted)


class LogPages:
    """The pages of a commit log file."""

    def __init__(self, walk: LogWalk, wanted: DumpFilter) -> None:
        self.walk = walk
        self.wanted = wanted

    def forward(self, pos: int, count: int) -> list[Item]:
        return [self.walk.item(head, self.wanted) for head in islice(self.walk.heads(pos), count)]

    def backward(self, pos: int, count: int) -> list[Item]:
        return [self.walk.item(head, self.wanted) for head in self._heads_before(pos, count)]

    def locate(self, pos: int) -> int:
        start = self.walk.start_before(pos, 0)
        found = start
        for head in self.walk.heads(start, pos + 1):
            found = head.start
        return found

    def _heads_before(self, pos: int, count: int) -> list[Head]:
        """The last heads before `pos`, from further and further back until they are enough."""
        heads: deque[Head] = deque(maxlen=count)
        back = 0
        start = pos
        while start > 0:
            start = self.walk.start_before(min(pos, start), back)
            heads.clear()
            heads.extend(self.walk.heads(start, pos))
            if heads and heads[-1].end == pos and (len(heads) == count or pos - start >= MOST_BACK):
                break
            back = max(4 * (pos - start), 1)
        return list(heads)


class WalkPages:
    """The pages of every other file."""

    def __init__(self, source: DumpSource, kind: Kind, wanted: DumpFilter) -> None:
        self.source = source
        self.kind = kind
        self.wanted = wanted
        self._anchors = [0]

    def forward(self, pos: int, count: int) -> list[Item]:
        return list(islice(self._items(pos), count))

    def backward(self, pos: int, count: int) -> list[Item]:
        if pos <= 0:
            return []
        items: deque[Item] = deque(maxlen=count)
        for item in self._items_around(pos, count):
            if item.start >= pos:
                break
            items.append(item)
        return list(items)

    def locate(self, pos: int) -> int:
        found = 0
        for item in self._items_around(pos + 1, 1):
            if item.start > pos:
                break
            found = item.start
        return found

    def _items_around(self, pos: int, count: int) -> Iterator[Item]:
        """The items from about `count` before `pos` on, all of them whole."""
        start = self._start_before(pos, count)
        items = self._items(start)
        first = next(items, None)
        if first is None:
            return
        if start and first.kind == "zero" and self.kind.name in GRIDS:  # the run may begin further back
            yield from self._items(self.source.reader.used_end(0, first.start))
            return
        yield first
        yield from items

    def _items(self, start: int) -> Iterator[Item]:
        """The items that end behind `start`, where an item, or a unit of one, begins."""
        if is_database(self.kind.name):
            numbered = enumerate(self.kind.items(self.source, self.wanted))
            for number, item in islice(numbered, start, None):
                go_on()
                yield replace(item, start=number, end=number + 1)
            return
        if not self.source.size:
            return
        known = self.kind.name in GRIDS | WALKS
        source = replace(self.source, first_pos=start) if known else self.source
        for item in self.kind.items(source, self.wanted):
            if item.end <= start:
                continue
            go_on()
            if self.kind.name in WALKS:
                self._keep(item.start)
            yield item

    def _keep(self, pos: int) -> None:
        """Remember some of the places where items begin."""
        at = bisect_right(self._anchors, pos)
        near = self._anchors[at - 1 : at + 1]
        if all(abs(pos - other) >= ANCHOR_DISTANCE for other in near):
            insort(self._anchors, pos)

    def _start_before(self, pos: int, count: int) -> int:
        """Where an item, or a unit of one, begins: `count` items before `pos`, if there are so many."""
        low = max(pos - (count + 1) * WIDEST_UNIT, 0)
        if self.kind.name in GRIDS:
            return low
        return self._anchors[max(bisect_right(self._anchors, low) - 1, 0)]
