"""Answers that are not messages: places of a time, lives, offsets and lags.

The way to an answer, as lines and as JSON.

Where the answer of a query goes: text, or one head and rows in a machine format.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import Any

from rocketfsck.cli.output import Column, Lines, Table, of_kind
from rocketfsck.cli.query.found import FoundText, found_columns, found_row, note_of
from rocketfsck.cli.query.options import QueryRequest
from rocketfsck.cli.show.text import Palette, aligned, count_of, sentence, shorten, timestamp, visible
from rocketfsck.commands.query import BrokerTime, OffsetsFound, QueryAnswer, Scanned, TextFound
from rocketfsck.common.documents import members
from rocketfsck.common.rows import columns_of
from rocketfsck.query.answers import Answer, IndexStep, Trace, is_settled
from rocketfsck.query.life import Life, LifeEvent
from rocketfsck.query.offsets import GROUP_COUNTS, GroupOffsets, QueueOffsets
from rocketfsck.query.places import TimeAnswer
from rocketfsck.query.timers import TimedMessage

KIND, NOTE = Column("kind", "text"), Column("note", "text")
SHOWN_ENTRIES = 50
NOT_SETTLED = "the answer is incomplete: some of these messages may be stale; --via auto checks this"


def trace_lines(trace: Trace, palette: Palette, *, everything: bool = False) -> Iterator[str]:
    """How a query got to its answer, file by file; long chains are cut unless `everything` is wanted."""
    yield palette.bold("trace")
    if trace.key is not None:
        yield f"  key {visible(trace.key)}: hash {trace.key_hash}"
    for note in trace.notes:
        yield f"  {sentence(note)}"
    for step in trace.index_steps:
        yield from _step_lines(step, palette, everything)
    for scan in trace.scan_steps:
        size, found = (
            count_of(scan.end_offset - scan.start_offset, "byte"),
            count_of(scan.record_count, "message"),
        )
        yield f"  log {scan.start_offset} to {scan.end_offset} ({size}): {found} found; {sentence(scan.why)}"


def _step_lines(step: IndexStep, palette: Palette, everything: bool) -> Iterator[str]:
    times = f"{timestamp(step.begin_timestamp)} to {timestamp(step.end_timestamp)}"
    if step.skipped is not None:
        yield palette.dim(f"  {visible(step.file)}: left out, {visible(step.skipped)} ({times})")
        return
    yield f"  {visible(step.file)}: slot {step.slot} = {step.newest}, {times}"
    shown = step.entries if everything else step.entries[:SHOWN_ENTRIES]
    rows = []
    for entry in shown:
        place = (f"    entry {entry.entry}", f"offset {entry.physical_offset}")
        rows.append((*place, f"+{entry.time_diff} s", f"previous {entry.previous}", visible(entry.verdict)))
    yield from aligned(rows)
    left = len(step.entries) - len(shown)
    if left:
        yield palette.dim(f"    and {count_of(left, 'further entry')}")
    if step.ended:
        text = f"    {sentence(step.ended)}"
        yield palette.warning(text) if step.broken else palette.dim(text)


def answer_lines(answer: Answer, palette: Palette) -> Iterator[str]:
    """What is to be said of an answer after its messages."""
    if answer.why:
        paint = palette.dim if answer.found else palette.warning
        yield paint(sentence(answer.why))
    if not answer.is_complete:
        yield palette.warning(NOT_SETTLED)
    if answer.hidden:
        offsets = ", ".join(map(str, answer.hidden[:10])) + (" …" if len(answer.hidden) > 10 else "")
        what = count_of(len(answer.hidden), "message")
        yield palette.warning(f"the index does not lead to {what}, found in the log at {offsets}")
    for lead in answer.leads[:10]:
        source = f"{visible(lead.source)} points at {lead.offset}"
        yield palette.dim(f"{source}: {visible(lead.why)}")
    if len(answer.leads) > 10:
        yield palette.dim(f"and {count_of(len(answer.leads) - 10, 'further such place')}")


def trace_values(trace: Trace) -> dict[str, Any]:
    """A trace as JSON says it."""
    return {
        "key": trace.key,
        "key_hash": trace.key_hash,
        "notes": list(trace.notes),
        "index": [
            {**dict(members(step)), "entries": [dict(members(entry)) for entry in step.entries]}
            for step in trace.index_steps
        ],
        "scans": [dict(members(step)) for step in trace.scan_steps],
    }


def answer_values(answer: Answer, *, traced: bool) -> dict[str, Any]:
    """The head of an answer as JSON says it; its messages are rows."""
    head: dict[str, Any] = {
        "outcome": answer.outcome.value,
        "why": answer.why or None,
        "complete": answer.is_complete,
        "hidden": list(answer.hidden),
        "leads": [dict(members(lead)) for lead in answer.leads],
    }
    if answer.pull is not None:
        head["pull"] = dict(members(answer.pull))
    if traced and answer.trace is not None:
        head["trace"] = trace_values(answer.trace)
    return head


def write(asked: QueryRequest, answered: QueryAnswer[Any], kind: str, lines: Lines, table: Table) -> int:
    """Write an answer: `lines` as text, else the table, of which the same columns may be named several times;
    returns the exit status. In jsonl the head is the first line; csv, arrow and parquet have rows only.
    """
    answer = asked.answer
    head = {"kind": f"rocketfsck.{kind}", **table.head} if answer.form in ("json", "jsonl") else {}
    read = [asked.path, *asked.stated.commitlog_paths, *answered.store.commitlog.directories]
    rows = chain([head] if answer.form == "jsonl" else (), table.rows)
    answer.say_rows(lines, Table(tuple(dict.fromkeys(table.columns)), head, rows), read)
    return answered.exit_code


def write_answer(asked: QueryRequest, kind: str, answered: QueryAnswer[Answer]) -> int:
    """Write the messages of an answer and what is to be said of it; returns the exit status."""
    answer, root = answered.found, str(answered.store.root)

    def lines(palette: Palette) -> Iterator[str]:
        text = FoundText(asked, palette)
        for found in answer.found:
            yield from text.lines(found)
        yield from answer_lines(answer, palette)
        if asked.traced and answer.trace is not None:
            yield from trace_lines(answer.trace, palette, everything=asked.verbose)

    rows = ({"kind": "message", **found_row(found, asked.body, root)} for found in answer.found)
    head = answer_values(answer, traced=asked.traced)
    return write(asked, answered, kind, lines, Table((KIND, *found_columns(asked.body)), head, rows))


def write_found(asked: QueryRequest, scanned: Scanned) -> int:
    """Write messages as they are found, then whose content could not be read; returns how many were found."""
    root = str(scanned.store.root)
    count = 0

    def lines(palette: Palette) -> Iterator[str]:
        nonlocal count
        text = FoundText(asked, palette)
        for item in scanned.found:
            count += 1
            yield from text.lines(item)
        if not count:
            yield palette.dim("nothing matches")

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal count
        for item in scanned.found:
            count += 1
            yield {"kind": "message", **found_row(item, asked.body, root)}
        if asked.answer.form in ("json", "jsonl"):
            for reason, number in sorted(scanned.unread.items()):
                yield {"kind": "unread", "reason": reason, "message_count": number}

    table = Table((KIND, *found_columns(asked.body)), {"expression": scanned.expression}, rows())
    write(asked, QueryAnswer(scanned.store, None, 0), "query.scan", lines, table)
    return count


NAME_SHOWN = 48


def write_time(asked: QueryRequest, answered: QueryAnswer[TimeAnswer] | QueryAnswer[BrokerTime]) -> int:
    """The place of a time in a queue, or what a broker answers; JSON has it as the head. Returns the exit
    status."""
    found = answered.found
    row = dict(members(found))
    if isinstance(found, BrokerTime):
        lines: Lines = lambda _palette: (str(row["offset"]),)  # noqa: E731
    else:
        row["outcome"] = found.outcome.value
        lines = partial(_time_lines, found)
    rows = [] if asked.answer.form in ("json", "jsonl") else [row]
    return write(asked, answered, "query.time", lines, Table(columns_of(type(found)), row, rows))


def _time_lines(answer: TimeAnswer, palette: Palette) -> Iterator[str]:
    if answer.why:
        yield palette.warning(sentence(answer.why))
        return
    yield f"lower {answer.lower}{_at(answer.lower_timestamp)}"
    upper = "none" if answer.upper is None else str(answer.upper)
    yield f"upper {upper}{_at(answer.upper_timestamp)}"
    yield palette.dim(f"the queue has {answer.min_offset} to {answer.max_offset}, half-open")
    if answer.gone_count:
        yield palette.warning(f"{count_of(answer.gone_count, 'unit')} looked at led to no record")


def _at(stored: int | None) -> str:
    return "" if stored is None else f"  stored {timestamp(stored)}"


def write_life(asked: QueryRequest, answered: QueryAnswer[Life]) -> int:
    """A message's records and timeline; returns the exit status."""
    life, root = answered.found, str(answered.store.root)

    def lines(palette: Palette) -> Iterator[str]:
        if life.why:
            yield palette.warning(sentence(life.why))
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
                sentence(event.text),
                "" if event.offset is None else f"(record at {event.offset})",
            )
            for event in life.events
        )

    def rows() -> Iterator[dict[str, Any]]:
        for found in life.records:
            entries = [asdict(place) for place in life.index.get(found.offset, ())]
            row = found_row(found, asked.body, root)
            yield {"kind": "record", **row, "note": note_of(found), "index": entries}
        for event in life.events:
            yield {"kind": "event", **{"event" if k == "kind" else k: v for k, v in asdict(event).items()}}

    head = {
        "outcome": life.outcome.value,
        "why": life.why or None,
        "complete": is_settled(life.records),
        "unique_key": life.unique_key,
    }
    columns = (KIND, *found_columns(asked.body), NOTE, Column("index", "json"))
    table = Table((*columns, *columns_of(LifeEvent, kind="event")), head, rows())
    return write(asked, answered, "query.life", lines, table)


def write_offsets(asked: QueryRequest, answered: QueryAnswer[OffsetsFound]) -> int:
    """Queues and groups; returns the exit status."""
    queues, groups, problem = answered.found.queues, answered.found.groups, answered.found.problem

    def lines(palette: Palette) -> Iterator[str]:
        if problem is not None:
            yield palette.warning(sentence(problem))
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
            more = {"standing": row.standing.value, **{name: getattr(row, name) for name in GROUP_COUNTS}}
            yield {"kind": "group", **asdict(row), **more}

    head = {"outcome": "found" if queues or groups else "not-found", "why": problem}
    columns = (KIND, *columns_of(QueueOffsets, kind="queue_kind"), *columns_of(GroupOffsets))
    table = Table((*columns, *of_kind("int", "count", *GROUP_COUNTS)), head, rows())
    return write(asked, answered, "query.offsets", lines, table)


def _queue_cells(queues: Iterable[QueueOffsets]) -> Iterator[tuple[str, ...]]:
    yield "  topic", "queue_id", "min_offset", "max_offset", "messages", "first stored", "last stored", ""
    for queue in queues:
        numbers = (queue.queue_id, queue.min_offset, queue.max_offset, queue.count)
        times = (queue.first_timestamp, queue.last_timestamp)
        yield (
            "  " + shorten(visible(queue.topic), NAME_SHOWN),
            *map(str, numbers),
            *("" if time is None else timestamp(time) for time in times),
            f"{count_of(queue.stale_count, 'stale unit')} after the end" if queue.stale_count else "",
        )


def _group_cells(groups: Iterable[GroupOffsets]) -> Iterator[tuple[str, ...]]:
    yield "  group", "topic", "queue_id", "offset", "max_offset", "lag", ""
    for row in groups:
        odd = "" if row.standing.value == "inside" else row.standing.value
        lost = f", {count_of(row.lost_count, 'message')} lost" if row.lost_count else ""
        group, topic = (shorten(visible(name), NAME_SHOWN) for name in (row.group, row.topic))
        numbers = map(str, (row.queue_id, row.offset, row.max_offset, row.lag))
        yield f"  {group}", topic, *numbers, odd + lost


def write_evidence(asked: QueryRequest, answered: QueryAnswer[TextFound]) -> int:
    """What a text is, each with its messages; returns the exit status."""
    text, found, root = answered.found.text, answered.found.evidence, str(answered.store.root)
    shown, log_line = shorten(visible(text), NAME_SHOWN), shlex.join(["rocketfsck", "explain", text])

    def lines(palette: Palette) -> Iterator[str]:
        for item in found:
            yield palette.bold(f"{shown} is {sentence(item.says)}")
            messages = FoundText(asked, palette)
            for message in item.found:
                yield from messages.lines(message)
            if item.command:
                yield f"  next: {sentence(shlex.join(['rocketfsck', *item.command]))}"
        if not found:
            yield palette.warning(f"nothing in this store is {shown}")
            yield f"a line of a broker's log, or a rule: {sentence(log_line)}"

    def rows() -> Iterator[dict[str, Any]]:
        for item in found:
            said = {name: value for name, value in members(item) if name != "found"}
            said["command"] = shlex.join(["rocketfsck", *item.command]) if item.command else None
            yield {"kind": "evidence", **said}
            for message in item.found:
                row = found_row(message, asked.body, root)
                yield {"kind": "message", "reading": item.reading, **row, "note": note_of(message)}

    head = {"outcome": "found" if found else "not-found", "text": text}
    columns = (
        *of_kind("text", "kind", "reading", "says"),
        Column("count", "int"),
        Column("is_counted", "bool"),
    )
    columns += (Column("command", "text"), *found_columns(asked.body), NOTE)
    return write(asked, answered, "find", lines, Table(columns, head, rows()))


def write_timers(asked: QueryRequest, answered: QueryAnswer[tuple[TimedMessage, ...]]) -> int:
    """The messages that wait for a timer or a delay level; returns the exit status."""
    messages = answered.found

    def lines(palette: Palette) -> Iterator[str]:
        if not messages:
            yield palette.dim("no message waits for a timer or a delay level")
            return
        yield from aligned(_timer_cells(messages), right=(3, 4))

    rows = ({"kind": "timer", **asdict(message)} for message in messages)
    head = {"outcome": "found" if messages else "not-found"}
    return write(asked, answered, "query.timers", lines, Table((KIND, *columns_of(TimedMessage)), head, rows))


def _timer_cells(messages: Iterable[TimedMessage]) -> Iterator[tuple[str, ...]]:
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
