"""What the classes of a broker do to a store, for statements without a row of their own.

The longest beginning of a class's name decides.

A row of what lines mean: the statements that it is for, and what is known of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rocketfsck.common.rulenames import RuleName

Weight = Literal["normal", "notice", "damage"]
"""normal: seen in healthy stores. notice: ask why. damage: the store, or what a start makes of it."""


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue of apache/rocketmq. `fixed_in` is the first release with the correction, as far as its sources
    were read; None where none of them has it, or where nothing tells."""

    number: int
    fixed_in: str | None = None

    @property
    def text(self) -> str:
        return f"#{self.number}" + ("" if self.fixed_in is None else f" (fixed in {self.fixed_in})")


@dataclass(frozen=True, slots=True)
class Family:
    """Lines that mean the same. `begins` is how the templates of its statements begin, `owners` the classes
    that they belong to (without one: all); `frames` are methods (`Class.method`) of a stack trace, `errors`
    what the line of an exception holds. `normal_if`: holes that make the line a normal one, by their values.

    `command` is what to type next, without the program's name; `rules` and `classes` are what a check reports
    for it."""

    name: str
    weight: Weight
    meaning: str
    advice: str
    begins: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    normal_if: tuple[tuple[str, str], ...] = ()
    command: str = "check STORE"
    rules: tuple[RuleName, ...] = ()
    classes: tuple[str, ...] = ()
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassArea:
    """What classes do whose names begin so, for their statements without a row. `concerns` is a part of a
    store; `command` as in `Family`."""

    begins: tuple[str, ...]
    concerns: str
    advice: str
    command: str = "check STORE"


AREAS = (
    ClassArea(
        ("CommitLog", "FlushDiskWatcher", "MessageExtEncoder", "PutMessage", "MultiDispatch"),
        "writing, flushing and recovering the commit log",
        "See whether the log is whole.",
    ),
    ClassArea(
        (
            "MappedFile",
            "DefaultMappedFile",
            "AllocateMappedFile",
            "TransientStorePool",
            "SharedByteBuffer",
            "ReferenceResource",
            "SelectMapped",
        ),
        "the files of the log and of queues, mapped into memory",
        "See whether files have the right names and sizes.",
    ),
    ClassArea(
        (
            "DefaultMessageStore",
            "MessageStore",
            "RunningFlags",
            "StoreUtil",
            "PerfCounter",
            "StoreStats",
            "LmqDispatch",
            "AbstractPluginMessageStore",
            "HookUtils",
        ),
        "loading the store, dispatching its log, answering requests and deleting old files",
        "See whether the store is sound.",
    ),
    ClassArea(
        (
            "ConsumeQueue",
            "AbstractConsumeQueue",
            "BatchConsumeQueue",
            "SparseConsumeQueue",
            "QueueOffset",
            "BatchOffset",
            "MultiDispatch",
            "CombineConsumeQueue",
        ),
        "the consume queues: units that lead from queue offsets to records",
        "See whether each queue fits the log.",
    ),
    ClassArea(("IndexFile", "IndexService"), "the index by key", "See whether the index is whole."),
    ClassArea(
        ("StoreCheckpoint",),
        "the checkpoint, from which recovery begins",
        "See what the next start does.",
        "simulate STORE",
    ),
    ClassArea(
        (
            "HA",
            "DefaultHA",
            "AbstractHA",
            "AutoSwitchHA",
            "GroupTransfer",
            "EpochFile",
            "WaitNotify",
            "FlowMonitor",
            "HAConnection",
        ),
        "replication between master and slave",
        "If replicas may differ, compare their stores.",
        "compare STORE OTHER_STORE",
    ),
    ClassArea(
        ("ReplicasManager", "BrokerPreOnline", "SlaveSynchronize", "BrokerMetadata", "TempBrokerMetadata"),
        "the role of this broker in its group, and configs taken from the master",
        "If replicas may differ, compare their stores.",
        "compare STORE OTHER_STORE",
    ),
    ClassArea(
        ("DLedger",), "a commit log that DLedger replicates", "See whether this node's entries are whole."
    ),
    ClassArea(
        ("Timer", "Timeline"),
        "messages that wait for a timer",
        "See which messages wait.",
        "query timers STORE",
    ),
    ClassArea(
        ("Compaction",),
        "topics of which the newest message of a key is kept",
        "See whether log and queue of the topic fit.",
    ),
    ClassArea(
        (
            "RocksDB",
            "AbstractRocksDB",
            "RocksGroup",
            "ConfigRocksDB",
            "MessageRocksDB",
            "IndexRocksDB",
            "TransMessageRocksDB",
            "TransRocksDB",
            "OffsetInitializer",
            "PopConsumerRocksdb",
            "AbstractRocks",
            "ConfigStorage",
            "ConfigHelper",
            "TopicConfigManagerV2",
            "SubscriptionGroupManagerV2",
            "ConsumerOffsetManagerV2",
        ),
        "a RocksDB database of the store",
        "Check reads the database without the broker.",
    ),
    ClassArea(
        (
            "Tiered",
            "Flat",
            "FileSegment",
            "PosixFile",
            "MemoryFile",
            "IndexStore",
            "IndexItem",
            "MessageStoreDispatcher",
            "MessageStoreFetcher",
            "MessageFetcher",
            "CompositeFlat",
            "CompositeQueue",
            "MessageBuffer",
            "MessageFormat",
            "CommitLogInput",
            "DefaultMetadata",
            "SliceAppending",
            "CompositeAccess",
        ),
        "tiered storage, where messages are copied to",
        "The local store is not affected. Check reads the tiered part, too, where it is on this machine.",
    ),
    ClassArea(
        (
            "ConfigManager",
            "TopicConfig",
            "SubscriptionGroup",
            "ConsumerOffset",
            "LmqConsumerOffset",
            "TopicQueueMapping",
            "TopicRouteInfo",
            "ConsumerFilter",
            "Lmq",
            "BroadcastOffset",
            "ConsumerOrderInfo",
            "QueueLevelConsumer",
            "MemoryConsumerOrder",
            "BrokerPathConfig",
        ),
        "a config file: topics, subscriptions, offsets of groups",
        "See whether the configs can be read and fit the queues.",
    ),
    ClassArea(
        ("ScheduleMessage",),
        "delayed messages (levels), whose positions are in delayOffset.json",
        "See how far each level is.",
        "query offsets STORE --topic SCHEDULE_TOPIC_XXXX",
    ),
    ClassArea(
        (
            "Transaction",
            "AbstractTransactional",
            "DefaultTransactional",
            "JDBCTransaction",
            "TransactionalOp",
        ),
        "messages of transactions that wait for their end (RMQ_SYS_TRANS_HALF_TOPIC)",
        "The store is not affected. See how far the group of transactions is.",
        "query offsets STORE --group CID_RMQ_SYS_TRANS",
    ),
    ClassArea(
        (
            "BrokerController",
            "BrokerStartup",
            "BrokerStats",
            "ServiceThread",
            "MixAll",
            "UtilAll",
            "AbstractLite",
            "LiteLifecycle",
            "CommitLogDispatcher",
            "BrokerIdentity",
            "NotifyMessage",
        ),
        "the broker as a whole, its services and its settings",
        "If the broker did not start, read the earlier lines of store.log, too.",
    ),
)
