"""What real brokers and their clients do for `test_workloads`: a table, a row for each workload.

A row runs on each of its versions. Its works run twice: once the brokers are stopped in order, once they are
killed while clients send (`STORM`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.groups import Settings, Work

OLD, MIDDLE, NEW = "4.9.7", "5.3.3", "5.5.0"
ALL = (OLD, MIDDLE, NEW)
"""4.9.8 has no broker in Maven's repository."""

SIZES: Mapping[str, Any] = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 1200,
    "maxHashSlotNum": 61,
    "maxIndexNum": 5000,
}
FIXED: Mapping[str, Any] = {
    "maxMessageSize": 16384,
    "diskMaxUsedSpaceRatio": 95,
    "fileReservedTime": 876000,
}


@dataclass(frozen=True, slots=True)
class Workload:
    """A row. `store` and `broker` are settings beside the usual ones; each of `damages` is done to a copy of
    the store that was stopped in order, and each copy is repaired and started."""

    name: str
    versions: tuple[str, ...]
    works: tuple[Work, ...]
    damages: tuple[str, ...]
    store: Settings = field(default_factory=dict)
    broker: Settings = field(default_factory=dict)


STORM: Work = {
    "do": "Storm", "topic": "Storm", "threads": 3, "ms": 400,
    "body": [20, 900], "keys": 1, "words": 400, "tags": ["s0", "s1", ""],
}  # fmt: skip


def _send(topic: str, count: int, **more: Any) -> Work:
    usual = {"body": [10, 400], "keys": 2, "words": 90, "tags": ["new", "paid", ""], "seed": len(topic)}
    return {"do": "Send", "topic": topic, "count": count, **usual, **more}


def _topic(topic: str, queues: int, **attributes: str) -> Work:
    return {
        "do": "Topic",
        "topic": topic,
        "queues": queues,
        **({"attributes": attributes} if attributes else {}),
    }


WORKLOADS = (
    Workload(
        "plain",
        ALL,
        (_topic("Order", 3), _send("Order", 260), _send("Other#", 120, topics=3)),
        ("record-malformed", "missing-queue"),
    ),
    Workload(
        "small-index-files",
        ALL,
        (_topic("Order", 2), _send("Order", 1500, keys=3, words=700, body=[5, 60])),
        ("index-lost", "chain-cycle"),
        store={"maxHashSlotNum": 13, "maxIndexNum": 250},
    ),
)


def store_settings(workload: Workload, version: str) -> dict[str, Any]:
    """The settings of MessageStoreConfig."""
    later = {} if version.startswith("4.") else {"mappedFileSizeTimerLog": 26000}
    return {**SIZES, **FIXED, **later, **workload.store}
