"""`rocketfsck info PATH`: what is there, without a scan; with --stats, what a scan of the log counts.

`rocketfsck count STORE…`: what stores hold, counted, one by one and all together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.lang import say_line
from rocketfsck.cli.output import FORMATS, Column, Destination, Table, of_kind, verbosely
from rocketfsck.cli.paramtypes import Jobs, max_memory
from rocketfsck.cli.show.text import sentence, text_columns, visible
from rocketfsck.commands.info import CountCommand, InfoAnswer, InfoCommand, Part, count, info
from rocketfsck.common.documents import to_document
from rocketfsck.common.options import PutAfter

if TYPE_CHECKING:
    from rocketfsck.cli.show.text import Palette
    from rocketfsck.pipeline.statistics import ClusterStatistics

COLUMNS = (
    Column("by", "text"),
    *of_kind("name", "broker", "topic"),
    Column("queue_id", "int"),
    Column("day", "text"),
    Column("key", "name"),
    *of_kind("int", "message_count", "byte_count", "first_timestamp", "last_timestamp"),
    *of_kind("int", "min_offset", "max_offset", "broker_count"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountLine(CountCommand):
    """Counts, how many of them are shown, and where."""

    answer: Annotated[Destination, Formats(FORMATS)]
    verbose: Annotated[bool, PutAfter("brokers"), verbosely("Show all rows of every table.")] = False
    jobs: Jobs = None
    max_memory: Annotated[int | None, max_memory("count")] = None


@command_of(CountLine, timing="count")
def count_command(line: CountLine) -> int:
    """Count the messages of STOREs by broker, topic, queue, day and key, and of all stores together.

    A STORE may also be a directory of stores. Only live messages count, those of the commit logs. Counts
    are exact, except those marked as estimates. Of several stores, one that cannot be read is named, and the
    others are counted; exit status 8.
    """
    from rocketfsck.cli.show.info import count_lines, count_rows

    answer = count(line)
    statistics, wanted = answer.statistics, line.by or get_args(Part)
    for broker, error in statistics.failed:
        say_line(f"Error: {visible(broker)}: {sentence(error)}", err=True)
    rows = (
        {column.name: row.get(column.name) for column in COLUMNS}
        for row in count_rows(statistics)
        if row["by"] in wanted
    )
    line.answer.say_rows(
        lambda palette: count_lines(statistics, wanted, palette, everything=line.verbose),
        Table(COLUMNS, head(statistics), rows),
        line.paths,
    )
    return answer.exit_code


def head(statistics: ClusterStatistics) -> dict[str, Any]:
    """What is said of all rows together."""
    keys = statistics.keys
    return {
        "kind": "rocketfsck.count",
        "uncounted_queues": sum(log.uncounted_queues for _, log in statistics.brokers),
        "uncounted_days": sum(log.uncounted_days for _, log in statistics.brokers),
        "failed": [{"broker": broker, "error": error} for broker, error in statistics.failed],
        "keys": keys
        and {
            "word_count": keys.word_count,
            "distinct_words_estimate": keys.distinct_words,
            "distinct_unique_estimate": keys.distinct_unique,
            "missed": keys.missed,
            "is_complete": keys.is_complete,
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoLine(InfoCommand):
    """What is looked at, how much of it is shown, and where."""

    answer: Annotated[Destination, Formats(("text", "json", "jsonl"))]
    verbose: Annotated[bool, PutAfter("path"), verbosely("List every file and queue.")] = False


@command_of(InfoLine)
def info_command(line: InfoLine) -> None:
    """Show what PATH is: for a store, its files, its queues with their offsets, sizes and times, the broker
    version that wrote it and the signs of that, and whether a broker runs on it; for a single file, its
    kind.

    info reads only headers, first records and last units, so it is quick on any store; --stats reads the
    whole log.
    """
    answer = info(line)
    line.answer.say(
        lambda: to_document(answer),
        lambda palette: _lines(answer, palette, verbose=line.verbose),
        [line.path, *line.stated.commitlog_paths],
    )


def _lines(answer: InfoAnswer, palette: Palette, *, verbose: bool) -> Iterator[str]:
    from rocketfsck.cli.show.info import file_lines, statistics_lines, store_lines
    from rocketfsck.query.info.model import FileInfo

    if isinstance(answer.info, FileInfo):
        yield from file_lines(answer.info, palette)
        return
    yield from store_lines(answer.info, palette, columns=text_columns(), everything=verbose)
    if answer.statistics is not None:
        yield from statistics_lines(answer.statistics, palette, everything=verbose)
