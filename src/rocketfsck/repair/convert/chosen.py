"""Which records go into a store that is cut out of another, and which of its queues have none there.

Of each queue a run of queue offsets is taken: from the first message of the time window to the last one, with
those between them whose storeTimestamp is outside the window, as after a step of the broker's clock. A 5.5.0
broker passes over a hole of a packed log, but a hole looks like a loss to everyone else.

The log keeps records that no queue has any more: of topics that were deleted, or whose number a broker has
given out again. The consume queues tell them from the others. What comes after the last unit of a queue is
dispatched by the next start. Reference 2.13, 3.8, 6.5.

The files of `config/` with what concerns some queues: topics, groups, committed offsets.

Each table of a file lists something by topic, by group, or by `topic@group`. What belongs to the queues that
are taken stays as it is, and the dataVersion of the file, too. A committed offset outside its new queue is
moved to the nearer end: the group has consumed what was before, and nothing of what came after.
Reference 1.6.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rocketfsck.common.wording import visible
from rocketfsck.errors import FormatError, StoreError, UsageError
from rocketfsck.formats import config, consumequeue, dtypes, timer
from rocketfsck.query.view import QueueView, StoreView
from rocketfsck.reader.configs import BACKUP, load_config
from rocketfsck.reader.units import BLOCK_COUNT, Kind, is_light_queue, kinds_of
from rocketfsck.repair.build.files import last_in_queues
from rocketfsck.repair.carve.carve import CarvedRecords
from rocketfsck.repair.convert.model import PartLeftOut, QueueLeftOut
from rocketfsck.repair.log import read_log_end
from rocketfsck.repair.salvage.choose import takes_queue_offset
from rocketfsck.repair.salvage.ledger import QueueAccount
from rocketfsck.scan.spans import among, group_bounds
from rocketfsck.store.model import Store
from rocketfsck.verify.store.configfiles import is_system_topic
from rocketfsck.verify.store.offsets import RETRY_PREFIX

MAX_QUEUE_OFFSET = ((1 << 63) - 1) // consumequeue.UNIT_SIZE
"""The file of a later unit has no name."""

QueueBounds = dict[tuple[str, int], tuple[int, int]]
"""The first queue offset, and that after the last one, by topic and queueId."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The messages that are wanted: of these topics, empty for all but those of RocketMQ itself and those of
    messages to be retried; of one queue of a topic, None for all; with a storeTimestamp (ms) from `begin` on,
    before `end`, None for any."""

    topics: frozenset[str] = frozenset()
    queue_id: int | None = None
    begin: int | None = None
    end: int | None = None

    def has_topic(self, topic: str) -> bool:
        """Whether messages of a topic are wanted."""
        if self.topics:
            return topic in self.topics
        return not is_system_topic(topic) and not topic.startswith(RETRY_PREFIX)

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """Whether messages of a queue are wanted."""
        return self.has_topic(topic) and self.queue_id in (None, queue_id)


def served_rows(store: Store, found: CarvedRecords) -> dtypes.Flags:
    """The records that consumers get, now or after a start, and those that have no place in a queue.

    `store` has the queues of its databases. Raises StoreError where a queue leads elsewhere than to its
    records, and for what cannot be read.
    """
    taking = takes_queue_offset(found)
    flags = ~taking
    rows = np.flatnonzero(taking)
    rows = rows[np.argsort(found["queue_index"][rows], kind="stable")]
    with StoreView(store) as view:
        dispatched = _dispatched_offset(store)
        for low, high in pairwise(group_bounds(found["queue_index"][rows]).tolist()):
            own = rows[low:high]
            topic, queue_id = found.table.names[int(found["queue_index"][own[0]])]
            queue = view.queue(os.fsdecode(topic), queue_id)
            offsets = found["physical_offset"][own]
            reached = dispatched
            if queue is not None:
                for units in _led_to(queue, offsets, found["queue_offset"][own]):
                    flags[own[units]] = True
                    reached = int(offsets[units[-1]])
                queue.close()
            flags[own] |= offsets > reached
    return flags


def _dispatched_offset(store: Store) -> int:
    """The physical offset of the last record that has a unit; -1 for none."""
    last = last_in_queues(store, read_log_end(store))
    return -1 if last is None else last.physical_offset


def _led_to(queue: QueueView, physical: dtypes.Longs, queue_offsets: dtypes.Longs) -> Iterator[dtypes.Longs]:
    """Block by block the records, by their number among those of the queue, that the units of it lead to."""
    is_batch = queue.queue.kind == "batch"
    for first in range(queue.min_index, queue.end_index, BLOCK_COUNT):
        units = queue.units(first, min(BLOCK_COUNT, queue.end_index - first))
        leading = np.flatnonzero(kinds_of(units) == Kind.UNIT)
        offsets = units["offset"][leading].astype(np.int64)
        numbers = units["msgBaseOffset"][leading].astype(np.int64) if is_batch else first + leading
        rows = np.searchsorted(physical, offsets)
        rows[rows == len(physical)] = 0
        wrong = np.flatnonzero(~among(offsets, physical) | (queue_offsets[rows] != numbers))
        if len(wrong):
            text = f"has a unit at queue offset {numbers[wrong[0]]} of a record with another place"
            raise StoreError(text, path=str(queue.files[0].path), offset=int(offsets[wrong[0]]))
        if len(rows):
            yield rows


def rows_between(found: CarvedRecords, wanted: Wanted) -> tuple[dtypes.Flags, int]:
    """The rows of the time window, each queue without holes; and how many of them are outside the window."""
    inside = np.ones(len(found), np.bool_)
    if wanted.begin is not None:
        inside &= found["store_timestamp"] >= wanted.begin
    if wanted.end is not None:
        inside &= found["store_timestamp"] < wanted.end
    own = takes_queue_offset(found)
    queue, offset = found["queue_index"], found["queue_offset"]
    bounds = np.iinfo(np.int64)
    first = np.full(len(found.table.names), bounds.max, np.int64)
    last = np.full(len(found.table.names), bounds.min, np.int64)
    within = inside & own
    np.minimum.at(first, queue[within], offset[within])
    np.maximum.at(last, queue[within], offset[within])
    flags = np.where(own, (offset >= first[queue]) & (offset <= last[queue]), inside)
    return flags, int(np.count_nonzero(flags & ~inside))


def light_bounds(store: Store, found: CarvedRecords) -> QueueBounds:
    """The light queues that list the records taken, each from its first such unit to its last.

    Raises UsageError for one that lists another message between them.
    """
    bounds: QueueBounds = {}
    with StoreView(store) as view:
        for listing in filter(is_light_queue, store.queues):
            queue = view.queue(listing.topic, listing.queue_id)
            assert queue is not None
            low, high, count = queue.end_index, queue.min_index, 0
            for first, offsets in _unit_offsets(queue):
                taken = first + np.flatnonzero(among(offsets, found["physical_offset"]))
                if len(taken):
                    low, high, count = min(low, int(taken[0])), int(taken[-1]) + 1, count + len(taken)
            queue.close()
            if count and count < high - low:
                text = f"the light queue {visible(listing.topic)} lists other messages between those wanted"
                raise UsageError(f"{text}: take all topics whose messages it lists, with all their queues")
            if count:
                bounds[listing.topic, listing.queue_id] = low, high
    return bounds


def _unit_offsets(queue: QueueView) -> Iterator[tuple[int, dtypes.Longs]]:
    """The index of the first unit of each block, and where the units of it lead."""
    for first in range(queue.min_index, queue.end_index, BLOCK_COUNT):
        units = queue.units(first, min(BLOCK_COUNT, queue.end_index - first))
        yield first, units["offset"].astype(np.int64)


def queue_bounds(queues: Iterable[QueueAccount]) -> QueueBounds:
    """The bounds of the queues that records are taken of."""
    return {
        (queue.topic, queue.queue_id): (queue.first_queue_offset, queue.end_queue_offset) for queue in queues
    }


def queues_left_out(
    store: Store, is_wanted: Callable[[str, int], bool], taken: QueueBounds
) -> Iterator[QueueLeftOut]:
    """The wanted queues without a record in the new store, but for those that never had one.

    A database knows the last queue offset of a queue whose rows have all expired. Raises StoreError where no
    queue can end.
    """
    ends = {
        name: queue.greatest[0] + 1
        for database in store.lifted.queues.values()
        for name, queue in database.bounds.items()
        if queue.greatest is not None
    }
    with StoreView(store) as view:
        for name in sorted({(queue.topic, queue.queue_id) for queue in store.queues} | ends.keys()):
            if name in taken or not is_wanted(*name):
                continue
            queue, end = view.queue(*name), ends.get(name, 0)
            if queue is not None:
                end = max(end, queue.max_offset)
                queue.close()
            if end > MAX_QUEUE_OFFSET:
                raise StoreError(f"queue {name[1]} of {visible(name[0])} cannot end at queue offset {end}")
            if end > 0:
                yield QueueLeftOut(*name, end)


def prove_bounds(made: Store, bounds: QueueBounds) -> None:
    """Raise StoreError unless each queue of a store begins and ends at these queue offsets."""
    with StoreView(made) as view:
        for (topic, queue_id), (first, end) in bounds.items():
            queue = view.queue(topic, queue_id)
            if queue is None or (queue.min_offset, queue.max_offset) != (first, end):
                text = f"queue {queue_id} of {visible(topic)} cannot have the queue offsets {first} to {end}"
                raise StoreError(f"{text}: its broker has numbered it in another way than its records say")
            queue.close()


DEAD_PREFIX = "%DLQ%"
_VERSION = "dataVersion"
NOT_TAKEN: Mapping[str, str] = {
    "tieredStoreMetadata.json": "tiered storage is not read",
    "timermetrics": "counts what waits for a timer; a broker makes it again",
    "transactionMetrics": "counts half messages; a broker makes it again",
}
"""Files that are not taken along, and why."""


@dataclass(frozen=True, slots=True)
class CutConfigs:
    """The contents of the new files by name, how many offsets were moved, and the files left out."""

    contents: Mapping[str, bytes]
    moved_count: int
    parts_left_out: tuple[PartLeftOut, ...]


@dataclass(slots=True)
class _Cut:
    """What is kept: topics, groups, the bounds of the queues; and how many offsets were moved so far."""

    has_topic: Callable[[str], bool]
    groups: frozenset[str]
    bounds: QueueBounds
    moved_count: int = 0

    def inside(self, topic: str, offsets: Iterable[tuple[Any, Any]]) -> Iterator[tuple[int, int]]:
        """The queues of a topic that the new store has, and the offset of each inside it; of queueId and
        offset as a file says them. Raises FormatError."""
        for number, offset in offsets:
            queue_id, wanted = (
                config.integer_of(number, "a queueId"),
                config.integer_of(offset, f"an offset of {topic}"),
            )
            if (topic, queue_id) in self.bounds:
                start, end = self.bounds[topic, queue_id]
                kept = min(max(wanted, start), end)
                self.moved_count += kept != wanted
                yield queue_id, kept


def cut_configs(store: Store, has_topic: Callable[[str], bool], bounds: QueueBounds) -> CutConfigs:
    """The files for the queues of `bounds`, which are queues of the topics that are wanted.

    `store` has the configs of its databases. Raises StoreError for a file that a broker would not load.
    """
    contents: dict[str, bytes] = {}
    left: list[PartLeftOut] = []
    names = sorted({file.name.removesuffix(BACKUP) for file in store.configs})
    values = {name: value for name in names if name in TABLES and (value := _loaded(store, name)) is not None}
    groups = {group for name, value in values.items() for group in _groups(name, value, has_topic)}
    cut = _Cut(has_topic, frozenset(groups), bounds)
    for name in names:
        if name not in TABLES:
            left.append(PartLeftOut(f"config/{name}", NOT_TAKEN[name]))
        elif name in values:
            contents[name] = config.encode_config(_kept(store, name, values[name], cut))
    return CutConfigs(contents, cut.moved_count, tuple(left))


def _loaded(store: Store, name: str) -> Mapping[Any, Any] | None:
    found = load_config(store, name, lambda data: _checked(name, config.decode_config(data)))
    if found.error is not None and found.value is None:
        raise found.error
    return found.value


def _checked(name: str, value: Any) -> Mapping[Any, Any]:
    """The content of a file, whose tables are tables. Raises FormatError."""
    for member in TABLES[name]:
        config.member_of(value, member)
    return config.table_of(value, "the content")


def _groups(name: str, value: Mapping[Any, Any], has_topic: Callable[[str], bool]) -> Iterator[str]:
    """The groups that a file shows as consumers of the topics."""
    for member, keep in TABLES[name].items():
        keys = map(str, config.member_of(value, member))
        if keep in (_offsets, _light_offsets, _by_topic_and_group):
            pairs = (config.split_topic_group(key) for key in keys)
            yield from (pair[1] for pair in pairs if pair is not None and has_topic(pair[0]))
        elif name == "topics.json":
            for prefix in (RETRY_PREFIX, DEAD_PREFIX):
                yield from (
                    key.removeprefix(prefix) for key in keys if key.startswith(prefix) and has_topic(key)
                )


def _kept(store: Store, name: str, value: Mapping[Any, Any], cut: _Cut) -> dict[str, Any]:
    known = {_VERSION: value[_VERSION]} if _VERSION in value else {}
    try:
        tables = {
            member: keep(config.member_of(value, member), cut)
            for member, keep in TABLES[name].items()
            if member in value
        }
    except FormatError as error:
        path = str(store.root / "config" / name)
        raise StoreError(f"has another form than a broker's: {error}", path=path) from error
    return known | tables


def _by_topic(table: Mapping[Any, Any], cut: _Cut) -> Mapping[Any, Any]:
    return {topic: item for topic, item in table.items() if cut.has_topic(str(topic))}


def _by_group(table: Mapping[Any, Any], cut: _Cut) -> Mapping[Any, Any]:
    return {group: item for group, item in table.items() if group in cut.groups}


def _topics_by_group(table: Mapping[Any, Any], cut: _Cut) -> Mapping[Any, Any]:
    """Of each group what is listed by topic, as a list or a table."""
    return {
        group: [topic for topic in item if cut.has_topic(str(topic))]
        if isinstance(item, list)
        else _by_topic(config.table_of(item, str(group)), cut)
        for group, item in table.items()
        if group in cut.groups
    }


def _by_topic_and_group(table: Mapping[Any, Any], cut: _Cut) -> Mapping[Any, Any]:
    return {key: item for key, item, topic in _of_topics(table) if cut.has_topic(topic)}


def _offsets(table: Mapping[Any, Any], cut: _Cut) -> Mapping[Any, Any]:
    """The offsets of queues that the new store has, each inside its queue."""
    found: dict[Any, dict[int, int]] = {}
    for key, item, topic in _of_topics(table):
        offsets = config.table_of(item, str(key)).items()
        kept = dict(cut.inside(topic, offsets))
        if kept:
            found[key] = kept
    return found


def _light_offsets(table: Mapping[Any, Any], cut: _Cut) -> Mapping[Any, Any]:
    """The same of light queues: each has the queueId 0, which is left out."""
    return {
        key: offset for key, item, topic in _of_topics(table) for _, offset in cut.inside(topic, [(0, item)])
    }


def _delay_offsets(table: Mapping[Any, Any], cut: _Cut) -> Mapping[Any, Any]:
    """The same of delay levels, which are counted from 1."""
    levels = ((config.integer_of(level, "a delay level") - 1, offset) for level, offset in table.items())
    return {queue_id + 1: offset for queue_id, offset in cut.inside(timer.SCHEDULE_TOPIC, levels)}


def _of_topics(table: Mapping[Any, Any]) -> Iterator[tuple[Any, Any, str]]:
    """The items of a table by `topic@group`, and the topic."""
    for key, item in table.items():
        pair = config.split_topic_group(str(key))
        if pair is not None:
            yield key, item, pair[0]


_OFFSETTABLES = {
    "offsetTable": _offsets,
    "pullOffsetTable": _offsets,
    "resetOffsetTable": _offsets,
    "groupTopicMap": _topics_by_group,
}
TABLES: Mapping[str, Mapping[str, Callable[[Mapping[Any, Any], _Cut], Mapping[Any, Any]]]] = {
    "topics.json": {"topicConfigTable": _by_topic},
    "subscriptionGroup.json": {"subscriptionGroupTable": _by_group, "forbiddenTable": _topics_by_group},
    "consumerOffset.json": _OFFSETTABLES,
    "lmqConsumerOffset.json": {**_OFFSETTABLES, "lmqOffsetTable": _light_offsets},
    "delayOffset.json": {"offsetTable": _delay_offsets},
    "consumerFilter.json": {"filterDataByTopic": _by_topic},
    "consumerOrderInfo.json": {"table": _by_topic_and_group},
    "messageRequestMode.json": {"messageRequestModeMap": _by_topic},
    "topicQueueMapping.json": {"topicQueueMappingInfoMap": _by_topic},
}
"""The tables of each file, and what is kept of them."""
