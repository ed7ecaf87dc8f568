"""What is in a store that a broker of another version does not read: a downgrade leaves it where it is.

    part of the store  x  the versions that read it  ->  a clause on the broker, with a count if known

The broker starts, and what it does not read is out of reach for as long as it runs. Reference 0.4, 1.8, 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rocketfsck.common.wording import fill_numbers
from rocketfsck.errors import StoreError
from rocketfsck.formats.dialect import NEWEST_NAME, Dialect, dialect_for
from rocketfsck.query.start.databases import MESSAGES, has_light_rows, kind_of_queues
from rocketfsck.query.start.model import Unread
from rocketfsck.query.start.state import StartState
from rocketfsck.query.start.timers import start_timers
from rocketfsck.reader.units import is_light_queue
from rocketfsck.store.elsewhere import has_tag_entries
from rocketfsck.store.model import OtherKind
from rocketfsck.store.others import SEGMENT_KINDS
from rocketfsck.store.rocks.families import DEFAULT
from rocketfsck.store.rocks.reading import RocksError, count_rows


@dataclass(frozen=True, slots=True)
class UnreadPart:
    """A part that brokers read for which `reads` holds.

    `count` gives how much of it there is, None where that is not known, 0 for nothing; `text` is the clause
    with a count, `uncounted` the one without.
    """

    reads: Callable[[Dialect], bool]
    count: Callable[[StartState], int | None]
    text: str
    uncounted: str


def unread_parts(state: StartState) -> Iterator[Unread]:
    """What this broker does not read of the store. Raises StoreError for a file that cannot be read."""
    yield from _unread(state, PARTS)


def unread_notes(state: StartState) -> Iterator[str]:
    """The same of what holds no message, each as a sentence. Raises StoreError as `unread_parts` does."""
    for item in _unread(state, FEATURES):
        yield f"a {state.dialect.version} broker {item.what}; no message is lost by that"


def _unread(state: StartState, parts: Iterable[UnreadPart]) -> Iterator[Unread]:
    for part in parts:
        if part.reads(state.dialect):
            continue
        count = part.count(state)
        if count is None:
            yield Unread(part.uncounted)
        elif count:
            yield Unread(fill_numbers(part.text, count=count), count)


def _newest() -> Dialect:
    return dialect_for(NEWEST_NAME)


def _timers(state: StartState) -> int | None:
    """The messages that wait for a timer, as the newest broker finds them."""
    stop_timestamp = state.checkpoint.physic_msg_timestamp
    found = start_timers(state.store, _newest(), state.settings, state.queues, stop_timestamp)
    if found.timers is not None:
        return found.timers.waiting_count + found.timers.lost_count
    return (_rows(state, MESSAGES, "timer") or None) if found.refusals or found.notes else 0


def _timer_rows(state: StartState) -> int | None:
    return _rows(state, MESSAGES, "timer") if state.dialect.timer_wheel else 0


def _rows(state: StartState, database: str, family: str) -> int | None:
    """The rows of a family of a database; None where the database cannot be read."""
    other = next((other for other in state.store.others if other.relative == database and other.files), None)
    if other is None:
        return 0
    try:
        return count_rows(other).get(family, 0)
    except (RocksError, StoreError):
        return None


def _index_rows(state: StartState) -> int | None:
    """Index entries in RocksDB, where they are the only ones."""
    return 0 if state.store.indexes else _rows(state, MESSAGES, DEFAULT)


def _queue_rows(state: StartState) -> int | None:
    in_rows = kind_of_queues(state.store, state.settings, _newest()) == "rows"
    return None if in_rows or has_light_rows(state.store) else 0


def _config_rows(state: StartState) -> int | None:
    there = (
        other.kind is OtherKind.ROCKSDB and other.relative.startswith("config/") and other.files
        for other in state.store.others
    )
    return None if any(there) else 0


def _of_kind(*kinds: OtherKind) -> Callable[[StartState], int]:
    return lambda state: sum(other.kind in kinds and bool(other.files) for other in state.store.others)


def _batch_queues(state: StartState) -> int:
    return sum(queue.kind == "batch" and bool(queue.files) for queue in state.store.queues)


def _light_queues(state: StartState) -> int:
    return sum(is_light_queue(queue) and bool(queue.files) for queue in state.store.queues)


def _tag_entries(state: StartState) -> int | None:
    """Index entries of tags; a sample of them says that there are some."""
    known = state.disk.tag_entries
    if state.has_entries not in known:
        known[state.has_entries] = has_tag_entries(state.store)
    return None if known[state.has_entries] else 0


def _checkpoint_fields(state: StartState) -> int:
    """The fields of the checkpoint that have a value, and that this broker neither reads nor writes."""
    known = state.dialect.checkpoint_fields
    return sum(value != 0 for name, value in state.checkpoint.values().items() if name not in known)


def _entries(state: StartState) -> int | None:
    return None if _of_kind(OtherKind.DLEDGER_DATA)(state) else 0


PARTS: tuple[UnreadPart, ...] = (
    UnreadPart(
        lambda dialect: dialect.timer_wheel,
        _timers,
        "never delivers {count:timer message} that {count?waits|wait}",
        "never delivers the timer messages that wait",
    ),
    UnreadPart(
        lambda dialect: dialect.message_database,
        _timer_rows,
        "never delivers {count:timer message} that {count?waits|wait} in RocksDB",
        "never delivers the timer messages that wait in RocksDB",
    ),
    UnreadPart(
        lambda dialect: dialect.message_database,
        _index_rows,
        "does not read {count:index entry} in RocksDB",
        "does not read the index in RocksDB",
    ),
    UnreadPart(
        lambda dialect: dialect.message_database,
        lambda state: _rows(state, MESSAGES, "trans"),
        "never asks for the outcome of {count:transaction} in RocksDB",
        "never asks for the outcome of transactions in RocksDB",
    ),
    UnreadPart(
        lambda dialect: dialect.dledger,
        _entries,
        "",
        "does not read the commit log of DLedger",
    ),
    UnreadPart(
        lambda dialect: dialect.rocksdb_consumequeue,
        _queue_rows,
        "",
        "does not read the consume queues in RocksDB",
    ),
    UnreadPart(
        lambda dialect: dialect.rocksdb_consumequeue,
        _config_rows,
        "",
        "does not read the topics, groups, and offsets in RocksDB",
    ),
    UnreadPart(
        lambda dialect: dialect.batch_queues,
        _batch_queues,
        "does not read {count:batch queue}",
        "",
    ),
    UnreadPart(
        lambda dialect: dialect.multi_dispatch,
        _light_queues,
        "adds no messages to {count:light queue}",
        "",
    ),
    UnreadPart(
        lambda dialect: dialect.compaction,
        _of_kind(OtherKind.COMPACTION_CQ),
        "does not read {count:compacted queue}",
        "",
    ),
    UnreadPart(
        lambda dialect: dialect.tiered_store,
        _of_kind(*SEGMENT_KINDS),
        "does not read {count:queue} in tiered storage",
        "",
    ),
    UnreadPart(
        lambda dialect: dialect.pop_database,
        lambda state: _rows(state, "kvStore", "popState"),
        "does not deliver {count:message} in flight (POP) again",
        "does not deliver the messages in flight (POP) again",
    ),
)
"""What versions do not read of what later ones write. What is read by other rules is predicted by the steps
of the start: records of more than 127 bytes of topic (before 5.1.0), sizes and names of files."""

FEATURES: tuple[UnreadPart, ...] = (
    UnreadPart(
        lambda dialect: dialect.tag_entries,
        _tag_entries,
        "",
        "does not answer queries by tags from the index",
    ),
    UnreadPart(
        lambda dialect: dialect.checkpoint_fields == _newest().checkpoint_fields,
        _checkpoint_fields,
        "does not read {count:field} of the checkpoint",
        "",
    ),
)
"""What versions do not read either, and holds no message: a start is not worse for it."""
