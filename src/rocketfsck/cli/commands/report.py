"""`rocketfsck report STORE…`: what stores hold, counted, one by one and all together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command
from rocketfsck.cli.engines import chosen_engine, engine_options
from rocketfsck.cli.memory import memory_option
from rocketfsck.cli.options import broker_name_option, jobs_option
from rocketfsck.cli.output import Column, open_rows
from rocketfsck.cli.params import Destination, StoreOptions, output_options, store_options, verbose_option
from rocketfsck.cli.paramtypes import StorePath
from rocketfsck.cli.settings import common_options
from rocketfsck.cli.severalstores import StoresWanted, stores_from_option, without_paths
from rocketfsck.cli.show.text import visible
from rocketfsck.cli.timing import timing_of
from rocketfsck.errors import EXIT_CLEAN, EXIT_OPERATIONAL

if TYPE_CHECKING:
    from rocketfsck.pipeline.statistics import ClusterStatistics

PARTS = ("total", "broker", "topic", "queue", "day", "topic-day", "key")

COLUMNS = (
    Column("by", "text"),
    Column("broker", "name"),
    Column("topic", "name"),
    Column("queue_id", "int"),
    Column("day", "text"),
    Column("key", "name"),
    Column("message_count", "int"),
    Column("byte_count", "int"),
    Column("first_timestamp", "int"),
    Column("last_timestamp", "int"),
    Column("min_offset", "int"),
    Column("max_offset", "int"),
    Column("broker_count", "int"),
)


@click.command(cls=Command)
@click.argument("paths", nargs=-1, type=StorePath(), metavar="STORE…")
@stores_from_option("Count")
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(PARTS),
    help="Only these tables; may be given several times. Default: all.",
)
@click.option(
    "--keys",
    "key_count",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="The N most frequent keys, too; reads the logs twice.",
)
@broker_name_option
@verbose_option("Show all rows of every table.")
@jobs_option
@memory_option("report")
@engine_options
@store_options
@output_options()
@timing_of("report")
@common_options
def command(
    paths: tuple[Path, ...],
    stores_from: Path | None,
    by: tuple[str, ...],
    key_count: int,
    brokers: tuple[str, ...],
    verbose: bool,
    engine: str,
    master: str | None,
    stated: StoreOptions,
    answer: Destination,
) -> int:
    """Count the messages of STOREs by broker, topic, queue, day and key, and of all stores together.

    A STORE may also be a directory of stores. report counts only live messages, from the commit logs. Counts
    are exact, except those marked as estimates. Of several stores, one that cannot be read is named, and the
    others are counted; exit status 8.
    """
    from rocketfsck.pipeline.statistics import count_stores

    wanted_stores = StoresWanted(paths, stores_from, None)
    if wanted_stores.is_many or len(stated.sources(paths, brokers)) > 1:
        from rocketfsck.pipeline.fleet.counting import count_fleet

        sources, failed = stated.sources_or_errors(wanted_stores.named(), brokers)
        workers = without_paths(chosen_engine(engine, master, [*paths, *stated.commitlog_paths]))
        statistics = count_fleet(sources, engine=workers, key_count=key_count, failed=failed)
    else:
        workers = chosen_engine(engine, master, [*paths, *stated.commitlog_paths])
        statistics = count_stores(stated.sources(paths, brokers), engine=workers, key_count=key_count)
    for broker, error in statistics.failed:
        click.echo(f"Error: {visible(broker)}: {visible(error, keep_backslash=True)}", err=True)
    code = EXIT_OPERATIONAL if statistics.failed else EXIT_CLEAN
    wanted = by or PARTS
    with answer.open(paths) as stream:
        from rocketfsck.cli.show.reportstats import report_lines, report_rows

        if answer.form == "text":
            palette = answer.palette(stream)
            for line in report_lines(statistics, wanted, palette, everything=verbose):
                stream.write(line + "\n")
            return code
        with open_rows(stream, answer.form, COLUMNS, head(statistics)) as writer:
            for row in report_rows(statistics):
                if row["by"] in wanted:
                    writer.write({column.name: row.get(column.name) for column in COLUMNS})
    return code


def head(statistics: ClusterStatistics) -> dict[str, Any]:
    """What is said of all rows together."""
    logs = [log for _, log in statistics.brokers]
    keys = statistics.keys
    return {
        "kind": "rocketfsck.report",
        "uncounted_queues": sum(log.uncounted_queues for log in logs),
        "uncounted_days": sum(log.uncounted_days for log in logs),
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
