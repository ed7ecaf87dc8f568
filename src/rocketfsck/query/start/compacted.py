"""What a start makes of the compacted logs (5.1.0+): which it loads, and what keeps it from starting.

    log and unit files of a wrong length      5.1.0: no start; from 5.1.1 on the queue is not served
    a log file without its unit file, or the reverse                     no start
    a file of the right length whose name is not a number                no start
    a queue without a directory of units                                 the queue is not served
    records after the last unit                                          cut off

Reference 1.9; `CompactionStore.load`, `CompactionLog.TopicPartitionLog.init` of 5.1.0 to 5.5.1.

Pulls from compaction topics: `CompactionLog.getMessage`, which goes by the compacted log. Ref. 1.9, 7.3.

    topics.json: cleanup.policy = COMPACTION, and enableCompaction (the default)

A pull begins at the unit of the queue offset asked for, or of the next one that is left, in the first unit
file that reaches it, and ends with this file at the latest. Answers name places in the compacted log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from rocketfsck.errors import FormatError
from rocketfsck.formats.config import TopicConfig, topic_configs
from rocketfsck.formats.dialect import Dialect
from rocketfsck.query.serving.files import java_int
from rocketfsck.query.serving.pulls import TRANSFER_COUNT, TRANSFER_SIZE, PullAnswer, Status
from rocketfsck.query.start.load import LoadedFile, Loading, load_directory
from rocketfsck.query.start.model import FileChange, Ignored, Refusal
from rocketfsck.query.view import StoreView
from rocketfsck.reader import compaction
from rocketfsck.reader.configs import compacted_topics
from rocketfsck.store.circumstances import Settings
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
        self.queues = {(queue.topic, queue.queue_id): queue for queue in compaction.compacted_queues(store)}
        self._units: dict[str, compaction.Units] = {}

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
        high = next((_end_of_units(units) for units in reversed(files) if len(units)), 0)
        if high == 0:
            return PullAnswer("NO_MESSAGE_IN_QUEUE", (), 0, low, high)
        if offset == high:
            return PullAnswer("OFFSET_OVERFLOW_ONE", (), offset, low, high)
        if offset > high:
            return PullAnswer("OFFSET_OVERFLOW_BADLY", (), high if low else low, low, high)
        units = next((units for units in files if len(units) and _end_of_units(units) > offset), None)
        if units is None:
            return PullAnswer("OFFSET_FOUND_NULL", (), 0, low, high)
        return _walk(queue, units, offset, max_num, (low, high))

    def _served(self, queue: compaction.CompactedQueue, number: int) -> compaction.Units:
        """The units of a file that a broker knows of."""
        file = queue.units.files[number]
        if file.location not in self._units:
            units = compaction.read_units(file)
            last = number >= len(queue.units.files) - RECOVERED
            self._units[file.location] = units.leading if last else units.rows
        return self._units[file.location]


def _end_of_units(units: compaction.Units) -> int:
    return int(units["msgBaseOffset"][-1]) + int(units["batchSize"][-1])


def _walk(
    queue: compaction.CompactedQueue,
    units: compaction.Units,
    offset: int,
    max_num: int,
    bounds: tuple[int, int],
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


LOG_AREA, UNIT_AREA = "compaction/compactionLog", "compaction/compactionCq"
NOT_LOADED = "java.lang.Exception: load compactionLog {topic}:{queue_id} exception: {why}"
THROWN = "java.lang.NumberFormatException: "
LOG_ALONE = "log file mismatch with consumeQueue file {file}"
UNITS_ALONE = "consumeQueue file mismatch with log file {file}"
NO_UNITS = "the units are missing: a broker does not serve this queue"
NO_LOG = "the log is missing: a broker does not serve this queue"
NOTHING = "the topic is compacted, but compaction/ has nothing of this queue: a broker does not serve it"
NO_UNIT = "the records from byte {pos} on have no unit: a broker cuts them off"
NO_LENGTH = "the file is not as long as the others: a broker does not serve this queue"


@dataclass(slots=True)
class CompactedOutcome:
    """What came of the compacted logs: parts of the start."""

    refusals: list[Refusal] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    changes: list[FileChange] = field(default_factory=list)


def start_compaction(store: Store, dialect: Dialect, settings: Settings) -> CompactedOutcome:
    """The compacted logs of a store as a broker of this dialect loads them, before it recovers anything.

    The first that is refused ends it. Raises StoreError where a file cannot be read.
    """
    outcome = CompactedOutcome()
    if not dialect.compaction or not settings.flag("enableCompaction", True):
        return outcome
    queues = compaction.compacted_queues(store)
    for queue in queues:
        if outcome.refusals:
            break
        if queue.log.files:
            _load(store, dialect, queue, outcome)
        elif queue.units.files:
            outcome.ignored.append(Ignored(f"{UNIT_AREA}/{queue.topic}/{queue.queue_id}", NO_LOG))
    served = {(queue.topic, queue.queue_id) for queue in queues}
    topics = compacted_topics(store)
    outcome.ignored += [
        Ignored(f"consumequeue/{queue.topic}/{queue.queue_id}", NOTHING)
        for queue in store.queues
        if queue.topic in topics and (queue.topic, queue.queue_id) not in served
    ]
    return outcome


def _load(
    store: Store, dialect: Dialect, queue: compaction.CompactedQueue, outcome: CompactedOutcome
) -> None:
    below = f"{queue.topic}/{queue.queue_id}"
    if not (store.root / UNIT_AREA / below).is_dir():
        outcome.ignored.append(Ignored(f"{LOG_AREA}/{below}", NO_UNITS))
        return
    log = load_directory(store, dialect, f"{LOG_AREA}/{below}", queue.log.file_size)
    units = load_directory(store, dialect, f"{UNIT_AREA}/{below}", queue.units.file_size)
    for loading, why in ((log, "load log exception"), (units, "load consume queue exception")):
        outcome.changes += loading.deleted
        if not loading.refusals:
            continue
        file, reason = loading.refusals[0].file, loading.refusals[0].reason
        if reason.startswith(THROWN):
            outcome.refusals.append(_refusal(queue, file, reason.removeprefix(THROWN)))
            return
        if dialect.compaction_load_tolerant:
            outcome.ignored.append(Ignored(file, NO_LENGTH))
        else:
            outcome.refusals.append(_refusal(queue, file, why))
        return
    kept = list(_kept(queue, log, units, outcome))
    for one, other, why in ((kept, units.log_files, LOG_ALONE), (units.log_files, kept, UNITS_ALONE)):
        names = {file.start_offset for file in other}
        alone = next((file for file in one if file.start_offset not in names), None)
        if alone is not None:
            outcome.refusals.append(_refusal(queue, alone.relative, why.format(file=alone.relative)))
            return


def _refusal(queue: compaction.CompactedQueue, file: str, why: str) -> Refusal:
    return Refusal(file, NOT_LOADED.format(topic=queue.topic, queue_id=queue.queue_id, why=why))


def _kept(
    queue: compaction.CompactedQueue, log: Loading, units: Loading, outcome: CompactedOutcome
) -> Iterator[LoadedFile]:
    """The log's files in front of where the last unit's record ends."""
    end = _end(queue, units)
    for file in log.log_files:
        if 0 < end < file.start_offset:
            outcome.changes.append(
                FileChange(file.relative, "deleted", file.size, "no unit leads into this file")
            )
            continue
        yield file
        pos = max(end - file.start_offset, 0)
        last = file.start_offset == _last_start(units)
        if last and file.used_end() > pos:
            outcome.ignored.append(Ignored(file.relative, NO_UNIT.format(pos=pos)))


def _last_start(units: Loading) -> int:
    """Where the last unit file begins, in the log; -1 without one."""
    return units.log_files[-1].start_offset if units.log_files else -1


def _end(queue: compaction.CompactedQueue, loading: Loading) -> int:
    """Behind the record of the last unit of the last unit file; 0 where that file has none."""
    if not loading.log_files:
        return 0
    name = loading.log_files[-1].start_offset
    file = next((file for file in queue.units.files if file.start_offset == name), None)
    if file is None:
        return 0
    units = compaction.read_units(file).leading
    return int(units["offset"][-1]) + int(units["size"][-1]) if len(units) else 0
