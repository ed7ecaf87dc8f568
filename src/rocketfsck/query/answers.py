"""What a query found, and what it says about it: plain data.

An `Answer` is the truth as far as the files hold it, in the log's order; `broker.BrokerView` says what a
broker would have answered instead.

How a query got to its answer: the index files looked at, the chains walked, what else was read.

Plain data; `rocketfsck.cli` shows it. Reference 4.7.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from rocketfsck.common.documents import UNSAID
from rocketfsck.query.serving.pulls import PullAnswer
from rocketfsck.reader.units import Unit
from rocketfsck.scan.views.messages import Message


@dataclass(frozen=True, slots=True)
class EntryStep:
    """One index entry of a chain: its number, its fields, and what the search made of it.

    `time_diff` is in seconds, `timestamp` what it makes of the file's beginTimestamp, in ms.
    """

    entry: int
    key_hash: int
    physical_offset: int
    time_diff: int
    previous: int
    timestamp: int
    verdict: str


@dataclass(frozen=True, slots=True)
class IndexStep:
    """One index file: its header, the slot and the entries visited, newest first.

    `skipped` says why nothing of it was looked at; `ended` why the chain was left where it was. `broken` is
    true where the chain cannot be trusted to be whole.
    """

    file: str
    begin_timestamp: int
    end_timestamp: int
    begin_offset: int
    end_offset: int
    index_count: int
    slot: int | None = None
    newest: int | None = None
    entries: tuple[EntryStep, ...] = ()
    skipped: str | None = None
    ended: str | None = None
    broken: bool = False


@dataclass(frozen=True, slots=True)
class ScanStep:
    """A part of the commit log that was scanned: physical offsets, and why."""

    start_offset: int
    end_offset: int
    why: str
    record_count: int


@dataclass(slots=True)
class Trace:
    """Collects the steps of one query in the order taken. `notes` are sentences."""

    key: str | None = None
    key_hash: int | None = None
    index_steps: list[IndexStep] = field(default_factory=list)
    scan_steps: list[ScanStep] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def entry_count(self) -> int:
        """Entries visited in all files."""
        return sum(len(step.entries) for step in self.index_steps)


BROKER = "broker"
"""The way to a message that a broker would have answered with."""

STALE = "the record is stale: after the end of the log, left by a truncation"
"""Why a record that is whole is not an answer."""


class UnitState(StrEnum):
    """What the consume queue says of a record."""

    AGREES = "agrees"
    MISSING = "missing"  # the queue has no unit at that place
    DIFFERS = "differs"  # the unit there points somewhere else
    NO_QUEUE = "no-queue"  # the store has no such queue
    UNREADABLE = "unreadable"  # the queue is in a database that cannot be read
    EXPIRED = "expired"  # the queue begins after that place
    NOT_EXPECTED = "not-expected"  # prepared and rolled back records are in no queue


@dataclass(frozen=True, slots=True)
class Dispatched:
    """One queue that a record belongs to, and what is there. `unit` is None without a unit."""

    topic: str
    queue_id: int
    queue_offset: int
    state: UnitState
    unit: Unit | None = field(default=None, metadata=UNSAID)


@dataclass(frozen=True, slots=True)
class Found:
    """A message, where it is in the commit log, and how it was found.

    `live` is False for a record of an earlier life of the log, after its end, and None where that was not
    looked at because the whole file would have had to be walked. `queues` are its places in consume queues,
    its own first. `via` names the ways that led to it: "id", "unit", "index", "scan", or "broker" alone.
    """

    message: Message
    offset: int
    live: bool | None
    queues: tuple[Dispatched, ...]
    via: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lead:
    """Something that leads to no answer: an offset in the log, what pointed there, and why it is not one."""

    offset: int
    source: str
    why: str


class Outcome(StrEnum):
    """How a query ended."""

    FOUND = "found"
    NOT_FOUND = "not-found"
    AMBIGUOUS = "ambiguous"  # an id that leads to one message as one kind of id and to another as the other
    UNKNOWN_TOPIC = "unknown-topic"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query found, in the log's order.

    `why` is a sentence for whoever finds nothing, or too much; `hidden` are physical offsets that only a scan
    found although the index was asked, too; `leads` what the index or a queue has that leads to no answer.
    `pull` is what a broker answers to a pull, where one was asked.
    """

    outcome: Outcome
    found: tuple[Found, ...]
    why: str = ""
    hidden: tuple[int, ...] = ()
    leads: tuple[Lead, ...] = ()
    trace: Trace | None = None
    pull: PullAnswer | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it is known of every message that it is one: a stale record may be among them otherwise."""
        return is_settled(self.found)


def is_settled(found: Iterable[Found]) -> bool:
    """Whether each of these is known to be live or stale. What a broker answers is its answer either way."""
    return all(item.live is not None or item.via == (BROKER,) for item in found)
