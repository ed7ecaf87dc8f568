"""Clues to the dialect in what files and directories a store has. Reference 1.1 and 1.6."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rocketfsck.errors import StoreError
from rocketfsck.store.dialect.sampling import Clue, Fits, Samples, Weight
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import OtherKind
from rocketfsck.store.reading import read_whole

# Clues in the options that RocksDB writes next to a database whenever a broker opens it.
#
#     OPTIONS-NNNNNN   text; the highest number belongs to the last opening
#       [DBOptions]
#         bytes_per_sync=1048576   set by brokers from 5.3.2 on, 0 before
#
# No setting of a broker changes this option. Reference 3.9.

OPTIONS_LIMIT = 1 << 20
"""Bytes of a file of options that are read; RocksDB's own have some 15 KB."""
_NAME = re.compile(r"OPTIONS-(\d{1,18})")
_SYNC = re.compile(rb"^\s*bytes_per_sync=(\d+)\s*$", re.MULTILINE)


def clues_in_options(found: Samples) -> Iterator[Clue]:
    """What the newest options of each database of consume queues show; nothing where they cannot be read."""
    for other in found.others:
        if other.kind is not OtherKind.ROCKSDB or other.relative not in QUEUE_DATABASES:
            continue
        numbered = [(int(name[1]), file) for file in other.files if (name := _NAME.fullmatch(file.name))]
        if not numbered:
            continue
        _, newest = max(numbered, key=lambda item: item[0])
        try:
            option = _SYNC.search(read_whole(newest.path, OPTIONS_LIMIT))
        except StoreError:
            continue
        if option is not None:
            yield Clue(
                Weight.PRESENT,
                f"{newest.relative} has bytes_per_sync={int(option[1])}",
                "brokers set the option from 5.3.2 on",
                _set_by(int(option[1]) > 0),
            )


def _set_by(sets: bool) -> Fits:
    """Brokers that set the option, or those before."""
    return lambda dialect: dialect.version.since("5.3.2") == sets


def _since(*versions: str) -> Fits:
    return lambda dialect: dialect.version.since(*versions)


_CONFIG_NAME_CLUES: Mapping[str, tuple[str, Fits]] = {
    "lmqConsumerOffset.json": (
        "brokers write the file from 4.9.3 and 5.0.0-ALPHA on",
        lambda dialect: dialect.multi_dispatch,
    ),
    "consumerFilter.json": ("brokers have these from 4.1.0 on", _since("4.1.0")),
    "consumerOrderInfo.json": (
        "brokers write the file from 5.0.0-PREVIEW and 5.0.0-ALPHA on",
        _since("5.0.0-PREVIEW", "5.0.0-ALPHA"),
    ),
    "messageRequestMode.json": (
        "brokers write the file from 5.0.0-PREVIEW and 5.0.0-ALPHA on",
        _since("5.0.0-PREVIEW", "5.0.0-ALPHA"),
    ),
    "topicQueueMapping.json": ("brokers write the file from 5.0.0-ALPHA on", _since("5.0.0-ALPHA")),
    "timermetrics": ("brokers have the timer wheel from 5.0.0 on", lambda dialect: dialect.timer_wheel),
    "transactionMetrics": ("brokers write the file from 5.2.0 on", _since("5.2.0")),
    "tieredStoreMetadata.json": ("brokers have the tiered store from 5.1.0 on", _since("5.1.0")),
}

_OTHER_CLUES: Mapping[OtherKind, tuple[str, Fits]] = {
    OtherKind.TIMER_WHEEL: (
        "brokers have the timer wheel from 5.0.0 on",
        lambda dialect: dialect.timer_wheel,
    ),
    OtherKind.TIMER_LOG: ("brokers have the timer wheel from 5.0.0 on", lambda dialect: dialect.timer_wheel),
    OtherKind.TIMER_CHECK: (
        "brokers have the timer wheel from 5.0.0 on",
        lambda dialect: dialect.timer_wheel,
    ),
    OtherKind.EPOCH: ("brokers have epochs from 5.0.0 on", lambda dialect: dialect.epoch_file),
    OtherKind.BROKER_IDENTITY: ("brokers write the file from 5.1.1 on", _since("5.1.1")),
    OtherKind.DLEDGER_DATA: ("brokers have DLedger from 4.5.1 on", lambda dialect: dialect.dledger),
    OtherKind.COMPACTION_LOG: ("brokers have compaction from 5.1.0 on", lambda dialect: dialect.compaction),
    OtherKind.COMPACTION_CQ: ("brokers have compaction from 5.1.0 on", lambda dialect: dialect.compaction),
    OtherKind.TIERED_INDEX: ("brokers have the tiered store from 5.1.0 on", _since("5.1.0")),
}

_DATABASE_CLUES: Mapping[str, tuple[str, Fits]] = {
    "consumequeue": (
        "brokers have consume queues in RocksDB from 5.2.0 on",
        lambda dialect: dialect.rocksdb_consumequeue,
    ),
    "config/topics": ("brokers have configs in RocksDB from 5.1.4 on", _since("5.1.4")),
    "config/rdb": ("brokers have this database from 5.3.2 on", _since("5.3.2")),
    "config/users": ("brokers have this database from 5.3.0 on", _since("5.3.0")),
    "kvStore": ("brokers have this database from 5.3.2 on", _since("5.3.2")),
    "rocksdbstore": ("brokers create the directory from 5.4.0 on", lambda dialect: dialect.message_database),
}


def clues_in_names(found: Samples) -> Iterator[Clue]:
    """What files and directories are there; empty queues of a kind are enough."""
    for file in found.configs:
        if file.name in _CONFIG_NAME_CLUES:
            why, fits = _CONFIG_NAME_CLUES[file.name]
            yield Clue(Weight.PRESENT, f"{file.relative} exists", why, fits)
    stated = set()
    for other in found.others:
        clue = (
            _DATABASE_CLUES.get(other.relative)
            if other.kind is OtherKind.ROCKSDB
            else _OTHER_CLUES.get(other.kind)
        )
        if clue is not None and clue[0] not in stated:
            stated.add(clue[0])
            yield Clue(Weight.PRESENT, f"{other.relative} exists", *clue)
    if any(queue.kind == "batch" for queue in found.queues):
        yield Clue(
            Weight.PRESENT,
            "batchconsumequeue/ has queues",
            "brokers have batch queues from 5.0.0-ALPHA on",
            lambda dialect: dialect.batch_queues,
        )
    if found.ext_queues:
        yield Clue(
            Weight.PRESENT,
            "consumequeue_ext/ has queues",
            "brokers have these from 4.1.0 on",
            lambda dialect: dialect.consumequeue_ext,
        )
    topics = {queue.topic for queue in found.queues}
    if "RMQ_SYS_TRANS_HALF_TOPIC" in topics:
        yield Clue(
            Weight.PRESENT,
            "RMQ_SYS_TRANS_HALF_TOPIC has queues",
            "brokers store half messages from 4.3.0 on",
            lambda dialect: dialect.half_topic,
        )
    if any(topic.startswith("%LMQ%") for topic in topics):
        yield Clue(
            Weight.PRESENT,
            "topics named %LMQ%… have queues",
            "brokers know multi-dispatch from 4.9.3 and 5.0.0-ALPHA on",
            lambda dialect: dialect.multi_dispatch,
        )
    if found.lock is not None:
        yield Clue(
            Weight.PRESENT,
            "lock exists",
            "brokers write the file from 4.2.0 on",
            lambda dialect: dialect.lock_file,
        )
        if not any(other.relative == "rocksdbstore" for other in found.others):
            yield Clue(
                Weight.ABSENT,
                "there is no rocksdbstore/",
                "brokers create the directory from 5.4.0 on",
                lambda dialect: not dialect.message_database,
            )
