"""What a running broker answers, version by version, exactly: limits, window fuzz, order, unfiltered hashes.

    IndexService#queryOffset            -> index_query_offset      offsets by key, the index alone
    DefaultMessageStore#queryMessage    -> query_message           records by key
    DefaultMessageStore#getMessage      -> get_message             records by queue offset
    DefaultMessageStore#getOffsetInQueueByTime -> offset_in_queue_by_time

Pulls, times and the ends of queues are those of a broker that has started on the store (`State` "started"):
what its recovery finds, cuts and dispatches is in them. Where a broker is running on the store, its files are
taken as they are ("running"). Queries by key take index and log as they are. Reference 4.7, 7.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rocketfsck.errors import UsageError
from rocketfsck.formats.dialect import Version, dialect_for, when
from rocketfsck.formats.javatext import INT64_MAX, index_hash, tag_index_hash
from rocketfsck.query.log import LogView
from rocketfsck.query.selecting import index_step, is_time_matched, select_offsets
from rocketfsck.query.serving.batches import Boundary
from rocketfsck.query.serving.compacted import CompactedPulls, compaction_topics
from rocketfsck.query.serving.files import ServedQueue
from rocketfsck.query.serving.pulls import PullAnswer, commit_log_offset, pull
from rocketfsck.query.serving.rowindex import RowIndex, asked_index, types_asked
from rocketfsck.query.serving.state import Serving, State, serve, usual_state
from rocketfsck.query.serving.times import offset_of_time
from rocketfsck.query.start.settings import refuse_unanswered
from rocketfsck.query.trace import Trace
from rocketfsck.reader.index import IndexReader
from rocketfsck.scan.views.messages import Message
from rocketfsck.store.model import Store
from rocketfsck.store.openfiles import Readers
from rocketfsck.store.reading import Closing

OPEN_FILES = 16
MAX_BATCH_NUM = 64
"""`maxMsgsNumBatch`: a query by key gives no more."""
DEFAULT_QUERY_NUM = 32
"""`defaultQueryMaxNum`: a query by unique key asks for as many."""
QUERY_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class KeyOffsets:
    """`QueryOffsetResult`: physical offsets in the order found, and what the newest file's header says."""

    offsets: tuple[int, ...]
    index_last_update_timestamp: int
    index_last_update_offset: int


class BrokerView(Closing):
    """A broker of one version on a store. A context manager; holds a few files open.

    `version` is a text such as `4.9.8`; None takes the store's own. `state` is that of the queues; None is
    "started", but "running" where a broker holds the store, or where starts are not predicted (DLedger,
    RocksDB queues). UsageError for an unknown version.
    """

    def __init__(self, store: Store, version: str | None = None, *, state: State | None = None) -> None:
        self.store = store
        self.dialect = store.dialect if version is None else dialect_for(version)
        self.version: Version = self.dialect.version
        self.state: State = state or usual_state(store, self.dialect)
        self.log = LogView(store)
        self._readers = Readers(OPEN_FILES)

    def close(self) -> None:
        self.log.close()
        self._readers.close()

    @cached_property
    def serving(self) -> Serving:
        """The log and the queues in this state.

        Raises StoreError where they cannot be read, and where the broker does not start on the store.
        """
        return serve(self.store, self.log, self.dialect, self.state, self._readers)

    @cached_property
    def compaction_topics(self) -> frozenset[str]:
        """The topics that pulls are answered of from compacted logs."""
        return compaction_topics(self.store, self.dialect)

    @cached_property
    def compacted(self) -> CompactedPulls:
        """The compacted logs."""
        return CompactedPulls(self.store)

    def message_store(self, topic: str, queue_id: int) -> Store:
        """The store whose log has what a pull gives: for a compaction topic, the compacted log."""
        return self.compacted.log_store(topic, queue_id) if topic in self.compaction_topics else self.store

    def queue(self, topic: str, queue_id: int) -> ServedQueue | None:
        """The consume queue, None where the broker has none: it makes an empty one. Raises as `serving`."""
        return self.serving.queue(topic, queue_id)

    def index_query_offset(
        self,
        topic: str,
        key: str,
        max_num: int = MAX_BATCH_NUM,
        begin_timestamp: int = 0,
        end_timestamp: int = INT64_MAX,
        trace: Trace | None = None,
        *,
        by_tags: bool = False,
    ) -> KeyOffsets:
        """The physical offsets that the index gives for a key, newest entries first, at most 64.

        Hashes are compared, keys are not; the times (ms) are those of the entries, in whole seconds. With
        `by_tags` the key is the tags of messages (index type "T"); UsageError for a version before 5.4.0.
        """
        if by_tags and not self.dialect.tag_entries:
            raise UsageError(
                f"a {self.version} broker has no query by tags; brokers have it {when('tag_entries')}"
            )
        limit = min(max_num, MAX_BATCH_NUM)
        key_hash = tag_index_hash(topic, key) if by_tags else index_hash(topic, key)
        out: list[int] = []
        last = (0, 0)
        for number, file in enumerate(reversed(self.store.indexes)):
            with IndexReader(file, self.store.geometry) as index:
                header = index.header  # zeros for a short file, which a broker makes longer
                if number == 0:
                    last = (header.end_timestamp, header.end_physical_offset)
                if is_time_matched(header, begin_timestamp, end_timestamp):
                    step = select_offsets(index, key_hash, out, limit, begin_timestamp, end_timestamp)
                else:
                    step = index_step(index, skipped="the file's times are outside the time window")
            if trace is not None:
                trace.key_hash = key_hash
                trace.index_steps.append(step)
            if header.begin_timestamp < begin_timestamp or len(out) >= limit:
                break
        return KeyOffsets(tuple(out), *last)

    def query_message(
        self,
        topic: str,
        key: str,
        max_num: int = MAX_BATCH_NUM,
        begin_timestamp: int = 0,
        end_timestamp: int = INT64_MAX,
        trace: Trace | None = None,
        *,
        by_tags: bool = False,
        unique: bool | None = None,
    ) -> tuple[int, ...]:
        """The physical offsets of the records that a query by key returns, in the order returned.

        A broker asks the index up to three times, each time for what is older than the oldest so far.
        `by_tags` as `index_query_offset`; `unique` as `rowindex.types_asked`, which files do not tell apart.
        With `indexFileReadEnable=false` rocksdbstore/ is asked (5.4.0+), or nothing. Raises StoreError where
        the log or that database cannot be read, even if only by this tool.
        """
        refuse_unanswered(self.store, self.dialect, queues=False)
        asked = asked_index(self.store.settings, self.dialect)
        if asked == "nothing":
            return ()
        rows = None
        if asked == "rows":
            rows = RowIndex(self.store, topic, key, types_asked(unique=unique, by_tags=by_tags))
        given: list[int] = []
        last_time = end_timestamp
        for _ in range(QUERY_ROUNDS):
            if rows is not None:
                found = rows.offsets(max_num, begin_timestamp, last_time)
            else:
                found = self.index_query_offset(
                    topic, key, max_num, begin_timestamp, last_time, trace, by_tags=by_tags
                ).offsets
            if not found:
                break
            before = len(given)
            for number, offset in enumerate(sorted(found)):
                if number == 0:
                    timestamp = self._stored_at(offset)
                    if timestamp is None and not self.dialect.keeps_unreadable:
                        continue
                    last_time = last_time if timestamp is None else timestamp
                if self._has_bytes(offset):
                    given.append(offset)
            if len(given) > before or last_time < begin_timestamp:
                break
        return tuple(given)

    def _stored_at(self, offset: int) -> int | None:
        """The storeTimestamp of the record there, as the broker's decoder finds it."""
        if not self.log.select(offset, 4):
            return None
        found = self.log.record_at(offset)
        return found.store_timestamp if isinstance(found, Message) else None

    def _has_bytes(self, offset: int) -> bool:
        """Whether a broker returns something for an offset: as many bytes as the number there says."""
        head = self.log.read(offset, 4)
        return head is not None and self.log.select(offset, max(int.from_bytes(head, "big", signed=True), 4))

    def holds_record(self, offset: int) -> bool:
        """`lookMessageByOffset`: whether a record that the broker can decode is at a physical offset.

        Raises StoreError where the log cannot be read, even if only by this tool.
        """
        refuse_unanswered(self.store, self.dialect, queues=False)
        found = self.log.record_at(offset) if self.log.select(offset, 4) else None
        return isinstance(found, Message) and self.log.select(offset, found.total_size)

    def get_message(self, topic: str, queue_id: int, offset: int, max_num: int = 32) -> PullAnswer:
        """What a pull from a queue offset gives: status, records, where to go on.

        The records' bytes are not looked at; offsets of a compaction topic are places in its compacted log
        (`message_store`). `max_num` counts the messages of batches. Raises StoreError
        where the broker throws, and as `serving`.
        """
        if topic in self.compaction_topics:
            return self.compacted.pull(topic, queue_id, offset, max_num)
        queue = self.queue(topic, queue_id)
        if queue is None:
            return PullAnswer("NO_MESSAGE_IN_QUEUE", (), 0, 0, 0)
        return pull(queue, self.serving.log, self.dialect, offset, max_num)

    def commit_log_offset(self, topic: str, queue_id: int, offset: int) -> int:
        """`getCommitLogOffsetInQueue`: where the unit of a queue offset points; 0 without one."""
        queue = self.queue(topic, queue_id)
        return 0 if queue is None else commit_log_offset(queue, offset)

    def offset_in_queue_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: Boundary = "lower"
    ) -> int:
        """The queue offset for a time (ms), as consumers seek. UsageError for a boundary that came later."""
        if boundary == "upper" and not self.dialect.upper_boundary:
            raise UsageError(f"a {self.version} broker has no upper boundary")
        queue = self.queue(topic, queue_id)
        if queue is None:
            return 0
        return offset_of_time(queue, self.serving.log, self.dialect, timestamp, boundary)
