"""Windows of the items of one file: some from a position on, some before it. Never the whole file.

    window := items that follow each other without a gap

How a window is found depends on the kind: commit log files are entered where a record knows its own place
(`logwalk`); arrays of equal structures are entered anywhere; other files are walked from the last known item,
and some places on the way are kept. Rows of a database have no place: they are numbered instead.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Protocol

from rocketfsck.cli.browse.model.logwalk import Head, LogWalk
from rocketfsck.cli.dump.item import Item
from rocketfsck.cli.dump.kinds import Kind, is_database
from rocketfsck.cli.dump.source import DumpFilter, DumpSource
from rocketfsck.progress import go_on

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
        heads = self._heads_before(pos, count)
        return [self.walk.item(head, self.wanted) for head in heads]

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
