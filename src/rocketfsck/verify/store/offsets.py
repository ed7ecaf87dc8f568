"""Committed offsets against the queues, and against the copy of the file: what each group would notice.

    offset < begin          the messages between expired before the group consumed them
    begin <= offset <= end  sound
    offset > end            brokers send the group to the end of the queue; before 4.9.4, to the beginning of
                            a queue that begins at 0. What is written before that, the group skips

A group commits what it pulled, and a broker gives out nothing beyond the end of a queue: an offset there
belongs to a queue that was longer, or no broker wrote it. In normal work only slaves, which copy the offsets
of their master apart from its log, light queues and static topics, which number in other ways, have such
offsets; and groups of which nothing shows that they consumed here, for which somebody set the offset.
Reference 1.6, 9.6; fault class K6.

Committed offsets, or settings of groups, that are all gone, while other files tell that groups consumed
(reference 1.6, 9.6).

A broker writes consumerOffset.json every five seconds and when it stops, with an `offsetTable` even where no
group has committed anything. A topic `%RETRY%group` in topics.json shows each group that ever connected,
broadcast groups included. A broker with `enableLmq` writes lmqConsumerOffset.json in its place. So a file
that is missing with its .bak, or has no table at all, is not a broker's work; an empty
table is one while no message was sent back to be retried, which a group without committed offsets (a
broadcast group) never does. Fault class K6.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import first_names
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import config, properties, timer
from rocketfsck.reader.configs import is_swept
from rocketfsck.store.model import OtherKind, Store, StrayReason
from rocketfsck.verify.finding import Facts, Finding, Findings, Where
from rocketfsck.verify.store import configfiles
from rocketfsck.verify.tasks.task import Known, QueueFacts

OFFSETS = "consumerOffset.json"
SUBSCRIPTIONS = "subscriptionGroup.json"
RETRY_PREFIX = "%RETRY%"
OFFSET_DATABASES = frozenset({"config/consumerOffsets", "config/rdb"})
SUBSCRIPTION_DATABASES = frozenset({"config/subscriptionGroups", "config/rdb"})
FILTERS = frozenset({"consumerFilter.json", "consumerFilter.json.bak"})
"""What each running broker writes every ten seconds, and nothing else does."""
WITHOUT_BROKER = frozenset({"topics.json", "delayOffset.json"})
"""Configs that are also written where no broker runs: by a store of 4.x, by a salvage."""
_SYSTEM_GROUPS = ("CID_RMQ_SYS_", "CID_ONS", "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP")
_NOT_CONSUMED = (RETRY_PREFIX, "%DLQ%", *configfiles.SYSTEM_PREFIXES, timer.SCHEDULE_TOPIC)
_ENDS_OF_GROUP = "_+"
"""What is between group and topic in the names of the retry topics of POP."""


def is_system_group(group: str) -> bool:
    """Whether RocketMQ itself consumes by this group."""
    return group.startswith(_SYSTEM_GROUPS)


def check_offsets_gone(
    store: Store, configs: configfiles.Configs, topics: Mapping[str, Any], known: Known
) -> Findings:
    """One finding where groups consumed and no offset of any group is left."""
    if kept_in_databases(store, OFFSET_DATABASES) or not _are_gone(store, configs, topics, known):
        return
    groups = sorted(consumer_groups(topics, subscribed_groups(configs)))
    queues = [
        known.queues.get((queue.topic, queue.queue_id))
        for queue in store.queues
        if queue.files and not queue.topic.startswith(_NOT_CONSUMED)
    ]
    if groups and queues:
        found: Facts = {
            **_listed(groups),
            "queue_count": len(queues),
            "again_count": sum(
                queue.max_offset - queue.min_live_offset
                for queue in queues
                if queue is not None and queue.min_live_offset is not None
            ),
        }
        yield Finding(RuleName.CONSUMER_OFFSETS_GONE, Where(f"config/{OFFSETS}"), found)


def check_subscriptions_gone(
    store: Store, configs: configfiles.Configs, topics: Mapping[str, Any] | None
) -> Findings:
    """One finding where groups consumed, and no file has the settings of any group."""
    groups = groups_without_settings(store, configs, topics)
    if groups:
        yield Finding(RuleName.SUBSCRIPTIONS_GONE, Where(f"config/{SUBSCRIPTIONS}"), _listed(groups))


def groups_without_settings(
    store: Store, configs: configfiles.Configs, topics: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """The groups that consumed, in order, where no file has the settings of any group; else none.

    A broker takes a group from a client only if the group has settings: it makes them, writes
    subscriptionGroup.json, and only then makes the retry topic or keeps an offset (ClientManageProcessor). So
    where a broker ran, retry topics and committed offsets show groups that were in the file.
    """
    names = {file.name for file in store.configs}
    if not names & FILTERS or names & {SUBSCRIPTIONS, f"{SUBSCRIPTIONS}.bak"}:
        return ()
    if kept_in_databases(store, SUBSCRIPTION_DATABASES):
        return ()
    keys = (key for name in config.OFFSET_VIEWS for key in configs.views.get(name, ()))
    committed = {parts[1] for parts in map(config.split_topic_group, keys) if parts is not None}
    groups = consumer_groups(topics or (), dict.fromkeys(committed))
    groups |= {group for group in committed if group and not is_system_group(group)}
    return tuple(sorted(groups))


def _listed(groups: Sequence[str]) -> Facts:
    """How many groups there are, and the names of the first."""
    return {"group_count": len(groups), "groups": first_names(groups)}


def kept_in_databases(store: Store, databases: Iterable[str]) -> bool:
    """Whether one of these databases is there, or a directory in config/ that nobody knows. In an empty
    directory a broker makes a new database."""
    present = {other.relative for other in store.others if other.kind is OtherKind.ROCKSDB and other.files}
    strays = (stray for stray in store.strays if stray.reason is StrayReason.DIRECTORY)
    return not present.isdisjoint(databases) or any(stray.relative.startswith("config/") for stray in strays)


def subscribed_groups(configs: configfiles.Configs) -> Mapping[str, Any]:
    """The groups of subscriptionGroup.json, with their settings."""
    listed = configs.views.get(SUBSCRIPTIONS, {}).get("subscriptionGroupTable")
    return listed if isinstance(listed, Mapping) else {}


def consumer_groups(topics: Iterable[str], known_groups: Mapping[str, Any]) -> set[str]:
    """The groups to which the retry topics of `topics` belong, those of RocketMQ itself left out.

    `known_groups` are those of subscriptionGroup.json.
    """
    names = (topic.removeprefix(RETRY_PREFIX) for topic in topics if topic.startswith(RETRY_PREFIX))
    groups = {_group_of(name, known_groups) for name in names}
    return {group for group in groups if group and not is_system_group(group)}


def _group_of(name: str, known_groups: Mapping[str, Any]) -> str:
    """The group of `group`, `group_topic` or `group+topic`: the longest that is listed, else the whole."""
    ends = [len(name), *(at for at in range(len(name) - 1, 0, -1) if name[at] in _ENDS_OF_GROUP)]
    return next((name[:end] for end in ends if name[:end] in known_groups), name)


def _are_gone(store: Store, configs: configfiles.Configs, topics: Mapping[str, Any], known: Known) -> bool:
    files = {file.name: file for file in store.configs}
    present = [name for name in config.OFFSET_VIEWS if name in files]
    if not present:  # stores alone write topics and delay offsets, too: then no broker kept groups here
        others = {name.removesuffix(".bak") for name in files} - WITHOUT_BROKER
        return not any(f"{name}.bak" in files for name in config.OFFSET_VIEWS) and bool(others)
    if all(not files[name].size for name in present):
        return not any(f"{name}.bak" in files and files[f"{name}.bak"].size for name in config.OFFSET_VIEWS)
    views = [configs.views.get(name) for name in present]
    if any(view is None or any(view.values()) for view in views):
        return False
    file = files[present[-1]]
    try:
        value = configfiles.parse_file(file).value
    except StoreError:
        return False
    if isinstance(value, Mapping) and "offsetTable" not in value:
        return True
    return any(
        facts.unit_count > 0 and topic.startswith(RETRY_PREFIX) and topic in topics
        for (topic, _), facts in known.queues.items()
    )


STATIC_TOPICS = "topicQueueMapping.json"
LEAST_GROUPS = 2
"""Groups that must have gone back before a whole file counts as an old one: one may have been reset."""
Positions = Mapping[tuple[str, str, int], int]
"""Offsets by group, topic and queueId."""


@dataclass(frozen=True, slots=True)
class LiveBounds:
    """Queue offsets of the first live unit of a queue and after its last one."""

    low: int
    high: int

    def count_between(self, start: int, end: int) -> int:
        """Messages of the queue from one queue offset to another."""
        return max(min(end, self.high) - max(start, self.low), 0)


NO_QUEUE = LiveBounds(0, 0)


def bounds_of(topic: str, queue_id: int, known: Known) -> LiveBounds | None:
    """Where a queue begins and ends; `NO_QUEUE` for one that is not there.

    None where the queue was not gone through, or may be somewhere else.
    """
    facts: QueueFacts | None = known.queues.get((topic, queue_id))
    if facts is None:
        return NO_QUEUE if known.complete and not known.queues_elsewhere else None
    return LiveBounds(
        facts.max_offset if facts.min_live_offset is None else facts.min_live_offset, facts.max_offset
    )


def check_consumer_offsets(
    store: Store, configs: configfiles.Configs, topics: Mapping[str, Any] | None, known: Known
) -> Findings:
    """Every committed offset against its queue, and the file against its .bak."""
    present = {queue.topic for queue in store.queues}
    loose = _loose_topics(store)
    consumed = _groups_that_consumed(configs, topics, known)
    for name in config.OFFSET_VIEWS:
        view = configs.views.get(name, {})
        for key, table in view.items():
            parts = config.split_topic_group(key)
            topic, group = parts if parts is not None else (key, "?")
            where = Where(configs.files[name], topic=topic)
            if topic.startswith(properties.LMQ_PREFIX) and name == OFFSETS and store.dialect.multi_dispatch:
                yield Finding(RuleName.LMQ_OFFSET_PLACE, where, {"group": group})
            if topic not in present and not (topics is not None and topic in topics):
                if topics is not None and not configfiles.is_system_topic(topic) and any(table.values()):
                    yield Finding(RuleName.CONSUMER_OFFSET_UNKNOWN_QUEUE, where, {"group": group})
                table = {queue_id: offset for queue_id, offset in table.items() if offset < 0}
            is_loose = loose is None or topic in loose or topic.startswith(properties.LMQ_PREFIX)
            is_loose = is_loose or group not in consumed
            begins_again = is_swept(store, topic)
            for queue_id, offset in table.items():
                where = Where(configs.files[name], topic=topic, queue_id=queue_id, queue_offset=offset)
                if begins_again and offset > 0:
                    found: Facts = {"group": group, "offset": offset}
                    yield Finding(RuleName.CONSUMER_OFFSET_LOOSE, where, found, {"max_offset": 0})
                else:
                    yield from _check_offset(store, where, group, known, is_loose)
    if topics is None or not _are_gone(store, configs, topics, known):
        yield from _check_age(store, configs, known)


def _loose_topics(store: Store) -> set[str] | None:
    """Topics whose committed offsets need not be in their queues; None for all topics."""
    if configfiles.is_slave(store):
        return None
    for file in store.configs:
        if file.name == STATIC_TOPICS:
            try:
                value = configfiles.parse_file(file).value
            except StoreError:
                return None
            listed = value.get("topicQueueMappingInfoMap") if isinstance(value, Mapping) else None
            return {str(name) for name in listed} if isinstance(listed, Mapping) else set()
    return set()


def _groups_that_consumed(
    configs: configfiles.Configs, topics: Mapping[str, Any] | None, known: Known
) -> Container[str]:
    """The groups that this broker knows, by a retry topic, its settings, or an offset inside of a queue."""
    listed = subscribed_groups(configs)
    groups = {*listed, *consumer_groups(topics or (), listed)}
    views = (configs.views.get(name, {}) for name in config.OFFSET_VIEWS)
    for key, offsets in chain.from_iterable(view.items() for view in views):
        topic, group = config.split_topic_group(key) or (key, "?")
        for queue_id, offset in offsets.items():
            queue = known.queues.get((topic, queue_id))
            if queue is not None and 0 < offset <= queue.max_offset:
                groups.add(group)
    return groups


def _check_offset(store: Store, where: Where, group: str, known: Known, is_loose: bool) -> Findings:
    topic, queue_id, offset = where.topic or "", where.queue_id or 0, where.queue_offset or 0
    found: Facts = {"group": group, "offset": offset}
    if offset < 0:
        yield Finding(RuleName.CONSUMER_OFFSET_NEGATIVE, where, found)
        return
    bounds = bounds_of(topic, queue_id, known)
    if bounds is None:
        return
    if offset > bounds.high:
        end: Facts = {"max_offset": bounds.high}
        reached = max(bounds.high, known.queue_ends.get((topic, queue_id), 0))  # by records without a unit
        noticed = noticed_beyond(store, LiveBounds(bounds.low, reached), offset) if offset > reached else {}
        if known.lost_units(topic, queue_id) and not (noticed and is_loose):
            end = {**end, "record_end_offset": reached}
            yield Finding(RuleName.CONSUMER_OFFSET_OF_LOST_UNITS, where, {**found, **noticed}, end)
        elif is_loose or (topic, queue_id) not in known.queues or is_system_group(group):
            yield Finding(RuleName.CONSUMER_OFFSET_LOOSE, where, found, end)
        else:
            yield Finding(RuleName.CONSUMER_OFFSET_AHEAD, where, {**found, **noticed}, end)
    elif offset < bounds.low:
        expired: Facts = {**found, "expired_count": bounds.low - offset}
        yield Finding(RuleName.CONSUMER_OFFSET_BEHIND, where, expired, {"min_offset": bounds.low})


def noticed_beyond(store: Store, bounds: LiveBounds, offset: int) -> Facts:
    """What a group gets again, and what new messages it skips at most, by an offset beyond the end."""
    again = store.dialect.overflow_to_min and bounds.low == 0
    return {
        "again_count": bounds.high - bounds.low if again else 0,
        "skipped_count": 0 if again else offset - bounds.high,
    }


def _check_age(store: Store, configs: configfiles.Configs, known: Known) -> Findings:
    """A file that is older than its .bak: every group that differs is behind, or is not in it.

    A broker writes both every five seconds, the .bak with what the file had. Between the two a group can be
    reset or removed, but not several while no other one advances.
    """
    main, backup = (positions_of(store, name) for name in (OFFSETS, f"{OFFSETS}.bak"))
    if main is None or backup is None or configs.files.get(OFFSETS, "").endswith(".bak"):
        return
    if any(offset > backup.get(name, -1) for name, offset in main.items()):
        return
    again: dict[str, int] = {}
    for (group, topic, queue_id), offset in backup.items():
        bounds = bounds_of(topic, queue_id, known)
        if bounds is not None and not is_system_group(group):
            start = main.get((group, topic, queue_id), bounds.low)
            count = bounds.count_between(start, offset)
            if count:
                again[group] = again.get(group, 0) + count
    if len(again) < LEAST_GROUPS and main:
        return
    for group, count in sorted(again.items()):
        found: Facts = {"group": group, "again_count": count}
        yield Finding(RuleName.CONSUMER_OFFSETS_OLDER, Where(f"config/{OFFSETS}"), found)


def positions_of(store: Store, name: str) -> Positions | None:
    """What a file of committed offsets has, None if it is not there or not sound."""
    for file in store.configs:
        if file.name == name:
            try:
                parsed = configfiles.parse_file(file)
                view = config.consumer_offsets(parsed.value) if parsed.sound else None
            except (FormatError, StoreError):
                return None
            return None if view is None else dict(_positions(view))
    return None


def _positions(view: Mapping[str, Mapping[int, int]]) -> Iterator[tuple[tuple[str, str, int], int]]:
    for key, offsets in view.items():
        topic, group = config.split_topic_group(key) or (key, "?")
        for queue_id, offset in offsets.items():
            yield (group, topic, queue_id), offset
