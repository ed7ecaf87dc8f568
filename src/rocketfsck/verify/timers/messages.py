"""Units of the timer log against the messages that they wait for. Reference 1.8, 2.13."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dtypes import RECORD_HEAD_DTYPE, Flags
from rocketfsck.formats.javatext import java_hash, parse_int64
from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2
from rocketfsck.formats.properties import REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS
from rocketfsck.formats.timer import (
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_ROLL,
    TIMER_LOG_UNIT_SIZE,
    TIMER_TOPIC,
)
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.timers import TimerBlock
from rocketfsck.reader.units import StreamReader, UnitReader
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.verify.finding import Facts, Finding, Where, unit_place
from rocketfsck.verify.report import NotChecked

BEHIND = "the commit log ends at {bound}"
NO_RECORD = "no record of {size} bytes starts there"
LOOKED_AT = 100_000
"""Messages without a unit that are looked at one by one."""
_GRACE_MS = 60_000
"""Later than the newest time known: a message due before may have been delivered without the wheel."""
_BLOCK_COUNT = 1 << 15


@dataclass(slots=True)
class Messages:
    """The messages of the timer topic as units lead to them. A context manager."""

    store: Store
    log: StreamReader
    read_timestamp: int
    content: bool
    scheduled: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    newest_timestamp: int = 0
    first_offset: int | None = None
    expired_count: int = 0
    content_count: int = 0
    _expired_where: Where = field(default_factory=Where)
    heads: StreamReader = field(init=False)
    records: LogReader = field(init=False)

    def __post_init__(self) -> None:
        self.heads = StreamReader(self.store.commitlog)
        self.records = LogReader(self.store.commitlog)

    def __enter__(self) -> Messages:
        return self

    def __exit__(self, *_error: object) -> None:
        self.heads.close()
        self.records.close()

    def take(self, block: TimerBlock) -> Iterator[Finding]:
        """Judge a block of units. Raises StoreError for a log that fails."""
        if not self.heads.files or not len(block.pos):
            return
        offset, size = block.physical_offset, block.units["sizePy"].astype(np.int64)
        head = self.heads.gather(offset, RECORD_HEAD_DTYPE)
        sound = (head["magicCode"] == MAGIC_V1) | (head["magicCode"] == MAGIC_V2)
        sound &= (head["physicalOffset"] == offset) & (head["totalSize"] == size)
        pending = block.deliver_timestamp >= self.read_timestamp
        if self.first_offset is None:
            self.first_offset = int(offset[0])
        self.newest_timestamp = max(self.newest_timestamp, int(block.units["currWriteTime"].max()))
        self._schedule(head["queueOffset"][sound].astype(np.int64))
        expired = pending & (offset < self.heads.start)
        if self.expired_count == 0 and expired.any():
            row = int(np.argmax(expired))
            self._expired_where = unit_where(self.log, int(block.pos[row]), int(offset[row]))
        self.expired_count += int(np.count_nonzero(expired))
        for row in np.flatnonzero(~sound & (offset >= self.heads.start)).tolist():
            yield self._no_record(block, row)
        if self.content:
            yield from self._contents(block, sound & pending)

    def _schedule(self, queue_offset: NDArray[np.int64]) -> None:
        known = queue_offset[(queue_offset >= 0) & (queue_offset < self._queue_end())]
        if len(known) and int(known.max()) >= len(self.scheduled):
            wider = np.zeros(int(known.max()) * 2 + 1, np.bool_)
            wider[: len(self.scheduled)] = self.scheduled
            self.scheduled = wider
        self.scheduled[known] = True

    def _queue_end(self) -> int:
        queue = _timer_queue(self.store)
        return 0 if queue is None else (queue.mapped_files.end_offset or 0) // queue.unit_size

    def _no_record(self, block: TimerBlock, row: int) -> Finding:
        offset, size = int(block.physical_offset[row]), int(block.units["sizePy"][row])
        reason, bound = NO_RECORD, 0
        if offset >= self.heads.end:
            reason, bound = BEHIND, self.heads.end
        found: Facts = {
            "unit_pos": int(block.pos[row]),
            "reason": reason.format(bound=bound, size=size),
            "deliver_timestamp": int(block.deliver_timestamp[row]),
        }
        return Finding(RuleName.TIMER_UNIT_RECORD, unit_where(self.log, int(block.pos[row]), offset), found)

    def expired(self) -> Iterator[Finding]:
        """One finding where units still wait for messages that are no longer in the commit log."""
        if self.expired_count:
            facts: Facts = {"unit_count": self.expired_count, "log_start_offset": self.heads.start}
            yield Finding(RuleName.TIMER_MESSAGE_EXPIRED, self._expired_where, facts)

    def _contents(self, block: TimerBlock, chosen: Flags) -> Iterator[Finding]:
        for row in np.flatnonzero(chosen).tolist():
            offset = int(block.physical_offset[row])
            read = self.records.properties(offset, self.store.dialect.property_parser)
            if read is None:
                continue  # its head is sound: the check of the log says what is wrong after it
            self.content_count += 1
            for name, value, expected in _differences(block, row, *read):
                where = unit_where(self.log, int(block.pos[row]), offset)
                found: Facts = {"unit_pos": int(block.pos[row]), "field": name, "value": value}
                yield Finding(RuleName.TIMER_UNIT_CONTENT, where, found, {"value": expected})

    def not_scheduled(self, queue_offset: int, newest: int | None) -> Iterator[Finding | NotChecked]:
        """Messages in front of a queue offset of the timer topic that are due later, and have no unit.

        `newest` is the newest storeTimestamp of the log (ms), if known.
        """
        queue = _timer_queue(self.store)
        if queue is None or self.first_offset is None:
            return
        horizon = max(self.read_timestamp, self.newest_timestamp, newest or 0) + _GRACE_MS
        least = 0 if self.log.start == 0 else self.first_offset
        looked = 0
        with UnitReader(queue) as reader:
            stop = min(queue_offset, reader.end_index)
            for start in range(reader.first_index, stop, _BLOCK_COUNT):
                units = reader.units(start, min(_BLOCK_COUNT, stop - start))
                index = np.arange(start, start + len(units))
                without = (units["size"] > 0) & (units["offset"] >= max(least, self.heads.start))
                inside = index < len(self.scheduled)
                without[inside] &= ~self.scheduled[index[inside]]
                for row in np.flatnonzero(without).tolist():
                    looked += 1
                    if looked > LOOKED_AT:
                        yield NotChecked(
                            "timerlog", f"only the first {LOOKED_AT:,} messages without a unit are checked"
                        )
                        return
                    offset = int(units["offset"][row])
                    read = self.records.properties(offset, self.store.dialect.property_parser)
                    due = None if read is None else parse_int64(read[1].get(TIMER_OUT_MS, ""))
                    if due is not None and due > horizon:
                        where = unit_place(queue, int(index[row]), physical_offset=offset)
                        yield Finding(RuleName.TIMER_NOT_SCHEDULED, where, {"deliver_timestamp": due})


def unit_where(log: StreamReader, pos: int, physical_offset: int | None = None) -> Where:
    """The place of the unit at a position of the timer log."""
    number = max(log.last_from(pos), 0)
    start = pos - log.starts[number]
    return Where(
        file=log.files[number].relative,
        start=start,
        end=start + TIMER_LOG_UNIT_SIZE,
        physical_offset=physical_offset,
    )


def _timer_queue(store: Store) -> ConsumeQueue | None:
    return next((queue for queue in store.queues if (queue.topic, queue.queue_id) == (TIMER_TOPIC, 0)), None)


def _differences(
    block: TimerBlock, row: int, topic: str, properties: Mapping[str, str]
) -> Iterator[tuple[str, int | str, int | str]]:
    """What a unit says otherwise than its message: the name of it, the value, the one expected."""
    if topic != TIMER_TOPIC:
        yield "topic", topic, TIMER_TOPIC
        return
    unit = block.units[row]
    magic, due = int(unit["magic"]), int(block.deliver_timestamp[row])
    out = parse_int64(properties.get(TIMER_OUT_MS, ""))
    expected = MAGIC_DEFAULT | (MAGIC_DELETE if TIMER_DEL_UNIQKEY in properties else 0)
    if magic & ~MAGIC_ROLL != expected:
        yield "magic", magic, expected | magic & MAGIC_ROLL
    if out is not None and (due >= out if magic & MAGIC_ROLL else due != out):
        yield "delivery time", due, out
    real_topic = properties.get(REAL_TOPIC)
    if real_topic is not None and int(unit["hashCodeOfRealTopic"]) not in (0, java_hash(real_topic)):
        yield "hashCodeOfRealTopic", int(unit["hashCodeOfRealTopic"]), java_hash(real_topic)
