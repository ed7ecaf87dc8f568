"""What retention deletes, as text and as rows: `query retention`.

    kind "file"     a commit log file, with when it expires and when a broker deletes it
    kind "group"    messages in such a file that a group has not consumed
    kind "disk"     a use of the disk, with what a broker does from there on, and when it is reached

The head has the settings; of a table only rows are written. Times are those of a broker that runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from rocketfsck.cli.output import Column
from rocketfsck.cli.query.facts import NAME_SHOWN, write
from rocketfsck.cli.query.options import QueryRequest
from rocketfsck.cli.show.text import Palette, aligned, count_of, shorten, timestamp, visible
from rocketfsck.commands.query import QueryAnswer
from rocketfsck.common.rows import columns_of
from rocketfsck.query.retention import (
    DiskLevel,
    Effect,
    FileRetention,
    Retention,
    RetentionRules,
    UnconsumedMessages,
)

EFFECTS: dict[Effect, str] = {
    "deletes-early": "the broker deletes expired files at every hour",
    "deletes-unexpired": "the broker deletes the oldest files, expired or not",
    "refuses-messages": "the broker takes no messages",
    "full": "the disk is full",
}


def write_retention(asked: QueryRequest, answered: QueryAnswer[Retention]) -> int:
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
    kinds = (FileRetention, UnconsumedMessages, DiskLevel)
    columns = dict.fromkeys((Column("kind", "text"), *(item for kind in kinds for item in columns_of(kind))))
    write(
        asked,
        answered.store,
        "rocketfsck.query.retention",
        lambda palette: _lines(found, palette),
        lambda: head,
        list(columns),
        rows(),
    )
    return answered.exit_code


def _lines(found: Retention, palette: Palette) -> Iterator[str]:
    yield from _settings(found.rules, palette)
    if found.problem is not None:
        yield palette.warning(visible(found.problem, keep_backslash=True))
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
    yield palette.bold(
        f"disk: {found.levels[0].used_size:,} of {count_of(found.levels[0].total_size, 'byte')} used"
    )
    yield from aligned(_disk_cells(found.levels), right=(0,))


def _settings(rules: RetentionRules, palette: Palette) -> Iterator[str]:
    hours = ", ".join(f"{hour:02}:00" for hour in rules.delete_hours)
    yield (
        f"files unchanged for {count_of(rules.reserved_hours, 'hour')} (fileReservedTime) are deleted from "
        f"{hours or 'no hour'} on ({rules.zone}, deleteWhen); as of {timestamp(rules.now_timestamp)}"
    )
    if not rules.delete_hours:
        yield palette.warning("deleteWhen has no hour of the day: a broker deletes files only by disk space")


def _file_cells(files: Iterable[FileRetention]) -> Iterator[tuple[str, ...]]:
    yield "  file", "size", "first stored", "expires", "deleted"
    for file in files:
        yield (
            "  " + visible(file.file),
            f"{file.size:,}",
            _time(file.first_timestamp),
            _time(file.expires_timestamp),
            "stays" if file.expires_timestamp is None else _time(file.delete_timestamp, "never"),
        )


def _group_cells(rows: Iterable[UnconsumedMessages]) -> Iterator[tuple[str, ...]]:
    yield "  file", "group", "topic", "messages", "deleted"
    for row in rows:
        yield (
            "  " + visible(row.file),
            shorten(visible(row.group), NAME_SHOWN),
            shorten(visible(row.topic), NAME_SHOWN),
            f"{row.message_count:,}",
            _time(row.delete_timestamp, "never"),
        )


def _disk_cells(levels: Iterable[DiskLevel]) -> Iterator[tuple[str, ...]]:
    for level in levels:
        yield (
            f"  {level.used_percent} %",
            _time(level.reached_timestamp, "not at this growth"),
            EFFECTS[level.effect],
        )


def _time(value: int | None, absent: str = "?") -> str:
    return absent if value is None else timestamp(value)
