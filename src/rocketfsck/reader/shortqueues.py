"""Units of many queues of one short file each, read at once: what most queues of a store with many are.

    short queue := a file that is data (at most SHORT_SIZE bytes, not all zero), then a hole
    sound       := its units are valid, none is a pre-blank one, and their commitlog offsets rise

A queue costs the system calls that read its file, and no step of Python for what is looked at in all of them:
that is done on the units of all queues in one array. What is not sound, or cannot be read like this, is for
the readers of one queue, which also say what is wrong with it. Reference 3.1, 3.3.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from rocketfsck.errors import demand_lasting
from rocketfsck.formats.consumequeue import PRE_BLANK_SIZE, UNIT_SIZE
from rocketfsck.formats.dtypes import UNIT_DTYPE, Flags, Longs
from rocketfsck.reader.units import UnitReader
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.store.reading import FileReader, data_end, has_data, other_reader, read_bytes

SHORT_SIZE = 64 << 10
"""Data of a file that is taken."""
FIRST_SIZE = 4096
"""What is read of a file at first."""

FAR = 1 << 62
"""No log is that long: sums with smaller offsets do not wrap."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class ShortQueues:
    """The sound ones of some files: element i of each array belongs to the file with the number `place[i]`.

    The file's units are `bounds[i]:bounds[i + 1]` of `offset`, `size` and `tags`, which begin with its first.
    `odd` has what was read of short files that are not sound, by their numbers.
    """

    place: Longs
    bounds: Longs
    offset: Longs
    size: Longs
    tags: Longs
    odd: Mapping[int, bytes]

    def __len__(self) -> int:
        return len(self.place)

    @property
    def count(self) -> Longs:
        """How many units each queue has: at least one."""
        return np.diff(self.bounds)

    @property
    def first_offset(self) -> Longs:
        """The commitlog offset of each queue's first unit."""
        return self.offset[self.bounds[:-1]]

    @property
    def last_offset(self) -> Longs:
        """The commitlog offset of each queue's last unit, which is its highest."""
        return self.offset[self.bounds[1:] - 1]

    @property
    def last_size(self) -> Longs:
        """The size in each queue's last unit."""
        return self.size[self.bounds[1:] - 1]

    def first_from(self, offset: int) -> Longs:
        """The number, in each queue, of its first unit with this commitlog offset or more; its count for
        none."""
        below = np.concatenate(([0], np.cumsum(self.offset < offset)))
        found: Longs = below[self.bounds[1:]] - below[self.bounds[:-1]]
        return found


class HeldFile(FileReader):
    """A file that was read already: data, then a hole. What it shows is what the first look has seen."""

    __slots__ = ("_data",)

    def __new__(cls, *_given: object) -> Self:
        """Nothing is opened."""
        return object.__new__(cls)

    def __init__(self, path: str, size: int, data: bytes) -> None:
        self.path, self.size, self._data = path, size, data
        self.allocated_size, self.mtime_ns, self._descriptor = len(data), 0, -1

    def read_into(self, view: memoryview | bytearray, pos: int = 0) -> None:
        """Fill all of `view` with the bytes from position `pos` on."""
        target = memoryview(view).cast("B")
        target[:] = self._data[pos : pos + len(target)].ljust(len(target), b"\0")

    def data_extents(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
        """The range of `start:end` that holds data."""
        limit = min(len(self._data), self.size if end is None else end)
        if start < limit:
            yield start, limit


class HeldUnits(UnitReader):
    """The units of a queue of one short file, as they were read."""

    __slots__ = ("_held",)

    def __init__(self, queue: ConsumeQueue, data: bytes) -> None:
        super().__init__(queue)
        file = self.files[0]
        self._held = HeldFile(file.location, file.size, data)

    def reader(self, _number: int) -> FileReader:
        """The queue's file."""
        return self._held


def read_short_queues(paths: Sequence[str], sizes: Sequence[int]) -> ShortQueues:
    """The sound short queues among files of 20-byte units that are known to be regular, of these sizes.

    Those that cannot be read, or have another size by now, are left out; so are files elsewhere than on this
    machine.
    """
    places: list[int] = []
    pieces: list[bytes] = []
    for place, (path, size) in enumerate(zip(paths, sizes, strict=True)):
        data = b"" if other_reader(path) is not None else _data_of(path, size)
        if data:
            places.append(place)
            pieces.append(data)
    return _sound(np.array(places, np.int64), pieces)


def _data_of(path: str, size: int) -> bytes:
    """The data of a file up to its last unit that is not zero; empty unless the file is a short one."""
    try:
        descriptor = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:
        demand_lasting(error)
        return b""
    try:
        status = os.fstat(descriptor)
        if status.st_size != size or not stat.S_ISREG(status.st_mode):
            return b""
        data = read_bytes(descriptor, FIRST_SIZE, 0)
        if len(data) < size and has_data(descriptor, len(data), size):
            if size > SHORT_SIZE and has_data(descriptor, SHORT_SIZE, size):
                return b""
            end = data_end(descriptor, len(data), min(SHORT_SIZE, size))
            data += read_bytes(descriptor, end - len(data), len(data))
    except OSError as error:
        demand_lasting(error)
        return b""
    finally:
        os.close(descriptor)
    data = data.rstrip(b"\0")
    end = -(-len(data) // UNIT_SIZE) * UNIT_SIZE
    return data.ljust(end, b"\0") if end <= size else b""


def _sound(places: Longs, pieces: Sequence[bytes]) -> ShortQueues:
    units = np.frombuffer(b"".join(pieces), UNIT_DTYPE)
    counts = np.array([len(piece) // UNIT_SIZE for piece in pieces], np.int64)
    bounds = np.concatenate(([0], np.cumsum(counts)))
    offset, size, tags = (units[name].astype(np.int64) for name in ("offset", "size", "tagsCode"))
    good = (offset >= 0) & (offset < FAR) & (size > 0)
    good &= (offset != 0) | (size != PRE_BLANK_SIZE) | (tags != 0)
    first = np.zeros(len(units), np.bool_)
    first[bounds[:-1]] = True
    good[1:] &= first[1:] | (offset[1:] > offset[:-1])
    if good.all():
        return ShortQueues(places, bounds, offset, size, tags, {})
    kept: Flags = np.logical_and.reduceat(good, bounds[:-1])
    rows = np.repeat(kept, counts)
    bounds = np.concatenate(([0], np.cumsum(counts[kept])))
    odd = {int(places[row]): pieces[row] for row in np.flatnonzero(~kept).tolist()}
    return ShortQueues(places[kept], bounds, offset[rows], size[rows], tags[rows], odd)
