"""How the stores of tests/data were made, as jobs for the oracle: geometry, settings, keys, what is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rocketfsck.store.circumstances import Geometry

from tests.oracle.broker import Key, QueueName

_SIZES = {
    "mappedFileSizeCommitLog": "commitlog_file_size",
    "mappedFileSizeConsumeQueue": "consumequeue_file_size",
    "mappedFileSizeConsumeQueueExt": "ext_file_size",
    "mapperFileSizeBatchConsumeQueue": "batch_file_size",
    "maxHashSlotNum": "slot_count",
    "maxIndexNum": "entry_count",
}
_KEPT = ("enableConsumeQueueExt", "enableLmq", "enableMultiDispatch", "enabledAppendPropCRC", "flushDiskType")
FOREVER = (1 << 63) - 1


def geometry_of(document: Mapping[str, Any]) -> Geometry:
    """The geometry of a manifest or of what a restart was told."""
    sizes = {_SIZES[name]: value for name, value in document["geometry"].items() if name in _SIZES}
    return Geometry(**sizes)


def settings_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """MessageStoreConfig beside the geometry."""
    config = document["config"] if "config" in document else document["phases"][-1]["config"]
    kept = {name: config[name] for name in _KEPT if name in config}
    return {"messageDelayLevel": document["geometry"]["messageDelayLevel"], **kept}


def batch_topics_of(document: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(document["geometry"].get("batchCqTopics", ()))


def live_of(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the last process answered before it ended; None if it ended too soon."""
    live: Mapping[str, Any] | None = document["phases"][-1].get("live")
    return live


def whole_answers(live: Mapping[str, Any], name: str) -> dict[Key, tuple[int, ...]]:
    """Answers by key without a window of time, of `indexQueryOffset` or `queryMessage`."""
    return {
        (row["topic"], row["key"]): tuple(row["offsets"])
        for row in live[name]
        if (row["maxNum"], row["begin"], row["end"]) == (64, 0, FOREVER)
    }


def bounds_of(state: Mapping[str, Any]) -> dict[QueueName, tuple[int, int]]:
    """Least and next queue offset of the queues that hold units."""
    return {
        (queue["topic"], queue["queueId"]): (queue["minOffset"], queue["maxOffset"])
        for queue in state["queues"]
        if queue["units"]
    }


def places_of(state: Mapping[str, Any]) -> dict[QueueName, list[tuple[int, int, int]]]:
    """Queue offset, physical offset and size of every unit."""
    return {
        (queue["topic"], queue["queueId"]): [tuple(unit[:3]) for unit in queue["units"]]
        for queue in state["queues"]
        if queue["units"]
    }
