"""`rocketfsck info PATH`: what is there, without a scan; with --stats, what a scan of the log counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command
from rocketfsck.cli.maskoptions import mask_options
from rocketfsck.cli.output import SCHEMA_VERSION
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
from rocketfsck.common.documents import to_document

if TYPE_CHECKING:
    from rocketfsck.cli.masks import Masks
    from rocketfsck.cli.show.text import Palette
    from rocketfsck.query.info.model import FileInfo, StoreInfo
    from rocketfsck.query.info.statistics import StatisticsInfo


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
    from rocketfsck.query.info.files import file_info
    from rocketfsck.query.info.store import store_info

    if stats and not path.is_dir():
        raise click.UsageError("--stats counts what is in a store, not in a file.", context)
    statistics: StatisticsInfo | None = None
    if path.is_dir():
        store = stated.open("info", path)
        if masks is not None:
            masks.learn_store(store)
        info: StoreInfo | FileInfo = store_info(store)
        if stats:
            from rocketfsck.query.info.statistics import statistics_info

            statistics = statistics_info(store)
    else:
        info = file_info(path)
    if masks is not None:
        info, statistics = masks.of(info), masks.of(statistics)
    answer.say(
        lambda: _document(info, statistics),
        lambda palette: _lines(info, statistics, palette, verbose=verbose),
        [path, *stated.commitlog_paths],
    )


def _document(info: StoreInfo | FileInfo, statistics: StatisticsInfo | None) -> dict[str, Any]:
    from rocketfsck.query.info.model import FileInfo

    kind = "rocketfsck.info.file" if isinstance(info, FileInfo) else "rocketfsck.info.store"
    counted = {} if statistics is None else {"statistics": to_document(statistics)}
    return {"schema_version": SCHEMA_VERSION, "kind": kind, **to_document(info), **counted}


def _lines(
    info: StoreInfo | FileInfo, statistics: StatisticsInfo | None, palette: Palette, *, verbose: bool
) -> Iterator[str]:
    from rocketfsck.cli.show.info import file_lines, store_lines
    from rocketfsck.cli.show.infostats import statistics_lines
    from rocketfsck.query.info.model import FileInfo

    if isinstance(info, FileInfo):
        yield from file_lines(info, palette)
        return
    yield from store_lines(info, palette, columns=text_columns(), everything=verbose)
    if statistics is not None:
        yield from statistics_lines(statistics, palette, everything=verbose)
