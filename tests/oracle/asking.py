"""Answers of the real code against our own: pulls, places of times, the ends of queues, queries by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rocketfsck.query import BrokerView
from rocketfsck.query.serving.files import BrokerThrowsError

from tests.oracle.broker import Asked, ByKey, Key, QueueName


def answered_otherwise(
    broker: BrokerView, asked: Mapping[QueueName, Asked], times: tuple[int, ...]
) -> Iterator[Any]:
    """What we say where the real code says something else: (question, its answer, ours)."""
    for (topic, queue_id), theirs in asked.items():
        queue = broker.queue(topic, queue_id)
        ends = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
        if ends != (theirs.min_offset, theirs.max_offset):
            yield (topic, queue_id), (theirs.min_offset, theirs.max_offset), ends
        for pull in theirs.pulls:
            said: tuple[Any, ...]
            found = _said(broker.get_message, topic, queue_id, pull.offset, pull.max_num)
            at = _said(broker.commit_log_offset, topic, queue_id, pull.offset)
            said = (found, (), -1, at)
            if not isinstance(found, str):
                said = (found.status, found.offsets, found.next_begin_offset, at)
            if said != (pull.status, pull.offsets, pull.next_offset, pull.commit_log_offset):
                yield (topic, queue_id, pull.offset, pull.max_num), pull, said
        for boundary, answers in theirs.times.items():
            for stamp, answer in zip(times, answers, strict=True):
                arguments = (topic, queue_id, stamp, boundary or "lower")
                place = _said(broker.offset_in_queue_by_time, *arguments)
                if place != answer:
                    yield arguments, answer, place


def keys_answered_otherwise(broker: BrokerView, keys: Mapping[Key, ByKey]) -> Iterator[Any]:
    """The same of queries by key: what the index gives, and the messages that a query returns."""
    for (topic, key), theirs in keys.items():
        indexed = broker.index_query_offset(topic, key).offsets
        if indexed != theirs.indexed:
            yield (topic, key, "indexed"), theirs.indexed, indexed
        served = broker.query_message(topic, key)
        if served != theirs.served:
            yield (topic, key, "served"), theirs.served, served


def _said(answer: Callable[..., Any], *arguments: Any) -> Any:
    """Our answer, or the class of what we say that the broker throws."""
    try:
        return answer(*arguments)
    except BrokerThrowsError as thrown:
        return thrown.thrown
