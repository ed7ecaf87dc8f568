"""A database of consume queues made again in its place: rows from the log, and what only the former one knew.

    what the former database knew                       what becomes of it
    the ends of a queue all of whose records expired    kept: new messages continue its queue offsets
    the queues that it had                              no other queue gets rows of earlier records, unless
                                                        records of it were reported to have no row
    the mark up to which records have rows              what comes later is dispatched as a start does it
    further families                                    copied

Records of a topic from before it was deleted and made again get no rows. Where the ends cannot be read, the
topics of the broker say which were deleted, and the committed offsets of groups where an expired queue
continues. Reference 3.9, 11.4; `repair.build.databases`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import config, properties, rocks, timer
from rocketfsck.reader.configs import loaded_topics, may_lack_topics
from rocketfsck.repair.build.databases import BOUNDS, QUEUE_FAMILIES, RowBuilder, rows_built
from rocketfsck.repair.build.files import QueueBuild
from rocketfsck.repair.build.walk import walk_log
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import Other, Store
from rocketfsck.store.reading import FileReader
from rocketfsck.store.rocks.families import database_at
from rocketfsck.store.rocks.lifting import lifted
from rocketfsck.store.rocks.reading import RocksError, RowPipe, estimate_rows, read_rows, row_pipe
from rocketfsck.verify.store.configfiles import is_system_topic, load_configs
from rocketfsck.verify.store.offsets import OFFSETS, positions_of

RawName = tuple[bytes, int]
"""A queue as the rows name it: the bytes of its topic, and its queueId."""
End = tuple[int, int]
"""Queue offset and physical offset of an end of a queue."""
Topics = Mapping[str, config.TopicConfig] | None
"""The topics of the broker by name; None where they cannot be read."""
_NOWHERE = 1 << 62


@dataclass(frozen=True, slots=True)
class FormerEnds:
    """What the family of bounds of a database says: the greatest and the least unit of each queue, the mark;
    `families` are those of the database besides those of queues."""

    greatest: Mapping[RawName, End]
    least: Mapping[RawName, End]
    mark: int | None
    families: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogQueues:
    """What the records of the log show of queues, whether or not these have units.

    `ends`: the queue offset after that of the last record, by queue; `fell`: the physical offset at which its
    queue offsets fell last, if they did; `begins` the first of these by topic. `made_again` are topics that
    were deleted then, since queues of other topics went on.
    """

    ends: Mapping[RawName, int]
    fell: Mapping[RawName, int]
    begins: Mapping[bytes, int]
    made_again: Collection[bytes]

    def begin(self, name: RawName, queue_count: int | None) -> int:
        """From which physical offset on the records of a queue belong to the topic as it is. `queue_count` is
        the number of queues of the topic, None where that is not known."""
        if name in self.fell:
            return self.fell[name]
        former = name[0] in self.made_again or (queue_count is not None and name[1] >= queue_count)
        return self.begins.get(name[0], 0) if former else 0


@dataclass(slots=True)
class _LogQueue:
    """Physical offsets of the first and the last record, the last queue offset, and where queue offsets fell
    last, None where they only grew."""

    first: int
    last: int = -1
    queue_offset: int = -1
    fell_at: int | None = None


def queues_in_log(store: Store) -> LogQueues:
    """Read the frames of the log once. What cannot be read is left out."""
    found: dict[RawName, _LogQueue] = {}
    table = QueueTable()
    for file in store.commitlog.files:
        base = file.start_offset or 0
        options = log_options(store, file, read_bodies=False)
        with suppress(StoreError), FileReader(file.path) as reader:
            for batch in scan_log_file(reader, base, options, table):
                if isinstance(batch, RecordBatch):
                    _take(found, batch, base, table)
    fell = {name: queue.fell_at for name, queue in found.items() if queue.fell_at is not None}
    begins: dict[bytes, int] = {}
    for (topic, _), offset in fell.items():
        begins[topic] = min(offset, begins.get(topic, offset))
    steady = [(topic, queue) for (topic, _), queue in found.items() if queue.fell_at is None]
    again = frozenset(
        topic
        for topic, begin in begins.items()
        if any(other != topic and queue.first < begin < queue.last for other, queue in steady)
    )
    return LogQueues({name: queue.queue_offset + 1 for name, queue in found.items()}, fell, begins, again)


def _take(found: dict[RawName, _LogQueue], batch: RecordBatch, base: int, table: QueueTable) -> None:
    rows = batch["queue_index"]
    for row in np.unique(rows).tolist():
        topic, queue_id = table.names[row]
        mine = np.flatnonzero(rows == row)
        offsets, places = batch["queue_offset"][mine], batch["pos"][mine] + base
        queue = found.setdefault((bytes(topic), queue_id), _LogQueue(int(places[0])))
        falls = np.flatnonzero(np.diff(offsets, prepend=queue.queue_offset) < 0)
        if len(falls):
            queue.fell_at = int(places[falls[-1]])
        queue.last, queue.queue_offset = int(places[-1]), int(offsets[-1])


def former_ends(other: Other) -> FormerEnds | None:
    """The ends of the queues of a database; None where they cannot be read."""
    greatest: dict[RawName, End] = {}
    least: dict[RawName, End] = {}
    mark = None
    try:
        families = tuple(name for name in estimate_rows(other) if name not in QUEUE_FAMILIES)
        for rows in read_rows(other, [BOUNDS]):
            for key, value in rows.pairs():
                try:
                    if key == rocks.DISPATCHED_KEY:
                        mark = rocks.decode_i64(value, "phyOffset")
                        continue
                    bound = rocks.decode_bound_key(key)
                    values = rocks.ROCKS_OFFSET.parse(value)
                except FormatError:
                    continue
                ends = greatest if bound.is_max else least
                ends[bound.topic, bound.queue_id] = values["cqOffset"], values["phyOffset"]
    except RocksError:
        return None
    return FormerEnds(greatest, least, mark, families)


def build_queue_rows(
    store: Store, path: str, directory: Path, restored: Collection[RawName] | None
) -> QueueBuild:
    """Make the database of queues at `path` again in `directory`, which does not exist.

    `restored` are queues that get rows of all their records, whether or not the database had them; None: all
    that were not deleted. Raises StoreError where the log cannot be read or RocksDB not write.
    """
    other = database_at(store, path)
    former = None if other is None else former_ends(other)
    further = () if former is None else former.families
    with lifted(store) as lifting:
        topics = None if may_lack_topics(store) else loaded_topics(lifting.store)
        committed = _committed_ends(lifting.store)
    begins_at = _beginnings(former, restored, topics, queues_in_log(store))
    light = store.settings.flag("enableLmq", True)
    with row_pipe(directory, (*QUEUE_FAMILIES, *further)) as pipe:
        builder = RowBuilder(pipe, light=light, begins_at=begins_at)
        walked = walk_log(store, units=builder)
        start = store.commitlog.start_offset or 0
        if former is not None:
            _keep(builder, former, start)
        elif start > 0:
            there = {name: end for name, end in committed.items() if not is_removed(name[0], topics)}
            _continue(builder, there, start)
        if other is not None:
            _copy(pipe, other, further)
        return rows_built(builder, walked, path)


def _beginnings(
    former: FormerEnds | None,
    restored: Collection[RawName] | None,
    topics: Topics,
    log: LogQueues,
) -> Callable[[bytes, int], int]:
    """From which physical offset on the records of a queue get rows."""
    known: set[RawName] = set()
    later = 0
    if former is not None and restored is not None:
        known = {*former.greatest, *restored}
        later = _NOWHERE if former.mark is None and former.greatest else former.mark or 0

    def begins_at(topic: bytes, queue_id: int) -> int:
        found = (topics or {}).get(topic.decode("utf-8", "replace"))
        count = None if found is None else max(found.read_queue_nums, found.write_queue_nums)
        begin = log.begin((topic, queue_id), count)
        if (topic, queue_id) in known:
            return begin
        return _NOWHERE if is_removed(topic, topics) else max(later, begin)

    return begins_at


def is_removed(raw_topic: bytes, topics: Topics) -> bool:
    """Whether the broker deleted a topic, by the topics that it has; light queues and the system's topics are
    in no list for sure. A queue beyond the number of its topic's is kept: the topic may have had more."""
    topic = raw_topic.decode("utf-8", "replace")
    kept = topic.startswith(properties.LMQ_PREFIX) or is_system_topic(topic)
    return bool(topics) and not kept and topic not in (topics or {})


def _committed_ends(store: Store) -> dict[RawName, int]:
    """The greatest queue offset that a group has committed, or delayed delivery has reached, by queue."""
    ends: dict[RawName, int] = {}
    for (_, topic, queue_id), offset in (positions_of(store, OFFSETS) or {}).items():
        name = topic.encode("utf-8", "surrogateescape"), queue_id
        ends[name] = max(offset, ends.get(name, 0))
    for level, offset in load_configs(store).views.get("delayOffset.json", {}).items():
        ends[timer.SCHEDULE_TOPIC.encode(), timer.delay_queue_id(level)] = offset
    return ends


def _keep(builder: RowBuilder, former: FormerEnds, log_start: int) -> None:
    """Put the ends of queues whose records have all expired as they were."""
    for name, greatest in former.greatest.items():
        if name not in builder.queues and greatest[1] < log_start:
            builder.put_bound(rocks.BoundKey(*name, True), *greatest)
            if name in former.least:
                builder.put_bound(rocks.BoundKey(*name, False), *former.least[name])


def _continue(builder: RowBuilder, ends: Mapping[RawName, int], log_start: int) -> None:
    """Let expired queues go on where groups have read up to."""
    for name, end in ends.items():
        if name not in builder.queues and end > 0:
            builder.put_bound(rocks.BoundKey(*name, True), end - 1, log_start - 1)


def _copy(pipe: RowPipe, other: Other, families: Collection[str]) -> None:
    """Copy the rows of families that are not derived from the log."""
    if families:
        for rows in read_rows(other, families):
            for key, value in rows.pairs():
                pipe.put(rows.family, key, value)


def verify_rows(other: Other) -> int:
    """Read a database that was made, all of it; the number of its rows. Raises StoreError where that fails.

    The checksums of all blocks are compared by that.
    """
    try:
        return sum(len(rows) for rows in read_rows(other, mode="strict"))
    except RocksError as error:
        raise StoreError(
            f"the database that was made cannot be read: {error}", path=other.relative
        ) from error
