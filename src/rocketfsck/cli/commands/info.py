"""`rocketfsck info PATH`: what is there, without a scan; with --stats, what a scan of the log counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.output import Destination
from rocketfsck.cli.show.text import text_columns
from rocketfsck.commands.info import InfoAnswer, InfoCommand, info
from rocketfsck.common.documents import to_document
from rocketfsck.common.options import Option, PutAfter

if TYPE_CHECKING:
    from rocketfsck.cli.show.text import Palette


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoLine(InfoCommand):
    """What is looked at, how much of it is shown, and where."""

    answer: Annotated[Destination, Formats(("text", "json", "jsonl"))]
    verbose: Annotated[
        bool, PutAfter("path"), Option("List every file and queue.", names=("-v", "--verbose"))
    ] = False


@command_of(InfoLine)
def command(line: InfoLine) -> None:
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
    from rocketfsck.cli.show.info import file_lines, store_lines
    from rocketfsck.cli.show.stats import statistics_lines
    from rocketfsck.query.info.model import FileInfo

    if isinstance(answer.info, FileInfo):
        yield from file_lines(answer.info, palette)
        return
    yield from store_lines(answer.info, palette, columns=text_columns(), everything=verbose)
    if answer.statistics is not None:
        yield from statistics_lines(answer.statistics, palette, everything=verbose)
