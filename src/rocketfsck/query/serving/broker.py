"""What a running broker answers, version by version, exactly: limits, window fuzz, order, unfiltered hashes.

    IndexService#queryOffset            -> index_query_offset      offsets by key, the index alone
    DefaultMessageStore#queryMessage    -> query_message           records by key
    DefaultMessageStore#getMessage      -> get_message             records by queue offset
    DefaultMessageStore#getOffsetInQueueByTime -> offset_in_queue_by_time

Pulls, times and the ends of queues are those of a broker that has started on the store (`State` "started"):
what its recovery finds, cuts and dispatches is in them. Where a broker is running on the store, its files are
taken as they are ("running"). Queries by key take index and log as they are. Reference 4.7, 7.3.

A broker's answers as `Answer`s: its records in its order, repeated where it repeats them.

Reference 4.7, 7.3.

Queries by key that a broker answers from `rocksdbstore/` (5.4.0+), with `indexFileReadEnable=false`.

    IndexRocksDBStore#queryOffset    the window, its limit in days, which type of key is asked for
    MessageRocksDBStorage#queryOffsetForIndex    hour by hour, rows in the order of their keys

A window that is open at either end is that of the days until now. Reference 11.3.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Literal

from rocketfsck.errors import UsageError
from rocketfsck.formats.dialect import Dialect, Version, dialect_for, when
from rocketfsck.formats.javatext import INT64_MAX, TAG_KEY_PREFIX, index_hash, parse_int32, tag_index_hash
from rocketfsck.formats.rocks import AT, HOUR_MS, TYPE_KEY, TYPE_TAG, TYPE_UNIQUE
from rocketfsck.query.answers import BROKER, Answer, Found, Lead, Outcome, Trace
from rocketfsck.query.keys import index_step, is_time_matched, select_offsets
from rocketfsck.query.serving.files import Boundary, BrokerThrowsError, ServedQueue
from rocketfsck.query.serving.pulls import PullAnswer, commit_log_offset, offset_of_time, pull
from rocketfsck.query.serving.state import Serving, State, serve, usual_state
from rocketfsck.query.start.compacted import CompactedPulls, compaction_topics
from rocketfsck.query.start.settings import refuse_unanswered
from rocketfsck.query.view import LogView, StoreView
from rocketfsck.reader.index import IndexReader
from rocketfsck.scan.views.messages import Message
from rocketfsck.store.model import Store
from rocketfsck.store.openfiles import Readers
from rocketfsck.store.reading import Closing
from rocketfsck.store.rocks.families import DEFAULT, MESSAGE_DATABASE, database_at
from rocketfsck.store.rocks.reading import KeysWith, has_index_rows, read_rows

DAY_MS = 24 * HOUR_MS
HOUR_LIMIT = 720
BATCH_LIMIT = 64
HOUR_SIZE = 8
"""Bytes of the hour that the key of an index row begins with."""

Asked = Literal["files", "rows", "nothing"]
Row = tuple[int, bytes, int, int]
"""Hour, what is behind the text that is asked for, storeTime and physical offset."""


def asked_index(store: Store, dialect: Dialect) -> Asked:
    """Which index a broker asks: by the settings, and without these by what it has written."""
    settings = store.settings
    if not dialect.message_database:
        return "files"
    if settings.get("indexFileReadEnable") is None and settings.get("indexRocksDBEnable") is None:
        return "rows" if not store.indexes and has_index_rows(store) else "files"
    if settings.flag("indexFileReadEnable", True):
        return "files"
    return "rows" if settings.flag("indexRocksDBEnable", False) else "nothing"


def types_asked(*, unique: bool | None, by_tags: bool) -> tuple[bytes, ...]:
    """The types of keys that are looked for, one after the other until something is found.

    `unique` None: as a client before 5.4.0 asks, which names no type."""
    if by_tags:
        return (TYPE_TAG,)
    if unique is None:
        return TYPE_KEY, TYPE_UNIQUE
    return (TYPE_UNIQUE,) if unique else (TYPE_KEY,)


class RowIndex:
    """The rows of a topic and a key, read once. Raises StoreError where the database cannot be read."""

    def __init__(self, store: Store, topic: str, key: str, types: Iterable[bytes]) -> None:
        self.settings = store.settings
        self.now = time.time_ns() // 1_000_000
        other = database_at(store, MESSAGE_DATABASE)
        middles = [AT.join((b"", topic.encode(), kind, key.encode(), b"")) for kind in types]
        self.rows: list[list[Row]] = [[] for _ in middles]
        keys = KeysWith(tuple(middles), HOUR_SIZE)
        for rows in () if other is None else read_rows(other, [DEFAULT], keys=keys):
            for found, value in rows.pairs():
                for number, middle in enumerate(middles):
                    if found.startswith(middle, HOUR_SIZE) and len(value) >= 8:
                        self.rows[number].append(_row(found, len(middle), value))

    def offsets(self, max_num: int, begin_timestamp: int, end_timestamp: int) -> tuple[int, ...]:
        """The physical offsets for a window of store times (ms, closed), oldest hours first."""
        days = parse_int32((self.settings.get("maxRocksDBIndexQueryDays") or "").strip())
        length = (7 if days is None else days) * DAY_MS
        if begin_timestamp == 0 or end_timestamp == INT64_MAX:
            end_timestamp, begin_timestamp = self.now, self.now - length
        if not 0 < begin_timestamp <= end_timestamp <= begin_timestamp + length:
            return ()
        limit = min(max_num, BATCH_LIMIT)
        for rows in self.rows:
            found = list(_within(rows, begin_timestamp, end_timestamp))[:limit]
            if found:
                return tuple(found)
        return ()


def _row(key: bytes, size: int, value: bytes) -> Row:
    hour, offset = int.from_bytes(key[:8], "big", signed=True), int.from_bytes(key[-8:], "big", signed=True)
    return hour, key[8 + size :], int.from_bytes(value[:8], "big", signed=True), offset


def _within(rows: Iterable[Row], begin: int, end: int) -> Iterator[int]:
    first = begin // HOUR_MS * HOUR_MS
    last = min(end, first + (HOUR_LIMIT - 1) * HOUR_MS)
    for hour, _, stored, offset in rows:
        if first <= hour <= last and hour % HOUR_MS == 0 and begin <= stored <= end:
            yield offset


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
            since = when("tag_entries")
            raise UsageError(f"a {self.version} broker has no query by tags; brokers have it {since}")
        limit = min(max_num, MAX_BATCH_NUM)
        key_hash = tag_index_hash(topic, key) if by_tags else index_hash(topic, key)
        out: list[int] = []
        last = (0, 0)
        for number, file in enumerate(reversed(self.serving.indexes)):
            header = file.header
            if number == 0:
                last = (header.end_timestamp, header.end_physical_offset)
            matched = is_time_matched(header, begin_timestamp, end_timestamp)
            if matched:
                put = file.put_entries(self.serving.entries, key_hash)
                within = (offset for offset, time in put if begin_timestamp <= time <= end_timestamp)
                out += islice(within, limit - len(out))
            if file.file is not None:
                with IndexReader(file.file, self.store.geometry) as index:
                    if matched:
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
        asked = asked_index(self.store, self.dialect)
        if asked == "nothing":
            return ()
        rows = None
        if asked == "rows":
            rows = RowIndex(self.store, topic, key, types_asked(unique=unique, by_tags=by_tags))
        given: list[int] = []
        total, last_time = 0, end_timestamp
        for _ in range(QUERY_ROUNDS):
            if rows is not None:
                found = rows.offsets(max_num, begin_timestamp, last_time)
            else:
                found = self.index_query_offset(
                    topic, key, max_num, begin_timestamp, last_time, trace, by_tags=by_tags
                ).offsets
            if not found:
                break
            for number, offset in enumerate(sorted(found)):
                if number == 0:
                    timestamp = self._stored_at(offset)
                    if timestamp is None and not self.dialect.keeps_unreadable:
                        continue
                    last_time = last_time if timestamp is None else timestamp
                size = self._given_size(offset)
                if size is not None:
                    given.append(offset)
                    total += size
            if total > 0 or last_time < begin_timestamp:
                break
        return tuple(given)

    def _stored_at(self, offset: int) -> int | None:
        """The storeTimestamp of the record there, as the broker's decoder finds it."""
        if not self._selects(offset, 4):
            return None
        found = self.log.record_at(offset)
        return found.store_timestamp if isinstance(found, Message) else None

    def _given_size(self, offset: int) -> int | None:
        """How many bytes a broker returns for an offset: as many as the number there says, even 0.

        None where it returns nothing."""
        head = self.log.read(offset, 4) if self._selects(offset, 4) else None
        size = -1 if head is None else int.from_bytes(head, "big", signed=True)
        return size if size >= 0 and self._selects(offset, size) else None

    def _selects(self, offset: int, size: int) -> bool:
        """Whether the broker's log has these bytes."""
        try:
            return self.serving.log.select(offset, size) is not None
        except BrokerThrowsError:  # which the broker logs
            return False

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


_STATES = {
    "started": "a broker gives this answer after a start on this store",
    "running": "a broker gives this answer while running on these files",
}


def answer_of(
    broker: BrokerView,
    offsets: Iterable[int],
    trace: Trace,
    why: str = "",
    pull: PullAnswer | None = None,
    store: Store | None = None,
) -> Answer:
    """The records at these offsets in this order; what is not a record becomes a lead. `why` is for none.

    `store` is the one whose log the offsets are in, if not that of the broker.
    """
    found: list[Found] = []
    leads: list[Lead] = []
    with StoreView(store or broker.store) as view:
        for offset in offsets:
            message = view.log.message_at(offset)
            if isinstance(message, Message):
                found.append(view.found(message, offset, BROKER))
            else:
                leads.append(Lead(offset, "the answer", "the bytes there are not a record"))
    outcome = Outcome.FOUND if found or leads else Outcome.NOT_FOUND
    said = "" if found else why
    return Answer(outcome, tuple(found), said, leads=tuple(leads), trace=trace, pull=pull)


def broker_by_key(
    broker: BrokerView,
    topic: str,
    key: str,
    *,
    unique: bool = False,
    tag: bool = False,
    begin_timestamp: int | None = None,
    end_timestamp: int | None = None,
    max_count: int | None = None,
) -> Answer:
    """`queryMessage` for a key: at most 64, or 32 for a unique key; the window is in index time, closed.

    Messages of other keys with the same hash are among them: clients leave those out, brokers do not.
    With `tag` the key is all of TAGS; UsageError for a version before 5.4.0.
    """
    trace = Trace(f"{topic}#{TAG_KEY_PREFIX if tag else ''}{key}")
    most = DEFAULT_QUERY_NUM if unique else max_count
    window = {"max_num": most, "begin_timestamp": begin_timestamp, "end_timestamp": end_timestamp}
    stated = {name: value for name, value in window.items() if value is not None}
    offsets = broker.query_message(topic, key, trace=trace, by_tags=tag, unique=unique, **stated)
    return answer_of(broker, offsets, trace, f"a {broker.version} broker finds nothing")


def broker_by_offset(
    broker: BrokerView, topic: str, queue_id: int, queue_offset: int, max_count: int = 1
) -> Answer:
    """`getMessage` for a queue offset, with the status and where to go on as `pull` and in the trace."""
    trace = Trace()
    pulled = broker.get_message(topic, queue_id, queue_offset, max_count)
    said = (
        f"{pulled.status}: minOffset {pulled.min_offset}, maxOffset {pulled.max_offset}, "
        f"nextBeginOffset {pulled.next_begin_offset}"
    )
    trace.notes += [said, _STATES[broker.state]]
    why = f"a {broker.version} broker answers {said}"
    store = broker.message_store(topic, queue_id)
    return answer_of(broker, pulled.offsets, trace, why, pulled, store)


def broker_by_id(broker: BrokerView, text: str) -> Answer:
    """`lookMessageByOffset` for an offset id: the host in it is not compared."""
    from rocketfsck.formats.messageid import decode_offset_id

    offset = decode_offset_id(text).physical_offset
    offsets = [offset] if broker.holds_record(offset) else []
    why = f"a {broker.version} broker finds no message at physical offset {offset}"
    return answer_of(broker, offsets, Trace(), why)
