"""Answers that are not messages: places of a time, lives, offsets and lags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rocketfsck.cli.output import Column
from rocketfsck.cli.query.found import FoundText, found_columns, found_row, note_of
from rocketfsck.cli.query.options import FOUND_CODE, NOT_FOUND_CODE, QueryRequest
from rocketfsck.cli.query.traces import NOT_SETTLED
from rocketfsck.cli.query.writing import Lines, write
from rocketfsck.cli.show.table import aligned
from rocketfsck.cli.show.text import Palette, count_of, shorten, timestamp, visible
from rocketfsck.common.rows import columns_of
from rocketfsck.errors import EXIT_OPERATIONAL, FormatError
from rocketfsck.query.answers import is_settled
from rocketfsck.query.life import Life, LifeEvent
from rocketfsck.query.offsets import GroupOffsets, QueueOffsets, group_offsets, queue_offsets
from rocketfsck.query.places import TimeAnswer
from rocketfsck.query.timers import TimedMessage
from rocketfsck.query.view import StoreView
from rocketfsck.store import Store

NAME_SHOWN = 48


def write_time(asked: QueryRequest, store: Store, answer: TimeAnswer) -> None:
    """The place of a time in a queue."""
    answer = asked.masked(answer)

    def lines(palette: Palette) -> Iterator[str]:
        if answer.why:
            yield palette.warning(visible(answer.why, keep_backslash=True))
            return
        yield f"lower {answer.lower}{_at(answer.lower_timestamp)}"
        upper = "none" if answer.upper is None else str(answer.upper)
        yield f"upper {upper}{_at(answer.upper_timestamp)}"
        yield palette.dim(f"the queue has {answer.min_offset} to {answer.max_offset}, half-open")
        if answer.gone_count:
            yield palette.warning(f"{count_of(answer.gone_count, 'unit')} looked at led to no record")

    row = {**asdict(answer), "outcome": answer.outcome.value}
    _write_one(asked, store, "rocketfsck.query.time", lines, row, columns_of(TimeAnswer))


def _write_one(
    asked: QueryRequest,
    store: Store,
    kind: str,
    lines: Lines,
    said: Mapping[str, Any],
    columns: Sequence[Column],
) -> None:
    """Write an answer that is one row: JSON has it as the head."""
    rows = [] if asked.answer.form in ("json", "jsonl") else [said]
    write(asked, store, kind, lines, lambda: said, columns, rows)


def _at(stored: int | None) -> str:
    return "" if stored is None else f"  stored {timestamp(stored)}"


def write_broker_time(asked: QueryRequest, store: Store, offset: int, version: str, state: str) -> None:
    """What a broker answers for a time, and in which state of the store."""

    def lines(_palette: Palette) -> Iterator[str]:
        yield str(offset)

    head = {"outcome": "found", "offset": offset, "broker": version, "state": state}
    columns = [Column(name, "int" if name == "offset" else "text") for name in head]
    _write_one(asked, store, "rocketfsck.query.time", lines, head, columns)


def write_life(asked: QueryRequest, store: Store, life: Life) -> None:
    """A message's records and timeline."""
    root = str(store.root)
    life = asked.masked(life)

    def lines(palette: Palette) -> Iterator[str]:
        if life.why:
            yield palette.warning(visible(life.why, keep_backslash=True))
        if life.records:
            named = f" with the unique key {visible(life.unique_key)}" if life.unique_key else ""
            yield palette.bold(f"{count_of(len(life.records), 'record')} of the message{named}")
        text = FoundText(asked, palette)
        for found in life.records:
            yield from text.lines(found)
            for place in life.index.get(found.offset, ()):
                where = f"{visible(place.file)} slot {place.slot} entry {place.entry}"
                yield palette.dim(f"    key {shorten(visible(place.key), NAME_SHOWN)}: {where}")
        if not is_settled(life.records):
            yield palette.warning(NOT_SETTLED)
        if life.events:
            yield palette.bold("timeline")
        yield from aligned(
            (
                "  " + ("" if event.timestamp is None else timestamp(event.timestamp)),
                event.kind,
                visible(event.text, keep_backslash=True),
                "" if event.offset is None else f"(record at {event.offset})",
            )
            for event in life.events
        )

    def rows() -> Iterator[dict[str, Any]]:
        for found in life.records:
            entries = [asdict(place) for place in life.index.get(found.offset, ())]
            yield {
                "kind": "record",
                **found_row(found, asked.body, root),
                "note": note_of(found),
                "index": entries,
            }
        for event in life.events:
            yield {"kind": "event", **{"event" if k == "kind" else k: v for k, v in asdict(event).items()}}

    head = {
        "outcome": life.outcome.value,
        "why": life.why or None,
        "complete": is_settled(life.records),
        "unique_key": life.unique_key,
    }
    columns = dict.fromkeys(
        (
            Column("kind", "text"),
            *found_columns(asked.body),
            Column("note", "text"),
            Column("index", "json"),
            *columns_of(LifeEvent, kind="event"),
        )
    )
    write(asked, store, "rocketfsck.query.life", lines, lambda: head, list(columns), rows())


def write_offsets(asked: QueryRequest, store: Store, topic: str | None, group: str | None) -> int:
    """Queues and groups; returns the exit status.

    A config file that cannot be used takes the groups away, not the queues.
    """
    groups: list[GroupOffsets] = []
    problem = None
    with StoreView(store) as view:
        queues = [] if group is not None else list(queue_offsets(store, topic=topic, view=view))
        try:
            groups = group_offsets(store, topic=topic, group=group, view=view)
        except FormatError as error:
            problem = f"no groups: a file in config/ cannot be used: {error}"
    queues, groups = asked.masked(queues), asked.masked(groups)

    def lines(palette: Palette) -> Iterator[str]:
        if problem is not None:
            yield palette.warning(visible(problem, keep_backslash=True))
        elif not queues and not groups:
            yield palette.warning("no such queue or group")
        if queues:
            yield palette.bold("queues")
            yield from aligned(_queue_cells(queues), right=(1, 2, 3, 4))
        if groups:
            yield palette.bold("groups")
            yield from aligned(_group_cells(groups), right=(2, 3, 4, 5))

    def rows() -> Iterator[dict[str, Any]]:
        for queue in queues:
            values = {"queue_kind" if k == "kind" else k: v for k, v in asdict(queue).items()}
            yield {"kind": "queue", **values, "count": queue.count}
        for row in groups:
            more = {"standing": row.standing.value, "lag": row.lag, "lost_count": row.lost_count}
            yield {"kind": "group", **asdict(row), **more}

    head = {"outcome": "found" if queues or groups else "not-found", "why": problem}
    columns = dict.fromkeys(
        (
            Column("kind", "text"),
            *columns_of(QueueOffsets, kind="queue_kind"),
            *columns_of(GroupOffsets),
            *(Column(name, "int") for name in ("count", "lag", "lost_count")),
        )
    )
    write(asked, store, "rocketfsck.query.offsets", lines, lambda: head, list(columns), rows())
    if problem is not None:
        return EXIT_OPERATIONAL
    return FOUND_CODE if queues or groups else NOT_FOUND_CODE


def _queue_cells(queues: list[QueueOffsets]) -> Iterator[tuple[str, ...]]:
    yield "  topic", "queue_id", "min_offset", "max_offset", "messages", "first stored", "last stored", ""
    for queue in queues:
        yield (
            "  " + shorten(visible(queue.topic), NAME_SHOWN),
            str(queue.queue_id),
            str(queue.min_offset),
            str(queue.max_offset),
            str(queue.count),
            "" if queue.first_timestamp is None else timestamp(queue.first_timestamp),
            "" if queue.last_timestamp is None else timestamp(queue.last_timestamp),
            f"{count_of(queue.stale_count, 'stale unit')} after the end" if queue.stale_count else "",
        )


def _group_cells(groups: list[GroupOffsets]) -> Iterator[tuple[str, ...]]:
    yield "  group", "topic", "queue_id", "offset", "max_offset", "lag", ""
    for row in groups:
        odd = "" if row.standing.value == "inside" else row.standing.value
        lost = f", {count_of(row.lost_count, 'message')} lost" if row.lost_count else ""
        yield (
            "  " + shorten(visible(row.group), NAME_SHOWN),
            shorten(visible(row.topic), NAME_SHOWN),
            str(row.queue_id),
            str(row.offset),
            str(row.max_offset),
            str(row.lag),
            odd + lost,
        )


def write_timers(asked: QueryRequest, store: Store, found: Iterable[TimedMessage]) -> int:
    """The messages that wait for a timer or a delay level; returns the exit status."""
    messages = asked.masked(list(found))

    def lines(palette: Palette) -> Iterator[str]:
        if not messages:
            yield palette.dim("no message waits for a timer or a delay level")
            return
        yield from aligned(_timer_cells(messages), right=(3, 4))

    def rows() -> Iterator[dict[str, Any]]:
        for message in messages:
            yield {"kind": "timer", **asdict(message)}

    head = {"outcome": "found" if messages else "not-found"}
    columns = (Column("kind", "text"), *columns_of(TimedMessage))
    write(asked, store, "rocketfsck.query.timers", lines, lambda: head, columns, rows())
    return FOUND_CODE if messages else NOT_FOUND_CODE


def _timer_cells(messages: list[TimedMessage]) -> Iterator[tuple[str, ...]]:
    yield "due", "action", "topic", "queue_id", "physical_offset", "unique_key", ""
    for message in messages:
        more = "the record cannot be read" if message.topic is None else ""
        if message.recalled_key is not None:
            more = f"recalls {shorten(visible(message.recalled_key), NAME_SHOWN)}"
        elif message.delay_level is not None and message.topic is not None:
            more = f"delay level {message.delay_level}"
        elif message.deliver_timestamp not in (None, message.due_timestamp):
            more = f"delivered {timestamp(message.deliver_timestamp or 0)}"
        yield (
            timestamp(message.due_timestamp),
            message.action.value,
            shorten(visible(message.topic or "?"), NAME_SHOWN),
            "?" if message.queue_id is None else str(message.queue_id),
            str(message.physical_offset),
            visible(message.unique_key or ""),
            more,
        )
