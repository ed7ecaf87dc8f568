"""`rocketfsck query …`: messages by id, queue offset, key, time and content; their lives; offsets, lags."""

from __future__ import annotations

from typing import Any

import click

from rocketfsck.cli.base import Command
from rocketfsck.cli.options import as_broker_option, limit_option, physical_offset_option, time_options
from rocketfsck.cli.paramtypes import Timestamp
from rocketfsck.cli.query.options import (
    NOT_FOUND_CODE,
    QueryGroup,
    QueryRequest,
    asked_options,
    asked_view,
    exit_code,
    message_options,
    quiet_terminal,
    state_option,
    store_argument,
    trace_option,
    via_option,
    window_options,
)
from rocketfsck.cli.settings import common_options
from rocketfsck.errors import EXIT_OPERATIONAL, UsageError
from rocketfsck.query.content.expression import FIELDS


@click.group(cls=QueryGroup)
@common_options
def command() -> None:
    """Find messages as a broker would, and where a broker would not: offline, without a limit, with the way
    to the answer.

    Exit status: 0 found, 4 not found (an unknown topic, too; or hidden by the index, with --via both), 16 no
    message id, 64 an id that leads to two messages; 8 is added where the answer is incomplete.
    """


@command.command("id", cls=Command)
@store_argument
@click.argument("message_id", metavar="MSGID")
@click.option(
    "--as",
    "reading",
    type=click.Choice(["either", "offset", "unique"]),
    default="either",
    help="Which kind of id it is; both kinds look alike.",
)
@via_option
@as_broker_option
@trace_option
@message_options
@asked_options
@common_options
def by_id(message_id: str, reading: Any, via: Any, as_broker: str | None, **given: Any) -> int:
    """Find the message with an offset message id or a unique id."""
    from rocketfsck.cli.query.writing import write_answer
    from rocketfsck.query.ids import check_id, find_by_id

    check_id(message_id)
    asked = QueryRequest(**given)
    store = asked.open()
    if as_broker is not None:
        from rocketfsck.query.serving.broker import BrokerView
        from rocketfsck.query.serving.mimic import broker_by_id

        with BrokerView(store, as_broker) as asker:
            answer = broker_by_id(asker, message_id)
    else:
        with asked_view(store, via) as view:
            answer = find_by_id(store, message_id, reading=reading, via=via, view=view)
    write_answer(asked, store, "rocketfsck.query.id", answer)
    return exit_code(answer.outcome, answer.found)


@command.command("offset", cls=Command)
@store_argument
@click.argument("topic")
@click.argument("queue_id", metavar="QUEUE", type=int)
@click.argument("queue_offset", metavar="OFFSET", type=int)
@limit_option(1)
@via_option
@as_broker_option
@state_option
@trace_option
@message_options
@asked_options
@common_options
def by_offset(
    topic: str,
    queue_id: int,
    queue_offset: int,
    limit: int,
    via: Any,
    as_broker: str | None,
    state: Any,
    **given: Any,
) -> int:
    """Find the message at a queue offset of a topic's queue."""
    from rocketfsck.cli.query.writing import write_answer
    from rocketfsck.query.tiered import find_by_offset

    asked = QueryRequest(**given)
    store = asked.open()
    if as_broker is not None:
        from rocketfsck.query.serving.broker import BrokerView
        from rocketfsck.query.serving.mimic import broker_by_offset

        with BrokerView(store, as_broker, state=state) as asker:
            answer = broker_by_offset(asker, topic, queue_id, queue_offset, limit)
    else:
        with asked_view(store, via) as view:
            answer = find_by_offset(store, topic, queue_id, queue_offset, via=via, view=view)
    write_answer(asked, store, "rocketfsck.query.offset", answer)
    hidden = via == "both" and bool(answer.hidden)
    return exit_code(answer.outcome, answer.found) | (NOT_FOUND_CODE if hidden else 0)


def _by_key(topic: str, key: str, *, unique: bool = False, tag: bool = False, **given: Any) -> int:
    from rocketfsck.cli.query.writing import write_answer
    from rocketfsck.query.tiered import find_by_key

    names = ("begin", "end", "limit", "via", "as_broker")
    begin, end, limit, via, as_broker = (given.pop(name) for name in names)
    asked = QueryRequest(**given)
    store = asked.open()
    window = {
        name: value
        for name, value in (("begin_timestamp", begin), ("end_timestamp", end), ("max_count", limit))
        if value is not None
    }
    if as_broker is not None:
        from rocketfsck.query.serving.broker import BrokerView
        from rocketfsck.query.serving.mimic import broker_by_key

        with BrokerView(store, as_broker) as asker:
            answer = broker_by_key(asker, topic, key, unique=unique, tag=tag, **window)
    else:
        with asked_view(store, via) as view:
            answer = find_by_key(
                store,
                topic,
                key,
                unique=unique,
                tag=tag,
                via=via,
                max_body_size=asked.max_body_size,
                view=view,
                **window,
            )
    write_answer(asked, store, "rocketfsck.query.key", answer)
    hidden = via == "both" and bool(answer.hidden)
    return exit_code(answer.outcome, answer.found) | (NOT_FOUND_CODE if hidden else 0)


@command.command("key", cls=Command)
@store_argument
@click.argument("topic")
@click.argument("key")
@click.option(
    "--type",
    "kind",
    type=click.Choice(["key", "tag"]),
    default="key",
    show_default=True,
    help="key: KEY is among KEYS or the UNIQ_KEY. tag: KEY is all of TAGS, which brokers index since 5.4.0.",
)
@window_options
@via_option
@as_broker_option
@trace_option
@message_options
@asked_options
@common_options
def by_key(topic: str, key: str, kind: str, **given: Any) -> int:
    """Find the messages of a topic with a key, among KEYS or as UNIQ_KEY; or with these tags."""
    return _by_key(topic, key, tag=kind == "tag", **given)


@command.command("unique-key", cls=Command)
@store_argument
@click.argument("topic")
@click.argument("key")
@window_options
@via_option
@as_broker_option
@trace_option
@message_options
@asked_options
@common_options
def by_unique_key(topic: str, key: str, **given: Any) -> int:
    """Find the messages of a topic with this UNIQ_KEY."""
    return _by_key(topic, key, unique=True, **given)


@command.command("time", cls=Command)
@store_argument
@click.argument("topic")
@click.argument("queue_id", metavar="QUEUE", type=int)
@click.argument("timestamp", type=Timestamp())
@click.option(
    "--boundary",
    type=click.Choice(["lower", "upper"]),
    default="lower",
    help="With --as-broker: the first message of that time or later, or the last one until then.",
)
@as_broker_option
@state_option
@asked_options
@common_options
def by_time(
    topic: str,
    queue_id: int,
    timestamp: int,
    boundary: Any,
    as_broker: str | None,
    state: Any,
    **given: Any,
) -> int:
    """Find the queue offset of a time, as consumers seek."""
    from rocketfsck.cli.query.facts import write_broker_time, write_time
    from rocketfsck.query.places import find_by_time

    asked = QueryRequest(**given)
    store = asked.open()
    if as_broker is not None:
        from rocketfsck.query.serving.broker import BrokerView

        with BrokerView(store, as_broker, state=state) as view:
            found = view.offset_in_queue_by_time(topic, queue_id, timestamp, boundary)
            write_broker_time(asked, store, found, str(view.version), view.state)
        return 0
    answer = find_by_time(store, topic, queue_id, timestamp)
    write_time(asked, store, answer)
    return exit_code(answer.outcome)


@command.command("scan", cls=Command)
@store_argument
@click.argument("expression")
@limit_option()
@physical_offset_option
@message_options
@asked_options
@common_options
def by_expression(
    expression: str,
    limit: int | None,
    physical_offsets: tuple[int, int] | None,
    **given: Any,
) -> int:
    """Find messages by an expression over their fields and bodies.

    Like: topic == "Order" and (tags in ("a", "b") or body ~ /pay(ed|ing)/i) and store_timestamp >=
    "2024-05-17T08:00". Fields: {fields} (the body, decompressed), properties.NAME. Tests:
    == != < <= > >=, in (…), contains, ~ and !~ with a pattern; and, or, not, parentheses.

    If a content cannot be decompressed, the query searches it as stored and adds exit status 8; so it does
    for bodies and contents above 64 MiB, of which it searches nothing and the first 64 MiB.
    """
    from rocketfsck.cli.query.writing import write_found
    from rocketfsck.cli.show.text import count_of
    from rocketfsck.query.content.evaluate import Expression
    from rocketfsck.query.content.scanning import find_by_expression
    from rocketfsck.scan.views.messages import MAX_BODY_SIZE

    wanted = Expression(expression)
    start_offset, end_offset = physical_offsets or (0, None)
    asked = QueryRequest(**given)
    store = asked.open()
    with quiet_terminal(asked):
        found = find_by_expression(
            store,
            wanted,
            max_count=limit,
            start_offset=start_offset,
            end_offset=end_offset,
            max_body_size=MAX_BODY_SIZE if wanted.needs_body else asked.max_body_size,
        )
        count = write_found(asked, store, "rocketfsck.query.scan", wanted, found)
    for reason, number in sorted(wanted.unread.items()):
        what = f"the content of {count_of(number, 'message')} could not be searched as a whole: {reason}"
        click.echo(f"Note: {what}; the answer is not complete", err=True)
    return (0 if count else NOT_FOUND_CODE) | (EXIT_OPERATIONAL if wanted.unread else 0)


by_expression.help = str(by_expression.help).replace("{fields}", ", ".join(FIELDS))


@command.command("life", cls=Command)
@store_argument
@click.argument("name", metavar="MSGID|UNIQKEY")
@via_option
@message_options
@asked_options
@common_options
def life(name: str, via: Any, **given: Any) -> int:
    """Show the life of one message: its records in all topics, its queues and index entries, its
    transaction, delay, retries, dead letter, pops, and who has consumed it.
    """
    from rocketfsck.cli.query.facts import write_life
    from rocketfsck.query.life import message_life

    if not name:
        raise UsageError("a message id or unique key needs at least one character")
    asked = QueryRequest(**given)
    store = asked.open()
    with asked_view(store, via) as view:
        found = message_life(store, name, via=via, view=view)
    write_life(asked, store, found)
    return exit_code(found.outcome, found.records)


@command.command("offsets", cls=Command)
@store_argument
@click.option("--topic", help="Only this topic.")
@click.option("--group", help="Only this consumer group.")
@asked_options
@common_options
def offsets(topic: str | None, group: str | None, **given: Any) -> int:
    """Show the bounds of every queue, and the position of each consumer group."""
    from rocketfsck.cli.query.facts import write_offsets

    asked = QueryRequest(**given)
    return write_offsets(asked, asked.open(), topic, group)


@command.command("timers", cls=Command)
@store_argument
@time_options
@limit_option()
@asked_options
@common_options
def timers(begin: int | None, end: int | None, limit: int | None, **given: Any) -> int:
    """List the messages that wait for a timer or a delay level, in the order in which they are due."""
    from rocketfsck.cli.query.facts import write_timers
    from rocketfsck.query.timers import timed_messages

    asked = QueryRequest(**given)
    store = asked.open()
    return write_timers(asked, store, timed_messages(store, begin=begin, end=end, max_count=limit))
