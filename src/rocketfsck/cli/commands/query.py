"""`rocketfsck query …`: messages by id, queue offset, key, time and content; their lives; offsets, lags.

`rocketfsck find STORE TEXT`: all that a text is in a store.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeVar

import click

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.base import scrolling
from rocketfsck.cli.lang import say_line
from rocketfsck.cli.output import FORMATS, Destination
from rocketfsck.cli.query.options import QueryGroup, QueryRequest, Shown, Traced
from rocketfsck.cli.settings import common_params
from rocketfsck.cli.show.text import count_of, visible
from rocketfsck.commands import query as commands_query
from rocketfsck.common.options import PutAfter
from rocketfsck.errors import EXIT_OPERATIONAL
from rocketfsck.query.content.expression import FIELDS

Told = TypeVar("Told", bound=commands_query.QueryAnswer[Any])
Answered = Annotated[Destination, PutAfter("mask_key"), Formats(FORMATS)]


@click.group(cls=QueryGroup, params=common_params())
def query_command() -> None:
    """Find messages as a broker would, and where a broker would not: offline, without a limit, with the way
    to the answer.

    Exit status: 0 found, 4 not found (an unknown topic, too; or hidden by the index, with --via both), 16 no
    message id, 64 an id that leads to two messages; 8 is added where the answer is incomplete.
    """


def _request(line: Any) -> QueryRequest:
    return QueryRequest(line.path, line.stated, line.answer)


def _told(answered: Told) -> Told:
    """The answer, after it was said which databases of the store could not be read for it."""
    for name, error in sorted(answered.store.lifted.failed.items()):
        what = f"{visible(name)} cannot be read: {visible(str(error))}"
        say_line(f"Note: {what}; the answer is not complete", err=True)
    return answered


@dataclass(frozen=True, slots=True, kw_only=True)
class IdLine(commands_query.IdQuery):
    """A message by its id, and how it is shown."""

    answer: Answered
    traced: Annotated[Traced, PutAfter("as_broker")] = False
    shown: Shown = field(default_factory=Shown)


@command_of(IdLine)
def by_id(line: IdLine) -> int:
    """Find the message with an offset message id or a unique id."""
    from rocketfsck.cli.query.facts import write_answer

    asked = line.shown.request(line, line.answer, traced=line.traced)
    return write_answer(asked, "query.id", _told(commands_query.query_id(line)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLine(commands_query.OffsetQuery):
    """A message by its queue offset, and how it is shown."""

    answer: Answered
    traced: Annotated[Traced, PutAfter("state")] = False
    shown: Shown = field(default_factory=Shown)


@command_of(OffsetLine)
def by_offset(line: OffsetLine) -> int:
    """Find the message at a queue offset of a topic's queue."""
    from rocketfsck.cli.query.facts import write_answer

    asked = line.shown.request(line, line.answer, traced=line.traced)
    return write_answer(asked, "query.offset", _told(commands_query.query_offset(line)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLine(commands_query.KeyOrTagQuery):
    """Messages of a topic by a key, or by their tags, and how they are shown."""

    answer: Answered
    traced: Annotated[Traced, PutAfter("as_broker")] = False
    shown: Shown = field(default_factory=Shown)


@command_of(KeyLine)
def by_key(line: KeyLine) -> int:
    """Find the messages of a topic with a key, among KEYS or as UNIQ_KEY; or with these tags."""
    return _by_key(line, line.shown.request(line, line.answer, traced=line.traced))


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueKeyLine(commands_query.UniqueKeyQuery):
    """Messages of a topic by their unique key, and how they are shown."""

    answer: Answered
    traced: Annotated[Traced, PutAfter("as_broker")] = False
    shown: Shown = field(default_factory=Shown)


@command_of(UniqueKeyLine)
def by_unique_key(line: UniqueKeyLine) -> int:
    """Find the messages of a topic with this UNIQ_KEY."""
    return _by_key(line, line.shown.request(line, line.answer, traced=line.traced))


def _by_key(query: commands_query.UniqueKeyQuery, asked: QueryRequest) -> int:
    from rocketfsck.cli.query.facts import write_answer

    answer = _told(commands_query.query_key(replace(query, with_bodies=asked.body != "none")))
    return write_answer(asked, "query.key", answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLine(commands_query.TimeQuery):
    """A queue offset by a time, and where it goes."""

    answer: Answered


@command_of(TimeLine)
def by_time(line: TimeLine) -> int:
    """Find the queue offset of a time, as consumers seek."""
    from rocketfsck.cli.query.facts import write_time

    return write_time(_request(line), _told(commands_query.query_time(line)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanLine(commands_query.ScanQuery):
    """Messages by an expression, and how they are shown."""

    answer: Answered
    shown: Annotated[Shown, PutAfter("physical_offsets")] = field(default_factory=Shown)


@command_of(ScanLine)
def by_expression(line: ScanLine) -> int:
    """Find messages by an expression over their fields and bodies.

    Like: topic == "Order" and (tags in ("a", "b") or body ~ /pay(ed|ing)/i) and store_timestamp >=
    "2024-05-17T08:00". Fields: {fields} (the body, decompressed), properties.NAME. Tests:
    == != < <= > >=, in (…), contains, ~ and !~ with a pattern; and, or, not, parentheses.

    If a content cannot be decompressed, the query searches it as stored and adds exit status 8; so it does
    for bodies and contents above 64 MiB, of which it searches nothing and the first 64 MiB.
    """
    from rocketfsck.cli.query.facts import write_found

    asked = line.shown.request(line, line.answer)
    # no progress is shown where the answer scrolls over the same terminal
    quiet = nullcontext() if line.answer.path is not None else scrolling(sys.stdout)
    with commands_query.query_scan(replace(line, with_bodies=asked.body != "none")) as scanned, quiet:
        count = write_found(asked, scanned)
    for reason, number in sorted(scanned.unread.items()):
        what = f"the content of {count_of(number, 'message')} could not be searched as a whole: {reason}"
        say_line(f"Note: {what}; the answer is not complete", err=True)
    code = commands_query.FOUND_CODE if count else commands_query.NOT_FOUND_CODE
    told = _told(commands_query.QueryAnswer(scanned.store, count, code))
    return told.exit_code | (EXIT_OPERATIONAL if scanned.unread else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeLine(commands_query.LifeQuery):
    """The life of a message, and how it is shown."""

    answer: Answered
    shown: Annotated[Shown, PutAfter("via")] = field(default_factory=Shown)


@command_of(LifeLine)
def life(line: LifeLine) -> int:
    """Show the life of one message: its records in all topics, its queues and index entries, its
    transaction, delay, retries, dead letter, pops, and who has consumed it.
    """
    from rocketfsck.cli.query.facts import write_life

    return write_life(line.shown.request(line, line.answer), _told(commands_query.query_life(line)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsLine(commands_query.OffsetsQuery):
    """The bounds of queues and where groups are, and where that goes."""

    answer: Answered


@command_of(OffsetsLine)
def offsets(line: OffsetsLine) -> int:
    """Show the bounds of every queue, and the position of each consumer group."""
    from rocketfsck.cli.query.facts import write_offsets

    asked = _request(line)
    return write_offsets(asked, _told(commands_query.query_offsets(line)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimersLine(commands_query.TimersQuery):
    """Messages that wait, and where they go."""

    answer: Answered


@command_of(TimersLine)
def timers(line: TimersLine) -> int:
    """List the messages that wait for a timer or a delay level, in the order in which they are due."""
    from rocketfsck.cli.query.facts import write_timers

    return write_timers(_request(line), _told(commands_query.query_timers(line)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLine(commands_query.RetentionQuery):
    """What retention deletes, and where that goes."""

    answer: Answered


@command_of(RetentionLine)
def retention(line: RetentionLine) -> int:
    """Foresee which commit log files a broker deletes and when, which groups lose messages by it that they
    have not consumed, and when the disk is full.

    By the settings fileReservedTime, deleteWhen and diskMaxUsedSpaceRatio of --broker-conf, or their
    defaults, and by the storeTimestamps of messages.
    """
    from rocketfsck.cli.query.retention import write_retention

    asked = _request(line)
    return write_retention(asked, _told(commands_query.query_retention(line)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOfLine(commands_query.AsOfQuery):
    """What the store held at a time."""

    answer: Answered


@command_of(AsOfLine)
def as_of(line: AsOfLine) -> int:
    """Show what the store held at a time in the past, and what consumers could get of it: the end of the
    commit log, the bounds of each queue, and how many messages waited for their delay.

    Messages that have expired since then are not counted. A message counts if it was stored at TIME or
    before; TIME is milliseconds, or a date and time.
    """
    from rocketfsck.cli.query.retention import write_as_of

    return write_as_of(_request(line), _told(commands_query.query_as_of(line)))


by_expression.help = str(by_expression.help).replace("{fields}", ", ".join(FIELDS))

_COMMANDS = {
    "id": by_id, "offset": by_offset, "key": by_key, "unique-key": by_unique_key, "time": by_time,
    "scan": by_expression, "life": life, "offsets": offsets, "timers": timers,
    "retention": retention, "as-of": as_of,
}  # fmt: skip
for _name, _command in _COMMANDS.items():
    query_command.add_command(_command, _name)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindLine(commands_query.FindQuery):
    """What is looked for, and how it is shown."""

    answer: Answered
    shown: Shown = field(default_factory=Shown)


@command_of(FindLine)
def find_command(line: FindLine) -> int:
    """Find all that TEXT is in STORE, and say what to run next.

    TEXT may be an offset message id, a UNIQ_KEY, a key, tags, an address (with or without a port), a time, a
    topic, a consumer group, a physical offset, TOPIC/QUEUE/OFFSET, a file, or text in a body (unpacked, where
    it is compressed). find reads the whole log once, and ends early after 10,000 messages. Of each kind
    three messages are shown, or as many as --limit says.

    Exit status: 0 found, 4 nothing is TEXT.
    """
    from rocketfsck.cli.query.facts import write_evidence

    return write_evidence(line.shown.request(line, line.answer), _told(commands_query.query_find(line)))
