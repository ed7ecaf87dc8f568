"""The names under which fields are shown: RocketMQ's own, in snake case, one name for one thing.

Layouts keep the names of RocketMQ's sources. What people and programs get (dump, query, JSON, Arrow, Spark,
Python) has the names that `shown_name` makes of them: snake case, and the words of the design's section 8:
offsets end in `_offset` (physical or queue, said in full), byte sizes in `_size` or are `size`, counts in
`_count`, points in time in milliseconds in `_timestamp`. What each name means is in `specs/names.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

_WORD = re.compile("(?<=[a-z0-9])(?=[A-Z])")

SHOWN_NAMES: Mapping[str, str] = {
    "batchSize": "batch_count",
    "beginPhyOffset": "begin_physical_offset",
    "bodyLen": "body_size",
    "bodyLength": "body_size",
    "confirmPhyOffset": "confirm_physical_offset",
    "cqOffset": "queue_offset",
    "currWriteTime": "write_timestamp",
    "deliverTime": "deliver_timestamp",
    "endPhyOffset": "end_physical_offset",
    "length": "items_size",
    "lastReadTimeMs": "last_read_timestamp",
    "msgStoreTime": "store_timestamp",
    "num": "message_count",
    "offsetMsgId": "offset_message_id",
    "offsetPy": "physical_offset",
    "phyOffset": "physical_offset",
    "position": "items_pos",
    "propertiesLength": "properties_size",
    "sizePy": "message_size",
    "storeTime": "store_timestamp",
    "topicLength": "topic_size",
    "totalSize": "size",
    "uniqKey": "unique_key",
    "visibleTime": "visible_timestamp",
}
"""Fields whose name is not just RocketMQ's in snake case: other words of RocketMQ's for the same thing."""

UNIT_NAMES: Mapping[str, str] = {"offset": "physical_offset"}
"""Of units of consume queues: `offset` alone is where a row itself is."""


def snake_case(field: str) -> str:
    """RocketMQ's name of a field in snake case."""
    return _WORD.sub("_", field).lower()


@cache
def shown_name(field: str) -> str:
    """The name under which a field of a layout, or a value named in its manner, is shown."""
    return SHOWN_NAMES.get(field) or snake_case(field)


def shown_unit_name(field: str) -> str:
    """`shown_name` for a field of a consume queue's unit."""
    return UNIT_NAMES.get(field) or shown_name(field)


def shown_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values under the names that are shown."""
    return {shown_name(name): value for name, value in values.items()}
