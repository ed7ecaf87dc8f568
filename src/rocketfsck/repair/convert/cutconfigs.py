"""The files of `config/` with what concerns some queues: topics, groups, committed offsets.

Each table of a file lists something by topic, by group, or by `topic@group`. What belongs to the queues that
are taken stays as it is, and the dataVersion of the file, too. A committed offset outside its new queue is
moved to the nearer end: the group has consumed what was before, and nothing of what came after.
Reference 1.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.config import (
    decode_config,
    encode_config,
    integer_of,
    member_of,
    split_topic_group,
    table_of,
)
from rocketfsck.formats.timer import SCHEDULE_TOPIC
from rocketfsck.reader.configs import BACKUP, load_config
from rocketfsck.repair.convert.chosen import QueueBounds
from rocketfsck.repair.convert.model import PartLeftOut
from rocketfsck.store.model import Store
from rocketfsck.verify.store.offsets import RETRY_PREFIX

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
            queue_id, wanted = integer_of(number, "a queueId"), integer_of(offset, f"an offset of {topic}")
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
            contents[name] = encode_config(_kept(store, name, values[name], cut))
    return CutConfigs(contents, cut.moved_count, tuple(left))


def _loaded(store: Store, name: str) -> Mapping[Any, Any] | None:
    found = load_config(store, name, lambda data: _checked(name, decode_config(data)))
    if found.error is not None and found.value is None:
        raise found.error
    return found.value


def _checked(name: str, value: Any) -> Mapping[Any, Any]:
    """The content of a file, whose tables are tables. Raises FormatError."""
    for member in TABLES[name]:
        member_of(value, member)
    return table_of(value, "the content")


def _groups(name: str, value: Mapping[Any, Any], has_topic: Callable[[str], bool]) -> Iterator[str]:
    """The groups that a file shows as consumers of the topics."""
    for member, keep in TABLES[name].items():
        keys = map(str, member_of(value, member))
        if keep in (_offsets, _light_offsets, _by_topic_and_group):
            pairs = (split_topic_group(key) for key in keys)
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
            member: keep(member_of(value, member), cut)
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
        else _by_topic(table_of(item, str(group)), cut)
        for group, item in table.items()
        if group in cut.groups
    }


def _by_topic_and_group(table: Mapping[Any, Any], cut: _Cut) -> Mapping[Any, Any]:
    return {key: item for key, item, topic in _of_topics(table) if cut.has_topic(topic)}


def _offsets(table: Mapping[Any, Any], cut: _Cut) -> Mapping[Any, Any]:
    """The offsets of queues that the new store has, each inside its queue."""
    found: dict[Any, dict[int, int]] = {}
    for key, item, topic in _of_topics(table):
        offsets = table_of(item, str(key)).items()
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
    levels = ((integer_of(level, "a delay level") - 1, offset) for level, offset in table.items())
    return {queue_id + 1: offset for queue_id, offset in cut.inside(SCHEDULE_TOPIC, levels)}


def _of_topics(table: Mapping[Any, Any]) -> Iterator[tuple[Any, Any, str]]:
    """The items of a table by `topic@group`, and the topic."""
    for key, item in table.items():
        pair = split_topic_group(str(key))
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
