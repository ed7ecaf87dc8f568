"""All consume queues of a start: the plain ones as columns, each other one as a model of its own.

A plain queue becomes a model when a step does more to it than raise its minimum, or somebody asks for it. So
a queue that a start leaves alone costs no step of Python. Reference 3.3 to 3.5, 6.6.

Where the units of a queue on disk lead: from which record on, and into which ranges of the commit log.

What a start itself does not look at, but consumers meet. Pre-blank units lead to no record. Reference 3.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.consumequeue import PRE_BLANK_UNIT
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.dtypes import UNIT_DTYPE, Flags, Longs
from rocketfsck.query.start.load import Disk, LoadedFile, LoadedQueue, Loading, PlainQueues, QueueName
from rocketfsck.query.start.model import LostRange, QueueStart
from rocketfsck.query.start.queues import FAR, QueueModel, StartFailedError


class Queues(Protocol):
    """The queues of a start."""

    def values(self) -> Iterable[QueueModel]:
        """All of them."""

    def reaching(self, offset: int) -> Iterable[QueueModel]:
        """Those with units of records at a physical offset and beyond it, at least."""


_BLANK = np.frombuffer(PRE_BLANK_UNIT, UNIT_DTYPE)[0]


def first_covered(queue: QueueModel) -> int:
    """The least physical offset that the units at the beginning of the queue on disk lead to.

    Records in front of it have no unit: what a queue began behind is not in it.
    """
    if queue.first_file is None or queue.loaded.kind == "batch":
        return 0
    for units in queue.read(queue.first_file):
        used = _led_to(queue, units)
        if len(used):
            return int(used.min())
        if not queue.valid(units).all():
            break
    return 0


def leading_between(queue: QueueModel, ranges: Sequence[tuple[int, int]]) -> list[int]:
    """How many units on disk that consumers are given lead into each range of physical offsets."""
    counts = [0] * len(ranges)
    for file in queue.files:
        if file.is_new:
            break
        low = max(queue.min_pos - file.start_offset, 0) if queue.loaded.kind == "file" else 0
        high = min(file.wrote_pos, queue.disk_end - file.start_offset)
        for units in queue.read(file, low, high):
            offset = _led_to(queue, units)
            for number, (start, end) in enumerate(ranges):
                counts[number] += int(np.count_nonzero((offset >= start) & (offset < end)))
    return counts


def find_unreadable(files: Sequence[LoadedFile], max_offset: int, queues: Queues) -> list[LostRange]:
    """The ranges that no file of the log holds and that units lead to, and how many units each.

    Without a hole in the log only the queues that reach beyond its end are read.
    """
    in_order = sorted(files, key=lambda file: file.start_offset)  # by name, 65536 comes after 131072
    holes = [
        (file.end_offset, min(following.start_offset, max_offset))
        for file, following in pairwise(in_order)
        if file.end_offset < min(following.start_offset, max_offset)
    ]
    behind = (max_offset, FAR)
    counts = dict.fromkeys([*holes, behind], 0)
    furthest = max_offset
    for queue in queues.values() if holes else queues.reaching(max_offset):
        asked = [*holes, behind] if queue.covered_offset >= max_offset else holes
        if asked and queue.files:
            furthest = max(furthest, queue.covered_offset)
            for place, count in zip(asked, leading_between(queue, asked), strict=True):
                counts[place] += count
    return [
        LostRange(start, min(end, max(furthest, start) + 1), count)
        for (start, end), count in counts.items()
        if count
    ]


def _led_to(queue: QueueModel, units: NDArray[Any]) -> NDArray[np.int64]:
    """The physical offsets that valid units lead to."""
    blank = (units["offset"] == _BLANK["offset"]) & (units["size"] == _BLANK["size"])
    blank &= units["tagsCode"] == _BLANK["tagsCode"]
    return np.asarray(units["offset"][queue.valid(units) & ~blank], np.int64)


LAST = 1 << 62


@dataclass(slots=True, eq=False)
class StartQueues(MutableMapping[QueueName, QueueModel]):
    """The queues by name. Whoever takes a plain one from here gets its model, and may change that."""

    _dialect: Dialect
    _disk: Disk
    _models: dict[QueueName, QueueModel] = field(default_factory=dict)
    _order: dict[QueueName, int] = field(default_factory=dict)
    _plain: PlainQueues | None = None
    _size: int = 0
    _left: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))  # plain queues that have no model
    _min_pos: Longs = field(default_factory=lambda: np.zeros(0, np.int64))
    _recovered: bool = False

    def load(self, loading: Loading) -> None:
        """Take what was loaded."""
        if loading.plain is not None:
            self._plain, self._size = loading.plain, loading.plain_size
            self._left = np.ones(len(loading.plain), np.bool_)
            self._min_pos = np.zeros(len(loading.plain), np.int64)
        for order, queue in loading.queues:
            name = (queue.topic, queue.queue_id)
            self._order.setdefault(name, order)
            self[name] = QueueModel(queue, self._dialect, self._disk)

    def __getitem__(self, name: QueueName) -> QueueModel:
        model = self._models.get(name)
        if model is None:
            row = self._row(name)
            if row is None:
                raise KeyError(name)
            model = self._take(row)
        return model

    def __setitem__(self, name: QueueName, model: QueueModel) -> None:
        row = self._row(name)
        if row is not None and self._plain is not None:
            self._left[row] = False
            self._order[name] = int(self._plain.order[row])
        self._order.setdefault(name, LAST + len(self._order))
        self._models[name] = model

    def __delitem__(self, name: QueueName) -> None:
        raise TypeError("a queue of a start stays")

    def __iter__(self) -> Iterator[QueueName]:
        order = dict(self._order)
        if self._plain is not None:
            rows = np.flatnonzero(self._left).tolist()
            order |= {self._plain.names[row]: int(self._plain.order[row]) for row in rows}
        return iter(sorted(order, key=order.__getitem__))

    def __len__(self) -> int:
        return len(self._models) + int(np.count_nonzero(self._left))

    def __contains__(self, name: object) -> bool:
        return name in self._models or self._row(name) is not None

    def _row(self, name: object) -> int | None:
        """The row of a plain queue without a model."""
        row = None if self._plain is None else self._plain.rows.get(name)  # type: ignore[call-overload]
        return row if row is not None and self._left[row] else None

    def _take(self, row: int) -> QueueModel:
        """The model of a plain queue, in the state that it is in."""
        plain = self._plain
        assert plain is not None
        (topic, queue_id), entry, size = plain.names[row], plain.entries[row], self._size
        directory = f"consumequeue/{topic}/{queue_id}"
        file = LoadedFile(entry.path, f"{directory}/{entry.name}", int(plain.start[row]), size, size)
        loaded = LoadedQueue(topic, queue_id, "file", directory, size, [file])
        model = QueueModel(loaded, self._dialect, self._disk)
        if self._recovered:
            model.recover()
            model.min_pos = int(self._min_pos[row])
        self[topic, queue_id] = model
        return model

    def models(self) -> list[QueueModel]:
        """The queues that are models, in the order of loading; then the new ones."""
        return [self._models[name] for name in self._in_order()]

    def _in_order(self) -> list[QueueName]:
        return sorted(self._models, key=self._order.__getitem__)

    def recover(self) -> None:
        """Walk every queue, as a broker's recovery does."""
        self._recovered = True
        for model in self.models():
            model.recover()

    def truncate(self, cut_offset: int) -> None:
        """Drop the units of records at and behind a physical offset. Raises StartFailedError."""
        self._take_reaching(cut_offset)
        for model in self.models():
            model.truncate(cut_offset)

    def destroy(self) -> None:
        """Delete all files of all queues."""
        for model in list(self.values()):
            model.destroy()

    def correct_min(self, min_physical_offset: int) -> None:
        """Raise every queue's minimum to what a log that begins there still has. Raises StartFailedError."""
        for name in self._in_order():
            try:
                self._models[name].correct_min(min_physical_offset)
            except StartFailedError:
                self._correct_plain(min_physical_offset, self._order[name])
                raise
        self._correct_plain(min_physical_offset, LAST)

    def _correct_plain(self, min_physical_offset: int, before: int) -> None:
        if self._plain is None:
            return
        by_search = self._dialect.min_offset_by_search
        found = self._plain.minima(by_search, min_physical_offset)
        found = np.maximum(found, self._min_pos) if by_search else np.where(found < 0, self._min_pos, found)
        self._min_pos = np.where(self._plain.order < before, found, self._min_pos)

    @property
    def max_physic_offset(self) -> int:
        """The highest physical offset that a unit leads to, as the broker counts it; -1 without units."""
        highest = max((model.max_physic_offset for model in self._models.values()), default=-1)
        if self._plain is None or not self._recovered or not self._left.any():
            return highest
        reached = self._plain.units.last_offset[self._left]
        if self._dialect.max_physic_offset_is_end:
            reached = reached + self._plain.units.last_size[self._left]
        return max(highest, int(reached.max()))

    @property
    def has_files(self) -> bool:
        """Whether any queue has files."""
        return bool(self._left.any()) or any(model.files for model in self._models.values())

    def _take_reaching(self, offset: int) -> None:
        """Make models of the plain queues whose units reach to a physical offset, or beyond it."""
        if self._plain is not None:
            for row in np.flatnonzero(self._left & (self._plain.units.last_offset >= offset)).tolist():
                self._take(row)

    def reaching(self, offset: int) -> list[QueueModel]:
        """All queues but plain ones whose units end in front of a physical offset."""
        self._take_reaching(offset)
        return self.models()

    def covered(self, name: QueueName) -> tuple[int, int, int] | None:
        """Physical offsets of a queue, None without one: of the furthest record that a unit on disk leads to
        and led to before, and of the first."""
        row = self._row(name) if self._recovered else None
        if row is not None and self._plain is not None:
            units = self._plain.units
            last = int(units.offset[units.bounds[row + 1] - 1])
            return last, last, int(units.offset[units.bounds[row]])
        model = self.get(name)
        if model is None:
            return None
        return model.covered_offset, model.covered_before, first_covered(model)

    def began_at(self, name: QueueName) -> int:
        """The physical offset that unit 0 of a queue on disk led to before the start; -1 without one, and
        where it is the only unit, which may be damaged."""
        found = self.covered(name)
        row = self._row(name)
        if found is None:
            return -1
        if row is not None and self._plain is not None:
            begins = int(self._plain.start[row]) == 0 and int(self._plain.units.count[row]) > 1
        else:
            model = self._models[name]
            first = model.first_file
            begins = first is not None and first.start_offset == 0 and model.found_count > 1
        return found[2] if begins else -1

    def plain_starts(self) -> list[QueueStart]:
        """The plain queues that the start leaves alone."""
        if self._plain is None:
            return []
        if not self._recovered:  # a start that is refused has not looked into them
            self._take_reaching(-1)
        starts = self._plain.starts(self._min_pos)
        if self._left.all():
            return list(starts)
        return [starts[row] for row in np.flatnonzero(self._left).tolist()]
