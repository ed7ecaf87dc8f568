"""The database of consume queues, made again from the log. Reference 3.9; `formats.rocks`.

    default   a row for each record that a broker dispatches, at its queue offset; of several the last
    offset    of each queue the greatest, of the record that was put last, and the least; the end of the last
              record with a row

A process of its own writes the rows (`rowpipe`). Memory: some 300 bytes a queue.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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
from rocketfsck.repair.build.model import BuiltQueue, QueueBuild
from rocketfsck.repair.build.queuestates import RawNames
from rocketfsck.repair.build.walk import LogWalked
from rocketfsck.scan.build.rows import FLAGS, INDEX, OFFSET, OWN, QUEUE, SIZE, SKIPPED, TAGS, TIME
from rocketfsck.store.rocks.rowpipe import RowPipe, row_pipe

FAMILIES = (UNITS, BOUNDS) = ("default", "offset")
ROW = np.dtype([("place", ">i8"), ("offset", ">i8"), ("size", ">i4"), ("tags", ">i8"), ("time", ">i8")])
PLACE_SIZE = 8


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

    def __init__(self, pipe: RowPipe, *, light: bool) -> None:
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
        self.pipe.put_many(UNITS, prefix, PLACE_SIZE, data.tobytes(), len(rows))
        greatest = (int(rows[-1, INDEX]), int(rows[-1, OFFSET]))
        first = int(np.argmin(rows[:, INDEX]))
        least = (int(rows[first, INDEX]), int(rows[first, OFFSET]))
        queue = self.queues.setdefault((topic, queue_id), _Queue(greatest, least, 0))
        queue.greatest, queue.least = greatest, min(queue.least, least)
        queue.row_count += len(rows)

    def finish(self) -> tuple[BuiltQueue, ...]:
        """Put the bounds and the mark; what every queue became, by topic and queueId."""
        for (topic, queue_id), queue in self.queues.items():
            for is_max, (place, offset) in ((True, queue.greatest), (False, queue.least)):
                key = encode_bound_key(BoundKey(topic, queue_id, is_max))
                self.pipe.put(BOUNDS, key, ROCKS_OFFSET.build({"phyOffset": offset, "cqOffset": place}))
        if self.mark is not None:
            self.pipe.put(BOUNDS, DISPATCHED_KEY, encode_i64(self.mark))
        self.pipe.end()
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
    with row_pipe(directory, FAMILIES) as pipe:
        yield RowBuilder(pipe, light=light)
