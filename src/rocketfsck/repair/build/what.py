"""What a rebuilding is asked for by one word, and what is wrong with what came out."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from rocketfsck.repair.build.model import BuiltQueue
from rocketfsck.repair.build.run import RebuildOptions, Rebuilt
from rocketfsck.store.model import Store

What = Literal["index", "consumequeue", "checkpoint", "rocksdbstore", "all"]


def options_for(store: Store, what: What, options: RebuildOptions) -> RebuildOptions:
    """`options` with the parts that the word names: `all` goes by the settings of the store's broker."""
    return replace(
        options,
        queues=what in ("consumequeue", "all"),
        index=what == "index" or (what == "all" and store.settings.flag("messageIndexEnable", True)),
        checkpoint=what in ("checkpoint", "all"),
        message_rows=what == "rocksdbstore" or (what == "all" and _has_index_rows(store)),
    )


def _has_index_rows(store: Store) -> bool:
    """Whether the settings say that the broker keeps an index in RocksDB."""
    return store.dialect.message_database and store.settings.flag("indexRocksDBEnable", False)


def has_problems(rebuilt: Rebuilt) -> bool:
    """Whether the log is damaged, or has records that the result has no place for."""
    queues = rebuilt.queues
    return bool(
        rebuilt.damaged_files
        or (rebuilt.message_rows is not None and rebuilt.message_rows.lost)
        or (queues is not None and (queues.refused_count or any(map(is_odd, queues.queues))))
    )


def is_odd(queue: BuiltQueue) -> bool:
    """Whether records of a queue have no unit, or units are not at their records' queue offsets."""
    return bool(queue.duplicate_count or queue.misplaced_count or queue.gap_count)
