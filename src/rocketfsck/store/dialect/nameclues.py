"""Clues to the dialect in what files and directories a store has. Reference 1.1 and 1.6."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rocketfsck.errors import StoreError
from rocketfsck.store.dialect.sampling import Clue, Samples, Weight, clue
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import OtherKind
from rocketfsck.store.reading import read_whole

# Clues in the options that RocksDB writes next to a database whenever a broker opens it.
#
#     OPTIONS-NNNNNN   text; the highest number belongs to the last opening
#       [DBOptions]
#         bytes_per_sync=1048576   set by brokers with the trait rocksdb_syncs_bytes, 0 by others
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
            size = int(option[1])
            what = f"{newest.relative} has bytes_per_sync={size}"
            yield clue(Weight.PRESENT, what, "brokers set the option", "rocksdb_syncs_bytes", lacks=size == 0)


Shown = tuple[str, str, Any]
"""What a clue says before the versions, the trait and the value."""
_TIMER_WHEEL: Shown = ("brokers have the timer wheel", "timer_wheel", True)
_COMPACTION: Shown = ("brokers have compaction", "compaction", True)
_TIERED: Shown = ("brokers have the tiered store", "tiered_store", True)
_WRITTEN = "brokers write the file"
_DATABASE = "brokers have this database"

_CONFIG_NAMES: Mapping[str, Shown] = {
    "lmqConsumerOffset.json": (_WRITTEN, "multi_dispatch", True),
    "consumerFilter.json": ("brokers have these", "kept_files", "config/consumerFilter.json"),
    "consumerOrderInfo.json": (_WRITTEN, "kept_files", "config/consumerOrderInfo.json"),
    "messageRequestMode.json": (_WRITTEN, "kept_files", "config/messageRequestMode.json"),
    "topicQueueMapping.json": (_WRITTEN, "kept_files", "config/topicQueueMapping.json"),
    "timermetrics": _TIMER_WHEEL,
    "transactionMetrics": (_WRITTEN, "kept_files", "config/transactionMetrics"),
    "tieredStoreMetadata.json": _TIERED,
}

_OTHERS: Mapping[OtherKind, Shown] = {
    OtherKind.TIMER_WHEEL: _TIMER_WHEEL,
    OtherKind.TIMER_LOG: _TIMER_WHEEL,
    OtherKind.TIMER_CHECK: _TIMER_WHEEL,
    OtherKind.EPOCH: ("brokers have epochs", "epoch_file", True),
    OtherKind.BROKER_IDENTITY: (_WRITTEN, "kept_files", "brokerIdentity"),
    OtherKind.DLEDGER_DATA: ("brokers have DLedger", "dledger", True),
    OtherKind.COMPACTION_LOG: _COMPACTION,
    OtherKind.COMPACTION_CQ: _COMPACTION,
    OtherKind.TIERED_INDEX: _TIERED,
}

_DATABASES: Mapping[str, Shown] = {
    "consumequeue": ("brokers have consume queues in RocksDB", "rocksdb_consumequeue", True),
    "config/topics": ("brokers have configs in RocksDB", "kept_files", "config/topics"),
    "config/rdb": (_DATABASE, "kept_files", "config/rdb"),
    "config/users": (_DATABASE, "kept_files", "config/users"),
    "kvStore": (_DATABASE, "pop_database", True),
    "rocksdbstore": ("brokers create the directory", "message_database", True),
}


def clues_in_names(found: Samples) -> Iterator[Clue]:
    """What files and directories are there; empty queues of a kind are enough."""
    for file in found.configs:
        if file.name in _CONFIG_NAMES:
            yield _present(f"{file.relative} exists", _CONFIG_NAMES[file.name])
    stated = set()
    for other in found.others:
        shown = _DATABASES.get(other.relative) if other.kind is OtherKind.ROCKSDB else _OTHERS.get(other.kind)
        made = _present(f"{other.relative} exists", shown) if shown is not None else None
        if made is not None and made.why not in stated:
            stated.add(made.why)
            yield made
    topics = {queue.topic for queue in found.queues}
    there: tuple[tuple[bool, str, Shown], ...] = (
        (
            any(queue.kind == "batch" for queue in found.queues),
            "batchconsumequeue/ has queues",
            ("brokers have batch queues", "batch_queues", True),
        ),
        (
            bool(found.ext_queues),
            "consumequeue_ext/ has queues",
            ("brokers have these", "consumequeue_ext", True),
        ),
        (
            "RMQ_SYS_TRANS_HALF_TOPIC" in topics,
            "RMQ_SYS_TRANS_HALF_TOPIC has queues",
            ("brokers store half messages", "half_topic", True),
        ),
        (
            any(topic.startswith("%LMQ%") for topic in topics),
            "topics named %LMQ%… have queues",
            ("brokers know multi-dispatch", "multi_dispatch", True),
        ),
        (found.lock is not None, "lock exists", (_WRITTEN, "lock_file", True)),
    )
    yield from (_present(what, shown) for exists, what, shown in there if exists)
    if found.lock is not None and not any(other.relative == "rocksdbstore" for other in found.others):
        yield clue(Weight.ABSENT, "there is no rocksdbstore/", *_DATABASES["rocksdbstore"], lacks=True)


def _present(what: str, shown: Shown) -> Clue:
    return clue(Weight.PRESENT, what, *shown)
