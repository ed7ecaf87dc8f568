"""What a store held at a time in the past, as text and as rows, one for each queue: `query as-of`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict

from rocketfsck.cli.output import Column
from rocketfsck.cli.query.facts import NAME_SHOWN, write
from rocketfsck.cli.query.options import QueryRequest
from rocketfsck.cli.show.text import Palette, aligned, count_of, shorten, timestamp, visible
from rocketfsck.commands.query import QueryAnswer
from rocketfsck.common.rows import columns_of
from rocketfsck.query.asof import QueueThen, StoreThen


def write_as_of(asked: QueryRequest, answered: QueryAnswer[StoreThen]) -> int:
    """The log and the queues of then; returns the exit status."""
    found = answered.found
    head = {
        "outcome": "found" if found.queues else "not-found",
        "timestamp": found.timestamp,
        "start_offset": found.start_offset,
        "end_offset": found.end_offset,
        "next_timestamp": found.next_timestamp,
    }
    write(
        asked,
        answered.store,
        "rocketfsck.query.as-of",
        lambda palette: _lines(found, palette),
        lambda: head,
        [*columns_of(QueueThen), Column("count", "int")],
        ({**asdict(queue), "count": queue.count} for queue in found.queues),
    )
    return answered.exit_code


def _lines(found: StoreThen, palette: Palette) -> Iterator[str]:
    size = count_of(found.end_offset - found.start_offset, "byte")
    text = (
        f"as of {timestamp(found.timestamp)}: commit log {found.start_offset} to {found.end_offset} ({size})"
    )
    if found.next_timestamp is None:
        text += "; nothing was stored later"
    else:
        text += f"; the next message was stored at {timestamp(found.next_timestamp)}"
    yield text
    if not found.queues:
        yield palette.warning("no message of then is in a queue")
        return
    yield palette.bold("queues")
    yield from aligned(_cells(found.queues), right=(1, 2, 3, 4, 5))


def _cells(queues: Iterable[QueueThen]) -> Iterator[tuple[str, ...]]:
    yield "  topic", "queue", "min", "max", "messages", "waiting", "first stored", "last stored"
    for queue in queues:
        yield (
            "  " + shorten(visible(queue.topic), NAME_SHOWN),
            str(queue.queue_id),
            f"{queue.min_offset}",
            f"{queue.max_offset}",
            f"{queue.count:,}",
            f"{queue.waiting_count:,}" if queue.waiting_count else "-",
            *("?" if at is None else timestamp(at) for at in (queue.first_timestamp, queue.last_timestamp)),
        )
