"""What retention deletes, as text and as rows: `query retention`.

    kind "file"     a commit log file, with when it expires and when a broker deletes it
    kind "group"    messages in such a file that a group has not consumed
    kind "disk"     a use of the disk, with what a broker does from there on, and when it is reached

The head has the settings; of a table only rows are written. Times are those of a broker that runs.

What a store held at a time in the past, as text and as rows, one for each queue: `query as-of`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from rocketfsck.cli.output import Column, Table
from rocketfsck.cli.query.facts import KIND, NAME_SHOWN, write
from rocketfsck.cli.query.options import QueryRequest
from rocketfsck.cli.show.text import Palette, aligned, count_of, sentence, shorten, timestamp, visible
from rocketfsck.commands.query import QueryAnswer
from rocketfsck.common.rows import columns_of
from rocketfsck.query import retention
from rocketfsck.query.offsets import QueueThen, StoreThen


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
    rows = ({**asdict(queue), "count": queue.count} for queue in found.queues)
    table = Table((*columns_of(QueueThen), Column("count", "int")), head, rows)
    return write(asked, answered, "query.as-of", partial(_lines_of_queue, found), table)


def _lines_of_queue(found: StoreThen, palette: Palette) -> Iterator[str]:
    size = count_of(found.end_offset - found.start_offset, "byte")
    log = f"commit log {found.start_offset} to {found.end_offset} ({size})"
    text = f"as of {timestamp(found.timestamp)}: {log}"
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


EFFECTS: dict[retention.Effect, str] = {
    "deletes-early": "the broker deletes expired files at every hour",
    "deletes-unexpired": "the broker deletes the oldest files, expired or not",
    "refuses-messages": "the broker takes no messages",
    "full": "the disk is full",
}


def write_retention(asked: QueryRequest, answered: QueryAnswer[retention.Retention]) -> int:
    """Files, groups and the disk; returns the exit status."""
    found = answered.found
    rules = found.rules

    def rows() -> Iterator[dict[str, Any]]:
        yield from ({"kind": "file", **asdict(file)} for file in found.files)
        yield from ({"kind": "group", **asdict(item)} for item in found.unconsumed)
        yield from ({"kind": "disk", **asdict(level)} for level in found.levels)

    head = {
        "outcome": "found" if len(found.files) > 1 else "not-found",
        "why": found.problem,
        "reserved_hours": rules.reserved_hours,
        "delete_hours": list(rules.delete_hours),
        "max_used_percent": rules.max_used_percent,
        "time_zone": str(rules.zone),
        "now_timestamp": rules.now_timestamp,
        "growth_per_day": found.growth_per_day,
    }
    kinds = (retention.FileRetention, retention.UnconsumedMessages, retention.DiskLevel)
    table = Table((KIND, *(item for kind in kinds for item in columns_of(kind))), head, rows())
    return write(asked, answered, "query.retention", partial(_lines, found), table)


def _lines(found: retention.Retention, palette: Palette) -> Iterator[str]:
    yield from _settings(found.rules, palette)
    if found.problem is not None:
        yield palette.warning(sentence(found.problem))
    if len(found.files) < 2:
        yield palette.dim("no file to delete: a broker keeps the last one")
    else:
        yield palette.bold("files")
        yield from aligned(_file_cells(found.files), right=(1,))
    if found.unconsumed:
        yield palette.bold("deleted before they are consumed")
        yield from aligned(_group_cells(found.unconsumed), right=(3,))
    if found.growth_per_day is None:
        yield "growth: unknown, since two files with messages are needed"
        return
    yield f"growth: {count_of(found.growth_per_day, 'byte')} of commit log a day"
    if not found.levels:
        yield "disk: unknown, since the store is not on this machine"
        return
    total = count_of(found.levels[0].total_size, "byte")
    yield palette.bold(f"disk: {found.levels[0].used_size:,} of {total} used")
    yield from aligned(_disk_cells(found.levels), right=(0,))


def _settings(rules: retention.RetentionRules, palette: Palette) -> Iterator[str]:
    hours = ", ".join(f"{hour:02}:00" for hour in rules.delete_hours)
    yield (
        f"files unchanged for {count_of(rules.reserved_hours, 'hour')} (fileReservedTime) are deleted from "
        f"{hours or 'no hour'} on ({rules.zone}, deleteWhen); as of {timestamp(rules.now_timestamp)}"
    )
    if not rules.delete_hours:
        yield palette.warning("deleteWhen has no hour of the day: a broker deletes files only by disk space")


def _file_cells(files: Iterable[retention.FileRetention]) -> Iterator[tuple[str, ...]]:
    yield "  file", "size", "first stored", "expires", "deleted"
    for file in files:
        yield (
            "  " + visible(file.file),
            f"{file.size:,}",
            _time(file.first_timestamp),
            _time(file.expires_timestamp),
            "stays" if file.expires_timestamp is None else _time(file.delete_timestamp, "never"),
        )


def _group_cells(rows: Iterable[retention.UnconsumedMessages]) -> Iterator[tuple[str, ...]]:
    yield "  file", "group", "topic", "messages", "deleted"
    for row in rows:
        yield (
            "  " + visible(row.file),
            shorten(visible(row.group), NAME_SHOWN),
            shorten(visible(row.topic), NAME_SHOWN),
            f"{row.message_count:,}",
            _time(row.delete_timestamp, "never"),
        )


def _disk_cells(levels: Iterable[retention.DiskLevel]) -> Iterator[tuple[str, ...]]:
    for level in levels:
        reached = _time(level.reached_timestamp, "not at this growth")
        yield f"  {level.used_percent} %", reached, EFFECTS[level.effect]


def _time(value: int | None, absent: str = "?") -> str:
    return absent if value is None else timestamp(value)
