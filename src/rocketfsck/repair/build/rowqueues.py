"""The database of consume queues, made anew from the log. Reference 3.9; `formats.rocks`.

    default   a row for each record that a broker dispatches, at its queue offset; of several the last
    offset    of each queue the greatest, of the record that was put last, and the least; the end of the last
              record with a row

The rows are written by a process of its own (`rowchild`). Memory: some 300 bytes a queue.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.javatext import java_decode
from rocketfsck.formats.rocks import (
    DISPATCHED_KEY,
    ROCKS_OFFSET,
    BoundKey,
    UnitKey,
    encode_bound_key,
    encode_unit_key,
)
from rocketfsck.formats.rocksmessages import encode_i64
from rocketfsck.repair.build import rowchild
from rocketfsck.repair.build.model import BuiltQueue, QueueBuild
from rocketfsck.repair.build.queuestates import RawNames
from rocketfsck.repair.build.walk import LogWalked
from rocketfsck.scan.build.rows import FLAGS, INDEX, OFFSET, OWN, QUEUE, SIZE, SKIPPED, TAGS, TIME
from rocketfsck.store.rocks.reading import INSTALL

UNITS, BOUNDS = (rowchild.FAMILIES.index(name) for name in ("default", "offset"))
ROW = np.dtype([("place", ">i8"), ("offset", ">i8"), ("size", ">i4"), ("tags", ">i8"), ("time", ">i8")])
PLACE_SIZE = 8
PATIENCE = 600.0
"""Seconds that the process has to put everything on the disk."""


@dataclass(slots=True)
class _Queue:
    """Queue offset and physical offset of both ends, and how many rows were put."""

    greatest: tuple[int, int]
    least: tuple[int, int]
    row_count: int


class RowBuilder:
    """Takes the dispatches of the log and puts them into a new database.

    `light`: records go to the further queues that they name, too.
    """

    def __init__(self, pipe: IO[bytes], path: str, *, light: bool) -> None:
        self.path = path
        self.pipe = pipe
        self.light = light
        self.queues: dict[tuple[bytes, int], _Queue] = {}
        self.mark: int | None = None
        self.record_count = 0
        self.refused_count = 0

    def take_units(self, rows: Longs, table: int, raw_names: RawNames, name_count: int) -> None:  # noqa: ARG002
        """Put the rows of a batch of records. Raises StoreError if the other process is gone."""
        wanted = (rows[:, FLAGS] & SKIPPED) == 0
        if not self.light:
            wanted &= (rows[:, FLAGS] & OWN) != 0
        self.refused_count += int(np.count_nonzero(wanted & (rows[:, QUEUE] < 0)))
        rows = rows[wanted & (rows[:, QUEUE] >= 0)]
        if not len(rows):
            return
        self.record_count += int(np.count_nonzero(rows[:, FLAGS] & OWN))
        self.mark = int(rows[-1, OFFSET] + rows[-1, SIZE])
        for number in np.unique(rows[:, QUEUE]).tolist():
            topic, queue_id = raw_names[number]
            self._put(java_decode(topic).encode("utf-8", "replace"), queue_id, rows[rows[:, QUEUE] == number])

    def _put(self, topic: bytes, queue_id: int, rows: Longs) -> None:
        data = np.empty(len(rows), ROW)
        columns = (INDEX, OFFSET, SIZE, TAGS, TIME)
        for name, column in zip(ROW.names or (), columns, strict=True):
            data[name] = rows[:, column]
        prefix = encode_unit_key(UnitKey(topic, queue_id, 0))[:-PLACE_SIZE]
        self._write(UNITS, prefix, PLACE_SIZE, data.tobytes(), len(rows))
        greatest = (int(rows[-1, INDEX]), int(rows[-1, OFFSET]))
        first = int(np.argmin(rows[:, INDEX]))
        least = (int(rows[first, INDEX]), int(rows[first, OFFSET]))
        queue = self.queues.setdefault((topic, queue_id), _Queue(greatest, least, 0))
        queue.greatest, queue.least = greatest, min(queue.least, least)
        queue.row_count += len(rows)

    def _write(self, family: int, prefix: bytes, tail_size: int, rows: bytes, count: int) -> None:
        head = rowchild.HEAD.pack(family, len(prefix), tail_size, len(rows) // count - tail_size, count)
        try:
            self.pipe.write(head + prefix + rows)
        except OSError as error:
            raise StoreError("the process that writes the database is gone", path=self.path) from error

    def finish(self) -> tuple[BuiltQueue, ...]:
        """Put the bounds and the mark; what every queue became, by topic and queueId."""
        for (topic, queue_id), queue in self.queues.items():
            for is_max, (place, offset) in ((True, queue.greatest), (False, queue.least)):
                key = encode_bound_key(BoundKey(topic, queue_id, is_max))
                self._write(BOUNDS, key, 0, ROCKS_OFFSET.build({"phyOffset": offset, "cqOffset": place}), 1)
        if self.mark is not None:
            self._write(BOUNDS, DISPATCHED_KEY, 0, encode_i64(self.mark), 1)
        try:
            self.pipe.write(rowchild.HEAD.pack(rowchild.END, 0, 0, 0, 0))
            self.pipe.close()
        except OSError as error:
            raise StoreError("the process that writes the database is gone", path=self.path) from error
        return tuple(
            BuiltQueue(
                os.fsdecode(topic),
                queue_id,
                "file",
                queue.least[0],
                queue.greatest[0] + 1,
                queue.row_count,
                0,
            )
            for (topic, queue_id), queue in sorted(self.queues.items())
        )


def rows_built(builder: RowBuilder, walked: LogWalked, database: str) -> QueueBuild:
    """What is to be said of a database of queues, once `finish` is done."""
    built = builder.finish()
    notes = [f"{file} is damaged: records in its broken parts have no rows" for file in walked.damaged_files]
    return QueueBuild(
        built,
        builder.record_count,
        sum(queue.unit_count for queue in built),
        builder.refused_count,
        False,
        tuple(notes),
        database,
    )


@contextmanager
def row_writer(directory: Path, *, light: bool) -> Iterator[RowBuilder]:
    """Yield who takes the units for a new database in `directory`; it is whole when the block has ended.

    The block ends with `rows_built`. Raises StoreError without rocksdict, and where RocksDB cannot write.
    """
    if find_spec("rocksdict") is None:
        raise StoreError(f"writing RocksDB needs rocksdict: {INSTALL}", path=str(directory))
    process = subprocess.Popen(
        [sys.executable, "-P", str(Path(rowchild.__file__)), os.path.realpath(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield RowBuilder(process.stdin, str(directory), light=light)
        process.wait(PATIENCE)
        said = process.stdout.read()
        if said != rowchild.OK:
            text = said.decode("utf-8", "replace") or f"status {process.returncode}"
            raise StoreError(f"RocksDB cannot write: {text}", path=str(directory))
    except subprocess.TimeoutExpired as error:
        raise StoreError("RocksDB does not come to an end", path=str(directory)) from error
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
