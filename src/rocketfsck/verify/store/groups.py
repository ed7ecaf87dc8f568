"""Committed offsets, or settings of groups, that are all gone, while other files tell that groups consumed
(reference 1.6, 9.6).

A broker writes consumerOffset.json every five seconds and when it stops, with an `offsetTable` even where no
group has committed anything. A topic `%RETRY%group` in topics.json shows each group that ever connected,
broadcast groups included. A broker with `enableLmq` writes lmqConsumerOffset.json in its place. So a file
that is missing with its .bak, or has no table at all, is not a broker's work; an empty
table is one while no message was sent back to be retried, which a group without committed offsets (a
broadcast group) never does. Fault class K6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.configviews import OFFSET_VIEWS, split_topic_group
from rocketfsck.formats.delay import SCHEDULE_TOPIC
from rocketfsck.formats.properties import LMQ_PREFIX
from rocketfsck.store.model import OtherKind, Store, StrayReason
from rocketfsck.verify.finding import Facts, Finding, Where
from rocketfsck.verify.store.configfiles import Configs, parse_file
from rocketfsck.verify.tasks.facts import Known

OFFSETS = "consumerOffset.json"
SUBSCRIPTIONS = "subscriptionGroup.json"
RETRY_PREFIX = "%RETRY%"
OFFSET_DATABASES = frozenset({"config/consumerOffsets", "config/rdb"})
SUBSCRIPTION_DATABASES = frozenset({"config/subscriptionGroups", "config/rdb"})
FILTERS = frozenset({"consumerFilter.json", "consumerFilter.json.bak"})
"""What each running broker writes every ten seconds, and nothing else does."""
WITHOUT_BROKER = frozenset({"topics.json", "delayOffset.json"})
"""Configs that are also written where no broker runs: by a store of 4.x, by a salvage."""
NAMES_SHOWN = 5
SYSTEM_TOPICS = frozenset(
    {SCHEDULE_TOPIC, "TBW102", "SELF_TEST_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT"}
)
SYSTEM_PREFIXES = ("rmq_sys_", "RMQ_SYS_", LMQ_PREFIX)
_SYSTEM_GROUPS = ("CID_RMQ_SYS_", "CID_ONS", "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP")
_NOT_CONSUMED = (RETRY_PREFIX, "%DLQ%", *SYSTEM_PREFIXES, SCHEDULE_TOPIC)
_ENDS_OF_GROUP = "_+"
"""What is between group and topic in the names of the retry topics of POP."""


def is_system_topic(topic: str) -> bool:
    """Whether a broker makes this topic itself, so that it need not be in topics.json."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIXES)


def is_system_group(group: str) -> bool:
    """Whether RocketMQ itself consumes by this group."""
    return group.startswith(_SYSTEM_GROUPS)


def check_offsets_gone(
    store: Store, configs: Configs, topics: Mapping[str, Any], known: Known
) -> Iterator[Finding]:
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
        yield Finding(RuleName.CONSUMER_OFFSETS_GONE, Where(file=f"config/{OFFSETS}"), found)


def check_subscriptions_gone(
    store: Store, configs: Configs, topics: Mapping[str, Any] | None
) -> Iterator[Finding]:
    """One finding where groups consumed, and no file has the settings of any group."""
    groups = groups_without_settings(store, configs, topics)
    if groups:
        yield Finding(RuleName.SUBSCRIPTIONS_GONE, Where(file=f"config/{SUBSCRIPTIONS}"), _listed(groups))


def groups_without_settings(
    store: Store, configs: Configs, topics: Mapping[str, Any] | None
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
    keys = (key for name in OFFSET_VIEWS for key in configs.views.get(name, ()))
    committed = {parts[1] for parts in map(split_topic_group, keys) if parts is not None}
    groups = consumer_groups(topics or (), dict.fromkeys(committed))
    groups |= {group for group in committed if group and not is_system_group(group)}
    return tuple(sorted(groups))


def _listed(groups: Sequence[str]) -> Facts:
    """How many groups there are, and the names of the first."""
    shown = ", ".join(groups[:NAMES_SHOWN]) + (", ..." if len(groups) > NAMES_SHOWN else "")
    return {"group_count": len(groups), "groups": shown}


def kept_in_databases(store: Store, databases: Iterable[str]) -> bool:
    """Whether one of these databases is there, or a directory in config/ that nobody knows."""
    present = {other.relative for other in store.others if other.kind is OtherKind.ROCKSDB}
    strays = (stray for stray in store.strays if stray.reason is StrayReason.DIRECTORY)
    return not present.isdisjoint(databases) or any(stray.relative.startswith("config/") for stray in strays)


def subscribed_groups(configs: Configs) -> Mapping[str, Any]:
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


def _are_gone(store: Store, configs: Configs, topics: Mapping[str, Any], known: Known) -> bool:
    files = {file.name: file for file in store.configs}
    present = [name for name in OFFSET_VIEWS if name in files]
    if not present:  # stores alone write topics and delay offsets, too: then no broker kept groups here
        others = {name.removesuffix(".bak") for name in files} - WITHOUT_BROKER
        return not any(f"{name}.bak" in files for name in OFFSET_VIEWS) and bool(others)
    if all(not files[name].size for name in present):
        return not any(f"{name}.bak" in files and files[f"{name}.bak"].size for name in OFFSET_VIEWS)
    views = [configs.views.get(name) for name in present]
    if any(view is None or any(view.values()) for view in views):
        return False
    file = files[present[-1]]
    try:
        value = parse_file(file).value
    except StoreError:
        return False
    if isinstance(value, Mapping) and "offsetTable" not in value:
        return True
    return any(
        facts.unit_count > 0 and topic.startswith(RETRY_PREFIX) and topic in topics
        for (topic, _), facts in known.queues.items()
    )
