"""Config files put together again: what is left of a text that was cut, topics out of the log and the queues.

Reference 1.6; fault catalogue K5.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.config import decode_config, encode_config
from rocketfsck.formats.configviews import PERM_READ, PERM_WRITE, data_version
from rocketfsck.formats.magic import TRANSACTION_COMMIT, TRANSACTION_MASK
from rocketfsck.repair.log.edit import live_rows
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.sorting import distinct
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.store.configfiles import VIEWS, load_configs
from rocketfsck.verify.store.groups import groups_without_settings, is_system_topic

_OPENING = {"{": "}", "[": "]"}
__all__ = ["build_subscriptions", "build_topics", "close_text", "has_shape", "live_rows"]


def close_text(data: bytes) -> bytes | None:
    """The longest beginning of a JSON text that was cut which makes a value once its brackets are closed.

    None where only brackets would be left. Members are kept as far as they are whole.
    """
    text = data.decode(errors="surrogateescape")
    stack: list[str] = []
    safe: list[tuple[int, str]] = []
    quote = ""
    escaped = False
    for pos, char in enumerate(text):
        if quote:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == quote:
                quote = ""
            continue
        if char in "\"'":
            quote = char
        elif char in _OPENING:
            stack.append(_OPENING[char])
        elif char in "]}":
            if not stack or stack.pop() != char:
                break
            if stack:
                safe.append((pos + 1, "".join(reversed(stack))))
        elif char == "," and stack:
            safe.append((pos, "".join(reversed(stack))))
        elif char == "\0":
            break
    for end, closing in reversed(safe[-64:]):
        closed = text[:end] + closing
        try:
            value = decode_config(closed.encode(errors="surrogateescape"))
        except FormatError:
            continue
        if isinstance(value, dict) and any(value.values()):
            return encode_config(value)
    return None


def build_topics(store: Store) -> bytes | None:
    """topics.json with the topics that the log and the queues have; None if there are none. StoreError.

    Queue numbers are what the highest queueId asks for; permissions and the rest are a new topic's.
    """
    counts: dict[str, int] = {}
    kinds: dict[str, str] = {}
    for queue in store.queues:
        counts[queue.topic] = max(counts.get(queue.topic, 0), queue.queue_id + 1)
        kinds[queue.topic] = queue.kind
    table = QueueTable()
    for file in store.commitlog.files:
        if file.start_offset is not None:
            _count_queues(store, file, table, counts)
    topics: dict[str, Any] = {}
    for topic in sorted(name for name in counts if not is_system_topic(name)):
        entry: dict[str, Any] = {
            "order": False,
            "perm": PERM_READ | PERM_WRITE,
            "readQueueNums": counts[topic],
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic,
            "topicSysFlag": 0,
            "writeQueueNums": counts[topic],
        }
        if kinds.get(topic) == "batch":
            entry = {"attributes": {"queue.type": "BatchCQ"}, **entry}
        topics[topic] = entry
    if not topics:
        return None
    return encode_config({"dataVersion": _version(store, len(topics)), "topicConfigTable": topics})


def build_subscriptions(store: Store) -> bytes | None:
    """subscriptionGroup.json with the groups that other configs tell of; None if there are none.

    Each has the settings that a broker gives a group that it does not know.
    """
    configs = load_configs(store)
    groups = groups_without_settings(store, configs, configs.views.get("topics.json"))
    if not groups:
        return None
    table = {group: {"groupName": group, **_GROUP_DEFAULTS} for group in groups}
    return encode_config({"dataVersion": _version(store, len(table)), "subscriptionGroupTable": table})


_GROUP_DEFAULTS: Mapping[str, bool | int] = {
    "brokerId": 0,
    "consumeBroadcastEnable": True,
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "notifyConsumerIdsChangedEnable": True,
    "retryMaxTimes": 16,
    "retryQueueNums": 1,
    "whichBrokerWhenConsumeSlowly": 1,
}
"""SubscriptionGroupConfig of every version: what later ones add has defaults where it is missing."""


def _version(store: Store, counter: int) -> dict[str, int]:
    """The dataVersion of a newly made file: older than that of any replica."""
    state = {"stateVersion": 0} if store.dialect.config_has_state_version else {}
    return {"counter": counter, **state, "timestamp": 0}


def _count_queues(store: Store, file: MappedFile, table: QueueTable, counts: dict[str, int]) -> None:
    for batch in live_rows(store, file, table):
        kind = batch["sys_flag"] & TRANSACTION_MASK
        taking = ((kind == 0) | (kind == TRANSACTION_COMMIT)) & (batch["queue_index"] >= 0)
        for row in distinct(batch["queue_index"][taking]).tolist():
            topic, queue_id = os.fsdecode(table.names[row][0]), table.names[row][1]
            if queue_id >= 0:
                counts[topic] = max(counts.get(topic, 0), queue_id + 1)


def read_config(path: str, limit: int) -> Any:
    """The value of a file; None where it is not there or not sound."""
    try:
        with FileReader(path) as reader:
            if reader.size > limit:
                return None
            return decode_config(reader.read(0, reader.size))
    except (StoreError, FormatError):
        return None


def has_shape(name: str, value: Any) -> bool:
    """Whether a value is what a broker loads from a config file of this name."""
    if not isinstance(value, Mapping):
        return False
    try:
        data_version(value)
        VIEWS.get(name.rpartition("/")[2], dict)(value)
    except FormatError:
        return False
    return True
