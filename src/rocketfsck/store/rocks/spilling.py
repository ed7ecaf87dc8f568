"""Queue units of a database as consume queue files in a scratch directory: what reads those reads these too.

    scratch := <topic>/<queueId>/<20 digits>    as in consumequeue/; the first 20 of a value's 28 bytes a unit
             | <topic>/<queueId>.times          i64*, the storeTime of each unit of the files

The bounds are those of the family `offset`, as a broker takes them. Units before the least and behind the
greatest are what expired and what a truncation left behind: they are counted only. Before the least queue
offset the first file has pre-blank units, as a broker's own would. Reference 3.3, 3.9.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rocketfsck.common.wording import count_of
from rocketfsck.errors import FormatError
from rocketfsck.formats import consumequeue, dtypes, rocks, smallfiles
from rocketfsck.store.model import ConsumeQueue, MappedFile, MappedFileQueue, Other
from rocketfsck.store.reading import named_errors
from rocketfsck.store.rocks.families import DEFAULT, OddRows
from rocketfsck.store.rocks.reading import KeysWith, Rows, read_rows

OFFSETS = "offset"
VALUE_SIZE = rocks.ROCKS_UNIT.size
FAR_LIMIT = 1 << 24
"""A unit so many places behind the one before it is not spilled: its queue offset is damaged."""
LATE_LIMIT = 4
"""As many queues are read one by one, each by a process of its own."""
TIMES = ".times"
NAME_LIMIT = 255

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC

Name = tuple[str, int]


class Bound(NamedTuple):
    """One end of a queue: the queue offset, and the physical offset of its record."""

    queue_offset: int
    physical_offset: int


@dataclass(slots=True)
class SpilledQueue:
    """One queue of a database. `first`, `last`: queue offsets of its rows, all of them; `row_count`: those
    inside its bounds, the last of which is `last_inside`; `hidden_offset` the greatest physical offset of
    those before the least queue offset, -1 without any; `directory` has its files, if it has rows, and
    `first_place` is where the first of them begins."""

    topic: str
    queue_id: int
    least: Bound | None = None
    greatest: Bound | None = None
    first: int | None = None
    last: int | None = None
    row_count: int = 0
    outside_count: int = 0
    last_inside: int | None = None
    hidden_offset: int = -1
    directory: Path | None = None
    first_place: int = 0

    @property
    def start(self) -> int:
        """The queue offset that the file of units begins with."""
        if self.least is not None:
            return max(self.least.queue_offset, 0)
        return max(self.first or 0, 0)

    @property
    def end(self) -> int | None:
        """The queue offset after the last, as a broker has it; None where the database has no such bound."""
        return None if self.greatest is None else self.greatest.queue_offset + 1


@dataclass(slots=True)
class Spill:
    """What a database of queues holds. `dispatched`: the physical offset up to which records have units, None
    where that is not written down."""

    database: Other
    queues: dict[Name, SpilledQueue] = field(default_factory=dict)
    dispatched: int | None = None
    odd: OddRows = field(default_factory=OddRows)

    def queue(self, topic: bytes, queue_id: int) -> SpilledQueue:
        """The queue of that name, made if it is new."""
        name = (os.fsdecode(topic), queue_id)
        if name not in self.queues:
            self.queues[name] = SpilledQueue(*name)
        return self.queues[name]


def spill_queues(database: Other, directory: Path, file_size: int) -> Spill:
    """Read a database of queues, and write its units to files of `file_size` bytes below `directory`.

    Raises RocksError where it cannot be read (the files are then incomplete), StoreError where nothing can
    be written.
    """
    spill = spill_bounds(database)
    spill_units(spill, directory, file_size)
    return spill


def spill_bounds(database: Other) -> Spill:
    """Read the bounds of the queues, and no unit. Raises RocksError where they cannot be read."""
    spill = Spill(database)
    for rows in read_rows(database, [OFFSETS]):
        _take_bounds(spill, rows)
    return spill


def spill_units(spill: Spill, directory: Path, file_size: int, names: Collection[Name] | None = None) -> None:
    """Write the units of all queues, or of those with these names. Raises as `spill_queues`."""
    keys = None
    if names is not None and len(names) == 1:
        keys = KeysWith(tuple(rocks.queue_prefix(os.fsencode(topic), queue_id) for topic, queue_id in names))
    size = consumequeue.rounded_file_size(file_size, consumequeue.UNIT_SIZE)
    writer = _Writer(spill, directory, size, names)
    with named_errors(directory, "cannot be written"), closing(writer):
        for rows in read_rows(spill.database, [DEFAULT], keys=keys):
            if rows.family == DEFAULT:
                writer.take(rows)


def _take_bounds(spill: Spill, rows: Rows) -> None:
    for key, value in rows.pairs():
        try:
            if key == rocks.DISPATCHED_KEY:
                spill.dispatched = rocks.decode_i64(value, "phyOffset")
                continue
            bound_key = rocks.decode_bound_key(key)
            if len(value) != rocks.ROCKS_OFFSET.size:
                raise FormatError(f"value: {count_of(len(value), 'byte')}", offset=0)
        except FormatError as error:
            spill.odd.add(rows.family, key, str(error))
            continue
        values = rocks.ROCKS_OFFSET.parse(value)
        bound = Bound(values["cqOffset"], values["phyOffset"])
        queue = spill.queue(bound_key.topic, bound_key.queue_id)
        if bound_key.is_max:
            queue.greatest = bound
        else:
            queue.least = bound


class _Writer:
    """Writes units where they belong; keys come sorted, so that one queue is written at a time."""

    def __init__(
        self, spill: Spill, directory: Path, file_size: int, names: Collection[Name] | None = None
    ) -> None:
        self.spill = spill
        self.names = names
        self.directory = directory
        self.file_size = file_size
        self.per_file = file_size // consumequeue.UNIT_SIZE
        self.queue: SpilledQueue | None = None
        self.file: tuple[int, int] | None = None
        self.times: int | None = None

    def close(self) -> None:
        """Close the files of the queue that was written last."""
        if self.file is not None:
            os.close(self.file[1])
        if self.times is not None:
            os.close(self.times)
        self.file = self.times = None

    def take(self, rows: Rows) -> None:
        """The rows of one batch, in runs of one queue with values of the right length."""
        for start, end, key in _runs(rows):
            if key is None or not _is_name(key.topic):
                for row in range(start, end):
                    text = rows.keys[rows.key_starts[row] : rows.key_starts[row + 1]]
                    self.spill.odd.add(rows.family, text, _why_odd(rows, row, text))
                continue
            if self.names is not None and (os.fsdecode(key.topic), key.queue_id) not in self.names:
                continue
            self._open(key)
            keys = rows.keys[rows.key_starts[start] : rows.key_starts[end]]
            values = rows.values[rows.value_starts[start] : rows.value_starts[end]]
            width = len(keys) // (end - start)
            places = np.frombuffer(keys, np.uint8).reshape(-1, width)[:, -8:].copy().view(">i8")[:, 0]
            self._take(places.astype(np.int64), np.frombuffer(values, np.uint8).reshape(-1, VALUE_SIZE))

    def _open(self, key: rocks.UnitKey) -> None:
        queue = self.spill.queue(key.topic, key.queue_id)
        if queue is self.queue:
            return
        self.close()
        self.queue = queue
        if queue.first is None:
            queue.first = key.cq_offset
        queue.first_place = queue.start // self.per_file * self.per_file
        queue.directory = self.directory / queue.topic / str(queue.queue_id)
        queue.directory.mkdir(parents=True, exist_ok=True)
        self.times = os.open(f"{queue.directory}{TIMES}", _FLAGS, 0o600)

    def _take(self, places: dtypes.Longs, values: np.ndarray[Any, Any]) -> None:
        """The units of one queue, in ascending order: those within the bounds are written."""
        queue = self.queue
        assert queue is not None
        queue.last = int(places[-1]) if queue.last is None else max(queue.last, int(places[-1]))
        low, high = queue.start, queue.end
        inside = places >= low
        if not inside[0]:
            offsets = values[~inside, :8].copy().view(">i8")[:, 0]
            queue.hidden_offset = max(queue.hidden_offset, int(offsets.max()))
        if high is not None:
            inside &= places < high
        before = np.concatenate(([low if queue.last_inside is None else queue.last_inside], places[:-1]))
        far = np.flatnonzero(inside & (places - np.maximum(before, low) > FAR_LIMIT))
        if len(far):
            inside[far[0] :] = False
        queue.outside_count += int(len(places) - inside.sum())
        places, values = places[inside], values[inside]
        if not len(places):
            return
        if queue.row_count == 0:
            self._blank(queue)
        queue.row_count += len(places)
        queue.last_inside = int(places[-1])
        steps = np.flatnonzero((np.diff(places) != 1) | (np.diff(places // self.per_file) != 0)) + 1
        for start, end in itertools.pairwise([0, *steps.tolist(), len(places)]):
            self._write(queue, int(places[start]), values[start:end])

    def _blank(self, queue: SpilledQueue) -> None:
        """Pre-blank units in the first file, before the least queue offset."""
        base = queue.first_place
        if queue.start > base:
            os.pwrite(self._file_of(queue, base), consumequeue.PRE_BLANK_UNIT * (queue.start - base), 0)

    def _write(self, queue: SpilledQueue, place: int, values: np.ndarray[Any, Any]) -> None:
        assert self.times is not None
        base, size = place // self.per_file * self.per_file, consumequeue.UNIT_SIZE
        os.pwrite(self._file_of(queue, base), values[:, :size].tobytes(), (place - base) * size)
        os.pwrite(self.times, values[:, consumequeue.UNIT_SIZE :].tobytes(), (place - queue.first_place) * 8)

    def _file_of(self, queue: SpilledQueue, base: int) -> int:
        """The descriptor of the file that begins with a queue offset; files between are made, all holes."""
        if self.file is not None and self.file[0] == base:
            return self.file[1]
        assert queue.directory is not None
        made = queue.first_place if self.file is None else self.file[0] + self.per_file
        if self.file is not None:
            os.close(self.file[1])
            self.file = None
        for number in range(made, base + 1, self.per_file):
            path = queue.directory / smallfiles.offset_to_filename(number * consumequeue.UNIT_SIZE)
            descriptor = os.open(path, _FLAGS, 0o600)
            os.ftruncate(descriptor, self.file_size)
            if number < base:
                os.close(descriptor)
            else:
                self.file = (base, descriptor)
        assert self.file is not None
        return self.file[1]


def _is_name(topic: bytes) -> bool:
    """Whether a topic can be a directory's name: no other is a topic, and some lead out of the scratch."""
    is_part = b"/" not in topic and b"\0" not in topic and topic not in (b".", b"..")
    return 0 < len(topic) <= NAME_LIMIT and is_part


def _runs(rows: Rows) -> Iterator[tuple[int, int, rocks.UnitKey | None]]:
    """Half-open ranges of rows of one queue, with the first one's key; None for rows that are not units."""
    widths = np.diff(rows.key_starts)
    fits = np.diff(rows.value_starts) == VALUE_SIZE
    row = 0
    while row < len(rows):
        start, width = int(rows.key_starts[row]), int(widths[row])
        text = rows.keys[start : start + width]
        try:
            key = rocks.decode_unit_key(text) if fits[row] else None
        except FormatError:
            key = None
        if key is None:
            yield row, row + 1, None
            row += 1
            continue
        alike = np.flatnonzero((widths[row:] != width) | ~fits[row:])
        end = row + int(alike[0]) if len(alike) else len(rows)
        block = np.frombuffer(rows.keys, np.uint8, (end - row) * width, start).reshape(-1, width)
        others = np.flatnonzero((block[:, :-8] != block[0, :-8]).any(axis=1))
        end = row + int(others[0]) if len(others) else end
        yield row, end, key
        row = end


def _why_odd(rows: Rows, row: int, key: bytes) -> str:
    try:
        found = rocks.decode_unit_key(key)
    except FormatError as error:
        return str(error)
    if not _is_name(found.topic):
        return "topic: not a name that a topic can have"
    size = int(rows.value_starts[row + 1] - rows.value_starts[row])
    return f"value: {count_of(size, 'byte')}, not {VALUE_SIZE}"


def consume_queues(spill: Spill, file_size: int) -> Iterator[ConsumeQueue]:
    """The queues of a spill as a broker has them: those with a greatest queue offset, by name."""
    mtime = max((file.mtime_ns for file in spill.database.files), default=0)
    for queue in sorted(spill.queues.values(), key=lambda queue: (queue.topic, queue.queue_id)):
        if queue.greatest is not None:
            files = tuple(_files(spill, queue, mtime)) if queue.directory is not None else ()
            location = f"{spill.database.path}/{queue.topic}/{queue.queue_id}"
            size = consumequeue.rounded_file_size(file_size, consumequeue.UNIT_SIZE)
            mapped = MappedFileQueue((location,), size, files)
            yield ConsumeQueue(queue.topic, queue.queue_id, "file", mapped, None)


def _files(spill: Spill, queue: SpilledQueue, mtime: int) -> Iterator[MappedFile]:
    assert queue.directory is not None
    for path in sorted(queue.directory.iterdir()):
        status = path.stat()
        name = f"{spill.database.relative}/{queue.topic}/{queue.queue_id}/{path.name}"
        yield MappedFile(str(path), name, status.st_size, mtime, status.st_blocks * 512, int(path.name))


class LateQueues:
    """Queues of a database whose units are written once somebody asks for one: RocksDB goes straight to the
    rows of a queue. Who asks for more than `LATE_LIMIT` queues gets all of them."""

    def __init__(self, spill: Spill, directory: Path, file_size: int) -> None:
        self.spill = spill
        self.directory = directory
        self.file_size = file_size
        self.asked_count = 0
        self.queues = list(consume_queues(spill, file_size))
        self._late = {queue.mapped_files.locations: queue for queue in self.queues}
        self._ready: dict[tuple[str, ...], ConsumeQueue | None] = {}

    def fetch(self, queue: ConsumeQueue) -> ConsumeQueue | None:
        """One of the queues with its files; any other queue as it is. Raises StoreError where units cannot be
        read, or written; None for a queue whose units could not."""
        place = queue.mapped_files.locations
        if place in self._late:
            self.asked_count += 1
            places = {place} if self.asked_count <= LATE_LIMIT else set(self._late)
            names = {(late.topic, late.queue_id) for late in map(self._late.pop, places)}
            self._ready |= dict.fromkeys(places)
            spill_units(self.spill, self.directory, self.file_size, names)
            for found in consume_queues(self.spill, self.file_size):
                if (found.topic, found.queue_id) in names:
                    self._ready[found.mapped_files.locations] = found
        return self._ready.get(place, queue)
