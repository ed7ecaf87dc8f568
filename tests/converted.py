"""What conversions of stores must keep: messages, bounds of queues, answers to queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rocketfsck.api import iter_messages
from rocketfsck.commands.query import (
    KeyOrTagQuery,
    OffsetQuery,
    UniqueKeyQuery,
    query_key,
    query_offset,
)
from rocketfsck.query.offsets import queue_offsets
from rocketfsck.scan.views.messages import Message
from rocketfsck.store import Store, open_store
from rocketfsck.store.rocks.lifting import lifted
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.catalog import RULES

Bounds = dict[tuple[str, int], tuple[int, int]]


def problems(store: Store) -> list[str]:
    counts = check_store(store, CheckOptions(level="full")).counts
    return [rule for rule, count in counts.items() if count and RULES[rule].severity > Severity.INFO]


def content(message: Message) -> tuple[Any, ...]:
    """All of a message but where it is in the log, and what follows from that."""
    properties = tuple(item for item in (message.properties or {}).items() if item[0] != "__CRC32#")
    return (
        message.topic,
        message.queue_id,
        message.queue_offset,
        message.store_timestamp,
        message.born_timestamp,
        message.sys_flag,
        properties,
        message.body,
    )


def contents(store: Store, *topics: str) -> list[tuple[Any, ...]]:
    return [content(m) for m in iter_messages(store) if not topics or m.topic in topics]


def bounds(root: Path, *topics: str) -> Bounds:
    with lifted(open_store(root)) as lifting:
        return {
            (queue.topic, queue.queue_id): (queue.min_offset, queue.max_offset)
            for queue in queue_offsets(lifting.store)
            if not topics or queue.topic in topics
        }


def keys_of(message: Message) -> list[str]:
    """The keys of a message, and as the last one its unique key."""
    properties = message.properties or {}
    return [*properties.get("KEYS", "").split(), properties.get("UNIQ_KEY", "none")]


def answers_of(root: Path, message: Message, keys: Sequence[str]) -> list[list[tuple[Any, ...]]]:
    """What a store answers to the place of a message, its keys and its unique key."""
    topic, queue_id, offset = message.topic, message.queue_id, message.queue_offset
    found = [
        query_offset(OffsetQuery(path=root, topic=topic, queue_id=queue_id, queue_offset=offset)),
        *(query_key(KeyOrTagQuery(path=root, topic=topic, key=key)) for key in keys),
        query_key(UniqueKeyQuery(path=root, topic=topic, key=keys[-1])),
    ]
    return [[content(item.message) for item in answer.found.found] for answer in found]


def agreeing_count(root: Path, new: Path, *, step: int) -> int:
    """Asks two stores for every `step`-th message of the first; how many answers have the message. Fails
    unless both answer the same."""
    count = 0
    for message in list(iter_messages(open_store(root)))[::step]:
        before, after = (answers_of(place, message, keys_of(message)) for place in (root, new))
        assert before == after
        count += sum(content(message) in answer for answer in after)
    return count
