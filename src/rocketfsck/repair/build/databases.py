"""The database of consume queues, made again from the log. Reference 3.9; `formats.rocks`.

    default   a row for each record that a broker dispatches, at its queue offset; of several the last
    offset    of each queue the greatest, of the record that was put last, and the least; the end of the last
              record with a row

A process of its own writes the rows (`rowpipe`). Memory: some 300 bytes a queue.

`rocksdbstore/` made again: the index from the log, timers and transactions from the database there is.

    default   a row for each key, for the tags and the unique key of each record; up to where, and when
    timer     copied: the log does not show what was delivered already
    trans     copied: the log does not show how often a producer was asked, and which messages were given up

A family that cannot be read any more stays empty, which `notes` say. Reference 11.3, 11.7.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats import dtypes, javatext, rocks, timer
from rocketfsck.reader.indexrows import log_batches
from rocketfsck.repair.build.files import BuiltQueue, QueueBuild
from rocketfsck.repair.build.queuestates import RawNames
from rocketfsck.repair.build.walk import LogWalked
from rocketfsck.scan.units import FLAGS, INDEX, OFFSET, OWN, QUEUE, SIZE, SKIPPED, TAGS, TIME
from rocketfsck.store.model import Store
from rocketfsck.store.rocks.families import DEFAULT, MESSAGE_DATABASE, database_at
from rocketfsck.store.rocks.reading import RowPipe, read_rows, row_pipe

MESSAGE_FAMILIES = (DEFAULT, "timer", "trans")
HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
TOPICS: Mapping[str, str] = {"timer": timer.TIMER_TOPIC, "trans": HALF_TOPIC}
"""By family: the topic whose messages it has rows of."""
WITHOUT: Mapping[str, str] = {
    "timer": (
        f"a broker with timerRocksDBEnable=true reads {timer.TIMER_TOPIC} from its first message on, and "
        "delivers messages a second time"
    ),
    "trans": (
        "a broker with transRocksDBEnable=true asks only about the prepared messages that it dispatches again"
    ),
}
"""By family: what a broker does where it is empty."""


@dataclass(frozen=True, slots=True)
class MessageRows:
    """A database of messages as it was rebuilt. `kept_counts` are the rows, marks among them, of each family
    that was copied; `lost` are the families whose rows could not be read."""

    database: str
    record_count: int
    index_row_count: int
    kept_counts: dict[str, int] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def build_message_rows(store: Store, root: Path, *, index: bool = True) -> MessageRows:
    """Make the database below `root`; without `index` its index stays empty.

    Raises StoreError where the log cannot be read or RocksDB not write.
    """
    with row_pipe(root / MESSAGE_DATABASE, MESSAGE_FAMILIES) as pipe:
        record_count, row_count, seen = _put_index(store, pipe, index=index)
        kept, notes = {}, []
        for family in MESSAGE_FAMILIES[1:]:
            try:
                kept[family] = _copy(store, pipe, family)
            except _UnreadableError as error:
                if TOPICS[family] in seen:
                    notes.append(
                        f"{MESSAGE_DATABASE}: the rows of {family} are lost ({error}): {WITHOUT[family]}"
                    )
        pipe.end()
    lost = tuple(family for family in MESSAGE_FAMILIES[1:] if family not in kept and TOPICS[family] in seen)
    return MessageRows(MESSAGE_DATABASE, record_count, row_count, kept, lost, tuple(notes))


def _put_index(store: Store, pipe: RowPipe, *, index: bool) -> tuple[int, int, set[str]]:
    """Put the index, if it is wanted; the number of records with rows, that of rows, and which of TOPICS the
    log has."""
    record_count = row_count = newest = 0
    last = -1
    seen: set[str] = set()
    for batch in log_batches(store):
        for topic in TOPICS.values():
            if topic not in seen and batch.of_topics(frozenset({topic.encode()})).any():
                seen.add(topic)
        for rows in batch.index_rows() if index else ():
            for key, store_timestamp, _ in rows.pairs():
                pipe.put(DEFAULT, key, rocks.encode_i64(store_timestamp))
            record_count += len(np.unique(rows.offsets))
            row_count += len(rows.offsets)
            last = int(rows.offsets[-1])
            newest = max(newest, int(rows.store_timestamps.max()))
    if record_count:
        for mark, number in zip(rocks.MARKS[DEFAULT], (last, newest), strict=True):
            pipe.put(DEFAULT, mark, rocks.encode_i64(number))
    return record_count, row_count, seen


class _UnreadableError(Exception):
    """Why the rows of a family are not known."""


def _copy(store: Store, pipe: RowPipe, family: str) -> int:
    """Copy the rows of a family; how many there are. Raises _UnreadableError before any was put."""
    other = database_at(store, MESSAGE_DATABASE)
    if other is None:
        raise _UnreadableError("the store has no such database")
    with _unreadable():
        pairs = [pair for rows in read_rows(other, [family]) for pair in rows.pairs()]
    for key, value in pairs:
        pipe.put(family, key, value)
    return len(pairs)


@contextmanager
def _unreadable() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise _UnreadableError(str(error)) from error


QUEUE_FAMILIES = (UNITS, BOUNDS) = ("default", "offset")
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

    `light`: records go to the further queues that they name, too. `begins_at` says of a queue (its topic and
    queueId) from which physical offset on its records get rows.
    """

    def __init__(
        self,
        pipe: RowPipe,
        *,
        light: bool,
        begins_at: Callable[[bytes, int], int] = lambda _topic, _queue_id: 0,
    ) -> None:
        self.pipe = pipe
        self.light = light
        self.begins_at = begins_at
        self.queues: dict[tuple[bytes, int], _Queue] = {}
        self.mark: int | None = None
        self.record_count = 0
        self.refused_count = 0

    def take_units(self, rows: dtypes.Longs, table: int, raw_names: RawNames, name_count: int) -> None:  # noqa: ARG002
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
            raw_name, queue_id = raw_names[number]
            topic = javatext.java_decode(raw_name).encode("utf-8", "replace")
            first = self.begins_at(topic, queue_id)
            mine = rows[(rows[:, QUEUE] == number) & (rows[:, OFFSET] >= first)]
            if len(mine):
                self._put(topic, queue_id, mine)

    def _put(self, topic: bytes, queue_id: int, rows: dtypes.Longs) -> None:
        data = np.empty(len(rows), ROW)
        columns = (INDEX, OFFSET, SIZE, TAGS, TIME)
        for name, column in zip(ROW.names or (), columns, strict=True):
            data[name] = rows[:, column]
        prefix = rocks.encode_unit_key(rocks.UnitKey(topic, queue_id, 0))[:-PLACE_SIZE]
        self.pipe.put_many(UNITS, prefix, PLACE_SIZE, data.tobytes(), len(rows))
        greatest = (int(rows[-1, INDEX]), int(rows[-1, OFFSET]))
        first = len(rows) - 1 - int(np.argmin(rows[::-1, INDEX]))  # of several the last has the row
        least = (int(rows[first, INDEX]), int(rows[first, OFFSET]))
        queue = self.queues.setdefault((topic, queue_id), _Queue(greatest, least, 0))
        queue.greatest = greatest
        queue.least = least if least[0] <= queue.least[0] else queue.least
        queue.row_count += len(rows)

    def put_bound(self, key: rocks.BoundKey, place: int, offset: int) -> None:
        """Put one end of a queue: its queue offset and its physical offset."""
        value = rocks.ROCKS_OFFSET.build({"phyOffset": offset, "cqOffset": place})
        self.pipe.put(BOUNDS, rocks.encode_bound_key(key), value)

    def finish(self) -> tuple[BuiltQueue, ...]:
        """Put the bounds and the mark; what every queue became, by topic and queueId."""
        for (topic, queue_id), queue in self.queues.items():
            for is_max, end in ((True, queue.greatest), (False, queue.least)):
                self.put_bound(rocks.BoundKey(topic, queue_id, is_max), *end)
        if self.mark is not None:
            self.pipe.put(BOUNDS, rocks.DISPATCHED_KEY, rocks.encode_i64(self.mark))
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


def beside_files(files: QueueBuild, rows: QueueBuild) -> QueueBuild:
    """What is to be said of queues that were built as files and as a database."""
    return replace(files, database=rows.database, notes=tuple(dict.fromkeys([*files.notes, *rows.notes])))


@contextmanager
def row_writer(directory: Path, *, light: bool) -> Iterator[RowBuilder]:
    """Yield who takes the units for a new database in `directory`; it is whole when the block has ended.

    The block ends with `rows_built`. Raises StoreError without rocksdict, and where RocksDB cannot write.
    """
    with row_pipe(directory, QUEUE_FAMILIES) as pipe:
        yield RowBuilder(pipe, light=light)
