"""Pulls from compaction topics: `CompactionLog.getMessage`, which goes by the compacted log. Ref. 1.9, 7.3.

    topics.json: cleanup.policy = COMPACTION, and enableCompaction (the default)

A pull begins at the unit of the queue offset asked for, or of the next one that is left, in the first unit
file that reaches it, and ends with this file at the latest. Answers name places in the compacted log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rocketfsck.errors import FormatError
from rocketfsck.formats.config import TopicConfig, topic_configs
from rocketfsck.formats.dialect import Dialect
from rocketfsck.query.serving.files import java_int
from rocketfsck.query.serving.pulls import TRANSFER_COUNT, TRANSFER_SIZE, PullAnswer, Status
from rocketfsck.query.view import StoreView
from rocketfsck.reader.compaction import (
    CompactedQueue,
    Units,
    compacted_queues,
    read_units,
)
from rocketfsck.store.model import MappedFileQueue, Store

POLICY, COMPACTION = "cleanup.policy", "COMPACTION"
SETTING = "enableCompaction"
RECOVERED = 3
"""Unit files at the end that a start goes through: they end at the first that is not a unit."""


def compaction_topics(store: Store, dialect: Dialect) -> frozenset[str]:
    """The topics that a broker answers pulls of from their compacted logs."""
    if not dialect.compaction or not store.settings.flag(SETTING, default=True):
        return frozenset()
    with StoreView(store) as view:
        try:
            topics: Mapping[str, TopicConfig] = topic_configs(view.config("topics.json") or {})
        except FormatError:
            return frozenset()
    return frozenset(name for name, topic in topics.items() if topic.attributes.get(POLICY) == COMPACTION)


class CompactedPulls:
    """The compacted logs of a store, as a broker serves them. Unit files are read when they are asked for."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.queues = {(queue.topic, queue.queue_id): queue for queue in compacted_queues(store)}
        self._units: dict[str, Units] = {}

    def log_store(self, topic: str, queue_id: int) -> Store:
        """The store with this queue's compacted log in place of the commit log: for reading messages."""
        queue = self.queues.get((topic, queue_id))
        return replace(self.store, commitlog=MappedFileQueue((), 0, ()) if queue is None else queue.log)

    def pull(self, topic: str, queue_id: int, offset: int, max_num: int) -> PullAnswer:
        """A pull of at most `max_num` messages from a queue offset. Raises StoreError."""
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            return PullAnswer("NO_MATCHED_LOGIC_QUEUE", (), 0, 0, 0)
        files = [self._served(queue, number) for number in range(len(queue.units.files))]
        low = next((int(units["msgBaseOffset"][0]) for units in files if len(units)), 0)
        high = next((_end(units) for units in reversed(files) if len(units)), 0)
        if high == 0:
            return PullAnswer("NO_MESSAGE_IN_QUEUE", (), 0, low, high)
        if offset == high:
            return PullAnswer("OFFSET_OVERFLOW_ONE", (), offset, low, high)
        if offset > high:
            return PullAnswer("OFFSET_OVERFLOW_BADLY", (), high if low else low, low, high)
        units = next((units for units in files if len(units) and _end(units) > offset), None)
        if units is None:
            return PullAnswer("OFFSET_FOUND_NULL", (), 0, low, high)
        return _walk(queue, units, offset, max_num, (low, high))

    def _served(self, queue: CompactedQueue, number: int) -> Units:
        """The units of a file that a broker knows of."""
        file = queue.units.files[number]
        if file.location not in self._units:
            units = read_units(file)
            last = number >= len(queue.units.files) - RECOVERED
            self._units[file.location] = units.leading if last else units.rows
        return self._units[file.location]


def _end(units: Units) -> int:
    return int(units["msgBaseOffset"][-1]) + int(units["batchSize"][-1])


def _walk(
    queue: CompactedQueue, units: Units, offset: int, max_num: int, bounds: tuple[int, int]
) -> PullAnswer:
    bases = units["msgBaseOffset"].astype(np.int64)
    found: list[int] = []
    status: Status = "NO_MATCHED_MESSAGE"
    total, count, following, skip_below = 0, 0, offset, -1
    for row in range(int(np.searchsorted(bases, offset)), len(units)):
        place, size, batch = (int(units[name][row]) for name in ("offset", "size", "batchSize"))
        full = count + batch > max_num or java_int(total + size) > TRANSFER_SIZE or count > TRANSFER_COUNT - 1
        if total and count and full:
            break
        following = int(bases[row]) + batch
        if place < skip_below:
            continue
        if not _holds(queue.log, place, size):
            status = status if total else "MESSAGE_WAS_REMOVING"
            skip_below = place + queue.log.file_size - place % max(queue.log.file_size, 1)
            continue
        found.append(place)
        total, count, status, skip_below = total + size, count + batch, "FOUND", -1
    return PullAnswer(status, tuple(found), following, *bounds)


def _holds(log: MappedFileQueue, place: int, size: int) -> bool:
    """Whether a file of the log has these bytes."""
    return any(
        (file.start_offset or 0) <= place and place + size <= (file.start_offset or 0) + file.size
        for file in log.files
    )
