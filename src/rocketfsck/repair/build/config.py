"""Config files put together again: what is left of a text that was cut, topics out of the log and the queues.

Reference 1.6; fault catalogue K5.

Committed offsets that a user wants, as `--offsets` says them.

    clamp    every offset is moved into its queue
    bak      the offsets of consumerOffset.json.bak
    FILE     those of a file in the form of consumerOffset.json: {"offsetTable":{"TOPIC@GROUP":{0:12,1:13}}}

Offsets of queues that the store does not have are passed over; none is set beyond the end of its queue.
Reference 1.6.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocketfsck.errors import FormatError, StoreError, UsageError
from rocketfsck.formats.config import (
    PERM_READ,
    PERM_WRITE,
    consumer_offsets,
    data_version,
    decode_config,
    encode_config,
    member_of,
    split_topic_group,
)
from rocketfsck.formats.magic import TRANSACTION_COMMIT, TRANSACTION_MASK
from rocketfsck.formats.properties import LMQ_PREFIX
from rocketfsck.formats.timer import DELIVERY
from rocketfsck.query.offsets import Standing, group_offsets
from rocketfsck.query.view import QueueView, StoreView
from rocketfsck.reader.configs import CONFIG_LIMIT
from rocketfsck.repair.log import live_rows
from rocketfsck.repair.plan.arguments import GroupOffset
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.spans import distinct
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.reading import FileReader, read_whole
from rocketfsck.verify.store.configfiles import VIEWS, is_system_topic, load_configs
from rocketfsck.verify.store.offsets import (
    OFFSET_DATABASES,
    OFFSETS,
    Positions,
    groups_without_settings,
    kept_in_databases,
    positions_of,
)

CLAMP, BACKUP = "clamp", "bak"
IN_DATABASE = (
    "the committed offsets are kept in RocksDB, which this program does not write; start the broker, and set "
    "them with `mqadmin resetOffsetByTime -b BROKER -g GROUP -t TOPIC -q QUEUE -o OFFSET -s now`"
)


def wished_offsets(store: Store, text: str) -> tuple[GroupOffset, ...]:
    """The offsets that `--offsets TEXT` asks for, at most the ends of the queues.

    Raises UsageError where offsets cannot be set here, none of them is for a queue of the store, or the file
    has another form; StoreError for one that cannot be read.
    """
    if kept_in_databases(store, OFFSET_DATABASES):
        raise UsageError(IN_DATABASE)
    if text == CLAMP:
        return tuple(
            GroupOffset(
                row.group, row.topic, row.queue_id, min(max(row.offset, row.min_offset), row.max_offset)
            )
            for row in group_offsets(store)
            if row.standing in (Standing.AHEAD, Standing.EXPIRED)
            and row.group != DELIVERY
            and not row.topic.startswith(LMQ_PREFIX)
        )
    positions = positions_of(store, f"{OFFSETS}.bak") if text == BACKUP else _positions_in(Path(text))
    if positions is None:
        raise UsageError(f"config/{OFFSETS}.bak is missing or damaged")
    with StoreView(store) as view:
        wished = tuple(
            GroupOffset(group, topic, queue_id, min(offset, queue.max_offset))
            for (group, topic, queue_id), offset in sorted(positions.items())
            if offset >= 0 and (queue := _queue_of(view, topic, queue_id)) is not None
        )
    if not wished:
        raise UsageError("none of the offsets belongs to a queue of this store")
    return wished


def _queue_of(view: StoreView, topic: str, queue_id: int) -> QueueView | None:
    return None if topic.startswith(LMQ_PREFIX) else view.queue(topic, queue_id)


def _positions_in(path: Path) -> Positions:
    """The offsets of a file in the form of consumerOffset.json. Raises StoreError, UsageError."""
    try:
        table = consumer_offsets(decode_config(read_whole(path, CONFIG_LIMIT)))
    except FormatError as error:
        raise UsageError(f"{path}: {error}") from None
    found: dict[tuple[str, str, int], int] = {}
    for key, offsets in table.items():
        parts = split_topic_group(key)
        if parts is None:
            raise UsageError(f"{path}: {key!r} is not TOPIC@GROUP")
        for queue_id, offset in offsets.items():
            found[parts[1], parts[0], queue_id] = offset
    return found


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


def complete_topics(store: Store, kept: bytes) -> bytes:
    """The topics that are whole in what was left of a topics.json, and others of `build_topics`. Raises
    FormatError and StoreError."""
    made, value = build_topics(store), decode_config(kept)
    others = {} if made is None else decode_config(made)["topicConfigTable"]
    table = member_of(value, "topicConfigTable")
    whole = {str(name): row for name, row in table.items() if row.keys() >= _TOPIC_MEMBERS}
    return encode_config({**value, "topicConfigTable": {**others, **whole}})


_TOPIC_MEMBERS = frozenset({"perm", "readQueueNums", "topicName", "writeQueueNums"})
"""Without one of these, a broker would give the topic another number of queues than it had."""


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
