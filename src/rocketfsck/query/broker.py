"""What a running broker answers, version by version, exactly: limits, window fuzz, order, unfiltered hashes.

    IndexService#queryOffset            -> index_query_offset      offsets by key, the index alone
    DefaultMessageStore#queryMessage    -> query_message           records by key
    DefaultMessageStore#getMessage      -> get_message             records by queue offset
    DefaultMessageStore#getOffsetInQueueByTime -> offset_in_queue_by_time

The broker is taken as one that runs on the store as it lies there; what a start would change first, is for
`query.simulate` to say. Reference 4.7, 7.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from rocketfsck.errors import UsageError
from rocketfsck.formats.dialect import Version, parse_version
from rocketfsck.formats.indexfile import IndexHeader
from rocketfsck.formats.javatext import INT64_MAX, index_hash
from rocketfsck.query.chains import Chains
from rocketfsck.query.log import LogView
from rocketfsck.query.queues import QueueView, Unit, find_queue
from rocketfsck.query.selecting import index_step, is_time_matched, select_offsets
from rocketfsck.query.times import Boundary, TimeSearch
from rocketfsck.query.trace import Trace
from rocketfsck.query.versions import (
    FILTER_SIZE,
    MAX_BATCH_NUM,
    QUERY_ROUNDS,
    TRANSFER_COUNT,
    TRANSFER_SIZE,
    traits_of,
)
from rocketfsck.scan.messages import Message
from rocketfsck.store.model import Store

Status = Literal[
    "FOUND",
    "NO_MATCHED_MESSAGE",
    "MESSAGE_WAS_REMOVING",
    "OFFSET_FOUND_NULL",
    "OFFSET_OVERFLOW_BADLY",
    "OFFSET_OVERFLOW_ONE",
    "OFFSET_TOO_SMALL",
    "NO_MESSAGE_IN_QUEUE",
]


@dataclass(frozen=True, slots=True)
class KeyOffsets:
    """`QueryOffsetResult`: physical offsets in the order found, and what the newest file's header says."""

    offsets: tuple[int, ...]
    index_last_update_timestamp: int
    index_last_update_offset: int


@dataclass(frozen=True, slots=True)
class PullAnswer:
    """`GetMessageResult`: physical offsets of the records given, and the queue offset to go on with."""

    status: Status
    offsets: tuple[int, ...]
    next_begin_offset: int
    min_offset: int
    max_offset: int


class BrokerView:
    """A broker of one version on a store. A context manager; holds a few files open.

    `version` is a text such as `4.9.8`; None takes the store's own. UsageError for an unknown version.
    """

    def __init__(self, store: Store, version: str | None = None) -> None:
        self.store = store
        self.version: Version = store.dialect.version if version is None else parse_version(version)
        self.traits = traits_of(self.version)
        self.log = LogView(store)
        self._queues: dict[tuple[str, int], QueueView] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.log.close()
        for queue in self._queues.values():
            queue.__exit__(kind, error, trace)

    def queue(self, topic: str, queue_id: int) -> QueueView | None:
        """The consume queue, None where the store has none: a broker makes an empty one."""
        if (topic, queue_id) not in self._queues:
            found = find_queue(self.store, topic, queue_id)
            if found is None:
                return None
            self._queues[topic, queue_id] = QueueView(found, self.log)
        return self._queues[topic, queue_id]

    def index_query_offset(
        self,
        topic: str,
        key: str,
        max_num: int = MAX_BATCH_NUM,
        begin_timestamp: int = 0,
        end_timestamp: int = INT64_MAX,
        trace: Trace | None = None,
    ) -> KeyOffsets:
        """The physical offsets that the index gives for a key, newest entries first, at most 64.

        Hashes are compared, keys are not; the times (ms) are those of the entries, in whole seconds.
        """
        limit = min(max_num, MAX_BATCH_NUM)
        key_hash = index_hash(topic, key)
        out: list[int] = []
        last = (0, 0)
        for number, chains in enumerate(self._index_files()):
            with chains:
                header = chains.header
                assert header is not None
                if number == 0:
                    last = (header.end_timestamp, header.end_phy_offset)
                if is_time_matched(header, begin_timestamp, end_timestamp):
                    step = select_offsets(
                        chains, header, key_hash, out, limit, begin_timestamp, end_timestamp
                    )
                else:
                    step = index_step(chains, header, skipped="its times are outside the window")
            if trace is not None:
                trace.key_hash = key_hash
                trace.index_steps.append(step)
            if header.begin_timestamp < begin_timestamp or len(out) >= limit:
                break
        return KeyOffsets(tuple(out), *last)

    def _index_files(self) -> Iterator[Chains]:
        """Newest first, those that a broker would have loaded."""
        for file in reversed(self.store.indexes):
            chains = Chains(file, self.store.geometry)
            if chains.header is None:
                chains.header = IndexHeader(0, 0, 0, 0, 0, 0)  # a broker makes a short file longer with zeros
            yield chains

    def query_message(
        self,
        topic: str,
        key: str,
        max_num: int = MAX_BATCH_NUM,
        begin_timestamp: int = 0,
        end_timestamp: int = INT64_MAX,
        trace: Trace | None = None,
    ) -> tuple[int, ...]:
        """The physical offsets of the records that a query by key returns, in the order returned.

        A broker asks the index up to three times, each time for what is older than the oldest so far.
        """
        given: list[int] = []
        last_time = end_timestamp
        for _ in range(QUERY_ROUNDS):
            found = self.index_query_offset(topic, key, max_num, begin_timestamp, last_time, trace)
            if not found.offsets:
                break
            before = len(given)
            for number, offset in enumerate(sorted(found.offsets)):
                if number == 0:
                    timestamp = self._stored_at(offset)
                    if timestamp is None:
                        continue
                    last_time = timestamp
                if self._has_bytes(offset):
                    given.append(offset)
            if len(given) > before or last_time < begin_timestamp:
                break
        return tuple(given)

    def _stored_at(self, offset: int) -> int | None:
        """The storeTimestamp of the record there, as the broker's decoder finds it."""
        if not self.log.select(offset, 4):
            return None
        found = self.log.message_at(offset, max_body_size=0)
        return found.store_timestamp if isinstance(found, Message) else None

    def _has_bytes(self, offset: int) -> bool:
        """Whether a broker returns something for an offset: as many bytes as the number there says."""
        head = self.log.read(offset, 4)
        return head is not None and self.log.select(offset, max(int.from_bytes(head, "big", signed=True), 4))

    def holds_record(self, offset: int) -> bool:
        """`lookMessageByOffset`: whether a record that the broker can decode stands at a physical offset."""
        found = self.log.message_at(offset, max_body_size=0) if self.log.select(offset, 4) else None
        return isinstance(found, Message) and self.log.select(offset, found.total_size)

    def get_message(self, topic: str, queue_id: int, offset: int, max_num: int = 32) -> PullAnswer:
        """What a pull from a queue offset gives: status, records, where to go on.

        The records' bytes are not looked at. `max_num` counts the messages of batches.
        """
        queue = self.queue(topic, queue_id)
        low, high = (0, 0) if queue is None else self._bounds(queue)
        if queue is None or high == 0:
            return PullAnswer("NO_MESSAGE_IN_QUEUE", (), 0, low, high)
        if offset < low:
            return PullAnswer("OFFSET_TOO_SMALL", (), low, low, high)
        if offset == high:
            return PullAnswer("OFFSET_OVERFLOW_ONE", (), offset, low, high)
        if offset > high:
            to_min = self.traits.overflow_to_min and low == 0
            return PullAnswer("OFFSET_OVERFLOW_BADLY", (), low if to_min else high, low, high)
        return self._pull(queue, offset, max_num, low, high)

    def _bounds(self, queue: QueueView) -> tuple[int, int]:
        return queue.queue_offset_at(self.min_index(queue)), queue.max_offset

    def _pull(self, queue: QueueView, offset: int, max_num: int, low: int, high: int) -> PullAnswer:
        first = queue.unit_of(offset)
        if first is None:
            return PullAnswer("OFFSET_FOUND_NULL", (), self._next_file(queue, offset), low, high)
        status: Status = "NO_MATCHED_MESSAGE"
        offsets: list[int] = []
        total_size = count = 0
        following = offset
        skip_below = -1
        unit: Unit | None = first
        index = first.index
        # A pull never goes on into the next file of the queue.
        end_index = min(queue.end_index, queue.file_end_index(index))
        while unit is not None and index < end_index:
            units_size = (unit.queue_offset - offset) * queue.queue.unit_size
            if units_size > max(FILTER_SIZE, max_num * queue.queue.unit_size):
                break
            if offsets and self._is_full(total_size, count, unit, max_num):
                break
            following = unit.queue_offset + unit.count
            index += 1
            if unit.physical_offset >= skip_below:
                if self.log.select(unit.physical_offset, unit.size):
                    offsets.append(unit.physical_offset)
                    total_size += unit.size
                    count += max(unit.count, 1)
                    status, skip_below = "FOUND", -1
                else:
                    status = status if offsets else "MESSAGE_WAS_REMOVING"
                    size = max(self.store.commitlog.file_size, 1)
                    skip_below = unit.physical_offset + size - unit.physical_offset % size
            unit = queue.unit(index)
        return PullAnswer(status, tuple(offsets), following, low, high)

    def _is_full(self, total_size: int, count: int, unit: Unit, max_num: int) -> bool:
        """Whether one pull holds no more: by messages asked for, by bytes, by messages in memory."""
        if count + max(unit.count, 1) > max_num:
            return True
        return total_size + unit.size > TRANSFER_SIZE or count > TRANSFER_COUNT - 1

    def _next_file(self, queue: QueueView, offset: int) -> int:
        units = max(queue.queue.mapped_files.file_size // queue.queue.unit_size, 1)
        return offset + units - offset % units

    def min_index(self, queue: QueueView) -> int:
        """The unit that the queue begins with for this version after a start (reference 3.3, 3.5).

        Pre-blank units count like others there. Up to 4.9.8 only the queue's first file is looked at.
        """
        index = queue.first_index_at(max(self.log.min_offset, 0))
        if self.traits.dialect.min_offset_by_search or index < queue.file_end_index(queue.start_index):
            return index
        return queue.start_index

    def commit_log_offset(self, topic: str, queue_id: int, offset: int) -> int:
        """`getCommitLogOffsetInQueue`: where the unit of a queue offset points; 0 without one."""
        queue = self.queue(topic, queue_id)
        if queue is None or offset < self._bounds(queue)[0]:
            return 0
        unit = queue.unit_of(offset)
        return unit.physical_offset if unit is not None else 0

    def offset_in_queue_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: Boundary = "lower"
    ) -> int:
        """The queue offset for a time (ms), as consumers seek. UsageError for a boundary that came later."""
        if boundary == "upper" and self.traits.time_search == "nearest":
            raise UsageError(f"a broker of version {self.version} has no upper boundary")
        queue = self.queue(topic, queue_id)
        if queue is None:
            return 0
        return TimeSearch(queue, self.traits, self.min_index(queue)).offset(timestamp, boundary)
