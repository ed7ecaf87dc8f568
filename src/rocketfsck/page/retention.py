"""What retention takes, for the page: the files that go, by the times at which they go, and who loses what.

    query.retention --> when a broker deletes how many files, with their physical offsets
                    --> messages that a group has not consumed until then, by group and topic

Files that go at one time are one row: a broker deletes from the front of the log, so that each row is a range
of physical offsets, and rows follow each other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from rocketfsck.page.tables import (
    Counts,
    Limits,
    RetentionSaid,
    RetentionSteps,
    UnconsumedRows,
    columns,
    shown,
)
from rocketfsck.query.retention import FileRetention, Retention, UnconsumedMessages


def retention_of(found: Retention, limits: Limits) -> RetentionSaid:
    """What was foreseen, as the page says it."""
    steps = list(_steps(found.files))
    rows = _unconsumed(found.unconsumed)
    rules = found.rules
    return RetentionSaid(
        rules.reserved_hours,
        rules.delete_hours,
        str(rules.zone),
        rules.now_timestamp,
        found.growth_per_day,
        columns(RetentionSteps, steps[: limits.retention_count]),
        Counts(len(steps), min(len(steps), limits.retention_count)),
        columns(
            UnconsumedRows,
            [
                (shown(group, limits.text_size), shown(topic, limits.text_size), count, at)
                for group, topic, count, at in rows[: limits.unconsumed_count]
            ],
        ),
        Counts(len(rows), min(len(rows), limits.unconsumed_count)),
        "" if found.problem is None else shown(str(found.problem), limits.text_size),
    )


def _steps(files: Iterable[FileRetention]) -> Iterable[tuple[int, int, int, int, int | None, bool]]:
    """Runs of files that go together: first and end physical offset, files, bytes, when, whether they go."""
    for (at, goes), run in groupby(files, key=lambda file: (file.delete_timestamp, _goes(file))):
        listed = list(run)
        last = listed[-1]
        end = last.start_offset + last.size
        yield listed[0].start_offset, end, len(listed), sum(file.size for file in listed), at, goes


def _goes(file: FileRetention) -> bool:
    """Whether a broker deletes the file by its age: the last one stays."""
    return file.expires_timestamp is not None


def _unconsumed(rows: Iterable[UnconsumedMessages]) -> list[tuple[str, str, int, int | None]]:
    """(group, topic, messages, when the first of them go), the soonest and the most first."""
    sums: dict[tuple[str, str], tuple[int, int | None]] = {}
    for row in rows:
        count, at = sums.get((row.group, row.topic), (0, row.delete_timestamp))
        times = [time for time in (at, row.delete_timestamp) if time is not None]
        sums[row.group, row.topic] = (count + row.message_count, min(times, default=None))
    listed = [(group, topic, count, at) for (group, topic), (count, at) in sums.items()]
    return sorted(listed, key=lambda row: (row[3] is None, row[3] or 0, -row[2], row[:2]))
