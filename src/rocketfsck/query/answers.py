"""What a query found, and what it says about it: plain data.

An `Answer` is the truth as far as the files hold it, in the log's order; `broker.BrokerView` says what a
broker would have answered instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from rocketfsck.common.documents import UNSAID
from rocketfsck.query.serving.pulls import PullAnswer
from rocketfsck.query.trace import Trace
from rocketfsck.reader.units import Unit
from rocketfsck.scan.views.messages import Message

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
