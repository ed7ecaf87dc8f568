"""`rocketfsck extract`: a part of a store as a small store that a broker mounts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from rocketfsck.cli.adapter import Formats, WritingCommand, command_of
from rocketfsck.cli.output import Destination
from rocketfsck.cli.show.start import verdict_lines
from rocketfsck.cli.show.text import aligned, byte_size, count_of, visible
from rocketfsck.commands.extract import ExtractCommand, extract
from rocketfsck.common.documents import to_document
from rocketfsck.common.options import PutAfter

if TYPE_CHECKING:
    from rocketfsck.repair.convert.model import ExtractDocument

SHOWN = 20
"""Queues that the text lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractLine(ExtractCommand):
    """What is cut out, and where the answer goes."""

    answer: Annotated[Destination, PutAfter("no_sync"), Formats(("text", "json"))]


@command_of(ExtractLine, timing="extract", cls=WritingCommand, advisory=("commitlog_file_size", "no_sync"))
def command(line: ExtractLine) -> int:
    """Cut topics, a queue or a time window out of a store, as a small store that a broker mounts; extract
    only reads the STORE.

    Queue offsets stay, so that consumers, tools and notes find a message where it was; physical offsets and
    offset message ids change. The topics' settings, the groups that consume them and their committed offsets
    come along. RocketMQ's own topics and those of messages to be retried come only if --topic names them. In
    a time window each queue has all messages from the first in the window to the last. Timers, compacted logs
    and tiered storage stay behind; the answer names what does.

    The store must be stopped, and undamaged where it is read. The new store appears after the proof that it
    has the same records and that a check finds nothing. Memory: 100 bytes a record that is wanted.

    Exit status 4 means that a predicted start fails or loses something.
    """
    made = extract(line)
    line.answer.say(lambda: to_document(made), lambda _: _lines(made), (line.path,))
    return made.exit_code


def _lines(made: ExtractDocument) -> Iterator[str]:
    yield (
        f"Cut out {count_of(made.record_count, 'record')} of {count_of(len(made.queues), 'queue')}, "
        f"{byte_size(made.record_byte_count)}; queue offsets are as before"
    )
    yield from aligned(_queue_cells(made), right=(1, 2, 3, 4))
    if len(made.queues) > SHOWN:
        yield f"  and {len(made.queues) - SHOWN:,} more queues (--format json has them all)"
    yield "  the same records, but for physical offsets; a check finds nothing wrong"
    if made.light_queue_count:
        yield f"  {count_of(made.light_queue_count, 'light queue')} with them, queue offsets as before"
    if made.outside_count:
        yield (
            f"  {count_of(made.outside_count, 'record')} between others of a queue, with another "
            "storeTimestamp than asked for"
        )
    if made.moved_count:
        yield f"  {count_of(made.moved_count, 'committed offset')} moved into the queues"
    for queue in made.queues_left_out[:SHOWN]:
        yield (
            f"  without queue {queue.queue_id} of {visible(queue.topic)}, which has none of the messages: "
            f"new messages get queue offsets from 0, not {queue.next_queue_offset}"
        )
    if len(made.queues_left_out) > SHOWN:
        yield f"  without {len(made.queues_left_out) - SHOWN:,} more queues (--format json has them all)"
    for part in made.parts_left_out:
        yield f"  without {visible(part.path)}: {visible(part.reason)}"
    yield f"Written: {visible(str(made.into))}"
    yield from (f"  {line}" for line in verdict_lines(made.starts))
    repeated = max((start.timer_repeated_count for start in made.starts), default=0)
    if repeated:
        yield f"  a broker delivers {count_of(repeated, 'timer message')} again"


def _queue_cells(made: ExtractDocument) -> Iterator[tuple[str, ...]]:
    yield "  topic", "queue_id", "min_offset", "max_offset", "messages"
    for queue in made.queues[:SHOWN]:
        yield (
            f"  {visible(queue.topic)}",
            str(queue.queue_id),
            str(queue.first_queue_offset),
            str(queue.end_queue_offset),
            f"{queue.taken_count:,}",
        )
