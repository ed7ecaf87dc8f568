"""`rocketfsck info PATH`: what is there, without a scan; with --stats, what a scan of the log counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command
from rocketfsck.cli.maskoptions import mask_options
from rocketfsck.cli.output import SCHEMA_VERSION, plain_values, to_json
from rocketfsck.cli.params import (
    Destination,
    StoreOptions,
    output_options,
    path_argument,
    store_options,
    verbose_option,
)
from rocketfsck.cli.settings import common_options
from rocketfsck.cli.show.fit import text_columns

if TYPE_CHECKING:
    from rocketfsck.cli.masks import Masks


@click.command(cls=Command)
@path_argument("path", metavar="PATH")
@verbose_option("List every file and queue.")
@click.option(
    "--stats",
    is_flag=True,
    help="Count the messages, too, by topic, queue and day, and the index's chains: reads the log through.",
)
@store_options
@mask_options
@output_options("text", "json", "jsonl")
@click.pass_context
@common_options
def command(
    context: click.Context,
    /,
    path: Path,
    verbose: bool,
    stats: bool,
    stated: StoreOptions,
    masks: Masks | None,
    answer: Destination,
) -> None:
    """Show what PATH is: for a store, its files, its queues with their offsets, sizes and times, the broker
    version that wrote it and the signs of that, and whether a broker runs on it; for a single file, its
    kind.

    info reads only headers, first records and last units, so it is quick on any store; --stats reads the
    whole log.
    """
    from rocketfsck.cli.storefacts import file_facts, store_facts

    facts: dict[str, Any]
    if path.is_dir():
        store = stated.open("info", path)
        if masks is not None:
            masks.learn_store(store)
        kind, facts = "rocketfsck.info.store", store_facts(store)
        if stats:
            from rocketfsck.cli.infostats import statistics_facts

            facts["statistics"] = statistics_facts(store)
    elif stats:
        raise click.UsageError("--stats counts what is in a store, not in a file.", context)
    else:
        kind, facts = "rocketfsck.info.file", file_facts(path)
    if masks is not None:
        facts = masks.of(facts)
    with answer.open([path, *stated.commitlog_paths]) as stream:
        if answer.form != "text":
            document = {"schema_version": SCHEMA_VERSION, "kind": kind, **plain_values(facts)}
            stream.write(to_json(document, indent=2 if answer.form == "json" else None) + "\n")
            return
        from rocketfsck.cli.show.info import file_lines, store_lines

        palette = answer.palette(stream)
        columns = text_columns()
        lines = (
            store_lines(facts, palette, columns=columns, everything=verbose)
            if path.is_dir()
            else file_lines(facts, palette)
        )
        for line in lines:
            stream.write(line + "\n")
        if stats:
            from rocketfsck.cli.infostats import statistics_lines

            for line in statistics_lines(facts["statistics"], palette, everything=verbose):
                stream.write(line + "\n")
