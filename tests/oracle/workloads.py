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
NEWER = (MIDDLE, NEW)
"""4.9.8 has no broker in Maven's repository."""

SIZES: Mapping[str, Any] = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 1200,
    "maxHashSlotNum": 61,
    "maxIndexNum": 1500,
}
FIXED: Mapping[str, Any] = {
    "maxMessageSize": 16384,
    "diskMaxUsedSpaceRatio": 95,
    "fileReservedTime": 876000,
    "mappedFileSizeTimerLog": 26000,
}
LATER = frozenset({"mappedFileSizeTimerLog", "timerWheelEnable"})
"""Settings that the oldest version has not."""
BROKER: Mapping[str, Any] = {
    "transactionTimeOut": 3_600_000,  # later half messages are written again, in the middle of a comparison
}


@dataclass(frozen=True, slots=True)
class Workload:
    """A row. Each of `damages` is done to a copy of the store that was stopped in order, and each copy is
    repaired and started.

    `store`, `broker`, `rights` and `more` are settings beside the usual ones, of MessageStoreConfig,
    BrokerConfig, AuthConfig and of what is plugged in ("{root}" is the store's directory). A group has as
    many brokers as `nodes` has settings, those of the broker and those of the store: for the works only, as
    later each store is started by itself. `controller` says whether they have one. `before` are works that
    brokers of other versions do first, one version after the other. `keeps` says whether every message is
    served in the end; `moves` that a start after a kill writes to the log at once, so that answers are not
    compared; `after_kill` has rules that a check may find broken besides, after a kill.

    With `ipv6` brokers and clients may use it. With a `disk_size`, like "6m", each store is on a disk of that
    size at first; nobody says how it must be then. With `holes` the stores are copied before they are looked
    at, and the copies have holes where there are zeros.
    """

    name: str
    versions: tuple[str, ...]
    works: tuple[Work, ...]
    damages: tuple[str, ...]
    store: Settings = field(default_factory=dict)
    broker: Settings = field(default_factory=dict)
    rights: Settings = field(default_factory=dict)
    more: Settings = field(default_factory=dict)
    nodes: tuple[tuple[Settings, Settings], ...] = (({}, {}),)
    before: tuple[tuple[str, tuple[Work, ...]], ...] = ()
    controller: bool = False
    keeps: bool = True
    moves: bool = False
    after_kill: frozenset[str] = frozenset()
    ipv6: bool = False
    holes: bool = False
    disk_size: str = ""


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


MASTER: Work = {"broker": {"brokerId": 0}, "store": {"brokerRole": "ASYNC_MASTER"}}
SLAVE: Work = {"broker": {"brokerId": 1}, "store": {"brokerRole": "SLAVE"}}
CONTROLLED: tuple[Settings, Settings] = (
    {"enableControllerMode": True, "brokerHeartbeatInterval": 500},
    {"totalReplicas": 2, "inSyncReplicas": 1, "allAckInSyncStateSet": True},
)
_PROVIDER = "org.apache.rocketmq.auth.{}.provider.Local{}MetadataProvider"

CHAINS: Mapping[str, tuple[str, ...]] = {
    OLD: (OLD, MIDDLE, NEW, MIDDLE),
    MIDDLE: (OLD, NEW),
    NEW: (OLD, MIDDLE, OLD),
}
"""By the version of the row: those that worked on its store before it, up and down."""
_CHAIN_WORKS = (_send("Order", 90), _send("Other#", 60, topics=2))

WORKLOADS = (
    Workload(
        "clients",
        ALL,
        (
            _topic("Order", 3),
            _send("Order", 200),
            _send("Later#", 40, topics=2, delay=1),
            _send("Later#", 40, topics=2, delay=15),
            {**_send("Batch", 12), "do": "Batch", "items": 5},
            {**_send("Packed", 3, body=[300, 2000]), "do": "Packed"},
            {**_send("Pay", 12), "do": "Transactions"},
            {
                "do": "Consume",
                "topic": "Order",
                "tags": "new || paid",
                "groups": 2,
                "failing": 7,
                "tries": 1,
                "ms": 6000,
            },
        ),
        ("record-malformed", "missing-queue"),
        after_kill=frozenset({"CF015"}),  # no broker writes offsets in its first ten seconds
    ),
    Workload(
        "small-index-files",
        ALL,
        (_topic("Order", 2), _send("Order", 1800, keys=10, words=5000, body=[5, 60])),
        ("index-lost", "chain-cycle"),
        store={"maxHashSlotNum": 101, "maxIndexNum": 1000},
    ),
    Workload(
        "many-topics",
        ALL,
        (_send("Many-#", 1600, topics=400, body=[5, 200]),),
        ("missing-topic", "unit-order"),
        broker={"defaultTopicQueueNums": 1},
        store={"mappedFileSizeConsumeQueue": 100},
    ),
    Workload(
        "large-bodies",
        ALL,
        (_send("Large", 9, body=[4 << 20, 6 << 20]), _send("Order", 60, body=[1 << 18, 1 << 19])),
        ("body-flip", "torn-tail"),
        store={"mappedFileSizeCommitLog": 16 << 20, "maxMessageSize": 8 << 20},
    ),
    Workload(
        "addresses",
        ALL,
        (
            _send("Order", 120),
            {"do": "Stop", "node": 0},
            {"do": "Start", "node": 0, "broker": {"brokerIP1": "::1"}},
            _send("Order", 120),
            _send("Other#", 60, topics=2),
        ),
        ("record-malformed", "index-gone"),
        ipv6=True,
    ),
    Workload(
        "clock-set-back",
        ALL,
        (
            _send("Order", 150),
            {"do": "Clock", "ms": -3_600_000},
            _send("Order", 150),
            {"do": "Clock", "ms": 0},
            _send("Order", 150),
        ),
        ("missing-queue", "checkpoint-zeroed"),
    ),
    Workload(
        "copies-with-holes",
        ALL,
        (_topic("Order", 2), _send("Order", 150), _send("Zeros", 20, body=[9000, 16000], zeros=True)),
        ("torn-tail", "queue-hole"),
        holes=True,
    ),
    Workload(
        "expiry",
        ALL,
        (
            _send("Order", 700),
            {"do": "Expire", "times": 3},
            _send("Order", 60),
        ),
        ("missing-queue", "index-gone"),
        store={
            "fileReservedTime": 0,
            "deleteCommitLogFilesInterval": 1,
            "deleteConsumeQueueFilesInterval": 1,
        },
        keeps=False,
    ),
    Workload(
        "deleted-topics",
        ALL,
        (
            _send("Gone#", 120, topics=2),
            _send("Stays", 60),
            {"do": "Delete", "topic": "Gone0", "ms": 1500},
            _send("Gone0", 20),
            {"do": "Delete", "topic": "Gone1", "ms": 1500},
        ),
        ("record-malformed", "index-gone"),
        keeps=False,
    ),
    Workload(
        "replicas-change-places",
        ALL,
        (
            _send("Order", 3),
            {"do": "InSync"},  # a slave that comes later begins with the last file of the log
            _send("Order", 150),
            {"do": "InSync"},
            {"do": "Stop", "node": 1},
            _send("Order", 350),  # the slave is behind by some files
            {"do": "Start", "node": 1},
            {"do": "InSync"},
            {"do": "Stop", "node": 0},
            {"do": "Stop", "node": 1},
            {"do": "Start", "node": 1, **MASTER},
            _send("Order", 200),
            {"do": "Start", "node": 0, **SLAVE},
            {"do": "InSync"},
        ),
        ("torn-tail", "queue-behind"),
        nodes=((MASTER["broker"], MASTER["store"]), (SLAVE["broker"], SLAVE["store"])),
    ),
    Workload(
        "controller-failover",
        NEWER,
        (
            _send("Order", 150),
            {"do": "InSync"},
            {"do": "StopMaster"},
            _send("Order", 200),
            {"do": "StartAgain"},
            {"do": "InSync"},
            {"do": "StopMaster"},
            _send("Order", 100),
            {"do": "StartAgain"},
            {"do": "InSync"},
        ),
        ("missing-queue", "torn-tail"),
        nodes=(CONTROLLED, CONTROLLED),
        controller=True,
    ),
    Workload(
        "compaction-and-inner-batches",
        NEWER,
        (
            _topic("Compact", 2, **{"cleanup.policy": "COMPACTION"}),
            _topic("Boxes", 2, **{"queue.type": "BatchCQ"}),
            _send("Compact", 500, keys=1, words=30, body=[10, 300]),
            {**_send("Boxes", 60, body=[10, 300]), "do": "Batch", "items": 8},
            {"do": "Pause", "ms": 6000},
            _send("Compact", 40, keys=1, words=30),
            {**_send("Boxes", 20), "do": "Batch", "items": 8},
        ),
        ("missing-queue", "record-malformed"),
        store={
            "compactionMappedFileSize": 23000,
            "compactionCqMappedFileSize": 4600,
            "compactionScheduleInternal": 2500,
            "mapperFileSizeBatchConsumeQueue": 460,
        },
        keeps=False,
    ),
    Workload(
        "static-topics",
        NEWER,
        (
            {"do": "StaticTopic", "topic": "Fixed", "queues": 5},
            _send("Fixed", 150),
            _send("Order", 60),
        ),
        ("missing-queue", "config-missing"),
        keeps=False,
    ),
    Workload(
        "rights-and-groups-in-databases",
        NEWER,
        (
            {"do": "Rights", "users": 5, "topic": "Order"},
            _topic("Order", 3),
            _send("Order", 200),
            {
                "do": "Consume",
                "topic": "Order",
                "tags": "*",
                "groups": 4,
                "failing": 0,
                "tries": 1,
                "ms": 3000,
            },
        ),
        ("record-malformed", "index-gone"),
        broker={"configManagerVersion": "v2"},
        store={"storeType": "defaultRocksDB"},
        rights={
            "authenticationMetadataProvider": _PROVIDER.format("authentication", "Authentication"),
            "authorizationMetadataProvider": _PROVIDER.format("authorization", "Authorization"),
        },
    ),
    Workload(
        "timers",
        NEWER,
        (
            _send("Order", 60),
            _send("Later", 60, system={"TIMER_DELIVER_MS": "+600000"}),
            _send("Soon", 20, system={"TIMER_DELAY_SEC": "1"}),
            {"do": "Pause", "ms": 5000},
        ),
        ("torn-tail", "timer-slot-count"),
        keeps=False,
    ),
    Workload(
        "popping",
        NEWER,
        (
            _topic("Pop", 3),
            _send("Pop", 120),
            {"do": "Pop", "topic": "Pop", "failing": 9, "ms": 5000},
        ),
        ("record-malformed", "missing-queue"),
        moves=True,
    ),
    Workload(
        "light-topics",
        ALL,
        (
            _topic("Parent", 2),
            _send("Parent", 200, topics=7, system={"INNER_MULTI_DISPATCH": "%LMQ%child-#"}),
        ),
        ("missing-queue", "torn-tail"),
        store={"enableLmq": True, "enableMultiDispatch": True},
        keeps=False,
    ),
    Workload(
        "tiered-storage",
        NEWER,
        (
            _send("Order", 500),
            {"do": "Pause", "ms": 12000},
            {"do": "Expire", "times": 2},
            _send("Order", 60),
        ),
        ("missing-queue", "index-gone"),
        broker={"messageStorePlugIn": "org.apache.rocketmq.tieredstore.TieredMessageStore"},
        store={
            "fileReservedTime": 0,
            "deleteCommitLogFilesInterval": 1,
            "deleteConsumeQueueFilesInterval": 1,
        },
        more={
            "brokerClusterName": "Workloads",
            "brokerName": "broker-a",
            "storePathRootDir": "{root}",
            "tieredStoreFilePath": "{root}/tiered",
            "tieredStorageLevel": "FORCE",
            "tieredBackendServiceProvider": "org.apache.rocketmq.tieredstore.provider.PosixFileSegment",
            "tieredStoreCommitLogMaxSize": 65536,
            "tieredStoreConsumeQueueMaxSize": 20000,
            "tieredStoreGroupCommitCount": 10,
            "tieredStoreGroupCommitTimeout": 1000,
            "tieredStoreIndexFileMaxHashSlotNum": 101,
            "tieredStoreIndexFileMaxIndexNum": 150,
        },
        keeps=False,
    ),
    Workload(
        "full-disk",
        ALL,
        ({"do": "Fill", "topic": "Order", "refusals": 30, "body": [10, 3000], "keys": 2, "words": 90},),
        (),
        store={"timerWheelEnable": False},
        disk_size="3m",
        keeps=False,
    ),
    *(
        Workload(
            "upgrades-and-downgrades",
            (last,),
            _CHAIN_WORKS,
            ("record-malformed", "index-lost"),
            store={"maxIndexNum": 900},  # two index files at least
            before=tuple((version, _CHAIN_WORKS) for version in before),
        )
        for last, before in CHAINS.items()
    ),
)


def broker_settings(workload: Workload) -> dict[str, Any]:
    """The settings of BrokerConfig."""
    return {**BROKER, **workload.broker}


def store_settings(workload: Workload, version: str) -> dict[str, Any]:
    """The settings of MessageStoreConfig."""
    settings = {**SIZES, **FIXED, **workload.store}
    return {name: value for name, value in settings.items() if not (version == OLD and name in LATER)}
