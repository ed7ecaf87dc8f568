"""`rocksdbstore/` made again: the index from the log, timers and transactions from the database there is.

    default   a row for each key, for the tags and the unique key of each record; up to where, and when
    timer     copied: the log does not show what was delivered already
    trans     copied: the log does not show how often a producer was asked, and which messages were given up

A family that cannot be read any more stays empty, which `notes` say. Reference 11.3, 11.7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.formats.rocksmessages import MARKS, encode_i64
from rocketfsck.formats.timer import TIMER_TOPIC
from rocketfsck.reader.indexrows import index_rows, log_messages
from rocketfsck.store.model import Other, OtherKind, Store
from rocketfsck.store.rocks.families import DEFAULT
from rocketfsck.store.rocks.reading import read_rows
from rocketfsck.store.rocks.rowpipe import RowPipe, row_pipe

DATABASE = "rocksdbstore"
FAMILIES = (DEFAULT, "timer", "trans")
HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
TOPICS: Mapping[str, str] = {"timer": TIMER_TOPIC, "trans": HALF_TOPIC}
"""By family: the topic whose messages it has rows of."""
WITHOUT: Mapping[str, str] = {
    "timer": (
        f"a broker with timerRocksDBEnable=true reads {TIMER_TOPIC} from its first message on, and delivers "
        "messages a second time"
    ),
    "trans": (
        "a broker with transRocksDBEnable=true asks only about the prepared messages that it dispatches again"
    ),
}
"""By family: what a broker does where it is empty."""


@dataclass(frozen=True, slots=True)
class MessageRows:
    """A database of messages as it was rebuilt. `kept_counts` are the rows, marks among them, of each family
    that was copied; `lost` are the families whose rows could not be read."""

    database: str
    record_count: int
    index_row_count: int
    kept_counts: dict[str, int] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def build_message_rows(store: Store, root: Path) -> MessageRows:
    """Make the database below `root`. Raises StoreError where the log cannot be read or RocksDB not write."""
    with row_pipe(root / DATABASE, FAMILIES) as pipe:
        record_count, row_count, seen = _put_index(store, pipe)
        kept, notes = {}, []
        for family in FAMILIES[1:]:
            try:
                kept[family] = _copy(store, pipe, family)
            except _UnreadableError as error:
                if TOPICS[family] in seen:
                    notes.append(f"{DATABASE}: the rows of {family} are lost ({error}): {WITHOUT[family]}")
        pipe.end()
    lost = tuple(family for family in FAMILIES[1:] if family not in kept and TOPICS[family] in seen)
    return MessageRows(DATABASE, record_count, row_count, kept, lost, tuple(notes))


def _put_index(store: Store, pipe: RowPipe) -> tuple[int, int, set[str]]:
    """Put the index; the number of records with rows, that of rows, and which of TOPICS the log has."""
    record_count = row_count = newest = 0
    last: int | None = None
    seen = set()
    for offset, message in log_messages(store):
        if message.topic in TOPICS.values():
            seen.add(message.topic)
        keys, value = index_rows(message, offset)
        if not keys:
            continue
        for key in keys:
            pipe.put(DEFAULT, key, value)
        record_count += 1
        row_count += len(keys)
        last, newest = offset, max(newest, message.store_timestamp)
    if last is not None:
        for mark, number in zip(MARKS[DEFAULT], (last, newest), strict=True):
            pipe.put(DEFAULT, mark, encode_i64(number))
    return record_count, row_count, seen


class _UnreadableError(Exception):
    """Why the rows of a family are not known."""


def _copy(store: Store, pipe: RowPipe, family: str) -> int:
    """Copy the rows of a family; how many there are. Raises _UnreadableError before any was put."""
    other = _database(store)
    if other is None:
        raise _UnreadableError("the store has no such database")
    with _unreadable():
        pairs = [pair for rows in read_rows(other, [family]) for pair in rows.pairs()]
    for key, value in pairs:
        pipe.put(family, key, value)
    return len(pairs)


@contextmanager
def _unreadable() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise _UnreadableError(str(error)) from error


def _database(store: Store) -> Other | None:
    return next(
        (
            other
            for other in store.others
            if other.kind is OtherKind.ROCKSDB and other.relative == DATABASE and other.files
        ),
        None,
    )
