"""What a start makes of the compacted logs (5.1.0+): which it loads, and what keeps it from starting.

    log and unit files of a wrong length      5.1.0: no start; from 5.1.1 on the queue is not served
    a log file without its unit file, or the reverse                     no start
    a file of the right length whose name is not a number                no start
    a queue without a directory of units                                 the queue is not served
    records after the last unit                                          cut off

Reference 1.9; `CompactionStore.load`, `CompactionLog.TopicPartitionLog.init` of 5.1.0 to 5.5.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rocketfsck.formats.dialect import Dialect
from rocketfsck.query.start.load import LoadedFile, Loading, load_directory
from rocketfsck.query.start.model import FileChange, Ignored, Refusal
from rocketfsck.reader.compaction import CompactedQueue, compacted_queues, read_units
from rocketfsck.reader.configs import compacted_topics
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader

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
    queues = compacted_queues(store)
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


def _load(store: Store, dialect: Dialect, queue: CompactedQueue, outcome: CompactedOutcome) -> None:
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


def _refusal(queue: CompactedQueue, file: str, why: str) -> Refusal:
    return Refusal(file, NOT_LOADED.format(topic=queue.topic, queue_id=queue.queue_id, why=why))


def _kept(
    queue: CompactedQueue, log: Loading, units: Loading, outcome: CompactedOutcome
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
        if last and _used_end(file) > pos:
            outcome.ignored.append(Ignored(file.relative, NO_UNIT.format(pos=pos)))


def _last_start(units: Loading) -> int:
    """Where the last unit file begins, in the log; -1 without one."""
    return units.log_files[-1].start_offset if units.log_files else -1


def _used_end(file: LoadedFile) -> int:
    with FileReader(file.path) as reader:
        return reader.used_end()


def _end(queue: CompactedQueue, loading: Loading) -> int:
    """Behind the record of the last unit of the last unit file; 0 where that file has none."""
    if not loading.log_files:
        return 0
    name = loading.log_files[-1].start_offset
    file = next((file for file in queue.units.files if file.start_offset == name), None)
    if file is None:
        return 0
    units = read_units(file).leading
    return int(units["offset"][-1]) + int(units["size"][-1]) if len(units) else 0
