"""A commit log that lost its beginning, but not by expiry.

A broker that deletes commit log files goes through the queues and the index at once. What leads only to
before the new beginning of the log goes, too, but for the last file of each queue and of the index:

    consume queue file    its last unit is before the log
    index file            its endPhyOffset is before the log

So such a file tells that log files are gone which no broker deleted, if a later file of the same queue or of
the index leads into the log. Without a later one the queue or the index may be a copy from another time. The
log began no later than with the file that the earliest of them ends in.

A broker that stops before it comes to the queues leaves such files, too: in later versions (5.1.4) queues and
index have a task of their own, which runs every ten seconds, and in all versions one queue follows the other.
By then the broker has deleted few log files, all older than fileReservedTime. Nothing shows whether a file
expired just now or is missing, so nothing is found. Reference 1.2, 3.1, 4.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import first_names
from rocketfsck.errors import StoreError
from rocketfsck.reader.index import readable_headers
from rocketfsck.reader.units import UnitReader, is_light_queue
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.verify.account.gather import Gatherer
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.tasks.facts import LogFacts
from rocketfsck.verify.tasks.task import TaskResult

HOUR_MS = 3_600_000
EXPIRED_AT_ONCE = 20
"""Commit log files that a broker deletes before it comes to queues and index: deleteFileBatchMax, twice."""


def check_beginning(store: Store, logs: Sequence[TaskResult | None], gatherer: Gatherer) -> Iterator[Finding]:
    """One finding where log files are gone from the front; `logs` are the results of the log's files, and
    `gatherer` takes what units say of their messages. What cannot be read is passed over: another check says
    so."""
    start = store.commitlog.start_offset
    if not start or store.live.locked:  # a running broker goes through many queues for minutes
        return
    left = [end for queue in store.queues for end in _left_of_queue(queue, start)]
    ends = [(file.relative, header.end_physical_offset) for file, header in readable_headers(store.indexes)]
    if ends and ends[-1][1] >= start:
        left += [(name, end) for name, end in ends[:-1] if 0 < end < start]
    if not left:
        return
    size = store.commitlog.file_size
    former = min(end for _, end in left) // size * size
    if start - former <= EXPIRED_AT_ONCE * size and _are_over(store, logs):
        return
    for queue in store.queues:
        _count_lost(queue, former, start, gatherer)
    where = Where(file=store.commitlog.files[0].relative, start=0, physical_offset=start)
    names = [name for name, _ in left]
    yield Finding(RuleName.LOG_BEGINNING_GONE, where, {"file_count": len(names), "files": first_names(names)})


def _are_over(store: Store, logs: Sequence[TaskResult | None]) -> bool:
    """Whether files before the log were not written for fileReservedTime when the last record was stored."""
    facts = [fact for log in logs if log is not None for fact in log.facts if isinstance(fact, LogFacts)]
    first = next((fact.first_store_timestamp for fact in facts), None)
    last = next((fact.last_store_timestamp for fact in reversed(facts) if fact.record_count), None)
    return first is not None and last is not None and last - first >= store.settings.reserved_hours * HOUR_MS


def _left_of_queue(queue: ConsumeQueue, start: int) -> Iterator[tuple[str, int]]:
    """The first file of a queue and where its last unit leads to, if the log has nothing of that file and
    something of a later one."""
    if queue.kind != "file" or len(queue.files) < 2:
        return
    first = queue.files[0]
    try:
        with UnitReader(queue) as reader:
            last = reader.unit(((first.start_offset or 0) + first.size) // reader.unit_size - 1)
            if last is None or not last.is_message or last.physical_offset >= start:
                return
            after = reader.unit(reader.find_offset(start))
    except StoreError:
        return
    if after is not None and after.physical_offset >= start:
        yield first.relative, last.physical_offset


def _count_lost(queue: ConsumeQueue, former: int, start: int, gatherer: Gatherer) -> None:
    """Take the messages of a queue that were in the part of the log that is gone."""
    if queue.kind != "file" or not queue.files or is_light_queue(queue):
        return
    try:
        with UnitReader(queue) as reader:
            low, high = reader.find_offset(max(former, 1)), reader.find_offset(start)
            before = reader.unit(low - 1)  # the log's first record is where units without one lead, too
    except StoreError:
        return
    if before is not None and before.is_message and former == 0:
        low -= before.physical_offset == 0
    if low < high:
        gatherer.before_log(queue.topic, queue.queue_id, low, high, (former, start - 1))
