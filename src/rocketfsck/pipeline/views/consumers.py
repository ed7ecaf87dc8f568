"""The views of who consumes what and how far: `offsets`, `topics`, `subscriptions`. One part a store.

    offsets         one row a consumer group and queue: where it is, its lag and how old that is
    topics          one row a topic of topics.json or with a queue: its settings, and what can be read of it
    subscriptions   one row a group and topic: the group's settings, and what it subscribes to

The rows are those of `query offsets` and of the files below `config/`, as a broker loads them (its .bak where
the file itself is broken); configs and queues in RocksDB count, too. `file` is the one that a row is from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from rocketfsck.formats.config import (
    OFFSET_VIEWS,
    TopicConfig,
    decode_config,
    delay_offsets,
    split_topic_group,
    topic_configs,
)
from rocketfsck.formats.subscriptions import (
    Subscription,
    SubscriptionGroup,
    filter_subscriptions,
    group_subscriptions,
    subscription_groups,
)
from rocketfsck.pipeline.sources import StoreSource, open_source
from rocketfsck.pipeline.views.arrays import Row, printable
from rocketfsck.pipeline.views.dataclassrows import ReadConfigs, fields_of, row_of
from rocketfsck.pipeline.views.model import WantedRows
from rocketfsck.query.offsets import (
    DELAY_FILE,
    GROUP_COUNTS,
    GroupOffsets,
    Position,
    QueueOffsets,
    placed,
    positions_in,
    positions_of_levels,
    queue_offsets,
)
from rocketfsck.query.view import StoreView
from rocketfsck.store.rocks.lifting import lifted

TOPICS_FILE, GROUPS_FILE, FILTERS_FILE = "topics.json", "subscriptionGroup.json", "consumerFilter.json"
_TIMES = frozenset({"next_timestamp", "last_timestamp", "age_ms"})
"""Columns for which messages are read."""
_TALLY = frozenset({"count", "first_timestamp", "last_timestamp"})
"""Columns for which queues are read."""
FILE = pa.field("file", pa.string())


def _answer(
    source: StoreSource, wanted: WantedRows, rows: Callable[[StoreView, ReadConfigs], Iterator[Row]]
) -> Iterator[Row]:
    """The rows that are made of a store's configs and queues, then those for what configs do not say."""
    with lifted(open_source(source)) as lifting, StoreView(lifting.store) as view:
        configs = ReadConfigs(lifting.store, wanted)
        configs.databases(lifting)
        yield from rows(view, configs)
        yield from configs.problems


def _decoder(read: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    return lambda data: read(decode_config(data))


def _committed(configs: ReadConfigs) -> dict[str, tuple[str, Mapping[int, int]]]:
    """The file and the offsets of every `topic@group`."""
    found: dict[str, tuple[str, Mapping[int, int]]] = {}
    for name, offsets_of in OFFSET_VIEWS.items():
        table, file = configs.value(name, _decoder(offsets_of))
        for key, offsets in (table or {}).items():
            found[key] = (file or "", offsets)
    return found


def offset_fields() -> list[pa.Field]:
    """The columns of the view `offsets`."""
    return [FILE, *fields_of(GroupOffsets), *(pa.field(name, pa.int64()) for name in GROUP_COUNTS)]


def offset_rows(source: StoreSource, wanted: WantedRows, names: frozenset[str]) -> Iterator[Row]:
    """The position of every group in every queue."""
    return _answer(source, wanted, partial(_offset_rows, times=bool(names & _TIMES)))


def _offset_rows(view: StoreView, configs: ReadConfigs, *, times: bool) -> Iterator[Row]:
    file_of: dict[Position, str] = {}
    for key, (file, offsets) in _committed(configs).items():
        file_of |= dict.fromkeys(positions_in({key: offsets}), file)
    levels, delays = configs.value(DELAY_FILE, _decoder(delay_offsets))
    file_of |= dict.fromkeys(positions_of_levels(levels or {}), delays or "")
    for row in placed(view, file_of, times=times):
        counts = {name: getattr(row, name) for name in GROUP_COUNTS}
        place = (row.group, row.topic, row.queue_id, row.offset)
        yield row_of(row, **counts, file=file_of[place])


def topic_fields() -> list[pa.Field]:
    """The columns of the view `topics`."""
    return [
        FILE,
        pa.field("topic", pa.string()),
        pa.field("listed", pa.bool_()),
        *fields_of(TopicConfig, "topic_name"),
        pa.field("queue_count", pa.int64()),
        *(pa.field(name, pa.int64()) for name in ("count", "first_timestamp", "last_timestamp")),
    ]


def topic_rows(source: StoreSource, wanted: WantedRows, names: frozenset[str]) -> Iterator[Row]:
    """Every topic that topics.json lists, or that has a queue."""
    return _answer(source, wanted, partial(_topic_rows, counts=bool(names & _TALLY)))


def _topic_rows(view: StoreView, configs: ReadConfigs, *, counts: bool) -> Iterator[Row]:
    listed, file = configs.value(TOPICS_FILE, _decoder(topic_configs))
    listed = listed or {}
    ids: dict[str, set[int]] = {}
    for queue in view.store.queues:
        ids.setdefault(queue.topic, set()).add(queue.queue_id)
    queues: dict[str, list[QueueOffsets]] = {}
    for bounds in queue_offsets(view.store, view=view) if counts else ():
        queues.setdefault(bounds.topic, []).append(bounds)
    for topic in sorted(listed.keys() | ids.keys()):
        config = listed.get(topic)
        settings = {} if config is None else row_of(config, file=file)
        yield {
            **settings,
            "topic": printable(topic),
            "listed": config is not None,
            "queue_count": len(ids.get(topic, ())),
            **_tally(queues.get(topic, [])),
        }


def _tally(queues: list[QueueOffsets]) -> Row:
    first = [queue.first_timestamp for queue in queues if queue.first_timestamp is not None]
    last = [queue.last_timestamp for queue in queues if queue.last_timestamp is not None]
    return {
        "count": sum(queue.count for queue in queues),
        "first_timestamp": min(first, default=None),
        "last_timestamp": max(last, default=None),
    }


def subscription_fields() -> list[pa.Field]:
    """The columns of the view `subscriptions`."""
    return [
        FILE,
        *fields_of(Subscription),
        pa.field("queue_count", pa.int64()),
        pa.field("listed", pa.bool_()),
        *fields_of(SubscriptionGroup, "group_name"),
    ]


def subscription_rows(source: StoreSource, wanted: WantedRows, names: frozenset[str]) -> Iterator[Row]:  # noqa: ARG001
    """Every group and topic that a subscription or an offset names; a group without any has one row."""
    return _answer(source, wanted, _subscription_rows)


def _subscription_rows(view: StoreView, configs: ReadConfigs) -> Iterator[Row]:  # noqa: ARG001
    groups, file = configs.value(
        GROUPS_FILE,
        _decoder(lambda value: (subscription_groups(value), group_subscriptions(value))),
    )
    none: tuple[dict[str, SubscriptionGroup], list[Subscription]] = ({}, [])
    settings, stated = groups or none
    filters, _ = configs.value(FILTERS_FILE, _decoder(filter_subscriptions))
    found = {(one.group, one.topic): one for one in (*stated, *(filters or ()))}
    queue_counts: dict[tuple[str, str], int] = {}
    for key, (_, offsets) in _committed(configs).items():
        topic, group = split_topic_group(key) or (key, "")
        queue_counts[group, topic] = len(offsets)
    named = found.keys() | queue_counts.keys()
    consuming = {group for group, _ in named}
    alone = {(str(group), "") for group in settings if group not in consuming}
    for group, topic in sorted(named | alone):
        subscribed = found.get((group, topic))
        known = settings.get(group)
        yield {
            **({} if subscribed is None else row_of(subscribed)),
            **({} if known is None else row_of(known, file=file)),
            "group": printable(group),
            "topic": printable(topic) or None,
            "queue_count": queue_counts.get((group, topic), 0),
            "listed": known is not None,
        }
