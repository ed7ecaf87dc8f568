"""Clues to the dialect in what files and directories a store has. Reference 1.1 and 1.6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rocketfsck.store.dialect.clue import Clue, Fits, Found, Weight
from rocketfsck.store.model import OtherKind


def _since(*versions: str) -> Fits:
    return lambda dialect: dialect.version.since(*versions)


_CONFIG_NAME_CLUES: Mapping[str, tuple[str, Fits]] = {
    "lmqConsumerOffset.json": ("it is 4.9.3+ and 5.0.0-ALPHA+", lambda dialect: dialect.multi_dispatch),
    "consumerFilter.json": ("it is 4.1.0+", _since("4.1.0")),
    "consumerOrderInfo.json": (
        "it is 5.0.0-PREVIEW+ and 5.0.0-ALPHA+",
        _since("5.0.0-PREVIEW", "5.0.0-ALPHA"),
    ),
    "messageRequestMode.json": (
        "it is 5.0.0-PREVIEW+ and 5.0.0-ALPHA+",
        _since("5.0.0-PREVIEW", "5.0.0-ALPHA"),
    ),
    "topicQueueMapping.json": ("it is 5.0.0-ALPHA+", _since("5.0.0-ALPHA")),
    "timermetrics": ("timers are 5.0.0+", lambda dialect: dialect.timer_wheel),
    "transactionMetrics": ("it is 5.2.0+", _since("5.2.0")),
    "tieredStoreMetadata.json": ("the tiered store is 5.1.0+", _since("5.1.0")),
}

_OTHER_CLUES: Mapping[OtherKind, tuple[str, Fits]] = {
    OtherKind.TIMER_WHEEL: ("timers are 5.0.0+", lambda dialect: dialect.timer_wheel),
    OtherKind.TIMER_LOG: ("timers are 5.0.0+", lambda dialect: dialect.timer_wheel),
    OtherKind.TIMER_CHECK: ("timers are 5.0.0+", lambda dialect: dialect.timer_wheel),
    OtherKind.EPOCH: ("epochs are 5.0.0+", lambda dialect: dialect.epoch_file),
    OtherKind.BROKER_IDENTITY: ("it is 5.1.1+", _since("5.1.1")),
    OtherKind.DLEDGER_DATA: ("DLedger is 4.5.1+", lambda dialect: dialect.dledger),
    OtherKind.COMPACTION_LOG: ("compaction is 5.1.0+", lambda dialect: dialect.compaction),
    OtherKind.COMPACTION_CQ: ("compaction is 5.1.0+", lambda dialect: dialect.compaction),
    OtherKind.TIERED_INDEX: ("the tiered store is 5.1.0+", _since("5.1.0")),
}

_DATABASE_CLUES: Mapping[str, tuple[str, Fits]] = {
    "consumequeue": ("the RocksDB consume queue is 5.2.0+", lambda dialect: dialect.rocksdb_consumequeue),
    "config/topics": ("configs in RocksDB are 5.1.4+", _since("5.1.4")),
    "config/rdb": ("it is 5.3.2+", _since("5.3.2")),
    "config/users": ("it is 5.3.0+", _since("5.3.0")),
    "kvStore": ("it is 5.3.2+", _since("5.3.2")),
    "rocksdbstore": ("brokers make it from 5.4.0 on", lambda dialect: dialect.message_database),
}


def clues_in_names(found: Found) -> Iterator[Clue]:
    """What files and directories are there; empty queues of a kind are enough."""
    for file in found.configs:
        if file.name in _CONFIG_NAME_CLUES:
            why, fits = _CONFIG_NAME_CLUES[file.name]
            yield Clue(Weight.PRESENT, f"{file.relative} exists", why, fits)
    told = set()
    for other in found.others:
        clue = (
            _DATABASE_CLUES.get(other.relative)
            if other.kind is OtherKind.ROCKSDB
            else _OTHER_CLUES.get(other.kind)
        )
        if clue is not None and clue[0] not in told:
            told.add(clue[0])
            yield Clue(Weight.PRESENT, f"{other.relative} exists", *clue)
    if any(queue.kind == "batch" for queue in found.queues):
        yield Clue(
            Weight.PRESENT,
            "batchconsumequeue/ has queues",
            "batch queues are 5.0.0-ALPHA+",
            lambda dialect: dialect.batch_queues,
        )
    if found.ext_queues:
        yield Clue(
            Weight.PRESENT,
            "consumequeue_ext/ has queues",
            "it is 4.1.0+",
            lambda dialect: dialect.consumequeue_ext,
        )
    topics = {queue.topic for queue in found.queues}
    if "RMQ_SYS_TRANS_HALF_TOPIC" in topics:
        yield Clue(
            Weight.PRESENT,
            "RMQ_SYS_TRANS_HALF_TOPIC has queues",
            "half messages are 4.3.0+",
            lambda dialect: dialect.half_topic,
        )
    if any(topic.startswith("%LMQ%") for topic in topics):
        yield Clue(
            Weight.PRESENT,
            "topics named %LMQ%… have queues",
            "multi-dispatch is 4.9.3+ and 5.0.0-ALPHA+",
            lambda dialect: dialect.multi_dispatch,
        )
    if found.lock is not None:
        yield Clue(Weight.PRESENT, "lock exists", "it is 4.2.0+", lambda dialect: dialect.lock_file)
        if not any(other.relative == "rocksdbstore" for other in found.others):
            yield Clue(
                Weight.ABSENT,
                "there is no rocksdbstore/",
                "brokers make it from 5.4.0 on",
                lambda dialect: not dialect.message_database,
            )
