"""`rocketfsck info PATH`: what is there, without a scan; with --stats, what a scan of the log counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.output import SCHEMA_VERSION, Destination
from rocketfsck.cli.show.text import text_columns
from rocketfsck.commands.shared import Masking, StoreOptions
from rocketfsck.common.documents import to_document
from rocketfsck.common.options import STORE, Argument, Option

if TYPE_CHECKING:
    from rocketfsck.cli.show.text import Palette
    from rocketfsck.query.info.model import FileInfo, StoreInfo
    from rocketfsck.query.info.statistics import StatisticsInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoLine:
    """Which store or file is shown, how much of it, and where."""

    path: Annotated[Path, Argument(metavar="PATH", kind=STORE)]
    verbose: Annotated[bool, Option("List every file and queue.", names=("-v", "--verbose"))] = False
    stats: Annotated[
        bool,
        Option(
            "Count the messages, too, by topic, queue and day, and the index's chains: reads the log through."
        ),
    ] = False
    stated: StoreOptions = field(default_factory=StoreOptions)
    masking: Masking = field(default_factory=Masking)
    answer: Annotated[Destination, Formats(("text", "json", "jsonl"))]


@command_of(InfoLine)
def command(line: InfoLine) -> None:
    """Show what PATH is: for a store, its files, its queues with their offsets, sizes and times, the broker
    version that wrote it and the signs of that, and whether a broker runs on it; for a single file, its
    kind.

    info reads only headers, first records and last units, so it is quick on any store; --stats reads the
    whole log.
    """
    from rocketfsck.query.info.store import file_info, store_info

    if line.stats and not line.path.is_dir():
        context = click.get_current_context()
        raise click.UsageError("--stats counts what is in a store, not in a file.", context)
    masks = line.masking.masks()
    statistics: StatisticsInfo | None = None
    if line.path.is_dir():
        store = line.stated.open("info", line.path)
        if masks is not None:
            masks.learn_store(store)
        info: StoreInfo | FileInfo = store_info(store)
        if line.stats:
            from rocketfsck.query.info.statistics import statistics_info

            statistics = statistics_info(store)
    else:
        info = file_info(line.path)
    if masks is not None:
        info, statistics = masks.of(info), masks.of(statistics)
    line.answer.say(
        lambda: _document(info, statistics),
        lambda palette: _lines(info, statistics, palette, verbose=line.verbose),
        [line.path, *line.stated.commitlog_paths],
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
    from rocketfsck.cli.show.stats import statistics_lines
    from rocketfsck.query.info.model import FileInfo

    if isinstance(info, FileInfo):
        yield from file_lines(info, palette)
        return
    yield from store_lines(info, palette, columns=text_columns(), everything=verbose)
    if statistics is not None:
        yield from statistics_lines(statistics, palette, everything=verbose)
