"""`rocketfsck query …`: messages by id, queue offset, key, time and content; their lives; offsets, lags."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import click

from rocketfsck.cli.adapter import command_of
from rocketfsck.cli.query.options import (
    NOT_FOUND_CODE,
    MessagesLine,
    QueryGroup,
    QueryLine,
    State,
    Traced,
    Via,
    asked_view,
    exit_code,
    quiet_terminal,
)
from rocketfsck.cli.settings import common_params
from rocketfsck.cli.show.text import count_of
from rocketfsck.commands.shared import AsBroker, Limit, PhysicalOffsets, WantedTimes
from rocketfsck.common.options import Argument, Option, PutAfter
from rocketfsck.errors import EXIT_OPERATIONAL, UsageError
from rocketfsck.query.content.expression import FIELDS


@click.group(cls=QueryGroup, params=common_params())
def command() -> None:
    """Find messages as a broker would, and where a broker would not: offline, without a limit, with the way
    to the answer.

    Exit status: 0 found, 4 not found (an unknown topic, too; or hidden by the index, with --via both), 16 no
    message id, 64 an id that leads to two messages; 8 is added where the answer is incomplete.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class IdLine(MessagesLine):
    """A message by its id."""

    message_id: Annotated[str, PutAfter("path"), Argument(metavar="MSGID")]
    reading: Annotated[
        Literal["either", "offset", "unique"],
        Option("Which kind of id it is; both kinds look alike.", names=("--as",)),
    ] = "either"
    via: Via = "auto"
    as_broker: AsBroker = None
    traced: Traced = False


@command_of(IdLine)
def by_id(line: IdLine) -> int:
    """Find the message with an offset message id or a unique id."""
    from rocketfsck.cli.query.facts import write_answer
    from rocketfsck.query.ids import check_id, find_by_id

    check_id(line.message_id)
    asked = line.request(line.traced)
    store = asked.open()
    if line.as_broker is not None:
        from rocketfsck.query.serving.broker import BrokerView, broker_by_id

        with BrokerView(store, line.as_broker) as asker:
            answer = broker_by_id(asker, line.message_id)
    else:
        with asked_view(store, line.via) as view:
            answer = find_by_id(store, line.message_id, reading=line.reading, via=line.via, view=view)
    write_answer(asked, store, "rocketfsck.query.id", answer)
    return exit_code(answer.outcome, answer.found)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLine(MessagesLine):
    """A message by its queue offset."""

    topic: Annotated[str, PutAfter("path"), Argument()]
    queue_id: Annotated[int, Argument(metavar="QUEUE")]
    queue_offset: Annotated[int, Argument(metavar="OFFSET")]
    limit: Annotated[int, Option("Show at most N.", metavar="N", least=0)] = 1
    via: Via = "auto"
    as_broker: AsBroker = None
    state: State = None
    traced: Traced = False


@command_of(OffsetLine)
def by_offset(line: OffsetLine) -> int:
    """Find the message at a queue offset of a topic's queue."""
    from rocketfsck.cli.query.facts import write_answer
    from rocketfsck.query.tiered import find_by_offset

    asked = line.request(line.traced)
    store = asked.open()
    place = (line.topic, line.queue_id, line.queue_offset)
    if line.as_broker is not None:
        from rocketfsck.query.serving.broker import BrokerView, broker_by_offset

        with BrokerView(store, line.as_broker, state=line.state) as asker:
            answer = broker_by_offset(asker, *place, line.limit)
    else:
        with asked_view(store, line.via) as view:
            answer = find_by_offset(store, *place, via=line.via, view=view)
    write_answer(asked, store, "rocketfsck.query.offset", answer)
    hidden = line.via == "both" and bool(answer.hidden)
    return exit_code(answer.outcome, answer.found) | (NOT_FOUND_CODE if hidden else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueKeyLine(MessagesLine):
    """Messages of a topic by a key."""

    topic: Annotated[str, PutAfter("path"), Argument()]
    key: Annotated[str, Argument()]
    times: WantedTimes = field(default_factory=WantedTimes)
    limit: Limit = None
    via: Via = "auto"
    as_broker: AsBroker = None
    traced: Traced = False


def _by_key(line: UniqueKeyLine, *, unique: bool = False, tag: bool = False) -> int:
    from rocketfsck.cli.query.facts import write_answer
    from rocketfsck.query.tiered import find_by_key

    asked = line.request(line.traced)
    store = asked.open()
    window = {
        name: value
        for name, value in (
            ("begin_timestamp", line.times.begin),
            ("end_timestamp", line.times.end),
            ("max_count", line.limit),
        )
        if value is not None
    }
    if line.as_broker is not None:
        from rocketfsck.query.serving.broker import BrokerView, broker_by_key

        with BrokerView(store, line.as_broker) as asker:
            answer = broker_by_key(asker, line.topic, line.key, unique=unique, tag=tag, **window)
    else:
        with asked_view(store, line.via) as view:
            answer = find_by_key(
                store,
                line.topic,
                line.key,
                unique=unique,
                tag=tag,
                via=line.via,
                max_body_size=asked.max_body_size,
                view=view,
                **window,
            )
    write_answer(asked, store, "rocketfsck.query.key", answer)
    hidden = line.via == "both" and bool(answer.hidden)
    return exit_code(answer.outcome, answer.found) | (NOT_FOUND_CODE if hidden else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLine(UniqueKeyLine):
    """Messages of a topic by a key, or by their tags."""

    kind: Annotated[
        Literal["key", "tag"],
        PutAfter("key"),
        Option(
            "key: KEY is among KEYS or the UNIQ_KEY. tag: KEY is all of TAGS, which brokers index since "
            "5.4.0.",
            names=("--type",),
            shows_default=True,
        ),
    ] = "key"


@command_of(KeyLine)
def by_key(line: KeyLine) -> int:
    """Find the messages of a topic with a key, among KEYS or as UNIQ_KEY; or with these tags."""
    return _by_key(line, tag=line.kind == "tag")


@command_of(UniqueKeyLine)
def by_unique_key(line: UniqueKeyLine) -> int:
    """Find the messages of a topic with this UNIQ_KEY."""
    return _by_key(line, unique=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLine(QueryLine):
    """A queue offset by a time."""

    topic: Annotated[str, PutAfter("path"), Argument()]
    queue_id: Annotated[int, Argument(metavar="QUEUE")]
    timestamp: Annotated[int, Argument(kind="time")]
    boundary: Annotated[
        Literal["lower", "upper"],
        Option("With --as-broker: the first message of that time or later, or the last one until then."),
    ] = "lower"
    as_broker: AsBroker = None
    state: State = None


@command_of(TimeLine)
def by_time(line: TimeLine) -> int:
    """Find the queue offset of a time, as consumers seek."""
    from rocketfsck.cli.query.facts import write_broker_time, write_time
    from rocketfsck.query.places import find_by_time

    asked = line.request()
    store = asked.open()
    place = (line.topic, line.queue_id, line.timestamp)
    if line.as_broker is not None:
        from rocketfsck.query.serving.broker import BrokerView

        with BrokerView(store, line.as_broker, state=line.state) as view:
            found = view.offset_in_queue_by_time(*place, line.boundary)
            write_broker_time(asked, store, found, str(view.version), view.state)
        return 0
    answer = find_by_time(store, *place)
    write_time(asked, store, answer)
    return exit_code(answer.outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanLine(MessagesLine):
    """Messages by an expression."""

    expression: Annotated[str, PutAfter("path"), Argument()]
    limit: Limit = None
    physical_offsets: PhysicalOffsets = None


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
    from rocketfsck.query.content.evaluate import Expression
    from rocketfsck.query.content.scanning import find_by_expression
    from rocketfsck.scan.views.messages import MAX_BODY_SIZE

    wanted = Expression(line.expression)
    start_offset, end_offset = line.physical_offsets or (0, None)
    asked = line.request()
    store = asked.open()
    with quiet_terminal(asked):
        found = find_by_expression(
            store,
            wanted,
            max_count=line.limit,
            start_offset=start_offset,
            end_offset=end_offset,
            max_body_size=MAX_BODY_SIZE if wanted.needs_body else asked.max_body_size,
        )
        count = write_found(asked, store, "rocketfsck.query.scan", wanted, found)
    for reason, number in sorted(wanted.unread.items()):
        what = f"the content of {count_of(number, 'message')} could not be searched as a whole: {reason}"
        click.echo(f"Note: {what}; the answer is not complete", err=True)
    return (0 if count else NOT_FOUND_CODE) | (EXIT_OPERATIONAL if wanted.unread else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeLine(MessagesLine):
    """The life of a message."""

    name: Annotated[str, PutAfter("path"), Argument(metavar="MSGID|UNIQKEY")]
    via: Via = "auto"


@command_of(LifeLine)
def life(line: LifeLine) -> int:
    """Show the life of one message: its records in all topics, its queues and index entries, its
    transaction, delay, retries, dead letter, pops, and who has consumed it.
    """
    from rocketfsck.cli.query.facts import write_life
    from rocketfsck.query.life import message_life

    if not line.name:
        raise UsageError("a message id or unique key needs at least one character")
    asked = line.request()
    store = asked.open()
    with asked_view(store, line.via) as view:
        found = message_life(store, line.name, via=line.via, view=view)
    write_life(asked, store, found)
    return exit_code(found.outcome, found.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsLine(QueryLine):
    """The bounds of queues, and where consumer groups are."""

    topic: Annotated[str | None, PutAfter("path"), Option("Only this topic.")] = None
    group: Annotated[str | None, Option("Only this consumer group.")] = None


@command_of(OffsetsLine)
def offsets(line: OffsetsLine) -> int:
    """Show the bounds of every queue, and the position of each consumer group."""
    from rocketfsck.cli.query.facts import write_offsets

    asked = line.request()
    return write_offsets(asked, asked.open(), line.topic, line.group)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimersLine(QueryLine):
    """Messages that wait."""

    times: Annotated[WantedTimes, PutAfter("path")] = field(default_factory=WantedTimes)
    limit: Limit = None


@command_of(TimersLine)
def timers(line: TimersLine) -> int:
    """List the messages that wait for a timer or a delay level, in the order in which they are due."""
    from rocketfsck.cli.query.facts import write_timers
    from rocketfsck.query.timers import timed_messages

    asked = line.request()
    store = asked.open()
    found = timed_messages(store, begin=line.times.begin, end=line.times.end, max_count=line.limit)
    return write_timers(asked, store, found)


by_expression.help = str(by_expression.help).replace("{fields}", ", ".join(FIELDS))

_COMMANDS = {
    "id": by_id, "offset": by_offset, "key": by_key, "unique-key": by_unique_key, "time": by_time,
    "scan": by_expression, "life": life, "offsets": offsets, "timers": timers,
}  # fmt: skip
for _name, _command in _COMMANDS.items():
    command.add_command(_command, _name)
